#include "worker/intake/intake_record.h"

#include "codec/check.h"
#include "codec/records/cloud_event.h"
#include "codec/records/request_decode.h"
#include "worker/base/clock.h"
#include "worker/intake/intake_claims.h"
#include "worker/intake/intake_resume.h"
#include "worker/intake/intake_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define START_COMMIT_NS ((uint64_t)50000000) /* a start is known to the broker this soon */

static struct mr_text id_of(const struct mr_ticket *ticket)
{
    return (struct mr_text){ticket->id, strlen(ticket->id)};
}

/* The ticket's partition is still the one it was taken from. */
static bool counts(const struct mr_ticket *ticket)
{
    return ticket->intake.lane->epoch == ticket->epoch;
}

static void end_ticket(struct mr_intake *intake, struct mr_ticket *ticket)
{
    MR_ASSERT(intake->in_flight > 0);
    intake->in_flight--;
    mr_intake_stop_asking(intake, ticket);
    mr_trail_drop(ticket->trail);
    mr_ticket_destroy(ticket);
}

static void park(struct mr_intake *intake, struct mr_ticket *ticket)
{
    struct mr_ticket **link = &intake->parked;
    while (*link)
        link = &(*link)->intake.next;
    ticket->intake.next = NULL;
    *link = ticket;
    intake->parked_count++;
}

/* ---- refusing ---- */

/* Cannot be decoded at all, or not as a request: goes to the dead-letter topic. What a well-formed
 * request asks for in vain is only answered. */
static bool is_dead_letter(enum mr_status status)
{
    switch (status) {
    case MR_MALFORMED:
    case MR_UNSUPPORTED_ENCODING:
    case MR_RECORD_TOO_LARGE:
    case MR_INVALID_REQUEST:
    case MR_UNKNOWN_FIELD:
    case MR_POISON:
        return true;
    default:
        return false;
    }
}

static enum mr_finish finish_of(enum mr_status status)
{
    if (status == MR_DEADLINE_EXCEEDED) return MR_FINISH_DEADLINE;
    if (status == MR_CANCELLED) return MR_FINISH_CANCELLED;
    return MR_FINISH_REJECTED;
}

/* What is poison was found out with the record at hand, or Redis knew it: then it was made when
 * that was asked. */
static struct mr_refusal_mail *
make_refusal(struct mr_ticket *ticket, const struct mr_kafka_record *record, enum mr_status status)
{
    struct mr_text metadata = {0};
    struct mr_refusal_mail *mail = ticket->intake.refusal;
    ticket->intake.refusal = NULL;
    if (mail && status == MR_POISON) return mail;
    if (mail) mr_mail_free(&mail->mail);
    if (ticket->intake.request) metadata = ticket->intake.request->metadata;
    return mr_refusal_mail_create(ticket, record, metadata);
}

/* Answers without the engine. record: what to dead-letter, NULL for a plain answer. */
static void refuse(struct mr_intake *intake, struct mr_ticket *ticket,
                   const struct mr_kafka_record *record, bool write_result,
                   const struct mr_error *err)
{
    mr_intake_stop_asking(intake, ticket);
    struct mr_refusal_mail *mail = make_refusal(ticket, record, err->status);
    if (!mail) {
        struct mr_error memory;
        mr_fail(&memory, MR_NOMEM, "no memory for an answer");
        mr_intake_fail(intake, &memory);
        end_ticket(intake, ticket);
        return;
    }
    mail->finish = finish_of(err->status);
    mail->error = *err;
    mail->write_result = write_result;
    intake->stats.refused++;
    if (mail->dead_letter) intake->stats.dead_lettered++;
    mr_request_destroy(ticket->intake.request);
    ticket->intake.request = NULL;
    struct mr_log_place place = mr_intake_place(ticket);
    mr_log_write(intake->options.log, MR_LOG_INFO, &place, "refused: %s: %s",
                 mr_status_code(err->status), err->detail);
    mr_mailbox_post_control(intake->targets.publish, &mail->mail);
}

static void refuse_plain(struct mr_intake *intake, struct mr_ticket *ticket,
                         const struct mr_error *err)
{
    refuse(intake, ticket, NULL, true, err);
}

/* ---- submitting ---- */

