/* Packed files and stdin are read like plain files. */
#include "files.h"

#include "worker/batch/unpacked.h"

#include <zlib.h>
#include <zstd.h>

#define TEXT_BYTES ((size_t)900000)

/* Reads the whole file; out has TEXT_BYTES of room. */
static enum mr_status read_all(struct mr_unpacked *file, char *out, size_t *total,
                               struct mr_error *err)
{
    size_t length;
    *total = 0;
    for (;;) {
        enum mr_status status =
            mr_unpacked_read(file, out + *total, TEXT_BYTES - *total, &length, err);
        *total += length;
        if (status != MR_OK || length == 0) return status;
    }
}

static enum mr_status read_path(const char *path, char *out, size_t *total, struct mr_error *err)
{
    struct mr_unpacked *file = NULL;
    enum mr_status status = mr_unpacked_open(&file, path, err);
    if (status == MR_OK) status = read_all(file, out, total, err);
    if (status == MR_OK) status = mr_unpacked_rewind(file, err); /* and once more */
    if (status == MR_OK) status = read_all(file, out, total, err);
    mr_unpacked_close(file);
    return status;
}

static void write_gzip(const char *path, const char *text, size_t length)
{
    gzFile file = gzopen(path, "ab");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, text, (unsigned)length), length);
    assert_int_equal(gzclose(file), Z_OK);
}

static size_t pack_zstd(char *packed, size_t room, const char *text, size_t length)
{
    const size_t size = ZSTD_compress(packed, room, text, length, 3);
    assert_false(ZSTD_isError(size));
    return size;
}

static void packed_files_are_read_by_their_names(void **state)
{
    (void)state;
    char path[PATH_BYTES], *text = malloc(TEXT_BYTES), *out = malloc(TEXT_BYTES);
    char *packed = malloc(2 * TEXT_BYTES);
    const size_t size = TEXT_BYTES - 1; /* one byte of room, so that the end is read */
    size_t total;
    assert_true(text && out && packed);
    for (size_t i = 0, x = 1; i < size; i++, x = x * 1103515245 + 12345)
        text[i] = (char)('a' + (x >> 16) % 17);
    write_gzip(path_of("text.gz", path), text, size);
    assert_int_equal(read_path(path, out, &total, NULL), MR_OK);
    assert_int_equal(total, size);
    assert_memory_equal(out, text, size);
    write_file(path_of("text.zst", path), packed, pack_zstd(packed, 2 * TEXT_BYTES, text, size));
    assert_int_equal(read_path(path, out, &total, NULL), MR_OK);
    assert_int_equal(total, size);
    assert_memory_equal(out, text, size);
    free(text);
    free(out);
    free(packed);
}

static void several_members_and_frames_are_one_file(void **state)
{
    (void)state;
    char path[PATH_BYTES], packed[512], *out = malloc(TEXT_BYTES);
    size_t total;
    assert_non_null(out);
    write_gzip(path_of("two.gz", path), "a\nb", 3);
    write_gzip(path, "c\n", 2);
    assert_int_equal(read_path(path, out, &total, NULL), MR_OK);
    assert_int_equal(total, 5);
    assert_memory_equal(out, "a\nbc\n", 5);
    size_t size = pack_zstd(packed, sizeof packed, "a\nb", 3);
    size += pack_zstd(packed + size, sizeof packed - size, "c\n", 2);
    write_file(path_of("two.zst", path), packed, size);
    assert_int_equal(read_path(path, out, &total, NULL), MR_OK);
    assert_int_equal(total, 5);
    assert_memory_equal(out, "a\nbc\n", 5);
    free(out);
}

static void a_packed_file_that_is_cut_off_or_broken_is_an_error(void **state)
{
    (void)state;
    char path[PATH_BYTES], packed[512], *out = malloc(TEXT_BYTES);
    struct mr_error err;
    size_t total;
    assert_non_null(out);
    write_gzip(path_of("cut.gz", path), "some text that is packed\n", 25);
    assert_int_equal(truncate(path, 20), 0);
    assert_int_equal(read_path(path, out, &total, &err), MR_BAD_FILE);
    assert_non_null(strstr(err.detail, "is cut off"));
    write_file(path, "no gzip", 7);
    assert_int_equal(read_path(path, out, &total, &err), MR_BAD_FILE);
    assert_non_null(strstr(err.detail, "is not valid gzip"));
    const size_t size = pack_zstd(packed, sizeof packed, "some text that is packed\n", 25);
    write_file(path_of("cut.zst", path), packed, size - 3);
    assert_int_equal(read_path(path, out, &total, &err), MR_BAD_FILE);
    assert_non_null(strstr(err.detail, "is cut off"));
    write_file(path, "no zstd", 7);
    assert_int_equal(read_path(path, out, &total, &err), MR_BAD_FILE);
    assert_non_null(strstr(err.detail, "is not valid zstd"));
    assert_int_equal(read_path("/nowhere/x", out, &total, &err), MR_BAD_FILE);
    free(out);
}

static void stdin_is_read_as_often_as_needed(void **state)
{
    (void)state;
    int ends[2];
    size_t total;
    char *out = malloc(TEXT_BYTES);
    const int old = dup(STDIN_FILENO);
    assert_non_null(out);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "a\nb\n", 4), 4);
    close(ends[1]);
    assert_true(dup2(ends[0], STDIN_FILENO) >= 0);
    close(ends[0]);
    assert_int_equal(read_path("-", out, &total, NULL), MR_OK);
    assert_int_equal(total, 4);
    assert_memory_equal(out, "a\nb\n", 4);
    dup2(old, STDIN_FILENO);
    close(old);
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_files_are_read_by_their_names),
        cmocka_unit_test(several_members_and_frames_are_one_file),
        cmocka_unit_test(a_packed_file_that_is_cut_off_or_broken_is_an_error),
        cmocka_unit_test(stdin_is_read_as_often_as_needed),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
