/* Products with weights of 4 or 8 bits, and their conversion: see quantized_kernels.h.
 *
 * A warp computes the outputs of one or two tiles for up to 64 rows of x: the weights are the side
 * of 16 of a product, the rows of x the side of 8, so that a single row wastes little. The warps of
 * a thread block share the rows of x. Tiles and x are copied to shared memory several tiles ahead.
 * The products of a group are added in a float of their own, which is then multiplied by the
 * group's scale: so the weights are exact, and a scale costs one operation for each output and row
 * instead of one for each weight. A low is multiplied by the sum of x in its group, which the
 * product with a matrix of ones computes in the registers in which it is needed. */
#include "ops/cuda/weight_codes.cuh"

#define PRODUCT_WARPS   4u
#define PRODUCT_THREADS (PRODUCT_WARPS * WARP)
#define X_ROW_BYTES     (MR_TILE_INPUTS * 2 + 16) /* eight rows lie in different banks */
#define TILE_BYTES_MAX  640u                      /* of codes of 4 bits, with lows */
#define BYTE_TILE_MAX   1152u                     /* of codes of 8 bits */
/* Runs are as many as make this number of thread blocks for one tile of rows, each of RUN_TILES
 * tiles or more. Too few blocks do not keep a card's memory busy. */
#define BLOCKS_WANTED 264u
#define RUN_TILES     8u
#define RUNS_MAX      8u

/* ---- shapes, on the host and in kernels ---- */

/* Tiles of outputs that a warp computes at once. */
template <enum mr_cuda_code CODE> constexpr unsigned warp_tiles = CODE == MR_CUDA_U8 ? 1 : 2;
template <enum mr_cuda_code CODE>
constexpr unsigned warp_bytes = CODE == MR_CUDA_U8 ? BYTE_TILE_MAX : 2 * TILE_BYTES_MAX;
/* Copies in flight; with 64 rows one less, for the size of shared memory. */
template <unsigned ROW_TILES> constexpr unsigned stages = ROW_TILES == 8 ? 3 : 4;
template <unsigned ROW_TILES> constexpr unsigned x_bytes = ROW_TILES * 8 * X_ROW_BYTES;
template <enum mr_cuda_code CODE, unsigned ROW_TILES>
constexpr unsigned stage_bytes = x_bytes<ROW_TILES> + PRODUCT_WARPS *warp_bytes<CODE>;

__host__ __device__ static inline unsigned tiles_of(unsigned size, unsigned by)
{
    return (size + by - 1) / by;
}

static unsigned block_outputs(const struct mr_cuda_tiles *weights)
{
    const unsigned tiles =
        weights->code == MR_CUDA_U8 ? warp_tiles<MR_CUDA_U8> : warp_tiles<MR_CUDA_U4>;
    return tiles * PRODUCT_WARPS * MR_TILE_OUTPUTS;
}

/* Depends on the shape of the layer only. */
static unsigned run_count(const struct mr_cuda_tiles *weights)
{
    const unsigned blocks = tiles_of(weights->out_size, block_outputs(weights));
    const unsigned wanted = tiles_of(BLOCKS_WANTED, blocks);
    const unsigned most = tiles_of(weights->in_size, MR_TILE_INPUTS * RUN_TILES);
    return wanted < most ? (wanted < RUNS_MAX ? wanted : RUNS_MAX)
                         : (most < RUNS_MAX ? most : RUNS_MAX);
}

/* ---- the sums of a run ---- */

/* What a thread block computes: outputs of one expert, rows [row, row + rows) of x, and a run of
 * tiles of inputs. */
struct product_work {
    unsigned expert, first_tile; /* first_tile: of the warp's outputs */
    unsigned row, row_end;       /* rows of x: of the tile, and the end of those of the expert */
    unsigned begin, end;         /* tiles of inputs */
    unsigned tile_bytes;
};

