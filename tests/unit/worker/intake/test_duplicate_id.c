/* How a record is handled whose id is already in use (--duplicate-id). */
#include "worker/intake/admission.h"

#include "tests/unit/worker/intake_rig.h"

#define VALUE(id, prompt) "{\"id\":\"" id "\",\"prompt\":\"" prompt "\"}"

static void return_request(void *context, uint64_t ticket, struct mr_request *request)
{
    (void)context, (void)ticket;
    mr_request_destroy(request);
}

/* Ends the request with its result, which leaves the engine empty. */
static void end_ticket_of(struct intake_rig *rig, uint32_t tenant_index, const char *id)
{
    struct mr_ticket *ticket = ticket_of(rig, tenant_index, id);
    assert_non_null(ticket);
    mr_engine_return_waiting(rig->engine.engine, return_request, NULL);
    mr_admission_done(&rig->intake->admission, answered(ticket));
}

/* The refusal's ticket has its own offset and reply address, which publish writes to. */
static void assert_duplicate(struct intake_rig *rig, int64_t offset, const char *reply_topic)
{
    struct mr_ticket *ticket = NULL;
    bool dead_letter = true;
    assert_int_equal(take_refusal(rig, &ticket, &dead_letter), MR_DUPLICATE_ID);
    assert_false(dead_letter);
    assert_int_equal(ticket->offset, offset);
    if (reply_topic)
        assert_string_equal(ticket->reply_topic, reply_topic);
    else
        assert_null(ticket->reply_topic);
    mr_admission_done(&rig->intake->admission, answered(ticket));
}

static void another_request_under_an_id_in_flight_is_answered_by_itself(void **state)
{
    (void)state;
    static const struct mr_kafka_header reply = {"kafka_replyTopic", "mine", 4};
    struct intake_rig rig;
    open_two_tenants(&rig);
    rig.config.reply_topics = (struct mr_text_list){{"mine"}, 1};
    arrive_in(&rig, 0, 0, VALUE("a", "one"), NULL);
    arrive_in(&rig, 0, 1, VALUE("a", "two"), NULL);
    arrive_in(&rig, 0, 2, VALUE("a", "one"), &reply); /* for another reader */
    assert_int_equal(rig.intake->flight.count, 3);
    assert_int_equal(rig.intake->admission.stats.duplicates, 0);
    end_ticket_of(&rig, 0, "a");
    assert_duplicate(&rig, 1, NULL);
    assert_duplicate(&rig, 2, "mine");
    assert_int_equal(rig.intake->flight.count, 0);
    close_intake_rig(&rig);
}

/* Readers keep the first result of an id: it must belong to the request that used the id first. */
static void a_refusal_waits_for_the_result_of_the_request_with_its_id(void **state)
{
    (void)state;
    struct intake_rig rig;
    struct mr_ticket *ticket = NULL;
    open_two_tenants(&rig);
    arrive_in(&rig, 0, 0, VALUE("a", "one"), NULL);
    arrive_in(&rig, 0, 1, VALUE("a", "two"), NULL);             /* duplicate_id */
    arrive_in(&rig, 0, 2, "{\"id\":\"a\",\"prompt\":7}", NULL); /* no request */
    assert_null(mr_mailbox_take(rig.publish));
    arrive_in(&rig, 0, 3, VALUE("b", ""), NULL); /* another id waits for nothing */
    assert_int_equal(take_refusal(&rig, &ticket, NULL), MR_EMPTY_PROMPT);
    mr_admission_done(&rig.intake->admission, answered(ticket));
    mr_admission_retry_parked(&rig.intake->admission, &rig.now);
    assert_null(mr_mailbox_take(rig.publish));
    assert_int_equal(rig.intake->flight.held_count, 2);
    end_ticket_of(&rig, 0, "a");
    /* the first refusal has not been written yet, so the second one waits */
    assert_int_equal(take_refusal(&rig, &ticket, NULL), MR_DUPLICATE_ID);
    assert_int_equal(ticket->offset, 1);
    mr_admission_retry_parked(&rig.intake->admission, &rig.now);
    assert_null(mr_mailbox_take(rig.publish));
    mr_admission_done(&rig.intake->admission, answered(ticket));
    assert_int_equal(take_refusal(&rig, &ticket, NULL), MR_INVALID_REQUEST);
    assert_int_equal(ticket->offset, 2);
    mr_admission_done(&rig.intake->admission, answered(ticket));
    assert_int_equal(rig.intake->flight.count, 0);
    close_intake_rig(&rig);
}

