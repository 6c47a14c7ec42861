#include "codec/hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Test vectors published with the function. */
static void hashes_are_those_of_fnv_1a(void **state)
{
    (void)state;
    assert_true(mr_hash_bytes(MR_HASH_START, "", 0) == 0xcbf29ce484222325u);
    assert_true(mr_hash_bytes(MR_HASH_START, "a", 1) == 0xaf63dc4c8601ec8cu);
    assert_true(mr_hash_bytes(MR_HASH_START, "foobar", 6) == 0x85944171f73967e8u);
}

static void a_hash_continues_from_the_bytes_before(void **state)
{
    (void)state;
    uint64_t foo = mr_hash_bytes(MR_HASH_START, "foo", 3);
    assert_true(mr_hash_bytes(foo, "bar", 3) == mr_hash_bytes(MR_HASH_START, "foobar", 6));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hashes_are_those_of_fnv_1a),
        cmocka_unit_test(a_hash_continues_from_the_bytes_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
