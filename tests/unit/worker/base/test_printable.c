#include "worker/base/printable.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void escaped(const char *text, size_t length, const char *kept, const char *want)
{
    char *out = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&out, &size);
    mr_print_escaped(file, (struct mr_text){text, length}, kept);
    fclose(file);
    assert_string_equal(out, want);
    free(out);
}

#define ESCAPED(text, kept, want) escaped(text, sizeof text - 1, kept, want)

static void control_characters_are_escaped(void **state)
{
    (void)state;
    ESCAPED("plain \xc3\xa9\xe2\x82\xac", "", "plain \xc3\xa9\xe2\x82\xac");
    ESCAPED("\x1b[2J\x07", "", "\\x1b[2J\\x07");
    ESCAPED("a\nb\tc\r", "", "a\\nb\\tc\\r");
    ESCAPED("a\nb\tc\r", "\n\t", "a\nb\tc\\r");
    ESCAPED("\0x", "\n", "\\x00x");
    ESCAPED("\x7f\xc2\x9b", "", "\\x7f\\u009b");
    ESCAPED("\x9b\xff", "", "\\x9b\\xff");
    ESCAPED("\xe2\x80\xae\xe2\x81\xa6", "", "\\u202e\\u2066");
}

static void json_stays_json(void **state)
{
    (void)state;
    static const char json[] = "{\"a\":\"\xc2\x9b \x7f \\u001b\"}";
    char *out = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&out, &size);
    mr_print_escaped_json(file, (struct mr_text){json, sizeof json - 1});
    fclose(file);
    assert_string_equal(out, "{\"a\":\"\\u009b \\u007f \\u001b\"}");
    free(out);
}

static void a_line_is_made_printable_in_place(void **state)
{
    (void)state;
    char text[] = "a\x1b"
                  "b\n\xc2\x9b"
                  "c\xff\xc3\xa9";
    mr_make_printable(text);
    assert_string_equal(text, "a?b???c?\xc3\xa9");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(control_characters_are_escaped),
        cmocka_unit_test(json_stays_json),
        cmocka_unit_test(a_line_is_made_printable_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
