/* Files for the tests of worker/batch, in a folder that is removed afterwards. */
#ifndef TESTS_UNIT_WORKER_BATCH_FILES_H
#define TESTS_UNIT_WORKER_BATCH_FILES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define PATH_BYTES 256

static char folder[64];

static inline int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/millrace-batch-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static inline int remove_folder(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static inline const char *path_of(const char *name, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%s/%s", folder, name);
    return path;
}

static inline void write_file(const char *path, const void *bytes, size_t length)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

/* The file's content with a NUL after it; the caller frees it. */
static inline char *read_file(const char *path)
{
    char *bytes = calloc(1, 1 << 20);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(bytes);
    assert_true(fread(bytes, 1, (1 << 20) - 1, file) < (1 << 20) - 1);
    fclose(file);
    return bytes;
}

#endif
