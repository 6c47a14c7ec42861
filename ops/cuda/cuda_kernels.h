/* cuda_kernels - the operations of a decoder on a CUDA device for which LibTorch has no fused
 * operator. Each function enqueues one or two kernels, described in ops/cuda/README.md.
 *
 * Pointers: device memory, except the structs themselves, which are host memory and read during the
 * call. Arrays of `type` are aligned to 16 bytes, and their strides are multiples of 8 elements, so
 * that a thread reads 8 elements at once. Strides are in elements of the array.
 * Types:    arithmetic is in float (sums of a draw in double) for every type of array; results are
 *           rounded once, to nearest even.
 * Order:    every sum has one fixed order. The order in attention depends on the number of rows,
 *           which decides how a row is split; no other sum depends on other rows.
 * Values:   device arrays are trusted. A length, slot, block id or position outside the arrays is
 *           undefined behaviour; the caller checks these values before it copies them to the
 *           device.
 * Stream:   a cudaStream_t, NULL for the default stream. No function waits, allocates or copies, so
 *           a CUDA graph can capture each. The graph keeps the shapes and reads the arrays at each
 *           launch.
 * Errors:   MR_UNSUPPORTED names the field whose value no kernel handles. Nothing is enqueued then,
 *           and the caller uses LibTorch's operators. MR_BACKEND: CUDA refused the launch.
 * Threads:  any, with the stream's device current. Memory: none. */
#ifndef MR_OPS_CUDA_CUDA_KERNELS_H
#define MR_OPS_CUDA_CUDA_KERNELS_H

#include "codec/status.h"

#include <stddef.h>
#include <stdint.h>

enum mr_cuda_type { MR_CUDA_F32, MR_CUDA_F16, MR_CUDA_BF16 };

/* MR_UNSUPPORTED when the kernels were not compiled for the current device. */
enum mr_status mr_cuda_check_device(struct mr_error *err);

/* The KV of one layer. K and V of token t of a block, head h, are head_dim numbers, one after the
 * other, at keys or values + block * block_stride + h * head_stride + t * token_stride. In a
 * contiguous tensor [block][kv head][token][head_dim] the tokens of a head are one run of memory,
 * the layout that decode attention reads fastest. */
struct mr_cuda_kv {
    void *keys, *values;
    int64_t block_stride, head_stride, token_stride;
    uint32_t block_tokens, kv_head_count, head_dim; /* head_dim: a multiple of 16, at most 256 */
    enum mr_cuda_type type;
};

/* ---- attention of decode rows ---- */
struct mr_cuda_decode {
    struct mr_cuda_kv kv;
    uint32_t row_count, head_count; /* head_count: a multiple of kv_head_count */
    const void *q;                  /* [row_count][head_count][head_dim] of kv.type */
    int64_t q_stride;               /* between rows of q */
    /* [row_count] tokens of each sequence in the KV, the row's own token included: the row is
     * position length - 1. 0: the row is padding, and its result is zeros. */
    const int32_t *lengths;
    uint32_t length_max;   /* no length is larger; sizes the grid and the scratch memory */
    const int32_t *blocks; /* [row_count][blocks_stride] block ids in order of tokens */
    int64_t blocks_stride; /* only entries of blocks inside length and window are read */
    uint32_t window;       /* sliding window in tokens; 0: no window */
    float scale, softcap;  /* softcap: tanh limit of the scaled scores; 0: no limit */
    const float *sinks;    /* [head_count] logits without a value (gpt-oss); NULL: none */
    void *out;             /* [row_count][head_count][head_dim] of kv.type, contiguous */
    float *scratch;        /* mr_cuda_decode_scratch_bytes; undefined between calls */
};
size_t mr_cuda_decode_scratch_bytes(const struct mr_cuda_decode *decode);
/* Paged attention of one query row per sequence: Dao et al., "Flash-Decoding for long-context
 * inference", 2023. A split pass computes softmax-weighted sums of 64 to 512 tokens for all query
 * heads of a kv head; with fewer rows the splits are shorter. A combine pass merges the splits of a
 * row. */
enum mr_status mr_cuda_decode_attention(const struct mr_cuda_decode *decode, void *stream,
                                        struct mr_error *err);

/* ---- residual and norm ---- */
struct mr_cuda_add_norm {
    enum mr_cuda_type type; /* of x and out */
    uint32_t row_count, width;
    const void *x;       /* [row_count][width], or NULL: nothing is added */
    float *residual;     /* [row_count][width]: residual += scale * x */
    float scale;         /* of x */
    const float *weight; /* [width], or NULL for all ones */
    float epsilon;
    void *out; /* [row_count][width], not inside residual */
};
/* Adds a branch to the residual stream and applies the RMS norm of the next branch:
 * out = residual / sqrt(mean(residual^2) + epsilon) * weight. */
enum mr_status mr_cuda_add_rms_norm(const struct mr_cuda_add_norm *norm, void *stream,
                                    struct mr_error *err);

/* ---- norm of q and k, rotary embedding, KV write ---- */
struct mr_cuda_rope_write {
    struct mr_cuda_kv kv;
    uint32_t row_count, head_count;
    const void *qkv;    /* [row_count][q heads, k heads, v heads][head_dim] of kv.type */
    int64_t qkv_stride; /* between rows of qkv */
    /* Weights of the RMS norm of q, [head_count][head_dim], and of k, [kv_head_count][head_dim];
     * NULL: no norm. Only the first norm_width numbers of a head are normed; the rest are
     * padding. */
    const float *q_norm, *k_norm;
    float norm_epsilon;
    uint32_t norm_width;
    bool norm_whole; /* true: one norm over all heads of a row (OLMo 2); false: one for each head */
    /* [position][rotary_dim / 2]. Number i of a head is paired with number i + rotary_dim / 2;
     * numbers from rotary_dim on are not rotated. rotary_dim 0: no rotary embedding. */
    const float *cos, *sin;
    uint32_t rotary_dim;
    const int32_t *positions; /* [row_count] */
    const int64_t *slots;     /* [row_count] block * block_tokens + token; below 0: no KV write */
    void *q;                  /* [row_count][head_count][head_dim], contiguous; not inside qkv */
};
enum mr_status mr_cuda_rope_kv_write(const struct mr_cuda_rope_write *write, void *stream,
                                     struct mr_error *err);

/* ---- activation ---- */
enum mr_cuda_activation { /* formulas: enum mr_cpu_epilogue (ops/cpu_kernels/kernels.h) */
                          MR_CUDA_SILU_MUL,
                          MR_CUDA_GELU_MUL,
                          MR_CUDA_GELU_TANH_MUL,
                          MR_CUDA_SWIGLU_OAI_MUL,
};
struct mr_cuda_gated {
    enum mr_cuda_type type;
    enum mr_cuda_activation activation;
    uint32_t row_count, width;
    const void *gate, *up; /* [row_count][width], rows input_stride apart */
    int64_t input_stride;  /* 2 * width when gate and up are the halves of one matrix */
    void *out;             /* [row_count][width], contiguous */
};
/* out = activation(gate) * up. */
enum mr_status mr_cuda_gated_mul(const struct mr_cuda_gated *gated, void *stream,
                                 struct mr_error *err);

#endif
