#include "worker/redis/tier_thread.h"

#include "codec/check.h"
#include "worker/base/clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define DEPTH           2u    /* values on their way: the next is asked for while one is received */
#define LOOKS_MAX       2048u /* small commands on their way */
#define CALLS_MAX       ((size_t)4096)
#define CALL_BYTES_MAX  ((size_t)16 << 20)
#define TIDY_TIMEOUT_NS ((uint64_t)1000000000)
#define MEASURE_BYTES   ((size_t)1 << 20)
#define MEASURE_WAIT_NS ((uint64_t)30 * 1000000000)
#define MEASURE_COUNT   4u /* the best counts: one may find a cold connection or a busy core */
#define MEASURE_LONG_NS ((uint64_t)20000000) /* one that takes longer counts for two */
#define SLEEP_NS        ((uint64_t)1000000000)

struct call {
    struct mr_mail mail;
    struct mr_redis_op op;
    struct mr_tier_call told;
    struct call *next;
};

struct mr_tier_thread {
    struct mr_tier_thread_options options;
    pthread_t thread;
    struct mr_wake wake;
    struct mr_mailbox *calls;
    struct mr_redis_client *client;
    struct mr_frame_keys keys;
    struct mr_tier_part *parts; /* in hand */
    uint32_t part_count, call_count;
    struct place {
        const struct mr_tier_part *part; /* NULL: free */
        void *sealed;                    /* [MR_SLICE_BYTES_MAX] */
        struct mr_frame_digest *digest;
    } places[DEPTH];
    struct mr_redis_op measure;
    char measure_text[48];
    void *measure_bytes;
    uint64_t measure_begun_ns, measure_after_ns;
    uint32_t measure_count;
    double measure_best; /* bytes per second */
    bool measuring, was_ready, told_failure;
    atomic_bool stopping;

    pthread_mutex_t mutex;
    struct mr_redis_client_stats stats; /* under mutex */
    char reason[MR_ERROR_DETAIL_BYTES];
};

/* ---- parts ---- */

static void hold(struct mr_tier_thread *lane, struct mr_tier_part *part)
{
    part->next = lane->parts;
    lane->parts = part;
    lane->part_count++;
}

static void let_go(struct mr_tier_thread *lane, struct mr_tier_part *part)
{
    struct mr_tier_part **link = &lane->parts;
    while (*link != part)
        link = &(*link)->next;
    *link = part->next;
    lane->part_count--;
    for (uint32_t i = 0; i < DEPTH; i++)
        if (lane->places[i].part == part) lane->places[i].part = NULL;
}

/* A place for a value on its way, held by the part until it is let go; NULL: none is free. */
static struct place *take_place(struct mr_tier_thread *lane, const struct mr_tier_part *part)
{
    for (uint32_t i = 0; i < DEPTH; i++) {
        if (lane->places[i].part) continue;
        lane->places[i].part = part;
        return &lane->places[i];
    }
    return NULL;
}

/* Memory for the sealed payload of a part, NULL when there is none. */
static void *sealed_place(struct mr_tier_thread *lane, const struct mr_tier_part *part)
{
    struct place *place = take_place(lane, part);
    if (place && !place->sealed) place->sealed = malloc(MR_SLICE_BYTES_MAX);
    return place ? place->sealed : NULL;
}

static void add_to_digest(struct mr_redis_op *op, const void *bytes, size_t length)
{
    mr_frame_digest_add(((struct mr_tier_part *)op->owner)->digest, bytes, length);
}

static void make_get(struct mr_tier_thread *lane, struct mr_tier_part *part,
                     const struct mr_redis_value *value)
{
    struct place *place = lane->keys.count == 0 ? take_place(lane, part) : NULL;
    mr_redis_op_get(&part->op, value);
    if (place && !place->digest) place->digest = mr_frame_digest_create();
    part->digest = place ? place->digest : NULL;
    if (!part->digest) return;
    mr_frame_digest_begin(part->digest);
    part->op.on_bytes = add_to_digest;
}

static struct mr_redis_value value_of(struct mr_tier_part *part, void *payload)
{
    return (struct mr_redis_value){.key = part->key,
                                   .key_length = part->key_length,
                                   .header = part->header,
                                   .header_length = MR_FRAME_BYTES,
                                   .payload = payload,
                                   .length = part->frame.length};
}

