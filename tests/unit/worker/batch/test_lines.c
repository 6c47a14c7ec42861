/* The lines of a batch's input. */
#include "files.h"

#include "worker/batch/lines.h"

/* Reads the file and joins its lines as NUMBER:TEXT| in out. */
static enum mr_status read_lines(const char *path, size_t bytes_max, char *out, size_t room,
                                 struct mr_error *err)
{
    struct mr_unpacked *file = NULL;
    struct mr_lines lines = {0};
    struct mr_line line;
    size_t length = 0;
    out[0] = '\0';
    enum mr_status status = mr_unpacked_open(&file, path, err);
    if (status == MR_OK) status = mr_lines_open(&lines, file, bytes_max, NULL, err);
    while (status == MR_OK && (status = mr_lines_next(&lines, &line, err)) == MR_OK &&
           line.number > 0) {
        length +=
            (size_t)snprintf(out + length, room - length, "%d:%.*s%s|", (int)line.number,
                             (int)line.text.length, line.text.bytes, line.is_too_long ? "..." : "");
        assert_true(length < room);
    }
    mr_lines_close(&lines);
    mr_unpacked_close(file);
    return status;
}

static void a_line_ends_at_a_line_feed_only(void **state)
{
    (void)state;
    static const struct {
        const char *text, *lines;
    } files[] = {
        {"", ""},
        {"a\nb\n", "1:a|2:b|"},
        {"a\nb", "1:a|2:b|"},
        {"\xef\xbb\xbf{}\r\n\r\n  \n b \r\n", "1:{}|4:b|"},
        {"a\xe2\x80\xa8"
         "b\xc2\x85\rc\n",
         "1:a\xe2\x80\xa8"
         "b\xc2\x85\rc|"},
        {"\n\n\n", ""},
        {"1234567890\n12345678901\nx\n", "1:1234567890|2:1234567890...|3:x|"},
        {"12345678901", "1:1234567890...|"},
    };
    char path[PATH_BYTES], out[4096];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        write_file(path_of("in.jsonl", path), files[i].text, strlen(files[i].text));
        assert_int_equal(read_lines(path, 10, out, sizeof out, NULL), MR_OK);
        assert_string_equal(out, files[i].lines);
    }
}

/* Lines around the sizes of the buffers. */
static char *make_long(size_t *length)
{
    const size_t sizes[] = {1, 131071, 131072, 131073, 400000, 5};
    char *text = malloc(1 << 20);
    assert_non_null(text);
    *length = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        memset(text + *length, (int)('a' + i), sizes[i]);
        *length += sizes[i];
        text[(*length)++] = '\n';
    }
    return text;
}

static void check_long(const char *path, size_t bytes_max)
{
    const size_t sizes[] = {1, 131071, 131072, 131073, 400000, 5};
    struct mr_unpacked *file;
    struct mr_lines lines;
    struct mr_line line;
    assert_int_equal(mr_unpacked_open(&file, path, NULL), MR_OK);
    assert_int_equal(mr_lines_open(&lines, file, bytes_max, NULL, NULL), MR_OK);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_int_equal(mr_lines_next(&lines, &line, NULL), MR_OK);
        assert_int_equal(line.number, i + 1);
        assert_int_equal(line.is_too_long, sizes[i] > bytes_max);
        assert_int_equal(line.text.length, sizes[i] > bytes_max ? bytes_max : sizes[i]);
        for (size_t k = 0; k < line.text.length; k++)
            if (line.text.bytes[k] != (char)('a' + i)) fail_msg("line %zu, byte %zu", i + 1, k);
    }
    assert_int_equal(mr_lines_next(&lines, &line, NULL), MR_OK);
    assert_int_equal(line.number, 0);
    mr_lines_close(&lines);
    mr_unpacked_close(file);
}

static void long_lines_are_whole_or_cut_at_the_limit(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    size_t length;
    char *text = make_long(&length);
    write_file(path_of("long", path), text, length);
    check_long(path, 1 << 20);
    check_long(path, 131072);
    check_long(path, 3);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_ends_at_a_line_feed_only),
        cmocka_unit_test(long_lines_are_whole_or_cut_at_the_limit),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
