#include "worker/intake/cancels.h"

#include "tests/unit/worker/counters.h"
#include "tests/unit/worker/intake_rig.h"

#include <stdlib.h>

#define VALUE(id) "{\"id\":\"" id "\",\"prompt\":\"hello\"}"

static void a_request_is_run_and_its_end_is_counted(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_intake_rig(&rig);
    struct mr_partition *partition = assign_partition(&rig, 10, "");
    assert_true(mr_admission_may_take(&rig.intake->admission, 0, 0));
    assert_false(mr_admission_may_take(&rig.intake->admission, 0, 1)); /* not ours */
    arrive(&rig, 10, VALUE("a"));
    struct mr_ticket *ticket = ticket_named(&rig, "a");
    assert_non_null(ticket);
    assert_int_equal(ticket->attempt, 1);
    assert_string_equal(ticket->topic, "r");
    assert_int_equal(rig.intake->flight.count, 1);
    begin(&rig, ticket);
    mr_admission_done(&rig.intake->admission, answered(ticket));
    assert_int_equal(rig.intake->flight.count, 0);
    assert_int_equal(mr_offset_ledger_base(partition->ledger), 11);
    assert_true(rig.intake->schedule.due_ns < UINT64_MAX);
    assert_counter(rig.metrics, "records_consumed", 1);
    assert_counter(rig.metrics, "record_bytes", (unsigned)strlen(VALUE("a")));
    close_intake_rig(&rig);
}

static void unknown_fields_are_counted(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_intake_rig(&rig);
    assign_partition(&rig, 0, "");
    arrive(&rig, 0, "{\"id\":\"a\",\"prompt\":\"p\",\"what\":1,\"ever\":2}");
    assert_counter(rig.metrics, "unknown_fields", 2);
    close_intake_rig(&rig);
}

static void records_of_a_log_that_was_replaced_are_counted(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_intake_rig(&rig);
    assign_partition(&rig, 10, "");
    rig.config.on_log_replaced = MR_LOG_REPLACED_SKIP;
    arrive(&rig, 3, VALUE("a"));
    arrive(&rig, 4, VALUE("b"));
    assert_counter(rig.metrics, "replaced_logs", 1);
    assert_counter(rig.metrics, "skipped_records", 2);
    assert_int_equal(rig.intake->flight.count, 0);
    close_intake_rig(&rig);
}

static void the_same_id_twice_in_flight_is_one_request(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_intake_rig(&rig);
    struct mr_partition *partition = assign_partition(&rig, 0, "");
    arrive(&rig, 0, VALUE("a"));
    arrive(&rig, 1, VALUE("a"));
    assert_int_equal(rig.intake->admission.stats.duplicates, 1);
    assert_int_equal(mr_ticket_table_count(rig.intake->flight.submitted), 1);
    mr_admission_done(&rig.intake->admission, answered(ticket_named(&rig, "a")));
    assert_int_equal(mr_offset_ledger_base(partition->ledger), 2); /* both are answered */
    assert_int_equal(rig.intake->flight.count, 0);
    close_intake_rig(&rig);
}

static void what_is_no_request_is_dead_lettered(void **state)
{
    (void)state;
    static const char *const values[] = {"{", "{\"prompt\":7}", "{\"id\":\"x\"}"};
    struct intake_rig rig;
    open_intake_rig(&rig);
    struct mr_partition *partition = assign_partition(&rig, 0, "");
    for (int i = 0; i < 3; i++) {
        struct mr_ticket *ticket = NULL;
        bool dead_letter = false;
        arrive(&rig, i, values[i]);
        assert_int_equal(mr_status_class(take_refusal(&rig, &ticket, &dead_letter)),
                         MR_CLASS_REJECT);
        assert_true(dead_letter);
        mr_admission_done(&rig.intake->admission, answered(ticket));
    }
    assert_int_equal(rig.intake->admission.stats.dead_lettered, 3);
    assert_int_equal(mr_offset_ledger_base(partition->ledger), 3);
    close_intake_rig(&rig);
}

