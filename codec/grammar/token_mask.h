/* token_mask - computes which tokens may come next in an answer, one bit for each id of the
 * vocabulary.
 *
 * The mask of an answer is the union of the masks of its heads. The mask of a head is computed by
 * walking the token trie with the automaton. The mask of a long walk is cached. Its key is the
 * head's state and the stack entries that the walk has read.
 *
 * Owner:  the engine thread. Memory: all in _create: the trie, one parse, and a table of at most
 *         MR_MASK_TABLE_BYTES. Errors: only _create. */
#ifndef MR_CODEC_GRAMMAR_TOKEN_MASK_H
#define MR_CODEC_GRAMMAR_TOKEN_MASK_H

#include "codec/grammar/matcher.h"
#include "codec/grammar/token_trie.h"
#include "codec/tokenizer/tokenizer.h"

#define MR_MASK_TABLE_BYTES ((size_t)8 << 20)

struct mr_token_mask;

struct mr_token_mask_stats {
    uint64_t masks, walks, hits; /* masks filled, heads walked, heads found in the table */
    uint64_t nodes;              /* nodes of the trie visited */
    uint64_t cut;                /* heads whose walk reached the limit of work */
};

/* tokenizer is borrowed and must outlive *out; Ids beyond the tokenizer's vocab_size, which a model
 * with more logits has, are never allowed. end_ids[end_count] end an answer; they are never allowed
 * as text either, even if they have one. */
enum mr_status mr_token_mask_create(struct mr_token_mask **out,
                                    const struct mr_tokenizer *tokenizer, uint32_t vocab_size,
                                    const uint32_t *end_ids, uint32_t end_count,
                                    struct mr_error *err);
/* As above, from the bytes of the tokens, which are borrowed. */
enum mr_status mr_token_mask_of_texts(struct mr_token_mask **out, const struct mr_text *tokens,
                                      uint32_t vocab_size, struct mr_error *err);
void mr_token_mask_destroy(struct mr_token_mask *mask);

/* Sets spelled[byte] for each byte that is a token of its own, for mr_constraint_compile. */
void mr_token_mask_spelled(const struct mr_tokenizer *tokenizer, bool spelled[256]);
/* 64-bit words of a mask. */
uint32_t mr_token_mask_words(const struct mr_token_mask *mask);
/* As mr_token_mask_accept, for any thread that has its own parse. */
bool mr_token_mask_replay(const struct mr_token_mask *mask, struct mr_parse *parse,
                          struct mr_matcher *matcher, uint32_t id);
/* Starts an answer. */
void mr_token_mask_start(struct mr_token_mask *mask, struct mr_matcher *matcher,
                         const struct mr_grammar *grammar);
/* Writes bits[words]: bit id % 64 of word id / 64 is set when the token may come next. Bits of end
 * tokens are not set; the caller allows these if matcher->can_end. */
void mr_token_mask_fill(struct mr_token_mask *mask, const struct mr_matcher *matcher,
                        uint64_t *bits);
/* Advances the matcher by a token. False, with the matcher unchanged, if the token may not come
 * next. */
bool mr_token_mask_accept(struct mr_token_mask *mask, struct mr_matcher *matcher, uint32_t id);
/* Writes at most `max` tokens that spell the forced bytes (mr_matcher_forced), the longest token at
 * each place, and returns their number. *sure: number of first tokens whose only alternative is to
 * spell the same bytes with shorter tokens. After these, a longer token may be allowed too. */
uint32_t mr_token_mask_forced(struct mr_token_mask *mask, const struct mr_matcher *matcher,
                              uint32_t *ids, uint32_t max, uint32_t *sure);
/* Units of work (codec/grammar/parse.h): the sum of all calls so far, and the limit of one mask. */
uint64_t mr_token_mask_work(const struct mr_token_mask *mask);
uint64_t mr_token_mask_work_max(const struct mr_token_mask *mask);
struct mr_token_mask_stats mr_token_mask_stats(const struct mr_token_mask *mask);

#endif
