#include "worker/publish/writer.h"

#include "tests/unit/worker/counters.h"
#include "tests/unit/worker/stepping.h"

/* Tests the writer through the publish step. */

static void records_that_find_no_room_are_produced_in_order_when_there_is_some(void **state)
{
    (void)state;
    struct stepping rig;
    struct mr_ticket ticket;
    open_stepping(&rig, NULL);
    make_ticket(&ticket, "a");
    rig.producer.room = 2;
    rig.producer.holding = true;
    for (uint32_t i = 0; i < 5; i++)
        post_token(&rig, &ticket, i);
    assert_int_equal(step_publish(&rig),
                     100 * MS); /* no room: try again after 100 ms, or when a report comes */
    assert_int_equal(rig.producer.count, 2);
    post_token(&rig, &ticket, 5);
    step_publish(&rig);
    assert_int_equal(mr_mailbox_count(mr_publish_mailbox(rig.publish)),
                     1); /* stays in the mailbox */
    rig.producer.holding = false;
    for (int i = 0; i < 3; i++)
        step_publish(&rig);
    assert_int_equal(rig.producer.count, 6);
    for (uint32_t i = 0; i < 6; i++) {
        char index[32];
        snprintf(index, sizeof index, "\"index\":%u,", i);
        assert_non_null(memmem(rig.producer.records[i].value, rig.producer.records[i].length, index,
                               strlen(index)));
    }
    step_publish(&rig);
    assert_int_equal(ticket.publish.tokens_pending, 0);
    close_stepping(&rig);
}

static void a_terminal_record_without_room_is_written_later(void **state)
{
    (void)state;
    struct stepping rig;
    struct mr_ticket tickets[2];
    open_stepping(&rig, NULL);
    make_ticket(&tickets[0], "a");
    make_ticket(&tickets[1], "b");
    rig.producer.room = 1;
    rig.producer.holding = true;
    post_result(&rig, &tickets[0]);
    post_result(&rig, &tickets[1]);
    assert_int_equal(step_publish(&rig), 100 * MS);
    assert_int_equal(fake_count(&rig.producer, "results"), 1);
    rig.producer.holding = false;
    step_publish(&rig);
    expect_done(&rig, 1);
    step_publish(&rig);
    expect_done(&rig, 1);
    assert_int_equal(fake_count(&rig.producer, "results"), 2);
    close_stepping(&rig);
}

static void a_refused_record_is_produced_again_twice_a_second(void **state)
{
    (void)state;
    struct stepping rig;
    struct mr_ticket ticket;
    open_stepping(&rig, NULL);
    make_ticket(&ticket, "a");
    rig.producer.outcome = MR_AGAIN;
    post_result(&rig, &ticket);
    step_publish(&rig);
    step_publish(&rig); /* refused, and produced again at once */
    assert_int_equal(fake_count(&rig.producer, "results"), 2);
    uint64_t pause_ns = step_publish(&rig);
    assert_int_equal(fake_count(&rig.producer, "results"), 2);
    assert_int_equal(pause_ns, 500 * MS);
    rig.producer.outcome = MR_OK;
    step_to(&rig, rig.now.ns + pause_ns);
    step_publish(&rig);
    assert_int_equal(fake_count(&rig.producer, "results"), 3);
    step_publish(&rig);
    expect_done(&rig, 1);
    assert_int_equal(mr_publish_stats(rig.publish).resent, 2);
    assert_counter(rig.metrics, "result_produce_errors", 2);
    close_stepping(&rig);
}

static void a_refused_record_obeys_the_gate_again(void **state)
{
    (void)state;
    struct stepping rig;
    struct mr_ticket ticket;
    struct mr_write_gate gate;
    open_stepping(&rig, NULL);
    make_gated_ticket(&ticket, "a", &gate, true);
    rig.producer.outcome = MR_AGAIN;
    post_result(&rig, &ticket);
    step_publish(&rig);
    mr_write_gate_set(&gate, 1, false);
    step_publish(&rig);
    assert_int_equal(mr_write_gate_unacknowledged(&gate), 1);
    mr_write_gate_set(&gate, 2, true); /* the partition was revoked and assigned again */
    step_to(&rig, rig.now.ns + 500 * MS);
    step_publish(&rig);
    expect_done(&rig, 1);
    assert_int_equal(fake_count(&rig.producer, "results"), 1);
    assert_int_equal(mr_write_gate_unacknowledged(&gate), 0);
    close_stepping(&rig);
}

