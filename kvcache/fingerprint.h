/* fingerprint - identifies all data that a stored block's bytes depend on, except its tokens and
 * its tenant: the model, its numerics and the form in which KV is stored.
 *
 * Two processes share KV exactly when all fields of struct mr_kv_identity are equal. A field left
 * out would let one model read the KV of another, so every field is required: one that does not
 * apply is empty or 0, and is hashed as such. The hash input is a list of length-framed, tagged
 * fields (codec/sha256.h), so no two identities have the same input.
 *
 * Threads: any. Memory: none kept. Errors: mr_kv_fingerprint_of MR_NOMEM. */
#ifndef MR_KVCACHE_FINGERPRINT_H
#define MR_KVCACHE_FINGERPRINT_H

#include "codec/status.h"
#include "kvcache/block_hash.h"

/* changed by hand when the form of keys or payloads changes */
#define MR_KV_SCHEMA "millrace.kv.3"

struct mr_kv_fingerprint {
    unsigned char bytes[MR_HASH_BYTES];
};

struct mr_kv_identity {
    const unsigned char *weights;   /* [MR_HASH_BYTES] digest of the weights, never a name */
    const unsigned char *tokenizer; /* [MR_HASH_BYTES] digest of the text of every token id */
    const char *architecture;
    uint32_t layer_count, hidden_size, head_count, kv_head_count, head_dim, vocab_size;
    const char *rope;       /* text of the rotary embedding's kind, base and scaling */
    uint32_t window_tokens; /* length of the sliding window; 0: no layer has one */
    const char *kv_dtype;   /* number format of the stored KV: bf16, f32, int8 of bf16 ... */
    const char *layout;     /* order of the numbers within a stored KV block */
    uint32_t block_tokens;
    const char *adapter; /* name of the adapter; "" without one */
    /* device and kernels: two devices or kernels that round differently do not share KV */
    const char *numerics;
    /* for a model split over devices: this device's part and their number; a whole model is part 0
     * of 1 */
    uint32_t part, part_count;
};

enum mr_status mr_kv_fingerprint_of(const struct mr_kv_identity *identity,
                                    struct mr_kv_fingerprint *out, struct mr_error *err);

#endif
