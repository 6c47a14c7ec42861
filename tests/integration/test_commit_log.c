#include "tests/integration/verdict/commit_log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const char key[] = "\0\1\0\2gr\0\1t\0\0\0\3";
static const struct mr_text key_text = {key, sizeof key - 1};

static void a_commit_of_each_version_is_read(void **state)
{
    (void)state;
    static const char one[] = "\0\1\0\0\0\0\0\0\1\2\0\2ab\0\0\0\0\0\0\3\4\0\0\0\0\0\0\0\0";
    static const char three[] = "\0\3\0\0\0\0\0\0\1\2\0\0\0\7\0\2ab\0\0\0\0\0\0\3\4";
    static const char four[] = "\0\4\0\0\0\0\0\0\1\2\0\0\0\7\3ab\0\0\0\0\0\0\3\4\0";
    const struct mr_text values[] = {
        {one, sizeof one - 1}, {three, sizeof three - 1}, {four, sizeof four - 1}};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        struct commit_entry entry;
        assert_true(commit_log_decode(&entry, key_text, values[i]));
        assert_memory_equal(entry.group.bytes, "gr", entry.group.length);
        assert_memory_equal(entry.topic.bytes, "t", entry.topic.length);
        assert_int_equal(entry.partition, 3);
        assert_int_equal(entry.offset, 0x102);
        assert_int_equal(entry.metadata.length, 2);
        assert_memory_equal(entry.metadata.bytes, "ab", 2);
        assert_int_equal(entry.time_ms, 0x304);
    }
}

static void anything_else_is_passed_over(void **state)
{
    (void)state;
    static const char group[] = "\0\2\0\2gr";
    static const char value[] = "\0\3\0\0\0\0\0\0\1\2\0\0\0\7\0\2ab\0\0\0\0\0\0\3\4";
    static const char later[] = "\0\5\0\0";
    struct commit_entry entry;
    struct mr_text value_text = {value, sizeof value - 1};
    assert_false(commit_log_decode(&entry, (struct mr_text){group, sizeof group - 1}, value_text));
    assert_false(commit_log_decode(&entry, key_text, (struct mr_text){0})); /* a tombstone */
    assert_false(commit_log_decode(&entry, (struct mr_text){0}, value_text));
    assert_false(commit_log_decode(&entry, key_text, (struct mr_text){later, sizeof later - 1}));
    for (size_t length = 0; length < value_text.length; length++)
        assert_false(commit_log_decode(&entry, key_text, (struct mr_text){value, length}));
    for (size_t length = 0; length < key_text.length; length++)
        assert_false(commit_log_decode(&entry, (struct mr_text){key, length}, value_text));
    assert_true(commit_log_decode(&entry, key_text, value_text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_commit_of_each_version_is_read),
        cmocka_unit_test(anything_else_is_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
