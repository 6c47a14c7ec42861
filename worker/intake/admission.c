#include "worker/intake/admission.h"

#include "codec/check.h"
#include "codec/records/request_tools.h"
#include "worker/intake/adapter_choice.h"
#include "worker/intake/decode.h"
#include "worker/intake/identity.h"
#include "worker/ticket/messages.h"
#include "worker/ticket/ticket_trace.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* longest reply topic that a warning quotes */
#define REPLY_TOPIC_QUOTED_MAX ((size_t)100)

static void end_ticket(struct mr_admission *admission, struct mr_ticket *ticket)
{
    MR_ASSERT(ticket->intake.partition->tickets > 0);
    ticket->intake.partition->tickets--;
    mr_flight_end(admission->flight, ticket);
    mr_quota_charge(&admission->quota, ticket->tenant_index, ticket->intake.quota_tokens,
                    ticket->end.tokens);
    mr_lookups_stop(admission->lookups, ticket);
    mr_starts_stop(admission->starts, ticket);
    mr_trail_drop(ticket->trail);
    mr_adapter_choice_drop(admission->adapters, ticket, admission->now_ns);
    mr_ticket_trace_end(ticket, admission->tracer, admission->now_ns);
    mr_ticket_destroy(ticket);
}

/* ---- refusing ---- */

static enum mr_finish finish_of(enum mr_status status)
{
    if (status == MR_DEADLINE_EXCEEDED) return MR_FINISH_DEADLINE;
    if (status == MR_CANCELLED) return MR_FINISH_CANCELLED;
    return MR_FINISH_REJECTED;
}

/* Returns the message with which publish answers the record with an error. If a Redis lookup was
 * started, such a message exists already and holds the record (worker/intake/lookups.c). */
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

static void post_refusal(struct mr_admission *admission, struct mr_ticket *ticket)
{
    struct mr_refusal_mail *mail = ticket->intake.refusal;
    ticket->intake.refusal = NULL;
    mr_mailbox_post_control(admission->publish, &mail->mail);
}

/* Answers a record with an error. record: the consumed record, for the dead-letter topic; NULL: no
 * dead letter. */
static void refuse(struct mr_admission *admission, struct mr_ticket *ticket,
                   const struct mr_kafka_record *record, bool write_result,
                   const struct mr_error *err)
{
    mr_lookups_stop(admission->lookups, ticket);
    struct mr_refusal_mail *mail = make_refusal(ticket, record, err->status);
    if (!mail) {
        struct mr_error memory;
        mr_fail(&memory, MR_NOMEM, "no memory for an answer");
        mr_fault_raise(admission->fault, &memory);
        end_ticket(admission, ticket);
        return;
    }
    mail->finish = finish_of(err->status);
    mail->error = *err;
    mail->write_result = write_result;
    admission->stats.refused++;
    if (mail->dead_letter) admission->stats.dead_lettered++;
    mr_request_destroy(ticket->intake.request);
    ticket->intake.request = NULL;
    struct mr_log_place place = mr_ticket_log_place(ticket);
    mr_log_write(admission->log, MR_LOG_INFO, &place, "refused: %s: %s",
                 mr_status_code(err->status), err->detail);
    ticket->intake.refusal = mail;
    if (mr_flight_refuse(admission->flight, ticket)) post_refusal(admission, ticket);
}

/* Posts the held refusals whose id is no longer used by another request. like: only those of its
 * tenant and id; NULL: all. */
static void post_held(struct mr_admission *admission, const struct mr_ticket *like)
{
    struct mr_ticket *ticket;
    if (admission->draining) return; /* publish may have ended; the record is delivered again */
    while ((ticket = mr_flight_unhold(admission->flight, like)))
        post_refusal(admission, ticket);
}

void mr_admission_refuse(struct mr_admission *admission, struct mr_ticket *ticket,
                         const struct mr_error *err)
{
    refuse(admission, ticket, NULL, true, err);
}

/* ---- submit ---- */

