/* Values are copied from a document to JSON. */
#include "bodies.h"

#include "codec/openai/copy.h"

static void characters_that_readers_take_for_line_ends_are_escaped(void **state)
{
    (void)state;
    static const char text[] =
        "{\"a\":\"\xc2\x85.\xe2\x80\xa8.\xe2\x80\xa9.\xe2\x80\xaa.\xc2\x86\"}";
    struct mr_buffer out;
    mr_buffer_init(&out, 1 << 10);
    assert_true(mr_openai_append_line(&out, (struct mr_text){text, sizeof text - 1}));
    assert_true(mr_buffer_append(&out, (struct mr_text){"", 1}));
    assert_string_equal(out.bytes, "{\"a\":\"\\u0085.\\u2028.\\u2029.\xe2\x80\xaa.\xc2\x86\"}");
    mr_buffer_drop(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_that_readers_take_for_line_ends_are_escaped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