static bool is_suspect(const struct mr_intake *intake, const struct mr_ticket *ticket)
{
    return ticket->intake.crashes > 0 &&
           ticket->intake.crashes + 1u >= intake->options.config->attempts_max;
}

/* The engine has its own copy of what it goes on behind. */
static void note_resumed(struct mr_intake *intake, struct mr_ticket *ticket)
{
    if (!ticket->intake.kept) return;
    free(ticket->intake.kept);
    ticket->intake.kept = NULL;
    mr_metrics_add(intake->targets.metrics, MR_COUNTER_RESUMED, 1);
    mr_metrics_add(intake->targets.metrics, MR_COUNTER_TOKENS_RESUMED, ticket->kept_count);
    struct mr_log_place place = mr_intake_place(ticket);
    mr_log_write(intake->options.log, MR_LOG_INFO, &place, "attempt %u goes on behind %u tokens",
                 ticket->attempt, ticket->kept_count);
}

static void submit(struct mr_intake *intake, struct mr_ticket *ticket)
{
    struct mr_error err = {0};
    const struct mr_request_topic *topic =
        &intake->options.config->request_topics[ticket->topic_index];
    struct mr_submission submission = {.request = ticket->intake.request,
                                       .ticket = (uint64_t)(uintptr_t)ticket,
                                       .tenant = topic->tenant,
                                       .tenant_index = topic->tenant_index,
                                       .arrival_ns = ticket->arrival_ns,
                                       .deadline_ns = ticket->intake.deadline_ns,
                                       .start_by_ns = ticket->intake.start_by_ns,
                                       .run_limit_ns = topic->run_limit_ns,
                                       .priority = ticket->intake.priority,
                                       .kept = ticket->intake.kept,
                                       .kept_count = ticket->kept_count,
                                       .kept_shown = ticket->kept_shown};
    /* In the table first: the engine may be through with it before _submit returns. */
    struct mr_request *request = ticket->intake.request;
    ticket->intake.request = NULL;
    ticket->intake.submitted = true;
    mr_ticket_table_add(intake->table, ticket);
    if (is_suspect(intake, ticket)) intake->suspects++;
    enum mr_status status = mr_engine_submit(intake->targets.engine, &submission, &err);
    if (status == MR_OK) {
        note_resumed(intake, ticket);
        return;
    }
    if (is_suspect(intake, ticket)) intake->suspects--;
    mr_ticket_table_remove(intake->table, ticket);
    ticket->intake.submitted = false;
    ticket->intake.request = request;
    if (mr_status_class(status) == MR_CLASS_REJECT)
        refuse_plain(intake, ticket, &err);
    else if (mr_status_class(status) == MR_CLASS_RETRY)
        park(intake, ticket);
    else
        mr_intake_fail(intake, &err), park(intake, ticket);
}

/* MR_DEADLINE_EXCEEDED when a limit on its start has passed. */
static enum mr_status check_times(const struct mr_ticket *ticket, const char *when,
                                  struct mr_error *err)
{
    uint64_t now_ns = mr_clock_ns();
    if (ticket->intake.deadline_ns > 0 && ticket->intake.deadline_ns <= now_ns)
        return mr_fail(err, MR_DEADLINE_EXCEEDED, "the deadline passed before %s", when);
    if (ticket->intake.start_by_ns > 0 && ticket->intake.start_by_ns <= now_ns)
        return mr_fail(err, MR_DEADLINE_EXCEEDED, "it waited longer than its topic allows");
    return MR_OK;
}

static enum mr_status check_crashes(const struct mr_intake *intake, const struct mr_ticket *ticket,
                                    struct mr_error *err)
{
    if (ticket->intake.crashes < intake->options.config->attempts_max) return MR_OK;
    return mr_fail(err, MR_POISON, "%u workers ended while they ran this request",
                   ticket->intake.crashes);
}

