#include "kvcache/block_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct mr_block_tables *tables_of(uint32_t count, uint32_t blocks_max)
{
    struct mr_block_tables *tables = NULL;
    assert_int_equal(mr_block_tables_create(&tables, count, blocks_max, NULL), MR_OK);
    return tables;
}

static void take_fails_when_every_table_is_taken(void **state)
{
    (void)state;
    struct mr_block_tables *tables = tables_of(2, 3);
    struct mr_block_table *one = mr_block_tables_take(tables);
    struct mr_block_table *two = mr_block_tables_take(tables);
    assert_non_null(one);
    assert_non_null(two);
    assert_ptr_not_equal(one, two);
    assert_null(mr_block_tables_take(tables));
    mr_block_tables_drop(tables, one);
    assert_ptr_equal(mr_block_tables_take(tables), one);
    mr_block_tables_check(tables);
    mr_block_tables_destroy(tables);
}

static void tables_do_not_share_their_block_arrays(void **state)
{
    (void)state;
    struct mr_block_tables *tables = tables_of(3, 4);
    struct mr_block_table *out[3];
    for (uint32_t i = 0; i < 3; i++) {
        out[i] = mr_block_tables_take(tables);
        for (uint32_t j = 0; j < mr_block_tables_blocks_max(tables); j++)
            out[i]->blocks[j] = 10 * i + j;
    }
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t j = 0; j < 4; j++)
            assert_int_equal(out[i]->blocks[j], 10 * i + j);
    mr_block_tables_destroy(tables);
}

static void at_visits_the_taken_tables(void **state)
{
    (void)state;
    struct mr_block_tables *tables = tables_of(3, 1);
    struct mr_block_table *one = mr_block_tables_take(tables);
    struct mr_block_table *two = mr_block_tables_take(tables);
    struct mr_block_table *three = mr_block_tables_take(tables);
    mr_block_tables_drop(tables, two);
    const struct mr_block_table *seen[2] = {mr_block_tables_at(tables, 0),
                                            mr_block_tables_at(tables, 1)};
    assert_true((seen[0] == one && seen[1] == three) || (seen[0] == three && seen[1] == one));
    assert_null(mr_block_tables_at(tables, 2));
    mr_block_tables_check(tables);
    mr_block_tables_destroy(tables);
}

static void misuse_is_caught(void **state)
{
    (void)state;
    struct mr_block_tables *tables = tables_of(2, 1);
    struct mr_block_table *table = mr_block_tables_take(tables);
    table->block_count = 1;
    expect_assert_failure(mr_block_tables_drop(tables, table));
    table->block_count = 0;
    mr_block_tables_drop(tables, table);
    expect_assert_failure(mr_block_tables_drop(tables, table));
    mr_block_tables_check(tables);
    mr_block_tables_destroy(tables);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(take_fails_when_every_table_is_taken),
        cmocka_unit_test(tables_do_not_share_their_block_arrays),
        cmocka_unit_test(at_visits_the_taken_tables),
        cmocka_unit_test(misuse_is_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
