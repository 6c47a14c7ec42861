#include "worker/config/value_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum mr_status mr_value_file_read(const char *path, char *value, size_t *length,
                                  struct mr_error *err)
{
    FILE *file = fopen(path, "rbe");
    if (!file) return mr_fail(err, MR_BAD_CONFIG, "%.200s: %s", path, strerror(errno));
    *length = fread(value, 1, MR_VALUE_FILE_BYTES, file);
    bool whole = *length < MR_VALUE_FILE_BYTES && !ferror(file) && !memchr(value, '\0', *length);
    fclose(file);
    if (!whole)
        return mr_fail(err, MR_BAD_CONFIG, "%.200s is not a text file below %zu bytes", path,
                       MR_VALUE_FILE_BYTES);
    while (*length > 0 && strchr("\r\n", value[*length - 1]))
        (*length)--;
    value[*length] = '\0';
    return MR_OK;
}