void mr_intake_place_ticket(struct mr_intake *intake, struct mr_ticket *ticket)
{
    struct mr_error err;
    struct mr_ticket *same = mr_ticket_table_find(intake->table, id_of(ticket));
    if (!counts(ticket)) {
        end_ticket(intake, ticket);
    } else if (ticket->intake.asked) {
        park(intake, ticket);
    } else if (check_crashes(intake, ticket, &err) != MR_OK) {
        refuse_plain(intake, ticket, &err);
    } else if (same && !atomic_load(&same->dropped)) {
        ticket->intake.next = same->intake.followers;
        same->intake.followers = ticket;
        intake->stats.duplicates++;
    } else if (same || (is_suspect(intake, ticket) && intake->suspects > 0)) {
        park(intake, ticket);
    } else if (check_times(ticket, "the request started", &err) != MR_OK) {
        refuse_plain(intake, ticket, &err);
    } else {
        submit(intake, ticket);
    }
}

void mr_intake_retry_parked(struct mr_intake *intake)
{
    struct mr_ticket *ticket = intake->parked;
    intake->parked = NULL;
    intake->parked_count = 0;
    intake->retry_parked = false;
    for (struct mr_ticket *next; ticket; ticket = next) {
        next = ticket->intake.next;
        ticket->intake.next = NULL;
        mr_intake_place_ticket(intake, ticket);
    }
}

/* ---- a record becomes a ticket ---- */

bool mr_intake_may_take(void *context, size_t topic_index, int32_t partition)
{
    struct mr_intake *intake = context;
    uint32_t tenant = intake->options.config->request_topics[topic_index].tenant_index;
    if ((intake->room >> tenant & 1) == 0) return false;
    const struct mr_partition *lane = mr_partitions_find(intake->lanes, topic_index, partition);
    return lane && lane->state == MR_PARTITION_OWNED && !lane->looking && !lane->leaving &&
           mr_offset_ledger_has_room(lane->ledger) &&
           lane->blocked_base != mr_offset_ledger_base(lane->ledger);
}

/* The deadline of the header: unix ms as text. 0: none. */
static int64_t header_deadline_ms(const struct mr_kafka_record *record)
{
    char text[24], *end = NULL;
    const struct mr_kafka_header *header = mr_kafka_record_header(record, "millrace-deadline");
    if (!header || !header->value || header->length == 0 || header->length >= sizeof text) return 0;
    memcpy(text, header->value, header->length);
    text[header->length] = '\0';
    long long value = strtoll(text, &end, 10);
    return *end == '\0' && value > 0 ? (int64_t)value : 0;
}

static struct mr_text header_text(const struct mr_kafka_record *record, const char *name)
{
    const struct mr_kafka_header *header = mr_kafka_record_header(record, name);
    if (!header || !header->value) return (struct mr_text){0};
    return (struct mr_text){header->value, header->length};
}

/* A record as the decoder wants it. */
struct reading {
    struct mr_request_context context;
    struct mr_reply_address address;
    struct mr_text value;
    struct mr_cloud_event event; /* structured mode */
    char fallback[MR_ID_BYTES_MAX + 1];
};

/* CloudEvents: the request is what is inside; without an id of its own it gets the event's. */
static enum mr_status unwrap(const struct mr_kafka_record *record, struct reading *reading,
                             struct mr_error *err)
{
    struct mr_request_context *context = &reading->context;
    if (!mr_cloud_event_is_structured(context->content_type)) {
        if (mr_kafka_record_header(record, "ce_specversion"))
            context->event_id = header_text(record, "ce_id");
        return MR_OK;
    }
    enum mr_status status =
        mr_cloud_event_open(record->value, context->record_bytes_max, &reading->event, err);
    reading->value = reading->event.data;
    context->event_id = (struct mr_text){reading->event.id, strlen(reading->event.id)};
    context->content_type = (struct mr_text){"application/json", 16};
    return status;
}

static enum mr_status begin_reading(const struct mr_intake *intake, const struct mr_ticket *ticket,
                                    const struct mr_kafka_record *record, struct reading *reading,
                                    struct mr_error *err)
{
    const struct mr_config *config = intake->options.config;
    *reading = (struct reading){.value = record->value};
    snprintf(reading->fallback, sizeof reading->fallback, "%.80s/%" PRId32 "/%" PRId64,
             record->topic, record->partition, record->offset);
    reading->context = (struct mr_request_context){
        .key = record->key,
        .fallback_id = {reading->fallback, strlen(reading->fallback)},
        .content_type = header_text(record, "content-type"),
        .timestamp_ms = record->timestamp_ms > 0 ? record->timestamp_ms : mr_clock_unix_ms(),
        .now_ms = mr_clock_unix_ms(),
        .default_max_tokens = config->default_max_tokens,
        .record_bytes_max = (size_t)config->max_record_bytes,
        .strict = config->strict || config->request_topics[ticket->topic_index].strict};
    return unwrap(record, reading, err);
}

