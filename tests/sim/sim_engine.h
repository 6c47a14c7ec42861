/* sim_engine - a simulation of the engine: virtual time, a fake model, random requests.
 *
 * One seed determines the options (pool, chunk size, budgets, caches, forced preemption) and the
 * requests (shared prefixes, tenants, priorities, choices, deadlines, cancels). The engine's
 * invariants are checked after every step. sim_check.c checks the results afterwards, with the fake
 * model and without the engine.
 *
 * Owner: the test. Memory: freed by _destroy. */
#ifndef MR_TESTS_SIM_ENGINE_H
#define MR_TESTS_SIM_ENGINE_H

#include "batching/engine/engine.h"
#include "tests/fakes/fake_model.h"
#include "tests/fakes/fake_request.h"

#define SIM_REQUESTS_MAX 40u
#define SIM_PROMPT_MAX   900u
#define SIM_OUTPUT_MAX   64u
#define SIM_SCORES_MAX   5u

struct sim_random {
    uint64_t state;
};
uint32_t sim_below(struct sim_random *random, uint32_t bound);

/* A request's fields, kept outside the engine, and its observed output. */
struct sim_request {
    char id[24];
    const char *tenant;
    uint32_t prompt[SIM_PROMPT_MAX], prompt_count;
    uint32_t max_tokens, min_tokens, choice_count;
    uint32_t stop_ids[2], stop_count;
    float temperature;
    uint64_t seed;
    bool ignore_eos, cache_read, cache_write, stream;
    bool scores;          /* prompt_logprobs */
    bool embeds, means;   /* task embed, of the mean */
    uint32_t score_count; /* for task score: the number of continuations, each a part of the prompt;
                             else 0 */
    int32_t priority;
    uint64_t arrival_ns, deadline_ns, cancel_ns; /* 0: none */
    /* observed */
    bool submitted, accepted, cancelled;
    enum mr_status refusal;
    uint32_t result_count;
    uint64_t ended_ns;
    enum mr_finish finish[MR_CHOICES_MAX];
    uint32_t output[MR_CHOICES_MAX][SIM_OUTPUT_MAX], output_count[MR_CHOICES_MAX];
    uint32_t streamed[MR_CHOICES_MAX][SIM_OUTPUT_MAX], streamed_count[MR_CHOICES_MAX];
    uint32_t completion_tokens[MR_CHOICES_MAX];
    uint32_t cached_tokens, preemptions, gaps_in_index;
    float prompt_logprobs[SIM_PROMPT_MAX];
    size_t prompt_logprob_count, scored_count;
    float embedding[MR_FAKE_HIDDEN];
    size_t embedding_size;
    double score_sums[SIM_SCORES_MAX]; /* [scored_count] of each continuation */
    double queue_ms, total_ms, itl_max_ms;
};

struct sim_world {
    uint64_t seed;
    struct sim_random random;
    struct mr_fake_model *fake;
    struct mr_tokenizer *tokenizer;
    struct mr_engine *engine;
    struct mr_engine_options options;
    struct sim_request *requests; /* [request_count], by arrival */
    uint32_t request_count;
    uint64_t step_count, steps_max;
    bool stuck; /* steps_max was reached */
};

/* The tokens of continuation `index`, which are a part of the request's prompt. */
const uint32_t *sim_continuation(const struct sim_request *request, uint32_t index,
                                 uint32_t *count);
struct sim_world *sim_create(uint64_t seed);
void sim_run(struct sim_world *world);
void sim_destroy(struct sim_world *world);

/* NULL if every check passes; else `text`, with a sentence about the first failure. */
const char *sim_check(const struct sim_world *world, char *text, size_t size);

#endif