/* False: no memory or no randomness to seal with. */
static bool make_set(struct mr_tier_thread *lane, struct mr_tier_part *part)
{
    unsigned char nonce[MR_AES_NONCE_BYTES];
    struct mr_frame_order order = {
        .frame = part->frame, .payload = part->payload, .sealed = NULL, .nonce = nonce};
    void *payload = part->payload;
    if (lane->keys.count) {
        payload = order.sealed = sealed_place(lane, part);
        if (!payload || getrandom(nonce, sizeof nonce, 0) != (ssize_t)sizeof nonce) return false;
    }
    mr_frame_write(&order, &lane->keys, part->header);
    struct mr_redis_value value = value_of(part, payload);
    mr_redis_op_set(&part->op, &value, lane->options.ttl_s);
    return true;
}

static bool make_op(struct mr_tier_thread *lane, struct mr_tier_part *part, uint64_t now_ns)
{
    struct mr_redis_value value = value_of(part, part->payload);
    bool good = true;
    switch (part->step) {
    case MR_TIER_STEP_LOOK:
        mr_redis_op_word(&part->op, "STRLEN", part->key, part->key_length);
        break;
    case MR_TIER_STEP_GET:
        make_get(lane, part, &value);
        break;
    case MR_TIER_STEP_SET:
        good = make_set(lane, part);
        break;
    case MR_TIER_STEP_TIDY:
        if (part->damaged)
            mr_redis_op_word(&part->op, "DEL", part->key, part->key_length);
        else
            mr_redis_op_expire(&part->op, part->key, part->key_length, lane->options.ttl_s);
        good = part->damaged || lane->options.ttl_s;
        break;
    }
    part->op.owner = part;
    part->op.deadline_ns =
        part->step == MR_TIER_STEP_TIDY ? now_ns + TIDY_TIMEOUT_NS : part->deadline_ns;
    return good;
}

/* Sends the part's next command; a part that cannot be sent is over. A part that is finished may be
 * gone: it is let go before. */
static void run_part(struct mr_tier_thread *lane, struct mr_tier_part *part, uint64_t now_ns)
{
    for (;;) {
        hold(lane, part);
        if (make_op(lane, part, now_ns) && mr_redis_client_send(lane->client, &part->op)) return;
        part->unanswered = true;
        let_go(lane, part);
        if (!mr_tier_queue_finish(lane->options.queue, part, false, now_ns)) return;
    }
}

/* What will be so again next time. */
static bool is_standing(enum mr_redis_outcome outcome)
{
    return outcome == MR_REDIS_FULL || outcome == MR_REDIS_DENIED || outcome == MR_REDIS_READ_ONLY;
}

/* Whether what came is what was wanted. */
static bool judge(struct mr_tier_thread *lane, struct mr_tier_part *part, uint64_t now_ns)
{
    const struct mr_redis_op *op = &part->op;
    bool done = op->outcome == MR_REDIS_DONE;
    enum mr_verdict verdict = MR_VERDICT_GOOD;
    if (is_standing(op->outcome) && mr_tier_queue_refused(lane->options.queue, now_ns) &&
        lane->options.log)
        mr_log_warn(lane->options.log, "Redis refuses blocks: %s", op->error);
    switch (part->step) {
    case MR_TIER_STEP_LOOK:
        part->unanswered = !done;
        return done &&
               mr_redis_reply_integer(op->reply) == (int64_t)(MR_FRAME_BYTES + part->frame.length);
    case MR_TIER_STEP_SET:
        return done;
    case MR_TIER_STEP_GET:
        if (done)
            verdict =
                mr_frame_read(part->header, &part->frame, part->payload, &lane->keys, part->digest);
        else if (op->outcome == MR_REDIS_WRONG_SIZE)
            verdict = MR_VERDICT_MISPLACED;
        if (verdict != MR_VERDICT_GOOD) mr_tier_queue_damaged(lane->options.queue, part, verdict);
        return done && verdict == MR_VERDICT_GOOD;
    case MR_TIER_STEP_TIDY:
        return done;
    }
    return false;
}

static void end_part(struct mr_tier_thread *lane, struct mr_tier_part *part, uint64_t now_ns)
{
    bool good = judge(lane, part, now_ns);
    mr_redis_op_end(&part->op);
    let_go(lane, part);
    if (mr_tier_queue_finish(lane->options.queue, part, good, now_ns)) run_part(lane, part, now_ns);
}

