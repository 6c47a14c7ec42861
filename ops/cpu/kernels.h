/* kernels - the operations of one decoder layer on a CPU, on plain pointers. Each exists at four
 * levels: AMX, AVX-512 (bf16), AVX2 and scalar. An object such as a linear layer is created for one
 * level: the best that the machine runs, unless the object's spec requests a lower one.
 *
 * Types:   bf16 is uint16_t (the upper half of an IEEE single). The residual stream is float; the
 *          inputs of linear layers and the KV pool are bf16 (dtype bf16) or float (dtype f32).
 * Order:   every output element is summed in one fixed order, whatever the number of rows, the
 *          index of a row, the chunks of a prompt or the number of threads. --deterministic relies
 *          on this. Results of two levels may differ in the last bits.
 * Threads: call on the engine thread; mr_parallel_for (ops/cpu/parallel.h) spreads the work.
 * Memory:  only _create functions allocate. */
#ifndef MR_OPS_CPU_KERNELS_H
#define MR_OPS_CPU_KERNELS_H

#include "codec/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* MR_CPU_BEST, the value in a zeroed spec, means the highest level that the machine runs. */
enum mr_cpu_level { MR_CPU_BEST, MR_CPU_SCALAR, MR_CPU_AVX2, MR_CPU_AVX512, MR_CPU_AMX };
/* Returns `wanted`, or the highest level that the machine runs if that is lower. */
enum mr_cpu_level mr_cpu_level(enum mr_cpu_level wanted);
const char *mr_cpu_level_name(enum mr_cpu_level level);

/* ---- linear: y = x W^T (+ bias), weights packed once ---- */
struct mr_cpu_linear; /* weights [out_size, in_size] in one packed copy, bf16 or f32 */

/* Writes row `row` of a weight matrix as in_size floats. Runs on any thread of the parallel
 * team. */
typedef void (*mr_cpu_row_source)(void *context, uint32_t row, float *out);

struct mr_cpu_linear_spec {
    uint32_t out_size, in_size;
    bool bf16;
    mr_cpu_row_source source;
    void *source_context;
    const float *bias; /* [out_size], or NULL for no bias; mr_cpu_linear_create copies it */
    enum mr_cpu_level level;
};
/* Errors: MR_NOMEM; MR_UNSUPPORTED when in_size is 0, or odd with bf16. */
enum mr_status mr_cpu_linear_create(struct mr_cpu_linear **out,
                                    const struct mr_cpu_linear_spec *spec, struct mr_error *err);
void mr_cpu_linear_destroy(struct mr_cpu_linear *linear);
size_t mr_cpu_linear_bytes(const struct mr_cpu_linear *linear);

enum mr_cpu_epilogue {
    MR_CPU_STORE_F32, /* out = y = x W^T + bias, float [rows, out_size] */
    MR_CPU_ADD_F32,   /* out += y, float [rows, out_size]; out is the residual stream */
    /* rows of W alternate gate, up: out = silu(gate) * up, [rows, out_size / 2] in the layer's
     * dtype */
    MR_CPU_SILU_MUL,
};
/* x: [rows, in_size] in the layer's dtype. out: as enum mr_cpu_epilogue says, rows contiguous. */
void mr_cpu_linear_run(const struct mr_cpu_linear *linear, const void *x, uint32_t rows,
                       enum mr_cpu_epilogue epilogue, void *out);

/* Writes row `row` of the packed weight matrix to out as in_size floats. A token embedding tied to
 * the output layer is read this way, without a second copy of the weights. */
void mr_cpu_linear_row(const struct mr_cpu_linear *linear, uint32_t row, float *out);

/* ---- rows ---- */
struct mr_cpu_norm {
    const float *weight; /* [width] */
    float epsilon;
    uint32_t width;
    bool bf16; /* true: out is bf16; false: float */
    enum mr_cpu_level level;
};
/* out[r] = x[r] / sqrt(mean(x[r]^2) + epsilon) * weight. x: float [rows, width]. */
void mr_cpu_rms_norm(const struct mr_cpu_norm *norm, const float *x, uint32_t rows, void *out);

/* ---- KV pool and attention ---- */
struct mr_cpu_kv_spec {
    uint32_t layer_count, kv_head_count, head_dim, block_count;
    bool bf16;
    enum mr_cpu_level level;
};
struct mr_cpu_kv; /* KV pool: block_count blocks of MR_BLOCK_TOKENS tokens each, all layers */
/* Returns the size in bytes of one block's KV in all layers. */
size_t mr_cpu_kv_block_bytes(const struct mr_cpu_kv_spec *spec);
/* Errors: MR_NOMEM; MR_UNSUPPORTED unless head_dim is a multiple of 16 and at most 256. */
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
 * scale (kv_int8.c). Export and import run on all threads of the parallel team. */
size_t mr_cpu_kv_int8_bytes(const struct mr_cpu_kv *kv, uint32_t token_count);
/* False, with bytes undefined, when a number is infinite, NaN, or 2^127 or more. */
bool mr_cpu_kv_int8_export(const struct mr_cpu_kv *kv, uint32_t block, uint32_t first,
                           uint32_t token_count, void *bytes);
void mr_cpu_kv_int8_import(struct mr_cpu_kv *kv, uint32_t block, uint32_t first,
                           uint32_t token_count, const void *bytes);

/* Rotary position embedding. cos, sin: [position][rotary_dim / 2]. Number i of a head is paired
 * with number i + rotary_dim / 2, as in Hugging Face; ops/weight_rows.h converts GGUF's order. */
struct mr_cpu_rope {
    const float *cos, *sin;
    uint32_t rotary_dim;
};

/* One sequence of the step; fields as in struct mr_batch_sequence (ops/batch.h). */
struct mr_cpu_attention_sequence {
    uint32_t row_begin, row_count, context_tokens;
    const uint32_t *blocks;
};

#define MR_CPU_GROUP_MAX 64u /* most query heads for each kv head */
struct mr_cpu_attention_args {
    uint32_t layer;
    uint32_t head_count;
    uint32_t window;      /* sliding window in tokens; 0: no window */
    float scale, softcap; /* softcap: tanh limit of the scores; 0: no limit */
    const struct mr_cpu_attention_sequence *sequences;
    uint32_t sequence_count;
};

/* mr_cpu_rope_write applies the per-head RMS norm to q and k (q_norm, k_norm: [head_dim], or NULL
 * for no norm), then rope to q and k; it writes k and v to the pool and leaves q in qkv. qkv: float
 * [rows, (head_count + 2 * kv_head_count) * head_dim], in the order q, k, v. */
struct mr_cpu_rope_args {
    const struct mr_cpu_rope *rope;
    const float *q_norm, *k_norm;
    float norm_epsilon;
};
void mr_cpu_rope_write(struct mr_cpu_kv *kv, const struct mr_cpu_attention_args *attention,
                       const struct mr_cpu_rope_args *args, float *qkv);
/* Causal attention of every row to the blocks of its sequence, which has one row (decode) or many
 * (a prompt). qkv: as mr_cpu_rope_write left it; out: [rows, head_count * head_dim] in the pool's
 * dtype. */
void mr_cpu_attention(struct mr_cpu_kv *kv, const struct mr_cpu_attention_args *attention,
                      const float *qkv, void *out);

#endif
