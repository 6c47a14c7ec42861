/* tensor_core - products of 16-bit matrices that a warp computes together, loads of their
 * fragments, and copies to shared memory that do not block the thread: PTX ISA, "mma.m16n8k16",
 * "ldmatrix", "cp.async". All lanes of the warp call the products and the loads.
 *
 * A fragment is the part of a matrix that one lane holds, as pairs of neighbouring numbers in 32
 * bits each. With row = lane / 4 and pair = lane % 4 * 2 the fragments are:
 *     a [16][16]  rows row and row + 8 at columns pair, then both rows at columns pair + 8
 *     b [16][8]   column row, at rows pair and pair + 8
 *     c [16][8]   row row at columns pair and pair + 1, then row + 8 at the same columns
 *
 * tests/cuda/host/tensor_core.h has the functions in asm for the host compiler. */
#ifndef MR_OPS_CUDA_TENSOR_CORE_CUH
#define MR_OPS_CUDA_TENSOR_CORE_CUH

#include "ops/cuda/device.cuh"

#ifdef __CUDACC__

/* Starts to copy 16 bytes to shared memory, both aligned to 16. bytes: 16, or 0 for zeros without
 * reading `from`. */
__device__ inline void copy_later(void *to, const void *from, unsigned bytes)
{
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(at), "l"(from), "r"(bytes)
                 : "memory");
}

/* Ends a batch: the copies that the thread has started since the last call. */
__device__ inline void end_batch()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits for all batches of the thread except the last `left`. */
template <int left> __device__ inline void wait_batches()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
}

/* Four matrices of 8 x 8 numbers in shared memory. Lane i passes the address of row i % 8 of matrix
 * i / 8, aligned to 16 bytes, and gets the pair of columns `pair` of row `row` of each matrix. */
__device__ inline void load_matrices(const void *row, unsigned matrices[4])
{
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
                 : "r"(at)
                 : "memory");
}

/* Loads the transposed matrices: the lane gets rows `pair` and pair + 1 of column `row`. */
__device__ inline void load_transposed(const void *row, unsigned matrices[4])
{
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
                 : "r"(at)
                 : "memory");
}

/* c += a * b, in floats. */
template <typename T>
__device__ inline void multiply_add(float c[4], const unsigned a[4], const unsigned b[2]);
#define MULTIPLY_ADD(type, name)                                                                   \
    template <>                                                                                    \
    __device__ inline void multiply_add<type>(float c[4], const unsigned a[4],                     \
                                              const unsigned b[2])                                 \
    {                                                                                              \
        asm("mma.sync.aligned.m16n8k16.row.col.f32." name "." name ".f32 {%0, %1, %2, %3}, "       \
            "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                        \
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                       \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                   \
    }
MULTIPLY_ADD(__half, "f16")
MULTIPLY_ADD(__nv_bfloat16, "bf16")
#undef MULTIPLY_ADD

/* Two numbers minus two numbers. */
template <typename T> __device__ inline unsigned subtract_pairs(unsigned a, unsigned b);
template <> __device__ inline unsigned subtract_pairs<__half>(unsigned a, unsigned b)
{
    unsigned out;
    asm("sub.f16x2 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
    return out;
}
/* sm_80 has no subtraction of bf16: a * 1 + -b. */
template <> __device__ inline unsigned subtract_pairs<__nv_bfloat16>(unsigned a, unsigned b)
{
    unsigned out;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;"
        : "=r"(out)
        : "r"(a), "r"(0x3f803f80u), "r"(b ^ 0x80008000u));
    return out;
}

#else
#include <tensor_core.h>
#endif

/* Two neighbouring numbers of a fragment. */
template <typename T> struct alignas(4) pair {
    T low, high;
};
template <typename T> __device__ inline unsigned pair_bits(T low, T high)
{
    const pair<T> numbers = {low, high};
    unsigned bits;
    memcpy(&bits, &numbers, sizeof bits);
    return bits;
}

#endif