/* The partition is assigned again, which ends the ownership in which the request was taken. */
static void assign_anew(struct mr_write_gate *gate)
{
    mr_write_gate_set(gate, 2, true);
}

static void no_record_is_produced_for_a_partition_that_went_while_it_waited_for_room(void **state)
{
    (void)state;
    struct stepping rig;
    struct mr_ticket tickets[2];
    struct mr_write_gate gates[2];
    open_stepping(&rig, NULL);
    make_gated_ticket(&tickets[0], "a", &gates[0], true);
    make_gated_ticket(&tickets[1], "b", &gates[1], true);
    rig.producer.room = 1;
    rig.producer.holding = true;
    post_result(&rig, &tickets[0]);
    post_result(&rig, &tickets[1]);
    step_publish(&rig); /* one of the two is produced */
    assign_anew(&gates[0]);
    assign_anew(&gates[1]);
    rig.producer.holding = false;
    step_publish(&rig);
    step_publish(&rig);
    expect_done(&rig, 2);
    assert_int_equal(rig.producer.count, 1);
    assert_true(tickets[0].dropped != tickets[1].dropped);
    assert_int_equal(mr_write_gate_unacknowledged(&gates[0]), 0);
    assert_int_equal(mr_write_gate_unacknowledged(&gates[1]), 0);
    close_stepping(&rig);
}

static void no_result_follows_a_reply_of_a_partition_that_went(void **state)
{
    (void)state;
    const enum mr_status outcomes[] = {MR_OK, MR_AGAIN};
    for (size_t i = 0; i < 2; i++) {
        struct stepping rig;
        struct mr_ticket ticket;
        struct mr_write_gate gate;
        open_stepping(&rig, NULL);
        make_gated_ticket(&ticket, "a", &gate, true);
        ticket.reply_topic = "replies";
        rig.producer.outcome = outcomes[i];
        rig.producer.holding = true;
        post_result(&rig, &ticket);
        step_publish(&rig);
        assert_int_equal(fake_count(&rig.producer, "replies"), 1);
        assign_anew(&gate);
        rig.producer.holding = false;
        for (int k = 0; k < 3; k++) {
            step_to(&rig, rig.now.ns + 500 * MS);
            step_publish(&rig);
        }
        expect_done(&rig, 1);
        assert_int_equal(rig.producer.count, 1);
        assert_int_equal(mr_write_gate_unacknowledged(&gate), 0);
        close_stepping(&rig);
    }
}

static void a_begun_request_ends_while_its_revocation_waits_and_not_after(void **state)
{
    (void)state;
    for (int late = 0; late < 2; late++) {
        struct stepping rig;
        struct mr_ticket ticket;
        struct mr_write_gate gate;
        open_stepping(&rig, NULL);
        make_gated_ticket(&ticket, "a", &gate, true);
        ticket.reply_topic = "replies";
        rig.producer.holding = true;
        post_result(&rig, &ticket);
        step_publish(&rig);
        mr_write_gate_finish(&gate, 1); /* the partition is being revoked */
        if (late) mr_write_gate_set(&gate, 1, false);
        rig.producer.holding = false;
        step_publish(&rig);
        assert_int_equal(fake_count(&rig.producer, "results"), late ? 0 : 1);
        assert_int_equal(mr_write_gate_unacknowledged(&gate), 1);
        mr_write_gate_set(&gate, 1, true); /* it stayed with this worker */
        for (int k = 0; k < 3; k++) {
            step_to(&rig, rig.now.ns + 500 * MS);
            step_publish(&rig);
        }
        expect_done(&rig, 1);
        assert_int_equal(fake_count(&rig.producer, "results"), 1);
        close_stepping(&rig);
    }
}

