#include "ops/sampling/sampler.h"

#include "codec/check.h"
#include "ops/cpu_kernels/parallel.h"
#include "ops/sampling/candidates.h"
#include "ops/sampling/logit_edits.h"
#include "ops/sampling/philox.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DRAW_BLOCK 1024u /* token ids whose weights are summed as one block when no cut applies */

/* The buffers of one sampling thread. */
struct thread_buffers {
    struct mr_candidates *candidates;
    struct mr_logit_edits *edits;
    float *logits;  /* [vocab_size], the edited copy of a row of logits */
    double *blocks; /* sums of the weights, one for each DRAW_BLOCK ids */
};

struct mr_sampler {
    const struct mr_cpu_ops *ops;
    uint32_t vocab_size, thread_count;
    struct thread_buffers *threads;
};

/* ---- create and destroy ---- */

static enum mr_status buffers_create(struct thread_buffers *buffers,
                                     const struct mr_sampler_spec *spec, struct mr_error *err)
{
    const uint32_t blocks = (spec->vocab_size + DRAW_BLOCK - 1) / DRAW_BLOCK;
    buffers->logits = malloc(spec->vocab_size * sizeof *buffers->logits);
    buffers->blocks = malloc(blocks * sizeof *buffers->blocks);
    if (!buffers->logits || !buffers->blocks)
        return mr_fail(err, MR_NOMEM, "no memory to sample from %u tokens", spec->vocab_size);
    enum mr_status status = mr_logit_edits_create(&buffers->edits, spec->vocab_size, err);
    if (status != MR_OK) return status;
    return mr_candidates_create(&buffers->candidates, spec->vocab_size, spec->level, err);
}

enum mr_status mr_sampler_create(struct mr_sampler **out, const struct mr_sampler_spec *spec,
                                 struct mr_error *err)
{
    *out = NULL;
    MR_ASSERT(spec->vocab_size > 0 && spec->thread_count > 0);
    struct mr_sampler *sampler = calloc(1, sizeof *sampler);
    if (!sampler) goto no_sampler;
    sampler->ops = mr_cpu_ops_get(spec->level);
    sampler->vocab_size = spec->vocab_size;
    sampler->thread_count = spec->thread_count;
    sampler->threads = calloc(spec->thread_count, sizeof *sampler->threads);
    if (!sampler->threads) goto no_threads;
    for (uint32_t i = 0; i < spec->thread_count; i++)
        if (buffers_create(&sampler->threads[i], spec, err) != MR_OK) {
            mr_sampler_destroy(sampler);
            return MR_NOMEM;
        }
    *out = sampler;
    return MR_OK;

no_threads:
    free(sampler);
no_sampler:
    return mr_fail(err, MR_NOMEM, "no memory for a sampler");
}

void mr_sampler_destroy(struct mr_sampler *sampler)
{
    if (!sampler) return;
    for (uint32_t i = 0; i < sampler->thread_count; i++) {
        mr_candidates_destroy(sampler->threads[i].candidates);
        mr_logit_edits_destroy(sampler->threads[i].edits);
        free(sampler->threads[i].blocks);
        free(sampler->threads[i].logits);
    }
    free(sampler->threads);
    free(sampler);
}

/* ---- the draw ---- */

float mr_sampler_uniform(uint64_t seed, uint32_t position)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t counter[4] = {position, 0, 0, 0};
    uint32_t bits[4];
    mr_philox(key, counter, bits);
    return (float)(bits[0] >> 8) / 16777216.0f;
}

/* Returns the first candidate, in order of id, at which the cumulative weight exceeds `target`; if
 * no candidate does, because of rounding, the last with a weight above 0. NULL if no weight is
 * above 0. */
static const struct mr_cpu_candidate *pick(const struct mr_cpu_candidate *list, uint32_t count,
                                           double target)
{
    const struct mr_cpu_candidate *last = NULL;
    double sum = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        if (!(list[i].weight > 0.0f)) continue;
        last = &list[i];
        sum += (double)list[i].weight;
        if (sum > target) break;
    }
    return last;
}

static bool is_greedy(const struct mr_draw *draw)
{
    return draw->temperature < MR_GREEDY_BELOW;
}

/* The factor of logits in the exponents of weights. */
static float factor_of(const struct mr_draw *draw)
{
    return is_greedy(draw) ? 1.0f : 1.0f / draw->temperature;
}