static void what_a_request_asks_in_vain_is_only_answered(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        enum mr_status why;
    } cases[] = {
        {"{\"id\":\"a\",\"prompt\":\"x\",\"model\":\"other\"}", MR_MODEL_NOT_FOUND},
        {"{\"id\":\"b\",\"prompt\":\"\"}", MR_EMPTY_PROMPT},
        {"{\"id\":\"c\",\"prompt\":\"x\",\"deadline_ms\":1}", MR_DEADLINE_EXCEEDED},
    };
    struct intake_rig rig;
    open_intake_rig(&rig);
    assign_partition(&rig, 0, "");
    for (int i = 0; i < 3; i++) {
        struct mr_ticket *ticket = NULL;
        bool dead_letter = true;
        arrive(&rig, i, cases[i].value);
        assert_int_equal(take_refusal(&rig, &ticket, &dead_letter), cases[i].why);
        assert_false(dead_letter);
        assert_null(ticket_named(&rig, ticket->id));
        mr_admission_done(&rig.intake->admission, answered(ticket));
    }
    assert_int_equal(rig.intake->admission.stats.refused, 3);
    close_intake_rig(&rig);
}

static void a_record_finished_or_seen_before_is_not_run(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_intake_rig(&rig);
    assign_partition(&rig, 0, "");
    arrive(&rig, 0, VALUE("a"));
    arrive(&rig, 0, VALUE("b"));
    assert_null(ticket_named(&rig, "b"));
    assert_int_equal(rig.intake->admission.stats.records, 1);
    close_intake_rig(&rig);
}

static void cancel(struct intake_rig *rig, const char *id)
{
    const struct mr_kafka_record record = {
        .topic = "c", .key = {id, strlen(id)}, .value = {"{}", 2}};
    mr_cancels_apply(&rig->intake->admission, &record, &rig->now);
}

static void a_cancel_may_come_before_its_request(void **state)
{
    (void)state;
    struct intake_rig rig;
    struct mr_ticket *ticket = NULL;
    open_intake_rig(&rig);
    assign_partition(&rig, 0, "");
    cancel(&rig, "a");
    assert_int_equal(rig.intake->admission.stats.cancelled, 0);
    arrive(&rig, 0, VALUE("a"));
    assert_int_equal(take_refusal(&rig, &ticket, NULL), MR_CANCELLED);
    mr_admission_done(&rig.intake->admission, answered(ticket));
    arrive(&rig, 1, VALUE("b"));
    cancel(&rig, "b"); /* the engine's now */
    assert_int_equal(rig.intake->admission.stats.cancelled, 2);
    const struct mr_kafka_record tombstone = {.topic = "c", .key = {"b", 1}};
    mr_cancels_apply(&rig.intake->admission, &tombstone, &rig.now);
    assert_int_equal(rig.intake->admission.stats.cancelled, 2);
    close_intake_rig(&rig);
}

static void a_cancel_of_a_dropped_request_counts_for_the_next_copy(void **state)
{
    (void)state;
    struct intake_rig rig;
    struct mr_ticket *ticket = NULL;
    open_intake_rig(&rig);
    struct mr_partition *partition = assign_partition(&rig, 0, "");
    arrive(&rig, 0, VALUE("a"));
    ticket = ticket_named(&rig, "a");
    forget_partition(&rig, partition); /* the partition is revoked and assigned again */
    assign_partition(&rig, 0, "");
    cancel(&rig, "a");
    mr_admission_done(&rig.intake->admission, answered(ticket));
    arrive(&rig, 0, VALUE("a"));
    assert_int_equal(take_refusal(&rig, &ticket, NULL), MR_CANCELLED);
    mr_admission_done(&rig.intake->admission, answered(ticket));
    close_intake_rig(&rig);
}

