#include "codec/tokenizer/pretokenizer.h"

#include "codec/tokenizer/pretokenizer_stages.h"
#include "codec/utf8.h"

#include <stdlib.h>
#include <string.h>

#define SEQUENCE_DEPTH_MAX 4

/* The regular expression of the ByteLevel component, published with GPT-2 (2019). */
#define BYTE_LEVEL_PATTERN                                                                         \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* Adds a stage to the pre-tokenizer. NULL when it has MR_STAGES_MAX stages already. */
static struct mr_stage *add(struct mr_pretokenizer *p, enum mr_stage_kind kind)
{
    if (p->stage_count == MR_STAGES_MAX) return NULL;
    struct mr_stage *stage = &p->stages[p->stage_count++];
    stage->kind = kind;
    return stage;
}

static enum mr_status too_many(struct mr_error *err)
{
    return mr_fail(err, MR_BAD_FILE, "a pre-tokenizer of more than %d stages", MR_STAGES_MAX);
}

static enum mr_status add_plain(struct mr_pretokenizer *p, enum mr_stage_kind kind,
                                enum mr_split_behavior behavior, struct mr_error *err)
{
    struct mr_stage *stage = add(p, kind);
    if (!stage) return too_many(err);
    stage->behavior = behavior;
    return MR_OK;
}

static enum mr_status add_regex(struct mr_pretokenizer *p, struct mr_text pattern,
                                enum mr_split_behavior behavior, bool inverted,
                                struct mr_error *err)
{
    struct mr_stage *stage = add(p, MR_STAGE_SPLIT_REGEX);
    if (!stage) return too_many(err);
    stage->behavior = behavior;
    stage->inverted = inverted;
    return mr_regex_create(&stage->regex, pattern, err);
}

static enum mr_status set_text(struct mr_stage *stage, struct mr_text text, struct mr_error *err)
{
    if (text.length == 0 || text.length > sizeof stage->text)
        return mr_fail(err, MR_BAD_FILE, "a pre-tokenizer text of %zu bytes", text.length);
    memcpy(stage->text, text.bytes, text.length);
    stage->text_length = text.length;
    return MR_OK;
}

static enum mr_status read_behavior(const struct mr_json_value *component,
                                    enum mr_split_behavior *out, struct mr_error *err)
{
    static const char *const names[] = {"Isolated", "Removed", "Contiguous", "MergedWithPrevious",
                                        "MergedWithNext"};
    struct mr_text name = {"", 0};
    mr_json_text(mr_json_get(component, "behavior"), &name);
    for (unsigned i = 0; i < 5; i++) {
        if (!mr_text_is(name, names[i])) continue;
        *out = (enum mr_split_behavior)i;
        return MR_OK;
    }
    return mr_fail(err, MR_BAD_FILE, "unknown split behavior %.40s", name.bytes);
}

static enum mr_status load_split(struct mr_pretokenizer *p, const struct mr_json_value *component,
                                 struct mr_error *err)
{
    enum mr_split_behavior behavior;
    bool inverted = false;
    enum mr_status status = read_behavior(component, &behavior, err);
    if (status != MR_OK) return status;
    if (!mr_json_bool(mr_json_get(component, "invert"), &inverted))
        return mr_fail(err, MR_BAD_FILE, "Split lacks invert");
    const struct mr_json_value *pattern = mr_json_get(component, "pattern");
    struct mr_text text;
    if (mr_json_text(mr_json_get(pattern, "Regex"), &text))
        return add_regex(p, text, behavior, inverted, err);
    if (!mr_json_text(mr_json_get(pattern, "String"), &text))
        return mr_fail(err, MR_BAD_FILE, "Split has no pattern");
    struct mr_stage *stage = add(p, MR_STAGE_SPLIT_TEXT);
    if (!stage) return too_many(err);
    stage->behavior = behavior;
    stage->inverted = inverted;
    return set_text(stage, text, err);
}

