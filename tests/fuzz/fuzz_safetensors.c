/* safetensors files and their index.
 *
 * Input: a byte that chooses the form, and the form's bytes.
 *   0  one file as it is
 *   1  u16 number of bytes of data, then the JSON header of one file
 *   2  an index, a byte of value 0, then as in form 1 for the file "a.safetensors" */
#include "ops/files/safetensors.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/memory_file.h"

#include <stdlib.h>

/* A file made of the length of the header, the header, and zeros as data; to be freed. */
static struct mr_text file_of(struct fuzz_cursor *cursor)
{
    size_t zeros = fuzz_u16(cursor);
    struct mr_text header = fuzz_rest(cursor);
    uint64_t length = header.length;
    size_t size = sizeof length + header.length + zeros;
    char *file = calloc(1, size);
    MR_ASSERT(file);
    memcpy(file, &length, sizeof length);
    memcpy(file + sizeof length, header.bytes, header.length);
    return (struct mr_text){file, size};
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
        if (tensor->storage != MR_STORAGE_OTHER)
            MR_ASSERT(mr_stored_tensor_sizes(tensor, &numbers, &bytes) &&
                      bytes == tensor->size_bytes);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_cursor cursor = {data, size};
    uint8_t form = fuzz_u8(&cursor) % 3;
    struct mr_text built = {0}, index = {0};
    struct mr_safetensors *safetensors = NULL;
    struct mr_error err = {0};
    memory_file_clear();
    if (form == 2) index = fuzz_part(&cursor);
    if (form != 0) built = file_of(&cursor);
    if (form == 2) memory_file_set("model.safetensors.index.json", index);
    memory_file_set(form == 2 ? "a.safetensors" : "model.safetensors",
                    form == 0 ? fuzz_rest(&cursor) : built);
    /* Which form is read depends on the files on the disk. Contents come from memory. */
    const char *folder =
        form == 2 ? "tests/golden/models/llama3_rope_sharded" : "tests/golden/models/qwen2";
    enum mr_status status = mr_safetensors_open(&safetensors, folder, &err);
    MR_ASSERT(status == MR_OK || (status == MR_BAD_FILE && err.detail[0] && !safetensors));
    if (status == MR_OK) check(mr_safetensors_tensors(safetensors));
    mr_safetensors_close(safetensors);
    free((char *)(uintptr_t)built.bytes);
    return 0;
}
