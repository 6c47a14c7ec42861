#include "ops/cpu_kernels/linear.h"

#include "codec/check.h"
#include "ops/cpu_kernels/parallel.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Rows of x that are multiplied by one pair of panels of weights before the next pair is read:
 * these rows stay in the L2 cache (128 rows of 1,536 bf16 are 393 KB), their sums in the L1
 * cache. */
#define ROW_BLOCK       128u
#define HUGE_PAGE_BYTES ((size_t)2 << 20)
#define SUMS_FLOATS     (ROW_BLOCK * 2u * MR_PANEL_COLUMNS)
_Static_assert(SUMS_FLOATS == MR_CPU_EXPAND_FLOATS, "the changes of a tile are added at once");
#define UNITS_GRAIN 2u
/* Rows of x are quantized into the scratch memory, as many at a time as fit, such as 128 rows of
 * 2,496 numbers. */
#define QUANT_BYTES      MR_CPU_LINEAR_SCRATCH_BYTES
#define GROUP_BYTES      (MR_QUANT_GROUP + sizeof(struct mr_quant_group))
#define INPUTS_MAX       ((uint32_t)(QUANT_BYTES / GROUP_BYTES * MR_QUANT_GROUP))
#define QUANT_GRAIN_ROWS 8u
#define Q4_0_BYTES       18u

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

/* Reads 16 rows as floats to numbers[16][in_size]. */
static void read_rows(const struct linear_pack *pack, uint32_t first, float *numbers)
{
    const uint32_t in_size = pack->linear->in_size;
    for (uint32_t i = 0; i < MR_PANEL_COLUMNS; i++, numbers += in_size)
        if (first + i < pack->linear->out_size)
            pack->spec->source(pack->spec->source_context, first + i, numbers);
        else
            memset(numbers, 0, in_size * sizeof *numbers);
}

static void pack_quantized(const struct linear_pack *pack, uint32_t panel, unsigned char *scratch)
{
    const struct mr_cpu_linear *linear = pack->linear;
    const struct mr_cpu_panels *band = linear->bands;
    const uint32_t first = panel * MR_PANEL_COLUMNS;
    const uint32_t groups = mr_quant_group_count(linear->in_size);
    const unsigned char *rows[MR_PANEL_COLUMNS] = {NULL};
    float *numbers = (float *)(void *)scratch;
    while (panel >= band->end)
        band++;
    unsigned char *to = band->words + (panel - band->first) * band->bytes_each;
    if (band->format == MR_QUANT_INT8) {
        read_rows(pack, first, numbers);
        mr_quant_pack_int8(linear->in_size, numbers, to);
        return;
    }
    unsigned char *blocks = scratch + linear->in_size * sizeof *numbers;
    for (uint32_t i = 0; i < MR_PANEL_COLUMNS && first + i < linear->out_size; i++) {
        if (pack->spec->stored) {
            rows[i] = pack->spec->stored(pack->spec->source_context, first + i);
            continue;
        }
        pack->spec->source(pack->spec->source_context, first + i, numbers);
        mr_quant_to_q4_0(linear->in_size, numbers, blocks);
        rows[i] = blocks;
        blocks += (size_t)groups * Q4_0_BYTES;
    }
    linear->ops->quant->pack(band->format, groups * MR_QUANT_GROUP, rows, to);
}

static void pack_panels(void *context, size_t begin, size_t end)
{
    const struct linear_pack *pack = context;
    unsigned char *scratch = pack->scratch + mr_parallel_thread_index() * pack->scratch_bytes;
    for (size_t panel = begin; panel < end; panel++)
        if (pack->linear->band_count > 0)
            pack_quantized(pack, (uint32_t)panel, scratch);
        else
            pack_panel(pack, (uint32_t)panel, scratch);
}

static enum mr_status pack_all(struct mr_cpu_linear *linear, const struct mr_cpu_linear_spec *spec)
{
    struct linear_pack pack = {.linear = linear, .spec = spec};
    pack.scratch_bytes =
        ((size_t)linear->in_size * (MR_PANEL_COLUMNS + 1u) + MR_QUANT_GROUP) * sizeof(float);
    pack.scratch = calloc(mr_parallel_thread_count(), pack.scratch_bytes);
    if (!pack.scratch) return MR_NOMEM;
    mr_parallel_for(linear->panel_count, 1, pack_panels, &pack);
    free(pack.scratch);
    return MR_OK;
}

