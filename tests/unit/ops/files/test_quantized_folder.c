#include "ops/files/quantized_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* ---- config.json ---- */

static enum mr_status read_config(struct mr_quantization *out, const char *text,
                                  struct mr_error *err)
{
    const struct mr_json_limits limits = {.bytes_max = 4096, .values_max = 256, .depth_max = 16};
    struct mr_json *json;
    struct mr_text bytes = {text, strlen(text)};
    assert_int_equal(mr_json_parse_wide(&json, bytes, &limits, NULL), MR_OK);
    enum mr_status status = mr_quantization_from_json(out, mr_json_root(json), err);
    mr_json_destroy(json);
    return status;
}

static struct mr_quantization config(const char *text)
{
    struct mr_quantization quantization;
    struct mr_error err = {0};
    if (read_config(&quantization, text, &err) != MR_OK) fail_msg("%s", err.detail);
    return quantization;
}

static void rejected(const char *text, const char *because)
{
    struct mr_quantization quantization;
    struct mr_error err = {0};
    assert_int_equal(read_config(&quantization, text, &err), MR_BAD_FILE);
    if (!strstr(err.detail, because)) fail_msg("\"%s\" without \"%s\"", err.detail, because);
    if (!strstr(err.detail, "GGUF")) fail_msg("\"%s\" does not say what to use", err.detail);
}

static void methods_that_are_not_read_are_rejected_by_name(void **state)
{
    (void)state;
    rejected("{\"quantization_config\":{\"quant_method\":\"bitsandbytes\"}}", "bitsandbytes");
    rejected("{\"quantization_config\":{\"load_in_8bit\":true}}", "bitsandbytes");
    rejected("{\"quantization_config\":{\"load_in_8bit\":false,\"load_in_4bit\":true}}",
             "bitsandbytes");
    rejected("{\"quantization_config\":{\"quant_method\":\"aqlm\"}}", "aqlm");
    rejected("{\"quantization_config\":{}}", "quant_method");
    rejected("{\"quantization_config\":{\"quant_method\":\"awq\",\"version\":\"gemv\"}}", "gemv");
    rejected("{\"quantization_config\":{\"quant_method\":\"awq\",\"bits\":8}}", "8 bits");
    rejected("{\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":3}}", "3 bits");
    rejected("{\"quantization_config\":{\"quant_method\":\"gptq\","
             "\"checkpoint_format\":\"marlin\"}}",
             "marlin");
    rejected("{\"quantization_config\":{\"quant_method\":\"compressed-tensors\","
             "\"format\":\"nvfp4-pack-quantized\"}}",
             "nvfp4-pack-quantized");
    rejected("{\"compression_config\":{\"quant_method\":\"compressed-tensors\","
             "\"config_groups\":{\"a\":{\"format\":\"marlin-24\"}}}}",
             "marlin-24");
    rejected("{\"compression_config\":{\"quant_method\":\"compressed-tensors\","
             "\"sparsity_config\":{\"format\":\"sparse-24-bitmask\"}}}",
             "sparse-24-bitmask");
}

static void the_configuration_says_bits_blocks_and_groups(void **state)
{
    (void)state;
    assert_int_equal(config("{}").method, MR_QUANTIZATION_NONE);
    assert_int_equal(config("{\"quantization_config\":null}").method, MR_QUANTIZATION_NONE);
    struct mr_quantization fp8 = config("{\"quantization_config\":{\"quant_method\":\"fp8\","
                                        "\"weight_block_size\":[64,32]}}");
    assert_int_equal(fp8.method, MR_QUANTIZATION_FP8);
    assert_int_equal(fp8.block[0], 64);
    assert_int_equal(fp8.block[1], 32);
    struct mr_quantization gptq = config("{\"quantization_config\":{\"quant_method\":\"gptq\","
                                         "\"bits\":8,\"group_size\":-1}}");
    assert_int_equal(gptq.bits, 8);
    assert_true(gptq.zero_less_one);
    assert_int_equal(gptq.group_size_count, 0);
    assert_false(config("{\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4,"
                        "\"checkpoint_format\":\"gptq_v2\"}}")
                     .zero_less_one);
    struct mr_quantization two = config(
        "{\"quantization_config\":{\"quant_method\":\"compressed-tensors\",\"config_groups\":{"
        "\"a\":{\"weights\":{\"group_size\":64}},"
        "\"b\":{\"weights\":{\"block_structure\":[16,8]}}}}}");
    assert_int_equal(two.group_size_count, 1);
    assert_int_equal(two.group_sizes[0], 64);
    assert_int_equal(two.block[1], 8);
    assert_string_equal(mr_quantization_name(&two), "compressed-tensors");
}

