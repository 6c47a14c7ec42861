#include "codec/tokenizer/pretokenizer.h"

#include "codec/buffer.h"
#include "codec/tokenizer/byte_alphabet.h"
#include "codec/tokenizer/pretokenizer_stages.h"
#include "codec/unicode/unicode.h"
#include "codec/utf8.h"

#include <stdlib.h>
#include <string.h>

struct mr_pretokenizer_scratch {
    struct mr_regex_scratch *regex;
    struct mr_buffer buffers[MR_STAGES_MAX];
};

/* The arguments of one call of mr_pretokenizer_run. */
struct run {
    const struct mr_pretokenizer *pretokenizer;
    struct mr_pretokenizer_scratch *scratch;
    const struct mr_piece_sink *sink;
    struct mr_error *err;
};

/* A part of the text that a stage cuts: a match of the stage's pattern, or the text between two
 * matches. */
struct stretch {
    size_t start, end;
    bool is_match;
};

/* State of one stage while it cuts one text. The last stretch is pending until the next one is
 * known, because the stage's behavior may join the two. */
struct cut {
    const struct run *run;
    size_t stage; /* index of the next stage, which receives this stage's pieces */
    struct mr_text text;
    bool at_start;
    enum mr_split_behavior behavior;
    bool inverted;
    bool has_pending;
    bool previous_match; /* the previous stretch was a match */
    struct stretch pending;
};

bool mr_pretokenizer_gives_bytes(const struct mr_pretokenizer *pretokenizer)
{
    return pretokenizer->gives_bytes;
}

struct mr_pretokenizer_scratch *
mr_pretokenizer_scratch_create(const struct mr_pretokenizer *pretokenizer, size_t bytes_max,
                               struct mr_regex_scratch *regex)
{
    struct mr_pretokenizer_scratch *scratch = calloc(1, sizeof *scratch);
    if (!scratch) return NULL;
    scratch->regex = regex;
    for (size_t i = 0; i < pretokenizer->stage_count; i++)
        mr_buffer_init(&scratch->buffers[i], bytes_max);
    return scratch;
}

void mr_pretokenizer_scratch_destroy(struct mr_pretokenizer_scratch *scratch)
{
    if (!scratch) return;
    for (size_t i = 0; i < MR_STAGES_MAX; i++)
        mr_buffer_drop(&scratch->buffers[i]);
    free(scratch);
}

static enum mr_status run_from(const struct run *run, size_t stage, struct mr_text text,
                               bool at_start);

static enum mr_status emit(const struct cut *cut, struct stretch stretch)
{
    if (stretch.start == stretch.end) return MR_OK;
    if (cut->behavior == MR_SPLIT_REMOVED && stretch.is_match) return MR_OK;
    struct mr_text piece = mr_text_part(cut->text, stretch.start, stretch.end);
    return run_from(cut->run, cut->stage, piece, cut->at_start && stretch.start == 0);
}

/* True when the behavior joins the stretch `next` to the pending stretch. */
static bool joins(const struct cut *cut, struct stretch next)
{
    switch (cut->behavior) {
    case MR_SPLIT_CONTIGUOUS:
        return next.is_match == cut->previous_match;
    case MR_SPLIT_MERGED_WITH_PREVIOUS:
        return next.is_match && !cut->previous_match;
    case MR_SPLIT_MERGED_WITH_NEXT:
        return !next.is_match && cut->pending.is_match;
    case MR_SPLIT_ISOLATED:
    case MR_SPLIT_REMOVED:
        break;
    }
    return false;
}

static enum mr_status push(struct cut *cut, struct stretch next)
{
    if (cut->inverted) next.is_match = !next.is_match;
    bool join = cut->has_pending && joins(cut, next);
    cut->previous_match = next.is_match;
    if (join) {
        cut->pending.end = next.end;
        /* a match is merged with one following stretch only */
        if (cut->behavior == MR_SPLIT_MERGED_WITH_NEXT) cut->pending.is_match = false;
        return MR_OK;
    }
    struct stretch ready = cut->pending;
    bool has_ready = cut->has_pending;
    cut->pending = next;
    cut->has_pending = true;
    return has_ready ? emit(cut, ready) : MR_OK;
}

/* Pushes the text from *at to the match at [start, end), then the match. Sets *at to the end of the
 * match. */
static enum mr_status push_match(struct cut *cut, size_t *at, size_t start, size_t end)
{
    enum mr_status status = MR_OK;
    if (*at < start) status = push(cut, (struct stretch){*at, start, false});
    if (status == MR_OK) status = push(cut, (struct stretch){start, end, true});
    *at = end;
    return status;
}

static enum mr_status finish(struct cut *cut, size_t at)
{
    enum mr_status status = MR_OK;
    if (at < cut->text.length) status = push(cut, (struct stretch){at, cut->text.length, false});
    if (status == MR_OK && cut->has_pending) status = emit(cut, cut->pending);
    return status;
}

static enum mr_status cut_by_regex(struct cut *cut, const struct mr_stage *stage)
{
    struct mr_regex_cursor cursor = {0};
    size_t at = 0;
    for (;;) {
        struct mr_regex_match match;
        enum mr_status status = mr_regex_next(stage->regex, cut->run->scratch->regex, cut->text,
                                              &cursor, &match, cut->run->err);
        if (status != MR_OK) return status;
        if (!match.found) return finish(cut, at);
        status = push_match(cut, &at, match.start, match.end);
        if (status != MR_OK) return status;
    }
}

