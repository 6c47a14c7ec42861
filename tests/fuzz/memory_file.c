#include "tests/fuzz/memory_file.h"

#include "codec/check.h"
#include "ops/files/mapped_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILES_MAX 4u

static struct {
    const char *name;
    struct mr_text bytes;
} files[FILES_MAX];
static size_t file_count;

void memory_file_set(const char *name, struct mr_text bytes)
{
    MR_ASSERT(file_count < FILES_MAX);
    files[file_count].name = name;
    files[file_count++].bytes = bytes;
}

void memory_file_clear(void)
{
    file_count = 0;
}

static enum mr_status fill(struct mr_mapped_file *out, size_t size, struct mr_error *err)
{
    if (size == 0) return mr_fail(err, MR_BAD_FILE, "the file is empty");
    unsigned char *bytes = malloc(size);
    MR_ASSERT(bytes);
    *out = (struct mr_mapped_file){.bytes = bytes, .size = size};
    return MR_OK;
}

static enum mr_status open_real(struct mr_mapped_file *out, const char *path, struct mr_error *err)
{
    struct stat info;
    bool regular = stat(path, &info) == 0 && S_ISREG(info.st_mode);
    FILE *file = regular ? fopen(path, "rb") : NULL;
    if (!file) return mr_fail(err, MR_BAD_FILE, "%.100s: cannot be opened", path);
    MR_ASSERT(fseek(file, 0, SEEK_END) == 0);
    enum mr_status status = fill(out, (size_t)ftell(file), err);
    rewind(file);
    if (status == MR_OK)
        MR_ASSERT(fread((unsigned char *)(uintptr_t)out->bytes, 1, out->size, file) == out->size);
    fclose(file);
    return status;
}

enum mr_status mr_mapped_file_open(struct mr_mapped_file *out, const char *path,
                                   struct mr_error *err)
{
    size_t length = strlen(path);
    *out = (struct mr_mapped_file){0};
    for (size_t i = 0; i < file_count; i++) {
        size_t own = strlen(files[i].name);
        if (own > length || strcmp(path + length - own, files[i].name) != 0) continue;
        enum mr_status status = fill(out, files[i].bytes.length, err);
        if (status == MR_OK)
            memcpy((unsigned char *)(uintptr_t)out->bytes, files[i].bytes.bytes, out->size);
        return status;
    }
    return open_real(out, path, err);
}

enum mr_status mr_mapped_file_map(struct mr_mapped_file *out, const char *path,
                                  struct mr_error *err)
{
    return mr_mapped_file_open(out, path, err);
}

enum mr_status mr_mapped_file_hold(const struct mr_mapped_file *file, size_t first, size_t size,
                                   struct mr_error *err)
{
    (void)err;
    MR_ASSERT(size <= file->size && first <= file->size - size);
    return MR_OK;
}

enum mr_status mr_mapped_file_read(const struct mr_mapped_file *file, size_t first, size_t size,
                                   void *out, struct mr_error *err)
{
    (void)err;
    memcpy(out, file->bytes + first, size);
    return MR_OK;
}

enum mr_status mr_mapped_file_check(const struct mr_mapped_file *file, struct mr_error *err)
{
    (void)file;
    (void)err;
    return MR_OK;
}

enum mr_status mr_mapped_file_blame(const char *path, enum mr_status status, struct mr_error *err)
{
    (void)path;
    (void)err;
    return status;
}

void mr_mapped_file_close(struct mr_mapped_file *file)
{
    free((unsigned char *)(uintptr_t)file->bytes);
    *file = (struct mr_mapped_file){0};
}

struct mr_text mr_mapped_file_text(const struct mr_mapped_file *file)
{
    return (struct mr_text){(const char *)file->bytes, file->size};
}
