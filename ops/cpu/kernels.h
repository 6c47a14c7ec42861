/* kernels - what one decoder layer needs on a CPU, on plain pointers. AVX-512 (bf16), AVX2 and
 * scalar variants of each; every object is made for one of them, the best the machine has unless
 * its spec asks for less.
 *
 * Types:   bf16 is uint16_t (the upper half of an IEEE single). The residual stream is float; what
 *          enters a linear layer or the KV pool is bf16 (dtype bf16) or float (dtype f32).
 * Order:   every output element is summed in one fixed order, whatever the number of rows, the
 *          place of a row, the cut of a prompt into chunks or the number of threads: that is what
 *          --deterministic rests on. Two levels may differ in the last bits.
 * Threads: the engine thread; the work is spread with mr_parallel_for (ops/cpu/parallel.h).
 * Memory:  only _create functions allocate. */
#ifndef MR_OPS_CPU_KERNELS_H
#define MR_OPS_CPU_KERNELS_H

#include "codec/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* BEST, the value of a zeroed spec, is the highest level the machine runs. */
enum mr_cpu_level { MR_CPU_BEST, MR_CPU_SCALAR, MR_CPU_AVX2, MR_CPU_AVX512, MR_CPU_AMX };
/* The level that `wanted` comes to on this machine: never BEST, never more than it can run. */
enum mr_cpu_level mr_cpu_level(enum mr_cpu_level wanted);
const char *mr_cpu_level_name(enum mr_cpu_level level);

/* ---- linear: y = x W^T (+ bias), weights packed once ---- */
struct mr_cpu_linear; /* [out_size, in_size] in one packed copy, bf16 or f32 */

/* Fills row `row` of the weight as in_size floats. Called on any thread of the pool. */
typedef void (*mr_cpu_row_source)(void *context, uint32_t row, float *out);

struct mr_cpu_linear_spec {
    uint32_t out_size, in_size;
    bool bf16;
    mr_cpu_row_source source;
    void *source_context;
    const float *bias; /* [out_size] or NULL; copied */
    enum mr_cpu_level level;
};
/* MR_NOMEM; MR_UNSUPPORTED when in_size is 0 or (bf16) odd. */
enum mr_status mr_cpu_linear_create(struct mr_cpu_linear **out,
                                    const struct mr_cpu_linear_spec *spec, struct mr_error *err);
void mr_cpu_linear_destroy(struct mr_cpu_linear *linear);
size_t mr_cpu_linear_bytes(const struct mr_cpu_linear *linear);

enum mr_cpu_epilogue {
    MR_CPU_STORE_F32, /* out: float [rows, out_size] = */
    MR_CPU_ADD_F32,   /* out: float [rows, out_size] += (the residual) */
    MR_CPU_SILU_MUL,  /* rows of W alternate gate, up: out: dtype [rows, out_size / 2] = silu(g) * u
                       */
};
/* x: [rows, in_size] in the layer's dtype. out: stride out_size (or out_size / 2) elements. */
void mr_cpu_linear_run(const struct mr_cpu_linear *linear, const void *x, uint32_t rows,
                       enum mr_cpu_epilogue epilogue, void *out);

/* Row `row` of the packed weight as floats: an embedding tied to the output layer needs no second
 * copy. out: [in_size]. */
void mr_cpu_linear_row(const struct mr_cpu_linear *linear, uint32_t row, float *out);