/* Starts to copy rows of x, with zeros beyond the rows and beyond the inputs. */
template <typename T, unsigned ROW_TILES>
__device__ inline void copy_x(const struct mr_cuda_quantized &product,
                              const struct product_work &work, unsigned tile, unsigned char *to)
{
    const unsigned column = threadIdx.x % 8 * PACK, input = tile * MR_TILE_INPUTS + column;
#pragma unroll
    for (unsigned i = threadIdx.x / 8; i < ROW_TILES * 8; i += PRODUCT_THREADS / 8) {
        const unsigned row = work.row + i;
        const bool live = row < work.row_end && input < product.weights.in_size;
        const T *from = static_cast<const T *>(product.x);
        if (live) from += row * product.x_stride + input;
        copy_later(to + i * X_ROW_BYTES + column * 2, from, live ? 16 : 0);
    }
}

/* Starts to copy the tiles of the warp, with zeros beyond the outputs. */
template <enum mr_cuda_code CODE>
__device__ inline void copy_tiles(const struct mr_cuda_tiles &weights,
                                  const struct product_work &work, unsigned tile, unsigned char *to)
{
    const unsigned outputs = tiles_of(weights.out_size, MR_TILE_OUTPUTS);
    const unsigned inputs = tiles_of(weights.in_size, MR_TILE_INPUTS);
#pragma unroll
    for (unsigned i = 0; i < warp_tiles<CODE>; i++) {
        const bool live = work.first_tile + i < outputs;
        const unsigned char *from = static_cast<const unsigned char *>(weights.bytes);
        if (live)
            from +=
                (static_cast<size_t>(work.expert * outputs + work.first_tile + i) * inputs + tile) *
                work.tile_bytes;
        for (unsigned at = threadIdx.x % WARP * 16; at < work.tile_bytes; at += WARP * 16)
            copy_later(to + i * work.tile_bytes + at, live ? from + at : from, live ? 16 : 0);
    }
}

/* The sums of a lane: of each tile of the warp and 8 rows of x a c fragment. */
template <enum mr_cuda_code CODE, unsigned ROW_TILES> struct product_sums {
    float numbers[warp_tiles<CODE>][ROW_TILES][4];
};

/* The weights of a lane in 32 inputs of one tile. */
struct tile_group {
    unsigned a[2][4];
    float scales[2][2]; /* of each 16 inputs: of outputs lane / 4 and lane / 4 + 8 */
    float lows[2];
};

template <typename T, enum mr_cuda_code CODE>
__device__ inline void read_group(const struct mr_cuda_tiles &weights, const unsigned char *tile,
                                  unsigned half, struct tile_group *group)
{
    const unsigned lane = threadIdx.x % WARP;
    constexpr unsigned words = CODE == MR_CUDA_U8 ? 4 : 2; /* of the lane in 32 inputs */
    unsigned code[words];
    const unsigned at = CODE == MR_CUDA_U8 ? (half * WARP + lane) * 16 : lane * 16 + half * 8;
#pragma unroll
    for (unsigned i = 0; i < words; i++)
        code[i] = *reinterpret_cast<const unsigned *>(tile + at + i * 4);
#pragma unroll
    for (unsigned i = 0; i < 2; i++)
        codes<T, CODE>::read(code + i * words / 2, weights.zero, group->a[i]);
    const unsigned each = weights.lows ? 2 : 1; /* numbers of an output */
    const unsigned short *scales = reinterpret_cast<const unsigned short *>(
        tile + MR_TILE_OUTPUTS * MR_TILE_INPUTS / (CODE == MR_CUDA_U8 ? 1 : 2));
#pragma unroll
    for (unsigned i = 0; i < 2; i++) {
        const unsigned index = CODE == MR_CUDA_U8 && weights.group == 16 ? half * 2 + i : half;
        const unsigned short *of = scales + (index * 8 + lane / 4) * 2 * each;
        group->scales[i][0] = scale_float<CODE>(of[0]);
        group->scales[i][1] = scale_float<CODE>(of[each]);
        group->lows[0] = weights.lows ? scale_float<CODE>(of[1]) : 0.0f;
        group->lows[1] = weights.lows ? scale_float<CODE>(of[3]) : 0.0f;
    }
}

