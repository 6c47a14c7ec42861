#include "worker/ticket/ticket.h"

#include "worker/ticket/messages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct mr_ticket *ticket_of(const struct mr_ticket_answer *answer)
{
    const struct mr_kafka_record record = {.partition = 3, .offset = 41};
    struct mr_ticket *ticket = NULL;
    assert_int_equal(mr_ticket_create(&ticket, &record, answer, NULL), MR_OK);
    return ticket;
}

static void headers_to_echo_and_the_reply_address_are_copied(void **state)
{
    (void)state;
    char id[] = "corr\0elation", topic[] = "replies";
    const struct mr_kafka_header echo[] = {{"a", id, sizeof id - 1}, {"b", NULL, 0}};
    const struct mr_ticket_answer answer = {.reply_topic = {topic, sizeof topic - 1},
                                            .reply_partition = 2,
                                            .echo = echo,
                                            .echo_count = 2};
    struct mr_ticket *ticket = ticket_of(&answer);
    memset(id, '?', sizeof id);
    memset(topic, '?', sizeof topic);
    assert_int_equal(ticket->partition, 3);
    assert_int_equal(ticket->offset, 41);
    assert_int_equal(ticket->echo_count, 2);
    assert_string_equal(ticket->echo[0].name, "a");
    assert_int_equal(ticket->echo[0].length, sizeof id - 1);
    assert_memory_equal(ticket->echo[0].value, "corr\0elation", sizeof id - 1);
    assert_null(ticket->echo[1].value);
    assert_string_equal(ticket->reply_topic, "replies");
    assert_int_equal(ticket->reply_partition, 2);
    assert_false(atomic_load(&ticket->dropped));
    mr_ticket_destroy(ticket);
}

static void a_ticket_without_a_reply_topic_has_none(void **state)
{
    (void)state;
    struct mr_ticket *ticket = ticket_of(&(struct mr_ticket_answer){.reply_partition = -1});
    assert_null(ticket->reply_topic);
    assert_int_equal(ticket->reply_partition, -1);
    mr_ticket_destroy(ticket);
}

static void a_ticket_says_in_the_log_which_record_it_is(void **state)
{
    (void)state;
    struct mr_ticket *ticket = ticket_of(&(struct mr_ticket_answer){0});
    memcpy(ticket->id, "req", 4);
    ticket->topic = "r";
    const struct mr_log_place place = mr_ticket_log_place(ticket);
    assert_true(mr_text_is(place.req_id, "req"));
    assert_true(mr_text_is(place.topic, "r"));
    assert_int_equal(place.partition, 3);
    assert_int_equal(place.offset, 41);
    mr_ticket_destroy(ticket);
}

static void a_ticket_frees_the_ending_it_still_owns(void **state)
{
    (void)state;
    struct mr_ticket *ticket = ticket_of(&(struct mr_ticket_answer){0});
    struct mr_refusal_mail *mail = mr_refusal_mail_create(ticket, NULL, (struct mr_text){"{}", 2});
    assert_non_null(mail);
    ticket->publish.terminal = &mail->mail;
    assert_ptr_equal(MR_TICKET_OF(&ticket->starting, starting), ticket);
    assert_ptr_equal(MR_TICKET_OF(&ticket->done, done), ticket);
    mr_ticket_destroy(ticket); /* the leak checker looks */
    mr_ticket_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers_to_echo_and_the_reply_address_are_copied),
        cmocka_unit_test(a_ticket_without_a_reply_topic_has_none),
        cmocka_unit_test(a_ticket_says_in_the_log_which_record_it_is),
        cmocka_unit_test(a_ticket_frees_the_ending_it_still_owns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
