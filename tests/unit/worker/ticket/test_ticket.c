#include "worker/ticket/ticket.h"

#include "worker/config/config.h"
#include "worker/ticket/messages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <stdio.h>

static struct mr_ticket *ticket_of(const struct mr_kafka_header *headers, size_t count,
                                   const struct mr_text_list *allowed)
{
    const struct mr_kafka_record record = {
        .partition = 3, .offset = 41, .headers = headers, .header_count = count};
    struct mr_ticket *ticket = NULL;
    assert_int_equal(mr_ticket_create(&ticket, &record, allowed, NULL), MR_OK);
    return ticket;
}

static const struct mr_text_list allowed = {{"replies", "team.*", ""}, 3};

static void headers_to_echo_are_copied_and_others_are_not(void **state)
{
    (void)state;
    char id[] = "corr\0elation";
    const struct mr_kafka_header headers[] = {{"kafka_correlationId", id, sizeof id - 1},
                                              {"content-type", "x", 1},
                                              {"tracestate", NULL, 0},
                                              {"baggage", "a=1", 3}};
    struct mr_ticket *ticket = ticket_of(headers, 4, NULL);
    memset(id, '?', sizeof id);
    assert_int_equal(ticket->partition, 3);
    assert_int_equal(ticket->offset, 41);
    assert_int_equal(ticket->echo_count, 3);
    assert_string_equal(ticket->echo[0].name, "kafka_correlationId");
    assert_int_equal(ticket->echo[0].length, sizeof id - 1);
    assert_memory_equal(ticket->echo[0].value, "corr\0elation", sizeof id - 1);
    assert_null(ticket->echo[1].value);
    assert_memory_equal(ticket->echo[2].value, "a=1", 3);
    assert_null(ticket->reply_topic);
    assert_int_equal(ticket->reply_partition, -1);
    assert_false(atomic_load(&ticket->dropped));
    mr_ticket_destroy(ticket);
}

static void a_cloud_event_s_trace_goes_back_under_the_common_names(void **state)
{
    (void)state;
    const struct mr_kafka_header headers[] = {
        {"ce_traceparent", "00-a", 4}, {"ce_tracestate", "x=1", 3}, {"tracestate", "y=2", 3}};
    struct mr_ticket *ticket = ticket_of(headers, 3, NULL);
    assert_int_equal(ticket->echo_count, 2);
    assert_string_equal(ticket->echo[0].name, "traceparent");
    assert_memory_equal(ticket->echo[0].value, "00-a", 4);
    assert_string_equal(ticket->echo[1].name, "tracestate");
    assert_memory_equal(ticket->echo[1].value, "y=2", 3); /* the plain header counts */
    mr_ticket_destroy(ticket);
}

/* The reply topic that the ticket takes from this header; "" for none. */
static void assert_reply(const char *asked, size_t length, const char *want)
{
    const struct mr_kafka_header header = {"kafka_replyTopic", asked, length};
    struct mr_ticket *ticket = ticket_of(&header, 1, &allowed);
    assert_string_equal(ticket->reply_topic ? ticket->reply_topic : "", want);
    mr_ticket_destroy(ticket);
}

static void a_reply_goes_only_where_the_operator_allows(void **state)
{
    (void)state;
    char longest[260] = "team.";
    memset(longest + 5, 'x', 250);
    assert_reply("replies", 7, "replies");
    assert_reply("team.blue", 9, "team.blue");
    assert_reply("replies2", 8, "");
    assert_reply("reply", 5, "");
    assert_reply("team", 4, "");
    assert_reply("", 0, "");
    assert_reply("team.\0x", 7, "");
    assert_reply(longest, 249, (longest[249] = '\0', longest));
    longest[249] = 'x';
    assert_reply(longest, 250, "");
    assert_reply(NULL, 0, "");
}

static void a_reply_partition_is_four_bytes_and_not_negative(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t length;
        int32_t want;
    } cases[] = {{"\0\0\1\2", 4, 258},
                 {"\xff\xff\xff\xff", 4, -1},
                 {"\x7f\xff\xff\xff", 4, INT32_MAX},
                 {"7", 1, -1},
                 {NULL, 0, -1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct mr_kafka_header header = {"kafka_replyPartition", cases[i].bytes,
                                               cases[i].length};
        struct mr_ticket *ticket = ticket_of(&header, 1, &allowed);
        assert_int_equal(ticket->reply_partition, cases[i].want);
        mr_ticket_destroy(ticket);
    }
}

