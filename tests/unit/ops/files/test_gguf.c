#include "ops/files/gguf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/ops/scratch.h"

/* ---- a valid file, in which each test changes one part ---- */

struct tensor {
    const char *name;
    uint32_t dim_count;
    uint64_t dims[5];
    uint32_t type;
    uint64_t offset;
};

struct plan {
    const char *magic;
    uint32_t version, alignment;
    uint64_t key_count, tensor_count; /* as written in the header */
    const char *extra_key;            /* name of a further key, a u32 */
    struct bytes raw_key;             /* bytes of a further key */
    struct tensor tensors[2];
    size_t data_bytes;
};

static struct plan valid_plan(void)
{
    return (struct plan){.magic = "GGUF",
                         .version = 3,
                         .alignment = 64,
                         .key_count = 7,
                         .tensor_count = 2,
                         .extra_key = "extra",
                         .tensors = {{"second", 2, {32, 2}, 8, 64}, {"first", 1, {3}, 0, 0}},
                         .data_bytes = 64 + 68};
}

static void put_key(struct bytes *to, const char *key, uint32_t type)
{
    put_text(to, key);
    put_u32(to, type);
}

static void put_keys(struct bytes *to, const struct plan *plan)
{
    put_key(to, "general.alignment", MR_GGUF_U32);
    put_u32(to, plan->alignment);
    put_key(to, "text", MR_GGUF_TEXT);
    put_text(to, "mill");
    put_key(to, "list", MR_GGUF_ARRAY);
    put_u32(to, MR_GGUF_TEXT);
    put_u64(to, 2);
    put_text(to, "left");
    put_text(to, "");
    put_key(to, "numbers", MR_GGUF_ARRAY);
    put_u32(to, MR_GGUF_I16);
    put_u64(to, 3);
    put(to, (const int16_t[]){-1, 2, 300}, 6);
    put_key(to, "yes", MR_GGUF_BOOL);
    put(to, "\1", 1);
    put_key(to, "half", MR_GGUF_F32);
    put_float(to, 0.5f);
    put_key(to, plan->extra_key, MR_GGUF_U32);
    put_u32(to, 7);
    put(to, plan->raw_key.data, plan->raw_key.size);
}

static void put_tensors(struct bytes *to, const struct plan *plan)
{
    for (size_t i = 0; i < 2; i++) {
        const struct tensor *tensor = &plan->tensors[i];
        put_text(to, tensor->name);
        put_u32(to, tensor->dim_count);
        for (uint32_t d = 0; d < tensor->dim_count && d < 5; d++)
            put_u64(to, tensor->dims[d]);
        put_u32(to, tensor->type);
        put_u64(to, tensor->offset);
    }
}

static void build(struct bytes *to, const struct plan *plan)
{
    to->size = 0;
    put(to, plan->magic, 4);
    put_u32(to, plan->version);
    put_u64(to, plan->tensor_count);
    put_u64(to, plan->key_count);
    put_keys(to, plan);
    put_tensors(to, plan);
    put_padding(to, 64);
    for (size_t i = 0; i < plan->data_bytes; i++)
        put(to, &(unsigned char){(unsigned char)i}, 1);
}

static struct scratch scratch;

static enum mr_status open_bytes(struct mr_gguf **out, const struct bytes *bytes,
                                 struct mr_error *err)
{
    return mr_gguf_open(out, scratch_write(&scratch, "model.gguf", bytes->data, bytes->size), err);
}

static void rejected(const struct plan *plan, const char *because)
{
    static struct bytes bytes;
    struct mr_gguf *gguf;
    struct mr_error err = {0};
    build(&bytes, plan);
    assert_int_equal(open_bytes(&gguf, &bytes, &err), MR_BAD_FILE);
    assert_null(gguf);
    if (!strstr(err.detail, because)) fail_msg("\"%s\" without \"%s\"", err.detail, because);
}

/* ---- tests ---- */

static struct mr_gguf *open_valid(void)
{
    static struct bytes bytes;
    struct plan plan = valid_plan();
    struct mr_gguf *gguf;
    struct mr_error err = {0};
    build(&bytes, &plan);
    if (open_bytes(&gguf, &bytes, &err) != MR_OK) fail_msg("%s", err.detail);
    return gguf;
}