/* Adds 32 inputs of a tile for 8 rows of x, whose fragments are x. */
template <typename T, enum mr_cuda_code CODE>
__device__ inline void add_group(const struct tile_group &group, const unsigned x[4], float sums[4])
{
    float first[4] = {}, second[4] = {};
    multiply_add<T>(first, group.a[0], x);
    multiply_add<T>(CODE == MR_CUDA_U8 ? second : first, group.a[1], x + 2);
#pragma unroll
    for (unsigned i = 0; i < 4; i++) {
        sums[i] += group.scales[0][i / 2] * first[i];
        if (CODE == MR_CUDA_U8) sums[i] += group.scales[1][i / 2] * second[i];
    }
}

/* sums[0] and [1]: of x in 32 inputs, of the two rows of x of a c fragment of the lane. */
template <typename T> __device__ inline void sum_x(const unsigned x[4], float sums[2])
{
    const unsigned one = pair_bits(from_float<T>(1.0f), from_float<T>(1.0f));
    const unsigned ones[4] = {one, one, one, one};
    float c[4] = {};
    multiply_add<T>(c, ones, x);
    multiply_add<T>(c, ones, x + 2);
    sums[0] = c[0];
    sums[1] = c[1];
}

/* Adds a tile of inputs. x: [row][inputs] in shared memory. */
template <typename T, enum mr_cuda_code CODE, unsigned ROW_TILES>
__device__ inline void add_tile(const struct mr_cuda_tiles &weights, unsigned tile_bytes,
                                const unsigned char *x, const unsigned char *tiles,
                                struct product_sums<CODE, ROW_TILES> *sums)
{
    const unsigned lane = threadIdx.x % WARP;
#pragma unroll
    for (unsigned half = 0; half < 2; half++) {
        struct tile_group groups[warp_tiles<CODE>];
#pragma unroll
        for (unsigned i = 0; i < warp_tiles<CODE>; i++)
            read_group<T, CODE>(weights, tiles + i * tile_bytes, half, &groups[i]);
#pragma unroll
        for (unsigned rows = 0; rows < ROW_TILES; rows++) {
            unsigned fragments[4];
            load_matrices(x + (rows * 8 + lane % 8) * X_ROW_BYTES + (half * 4 + lane / 8) * 16,
                          fragments);
            float sums_of_x[2] = {};
            if (weights.lows) sum_x<T>(fragments, sums_of_x);
#pragma unroll
            for (unsigned i = 0; i < warp_tiles<CODE>; i++) {
                float *numbers = sums->numbers[i][rows];
                add_group<T, CODE>(groups[i], fragments, numbers);
                if (weights.lows)
                    for (unsigned k = 0; k < 4; k++)
                        numbers[k] += groups[i].lows[k / 2] * sums_of_x[k % 2];
            }
        }
    }
}

/* Adds the tiles of the run. */
template <typename T, enum mr_cuda_code CODE, unsigned ROW_TILES>
__device__ inline void add_run(const struct mr_cuda_quantized &product,
                               const struct product_work &work,
                               struct product_sums<CODE, ROW_TILES> *sums)
{
    constexpr unsigned ahead = stages<ROW_TILES> - 1;
    const unsigned mine = x_bytes<ROW_TILES> + threadIdx.x / WARP * warp_bytes<CODE>;
    const auto copy = [&](unsigned tile) {
        if (tile < work.end) {
            unsigned char *stage = mr_cuda_shared + (tile - work.begin) % stages<ROW_TILES> *
                                                        stage_bytes<CODE, ROW_TILES>;
            copy_x<T, ROW_TILES>(product, work, tile, stage);
            copy_tiles<CODE>(product.weights, work, tile, stage + mine);
        }
        end_batch();
    };
    for (unsigned i = 0; i < ahead; i++)
        copy(work.begin + i);
    for (unsigned tile = work.begin; tile < work.end; tile++) {
        wait_batches<ahead - 1>();
        __syncthreads(); /* all copies of the tile are complete, and the tile before it is used */
        copy(tile + ahead);
        const unsigned char *stage =
            mr_cuda_shared + (tile - work.begin) % stages<ROW_TILES> * stage_bytes<CODE, ROW_TILES>;
        add_tile<T, CODE, ROW_TILES>(product.weights, work.tile_bytes, stage, stage + mine, sums);
    }
    __syncthreads(); /* the next rows reuse the memory */
}

