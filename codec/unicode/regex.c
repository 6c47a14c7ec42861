#include "codec/unicode/regex.h"

#include "codec/unicode/regex_translate.h"
#include "codec/utf8.h"

#include <stdlib.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* Most steps of a search, to stop patterns whose time is exponential. A long run of white space
 * takes one step of backtracking for each character, so the limit is far above the length of the
 * longest text. */
#define MATCH_LIMIT    ((uint32_t)50000000)
#define HEAP_LIMIT_KIB ((uint32_t)65536)
#define JIT_STACK_MIN  ((size_t)32 << 10)
#define JIT_STACK_MAX  ((size_t)1 << 20)
#define PATTERN_MAX    ((size_t)1 << 16)

struct mr_regex {
    pcre2_code *code;
};

struct mr_regex_scratch {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

static enum mr_status compile(struct mr_regex *regex, struct mr_text pattern, struct mr_error *err)
{
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context) return mr_fail(err, MR_NOMEM, "no memory for a pattern");
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NO_UTF_CHECK;
    int code;
    PCRE2_SIZE offset;
    regex->code =
        pcre2_compile((PCRE2_SPTR)pattern.bytes, pattern.length, options, &code, &offset, context);
    pcre2_compile_context_free(context);
    if (!regex->code) {
        PCRE2_UCHAR message[120];
        pcre2_get_error_message(code, message, sizeof message);
        return mr_fail(err, MR_BAD_FILE, "pattern: %s", (const char *)message);
    }
    /* The result is ignored: where the kernel forbids JIT code, the interpreter finds the same
     * matches, only slower. */
    pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE);
    return MR_OK;
}

enum mr_status mr_regex_create(struct mr_regex **out, struct mr_text pattern, struct mr_error *err)
{
    *out = NULL;
    struct mr_buffer translated;
    mr_buffer_init(&translated, PATTERN_MAX);
    struct mr_regex *regex = calloc(1, sizeof *regex);
    enum mr_status status = regex ? MR_OK : mr_fail(err, MR_NOMEM, "no memory for a pattern");
    if (status == MR_OK) status = mr_regex_translate(pattern, &translated, err);
    if (status == MR_OK) status = compile(regex, mr_buffer_text(&translated), err);
    mr_buffer_drop(&translated);
    if (status != MR_OK) {
        free(regex);
        return status;
    }
    *out = regex;
    return MR_OK;
}

void mr_regex_destroy(struct mr_regex *regex)
{
    if (!regex) return;
    pcre2_code_free(regex->code);
    free(regex);
}

struct mr_regex_scratch *mr_regex_scratch_create(void)
{
    struct mr_regex_scratch *scratch = calloc(1, sizeof *scratch);
    if (!scratch) return NULL;
    scratch->data = pcre2_match_data_create(1, NULL);
    scratch->context = pcre2_match_context_create(NULL);
    scratch->stack = pcre2_jit_stack_create(JIT_STACK_MIN, JIT_STACK_MAX, NULL);
    if (!scratch->data || !scratch->context) {
        mr_regex_scratch_destroy(scratch);
        return NULL;
    }
    pcre2_set_match_limit(scratch->context, MATCH_LIMIT);
    pcre2_set_heap_limit(scratch->context, HEAP_LIMIT_KIB);
    if (scratch->stack) pcre2_jit_stack_assign(scratch->context, NULL, scratch->stack);
    return scratch;
}

void mr_regex_scratch_destroy(struct mr_regex_scratch *scratch)
{
    if (!scratch) return;
    if (scratch->stack) pcre2_jit_stack_free(scratch->stack);
    if (scratch->context) pcre2_match_context_free(scratch->context);
    if (scratch->data) pcre2_match_data_free(scratch->data);
    free(scratch);
}

/* Searches text for the next match, from byte `from` on. */
static enum mr_status search(const struct mr_regex *regex, struct mr_regex_scratch *scratch,
                             struct mr_text text, size_t from, struct mr_regex_match *match,
                             struct mr_error *err)
{
    /* The caller has validated the text as UTF-8. A check in each search would take quadratic
     * time. */
    int rc = pcre2_match(regex->code, (PCRE2_SPTR)text.bytes, text.length, from, PCRE2_NO_UTF_CHECK,
                         scratch->data, scratch->context);
    match->found = rc >= 0;
    if (rc == PCRE2_ERROR_NOMATCH) return MR_OK;
    if (rc == PCRE2_ERROR_NOMEMORY) return mr_fail(err, MR_NOMEM, "no memory to match a pattern");
    if (rc < 0)
        return mr_fail(err, MR_INVALID_REQUEST,
                       "the text exceeds a limit of the pre-tokenizer (%d)", rc);
    const PCRE2_SIZE *offsets = pcre2_get_ovector_pointer(scratch->data);
    match->start = offsets[0];
    match->end = offsets[1];
    return MR_OK;
}

enum mr_status mr_regex_next(const struct mr_regex *regex, struct mr_regex_scratch *scratch,
                             struct mr_text text, struct mr_regex_cursor *cursor,
                             struct mr_regex_match *match, struct mr_error *err)
{
    for (;;) {
        *match = (struct mr_regex_match){.found = false};
        if (cursor->from > text.length) return MR_OK;
        enum mr_status status = search(regex, scratch, text, cursor->from, match, err);
        if (status != MR_OK || !match->found) return status;
        bool repeated =
            match->start == match->end && cursor->matched && match->end == cursor->last_end;
        if (!repeated) break;
        bool inside = cursor->from < text.length;
        cursor->from += inside ? mr_utf8_next(text, cursor->from).length : 1;
    }
    cursor->from = match->end;
    cursor->matched = true;
    cursor->last_end = match->end;
    return MR_OK;
}