/* ---- tables ---- */

#define TENSORS_MAX 6u

struct stored {
    struct mr_stored_tensor entries[TENSORS_MAX];
    struct mr_tensor_table table;
    unsigned char bytes[TENSORS_MAX][4096]; /* of the tensors, in the order of _put */
};

/* Adds a tensor of up to three dimensions; the dimension 0 ends the list. */
static unsigned char *put(struct stored *stored, const char *name, enum mr_storage storage,
                          const uint64_t dims[3])
{
    uint32_t i = stored->table.count++;
    struct mr_stored_tensor *tensor = &stored->entries[i];
    assert_true(i < TENSORS_MAX);
    *tensor = (struct mr_stored_tensor){.name = {name, strlen(name)}, .storage = storage};
    tensor->size_bytes = mr_storage_block_bytes(storage);
    while (tensor->dim_count < 3 && dims[tensor->dim_count] > 0) {
        tensor->dims[tensor->dim_count] = dims[tensor->dim_count];
        tensor->size_bytes *= dims[tensor->dim_count++];
    }
    assert_true(tensor->size_bytes <= sizeof(stored->bytes[i]));
    tensor->bytes = stored->bytes[i];
    stored->table.entries = stored->entries;
    return stored->bytes[i];
}

#define DIMS(...) ((const uint64_t[3]){__VA_ARGS__})

static struct mr_quantized_folder *create(struct stored *stored, const char *text)
{
    struct mr_quantization quantization = config(text);
    struct mr_quantized_folder *folder;
    struct mr_error err = {0};
    assert_int_equal(mr_tensor_table_sort(&stored->table, &err), MR_OK);
    if (mr_quantized_folder_create(&folder, &quantization, &stored->table, &err) != MR_OK)
        fail_msg("%s", err.detail);
    return folder;
}

static void misfits(struct stored *stored, const char *text, const char *because)
{
    struct mr_quantization quantization = config(text);
    struct mr_quantized_folder *folder;
    struct mr_error err = {0};
    assert_int_equal(mr_tensor_table_sort(&stored->table, &err), MR_OK);
    assert_int_equal(mr_quantized_folder_create(&folder, &quantization, &stored->table, &err),
                     MR_BAD_FILE);
    assert_null(folder);
    if (!strstr(err.detail, because)) fail_msg("\"%s\" without \"%s\"", err.detail, because);
}

#define FP8  "{\"quantization_config\":{\"quant_method\":\"fp8\",\"weight_block_size\":[2,2]}}"
#define GPTQ "{\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":8}}"
#define PACKED                                                                                     \
    "{\"quantization_config\":{\"quant_method\":\"compressed-tensors\",\"config_groups\":"         \
    "{\"a\":{\"weights\":{\"group_size\":8}}}}}"

