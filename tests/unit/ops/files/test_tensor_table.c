#include "ops/files/tensor_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void add(struct mr_tensor_table *table, const char *name)
{
    mr_tensor_table_add(table)->name = (struct mr_text){name, strlen(name)};
}

static void tensors_are_found_by_their_whole_name(void **state)
{
    (void)state;
    struct mr_tensor_table table;
    assert_int_equal(mr_tensor_table_create(&table, 4, NULL), MR_OK);
    add(&table, "b.weight");
    add(&table, "a");
    add(&table, "a.weight");
    add(&table, "");
    assert_int_equal(mr_tensor_table_sort(&table, NULL), MR_OK);
    assert_int_equal(mr_tensor_table_find(&table, "a.weight")->name.length, 8);
    assert_int_equal(mr_tensor_table_find(&table, "a")->name.length, 1);
    assert_non_null(mr_tensor_table_find(&table, ""));
    assert_null(mr_tensor_table_find(&table, "a.w"));
    assert_null(mr_tensor_table_find(&table, "c"));
    expect_assert_failure(mr_tensor_table_add(&table));
    mr_tensor_table_destroy(&table);
    mr_tensor_table_destroy(&table);
}

static void a_name_twice_is_rejected(void **state)
{
    (void)state;
    struct mr_tensor_table table;
    struct mr_error err = {0};
    assert_int_equal(mr_tensor_table_create(&table, 3, NULL), MR_OK);
    add(&table, "twin");
    add(&table, "other");
    add(&table, "twin");
    assert_int_equal(mr_tensor_table_sort(&table, &err), MR_BAD_FILE);
    assert_non_null(strstr(err.detail, "twin"));
    mr_tensor_table_destroy(&table);
    assert_int_equal(mr_tensor_table_create(&table, MR_STORED_COUNT_MAX + 1, &err), MR_BAD_FILE);
}

static bool sizes(enum mr_storage storage, uint64_t rows, uint64_t width, uint64_t *bytes)
{
    struct mr_stored_tensor tensor = {.storage = storage, .dim_count = 2, .dims = {rows, width}};
    uint64_t numbers;
    return mr_stored_tensor_sizes(&tensor, &numbers, bytes);
}

static void sizes_are_checked_for_overflow_and_blocks(void **state)
{
    (void)state;
    uint64_t bytes;
    assert_true(sizes(MR_STORAGE_Q4_1, 3, 64, &bytes));
    assert_int_equal(bytes, 3 * 2 * 20);
    assert_true(sizes(MR_STORAGE_F16, 3, 5, &bytes));
    assert_int_equal(bytes, 30);
    assert_false(sizes(MR_STORAGE_Q4_1, 2, 48, &bytes));
    assert_false(sizes(MR_STORAGE_F32, 0, 4, &bytes));
    assert_false(sizes(MR_STORAGE_F32, UINT64_C(1) << 33, UINT64_C(1) << 33, &bytes));
    assert_false(sizes(MR_STORAGE_F32, UINT64_C(1) << 31, UINT64_C(1) << 31, &bytes));
    assert_false(sizes(MR_STORAGE_OTHER, 1, 1, &bytes));
}

static void rows_are_read_by_index(void **state)
{
    (void)state;
    const float numbers[] = {1, 2, 3, 4, 5, 6};
    struct mr_stored_tensor tensor = {.storage = MR_STORAGE_F32,
                                      .dim_count = 2,
                                      .dims = {3, 2},
                                      .bytes = (const unsigned char *)numbers,
                                      .size_bytes = sizeof numbers};
    float row[6];
    mr_stored_tensor_row(&tensor, 2, row);
    assert_true(row[0] == 5.0f && row[1] == 6.0f);
    expect_assert_failure(mr_stored_tensor_row(&tensor, 3, row));
    tensor.dim_count = 1;
    tensor.dims[0] = 6;
    mr_stored_tensor_row(&tensor, 0, row);
    assert_memory_equal(row, numbers, sizeof numbers);
}

static void rows_of_experts_are_counted_over_all_of_them(void **state)
{
    (void)state;
    float numbers[2 * 3 * 4], row[4];
    for (uint32_t i = 0; i < 24; i++)
        numbers[i] = (float)i;
    struct mr_stored_tensor tensor = {.storage = MR_STORAGE_F32,
                                      .dim_count = 3,
                                      .dims = {2, 3, 4},
                                      .bytes = (const unsigned char *)numbers,
                                      .size_bytes = sizeof numbers};
    assert_int_equal(mr_stored_tensor_rows(&tensor), 6);
    mr_stored_tensor_row(&tensor, 1 * 3 + 2, row);
    assert_memory_equal(row, numbers + 20, sizeof row);
    expect_assert_failure(mr_stored_tensor_row(&tensor, 6, row));
    tensor.dim_count = 1;
    assert_int_equal(mr_stored_tensor_rows(&tensor), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_are_found_by_their_whole_name),
        cmocka_unit_test(a_name_twice_is_rejected),
        cmocka_unit_test(sizes_are_checked_for_overflow_and_blocks),
        cmocka_unit_test(rows_are_read_by_index),
        cmocka_unit_test(rows_of_experts_are_counted_over_all_of_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
