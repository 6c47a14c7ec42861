/* kernels - linear layers, norms and elementwise functions on a CPU, on plain pointers;
 * ops/cpu_kernels/kv_kernels.h has the KV pool, the rotary embedding and attention, and
 * ops/cpu_kernels/expert_kernels.h the experts. Each exists at several levels (instruction sets);
 * an object has one level.
 *
 * Types:   bf16 is uint16_t (the upper half of an IEEE single). The residual stream is float;
 *          inputs of linear layers and the KV pool are bf16 or float (dtype).
 * Order:   every output element is summed in one fixed order, independent of the number of rows,
 *          the index of a row, the chunks of a prompt and the threads. --deterministic relies on
 *          this. Results of two levels may differ in the last bits.
 * Threads: call on the engine thread; ops/cpu_kernels/parallel.h spreads the work. Memory: only
 * _create functions allocate. */
#ifndef MR_OPS_CPU_KERNELS_KERNELS_H
#define MR_OPS_CPU_KERNELS_KERNELS_H

#include "codec/status.h"
#include "ops/cpu_kernels/quant/quant.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mr_cpu_level {
    MR_CPU_BEST, /* the highest level that the machine runs */
    MR_CPU_SCALAR,
    MR_CPU_NEON, /* arm64 with dot products of bytes (Armv8.2) */
    MR_CPU_NEON_BF16,
    MR_CPU_AVX2,     /* from here on x86-64 */
    MR_CPU_AVX_VNNI, /* dot products of bytes */
    MR_CPU_AVX512F,  /* with BW, VL and DQ */
    MR_CPU_AVX512_VNNI,
    MR_CPU_AVX512, /* with VNNI and BF16 */
    MR_CPU_AMX
};
/* Returns the highest level, up to `wanted`, that the machine runs. */
enum mr_cpu_level mr_cpu_level(enum mr_cpu_level wanted);
const char *mr_cpu_level_name(enum mr_cpu_level level);

/* ---- linear: y = scale * (x W^T + bias), weights packed once ---- */
struct mr_cpu_linear; /* weights [out_size, in_size] in one packed copy */

/* Writes row `row` of a weight matrix as in_size floats. Any thread of the parallel team. */
typedef void (*mr_cpu_row_source)(void *context, uint32_t row, float *out);
/* Returns the stored bytes of row `row`, in the format of its band; NULL for zeros. Any thread of
 * the parallel team. */
typedef const unsigned char *(*mr_cpu_row_bytes)(void *context, uint32_t row);
struct mr_cpu_linear_spec {
    uint32_t out_size, in_size;
    bool bf16; /* or f32: x, the outputs of gated epilogues, and weights without bands */
    mr_cpu_row_source source;
    void *source_context;
    /* With bands the weights are integers, and each step quantizes x
     * (ops/cpu_kernels/quant/quant.h). MR_QUANT_INT8, and Q4_0 without `stored`, are quantized from
     * floats; the others are packed from the bytes of `stored`. */
    struct mr_quant_band bands[MR_QUANT_BANDS_MAX];
    uint32_t band_count;
    mr_cpu_row_bytes stored; /* its context: source_context */
    const float *bias;       /* [out_size], or NULL for no bias; mr_cpu_linear_create copies it */
    const float *curve;      /* [4] numbers of MR_CPU_XIELU, copied; NULL: zeros */
    float scale;             /* y = scale * (x W^T + bias); 0, as in a zeroed spec, means 1 */
    uint32_t site;           /* of the changes by adapters (ops/cpu_kernels/low_rank.h); 0: none */
    enum mr_cpu_level level;
};
/* Errors: MR_NOMEM; MR_UNSUPPORTED when in_size is 0, or odd with bf16. */
enum mr_status mr_cpu_linear_create(struct mr_cpu_linear **out,
                                    const struct mr_cpu_linear_spec *spec, struct mr_error *err);