/* Frees intake's copy of the tokens of earlier attempts, which the engine has copied, and reports
 * them. */
static void release_kept_tokens(struct mr_admission *admission, struct mr_ticket *ticket)
{
    if (!ticket->intake.kept) return;
    free(ticket->intake.kept);
    ticket->intake.kept = NULL;
    mr_metrics_add(admission->metrics, MR_COUNTER_RESUMED, 1);
    mr_metrics_add(admission->metrics, MR_COUNTER_TOKENS_RESUMED, ticket->kept_count);
    struct mr_log_place place = mr_ticket_log_place(ticket);
    mr_log_event(admission->log, MR_LOG_INFO, &place, "attempt resumes",
                 MR_LOG_NUMBER("attempt", ticket->attempt),
                 MR_LOG_NUMBER("kept_tokens", ticket->kept_count));
}

static struct mr_submission submission_of(const struct mr_admission *admission,
                                          const struct mr_ticket *ticket)
{
    const struct mr_request_topic *topic = &admission->config->request_topics[ticket->topic_index];
    return (struct mr_submission){.request = ticket->intake.request,
                                  .ticket = (uint64_t)(uintptr_t)ticket,
                                  .tenant = topic->tenant,
                                  .tenant_index = ticket->tenant_index,
                                  .adapter = ticket->adapter,
                                  .arrival_ns = ticket->arrival_ns,
                                  .deadline_ns = ticket->intake.deadline_ns,
                                  .start_by_ns = ticket->intake.start_by_ns,
                                  .run_limit_ns = topic->run_limit_ns,
                                  .priority = ticket->intake.priority,
                                  .kept = ticket->intake.kept,
                                  .kept_count = ticket->kept_count,
                                  .kept_shown = ticket->kept_shown};
}

static void submit(struct mr_admission *admission, struct mr_ticket *ticket)
{
    struct mr_error err = {0};
    struct mr_submission submission = submission_of(admission, ticket);
    struct mr_request *request = ticket->intake.request;
    ticket->intake.request = NULL;
    /* The engine may end the request before submit returns, so the ticket must be in the table. */
    mr_flight_submit(admission->flight, ticket);
    mr_ticket_trace_submit(ticket);
    enum mr_status status = mr_engine_link_submit(&admission->engine, &submission, &err);
    if (status == MR_OK) {
        release_kept_tokens(admission, ticket);
        return;
    }
    mr_flight_withdraw(admission->flight, ticket);
    ticket->intake.request = request;
    if (mr_status_class(status) == MR_CLASS_REJECT) {
        mr_admission_refuse(admission, ticket, &err);
        return;
    }
    if (mr_status_class(status) != MR_CLASS_RETRY) mr_fault_raise(admission->fault, &err);
    mr_flight_park(admission->flight, ticket);
}

/* ---- claims ---- */

/* MR_DEADLINE_EXCEEDED: the request's deadline or the topic's queue limit has passed. */
static enum mr_status check_times(const struct mr_ticket *ticket, uint64_t now_ns, const char *when,
                                  struct mr_error *err)
{
    if (ticket->intake.deadline_ns > 0 && ticket->intake.deadline_ns <= now_ns)
        return mr_fail(err, MR_DEADLINE_EXCEEDED, "the deadline passed before %s", when);
    if (ticket->intake.start_by_ns > 0 && ticket->intake.start_by_ns <= now_ns)
        return mr_fail(err, MR_DEADLINE_EXCEEDED,
                       "the request waited longer than its topic allows");
    return MR_OK;
}

static enum mr_status check_crashes(const struct mr_admission *admission,
                                    const struct mr_ticket *ticket, struct mr_error *err)
{
    if (!mr_flight_is_poison(admission->flight, ticket)) return MR_OK;
    return mr_fail(err, MR_POISON, "%u workers crashed while they ran this request",
                   ticket->intake.start.crashes);
}

/* MR_DUPLICATE_ID: another request of the tenant uses the ticket's id, or with --duplicate-id run
 * too many requests wait for it. */
