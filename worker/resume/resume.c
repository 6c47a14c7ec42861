#include "worker/resume/resume.h"

#include "batching/sequence/submission.h"
#include "codec/check.h"
#include "worker/base/clock.h"
#include "worker/ticket/messages.h"
#include "worker/ticket/ticket.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* Time without a reply to a command after which the connection is closed. */
#define LOOKUP_TIMEOUT_NS ((uint64_t)500000000)
#define WRITE_TIMEOUT_NS  ((uint64_t)1000000000)
#define SECOND_NS         ((uint64_t)1000000000)
#define RENEWALS          4u /* renewals of a list's expiry during one time to live */
#define BURST_MAX         ((size_t)128)

/* A token that was not yet sent to Redis. */
struct unsent {
    struct mr_trail *trail; /* counted in trail->refs */
    size_t length;
    unsigned char bytes[MR_PROGRESS_BYTES_MAX];
};

struct mr_resume {
    struct mr_resume_options options;
    /* Two sets, so that short writes never wait while a thread reads a long list or hashes a long
     * record. */
    struct mr_progress_set writing, reading;
    struct unsent *burst; /* [BURST_MAX], used by the publish thread only */
    size_t burst_count;
    atomic_size_t kept_bytes;
    char ttl_text[24];

    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* the fields below are protected by the mutex */
    uint32_t calls;     /* Redis commands in flight */
    uint32_t tokens;    /* commands in flight that store tokens */
    uint32_t abandoned; /* commands in flight for whose answers intake no longer waits */
    bool late;          /* the last wait for tokens to be stored has timed out */
    bool muted;         /* no further answer is posted to intake */
    bool waiting;       /* publish waits until tokens are stored, at most until wait_until_ns */
    uint64_t wait_until_ns;
    const struct mr_wake *wake; /* of the publish thread; NULL: none */
};

struct mr_trail {
    struct mr_resume *resume;
    /* references: the request's ticket, each Redis command in flight, each copied token */
    atomic_uint refs;
    struct mr_progress_name name;
    unsigned char identity[MR_SHA256_BYTES];
    atomic_bool keeps; /* see mr_trail_keeps */
    /* attempt, exists and found_bytes: set by the intake thread before the engine starts the
     * request */
    uint32_t attempt;
    bool exists;        /* the trail's list may exist in Redis */
    size_t found_bytes; /* size of the list when intake read it */
    /* the fields below belong to the publish thread */
    size_t bytes;      /* size of the tokens of this attempt stored in Redis */
    uint64_t renew_ns; /* when to renew the list's expiry; first set by mr_trail_start */
};

/* ---- trails ---- */

static void unref(struct mr_trail *trail)
{
    if (atomic_fetch_sub(&trail->refs, 1) != 1) return;
    atomic_fetch_sub(&trail->resume->kept_bytes, trail->bytes);
    free(trail);
}

void mr_trail_drop(struct mr_trail *trail)
{
    if (trail) unref(trail);
}

bool mr_trail_keeps(const struct mr_trail *trail)
{
    return atomic_load_explicit(&trail->keeps, memory_order_relaxed);
}

/* ---- calls ---- */

/* Wakes the threads that wait for Redis. The caller holds the mutex. */
static void notify(struct mr_resume *resume)
{
    pthread_cond_broadcast(&resume->changed);
    if (resume->waiting && resume->wake) mr_wake_ring(resume->wake);
}

/* A Redis command has ended. tokens: it stored tokens. */
static void end_call(struct mr_resume *resume, bool tokens)
{
    pthread_mutex_lock(&resume->mutex);
    resume->calls--;
    if (tokens) resume->tokens--;
    if (resume->tokens == 0) resume->late = false;
    if (resume->calls == 0 || resume->tokens == 0) notify(resume);
    pthread_mutex_unlock(&resume->mutex);
}

static struct mr_redis_words words_of(const struct mr_trail *trail, const char *command)
{
    struct mr_redis_words words = {0};
    mr_redis_words_add(&words, command, strlen(command));
    mr_redis_words_add(&words, trail->name.key, MR_PROGRESS_KEY_BYTES - 1);
    return words;
}

