#include "ops/files/tensor_table.h"

#include "codec/check.h"

#include <stdlib.h>
#include <string.h>

enum mr_status mr_tensor_table_create(struct mr_tensor_table *out, uint32_t capacity,
                                      struct mr_error *err)
{
    *out = (struct mr_tensor_table){0};
    if (capacity > MR_STORED_COUNT_MAX)
        return mr_fail(err, MR_BAD_FILE, "the file has %u tensors, limit %u", capacity,
                       MR_STORED_COUNT_MAX);
    out->entries = calloc(capacity > 0 ? capacity : 1, sizeof(*out->entries));
    if (!out->entries)
        return mr_fail(err, MR_NOMEM, "no memory for a table of %u tensors", capacity);
    out->capacity = capacity;
    return MR_OK;
}

void mr_tensor_table_destroy(struct mr_tensor_table *table)
{
    free(table->entries);
    *table = (struct mr_tensor_table){0};
}

struct mr_stored_tensor *mr_tensor_table_add(struct mr_tensor_table *table)
{
    MR_ASSERT(table->count < table->capacity);
    return &table->entries[table->count++];
}

int mr_stored_name_order(struct mr_text a, struct mr_text b)
{
    size_t common = a.length < b.length ? a.length : b.length;
    int order = common > 0 ? memcmp(a.bytes, b.bytes, common) : 0;
    if (order != 0) return order;
    return (a.length > b.length) - (a.length < b.length);
}

bool mr_stored_name_in(struct mr_text name, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (mr_text_is(name, words[i])) return true;
    return false;
}

int mr_stored_name_shown(struct mr_text name)
{
    return (int)(name.length < 64 ? name.length : 64);
}

static int compare_entries(const void *a, const void *b)
{
    const struct mr_stored_tensor *left = a, *right = b;
    return mr_stored_name_order(left->name, right->name);
}

enum mr_status mr_tensor_table_sort(struct mr_tensor_table *table, struct mr_error *err)
{
    qsort(table->entries, table->count, sizeof(*table->entries), compare_entries);
    for (uint32_t i = 1; i < table->count; i++) {
        struct mr_text name = table->entries[i].name;
        if (mr_stored_name_order(table->entries[i - 1].name, name) == 0)
            return mr_fail(err, MR_BAD_FILE, "tensor \"%.*s\" is in the file twice",
                           mr_stored_name_shown(name), name.bytes);
    }
    return MR_OK;
}

const struct mr_stored_tensor *mr_tensor_table_find(const struct mr_tensor_table *table,
                                                    const char *name)
{
    struct mr_stored_tensor wanted = {.name = {name, strlen(name)}};
    return bsearch(&wanted, table->entries, table->count, sizeof(wanted), compare_entries);
}

bool mr_stored_tensor_sizes(const struct mr_stored_tensor *tensor, uint64_t *numbers,
                            uint64_t *bytes)
{
    size_t block = mr_storage_block_numbers(tensor->storage);
    uint64_t product = 1;
    for (uint32_t i = 0; i < tensor->dim_count; i++)
        if (tensor->dims[i] == 0 || __builtin_mul_overflow(product, tensor->dims[i], &product))
            return false;
    uint64_t width = tensor->dim_count > 0 ? tensor->dims[tensor->dim_count - 1] : 1;
    if (block == 0 || width % block != 0) return false;
    *numbers = product;
    return !__builtin_mul_overflow(product / block, mr_storage_block_bytes(tensor->storage), bytes);
}

uint64_t mr_stored_tensor_rows(const struct mr_stored_tensor *tensor)
{
    uint64_t rows = 1;
    for (uint32_t i = 0; i + 1 < tensor->dim_count; i++)
        rows *= tensor->dims[i];
    return rows;
}

static const struct mr_mapped_file *file_of(const struct mr_stored_tensor *tensor)
{
    return tensor->quantized ? tensor->quantized->pieces[0].file : tensor->file;
}

enum mr_status mr_tensor_table_check_files(const struct mr_tensor_table *table,
                                           struct mr_error *err)
{
    const struct mr_mapped_file *checked = NULL;
    for (uint32_t i = 0; i < table->count; i++) {
        const struct mr_mapped_file *file = file_of(&table->entries[i]);
        if (!file || file == checked) continue;
        enum mr_status status = mr_mapped_file_check(file, err);
        if (status != MR_OK) return status;
        checked = file;
    }
    return MR_OK;
}

enum mr_status mr_stored_tensor_hold(const struct mr_stored_tensor *tensor, struct mr_error *err)
{
    if (!tensor->file) return MR_OK;
    return mr_mapped_file_hold(tensor->file, (size_t)(tensor->bytes - tensor->file->bytes),
                               (size_t)tensor->size_bytes, err);
}

void mr_stored_tensor_row(const struct mr_stored_tensor *tensor, uint64_t row, float *out)
{
    MR_ASSERT(tensor->dim_count >= 1 && tensor->dim_count <= MR_STORED_DIMS_MAX);
    uint64_t rows = mr_stored_tensor_rows(tensor);
    MR_ASSERT(row < rows);
    if (tensor->quantized) {
        mr_quantized_row(tensor->quantized, row, out);
        return;
    }
    uint64_t width = tensor->dims[tensor->dim_count - 1];
    uint64_t row_bytes = tensor->size_bytes / rows;
    mr_dequant(tensor->storage, tensor->bytes + row * row_bytes, width, out);
}
