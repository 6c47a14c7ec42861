/* engine_state - the engine's state. Only engine.c and engine_*.c include this header. */
#ifndef MR_BATCHING_ENGINE_ENGINE_STATE_H
#define MR_BATCHING_ENGINE_ENGINE_STATE_H

#include "batching/cache/prompt_cache.h"
#include "batching/cache/remote_prefix.h"
#include "batching/engine/batch_builder.h"
#include "batching/engine/engine.h"
#include "batching/scheduler/scheduler.h"

#include <stdatomic.h>

#define MR_STATS_WORDS (sizeof(struct mr_engine_stats) / sizeof(uint64_t))

/* A copy of the statistics that any thread can read. The version is odd while the engine thread
 * writes the copy. */
struct mr_stats_snapshot {
    _Atomic uint64_t version;
    _Atomic uint64_t words[MR_STATS_WORDS];
};

/* A row of the plan of a step in flight. */
struct mr_flight_row {
    struct mr_sequence *sequence; /* NULL: the sequence has ended, the row is surplus */
    uint32_t token_count;
    uint32_t end;         /* the sequence's num_computed after these tokens */
    uint32_t preemptions; /* number of the sequence's preemptions at the launch: a preemption drops
                             the computed tokens */
    bool prefill;         /* a prefill row, not the one token of a decoding sequence */
    uint32_t logit_row;   /* to put into the prompt cache; UINT32_MAX: none */
    /* sampling rows [score_row, score_row + score_samples) score given tokens: the last score_count
     * rows those from position score_first on; if there are more rows, the head_count first ones
     * score the first token of each continuation (batching/sequence/scores.h) */
    uint32_t score_row, score_samples, score_first, score_count;
    uint32_t hidden_rows,
        hidden_index; /* rows to pool; number of the sequence among those with some */
};

/* A step that was planned and launched, until its results are applied. */
struct mr_flight {
    struct mr_batch_builder *builder; /* its `sampled` has NULL for a sequence that has ended */
    struct mr_sample *samples;        /* [builder->samples_max] of the builder's rows */
    struct mr_flight_row *rows;       /* [sequences_max] */
    uint32_t row_count;
    struct mr_step_work work;
    uint64_t launched_ns;
};

/* Output for one sampled token of a collected step that the sink has not received. */
struct mr_due {
    struct mr_sequence *sequence;
    struct mr_sample sample;
    uint32_t index; /* of the token among those that the choice has generated */
    struct mr_completion_delta delta;
    bool choice_ended, job_ended;
    uint64_t now_ns; /* when the step was collected */
};

struct mr_engine {
    struct mr_engine_options options;
    struct mr_sink sink;
    uint32_t eos_ids[MR_EOS_IDS_MAX];
    struct mr_token_text *texts;
    struct mr_job_rules rules;
    struct mr_request_queue *queue; /* requests in the engine; other threads submit and cancel */
    struct mr_kv_cache *cache;
    struct mr_prompt_cache *prompts;
    struct mr_remote_prefix *remote; /* NULL without a shared KV cache in Redis */
    struct mr_cost_model cost;
    struct mr_scheduler *scheduler;
    /* Steps in flight, a ring: the oldest is flights[flight_first]. flight_room: the most of them.
     */
    struct mr_flight flights[MR_STEPS_AHEAD_MAX];
    uint32_t flight_first, flight_count, flight_room;
    struct mr_flight *applied; /* the collected step whose results are being applied, or NULL */
    uint64_t collected_ns;     /* when the last step was collected */
    struct mr_due *due;        /* [due_max] output that the sink has not received, in order */
    uint32_t due_count, due_max;
    float *hidden;        /* [hidden_size] of the model: scratch */
    struct mr_job **jobs; /* [MR_STARTED_MAX] requests that started and have not ended */
    uint32_t job_count;
    struct mr_engine_stats stats;
    struct mr_stats_snapshot snapshot;
    uint64_t checked_ns; /* when the invariants were last checked because the engine was idle */
};

uint64_t mr_engine_clock(const struct mr_engine *engine, uint64_t now_ns);
/* Makes the buffers of the steps in flight. MR_NOMEM. */
enum mr_status mr_engine_create_flights(struct mr_engine *engine, struct mr_error *err);
/* Collects all steps in flight, without their results, and frees the buffers. */
void mr_engine_destroy_flights(struct mr_engine *engine);
/* The step in flight number `index`, the oldest first. */
struct mr_flight *mr_engine_flight(struct mr_engine *engine, uint32_t index);
/* Call when the step was launched: counts its tokens as computed, and appends an unknown token to
 * each sequence that it samples. */
void mr_engine_note_launch(struct mr_engine *engine, struct mr_flight *flight,
                           const struct mr_plan *plan);
/* Call when a choice has ended: its rows in steps in flight, and those of the step whose results
 * are being applied, become surplus. */
void mr_engine_drop_rows(struct mr_engine *engine, const struct mr_sequence *sequence);
/* Lets a further sequence of a running request wait to run, with a text of its own. */
void mr_engine_start_text(struct mr_engine *engine, struct mr_sequence *sequence);
/* Call when a step was collected: inserts computed blocks into the prefix index, fills in sampled
 * tokens, ends choices, and adds the output for the sink to `due`. */
void mr_engine_apply_results(struct mr_engine *engine, struct mr_flight *flight, uint64_t now_ns);
/* Reports to the sink the requests for whose prompts a collected step has computed tokens. */
void mr_engine_report_chunks(struct mr_engine *engine, const struct mr_flight *flight,
                             uint64_t begin_ns, uint64_t end_ns);
/* Call when a token was sampled: adds it to `due`. delta: the completion's output with this token.
 */
void mr_engine_add_due(struct mr_engine *engine, const struct mr_due *due);
/* Passes the output in `due` to the sink. The other functions that call the sink do this first, so
 * the sink receives everything in order. */
void mr_engine_deliver(struct mr_engine *engine);
/* Destroys the ended requests whose result is due. */
void mr_engine_drop_due(struct mr_engine *engine);
/* Emits tokens that an earlier attempt sampled and that the reader may not have; call before any
 * new token of the job. */
void mr_engine_emit_kept(struct mr_engine *engine, struct mr_job *job);
/* Call when the last choice of a job has ended: removes the job from the engine's lists. Until its
 * result is reported only `due` refers to the job. */
void mr_engine_detach_job(struct mr_engine *engine, struct mr_job *job);
/* Ends all unfinished choices of a job for this reason, reports the result, destroys the job. */
void mr_engine_end_job(struct mr_engine *engine, struct mr_job *job, enum mr_finish reason,
                       uint64_t now_ns);
/* Ends one choice of a job. If it was the job's last unfinished choice, reports the job's result
 * and destroys the job. */
void mr_engine_end_sequence(struct mr_engine *engine, struct mr_sequence *sequence,
                            enum mr_finish reason, uint64_t now_ns);
/* Call before the job is destroyed: frees the job's id and abandons its lookup in the remote cache.
 */
void mr_engine_unregister(struct mr_engine *engine, struct mr_job *job);
void mr_engine_publish_stats(struct mr_engine *engine);

#endif
