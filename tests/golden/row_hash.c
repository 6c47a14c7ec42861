#include "tests/golden/row_hash.h"

#include "codec/check.h"
#include "codec/sha256.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void row_hash(const struct mr_stored_tensor *tensor, char hex[ROW_HASH_CHARS])
{
    unsigned char digest[MR_SHA256_BYTES];
    size_t width = (size_t)tensor->dims[tensor->dim_count - 1];
    float *row = calloc(width, sizeof(float));
    struct mr_sha256 *hash = mr_sha256_create();
    MR_ASSERT(row && hash);
    mr_sha256_begin(hash);
    for (uint64_t i = 0; i < mr_stored_tensor_rows(tensor); i++) {
        mr_stored_tensor_row(tensor, i, row);
        mr_sha256_add(hash, row, width * sizeof(float));
    }
    mr_sha256_end(hash, digest);
    for (size_t i = 0; i < sizeof(digest); i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    mr_sha256_destroy(hash);
    free(row);
}

char *row_line_cut(char *line)
{
    size_t length = strcspn(line, " \n");
    MR_ASSERT(line[length] != '\0');
    line[length] = '\0';
    return line + length + 1;
}