static void pieces_become_one_tensor_and_others_stay(void **state)
{
    (void)state;
    struct stored stored = {0};
    put(&stored, "a.norm.weight", MR_STORAGE_BF16, DIMS(3));
    unsigned char *weight = put(&stored, "a.proj.weight", MR_STORAGE_F8_E4M3, DIMS(3, 3));
    unsigned char *scale = put(&stored, "a.proj.weight_scale_inv", MR_STORAGE_F32, DIMS(2, 2));
    put(&stored, "a.proj.input_scale", MR_STORAGE_F32, DIMS(1));
    put(&stored, "lm_head.weight", MR_STORAGE_F16, DIMS(3, 3));
    memset(weight, 0x38, 9); /* 1.0 */
    memcpy(scale, (const float[]){1, 2, 3, 4}, 16);
    struct mr_quantized_folder *folder = create(&stored, FP8);
    const struct mr_tensor_table *table = mr_quantized_folder_tensors(folder);
    assert_int_equal(table->count, 3);
    const struct mr_stored_tensor *tensor = mr_tensor_table_find(table, "a.proj.weight");
    assert_int_equal(tensor->storage, MR_STORAGE_PIECES);
    assert_int_equal(tensor->dim_count, 2);
    assert_int_equal(tensor->size_bytes, 9 + 16);
    float row[3];
    mr_stored_tensor_row(tensor, 1, row);
    assert_memory_equal(row, ((const float[]){1, 1, 2}), sizeof(row));
    mr_stored_tensor_row(tensor, 2, row);
    assert_memory_equal(row, ((const float[]){3, 3, 4}), sizeof(row));
    assert_non_null(tensor->quantized->pieces[MR_QUANTIZED_SCALE].bytes);
    assert_null(tensor->quantized->pieces[MR_QUANTIZED_ZERO].bytes);
    assert_int_equal(mr_tensor_table_find(table, "lm_head.weight")->storage, MR_STORAGE_F16);
    mr_quantized_folder_destroy(folder);
}

static void without_a_configuration_every_tensor_stays(void **state)
{
    (void)state;
    struct stored stored = {0};
    put(&stored, "a.weight", MR_STORAGE_F8_E4M3, DIMS(2, 2));
    put(&stored, "a.input_scale", MR_STORAGE_F32, DIMS(1));
    struct mr_quantized_folder *folder = create(&stored, "{}");
    assert_int_equal(mr_quantized_folder_tensors(folder)->count, 2);
    mr_quantized_folder_destroy(folder);
    mr_quantized_folder_destroy(NULL);
}

static void scaled_weights_that_do_not_fit_are_rejected(void **state)
{
    (void)state;
    struct stored stored = {0};
    put(&stored, "a.weight", MR_STORAGE_F8_E4M3, DIMS(3, 3));
    misfits(&stored, FP8, "weight_scale\" of a weight in fp8: it is missing");
    put(&stored, "a.weight_scale", MR_STORAGE_F32, DIMS(3, 2));
    misfits(&stored, FP8, "does not fit the weight");
    struct stored types = {0};
    put(&types, "a.weight", MR_STORAGE_I8, DIMS(4, 4));
    put(&types, "a.weight_scale", MR_STORAGE_I32, DIMS(1));
    misfits(&types, FP8, "does not fit the weight");
    struct stored zeros = {0};
    put(&zeros, "a.weight", MR_STORAGE_I8, DIMS(4, 4));
    put(&zeros, "a.weight_scale", MR_STORAGE_BF16, DIMS(4, 1));
    put(&zeros, "a.weight_zero_point", MR_STORAGE_I8, DIMS(4));
    misfits(&zeros, FP8, "differs from that of the scales");
    struct stored flat = {0};
    put(&flat, "a.weight", MR_STORAGE_I8, DIMS(4));
    misfits(&flat, FP8, "is not a matrix");
}

static void put_gptq(struct stored *stored, uint64_t columns_order, int32_t last_group)
{
    *stored = (struct stored){0};
    put(stored, "a.qweight", MR_STORAGE_I32, DIMS(2, 8));
    put(stored, "a.qzeros", MR_STORAGE_I32, DIMS(2, 1));
    put(stored, "a.scales", MR_STORAGE_F16, DIMS(2, 8));
    unsigned char *order = put(stored, "a.g_idx", MR_STORAGE_I32, DIMS(columns_order));
    for (uint64_t i = 0; i < columns_order; i++) {
        int32_t group = i + 1 == columns_order ? last_group : (int32_t)(i / 8);
        memcpy(order + 4 * i, &group, 4);
    }
}

