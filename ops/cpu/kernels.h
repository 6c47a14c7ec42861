/* kernels - what one decoder layer needs on a CPU, on plain pointers. AVX-512 (bf16), AVX2 and
 * scalar variants of each; the best the machine has is chosen once, at the first call of
 * mr_cpu_level(). All run in parallel through mr_parallel_for (ops/tensor.h).
 *
 * Types:   bf16 is uint16_t (the upper half of an IEEE single). The residual stream is float; what
 *          enters a linear layer or the KV pool is bf16 (dtype bf16) or float (dtype f32).
 * Order:   every output element sums in one fixed order, whatever the number of rows, the place of
 *          a row or the number of threads: that is what --deterministic rests on.
 * Threads: the engine thread. Memory: only _create functions allocate. */
#ifndef MR_OPS_CPU_KERNELS_H
#define MR_OPS_CPU_KERNELS_H

#include "codec/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mr_cpu_level { MR_CPU_SCALAR, MR_CPU_AVX2, MR_CPU_AVX512 };
/* Chosen from cpuid, lowered by mr_cpu_limit_level (tests, --cpu-level). */
enum mr_cpu_level mr_cpu_level(void);

/* ---- linear: y = x W^T (+ bias), weights packed once ---- */
struct mr_cpu_linear; /* [out_size, in_size] in one packed copy, bf16 or f32 */

/* Fills row `row` of the weight as in_size floats. */
typedef void (*mr_cpu_row_source)(void *context, uint32_t row, float *out);

struct mr_cpu_linear_spec {
    uint32_t out_size, in_size;
    bool bf16;
    mr_cpu_row_source source;
    void *source_context;
    const float *bias; /* [out_size] or NULL; copied */
};
enum mr_status mr_cpu_linear_create(struct mr_cpu_linear **out,
                                    const struct mr_cpu_linear_spec *spec, struct mr_error *err);
void mr_cpu_linear_destroy(struct mr_cpu_linear *linear);
size_t mr_cpu_linear_bytes(const struct mr_cpu_linear *linear);

enum mr_cpu_epilogue {
    MR_CPU_STORE_F32, /* out: float [rows, out_size] = */
    MR_CPU_STORE_ACT, /* out: the layer's dtype [rows, out_size] = */
    MR_CPU_ADD_F32,   /* out: float [rows, out_size] += (the residual) */
    MR_CPU_SILU_MUL,  /* rows of W alternate gate, up: out: dtype [rows, out_size / 2] = silu(g) * u
                       */
};
/* x: [rows, in_size] in the layer's dtype. out: stride out_size (or out_size / 2) elements. */
void mr_cpu_linear_run(const struct mr_cpu_linear *linear, const void *x, uint32_t rows,
                       enum mr_cpu_epilogue epilogue, void *out);

/* ---- rows ---- */
/* out[r] = x[r] / rms(x[r]) * weight, in dtype (bf16 or f32). x: float [rows, width]. */
void mr_cpu_rms_norm(const float *x, const float *weight, float epsilon, uint32_t rows,
                     uint32_t width, bool bf16, void *out);
/* The row of a packed linear as floats: an embedding tied to the output layer needs no second copy.
 */
void mr_cpu_linear_row(const struct mr_cpu_linear *linear, uint32_t row, float *out);

/* ---- KV pool and attention ---- */
struct mr_cpu_kv_spec {
    uint32_t layer_count, kv_head_count, head_dim, block_count;
    bool bf16;
};
struct mr_cpu_kv; /* the pool: block_count blocks of MR_BLOCK_TOKENS tokens, all layers */
enum mr_status mr_cpu_kv_create(struct mr_cpu_kv **out, const struct mr_cpu_kv_spec *spec,
                                struct mr_error *err);
void mr_cpu_kv_destroy(struct mr_cpu_kv *kv);
void mr_cpu_kv_copy(struct mr_cpu_kv *kv, uint32_t from, uint32_t to, uint32_t token_count);
/* Portable form of the first token_count tokens: [layer][k, v][kv_head][token][head_dim]. */
size_t mr_cpu_kv_export_bytes(const struct mr_cpu_kv *kv, uint32_t token_count);
void mr_cpu_kv_export(const struct mr_cpu_kv *kv, uint32_t block, uint32_t token_count,
                      void *bytes);
void mr_cpu_kv_import(struct mr_cpu_kv *kv, uint32_t block, uint32_t token_count,
                      const void *bytes);

/* Rotary position embedding, tables [position][head_dim / 2]; pairs (i, i + head_dim/2) as Hugging
 * Face stores them, or (2i, 2i+1) when interleaved (GGUF llama). */
struct mr_cpu_rope {
    const float *cos, *sin;
    bool interleaved;
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