static void a_ticket_frees_the_ending_it_still_owns(void **state)
{
    (void)state;
    struct mr_ticket *ticket = ticket_of(NULL, 0, NULL);
    struct mr_refusal_mail *mail = mr_refusal_mail_create(ticket, NULL, (struct mr_text){"{}", 2});
    assert_non_null(mail);
    ticket->publish.terminal = &mail->mail;
    assert_ptr_equal(MR_TICKET_OF(&ticket->started, started), ticket);
    assert_ptr_equal(MR_TICKET_OF(&ticket->done, done), ticket);
    mr_ticket_destroy(ticket); /* the leak checker looks */
    mr_ticket_destroy(NULL);
}

/* ---- the table ---- */

#define MANY 100u

static void remove_even(void *context, struct mr_ticket *ticket)
{
    struct mr_ticket_table *table = context;
    if (ticket->offset % 2 == 0) mr_ticket_table_remove(table, ticket);
}

static void tickets_are_found_by_id_until_they_are_removed(void **state)
{
    (void)state;
    struct mr_ticket_table *table = NULL;
    static struct mr_ticket tickets[MANY];
    assert_int_equal(mr_ticket_table_create(&table, MANY, NULL), MR_OK);
    for (uint32_t i = 0; i < MANY; i++) {
        snprintf(tickets[i].id, sizeof tickets[i].id, "id-%u", i);
        tickets[i].offset = i;
        mr_ticket_table_add(table, &tickets[i]);
        mr_ticket_table_check(table);
    }
    assert_int_equal(mr_ticket_table_count(table), MANY);
    assert_ptr_equal(mr_ticket_table_find(table, (struct mr_text){"id-17", 5}), &tickets[17]);
    assert_null(mr_ticket_table_find(table, (struct mr_text){"id-1", 3}));
    assert_null(mr_ticket_table_find(table, (struct mr_text){"", 0}));
    mr_ticket_table_each(table, remove_even, table);
    mr_ticket_table_check(table);
    assert_int_equal(mr_ticket_table_count(table), MANY / 2);
    assert_null(mr_ticket_table_find(table, (struct mr_text){"id-18", 5}));
    for (uint32_t i = 1; i < MANY; i += 2)
        mr_ticket_table_remove(table, &tickets[i]);
    mr_ticket_table_destroy(table);
}

static void misuse_of_the_table_is_caught(void **state)
{
    (void)state;
    struct mr_ticket_table *table = NULL;
    static struct mr_ticket one = {.id = "one"}, same = {.id = "one"}, two = {.id = "two"};
    assert_int_equal(mr_ticket_table_create(&table, 1, NULL), MR_OK);
    mr_ticket_table_add(table, &one);
    expect_assert_failure(mr_ticket_table_add(table, &two)); /* full */
    expect_assert_failure(mr_ticket_table_destroy(table));   /* not empty */
    mr_ticket_table_remove(table, &one);
    expect_assert_failure(mr_ticket_table_remove(table, &one));
    mr_ticket_table_destroy(table);
    assert_int_equal(mr_ticket_table_create(&table, 2, NULL), MR_OK);
    mr_ticket_table_add(table, &one);
    expect_assert_failure(mr_ticket_table_add(table, &same)); /* the id is there */
    mr_ticket_table_remove(table, &one);
    mr_ticket_table_destroy(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers_to_echo_are_copied_and_others_are_not),
        cmocka_unit_test(a_cloud_event_s_trace_goes_back_under_the_common_names),
        cmocka_unit_test(a_reply_goes_only_where_the_operator_allows),
        cmocka_unit_test(a_reply_partition_is_four_bytes_and_not_negative),
        cmocka_unit_test(a_ticket_frees_the_ending_it_still_owns),
        cmocka_unit_test(tickets_are_found_by_id_until_they_are_removed),
        cmocka_unit_test(misuse_of_the_table_is_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
