/* vocab - finds the text of a token by its id, and the id by the text.
 *
 * Threads: immutable after creation.
 * Memory:  one block of texts; a hash table with open addressing, at most half full.
 * Errors:  MR_NOMEM, MR_BAD_FILE above MR_VOCAB_TOKENS_MAX tokens or 4 GiB of text. */
#ifndef MR_CODEC_TOKENIZER_VOCAB_H
#define MR_CODEC_TOKENIZER_VOCAB_H

#include "codec/status.h"
#include "codec/text.h"
#include "codec/tokenizer/token_ids.h"

#define MR_VOCAB_TOKENS_MAX ((size_t)1 << 24)

struct mr_vocab;

/* Makes a vocabulary with copies of texts[id]; bytes NULL: no token has this id. If two tokens have
 * the same text, _find returns the higher id. */
enum mr_status mr_vocab_create(struct mr_vocab **out, const struct mr_text *texts, size_t count,
                               struct mr_error *err);
void mr_vocab_destroy(struct mr_vocab *vocab);

/* Highest token id + 1. */
uint32_t mr_vocab_size(const struct mr_vocab *vocab);
/* Number of ids that have a token. */
uint32_t mr_vocab_count(const struct mr_vocab *vocab);
/* The id of the token with this text, MR_TOKEN_NONE when no token has this text. */
uint32_t mr_vocab_find(const struct mr_vocab *vocab, struct mr_text text);
/* The text of the token with this id; bytes NULL for an id without token or out of range. */
struct mr_text mr_vocab_text(const struct mr_vocab *vocab, uint32_t id);
/* True when the hash table and the texts are consistent. */
bool mr_vocab_check(const struct mr_vocab *vocab);

/* A fast hash for tables of token texts, which may differ between machines. It is not secret: texts
 * of requests are looked up, but never stored in a table that grows. */
uint64_t mr_text_hash(struct mr_text text);

#endif
