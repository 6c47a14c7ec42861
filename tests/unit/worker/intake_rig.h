/* Intake without its thread: the test calls the step, in virtual time, over a Kafka in memory. The
 * engine has the fake model and is never stepped. The test acts as the consumer group, the engine
 * and publish. */
#ifndef MR_TESTS_WORKER_INTAKE_RIG_H
#define MR_TESTS_WORKER_INTAKE_RIG_H

#include "tests/fakes/engine_rig.h"
#include "tests/fakes/memory_kafka.h"
#include "worker/intake/intake_state.h"
#include "worker/ticket/messages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define RIG_START_NS ((uint64_t)1000000000000)
#define RIG_START_MS ((int64_t)1763740000000)

struct intake_rig {
    struct engine_rig engine;
    struct memory_kafka kafka;
    struct mr_kafka_options kafka_options;
    struct mr_config config;
    struct mr_log *log;
    struct mr_wake wake;
    struct mr_mailbox *publish;
    struct mr_metrics *metrics;
    struct mr_intake *intake;
    struct mr_time now;
    struct mr_error failure;
};

static inline void intake_rig_failed(void *context, const struct mr_error *err)
{
    ((struct intake_rig *)context)->failure = *err;
}

/* Before intake is opened. The tenants share the places of the engine's queue. */
static inline void create_intake_rig_for(struct intake_rig *rig, uint32_t tenant_count)
{
    *rig = (struct intake_rig){.config = {.request_topics = {{.name = "r", .tenant = "default"}},
                                          .request_topic_count = 1,
                                          .tenant_count = tenant_count,
                                          .group = "g",
                                          .model_name = "fake",
                                          .default_max_tokens = 16,
                                          .max_record_bytes = 4096,
                                          .queue_requests = 64,
                                          .attempts_max = 2,
                                          .commit_interval_ns = 1000000000u},
                               .now = {RIG_START_NS, RIG_START_MS}};
    memory_kafka_init(&rig->kafka);
    rig_init(&rig->engine);
    rig->engine.options.tenant_count = tenant_count;
    rig_start(&rig->engine);
    struct mr_log_options log = {.fd = -1, .format = MR_LOG_TEXT, .worker = "w"};
    /* tests with a second topic add it to the configuration later */
    static const struct mr_request_topic topics[] = {{.name = "r", .tenant = "default"},
                                                     {.name = "s", .tenant = "other"}};
    struct mr_metrics_info info = {"w",  "fake", "fp32", "cpu", MR_BLOCK_TOKENS,
                                   2048, 8,      topics, 2,     "2.0.2"};
    struct mr_mailbox_options mailbox = {256, 1 << 20, &rig->wake};
    assert_int_equal(mr_log_create(&rig->log, &log, NULL), MR_OK);
    assert_int_equal(mr_wake_open(&rig->wake, NULL), MR_OK);
    assert_int_equal(mr_mailbox_create(&rig->publish, &mailbox, NULL), MR_OK);
    assert_int_equal(mr_metrics_create(&rig->metrics, &info, NULL), MR_OK);
    struct mr_intake_options options = {.config = &rig->config,
                                        .kafka = &rig->kafka_options,
                                        .open_consumer = memory_kafka_open_consumer,
                                        .open_reader = memory_kafka_open_reader,
                                        .open_context = &rig->kafka,
                                        .log = rig->log,
                                        .failed = intake_rig_failed,
                                        .context = rig};
    assert_int_equal(mr_intake_create(&rig->intake, &options, NULL), MR_OK);
}

static inline void create_intake_rig(struct intake_rig *rig)
{
    create_intake_rig_for(rig, 1);
}

static inline void open_intake_with(struct intake_rig *rig, struct mr_resume *resume,
                                    struct mr_transactions *transactions)
{
    struct mr_intake_targets targets = {
        .engine = rig_port(&rig->engine),
        .prompt = {.tokenizer = rig->engine.tokenizer, .prompt_tokens_max = 256},
        .publish = rig->publish,
        .metrics = rig->metrics,
        .resume = resume,
        .transactions = transactions};
    assert_int_equal(mr_intake_open(rig->intake, &targets, NULL), MR_OK);
    rig->intake->admission.room = UINT64_MAX;
}

static inline void open_intake_rig(struct intake_rig *rig)
{
    create_intake_rig(rig);
    open_intake_with(rig, NULL, NULL);
}

/* Partition 0 of the one topic is assigned, with this commit. */
static inline struct mr_partition *assign_partition(struct intake_rig *rig, int64_t committed,
                                                    const char *metadata)
{
    struct mr_kafka_claim claim = {.topic = "r",
                                   .committed = committed,
                                   .metadata = {metadata, strlen(metadata)},
                                   .start = committed};
    mr_ownership_assign(&rig->intake->ownership, &claim, 1, &rig->now);
    return mr_partitions_find(rig->intake->partitions, 0, 0);
}

/* The partition is lost: intake drops its requests. */
static inline void forget_partition(struct intake_rig *rig, struct mr_partition *partition)
{
    const struct mr_request_port *requests = &rig->intake->ownership.requests;
    requests->forget(requests->self, partition);
}

