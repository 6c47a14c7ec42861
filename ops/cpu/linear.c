#include "ops/cpu/linear.h"

#include "codec/check.h"
#include "ops/cpu/parallel.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Rows of x that are multiplied by one pair of panels of weights before the next pair is read:
 * these rows stay in the L2 cache (128 rows of 1,536 bf16 are 393 KB), their sums in the L1
 * cache. */
#define ROW_BLOCK       128u
#define HUGE_PAGE_BYTES ((size_t)2 << 20)
#define SUMS_FLOATS     (ROW_BLOCK * 2u * MR_PANEL_COLUMNS)
#define UNITS_GRAIN     2u

static size_t panel_bytes(const struct mr_cpu_linear *linear)
{
    return (size_t)linear->word_count * MR_PANEL_BYTES;
}

/* ---- packing ---- */

struct linear_pack {
    struct mr_cpu_linear *linear;
    const struct mr_cpu_linear_spec *spec;
    unsigned char *scratch; /* scratch_bytes for each thread */
    size_t scratch_bytes;   /* one row as floats, then the rows of a panel as words */
};

typedef uint32_t four_words __attribute__((vector_size(16)));

static four_words load_four(const unsigned char *from)
{
    four_words words;
    memcpy(&words, from, sizeof words);
    return words;
}

/* The first two words of a and b in turn, and the last two. */
#define FIRST(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define LAST(a, b)  __builtin_shufflevector(a, b, 2, 6, 3, 7)

/* Transposes a square of 4 x 4 words: word j of row i becomes word i of row j. */
static void transpose_square(const unsigned char *from, size_t stride, unsigned char *to)
{
    const four_words a = load_four(from), b = load_four(from + 2 * stride);
    const four_words c = load_four(from + stride), d = load_four(from + 3 * stride);
    const four_words ab = FIRST(a, b), ab_last = LAST(a, b);
    const four_words cd = FIRST(c, d), cd_last = LAST(c, d);
    const four_words out[4] = {FIRST(ab, cd), LAST(ab, cd), FIRST(ab_last, cd_last),
                               LAST(ab_last, cd_last)};
    memcpy(to, &out[0], sizeof *out);
    memcpy(to + MR_PANEL_BYTES, &out[1], sizeof *out);
    memcpy(to + 2 * MR_PANEL_BYTES, &out[2], sizeof *out);
    memcpy(to + 3 * MR_PANEL_BYTES, &out[3], sizeof *out);
}

/* Writes a panel: its rows are the columns of `rows` [MR_PANEL_COLUMNS][word_count]. */
static void transpose_panel(const unsigned char *rows, uint32_t word_count, unsigned char *panel)
{
    const size_t stride = (size_t)word_count * 4u;
    uint32_t k = 0;
    for (; k + 4 <= word_count; k += 4)
        for (size_t row = 0; row < MR_PANEL_COLUMNS; row += 4)
            transpose_square(rows + row * stride + k * 4u, stride,
                             panel + k * MR_PANEL_BYTES + row * 4u);
    for (; k < word_count; k++)
        for (size_t row = 0; row < MR_PANEL_COLUMNS; row++)
            memcpy(panel + k * MR_PANEL_BYTES + row * 4u, rows + row * stride + k * 4u, 4);
}

/* Packs 16 rows at once, so that every cache line of the panel is written whole. */
static void pack_panel(const struct linear_pack *pack, uint32_t panel, unsigned char *scratch)
{
    const struct mr_cpu_linear *linear = pack->linear;
    const size_t row_bytes = (size_t)linear->word_count * 4u;
    float *numbers = (float *)(void *)scratch;
    unsigned char *words = scratch + (size_t)linear->in_size * sizeof *numbers;
    for (uint32_t i = 0; i < MR_PANEL_COLUMNS; i++) {
        const uint32_t row = panel * MR_PANEL_COLUMNS + i;
        if (row >= linear->out_size) {
            memset(words + i * row_bytes, 0, row_bytes);
            continue;
        }
        pack->spec->source(pack->spec->source_context, row, numbers);
        linear->ops->convert(numbers, 1.0f, linear->in_size, linear->bf16, words + i * row_bytes);
    }
    transpose_panel(words, linear->word_count, linear->words + panel * panel_bytes(linear));
}

static void pack_panels(void *context, size_t begin, size_t end)
{
    const struct linear_pack *pack = context;
    unsigned char *scratch = pack->scratch + mr_parallel_thread_index() * pack->scratch_bytes;
    for (size_t panel = begin; panel < end; panel++)
        pack_panel(pack, (uint32_t)panel, scratch);
}

