/* Residual and norm, activation: see cuda_kernels.h. */
#include "ops/cuda/device.cuh"

#define ROW_THREADS 256u

/* ---- residual and norm ---- */

/* Grid: rows. A thread owns every blockDim-th pack of the row in both passes, so it reads back only
 * its own writes. Shared memory: 32 floats. */
template <typename T>
__global__ __launch_bounds__(ROW_THREADS) void add_rms_norm(struct mr_cuda_add_norm norm)
{
    const size_t begin = static_cast<size_t>(blockIdx.x) * norm.width;
    const T *x = norm.x ? static_cast<const T *>(norm.x) + begin : nullptr;
    float *residual = norm.residual + begin;
    T *out = static_cast<T *>(norm.out) + begin;
    float squares = 0.0f, numbers[PACK], added[PACK];
    for (unsigned i = threadIdx.x * PACK; i < norm.width; i += blockDim.x * PACK) {
        load_pack(residual + i, numbers);
        if (x) {
            load_pack(x + i, added);
            for (unsigned k = 0; k < PACK; k++)
                numbers[k] += norm.scale * added[k];
            store_pack(residual + i, numbers);
        }
        for (unsigned k = 0; k < PACK; k++)
            squares += numbers[k] * numbers[k];
    }
    squares = block_sum(squares, reinterpret_cast<float *>(mr_cuda_shared));
    const float factor = 1.0f / sqrtf(squares / static_cast<float>(norm.width) + norm.epsilon);
    for (unsigned i = threadIdx.x * PACK; i < norm.width; i += blockDim.x * PACK) {
        load_pack(residual + i, numbers);
        for (unsigned k = 0; k < PACK; k++)
            numbers[k] *= factor * (norm.weight ? norm.weight[i + k] : 1.0f);
        store_pack(out + i, numbers);
    }
}

/* Errors: MR_UNSUPPORTED. */
static enum mr_status check_width(unsigned width, struct mr_error *err)
{
    if (width == 0 || width % PACK != 0)
        return mr_fail(err, MR_UNSUPPORTED, "width %u is not a multiple of %u", width, PACK);
    return MR_OK;
}

enum mr_status mr_cuda_check_device(struct mr_error *err)
{
    cudaFuncAttributes attributes;
    const cudaError_t code = cudaFuncGetAttributes(&attributes, add_rms_norm<float>);
    if (code == cudaSuccess) return MR_OK;
    (void)cudaGetLastError(); /* else LibTorch would report the error as its own */
    return mr_fail(err, MR_UNSUPPORTED, "the CUDA kernels were not compiled for this card: %s",
                   cudaGetErrorString(code));
}

enum mr_status mr_cuda_add_rms_norm(const struct mr_cuda_add_norm *norm, void *stream,
                                    struct mr_error *err)
{
    if (norm->row_count == 0) return MR_OK;
    if (check_width(norm->width, err) != MR_OK) return MR_UNSUPPORTED;
    if (!is_aligned(norm->x) || !is_aligned(norm->residual) || !is_aligned(norm->out))
        return mr_fail(err, MR_UNSUPPORTED, "x, residual or out is not aligned");
    const unsigned needed = ceil_div(norm->width / PACK, WARP) * WARP;
    const unsigned threads = needed < ROW_THREADS ? needed : ROW_THREADS;
    return with_type(norm->type, [&](auto number) {
        return launch("add_rms_norm",
                      launch_shape(dim3(norm->row_count), threads, WARP * sizeof(float), stream),
                      add_rms_norm<decltype(number)>, err, *norm);
    });
}

/* ---- activation ---- */

__device__ inline float activate(enum mr_cuda_activation activation, float gate, float up)
{
    switch (activation) {
    case MR_CUDA_SILU_MUL:
        return gate / (1.0f + expf(-gate)) * up;
    case MR_CUDA_GELU_MUL:
        return 0.5f * gate * (1.0f + erff(gate * 0.70710678f)) * up;
    case MR_CUDA_GELU_TANH_MUL:
        return 0.5f * gate * up *
               (1.0f + tanhf(0.79788456f * (gate + 0.044715f * gate * gate * gate)));
    case MR_CUDA_SWIGLU_OAI_MUL:
        break;
    }
    gate = fminf(gate, 7.0f);
    up = fminf(fmaxf(up, -7.0f), 7.0f);
    return gate / (1.0f + expf(-1.702f * gate)) * (up + 1.0f);
}

/* Grid: rows, parts of a row. A thread computes one pack. */
template <typename T>
__global__ __launch_bounds__(ROW_THREADS) void gated_mul(struct mr_cuda_gated gated)
{
    const unsigned i = (blockIdx.y * ROW_THREADS + threadIdx.x) * PACK;
    if (i >= gated.width) return;
    const int64_t begin = blockIdx.x * gated.input_stride + i;
    float gate[PACK], up[PACK];
    load_pack(static_cast<const T *>(gated.gate) + begin, gate);
    load_pack(static_cast<const T *>(gated.up) + begin, up);
    for (unsigned k = 0; k < PACK; k++)
        gate[k] = activate(gated.activation, gate[k], up[k]);
    store_pack(static_cast<T *>(gated.out) + static_cast<size_t>(blockIdx.x) * gated.width + i,
               gate);
}

enum mr_status mr_cuda_gated_mul(const struct mr_cuda_gated *gated, void *stream,
                                 struct mr_error *err)
{
    if (gated->row_count == 0) return MR_OK;
    if (check_width(gated->width, err) != MR_OK) return MR_UNSUPPORTED;
    if (gated->input_stride % PACK || !is_aligned(gated->gate) || !is_aligned(gated->up) ||
        !is_aligned(gated->out))
        return mr_fail(err, MR_UNSUPPORTED, "gate, up, out or input_stride is not aligned");
    const dim3 grid(gated->row_count, ceil_div(gated->width, ROW_THREADS * PACK));
    return with_type(gated->type, [&](auto number) {
        return launch("gated_mul", launch_shape(grid, ROW_THREADS, 0, stream),
                      gated_mul<decltype(number)>, err, *gated);
    });
}