static void while_draining_only_what_the_engine_has_is_cancelled(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_intake_rig(&rig);
    assign_partition(&rig, 0, "");
    arrive(&rig, 0, VALUE("a"));
    rig.intake->admission.draining = true;
    cancel(&rig, "a");
    assert_int_equal(rig.intake->admission.stats.cancelled, 1);
    cancel(&rig, "b"); /* no further record of the partition will be taken here */
    assert_int_equal(mr_id_memory_count(rig.intake->cancelled), 0);
    mr_intake_forget_engine(rig.intake);
    cancel(&rig, "a"); /* the engine may be gone: nothing happens */
    rig.intake->admission.engine.port = rig_port(&rig.engine);
    close_intake_rig(&rig);
}

/* Intake may be in the middle of a record when a drain times out and the engine ends. */
static void nothing_reaches_an_engine_that_has_ended(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_intake_rig(&rig);
    assign_partition(&rig, 0, "");
    struct mr_admission *admission = &rig.intake->admission;
    mr_intake_forget_engine(rig.intake);
    arrive(&rig, 0, VALUE("a"));
    assert_int_equal(rig.intake->flight.count, 1);
    assert_int_equal(rig.intake->flight.parked_count, 1);
    assert_false(rig.intake->fault.raised);
    admission->engine.port = rig_port(&rig.engine);
    close_intake_rig(&rig);
}

static void a_tenant_without_room_is_not_taken_from(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_intake_rig(&rig);
    rig.config.request_topics[0].tenant_index = 2;
    assign_partition(&rig, 0, "");
    rig.intake->admission.room = 4;
    assert_true(mr_admission_may_take(&rig.intake->admission, 0, 0));
    rig.intake->admission.room = 3;
    assert_false(mr_admission_may_take(&rig.intake->admission, 0, 0));
    close_intake_rig(&rig);
}

static void a_tenant_above_its_quota_waits_and_no_other_does(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_two_tenants(&rig);
    rig.config.minute_quotas[1] = 20;
    mr_quota_open(&rig.intake->admission.quota, &rig.config);
    struct mr_quota *quota = &rig.intake->admission.quota;
    assert_int_equal(mr_quota_room(quota, rig.now.ns) & 3, 3);
    arrive_in(&rig, 1, 0, "{\"id\":\"a\",\"prompt\":\"hello\",\"max_tokens\":30}", NULL);
    struct mr_ticket *ticket = ticket_of(&rig, 1, "a");
    assert_true(ticket->intake.quota_tokens > 30); /* with its prompt */
    assert_int_equal(mr_quota_room(quota, rig.now.ns) & 3, 1);
    begin(&rig, ticket);
    ticket->end.tokens = 25; /* publish writes this */
    mr_admission_done(&rig.intake->admission, answered(ticket));
    assert_int_equal(quota->tenants[1].reserved, 0);
    assert_int_equal(mr_quota_room(quota, rig.now.ns) & 3, 1); /* 5 more than it had */
    assert_int_equal(mr_quota_room(quota, rig.now.ns + UINT64_C(20000000000)) & 3, 3);
    close_intake_rig(&rig);
}

/* A record with headers arrives, now or waited_ms ago. */
static void arrive_with(struct intake_rig *rig, int64_t offset, const char *value,
                        const struct mr_kafka_header *headers, size_t header_count)
{
    struct mr_kafka_record record = {.topic = "r",
                                     .offset = offset,
                                     .timestamp_ms = rig->now.unix_ms - 2000,
                                     .key = {"the key", 7},
                                     .value = {value, strlen(value)},
                                     .headers = headers,
                                     .header_count = header_count};
    assert_true(mr_admission_accept(&rig->intake->admission, &record, 0, &rig->now));
}

static void assert_refused(struct intake_rig *rig, const char *id, enum mr_status why)
{
    struct mr_ticket *ticket = NULL;
    bool dead_letter = true;
    assert_int_equal(take_refusal(rig, &ticket, &dead_letter), why);
    assert_string_equal(ticket->id, id);
    assert_int_equal(dead_letter, why == MR_MALFORMED);
    mr_admission_done(&rig->intake->admission, answered(ticket));
}

