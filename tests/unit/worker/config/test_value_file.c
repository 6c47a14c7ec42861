#include "worker/config/value_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char value[MR_VALUE_FILE_BYTES];
static size_t length;
static struct mr_error last;

static enum mr_status read_bytes(const char *bytes, size_t count)
{
    char path[] = "/tmp/millrace-value-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, count), (long)count);
    close(fd);
    last = (struct mr_error){0};
    enum mr_status status = mr_value_file_read(path, value, &length, &last);
    unlink(path);
    return status;
}

static void line_breaks_at_the_end_are_no_part_of_the_value(void **state)
{
    static const char *const files[] = {"two words", "two words\n", "two words\r\n\n"};
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        assert_int_equal(read_bytes(files[i], strlen(files[i])), MR_OK);
        assert_string_equal(value, "two words");
        assert_int_equal(length, 9);
    }
    assert_int_equal(read_bytes("", 0), MR_OK);
    assert_string_equal(value, "");
}

static void what_is_no_short_text_is_refused(void **state)
{
    static char large[MR_VALUE_FILE_BYTES];
    (void)state;
    memset(large, 'x', sizeof large);
    assert_int_equal(read_bytes("a\0b", 3), MR_BAD_CONFIG);
    assert_int_equal(read_bytes(large, sizeof large), MR_BAD_CONFIG);
    assert_int_equal(read_bytes(large, sizeof large - 1), MR_OK);
    assert_int_equal(length, sizeof large - 1);
    assert_int_equal(mr_value_file_read("/no/such/file", value, &length, &last), MR_BAD_CONFIG);
    assert_non_null(strstr(last.detail, "/no/such/file: No such file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(line_breaks_at_the_end_are_no_part_of_the_value),
        cmocka_unit_test(what_is_no_short_text_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