/* Allocates memory, in huge pages when rounding up to them wastes little. A step reads all weights
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

static size_t band_bytes(const struct mr_cpu_panels *band)
{
    return (band->end - band->first) * band->bytes_each;
}

static size_t weight_bytes(const struct mr_cpu_linear *linear)
{
    size_t bytes = linear->band_count > 0 ? 0 : linear->panel_count * panel_bytes(linear);
    for (uint32_t i = 0; i < linear->band_count; i++)
        bytes += band_bytes(&linear->bands[i]);
    return bytes;
}

static void set_bands(struct mr_cpu_linear *linear, const struct mr_cpu_linear_spec *spec)
{
    uint32_t row = 0;
    linear->band_count = spec->band_count;
    for (uint32_t i = 0; i < spec->band_count; i++) {
        struct mr_cpu_panels *band = &linear->bands[i];
        MR_ASSERT(row % MR_PANEL_COLUMNS == 0 && spec->bands[i].rows > 0);
        band->format = spec->bands[i].format;
        band->first = row / MR_PANEL_COLUMNS;
        row += spec->bands[i].rows;
        band->end = (row + MR_PANEL_COLUMNS - 1) / MR_PANEL_COLUMNS;
        band->bytes_each = mr_quant_panel_bytes(band->format, linear->in_size);
    }
    MR_ASSERT(spec->band_count == 0 || row == linear->out_size);
}

enum mr_status mr_cpu_linear_create(struct mr_cpu_linear **out,
                                    const struct mr_cpu_linear_spec *spec, struct mr_error *err)
{
    *out = NULL;
    if (spec->out_size == 0 || spec->in_size == 0 || (spec->bf16 && spec->in_size % 2 != 0))
        return mr_fail(err, MR_UNSUPPORTED, "linear layer of %u x %u: sizes must be even, not 0",
                       spec->out_size, spec->in_size);
    if (spec->band_count > 0 && mr_quant_row_bytes(spec->in_size) > QUANT_BYTES)
        return mr_fail(err, MR_UNSUPPORTED,
                       "linear layer of %u x %u: at most %u inputs with integer weights",
                       spec->out_size, spec->in_size, INPUTS_MAX);
    struct mr_cpu_linear *linear = calloc(1, sizeof *linear);
    if (!linear) goto no_linear;
    linear->ops = mr_cpu_ops_get(spec->level);
    linear->out_size = spec->out_size;
    linear->in_size = spec->in_size;
    linear->bf16 = spec->bf16;
    linear->site = spec->site;
    linear->scale = spec->scale == 0.0f ? 1.0f : spec->scale;
    linear->word_count = spec->bf16 ? spec->in_size / 2 : spec->in_size;
    linear->panel_count = (spec->out_size + MR_PANEL_COLUMNS - 1) / MR_PANEL_COLUMNS;
    set_bands(linear, spec);
    linear->words = allocate_words(weight_bytes(linear));
    if (!linear->words) goto no_words;
    for (size_t i = 0, used = 0; i < linear->band_count; i++) {
        linear->bands[i].words = linear->words + used;
        used += band_bytes(&linear->bands[i]);
    }
    if (spec->curve) memcpy(linear->curve, spec->curve, sizeof linear->curve);
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
    return weight_bytes(linear) + (linear->bias ? linear->out_size * sizeof *linear->bias : 0);
}

void mr_cpu_linear_row(const struct mr_cpu_linear *linear, uint32_t row, float *out)
{
    MR_ASSERT(row < linear->out_size);
    const uint32_t panel = row / MR_PANEL_COLUMNS;
    for (uint32_t i = 0; i < linear->band_count; i++) {
        const struct mr_cpu_panels *band = &linear->bands[i];
        if (panel < band->first || panel >= band->end) continue;
        mr_quant_unpack(band->format, linear->in_size,
                        band->words + (panel - band->first) * band->bytes_each,
                        row % MR_PANEL_COLUMNS, out);
        return;
    }
    const unsigned char *from =
        linear->words + panel * panel_bytes(linear) + row % MR_PANEL_COLUMNS * 4u;
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
    return epilogue >= MR_CPU_SILU_MUL && epilogue < MR_CPU_GELU;
}

/* True when the results have the layer's dtype. */
static bool is_activated(enum mr_cpu_epilogue epilogue)
{
    return epilogue >= MR_CPU_SILU_MUL;
}

