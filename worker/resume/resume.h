/* resume - keeps a trail of each running request in Redis: its starts and its tokens. The request's
 * next attempt, on any worker, reads how many attempts and crashes there were and continues after
 * the last stored token.
 *
 * A trail is a Redis list with an expiry (format: worker/resume/progress.h). Intake reads the list
 * once, when the request's record arrives. The start of an attempt is appended before its first
 * engine step, which waits until the start is durable (worker/intake/starts.h). Each token is
 * appended after it is sampled; the tokens of one step are sent in one burst. Publish writes a
 * token to Kafka when Redis has stored it, or has not answered for MR_RESUME_WAIT_NS. So while
 * Redis answers, every token that a reader has seen is stored. Stored tokens that were perhaps not
 * seen are published again, unchanged, by the next attempt. The list is deleted when Kafka has
 * acknowledged the result. Tokens are only appended to an existing list (RPUSHX), so a worker that
 * continues a request which another worker has finished creates no new list.
 *
 * If Redis does not answer, a request runs as if Redis were not configured: its attempts are
 * counted only in the metadata of Kafka commits, and it starts at its first token. A lookup that
 * intake has abandoned is still in flight. Until its answer arrives Redis is treated as silent, and
 * no thread waits for Redis. After a failed write no more tokens are stored, and the next attempt
 * continues after the last stored one.
 *
 * Threads: as noted at each function; only _flush blocks. Answers reach intake as messages.
 * Memory:  a trail for each request in flight. Stored tokens are limited to MR_TRAIL_BYTES_MAX a
 *          request and bytes_max a worker; later tokens are not stored. Errors: only _create. */
#ifndef MR_WORKER_RESUME_RESUME_H
#define MR_WORKER_RESUME_RESUME_H

#include "worker/base/mailbox.h"
#include "worker/metrics/metrics.h"
#include "worker/remote_cache/redis_call.h"
#include "worker/resume/progress.h"

#include <stdatomic.h>

#define MR_TRAIL_BYTES_MAX ((size_t)256 << 10)
#define MR_RESUME_WAIT_NS  ((uint64_t)20000000)

struct mr_resume;
struct mr_trail;
struct mr_ticket;

/* Whether publish may write the tokens that it passed to mr_trail_keep; see mr_resume_poll. */
enum mr_resume_state { MR_RESUME_READY, MR_RESUME_PENDING };

struct mr_resume_options {
    /* Sends commands to Redis: mr_redis_cache_call, or in a test another function. */
    bool (*call)(void *context, const struct mr_redis_call *calls, size_t count);
    /* Called with true when Redis stops answering lookups in time, and with false when Redis
     * answers again: mr_redis_cache_set_silent. NULL: not called. */
    void (*silence)(void *context, bool silent);
    void *context;
    const struct mr_frame_secret *secrets; /* [secret_count] keys, copied; the first one encrypts */
    size_t secret_count;
    unsigned char weights_digest[32];
    uint64_t ttl_ns; /* time to live of a list in Redis, renewed while its request runs */
    /* limit on the stored tokens of all running requests together; 0: no token is stored */
    uint64_t bytes_max;
    struct mr_mailbox *intake; /* mailbox to which answers are posted */
    struct mr_metrics *metrics;
};

/* The answer of Redis as a message to intake: a request's list (kind MR_MAIL_FOUND), or whether the
 * start of an attempt is stored (kind MR_MAIL_NOTED). */
struct mr_found_mail {
    struct mr_mail mail;
    struct mr_ticket *ticket; /* set by intake; NULL: no request waits for this answer */
    /* false: Redis did not reply or replied with an error; NOTED: the start is not stored */
    bool answered;
    struct mr_progress_history history; /* only for FOUND */
    /* the fields below are private to resume.c */
    struct mr_trail *trail;
    /* NOTED: number of unanswered commands; one of them failed; intake wants no message */
    atomic_uint parts;
    atomic_bool lost;
    bool unwanted;
    size_t entries, bytes;  /* number and total size of the list's entries */
    bool posted, abandoned; /* protected by the mutex of struct mr_resume */
};

