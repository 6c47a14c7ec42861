/* resume - keeps a trail of every running request in Redis, so that its next attempt, on any
 * worker, knows how often it was started, how often that crashed a worker, and the tokens generated
 * so far.
 *
 * A trail is a list in Redis that expires (worker/redis/progress.h has its form). Intake reads the
 * list once, when the record arrives. The start is appended before the first step, and the tokens
 * as they are sampled: one write for each request and step, all of a step in one burst. Publish
 * publishes tokens when Redis has stored them, or has not answered for MR_RESUME_WAIT_NS. So every
 * token a reader has seen is stored, and tokens stored but perhaps not seen are published again,
 * equal, by the next attempt. The list is deleted when the result is acknowledged. Tokens are only
 * appended to an existing list (RPUSHX): a worker that continues after its request was given to
 * another one leaves nothing behind.
 *
 * Without an answer from Redis a request runs as if Redis were not configured: its attempts are
 * counted in the commit metadata alone, and it starts at its first token. An answer that intake has
 * abandoned is still in flight; until it arrives Redis counts as silent, and no thread waits for
 * Redis. A failed write ends the trail; the next attempt continues from the last stored token.
 *
 * Threads: as noted at each call; no call blocks but _flush. Answers reach intake as
 * mail. Memory:  a trail for each request in flight; stored tokens are at most MR_TRAIL_BYTES_MAX
 * for a request and bytes_max for the worker, later ones are not stored. Errors: only _create. */
#ifndef MR_WORKER_REDIS_RESUME_H
#define MR_WORKER_REDIS_RESUME_H

#include "worker/base/mailbox.h"
#include "worker/metrics/metrics.h"
#include "worker/redis/progress.h"
#include "worker/redis/redis_call.h"

#define MR_TRAIL_BYTES_MAX ((size_t)256 << 10)
#define MR_RESUME_WAIT_NS  ((uint64_t)20000000)

struct mr_resume;
struct mr_trail;
struct mr_ticket;

/* What publish may do with the tokens it handed over; see mr_resume_poll. */
enum mr_resume_state { MR_RESUME_READY, MR_RESUME_PENDING };

struct mr_resume_options {
    /* Sends commands to Redis: mr_tier_redis_call, or a test's. */
    bool (*call)(void *context, const struct mr_redis_call *calls, size_t count);
    /* Redis became silent, or answers again: mr_tier_redis_set_silent. NULL: not called. */
    void (*silence)(void *context, bool silent);
    void *context;
    const struct mr_frame_secret *secrets; /* [secret_count], the first one seals; copied */
    size_t secret_count;
    unsigned char weights_digest[32];
    uint64_t ttl_ns;           /* of a list, renewed while its request runs */
    uint64_t bytes_max;        /* of tokens stored for running requests; 0: none are stored */
    struct mr_mailbox *intake; /* receives the answers */
    struct mr_metrics *metrics;
};

/* Redis has answered a lookup; kind MR_MAIL_FOUND. */
struct mr_found_mail {
    struct mr_mail mail;
    struct mr_ticket *ticket; /* set by intake; NULL: no request waits for the answer */
    bool answered;            /* false: no answer, or an error */
    struct mr_progress_history history;
    /* private */
    struct mr_trail *trail;
    size_t entries, bytes;  /* of the list */
    bool posted, abandoned; /* under the resume's mutex */
};

enum mr_status mr_resume_create(struct mr_resume **out, const struct mr_resume_options *options,
                                struct mr_error *err);
/* No answer is posted to intake from now on. */
void mr_resume_stop_answers(struct mr_resume *resume);
/* Commands without an answer. Threads: any. */
uint32_t mr_resume_in_flight(struct mr_resume *resume);
/* Blocks until mr_resume_in_flight is 0; false after timeout_ms. */
bool mr_resume_flush(struct mr_resume *resume, uint32_t timeout_ms);
/* All trails were dropped and no command is in flight. resume may be NULL. */
void mr_resume_destroy(struct mr_resume *resume);

/* ---- intake's thread ---- */

/* Makes the trail of a request whose prompt is encoded, and looks up its list; found NULL: without
 * a lookup. *found: the mail that will arrive; NULL: Redis cannot be reached. Returns NULL when
 * memory is out. Tokens are stored for requests with one choice only. */
struct mr_trail *mr_resume_lookup(struct mr_resume *resume, const struct mr_progress_origin *origin,
                                  const struct mr_request *request, struct mr_ticket *ticket,
                                  struct mr_found_mail **found);
/* Applies an answer to its trail; before the start. */
void mr_trail_apply(struct mr_trail *trail, const struct mr_found_mail *found);
/* Intake stops waiting for an answer: Redis is silent until it arrives; the mail still comes.
 * False: the mail is already in the mailbox. */
bool mr_resume_abandon(struct mr_resume *resume, struct mr_found_mail *found);
/* Whether an abandoned answer has not arrived yet. Threads: any. */
bool mr_resume_is_silent(struct mr_resume *resume);
void mr_found_mail_free(struct mr_found_mail *found);

/* Appends that the attempt was released on purpose, and did not crash. */
void mr_trail_release(struct mr_trail *trail);
/* Appends that a released attempt runs again. */
void mr_trail_reclaim(struct mr_trail *trail);
/* Deletes the list: the result is acknowledged. */
void mr_trail_delete(struct mr_trail *trail);
/* trail may be NULL. */
void mr_trail_drop(struct mr_trail *trail);

/* ---- the engine's thread ---- */

/* Appends that the attempt starts, after `index` earlier tokens of which `shown` are published. */
void mr_trail_start(struct mr_trail *trail, uint32_t attempt, uint32_t index, uint32_t shown,
                    uint64_t now_ns);
/* Whether tokens are stored: they are wanted, and no write has failed. Threads: any. */
bool mr_trail_keeps(const struct mr_trail *trail);

/* ---- publish's thread ---- */

/* Sets publish's doorbell, which is rung when the state changes from PENDING to READY. Publish sets
 * it before the first token, and sets NULL before it closes the doorbell. */
void mr_resume_attach(struct mr_resume *resume, const struct mr_wake *publish);
/* Copies a token that is about to be published; `shown` tokens have reached the broker. _poll sends
 * it. */
void mr_trail_keep(struct mr_trail *trail, uint32_t index, uint32_t shown,
                   const struct mr_sample *sample, uint64_t now_ns);
/* Sends the tokens kept since the last call. READY: publish may publish them: Redis has stored
 * them, did not do so within MR_RESUME_WAIT_NS, or is silent. PENDING: publish must not publish
 * them yet; it calls again when its doorbell rings, at *retry_ns at the latest. Never blocks.
 * After a timeout every call returns READY until Redis has stored all tokens. */
enum mr_resume_state mr_resume_poll(struct mr_resume *resume, uint64_t now_ns, uint64_t *retry_ns);

#endif