static enum mr_status load_byte_level(struct mr_pretokenizer *p,
                                      const struct mr_json_value *component, struct mr_error *err)
{
    bool prefix = false, use_regex = true;
    if (!mr_json_bool(mr_json_get(component, "add_prefix_space"), &prefix))
        return mr_fail(err, MR_BAD_FILE, "ByteLevel lacks add_prefix_space");
    mr_json_bool(mr_json_get(component, "use_regex"), &use_regex);
    enum mr_status status = MR_OK;
    if (prefix) status = add_plain(p, MR_STAGE_PREFIX_SPACE, MR_SPLIT_ISOLATED, err);
    struct mr_text pattern = {BYTE_LEVEL_PATTERN, strlen(BYTE_LEVEL_PATTERN)};
    if (status == MR_OK && use_regex) status = add_regex(p, pattern, MR_SPLIT_ISOLATED, false, err);
    if (status == MR_OK) status = add_plain(p, MR_STAGE_BYTES, MR_SPLIT_ISOLATED, err);
    return status;
}

static enum mr_status load_digits(struct mr_pretokenizer *p, const struct mr_json_value *component,
                                  struct mr_error *err)
{
    bool individual;
    if (!mr_json_bool(mr_json_get(component, "individual_digits"), &individual))
        return mr_fail(err, MR_BAD_FILE, "Digits lacks individual_digits");
    return add_plain(p, MR_STAGE_SPLIT_NUMERIC,
                     individual ? MR_SPLIT_ISOLATED : MR_SPLIT_CONTIGUOUS, err);
}

static enum mr_status load_punctuation(struct mr_pretokenizer *p,
                                       const struct mr_json_value *component, struct mr_error *err)
{
    enum mr_split_behavior behavior = MR_SPLIT_ISOLATED;
    if (mr_json_get(component, "behavior")) {
        enum mr_status status = read_behavior(component, &behavior, err);
        if (status != MR_OK) return status;
    }
    return add_plain(p, MR_STAGE_SPLIT_PUNCTUATION, behavior, err);
}

static enum mr_status read_prepend(const struct mr_json_value *component,
                                   enum mr_prepend_scheme *out, struct mr_error *err)
{
    static const char *const names[] = {"always", "first", "never"};
    struct mr_text name = {"always", 6};
    bool prefix = true;
    const struct mr_json_value *scheme = mr_json_get(component, "prepend_scheme");
    if (scheme && !mr_json_text(scheme, &name)) name.length = 0;
    mr_json_bool(mr_json_get(component, "add_prefix_space"), &prefix);
    unsigned found = 0;
    while (found < 3 && !mr_text_is(name, names[found]))
        found++;
    if (found == 3) return mr_fail(err, MR_BAD_FILE, "unknown prepend_scheme");
    *out = (enum mr_prepend_scheme)found;
    if (!prefix && *out != MR_PREPEND_NEVER)
        return mr_fail(err, MR_BAD_FILE, "add_prefix_space contradicts prepend_scheme");
    return MR_OK;
}

static enum mr_status load_metaspace(struct mr_pretokenizer *p,
                                     const struct mr_json_value *component, struct mr_error *err)
{
    struct mr_text replacement;
    struct mr_stage *stage = add(p, MR_STAGE_METASPACE);
    if (!stage) return too_many(err);
    if (!mr_json_text(mr_json_get(component, "replacement"), &replacement) ||
        replacement.length == 0 || mr_utf8_next(replacement, 0).length != replacement.length)
        return mr_fail(err, MR_BAD_FILE, "Metaspace needs one replacement character");
    enum mr_status status = set_text(stage, replacement, err);
    if (status == MR_OK) status = read_prepend(component, &stage->prepend, err);
    bool split = true;
    mr_json_bool(mr_json_get(component, "split"), &split);
    if (status != MR_OK || !split) return status;
    stage = add(p, MR_STAGE_SPLIT_TEXT);
    if (!stage) return too_many(err);
    stage->behavior = MR_SPLIT_MERGED_WITH_NEXT;
    return set_text(stage, replacement, err);
}

