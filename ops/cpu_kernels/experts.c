/* Experts of a layer (mixture of experts). An assignment is a row and one of the experts chosen for
 * it. Assignments are sorted by expert, so that the rows of an expert are consecutive rows of a
 * product. One parallel loop then runs gate_up of all experts, a second one runs down. An item of
 * the second loop is a range of columns in all experts: one thread adds the experts in the order of
 * their ids, so the sum of a row is the same in every batch. */
#include "codec/check.h"
#include "ops/cpu_kernels/expert_kernels.h"
#include "ops/cpu_kernels/linear.h"
#include "ops/cpu_kernels/parallel.h"

#include <string.h>

/* With fewer bytes to copy for each thread a parallel loop costs more than it saves. */
#define GATHER_GRAIN_BYTES 65536u
#define LINE_BYTES         64u

/* ---- buffers ---- */

/* The assignments of one expert, [first, first + count), and the index of its first unit in the
 * loop over gate_up. */
struct expert_part {
    uint32_t first, count;
    size_t first_unit;
};

struct expert_run {
    const struct mr_cpu_expert_layer *layer;
    const unsigned char *x;
    size_t x_bytes; /* bytes of one row of x */
    uint32_t assignment_count;
    float *out;
    uint32_t *experts; /* [rows, top_k] the output of mr_cpu_route, with the weights of the
                        * experts */
    float *weights;
    /* For each assignment: its row, its weight, its copy of the row of x, its output of gate_up. */
    uint32_t *rows;
    float *factors;
    unsigned char *gathered, *gated;
    unsigned char *quantized;  /* gated, when down has integer weights */
    struct expert_part *parts; /* [expert_count + 1]; the last marks the end */
    /* The changes of the assignments by adapters: those of gate_up, then those of down. */
    struct mr_cpu_low_rank **changes;
    float *shrunk;
    struct mr_cpu_adapted adapted;
};

