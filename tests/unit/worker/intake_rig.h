/* Intake without its thread and without Kafka: the state its files share, over an engine with the
 * fake model that nobody steps. A test plays the consumer, the engine and publish. */
#ifndef MR_TESTS_WORKER_INTAKE_RIG_H
#define MR_TESTS_WORKER_INTAKE_RIG_H

#include "tests/fakes/engine_rig.h"
#include "worker/intake/intake_claims.h"
#include "worker/intake/intake_record.h"
#include "worker/intake/intake_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct intake_rig {
    struct engine_rig engine;
    struct mr_config config;
    struct mr_log *log;
    struct mr_wake wake;
    struct mr_mailbox *publish;
    struct mr_intake intake;
    struct mr_error failure;
};

static inline void intake_rig_failed(void *context, const struct mr_error *err)
{
    ((struct intake_rig *)context)->failure = *err;
}

static inline void open_intake_rig(struct intake_rig *rig)
{
    *rig = (struct intake_rig){.config = {.request_topics = {{.name = "r", .tenant = "default"}},
                                          .request_topic_count = 1,
                                          .model_name = "fake",
                                          .default_max_tokens = 16,
                                          .max_record_bytes = 4096,
                                          .attempts_max = 2,
                                          .commit_interval_ns = 1000000000u}};
    rig_init(&rig->engine);
    rig_start(&rig->engine);
    struct mr_log_options log = {.fd = -1, .format = MR_LOG_TEXT, .worker = "w"};
    struct mr_metrics_info info = {"w", "fake", "fp32", "cpu", MR_BLOCK_TOKENS, 2048, 8};
    struct mr_mailbox_options mailbox = {256, 1 << 20, &rig->wake};
    assert_int_equal(mr_log_create(&rig->log, &log, NULL), MR_OK);
    assert_int_equal(mr_wake_open(&rig->wake, NULL), MR_OK);
    assert_int_equal(mr_mailbox_create(&rig->publish, &mailbox, NULL), MR_OK);
    struct mr_intake *intake = &rig->intake;
    pthread_mutex_init(&intake->mutex, NULL);
    intake->options = (struct mr_intake_options){
        .config = &rig->config, .log = rig->log, .failed = intake_rig_failed, .context = rig};
    intake->targets.engine = rig->engine.engine;
    intake->targets.publish = rig->publish;
    intake->commit_due_ns = intake->asking_due_ns = UINT64_MAX;
    intake->room = UINT64_MAX;
    struct mr_prompt_options prompt = {.tokenizer = rig->engine.tokenizer,
                                       .prompt_tokens_max = 256};
    assert_int_equal(mr_metrics_create(&intake->targets.metrics, &info, NULL), MR_OK);
    assert_int_equal(mr_prompt_create(&intake->prompt, &prompt, NULL), MR_OK);
    assert_int_equal(mr_partitions_create(&intake->lanes, NULL), MR_OK);
    assert_int_equal(mr_ticket_table_create(&intake->table, 64, NULL), MR_OK);
    assert_int_equal(mr_cancel_memory_create(&intake->cancelled, 64, 1000000000u, NULL), MR_OK);
}

/* Partition 0 of the one topic comes, read from `committed` on. */
static inline struct mr_partition *assign_lane(struct intake_rig *rig, int64_t committed,
                                               const char *metadata)
{
    struct mr_kafka_claim claim = {.topic = "r",
                                   .committed = committed,
                                   .metadata = {metadata, strlen(metadata)},
                                   .start = committed};
    mr_intake_assigned(&rig->intake, &claim, 1);
    return mr_partitions_find(rig->intake.lanes, 0, 0);
}

/* A record with this id and value arrives. */
static inline void arrive(struct intake_rig *rig, int64_t offset, const char *value)
{
    struct mr_kafka_record record = {
        .topic = "r", .offset = offset, .value = {value, strlen(value)}};
    assert_true(mr_intake_accept(&rig->intake, &record, 0));
    mr_partitions_check(rig->intake.lanes);
    mr_ticket_table_check(rig->intake.table);
}

static inline struct mr_ticket *ticket_named(struct intake_rig *rig, const char *id)
{
    return mr_ticket_table_find(rig->intake.table, (struct mr_text){id, strlen(id)});
}

/* The one refusal that publish has got; publish has written it when this frees it. */
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

/* What the engine still has goes back first: it frees the requests. */
static inline void close_intake_rig(struct intake_rig *rig)
{
    struct mr_intake *intake = &rig->intake;
    if (intake->targets.engine) rig_end(&rig->engine);
    mr_intake_forget_engine(intake);
    mr_intake_drop_all(intake);
    assert_int_equal(intake->in_flight, 0);
    assert_int_equal(intake->suspects, 0);
    assert_int_equal(rig->failure.status, MR_OK);
    assert_null(mr_mailbox_take(rig->publish));
    mr_cancel_memory_destroy(intake->cancelled);
    mr_ticket_table_destroy(intake->table);
    mr_partitions_destroy(intake->lanes);
    mr_prompt_destroy(intake->prompt);
    mr_metrics_destroy(intake->targets.metrics);
    mr_mailbox_destroy(rig->publish);
    mr_wake_close(&rig->wake);
    mr_log_destroy(rig->log);
    pthread_mutex_destroy(&intake->mutex);
}

#endif