/* Start of an attempt after `index` tokens of earlier attempts, of which `shown` are in Kafka. */
struct mr_trail_start {
    uint32_t attempt, index, shown;
    bool accompanied, apart; /* marks of the start (worker/intake/starts.h) */
    /* trail of the request that ran alone until now, to be marked accompanied; NULL: none */
    struct mr_trail *beside;
};

enum mr_status mr_resume_create(struct mr_resume **out, const struct mr_resume_options *options,
                                struct mr_error *err);
/* From now on no answer is posted to intake. */
void mr_resume_stop_answers(struct mr_resume *resume);
/* Number of Redis commands in flight. Threads: any. */
uint32_t mr_resume_in_flight(struct mr_resume *resume);
/* Blocks until no Redis command is in flight; false: some are after timeout_ms. */
bool mr_resume_flush(struct mr_resume *resume, uint32_t timeout_ms);
/* Call after all trails were dropped and no Redis command is in flight. resume may be NULL. */
void mr_resume_destroy(struct mr_resume *resume);

/* ---- intake's thread ---- */

/* Creates the trail of a request whose prompt is encoded and, unless found is NULL, looks up the
 * request's list. *found: the message that intake will get; NULL: Redis is unreachable. Returns
 * NULL when memory is out. Tokens are stored only for requests with one choice (n = 1). */
struct mr_trail *mr_resume_lookup(struct mr_resume *resume, const struct mr_progress_origin *origin,
                                  const struct mr_request *request, struct mr_ticket *ticket,
                                  struct mr_found_mail **found);
/* Copies the size of the list that a lookup found to the trail; call before mr_trail_start. */
void mr_trail_apply(struct mr_trail *trail, const struct mr_found_mail *found);
/* Intake stops waiting for an answer. Redis is treated as silent until the answer arrives, which is
 * then still posted. False: the message is already in intake's mailbox. */
bool mr_resume_abandon(struct mr_resume *resume, struct mr_found_mail *found);
/* Whether Redis is treated as silent: an abandoned answer has not arrived. Threads: any. */
bool mr_resume_is_silent(struct mr_resume *resume);
void mr_found_mail_free(struct mr_found_mail *found);

/* Appends the start to the request's list, and a mark to the list of start->beside. Returns the
 * message (kind MR_MAIL_NOTED) that intake will get with this ticket; NULL: Redis is unreachable or
 * memory is out. ticket NULL: no message is wanted. */
struct mr_found_mail *mr_trail_start(struct mr_trail *trail, const struct mr_trail_start *start,
                                     struct mr_ticket *ticket, uint64_t now_ns);
/* Appends RELEASE: the worker stopped this attempt on purpose and did not crash. */
void mr_trail_release(struct mr_trail *trail);
/* Appends RECLAIM: the attempt that was stopped on purpose continues. */
void mr_trail_reclaim(struct mr_trail *trail);
/* Deletes the request's list; call when Kafka has acknowledged the result. */
void mr_trail_delete(struct mr_trail *trail);
/* Releases the caller's reference; the list in Redis stays. trail may be NULL. */
void mr_trail_drop(struct mr_trail *trail);

/* Whether the request's tokens are stored in Redis: storing is enabled for it, and no write has
 * failed. Threads: any. */
bool mr_trail_keeps(const struct mr_trail *trail);

/* ---- publish's thread ---- */

/* Sets the wake to ring when mr_resume_poll would no longer return PENDING. Publish sets it before
 * the first token, and sets NULL before it closes the wake. */
void mr_resume_attach(struct mr_resume *resume, const struct mr_wake *publish);
/* Copies a token that publish is about to write; mr_resume_poll sends the copy to Redis. shown:
 * number of earlier tokens that are on the Kafka broker. */
void mr_trail_keep(struct mr_trail *trail, uint32_t index, uint32_t shown,
                   const struct mr_sample *sample, uint64_t now_ns);
/* Sends the tokens that mr_trail_keep has copied to Redis. READY: publish may write these tokens,
 * because Redis has stored them, has not done so within MR_RESUME_WAIT_NS, or is silent. PENDING:
 * call again when the wake rings, at *retry_ns at the latest. After a timeout every call returns
 * READY until Redis has stored all tokens. Never blocks. */
enum mr_resume_state mr_resume_poll(struct mr_resume *resume, uint64_t now_ns, uint64_t *retry_ns);

#endif
