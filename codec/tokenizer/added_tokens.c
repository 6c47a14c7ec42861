#include "codec/tokenizer/added_tokens.h"

#include "codec/unicode/unicode.h"
#include "codec/utf8.h"

#include <stdlib.h>
#include <string.h>

#define NO_NODE UINT32_MAX

struct node {
    /* index of the first child node and of the next sibling; NO_NODE: there is none */
    uint32_t child, sibling;
    uint32_t token; /* index of the token whose text ends at this node, NO_NODE: none */
    unsigned char byte;
};

struct mr_added_tokens {
    struct mr_added_token *tokens;
    bool *control; /* [token_count] the token is a control token */
    size_t token_count;
    struct node *nodes;
    uint32_t node_count;
    uint32_t roots[256];
};

/* ---- creation ---- */

static uint32_t new_node(struct mr_added_tokens *added, unsigned char byte)
{
    struct node *node = &added->nodes[added->node_count];
    *node = (struct node){NO_NODE, NO_NODE, NO_NODE, byte};
    return added->node_count++;
}

static uint32_t child_of(const struct mr_added_tokens *added, uint32_t node, unsigned char byte)
{
    uint32_t child = added->nodes[node].child;
    while (child != NO_NODE && added->nodes[child].byte != byte)
        child = added->nodes[child].sibling;
    return child;
}

static void insert(struct mr_added_tokens *added, uint32_t index)
{
    struct mr_text content = added->tokens[index].content;
    unsigned char first = (unsigned char)content.bytes[0];
    if (added->roots[first] == NO_NODE) added->roots[first] = new_node(added, first);
    uint32_t node = added->roots[first];
    for (size_t i = 1; i < content.length; i++) {
        unsigned char byte = (unsigned char)content.bytes[i];
        uint32_t child = child_of(added, node, byte);
        if (child == NO_NODE) {
            child = new_node(added, byte);
            added->nodes[child].sibling = added->nodes[node].child;
            added->nodes[node].child = child;
        }
        node = child;
    }
    added->nodes[node].token = index;
}

static bool starts_with(struct mr_text text, const char *start)
{
    size_t length = strlen(start);
    return text.length >= length && memcmp(text.bytes, start, length) == 0;
}

static bool ends_with(struct mr_text text, const char *end)
{
    size_t length = strlen(end);
    return text.length >= length && memcmp(text.bytes + text.length - length, end, length) == 0;
}

/* DeepSeek's models do not flag the tokens of user and assistant as special; their texts have
 * U+FF5C in place of "|". */
bool mr_added_token_is_control(const struct mr_added_token *token)
{
    struct mr_text content = token->content;
    bool plain = content.length > 4 && starts_with(content, "<|") && ends_with(content, "|>");
    bool wide = content.length > 8 && starts_with(content, "<\xef\xbd\x9c") &&
                ends_with(content, "\xef\xbd\x9c>");
    return token->special || plain || wide;
}

enum mr_status mr_added_tokens_create(struct mr_added_tokens **out,
                                      const struct mr_added_token *tokens, size_t count,
                                      struct mr_error *err)
{
    *out = NULL;
    struct mr_added_tokens *added = calloc(1, sizeof *added);
    if (!added) return mr_fail(err, MR_NOMEM, "no memory for added tokens");
    size_t nodes = 1;
    for (size_t i = 0; i < count; i++)
        nodes += tokens[i].content.length;
    added->token_count = count;
    added->tokens = calloc(count + 1, sizeof *added->tokens);
    added->control = calloc(count + 1, sizeof *added->control);
    added->nodes = nodes < NO_NODE ? calloc(nodes, sizeof *added->nodes) : NULL;
    if (!added->tokens || !added->control || !added->nodes) {
        mr_added_tokens_destroy(added);
        return mr_fail(err, MR_NOMEM, "no memory for %zu added tokens", count);
    }
    memset(added->roots, 0xff, sizeof added->roots);
    for (size_t i = 0; i < count; i++) {
        added->tokens[i] = tokens[i];
        added->control[i] = mr_added_token_is_control(&tokens[i]);
        if (tokens[i].content.length > 0) insert(added, (uint32_t)i);
        added->tokens[i].content = (struct mr_text){NULL, 0};
    }
    *out = added;
    return MR_OK;
}

void mr_added_tokens_destroy(struct mr_added_tokens *added)
{
    if (!added) return;
    free(added->tokens);
    free(added->control);
    free(added->nodes);
    free(added);
}

bool mr_added_tokens_is_empty(const struct mr_added_tokens *added)
{
    return added->node_count == 0;
}

