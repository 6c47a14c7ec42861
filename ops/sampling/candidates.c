#include "ops/sampling/candidates.h"

#include "codec/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A token in a selection of the best tokens. Order: larger key first, then lower id. */
struct item {
    float key, weight;
    uint32_t id;
};

struct mr_candidates {
    const struct mr_cpu_ops *ops;
    uint32_t vocab_size, count;
    struct mr_cpu_candidate *list; /* [vocab_size], in order of id */
    struct item *items;            /* [vocab_size], scratch of one cut */
    double bin_weights[MR_CPU_BINS];
    uint32_t bin_counts[MR_CPU_BINS];
};

/* The limit of a selection: it keeps items in order until their number reaches `count` or their
 * total weight reaches `weight`. The item that reaches the limit is kept. */
struct quota {
    double count, weight; /* INFINITY: no limit */
};

enum mr_status mr_candidates_create(struct mr_candidates **out, uint32_t vocab_size,
                                    enum mr_cpu_level level, struct mr_error *err)
{
    *out = NULL;
    struct mr_candidates *candidates = calloc(1, sizeof *candidates);
    if (!candidates) goto no_candidates;
    candidates->ops = mr_cpu_ops_get(level);
    candidates->vocab_size = vocab_size;
    candidates->list = malloc(vocab_size * sizeof *candidates->list);
    if (!candidates->list) goto no_list;
    candidates->items = malloc(vocab_size * sizeof *candidates->items);
    if (!candidates->items) goto no_items;
    *out = candidates;
    return MR_OK;

no_items:
    free(candidates->list);
no_list:
    free(candidates);
no_candidates:
    return mr_fail(err, MR_NOMEM, "no memory to sample from %u tokens", vocab_size);
}

void mr_candidates_destroy(struct mr_candidates *candidates)
{
    if (!candidates) return;
    free(candidates->items);
    free(candidates->list);
    free(candidates);
}

/* ---- selection ---- */

static bool before(const struct item *a, const struct item *b)
{
    return a->key > b->key || (a->key == b->key && a->id < b->id);
}

static void swap(struct item *a, struct item *b)
{
    const struct item t = *a;
    *a = *b;
    *b = t;
}

/* Moves the median of three items to items[count - 1]. */
static void choose_pivot(struct item *items, uint32_t count)
{
    struct item *a = &items[0], *b = &items[count / 2], *c = &items[count - 1];
    if (before(b, a)) swap(a, b);
    if (before(c, b)) swap(b, c);
    if (before(b, a)) swap(a, b);
    swap(b, c);
}

/* Finds the last item within the quota: quickselect (Hoare, 1961) that also sums the weights of the
 * items before the pivot. Reorders the items. count > 0. */
static struct item select_last(struct item *items, uint32_t count, struct quota quota)
{
    for (;;) {
        choose_pivot(items, count);
        const struct item pivot = items[count - 1];
        uint32_t better = 0;
        double weight = 0.0;
        for (uint32_t i = 0; i + 1 < count; i++)
            if (before(&items[i], &pivot)) {
                weight += (double)items[i].weight;
                swap(&items[i], &items[better++]);
            }
        if (better > 0 && (better >= quota.count || weight >= quota.weight)) {
            count = better;
            continue;
        }
        swap(&items[better], &items[count - 1]);
        quota.count -= better + 1.0;
        quota.weight -= weight + (double)pivot.weight;
        if (quota.count <= 0.0 || quota.weight <= 0.0 || better + 1 == count) return pivot;
        items += better + 1;
        count -= better + 1;
    }
}

/* Keeps candidates with a bin position below `from`, and candidates up to and including `last` in
 * order of falling logit; drops all others. */
static void keep_until(struct mr_candidates *candidates, float from, const struct item *last)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < candidates->count; i++) {
        const struct mr_cpu_candidate *candidate = &candidates->list[i];
        const struct item item = {candidate->logit, candidate->weight, candidate->id};
        if (candidate->bin_position < from || !before(last, &item))
            candidates->list[kept++] = *candidate;
    }
    candidates->count = kept;
}

/* Keeps the largest logits within the quota. Candidates with a bin position below `from` are also
 * kept, outside the quota. */
static void cut_by_logit(struct mr_candidates *candidates, float from, struct quota quota)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < candidates->count; i++) {
        const struct mr_cpu_candidate *candidate = &candidates->list[i];
        if (candidate->bin_position >= from)
            candidates->items[count++] =
                (struct item){candidate->logit, candidate->weight, candidate->id};
    }
    if (count == 0) return;
    const struct item last = select_last(candidates->items, count, quota);
    keep_until(candidates, from, &last);
}

