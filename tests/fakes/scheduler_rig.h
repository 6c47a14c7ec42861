/* scheduler_rig - a scheduler with a queue and a KV cache but without a model, for tests. The rig
 * treats each planned row as computed.
 *
 * Change rig.options between _init and _start.
 * Owner: the test. Memory: freed by _end. Errors: asserted. */
#ifndef MR_TESTS_FAKES_SCHEDULER_RIG_H
#define MR_TESTS_FAKES_SCHEDULER_RIG_H

#include "batching/scheduler/scheduler.h"

#define SCHEDULER_RIG_JOBS_MAX 48u

struct scheduler_rig {
    struct mr_scheduler_options options;
    struct mr_tokenizer *tokenizer;
    struct mr_token_text *texts;
    struct mr_job_rules rules;
    struct mr_cost_model cost;
    struct mr_scheduler *scheduler;
    struct mr_job *jobs[SCHEDULER_RIG_JOBS_MAX];
    uint32_t job_count;
    bool prefix_cache;
    uint64_t now_ns;
};

void scheduler_rig_init(struct scheduler_rig *rig);
void scheduler_rig_start(struct scheduler_rig *rig);
void scheduler_rig_end(struct scheduler_rig *rig);

/* Enqueues a request with token ids counting up from first: prompts with the same `first` share a
 * prefix. */
struct mr_sequence *scheduler_rig_add(struct scheduler_rig *rig, uint32_t first, uint32_t count,
                                      uint32_t max_tokens, int32_t priority);
/* Plans a step and acts like the engine: marks every row as computed and appends token 7 to every
 * sequence that has reached its last known token, as if all drafts were wrong. */
const struct mr_plan *scheduler_rig_step(struct scheduler_rig *rig);
/* Tokens of the sequence in the plan; 0: it has no row. */
uint32_t scheduler_rig_planned(const struct mr_plan *plan, const struct mr_sequence *sequence);
/* Fits the cost model to steps of step_ms + row_ms * decode rows + token_ms * prefill tokens. */
void scheduler_rig_teach(struct scheduler_rig *rig, double step_ms, double row_ms, double token_ms);

#endif
