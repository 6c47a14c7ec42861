/* scratch - builds bytes in memory, and writes files to a temporary folder. */
#ifndef MR_TESTS_OPS_SCRATCH_H
#define MR_TESTS_OPS_SCRATCH_H

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- bytes ---- */

struct bytes {
    unsigned char data[65536];
    size_t size;
};

static inline void put(struct bytes *to, const void *bytes, size_t size)
{
    assert_true(to->size + size <= sizeof to->data);
    memcpy(to->data + to->size, bytes, size);
    to->size += size;
}

static inline void put_u32(struct bytes *to, uint32_t value)
{
    put(to, &value, sizeof value);
}

static inline void put_u64(struct bytes *to, uint64_t value)
{
    put(to, &value, sizeof value);
}

static inline void put_float(struct bytes *to, float value)
{
    put(to, &value, sizeof value);
}

/* A GGUF string. */
static inline void put_text(struct bytes *to, const char *text)
{
    put_u64(to, strlen(text));
    put(to, text, strlen(text));
}

static inline void put_padding(struct bytes *to, size_t alignment)
{
    while (to->size % alignment != 0)
        put(to, "", 1);
}

/* ---- files ---- */

struct scratch {
    char folder[64];
    char path[160]; /* of the last file written */
};

static inline void scratch_open(struct scratch *scratch)
{
    snprintf(scratch->folder, sizeof scratch->folder, "/tmp/millrace-XXXXXX");
    assert_non_null(mkdtemp(scratch->folder));
}

static inline const char *scratch_write(struct scratch *scratch, const char *name,
                                        const void *bytes, size_t size)
{
    snprintf(scratch->path, sizeof scratch->path, "%s/%s", scratch->folder, name);
    FILE *file = fopen(scratch->path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    return scratch->path;
}

static inline void scratch_close(struct scratch *scratch)
{
    DIR *folder = opendir(scratch->folder);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        snprintf(scratch->path, sizeof scratch->path, "%s/%.64s", scratch->folder, entry->d_name);
        unlink(scratch->path);
    }
    closedir(folder);
    assert_int_equal(rmdir(scratch->folder), 0);
}

#endif