typedef void done_function(void *context, enum mr_redis_outcome outcome,
                           const struct mr_redis_reply *reply);

static struct mr_redis_call call_of(const struct mr_redis_words *words, uint64_t timeout_ns,
                                    done_function *done, void *context)
{
    return (struct mr_redis_call){.words = words->words,
                                  .lengths = words->lengths,
                                  .count = words->count,
                                  .timeout_ns = timeout_ns,
                                  .done = done,
                                  .context = context};
}

/* Posts Redis commands, all or none. False: none was accepted, and no `done` is called. */
static bool begin_calls(struct mr_resume *resume, const struct mr_redis_call *calls, uint32_t count)
{
    pthread_mutex_lock(&resume->mutex);
    resume->calls += count;
    pthread_mutex_unlock(&resume->mutex);
    if (resume->options.call(resume->options.context, calls, count)) return true;
    for (uint32_t i = 0; i < count; i++)
        end_call(resume, false);
    return false;
}

static bool begin_call(struct mr_resume *resume, const struct mr_redis_words *words,
                       uint64_t timeout_ns, done_function *done, void *context)
{
    struct mr_redis_call call = call_of(words, timeout_ns, done, context);
    return begin_calls(resume, &call, 1);
}

static void on_written(void *context, enum mr_redis_outcome outcome,
                       const struct mr_redis_reply *reply)
{
    struct mr_trail *trail = context;
    struct mr_resume *resume = trail->resume;
    (void)outcome, (void)reply;
    unref(trail);
    end_call(resume, false);
}

static void write_list(struct mr_trail *trail, const struct mr_redis_words *words)
{
    atomic_fetch_add(&trail->refs, 1);
    if (!begin_call(trail->resume, words, WRITE_TIMEOUT_NS, on_written, trail)) unref(trail);
}

static void renew(struct mr_trail *trail, uint64_t now_ns)
{
    struct mr_redis_words words = words_of(trail, "EXPIRE");
    mr_redis_words_add(&words, trail->resume->ttl_text, strlen(trail->resume->ttl_text));
    trail->renew_ns = now_ns + trail->resume->options.ttl_ns / RENEWALS;
    write_list(trail, &words);
}

/* Encodes a list entry; returns its length; 0: the entry could not be encrypted. */
static size_t write_entry(struct mr_trail *trail, const struct mr_progress_entry *entry,
                          unsigned char out[MR_PROGRESS_BYTES_MAX])
{
    struct mr_progress_set *set = &trail->resume->writing;
    unsigned char nonce[MR_AES_NONCE_BYTES] = {0};
    if (set->keys.count > 0 && getrandom(nonce, sizeof nonce, 0) != (ssize_t)sizeof nonce) return 0;
    pthread_mutex_lock(&set->mutex);
    struct mr_progress_tools tools = {set->hash, &set->keys};
    size_t length = mr_progress_write(&tools, &trail->name, entry, nonce, out);
    pthread_mutex_unlock(&set->mutex);
    return length;
}

/* Appends an entry to the Redis list. A failure of this write does not stop later ones. */
static void append(struct mr_trail *trail, const char *command, enum mr_progress_kind kind)
{
    unsigned char bytes[MR_PROGRESS_BYTES_MAX];
    struct mr_progress_entry entry = {.kind = kind, .attempt = trail->attempt};
    struct mr_redis_words words = words_of(trail, command);
    mr_redis_words_add(&words, bytes, write_entry(trail, &entry, bytes));
    if (words.lengths[2] > 0) write_list(trail, &words);
}

/* ---- lookups ---- */

static void read_list(struct mr_found_mail *found, const struct mr_redis_reply *reply)
{
    const struct mr_trail *trail = found->trail;
    struct mr_progress_set *set = &trail->resume->reading;
    found->entries = mr_redis_reply_count(reply);
    pthread_mutex_lock(&set->mutex);
    struct mr_progress_tools tools = {set->hash, &set->keys};
    for (size_t i = 0; i < found->entries; i++) {
        struct mr_text entry;
        entry.bytes = mr_redis_reply_text(mr_redis_reply_at(reply, i), &entry.length);
        mr_progress_read(&found->history, &tools, &trail->name, trail->identity, entry);
        found->bytes += entry.length;
    }
    pthread_mutex_unlock(&set->mutex);
}