static enum mr_status check_identity(const struct mr_admission *admission, struct mr_ticket *ticket,
                                     uint64_t now_ns, struct mr_error *err)
{
    if (admission->config->duplicate_id == MR_DUPLICATE_ID_RUN) {
        if (mr_flight_may_wait(admission->flight, ticket)) return MR_OK;
        return mr_fail(err, MR_DUPLICATE_ID, "%u requests with this id wait already",
                       MR_FLIGHT_SAME_ID_MAX);
    }
    switch (mr_flight_claim(admission->flight, ticket, now_ns)) {
    case MR_CLAIM_IN_FLIGHT:
        return mr_fail(err, MR_DUPLICATE_ID, "another request with this id is in flight");
    case MR_CLAIM_ENDED:
        return mr_fail(err, MR_DUPLICATE_ID, "another request with this id ended recently");
    default:
        return MR_OK;
    }
}

/* Makes all checks that do not need Redis, cheapest check first, and encodes the prompt. */
static enum mr_status examine(struct mr_admission *admission, struct mr_ticket *ticket,
                              const struct mr_kafka_record *record, const struct mr_time *now,
                              struct mr_error *err)
{
    if (check_identity(admission, ticket, now->ns, err) != MR_OK) return MR_DUPLICATE_ID;
    if (check_crashes(admission, ticket, err) != MR_OK) return MR_POISON;
    if (check_times(ticket, now->ns, "the request was consumed", err) != MR_OK)
        return MR_DEADLINE_EXCEEDED;
    if (mr_cancel_memory_take(admission->cancelled, ticket->tenant_index, mr_ticket_id(ticket),
                              record->timestamp_ms, now->ns)) {
        admission->stats.cancelled++;
        return mr_fail(err, MR_CANCELLED, "cancelled before it was consumed");
    }
    enum mr_status status =
        mr_adapter_choice_make(admission->config, admission->adapters, ticket, err);
    if (status != MR_OK) return status;
    status = mr_prompt_encode(admission->prompt, ticket->intake.request,
                              (uint64_t)(now->unix_ms / 1000), err);
    if (status != MR_OK) return status;
    return mr_request_tool_types(ticket->intake.request, &ticket->tool_types, err);
}

/* The ticket's record repeats the request of `same`, which is in flight: one result ends both. */
static void follow(struct mr_admission *admission, struct mr_ticket *ticket, struct mr_ticket *same)
{
    mr_flight_follow(admission->flight, ticket, same);
    admission->stats.duplicates++;
    ticket->end = (struct mr_request_end){.duplicate = true};
    struct mr_log_place place = mr_ticket_log_place(ticket);
    mr_log_write(admission->log, MR_LOG_INFO, &place,
                 "answered by the result of the same request at %s/%d/%lld", same->topic,
                 same->partition, (long long)same->offset);
}

/* Ends, parks, refuses or submits the request, or makes it follow the same request in flight. */
static void place(struct mr_admission *admission, struct mr_ticket *ticket, uint64_t now_ns)
{
    struct mr_error err;
    struct mr_flight *flight = admission->flight;
    struct mr_ticket *same =
        mr_ticket_table_find(flight->submitted, ticket->tenant_index, mr_ticket_id(ticket));
    bool is_same = same && !atomic_load(&same->dropped) &&
                   mr_identity_equal(&same->identity, &ticket->identity);
    if (!mr_partition_is_current(ticket)) {
        end_ticket(admission, ticket);
    } else if (ticket->intake.lookup) {
        mr_flight_park(flight, ticket);
    } else if (check_crashes(admission, ticket, &err) != MR_OK) {
        mr_admission_refuse(admission, ticket, &err);
    } else if (is_same) {
        follow(admission, ticket, same);
    } else if (check_times(ticket, now_ns, "the request started", &err) != MR_OK) {
        mr_admission_refuse(admission, ticket, &err);
    } else if (mr_adapter_choice_pin(admission->adapters, ticket, now_ns, &err) ==
               MR_MODEL_NOT_FOUND) {
        mr_admission_refuse(admission, ticket, &err);
    } else if (same || ticket->intake.partition->revoking || mr_adapter_choice_waits(ticket) ||
               (mr_flight_is_suspect(flight, ticket) && flight->suspects > 0)) {
        mr_flight_park(flight, ticket);
    } else {
        submit(admission, ticket);
    }
}