void mr_cpu_linear_destroy(struct mr_cpu_linear *linear);
size_t mr_cpu_linear_bytes(const struct mr_cpu_linear *linear);

enum mr_cpu_epilogue {
    MR_CPU_STORE_F32, /* out = y, float [rows, out_size] */
    MR_CPU_ADD_F32,   /* out += y, float [rows, out_size]; out is the residual stream */
    /* From here on the columns of y alternate gate, up: out = activation(gate) * up, [rows,
     * out_size / 2] in the layer's dtype. */
    MR_CPU_SILU_MUL,
    MR_CPU_GELU_MUL,      /* gate * (1 + erf(gate / sqrt(2))) / 2, within 2e-7 of that erf */
    MR_CPU_GELU_TANH_MUL, /* with tanh(sqrt(2 / pi) * (gate + 0.044715 gate^3)) in place of erf */
    /* gpt-oss: gate at most 7, up in [-7, 7]: out = gate * sigmoid(1.702 gate) * (up + 1) */
    MR_CPU_SWIGLU_OAI_MUL,
    /* From here on out = activation(y), [rows, out_size] in the layer's dtype. */
    MR_CPU_GELU,
    MR_CPU_GELU_TANH,
    MR_CPU_SILU,
    MR_CPU_RELU,
    MR_CPU_RELU2, /* max(y, 0)^2 */
    MR_CPU_XIELU, /* as in ops/backend/epilogue.h, with the layer's curve */
};
#define MR_CPU_LINEAR_SCRATCH_BYTES ((size_t)1 << 19)
/* x: [rows, in_size] in the layer's dtype. out: see enum mr_cpu_epilogue; rows are contiguous.
 * scratch: memory of the caller, MR_CPU_LINEAR_SCRATCH_BYTES aligned to 64 bytes; may be NULL for
 * layers without bands. */
void mr_cpu_linear_run(const struct mr_cpu_linear *linear, const void *x, uint32_t rows,
                       enum mr_cpu_epilogue epilogue, void *out, void *scratch);

/* Writes row `row` of the packed weights, unscaled, to out: a token's embedding. */
void mr_cpu_linear_row(const struct mr_cpu_linear *linear, uint32_t row, float *out);
/* ---- rows ---- */
/* Every function of this part spreads the rows over the parallel team. */
struct mr_cpu_norm {
    const float *weight; /* [width], or NULL for all ones */
    const float *bias;   /* [width], or NULL for none; only with `centered` */
    float epsilon;
    uint32_t width;
    uint32_t stride; /* floats from one row of x to the next; 0: width */
    /* Padding elements of a row: zeros at any place, excluded from the mean. Only without
     * `centered`. */
    uint32_t padding;
    bool centered; /* true: layer norm, which subtracts the mean first; false: RMS norm */
    bool bf16;     /* true: out is bf16; false: float */
    enum mr_cpu_level level;
};
/* out may be x, if it is float.
 * out[r] = y / sqrt(mean(y^2) + epsilon) * weight + bias, where y is x[r], or with `centered` x[r]
 * - mean(x[r]). x: float [rows, width]. */
void mr_cpu_norm(const struct mr_cpu_norm *norm, const float *x, uint32_t rows, void *out);
/* out = x as bf16 or float: rows that go into a linear layer without a norm. */
void mr_cpu_convert(const float *x, uint32_t rows, uint32_t width, bool bf16, void *out);
/* residual[r] += scale * y, where y is the result of mr_cpu_norm for x[r]: the norm after a branch
 * of Gemma 2 and OLMo 2. x, residual: float [rows, width]; norm->bf16 is ignored. */
void mr_cpu_norm_add(const struct mr_cpu_norm *norm, const float *x, uint32_t rows, float scale,
                     float *residual);
/* x[i] = cap * tanh(x[i] / cap), the limit of Gemma 2's logits. cap > 0. */
void mr_cpu_softcap(float *x, size_t count, float cap, enum mr_cpu_level level);

#endif
