/* vocab - token texts by id, and ids by text.
 *
 * Threads: immutable after creation. Memory: one block of texts, one table of ids at most half full
 * (open addressing). Errors: MR_NOMEM, MR_BAD_FILE above 2^24 tokens or 4 GiB of text. */
#ifndef MR_CODEC_TOKENIZER_VOCAB_H
#define MR_CODEC_TOKENIZER_VOCAB_H

#include "codec/status.h"
#include "codec/text.h"
#include "codec/tokenizer/token_ids.h"

#define MR_VOCAB_TOKENS_MAX ((size_t)1 << 24)

struct mr_vocab;

/* texts[id]; bytes NULL where an id has no token. Texts are copied. Of two tokens with the same
 * text the later one is found. */
enum mr_status mr_vocab_create(struct mr_vocab **out, const struct mr_text *texts, size_t count,
                               struct mr_error *err);
void mr_vocab_destroy(struct mr_vocab *vocab);

/* One more than the highest id. */
uint32_t mr_vocab_size(const struct mr_vocab *vocab);
/* Ids that have a token. */
uint32_t mr_vocab_count(const struct mr_vocab *vocab);
/* MR_TOKEN_NONE when there is none. */
uint32_t mr_vocab_find(const struct mr_vocab *vocab, struct mr_text text);
/* bytes NULL for an id without token or out of range. */
struct mr_text mr_vocab_text(const struct mr_vocab *vocab, uint32_t id);
bool mr_vocab_check(const struct mr_vocab *vocab);

/* The hash both this table and the word cache use. Its quality, not its secrecy, matters: texts of
 * requests are only looked up, never stored in a table that grows. */
uint64_t mr_text_hash(struct mr_text text);

#endif