static bool has_cuts(const struct mr_draw *draw)
{
    return draw->top_k > 0 || draw->top_p < 1.0f || draw->min_p > 0.0f || draw->typical_p < 1.0f;
}

/* total: as in struct mr_candidates_cuts. */
static void draw_cut(struct thread_buffers *buffers, const struct mr_cpu_search *search,
                     const struct mr_draw *draw, double total_of_row, struct mr_sample *out)
{
    const struct mr_candidates_cuts cuts = {.top_k = draw->top_k,
                                            .top_p = draw->top_p,
                                            .min_p = draw->min_p,
                                            .typical_p = draw->typical_p,
                                            .total = total_of_row};
    mr_candidates_find(buffers->candidates, search, &cuts);
    uint32_t count;
    const struct mr_cpu_candidate *list = mr_candidates_list(buffers->candidates, &count);
    double total = 0.0;
    for (uint32_t i = 0; i < count; i++)
        total += (double)list[i].weight;
    const double uniform = (double)mr_sampler_uniform(draw->seed, draw->position);
    const struct mr_cpu_candidate *chosen = pick(list, count, uniform * total);
    out->token_id = chosen->id;
    out->probability = (float)((double)chosen->weight / total);
}

/* Restricts the search to the DRAW_BLOCK token ids that start at `begin`. */
static struct mr_cpu_search block_of(const struct mr_cpu_search *search, uint32_t begin)
{
    struct mr_cpu_search block = *search;
    block.x += begin;
    block.count = search->count - begin < DRAW_BLOCK ? search->count - begin : DRAW_BLOCK;
    return block;
}

/* Draws from the whole vocabulary: uses the sums of the blocks to find the block of DRAW_BLOCK ids
 * that the random number falls into, then finds the id in this block. */
static void draw_uncut(const struct mr_sampler *sampler, struct thread_buffers *buffers,
                       const struct mr_cpu_search *search, const struct mr_draw *draw,
                       struct mr_sample *out)
{
    double total = 0.0;
    for (uint32_t begin = 0; begin < search->count; begin += DRAW_BLOCK) {
        const struct mr_cpu_search block = block_of(search, begin);
        buffers->blocks[begin / DRAW_BLOCK] = sampler->ops->sum_exp(&block);
        total += buffers->blocks[begin / DRAW_BLOCK];
    }
    double target = (double)mr_sampler_uniform(draw->seed, draw->position) * total;
    uint32_t begin = 0;
    for (; begin + DRAW_BLOCK < search->count; begin += DRAW_BLOCK) {
        if (buffers->blocks[begin / DRAW_BLOCK] > target) break;
        target -= buffers->blocks[begin / DRAW_BLOCK];
    }
    const struct mr_cpu_search block = block_of(search, begin);
    struct mr_cpu_candidate list[DRAW_BLOCK];
    const uint32_t count = sampler->ops->collect(&block, (float)MR_CPU_BINS, list);
    const struct mr_cpu_candidate *chosen = pick(list, count, target);
    out->token_id = chosen ? begin + chosen->id : sampler->ops->find_max(search->x, search->count);
    out->probability = (float)((chosen ? (double)chosen->weight : 1.0) / total);
}

/* ---- one row ---- */

/* True when the model's logits can be sampled from: none is NaN or +infinity, and one is above
 * -infinity. Written on the bits, without a branch, so that the compiler can vectorize the loop. */
static bool is_sound(const float *logits, uint32_t count)
{
    const uint32_t minus_infinity = 0xff800000u;
    uint32_t broken = 0, finite = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &logits[i], sizeof bits);
        const uint32_t special = (bits & 0x7f800000u) == 0x7f800000u;
        broken |= special & (bits != minus_infinity);
        finite |= special ^ 1;
    }
    return finite && !broken;
}

/* Returns the token to use when the request masks every token: the lowest id of its bit mask, else
 * the lowest of its allowed ids. */
static uint32_t lowest_allowed(const struct mr_sampler *sampler, const struct mr_sample_row *row)
{
    uint32_t lowest = UINT32_MAX;
    for (uint32_t word = 0; row->allowed && word < (sampler->vocab_size + 63) / 64; word++)
        if (row->allowed[word] != 0)
            return word * 64 + (uint32_t)__builtin_ctzll(row->allowed[word]);
    for (size_t i = 0; i < row->sampling->allowed_token_count; i++)
        if (row->sampling->allowed_token_ids[i] < lowest)
            lowest = row->sampling->allowed_token_ids[i];
    return lowest < sampler->vocab_size ? lowest : 0;
}

