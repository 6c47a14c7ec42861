#include "ops/cpu_kernels/low_rank.h"

#include "codec/check.h"
#include "ops/cpu_kernels/parallel.h"

#include <stdlib.h>
#include <string.h>

#define ROW_BLOCK  128u /* most rows of one product with A */
#define GRAIN_ROWS 4u

/* The panels of B that follow each other and have numbers other than 0 in the same ranks. The ranks
 * of q change no column of k, so most panels of a layer with several adapted parts are short. */
struct band {
    uint32_t panel_end;
    uint32_t first, count; /* ranks; count 0: the panels are zero */
    float *words;          /* [panel][count][MR_PANEL_COLUMNS] */
};

struct mr_cpu_low_rank {
    const struct mr_cpu_ops *ops;
    uint32_t rank, in_size, out_size, word_count;
    bool bf16, table;
    unsigned char *a; /* panels of level.h; table: floats [in_size][rank] */
    struct band *bands;
    uint32_t band_count;
    float *b; /* memory of the bands */
    size_t bytes;
};

/* ---- packing ---- */

static uint32_t panels_of(uint32_t columns)
{
    return (columns + MR_PANEL_COLUMNS - 1) / MR_PANEL_COLUMNS;
}

static void pack_a(struct mr_cpu_low_rank *to, const float *a, unsigned char *row)
{
    for (uint32_t column = 0; column < to->rank; column++) {
        unsigned char *panel =
            to->a + (size_t)(column / MR_PANEL_COLUMNS) * to->word_count * MR_PANEL_BYTES;
        to->ops->convert(a + (size_t)column * to->in_size, 1.0f, to->in_size, to->bf16, row);
        for (uint32_t k = 0; k < to->word_count; k++)
            memcpy(panel + k * MR_PANEL_BYTES + column % MR_PANEL_COLUMNS * 4u, row + k * 4u, 4);
    }
}

static enum mr_status create_a(struct mr_cpu_low_rank *to, const float *a)
{
    const size_t numbers = (size_t)to->rank * to->in_size;
    const size_t bytes = to->table ? numbers * sizeof(float)
                                   : (size_t)panels_of(to->rank) * to->word_count * MR_PANEL_BYTES;
    const size_t aligned = (bytes + MR_PANEL_BYTES - 1) / MR_PANEL_BYTES * MR_PANEL_BYTES;
    unsigned char *row = to->table ? NULL : malloc((size_t)to->word_count * 4u);
    to->a = aligned_alloc(MR_PANEL_BYTES, aligned);
    to->bytes += aligned;
    if (to->a && to->table) {
        memcpy(to->a, a, bytes);
    } else if (to->a && row) {
        memset(to->a, 0, bytes);
        pack_a(to, a, row);
    }
    free(row);
    return to->a && (row || to->table) ? MR_OK : MR_NOMEM;
}

/* Finds the ranks in which the rows of a panel of B have numbers other than 0. */
static struct band ranks_of(const struct mr_cpu_low_rank *to, const float *b, uint32_t panel)
{
    uint32_t first = to->rank, end = 0;
    for (uint32_t row = panel * MR_PANEL_COLUMNS;
         row < (panel + 1) * MR_PANEL_COLUMNS && row < to->out_size; row++)
        for (uint32_t i = 0; i < to->rank; i++) {
            if (b[(size_t)row * to->rank + i] == 0.0f) continue;
            first = i < first ? i : first;
            end = i + 1 > end ? i + 1 : end;
        }
    return (struct band){panel + 1, end > 0 ? first : 0, end > 0 ? end - first : 0, NULL};
}

/* Sets the bands, whose words follow each other in `memory`; returns the number of floats. memory
 * NULL: counts only. */
static size_t set_bands(struct mr_cpu_low_rank *to, const float *b, float *memory)
{
    size_t used = 0;
    to->band_count = 0;
    for (uint32_t panel = 0; panel < panels_of(to->out_size); panel++) {
        struct band band = ranks_of(to, b, panel);
        struct band *last = to->band_count > 0 ? &to->bands[to->band_count - 1] : NULL;
        if (last && last->first == band.first && last->count == band.count) {
            last->panel_end = panel + 1;
        } else {
            band.words = memory ? memory + used : NULL;
            to->bands[to->band_count++] = band;
        }
        float *words = memory ? memory + used : NULL;
        used += (size_t)band.count * MR_PANEL_COLUMNS;
        for (uint32_t i = 0; words && i < band.count * MR_PANEL_COLUMNS; i++) {
            const uint32_t row = panel * MR_PANEL_COLUMNS + i % MR_PANEL_COLUMNS;
            const uint32_t rank = band.first + i / MR_PANEL_COLUMNS;
            words[i] = row < to->out_size ? b[(size_t)row * to->rank + rank] : 0.0f;
        }
    }
    return used;
}