static void draining_does_not_wait_for_a_begun_request_that_is_held(void **state)
{
    (void)state;
    struct stepping rig;
    struct mr_ticket ticket;
    struct mr_write_gate gate;
    open_stepping(&rig, NULL);
    make_gated_ticket(&ticket, "a", &gate, true);
    ticket.reply_topic = "replies";
    rig.producer.holding = true;
    post_result(&rig, &ticket);
    step_publish(&rig);
    mr_write_gate_set(&gate, 1, false);
    rig.producer.holding = false;
    mr_publish_drain(rig.publish, rig.now.ns + 50 * MS);
    step_publish(&rig);
    assert_true(mr_publish_is_drained(rig.publish));
    assert_int_equal(fake_count(&rig.producer, "results"), 0);
    assert_false(close_stepping(&rig));
    mr_mail_free(ticket.publish.terminal);
}

static void a_result_that_is_too_large_is_written_without_its_text(void **state)
{
    (void)state;
    struct stepping rig;
    struct mr_ticket ticket;
    open_stepping(&rig, NULL);
    make_ticket(&ticket, "a");
    post_result(&rig, &ticket);
    rig.producer.outcome = MR_RECORD_TOO_LARGE; /* the status of the delivery report */
    step_publish(&rig);
    step_publish(&rig);
    rig.producer.outcome = MR_OK;
    step_publish(&rig);
    expect_done(&rig, 1);
    const struct fake_record *record = &rig.producer.records[rig.producer.count - 1];
    assert_non_null(memmem(record->value, record->length, "record_too_large", 16));
    assert_null(memmem(record->value, record->length, "the answer", 10));
    close_stepping(&rig);
}

static void a_record_that_is_too_large_even_without_text_fails_the_worker_once(void **state)
{
    (void)state;
    struct stepping rig;
    struct mr_ticket ticket;
    open_stepping(&rig, NULL);
    make_ticket(&ticket, "a");
    rig.producer.bytes_max = 4;
    post_token(&rig, &ticket, 0);
    post_result(&rig, &ticket);
    rig.producer.fatal = MR_BACKEND;
    step_publish(&rig);
    assert_int_equal(rig.failures, 1);
    struct mr_publish_stats stats = mr_publish_stats(rig.publish);
    assert_int_equal(stats.tokens_lost, 1);
    assert_int_equal(stats.terminal.results, 0);
    close_stepping(&rig);
    mr_mail_free(ticket.publish.terminal);
}

static void a_reply_waits_until_its_topic_was_looked_up(void **state)
{
    (void)state;
    struct stepping rig;
    struct mr_ticket tickets[2];
    open_stepping(&rig, NULL);
    for (int i = 0; i < 2; i++) {
        make_ticket(&tickets[i], i == 0 ? "a" : "b");
        tickets[i].reply_topic = "replies";
    }
    rig.producer.partitions = MR_UNREACHABLE; /* the metadata request timed out */
    post_result(&rig, &tickets[0]);
    post_result(&rig, &tickets[1]);
    step_publish(&rig);
    step_publish(&rig);
    assert_int_equal(rig.producer.count, 0);
    rig.producer.partitions = MR_OK;
    for (int i = 0; i < 3; i++)
        step_publish(&rig);
    expect_done(&rig, 2);
    assert_int_equal(fake_count(&rig.producer, "replies"), 2);
    assert_int_equal(fake_count(&rig.producer, "results"), 2);
    post_result(&rig, &tickets[0]);
    rig.producer.partition_count = 0; /* the topic was deleted */
    step_publish(&rig);
    step_publish(&rig);
    expect_done(&rig, 1);
    assert_int_equal(fake_count(&rig.producer, "replies"), 2);
    close_stepping(&rig);
}

/* A record that is not a valid request, without a key. */
static struct mr_mail *refusal_mail(struct mr_ticket *ticket, bool write_result)
{
    static const struct mr_kafka_record record = {.topic = "r", .value = {"bad", 3}};
    struct mr_refusal_mail *mail = mr_refusal_mail_create(ticket, &record, (struct mr_text){0});
    mail->write_result = write_result;
    mail->finish = MR_FINISH_REJECTED;
    mr_fail(&mail->error, MR_MALFORMED, "no request");
    return &mail->mail;
}