bool mr_added_tokens_have_control(const struct mr_added_tokens *added)
{
    for (size_t i = 0; i < added->token_count; i++)
        if (added->control[i]) return true;
    return false;
}

/* ---- search ---- */

/* True when a barred range has a byte of [start, end). Skips the ranges before start for good,
 * because the search goes from left to right. */
static bool is_barred(struct mr_added_cursor *cursor, size_t start, size_t end)
{
    while (cursor->barred_count > 0 && cursor->barred->end <= start) {
        cursor->barred++;
        cursor->barred_count--;
    }
    return cursor->barred_count > 0 && cursor->barred->start < end;
}

/* The longest token that starts at byte `at`, with the end of the token; NULL when no token starts
 * there. Control tokens in barred ranges are ignored. */
static const struct mr_added_token *longest_at(const struct mr_added_tokens *added,
                                               struct mr_text text, size_t at,
                                               struct mr_added_cursor *cursor, size_t *end)
{
    uint32_t node = added->roots[(unsigned char)text.bytes[at]];
    const struct mr_added_token *found = NULL;
    for (size_t i = at + 1; node != NO_NODE; i++) {
        uint32_t token = added->nodes[node].token;
        if (token != NO_NODE && !(added->control[token] && is_barred(cursor, at, i))) {
            found = &added->tokens[token];
            *end = i;
        }
        if (i == text.length) break;
        node = child_of(added, node, (unsigned char)text.bytes[i]);
    }
    return found;
}

size_t mr_added_tokens_prefix(const struct mr_added_tokens *added, struct mr_text text)
{
    size_t end = 0;
    struct mr_added_cursor cursor = {0};
    return text.length > 0 && longest_at(added, text, 0, &cursor, &end) ? end : 0;
}

static bool has_word_borders(struct mr_text text, size_t start, size_t end)
{
    if (start > 0) {
        size_t before = mr_utf8_previous(text, start);
        if (mr_unicode_is_word(mr_utf8_next(text, before).code_point)) return false;
    }
    return end == text.length || !mr_unicode_is_word(mr_utf8_next(text, end).code_point);
}

/* Measures the run of white space around byte `at`, unless the cursor has its borders already: many
 * white space tokens in one run would otherwise measure the same run again and again. */
static void measure_space_run(struct mr_added_cursor *cursor, struct mr_text text, size_t at)
{
    if (cursor->space_end > cursor->space_start && at >= cursor->space_start &&
        at <= cursor->space_end)
        return;
    size_t start = at, end = at;
    while (start > 0) {
        size_t before = mr_utf8_previous(text, start);
        if (!mr_unicode_is_space(mr_utf8_next(text, before).code_point)) break;
        start = before;
    }
    while (end < text.length) {
        struct mr_utf8_step step = mr_utf8_next(text, end);
        if (!mr_unicode_is_space(step.code_point)) break;
        end += step.length;
    }
    cursor->space_start = start;
    cursor->space_end = end;
}

static size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Sets cursor->match to the next token in the text, with the white space that its lstrip and rstrip
 * include. */
static bool find_match(const struct mr_added_tokens *added, struct mr_text text, bool with_special,
                       struct mr_added_cursor *cursor)
{
    while (cursor->at < text.length) {
        size_t start = cursor->at, end = start;
        const struct mr_added_token *token = longest_at(added, text, start, cursor, &end);
        cursor->at = token ? end : start + 1;
        if (!token || (token->special && !with_special)) continue;
        if (token->single_word && !has_word_borders(text, start, end)) continue;
        if (token->lstrip) {
            measure_space_run(cursor, text, start);
            start = max_size(cursor->space_start, cursor->text_from);
        }
        if (token->rstrip) {
            measure_space_run(cursor, text, end);
            end = cursor->space_end;
        }
        cursor->match = (struct mr_added_span){start, end, token->id};
        return true;
    }
    return false;
}

bool mr_added_tokens_next(const struct mr_added_tokens *added, struct mr_text text,
                          bool with_special, struct mr_added_cursor *cursor,
                          struct mr_added_span *span)
{
    if (!cursor->has_match) {
        cursor->has_match = find_match(added, text, with_special, cursor);
        size_t text_end = cursor->has_match ? cursor->match.start : text.length;
        if (cursor->text_from < text_end) {
            *span = (struct mr_added_span){cursor->text_from, text_end, MR_TOKEN_NONE};
            cursor->text_from = text_end;
            return true;
        }
    }
    if (!cursor->has_match) return false;
    *span = cursor->match;
    cursor->has_match = false;
    cursor->text_from = span->end;
    return true;
}
