/* job - one request inside the engine: its choices, sampling, times and counters.
 *
 * The submitting thread allocates all of it, so that a step allocates nothing; once the job is
 * queued it belongs to the engine thread. A job waits in the queue until its first choice is
 * admitted. The other choices join when the prompt is computed and sample from the same logits.
 *
 * A resumed job begins with tokens that an earlier attempt sampled. They are part of its sequence
 * and are computed with the prompt. Its completion has already consumed the tokens that a reader
 * received; the others are emitted again when the job starts.
 *
 * Memory: one block for job, sequences and tokens, one for each completion. The request belongs to
 *         the caller until mr_job_create has succeeded, and goes to the sink with the result.
 * Errors: only _create: REJECT statuses for a request that can never run, MR_NOMEM.
 * Units:  ns monotonic. */
#ifndef MR_BATCHING_SEQUENCE_JOB_H
#define MR_BATCHING_SEQUENCE_JOB_H

#include "batching/queue/request_queue.h"
#include "batching/sequence/completion.h"
#include "batching/sequence/fetch.h"
#include "batching/sequence/sequence.h"
#include "batching/sequence/submission.h"
#include "ops/model.h"

/* The same for every job of an engine; borrowed. */
struct mr_job_rules {
    struct mr_completion_model completion;
    struct mr_kv_fingerprint fingerprint;
    uint32_t vocab_size, context_tokens, block_count;
    float default_temperature, default_top_p;
    uint32_t default_top_k;
};

#define MR_JOB_TENANT_BYTES 64u

struct mr_job {
    struct mr_queue_entry waiting;      /* in the request queue */
    struct mr_queue_entry registration; /* in the registry of ids */
    struct mr_request *request;
    uint64_t ticket;
    unsigned char root[MR_HASH_BYTES]; /* chain root of the tenant */
    uint32_t tenant_index;
    int32_t priority;
    uint64_t arrival_ns;
    uint64_t deadline_ns, start_by_ns, run_limit_ns; /* 0: none */
    uint64_t started_ns, first_token_ns;             /* 0: not yet */
    uint64_t gap_sum_ns, gap_max_ns;
    uint32_t gap_count;
    struct mr_fetch fetch;            /* lookup and load in the shared cache */
    char tenant[MR_JOB_TENANT_BYTES]; /* truncated: used only for the tier's write budget */
    uint32_t cached_tokens,
        cached_tokens_redis; /* all found in a cache; those loaded from the tier */
    uint32_t prefill_chunks, preemptions, recomputed_tokens;
    bool started;                /* admitted by the scheduler */
    bool listed;                 /* in the engine's list of started jobs */
    bool late;                   /* rejected: predicted to end after its deadline */
    struct mr_sampling sampling; /* defaults filled in */
    uint64_t seed;
    uint32_t **bad_words; /* [bad_word_count] token sequences */
    uint32_t *bad_word_counts;
    uint32_t bad_word_count;
    struct mr_stop_match *matcher;
    size_t held_bytes;
    struct mr_sample *kept; /* [kept_count] sampled by an earlier attempt, to be emitted again */
    uint32_t kept_count;
    bool resumed; /* continues an earlier attempt and has not emitted anything yet */
    uint32_t choice_count, finished_count;
    struct mr_sequence sequences[]; /* [choice_count] */
};

/* Threads: any. submission->request is borrowed until the job is destroyed. */
enum mr_status mr_job_create(struct mr_job **out, const struct mr_job_rules *rules,
                             const struct mr_submission *submission, struct mr_error *err);
/* Frees all but the request. job may be NULL. */
void mr_job_destroy(struct mr_job *job);

/* Its deadline, or the end of its longest wait or run, is at or before now_ns. */
bool mr_job_is_overdue(const struct mr_job *job, uint64_t now_ns);

struct mr_job *mr_job_of_waiting(struct mr_queue_entry *entry);
/* Seed of a choice: the request's seed, or a hash of its id, plus a multiple of the choice. */
uint64_t mr_job_seed(const struct mr_job *job, uint32_t choice);
/* Everything needed to sample the next token of one choice; the caller adds the logits. */
struct mr_sample_row mr_job_sample_row(const struct mr_job *job,
                                       const struct mr_sequence *sequence);

#endif