/* What nobody waits for any more: its memory is left alone from now on. */
static void release_unwanted(struct mr_tier_thread *lane, uint64_t now_ns)
{
    for (struct mr_tier_part *part = lane->parts; part; part = part->next) {
        if (!mr_tier_queue_is_unwanted(lane->options.queue, part)) continue;
        if (part->step != MR_TIER_STEP_LOOK)
            mr_redis_client_cancel(lane->client, &part->op, now_ns);
        mr_tier_queue_release(lane->options.queue, part, now_ns);
    }
}

/* Whether there was any. */
static bool take_parts(struct mr_tier_thread *lane, uint64_t now_ns)
{
    uint32_t most = lane->options.index == 0 ? LOOKS_MAX : DEPTH;
    bool any = false;
    while (lane->options.queue && lane->was_ready && lane->part_count < most && !lane->measuring) {
        struct mr_tier_part *part =
            mr_tier_queue_take(lane->options.queue, lane->options.index, now_ns);
        if (!part) break;
        run_part(lane, part, now_ns);
        any = true;
    }
    return any;
}

/* ---- calls ---- */

static void end_call(struct mr_tier_thread *lane, struct call *call)
{
    lane->call_count--;
    call->told.done(call->told.context, call->op.outcome, call->op.reply);
    mr_redis_op_end(&call->op);
    free(call);
}

static void take_calls(struct mr_tier_thread *lane, uint64_t now_ns)
{
    struct mr_mail *mail = mr_mailbox_take(lane->calls);
    while (mail) {
        struct call *call = (struct call *)mail;
        mail = mail->next;
        lane->call_count++;
        call->op.deadline_ns = now_ns + call->told.timeout_ns;
        if (lane->call_count < LOOKS_MAX && mr_redis_client_send(lane->client, &call->op)) continue;
        call->op.outcome = MR_REDIS_LOST;
        end_call(lane, call);
    }
}

static struct call *make_call(const struct mr_tier_call *told)
{
    struct call *call = calloc(1, sizeof *call);
    if (!call) return NULL;
    call->mail.bytes = sizeof *call;
    for (int i = 0; i < told->count; i++)
        call->mail.bytes += told->lengths[i];
    call->told = *told;
    if (mr_redis_op_command(&call->op, told->count, told->words, told->lengths, true)) return call;
    free(call);
    return NULL;
}

bool mr_tier_thread_call(struct mr_tier_thread *lane, const struct mr_tier_call *calls,
                         size_t count)
{
    struct mr_mail_list list = {0};
    bool good = true;
    for (size_t i = 0; i < count && good; i++) {
        struct call *call = make_call(&calls[i]);
        if (call) mr_mail_list_add(&list, &call->mail);
        good = call != NULL;
    }
    if (good && mr_mailbox_post_list(lane->calls, &list, 0) == MR_OK) return true;
    for (struct mr_mail *mail = list.first, *next; mail; mail = next) {
        next = mail->next;
        mr_redis_op_end(&((struct call *)mail)->op);
        free(mail);
    }
    return false;
}

/* ---- measuring: how fast values come, before any has come ---- */

static void send_measure(struct mr_tier_thread *lane, uint64_t now_ns)
{
    struct iovec bytes = {.iov_base = lane->measure_bytes, .iov_len = MEASURE_BYTES};
    int length = snprintf(lane->measure_text, sizeof lane->measure_text,
                          "*2\r\n$4\r\nECHO\r\n$%zu\r\n", MEASURE_BYTES);
    lane->measure =
        (struct mr_redis_op){.out = {{.iov_base = lane->measure_text, .iov_len = (size_t)length},
                                     bytes,
                                     {.iov_base = lane->measure_text + length - 2, .iov_len = 2}},
                             .out_count = 3,
                             .bulk = true,
                             .into = {bytes},
                             .slot = MR_REDIS_SLOTS,
                             .deadline_ns = now_ns + MEASURE_WAIT_NS / 30};
    lane->measure_begun_ns = now_ns;
    lane->measuring = mr_redis_client_send(lane->client, &lane->measure);
}

static void begin_measuring(struct mr_tier_thread *lane, uint64_t now_ns)
{
    if (!lane->options.queue || lane->options.index != 1 || !lane->was_ready || lane->part_count ||
        lane->measuring || now_ns < lane->measure_after_ns ||
        !mr_tier_queue_wants_measure(lane->options.queue, now_ns))
        return;
    lane->measure_after_ns = now_ns + MEASURE_WAIT_NS;
    if (!lane->measure_bytes) lane->measure_bytes = calloc(1, MEASURE_BYTES);
    if (!lane->measure_bytes) return;
    lane->measure_count = 0;
    lane->measure_best = 0;
    send_measure(lane, now_ns);
}