static void a_deadline_header_that_has_passed_answers_without_decoding(void **state)
{
    (void)state;
    static const struct mr_kafka_header past = {"millrace-deadline", "1000", 4},
                                        far = {"millrace-deadline", "1763740009999", 13};
    struct intake_rig rig;
    open_intake_rig(&rig);
    assign_partition(&rig, 0, "");
    arrive_with(&rig, 0, "{\"id\":\"a\",\"prompt\":7}", &past,
                1); /* no request, but a reply address */
    assert_refused(&rig, "a", MR_DEADLINE_EXCEEDED);
    arrive_with(&rig, 1, "{\"prompt\":\"x\"}", &past, 1);
    assert_refused(&rig, "the key", MR_DEADLINE_EXCEEDED);
    arrive_with(&rig, 2, "{", &past, 1);
    assert_refused(&rig, "the key", MR_MALFORMED);
    arrive_with(&rig, 3, VALUE("b"), &far, 1);
    assert_non_null(ticket_named(&rig, "b"));
    close_intake_rig(&rig);
}

static void keep_request(void *context, uint64_t ticket, struct mr_request *request)
{
    (void)ticket;
    *(struct mr_request **)context = request;
}

/* The one request that the engine has; the caller destroys it. */
static struct mr_request *first_returned(struct intake_rig *rig)
{
    struct mr_request *request = NULL;
    mr_engine_return_waiting(rig->engine.engine, keep_request, &request);
    assert_non_null(request);
    return request;
}

static void a_reply_topic_that_is_not_allowed_is_counted_and_warned_of(void **state)
{
    (void)state;
    static const struct mr_kafka_header reply = {"kafka_replyTopic", "elsewhere", 9};
    struct intake_rig rig;
    open_intake_rig(&rig);
    assign_partition(&rig, 0, "");
    arrive_with(&rig, 0, VALUE("a"), &reply, 1);
    assert_null(ticket_named(&rig, "a")->reply_topic);
    assert_counter(rig.metrics, "replies_dropped", 1);
    struct mr_request *request = first_returned(&rig);
    assert_int_equal(request->warning_count, 1);
    assert_true(
        mr_text_is(request->warnings[0],
                   "no reply is written: this worker does not allow the reply topic elsewhere"));
    mr_request_destroy(request);
    close_intake_rig(&rig);
}

static void a_tombstone_is_skipped_and_counted(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_intake_rig(&rig);
    struct mr_partition *partition = assign_partition(&rig, 0, "");
    const struct mr_kafka_record tombstone = {.topic = "r", .offset = 0, .key = {"k", 1}};
    assert_true(mr_admission_accept(&rig.intake->admission, &tombstone, 0, &rig.now));
    assert_counter(rig.metrics, "tombstones", 1);
    assert_counter(rig.metrics, "records_consumed", 0);
    assert_null(mr_mailbox_take(rig.publish));
    assert_int_equal(rig.intake->flight.count, 0);
    assert_int_equal(mr_offset_ledger_base(partition->ledger), 1);
    arrive_with(&rig, 1, "", NULL, 0); /* an empty value is not null */
    assert_refused(&rig, "the key", MR_MALFORMED);
    close_intake_rig(&rig);
}

static void a_topic_s_longest_wait_counts_from_the_record_s_timestamp(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_intake_rig(&rig);
    assign_partition(&rig, 0, "");
    rig.config.request_topics[0].queue_limit_ns = 1000000000u;
    arrive_with(&rig, 0, VALUE("a"), NULL, 0); /* 2 s old */
    assert_refused(&rig, "a", MR_DEADLINE_EXCEEDED);
    rig.config.request_topics[0].queue_limit_ns = 60000000000u;
    arrive_with(&rig, 1, VALUE("b"), NULL, 0);
    const struct mr_ticket *ticket = ticket_named(&rig, "b");
    assert_in_range(ticket->intake.start_by_ns - ticket->arrival_ns, 57000000000u, 58000000000u);
    close_intake_rig(&rig);
}