static struct mr_draw draw_of(const struct mr_sampler *sampler, const struct mr_sample_row *row)
{
    const struct mr_sampling *sampling = row->sampling;
    return (struct mr_draw){.temperature = sampling->temperature,
                            .top_p = sampling->top_p,
                            .min_p = sampling->min_p,
                            .typical_p = sampling->typical_p,
                            .top_k = sampling->top_k,
                            .logprobs = sampling->logprobs,
                            .seed = row->seed,
                            .position = row->position,
                            .given = row->given,
                            .given_id = row->given_id,
                            .masked_token = lowest_allowed(sampler, row)};
}

/* Draws from the edited logits of a row. */
static void choose(const struct mr_sampler *sampler, struct thread_buffers *buffers,
                   const float *logits, const struct mr_draw *draw, struct mr_sample *out)
{
    if (draw->given) {
        out->token_id = draw->given_id;
        return;
    }
    const uint32_t best = sampler->ops->find_max(logits, sampler->vocab_size);
    const struct mr_cpu_search search = {logits, sampler->vocab_size, logits[best],
                                         factor_of(draw)};
    if (logits[best] == -INFINITY) {
        out->token_id = draw->masked_token;
        out->probability = 0.0f;
    } else if (isinf(logits[best])) { /* a penalty has made it not finite */
        out->token_id = best;
        out->probability = 1.0f;
    } else if (is_greedy(draw)) {
        out->token_id = best;
        out->probability = (float)(1.0 / sampler->ops->sum_exp(&search));
    } else if (has_cuts(draw)) {
        draw_cut(buffers, &search, draw, 0.0, out);
    } else {
        draw_uncut(sampler, buffers, &search, draw, out);
    }
}

/* Fills in the log-probabilities of a sample, from the model's logits before any edit. */
static void report(const struct mr_sampler *sampler, const float *logits,
                   const struct mr_draw *draw, struct mr_sample *out)
{
    MR_ASSERT(draw->logprobs <= (int32_t)MR_LOGPROBS_MAX);
    const uint32_t wanted = draw->logprobs > 0 ? (uint32_t)draw->logprobs : 0;
    const uint32_t best = sampler->ops->find_max(logits, sampler->vocab_size);
    const struct mr_cpu_search search = {logits, sampler->vocab_size, logits[best], 1.0f};
    const double log_total = log(sampler->ops->sum_exp(&search)) + (double)search.top;
    out->logprob = (float)((double)logits[out->token_id] - log_total);
    out->top_count = sampler->ops->find_top(logits, sampler->vocab_size, wanted, out->top_ids);
    for (uint32_t i = 0; i < out->top_count; i++)
        out->top_logprobs[i] = (float)((double)logits[out->top_ids[i]] - log_total);
}

/* ---- rows of a device: their findings ---- */

/* An entry of a list that a device has found. */
struct entry {
    uint32_t id;
    float logit, model_logit;
};

static int by_id(const void *a, const void *b)
{
    const uint32_t x = ((const struct entry *)a)->id, y = ((const struct entry *)b)->id;
    return (x > y) - (x < y);
}

/* Returns the number of leading entries that no id outside the list can precede: those above the
 * last logit of the list, or all finite ones if the list has all finite logits of the row. */
static uint32_t certain_count(const struct mr_logit_list *list, uint32_t vocab_size)
{
    uint32_t count = list->count;
    if (count == 0) return 0;
    const float last = list->logits[count - 1];
    if (count == vocab_size && last != -INFINITY) return count;
    while (count > 0 && !(list->logits[count - 1] > last))
        count--;
    return count;
}

/* True when the list has all finite logits of the row. */
static bool is_complete(const struct mr_logit_list *list, uint32_t vocab_size)
{
    return list->count > 0 &&
           (list->count == vocab_size || list->logits[list->count - 1] == -INFINITY);
}

/* True when no id outside the first `count` ones of the list can be drawn. False also where
 * rounding could decide; that row is then drawn from its whole logits. */
