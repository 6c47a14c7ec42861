#include "worker/batch/survey.h"

#include <inttypes.h>
#include <string.h>

#define FIRST_CAPACITY ((size_t)4096)

/* The hash of one custom_id and its line. */
struct name {
    uint32_t hash[3];
    uint32_t line;
};

struct names {
    struct name *all;
    size_t count, capacity;
};

static bool add_name(struct names *names, struct mr_text custom_id, uint64_t line)
{
    unsigned char digest[MR_SHA256_BYTES];
    struct mr_sha256 sha;
    if (names->count == names->capacity) {
        const size_t capacity = names->capacity ? names->capacity * 3 / 2 : FIRST_CAPACITY;
        struct name *all = realloc(names->all, capacity * sizeof *all);
        if (!all) return false;
        names->all = all;
        names->capacity = capacity;
    }
    mr_sha256_begin(&sha);
    mr_sha256_add(&sha, custom_id.bytes, custom_id.length);
    mr_sha256_end(&sha, digest);
    struct name *name = &names->all[names->count++];
    memcpy(name->hash, digest, sizeof name->hash);
    name->line = (uint32_t)line;
    return true;
}

static int compare_names(const void *a, const void *b)
{
    const struct name *left = a, *right = b;
    const int order = memcmp(left->hash, right->hash, sizeof left->hash);
    return order ? order : (left->line > right->line) - (left->line < right->line);
}

static int compare_repeats(const void *a, const void *b)
{
    const struct mr_survey_repeat *left = a, *right = b;
    return (left->line > right->line) - (left->line < right->line);
}

/* Collects the lines that repeat a custom_id, in their order. False: no memory. */
static bool find_repeats(struct mr_survey *survey, struct names *names)
{
    size_t count = 0;
    if (names->count == 0) return true;
    qsort(names->all, names->count, sizeof *names->all, compare_names);
    for (size_t pass = 0; pass < 2; pass++) {
        const struct name *first = names->all;
        for (const struct name *name = names->all + 1; name < names->all + names->count; name++) {
            if (memcmp(name->hash, first->hash, sizeof name->hash) != 0) {
                first = name;
                continue;
            }
            if (pass == 1)
                survey->repeats[survey->repeat_count++] =
                    (struct mr_survey_repeat){name->line, first->line};
            count++;
        }
        if (pass == 0 && !(survey->repeats = calloc(count + 1, sizeof *survey->repeats)))
            return false;
    }
    qsort(survey->repeats, survey->repeat_count, sizeof *survey->repeats, compare_repeats);
    return true;
}

static enum mr_status fail_repeat(const struct mr_survey_repeat *repeat, struct mr_error *err)
{
    return mr_fail(err, MR_INVALID_REQUEST, "custom_id is also that of line %" PRIu32,
                   repeat->first);
}

enum mr_status mr_survey_fault_of(const struct mr_survey *survey, const struct mr_line *line,
                                  const struct mr_batch_item_rules *rules,
                                  struct mr_batch_item *item, size_t *warnings,
                                  struct mr_error *err)
{
    const struct mr_survey_repeat key = {.line = (uint32_t)line->number};
    *item = (struct mr_batch_item){0};
    *warnings = 0;
    if (line->is_too_long)
        return mr_fail(err, MR_RECORD_TOO_LARGE,
                       "the line is longer than %zu bytes, and a record may have %zu",
                       line->text.length, rules->record_bytes_max);
    enum mr_status status = mr_batch_item_open(item, line->text, line->number, err);
    if (status == MR_OK) status = mr_batch_item_check(item, rules, warnings, err);
    const struct mr_survey_repeat *repeat =
        status == MR_OK && survey->repeat_count > 0
            ? bsearch(&key, survey->repeats, survey->repeat_count, sizeof key, compare_repeats)
            : NULL;
    return repeat ? fail_repeat(repeat, err) : status;
}

