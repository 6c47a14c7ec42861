/* token_text - the text of each single token of the vocabulary as valid UTF-8, for the
 * log-probabilities of a result; and the longest text of a token, for sizing buffers.
 *
 * Most tokens are valid UTF-8 and are borrowed from the tokenizer. The text of a token that holds
 * only a part of a character is converted once, at creation, with U+FFFD for each maximal
 * ill-formed subpart.
 *
 * Threads: immutable after creation. Memory: all in _create, O(tokens that are not UTF-8).
 * Errors:  _create MR_NOMEM. */
#ifndef MR_BATCHING_SEQUENCE_TOKEN_TEXT_H
#define MR_BATCHING_SEQUENCE_TOKEN_TEXT_H

#include "codec/records/result.h"
#include "codec/status.h"
#include "codec/tokenizer/tokenizer.h"

struct mr_token_text;

/* tokenizer is borrowed and must outlive *out. */
enum mr_status mr_token_text_create(struct mr_token_text **out,
                                    const struct mr_tokenizer *tokenizer, struct mr_error *err);
/* texts may be NULL. */
void mr_token_text_destroy(struct mr_token_text *texts);

/* Text of one token as valid UTF-8. The text of a control token is its name; the text of an id
 * out of range is empty. Valid until mr_token_text_destroy(). */
struct mr_text mr_token_text_of(const struct mr_token_text *texts, uint32_t id);
/* The log-probability of one token with its text, and with its bytes if the text has others. */
struct mr_token_logprob mr_token_text_logprob(const struct mr_token_text *texts, uint32_t id,
                                              float logprob);
/* The most bytes that a detokenizer over this vocabulary can write for one token. */
size_t mr_token_text_bytes_max(const struct mr_token_text *texts);

#endif
