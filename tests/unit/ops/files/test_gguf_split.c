#include "ops/files/gguf_split.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/ops/scratch.h"

static struct scratch scratch;

static void put_number(struct bytes *to, const char *key, uint32_t value)
{
    put_text(to, key);
    put_u32(to, MR_GGUF_U32);
    put_u32(to, value);
}

/* Writes a part with one tensor of two floats, `value` and value + 1. count 0: a model in one file,
 * without the keys of a split. */
static const char *write_part(const char *name, uint32_t number, uint32_t count, const char *tensor,
                              float value)
{
    static struct bytes bytes;
    bytes.size = 0;
    put(&bytes, "GGUF", 4);
    put_u32(&bytes, 3);
    put_u64(&bytes, 1);
    put_u64(&bytes, count > 0 ? 3 : 1);
    put_number(&bytes, "origin", number + 100);
    if (count > 0) put_number(&bytes, "split.no", number);
    if (count > 0) put_number(&bytes, "split.count", count);
    put_text(&bytes, tensor);
    put_u32(&bytes, 1);
    put_u64(&bytes, 2);
    put_u32(&bytes, 0);
    put_u64(&bytes, 0);
    put_padding(&bytes, 32);
    put_float(&bytes, value);
    put_float(&bytes, value + 1);
    return scratch_write(&scratch, name, bytes.data, bytes.size);
}

static const char *write_parts(void)
{
    write_part("m-00002-of-00003.gguf", 1, 3, "b", 3);
    write_part("m-00003-of-00003.gguf", 2, 3, "a", 5);
    return write_part("m-00001-of-00003.gguf", 0, 3, "c", 1);
}

static void rejected(const char *path, const char *because)
{
    struct mr_gguf_split *split;
    struct mr_error err = {0};
    assert_int_equal(mr_gguf_split_open(&split, path, &err), MR_BAD_FILE);
    assert_null(split);
    if (!strstr(err.detail, because)) fail_msg("\"%s\" without \"%s\"", err.detail, because);
}

static void the_tensors_of_all_parts_are_one_table(void **state)
{
    (void)state;
    struct mr_gguf_split *split;
    struct mr_error err = {0};
    if (mr_gguf_split_open(&split, write_parts(), &err) != MR_OK) fail_msg("%s", err.detail);
    const struct mr_tensor_table *tensors = mr_gguf_split_tensors(split);
    const char *names[] = {"a", "b", "c"};
    const float first[] = {5, 3, 1};
    assert_int_equal(tensors->count, 3);
    for (size_t i = 0; i < 3; i++) {
        float row[2];
        const struct mr_stored_tensor *tensor = mr_tensor_table_find(tensors, names[i]);
        assert_non_null(tensor);
        mr_stored_tensor_row(tensor, 0, row);
        assert_true(row[0] == first[i] && row[1] == first[i] + 1);
    }
    uint32_t origin = 0;
    assert_true(mr_gguf_u32(mr_gguf_split_first(split), "origin", &origin) && origin == 100);
    assert_int_equal(mr_gguf_split_file_count(split), 3);
    assert_true(mr_gguf_split_stamp(split, 1).inode != mr_gguf_split_stamp(split, 2).inode);
    mr_gguf_split_close(split);
}

static void a_whole_file_needs_no_name_of_a_part(void **state)
{
    (void)state;
    for (uint32_t count = 0; count < 2; count++) {
        struct mr_gguf_split *split;
        struct mr_error err = {0};
        const char *path = write_part("whole.gguf", 0, count, "only", 1);
        if (mr_gguf_split_open(&split, path, &err) != MR_OK) fail_msg("%s", err.detail);
        assert_int_equal(mr_gguf_split_tensors(split)->count, 1);
        assert_int_equal(mr_gguf_split_file_count(split), 1);
        mr_gguf_split_close(split);
    }
}

static void a_missing_or_foreign_part_is_rejected(void **state)
{
    (void)state;
    write_parts();
    char first[160];
    snprintf(first, sizeof first, "%s/m-00001-of-00003.gguf", scratch.folder);
    rejected(write_part("m-00002-of-00003.gguf", 2, 3, "b", 1), "is part 3 of 3");
    rejected(first, "is part 3 of 3, not 2 of 3");
    write_part("m-00002-of-00003.gguf", 1, 4, "b", 1);
    rejected(first, "is part 2 of 4, not 2 of 3");
    write_part("m-00002-of-00003.gguf", 1, 3, "c", 1);
    rejected(first, "twice");
    assert_int_equal(unlink(scratch_write(&scratch, "m-00002-of-00003.gguf", "", 0)), 0);
    rejected(first, "m-00002-of-00003.gguf");
}

static void only_the_first_part_names_a_model(void **state)
{
    (void)state;
    rejected(write_part("m-00002-of-00003.gguf", 1, 3, "b", 1), "name the first part");
    rejected(write_part("m-00001-of-00004.gguf", 0, 3, "b", 1), "does not end with");
    rejected(write_part("renamed.gguf", 0, 3, "b", 1), "-00001-of-00003.gguf");
    rejected(write_part("many.gguf", 0, 1000, "b", 1), "limit 999");
}

static int open_scratch(void **state)
{
    (void)state;
    scratch_open(&scratch);
    return 0;
}

static int close_scratch(void **state)
{
    (void)state;
    scratch_close(&scratch);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tensors_of_all_parts_are_one_table),
        cmocka_unit_test(a_whole_file_needs_no_name_of_a_part),
        cmocka_unit_test(a_missing_or_foreign_part_is_rejected),
        cmocka_unit_test(only_the_first_part_names_a_model),
    };
    return cmocka_run_group_tests(tests, open_scratch, close_scratch);
}
