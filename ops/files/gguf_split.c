#include "ops/files/gguf_split.h"

#include "codec/check.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* the end of the name of a part: "-00001-of-00003.gguf" */
#define SUFFIX_BYTES 20u

struct mr_gguf_split {
    struct mr_gguf **files; /* [file_count], in the order of split.no */
    uint32_t file_count;
    struct mr_tensor_table tensors; /* the tensors of all files, sorted by name */
};

/* Writes the suffix of the file name of part `number` (from 0) of `count`. */
static void part_suffix(char suffix[SUFFIX_BYTES + 1], uint32_t number, uint32_t count)
{
    snprintf(suffix, SUFFIX_BYTES + 1, "-%05u-of-%05u.gguf", (number + 1) % 100000u,
             count % 100000u);
}

/* Sets *number and *count to the file's place in a split model; 0 and 1 for a model in one file. */
static void read_place(const struct mr_gguf *gguf, uint32_t *number, uint32_t *count)
{
    *number = 0;
    *count = 1;
    mr_gguf_u32(gguf, "split.no", number);
    mr_gguf_u32(gguf, "split.count", count);
    if (*count == 0) *count = 1;
}

/* Checks that a file of a split model is the first part and that its name says so. */
static enum mr_status check_first(const char *path, uint32_t number, uint32_t count,
                                  struct mr_error *err)
{
    char suffix[SUFFIX_BYTES + 1];
    size_t length = strlen(path);
    if (count == 1) return MR_OK;
    if (count > MR_GGUF_PARTS_MAX)
        return mr_fail(err, MR_BAD_FILE, "GGUF: split.count is %u, limit %u", count,
                       MR_GGUF_PARTS_MAX);
    part_suffix(suffix, 0, count);
    if (number != 0)
        return mr_fail(err, MR_BAD_FILE,
                       "the file is part %u of %u of a model: name the first part, whose name ends "
                       "with %s",
                       number + 1, count, suffix);
    if (length < SUFFIX_BYTES || strcmp(path + length - SUFFIX_BYTES, suffix) != 0)
        return mr_fail(err, MR_BAD_FILE,
                       "the file is the first of %u parts of a model, but its name does not end "
                       "with %s, so the other parts cannot be found",
                       count, suffix);
    return MR_OK;
}

static enum mr_status open_part(struct mr_gguf_split *split, const char *first_path,
                                uint32_t number, uint32_t count, struct mr_error *err)
{
    char path[PATH_MAX], suffix[SUFFIX_BYTES + 1];
    int stem = (int)(strlen(first_path) - SUFFIX_BYTES);
    part_suffix(suffix, number, count);
    if (snprintf(path, sizeof(path), "%.*s%s", stem, first_path, suffix) >= (int)sizeof(path))
        return mr_fail(err, MR_BAD_FILE, "the path of part %u is too long", number + 1);
    enum mr_status status = mr_gguf_open(&split->files[number], path, err);
    if (status != MR_OK) return status;
    split->file_count++;
    uint32_t its_number, its_count;
    read_place(split->files[number], &its_number, &its_count);
    if (its_number != number || its_count != count)
        return mr_fail(err, MR_BAD_FILE, "%.120s is part %u of %u, not %u of %u", path,
                       its_number + 1, its_count, number + 1, count);
    return MR_OK;
}

static enum mr_status merge_tensors(struct mr_gguf_split *split, struct mr_error *err)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < split->file_count; i++)
        count += mr_gguf_tensors(split->files[i])->count;
    uint32_t capacity = count > MR_STORED_COUNT_MAX ? UINT32_MAX : (uint32_t)count;
    enum mr_status status = mr_tensor_table_create(&split->tensors, capacity, err);
    if (status != MR_OK) return status;
    for (uint32_t i = 0; i < split->file_count; i++) {
        const struct mr_tensor_table *table = mr_gguf_tensors(split->files[i]);
        for (uint32_t t = 0; t < table->count; t++)
            *mr_tensor_table_add(&split->tensors) = table->entries[t];
    }
    return mr_tensor_table_sort(&split->tensors, err);
}

static enum mr_status open_parts(struct mr_gguf_split *split, const char *path,
                                 struct mr_error *err)
{
    uint32_t number, count;
    struct mr_gguf *first;
    enum mr_status status = mr_gguf_open(&first, path, err);
    if (status != MR_OK) return status;
    read_place(first, &number, &count);
    status = check_first(path, number, count, err);
    if (status == MR_OK) {
        split->files = calloc(count, sizeof(*split->files));
        if (!split->files) status = mr_fail(err, MR_NOMEM, "no memory for %u files", count);
    }
    if (status != MR_OK) {
        mr_gguf_close(first);
        return status;
    }
    split->files[0] = first;
    split->file_count = 1;
    for (uint32_t i = 1; status == MR_OK && i < count; i++)
        status = open_part(split, path, i, count, err);
    return status == MR_OK ? merge_tensors(split, err) : status;
}

enum mr_status mr_gguf_split_open(struct mr_gguf_split **out, const char *path,
                                  struct mr_error *err)
{
    *out = NULL;
    struct mr_gguf_split *split = calloc(1, sizeof(*split));
    if (!split) return mr_fail(err, MR_NOMEM, "no memory to open %s", path);
    enum mr_status status = open_parts(split, path, err);
    if (status != MR_OK) {
        mr_gguf_split_close(split);
        return status;
    }
    *out = split;
    return MR_OK;
}

void mr_gguf_split_close(struct mr_gguf_split *split)
{
    if (!split) return;
    mr_tensor_table_destroy(&split->tensors);
    for (uint32_t i = 0; i < split->file_count; i++)
        mr_gguf_close(split->files[i]);
    free(split->files);
    free(split);
}

const struct mr_gguf *mr_gguf_split_first(const struct mr_gguf_split *split)
{
    return split->files[0];
}

const struct mr_tensor_table *mr_gguf_split_tensors(const struct mr_gguf_split *split)
{
    return &split->tensors;
}

uint32_t mr_gguf_split_file_count(const struct mr_gguf_split *split)
{
    return split->file_count;
}

struct mr_file_stamp mr_gguf_split_stamp(const struct mr_gguf_split *split, uint32_t index)
{
    MR_ASSERT(index < split->file_count);
    return mr_gguf_stamp(split->files[index]);
}
