/* resume - what is known in Redis of the requests that run here, written while they run and read
 * when they come again: how often they were begun, how often that took a worker down, and the
 * tokens they had got to (worker/redis/progress.h has the form).
 *
 * Each request has a trail, a list in Redis that expires. It is read once, when the record arrives.
 * Its start is appended before the first step; its tokens are appended as they are drawn, one write
 * for each request and step, all of a step in one burst; they are published when Redis has them, or
 * has not answered for MR_RESUME_WAIT_NS. So what a reader has seen is kept, and what is kept and
 * perhaps not seen is published again, the same, by the next attempt. The list is deleted when the
 * result is acknowledged. Tokens are only appended to a list that is there (RPUSHX): a worker that
 * was given up and wakes leaves nothing behind.
 *
 * Intake and publish wait, and not for long. Without an answer of Redis a request runs as if there
 * were none: it counts its attempts by the commit's metadata alone and begins at its first token.
 * An answer that intake gave up is still on its way: as long as that is so Redis is silent, and
 * nobody waits for it again. A write that fails ends its trail; the attempt after that goes on from
 * the token before.
 *
 * Threads: as said at each call. Answers come as mail to intake, from the tier's thread.
 * Memory:  trails of the requests in flight; what they wrote is at most MR_TRAIL_BYTES_MAX each and
 *          bytes_max together; beyond that tokens are not kept. Errors: only _create. */
#ifndef MR_WORKER_REDIS_RESUME_H
#define MR_WORKER_REDIS_RESUME_H

#include "worker/base/mailbox.h"
#include "worker/metrics/metrics.h"
#include "worker/redis/progress.h"
#include "worker/redis/tier_thread.h"

#define MR_TRAIL_BYTES_MAX ((size_t)256 << 10)
#define MR_RESUME_WAIT_NS  ((uint64_t)20000000)

struct mr_resume;
struct mr_trail;
struct mr_ticket;

/* What publish may do with the tokens it handed over; see mr_resume_poll. */
enum mr_resume_state { MR_RESUME_READY, MR_RESUME_PENDING };

struct mr_resume_options {
    /* How Redis is reached: mr_tier_redis_call, or a test's. */
    bool (*call)(void *context, const struct mr_tier_call *calls, size_t count);
    /* Redis has become silent, or is no longer: mr_tier_redis_set_silent. NULL: nobody is told. */
    void (*silence)(void *context, bool silent);
    void *context;
    const struct mr_tier_secret *secrets; /* [secret_count], the first one seals; copied */
    size_t secret_count;
    unsigned char weights_digest[32];
    uint64_t ttl_ns;           /* of a list, from its last writes on */
    uint64_t bytes_max;        /* of tokens kept for what runs here; 0: none are kept */
    struct mr_mailbox *intake; /* where answers go */
    struct mr_metrics *metrics;
};

/* Redis has answered about a ticket; kind MR_MAIL_FOUND. */
struct mr_found_mail {
    struct mr_mail mail;
    struct mr_ticket *ticket; /* intake's; NULL: nobody waits for it any more */
    bool heard;               /* false: no answer */
    struct mr_progress_history history;
    /* private */
    struct mr_trail *trail;
    size_t entries, bytes; /* of the list */
    bool over, given_up;   /* under the resume's mutex */
};

enum mr_status mr_resume_create(struct mr_resume **out, const struct mr_resume_options *options,
                                struct mr_error *err);
/* No answer is posted from now on. */
void mr_resume_mute(struct mr_resume *resume);
/* Waits until Redis has what was written; false when it did not in time. */
bool mr_resume_flush(struct mr_resume *resume, uint32_t timeout_ms);
/* After all trails were dropped and every call was answered. resume may be NULL. */
void mr_resume_destroy(struct mr_resume *resume);

/* ---- intake's thread ---- */

/* A trail for a request whose prompt is encoded, and the question what is known of it; found NULL:
 * without it. *found NULL: Redis cannot be asked. NULL: no memory. Tokens are kept of requests of
 * one choice. */
struct mr_trail *mr_resume_ask(struct mr_resume *resume, const struct mr_progress_origin *origin,
                               const struct mr_request *request, struct mr_ticket *ticket,
                               struct mr_found_mail **found);
/* The trail is as the answer says; before its start. */
void mr_trail_learn(struct mr_trail *trail, const struct mr_found_mail *found);
/* The answer was waited for too long: Redis is silent until it comes, as mail nonetheless. False:
 * it is in the mailbox. */
bool mr_resume_give_up(struct mr_resume *resume, struct mr_found_mail *found);
/* Whether an answer that was given up is still to come. Threads: any. */
bool mr_resume_is_silent(struct mr_resume *resume);
void mr_found_mail_free(struct mr_found_mail *found);

/* Handed back on purpose; runs on after that. */
void mr_trail_release(struct mr_trail *trail);
void mr_trail_again(struct mr_trail *trail);
/* Its result is on the broker. */
void mr_trail_forget(struct mr_trail *trail);
/* trail may be NULL. */
void mr_trail_drop(struct mr_trail *trail);

/* ---- the engine's ---- */

/* The attempt is about to run; it goes on behind `index` tokens, of which `shown` are published. */
void mr_trail_start(struct mr_trail *trail, uint32_t attempt, uint32_t index, uint32_t shown,
                    uint64_t now_ns);
/* Whether its tokens are wanted. Threads: any. */
bool mr_trail_keeps(const struct mr_trail *trail);

/* ---- publish's thread ---- */

/* Publish's doorbell: rung when the state changes from PENDING to READY. Publish attaches it before
 * the first token and detaches it (NULL) before it closes the doorbell. */
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
/* Calls _poll and blocks until it returns READY. */
void mr_resume_wait(struct mr_resume *resume);

#endif