/* A record with this value arrives. */
static inline void arrive(struct intake_rig *rig, int64_t offset, const char *value)
{
    struct mr_kafka_record record = {
        .topic = "r", .offset = offset, .value = {value, strlen(value)}};
    assert_true(mr_admission_accept(&rig->intake->admission, &record, 0, &rig->now));
    mr_partitions_check(rig->intake->partitions);
    mr_ticket_table_check(rig->intake->flight.submitted);
}

/* Topic 0 belongs to the tenant "default", topic 1 to the tenant "other"; partition 0 of both is
 * assigned. */
static inline void open_two_tenants(struct intake_rig *rig)
{
    create_intake_rig_for(rig, 2);
    rig->config.request_topics[1] =
        (struct mr_request_topic){.name = "s", .tenant = "other", .tenant_index = 1};
    rig->config.request_topic_count = rig->config.tenant_count = 2;
    open_intake_with(rig, NULL, NULL);
    struct mr_kafka_claim claims[] = {{.topic = "r"}, {.topic = "s", .topic_index = 1}};
    mr_ownership_assign(&rig->intake->ownership, claims, 2, &rig->now);
}

/* A record of this topic with at most one header. */
static inline void arrive_in(struct intake_rig *rig, size_t topic_index, int64_t offset,
                             const char *value, const struct mr_kafka_header *header)
{
    struct mr_kafka_record record = {.topic = rig->config.request_topics[topic_index].name,
                                     .offset = offset,
                                     .value = {value, strlen(value)},
                                     .headers = header,
                                     .header_count = header != NULL};
    assert_true(mr_admission_accept(&rig->intake->admission, &record, topic_index, &rig->now));
    mr_ticket_table_check(rig->intake->flight.submitted);
}

static inline struct mr_ticket *ticket_of(struct intake_rig *rig, uint32_t tenant_index,
                                          const char *id)
{
    return mr_ticket_table_find(rig->intake->flight.submitted, tenant_index,
                                (struct mr_text){id, strlen(id)});
}

static inline struct mr_ticket *ticket_named(struct intake_rig *rig, const char *id)
{
    return mr_ticket_table_find(rig->intake->flight.submitted, 0, (struct mr_text){id, strlen(id)});
}

/* The one refusal in publish's mailbox. Freeing it stands for publish having written it. */
static inline enum mr_status take_refusal(struct intake_rig *rig, struct mr_ticket **ticket,
                                          bool *dead_letter)
{
    struct mr_mail *mail = mr_mailbox_take(rig->publish);
    assert_non_null(mail);
    assert_null(mail->next);
    assert_int_equal(mail->kind, MR_MAIL_REFUSAL);
    struct mr_refusal_mail *refusal = (struct mr_refusal_mail *)mail;
    enum mr_status status = refusal->error.status;
    *ticket = refusal->ticket;
    if (dead_letter) *dead_letter = refusal->dead_letter;
    mr_mail_free(mail);
    return status;
}

/* The engine requests permission to start the ticket's request. */
static inline void begin(struct intake_rig *rig, struct mr_ticket *ticket)
{
    mr_starts_add(&rig->intake->starts, ticket);
    mr_starts_step(&rig->intake->starts, rig->now.ns);
    assert_true(ticket->intake.running);
}

/* One step; time does not pass. */
static inline uint64_t step_intake(struct intake_rig *rig)
{
    uint64_t next_ns = mr_intake_step(rig->intake, rig->now);
    mr_partitions_check(rig->intake->partitions);
    mr_ticket_table_check(rig->intake->flight.submitted);
    return next_ns;
}

static inline void pass_ms(struct intake_rig *rig, uint64_t ms)
{
    rig->now.ns += ms * 1000000u;
    rig->now.unix_ms += (int64_t)ms;
}

/* The ticket, with the end of a request that has run, if publish has not set one. */
static inline struct mr_ticket *answered(struct mr_ticket *ticket)
{
    if (ticket->end.finish == MR_FINISH_NONE) ticket->end.finish = MR_FINISH_EOS;
    return ticket;
}

/* As publish and the engine do, through the mailbox. */
static inline void post(struct intake_rig *rig, struct mr_mail *mail, enum mr_mail_kind kind)
{
    mail->kind = kind;
    if (kind == MR_MAIL_DONE) answered(MR_TICKET_OF(mail, done));
    mr_mailbox_post_control(mr_intake_mailbox(rig->intake), mail);
}

/* The engine frees its remaining requests. */
static inline void close_intake_rig(struct intake_rig *rig)
{
    struct mr_intake *intake = rig->intake;
    if (intake->admission.engine.port.self) rig_end(&rig->engine);
    mr_intake_forget_engine(intake);
    mr_admission_drop_all(&intake->admission);
    assert_int_equal(intake->flight.count, 0);
    assert_int_equal(intake->flight.suspects, 0);
    assert_int_equal(rig->failure.status, MR_OK);
    assert_null(mr_mailbox_take(rig->publish));
    assert_true(mr_intake_destroy(intake, 10000));
    mr_metrics_destroy(rig->metrics);
    mr_mailbox_destroy(rig->publish);
    mr_wake_close(&rig->wake);
    mr_log_destroy(rig->log);
}

#endif