static void values_are_read_by_their_type(void **state)
{
    (void)state;
    struct mr_gguf *gguf = open_valid();
    uint32_t number = 0;
    double real = 0;
    bool yes = false;
    struct mr_text text;
    assert_true(mr_gguf_u32(gguf, "extra", &number) && number == 7);
    assert_true(mr_gguf_number(gguf, "half", &real) && real == 0.5);
    assert_true(mr_gguf_number(gguf, "extra", &real) && real == 7.0);
    assert_true(mr_gguf_bool(gguf, "yes", &yes) && yes);
    assert_true(mr_gguf_text(gguf, "text", &text) && text.length == 4);
    assert_memory_equal(text.bytes, "mill", 4);
    assert_false(mr_gguf_u32(gguf, "text", &number));
    assert_false(mr_gguf_u32(gguf, "numbers", &number));
    assert_false(mr_gguf_u32(gguf, "half", &number));
    assert_false(mr_gguf_text(gguf, "list", &text));
    assert_false(mr_gguf_bool(gguf, "extra", &yes));
    assert_null(mr_gguf_find(gguf, "absent"));
    mr_gguf_close(gguf);
}

static void arrays_are_read_by_element(void **state)
{
    (void)state;
    struct mr_gguf *gguf = open_valid();
    const struct mr_gguf_value *numbers = mr_gguf_find(gguf, "numbers");
    assert_int_equal(numbers->count, 3);
    assert_int_equal(mr_gguf_element_int(numbers, 0), -1);
    assert_int_equal(mr_gguf_element_int(numbers, 2), 300);
    assert_true(mr_gguf_element_number(numbers, 1) == 2.0);
    expect_assert_failure(mr_gguf_element_int(numbers, 3));
    struct mr_text *texts = mr_gguf_texts(mr_gguf_find(gguf, "list"));
    assert_int_equal(texts[0].length, 4);
    assert_int_equal(texts[1].length, 0);
    free(texts);
    mr_gguf_close(gguf);
}

static void tensors_have_their_outermost_dimension_first(void **state)
{
    (void)state;
    struct mr_gguf *gguf = open_valid();
    const struct mr_tensor_table *table = mr_gguf_tensors(gguf);
    assert_int_equal(table->count, 2);
    const struct mr_stored_tensor *second = mr_tensor_table_find(table, "second");
    assert_int_equal(second->storage, MR_STORAGE_Q8_0);
    assert_int_equal(second->dims[0], 2);
    assert_int_equal(second->dims[1], 32);
    assert_int_equal(second->size_bytes, 68);
    assert_int_equal(second->bytes[0], 64);
    assert_int_equal(mr_tensor_table_find(table, "first")->bytes[1], 1);
    mr_gguf_close(gguf);
}

static void a_file_truncated_at_any_byte_is_rejected(void **state)
{
    (void)state;
    static struct bytes bytes;
    struct plan plan = valid_plan();
    build(&bytes, &plan);
    for (size_t whole = bytes.size; bytes.size > 0;) {
        struct mr_gguf *gguf;
        bytes.size--;
        assert_int_equal(open_bytes(&gguf, &bytes, NULL), MR_BAD_FILE);
        assert_true(bytes.size < whole);
    }
}

/* For every value of one byte, opening returns a status, and the tensors of an opened file can be
 * read. */