void mr_admission_retry_parked(struct mr_admission *admission, const struct mr_time *now)
{
    struct mr_ticket *ticket = mr_flight_unpark_all(admission->flight);
    for (struct mr_ticket *next; ticket; ticket = next) {
        next = ticket->intake.next;
        ticket->intake.next = NULL;
        place(admission, ticket, now->ns);
    }
    post_held(admission, NULL);
}

/* ---- a record becomes a ticket ---- */

bool mr_admission_may_take(void *context, size_t topic_index, int32_t number)
{
    struct mr_admission *admission = context;
    uint32_t tenant = admission->config->request_topics[topic_index].tenant_index;
    if ((admission->room >> tenant & 1) == 0) return false;
    if (!mr_flight_has_room(admission->flight, tenant)) return false;
    const struct mr_partition *partition =
        mr_partitions_find(admission->partitions, topic_index, number);
    return partition && partition->state == MR_PARTITION_OWNED && !partition->recovering &&
           !partition->revoking && mr_offset_ledger_has_room(partition->ledger) &&
           partition->blocked_base != mr_offset_ledger_base(partition->ledger);
}

/* queue_limit_ns: the topic's limit on the time from the record's timestamp to the first start. */
static void set_times(struct mr_ticket *ticket, const struct mr_kafka_record *record,
                      int64_t deadline_ms, uint64_t queue_limit_ns, const struct mr_time *now)
{
    ticket->intake.deadline_ns = mr_time_from_unix_ms(now, deadline_ms);
    ticket->arrival_ns = now->ns;
    ticket->waited_ms =
        record->timestamp_ms > 0 ? (double)(now->unix_ms - record->timestamp_ms) : -1.0;
    if (queue_limit_ns == 0 || ticket->attempt > 1) return;
    uint64_t waited_ns = ticket->waited_ms > 0 ? (uint64_t)(ticket->waited_ms * 1e6) : 0;
    uint64_t left_ns = waited_ns < queue_limit_ns ? queue_limit_ns - waited_ns : 0;
    ticket->intake.start_by_ns = ticket->arrival_ns + left_ns;
}

static struct mr_ticket *make_ticket(struct mr_admission *admission, struct mr_partition *partition,
                                     const struct mr_kafka_record *record,
                                     const struct mr_envelope *envelope,
                                     struct mr_ledger_history history)
{
    struct mr_error err = {0};
    struct mr_ticket *ticket = NULL;
    struct mr_ticket_answer answer = {.echo = envelope->echo,
                                      .echo_count = envelope->echo_count,
                                      .reply_topic = envelope->reply_allowed ? envelope->reply_topic
                                                                             : (struct mr_text){0},
                                      .reply_partition = envelope->reply_partition,
                                      .reply_tokens = envelope->reply_tokens};
    if (mr_ticket_create(&ticket, record, &answer, &err) != MR_OK) {
        mr_fault_raise(admission->fault, &err);
        return NULL;
    }
    ticket->intake.partition = partition;
    partition->tickets++;
    ticket->epoch = partition->epoch;
    ticket->gate = &partition->gate;
    ticket->topic_index = partition->topic_index;
    const struct mr_request_topic *topic =
        &admission->config->request_topics[partition->topic_index];
    ticket->topic = topic->name;
    ticket->tenant_index = topic->tenant_index;
    if (strcmp(topic->tenant, MR_TENANT_DEFAULT) != 0) ticket->tenant = topic->tenant;
    mr_identity_of(&ticket->identity, admission->hash, record, envelope);
    ticket->attempt = history.attempts + 1u;
    ticket->generation = partition->generation;
    ticket->intake.start.crashes = history.crashes;
    ticket->intake.start.crashed = history.crashed;
    ticket->intake.start.crashed_alone = history.alone;
    mr_flight_begin(admission->flight);
    return ticket;
}