/* The bytes went there and came back, one after the other. */
static void end_measuring(struct mr_tier_thread *lane, uint64_t now_ns)
{
    uint64_t took_ns = now_ns - lane->measure_begun_ns + 1;
    bool done = lane->measure.outcome == MR_REDIS_DONE;
    bool late = lane->measure.outcome == MR_REDIS_TIMEOUT;
    lane->measuring = false;
    if (done || late) {
        double rate = 2e9 * (double)(late ? 1 : MEASURE_BYTES) / (double)took_ns;
        if (rate > lane->measure_best) lane->measure_best = rate;
        lane->measure_count += took_ns < MEASURE_LONG_NS ? 1 : 2;
    }
    if (done && lane->measure_count < MEASURE_COUNT) send_measure(lane, now_ns);
    if (!lane->measuring && lane->measure_best > 0)
        mr_tier_queue_measured(lane->options.queue, lane->measure_best, now_ns);
}

/* ---- the thread ---- */

static void collect(struct mr_tier_thread *lane)
{
    for (struct mr_redis_op *op; (op = mr_redis_client_take(lane->client)) != NULL;) {
        uint64_t now_ns = mr_clock_ns();
        if (op->owner)
            end_part(lane, op->owner, now_ns);
        else if (op == &lane->measure)
            end_measuring(lane, now_ns);
        else
            end_call(lane, (struct call *)(void *)((char *)op - offsetof(struct call, op)));
    }
}

static void set_ready(struct mr_tier_thread *lane, bool ready)
{
    if (lane->options.queue && ready != lane->was_ready)
        mr_tier_queue_set_ready(lane->options.queue, lane->options.index, ready, mr_clock_ns());
}

static void tell_heard(struct mr_tier_thread *lane, uint64_t received_bytes)
{
    bool values = lane->options.queue && lane->options.index > 0;
    uint64_t bytes = received_bytes - lane->stats.bytes.read.received_bytes;
    if (values && bytes > 0) mr_tier_queue_heard(lane->options.queue, bytes, mr_clock_ns());
}

static void look_around(struct mr_tier_thread *lane)
{
    struct mr_redis_client_stats stats = mr_redis_client_stats(lane->client);
    bool ready = mr_redis_client_is_ready(lane->client);
    bool failed = stats.failures && !lane->told_failure;
    tell_heard(lane, stats.bytes.read.received_bytes);
    set_ready(lane, ready);
    bool tells = lane->options.queue && lane->options.index == 0 && lane->options.log;
    if (tells && ready && !lane->was_ready) mr_log_info(lane->options.log, "Redis answers");
    if (ready && !lane->was_ready && lane->options.met)
        lane->options.met(lane->options.context, lane);
    if (tells && !ready && (lane->was_ready || failed))
        mr_log_warn(lane->options.log, "Redis does not answer: %s; everything is computed here",
                    mr_redis_client_reason(lane->client));
    lane->told_failure = lane->told_failure || failed;
    lane->was_ready = ready;
    pthread_mutex_lock(&lane->mutex);
    lane->stats = stats;
    snprintf(lane->reason, sizeof lane->reason, "%s", mr_redis_client_reason(lane->client));
    pthread_mutex_unlock(&lane->mutex);
}

static void sleep_lane(struct mr_tier_thread *lane, uint64_t until_ns)
{
    struct pollfd doors[MR_REDIS_NODES_MAX + 1];
    uint64_t now_ns = mr_clock_ns(), due_ns = mr_redis_client_deadline_ns(lane->client), rings;
    if (until_ns < due_ns) due_ns = until_ns;
    uint64_t wait_ns = due_ns > now_ns ? due_ns - now_ns : 0;
    if (wait_ns > SLEEP_NS) wait_ns = SLEEP_NS;
    struct timespec timeout = {.tv_sec = (time_t)(wait_ns / 1000000000u),
                               .tv_nsec = (long)(wait_ns % 1000000000u)};
    size_t count = mr_redis_client_pollfds(lane->client, doors, MR_REDIS_NODES_MAX);
    doors[count] = (struct pollfd){.fd = lane->wake.fd, .events = POLLIN};
    ppoll(doors, count + 1, &timeout, NULL);
    if (doors[count].revents & POLLIN) {
        ssize_t got = read(lane->wake.fd, &rings, sizeof rings);
        (void)got;
    }
}

