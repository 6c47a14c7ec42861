/* thinking - the limit on the tokens of reasoning in an answer (thinking_token_budget). After that
 * many tokens of reasoning, the tokens that end it are forced.
 *
 * Each generated token is read by its text, so it does not matter which tokens spell a tag.
 * Reasoning between <think> and </think> begins at the start of the answer, or in the prompt, and
 * ends once. In the harmony format it begins with each header of the channel `analysis`, and the
 * tokens of all these messages count together. The token with which reasoning begins does not
 * count.
 *
 * While a token may be forced, the next token depends on the last one: the sequence gets no drafts
 * and is not sampled ahead.
 *
 * Owner: the completion. Memory: the request's limit is borrowed. Errors: none. */
#ifndef MR_BATCHING_SEQUENCE_THINKING_H
#define MR_BATCHING_SEQUENCE_THINKING_H

#include "codec/records/request.h"

struct mr_thinking {
    const struct mr_thinking_limit *limit; /* NULL: no token is forced any more */
    uint32_t position;                     /* of the search for words */
    uint32_t forced;                       /* tokens of the end that were forced */
    uint32_t tokens;                       /* of reasoning */
    size_t letters; /* bytes of the answer before reasoning that are not white space */
    bool open;      /* the answer is inside reasoning */
};

/* limit: end_count 0 means that there is none. */
void mr_thinking_init(struct mr_thinking *thinking, const struct mr_thinking_limit *limit);
/* Reads the next token of the answer; text: its bytes. */
void mr_thinking_push(struct mr_thinking *thinking, uint32_t id, struct mr_text text);
/* True when the next token must be *id. */
bool mr_thinking_forces(const struct mr_thinking *thinking, uint32_t *id);
/* True while a later token may be forced. */
static inline bool mr_thinking_is_open(const struct mr_thinking *thinking)
{
    return thinking->limit != NULL;
}

#endif