static enum mr_status cut_by_text(struct cut *cut, const struct mr_stage *stage)
{
    size_t at = 0;
    while (at < cut->text.length) {
        const char *found =
            memmem(cut->text.bytes + at, cut->text.length - at, stage->text, stage->text_length);
        if (!found) break;
        size_t start = (size_t)(found - cut->text.bytes);
        enum mr_status status = push_match(cut, &at, start, start + stage->text_length);
        if (status != MR_OK) return status;
    }
    return finish(cut, at);
}

static bool in_class(enum mr_stage_kind kind, uint32_t code_point)
{
    if (kind == MR_STAGE_SPLIT_NUMERIC) return mr_unicode_is_numeric(code_point);
    if (kind == MR_STAGE_SPLIT_SPACE) return mr_unicode_is_space(code_point);
    return mr_unicode_is_punctuation(code_point);
}

/* Cuts by a character class: each character of the class is one match. */
static enum mr_status cut_by_class(struct cut *cut, const struct mr_stage *stage)
{
    size_t at = 0;
    for (size_t next = 0; next < cut->text.length;) {
        unsigned char c = (unsigned char)cut->text.bytes[next];
        struct mr_utf8_step step = {1, true, c};
        if (c >= 0x80) step = mr_utf8_next(cut->text, next);
        size_t end = next + step.length;
        if (in_class(stage->kind, step.code_point)) {
            enum mr_status status = push_match(cut, &at, next, end);
            if (status != MR_OK) return status;
        }
        next = end;
    }
    return finish(cut, at);
}

static enum mr_status no_room(const struct run *run)
{
    return mr_fail(run->err, MR_NOMEM, "no memory to pre-tokenize");
}

static bool starts_with(struct mr_text text, const char *prefix, size_t length)
{
    return text.length >= length && memcmp(text.bytes, prefix, length) == 0;
}

static bool replace_spaces(struct mr_buffer *out, struct mr_text text, struct mr_text replacement)
{
    for (size_t at = 0; at < text.length;) {
        const char *space = memchr(text.bytes + at, ' ', text.length - at);
        size_t end = space ? (size_t)(space - text.bytes) : text.length;
        if (!mr_buffer_append(out, mr_text_part(text, at, end))) return false;
        if (space && !mr_buffer_append(out, replacement)) return false;
        at = space ? end + 1 : end;
    }
    return true;
}

static bool write_metaspace(const struct mr_stage *stage, struct mr_buffer *out,
                            struct mr_text text, bool at_start)
{
    struct mr_text replacement = {stage->text, stage->text_length};
    bool wanted =
        stage->prepend == MR_PREPEND_ALWAYS || (stage->prepend == MR_PREPEND_FIRST && at_start);
    bool present = text.bytes[0] == ' ' || starts_with(text, stage->text, stage->text_length);
    if (wanted && !present && !mr_buffer_append(out, replacement)) return false;
    return replace_spaces(out, text, replacement);
}

/* Runs a stage that changes the text, and passes the changed text to the next stage. */
static enum mr_status rewrite(const struct run *run, size_t index, struct mr_text text,
                              bool at_start)
{
    const struct mr_stage *stage = &run->pretokenizer->stages[index];
    struct mr_buffer *buffer = &run->scratch->buffers[index];
    mr_buffer_clear(buffer);
    bool fits;
    if (stage->kind == MR_STAGE_BYTES)
        fits = mr_byte_alphabet_encode(text, buffer);
    else if (stage->kind == MR_STAGE_METASPACE)
        fits = write_metaspace(stage, buffer, text, at_start);
    else
        fits = (starts_with(text, " ", 1) || mr_buffer_append(buffer, (struct mr_text){" ", 1})) &&
               mr_buffer_append(buffer, text);
    if (!fits) return no_room(run);
    return run_from(run, index + 1, mr_buffer_text(buffer), at_start);
}

static enum mr_status run_from(const struct run *run, size_t index, struct mr_text text,
                               bool at_start)
{
    if (index == run->pretokenizer->stage_count)
        return run->sink->take(run->sink->context, text, run->err);
    const struct mr_stage *stage = &run->pretokenizer->stages[index];
    struct cut cut = {.run = run,
                      .stage = index + 1,
                      .text = text,
                      .at_start = at_start,
                      .behavior = stage->behavior,
                      .inverted = stage->inverted};
    switch (stage->kind) {
    case MR_STAGE_SPLIT_REGEX:
        return cut_by_regex(&cut, stage);
    case MR_STAGE_SPLIT_TEXT:
        return cut_by_text(&cut, stage);
    case MR_STAGE_SPLIT_NUMERIC:
    case MR_STAGE_SPLIT_SPACE:
    case MR_STAGE_SPLIT_PUNCTUATION:
        return cut_by_class(&cut, stage);
    case MR_STAGE_PREFIX_SPACE:
    case MR_STAGE_BYTES:
    case MR_STAGE_METASPACE:
        break;
    }
    return rewrite(run, index, text, at_start);
}

enum mr_status mr_pretokenizer_run(const struct mr_pretokenizer *pretokenizer,
                                   struct mr_pretokenizer_scratch *scratch, struct mr_text text,
                                   bool at_start, const struct mr_piece_sink *sink,
                                   struct mr_error *err)
{
    if (text.length == 0) return MR_OK;
    struct run run = {pretokenizer, scratch, sink, err};
    return run_from(&run, 0, text, at_start);
}