/* Sets the number of abandoned answers; calls the `silence` callback when the number leaves or
 * reaches 0. The caller holds the mutex. */
static void set_abandoned(struct mr_resume *resume, uint32_t count)
{
    bool silent = count > 0, before = resume->abandoned > 0;
    resume->abandoned = count;
    if (silent != before && resume->options.silence)
        resume->options.silence(resume->options.context, silent);
}

/* Posts the answer to a command to intake. The caller may not use `found` afterwards. */
static void post_answer(struct mr_found_mail *found)
{
    struct mr_trail *trail = found->trail;
    struct mr_resume *resume = trail->resume;
    pthread_mutex_lock(&resume->mutex);
    bool muted = resume->muted || found->unwanted;
    found->posted = true;
    if (found->abandoned) set_abandoned(resume, resume->abandoned - 1);
    if (!muted) mr_mailbox_post_control(resume->options.intake, &found->mail);
    pthread_mutex_unlock(&resume->mutex);
    if (muted) mr_found_mail_free(found);
    unref(trail);
    end_call(resume, false);
}

static void on_answer(void *context, enum mr_redis_outcome outcome,
                      const struct mr_redis_reply *reply)
{
    struct mr_found_mail *found = context;
    found->answered = outcome == MR_REDIS_DONE;
    if (found->answered) read_list(found, reply);
    post_answer(found);
}

static struct mr_trail *make_trail(struct mr_resume *resume,
                                   const struct mr_progress_origin *origin,
                                   const struct mr_request *request, const struct mr_ticket *ticket)
{
    const struct mr_request_adapter *adapter = ticket ? ticket->adapter : NULL;
    const struct mr_progress_model model = {resume->options.weights_digest,
                                            adapter ? adapter->digest : NULL};
    struct mr_trail *trail = calloc(1, sizeof *trail);
    if (!trail) return NULL;
    trail->resume = resume;
    atomic_init(&trail->refs, 1);
    atomic_init(&trail->keeps, resume->options.bytes_max > 0 && request->choice_count == 1);
    pthread_mutex_lock(&resume->reading.mutex);
    mr_progress_name_of(resume->reading.hash, origin, &trail->name);
    mr_progress_identity_of(resume->reading.hash, &model, request->token_ids, request->token_count,
                            trail->identity);
    pthread_mutex_unlock(&resume->reading.mutex);
    return trail;
}

static struct mr_found_mail *make_answer(struct mr_trail *trail, struct mr_ticket *ticket,
                                         enum mr_mail_kind kind)
{
    struct mr_found_mail *mail = calloc(1, sizeof *mail);
    if (mail)
        *mail =
            (struct mr_found_mail){{.bytes = sizeof *mail, .kind = kind}, ticket, .trail = trail};
    return mail;
}

struct mr_trail *mr_resume_lookup(struct mr_resume *resume, const struct mr_progress_origin *origin,
                                  const struct mr_request *request, struct mr_ticket *ticket,
                                  struct mr_found_mail **found)
{
    struct mr_trail *trail = make_trail(resume, origin, request, ticket);
    if (!found) return trail;
    *found = NULL;
    struct mr_found_mail *mail = make_answer(trail, ticket, MR_MAIL_FOUND);
    if (!trail || !mail) goto fail;
    struct mr_redis_words words = words_of(trail, "LRANGE");
    mr_redis_words_add(&words, "0", 1);
    mr_redis_words_add(&words, "-1", 2);
    atomic_fetch_add(&trail->refs, 1);
    /* set *found first, because the answer may reach intake before begin_call returns */
    *found = mail;
    if (begin_call(resume, &words, LOOKUP_TIMEOUT_NS, on_answer, mail)) return trail;
    *found = NULL;
    unref(trail);
    free(mail);
    return trail;
fail:
    free(mail);
    mr_trail_drop(trail);
    return NULL;
}