/* Kafka delivers their records again. */
static void held_refusals_end_without_an_answer_when_the_worker_ends(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_two_tenants(&rig);
    arrive_in(&rig, 0, 0, VALUE("a", "one"), NULL);
    arrive_in(&rig, 0, 1, VALUE("a", "two"), NULL);
    rig.intake->admission.draining = true;
    end_ticket_of(&rig, 0, "a");
    assert_int_equal(rig.intake->flight.held_count, 1);
    assert_int_equal(
        mr_offset_ledger_unfinished(mr_partitions_find(rig.intake->partitions, 0, 0)->ledger), 1);
    close_intake_rig(&rig);
}

static void the_same_request_again_is_answered_with_the_first(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_two_tenants(&rig);
    arrive_in(&rig, 0, 0, VALUE("a", "one"), NULL);
    arrive_in(&rig, 0, 1, VALUE("a", "one"), NULL);
    assert_int_equal(rig.intake->admission.stats.duplicates, 1);
    end_ticket_of(&rig, 0, "a");
    assert_int_equal(rig.intake->flight.count, 0);
    close_intake_rig(&rig);
}

/* The partition of the first record is assigned to another worker; the partition of its repetition
 * stays. */
static void what_waited_for_a_dropped_request_is_run(void **state)
{
    (void)state;
    struct intake_rig rig;
    create_intake_rig_for(&rig, 1);
    rig.config.request_topics[1] = rig.config.request_topics[0];
    rig.config.request_topics[1].name = "s";
    rig.config.request_topic_count = 2;
    open_intake_with(&rig, NULL, NULL);
    struct mr_intake *intake = rig.intake;
    struct mr_kafka_claim claims[] = {{.topic = "r"}, {.topic = "s", .topic_index = 1}};
    mr_ownership_assign(&intake->ownership, claims, 2, &rig.now);
    arrive_in(&rig, 0, 0, VALUE("a", "one"), NULL);
    arrive_in(&rig, 1, 0, VALUE("a", "one"), NULL);
    assert_int_equal(intake->admission.stats.duplicates, 1);
    forget_partition(&rig, mr_partitions_find(intake->partitions, 0, 0));
    assert_true(atomic_load(&ticket_named(&rig, "a")->dropped));
    end_ticket_of(&rig, 0, "a");
    struct mr_partition *partition = mr_partitions_find(intake->partitions, 1, 0);
    assert_int_equal(mr_offset_ledger_unfinished(partition->ledger), 1);
    mr_admission_retry_parked(&intake->admission, &rig.now);
    assert_ptr_equal(ticket_named(&rig, "a")->intake.partition, partition);
    end_ticket_of(&rig, 0, "a");
    assert_int_equal(mr_offset_ledger_base(partition->ledger), 1);
    assert_int_equal(intake->flight.count, 0);
    close_intake_rig(&rig);
}

static void an_id_of_another_tenant_is_another_request(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_two_tenants(&rig);
    arrive_in(&rig, 0, 0, VALUE("a", "one"), NULL);
    arrive_in(&rig, 1, 0, VALUE("a", "two"), NULL);
    struct mr_ticket *first = ticket_of(&rig, 0, "a"), *second = ticket_of(&rig, 1, "a");
    assert_non_null(first);
    assert_non_null(second);
    assert_ptr_not_equal(first, second);
    assert_null(first->tenant);
    assert_string_equal(second->tenant, "other");
    assert_true(mr_engine_cancel(rig.engine.engine, 0, mr_ticket_id(first)));
    assert_true(mr_engine_cancel(rig.engine.engine, 1, mr_ticket_id(second)));
    close_intake_rig(&rig);
}

