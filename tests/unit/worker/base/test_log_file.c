#include "worker/base/log_file.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* The content of a file; static. */
static const char *content(const char *path)
{
    static char text[256];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = '\0';
    return text;
}

static void a_renamed_file_is_left_and_its_path_is_written_again(void **state)
{
    char folder[] = "/tmp/log_file_XXXXXX", path[64], renamed[64];
    struct mr_log_file file;
    struct mr_error err = {0};
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/log", folder);
    snprintf(renamed, sizeof renamed, "%s/log.1", folder);
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT, 0600);
    assert_true(fd >= 0);
    mr_log_file_remember(&file, fd);
    assert_int_equal(write(fd, "old\n", 4), 4);
    assert_int_equal(rename(path, renamed), 0);
    assert_int_equal(write(fd, "late\n", 5), 5);
    assert_int_equal(mr_log_file_reopen(&file, &err), MR_OK);
    assert_int_equal(write(fd, "new\n", 4), 4);
    assert_string_equal(content(renamed), "old\nlate\n");
    assert_string_equal(content(path), "new\n");
    assert_int_equal(mr_log_file_reopen(&file, &err), MR_OK); /* no rename: it is appended to */
    assert_int_equal(write(fd, "more\n", 5), 5);
    assert_string_equal(content(path), "new\nmore\n");
    remove(path);
    remove(renamed);
    rmdir(folder);
    assert_int_equal(mr_log_file_reopen(&file, &err), MR_BAD_CONFIG);
    assert_non_null(strstr(err.detail, "log_file_"));
    close(fd);
}

static void what_is_not_a_file_stays_open(void **state)
{
    int ends[2];
    struct mr_log_file file;
    (void)state;
    assert_int_equal(pipe(ends), 0);
    mr_log_file_remember(&file, ends[1]);
    assert_int_equal(mr_log_file_reopen(&file, NULL), MR_OK);
    assert_int_equal(write(ends[1], "x", 1), 1);
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_renamed_file_is_left_and_its_path_is_written_again),
        cmocka_unit_test(what_is_not_a_file_stays_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
