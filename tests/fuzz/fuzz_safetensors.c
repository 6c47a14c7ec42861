/* safetensors files and their index.
 *
 * Input: a byte that chooses the form, and the form's bytes.
 *   0  one file as it is
 *   1  u16 number of bytes of data, then the JSON header of one file
 *   2  an index, a byte of value 0, then as in form 1 for the file "a.safetensors"
 *   3  the method of quantization, its bits and group size, the length of the JSON header as u16,
 *      the header, the data
 *   4  config.json, a byte of value 0, the length of the JSON header as u16, the header, the data
 */
#include "ops/files/quantized_folder.h"
#include "ops/files/safetensors.h"
#include "ops/numbers/dequant.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/memory_file.h"

#include <math.h>
#include <stdlib.h>

/* A file made of the length of the header, the header, the data, and zeros; to be freed. */
static struct mr_text file_of(struct mr_text header, struct mr_text data, size_t zeros)
{
    uint64_t length = header.length;
    size_t size = sizeof length + header.length + data.length + zeros;
    char *file = calloc(1, size);
    MR_ASSERT(file);
    memcpy(file, &length, sizeof length);
    memcpy(file + sizeof length, header.bytes, header.length);
    if (data.length > 0) memcpy(file + sizeof length + header.length, data.bytes, data.length);
    return (struct mr_text){file, size};
}

static struct mr_text file_with_zeros(struct fuzz_cursor *cursor)
{
    size_t zeros = fuzz_u16(cursor);
    return file_of(fuzz_rest(cursor), (struct mr_text){"", 0}, zeros);
}

static struct mr_text file_with_data(struct fuzz_cursor *cursor)
{
    struct mr_text header = fuzz_take(cursor, fuzz_u16(cursor));
    return file_of(header, fuzz_rest(cursor), 0);
}

static void check(const struct mr_tensor_table *table)
{
    for (uint32_t i = 0; i < table->count; i++) {
        const struct mr_stored_tensor *tensor = &table->entries[i];
        uint64_t numbers = 0, bytes = 0;
        unsigned sum = 0;
        for (uint64_t k = 0; k < tensor->size_bytes; k++)
            sum += tensor->bytes[k];
        MR_ASSERT(sum <= 255 * tensor->size_bytes);
        MR_ASSERT(i == 0 || mr_stored_name_order(table->entries[i - 1].name, tensor->name) < 0);
        if (tensor->storage != MR_STORAGE_OTHER && tensor->size_bytes > 0)
            MR_ASSERT(mr_stored_tensor_sizes(tensor, &numbers, &bytes) &&
                      bytes == tensor->size_bytes);
    }
}

/* A row in blocks of Q4_1 has the same numbers, except that each block's least number is rounded to
 * half precision. */
static void check_q4_1(const struct mr_quantized *quantized, uint64_t row, const float *expected)
{
    const size_t width = (size_t)quantized->width;
    if (!mr_quantized_fits_q4_1(quantized)) return;
    float *numbers = calloc(width, sizeof(*numbers));
    unsigned char *blocks = calloc(width / 32, 20);
    MR_ASSERT(numbers && blocks);
    if (mr_quantized_row_q4_1(quantized, row, numbers, blocks)) {
        mr_dequant(MR_STORAGE_Q4_1, blocks, width, numbers);
        for (size_t i = 0; i < width; i++) {
            uint16_t low;
            memcpy(&low, blocks + i / 32 * 20 + 2, sizeof low);
            float bound = fabsf(mr_float_of_half(low)) + fabsf(expected[i]);
            MR_ASSERT(fabsf(numbers[i] - expected[i]) <= bound * 0x1p-10f + 0x1p-24f);
        }
    }
    free(blocks);
    free(numbers);
}

