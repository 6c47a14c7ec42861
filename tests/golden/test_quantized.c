/* Compares every packed layer of the quantized folders that make_quantized.py has written, bit for
 * bit, with the script's numbers: the rows, and their blocks of Q4_1. golden_test_logits compares
 * the logits of the same folders (CMakeLists.txt). */
#include "ops/files/mapped_file.h"
#include "ops/files/quantized_folder.h"
#include "ops/files/safetensors.h"
#include "tests/golden/row_hash.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct {
    const char *name;
    uint32_t tensors, in_blocks;
} folders[] = {{"fp8_block", 7, 0},     {"float_channel", 7, 0}, {"float_tensor", 7, 0},
               {"int_channel", 7, 0},   {"packed", 7, 7},        {"packed_zeros", 7, 0},
               {"packed_8_bits", 7, 0}, {"awq", 7, 7},           {"gptq", 7, 7},
               {"gptq_order", 7, 0},    {"gptq_v2", 7, 7},       {"gptq_8_bits", 7, 0},
               {"mxfp4", 1, 0}};

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

/* Compares the rows as blocks of Q4_1 with the rows as floats. They differ by 2^-11 of the block's
 * minimum, -scale * zero point, where the minimum is not a half-precision number. Returns 1; 0 for
 * a tensor that fits no blocks. */
static uint32_t compare_blocks(const struct mr_stored_tensor *tensor)
{
    enum { WIDTH_MAX = 256 };
    unsigned char blocks[WIDTH_MAX / 32 * 20];
    float numbers[WIDTH_MAX], exact[WIDTH_MAX], found[WIDTH_MAX];
    const struct mr_quantized *q = tensor->quantized;
    const uint64_t rows = mr_stored_tensor_rows(tensor);
    if (!mr_quantized_fits_q4_1(q)) return 0;
    assert_in_range(q->width, 1, WIDTH_MAX);
    for (uint64_t row = 0; row < rows; row++) {
        assert_true(mr_quantized_row_q4_1(q, row, numbers, blocks));
        mr_dequant(MR_STORAGE_Q4_1, blocks, q->width, found);
        mr_quantized_row(q, row, exact);
        float top = 0.0f;
        for (uint32_t i = 0; i < q->width; i++)
            top = fmaxf(top, fabsf(exact[i] - exact[i / 32 * 32]));
        for (uint32_t i = 0; i < q->width; i++)
            if (!(fabsf(found[i] - exact[i]) <= top * 0x1p-10f))
                fail_msg("row %u, number %u: %g, %g as a block", (unsigned)row, i, (double)exact[i],
                         (double)found[i]);
    }
    return 1;
}

/* line: a line of rows.txt. Returns what compare_blocks returns. */
static uint32_t compare_weight(char *line, const struct mr_tensor_table *tensors)
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
    return compare_blocks(tensor);
}

/* Returns the number of tensors; *in_blocks: the number that can be blocks of Q4_1. */
static uint32_t compare_rows(const char *folder, const struct mr_tensor_table *tensors,
                             uint32_t *in_blocks)
{
    char path[160], line[256];
    uint32_t count = 0;
    snprintf(path, sizeof(path), "%s/rows.txt", folder);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    for (; fgets(line, sizeof(line), file); count++)
        *in_blocks += compare_weight(line, tensors);
    fclose(file);
    return count;
}

static void packed_layers_have_the_numbers_of_their_formats(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        struct mr_error err = {0};
        struct mr_quantization quantization;
        struct mr_safetensors *files = NULL;
        struct mr_quantized_folder *quantized = NULL;
        char folder[128];
        snprintf(folder, sizeof(folder), "tests/golden/quantized/%s", folders[i].name);
        read_quantization(folder, &quantization);
        enum mr_status status = mr_safetensors_open(&files, folder, &err);
        if (status == MR_OK)
            status = mr_quantized_folder_create(&quantized, &quantization,
                                                mr_safetensors_tensors(files), &err);
        if (status != MR_OK) fail_msg("%s: %s", folder, err.detail);
        uint32_t in_blocks = 0;
        uint32_t count = compare_rows(folder, mr_quantized_folder_tensors(quantized), &in_blocks);
        assert_int_equal(count, folders[i].tensors);
        assert_int_equal(in_blocks, folders[i].in_blocks);
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
