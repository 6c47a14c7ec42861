/* kv_pool - the layout of K and V in the KV pool; used by kv_pool.c, kv_int8.c, rope.c and
 * attention.c. "Numbers" have the format in which attention computes: bf16 or f32.
 *
 * Layout: [block][layer][kv head], each with the K, then the V, of MR_BLOCK_TOKENS tokens in panels
 *         (level.h), so that scores and weighted sums are plain matrix products over panels:
 *             K: columns are tokens, depth is head_dim   [token / 16][words of head_dim][16]
 *             V: columns are head dims, depth is tokens  [head_dim / 16][words of tokens][16]
 *         A pool with `int8` has one byte for each element, for both formats of numbers, and the
 *             scales of the tokens in bf16 after each K and each V: K [token / 16][head_dim][16],
 *             then [MR_BLOCK_TOKENS] scales V [head_dim / 16][token][16], then [MR_BLOCK_TOKENS]
 *             scales
 *         A pool with value_dim has the K alone, and one head. V is the first value_dim rows of K.
 *         Attention expands two neighbouring rows of 16 bytes to one row of a panel in bf16.
 * Zeros:  two tokens share a bf16 word of V. When a sequence ends with the first of the two, the
 *         V of the second is zero, so a product over whole words never reads another request's V.
 *         int8 needs no zeros: tokens that a row does not attend to have weight 0, and a byte is
 *         never NaN.
 * Owner:  engine thread; the threads of the parallel loop in rope.c write different tokens. */
#ifndef MR_OPS_CPU_KERNELS_KV_POOL_H
#define MR_OPS_CPU_KERNELS_KV_POOL_H

#include "codec/check.h"
#include "ops/cpu_kernels/kv_kernels.h"
#include "ops/cpu_kernels/level.h"

#include <stdatomic.h>

/* A call of mr_cpu_attention splits tiles over threads only up to these limits: number of tiles,
 * and floats in all partial results. */
#define MR_CPU_SPLIT_TILES  256u
#define MR_CPU_SPLIT_FLOATS ((size_t)1 << 20)

struct mr_cpu_kv {
    const struct mr_cpu_ops *ops;
    struct mr_cpu_kv_spec spec;
    size_t half_bytes;  /* bytes of K, or of V, of one head of one layer of one block */
    size_t slot_bytes;  /* bytes of one head of one layer of one block */
    size_t block_bytes; /* bytes of one block in all layers */
    unsigned char *bytes;
    /* Leading bytes of the pool that mr_cpu_kv_populate has made resident. */
    size_t populated_bytes;
    float *partials; /* [MR_CPU_SPLIT_FLOATS] partial attention results of split tiles */
    atomic_uint blocks_done[MR_CPU_SPLIT_TILES];
};

static inline unsigned char *mr_cpu_kv_keys(const struct mr_cpu_kv *kv, uint32_t block,
                                            uint32_t layer, uint32_t head)
{
    const size_t slot = (size_t)layer * kv->spec.kv_head_count + head;
    return kv->bytes + block * kv->block_bytes + slot * kv->slot_bytes;
}

/* True when V is part of K and not stored itself. */
static inline bool mr_cpu_kv_shares_keys(const struct mr_cpu_kv *kv)
{
    return kv->spec.value_dim > 0;
}

/* Numbers of a token's V. */
static inline uint32_t mr_cpu_kv_value_dim(const struct mr_cpu_kv *kv)
{
    return kv->spec.value_dim > 0 ? kv->spec.value_dim : kv->spec.head_dim;
}

static inline unsigned char *mr_cpu_kv_values(const struct mr_cpu_kv *kv, uint32_t block,
                                              uint32_t layer, uint32_t head)
{
    return mr_cpu_kv_keys(kv, block, layer, head) + kv->half_bytes;
}

/* Bytes of a number of q, of a weight and of a result. */
static inline size_t mr_cpu_kv_number_bytes(const struct mr_cpu_kv *kv)
{
    return kv->spec.bf16 ? 2 : 4;
}

/* Bytes of an element of K or V in the pool. */
static inline size_t mr_cpu_kv_element_bytes(const struct mr_cpu_kv *kv)
{
    return kv->spec.int8 ? 1 : mr_cpu_kv_number_bytes(kv);
}

/* True when two tokens share a word of V. */
static inline bool mr_cpu_kv_pairs_tokens(const struct mr_cpu_kv *kv)
{
    return kv->spec.bf16 && !kv->spec.int8;
}

/* Bytes of one panel of K (16 tokens); the next function: of one panel of V (16 dims, whole
 * block). */
static inline size_t mr_cpu_kv_key_panel_bytes(const struct mr_cpu_kv *kv)
{
    return kv->spec.head_dim * 16u * mr_cpu_kv_element_bytes(kv);
}

static inline size_t mr_cpu_kv_value_panel_bytes(const struct mr_cpu_kv *kv)
{
    return MR_BLOCK_TOKENS * 16u * mr_cpu_kv_element_bytes(kv);
}

/* Byte offset of dimension `dim` of token `token` in the K of one head of a block;
 * mr_cpu_kv_value_at: in the V. */
static inline size_t mr_cpu_kv_key_at(const struct mr_cpu_kv *kv, uint32_t token, uint32_t dim)
{
    const size_t panel = token / 16 * mr_cpu_kv_key_panel_bytes(kv);
    if (kv->spec.int8) return panel + dim * 16u + token % 16;
    if (kv->spec.bf16) return panel + dim / 2 * MR_PANEL_BYTES + token % 16 * 4u + dim % 2 * 2u;
    return panel + dim * MR_PANEL_BYTES + token % 16 * 4u;
}

static inline size_t mr_cpu_kv_value_at(const struct mr_cpu_kv *kv, uint32_t token, uint32_t dim)
{
    const size_t panel = dim / 16 * mr_cpu_kv_value_panel_bytes(kv);
    if (kv->spec.int8) return panel + token * 16u + dim % 16;
    if (kv->spec.bf16) return panel + token / 2 * MR_PANEL_BYTES + dim % 16 * 4u + token % 2 * 2u;
    return panel + token * MR_PANEL_BYTES + dim % 16 * 4u;
}

/* The scales of K or V in a pool with int8: [MR_BLOCK_TOKENS], bf16. half: the first byte of the K,
 * or of the V, of one head. */
static inline uint16_t *mr_cpu_kv_scales(const struct mr_cpu_kv *kv, unsigned char *half)
{
    MR_ASSERT(kv->spec.int8);
    return (uint16_t *)(void *)(half + (size_t)kv->spec.head_dim * MR_BLOCK_TOKENS);
}

/* Asserts that tokens [first, first + token_count) are inside the block, and that a panel starts at
 * token `first`. */
static inline void mr_cpu_kv_check_span(const struct mr_cpu_kv *kv, uint32_t block, uint32_t first,
                                        uint32_t token_count)
{
    MR_ASSERT(block < kv->spec.block_count && first % 16 == 0);
    MR_ASSERT(first <= MR_BLOCK_TOKENS && token_count <= MR_BLOCK_TOKENS - first);
}

#endif
