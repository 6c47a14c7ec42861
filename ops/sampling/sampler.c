#include "ops/sampling/sampler.h"

#include "codec/check.h"
#include "ops/cpu/parallel.h"
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
    float *logits;   /* [vocab_size], the edited copy of a row of logits */
    uint32_t *marks; /* [vocab_size], scratch of mr_logit_edits_apply */
    double *blocks;  /* sums of the weights, one for each DRAW_BLOCK ids */
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
    buffers->marks = calloc(spec->vocab_size, sizeof *buffers->marks);
    buffers->blocks = malloc(blocks * sizeof *buffers->blocks);
    if (!buffers->logits || !buffers->marks || !buffers->blocks)
        return mr_fail(err, MR_NOMEM, "no memory to sample from %u tokens", spec->vocab_size);
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
        free(sampler->threads[i].blocks);
        free(sampler->threads[i].marks);
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

static bool has_cuts(const struct mr_sampling *sampling)
{
    return sampling->top_k > 0 || sampling->top_p < 1.0f || sampling->min_p > 0.0f ||
           sampling->typical_p < 1.0f;
}

static void draw_cut(struct thread_buffers *buffers, const struct mr_cpu_search *search,
                     const struct mr_sample_row *row, struct mr_sample *out)
{
    const struct mr_candidates_cuts cuts = {.top_k = row->sampling->top_k,
                                            .top_p = row->sampling->top_p,
                                            .min_p = row->sampling->min_p,
                                            .typical_p = row->sampling->typical_p};
    mr_candidates_find(buffers->candidates, search, &cuts);
    uint32_t count;
    const struct mr_cpu_candidate *list = mr_candidates_list(buffers->candidates, &count);
    double total = 0.0;
    for (uint32_t i = 0; i < count; i++)
        total += (double)list[i].weight;
    const double uniform = (double)mr_sampler_uniform(row->seed, row->position);
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

/* Draws from the whole vocabulary: finds the block of DRAW_BLOCK ids that the random number falls
 * into by the sums of the blocks, then the id inside this block. */
static void draw_uncut(const struct mr_sampler *sampler, struct thread_buffers *buffers,
                       const struct mr_cpu_search *search, const struct mr_sample_row *row,
                       struct mr_sample *out)
{
    double total = 0.0;
    for (uint32_t begin = 0; begin < search->count; begin += DRAW_BLOCK) {
        const struct mr_cpu_search block = block_of(search, begin);
        buffers->blocks[begin / DRAW_BLOCK] = sampler->ops->sum_exp(&block);
        total += buffers->blocks[begin / DRAW_BLOCK];
    }
    double target = (double)mr_sampler_uniform(row->seed, row->position) * total;
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
 * -infinity. Written on the bits, without a branch, so that the compiler makes vectors of it. */
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

static void choose(const struct mr_sampler *sampler, struct thread_buffers *buffers,
                   const struct mr_sample_row *row, struct mr_sample *out)
{
    const float *logits = row->logits;
    if (mr_logit_edits_any(row)) {
        memcpy(buffers->logits, row->logits, sampler->vocab_size * sizeof *logits);
        mr_logit_edits_apply(row, sampler->vocab_size, buffers->logits, buffers->marks);
        logits = buffers->logits;
    }
    const uint32_t best = sampler->ops->find_max(logits, sampler->vocab_size);
    const float temperature = row->sampling->temperature;
    const bool greedy = temperature < MR_GREEDY_BELOW;
    const float factor = greedy ? 1.0f : 1.0f / temperature;
    const struct mr_cpu_search search = {logits, sampler->vocab_size, logits[best], factor};
    if (logits[best] == -INFINITY) {
        out->token_id = lowest_allowed(sampler, row);
        out->probability = 0.0f;
    } else if (isinf(logits[best])) { /* a penalty has made it so */
        out->token_id = best;
        out->probability = 1.0f;
    } else if (greedy) {
        out->token_id = best;
        out->probability = (float)(1.0 / sampler->ops->sum_exp(&search));
    } else if (has_cuts(row->sampling)) {
        draw_cut(buffers, &search, row, out);
    } else {
        draw_uncut(sampler, buffers, &search, row, out);
    }
}

/* Fills in the log-probabilities of a sample, by the model's logits before any edit. */
static void report(const struct mr_sampler *sampler, const struct mr_sample_row *row,
                   struct mr_sample *out)
{
    const int32_t wanted = row->sampling->logprobs;
    MR_ASSERT(wanted <= (int32_t)MR_LOGPROBS_MAX);
    const uint32_t best = sampler->ops->find_max(row->logits, sampler->vocab_size);
    const struct mr_cpu_search search = {row->logits, sampler->vocab_size, row->logits[best], 1.0f};
    const double log_total = log(sampler->ops->sum_exp(&search)) + (double)search.top;
    out->logprob = (float)((double)row->logits[out->token_id] - log_total);
    out->top_count = sampler->ops->find_top(row->logits, sampler->vocab_size,
                                            wanted > 0 ? (uint32_t)wanted : 0, out->top_ids);
    for (uint32_t i = 0; i < out->top_count; i++)
        out->top_logprobs[i] = (float)((double)row->logits[out->top_ids[i]] - log_total);
}

/* ---- all rows ---- */

struct sampler_run {
    struct mr_sampler *sampler;
    const struct mr_sample_row *rows;
    struct mr_sample *samples;
};

static void run_row(const struct mr_sampler *sampler, struct thread_buffers *buffers,
                    const struct mr_sample_row *row, struct mr_sample *out)
{
    *out = (struct mr_sample){.failed = !is_sound(row->logits, sampler->vocab_size)};
    if (out->failed) return;
    if (row->given)
        out->token_id = row->given_id;
    else
        choose(sampler, buffers, row, out);
    report(sampler, row, out);
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