static void turn(struct mr_tier_thread *lane)
{
    uint64_t now_ns = mr_clock_ns(), until_ns = UINT64_MAX;
    mr_redis_client_step(lane->client, now_ns);
    collect(lane);
    look_around(lane);
    release_unwanted(lane, now_ns);
    begin_measuring(lane, now_ns);
    take_calls(lane, now_ns);
    bool took = take_parts(lane, now_ns);
    struct mr_tier_queue *queue = lane->options.queue;
    if (queue && lane->options.index == 0) until_ns = mr_tier_queue_expire(queue, now_ns);
    if (queue && mr_tier_queue_has_news(queue)) lane->options.notify(lane->options.context);
    if (!took) sleep_lane(lane, until_ns);
}

static void wind_up(struct mr_tier_thread *lane)
{
    mr_mailbox_close(lane->calls);
    mr_redis_client_close(lane->client);
    collect(lane);
    set_ready(lane, false);
    lane->was_ready = false;
    take_calls(lane, mr_clock_ns());
    MR_ASSERT(lane->part_count == 0 && lane->call_count == 0);
}

static void *run(void *argument)
{
    struct mr_tier_thread *lane = argument;
    while (!atomic_load(&lane->stopping))
        turn(lane);
    wind_up(lane);
    return NULL;
}

/* ---- life ---- */

static void lane_free(struct mr_tier_thread *lane)
{
    for (uint32_t i = 0; i < DEPTH; i++) {
        free(lane->places[i].sealed);
        mr_frame_digest_destroy(lane->places[i].digest);
    }
    free(lane->measure_bytes);
    mr_frame_keys_clear(&lane->keys);
    mr_redis_client_destroy(lane->client);
    mr_mailbox_destroy(lane->calls);
    mr_wake_close(&lane->wake);
    pthread_mutex_destroy(&lane->mutex);
    free(lane);
}

static enum mr_status open_parts(struct mr_tier_thread *lane, struct mr_error *err)
{
    const struct mr_tier_thread_options *options = &lane->options;
    struct mr_mailbox_options box = {
        .count_max = CALLS_MAX, .bytes_max = CALL_BYTES_MAX, .wake = &lane->wake};
    enum mr_status status = mr_wake_open(&lane->wake, err);
    if (status == MR_OK) status = mr_mailbox_create(&lane->calls, &box, err);
    if (status == MR_OK)
        status = mr_redis_client_create(&lane->client, &options->conn, options->seed, err);
    for (size_t i = 0; i < options->secret_count && status == MR_OK; i++)
        status =
            mr_frame_keys_add(&lane->keys, options->secrets[i].id, options->secrets[i].key, err);
    return status;
}

enum mr_status mr_tier_thread_create(struct mr_tier_thread **out,
                                     const struct mr_tier_thread_options *options,
                                     struct mr_error *err)
{
    *out = NULL;
    struct mr_tier_thread *lane = calloc(1, sizeof *lane);
    if (!lane) return mr_fail(err, MR_NOMEM, "no memory for a Redis thread");
    lane->options = *options;
    lane->wake.fd = -1;
    pthread_mutex_init(&lane->mutex, NULL);
    enum mr_status status = open_parts(lane, err);
    if (status == MR_OK && options->queue)
        mr_tier_queue_attach(options->queue, options->index, &lane->wake);
    if (status == MR_OK && pthread_create(&lane->thread, NULL, run, lane) != 0)
        status = mr_fail(err, MR_NOMEM, "no thread for Redis");
    if (status != MR_OK) {
        lane_free(lane);
        return status;
    }
    const char *name = options->index ? "tier" : "tier-look";
    pthread_setname_np(lane->thread, options->queue ? name : "tier-call");
    lane->options.secrets = NULL;
    *out = lane;
    return MR_OK;
}

void mr_tier_thread_stop(struct mr_tier_thread *lane)
{
    atomic_store(&lane->stopping, true);
    mr_wake_ring(&lane->wake);
    pthread_join(lane->thread, NULL);
}

void mr_tier_thread_destroy(struct mr_tier_thread *lane)
{
    if (lane) lane_free(lane);
}

struct mr_redis_client_stats mr_tier_thread_stats(struct mr_tier_thread *lane, char *reason,
                                                  size_t reason_bytes)
{
    pthread_mutex_lock(&lane->mutex);
    struct mr_redis_client_stats stats = lane->stats;
    snprintf(reason, reason_bytes, "%s", lane->reason);
    pthread_mutex_unlock(&lane->mutex);
    return stats;
}
