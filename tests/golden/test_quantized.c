/* Compares the rows of every packed layer of the quantized folders that make_quantized.py has
 * written with the numbers computed there, bit for bit. The logits of the same folders are compared
 * by golden_test_logits (CMakeLists.txt). */
#include "ops/files/mapped_file.h"
#include "ops/files/quantized_folder.h"
#include "ops/files/safetensors.h"
#include "tests/golden/row_hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const names[] = {"fp8_block", "float_channel", "float_tensor",  "int_channel",
                                    "packed",    "packed_zeros",  "packed_8_bits", "awq",
                                    "gptq",      "gptq_order",    "gptq_v2",       "gptq_8_bits",
                                    "mxfp4"};

static void read_quantization(const char *folder, struct mr_quantization *out)
{
    const struct mr_json_limits limits = {.bytes_max = 65536, .values_max = 1024, .depth_max = 16};
    struct mr_mapped_file file;
    struct mr_json *json;
    char path[160];
    snprintf(path, sizeof(path), "%s/config.json", folder);
    assert_int_equal(mr_mapped_file_open(&file, path, NULL), MR_OK);
    assert_int_equal(mr_json_parse_wide(&json, mr_mapped_file_text(&file), &limits, NULL), MR_OK);
    assert_int_equal(mr_quantization_from_json(out, mr_json_root(json), NULL), MR_OK);
    mr_json_destroy(json);
    mr_mapped_file_close(&file);
}

static void compare_weight(char *line, const struct mr_tensor_table *tensors)
{
    char found[ROW_HASH_CHARS], *name = line, *rows = row_line_cut(name),
                                *width = row_line_cut(rows), *wanted = row_line_cut(width);
    (void)row_line_cut(wanted);
    const struct mr_stored_tensor *tensor = mr_tensor_table_find(tensors, name);
    assert_non_null(tensor);
    assert_int_equal(tensor->storage, MR_STORAGE_PIECES);
    assert_int_equal(mr_stored_tensor_rows(tensor), strtoull(rows, NULL, 10));
    assert_int_equal(tensor->dims[tensor->dim_count - 1], strtoull(width, NULL, 10));
    row_hash(tensor, found);
    if (strcmp(found, wanted) != 0) fail_msg("%s has other numbers", name);
}

static uint32_t compare_rows(const char *folder, const struct mr_tensor_table *tensors)
{
    char path[160], line[256];
    uint32_t count = 0;
    snprintf(path, sizeof(path), "%s/rows.txt", folder);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    for (; fgets(line, sizeof(line), file); count++)
        compare_weight(line, tensors);
    fclose(file);
    return count;
}

static void packed_layers_have_the_numbers_of_their_formats(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct mr_error err = {0};
        struct mr_quantization quantization;
        struct mr_safetensors *files = NULL;
        struct mr_quantized_folder *quantized = NULL;
        char folder[128];
        snprintf(folder, sizeof(folder), "tests/golden/quantized/%s", names[i]);
        read_quantization(folder, &quantization);
        enum mr_status status = mr_safetensors_open(&files, folder, &err);
        if (status == MR_OK)
            status = mr_quantized_folder_create(&quantized, &quantization,
                                                mr_safetensors_tensors(files), &err);
        if (status != MR_OK) fail_msg("%s: %s", folder, err.detail);
        uint32_t count = compare_rows(folder, mr_quantized_folder_tensors(quantized));
        assert_int_equal(count, strcmp(names[i], "mxfp4") == 0 ? 1 : 7);
        mr_quantized_folder_destroy(quantized);
        mr_safetensors_close(files);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_layers_have_the_numbers_of_their_formats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