static void a_reply_holds_its_result_back_for_a_while_and_not_for_ever(void **state)
{
    (void)state;
    for (int refused = 0; refused < 2; refused++) {
        struct stepping rig;
        struct mr_ticket ticket;
        open_stepping(&rig, NULL);
        make_ticket(&ticket, "a");
        ticket.reply_topic = "replies";
        if (refused) {
            rig.producer.refusing = "replies";
            rig.producer.refusal = MR_TIMEOUT;
        } else {
            rig.producer.partitions = MR_UNREACHABLE;
        }
        post_result(&rig, &ticket);
        step_publish(&rig);
        step_publish(&rig);
        step_to(&rig, rig.now.ns + MR_TERMINAL_REPLY_NS - 1);
        step_publish(&rig);
        step_publish(&rig);
        assert_int_equal(fake_count(&rig.producer, "results"), 0);
        step_to(&rig, rig.now.ns + 500 * MS);
        for (int i = 0; i < 3; i++)
            step_publish(&rig);
        expect_done(&rig, 1);
        assert_int_equal(fake_count(&rig.producer, "results"), 1);
        assert_int_equal(rig.failures, 0);
        close_stepping(&rig);
    }
}

static void a_dead_letter_without_a_key_gets_the_id_when_its_topic_wants_keys(void **state)
{
    (void)state;
    struct stepping rig;
    struct mr_ticket ticket;
    open_stepping(&rig, NULL);
    make_ticket(&ticket, "r/0/7");
    rig.producer.refusing = "dlq"; /* as a compacted topic does */
    rig.producer.refusal = MR_MALFORMED;
    rig.producer.wants_keys = true;
    post_mail(&rig, refusal_mail(&ticket, false));
    for (int i = 0; i < 4; i++)
        step_publish(&rig);
    expect_done(&rig, 1);
    assert_int_equal(fake_count(&rig.producer, "dlq"), 2);
    assert_false(rig.producer.records[0].has_key);
    assert_string_equal(rig.producer.records[1].key, "r/0/7");
    assert_int_equal(mr_publish_stats(rig.publish).terminal.dead_letters, 1);
    close_stepping(&rig);
}

static void a_dead_letter_refused_for_good_is_lost_and_the_result_says_so(void **state)
{
    (void)state;
    struct stepping rig;
    struct mr_ticket ticket;
    static const char said[] = "no request; the record could not be written to the dead-letter";
    open_stepping(&rig, NULL);
    make_ticket(&ticket, "a");
    rig.producer.refusing = "dlq";
    rig.producer.refusal = MR_BAD_CONFIG;
    post_mail(&rig, refusal_mail(&ticket, true));
    for (int i = 0; i < 6; i++)
        step_publish(&rig);
    expect_done(&rig, 1);
    assert_int_equal(fake_count(&rig.producer, "results"), 1);
    const struct fake_record *record = &rig.producer.records[rig.producer.count - 1];
    assert_non_null(memmem(record->value, record->length, said, sizeof said - 1));
    assert_int_equal(rig.failures, 0);
    assert_string_equal(mr_publish_stats(rig.publish).refused_topic, "dlq");
    rig.producer.refusing = NULL; /* the right was granted */
    post_mail(&rig, refusal_mail(&ticket, true));
    for (int i = 0; i < 4; i++)
        step_publish(&rig);
    expect_done(&rig, 1);
    assert_null(mr_publish_stats(rig.publish).refused_topic);
    close_stepping(&rig);
}

static void a_reply_refused_for_good_does_not_keep_its_result(void **state)
{
    (void)state;
    struct stepping rig;
    struct mr_ticket ticket;
    open_stepping(&rig, NULL);
    make_ticket(&ticket, "a");
    ticket.reply_topic = "replies";
    rig.producer.refusing = "replies";
    rig.producer.refusal = MR_BAD_CONFIG; /* as for a worker that may not write there */
    post_result(&rig, &ticket);
    for (int i = 0; i < 3; i++)
        step_publish(&rig);
    expect_done(&rig, 1);
    assert_int_equal(fake_count(&rig.producer, "replies"), 1);
    assert_int_equal(fake_count(&rig.producer, "results"), 1);
    assert_int_equal(rig.failures, 0);
    close_stepping(&rig);
}

static void a_result_refused_for_good_fails_the_worker(void **state)
{
    (void)state;
    struct stepping rig;
    struct mr_ticket ticket;
    open_stepping(&rig, NULL);
    make_ticket(&ticket, "a");
    rig.producer.outcome = MR_MALFORMED;
    post_result(&rig, &ticket);
    step_publish(&rig);
    step_publish(&rig);
    expect_done(&rig, 0);
    assert_int_equal(fake_count(&rig.producer, "results"), 1);
    assert_int_equal(rig.failures, 1);
    close_stepping(&rig);
    mr_mail_free(ticket.publish.terminal);
}