/* Decodes the record; on success the ticket owns the request. A rejected record is answered here. A
 * record that could not be decoded because memory is out is not answered, and the worker ends. */
static enum mr_status decode(struct mr_admission *admission, struct mr_ticket *ticket,
                             const struct mr_kafka_record *record,
                             const struct mr_envelope *envelope, const struct mr_time *now,
                             struct mr_error *err)
{
    struct mr_decoded decoded;
    const struct mr_config *config = admission->config;
    const struct mr_request_topic *topic = &config->request_topics[ticket->topic_index];
    struct mr_decode_options options = {.default_max_tokens = config->default_max_tokens,
                                        .record_bytes_max = (size_t)config->max_record_bytes,
                                        .default_thinking_tokens = topic->thinking_tokens,
                                        .strict = config->strict || topic->strict,
                                        .now_ms = now->unix_ms};
    enum mr_status status = mr_decode_record(&decoded, envelope, record, &options, err);
    memcpy(ticket->id, decoded.address.id, sizeof ticket->id);
    ticket->encoding = decoded.address.encoding;
    ticket->intake.request = decoded.request;
    set_times(ticket, record, decoded.deadline_ms, topic->queue_limit_ns, now);
    mr_ticket_trace_open(ticket, admission->tracer, record->timestamp_ms, now);
    if (mr_status_class(status) == MR_CLASS_FATAL) { /* the request may be valid */
        mr_fault_raise(admission->fault, err);
        end_ticket(admission, ticket);
        return status;
    }
    if (status != MR_OK) {
        bool dead = mr_decode_is_dead_letter(status);
        refuse(admission, ticket, dead ? record : NULL, decoded.address.id_readable || !dead, err);
        return status;
    }
    ticket->intake.priority = decoded.request->priority + topic->priority;
    if (decoded.request->unknown_fields > 0)
        mr_metrics_add(admission->metrics, MR_COUNTER_UNKNOWN_FIELDS,
                       decoded.request->unknown_fields);
    return MR_OK;
}

/* Adds a warning to the result of a request whose reply topic is not allowed, if the request has
 * room for it. */
static void warn_of_reply(struct mr_request *request, struct mr_text topic)
{
    char sentence[MR_ERROR_DETAIL_BYTES];
    bool plain = topic.length <= REPLY_TOPIC_QUOTED_MAX;
    for (size_t i = 0; i < topic.length && plain; i++)
        plain = isalnum((unsigned char)topic.bytes[i]) || strchr("._-", topic.bytes[i]);
    int length = snprintf(sentence, sizeof sentence,
                          "no reply is written: this worker does not allow the reply topic %.*s",
                          plain ? (int)topic.length : 0, topic.bytes);
    mr_request_add_warning(request, (struct mr_text){sentence, (size_t)length});
}

/* Reports a reply topic that is not allowed: the request has its result only in the results topic.
 */
static void report_reply(struct mr_admission *admission, const struct mr_ticket *ticket,
                         const struct mr_envelope *envelope)
{
    if (envelope->bad || envelope->reply_allowed || envelope->reply_topic.length == 0) return;
    struct mr_log_place place = mr_ticket_log_place(ticket);
    mr_metrics_add(admission->metrics, MR_COUNTER_REPLIES_DROPPED, 1);
    mr_log_write(admission->log, MR_LOG_WARN, &place,
                 "reply not written: topic %.*s is not one of --reply-topic",
                 (int)envelope->reply_topic.length, envelope->reply_topic.bytes);
    if (ticket->intake.request) warn_of_reply(ticket->intake.request, envelope->reply_topic);
}