static void cloud_events_are_read_in_both_modes(void **state)
{
    (void)state;
    static const struct mr_kafka_header binary[] = {
        {"ce_specversion", "1.0", 3}, {"ce_id", "event-1", 7}, {"ce_source", "/s", 2}};
    static const struct mr_kafka_header structured = {
        "content-type", "application/cloudevents+json; charset=UTF-8", 43};
    struct intake_rig rig;
    open_intake_rig(&rig);
    assign_partition(&rig, 0, "");
    arrive_with(&rig, 0, "{\"prompt\":\"x\"}", binary, 3);
    assert_non_null(ticket_named(&rig, "event-1"));
    arrive_with(&rig, 1,
                "{\"specversion\":\"1.0\",\"id\":\"event-2\",\"source\":\"/s\",\"type\":\"t\","
                "\"data\":{\"prompt\":\"x\"}}",
                &structured, 1);
    assert_non_null(ticket_named(&rig, "event-2"));
    arrive_with(&rig, 2, "{\"specversion\":\"1.0\",\"id\":\"event-3\"}", &structured, 1);
    assert_refused(&rig, "event-3", MR_MALFORMED);
    arrive_with(&rig, 3, "{\"prompt\":\"x\"}", &binary[1], 2); /* no CloudEvent: no version */
    assert_non_null(ticket_named(&rig, "the key"));
    close_intake_rig(&rig);
}

/* The metadata committed by workers that crashed while they ran offset 0, one worker for each of
 * `crashes`. notes: one commit for each start. */
static void crash(struct intake_rig *rig, char metadata[MR_LEDGER_METADATA_TEXT_MAX], int crashes,
                  uint8_t notes)
{
    metadata[0] = '\0';
    for (int i = 0; i < crashes; i++) {
        struct mr_partition *partition = assign_partition(rig, 0, metadata);
        struct mr_ledger_history history;
        assert_int_equal(mr_offset_ledger_receive(partition->ledger, 0, &history), MR_LEDGER_NEW);
        mr_offset_ledger_start(partition->ledger, 0, notes);
        mr_ledger_metadata_encode(partition->ledger, (struct mr_ledger_head){1, 0}, metadata);
        mr_partition_forget(partition);
    }
}

static void a_request_that_ends_workers_is_dead_lettered(void **state)
{
    (void)state;
    static char metadata[MR_LEDGER_METADATA_TEXT_MAX];
    struct intake_rig rig;
    struct mr_ticket *ticket = NULL;
    bool dead_letter = false;
    open_intake_rig(&rig);
    crash(&rig, metadata, 2, 0);
    assign_partition(&rig, 0, metadata);
    arrive(&rig, 0, VALUE("a"));
    assert_int_equal(take_refusal(&rig, &ticket, &dead_letter), MR_POISON);
    assert_true(dead_letter);
    assert_int_equal(rig.intake->admission.stats.redelivered, 1);
    mr_admission_done(&rig.intake->admission, answered(ticket));
    close_intake_rig(&rig);
}

static void a_suspect_is_run_and_counted_as_one(void **state)
{
    (void)state;
    static char metadata[MR_LEDGER_METADATA_TEXT_MAX];
    struct intake_rig rig;
    open_intake_rig(&rig);
    crash(&rig, metadata, 2, MR_LEDGER_SLOT_ACCOMPANIED);
    assign_partition(&rig, 0, metadata);
    arrive(&rig, 0, VALUE("a"));
    assert_int_equal(rig.intake->flight.suspects, 1);
    assert_int_equal(ticket_named(&rig, "a")->attempt, 3);
    arrive(&rig, 1, VALUE("b"));
    assert_int_equal(rig.intake->flight.suspects, 1);
    mr_admission_done(&rig.intake->admission, answered(ticket_named(&rig, "a")));
    assert_int_equal(rig.intake->flight.suspects, 0);
    close_intake_rig(&rig);
}

