#include "codec/check.h"
#include "ops/cpu_kernels/expert_kernels.h"
#include "ops/cpu_kernels/parallel.h"

#include <float.h>
#include <math.h>

/* With fewer rows for each thread a parallel loop costs more than it saves. */
#define ROUTE_GRAIN_ROWS 64u

struct route_run {
    const struct mr_cpu_routing *routing;
    const float *logits;
    uint32_t *experts;
    float *weights;
};

/* Returns a finite logit in the same order; NaN becomes the lowest. */
static float as_finite(float logit)
{
    return isnan(logit) ? -FLT_MAX : fmaxf(-FLT_MAX, fminf(logit, FLT_MAX));
}

/* Returns the score of an expert. For a softmax it is not yet divided by the sum of all scores;
 * largest: the largest logit of the row. */
static float score_of(const struct mr_cpu_routing *routing, float logit, float largest)
{
    logit = as_finite(logit);
    return routing->sigmoid ? 1.0f / (1.0f + expf(-logit)) : expf(logit - largest);
}

/* Writes the ids and values of the top_k largest of `count` values, the lower id among equals, by
 * insertion into the sorted list of those found so far. */
static void find_top_k(const float *values, uint32_t count, uint32_t top_k, uint32_t *ids,
                       float *top)
{
    uint32_t found = 0;
    for (uint32_t id = 0; id < count; id++) {
        const float value = values[id];
        if (found == top_k && !(value > top[found - 1])) continue;
        uint32_t at = found < top_k ? found++ : found - 1;
        for (; at > 0 && value > top[at - 1]; at--) {
            top[at] = top[at - 1];
            ids[at] = ids[at - 1];
        }
        top[at] = value;
        ids[at] = id;
    }
}

/* Returns the value of a group of `size` experts: its best choice, or the sum of its two best. */
static float group_value(const struct mr_cpu_routing *routing, const float *choices, uint32_t size)
{
    uint32_t ids[2];
    float best[2];
    const uint32_t most = routing->group_pairs && size > 1 ? 2 : 1;
    find_top_k(choices, size, most, ids, best);
    return most == 2 ? best[0] + best[1] : best[0];
}

/* Sets the choices of the experts outside the best groups to -infinity. */
static void keep_groups(const struct mr_cpu_routing *routing, float *choices)
{
    const uint32_t size = routing->expert_count / routing->group_count;
    float values[MR_CPU_EXPERTS_MAX], best[MR_CPU_EXPERTS_MAX];
    uint32_t ids[MR_CPU_EXPERTS_MAX];
    bool kept[MR_CPU_EXPERTS_MAX] = {false};
    for (uint32_t group = 0; group < routing->group_count; group++)
        values[group] = group_value(routing, choices + group * size, size);
    find_top_k(values, routing->group_count, routing->groups_kept, ids, best);
    for (uint32_t i = 0; i < routing->groups_kept; i++)
        kept[ids[i]] = true;
    for (uint32_t id = 0; id < routing->expert_count; id++)
        if (!kept[id / size]) choices[id] = -INFINITY;
}

/* Fills in the numbers by which experts are chosen. total: the sum by which scores of a softmax are
 * divided. A plain softmax is chosen by its logits, which have the same order. */
static void fill_choices(const struct mr_cpu_routing *routing, const float *logits, float largest,
                         double total, float *choices)
{
    const bool groups = routing->group_count > 1, by_score = groups || routing->bias;
    for (uint32_t id = 0; id < routing->expert_count; id++) {
        choices[id] = by_score ? score_of(routing, logits[id], largest) : as_finite(logits[id]);
        if (routing->bias) choices[id] = (float)(choices[id] / total) + routing->bias[id];
    }
    if (groups) keep_groups(routing, choices);
}

static void route_row(const struct mr_cpu_routing *routing, const float *logits, uint32_t *experts,
                      float *weights)
{
    float choices[MR_CPU_EXPERTS_MAX], largest = -FLT_MAX;
    double sum = 0.0;
    for (uint32_t id = 0; id < routing->expert_count; id++)
        largest = fmaxf(largest, as_finite(logits[id]));
    const bool whole = !routing->sigmoid && (!routing->normalize || routing->bias);
    for (uint32_t id = 0; whole && id < routing->expert_count; id++)
        sum += (double)score_of(routing, logits[id], largest);
    if (!whole) sum = 1.0;
    fill_choices(routing, logits, largest, sum, choices);
    find_top_k(choices, routing->expert_count, routing->top_k, experts, weights);
    double chosen = 0.0;
    for (uint32_t i = 0; i < routing->top_k; i++) {
        weights[i] = score_of(routing, logits[experts[i]], largest);
        chosen += (double)weights[i];
    }
    /* A softmax that is normalized over the chosen experts need not be divided by its sum first. */
    if (routing->normalize) sum = fmax(chosen, sum * fmax((double)routing->sum_min, 1e-20));
    for (uint32_t i = 0; i < routing->top_k; i++)
        weights[i] = (float)((double)weights[i] / sum * (double)routing->scale);
}

/* Chooses by the sparse mixer of struct mr_router (ops/backend/expert_layer.h). */
static void mix_row(const struct mr_cpu_routing *routing, const float *logits, uint32_t *experts,
                    float *weights)
{
    const float margin = routing->mixer_margin;
    float open[MR_CPU_EXPERTS_MAX]; /* the logits of experts not yet chosen; else -infinity */
    for (uint32_t id = 0; id < routing->expert_count; id++)
        open[id] = as_finite(logits[id]);
    for (uint32_t i = 0; i < routing->top_k; i++) {
        float best;
        double sum = 0.0;
        find_top_k(open, routing->expert_count, 1, &experts[i], &best);
        for (uint32_t id = 0; id < routing->expert_count; id++)
            if (!((best - open[id]) / fmaxf(fabsf(open[id]), best) > margin) &&
                open[id] > -INFINITY)
                sum += (double)expf(open[id] - best);
        weights[i] = (float)(1.0 / sum);
        open[experts[i]] = -INFINITY;
    }
}

static void route_rows(void *context, size_t begin, size_t end)
{
    const struct route_run *run = context;
    const uint32_t top_k = run->routing->top_k;
    for (size_t row = begin; row < end; row++)
        (run->routing->mixer_margin > 0.0f ? mix_row : route_row)(
            run->routing, run->logits + row * run->routing->expert_count,
            run->experts + row * top_k, run->weights + row * top_k);
}

void mr_cpu_route(const struct mr_cpu_routing *routing, const float *logits, uint32_t rows,
                  uint32_t *experts, float *weights)
{
    MR_ASSERT(routing->top_k > 0 && routing->top_k <= routing->expert_count);
    MR_ASSERT(routing->expert_count <= MR_CPU_EXPERTS_MAX);
    MR_ASSERT(routing->group_count <= 1 ||
              (routing->expert_count % routing->group_count == 0 && routing->groups_kept > 0 &&
               routing->groups_kept <= routing->group_count));
    struct mr_cpu_routing ours = *routing;
    if (ours.scale == 0.0f) ours.scale = 1.0f;
    struct route_run run = {&ours, logits, experts, weights};
    mr_parallel_for(rows, ROUTE_GRAIN_ROWS, route_rows, &run);
}
