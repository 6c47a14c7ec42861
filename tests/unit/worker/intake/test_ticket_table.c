#include "worker/intake/ticket_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <stdio.h>

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
    assert_ptr_equal(mr_ticket_table_find(table, 0, (struct mr_text){"id-17", 5}), &tickets[17]);
    assert_null(mr_ticket_table_find(table, 0, (struct mr_text){"id-1", 3}));
    assert_null(mr_ticket_table_find(table, 0, (struct mr_text){"", 0}));
    mr_ticket_table_each(table, remove_even, table);
    mr_ticket_table_check(table);
    assert_int_equal(mr_ticket_table_count(table), MANY / 2);
    assert_null(mr_ticket_table_find(table, 0, (struct mr_text){"id-18", 5}));
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
        cmocka_unit_test(tickets_are_found_by_id_until_they_are_removed),
        cmocka_unit_test(misuse_of_the_table_is_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