static void what_the_engine_refuses_for_now_is_parked_and_tried_again(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_intake_rig(&rig);
    assign_partition(&rig, 0, "");
    mr_engine_link_close(&rig.intake->admission.engine);
    arrive(&rig, 0, VALUE("a"));
    assert_int_equal(rig.intake->flight.parked_count, 1);
    assert_int_equal(mr_ticket_table_count(rig.intake->flight.submitted), 0);
    mr_admission_retry_parked(&rig.intake->admission, &rig.now);
    assert_int_equal(rig.intake->flight.parked_count, 1);
    struct mr_ticket *ticket = NULL;
    cancel(&rig, "a");
    assert_int_equal(take_refusal(&rig, &ticket, NULL), MR_CANCELLED);
    assert_int_equal(rig.intake->flight.parked_count, 0);
    mr_admission_done(&rig.intake->admission, answered(ticket));
    rig.intake->admission.engine.port = rig_port(&rig.engine);
    close_intake_rig(&rig);
}

static void a_log_that_was_replaced_is_read_from_its_new_place(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_intake_rig(&rig);
    struct mr_partition *partition = assign_partition(&rig, 100, "");
    arrive(&rig, 100, VALUE("old"));
    arrive(&rig, 3, VALUE("new"));
    assert_true(atomic_load(&ticket_named(&rig, "old")->dropped));
    assert_false(atomic_load(&ticket_named(&rig, "new")->dropped));
    assert_int_equal(partition->state, MR_PARTITION_OWNED);
    assert_int_equal(mr_offset_ledger_base(partition->ledger), 3);
    mr_admission_done(
        &rig.intake->admission,
        answered(ticket_named(&rig, "old"))); /* of an earlier request under this id: not counted */
    assert_int_equal(mr_offset_ledger_base(partition->ledger), 3);
    close_intake_rig(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_run_and_its_end_is_counted),
        cmocka_unit_test(unknown_fields_are_counted),
        cmocka_unit_test(records_of_a_log_that_was_replaced_are_counted),
        cmocka_unit_test(the_same_id_twice_in_flight_is_one_request),
        cmocka_unit_test(what_is_no_request_is_dead_lettered),
        cmocka_unit_test(what_a_request_asks_in_vain_is_only_answered),
        cmocka_unit_test(a_record_finished_or_seen_before_is_not_run),
        cmocka_unit_test(a_cancel_may_come_before_its_request),
        cmocka_unit_test(a_cancel_of_a_dropped_request_counts_for_the_next_copy),
        cmocka_unit_test(while_draining_only_what_the_engine_has_is_cancelled),
        cmocka_unit_test(nothing_reaches_an_engine_that_has_ended),
        cmocka_unit_test(a_tenant_without_room_is_not_taken_from),
        cmocka_unit_test(a_tenant_above_its_quota_waits_and_no_other_does),
        cmocka_unit_test(a_deadline_header_that_has_passed_answers_without_decoding),
        cmocka_unit_test(a_reply_topic_that_is_not_allowed_is_counted_and_warned_of),
        cmocka_unit_test(a_tombstone_is_skipped_and_counted),
        cmocka_unit_test(a_topic_s_longest_wait_counts_from_the_record_s_timestamp),
        cmocka_unit_test(cloud_events_are_read_in_both_modes),
        cmocka_unit_test(a_request_that_ends_workers_is_dead_lettered),
        cmocka_unit_test(a_suspect_is_run_and_counted_as_one),
        cmocka_unit_test(what_the_engine_refuses_for_now_is_parked_and_tried_again),
        cmocka_unit_test(a_log_that_was_replaced_is_read_from_its_new_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