/* The sums of panels [panel, panel + panels) for rows [row, row + rows): floats [rows, c_stride].
 */
struct sums {
    float *c;
    size_t c_stride;
    uint32_t row, rows, panel, panels;
};

/* Panels before panel_end are prefetched. */
static void multiply_quantized(const struct mr_cpu_linear_cut *run, const struct sums *sums,
                               uint32_t panel_end)
{
    const struct mr_cpu_linear *linear = run->linear;
    const size_t x_stride = mr_cpu_linear_x_bytes(linear);
    for (uint32_t i = 0, panel = sums->panel; panel < sums->panel + sums->panels; i++) {
        const struct mr_cpu_panels *band = &linear->bands[i];
        if (panel >= band->end) continue;
        const uint32_t end = sums->panel + sums->panels;
        const uint32_t panels = (end < band->end ? end : band->end) - panel;
        const struct mr_quant_tile tile = {
            .format = band->format,
            .x = run->x + sums->row * x_stride,
            .x_stride = x_stride,
            .b = band->words + (panel - band->first) * band->bytes_each,
            .panel_bytes = band->bytes_each,
            .c = sums->c + (size_t)(panel - sums->panel) * MR_PANEL_COLUMNS,
            .c_stride = sums->c_stride,
            .rows = sums->rows,
            .panels = panels,
            .panels_ahead = (panel_end < band->end ? panel_end : band->end) - panel,
            .group_count = mr_quant_group_count(linear->in_size)};
        linear->ops->quant->tile(&tile);
        panel += panels;
    }
}

static void multiply(const struct mr_cpu_linear_cut *run, const struct sums *sums,
                     uint32_t panel_end)
{
    const struct mr_cpu_linear *linear = run->linear;
    const size_t x_stride = mr_cpu_linear_x_bytes(linear);
    const struct mr_cpu_tile tile = {.a = run->x + sums->row * x_stride,
                                     .a_stride_bytes = x_stride,
                                     .b = linear->words + sums->panel * panel_bytes(linear),
                                     .panel_bytes = panel_bytes(linear),
                                     .c = sums->c,
                                     .c_stride = sums->c_stride,
                                     .rows = sums->rows,
                                     .panels = sums->panels,
                                     .panels_ahead = panel_end - sums->panel,
                                     .word_count = linear->word_count};
    if (linear->bf16)
        linear->ops->tile_bf16(&tile);
    else
        linear->ops->tile_f32(&tile);
}

/* Computes the outputs of panels [panel, panel + panels) for rows [row, row + rows). The same
 * thread computes all panels up to panel_end next. */
static void run_tile(const struct mr_cpu_linear_cut *run, uint32_t row, uint32_t rows,
                     uint32_t panel, uint32_t panels, uint32_t panel_end)
{
    const struct mr_cpu_linear *linear = run->linear;
    const uint32_t column = panel * MR_PANEL_COLUMNS, left = linear->out_size - column;
    const uint32_t divisor = is_gated(run->epilogue) ? 2 : 1;
    const bool wide = !linear->bf16 || !is_activated(run->epilogue);
    const size_t out_stride = linear->out_size / divisor, out_row = run->targets ? 0 : row;
    _Alignas(64) float memory[SUMS_FLOATS];
    const struct sums sums = {memory, panels * MR_PANEL_COLUMNS, row, rows, panel, panels};
    MR_ASSERT(rows * sums.c_stride <= SUMS_FLOATS);
    if (linear->band_count > 0)
        multiply_quantized(run, &sums, panel_end);
    else
        multiply(run, &sums, panel_end);
    if (run->adapted.layers)
        mr_cpu_expand(&run->adapted,
                      &(struct mr_cpu_expand){row, rows, panel, panels, memory, sums.c_stride});
    const struct mr_cpu_finish finish = {
        .c = memory,
        .c_stride = sums.c_stride,
        .bias = linear->bias ? linear->bias + column : NULL,
        .scale = linear->scale,
        .out = run->out + (out_row * out_stride + column / divisor) * (wide ? 4u : 2u),
        .out_stride = out_stride,
        .rows = rows,
        .columns = left < sums.c_stride ? left : (uint32_t)sums.c_stride,
        .epilogue = run->epilogue,
        .bf16 = linear->bf16,
        .targets = run->targets ? run->targets + row : NULL,
        .factors = run->factors ? run->factors + row : NULL,
        .curve = linear->curve};
    linear->ops->finish(&finish);
}