/* ---- rows ---- */
struct mr_cpu_norm {
    const float *weight; /* [width] */
    float epsilon;
    uint32_t width;
    bool bf16; /* dtype of the result */
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
struct mr_cpu_kv; /* the pool: block_count blocks of MR_BLOCK_TOKENS tokens, all layers */
/* Bytes of one block. */
size_t mr_cpu_kv_block_bytes(const struct mr_cpu_kv_spec *spec);
/* head_dim: a multiple of 16, at most 256. MR_NOMEM, MR_UNSUPPORTED. */
enum mr_status mr_cpu_kv_create(struct mr_cpu_kv **out, const struct mr_cpu_kv_spec *spec,
                                struct mr_error *err);
void mr_cpu_kv_destroy(struct mr_cpu_kv *kv);
/* Makes the next 2 MiB resident, whatever they hold; false when all are, or the system cannot. */
bool mr_cpu_kv_populate(struct mr_cpu_kv *kv);
void mr_cpu_kv_copy(struct mr_cpu_kv *kv, uint32_t from, uint32_t to, uint32_t token_count);
/* Stored form of token_count tokens from `first` on, a multiple of 16, layer by layer: the panels
 * of kv_pool.h, cut behind the last token and zero in what is left of its panel. That of a full
 * block is the block as it lies in the pool: _bytes_of, in place. */
size_t mr_cpu_kv_export_bytes(const struct mr_cpu_kv *kv, uint32_t token_count);
void *mr_cpu_kv_bytes_of(const struct mr_cpu_kv *kv, uint32_t block);
void mr_cpu_kv_export(const struct mr_cpu_kv *kv, uint32_t block, uint32_t first,
                      uint32_t token_count, void *bytes);
void mr_cpu_kv_import(struct mr_cpu_kv *kv, uint32_t block, uint32_t first, uint32_t token_count,
                      const void *bytes);

/* The same in int8: a scale in bf16 for each token's K and V in each head, a bit more than half of
 * what bf16 takes and a quarter of fp32. A number is off by half a scale at most (kv_int8.c).
 * Engine thread, on all threads of the pool. */
size_t mr_cpu_kv_int8_bytes(const struct mr_cpu_kv *kv, uint32_t token_count);
/* False: a number is not finite, or nearly so; bytes then hold anything. */
bool mr_cpu_kv_int8_export(const struct mr_cpu_kv *kv, uint32_t block, uint32_t first,
                           uint32_t token_count, void *bytes);
void mr_cpu_kv_int8_import(struct mr_cpu_kv *kv, uint32_t block, uint32_t first,
                           uint32_t token_count, const void *bytes);

/* Rotary position embedding, tables [position][head_dim / 2]; pairs (i, i + head_dim/2) as Hugging
 * Face stores them; ops/weight_rows.h brings GGUF's order into this one. */
struct mr_cpu_rope {
    const float *cos, *sin;
    uint32_t rotary_dim;
};

/* One sequence of the step, as in ops/model.h. */
struct mr_cpu_attention_sequence {
    uint32_t row_begin, row_count, context_tokens;
    const uint32_t *blocks;
};

struct mr_cpu_attention_args {
    uint32_t layer;
    uint32_t head_count;
    uint32_t window;      /* sliding window in tokens, 0 none */
    float scale, softcap; /* softcap 0: none */
    const struct mr_cpu_attention_sequence *sequences;
    uint32_t sequence_count;
};

/* qkv: float [rows, (head_count + 2 * kv_head_count) * head_dim], q k v in that order. Optional
 * per-head RMS norm of q and k first (q_norm, k_norm: [head_dim] or NULL), then rope on q and k; k
 * and v go to their slots in the pool, q stays in qkv. */
struct mr_cpu_rope_args {
    const struct mr_cpu_rope *rope;
    const float *q_norm, *k_norm;
    float norm_epsilon;
};
void mr_cpu_rope_write(struct mr_cpu_kv *kv, const struct mr_cpu_attention_args *attention,
                       const struct mr_cpu_rope_args *args, float *qkv);
/* Causal attention of every row over its sequence's blocks; q as left by _rope_write; out in dtype:
 * [rows, head_count * head_dim]. Rows of one sequence may be decode (1) or a chunk (many). */
void mr_cpu_attention(struct mr_cpu_kv *kv, const struct mr_cpu_attention_args *attention,
                      const float *qkv, void *out);

#endif