void mr_trail_apply(struct mr_trail *trail, const struct mr_found_mail *found)
{
    trail->exists = found->entries > 0;
    trail->found_bytes = found->bytes;
}

bool mr_resume_abandon(struct mr_resume *resume, struct mr_found_mail *found)
{
    pthread_mutex_lock(&resume->mutex);
    bool posted = found->posted;
    if (!posted) {
        found->abandoned = true;
        set_abandoned(resume, resume->abandoned + 1);
        notify(resume);
    }
    pthread_mutex_unlock(&resume->mutex);
    return !posted;
}

bool mr_resume_is_silent(struct mr_resume *resume)
{
    pthread_mutex_lock(&resume->mutex);
    bool silent = resume->abandoned > 0;
    pthread_mutex_unlock(&resume->mutex);
    return silent;
}

void mr_found_mail_free(struct mr_found_mail *found)
{
    mr_progress_clear(&found->history);
    free(found);
}

/* ---- writing ---- */

/* Stops storing tokens for the trail if a write has failed or Redis does not have the list. */
static void stop_after_failure(struct mr_trail *trail, enum mr_redis_outcome outcome,
                               const struct mr_redis_reply *reply)
{
    if (outcome == MR_REDIS_DONE && mr_redis_reply_integer(reply) > 0) return;
    if (atomic_exchange(&trail->keeps, false))
        mr_metrics_add(trail->resume->options.metrics, MR_COUNTER_TRAILS_LOST, 1);
}

/* One command of a start was answered. The last answer is posted to intake. */
static void on_noted(void *context, enum mr_redis_outcome outcome,
                     const struct mr_redis_reply *reply)
{
    struct mr_found_mail *note = context;
    struct mr_resume *resume = note->trail->resume;
    if (outcome != MR_REDIS_DONE || mr_redis_reply_integer(reply) <= 0)
        atomic_store(&note->lost, true);
    if (atomic_fetch_sub(&note->parts, 1) != 1) {
        end_call(resume, false);
        return;
    }
    note->answered = !atomic_load(&note->lost);
    if (!note->answered) stop_after_failure(note->trail, MR_REDIS_LOST, NULL);
    post_answer(note);
}

/* Sends the start and, to the list of the request that ran alone until now, the mark that it is
 * accompanied. */
static bool begin_note(struct mr_found_mail *note, const struct mr_trail_start *start)
{
    unsigned char bytes[2][MR_PROGRESS_BYTES_MAX];
    struct mr_trail *trails[2] = {note->trail, start->beside};
    struct mr_progress_entry entries[2] = {{.kind = MR_PROGRESS_START,
                                            .attempt = start->attempt,
                                            .index = start->index,
                                            .shown = start->shown,
                                            .accompanied = start->accompanied,
                                            .apart = start->apart,
                                            .identity = note->trail->identity},
                                           {.kind = MR_PROGRESS_ACCOMPANIED}};
    struct mr_redis_call calls[2];
    struct mr_redis_words words[2];
    uint32_t count = start->beside ? 2 : 1;
    if (start->beside) entries[1].attempt = start->beside->attempt;
    for (uint32_t i = 0; i < count; i++) {
        size_t length = write_entry(trails[i], &entries[i], bytes[i]);
        if (length == 0) return false;
        words[i] = words_of(trails[i], i == 0 ? "RPUSH" : "RPUSHX");
        mr_redis_words_add(&words[i], bytes[i], length);
        calls[i] = call_of(&words[i], WRITE_TIMEOUT_NS, on_noted, note);
    }
    atomic_init(&note->parts, count);
    return begin_calls(note->trail->resume, calls, count);
}