static bool list_decides(const struct mr_device_row *row, uint32_t count, uint32_t vocab_size)
{
    const double slack = 1.0 + 1e-5;
    const struct mr_draw *draw = &row->draw;
    const struct mr_logit_findings *found = &row->found;
    const double factor = (double)factor_of(draw);
    if (count == 0) return false;
    if (is_complete(&found->list, vocab_size)) return true;
    if (draw->top_k > 0) return draw->top_k <= count;
    if (draw->top_p < 1.0f) {
        double sum = 0.0;
        for (uint32_t i = 0; i < count; i++)
            sum += exp(((double)found->list.logits[i] - (double)found->largest) * factor);
        return sum > (double)draw->top_p * found->total * slack;
    }
    const double last = (double)found->list.logits[found->list.count - 1];
    return draw->min_p > 0.0f &&
           exp((last - (double)found->largest) * factor) * slack < (double)draw->min_p;
}

/* Draws from the list of the largest edited logits; false: the list does not determine the draw. */
static bool draw_listed(const struct mr_sampler *sampler, struct thread_buffers *buffers,
                        const struct mr_device_row *row, struct mr_sample *out, float *model_logit)
{
    const struct mr_logit_findings *found = &row->found;
    const uint32_t count = certain_count(&found->list, sampler->vocab_size);
    struct entry entries[MR_LIST_IDS];
    float logits[MR_LIST_IDS];
    if (!list_decides(row, count, sampler->vocab_size)) return false;
    for (uint32_t i = 0; i < count; i++)
        entries[i] = (struct entry){(uint32_t)found->list.ids[i], found->list.logits[i],
                                    found->list_model_logits[i]};
    qsort(entries, count, sizeof entries[0], by_id);
    for (uint32_t i = 0; i < count; i++)
        logits[i] = entries[i].logit;
    const struct mr_cpu_search search = {logits, count, found->largest, factor_of(&row->draw)};
    const bool complete = is_complete(&found->list, sampler->vocab_size);
    draw_cut(buffers, &search, &row->draw, complete ? 0.0 : found->total, out);
    *model_logit = entries[out->token_id].model_logit;
    out->token_id = entries[out->token_id].id;
    return true;
}

/* Draws from the findings of a row; false: the findings do not determine the draw. */
static bool choose_found(const struct mr_sampler *sampler, struct thread_buffers *buffers,
                         const struct mr_device_row *row, struct mr_sample *out, float *model_logit)
{
    const struct mr_logit_findings *found = &row->found;
    out->token_id = found->token;
    *model_logit = found->token_model_logit;
    if (row->draw.given || found->largest == -INFINITY) return false;
    if (isinf(found->largest)) {
        out->probability = 1.0f;
        return true;
    }
    if (is_greedy(&row->draw)) {
        out->probability = (float)(1.0 / found->total);
        return true;
    }
    if (found->drawn) {
        out->probability = found->probability;
        return true;
    }
    return draw_listed(sampler, buffers, row, out, model_logit);
}

static int by_logit(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->logit != y->logit) return x->logit < y->logit ? 1 : -1;
    return by_id(a, b);
}

/* Fills in the log-probabilities of a sample; false: the findings do not have them. */
static bool report_found(const struct mr_sampler *sampler, const struct mr_device_row *row,
                         float model_logit, struct mr_sample *out)
{
    const struct mr_logit_findings *found = &row->found;
    const struct mr_logit_list *top = &found->top;
    const double log_total = log(found->model_total) + (double)found->model_largest;
    out->logprob = (float)((double)model_logit - log_total);
    if (row->draw.logprobs <= 0) return true;
    uint32_t wanted = (uint32_t)row->draw.logprobs;
    struct entry entries[MR_TOP_IDS];
    const uint32_t count = certain_count(top, sampler->vocab_size);
    if (count < wanted && !is_complete(top, sampler->vocab_size)) return false;
    for (uint32_t i = 0; i < count; i++)
        entries[i] = (struct entry){(uint32_t)top->ids[i], top->logits[i], 0.0f};
    qsort(entries, count, sizeof entries[0], by_logit);
    out->top_count = wanted < count ? wanted : count;
    for (uint32_t i = 0; i < out->top_count; i++) {
        out->top_ids[i] = entries[i].id;
        out->top_logprobs[i] = (float)((double)entries[i].logit - log_total);
    }
    return true;
}

/* ---- all rows ---- */

struct sampler_run {
    struct mr_sampler *sampler;
    const struct mr_sample_row *rows;
    struct mr_device_row *device_rows;
    struct mr_sample *samples;
};

