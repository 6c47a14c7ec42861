#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kvcache/remote/remote_queue_state.h"

#include <stdlib.h>
#include <string.h>

static void a_operation_has_one_slice_for_each_slice(void **state)
{
    static unsigned char bytes[2][12 << 20];
    struct mr_remote_value values[] = {
        {.key = {0xab}, .token_count = 256, .bytes = bytes[0], .length = sizeof bytes[0]},
        {.key = {0xcd}, .token_count = 9, .bytes = bytes[1], .length = 1000}};
    struct mr_remote_operation posted = {.id = 3, .values = values, .count = 2};
    struct mr_queued_operation_options options = {
        .kind = MR_REMOTE_LOAD, .posted = &posted, .now_ns = 1, .deadline_ns = 50};
    (void)state;
    struct mr_queued_operation *operation =
        mr_queued_operation_init(calloc(1, mr_queued_operation_bytes(&posted)), &options);
    uint32_t slices = mr_slices_of(values[0].length, 0).count;
    assert_true(slices > 1);
    assert_int_equal(operation->slice_count, slices + 1);
    assert_true(operation->open == operation->slice_count &&
                operation->untaken == operation->slice_count);
    assert_int_equal(operation->values[0].open, slices);
    assert_int_equal(operation->bytes, values[0].length + 1000);
    const struct mr_remote_slice *last = &operation->slices[slices];
    assert_true(last->value == 1 && last->step == MR_REMOTE_STEP_GET && last->deadline_ns == 50);
    assert_true(last->payload == bytes[1] && last->frame.length == 1000);
    assert_memory_equal(operation->slices[1].key, "mr1:ab00", 8);
    assert_memory_equal(operation->slices[1].key + operation->slices[1].key_length - 2, ":1", 2);
    size_t sum = 0;
    for (uint32_t i = 0; i < slices; i++) {
        assert_ptr_equal(operation->slices[i].payload, bytes[0] + sum);
        sum += operation->slices[i].frame.length;
    }
    assert_int_equal(sum, values[0].length);
    free(operation);
}

static void a_lookup_counts_up_to_the_first_gap(void **state)
{
    struct mr_queued_value values[] = {{.present = true}, {.present = false}, {.present = true}};
    struct mr_queued_operation operation = {
        .kind = MR_REMOTE_LOOKUP, .values = values, .value_count = 3};
    (void)state;
    assert_int_equal(mr_queued_operation_present(&operation), 1);
    operation.kind = MR_REMOTE_STORE;
    assert_int_equal(mr_queued_operation_present(&operation), 2);
}

static void lists_keep_their_order(void **state)
{
    struct mr_queued_operation operations[3] = {0};
    struct mr_queued_list list = {0};
    (void)state;
    for (int i = 0; i < 3; i++)
        mr_queued_list_push(&list, &operations[i]);
    mr_queued_list_remove(&list, &operations[1]);
    mr_queued_list_remove(&list, &operations[1]); /* not in the list */
    assert_ptr_equal(list.first, &operations[0]);
    assert_ptr_equal(list.last, &operations[2]);
    mr_queued_list_remove(&list, &operations[2]);
    mr_queued_list_remove(&list, &operations[0]);
    assert_true(list.first == NULL && list.last == NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_operation_has_one_slice_for_each_slice),
        cmocka_unit_test(a_lookup_counts_up_to_the_first_gap),
        cmocka_unit_test(lists_keep_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
