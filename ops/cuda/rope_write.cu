/* Norm of q and k, rotary embedding, KV write: see cuda_kernels.h. */
#include "ops/cuda/device.cuh"

#define ROPE_WARPS 4u
#define HEAD_MAX   256u /* most numbers of a head: one pack for each lane */

/* Returns the sum of the squares of a head's first norm_width numbers. The lane's pack starts at
 * number `at`. */
template <typename T>
__device__ inline float head_squares(const struct mr_cuda_rope_write &write, const T *head,
                                     unsigned at)
{
    float numbers[PACK], squares = 0.0f;
    if (at < write.kv.head_dim) {
        load_pack(head + at, numbers);
        for (unsigned k = 0; k < PACK; k++)
            if (at + k < write.norm_width) squares += numbers[k] * numbers[k];
    }
    return warp_sum(squares);
}

/* Returns the factor of the numbers of a head, which is applied before the weights of the norm.
 * first: the first of the `heads` heads of q, or of k, in the row. */
template <typename T>
__device__ inline float norm_factor(const struct mr_cuda_rope_write &write, const T *head,
                                    const T *first, unsigned heads, unsigned at)
{
    float squares = 0.0f, count = static_cast<float>(write.norm_width);
    if (write.norm_whole) {
        for (unsigned i = 0; i < heads; i++)
            squares += head_squares(write, first + i * write.kv.head_dim, at);
        count *= static_cast<float>(heads);
    } else {
        squares = head_squares(write, head, at);
    }
    return 1.0f / sqrtf(squares / count + write.norm_epsilon);
}

/* Rotates the lane's pack. shared: [head_dim] of the warp. */
__device__ inline void rotate(const struct mr_cuda_rope_write &write, unsigned row, unsigned at,
                              float *shared, float *numbers)
{
    const unsigned half = write.rotary_dim / 2;
    const size_t angles = static_cast<size_t>(write.positions[row]) * half;
    if (at < write.kv.head_dim)
        for (unsigned k = 0; k < PACK; k++)
            shared[at + k] = numbers[k];
    __syncwarp();
    for (unsigned k = 0; k < PACK; k++) {
        const unsigned i = at + k;
        if (i >= write.rotary_dim) break;
        const unsigned pair = i < half ? i : i - half;
        const float cosine = write.cos[angles + pair], sine = write.sin[angles + pair];
        numbers[k] = i < half ? numbers[k] * cosine - shared[i + half] * sine
                              : numbers[k] * cosine + shared[i - half] * sine;
    }
}

/* Returns the place of K or V of a head of this row in the pool; NULL: not written. */
template <typename T>
__device__ inline T *kv_place(const struct mr_cuda_kv &kv, void *base, int64_t slot, unsigned head)
{
    if (slot < 0) return nullptr;
    return static_cast<T *>(base) + slot / kv.block_tokens * kv.block_stride +
           head * kv.head_stride + slot % kv.block_tokens * kv.token_stride;
}

/* Grid: rows, groups of ROPE_WARPS heads of q, k and v. A warp computes one head. Shared memory:
 * [ROPE_WARPS][HEAD_MAX] floats. */
template <typename T>
__global__ __launch_bounds__(ROPE_WARPS *WARP) void rope_write(struct mr_cuda_rope_write write)
{
    const unsigned dim = write.kv.head_dim, kv_heads = write.kv.kv_head_count;
    const unsigned warp = threadIdx.x / WARP, at = threadIdx.x % WARP * PACK;
    const unsigned index = blockIdx.y * ROPE_WARPS + warp, row = blockIdx.x;
    if (index >= write.head_count + 2 * kv_heads) return;
    const bool is_q = index < write.head_count;
    const bool is_v = index >= write.head_count + kv_heads;
    const unsigned first_index = is_q ? 0 : write.head_count;
    const unsigned head = is_v ? index - write.head_count - kv_heads : index - first_index;
    const T *qkv = static_cast<const T *>(write.qkv) + row * write.qkv_stride;
    const T *from = qkv + static_cast<size_t>(index) * dim;
    const float *weights = is_q ? write.q_norm : is_v ? nullptr : write.k_norm;
    float numbers[PACK] = {};
    if (at < dim) load_pack(from + at, numbers);
    if (weights) {
        const float factor = norm_factor(write, from, qkv + static_cast<size_t>(first_index) * dim,
                                         is_q ? write.head_count : kv_heads, at);
        for (unsigned k = 0; k < PACK; k++)
            if (at + k < write.norm_width) numbers[k] *= factor * weights[head * dim + at + k];
    }
    if (!is_v && write.rotary_dim > 0)
        rotate(write, row, at, reinterpret_cast<float *>(mr_cuda_shared) + warp * HEAD_MAX,
               numbers);
    T *to =
        is_q
            ? static_cast<T *>(write.q) + (static_cast<size_t>(row) * write.head_count + head) * dim
            : kv_place<T>(write.kv, is_v ? write.kv.values : write.kv.keys, write.slots[row], head);
    if (to && at < dim) store_pack(to + at, numbers);
}

enum mr_status mr_cuda_rope_kv_write(const struct mr_cuda_rope_write *write, void *stream,
                                     struct mr_error *err)
{
    if (write->row_count == 0) return MR_OK;
    if (check_kv(&write->kv, err) != MR_OK) return MR_UNSUPPORTED;
    if (write->qkv_stride % PACK || !is_aligned(write->qkv) || !is_aligned(write->q))
        return mr_fail(err, MR_UNSUPPORTED, "qkv, q or qkv_stride is not aligned");
    if (write->rotary_dim > write->kv.head_dim || write->rotary_dim % 2 != 0)
        return mr_fail(err, MR_UNSUPPORTED, "rotary_dim %u is odd or above head_dim %u",
                       write->rotary_dim, write->kv.head_dim);
    if ((write->q_norm || write->k_norm) &&
        (write->norm_width == 0 || write->norm_width > write->kv.head_dim))
        return mr_fail(err, MR_UNSUPPORTED, "norm_width %u is 0 or above head_dim %u",
                       write->norm_width, write->kv.head_dim);
    const unsigned heads = write->head_count + 2 * write->kv.kv_head_count;
    const dim3 grid(write->row_count, ceil_div(heads, ROPE_WARPS));
    const size_t shared_bytes = ROPE_WARPS * HEAD_MAX * sizeof(float);
    return with_type(write->kv.type, [&](auto number) {
        return launch("rope_write", launch_shape(grid, ROPE_WARPS * WARP, shared_bytes, stream),
                      rope_write<decltype(number)>, err, *write);
    });
}
