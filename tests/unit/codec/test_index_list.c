#include "codec/index_list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define COUNT 5u

struct lists {
    struct mr_index_link links[COUNT];
    struct mr_index_list one, two;
};

static struct lists empty(void)
{
    return (struct lists){.one = MR_INDEX_LIST_EMPTY, .two = MR_INDEX_LIST_EMPTY};
}

static void expect(const struct lists *lists, const struct mr_index_list *list,
                   const uint32_t *indices, uint32_t count)
{
    uint32_t at = list->first;
    mr_index_list_check(list, lists->links);
    assert_int_equal(list->count, count);
    for (uint32_t i = 0; i < count; i++, at = lists->links[at].next)
        assert_int_equal(at, indices[i]);
    assert_int_equal(at, MR_INDEX_NONE);
}

static void appended_indexes_are_in_order(void **state)
{
    (void)state;
    struct lists lists = empty();
    for (uint32_t i = 0; i < COUNT; i++) /* two lists over the same links */
        mr_index_list_append(i % 2 == 0 ? &lists.one : &lists.two, lists.links, i);
    expect(&lists, &lists.one, (const uint32_t[]){0, 2, 4}, 3);
    expect(&lists, &lists.two, (const uint32_t[]){1, 3}, 2);
}

static void any_index_can_be_removed(void **state)
{
    (void)state;
    for (uint32_t gone = 0; gone < COUNT; gone++) {
        struct lists lists = empty();
        uint32_t left[COUNT], count = 0;
        for (uint32_t i = 0; i < COUNT; i++) {
            mr_index_list_append(&lists.one, lists.links, i);
            if (i != gone) left[count++] = i;
        }
        mr_index_list_remove(&lists.one, lists.links, gone);
        expect(&lists, &lists.one, left, count);
        mr_index_list_append(&lists.two, lists.links, gone);
        expect(&lists, &lists.two, &gone, 1);
        mr_index_list_remove(&lists.two, lists.links, gone);
        expect(&lists, &lists.two, NULL, 0);
    }
}

static void a_broken_list_fails_the_check(void **state)
{
    (void)state;
    struct lists lists = empty();
    mr_index_list_append(&lists.one, lists.links, 2);
    mr_index_list_append(&lists.one, lists.links, 1);
    lists.links[1].previous = 0;
    expect_assert_failure(mr_index_list_check(&lists.one, lists.links));
    lists.links[1].previous = 2;
    lists.one.count = 1;
    expect_assert_failure(mr_index_list_check(&lists.one, lists.links));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appended_indexes_are_in_order),
        cmocka_unit_test(any_index_can_be_removed),
        cmocka_unit_test(a_broken_list_fails_the_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
