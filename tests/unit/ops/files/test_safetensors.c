#include "ops/files/safetensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/ops/scratch.h"

static struct scratch scratch;

/* Writes a file with this header, followed by data_bytes bytes 0, 1, 2 ... */
static void write_file(const char *name, const char *header, size_t data_bytes)
{
    static struct bytes bytes;
    bytes.size = 0;
    put_u64(&bytes, strlen(header));
    put(&bytes, header, strlen(header));
    for (size_t i = 0; i < data_bytes; i++)
        put(&bytes, &(unsigned char){(unsigned char)i}, 1);
    scratch_write(&scratch, name, bytes.data, bytes.size);
}

static void remove_file(const char *name)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", scratch.folder, name);
    unlink(path);
}

static void rejected(const char *because)
{
    struct mr_safetensors *all;
    struct mr_error err = {0};
    assert_int_equal(mr_safetensors_open(&all, scratch.folder, &err), MR_BAD_FILE);
    assert_null(all);
    if (!strstr(err.detail, because)) fail_msg("\"%s\" without \"%s\"", err.detail, because);
}

static const char valid_header[] =
    "{\"__metadata__\":{\"format\":\"pt\"},"
    "\"b\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[8,20]},"
    "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
    "\"none\":{\"dtype\":\"F32\",\"shape\":[0,4,1,2,3],\"data_offsets\":[20,20]},"
    "\"one\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[20,28]}}    ";

static void tensors_have_the_types_shapes_and_bytes_of_the_header(void **state)
{
    (void)state;
    write_file("model.safetensors", valid_header, 28);
    struct mr_safetensors *all;
    struct mr_error err = {0};
    if (mr_safetensors_open(&all, scratch.folder, &err) != MR_OK) fail_msg("%s", err.detail);
    const struct mr_tensor_table *table = mr_safetensors_tensors(all);
    assert_int_equal(table->count, 4);
    const struct mr_stored_tensor *b = mr_tensor_table_find(table, "b");
    assert_int_equal(b->storage, MR_STORAGE_BF16);
    assert_int_equal(b->dim_count, 2);
    assert_int_equal(b->dims[0], 2);
    assert_int_equal(b->dims[1], 3);
    assert_int_equal(b->size_bytes, 12);
    assert_int_equal(b->bytes[0], 8);
    assert_int_equal(mr_tensor_table_find(table, "one")->storage, MR_STORAGE_I64);
    assert_int_equal(mr_tensor_table_find(table, "one")->dim_count, 1);
    assert_int_equal(mr_tensor_table_find(table, "one")->dims[0], 1);
    assert_int_equal(mr_tensor_table_find(table, "none")->size_bytes, 0);
    const struct mr_stored_tensor *none = mr_tensor_table_find(table, "none");
    assert_int_equal(none->size_bytes, 0);
    assert_true(none->dim_count == 4 && none->dims[2] == 1 && none->dims[3] == 6);
    assert_null(mr_tensor_table_find(table, "__metadata__"));
    mr_safetensors_close(all);
}

static void a_wrong_header_is_rejected(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t data_bytes;
        const char *because;
    } cases[] = {
        {valid_header, 29, "cover 28 of 29"},
        {valid_header, 27, "outside the file"},
        {"[]", 0, "does not begin"},
        {" {}", 0, "does not begin"},
        {"{\"a\":", 0, "ends too early"},
        {"{\"a\":1}", 0, "dtype"},
        {"{\"a\":{\"dtype\":\"F3\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype"},
        {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,2],\"data_offsets\":[0,4]}}", 4,
         "do not fit"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,0,1,9000000000000000000,4],\"data_offsets\":[0,0]}"
         "}",
         0, "shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[9000000000000000000,4],\"data_offsets\":[0,4]}}", 4,
         "shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, "data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "outside"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8, "do not fit"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "gap"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
         4, "overlap"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
         8, "twice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_file("model.safetensors", cases[i].header, cases[i].data_bytes);
        rejected(cases[i].because);
    }
}

static void a_wrong_header_length_is_rejected(void **state)
{
    (void)state;
    static const uint64_t lengths[] = {0, 1, 17, MR_SAFETENSORS_HEADER_MAX + 1, UINT64_MAX};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct bytes bytes = {.size = 0};
        put_u64(&bytes, lengths[i]);
        put(&bytes, "{}              ", 16);
        scratch_write(&scratch, "model.safetensors", bytes.data, bytes.size);
        rejected("the header length");
    }
    scratch_write(&scratch, "model.safetensors", "{}", 2);
    rejected("the header length");
}

static void write_shards(const char *map)
{
    char index[512];
    remove_file("model.safetensors");
    write_file("one.safetensors",
               "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4);
    write_file("two.safetensors",
               "{\"b\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4);
    snprintf(index, sizeof index, "{\"metadata\":{},\"weight_map\":%s}", map);
    scratch_write(&scratch, "model.safetensors.index.json", index, strlen(index));
}

static void shards_are_read_as_one(void **state)
{
    (void)state;
    write_shards("{\"b\":\"two.safetensors\",\"a\":\"one.safetensors\"}");
    struct mr_safetensors *all;
    struct mr_error err = {0};
    if (mr_safetensors_open(&all, scratch.folder, &err) != MR_OK) fail_msg("%s", err.detail);
    assert_int_equal(mr_safetensors_tensors(all)->count, 2);
    assert_non_null(mr_tensor_table_find(mr_safetensors_tensors(all), "a"));
    assert_non_null(mr_tensor_table_find(mr_safetensors_tensors(all), "b"));
    mr_safetensors_close(all);
}

static void an_index_that_contradicts_the_files_is_rejected(void **state)
{
    (void)state;
    write_shards("{\"a\":\"two.safetensors\",\"b\":\"one.safetensors\"}");
    rejected("the file that the index names");
    write_shards("{\"a\":\"one.safetensors\",\"c\":\"two.safetensors\"}");
    rejected("\"c\" is not in two.safetensors");
    write_shards("{\"a\":\"../one.safetensors\"}");
    rejected("outside the folder");
    write_shards("{\"a\":7}");
    rejected("outside the folder");
    write_shards("{}");
    rejected("no weight_map");
    write_shards("{\"a\":\"absent.safetensors\"}");
    rejected("absent.safetensors");
}

static void a_folder_without_weights_is_rejected(void **state)
{
    (void)state;
    remove_file("model.safetensors");
    remove_file("model.safetensors.index.json");
    rejected("neither");
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
        cmocka_unit_test(tensors_have_the_types_shapes_and_bytes_of_the_header),
        cmocka_unit_test(a_wrong_header_is_rejected),
        cmocka_unit_test(a_wrong_header_length_is_rejected),
        cmocka_unit_test(shards_are_read_as_one),
        cmocka_unit_test(an_index_that_contradicts_the_files_is_rejected),
        cmocka_unit_test(a_folder_without_weights_is_rejected),
    };
    return cmocka_run_group_tests(tests, open_scratch, close_scratch);
}