/* Writes the sums: to y if there is one run, else to the run's part of the scratch memory. */
template <typename T, enum mr_cuda_code CODE, unsigned ROW_TILES>
__device__ inline void store_sums(const struct mr_cuda_quantized &product,
                                  const struct product_work &work,
                                  const struct product_sums<CODE, ROW_TILES> &sums)
{
    const unsigned lane = threadIdx.x % WARP, out_size = product.weights.out_size;
    const size_t run = static_cast<size_t>(blockIdx.y) * product.row_count * out_size;
#pragma unroll
    for (unsigned i = 0; i < warp_tiles<CODE>; i++)
#pragma unroll
        for (unsigned rows = 0; rows < ROW_TILES; rows++)
#pragma unroll
            for (unsigned k = 0; k < 4; k++) {
                const unsigned out = (work.first_tile + i) * MR_TILE_OUTPUTS + lane / 4 + k / 2 * 8;
                const unsigned row = work.row + rows * 8 + lane % 4 * 2 + k % 2;
                const float number = sums.numbers[i][rows][k];
                if (out >= out_size || row >= work.row_end) continue;
                if (gridDim.y > 1)
                    product.scratch[run + static_cast<size_t>(row) * out_size + out] = number;
                else
                    static_cast<T *>(product.y)[row * product.y_stride + out] =
                        from_float<T>(number);
            }
}

/* Grid: outputs, runs, experts. A thread block goes through the rows of its expert. */
template <typename T, enum mr_cuda_code CODE, unsigned ROW_TILES>
__global__ __launch_bounds__(PRODUCT_THREADS,
                             2) void multiply_tiles(struct mr_cuda_quantized product,
                                                    unsigned tile_bytes)
{
    struct product_work work;
    const unsigned inputs = tiles_of(product.weights.in_size, MR_TILE_INPUTS);
    work.expert = blockIdx.z;
    work.first_tile = (blockIdx.x * PRODUCT_WARPS + threadIdx.x / WARP) * warp_tiles<CODE>;
    work.begin = inputs * blockIdx.y / gridDim.y;
    work.end = inputs * (blockIdx.y + 1) / gridDim.y;
    work.row = 0;
    work.row_end = product.row_count;
    work.tile_bytes = tile_bytes;
    if (product.ends) {
        if (work.expert > 0) work.row = static_cast<unsigned>(product.ends[work.expert - 1]);
        work.row_end = static_cast<unsigned>(product.ends[work.expert]);
    }
    for (; work.row < work.row_end; work.row += ROW_TILES * 8) {
        struct product_sums<CODE, ROW_TILES> sums = {
        };
        add_run<T, CODE, ROW_TILES>(product, work, &sums);
        store_sums<T, CODE, ROW_TILES>(product, work, sums);
    }
}

/* Grid: rows, parts of a row. Adds the sums of the runs, from the first to the last. */
template <typename T>
__global__ __launch_bounds__(PRODUCT_THREADS) void add_runs(struct mr_cuda_quantized product,
                                                            unsigned runs)
{
    const unsigned out = blockIdx.y * PRODUCT_THREADS + threadIdx.x;
    const size_t out_size = product.weights.out_size;
    if (out >= out_size) return;
    float sum = 0.0f;
    for (unsigned run = 0; run < runs; run++)
        sum +=
            product.scratch[(static_cast<size_t>(run) * product.row_count + blockIdx.x) * out_size +
                            out];
    static_cast<T *>(product.y)[blockIdx.x * product.y_stride + out] = from_float<T>(sum);
}

size_t mr_cuda_quantized_scratch_bytes(const struct mr_cuda_quantized *product)
{
    const size_t runs = run_count(&product->weights);
    return runs > 1 ? runs * product->row_count * product->weights.out_size * sizeof(float) : 0;
}