struct mr_found_mail *mr_trail_start(struct mr_trail *trail, const struct mr_trail_start *start,
                                     struct mr_ticket *ticket, uint64_t now_ns)
{
    struct mr_found_mail *note = make_answer(trail, ticket, MR_MAIL_NOTED);
    trail->attempt = start->attempt;
    trail->exists = true;
    if (note) note->unwanted = !ticket;
    atomic_fetch_add(&trail->refs, 1);
    if (note && begin_note(note, start)) {
        renew(trail, now_ns);
        return ticket ? note : NULL;
    }
    stop_after_failure(trail, MR_REDIS_LOST, NULL);
    unref(trail);
    free(note);
    return NULL;
}

static void on_kept(void *context, enum mr_redis_outcome outcome,
                    const struct mr_redis_reply *reply)
{
    struct mr_trail *trail = context;
    struct mr_resume *resume = trail->resume;
    stop_after_failure(trail, outcome, reply);
    unref(trail);
    end_call(resume, true);
}

/* Charges the bytes to the limits of the trail and of the worker; false: a limit is reached. */
static bool charge(struct mr_trail *trail, size_t bytes)
{
    struct mr_resume *resume = trail->resume;
    if (trail->found_bytes + trail->bytes + bytes > MR_TRAIL_BYTES_MAX) return false;
    if (atomic_fetch_add(&resume->kept_bytes, bytes) + bytes > resume->options.bytes_max) {
        atomic_fetch_sub(&resume->kept_bytes, bytes);
        return false;
    }
    trail->bytes += bytes;
    return true;
}

static void count_tokens(struct mr_resume *resume, size_t count)
{
    pthread_mutex_lock(&resume->mutex);
    resume->calls += (uint32_t)count;
    resume->tokens += (uint32_t)count;
    pthread_mutex_unlock(&resume->mutex);
}

/* Sends one RPUSHX command for each token, all in one burst. */
static void send_burst(struct mr_resume *resume)
{
    struct mr_redis_call calls[BURST_MAX];
    struct mr_redis_words words[BURST_MAX];
    size_t count = resume->burst_count;
    resume->burst_count = 0;
    if (count == 0) return;
    for (size_t i = 0; i < count; i++) {
        struct unsent *unsent = &resume->burst[i];
        words[i] = words_of(unsent->trail, "RPUSHX");
        mr_redis_words_add(&words[i], unsent->bytes, unsent->length);
        calls[i] = call_of(&words[i], WRITE_TIMEOUT_NS, on_kept, unsent->trail);
    }
    count_tokens(resume, count);
    if (resume->options.call(resume->options.context, calls, count)) return;
    for (size_t i = 0; i < count; i++)
        on_kept(resume->burst[i].trail, MR_REDIS_LOST, NULL);
}

void mr_trail_keep(struct mr_trail *trail, uint32_t index, uint32_t shown,
                   const struct mr_sample *sample, uint64_t now_ns)
{
    struct mr_resume *resume = trail->resume;
    if (!mr_trail_keeps(trail)) return;
    struct mr_progress_entry entry = {.kind = MR_PROGRESS_TOKENS,
                                      .attempt = trail->attempt,
                                      .index = index,
                                      .shown = shown,
                                      .sample = sample};
    struct unsent *unsent = &resume->burst[resume->burst_count];
    unsent->length = write_entry(trail, &entry, unsent->bytes);
    if (unsent->length == 0 || !charge(trail, unsent->length)) {
        stop_after_failure(trail, MR_REDIS_LOST, NULL);
        return;
    }
    atomic_fetch_add(&trail->refs, 1);
    unsent->trail = trail;
    if (++resume->burst_count == BURST_MAX) send_burst(resume);
    mr_metrics_add(resume->options.metrics, MR_COUNTER_TOKENS_KEPT, 1);
    if (now_ns >= trail->renew_ns) renew(trail, now_ns);
}

void mr_resume_attach(struct mr_resume *resume, const struct mr_wake *publish)
{
    pthread_mutex_lock(&resume->mutex);
    resume->wake = publish;
    pthread_mutex_unlock(&resume->mutex);
}

/* Starts the wait for Redis to store tokens, or ends it at its time limit. True: publish has to
 * wait. The caller holds the mutex. */