static enum mr_status load_whitespace(struct mr_pretokenizer *p, struct mr_error *err)
{
    static const char words[] = "\\w+|[^\\w\\s]+";
    return add_regex(p, (struct mr_text){words, sizeof words - 1}, MR_SPLIT_REMOVED, true, err);
}

static enum mr_status load_bert(struct mr_pretokenizer *p, struct mr_error *err)
{
    enum mr_status status = add_plain(p, MR_STAGE_SPLIT_SPACE, MR_SPLIT_REMOVED, err);
    if (status != MR_OK) return status;
    return add_plain(p, MR_STAGE_SPLIT_PUNCTUATION, MR_SPLIT_ISOLATED, err);
}

static enum mr_status load(struct mr_pretokenizer *p, const struct mr_json_value *component,
                           unsigned depth, struct mr_error *err)
{
    struct mr_text type;
    if (!mr_json_text(mr_json_get(component, "type"), &type))
        return mr_fail(err, MR_BAD_FILE, "a pre-tokenizer has no type");
    if (mr_text_is(type, "Split")) return load_split(p, component, err);
    if (mr_text_is(type, "ByteLevel")) return load_byte_level(p, component, err);
    if (mr_text_is(type, "Digits")) return load_digits(p, component, err);
    if (mr_text_is(type, "Punctuation")) return load_punctuation(p, component, err);
    if (mr_text_is(type, "Metaspace")) return load_metaspace(p, component, err);
    if (mr_text_is(type, "Whitespace")) return load_whitespace(p, err);
    if (mr_text_is(type, "BertPreTokenizer")) return load_bert(p, err);
    if (mr_text_is(type, "WhitespaceSplit"))
        return add_plain(p, MR_STAGE_SPLIT_SPACE, MR_SPLIT_REMOVED, err);
    const struct mr_json_value *list = mr_json_get(component, "pretokenizers");
    if (!mr_text_is(type, "Sequence") || !list || mr_json_kind(list) != MR_JSON_ARRAY ||
        depth > SEQUENCE_DEPTH_MAX)
        return mr_fail(err, MR_BAD_FILE, "unknown pre-tokenizer %.40s", type.bytes);
    enum mr_status status = MR_OK;
    for (size_t i = 0; i < mr_json_count(list) && status == MR_OK; i++)
        status = load(p, mr_json_at(list, i), depth + 1, err);
    return status;
}

enum mr_status mr_pretokenizer_create(struct mr_pretokenizer **out,
                                      const struct mr_json_value *component, struct mr_error *err)
{
    *out = NULL;
    struct mr_pretokenizer *p = calloc(1, sizeof *p);
    if (!p) return mr_fail(err, MR_NOMEM, "no memory for a pre-tokenizer");
    enum mr_status status = mr_json_is_null(component) ? MR_OK : load(p, component, 0, err);
    if (status != MR_OK) {
        mr_pretokenizer_destroy(p);
        return status;
    }
    if (p->stage_count > 0 && p->stages[p->stage_count - 1].kind == MR_STAGE_BYTES) {
        p->stage_count--;
        p->gives_bytes = true;
    }
    *out = p;
    return MR_OK;
}

enum mr_status mr_pretokenizer_from_pattern(struct mr_pretokenizer **out, struct mr_text pattern,
                                            struct mr_error *err)
{
    *out = NULL;
    struct mr_pretokenizer *p = calloc(1, sizeof *p);
    if (!p) return mr_fail(err, MR_NOMEM, "no memory for a pre-tokenizer");
    enum mr_status status = add_regex(p, pattern, MR_SPLIT_REMOVED, true, err);
    if (status != MR_OK) {
        mr_pretokenizer_destroy(p);
        return status;
    }
    p->gives_bytes = true;
    *out = p;
    return MR_OK;
}

void mr_pretokenizer_destroy(struct mr_pretokenizer *p)
{
    if (!p) return;
    for (size_t i = 0; i < p->stage_count; i++)
        mr_regex_destroy(p->stages[i].regex);
    free(p);
}