/* Errors: MR_UNSUPPORTED. */
static enum mr_status check_tiles(const struct mr_cuda_tiles *weights, struct mr_error *err)
{
    const bool bytes = weights->code == MR_CUDA_U8;
    if (weights->in_size == 0 || weights->in_size % PACK != 0)
        return mr_fail(err, MR_UNSUPPORTED, "in_size %u is not a multiple of %u", weights->in_size,
                       PACK);
    if (weights->group != 32 && (weights->group != 16 || !bytes || weights->lows))
        return mr_fail(err, MR_UNSUPPORTED, "group %u is not 32, or 16 with 8 bits without lows",
                       weights->group);
    if (weights->zero > (bytes ? 128u : 15u) ||
        (weights->code == MR_CUDA_FP4 && (weights->lows || weights->zero > 0)))
        return mr_fail(err, MR_UNSUPPORTED, "zero %u or lows do not fit the code", weights->zero);
    if (!is_aligned(weights->bytes))
        return mr_fail(err, MR_UNSUPPORTED, "the tiles are not aligned");
    return MR_OK;
}

/* Calls run with the code as a type, and returns its status. */
template <enum mr_cuda_code CODE> struct code_of {
    static constexpr enum mr_cuda_code code = CODE;
};
template <typename F> static enum mr_status with_code(enum mr_cuda_code code, const F &run)
{
    switch (code) {
    case MR_CUDA_U4:
        return run(code_of<MR_CUDA_U4>());
    case MR_CUDA_FP4:
        return run(code_of<MR_CUDA_FP4>());
    case MR_CUDA_U8:
        break;
    }
    return run(code_of<MR_CUDA_U8>());
}

template <typename T, enum mr_cuda_code CODE, unsigned ROW_TILES>
static enum mr_status enqueue_product(const struct mr_cuda_quantized &product, void *stream,
                                      struct mr_error *err)
{
    const unsigned runs = run_count(&product.weights);
    const dim3 grid(tiles_of(product.weights.out_size, block_outputs(&product.weights)), runs,
                    product.ends ? product.expert_count : 1);
    const size_t shared = stages<ROW_TILES> * stage_bytes<CODE, ROW_TILES>;
    enum mr_status status = launch(
        "multiply_tiles", launch_shape(grid, PRODUCT_THREADS, shared, stream),
        multiply_tiles<T, CODE, ROW_TILES>, err, product, mr_cuda_tile_bytes(&product.weights));
    if (status != MR_OK || runs == 1) return status;
    const dim3 parts(product.row_count, tiles_of(product.weights.out_size, PRODUCT_THREADS));
    return launch("add_runs", launch_shape(parts, PRODUCT_THREADS, 0, stream), add_runs<T>, err,
                  product, runs);
}

enum mr_status mr_cuda_quantized_product(const struct mr_cuda_quantized *product, void *stream,
                                         struct mr_error *err)
{
    const struct mr_cuda_quantized call = *product;
    if (call.row_count == 0) return MR_OK;
    if (call.type == MR_CUDA_F32)
        return mr_fail(err, MR_UNSUPPORTED, "x has floats, not numbers of 16 bits");
    if (check_tiles(&call.weights, err) != MR_OK) return MR_UNSUPPORTED;
    if (call.x_stride % PACK || !is_aligned(call.x))
        return mr_fail(err, MR_UNSUPPORTED, "x or x_stride is not aligned");
    /* Twice the mean of an expert, so that most experts need one tile of rows. */
    const unsigned rows =
        call.ends ? tiles_of(2 * call.row_count, call.expert_count) : call.row_count;
    return with_code(call.weights.code, [&](auto code) {
        constexpr enum mr_cuda_code CODE = decltype(code)::code;
        const auto run = [&](auto number) {
            using T = decltype(number);
            if (rows <= 8) return enqueue_product<T, CODE, 1>(call, stream, err);
            if (rows <= 32) return enqueue_product<T, CODE, 4>(call, stream, err);
            return enqueue_product<T, CODE, 8>(call, stream, err);
        };
        return call.type == MR_CUDA_F16 ? run(__half()) : run(__nv_bfloat16());
    });
}

/* ---- numbers ---- */

