/* row_hash - digests of the numbers of tensors, and the lines of the files that list them. */
#ifndef MR_TESTS_ROW_HASH_H
#define MR_TESTS_ROW_HASH_H

#include "ops/files/tensor_table.h"

#define ROW_HASH_CHARS 65u

/* Sets hex to the SHA-256 of all rows as little-endian floats, in hexadecimal digits. */
void row_hash(const struct mr_stored_tensor *tensor, char hex[ROW_HASH_CHARS]);
/* Cuts the line at its next space or end of line, which must exist; returns the rest. */
char *row_line_cut(char *line);

#endif
