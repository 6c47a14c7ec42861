#include "ops/weights_digest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tiny_weights.h"

static struct tiny tiny;

static void digest(unsigned char out[32])
{
    assert_int_equal(mr_weights_digest(&tiny.config, &tiny.tensors, out, NULL), MR_OK);
}

static void assert_differs(const unsigned char before[32])
{
    unsigned char now[32];
    digest(now);
    assert_memory_not_equal(now, before, 32);
}

static void the_same_model_has_the_same_digest(void **state)
{
    (void)state;
    unsigned char one[32], two[32];
    digest(one);
    digest(two);
    assert_memory_equal(one, two, 32);
}

static void every_difference_changes_the_digest(void **state)
{
    (void)state;
    unsigned char before[32];
    digest(before);
    struct mr_stored_tensor *entry = &tiny.tensors.entries[3];
    uint64_t rows = entry->dims[0];
    entry->dims[0] = rows + 1;
    assert_differs(before);
    entry->dims[0] = rows;
    entry->storage = MR_STORAGE_BF16;
    assert_differs(before);
    entry->storage = MR_STORAGE_F32;
    entry->name.length--;
    assert_differs(before);
    entry->name.length++;
    tiny.numbers[3][0] += 1.0f;
    assert_differs(before);
    tiny.numbers[3][0] -= 1.0f;
    tiny.config.rope.theta += 1.0;
    assert_differs(before);
    tiny.config.rope.theta -= 1.0;
    tiny.config.windowed[1] = true;
    assert_differs(before);
    tiny.config.windowed[1] = false;
    tiny.tensors.count--;
    assert_differs(before);
    tiny.tensors.count++;
}

static void the_first_and_last_bytes_of_a_large_tensor_change_the_digest(void **state)
{
    (void)state;
    static unsigned char large[100000];
    struct mr_stored_tensor *entry = &tiny.tensors.entries[0], kept = *entry;
    unsigned char before[32];
    entry->bytes = large;
    entry->size_bytes = sizeof large;
    digest(before);
    large[sizeof large - 1] = 1;
    assert_differs(before);
    large[sizeof large - 1] = 0;
    large[0] = 1;
    assert_differs(before);
    large[0] = 0;
    *entry = kept;
}

static int open_tiny(void **state)
{
    (void)state;
    tiny_open(&tiny);
    return 0;
}

static int close_tiny(void **state)
{
    (void)state;
    tiny_close(&tiny);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_model_has_the_same_digest),
        cmocka_unit_test(every_difference_changes_the_digest),
        cmocka_unit_test(the_first_and_last_bytes_of_a_large_tensor_change_the_digest),
    };
    return cmocka_run_group_tests(tests, open_tiny, close_tiny);
}