static void take_address(struct mr_ticket *ticket, const struct mr_reply_address *address)
{
    memcpy(ticket->id, address->id, sizeof ticket->id);
    ticket->encoding = address->encoding;
}

static bool header_has_passed(const struct mr_kafka_record *record)
{
    int64_t header_ms = header_deadline_ms(record);
    return header_ms > 0 && header_ms <= mr_clock_unix_ms();
}

/* A record too late by its header is not decoded: only who asked is looked for. */
static enum mr_status decode(struct mr_intake *intake, struct mr_ticket *ticket,
                             const struct mr_kafka_record *record, bool *id_readable,
                             struct mr_error *err)
{
    struct reading reading;
    enum mr_status status = begin_reading(intake, ticket, record, &reading, err);
    bool late = header_has_passed(record);
    if (status != MR_OK)
        mr_request_address(reading.value, &reading.context, &reading.address, NULL);
    else if (late)
        status = mr_request_address(reading.value, &reading.context, &reading.address, err);
    else
        status = mr_request_decode(&ticket->intake.request, reading.value, &reading.context,
                                   &reading.address, err);
    take_address(ticket, &reading.address);
    *id_readable = reading.address.id_readable;
    if (status != MR_OK) return status;
    if (late)
        return mr_fail(err, MR_DEADLINE_EXCEEDED, "the deadline passed before it was consumed");
    if (ticket->intake.request->unknown_fields > 0)
        mr_metrics_add(intake->targets.metrics, MR_COUNTER_UNKNOWN_FIELDS,
                       ticket->intake.request->unknown_fields);
    return MR_OK;
}

static bool is_model(const struct mr_intake *intake, struct mr_text name)
{
    const char *ours = intake->options.config->model_name;
    return !name.bytes || name.length == 0 ||
           (strlen(ours) == name.length && memcmp(ours, name.bytes, name.length) == 0);
}

/* queue_limit_ns: of the topic. It counts from the record's timestamp to the first start. */
static void set_times(struct mr_ticket *ticket, const struct mr_kafka_record *record,
                      uint64_t queue_limit_ns)
{
    int64_t deadline_ms = ticket->intake.request ? ticket->intake.request->deadline_ms : 0;
    int64_t header_ms = header_deadline_ms(record);
    if (header_ms > 0 && (deadline_ms == 0 || header_ms < deadline_ms)) deadline_ms = header_ms;
    ticket->intake.deadline_ns = mr_clock_from_unix_ms(deadline_ms);
    ticket->arrival_ns = mr_clock_ns();
    ticket->waited_ms =
        record->timestamp_ms > 0 ? (double)(mr_clock_unix_ms() - record->timestamp_ms) : -1.0;
    if (queue_limit_ns == 0 || ticket->attempt > 1) return;
    uint64_t waited_ns = ticket->waited_ms > 0 ? (uint64_t)(ticket->waited_ms * 1e6) : 0;
    uint64_t left_ns = waited_ns < queue_limit_ns ? queue_limit_ns - waited_ns : 0;
    ticket->intake.start_by_ns = ticket->arrival_ns + left_ns;
}

/* What can be said about the request before it is tokenized, cheapest first. */
static enum mr_status examine(struct mr_intake *intake, struct mr_ticket *ticket,
                              const struct mr_kafka_record *record, struct mr_error *err)
{
    uint64_t now_ns = mr_clock_ns();
    if (check_crashes(intake, ticket, err) != MR_OK) return MR_POISON;
    if (check_times(ticket, "it was consumed", err) != MR_OK) return MR_DEADLINE_EXCEEDED;
    if (mr_cancel_memory_take(intake->cancelled, id_of(ticket), record->timestamp_ms, now_ns)) {
        intake->stats.cancelled++;
        return mr_fail(err, MR_CANCELLED, "cancelled before it was consumed");
    }
    if (!is_model(intake, ticket->intake.request->model))
        return mr_fail(err, MR_MODEL_NOT_FOUND, "this worker serves %s",
                       intake->options.config->model_name);
    return mr_prompt_encode(intake->prompt, ticket->intake.request,
                            (uint64_t)(mr_clock_unix_ms() / 1000), err);
}

