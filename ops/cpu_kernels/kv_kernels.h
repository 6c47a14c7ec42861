/* kv_kernels - the KV pool, the rotary embedding and attention on a CPU. Levels, types, order of
 * sums, threads and memory are those of kernels.h. */
#ifndef MR_OPS_CPU_KERNELS_KV_KERNELS_H
#define MR_OPS_CPU_KERNELS_KV_KERNELS_H

#include "ops/cpu_kernels/kernels.h"

/* ---- KV pool ---- */
#define MR_CPU_HEAD_DIM_MAX 256u
#define MR_CPU_KEY_DIM_MAX  1280u /* of a pool with value_dim */
struct mr_cpu_kv_spec {
    uint32_t layer_count, kv_head_count, head_dim, block_count;
    /* The V of a token is the first value_dim numbers of its K, and the pool has no other V. A
     * multiple of 16; 0: V has head_dim numbers of its own. */
    uint32_t value_dim;
    bool bf16; /* attention computes in bf16; false: in f32 */
    /* K and V are kept as 8-bit integers with a bf16 scale for each token, head and K or V. */
    bool int8;
    enum mr_cpu_level level;
};
struct mr_cpu_kv; /* KV pool: block_count blocks of MR_BLOCK_TOKENS tokens each, all layers */
/* Returns the size in bytes of one block's KV in all layers. */
size_t mr_cpu_kv_block_bytes(const struct mr_cpu_kv_spec *spec);
/* Errors: MR_NOMEM; MR_UNSUPPORTED unless head_dim is a multiple of 16, and at most 256, or
 * MR_CPU_KEY_DIM_MAX with value_dim. */
enum mr_status mr_cpu_kv_create(struct mr_cpu_kv **out, const struct mr_cpu_kv_spec *spec,
                                struct mr_error *err);
void mr_cpu_kv_destroy(struct mr_cpu_kv *kv);
/* Makes the next 2 MiB of the pool resident in memory without changing their contents. False when
 * the whole pool is resident, or the system cannot populate pages. */
bool mr_cpu_kv_populate(struct mr_cpu_kv *kv);
void mr_cpu_kv_copy(struct mr_cpu_kv *kv, uint32_t from, uint32_t to, uint32_t token_count);
/* mr_cpu_kv_export copies tokens [first, first + token_count) of a block, first a multiple of 16,
 * in the stored form: layer by layer the panels of kv_pool.h up to that of the last token, with
 * zeros for later tokens. A full block has this form in the pool itself (mr_cpu_kv_bytes_of). */
size_t mr_cpu_kv_export_bytes(const struct mr_cpu_kv *kv, uint32_t token_count);
void *mr_cpu_kv_bytes_of(const struct mr_cpu_kv *kv, uint32_t block);
void mr_cpu_kv_export(const struct mr_cpu_kv *kv, uint32_t block, uint32_t first,
                      uint32_t token_count, void *bytes);
void mr_cpu_kv_import(struct mr_cpu_kv *kv, uint32_t block, uint32_t first, uint32_t token_count,
                      const void *bytes);

/* The stored form in int8, with a bf16 scale for each token's K and V in each head: slightly more
 * than half the bytes of bf16, or a quarter of fp32. A number's rounding error is at most half a
 * scale (kv_int8.c). Export and import run on all threads of the parallel team. A pool with `int8`
 * must not use these functions, because its stored form is already int8. */
size_t mr_cpu_kv_int8_bytes(const struct mr_cpu_kv *kv, uint32_t token_count);
/* False, with bytes undefined, when a number is infinite, NaN, or 2^127 or more. */
bool mr_cpu_kv_int8_export(const struct mr_cpu_kv *kv, uint32_t block, uint32_t first,
                           uint32_t token_count, void *bytes);
void mr_cpu_kv_int8_import(struct mr_cpu_kv *kv, uint32_t block, uint32_t first,
                           uint32_t token_count, const void *bytes);

/* ---- rotary embedding and attention ---- */
/* Rotary position embedding. cos, sin: [position][rotary_dim / 2]. Number i of a head is paired
 * with number i + rotary_dim / 2, as in Hugging Face; ops/weights/weight_rows.h converts GGUF's
 * order. */
struct mr_cpu_rope {
    const float *cos, *sin;
    const float *q_scales; /* [position] factors of q after its rotation; NULL: none */
    uint32_t rotary_dim;   /* even; numbers of a head from rotary_dim on are not rotated */
};

/* One sequence of the step; fields as in struct mr_batch_sequence (ops/decoder/batch.h). */
struct mr_cpu_attention_sequence {
    uint32_t row_begin, row_count, context_tokens;
    const uint32_t *blocks;
    uint32_t attends; /* every row attends to the tokens [0, attends); 0: causal attention */
};

#define MR_CPU_GROUP_MAX 64u /* most query heads for each kv head */
struct mr_cpu_attention_args {
    uint32_t layer;
    uint32_t head_count;
    uint32_t window;      /* sliding window in tokens; 0: no window */
    float scale, softcap; /* softcap: tanh limit of the scores; 0: no limit */
    /* [head_count] logits without a value that take part in every softmax of a head (gpt-oss);
     * NULL: none. `scale` does not apply to them, and no window excludes them. */
    const float *sinks;
    const struct mr_cpu_attention_sequence *sequences;
    uint32_t sequence_count;
};

/* mr_cpu_rope_write applies the norm to q and k, then the rotary embedding, or with norm_after the
 * rotary embedding first; it writes k and v to the pool and leaves q in qkv. qkv: float [rows,
 * (head_count + 2 * kv_head_count) * head_dim], in the order q, k, v. A head size that is not a
 * multiple of 16 is padded to head_dim with zeros. */
struct mr_cpu_rope_args {
    const struct mr_cpu_rope *rope; /* NULL: no rotary embedding in this layer */
    /* Weights of the norm of q, [head_count * head_dim], and of k, [kv_head_count * head_dim]; NULL
     * for no norm. Only the first norm_width numbers of a head are normed; the rest are padding. */
    const float *q_norm, *k_norm;
    float norm_epsilon;
    uint32_t norm_width;
    bool norm_whole; /* true: one RMS norm over all heads of a row (OLMo 2); false: for each head */
    bool norm_centered; /* layer norm without bias (StableLM 2) instead of RMS; not with norm_whole
                         */
    bool norm_after;    /* the rotary embedding is applied before the norm (Hunyuan) */
    /* q, k and v are limited to [-clip, clip], after a norm that precedes the rotary embedding; 0:
     * no limit. */
    float clip;
};
void mr_cpu_rope_write(struct mr_cpu_kv *kv, const struct mr_cpu_attention_args *attention,
                       const struct mr_cpu_rope_args *args, float *qkv);
/* Causal attention of every row to the blocks of its sequence, which has one row (decode) or many
 * (a prompt). qkv: as mr_cpu_rope_write left it; in a pool with value_dim only q, [rows, head_count
 * * head_dim]. out: [rows, head_count * head_dim or value_dim] in the pool's dtype. */
void mr_cpu_attention(struct mr_cpu_kv *kv, const struct mr_cpu_attention_args *attention,
                      const float *qkv, void *out);

#endif