static void run_row(const struct mr_sampler *sampler, struct thread_buffers *buffers,
                    const struct mr_sample_row *row, struct mr_sample *out)
{
    const float *logits = row->logits;
    *out = (struct mr_sample){.failed = !is_sound(logits, sampler->vocab_size)};
    if (out->failed) return;
    const struct mr_draw draw = draw_of(sampler, row);
    if (!draw.given && mr_logit_edits_any(row)) {
        memcpy(buffers->logits, logits, sampler->vocab_size * sizeof *logits);
        mr_logit_edits_apply(buffers->edits, row, buffers->logits);
        logits = buffers->logits;
    }
    choose(sampler, buffers, logits, &draw, out);
    report(sampler, row->logits, &draw, out);
}

static void run_rows(void *context, size_t begin, size_t end)
{
    struct sampler_run *run = context;
    struct thread_buffers *buffers = &run->sampler->threads[mr_parallel_thread_index()];
    for (size_t i = begin; i < end; i++)
        run_row(run->sampler, buffers, &run->rows[i], &run->samples[i]);
}

void mr_sampler_run(struct mr_sampler *sampler, const struct mr_sample_row *rows, uint32_t count,
                    struct mr_sample *samples)
{
    struct sampler_run run = {.sampler = sampler, .rows = rows, .samples = samples};
    MR_ASSERT(mr_parallel_thread_count() <= sampler->thread_count);
    for (uint32_t i = 0; i < count; i++)
        MR_ASSERT(rows[i].logits && rows[i].sampling && !isnan(rows[i].sampling->temperature) &&
                  (!rows[i].given || rows[i].given_id < sampler->vocab_size));
    mr_parallel_for(count, 1, run_rows, &run);
}

void mr_sampler_describe(struct mr_sampler *sampler, const struct mr_sample_row *row,
                         struct mr_logit_query *query, struct mr_draw *draw)
{
    struct mr_logit_edits *edits = sampler->threads[0].edits;
    MR_ASSERT(row->sampling && !isnan(row->sampling->temperature));
    *draw = draw_of(sampler, row);
    const bool cuts = has_cuts(draw), drawn = !draw->given && !is_greedy(draw);
    *query = (struct mr_logit_query){.row = row->logit_row,
                                     .factor = factor_of(draw),
                                     .top = draw->logprobs > 0,
                                     .draw = drawn,
                                     .list = drawn && (cuts || row->allowed),
                                     .seed = row->seed,
                                     .position = row->position,
                                     .top_k = draw->top_k,
                                     .top_p = draw->top_p,
                                     .min_p = draw->min_p,
                                     .typical_p = draw->typical_p,
                                     .masked_token = draw->masked_token};
    if (draw->given) return;
    query->edits = mr_logit_edits_list(edits, row, &query->edit_count);
    query->allowed = mr_logit_edits_mask(edits, row);
}

/* Draws the sample of a row from its findings, or from its whole logits if it has them; false: it
 * needs the whole logits. */
static bool draw_row(const struct mr_sampler *sampler, struct thread_buffers *buffers,
                     const struct mr_device_row *row, struct mr_sample *out)
{
    float model_logit = 0.0f;
    *out = (struct mr_sample){.failed = !isfinite(row->found.model_largest)};
    if (out->failed) return true;
    const bool chosen = choose_found(sampler, buffers, row, out, &model_logit);
    if (!row->edited) return chosen && report_found(sampler, row, model_logit, out);
    if (!chosen) choose(sampler, buffers, row->edited, &row->draw, out);
    report(sampler, row->model, &row->draw, out);
    return true;
}

static void draw_rows(void *context, size_t begin, size_t end)
{
    struct sampler_run *run = context;
    struct thread_buffers *buffers = &run->sampler->threads[mr_parallel_thread_index()];
    for (size_t i = begin; i < end; i++) {
        struct mr_device_row *row = &run->device_rows[i];
        if (row->needs_logits)
            row->needs_logits = !draw_row(run->sampler, buffers, row, &run->samples[i]);
    }
}

uint32_t mr_sampler_draw(struct mr_sampler *sampler, struct mr_device_row *rows, uint32_t count,
                         struct mr_sample *samples)
{
    struct sampler_run run = {.sampler = sampler, .device_rows = rows, .samples = samples};
    uint32_t undecided = 0;
    MR_ASSERT(mr_parallel_thread_count() <= sampler->thread_count);
    mr_parallel_for(count, 1, draw_rows, &run);
    for (uint32_t i = 0; i < count; i++)
        undecided += rows[i].needs_logits;
    return undecided;
}