static void admit(struct mr_intake *intake, struct mr_ticket *ticket,
                  const struct mr_kafka_record *record)
{
    struct mr_error err = {0};
    bool id_readable = false;
    const struct mr_request_topic *topic =
        &intake->options.config->request_topics[ticket->topic_index];
    enum mr_status status = decode(intake, ticket, record, &id_readable, &err);
    set_times(ticket, record, topic->queue_limit_ns);
    if (status != MR_OK) {
        bool dead = is_dead_letter(status);
        refuse(intake, ticket, dead ? record : NULL, id_readable || !dead, &err);
        return;
    }
    ticket->intake.priority = ticket->intake.request->priority + topic->priority;
    status = examine(intake, ticket, record, &err);
    if (status == MR_OK) {
        mr_intake_ask(intake, ticket, record);
        mr_intake_place_ticket(intake, ticket);
    } else if (mr_status_class(status) == MR_CLASS_FATAL)
        mr_intake_fail(intake, &err), end_ticket(intake, ticket);
    else
        refuse(intake, ticket, status == MR_POISON ? record : NULL, true, &err);
}

static struct mr_ticket *make_ticket(struct mr_intake *intake, struct mr_partition *lane,
                                     const struct mr_kafka_record *record,
                                     struct mr_ledger_history history)
{
    struct mr_error err = {0};
    struct mr_ticket *ticket = NULL;
    const struct mr_config *config = intake->options.config;
    if (mr_ticket_create(&ticket, record, &config->reply_topics, &err) != MR_OK) {
        mr_intake_fail(intake, &err);
        return NULL;
    }
    ticket->intake.lane = lane;
    ticket->epoch = lane->epoch;
    ticket->gate = &lane->gate;
    ticket->topic_index = lane->topic_index;
    ticket->topic = config->request_topics[lane->topic_index].name;
    ticket->attempt = history.attempts + 1u;
    ticket->generation = lane->generation;
    ticket->intake.crashes = history.crashes;
    intake->in_flight++;
    return ticket;
}

bool mr_intake_accept(struct mr_intake *intake, const struct mr_kafka_record *record,
                      size_t topic_index)
{
    struct mr_ledger_history history;
    struct mr_partition *lane = mr_partitions_find(intake->lanes, topic_index, record->partition);
    MR_ASSERT(lane);
    enum mr_ledger_verdict verdict =
        mr_offset_ledger_receive(lane->ledger, record->offset, &history);
    if (verdict == MR_LEDGER_BACKWARD) {
        mr_log_warn(intake->options.log, "%s/%d: the log was replaced, starting over at %lld",
                    record->topic, record->partition, (long long)record->offset);
        mr_intake_forget_lane(intake, lane);
        mr_partition_restart(lane, record->offset);
        verdict = mr_offset_ledger_receive(lane->ledger, record->offset, &history);
    }
    if (verdict == MR_LEDGER_FULL) {
        lane->blocked_base = mr_offset_ledger_base(lane->ledger);
        mr_kafka_in_put_back(intake->in);
        return false;
    }
    if (verdict == MR_LEDGER_FINISHED) intake->stats.finished_before++;
    if (verdict != MR_LEDGER_NEW) return true;
    intake->stats.records++;
    mr_metrics_add(intake->targets.metrics, MR_COUNTER_RECORDS_CONSUMED, 1);
    mr_metrics_add(intake->targets.metrics, MR_COUNTER_RECORD_BYTES, record->value.length);
    if (history.attempts > 0) {
        intake->stats.redelivered++;
        mr_metrics_add(intake->targets.metrics, MR_COUNTER_REDELIVERIES, 1);
    }
    struct mr_ticket *ticket = make_ticket(intake, lane, record, history);
    if (ticket) admit(intake, ticket, record);
    return true;
}

/* ---- cancels ---- */