static enum mr_status create_b(struct mr_cpu_low_rank *to, const float *b)
{
    to->bands = calloc(panels_of(to->out_size), sizeof *to->bands);
    if (!to->bands) return MR_NOMEM;
    const size_t bytes = (set_bands(to, b, NULL) + MR_PANEL_COLUMNS) * sizeof(float);
    to->b = aligned_alloc(MR_PANEL_BYTES, bytes);
    if (!to->b) return MR_NOMEM;
    (void)set_bands(to, b, to->b);
    to->bytes += bytes + to->band_count * sizeof *to->bands;
    return MR_OK;
}

enum mr_status mr_cpu_low_rank_create(struct mr_cpu_low_rank **out,
                                      const struct mr_cpu_low_rank_spec *spec, struct mr_error *err)
{
    *out = NULL;
    MR_ASSERT(spec->rank > 0 && spec->in_size > 0 && spec->out_size > 0);
    struct mr_cpu_low_rank *made = calloc(1, sizeof *made);
    enum mr_status status = made ? MR_OK : MR_NOMEM;
    if (made) {
        *made = (struct mr_cpu_low_rank){.ops = mr_cpu_ops_get(spec->level),
                                         .rank = spec->rank,
                                         .in_size = spec->in_size,
                                         .out_size = spec->out_size,
                                         .bf16 = spec->bf16,
                                         .table = spec->table,
                                         .bytes = sizeof *made};
        made->word_count = spec->bf16 ? spec->in_size / 2 : spec->in_size;
        MR_ASSERT(spec->table || !spec->bf16 || spec->in_size % 2 == 0);
        status = create_a(made, spec->a);
    }
    if (status == MR_OK) status = create_b(made, spec->b);
    if (status != MR_OK) {
        mr_cpu_low_rank_destroy(made);
        return mr_fail(err, MR_NOMEM, "no memory for an adapter of a layer of %u x %u",
                       spec->out_size, spec->in_size);
    }
    *out = made;
    return MR_OK;
}

void mr_cpu_low_rank_destroy(struct mr_cpu_low_rank *low_rank)
{
    if (!low_rank) return;
    free(low_rank->b);
    free(low_rank->bands);
    free(low_rank->a);
    free(low_rank);
}

size_t mr_cpu_low_rank_bytes(const struct mr_cpu_low_rank *low_rank)
{
    return low_rank->bytes;
}

uint32_t mr_cpu_low_rank_width(const struct mr_cpu_low_rank *low_rank)
{
    return MR_CPU_LOW_RANK_WIDTH(low_rank->rank);
}

/* ---- A x ---- */

struct shrink {
    const struct mr_cpu_adapted *adapted;
    const struct mr_cpu_shrink_rows *rows;
};

static uint32_t source_of(const struct mr_cpu_shrink_rows *rows, uint32_t row)
{
    return rows->sources ? rows->sources[row] : row;
}

/* Returns the number of rows from `row` on, before `end`, with the same change and neighbouring
 * rows of x. */
static uint32_t run_of(const struct shrink *shrink, uint32_t row, uint32_t end)
{
    const struct mr_cpu_low_rank *low_rank = shrink->adapted->layers[row];
    uint32_t count = 1;
    while (row + count < end && count < ROW_BLOCK &&
           shrink->adapted->layers[row + count] == low_rank &&
           source_of(shrink->rows, row + count) == source_of(shrink->rows, row) + count)
        count++;
    return count;
}

static void shrink_rows(void *context, size_t begin, size_t end)
{
    const struct shrink *shrink = context;
    uint32_t rows;
    for (uint32_t row = (uint32_t)begin; row < end; row += rows) {
        const struct mr_cpu_low_rank *low_rank = shrink->adapted->layers[row];
        rows = run_of(shrink, row, (uint32_t)end);
        if (!low_rank) continue;
        MR_ASSERT(!low_rank->table);
        const struct mr_cpu_tile tile = {
            .a = shrink->rows->x + source_of(shrink->rows, row) * shrink->rows->x_bytes,
            .a_stride_bytes = shrink->rows->x_bytes,
            .b = low_rank->a,
            .panel_bytes = (size_t)low_rank->word_count * MR_PANEL_BYTES,
            .c = shrink->adapted->shrunk + (size_t)row * shrink->adapted->stride,
            .c_stride = shrink->adapted->stride,
            .rows = rows,
            .panels = panels_of(low_rank->rank),
            .word_count = low_rank->word_count};
        if (low_rank->bf16)
            low_rank->ops->tile_bf16(&tile);
        else
            low_rank->ops->tile_f32(&tile);
    }
}

