/* job - the engine's state of one request: its sequences, sampling, times and counters. struct
 * mr_request (codec/records/request.h) has the producer's fields; a job adds the state that the
 * engine needs to run it.
 *
 * The submitting thread allocates the whole job, so that a step allocates nothing; once the job is
 * queued it belongs to the engine thread. A job waits in the queue until its first choice is
 * admitted. The other choices join when the prompt is computed and sample from the same logits.
 *
 * A resumed job begins with tokens that an earlier attempt sampled. These tokens are part of its
 * sequence and are computed with the prompt. Its completion has already consumed the tokens that a
 * reader received; the other tokens are emitted again when the job starts.
 *
 * Memory: one block for job, sequences and tokens, one for each completion. The request belongs to
 * the caller until mr_job_create has succeeded, and is passed to the engine's sink with the result.
 * Errors: only _create: REJECT statuses for a request that can never run, MR_NOMEM.
 * Units:  nanoseconds of the monotonic clock. */
#ifndef MR_BATCHING_SEQUENCE_JOB_H
#define MR_BATCHING_SEQUENCE_JOB_H

#include "batching/queue/request_key.h"
#include "batching/queue/request_queue.h"
#include "batching/sequence/completion.h"
#include "batching/sequence/fetch.h"
#include "batching/sequence/guidance.h"
#include "batching/sequence/prompt_lookup.h"
#include "batching/sequence/scores.h"
#include "batching/sequence/sequence.h"
#include "batching/sequence/submission.h"
#include "batching/sequence/text_set.h"
#include "ops/model/model.h"

/* The same for every job of an engine; all pointers are borrowed. */
struct mr_job_rules {
    struct mr_completion_model completion;
    struct mr_kv_fingerprint fingerprint;
    uint32_t vocab_size, context_tokens, block_count;
    bool prefix_cache;                    /* false: no request reads or writes the prefix cache */
    struct mr_sampling_defaults defaults; /* sampling defaults of a request without a temperature */
    struct mr_token_mask *masks;          /* NULL: no constrained requests */
    bool speculates;                      /* false: no sequence gets drafts */
    uint32_t hidden_size;                 /* of hidden states; 0: the model computes no vectors */
    const struct mr_text_heads *heads;    /* layers after the pooling; NULL: none */
    enum mr_model_pooling pooling;        /* of requests that choose none */
    bool whole_prompts;                   /* the model is an encoder (batching/base/model_port.h) */
    uint32_t scores_max;                  /* most given tokens that a step scores; 0: none */
};

#define MR_JOB_TENANT_BYTES 64u

