/* One step of the engine: collect the step in flight, cancels and deadlines, plan, batch, launch,
 * output. */
#include "batching/cache/remote_prefix.h"
#include "batching/engine/engine_state.h"
#include "codec/check.h"

#include <stdlib.h>
#include <string.h>

#define WAIT_MAX_NS ((uint64_t)100000000)
#define CHECK_NS    ((uint64_t)1000000000)

uint64_t mr_engine_clock(const struct mr_engine *engine, uint64_t now_ns)
{
    const struct mr_model_port *model = &engine->options.model;
    return model->clock_ns == NULL ? now_ns : model->clock_ns(model->context);
}

static void apply_cancels(struct mr_engine *engine, uint64_t now_ns)
{
    struct mr_queue_entry *entry;
    while ((entry = mr_request_queue_cancelled(engine->queue)) != NULL)
        mr_engine_end_job(engine, mr_job_of_waiting(entry), MR_FINISH_CANCELLED, now_ns);
}

static void expire(struct mr_engine *engine, uint64_t now_ns)
{
    struct mr_queue_entry *entry;
    while ((entry = mr_request_queue_expired(engine->queue, now_ns)) != NULL)
        mr_engine_end_job(engine, mr_job_of_waiting(entry), MR_FINISH_DEADLINE, now_ns);
    for (uint32_t i = engine->job_count; i-- > 0;) {
        struct mr_job *job = engine->jobs[i];
        if (mr_job_is_overdue(job, now_ns))
            mr_engine_end_job(engine, job, MR_FINISH_DEADLINE, now_ns);
    }
}

/* Adds to engine->jobs the requests whose first choice is in a plan for the first time. */
static void list_started_jobs(struct mr_engine *engine, const struct mr_plan *plan)
{
    for (uint32_t i = 0; i < plan->row_count; i++) {
        struct mr_job *job = plan->rows[i].sequence->job;
        if (job->listed) continue;
        MR_ASSERT(engine->job_count < MR_STARTED_MAX(engine->options.sequences_max));
        job->listed = true;
        engine->jobs[engine->job_count++] = job;
        mr_engine_emit_kept(engine, job);
        for (uint32_t k = 1; job->texts != NULL && k < job->choice_count; k++)
            mr_engine_start_text(engine, &job->sequences[k]);
    }
}

/* Stores blocks that the last step wrote in the remote cache. Done in the following step, so that
 * the tokens are emitted first. */
static void store_blocks(struct mr_engine *engine)
{
    for (uint32_t i = 0; i < engine->job_count; i++) {
        struct mr_sequence *sequence = &engine->jobs[i]->sequences[0];
        if (sequence->state == MR_SEQUENCE_RUNNING)
            mr_remote_prefix_store(engine->remote, sequence, false);
    }
}

/* Copies the snapshot that the sequence continues from, or keeps a snapshot of its state. The state
 * is that of the tokens before num_computed only until the step is launched. */
static void copy_state(struct mr_engine *engine, struct mr_sequence *sequence)
{
    const struct mr_model_port *model = &engine->options.model;
    struct mr_block_table *table = sequence->table;
    const uint32_t computed = sequence->num_computed;
    if (table->state == MR_NO_STATE) return;
    if (table->state_from != MR_NO_STATE) {
        model->state_copy(model->context, table->state_from, table->state);
        mr_kv_cache_state_copied(table);
        return;
    }
    if (computed == 0 || computed % MR_BLOCK_TOKENS != 0 ||
        mr_job_next_border(sequence, computed - 1) != computed)
        return;
    const uint32_t slot = mr_kv_cache_keep_state(table, computed);
    if (slot != MR_NO_STATE) model->state_copy(model->context, table->state, slot);
}

