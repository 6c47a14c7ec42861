/* block_hash - what a KV block is called, the same in every process that will ever compute it.
 *
 * The name of block i of a prompt is SHA-256 over a tagged, length-framed preimage:
 *     h_-1 = H("millrace.kv.root.1",   32, fingerprint, len, tenant)
 *     h_i  = H("millrace.kv.block.1",  32, h_(i-1), count, tokens as u32 LE)
 *     p    = H("millrace.kv.prompt.1", 32, h_-1, count, tokens as u32 LE)
 * where each tag is preceded by its own length and every length and count is u32 LE. Each field's
 * end is fixed by what precedes it, so no two different inputs have one preimage. Nothing depends
 * on process, order or time (anchors: keys that leave out an identity field are how caches of
 * different models get mixed up).
 *
 * Owner:  the hasher belongs to one thread; mr_block_hash_root() is free of state.
 * Memory: one OpenSSL context, made in _create; hashing allocates nothing of ours (OpenSSL 3.0
 *         takes and returns 112 bytes for each hash).
 * Errors: _create MR_NOMEM. */
#ifndef MR_KVCACHE_BLOCK_HASH_H
#define MR_KVCACHE_BLOCK_HASH_H

#include "codec/status.h"

#include <stddef.h>
#include <stdint.h>

#define MR_HASH_BYTES 32u

struct mr_block_hash;

enum mr_status mr_block_hash_create(struct mr_block_hash **out, struct mr_error *err);
/* hash may be NULL. */
void mr_block_hash_destroy(struct mr_block_hash *hash);

/* h_-1 of a tenant. Threads: any. */
void mr_block_hash_root(const unsigned char fingerprint[MR_HASH_BYTES], const char *tenant,
                        unsigned char root[MR_HASH_BYTES]);
/* h_i from h_(i-1); parent and key may be the same memory. */
void mr_block_hash_chain(struct mr_block_hash *hash, const unsigned char parent[MR_HASH_BYTES],
                         const uint32_t *tokens, uint32_t count, unsigned char key[MR_HASH_BYTES]);
/* Name of a complete prompt within a tenant's root. */
void mr_block_hash_prompt(struct mr_block_hash *hash, const unsigned char root[MR_HASH_BYTES],
                          const uint32_t *tokens, uint32_t count, unsigned char key[MR_HASH_BYTES]);

#endif
