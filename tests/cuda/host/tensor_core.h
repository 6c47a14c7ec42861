/* tensor_core - the functions of ops/cuda/tensor_core.cuh that are machine instructions on a card,
 * for the host compiler. */
#ifndef MR_TESTS_CUDA_TENSOR_CORE_H
#define MR_TESTS_CUDA_TENSOR_CORE_H

/* The copy runs when the thread waits for it, so that a kernel that reads too early reads the old
 * content. */
inline void copy_later(void *to, const void *from, unsigned bytes)
{
    grid_copy_later(to, from, bytes, 16);
}

inline void end_batch()
{
    grid_end_batch();
}

template <int left> void wait_batches()
{
    grid_copy_batches(left);
}

#define AT const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline const unsigned char *grid_matrix_row(uint64_t address)
{
    return reinterpret_cast<const unsigned char *>(address);
}

inline void load_matrices(const void *row, unsigned matrices[4], AT)
{
    const uint64_t *rows = grid_exchange(ALL_LANES, reinterpret_cast<uint64_t>(row), file, line);
    for (unsigned i = 0; i < 4; i++)
        std::memcpy(&matrices[i],
                    grid_matrix_row(rows[i * 8 + grid_lane() / 4]) + grid_lane() % 4 * 4, 4);
}

inline void load_transposed(const void *row, unsigned matrices[4], AT)
{
    const uint64_t *rows = grid_exchange(ALL_LANES, reinterpret_cast<uint64_t>(row), file, line);
    for (unsigned i = 0; i < 4; i++) {
        uint16_t numbers[2];
        for (unsigned k = 0; k < 2; k++)
            std::memcpy(
                &numbers[k],
                grid_matrix_row(rows[i * 8 + grid_lane() % 4 * 2 + k]) + grid_lane() / 4 * 2, 2);
        std::memcpy(&matrices[i], numbers, sizeof numbers);
    }
}

/* Number `index` (0 or 1) of 32 bits of a fragment, of which `words` has two. */
template <typename T> float grid_number(uint64_t words, unsigned word, unsigned index)
{
    T number;
    const uint16_t bits = static_cast<uint16_t>(words >> (word * 32 + index * 16));
    std::memcpy(&number, &bits, sizeof number);
    return to_float(number);
}

template <typename T> unsigned subtract_pairs(unsigned a, unsigned b)
{
    unsigned out = 0;
    for (unsigned i = 0; i < 2; i++) {
        const T number = from_float<T>(grid_number<T>(a, 0, i) - grid_number<T>(b, 0, i));
        out |= static_cast<unsigned>(number.bits) << i * 16;
    }
    return out;
}

template <typename T> void multiply_add(float c[4], const unsigned a[4], const unsigned b[2], AT)
{
    const uint64_t mine[3] = {a[0] | uint64_t{a[1]} << 32, a[2] | uint64_t{a[3]} << 32,
                              b[0] | uint64_t{b[1]} << 32};
    uint64_t all[3][GRID_WARP];
    for (unsigned i = 0; i < 3; i++)
        std::memcpy(all[i], grid_exchange(ALL_LANES, mine[i], file, line), sizeof all[i]);
    const unsigned row = grid_lane() / 4, column = grid_lane() % 4 * 2;
    for (unsigned k = 0; k < 16; k++) {
        const unsigned lane = k % 8 / 2, half = k / 8, index = k % 2;
        for (unsigned i = 0; i < 4; i++)
            c[i] += grid_number<T>(all[half][row * 4 + lane], i / 2, index) *
                    grid_number<T>(all[2][(column + i % 2) * 4 + lane], half, index);
    }
}

#undef AT

#endif