static void packed_columns_that_do_not_fit_are_rejected(void **state)
{
    (void)state;
    struct stored stored;
    put_gptq(&stored, 16, 1);
    mr_quantized_folder_destroy(create(&stored, GPTQ));
    put_gptq(&stored, 16, 2);
    misfits(&stored, GPTQ, "g_idx");
    put_gptq(&stored, 16, -1);
    misfits(&stored, GPTQ, "g_idx");
    put_gptq(&stored, 15, 1);
    misfits(&stored, GPTQ, "g_idx");
    put_gptq(&stored, 16, 1);
    stored.entries[1].name.bytes = "a.unknown";
    misfits(&stored, GPTQ, "");
    struct stored groups = {0};
    put(&groups, "a.qweight", MR_STORAGE_I32, DIMS(2, 8));
    put(&groups, "a.qzeros", MR_STORAGE_I32, DIMS(3, 1));
    put(&groups, "a.scales", MR_STORAGE_F16, DIMS(3, 8));
    misfits(&groups, GPTQ, "scales");
    struct stored alone = {0};
    put(&alone, "a.qweight", MR_STORAGE_I32, DIMS(2, 8));
    misfits(&alone, GPTQ, "are missing");
}

static void packed_rows_that_do_not_fit_are_rejected(void **state)
{
    (void)state;
    struct stored stored = {0};
    put(&stored, "a.weight_packed", MR_STORAGE_I32, DIMS(2, 2));
    misfits(&stored, PACKED, "is missing");
    put(&stored, "a.weight_scale", MR_STORAGE_F16, DIMS(2, 2));
    unsigned char *shape = put(&stored, "a.weight_shape", MR_STORAGE_I64, DIMS(2));
    memcpy(shape, (const int64_t[]){2, 16}, 16);
    mr_quantized_folder_destroy(create(&stored, PACKED));
    memcpy(shape, (const int64_t[]){2, 24}, 16);
    misfits(&stored, PACKED, "4 or 8 bits");
    memcpy(shape, (const int64_t[]){-2, 16}, 16);
    misfits(&stored, PACKED, "4 or 8 bits");
    memcpy(shape, (const int64_t[]){2, INT64_MAX}, 16);
    misfits(&stored, PACKED, "4 or 8 bits");
    memcpy(shape, (const int64_t[]){2, 16}, 16);
    put(&stored, "a.weight_zero_point", MR_STORAGE_I32, DIMS(2, 2));
    misfits(&stored, PACKED, "weight_zero_point");
}

static void a_weight_that_is_stored_twice_is_rejected(void **state)
{
    (void)state;
    struct stored stored;
    struct mr_quantization quantization = config(GPTQ);
    struct mr_quantized_folder *folder;
    struct mr_error err = {0};
    put_gptq(&stored, 16, 1);
    put(&stored, "a.weight", MR_STORAGE_F16, DIMS(8, 16));
    assert_int_equal(mr_tensor_table_sort(&stored.table, &err), MR_OK);
    assert_int_equal(mr_quantized_folder_create(&folder, &quantization, &stored.table, &err),
                     MR_BAD_FILE);
    assert_non_null(strstr(err.detail, "twice"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(methods_that_are_not_read_are_rejected_by_name),
        cmocka_unit_test(the_configuration_says_bits_blocks_and_groups),
        cmocka_unit_test(pieces_become_one_tensor_and_others_stay),
        cmocka_unit_test(without_a_configuration_every_tensor_stays),
        cmocka_unit_test(scaled_weights_that_do_not_fit_are_rejected),
        cmocka_unit_test(packed_columns_that_do_not_fit_are_rejected),
        cmocka_unit_test(packed_rows_that_do_not_fit_are_rejected),
        cmocka_unit_test(a_weight_that_is_stored_twice_is_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