/* Reserves the most tokens that the request can compute. */
static void reserve_quota(struct mr_admission *admission, struct mr_ticket *ticket)
{
    const struct mr_request *request = ticket->intake.request;
    ticket->intake.quota_tokens = request->token_count + request->inputs.token_count +
                                  (uint64_t)request->max_tokens * request->choice_count;
    mr_quota_reserve(&admission->quota, ticket->tenant_index, ticket->intake.quota_tokens);
}

/* Makes the ticket of a record, decodes and checks the request, and submits it. */
static void admit(struct mr_admission *admission, struct mr_partition *partition,
                  const struct mr_kafka_record *record, struct mr_ledger_history history,
                  const struct mr_time *now)
{
    struct mr_error err = {0};
    struct mr_envelope envelope;
    mr_envelope_read(&envelope, record, &admission->config->reply_topics);
    struct mr_ticket *ticket = make_ticket(admission, partition, record, &envelope, history);
    if (!ticket) return;
    enum mr_status status = decode(admission, ticket, record, &envelope, now, &err);
    report_reply(admission, ticket, &envelope);
    if (status != MR_OK) return;
    status = examine(admission, ticket, record, now, &err);
    if (status == MR_OK) {
        reserve_quota(admission, ticket);
        mr_lookups_start(admission->lookups, ticket, record, now->ns);
        place(admission, ticket, now->ns);
    } else if (mr_status_class(status) == MR_CLASS_FATAL) {
        mr_fault_raise(admission->fault, &err);
        end_ticket(admission, ticket);
    } else {
        refuse(admission, ticket, status == MR_POISON ? record : NULL, true, &err);
    }
}

/* Adds the record to the partition's offset ledger. A record that shows that the log was replaced
 * drops the partition's requests. */
static enum mr_ledger_verdict receive(struct mr_admission *admission,
                                      struct mr_partition *partition,
                                      const struct mr_kafka_record *record,
                                      struct mr_ledger_history *history)
{
    int64_t behind = 0;
    bool skip = admission->config->on_log_replaced == MR_LOG_REPLACED_SKIP;
    if (mr_partition_discard_findings(partition, record->offset, record->timestamp_ms))
        mr_log_warn(admission->log,
                    "%s/%d: the record at offset %lld is newer than its result: the partition's "
                    "log was replaced, so the results found by recovery are ignored",
                    record->topic, record->partition, (long long)record->offset);
    enum mr_ledger_verdict verdict =
        mr_partition_receive(partition, record->offset, skip, history, &behind);
    if (skip && partition->skipped_to == record->offset + 1)
        mr_metrics_add(admission->metrics, MR_COUNTER_RECORDS_SKIPPED, 1);
    if (behind == 0) return verdict;
    mr_metrics_add(admission->metrics, MR_COUNTER_LOGS_REPLACED, 1);
    mr_log_event(admission->log, MR_LOG_WARN, NULL,
                 "the log was replaced: the partition's records begin below its committed offset",
                 MR_LOG_STRING("topic", record->topic),
                 MR_LOG_NUMBER("partition", record->partition),
                 MR_LOG_NUMBER("offset", record->offset), MR_LOG_NUMBER("below_committed", behind),
                 MR_LOG_STRING("on_log_replaced", skip ? "skip" : "run"));
    if (skip) return verdict;
    mr_partition_requests_drop_old(admission->requests, partition);
    admission->flight->retry_parked = true;
    return verdict;
}