static void the_id_of_an_ended_request_is_remembered_with_its_digest(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_two_tenants(&rig);
    arrive_in(&rig, 0, 0, VALUE("a", "one"), NULL);
    end_ticket_of(&rig, 0, "a");
    arrive_in(&rig, 0, 1, VALUE("a", "two"), NULL);
    assert_duplicate(&rig, 1, NULL);
    arrive_in(&rig, 1, 1, VALUE("a", "two"), NULL); /* another tenant's */
    end_ticket_of(&rig, 1, "a");
    arrive_in(&rig, 0, 2, VALUE("a", "one"), NULL); /* its producer lost the answer */
    end_ticket_of(&rig, 0, "a");
    pass_ms(&rig, 600001);
    arrive_in(&rig, 0, 3, VALUE("a", "two"), NULL);
    assert_non_null(ticket_of(&rig, 0, "a"));
    close_intake_rig(&rig);
}

static void a_refused_request_leaves_its_id_free(void **state)
{
    (void)state;
    struct intake_rig rig;
    struct mr_ticket *ticket = NULL;
    open_two_tenants(&rig);
    arrive_in(&rig, 0, 0, VALUE("a", ""), NULL);
    assert_int_equal(take_refusal(&rig, &ticket, NULL), MR_EMPTY_PROMPT);
    mr_admission_done(&rig.intake->admission, answered(ticket));
    arrive_in(&rig, 0, 1, VALUE("a", "corrected"), NULL);
    assert_non_null(ticket_of(&rig, 0, "a"));
    close_intake_rig(&rig);
}

static void by_option_another_request_runs_after_the_first(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_two_tenants(&rig);
    rig.config.duplicate_id = MR_DUPLICATE_ID_RUN;
    arrive_in(&rig, 0, 0, VALUE("a", "one"), NULL);
    arrive_in(&rig, 0, 1, VALUE("a", "two"), NULL);
    arrive_in(&rig, 0, 2, VALUE("a", "three"), NULL);
    arrive_in(&rig, 0, 3, VALUE("a", "two"), NULL); /* of the one that waits */
    assert_int_equal(ticket_of(&rig, 0, "a")->offset, 0);
    assert_int_equal(rig.intake->flight.parked_count, 3);
    end_ticket_of(&rig, 0, "a");
    mr_admission_retry_parked(&rig.intake->admission, &rig.now);
    assert_int_equal(ticket_of(&rig, 0, "a")->offset, 1);
    assert_int_equal(rig.intake->flight.parked_count, 1);
    assert_int_equal(rig.intake->admission.stats.duplicates, 1);
    end_ticket_of(&rig, 0, "a");
    mr_admission_retry_parked(&rig.intake->admission, &rig.now);
    assert_int_equal(ticket_of(&rig, 0, "a")->offset, 2);
    end_ticket_of(&rig, 0, "a");
    assert_int_equal(rig.intake->flight.count, 0);
    close_intake_rig(&rig);
}