static enum mr_status pack_all(struct mr_cpu_linear *linear, const struct mr_cpu_linear_spec *spec)
{
    struct linear_pack pack = {.linear = linear, .spec = spec};
    pack.scratch_bytes =
        ((size_t)linear->in_size + (size_t)MR_PANEL_COLUMNS * linear->word_count) * sizeof(float);
    pack.scratch = calloc(mr_parallel_thread_count(), pack.scratch_bytes);
    if (!pack.scratch) return MR_NOMEM;
    mr_parallel_for(linear->panel_count, 1, pack_panels, &pack);
    free(pack.scratch);
    return MR_OK;
}

/* Allocates memory, in huge pages when rounding up to them wastes little: a step reads all weights
 * once, and with small pages address translation takes 10 % of the step (measured). The threads
 * that pack the weights touch the pages first. */
static unsigned char *allocate_words(size_t bytes)
{
    const size_t whole = (bytes + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    const bool huge = whole - bytes <= bytes / 6;
    void *words =
        huge ? aligned_alloc(HUGE_PAGE_BYTES, whole) : aligned_alloc(MR_PANEL_BYTES, bytes);
    if (!words) return NULL;
    if (huge) (void)madvise(words, whole, MADV_HUGEPAGE); /* only a hint, which may fail */
    return words;
}

enum mr_status mr_cpu_linear_create(struct mr_cpu_linear **out,
                                    const struct mr_cpu_linear_spec *spec, struct mr_error *err)
{
    *out = NULL;
    if (spec->out_size == 0 || spec->in_size == 0 || (spec->bf16 && spec->in_size % 2 != 0))
        return mr_fail(err, MR_UNSUPPORTED, "linear layer of %u x %u: sizes must be even, not 0",
                       spec->out_size, spec->in_size);
    struct mr_cpu_linear *linear = calloc(1, sizeof *linear);
    if (!linear) goto no_linear;
    linear->ops = mr_cpu_ops_get(spec->level);
    linear->out_size = spec->out_size;
    linear->in_size = spec->in_size;
    linear->bf16 = spec->bf16;
    linear->scale = spec->scale == 0.0f ? 1.0f : spec->scale;
    linear->word_count = spec->bf16 ? spec->in_size / 2 : spec->in_size;
    linear->panel_count = (spec->out_size + MR_PANEL_COLUMNS - 1) / MR_PANEL_COLUMNS;
    size_t bytes = linear->panel_count * panel_bytes(linear);
    linear->words = allocate_words(bytes);
    if (!linear->words) goto no_words;
    if (spec->bias) {
        linear->bias = malloc(spec->out_size * sizeof *linear->bias);
        if (!linear->bias) goto no_bias;
        memcpy(linear->bias, spec->bias, spec->out_size * sizeof *linear->bias);
    }
    if (pack_all(linear, spec) != MR_OK) goto not_packed;
    *out = linear;
    return MR_OK;

not_packed:
    free(linear->bias);
no_bias:
    free(linear->words);
no_words:
    free(linear);
no_linear:
    return mr_fail(err, MR_NOMEM, "no memory for a linear layer of %u x %u", spec->out_size,
                   spec->in_size);
}

void mr_cpu_linear_destroy(struct mr_cpu_linear *linear)
{
    if (!linear) return;
    free(linear->bias);
    free(linear->words);
    free(linear);
}

size_t mr_cpu_linear_bytes(const struct mr_cpu_linear *linear)
{
    return linear->panel_count * panel_bytes(linear) +
           (linear->bias ? linear->out_size * sizeof *linear->bias : 0);
}

void mr_cpu_linear_row(const struct mr_cpu_linear *linear, uint32_t row, float *out)
{
    MR_ASSERT(row < linear->out_size);
    const unsigned char *from =
        linear->words + row / MR_PANEL_COLUMNS * panel_bytes(linear) + row % MR_PANEL_COLUMNS * 4u;
    for (uint32_t k = 0; k < linear->word_count; k++, from += MR_PANEL_BYTES) {
        uint32_t word;
        memcpy(&word, from, sizeof word);
        uint32_t bits[2] = {linear->bf16 ? word << 16 : word, word & 0xffff0000u};
        if (linear->bf16)
            memcpy(out + 2 * (size_t)k, bits, sizeof bits);
        else
            memcpy(out + k, bits, sizeof *bits);
    }
}

/* ---- the product ---- */

static bool is_gated(enum mr_cpu_epilogue epilogue)
{
    return epilogue >= MR_CPU_SILU_MUL;
}

/* Computes the outputs of panels [panel, panel + panels) for rows [row, row + rows). The same
 * thread computes all panels up to panel_end next, so panels before panel_end are prefetched. */
static void run_tile(const struct mr_cpu_linear_cut *run, uint32_t row, uint32_t rows,
                     uint32_t panel, uint32_t panels, uint32_t panel_end)
{
    const struct mr_cpu_linear *linear = run->linear;
    const size_t x_stride = (size_t)linear->word_count * 4u;
    const uint32_t column = panel * MR_PANEL_COLUMNS, left = linear->out_size - column;
    const uint32_t divisor = is_gated(run->epilogue) ? 2 : 1;
    const bool wide = !linear->bf16 || !is_gated(run->epilogue);
    const size_t out_stride = linear->out_size / divisor, out_row = run->targets ? 0 : row;
    _Alignas(64) float sums[SUMS_FLOATS];
    const struct mr_cpu_tile tile = {.a = run->x + row * x_stride,
                                     .a_stride_bytes = x_stride,
                                     .b = linear->words + panel * panel_bytes(linear),
                                     .panel_bytes = panel_bytes(linear),
                                     .c = sums,
                                     .c_stride = panels * MR_PANEL_COLUMNS,
                                     .rows = rows,
                                     .panels = panels,
                                     .panels_ahead = panel_end - panel,
                                     .word_count = linear->word_count};
    MR_ASSERT(rows * tile.c_stride <= SUMS_FLOATS);
    if (linear->bf16)
        linear->ops->tile_bf16(&tile);
    else
        linear->ops->tile_f32(&tile);
    const struct mr_cpu_finish finish = {
        .c = sums,
        .c_stride = tile.c_stride,
        .bias = linear->bias ? linear->bias + column : NULL,
        .scale = linear->scale,
        .out = run->out + (out_row * out_stride + column / divisor) * (wide ? 4u : 2u),
        .out_stride = out_stride,
        .rows = rows,
        .columns = left < tile.c_stride ? left : (uint32_t)tile.c_stride,
        .epilogue = run->epilogue,
        .bf16 = linear->bf16,
        .targets = run->targets ? run->targets + row : NULL,
        .factors = run->factors ? run->factors + row : NULL};
    linear->ops->finish(&finish);
}

/* Neighbouring pairs of panels of the same block of rows are computed together as far as their sums
 * fit into the buffer, so that few rows get wide register tiles. */
void mr_cpu_linear_units(const struct mr_cpu_linear_cut *run, size_t begin, size_t end)
{
    for (size_t unit = begin; unit < end;) {
        const uint32_t block = (uint32_t)(unit / run->pair_count);
        const uint32_t pair = (uint32_t)(unit % run->pair_count);
        const uint32_t row = block * run->row_block;
        const uint32_t rows = run->rows - row < run->row_block ? run->rows - row : run->row_block;
        uint32_t pairs = SUMS_FLOATS / (rows * 2u * MR_PANEL_COLUMNS);
        if (pairs > 8) pairs = 8;
        if (pairs > run->pair_count - pair) pairs = run->pair_count - pair;
        if (pairs > end - unit) pairs = (uint32_t)(end - unit);
        uint32_t panels = 2 * pairs;
        if (2 * pair + panels > run->linear->panel_count) panels--;
        const size_t last =
            unit - pair + run->pair_count < end ? run->pair_count : end - unit + pair;
        uint32_t panel_end = 2 * (uint32_t)last;
        if (panel_end > run->linear->panel_count) panel_end--;
        run_tile(run, row, rows, 2 * pair, panels, panel_end);
        unit += pairs;
    }
}

struct mr_cpu_linear_cut mr_cpu_linear_cut(const struct mr_cpu_linear *linear, const void *x,
                                           uint32_t rows, enum mr_cpu_epilogue epilogue, void *out)
{
    MR_ASSERT(!is_gated(epilogue) || linear->out_size % 2 == 0);
    struct mr_cpu_linear_cut cut = {.linear = linear,
                                    .x = x,
                                    .out = out,
                                    .epilogue = epilogue,
                                    .rows = rows,
                                    .pair_count = (linear->panel_count + 1) / 2};
    if (rows == 0) return cut;
    /* Blocks of rows, of nearly equal height. */
    const uint32_t blocks = (rows + ROW_BLOCK - 1) / ROW_BLOCK;
    cut.row_block = (rows + blocks - 1) / blocks;
    cut.block_count = (rows + cut.row_block - 1) / cut.row_block;
    return cut;
}

static void run_units(void *context, size_t begin, size_t end)
{
    mr_cpu_linear_units(context, begin, end);
}

static void run_cut(struct mr_cpu_linear_cut *cut)
{
    mr_parallel_for((size_t)cut->block_count * cut->pair_count, UNITS_GRAIN, run_units, cut);
}

void mr_cpu_linear_run(const struct mr_cpu_linear *linear, const void *x, uint32_t rows,
                       enum mr_cpu_epilogue epilogue, void *out)
{
    struct mr_cpu_linear_cut cut = mr_cpu_linear_cut(linear, x, rows, epilogue, out);
    run_cut(&cut);
}

void mr_cpu_linear_add(const struct mr_cpu_linear *linear, const void *x, uint32_t rows,
                       const float *factors, float *out)
{
    struct mr_cpu_linear_cut cut = mr_cpu_linear_cut(linear, x, rows, MR_CPU_ADD_F32, out);
    cut.factors = factors;
    run_cut(&cut);
}
