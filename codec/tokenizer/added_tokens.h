/* added_tokens - finds the added tokens of a tokenizer (special tokens and others) in a text.
 *
 * The added tokens are in a trie. The search goes from left to right and takes the longest token at
 * each place, so it costs at most the length of the text times the longest token. A token may
 * require word borders around it (single_word) or include the white space next to it (lstrip,
 * rstrip).
 *
 * Control tokens are the special tokens, and others that look like one ("<|user|>" of models that
 * do not flag it as special). A search can bar ranges of the text from them: no byte of such a
 * range becomes part of a control token. Other added tokens are found in these ranges too.
 *
 * Threads: immutable. Memory: the trie. Errors: MR_NOMEM. */
#ifndef MR_CODEC_TOKENIZER_ADDED_TOKENS_H
#define MR_CODEC_TOKENIZER_ADDED_TOKENS_H

#include "codec/status.h"
#include "codec/text.h"
#include "codec/tokenizer/token_ids.h"

struct mr_added_token {
    struct mr_text content;
    uint32_t id;
    bool special, lstrip, rstrip, single_word;
    bool normalized; /* the token is searched for in the normalized text, not in the original one */
};

struct mr_added_tokens;

/* True for a control token, as defined above. */
bool mr_added_token_is_control(const struct mr_added_token *token);

/* Builds the trie. The tokens' contents are used during the call only. If several tokens have the
 * same content, the last one is found; a token with empty content is never found. */
enum mr_status mr_added_tokens_create(struct mr_added_tokens **out,
                                      const struct mr_added_token *tokens, size_t count,
                                      struct mr_error *err);
void mr_added_tokens_destroy(struct mr_added_tokens *tokens);
bool mr_added_tokens_is_empty(const struct mr_added_tokens *tokens);
/* True when one of the tokens is a control token. */
bool mr_added_tokens_have_control(const struct mr_added_tokens *tokens);

/* Length in bytes of the longest token at the start of text, with any flags; 0: none. */
size_t mr_added_tokens_prefix(const struct mr_added_tokens *tokens, struct mr_text text);

/* A part of the searched text: an added token, or the text between two added tokens (id
 * MR_TOKEN_NONE). */
struct mr_added_span {
    size_t start, end;
    uint32_t id;
};

/* Position of the search in a text. Set all fields except the last two to zero before the first
 * call. */
struct mr_added_cursor {
    size_t at;                     /* next byte to search */
    size_t text_from;              /* end of the part of the text returned last */
    bool has_match;                /* `match` was found and is not returned yet */
    struct mr_added_span match;    /* the token found, returned after the text in front of it */
    size_t space_start, space_end; /* borders of the run of white space measured last */
    /* ranges without control tokens, in ascending order; set by the caller, borrowed */
    const struct mr_text_range *barred;
    size_t barred_count; /* the ranges not yet passed */
};

/* Sets *span to the next part of the text; false at the end of the text. Without with_special a
 * special token is skipped as text, and no other token is found inside it. text is valid UTF-8 and
 * the same in all calls with one cursor. */
bool mr_added_tokens_next(const struct mr_added_tokens *tokens, struct mr_text text,
                          bool with_special, struct mr_added_cursor *cursor,
                          struct mr_added_span *span);

#endif