static void by_option_at_most_sixteen_requests_of_an_id_wait(void **state)
{
    (void)state;
    struct intake_rig rig;
    char value[64];
    open_two_tenants(&rig);
    rig.config.duplicate_id = MR_DUPLICATE_ID_RUN;
    for (int i = 0; i <= (int)MR_FLIGHT_SAME_ID_MAX; i++) {
        snprintf(value, sizeof value, VALUE("a", "%d"), i);
        arrive_in(&rig, 0, i, value, NULL);
    }
    assert_int_equal(rig.intake->flight.parked_count, MR_FLIGHT_SAME_ID_MAX);
    arrive_in(&rig, 0, 17, VALUE("a", "more"), NULL);
    assert_int_equal(rig.intake->flight.held_count, 1);
    arrive_in(&rig, 0, 18, VALUE("b", "other"), NULL); /* another id, another tenant */
    arrive_in(&rig, 1, 0, VALUE("a", "more"), NULL);
    assert_int_equal(mr_ticket_table_count(rig.intake->flight.submitted), 3);
    end_ticket_of(&rig, 0, "a");
    mr_admission_retry_parked(&rig.intake->admission, &rig.now);
    arrive_in(&rig, 0, 19, VALUE("a", "later"), NULL);
    assert_int_equal(rig.intake->flight.parked_count, MR_FLIGHT_SAME_ID_MAX);
    for (int i = 0; i <= (int)MR_FLIGHT_SAME_ID_MAX; i++) {
        assert_null(mr_mailbox_take(rig.publish));
        end_ticket_of(&rig, 0, "a");
        mr_admission_retry_parked(&rig.intake->admission, &rig.now);
    }
    assert_duplicate(&rig, 17, NULL); /* after the last request of its id */
    close_intake_rig(&rig);
}

static void by_option_a_request_sent_again_is_not_one_too_many(void **state)
{
    (void)state;
    struct intake_rig rig;
    char value[64];
    open_two_tenants(&rig);
    rig.config.duplicate_id = MR_DUPLICATE_ID_RUN;
    const int count = (int)MR_FLIGHT_SAME_ID_MAX + 1;
    for (int i = 0; i < 2 * count; i++) { /* each request, and then each again */
        snprintf(value, sizeof value, VALUE("a", "%d"), i % count);
        arrive_in(&rig, 0, i, value, NULL);
    }
    assert_int_equal(rig.intake->admission.stats.refused, 0);
    for (int i = 0; i < count; i++) {
        assert_int_equal(ticket_of(&rig, 0, "a")->offset, i);
        assert_int_equal(rig.intake->admission.stats.duplicates, i + 1);
        end_ticket_of(&rig, 0, "a");
        mr_admission_retry_parked(&rig.intake->admission, &rig.now);
    }
    assert_int_equal(rig.intake->flight.count, 0);
    close_intake_rig(&rig);
}

/* More than MR_FLIGHT_PARKED_MAX. */
static void by_option_copies_of_a_waiting_request_leave_room_for_other_tenants(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_two_tenants(&rig);
    rig.config.duplicate_id = MR_DUPLICATE_ID_RUN;
    arrive_in(&rig, 0, 0, VALUE("a", "one"), NULL);
    for (int64_t offset = 1; offset <= 301; offset++) {
        arrive_in(&rig, 0, offset, VALUE("a", "two"), NULL);
        mr_admission_retry_parked(&rig.intake->admission, &rig.now);
        assert_false(mr_flight_is_full(&rig.intake->flight));
    }
    assert_int_equal(rig.intake->flight.parked_count, 301);
    assert_int_equal(rig.intake->flight.parked_uncounted, 300);
    arrive_in(&rig, 1, 0, VALUE("a", "three"), NULL);
    assert_non_null(ticket_of(&rig, 1, "a"));
    end_ticket_of(&rig, 0, "a");
    mr_admission_retry_parked(&rig.intake->admission, &rig.now);
    assert_int_equal(ticket_of(&rig, 0, "a")->offset, 1);
    assert_int_equal(rig.intake->admission.stats.duplicates, 300);
    assert_int_equal(rig.intake->flight.parked_uncounted, 0);
    close_intake_rig(&rig);
}

