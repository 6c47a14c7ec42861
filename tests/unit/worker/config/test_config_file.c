#include "worker/config/config_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char seen[4096]; /* "name=value;" of every call */

static uint32_t last_line; /* of the last call */

static enum mr_status note(void *context, const char *name, const char *value, uint32_t line,
                           struct mr_error *err)
{
    (void)context;
    last_line = line;
    size_t length = strlen(seen);
    snprintf(seen + length, sizeof seen - length, "%s=%s;", name, value);
    if (strcmp(value, "bad") == 0) return mr_fail(err, MR_BAD_CONFIG, "value is bad");
    return MR_OK;
}

static struct mr_error last;

static enum mr_status read_bytes(const char *bytes, size_t length)
{
    char path[] = "/tmp/millrace-config-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, length), (long)length);
    close(fd);
    seen[0] = '\0';
    last = (struct mr_error){0};
    enum mr_status status = mr_config_file_read(path, note, NULL, &last);
    unlink(path);
    return status;
}

static enum mr_status read_text(const char *text)
{
    return read_bytes(text, strlen(text));
}

static void scalars_lists_and_pairs_are_set_in_order(void **state)
{
    (void)state;
    assert_int_equal(read_text("# a comment\na: 1\nb_c: \"two words\"\nlist: [x, 'y']\n"
                               "kafka:\n  k.one: 1\n  k.two: \"a=b\"\nempty:\nnothing: ~\n"),
                     MR_OK);
    assert_string_equal(seen, "a=1;b-c=two words;list=x;list=y;kafka=k.one=1;kafka=k.two=a=b;");
}

static void a_list_is_for_options_that_take_several_values(void **state)
{
    (void)state;
    assert_int_equal(read_text("brokers: [a:1, b:2]\nreply-topic:\n- x\n- y\n"), MR_OK);
    assert_string_equal(seen, "brokers=a:1,b:2;reply-topic=x;reply-topic=y;");
    static const char *const wrong[] = {"model: [a.gguf, b.gguf]\n", "threads: [1]\n",
                                        "group: []\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(read_text(wrong[i]), MR_BAD_CONFIG);
        assert_non_null(strstr(last.detail, "line 1: this option takes one value, not a list"));
        assert_string_equal(seen, "");
    }
}

static void an_empty_file_sets_nothing(void **state)
{
    (void)state;
    assert_int_equal(read_text(""), MR_OK);
    assert_int_equal(read_text("# only a comment\n"), MR_OK);
    assert_int_equal(read_text("---\n"), MR_OK);
    assert_string_equal(seen, "");
}

static void errors_name_file_and_line(void **state)
{
    (void)state;
    assert_int_equal(read_text("a: 1\nb: 2\nc: bad\n"), MR_BAD_CONFIG);
    assert_string_equal(last.detail, "value is bad");
    assert_int_equal(last_line, 3);
    assert_int_equal(read_text("a: 1\nb:\n  c: 1\n"), MR_BAD_CONFIG);
    assert_non_null(strstr(last.detail, "line 3: nested sections are not supported"));
    assert_non_null(strstr(last.detail, "millrace-config-"));
}

static void a_file_that_is_not_a_flat_map_is_refused(void **state)
{
    (void)state;
    static const char *const files[] = {"just text\n",
                                        "[1, 2]\n",
                                        "a: 1\na: 2\n",
                                        "a_b: 1\na-b: 2\n",
                                        "a: {b: 1}\n",
                                        "a: [[1]]\n",
                                        "a: [1\n",
                                        "a: &x 1\nb: *x\n",
                                        "kafka: {a: [1]}\n",
                                        "kafka: {[a]: 1}\n",
                                        "? [a]\n: 1\n",
                                        "a: 1\n---\nb: 2\n",
                                        "a: \"un\\0terminated\"\n",
                                        "\t- x: y\n  z\n",
                                        "a: 'open\n"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (read_text(files[i]) != MR_BAD_CONFIG) fail_msg("accepted: %s", files[i]);
}

static void long_names_values_and_files_are_refused(void **state)
{
    (void)state;
    size_t length = (size_t)MR_CONFIG_FILE_BYTES_MAX + 1;
    char *text = malloc(length);
    assert_non_null(text);
    memset(text, '#', length);
    assert_int_equal(read_bytes(text, length - 1), MR_OK);
    assert_int_equal(read_bytes(text, length), MR_BAD_CONFIG);
    memset(text, 'a', 70);
    memcpy(text + 70, ": 1\n", 4);
    assert_int_equal(read_bytes(text, 74), MR_BAD_CONFIG);
    int head = snprintf(text, length, "kafka: {a: ");
    memset(text + head, 'b', 5000);
    memcpy(text + head + 5000, "}\n", 2);
    assert_int_equal(read_bytes(text, (size_t)head + 5002), MR_BAD_CONFIG);
    free(text);
    assert_int_equal(mr_config_file_read("/nonexistent/file.yaml", note, NULL, &last),
                     MR_BAD_CONFIG);
    assert_int_equal(mr_config_file_read("/", note, NULL, &last), MR_BAD_CONFIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalars_lists_and_pairs_are_set_in_order),
        cmocka_unit_test(a_list_is_for_options_that_take_several_values),
        cmocka_unit_test(an_empty_file_sets_nothing),
        cmocka_unit_test(errors_name_file_and_line),
        cmocka_unit_test(a_file_that_is_not_a_flat_map_is_refused),
        cmocka_unit_test(long_names_values_and_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
