#include "codec/buffer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void appended_bytes_are_in_the_buffer(void **state)
{
    (void)state;
    struct mr_buffer buffer;
    mr_buffer_init(&buffer, 4096);
    assert_int_equal(mr_buffer_text(&buffer).length, 0);
    assert_true(mr_buffer_append(&buffer, (struct mr_text){NULL, 0}));
    for (int i = 0; i < 1000; i++)
        assert_true(mr_buffer_append(&buffer, (struct mr_text){"abcd", 4}));
    struct mr_text text = mr_buffer_text(&buffer);
    assert_int_equal(text.length, 4000);
    assert_memory_equal(text.bytes + 3996, "abcd", 4);
    mr_buffer_clear(&buffer);
    assert_int_equal(mr_buffer_text(&buffer).length, 0);
    mr_buffer_drop(&buffer);
}

static void the_maximum_is_never_exceeded(void **state)
{
    (void)state;
    struct mr_buffer buffer;
    mr_buffer_init(&buffer, 10);
    assert_true(mr_buffer_append(&buffer, (struct mr_text){"12345678", 8}));
    assert_false(mr_buffer_append(&buffer, (struct mr_text){"123", 3}));
    assert_null(mr_buffer_reserve(&buffer, 3));
    assert_null(mr_buffer_reserve(&buffer, SIZE_MAX));
    assert_int_equal(buffer.length, 8);
    assert_int_equal(mr_buffer_error(&buffer, 3), MR_RECORD_TOO_LARGE);
    assert_int_equal(mr_buffer_error(&buffer, 2), MR_NOMEM);
    assert_true(mr_buffer_append(&buffer, (struct mr_text){"12", 2}));
    mr_buffer_drop(&buffer);
}

static void reserved_bytes_count_once_committed(void **state)
{
    (void)state;
    struct mr_buffer buffer;
    mr_buffer_init(&buffer, 1000);
    char *place = mr_buffer_reserve(&buffer, 5);
    memcpy(place, "abc", 3);
    assert_int_equal(mr_buffer_text(&buffer).length, 0);
    mr_buffer_commit(&buffer, 3);
    assert_memory_equal(mr_buffer_text(&buffer).bytes, "abc", 3);
    expect_assert_failure(mr_buffer_commit(&buffer, 1001));
    mr_buffer_drop(&buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appended_bytes_are_in_the_buffer),
        cmocka_unit_test(the_maximum_is_never_exceeded),
        cmocka_unit_test(reserved_bytes_count_once_committed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