/* Any number of copies of one request, or of refusals under its id, may be in a topic. */
static void copies_of_a_request_leave_places_for_other_tenants(void **state)
{
    struct intake_rig rig;
    int64_t offset = 0;
    const bool refused = *state != NULL;
    open_two_tenants(&rig);
    arrive_in(&rig, 0, offset++, VALUE("a", "one"), NULL);
    while (mr_admission_may_take(&rig.intake->admission, 0, 0)) {
        arrive_in(&rig, 0, offset++, refused ? VALUE("a", "two") : VALUE("a", "one"), NULL);
        assert_false(mr_flight_is_full(&rig.intake->flight));
    }
    assert_int_equal(offset, 1 + 1024);
    assert_true(mr_admission_may_take(&rig.intake->admission, 1, 0));
    arrive_in(&rig, 1, 0, VALUE("a", "another"), NULL);
    assert_non_null(ticket_of(&rig, 1, "a"));
    end_ticket_of(&rig, 0, "a");
    assert_true(mr_admission_may_take(&rig.intake->admission, 0, 0));
    struct mr_ticket *ticket;
    for (int64_t i = 1; refused && i < offset; i++) {
        assert_int_equal(take_refusal(&rig, &ticket, NULL), MR_DUPLICATE_ID);
        assert_int_equal(ticket->offset, i);
        mr_admission_done(&rig.intake->admission, answered(ticket));
    }
    assert_int_equal(rig.intake->flight.waiting[0].count, 0);
    assert_int_equal(rig.intake->flight.waiting[0].bytes, 0);
    close_intake_rig(&rig);
}

/* A deadline, and the topic's limit on waiting. */
static void a_deadline_ends_the_wait_for_another_request(void **state)
{
    (void)state;
    struct intake_rig rig;
    struct mr_ticket *ticket = NULL;
    char value[128];
    open_two_tenants(&rig);
    rig.config.duplicate_id = MR_DUPLICATE_ID_RUN;
    arrive_in(&rig, 0, 0, VALUE("a", "one"), NULL);
    snprintf(value, sizeof value, "{\"id\":\"a\",\"prompt\":\"two\",\"deadline_ms\":%lld}",
             (long long)rig.now.unix_ms + 1000);
    arrive_in(&rig, 0, 1, value, NULL);
    rig.config.request_topics[0].queue_limit_ns = 2000000000u;
    arrive_in(&rig, 0, 2, VALUE("a", "three"), NULL);
    mr_admission_retry_parked(&rig.intake->admission, &rig.now);
    assert_int_equal(rig.intake->flight.parked_count, 2);
    for (uint32_t i = 1; i < 3; i++) {
        pass_ms(&rig, 1000);
        mr_admission_retry_parked(&rig.intake->admission, &rig.now);
        assert_int_equal(rig.intake->flight.held_count, i);
    }
    assert_int_equal(rig.intake->flight.parked_count, 0);
    end_ticket_of(&rig, 0, "a");
    for (int64_t offset = 1; offset < 3; offset++) {
        assert_int_equal(take_refusal(&rig, &ticket, NULL), MR_DEADLINE_EXCEEDED);
        assert_int_equal(ticket->offset, offset);
        mr_admission_done(&rig.intake->admission, answered(ticket));
    }
    close_intake_rig(&rig);
}

int main(void)
{
    static int refusals; /* its reply address requests refusals instead of copies */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_request_under_an_id_in_flight_is_answered_by_itself),
        cmocka_unit_test(a_refusal_waits_for_the_result_of_the_request_with_its_id),
        cmocka_unit_test(held_refusals_end_without_an_answer_when_the_worker_ends),
        cmocka_unit_test(the_same_request_again_is_answered_with_the_first),
        cmocka_unit_test(what_waited_for_a_dropped_request_is_run),
        cmocka_unit_test(an_id_of_another_tenant_is_another_request),
        cmocka_unit_test(the_id_of_an_ended_request_is_remembered_with_its_digest),
        cmocka_unit_test(a_refused_request_leaves_its_id_free),
        cmocka_unit_test(by_option_another_request_runs_after_the_first),
        cmocka_unit_test(by_option_at_most_sixteen_requests_of_an_id_wait),
        cmocka_unit_test(by_option_a_request_sent_again_is_not_one_too_many),
        cmocka_unit_test(by_option_copies_of_a_waiting_request_leave_room_for_other_tenants),
        cmocka_unit_test(copies_of_a_request_leave_places_for_other_tenants),
        cmocka_unit_test_prestate(copies_of_a_request_leave_places_for_other_tenants, &refusals),
        cmocka_unit_test(a_deadline_ends_the_wait_for_another_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
