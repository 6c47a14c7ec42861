#include "worker/intake/oldest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MANY 100u

/* Adds requests in a mixed order of arrival: 37 and MANY have no common factor. */
static void only_the_oldest_requests_are_kept_oldest_first(void **state)
{
    (void)state;
    static struct mr_ticket tickets[MANY];
    struct mr_oldest oldest = {.count = 0};
    for (uint32_t i = 0; i < MANY; i++) {
        tickets[i].arrival_ns = i * 37 % MANY;
        snprintf(tickets[i].id, sizeof tickets[i].id, "id-%u", i * 37 % MANY);
        mr_oldest_add(&oldest, &tickets[i]);
    }
    assert_int_equal(oldest.count, MR_OLDEST_MAX);
    for (uint32_t i = 0; i < MR_OLDEST_MAX; i++) {
        char id[16];
        snprintf(id, sizeof id, "id-%u", i);
        assert_string_equal(oldest.requests[i].id, id);
    }
}

static void a_dropped_request_is_not_listed(void **state)
{
    (void)state;
    static struct mr_ticket dropped = {.id = "dropped"};
    struct mr_oldest oldest = {.count = 0};
    atomic_store(&dropped.dropped, true);
    mr_oldest_add(&oldest, &dropped);
    assert_int_equal(oldest.count, 0);
}

static void the_list_is_written_as_json_with_hostile_ids_escaped(void **state)
{
    (void)state;
    static struct mr_ticket one = {.id = "a\"\033[2J",
                                   .topic = "requests",
                                   .partition = 3,
                                   .offset = 17,
                                   .attempt = 1,
                                   .arrival_ns = 1000000000,
                                   .intake = {.submitted = true}};
    static struct mr_ticket two = {
        .id = "b", .tenant = "gold", .topic = "requests", .arrival_ns = 3000000000};
    struct mr_oldest oldest = {.count = 0};
    char *text = NULL;
    size_t length = 0;
    mr_oldest_add(&oldest, &two);
    mr_oldest_add(&oldest, &one);
    assert_int_equal(mr_oldest_write(&oldest, 3500000000, &text, &length, NULL), MR_OK);
    assert_int_equal(length, strlen(text));
    assert_string_equal(
        text, "[{\"id\":\"a\\\"\\u001b[2J\",\"tenant\":null,\"topic\":\"requests\",\"partition\":3,"
              "\"offset\":17,\"attempt\":1,\"state\":\"submitted\",\"seconds\":2.5},"
              "{\"id\":\"b\",\"tenant\":\"gold\",\"topic\":\"requests\",\"partition\":0,"
              "\"offset\":0,\"attempt\":0,\"state\":\"parked\",\"seconds\":0.5}]");
    free(text);
}

static void a_full_list_of_the_longest_ids_can_be_written(void **state)
{
    (void)state;
    static struct mr_ticket ticket = {.topic = "requests"};
    struct mr_oldest oldest = {.count = 0};
    char *text = NULL;
    size_t length = 0;
    memset(ticket.id, 1, MR_ID_BYTES_MAX); /* each byte is written as six */
    for (uint32_t i = 0; i < MR_OLDEST_MAX; i++)
        mr_oldest_add(&oldest, &ticket);
    assert_int_equal(mr_oldest_write(&oldest, 0, &text, &length, NULL), MR_OK);
    assert_true(length > (size_t)6 * MR_ID_BYTES_MAX * MR_OLDEST_MAX);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_oldest_requests_are_kept_oldest_first),
        cmocka_unit_test(a_dropped_request_is_not_listed),
        cmocka_unit_test(the_list_is_written_as_json_with_hostile_ids_escaped),
        cmocka_unit_test(a_full_list_of_the_longest_ids_can_be_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
