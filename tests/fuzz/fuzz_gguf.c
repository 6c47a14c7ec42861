/* GGUF files: metadata, tensor table, configuration, tokenizer, and the rows of tensors.
 *
 * Input: the file. In a model in two parts the second file follows the first; it begins at the last
 * "GGUF" of the input. */
#include "codec/tokenizer/tokenizer.h"
#include "ops/files/model_gguf.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/memory_file.h"

#include <math.h>
#include <stdlib.h>

#define WIDTH_MAX ((uint64_t)65536)

/* Converts the first and the last row of each tensor. */
static void read_rows(const struct mr_tensor_table *table)
{
    for (uint32_t i = 0; i < table->count; i++) {
        const struct mr_stored_tensor *tensor = &table->entries[i];
        uint64_t numbers, bytes;
        MR_ASSERT(tensor->storage < MR_STORAGE_COUNT);
        if (tensor->storage == MR_STORAGE_OTHER) continue;
        if (tensor->dim_count < 1) continue;
        MR_ASSERT(mr_stored_tensor_sizes(tensor, &numbers, &bytes) && bytes == tensor->size_bytes);
        uint64_t width = tensor->dims[tensor->dim_count - 1];
        if (width > WIDTH_MAX) continue;
        float *row = malloc(width * sizeof *row);
        MR_ASSERT(row);
        mr_stored_tensor_row(tensor, 0, row);
        mr_stored_tensor_row(tensor, numbers / width - 1, row);
        free(row);
    }
}

static void encode(const struct mr_tokenizer *tokenizer)
{
    uint32_t ids[256];
    struct mr_id_list list = {.ids = ids, .max = 256};
    struct mr_tokenizer_scratch *scratch = mr_tokenizer_scratch_create(tokenizer);
    MR_ASSERT(scratch);
    mr_tokenizer_encode(tokenizer, scratch, (struct mr_text){"Hi <s> 12\u00e9", 11},
                        (struct mr_encode_options){.add_special = true, .parse_special = true},
                        &list, NULL);
    for (size_t i = 0; i < list.count && i < 256; i++)
        MR_ASSERT(ids[i] < mr_tokenizer_vocab_size(tokenizer));
    mr_tokenizer_scratch_destroy(scratch);
}

/* Where the second part begins; `size` if there is none. */
static size_t second_part(const uint8_t *data, size_t size)
{
    for (size_t at = size; at > 4; at--)
        if (memcmp(data + at - 4, "GGUF", 4) == 0) return at - 4;
    return size;
}

/* Sets the files; returns the path of the first. */
static const char *set_files(const uint8_t *data, size_t size)
{
    size_t second = second_part(data, size);
    struct mr_text text = {(const char *)data, size};
    memory_file_clear();
    memory_file_set("part-00001-of-00002.gguf", mr_text_part(text, 0, second));
    memory_file_set("part-00002-of-00002.gguf", mr_text_part(text, second, size));
    return "part-00001-of-00002.gguf";
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mr_model_source source = {0};
    struct mr_error err = {0};
    struct mr_gguf *gguf = NULL;
    const char *path = set_files(data, size);
    enum mr_status status = mr_gguf_open(&gguf, path, &err);
    MR_ASSERT(status == MR_OK || (status == MR_BAD_FILE && err.detail[0] && !gguf));
    if (status != MR_OK) return 0;
    read_rows(mr_gguf_tensors(gguf));
    mr_gguf_close(gguf);
    status = mr_model_gguf_read(&source, path, &err);
    MR_ASSERT(status == MR_OK || (status == MR_BAD_FILE && err.detail[0]));
    if (status == MR_OK) encode(source.tokenizer);
    mr_model_source_close(&source);
    return 0;
}
