/* added_tokens - tokens that are found in the text before the model sees it.
 *
 * A trie over their bytes; at each place the longest one wins and the search goes on behind it
 * (leftmost-longest), so a text costs at most its length times the longest token. A token may
 * insist on word borders (single_word) or take the white space beside it (lstrip, rstrip).
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
    bool normalized; /* looked for in the normalized text */
};

struct mr_added_tokens;

/* tokens are copied but not their content: it is used during creation only. Of two with the same
 * content the last one holds; empty ones are left out. */
enum mr_status mr_added_tokens_create(struct mr_added_tokens **out,
                                      const struct mr_added_token *tokens, size_t count,
                                      struct mr_error *err);
void mr_added_tokens_destroy(struct mr_added_tokens *tokens);
bool mr_added_tokens_is_empty(const struct mr_added_tokens *tokens);

/* A stretch of the text: an added token, or text between two (id MR_TOKEN_NONE). */
struct mr_added_span {
    size_t start, end;
    uint32_t id;
};

/* Goes through a text: zeroed at its beginning. */
struct mr_added_cursor {
    size_t at;        /* where the search goes on */
    size_t text_from; /* end of what was handed out */
    bool has_match;   /* found, but the text in front of it went out first */
    struct mr_added_span match;
    size_t space_start, space_end; /* the white space run looked at last */
};

/* The next stretch, false at the end. with_special false: special tokens are found and passed over,
 * so what they cover stays text. text is valid UTF-8 and the same in all calls with one cursor. */
bool mr_added_tokens_next(const struct mr_added_tokens *tokens, struct mr_text text,
                          bool with_special, struct mr_added_cursor *cursor,
                          struct mr_added_span *span);

#endif
