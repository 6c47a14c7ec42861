#include "batching/cache/load_gate.h"

#include <math.h>

#define MARGIN_SHARE                                                                               \
    0.95 /* load only if predicted to take at most this part of the computing time */
#define MARGIN_BACK_SHARE 0.85 /* MARGIN_SHARE for MR_LOAD_BACK, which slows computing */
#define MARGIN_MS         1.0
#define BACK_SHARE                                                                                 \
    0.75 /* MR_LOAD_BACK only if it takes at most this part of MR_LOAD_ALL's time                  \
          */
#define WAIT_VALUES              2.0
#define WAIT_MS                  30.0 /* several connections may deliver 20 ms of values at once */
#define ROUND_TRIP_MS            0.5  /* assumed until a round trip to Redis was measured */
#define BYTES_TO_MS(bytes, rate) ((double)(bytes) / (rate)*1e3)

/* Predicted time to compute tokens [from, to) of one sequence, chunk by chunk, with no other
 * sequence in the steps. */
static double compute_ms(const struct mr_load_question *question, uint32_t from, uint32_t to)
{
    if (from >= to) return 0.0;
    struct mr_step_work kind = {0};
    mr_step_work_add(&kind, to - from, from, false);
    double coefficients[MR_COST_TERMS], ms = mr_cost_model_predict(question->cost, &kind);
    mr_cost_model_coefficients(question->cost, coefficients);
    uint32_t chunk = question->chunk_tokens > 0 ? question->chunk_tokens : to - from;
    return ms + coefficients[0] * ((to - from - 1) / chunk);
}

static double load_ms(const struct mr_load_question *question, uint32_t blocks, bool extra)
{
    const struct mr_remote_rates *rates = &question->rates;
    uint64_t bytes = rates->waiting_bytes + blocks * question->block_bytes;
    if (extra) bytes += question->extra_bytes;
    double trip = rates->round_trip_ns > 0 ? (double)rates->round_trip_ns / 1e6 : ROUND_TRIP_MS;
    return trip + BYTES_TO_MS(bytes, rates->bytes_per_second) + question->import_ms * blocks;
}

/* Index of the first block of the sequence that prefill has not finished. */
static uint32_t prefill_block(const struct mr_load_question *question)
{
    return question->computed_tokens / MR_BLOCK_TOKENS;
}

/* Tokens that have KV once everything found in the remote cache is loaded. extra: also load the
 * pieces and the entry (remote_prefix.h) after the full blocks; otherwise at least one token is
 * left to compute. */
static uint32_t loadable_tokens(const struct mr_load_question *question, bool extra)
{
    uint32_t found = question->found_blocks * MR_BLOCK_TOKENS;
    if (extra) return question->extra_tokens;
    return found < question->known_tokens ? found : question->known_tokens - 1;
}

static double both_ms(const struct mr_load_question *question, uint32_t first, bool extra)
{
    double compute = compute_ms(question, question->computed_tokens, first * MR_BLOCK_TOKENS);
    double load = load_ms(question, question->found_blocks - first, extra);
    uint32_t end = loadable_tokens(question, extra);
    return fmax(compute, load) + compute_ms(question, end, question->known_tokens);
}

/* The first block to load for which the prompt is predicted to be ready soonest, with or without
 * the extra (the pieces and the entry after the full blocks). first_block == found_blocks without
 * the extra: nothing to load. */
static struct mr_load_answer best_begin(const struct mr_load_question *question, double *best_ms)
{
    struct mr_load_answer best = {.verdict = MR_LOAD_BACK, .first_block = question->found_blocks};
    *best_ms = INFINITY;
    uint32_t begin = prefill_block(question);
    for (int extra = question->extra_bytes > 0; extra >= 0; extra--)
        for (uint32_t first = begin; first < question->found_blocks + (uint32_t)extra; first++) {
            double ms = both_ms(question, first, extra != 0);
            if (ms >= *best_ms) continue;
            *best_ms = ms;
            best.first_block = first;
            best.extra = extra != 0;
        }
    return best;
}

static struct mr_load_answer load_all(const struct mr_load_question *question,
                                      enum mr_load_verdict verdict)
{
    uint32_t first = prefill_block(question);
    return (struct mr_load_answer){
        .verdict = verdict,
        .first_block = first < question->found_blocks ? first : question->found_blocks,
        .extra = question->extra_bytes > 0,
        .wait_ms = MR_LOAD_TRIAL_MS};
}

static struct mr_load_answer nothing(const struct mr_load_question *question,
                                     enum mr_load_verdict verdict)
{
    return (struct mr_load_answer){.verdict = verdict, .first_block = question->found_blocks};
}

static struct mr_load_answer slower(const struct mr_load_question *question)
{
    struct mr_load_answer answer = nothing(question, MR_LOAD_SLOWER);
    if (!question->probe) return answer;
    answer.verdict = MR_LOAD_PROBE;
    answer.extra = question->extra_bytes > 0;
    if (!answer.extra) answer.first_block = question->found_blocks - 1;
    return answer;
}

double mr_load_gate_wait_ms(const struct mr_remote_rates *rates, uint64_t block_bytes)
{
    if (!(rates->bytes_per_second > 0.0)) return MR_LOAD_TRIAL_MS;
    double value = BYTES_TO_MS(block_bytes, rates->bytes_per_second);
    return WAIT_VALUES * value + WAIT_MS;
}

struct mr_load_answer mr_load_gate_decide(const struct mr_load_question *question)
{
    uint32_t end = loadable_tokens(question, question->extra_bytes > 0);
    if (end < question->computed_tokens + MR_LOAD_TOKENS_MIN)
        return nothing(question, MR_LOAD_SHORT);
    if (!question->rates.up) return nothing(question, MR_LOAD_DOWN);
    if (!(question->rates.bytes_per_second > 0.0) || question->cost->observations == 0)
        return load_all(question, MR_LOAD_TRIAL);

    double alone_ms = compute_ms(question, question->computed_tokens, question->known_tokens);
    double best_ms;
    struct mr_load_answer best = best_begin(question, &best_ms);
    struct mr_load_answer all = load_all(question, MR_LOAD_ALL);
    double all_ms = both_ms(question, all.first_block, all.extra);
    bool alike = best_ms > all_ms * BACK_SHARE;
    if ((question->busy || alike) && all_ms < alone_ms) {
        best = all;
        best_ms = all_ms;
    }
    if (best.first_block == all.first_block) best.verdict = MR_LOAD_ALL;
    double share = best.verdict == MR_LOAD_BACK ? MARGIN_BACK_SHARE : MARGIN_SHARE;
    if (best_ms > alone_ms * share || best_ms > alone_ms - MARGIN_MS) return slower(question);
    best.wait_ms = BYTES_TO_MS(question->rates.waiting_bytes, question->rates.bytes_per_second) +
                   mr_load_gate_wait_ms(&question->rates, question->block_bytes);
    best.saved_ms = alone_ms - best_ms;
    return best;
}

bool mr_load_verdict_loads(enum mr_load_verdict verdict)
{
    return verdict <= MR_LOAD_PROBE;
}

const char *mr_load_verdict_name(enum mr_load_verdict verdict)
{
    static const char *const names[MR_LOAD_VERDICT_COUNT] = {
        [MR_LOAD_ALL] = "load",    [MR_LOAD_BACK] = "meet",        [MR_LOAD_TRIAL] = "trial",
        [MR_LOAD_PROBE] = "probe", [MR_LOAD_SLOWER] = "recompute", [MR_LOAD_SHORT] = "short",
        [MR_LOAD_DOWN] = "down"};
    return names[verdict];
}