struct run {
    struct mr_survey *survey;
    const struct mr_survey_options *options;
    struct names names;
    uint32_t *invalid; /* [invalid_count] lines */
    size_t invalid_count, invalid_capacity;
};

static bool add_invalid(struct run *run, uint64_t line)
{
    if (run->invalid_count == run->invalid_capacity) {
        const size_t capacity = run->invalid_capacity ? run->invalid_capacity * 2 : FIRST_CAPACITY;
        uint32_t *invalid = realloc(run->invalid, capacity * sizeof *invalid);
        if (!invalid) return false;
        run->invalid = invalid;
        run->invalid_capacity = capacity;
    }
    run->invalid[run->invalid_count++] = (uint32_t)line;
    return true;
}

/* Checks one line. Another status than MR_OK ends the survey. */
static enum mr_status survey_line(struct run *run, const struct mr_line *line, struct mr_error *err)
{
    struct mr_batch_item item;
    struct mr_error fault = {0};
    size_t warnings;
    if (line->number > MR_SURVEY_LINES_MAX)
        return mr_fail(err, MR_BAD_FILE, "the input has more than %" PRIu64 " lines",
                       MR_SURVEY_LINES_MAX);
    run->survey->call_count++;
    if (!run->options->rules) return MR_OK;
    enum mr_status status =
        mr_survey_fault_of(run->survey, line, run->options->rules, &item, &warnings, &fault);
    bool room = true;
    if (status != MR_OK && status != MR_NOMEM) {
        room = add_invalid(run, line->number);
        run->options->fault(run->options->context, line->number, &fault);
        status = MR_OK;
    }
    run->survey->warnings += warnings;
    if (status == MR_OK && room && item.custom_id.length > 0)
        room = add_name(&run->names, item.custom_id, line->number);
    mr_batch_item_close(&item);
    return room && status == MR_OK ? MR_OK : mr_fail(err, MR_NOMEM, "no memory to check the lines");
}

/* Sets the bits of invalid lines, and reports the repeated custom_ids. */
static enum mr_status finish(struct run *run, struct mr_error *err)
{
    struct mr_survey *survey = run->survey;
    if (!find_repeats(survey, &run->names) || !mr_bits_create(&survey->invalid, survey->line_count))
        return mr_fail(err, MR_NOMEM, "no memory for %" PRIu64 " lines", survey->line_count);
    for (size_t i = 0; i < run->invalid_count; i++)
        mr_bits_set(&survey->invalid, run->invalid[i]);
    for (size_t i = 0; i < survey->repeat_count; i++) {
        struct mr_error fault = {0};
        fail_repeat(&survey->repeats[i], &fault);
        if (mr_bits_set(&survey->invalid, survey->repeats[i].line))
            run->options->fault(run->options->context, survey->repeats[i].line, &fault);
    }
    return MR_OK;
}

enum mr_status mr_survey_run(struct mr_survey *survey, const struct mr_survey_options *options,
                             struct mr_error *err)
{
    struct run run = {.survey = survey, .options = options};
    struct mr_lines lines;
    struct mr_line line;
    struct mr_sha256 sha;
    *survey = (struct mr_survey){0};
    mr_sha256_begin(&sha);
    enum mr_status status = mr_lines_open(&lines, options->file, options->line_bytes, &sha, err);
    if (status != MR_OK) return status;
    while ((status = mr_lines_next(&lines, &line, err)) == MR_OK && line.number > 0)
        if ((status = survey_line(&run, &line, err)) != MR_OK) break;
    survey->line_count = lines.number;
    mr_sha256_end(&sha, survey->digest);
    if (status == MR_OK) status = finish(&run, err);
    mr_lines_close(&lines);
    free(run.names.all);
    free(run.invalid);
    if (status != MR_OK) mr_survey_destroy(survey);
    return status;
}

void mr_survey_destroy(struct mr_survey *survey)
{
    mr_bits_destroy(&survey->invalid);
    free(survey->repeats);
    survey->repeats = NULL;
    survey->repeat_count = 0;
}