static void run_copies(struct mr_engine *engine, const struct mr_plan *plan)
{
    const struct mr_model_port *model = &engine->options.model;
    for (uint32_t i = 0; i < plan->row_count; i++) {
        struct mr_sequence *sequence = plan->rows[i].sequence;
        struct mr_kv_match *match = &sequence->match;
        copy_state(engine, sequence);
        if (match->copy_tokens == 0) continue;
        struct mr_kv_place from = {.block = match->copy_from}, to = {.block = match->copy_to};
        from.slot = mr_kv_cache_slot(engine->cache, from.block);
        to.slot = mr_kv_cache_slot(engine->cache, to.block);
        model->kv_copy(model->context, from, to, match->copy_tokens);
        mr_kv_cache_copied(sequence->table, match);
        match->copy_tokens = 0;
    }
}

static enum mr_status launch(struct mr_engine *engine, const struct mr_plan *plan, uint64_t now_ns,
                             struct mr_error *err)
{
    const struct mr_model_port *model = &engine->options.model;
    struct mr_flight *flight = mr_engine_flight(engine, engine->flight_count);
    struct mr_batch_builder *builder = flight->builder;
    flight->launched_ns = mr_engine_clock(engine, now_ns);
    run_copies(engine, plan);
    mr_batch_builder_build(builder, plan);
    struct mr_model_step step = {.batch = &builder->batch,
                                 .fed_by = builder->feeds ? builder->fed_by : NULL,
                                 .rows = builder->sample_rows,
                                 .sample_count = builder->sample_count,
                                 .samples = flight->samples};
    /* every row may be a sequence that waits for loaded blocks */
    if (step.batch->row_count == 0 && step.sample_count == 0) return MR_OK;
    enum mr_status status = model->launch(model->context, &step, err);
    engine->stats.model_ns += mr_engine_clock(engine, now_ns) - flight->launched_ns;
    if (status != MR_OK) return status;
    engine->stats.steps++;
    engine->flight_count++;
    mr_engine_note_launch(engine, flight, plan);
    return MR_OK;
}

/* Waits for the oldest step in flight and applies its results. For the cost model, the step's time
 * begins when the device became free. */
static enum mr_status collect(struct mr_engine *engine, uint64_t now_ns, struct mr_error *err)
{
    const struct mr_model_port *model = &engine->options.model;
    struct mr_flight *flight = mr_engine_flight(engine, 0);
    uint64_t begin_ns = mr_engine_clock(engine, now_ns);
    engine->flight_first = (engine->flight_first + 1) % engine->flight_room;
    engine->flight_count--;
    enum mr_status status = model->collect(model->context, err);
    uint64_t end_ns = mr_engine_clock(engine, now_ns), free_ns = engine->collected_ns;
    engine->stats.model_ns += end_ns - begin_ns;
    if (status != MR_OK) return status;
    engine->collected_ns = end_ns;
    if (free_ns < flight->launched_ns) free_ns = flight->launched_ns;
    if (flight->builder->batch.row_count > 0)
        mr_cost_model_observe(&engine->cost, &flight->work, (double)(end_ns - free_ns) / 1e6);
    mr_engine_report_chunks(engine, flight, free_ns, end_ns);
    mr_engine_apply_results(engine, flight, end_ns);
    return MR_OK;
}

/* When to run the next step. At once while steps do something. Otherwise every request in the
 * engine waits, and nothing changes before a time given by the remote cache or before the engine is
 * woken. WAIT_MAX_NS limits the delay of a deadline and of a lost wake-up. */
static uint64_t next_wake(const struct mr_engine *engine, const struct mr_plan *plan,
                          uint64_t now_ns)
{
    if (engine->flight_count > 0) return now_ns;
    if (engine->stats.running + engine->stats.waiting == 0) return UINT64_MAX;
    if (plan->row_count > 0 || plan->exhausted_count > 0 || plan->late_count > 0) return now_ns;
    uint64_t latest_ns = now_ns + WAIT_MAX_NS;
    if (engine->remote == NULL) return latest_ns;
    uint64_t next_ns = mr_remote_prefix_next_ns(engine->remote, now_ns);
    return next_ns < latest_ns ? next_ns : latest_ns;
}

/* Checks the invariants when the engine becomes idle, at most once a CHECK_NS. It takes 0.1 ms for
 * 8,000 KV blocks. */
