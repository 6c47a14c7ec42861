/* fingerprint - identifies everything a stored block's bytes depend on besides its tokens and its
 * tenant: the model, its numerics and the form in which KV is stored.
 *
 * Two processes share KV exactly when all of these fields are equal. A field left out would let one
 * model read the KV of another, so every field is required: one that does not apply is empty or 0,
 * and is hashed as such. The hash input is a list of length-framed, tagged fields (codec/sha256.h),
 * so no two identities have the same input.
 *
 * Threads: any. Memory: none kept. Errors: mr_kv_fingerprint_of MR_NOMEM. */
#ifndef MR_KVCACHE_FINGERPRINT_H
#define MR_KVCACHE_FINGERPRINT_H

#include "codec/status.h"
#include "kvcache/block_hash.h"

#define MR_KV_SCHEMA "millrace.kv.3" /* changes whenever the form of keys or payloads does */

struct mr_kv_fingerprint {
    unsigned char bytes[MR_HASH_BYTES];
};

struct mr_kv_identity {
    const unsigned char *weights;   /* [MR_HASH_BYTES] digest of the weights, never a name */
    const unsigned char *tokenizer; /* [MR_HASH_BYTES] digest of the text of every token id */
    const char *architecture;
    uint32_t layer_count, hidden_size, head_count, kv_head_count, head_dim, vocab_size;
    const char *rope;       /* kind, base, scaling */
    uint32_t window_tokens; /* 0: no layer has a sliding window */
    const char *kv_dtype;   /* as stored: bf16, f32, int8 of bf16 ... */
    const char *layout;     /* order of the numbers within a stored block */
    uint32_t block_tokens;
    const char *adapter;       /* "" none */
    const char *numerics;      /* device and kernels: two that round differently do not share KV */
    uint32_t part, part_count; /* of a model split over devices; a whole model is part 0 of 1 */
};

enum mr_status mr_kv_fingerprint_of(const struct mr_kv_identity *identity,
                                    struct mr_kv_fingerprint *out, struct mr_error *err);

#endif
