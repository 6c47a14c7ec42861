/* Publish without a thread, over a producer in memory and under virtual time; the test takes the
 * place of the engine and of intake. */
#ifndef MR_TESTS_WORKER_STEPPING_H
#define MR_TESTS_WORKER_STEPPING_H

#include "tests/unit/worker/fake_producer.h"
#include "tests/unit/worker/output_options.h"
#include "tests/unit/worker/result_mail.h"
#include "worker/publish/publish.h"
#include "worker/ticket/messages.h"
#include "worker/ticket/write_gate.h"

#include <stdatomic.h>
#include <stdio.h>

#define MS ((uint64_t)1000000)

struct stepping {
    struct fake_producer producer;
    struct mr_time now;
    struct mr_wake wake;
    struct mr_mailbox *intake;
    struct mr_log *log;
    struct mr_metrics *metrics;
    struct mr_publish *publish;
    atomic_int failures;
    atomic_int_least64_t oldest_ms;
};

static inline void count_failure(void *context, const struct mr_error *err)
{
    (void)err;
    atomic_fetch_add(&((struct stepping *)context)->failures, 1);
}

static inline void open_stepping(struct stepping *rig, struct mr_resume *resume)
{
    struct mr_error err = {0};
    struct mr_log_options log = {.fd = 2, .format = MR_LOG_TEXT, .worker = "w"};
    struct mr_metrics_info info = {
        "w", "m",    "fp32", "cpu",
        16,  64,     1,      &(struct mr_request_topic){.name = "r", .tenant = "default"},
        1,   "2.0.2"};
    struct mr_mailbox_options mailbox = {16, 1 << 20, &rig->wake};
    *rig = (struct stepping){.now = {.ns = 1000 * MS, .unix_ms = 5000}};
    assert_int_equal(mr_wake_open(&rig->wake, NULL), MR_OK);
    assert_int_equal(mr_mailbox_create(&rig->intake, &mailbox, NULL), MR_OK);
    assert_int_equal(mr_log_create(&rig->log, &log, NULL), MR_OK);
    assert_int_equal(mr_metrics_create(&rig->metrics, &info, NULL), MR_OK);
    struct mr_publish_options options = {.producer = fake_producer_opener(&rig->producer),
                                         .output = test_output,
                                         .intake = rig->intake,
                                         .oldest_ms = &rig->oldest_ms,
                                         .resume = resume,
                                         .log = rig->log,
                                         .metrics = rig->metrics,
                                         .failed = count_failure,
                                         .context = rig};
    if (mr_publish_create(&rig->publish, &options, &err) != MR_OK) fail_msg("%s", err.detail);
}

/* Returns the result of mr_publish_destroy. */
static inline bool close_stepping(struct stepping *rig)
{
    bool flushed = mr_publish_destroy(rig->publish, 0);
    assert_true(rig->producer.closed);
    mr_metrics_destroy(rig->metrics);
    mr_log_destroy(rig->log);
    mr_mailbox_destroy(rig->intake);
    mr_wake_close(&rig->wake);
    return flushed;
}

static inline void step_to(struct stepping *rig, uint64_t ns)
{
    rig->now.unix_ms += (int64_t)((ns - rig->now.ns) / MS);
    rig->now.ns = ns;
}

/* One step of publish; returns the nanoseconds until the next one. */
static inline uint64_t step_publish(struct stepping *rig)
{
    uint64_t next_ns = mr_publish_step(rig->publish, rig->now);
    if (next_ns == UINT64_MAX) return UINT64_MAX;
    return next_ns > rig->now.ns ? next_ns - rig->now.ns : 0;
}

static inline void make_ticket(struct mr_ticket *ticket, const char *id)
{
    *ticket = (struct mr_ticket){.topic = "r",
                                 .attempt = 1,
                                 .encoding = MR_ENCODING_JSON,
                                 .waited_ms = -1,
                                 .generation = -1,
                                 .reply_partition = -1,
                                 .may_start = true};
    snprintf(ticket->id, sizeof ticket->id, "%s", id);
}

/* A ticket of a partition whose gate is open or held. */
static inline void make_gated_ticket(struct mr_ticket *ticket, const char *id,
                                     struct mr_write_gate *gate, bool open)
{
    make_ticket(ticket, id);
    *gate = (struct mr_write_gate){0};
    ticket->gate = gate;
    ticket->epoch = 1;
    mr_write_gate_set(gate, 1, open);
}

static inline void post_mail(struct stepping *rig, struct mr_mail *mail)
{
    mr_mailbox_post_control(mr_publish_mailbox(rig->publish), mail);
}

static inline void post_token(struct stepping *rig, struct mr_ticket *ticket, uint32_t index)
{
    const struct mr_token_record record = {.id = {ticket->id, strlen(ticket->id)},
                                           .attempt = 1,
                                           .index = index,
                                           .resumed_at = -1,
                                           .token_ids = &index,
                                           .token_count = 1,
                                           .text = {"x", 1}};
    post_mail(rig, &mr_tokens_mail_create(ticket, &record, rig->now.ns)->mail);
}

static inline void post_result(struct stepping *rig, struct mr_ticket *ticket)
{
    post_mail(rig, result_mail(ticket, rig->now.ns));
}

/* Takes intake's mail and expects that `count` tickets are done. */
static inline void expect_done(struct stepping *rig, uint32_t count)
{
    uint32_t done = 0;
    for (struct mr_mail *mail = mr_mailbox_take(rig->intake); mail; mail = mail->next)
        done += mail->kind == MR_MAIL_DONE;
    assert_int_equal(done, count);
}

#endif