/* Computes as many neighbouring pairs of panels of a block of rows together as have room for their
 * sums in the buffer, so that few rows get wide register tiles. */
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

struct quant_work {
    const struct mr_cpu_linear *linear;
    const unsigned char *x;
    unsigned char *out;
};

static void quantize_rows(void *context, size_t begin, size_t end)
{
    const struct quant_work *work = context;
    const struct mr_cpu_linear *linear = work->linear;
    const size_t x_bytes = linear->in_size * mr_cpu_linear_number_bytes(linear);
    const size_t out_bytes = mr_cpu_linear_x_bytes(linear);
    for (size_t row = begin; row < end; row++)
        linear->ops->quant->row(work->x + row * x_bytes, linear->in_size, linear->bf16,
                                work->out + row * out_bytes);
}

void mr_cpu_linear_quantize(const struct mr_cpu_linear *linear, const void *x, uint32_t rows,
                            unsigned char *out)
{
    struct quant_work work = {linear, x, out};
    mr_parallel_for(rows, QUANT_GRAIN_ROWS, quantize_rows, &work);
}

static void run_rows(struct mr_cpu_linear_cut *cut, unsigned char *scratch)
{
    const struct mr_cpu_linear *linear = cut->linear;
    if (linear->band_count == 0) {
        run_cut(cut);
        return;
    }
    const size_t x_bytes = linear->in_size * mr_cpu_linear_number_bytes(linear);
    const size_t out_size = linear->out_size / (is_gated(cut->epilogue) ? 2 : 1);
    const size_t out_bytes =
        out_size *
        (is_activated(cut->epilogue) ? mr_cpu_linear_number_bytes(linear) : sizeof(float));
    const uint32_t fit = (uint32_t)(QUANT_BYTES / mr_cpu_linear_x_bytes(linear));
    const uint32_t most = fit < ROW_BLOCK ? fit : ROW_BLOCK;
    for (uint32_t row = 0; row < cut->rows; row += most) {
        const uint32_t rows = cut->rows - row < most ? cut->rows - row : most;
        mr_cpu_linear_quantize(linear, cut->x + row * x_bytes, rows, scratch);
        struct mr_cpu_linear_cut part =
            mr_cpu_linear_cut(linear, scratch, rows, cut->epilogue, cut->out + row * out_bytes);
        part.factors = cut->factors ? cut->factors + row : NULL;
        part.adapted = mr_cpu_adapted_from(cut->adapted, row);
        run_cut(&part);
    }
}

void mr_cpu_linear_call(const struct mr_cpu_linear *linear, const struct mr_cpu_linear_call *call)
{
    struct mr_cpu_linear_cut cut =
        mr_cpu_linear_cut(linear, call->x, call->rows, call->epilogue, call->out);
    cut.factors = call->factors;
    cut.adapted = call->adapted;
    mr_cpu_shrink(&cut.adapted, &(struct mr_cpu_shrink_rows){
                                    call->x, linear->in_size * mr_cpu_linear_number_bytes(linear),
                                    NULL, call->rows});
    run_rows(&cut, call->scratch);
}

void mr_cpu_linear_run(const struct mr_cpu_linear *linear, const void *x, uint32_t rows,
                       enum mr_cpu_epilogue epilogue, void *out, void *scratch)
{
    const struct mr_cpu_linear_call call = {
        .x = x, .rows = rows, .epilogue = epilogue, .out = out, .scratch = scratch};
    mr_cpu_linear_call(linear, &call);
}
