/* prompt_lookup - guesses the next tokens of an answer from its own sequence: if the last tokens
 * occurred earlier in the prompt or the answer, the tokens that followed there may follow again.
 *
 * Method: prompt lookup decoding (Saxena, 2023; the "ngram" method of vLLM). Earlier places are
 * found as zlib's deflate finds repeated strings (RFC 1951, section 4): a hash table has the last
 * place of each pair of tokens, and each place refers to the place before it with the same hash.
 * The guess uses the tried place with the longest common text, and the most recent among equals.
 *
 * A guess has a chance: the share of the sequence's guesses that were right lately, among guesses
 * made after a common text of about the same length. Chances are learnt from every token of the
 * answer, whether its guess was tried or not, so learning needs no rows.
 *
 * Owner:  the job: made by the submitting thread, used by the engine thread. Memory: 8 to 20 bytes
 *         a token of the sequence, 320 KiB at most, all in _create.
 * Errors: only _create. Units: tokens. */
#ifndef MR_BATCHING_SEQUENCE_PROMPT_LOOKUP_H
#define MR_BATCHING_SEQUENCE_PROMPT_LOOKUP_H

#include "codec/status.h"

#include <stddef.h>
#include <stdint.h>

struct mr_prompt_lookup;

struct mr_guess {
    uint32_t token_id;
    float chance; /* that this token comes, if the guesses before it are right */
};

/* capacity: most tokens of the sequence; prompt_tokens: chances are learnt from the tokens after
 * them. MR_NOMEM. */
enum mr_status mr_prompt_lookup_create(struct mr_prompt_lookup **out, uint32_t capacity,
                                       uint32_t prompt_tokens, struct mr_error *err);
/* lookup may be NULL. */
void mr_prompt_lookup_destroy(struct mr_prompt_lookup *lookup);
/* Bytes that mr_prompt_lookup_create() allocates. */
size_t mr_prompt_lookup_bytes(uint32_t capacity);

/* Writes at most `max` guesses of the tokens that follow tokens[0, count), all of which are known,
 * and returns their number. Reads the tokens added since the last call; the earlier ones must be
 * the same. O(tokens added + max). */
uint32_t mr_prompt_lookup_guess(struct mr_prompt_lookup *lookup, const uint32_t *tokens,
                                uint32_t count, struct mr_guess *guesses, uint32_t max);

#endif