static double total_weight(const struct mr_candidates *candidates)
{
    double total = 0.0;
    for (uint32_t i = 0; i < candidates->count; i++)
        total += (double)candidates->list[i].weight;
    return total;
}

/* ---- the cuts ---- */

/* The first cut, top-k or top-p: finds the histogram bin in which the quota of tokens or weight is
 * used up, collects all candidates down to this bin, and selects inside this bin. total: as in
 * struct mr_candidates_cuts. */
static void find_best(struct mr_candidates *candidates, const struct mr_cpu_search *search,
                      uint32_t top_k, double top_p, double total)
{
    memset(candidates->bin_weights, 0, sizeof candidates->bin_weights);
    memset(candidates->bin_counts, 0, sizeof candidates->bin_counts);
    candidates->ops->fill_bins(search, candidates->bin_counts, candidates->bin_weights);
    double sum = 0.0;
    for (uint32_t bin = 0; bin < MR_CPU_BINS; bin++)
        sum += candidates->bin_weights[bin];
    struct quota quota = {top_k > 0 ? (double)top_k : (double)INFINITY,
                          top_p < 1.0 ? top_p * (total > 0.0 ? total : sum) : (double)INFINITY};
    uint32_t bin = 0;
    for (; bin + 1 < MR_CPU_BINS; bin++) {
        if (candidates->bin_counts[bin] >= quota.count ||
            candidates->bin_weights[bin] >= quota.weight)
            break;
        quota.count -= candidates->bin_counts[bin];
        quota.weight -= candidates->bin_weights[bin];
    }
    candidates->count = candidates->ops->collect(search, (float)(bin + 1), candidates->list);
    cut_by_logit(candidates, (float)bin, quota);
}

static void cut_min_p(struct mr_candidates *candidates, float min_p)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < candidates->count; i++)
        if (candidates->list[i].weight >= min_p) candidates->list[kept++] = candidates->list[i];
    candidates->count = kept;
}

/* Distance between the information content (-log p) of a candidate and the entropy of the
 * candidates. */
static float typical_distance(const struct mr_cpu_candidate *candidate, double log_total,
                              double entropy)
{
    const double information = log_total + (double)(candidate->bin_position / MR_CPU_BINS_EACH);
    return (float)fabs(information - entropy);
}

static void cut_typical(struct mr_candidates *candidates, float typical_p)
{
    const double total = total_weight(candidates), log_total = log(total);
    double entropy = log_total;
    for (uint32_t i = 0; i < candidates->count; i++)
        entropy += (double)candidates->list[i].weight / total *
                   (double)(candidates->list[i].bin_position / MR_CPU_BINS_EACH);
    for (uint32_t i = 0; i < candidates->count; i++) {
        const struct mr_cpu_candidate *candidate = &candidates->list[i];
        candidates->items[i] = (struct item){-typical_distance(candidate, log_total, entropy),
                                             candidate->weight, candidate->id};
    }
    const struct quota quota = {(double)INFINITY, (double)typical_p * total};
    const struct item last = select_last(candidates->items, candidates->count, quota);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < candidates->count; i++) {
        const struct mr_cpu_candidate candidate = candidates->list[i];
        const struct item item = {-typical_distance(&candidate, log_total, entropy),
                                  candidate.weight, candidate.id};
        if (!before(&last, &item)) candidates->list[kept++] = candidate;
    }
    candidates->count = kept;
}

void mr_candidates_find(struct mr_candidates *candidates, const struct mr_cpu_search *search,
                        const struct mr_candidates_cuts *cuts)
{
    MR_ASSERT(search->count <= candidates->vocab_size && isfinite(search->top));
    const double top_p = (double)cuts->top_p;
    if (cuts->top_k > 0)
        find_best(candidates, search, cuts->top_k, 1.0, 0.0);
    else if (top_p < 1.0)
        find_best(candidates, search, 0, top_p, cuts->total);
    else
        candidates->count = candidates->ops->collect(search, (float)MR_CPU_BINS, candidates->list);
    if (cuts->top_k > 0 && top_p < 1.0) {
        const struct quota quota = {(double)INFINITY, top_p * total_weight(candidates)};
        cut_by_logit(candidates, 0.0f, quota);
    }
    if (cuts->min_p > 0.0f) cut_min_p(candidates, cuts->min_p);
    if (cuts->typical_p < 1.0f) cut_typical(candidates, cuts->typical_p);
    MR_ASSERT(candidates->count > 0);
}

const struct mr_cpu_candidate *mr_candidates_list(const struct mr_candidates *candidates,
                                                  uint32_t *count)
{
    *count = candidates->count;
    return candidates->list;
}