static void a_corrupted_byte_never_ends_the_process(void **state)
{
    (void)state;
    static const unsigned char corruptions[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
    static struct bytes bytes;
    struct plan plan = valid_plan();
    build(&bytes, &plan);
    size_t opened = 0;
    for (size_t at = 0; at < bytes.size - plan.data_bytes; at++)
        for (size_t i = 0; i < sizeof corruptions; i++) {
            unsigned char kept = bytes.data[at];
            struct mr_gguf *gguf;
            bytes.data[at] = corruptions[i];
            enum mr_status status = open_bytes(&gguf, &bytes, NULL);
            bytes.data[at] = kept;
            assert_true(status == MR_OK || status == MR_BAD_FILE);
            float row[1024];
            for (uint32_t t = 0; gguf && t < mr_gguf_tensors(gguf)->count; t++)
                mr_stored_tensor_row(&mr_gguf_tensors(gguf)->entries[t], 0, row);
            opened += gguf != NULL;
            mr_gguf_close(gguf);
        }
    assert_true(opened > 0);
}

static void a_wrong_header_is_rejected(void **state)
{
    (void)state;
    struct plan plan = valid_plan();
    plan.magic = "GGML";
    rejected(&plan, "GGUF");
    plan = valid_plan();
    plan.version = 4;
    rejected(&plan, "version");
    plan.version = 0x03000000;
    rejected(&plan, "little-endian");
    plan = valid_plan();
    plan.key_count = UINT64_MAX;
    rejected(&plan, "keys, limit");
    plan = valid_plan();
    plan.tensor_count = UINT64_C(1) << 40;
    rejected(&plan, "tensors, limit");
}

static void a_wrong_key_is_rejected(void **state)
{
    (void)state;
    struct plan plan = valid_plan();
    plan.extra_key = "text";
    rejected(&plan, "twice");
    plan = valid_plan();
    plan.alignment = 48;
    rejected(&plan, "alignment");
    plan = valid_plan();
    plan.key_count = 8;
    put_key(&plan.raw_key, "nested", MR_GGUF_ARRAY);
    put_u32(&plan.raw_key, MR_GGUF_ARRAY);
    put_u64(&plan.raw_key, 1);
    rejected(&plan, "type is unknown");
    plan.raw_key.size = 0;
    put_key(&plan.raw_key, "huge", MR_GGUF_ARRAY);
    put_u32(&plan.raw_key, MR_GGUF_U64);
    put_u64(&plan.raw_key, MR_GGUF_ELEMENTS_MAX + 1);
    rejected(&plan, "4 Mi");
    plan.raw_key.size = 0;
    put_key(&plan.raw_key, "long", MR_GGUF_TEXT);
    put_u64(&plan.raw_key, UINT64_MAX - 4);
    rejected(&plan, "past the end");
    plan.raw_key.size = 0;
    put_key(&plan.raw_key, "perhaps", MR_GGUF_BOOL);
    put(&plan.raw_key, "\2", 1);
    rejected(&plan, "neither 0 nor 1");
}

static void a_wrong_tensor_is_rejected(void **state)
{
    (void)state;
    static const struct {
        struct tensor tensor;
        const char *because;
    } cases[] = {
        {{"first", 1, {3}, 0, 64}, "twice"},
        {{"a name that is longer than the sixty-four bytes a tensor's name may have", 1, {3}, 0, 0},
         "longer than"},
        {{"second", 0, {0}, 0, 64}, "dimensions"},
        {{"second", 5, {1, 1, 1, 1, 1}, 0, 64}, "dimensions"},
        {{"second", 2, {32, 0}, 8, 64}, "shape is not valid"},
        {{"second", 2, {33, 2}, 8, 64}, "shape is not valid"},
        {{"second", 2, {UINT64_C(1) << 62, 8}, 0, 64}, "shape is not valid"},
        {{"second", 2, {32, 3}, 8, 64}, "do not fit"},
        {{"second", 2, {32, 2}, 8, 32}, "do not fit"},
        {{"second", 2, {32, 2}, 8, 128}, "do not fit"},
        {{"second", 2, {32, 2}, 8, UINT64_MAX - 63}, "do not fit"},
        {{"second", 2, {32, 1}, 8, 0}, "overlap"},
        {{"second", 2, {256, 1}, 18, 64}, "IQ3_XXS"},
        {{"second", 2, {32, 2}, 99, 64}, "unknown"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct plan plan = valid_plan();
        plan.tensors[0] = cases[i].tensor;
        rejected(&plan, cases[i].because);
    }
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
        cmocka_unit_test(values_are_read_by_their_type),
        cmocka_unit_test(arrays_are_read_by_element),
        cmocka_unit_test(tensors_have_their_outermost_dimension_first),
        cmocka_unit_test(a_file_truncated_at_any_byte_is_rejected),
        cmocka_unit_test(a_corrupted_byte_never_ends_the_process),
        cmocka_unit_test(a_wrong_header_is_rejected),
        cmocka_unit_test(a_wrong_key_is_rejected),
        cmocka_unit_test(a_wrong_tensor_is_rejected),
    };
    return cmocka_run_group_tests(tests, open_scratch, close_scratch);
}