static struct mr_ticket *take_parked(struct mr_intake *intake, struct mr_text id)
{
    for (struct mr_ticket **link = &intake->parked; *link; link = &(*link)->intake.next) {
        struct mr_ticket *ticket = *link;
        if (strlen(ticket->id) != id.length || memcmp(ticket->id, id.bytes, id.length) != 0)
            continue;
        *link = ticket->intake.next;
        ticket->intake.next = NULL;
        intake->parked_count--;
        return ticket;
    }
    return NULL;
}

void mr_intake_cancel(struct mr_intake *intake, const struct mr_kafka_record *record)
{
    if (!record->value.bytes || !record->key.bytes) return; /* a tombstone cancels nothing */
    mr_metrics_add(intake->targets.metrics, MR_COUNTER_CANCELS, 1);
    struct mr_ticket *ticket = mr_ticket_table_find(intake->table, record->key);
    if (ticket && !atomic_load(&ticket->dropped)) {
        intake->stats.cancelled++;
        pthread_mutex_lock(&intake->mutex);
        if (intake->targets.engine) mr_engine_cancel(intake->targets.engine, record->key);
        pthread_mutex_unlock(&intake->mutex);
        return;
    }
    if (atomic_load(&intake->draining)) return; /* publish may have ended */
    ticket = take_parked(intake, record->key);
    if (!ticket) {
        mr_cancel_memory_add(intake->cancelled, record->key, record->timestamp_ms, mr_clock_ns());
        return;
    }
    struct mr_error err;
    mr_fail(&err, MR_CANCELLED, "cancelled before it started");
    intake->stats.cancelled++;
    refuse_plain(intake, ticket, &err);
}

/* ---- tickets come back ---- */

void mr_intake_started(struct mr_intake *intake, struct mr_ticket *ticket)
{
    ticket->intake.running = true;
    if (!counts(ticket)) return;
    mr_offset_ledger_start(ticket->intake.lane->ledger, ticket->offset);
    mr_intake_commit_by(intake, intake->committed_ns + START_COMMIT_NS);
}

static void leave_table(struct mr_intake *intake, struct mr_ticket *ticket)
{
    if (!ticket->intake.submitted) return;
    mr_ticket_table_remove(intake->table, ticket);
    if (is_suspect(intake, ticket)) intake->suspects--;
}

static void finish(struct mr_intake *intake, struct mr_ticket *ticket)
{
    if (counts(ticket)) mr_offset_ledger_finish(ticket->intake.lane->ledger, ticket->offset);
    if (ticket->trail) mr_trail_delete(ticket->trail);
    end_ticket(intake, ticket);
}

void mr_intake_done(struct mr_intake *intake, struct mr_ticket *ticket)
{
    bool dropped = atomic_load(&ticket->dropped);
    struct mr_ticket *follower = ticket->intake.followers;
    leave_table(intake, ticket);
    for (struct mr_ticket *next; follower; follower = next) {
        next = follower->intake.next;
        follower->intake.next = NULL;
        if (dropped)
            park(intake, follower); /* the first of them is the request now */
        else
            finish(intake, follower);
    }
    if (dropped)
        end_ticket(intake, ticket);
    else
        finish(intake, ticket);
    intake->retry_parked = intake->parked != NULL;
    mr_intake_commit_by(intake, intake->committed_ns + intake->options.config->commit_interval_ns);
}

void mr_intake_returned(struct mr_intake *intake, struct mr_ticket *ticket)
{
    struct mr_ticket *follower = ticket->intake.followers;
    leave_table(intake, ticket);
    for (struct mr_ticket *next; follower; follower = next) {
        next = follower->intake.next;
        end_ticket(intake, follower);
    }
    end_ticket(intake, ticket);
}

static void drop_ticket(void *context, struct mr_ticket *ticket)
{
    mr_intake_returned(context, ticket);
}

void mr_intake_drop_all(struct mr_intake *intake)
{
    mr_ticket_table_each(intake->table, drop_ticket, intake);
    for (struct mr_ticket *ticket = intake->parked, *next; ticket; ticket = next) {
        next = ticket->intake.next;
        end_ticket(intake, ticket);
    }
    intake->parked = NULL;
    intake->parked_count = 0;
}