static void token_records_for_a_reply_topic_wait_until_it_was_looked_up(void **state)
{
    (void)state;
    struct stepping rig;
    struct mr_ticket ticket;
    open_stepping(&rig, NULL);
    make_ticket(&ticket, "a");
    ticket.reply_topic = "replies";
    ticket.reply_partition = 0;
    ticket.reply_tokens = true;
    rig.producer.partitions = MR_AGAIN;
    post_token(&rig, &ticket, 0);
    post_token(&rig, &ticket, 1);
    step_publish(&rig);
    assert_int_equal(rig.producer.count, 0);
    rig.producer.partitions = MR_OK;
    rig.producer.partition_count = 1;
    step_publish(&rig);
    assert_int_equal(fake_count(&rig.producer, "replies"), 2);
    assert_int_equal(fake_count(&rig.producer, "tokens"), 0);
    post_result(&rig, &ticket);
    for (int i = 0; i < 3; i++)
        step_publish(&rig);
    expect_done(&rig, 1);
    assert_int_equal(fake_count(&rig.producer, "replies"), 3); /* the result follows its tokens */
    assert_counter(rig.metrics, "lost_token_records", 0);
    close_stepping(&rig);
}

/* Neither a topic that does not exist nor a lookup without an answer holds the token records of
 * other requests back. */
static void token_records_are_lost_when_their_reply_topic_is_not_found(void **state)
{
    (void)state;
    static const enum mr_status lookups[] = {MR_OK, MR_AGAIN};
    for (size_t i = 0; i < 2; i++) {
        struct stepping rig;
        struct mr_ticket tickets[2];
        open_stepping(&rig, NULL);
        make_ticket(&tickets[0], "a");
        make_ticket(&tickets[1], "b");
        tickets[0].reply_topic = "nowhere";
        tickets[0].reply_tokens = true;
        rig.producer.partitions = lookups[i];
        rig.producer.partition_count = 0;
        post_token(&rig, &tickets[0], 0);
        post_token(&rig, &tickets[1], 0);
        post_token(&rig, &tickets[0], 1);
        step_publish(&rig);
        step_to(&rig, rig.now.ns + 2000 * MS);
        step_publish(&rig);
        assert_int_equal(fake_count(&rig.producer, "nowhere"), 0);
        assert_int_equal(fake_count(&rig.producer, "tokens"), 1);
        assert_counter(rig.metrics, "lost_token_records", 2);
        step_publish(&rig);
        close_stepping(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_that_find_no_room_are_produced_in_order_when_there_is_some),
        cmocka_unit_test(a_terminal_record_without_room_is_written_later),
        cmocka_unit_test(a_refused_record_is_produced_again_twice_a_second),
        cmocka_unit_test(a_refused_record_obeys_the_gate_again),
        cmocka_unit_test(no_record_is_produced_for_a_partition_that_went_while_it_waited_for_room),
        cmocka_unit_test(no_result_follows_a_reply_of_a_partition_that_went),
        cmocka_unit_test(a_begun_request_ends_while_its_revocation_waits_and_not_after),
        cmocka_unit_test(draining_does_not_wait_for_a_begun_request_that_is_held),
        cmocka_unit_test(a_result_that_is_too_large_is_written_without_its_text),
        cmocka_unit_test(a_record_that_is_too_large_even_without_text_fails_the_worker_once),
        cmocka_unit_test(a_reply_waits_until_its_topic_was_looked_up),
        cmocka_unit_test(a_reply_holds_its_result_back_for_a_while_and_not_for_ever),
        cmocka_unit_test(a_dead_letter_without_a_key_gets_the_id_when_its_topic_wants_keys),
        cmocka_unit_test(a_dead_letter_refused_for_good_is_lost_and_the_result_says_so),
        cmocka_unit_test(a_reply_refused_for_good_does_not_keep_its_result),
        cmocka_unit_test(a_result_refused_for_good_fails_the_worker),
        cmocka_unit_test(token_records_for_a_reply_topic_wait_until_it_was_looked_up),
        cmocka_unit_test(token_records_are_lost_when_their_reply_topic_is_not_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
