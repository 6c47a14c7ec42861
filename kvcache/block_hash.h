/* block_hash - the keys of KV blocks: equal in every process that computes the same block.
 *
 * The key of block i of a prompt is SHA-256 over tagged, length-framed fields (codec/sha256.h):
 *     h_-1 = H("millrace.kv.root.1": fingerprint, "tenant": name), and with a salt
 *            H("millrace.kv.salt.1": that, "salt": text); before that, with an adapter
 *            H("millrace.kv.adapter.1": h_-1, "digest": the adapter's)
 *     h_i  = H("millrace.kv.block.1": h_(i-1), "tokens": u32 LE)
 *     p    = H("millrace.kv.prompt.1": h_-1, "tokens": u32 LE, 256 per field)
 * Two different inputs never produce the same hash input, and no key depends on process, order or
 * time. The fingerprint (fingerprint.h) and the tenant keep models and tenants apart.
 *
 * Threads: a hash state belongs to one thread; mr_block_hash_root() and _salt() make their own.
 * Memory, errors: none. */
#ifndef MR_KVCACHE_BLOCK_HASH_H
#define MR_KVCACHE_BLOCK_HASH_H

#include "codec/sha256.h"

#include <stdint.h>

#define MR_HASH_BYTES MR_SHA256_BYTES

/* Writes h_-1 of a tenant, the root of the tenant's chain keys. Threads: any. */
void mr_block_hash_root(const unsigned char fingerprint[MR_HASH_BYTES], const char *tenant,
                        unsigned char root[MR_HASH_BYTES]);
/* Replaces a root by that of requests with this salt, which share no block with others. */
void mr_block_hash_salt(unsigned char root[MR_HASH_BYTES], const char *salt, size_t length);
/* Replaces a root by that of requests with an adapter, which share no block with requests that have
 * another adapter, another version of it, or none. */
void mr_block_hash_adapter(unsigned char root[MR_HASH_BYTES],
                           const unsigned char digest[MR_HASH_BYTES]);
/* Writes the chain key h_i of a block from the chain key h_(i-1) of the block before and the
 * block's tokens, at most 256; parent and key may be the same memory. */
void mr_block_hash_chain(struct mr_sha256 *hash, const unsigned char parent[MR_HASH_BYTES],
                         const uint32_t *tokens, uint32_t count, unsigned char key[MR_HASH_BYTES]);
/* Writes p, the key of a complete prompt under a tenant's root h_-1. */
void mr_block_hash_prompt(struct mr_sha256 *hash, const unsigned char root[MR_HASH_BYTES],
                          const uint32_t *tokens, uint32_t count, unsigned char key[MR_HASH_BYTES]);

#endif
