#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kvcache/remote/key_memory.h"

#include <string.h>

static const unsigned char *key_of(uint32_t number)
{
    static unsigned char key[MR_HASH_BYTES];
    uint32_t spread = number * 2654435761u;
    memset(key, 0, sizeof key);
    memcpy(key, &spread, sizeof spread);
    memcpy(key + 8, &number, sizeof number);
    return key;
}

static void a_key_is_remembered_until_its_time_has_passed(void **state)
{
    struct mr_key_memory *memory;
    (void)state;
    assert_int_equal(mr_key_memory_create(&memory, 100, 50, NULL), MR_OK);
    assert_false(mr_key_memory_has(memory, key_of(1), 0));
    mr_key_memory_add(memory, key_of(1), 10);
    assert_true(mr_key_memory_has(memory, key_of(1), 59));
    assert_false(mr_key_memory_has(memory, key_of(1), 60));
    assert_false(mr_key_memory_has(memory, key_of(2), 10));
    mr_key_memory_add(memory, key_of(1), 30);
    assert_true(mr_key_memory_has(memory, key_of(1), 60));
    mr_key_memory_remove(memory, key_of(1));
    assert_false(mr_key_memory_has(memory, key_of(1), 31));
    mr_key_memory_add(memory, key_of(1), 30);
    mr_key_memory_clear(memory);
    assert_false(mr_key_memory_has(memory, key_of(1), 31));
    mr_key_memory_destroy(memory);
}

static void the_oldest_entry_of_a_full_bucket_is_replaced(void **state)
{
    struct mr_key_memory *memory;
    uint32_t kept = 0;
    (void)state;
    assert_int_equal(mr_key_memory_create(&memory, 64, 1000000, NULL), MR_OK);
    for (uint32_t i = 0; i < 10000; i++)
        mr_key_memory_add(memory, key_of(i), i);
    assert_true(mr_key_memory_has(memory, key_of(9999), 10000));
    for (uint32_t i = 0; i < 10000; i++)
        kept += mr_key_memory_has(memory, key_of(i), 10000);
    assert_true(kept > 32 && kept <= 64);
    mr_key_memory_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_remembered_until_its_time_has_passed),
        cmocka_unit_test(the_oldest_entry_of_a_full_bucket_is_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