void mr_cpu_shrink(struct mr_cpu_adapted *adapted, const struct mr_cpu_shrink_rows *rows)
{
    adapted->stride = 0;
    for (uint32_t row = 0; adapted->layers && row < rows->rows; row++) {
        const struct mr_cpu_low_rank *low_rank = adapted->layers[row];
        const uint32_t width = low_rank ? mr_cpu_low_rank_width(low_rank) : 0;
        adapted->stride = width > adapted->stride ? width : adapted->stride;
    }
    if (adapted->stride == 0) {
        adapted->layers = NULL;
        return;
    }
    struct shrink shrink = {adapted, rows};
    mr_parallel_for(rows->rows, GRAIN_ROWS, shrink_rows, &shrink);
}

/* ---- B (A x) ---- */

static void add_sums(const float *sums, uint32_t rows, uint32_t columns, float *c, size_t c_stride)
{
    for (uint32_t row = 0; row < rows; row++, sums += columns, c += c_stride)
        for (uint32_t i = 0; i < columns; i++)
            c[i] += sums[i];
}

/* As mr_cpu_expand, for rows with one change; shrunk: of the first row. */
static void expand_run(const struct mr_cpu_low_rank *low_rank, const float *shrunk, size_t stride,
                       const struct mr_cpu_expand *expand)
{
    _Alignas(64) float sums[MR_CPU_EXPAND_FLOATS];
    const uint32_t end = expand->panel + expand->panels;
    uint32_t panel = expand->panel, begin = 0;
    for (const struct band *band = low_rank->bands; panel < end; begin = band++->panel_end) {
        if (panel >= band->panel_end) continue;
        const uint32_t panels = (end < band->panel_end ? end : band->panel_end) - panel;
        const size_t panel_floats = (size_t)band->count * MR_PANEL_COLUMNS;
        const struct mr_cpu_tile tile = {
            .a = (const unsigned char *)(shrunk + band->first),
            .a_stride_bytes = stride * sizeof(float),
            .b = (const unsigned char *)(band->words + (panel - begin) * panel_floats),
            .panel_bytes = panel_floats * sizeof(float),
            .c = sums,
            .c_stride = (size_t)panels * MR_PANEL_COLUMNS,
            .rows = expand->rows,
            .panels = panels,
            .word_count = band->count};
        if (band->count > 0) {
            low_rank->ops->tile_f32(&tile);
            add_sums(sums, expand->rows, panels * MR_PANEL_COLUMNS,
                     expand->c + (size_t)(panel - expand->panel) * MR_PANEL_COLUMNS,
                     expand->c_stride);
        }
        panel += panels;
    }
}

void mr_cpu_expand(const struct mr_cpu_adapted *adapted, const struct mr_cpu_expand *expand)
{
    MR_ASSERT(expand->rows * expand->panels * MR_PANEL_COLUMNS <= MR_CPU_EXPAND_FLOATS);
    uint32_t rows;
    for (uint32_t row = 0; row < expand->rows; row += rows) {
        const uint32_t first = expand->row + row;
        const struct mr_cpu_low_rank *low_rank = adapted->layers[first];
        for (rows = 1; row + rows < expand->rows; rows++)
            if (adapted->layers[first + rows] != low_rank) break;
        if (!low_rank) continue;
        struct mr_cpu_expand run = *expand;
        run.rows = rows;
        run.c += row * expand->c_stride;
        expand_run(low_rank, adapted->shrunk + (size_t)first * adapted->stride, adapted->stride,
                   &run);
    }
}

void mr_cpu_low_rank_embed(const struct mr_cpu_low_rank *table, uint32_t id, float *out)
{
    const float *shrunk = (const float *)(const void *)table->a + (size_t)id * table->rank;
    const uint32_t step = MR_CPU_EXPAND_FLOATS / MR_PANEL_COLUMNS, all = panels_of(table->out_size);
    MR_ASSERT(table->table && id < table->in_size);
    for (uint32_t panel = 0; panel < all; panel += step) {
        _Alignas(64) float change[MR_CPU_EXPAND_FLOATS] = {0};
        const uint32_t panels = all - panel < step ? all - panel : step;
        const uint32_t first = panel * MR_PANEL_COLUMNS, left = table->out_size - first;
        const struct mr_cpu_expand expand = {0, 1, panel, panels, change, 0};
        expand_run(table, shrunk, 0, &expand);
        add_sums(change, 1, left < panels * MR_PANEL_COLUMNS ? left : panels * MR_PANEL_COLUMNS,
                 out + first, 0);
    }
}
