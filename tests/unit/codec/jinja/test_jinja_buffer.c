#include "codec/jinja/jinja_buffer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void marks_stay_with_their_bytes(void **state)
{
    (void)state;
    struct mr_jinja_run run = {.arena = mr_arena_create(1 << 16)};
    struct mr_jinja_buffer buffer = {0};
    struct mr_text message = {"mine", 4};
    mr_jinja_append(&run, &buffer, mr_jinja_literal("ours"));
    mr_jinja_append(&run, &buffer, mr_jinja_text(&run, message, true));
    struct mr_jinja_value cut = mr_jinja_slice_bytes(mr_jinja_buffer_text(&buffer), 3, 6);
    assert_memory_equal(cut.text.bytes, "smi", 3);
    assert_memory_equal(cut.text.marks, "\0\1\1", 3);
    mr_arena_destroy(run.arena);
}

static void texts_of_a_buffer_stay_when_it_grows(void **state)
{
    (void)state;
    struct mr_jinja_run run = {.arena = mr_arena_create(1 << 20)};
    struct mr_jinja_buffer buffer = {0};
    mr_jinja_append_bytes(&run, &buffer, "start", 5, true);
    struct mr_jinja_value text = mr_jinja_buffer_text(&buffer);
    for (int i = 0; i < 1000; i++)
        mr_jinja_append_bytes(&run, &buffer, "more", 4, false);
    assert_memory_equal(text.text.bytes, "start", 5);
    assert_int_equal(buffer.length, 4005);
    assert_memory_equal(buffer.marks, "\1\1\1\1\1\0", 6);
    mr_arena_destroy(run.arena);
}

static void an_empty_buffer_is_an_empty_text(void **state)
{
    (void)state;
    struct mr_jinja_buffer buffer = {0};
    assert_int_equal(mr_jinja_buffer_text(&buffer).text.length, 0);
    assert_non_null(mr_jinja_buffer_text(&buffer).text.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_stay_with_their_bytes),
        cmocka_unit_test(texts_of_a_buffer_stay_when_it_grows),
        cmocka_unit_test(an_empty_buffer_is_an_empty_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