static void check_idle(struct mr_engine *engine, uint64_t now_ns)
{
    if (now_ns < engine->checked_ns + CHECK_NS) return;
    mr_engine_check(engine);
    engine->checked_ns = now_ns;
}

/* Plans a step, ends the requests that cannot run, and launches the step. */
static enum mr_status plan_and_launch(struct mr_engine *engine, const struct mr_plan **out,
                                      uint64_t now_ns, struct mr_error *err)
{
    const struct mr_plan *plan = mr_scheduler_plan(engine->scheduler, now_ns);
    *out = plan;
    engine->stats.preemptions += plan->preempted_count;
    for (uint32_t i = 0; i < plan->exhausted_count; i++)
        mr_engine_end_sequence(engine, plan->exhausted[i], MR_FINISH_POOL_EXHAUSTED, now_ns);
    for (uint32_t i = 0; i < plan->late_count; i++) {
        plan->late[i]->job->late = true;
        mr_engine_end_job(engine, plan->late[i]->job, MR_FINISH_DEADLINE, now_ns);
    }
    if (plan->row_count == 0) return MR_OK;
    list_started_jobs(engine, plan);
    return launch(engine, plan, now_ns, err);
}

/* The work of a step before planning. stores: store blocks of the step collected last. */
static void prepare(struct mr_engine *engine, bool stores, uint64_t now_ns)
{
    apply_cancels(engine, now_ns);
    expire(engine, now_ns);
    if (engine->prompts != NULL) mr_prompt_cache_expire(engine->prompts, now_ns);
    if (engine->remote == NULL) return;
    mr_remote_prefix_poll(engine->remote, now_ns);
    if (stores) store_blocks(engine);
}

/* The work of a step up to the output. *plan: NULL when a step was collected after planning, so
 * that the plan is outdated. *now_ns: becomes the time after the wait for the device. */
static enum mr_status run(struct mr_engine *engine, const struct mr_plan **plan, uint64_t *now_ns,
                          struct mr_error *err)
{
    enum mr_status status = MR_OK;
    bool waits = engine->flight_count == engine->flight_room;
    if (waits) {
        if (engine->remote != NULL) store_blocks(engine); /* while the device computes */
        status = collect(engine, *now_ns, err);
        *now_ns = mr_engine_clock(engine, *now_ns);
    }
    if (status != MR_OK) return status;
    prepare(engine, !waits, *now_ns);
    status = plan_and_launch(engine, plan, *now_ns, err);
    if (status != MR_OK || engine->flight_count == 0) return status;
    if (engine->options.model.steps_ahead == 0) return collect(engine, *now_ns, err);
    /* All running sequences wait for the step in flight, and no output waits to be passed on. */
    if ((*plan)->row_count == 0 && !waits) {
        *plan = NULL;
        return collect(engine, *now_ns, err);
    }
    return MR_OK;
}

enum mr_status mr_engine_step(struct mr_engine *engine, uint64_t now_ns, uint64_t *wake_ns,
                              struct mr_error *err)
{
    const uint64_t begin_ns = mr_engine_clock(engine, now_ns);
    const struct mr_plan *plan = NULL;
    uint64_t time_ns = now_ns;
    enum mr_status status = run(engine, &plan, &time_ns, err);
    mr_engine_deliver(engine);
    engine->stats.step_ns_total += mr_engine_clock(engine, now_ns) - begin_ns;
    mr_engine_publish_stats(engine);
    *wake_ns = now_ns;
    if (status != MR_OK || plan == NULL) return status;
    uint64_t next_ns = next_wake(engine, plan, time_ns);
    if (next_ns > time_ns) *wake_ns = next_ns;
    /* Each request makes progress or waits until a known time; otherwise the engine would stall. */
    MR_ASSERT(plan->row_count > 0 || plan->exhausted_count > 0 || engine->flight_count > 0 ||
              engine->stats.running == 0 || (engine->remote != NULL && *wake_ns != now_ns));
    if (*wake_ns == UINT64_MAX) check_idle(engine, now_ns);
    return MR_OK;
}