static bool update_wait(struct mr_resume *resume, uint64_t now_ns)
{
    if (resume->tokens == 0 || resume->late || resume->abandoned > 0) return false;
    if (!resume->waiting) resume->wait_until_ns = now_ns + MR_RESUME_WAIT_NS;
    resume->late = now_ns >= resume->wait_until_ns;
    return !resume->late;
}

enum mr_resume_state mr_resume_poll(struct mr_resume *resume, uint64_t now_ns, uint64_t *retry_ns)
{
    send_burst(resume);
    pthread_mutex_lock(&resume->mutex);
    bool pending = resume->waiting = update_wait(resume, now_ns);
    *retry_ns = pending ? resume->wait_until_ns : UINT64_MAX;
    pthread_mutex_unlock(&resume->mutex);
    return pending ? MR_RESUME_PENDING : MR_RESUME_READY;
}

void mr_trail_release(struct mr_trail *trail)
{
    append(trail, "RPUSHX", MR_PROGRESS_RELEASE);
}

void mr_trail_reclaim(struct mr_trail *trail)
{
    append(trail, "RPUSHX", MR_PROGRESS_RECLAIM);
}

void mr_trail_delete(struct mr_trail *trail)
{
    if (!trail->exists) return;
    struct mr_redis_words words = words_of(trail, "DEL");
    write_list(trail, &words);
}

/* ---- life ---- */

enum mr_status mr_resume_create(struct mr_resume **out, const struct mr_resume_options *options,
                                struct mr_error *err)
{
    *out = NULL;
    struct mr_resume *resume = calloc(1, sizeof *resume);
    if (!resume) return mr_fail(err, MR_NOMEM, "no memory for the trails of requests");
    resume->options = *options;
    resume->options.secrets = NULL;
    uint64_t ttl_s = (options->ttl_ns + SECOND_NS - 1) / SECOND_NS;
    snprintf(resume->ttl_text, sizeof resume->ttl_text, "%" PRIu64, ttl_s);
    pthread_mutex_init(&resume->mutex, NULL);
    pthread_cond_init(&resume->changed, NULL);
    size_t secrets = options->secret_count;
    enum mr_status status = mr_progress_set_open(&resume->writing, options->secrets, secrets, err);
    enum mr_status other = mr_progress_set_open(&resume->reading, options->secrets, secrets, err);
    if (status == MR_OK) status = other;
    resume->burst = calloc(BURST_MAX, sizeof *resume->burst);
    if (!resume->burst) status = mr_fail(err, MR_NOMEM, "no memory for the trails of requests");
    if (status != MR_OK) {
        mr_resume_destroy(resume);
        return status;
    }
    *out = resume;
    return MR_OK;
}

void mr_resume_stop_answers(struct mr_resume *resume)
{
    pthread_mutex_lock(&resume->mutex);
    resume->muted = true;
    pthread_mutex_unlock(&resume->mutex);
}

uint32_t mr_resume_in_flight(struct mr_resume *resume)
{
    pthread_mutex_lock(&resume->mutex);
    uint32_t calls = resume->calls;
    pthread_mutex_unlock(&resume->mutex);
    return calls;
}

bool mr_resume_flush(struct mr_resume *resume, uint32_t timeout_ms)
{
    const uint64_t until_ns = mr_clock_ns() + timeout_ms * (SECOND_NS / 1000);
    pthread_mutex_lock(&resume->mutex);
    while (resume->calls > 0 && mr_clock_wait(&resume->changed, &resume->mutex, until_ns))
        ;
    bool all = resume->calls == 0;
    pthread_mutex_unlock(&resume->mutex);
    return all;
}

void mr_resume_destroy(struct mr_resume *resume)
{
    if (!resume) return;
    MR_ASSERT(resume->calls == 0 && resume->abandoned == 0 && resume->burst_count == 0);
    free(resume->burst);
    mr_progress_set_close(&resume->writing);
    mr_progress_set_close(&resume->reading);
    pthread_cond_destroy(&resume->changed);
    pthread_mutex_destroy(&resume->mutex);
    free(resume);
}
