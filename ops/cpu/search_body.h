/* search_body - the sampler's passes over a row of logits, over the 16 lanes of the including file.
 */
#ifndef MR_OPS_CPU_SEARCH_BODY_H
#define MR_OPS_CPU_SEARCH_BODY_H

#include "codec/limits.h"
#include "ops/cpu/rows_body.h"

/* 16 floats from x + i on, or fewer and then -infinity. */
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

/* The exponents of two for 16 numbers; 2^-126 and less for those far from the top. */
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

static inline lanes search_places(const struct mr_cpu_search *search, lanes x)
{
    const lanes by = lanes_set(search->factor * MR_CPU_BINS_EACH);
    return lanes_mul(lanes_sub(lanes_set(search->top), x), by);
}

static void search_fill_bins(const struct mr_cpu_search *search, uint32_t *counts, double *weights)
{
    const lanes limit = lanes_set((float)MR_CPU_BINS);
    for (uint32_t i = 0; i < search->count; i += 16) {
        const lanes x = search_load(search->x, search->count, i);
        const lanes places = search_places(search, x);
        uint32_t near = lanes_above(limit, places);
        if (near == 0) continue;
        float place[16], weight[16];
        lanes_store(place, places);
        lanes_store(weight, search_weights(search, x));
        for (; near != 0; near &= near - 1) {
            const uint32_t lane = (uint32_t)__builtin_ctz(near), bin = (uint32_t)place[lane];
            counts[bin]++;
            weights[bin] += (double)weight[lane];
        }
    }
}

static uint32_t search_collect(const struct mr_cpu_search *search, float limit,
                               struct mr_cpu_candidate *out)
{
    const lanes below = lanes_set(limit);
    uint32_t count = 0;
    for (uint32_t i = 0; i < search->count; i += 16) {
        const lanes x = search_load(search->x, search->count, i);
        const lanes places = search_places(search, x);
        uint32_t near = lanes_above(below, places);
        if (near == 0) continue;
        float place[16], weight[16];
        lanes_store(place, places);
        lanes_store(weight, search_weights(search, x));
        for (; near != 0; near &= near - 1) {
            const uint32_t lane = (uint32_t)__builtin_ctz(near);
            out[count++] =
                (struct mr_cpu_candidate){i + lane, search->x[i + lane], place[lane], weight[lane]};
        }
    }
    return count;
}

/* A short list kept in order by insertion; the list's last is the bar the others must pass. */
static uint32_t search_find_top(const float *x, uint32_t count, uint32_t wanted, uint32_t *ids)
{
    uint32_t found = 0;
    float bar = -INFINITY;
    if (wanted == 0) return 0;
    for (uint32_t i = 0; i < count; i += 16) {
        uint32_t above = lanes_above(search_load(x, count, i), lanes_set(bar));
        for (; above != 0; above &= above - 1) {
            const uint32_t id = i + (uint32_t)__builtin_ctz(above);
            if (!(x[id] > bar)) continue; /* the bar rose since */
            uint32_t at = found < wanted ? found++ : wanted - 1;
            for (; at > 0 && x[ids[at - 1]] < x[id]; at--)
                ids[at] = ids[at - 1];
            ids[at] = id;
            if (found == wanted) bar = x[ids[wanted - 1]];
        }
    }
    return found;
}

#endif