bool mr_admission_accept(struct mr_admission *admission, const struct mr_kafka_record *record,
                         size_t topic_index, const struct mr_time *now)
{
    struct mr_ledger_history history;
    admission->now_ns = now->ns;
    struct mr_partition *partition =
        mr_partitions_find(admission->partitions, topic_index, record->partition);
    MR_ASSERT(partition);
    enum mr_ledger_verdict verdict = receive(admission, partition, record, &history);
    if (verdict == MR_LEDGER_FULL) {
        partition->blocked_base = mr_offset_ledger_base(partition->ledger);
        return false;
    }
    if (verdict == MR_LEDGER_FINISHED) admission->stats.finished_before++;
    if (verdict != MR_LEDGER_NEW) return true;
    if (!record->value.bytes) { /* a tombstone: compaction needs it, and it gets no answer */
        mr_metrics_add(admission->metrics, MR_COUNTER_TOMBSTONES, 1);
        mr_offset_ledger_finish(partition->ledger, record->offset);
        mr_commit_schedule_soon(admission->schedule);
        return true;
    }
    admission->stats.records++;
    mr_metrics_add(admission->metrics, MR_COUNTER_RECORDS_CONSUMED, 1);
    mr_metrics_add(admission->metrics, MR_COUNTER_RECORD_BYTES, record->value.length);
    if (history.attempts > 0) {
        admission->stats.redelivered++;
        mr_metrics_add(admission->metrics, MR_COUNTER_REDELIVERIES, 1);
    }
    admit(admission, partition, record, history, now);
    return true;
}

/* ---- tickets end ---- */

static void finish(struct mr_admission *admission, struct mr_ticket *ticket)
{
    if (mr_partition_is_current(ticket))
        mr_offset_ledger_finish(ticket->intake.partition->ledger, ticket->offset);
    if (ticket->trail) mr_trail_delete(ticket->trail);
    mr_metrics_count_end(admission->metrics, ticket->topic_index, &ticket->end);
    mr_ticket_trace_answered(ticket);
    end_ticket(admission, ticket);
}

void mr_admission_done(struct mr_admission *admission, struct mr_ticket *ticket)
{
    bool dropped = atomic_load(&ticket->dropped);
    struct mr_ticket *follower = ticket->intake.followers;
    if (!dropped) mr_flight_remember(admission->flight, ticket, admission->now_ns);
    mr_flight_withdraw(admission->flight, ticket);
    for (struct mr_ticket *next; follower; follower = next) {
        next = follower->intake.next;
        follower->intake.next = NULL;
        if (dropped) /* the first of the duplicates is submitted in place of the dropped request */
            mr_flight_park(admission->flight, follower);
        else
            finish(admission, follower);
    }
    post_held(admission, ticket);
    if (dropped)
        end_ticket(admission, ticket);
    else
        finish(admission, ticket);
    admission->flight->retry_parked = admission->flight->parked != NULL;
    mr_commit_schedule_soon(admission->schedule);
}

/* Ends the tickets of a list linked by intake.next. */
static void end_list(struct mr_admission *admission, struct mr_ticket *ticket)
{
    for (struct mr_ticket *next; ticket; ticket = next) {
        next = ticket->intake.next;
        end_ticket(admission, ticket);
    }
}

static void end_submitted(void *context, struct mr_ticket *ticket)
{
    struct mr_admission *admission = context;
    mr_flight_withdraw(admission->flight, ticket);
    end_list(admission, ticket->intake.followers);
    end_ticket(admission, ticket);
}

void mr_admission_returned(struct mr_admission *admission, struct mr_ticket *ticket)
{
    if (ticket->intake.running && mr_partition_is_current(ticket))
        mr_starts_release(admission->starts, ticket);
    end_submitted(admission, ticket);
}

void mr_admission_drop_all(struct mr_admission *admission)
{
    mr_ticket_table_each(admission->flight->submitted, end_submitted, admission);
    end_list(admission, mr_flight_unpark_all(admission->flight));
    end_list(admission, mr_flight_unhold_all(admission->flight));
}

static void sink_done(void *self, struct mr_ticket *ticket)
{
    mr_admission_done(self, ticket);
}

static void sink_returned(void *self, struct mr_ticket *ticket)
{
    mr_admission_returned(self, ticket);
}

struct mr_ticket_sink mr_admission_sink(struct mr_admission *admission)
{
    return (struct mr_ticket_sink){.self = admission, .done = sink_done, .returned = sink_returned};
}
