/* search_body - the sampler's passes over a row of logits, in the 16-lane vectors that the
 * including file defines. */
#ifndef MR_OPS_CPU_KERNELS_SEARCH_BODY_H
#define MR_OPS_CPU_KERNELS_SEARCH_BODY_H

#include "codec/limits.h"
#include "ops/cpu_kernels/rows_body.h"

#define SEARCH_INLINE static inline __attribute__((always_inline))

/* Loads 16 floats from x + i on, with -infinity past the end of the row. */
static inline lanes search_load(const float *x, uint32_t count, uint32_t i)
{
    if (count - i >= 16) return lanes_load(x + i);
    return lanes_keep(lanes_load_part(x + i, count - i), 0, count - i, lanes_set(-INFINITY));
}

static uint32_t search_find_max(const float *x, uint32_t count)
{
    enum { BLOCK = 1024 };
    float largest = -INFINITY;
    uint32_t block = 0;
    for (uint32_t begin = 0; begin < count; begin += BLOCK) {
        const uint32_t end = count - begin < BLOCK ? count : begin + BLOCK;
        lanes top = lanes_set(-INFINITY), other = top;
        for (uint32_t i = begin; i < end; i += 32) {
            top = lanes_max(search_load(x, end, i), top);
            if (i + 16 < end) other = lanes_max(search_load(x, end, i + 16), other);
        }
        const float here = lanes_top(lanes_max(top, other));
        if (here > largest) {
            largest = here;
            block = begin;
        }
    }
    for (uint32_t i = block; i < count && largest > -INFINITY; i++)
        if (x[i] == largest) return i;
    return 0;
}

/* The weights of 16 logits; those far below the largest logit underflow to 0. */
static inline lanes search_weights(const struct mr_cpu_search *search, lanes x)
{
    const lanes by = lanes_set(search->factor * ROWS_LOG2_E);
    return rows_exp2(lanes_mul(lanes_sub(x, lanes_set(search->top)), by));
}

static double search_sum_exp(const struct mr_cpu_search *search)
{
    enum { BLOCK = 1024 };
    double total = 0.0;
    for (uint32_t begin = 0; begin < search->count; begin += BLOCK) {
        const uint32_t end = search->count - begin < BLOCK ? search->count : begin + BLOCK;
        lanes sum = lanes_set(0.0f);
        for (uint32_t i = begin; i < end; i += 16)
            sum = lanes_add(sum,
                            lanes_number(search_weights(search, search_load(search->x, end, i))));
        total += (double)lanes_sum(sum);
    }
    return total;
}

/* Bin positions and weights of 16 logits, at least one with a bin position below a limit. */
struct search_group {
    float bin_position[16], weight[16];
};

/* Bit i of the result is set when logit begin + i has a bin position below `limit`. *group is
 * written when any bit is set. */
SEARCH_INLINE uint32_t search_find_below(const struct mr_cpu_search *search, uint32_t begin,
                                         lanes limit, struct search_group *group)
{
    const lanes x = search_load(search->x, search->count, begin);
    const lanes by = lanes_set(search->factor * MR_CPU_BINS_EACH);
    const lanes bin_positions = lanes_mul(lanes_sub(lanes_set(search->top), x), by);
    const uint32_t below = lanes_above(limit, bin_positions);
    if (below == 0) return 0;
    lanes_store(group->bin_position, bin_positions);
    lanes_store(group->weight, search_weights(search, x));
    return below;
}

static void search_fill_bins(const struct mr_cpu_search *search, uint32_t *counts, double *weights)
{
    struct search_group group;
    for (uint32_t i = 0; i < search->count; i += 16) {
        uint32_t below = search_find_below(search, i, lanes_set((float)MR_CPU_BINS), &group);
        for (; below != 0; below &= below - 1) {
            const uint32_t lane = (uint32_t)__builtin_ctz(below);
            const uint32_t bin = (uint32_t)group.bin_position[lane];
            counts[bin]++;
            weights[bin] += (double)group.weight[lane];
        }
    }
}

static uint32_t search_collect(const struct mr_cpu_search *search, float limit,
                               struct mr_cpu_candidate *out)
{
    struct search_group group;
    uint32_t count = 0;
    for (uint32_t i = 0; i < search->count; i += 16) {
        uint32_t below = search_find_below(search, i, lanes_set(limit), &group);
        for (; below != 0; below &= below - 1) {
            const uint32_t lane = (uint32_t)__builtin_ctz(below);
            out[count++] = (struct mr_cpu_candidate){i + lane, search->x[i + lane],
                                                     group.bin_position[lane], group.weight[lane]};
        }
    }
    return count;
}

/* Finds the largest logits by insertion into a short sorted list of ids. Once the list is full, a
 * logit is inserted only if it exceeds the last logit of the list. */
static uint32_t search_find_top(const float *x, uint32_t count, uint32_t wanted, uint32_t *ids)
{
    uint32_t found = 0;
    float threshold = -INFINITY;
    if (wanted == 0) return 0;
    for (uint32_t i = 0; i < count; i += 16) {
        uint32_t above = lanes_above(search_load(x, count, i), lanes_set(threshold));
        for (; above != 0; above &= above - 1) {
            const uint32_t id = i + (uint32_t)__builtin_ctz(above);
            /* An earlier one of these 16 logits may have raised the threshold. */
            if (!(x[id] > threshold)) continue;
            uint32_t at = found < wanted ? found++ : wanted - 1;
            for (; at > 0 && x[ids[at - 1]] < x[id]; at--)
                ids[at] = ids[at - 1];
            ids[at] = id;
            if (found == wanted) threshold = x[ids[wanted - 1]];
        }
    }
    return found;
}

#endif