/* Reads the first and the last row of every quantized weight. */
static void check_weights(const struct mr_tensor_table *table)
{
    for (uint32_t i = 0; i < table->count; i++) {
        const struct mr_stored_tensor *tensor = &table->entries[i];
        if (tensor->storage != MR_STORAGE_PIECES) continue;
        uint64_t rows = mr_stored_tensor_rows(tensor);
        float *row = calloc((size_t)tensor->dims[tensor->dim_count - 1], sizeof(*row));
        MR_ASSERT(row && rows > 0);
        mr_stored_tensor_row(tensor, 0, row);
        mr_stored_tensor_row(tensor, rows - 1, row);
        check_q4_1(tensor->quantized, rows - 1, row);
        MR_ASSERT(mr_quantized_name(tensor->quantized)[0]);
        free(row);
    }
}

static void build_quantized(const struct mr_quantization *quantization,
                            const struct mr_safetensors *safetensors)
{
    struct mr_quantized_folder *folder;
    struct mr_error err = {0};
    enum mr_status status = mr_quantized_folder_create(&folder, quantization,
                                                       mr_safetensors_tensors(safetensors), &err);
    MR_ASSERT(status == MR_OK || (status == MR_BAD_FILE && err.detail[0] && !folder));
    if (status == MR_OK) check_weights(mr_quantized_folder_tensors(folder));
    mr_quantized_folder_destroy(folder);
}

/* Reads config.json. False: it was not read. */
static bool read_config(struct mr_quantization *out, struct mr_text text)
{
    const struct mr_json_limits limits = {
        .bytes_max = (size_t)1 << 20, .values_max = (size_t)1 << 16, .depth_max = 64};
    struct mr_json *config;
    struct mr_error err = {0};
    if (mr_json_parse(&config, text, &limits, &err) != MR_OK) return false;
    enum mr_status status = mr_quantization_from_json(out, mr_json_root(config), &err);
    MR_ASSERT(status == MR_OK || (status == MR_BAD_FILE && err.detail[0]));
    mr_json_destroy(config);
    return status == MR_OK;
}

/* Settings of config.json from three bytes. */
static struct mr_quantization quantization_of(struct fuzz_cursor *cursor)
{
    struct mr_quantization quantization = {.method = fuzz_u8(cursor) % 6, .group_size_count = 1};
    uint8_t bits = fuzz_u8(cursor);
    quantization.bits = bits & 1 ? 8 : 4;
    quantization.zero_less_one = bits & 2;
    quantization.block[0] = quantization.block[1] = 1 + (bits >> 2);
    quantization.group_sizes[0] = 1u + fuzz_u8(cursor);
    return quantization;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_cursor cursor = {data, size};
    uint8_t form = fuzz_u8(&cursor) % 5;
    struct mr_text built = {0}, index = {0};
    struct mr_safetensors *safetensors = NULL;
    struct mr_quantization quantization = {0};
    struct mr_error err = {0};
    memory_file_clear();
    if (form == 3) quantization = quantization_of(&cursor);
    if (form == 4 && !read_config(&quantization, fuzz_part(&cursor))) return 0;
    if (form == 2) index = fuzz_part(&cursor);
    if (form == 1 || form == 2) built = file_with_zeros(&cursor);
    if (form >= 3) built = file_with_data(&cursor);
    if (form == 2) memory_file_set("model.safetensors.index.json", index);
    memory_file_set(form == 2 ? "a.safetensors" : "model.safetensors",
                    form == 0 ? fuzz_rest(&cursor) : built);
    /* The files on the disk determine the form that is read. Contents come from memory. */
    const char *folder =
        form == 2 ? "tests/golden/models/llama3_rope_sharded" : "tests/golden/models/qwen2";
    enum mr_status status = mr_safetensors_open(&safetensors, folder, &err);
    MR_ASSERT(status == MR_OK || (status == MR_BAD_FILE && err.detail[0] && !safetensors));
    if (status == MR_OK) check(mr_safetensors_tensors(safetensors));
    if (status == MR_OK && form >= 3) build_quantized(&quantization, safetensors);
    mr_safetensors_close(safetensors);
    free((char *)(uintptr_t)built.bytes);
    return 0;
}