#define UNPACK_THREADS 128u

/* Grid: rows, parts of a row. A thread writes 8 neighbouring inputs, whose codes four lanes of a
 * warp of the product hold. */
template <typename T, enum mr_cuda_code CODE>
__global__ __launch_bounds__(UNPACK_THREADS) void unpack_tiles(struct mr_cuda_unpack unpack,
                                                               unsigned tile_bytes)
{
    const struct mr_cuda_tiles &weights = unpack.weights;
    const unsigned input = (blockIdx.y * UNPACK_THREADS + threadIdx.x) * PACK;
    if (input >= weights.in_size) return;
    const size_t id = unpack.ids ? static_cast<size_t>(unpack.ids[blockIdx.x]) : blockIdx.x;
    const unsigned output = static_cast<unsigned>(id % weights.out_size);
    const size_t outputs = id / weights.out_size * tiles_of(weights.out_size, MR_TILE_OUTPUTS) +
                           output / MR_TILE_OUTPUTS;
    const unsigned char *tile =
        static_cast<const unsigned char *>(weights.bytes) +
        (outputs * tiles_of(weights.in_size, MR_TILE_INPUTS) + input / MR_TILE_INPUTS) * tile_bytes;
    const unsigned j = input % MR_TILE_INPUTS / 16;
    const unsigned pair = output / 8 % 2 + input / 8 % 2 * 2; /* i in quantized_kernels.h */
    const unsigned short *scales = reinterpret_cast<const unsigned short *>(
        tile + MR_TILE_OUTPUTS * MR_TILE_INPUTS / (CODE == MR_CUDA_U8 ? 1 : 2));
    const unsigned each = weights.lows ? 2 : 1;
    scales +=
        (input % MR_TILE_INPUTS / weights.group * 16 + output % 8 * 2 + output / 8 % 2) * each;
    const float scale = scale_float<CODE>(scales[0]);
    const float low = weights.lows ? scale_float<CODE>(scales[1]) : 0.0f;
    float numbers[PACK];
#pragma unroll
    for (unsigned i = 0; i < PACK / 2; i++) {
        const unsigned lane = output % 8 * 4 + i;
        const unsigned at =
            CODE == MR_CUDA_U8 ? ((j / 2 * WARP + lane) * 2 + j % 2) * 8 : (lane * 4 + j) * 4;
        unsigned words[2], a[4];
        words[0] = *reinterpret_cast<const unsigned *>(tile + at);
        words[1] = CODE == MR_CUDA_U8 ? *reinterpret_cast<const unsigned *>(tile + at + 4) : 0;
        /* halves hold every code exactly */
        codes<__half, CODE>::read(words, weights.zero, a);
        const unsigned bits = pair == 0 ? a[0] : pair == 1 ? a[1] : pair == 2 ? a[2] : a[3];
        numbers[2 * i] = fmaf(half_float(bits), scale, low);
        numbers[2 * i + 1] = fmaf(half_float(bits >> 16), scale, low);
    }
    store_pack(static_cast<T *>(unpack.out) + blockIdx.x * unpack.out_stride + input, numbers);
}

enum mr_status mr_cuda_unpack_weights(const struct mr_cuda_unpack *unpack, void *stream,
                                      struct mr_error *err)
{
    const struct mr_cuda_unpack call = *unpack;
    if (call.row_count == 0) return MR_OK;
    if (check_tiles(&call.weights, err) != MR_OK) return MR_UNSUPPORTED;
    if (call.out_stride % PACK || !is_aligned(call.out))
        return mr_fail(err, MR_UNSUPPORTED, "out or out_stride is not aligned");
    const dim3 grid(call.row_count, tiles_of(call.weights.in_size, UNPACK_THREADS * PACK));
    return with_code(call.weights.code, [&](auto code) {
        return with_type(call.type, [&](auto number) {
            return launch("unpack_tiles", launch_shape(grid, UNPACK_THREADS, 0, stream),
                          unpack_tiles<decltype(number), decltype(code)::code>, err, call,
                          mr_cuda_tile_bytes(&call.weights));
        });
    });
}