static void *take(unsigned char *memory, size_t *used, size_t count, size_t size)
{
    void *buffer = memory ? memory + *used : NULL;
    *used += (count * size + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
    return buffer;
}

/* Sets the pointers of a run into the memory; returns the bytes used. */
static size_t place(struct expert_run *run, const struct mr_cpu_expert_buffers *buffers,
                    unsigned char *memory)
{
    const size_t most = (size_t)buffers->rows_max * buffers->top_k;
    const size_t number = buffers->bf16 ? 2 : 4;
    size_t used = 0;
    run->experts = take(memory, &used, most, sizeof *run->experts);
    run->weights = take(memory, &used, most, sizeof *run->weights);
    run->rows = take(memory, &used, most, sizeof *run->rows);
    run->factors = take(memory, &used, most, sizeof *run->factors);
    const size_t hidden_bytes = buffers->hidden_size * number;
    const size_t quantized_bytes = mr_quant_row_bytes(buffers->hidden_size);
    run->gathered =
        take(memory, &used, most, hidden_bytes > quantized_bytes ? hidden_bytes : quantized_bytes);
    run->gated = take(memory, &used, most * buffers->ffn_size, number);
    run->quantized = take(memory, &used, most, mr_quant_row_bytes(buffers->ffn_size));
    run->parts = take(memory, &used, (size_t)buffers->expert_count + 1, sizeof *run->parts);
    run->changes = take(memory, &used, buffers->rank_max > 0 ? most : 0, sizeof *run->changes);
    run->shrunk =
        take(memory, &used, most * MR_CPU_LOW_RANK_WIDTH(buffers->rank_max), sizeof *run->shrunk);
    return used;
}

size_t mr_cpu_expert_bytes(const struct mr_cpu_expert_buffers *buffers)
{
    struct expert_run run;
    return place(&run, buffers, NULL);
}

/* ---- sorting by expert ---- */

/* Returns the number of units into which gate_up of an expert with this many rows is cut. It does
 * not read the struct of an expert without rows, because the step would wait for memory. */
static size_t units_of(const struct mr_cpu_expert_layer *layer, uint32_t expert, uint32_t rows)
{
    if (rows == 0) return 0;
    const struct mr_cpu_linear *gate_up = layer->gate_up[expert], *down = layer->down[expert];
    MR_ASSERT(gate_up->in_size == layer->gate_up[0]->in_size);
    MR_ASSERT(gate_up->bf16 == layer->gate_up[0]->bf16 && down->bf16 == gate_up->bf16);
    MR_ASSERT(!gate_up->band_count == !layer->gate_up[0]->band_count);
    MR_ASSERT(!down->band_count == !layer->down[0]->band_count);
    MR_ASSERT(gate_up->out_size == 2 * down->in_size && down->out_size == gate_up->in_size);
    MR_ASSERT(down->in_size == layer->down[0]->in_size);
    const struct mr_cpu_linear_cut cut =
        mr_cpu_linear_cut(gate_up, NULL, rows, layer->activation, NULL);
    return (size_t)cut.block_count * cut.pair_count;
}

/* Sets the parts of all experts, and the row and weight of each assignment: a counting sort, which
 * keeps the rows of an expert in their order. */
static void sort_assignments(struct expert_run *run)
{
    const uint32_t expert_count = run->layer->routing.expert_count;
    const uint32_t top_k = run->layer->routing.top_k;
    struct expert_part *parts = run->parts;
    memset(parts, 0, (expert_count + 1) * sizeof *parts);
    for (uint32_t i = 0; i < run->assignment_count; i++)
        parts[run->experts[i]].count++;
    for (uint32_t e = 0; e < expert_count; e++) {
        parts[e + 1].first = parts[e].first + parts[e].count;
        parts[e + 1].first_unit = parts[e].first_unit + units_of(run->layer, e, parts[e].count);
        parts[e].count = 0;
    }
    for (uint32_t i = 0; i < run->assignment_count; i++) {
        struct expert_part *part = &parts[run->experts[i]];
        const uint32_t at = part->first + part->count++;
        run->rows[at] = i / top_k;
        run->factors[at] = run->weights[i];
    }
}

/* Copies the row of each assignment into the input of the product, quantized when gate_up has
 * integer weights. */
static void gather_rows(void *context, size_t begin, size_t end)
{
    const struct expert_run *run = context;
    const struct mr_cpu_linear *gate_up = run->layer->gate_up[0];
    if (gate_up->band_count > 0) {
        const size_t bytes = mr_cpu_linear_x_bytes(gate_up);
        for (size_t at = begin; at < end; at++)
            gate_up->ops->quant->row(run->x + run->rows[at] * run->x_bytes, gate_up->in_size,
                                     gate_up->bf16, run->gathered + at * bytes);
        return;
    }
    for (size_t at = begin; at < end; at++)
        memcpy(run->gathered + at * run->x_bytes, run->x + run->rows[at] * run->x_bytes,
               run->x_bytes);
}

/* Sets the changes of the assignments in one of the two products of their experts, and computes A x
 * of their rows. */
static void shrink_rows(struct expert_run *run, struct mr_cpu_linear *const *linears,
                        const struct mr_cpu_shrink_rows *rows)
{
    const struct mr_cpu_expert_layer *layer = run->layer;
    if (!layer->adapters) return;
    for (uint32_t e = 0; e < layer->routing.expert_count; e++)
        for (uint32_t i = 0; i < run->parts[e].count; i++) {
            const uint32_t at = run->parts[e].first + i;
            struct mr_cpu_low_rank *const *sites = layer->adapters[run->rows[at]];
            run->changes[at] = sites ? sites[linears[e]->site] : NULL;
        }
    run->adapted = (struct mr_cpu_adapted){run->changes, run->shrunk, 0};
    mr_cpu_shrink(&run->adapted, rows);
}

/* ---- the two loops ---- */

/* Runs the units [begin, end) of gate_up, counted through all experts. */
static void run_gate_up(void *context, size_t begin, size_t end)
{
    const struct expert_run *run = context;
    const struct mr_cpu_expert_layer *layer = run->layer;
    for (uint32_t e = 0; begin < end; e++) {
        const struct expert_part *part = &run->parts[e];
        if (part[1].first_unit <= begin) continue;
        const struct mr_cpu_linear *linear = layer->gate_up[e];
        const size_t gated_bytes = (size_t)linear->out_size / 2 * (linear->bf16 ? 2 : 4);
        struct mr_cpu_linear_cut cut = mr_cpu_linear_cut(
            linear, run->gathered + part->first * mr_cpu_linear_x_bytes(linear), part->count,
            layer->activation, run->gated + part->first * gated_bytes);
        cut.adapted = mr_cpu_adapted_from(run->adapted, part->first);
        const size_t last = part[1].first_unit < end ? part[1].first_unit : end;
        mr_cpu_linear_units(&cut, begin - part->first_unit, last - part->first_unit);
        begin = last;
    }
}

/* Adds the outputs of down for the pairs of panels [begin, end), expert by expert. */
static void run_down(void *context, size_t begin, size_t end)
{
    const struct expert_run *run = context;
    const struct mr_cpu_expert_layer *layer = run->layer;
    for (uint32_t e = 0; e < layer->routing.expert_count; e++) {
        const struct expert_part *part = &run->parts[e];
        if (part->count == 0) continue;
        const struct mr_cpu_linear *linear = layer->down[e];
        const unsigned char *x = linear->band_count > 0 ? run->quantized : run->gated;
        struct mr_cpu_linear_cut cut =
            mr_cpu_linear_cut(linear, x + part->first * mr_cpu_linear_x_bytes(linear), part->count,
                              MR_CPU_ADD_F32, run->out);
        cut.targets = run->rows + part->first;
        cut.factors = run->factors + part->first;
        cut.adapted = mr_cpu_adapted_from(run->adapted, part->first);
        for (size_t block = 0; block < cut.block_count; block++)
            mr_cpu_linear_units(&cut, block * cut.pair_count + begin, block * cut.pair_count + end);
    }
}

static void check_sizes(const struct mr_cpu_expert_layer *layer,
                        const struct mr_cpu_expert_buffers *buffers, uint32_t rows)
{
    const struct mr_cpu_linear *gate_up = layer->gate_up[0], *down = layer->down[0];
    MR_ASSERT(rows <= buffers->rows_max);
    MR_ASSERT(layer->routing.expert_count <= buffers->expert_count);
    MR_ASSERT(layer->routing.top_k <= buffers->top_k);
    MR_ASSERT(layer->activation >= MR_CPU_SILU_MUL);
    MR_ASSERT(gate_up->bf16 == buffers->bf16);
    MR_ASSERT(gate_up->in_size <= buffers->hidden_size && down->in_size <= buffers->ffn_size);
}

void mr_cpu_experts_run(const struct mr_cpu_expert_layer *layer,
                        const struct mr_cpu_expert_buffers *buffers, const void *x,
                        const float *logits, uint32_t rows, float *out)
{
    check_sizes(layer, buffers, rows);
    const size_t number = buffers->bf16 ? 2 : 4;
    struct expert_run run = {.layer = layer,
                             .x = x,
                             .x_bytes = layer->gate_up[0]->in_size * number,
                             .assignment_count = rows * layer->routing.top_k,
                             .out = out};
    place(&run, buffers, buffers->memory);
    mr_cpu_route(&layer->routing, logits, rows, run.experts, run.weights);
    sort_assignments(&run);
    mr_parallel_for(run.assignment_count, GATHER_GRAIN_BYTES / run.x_bytes + 1, gather_rows, &run);
    const struct mr_cpu_shrink_rows inputs = {run.x, run.x_bytes, run.rows, run.assignment_count};
    shrink_rows(&run, layer->gate_up, &inputs);
    mr_parallel_for(run.parts[layer->routing.expert_count].first_unit, 2, run_gate_up, &run);
    const struct mr_cpu_shrink_rows gated = {run.gated, layer->down[0]->in_size * number, NULL,
                                             run.assignment_count};
    shrink_rows(&run, layer->down, &gated);
    if (layer->down[0]->band_count > 0)
        mr_cpu_linear_quantize(layer->down[0], run.gated, run.assignment_count, run.quantized);
    mr_parallel_for((layer->down[0]->panel_count + 1) / 2, 1, run_down, &run);
}