struct mr_job {
    struct mr_queue_entry waiting; /* the job's entry in the request queue */
    struct mr_request_key key;     /* tenant and id: the `id` of that entry */
    struct mr_request *request;
    uint64_t ticket;
    /* key from which the keys of the tenant's KV blocks are chained */
    unsigned char root[MR_HASH_BYTES];
    const struct mr_request_adapter *adapter; /* NULL: the base model */
    uint32_t tenant_index;
    int32_t priority;
    uint64_t arrival_ns;
    uint64_t deadline_ns, start_by_ns, run_limit_ns; /* 0: none */
    uint64_t started_ns, first_token_ns;             /* 0: has not happened yet */
    uint64_t gap_sum_ns, gap_max_ns;
    uint32_t gap_count;
    struct mr_fetch fetch; /* lookup and load in the remote cache */
    /* tenant's name, cut to this size: used only for the remote cache's write budget */
    char tenant[MR_JOB_TENANT_BYTES];
    /* prompt tokens found in any cache; prompt tokens loaded from Redis */
    uint32_t cached_tokens, cached_tokens_redis;
    uint32_t prefill_chunks, preemptions, recomputed_tokens;
    uint32_t draft_tokens,
        accepted_draft_tokens; /* drafts checked by steps; number of right ones */
    /* The prefix cache may be read, may be written for this request. The choices of a request share
     * the KV of their prompt in any case. */
    bool reads_cache, writes_cache;
    bool start_asked; /* may_start of the sink was called for this job */
    bool may_start;   /* the sink's answer was yes */
    bool started;     /* the scheduler has admitted the job */
    bool listed;      /* the job is in the engine's list of started jobs */
    bool late;        /* the job is rejected: it is predicted to end after its deadline */
    bool broken;      /* a choice's logits were not finite: its KV must not be reused */
    /* texts whose vectors or classes are computed; NULL: none. The choices compute different texts.
     */
    struct mr_text_set *texts;
    bool draws; /* false: nothing is generated, the request ends when its prompt is computed */
    struct mr_sampling sampling; /* the request's sampling options with defaults filled in */
    struct mr_sampling
        scoring; /* options of rows that score a given token: only `logprobs` is used */
    struct mr_scores *scores; /* scores of the prompt or its continuations; NULL: not requested */
    uint64_t seed;
    uint32_t **bad_words; /* [bad_word_count] token ids of each bad word */
    uint32_t *bad_word_counts;
    uint32_t bad_word_count;
    struct mr_stop_match *matcher;
    struct mr_guidance *guidance;     /* NULL: the answer is free */
    const struct mr_job_rules *rules; /* for the guidance */
    size_t held_bytes;
    /* [kept_count] tokens that an earlier attempt sampled and that must be emitted again */
    struct mr_sample *kept;
    uint32_t kept_count;
    bool resumed; /* the job continues an earlier attempt and has not emitted anything yet */
    uint32_t choice_count, finished_count;
    struct mr_sequence sequences[]; /* [choice_count] one sequence for each choice */
};

/* Creates the job of a submission. Threads: any. submission->request is borrowed until the job is
 * destroyed. */
enum mr_status mr_job_create(struct mr_job **out, const struct mr_job_rules *rules,
                             const struct mr_submission *submission, struct mr_error *err);
/* Frees the job with its sequences and completions, but not its request. job may be NULL. */
void mr_job_destroy(struct mr_job *job);

/* True when the job's deadline, or the end of its longest wait or longest run, is at or before
 * now_ns. */
bool mr_job_is_overdue(const struct mr_job *job, uint64_t now_ns);

struct mr_job *mr_job_of_waiting(struct mr_queue_entry *entry);
/* Sampling seed of a choice: the request's seed, or a hash of the request's id, plus a multiple of
 * the choice's index. */
uint64_t mr_job_seed(const struct mr_job *job, uint32_t choice);
/* True when the next token of the sequence can be sampled before the last one is known: nothing in
 * its sampling row depends on the ids of its output. */
bool mr_job_samples_ahead(const struct mr_job *job, const struct mr_sequence *sequence);
/* Everything needed to score the token at `position` of a sequence, except the logits. head: for
 * the first token after the prompt: the continuation whose token is scored. */
struct mr_sample_row mr_job_score_row(const struct mr_sequence *sequence, uint32_t position,
                                      uint32_t head);
/* Puts the tokens of the current continuation (batching/sequence/scores.h) after the prompt. The
 * last token is scored and never computed. */
void mr_job_set_continuation(struct mr_job *job);
/* The first `count` tokens of a sequence of the job, without those that other continuations will
 * replace: only the KV of these tokens may be used for other requests. */
uint32_t mr_job_lasting_tokens(const struct mr_job *job, uint32_t count);
/* Everything needed to sample the token of one choice that follows the first `drafts` drafts of the
 * sequence, which are in its tokens; except the logits, which the caller adds. */
struct mr_sample_row mr_job_sample_row(const struct mr_job *job, const struct mr_sequence *sequence,
                                       uint32_t drafts);

/* Returns the first border after token `after`, or UINT32_MAX: the tokens at whose end a snapshot
 * of the states of recurrent layers is worth its memory. Prefill chunks end there. They are the
 * last border of a block in the prompt, where the next turn of a conversation begins to differ; the
 * end of cached blocks without a snapshot, where a second prompt has parted from an earlier one;
 * and every 4,096 tokens of a prompt of 16,384 or more. */
uint32_t mr_job_next_border(const struct mr_sequence *sequence, uint32_t after);

#endif
