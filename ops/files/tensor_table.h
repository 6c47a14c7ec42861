/* tensor_table - the tensors of a model file by name: their types, shapes and bytes. Filled by the
 * file readers (ops/files/gguf.c, ops/files/safetensors.c), read by ops/weights/weights.c.
 *
 * Owner:  one thread while filling; immutable and shared after _sort.
 * Memory: the table owns its entries; names and bytes are borrowed from the mapped file.
 * Errors: MR_BAD_FILE when two tensors have the same name, MR_NOMEM.
 * Shapes: outermost dimension first, as Hugging Face writes them: a linear is [out, in]. */
#ifndef MR_OPS_FILES_TENSOR_TABLE_H
#define MR_OPS_FILES_TENSOR_TABLE_H

#include "codec/status.h"
#include "codec/text.h"
#include "ops/files/mapped_file.h"
#include "ops/numbers/quantized.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_STORED_DIMS_MAX  4u
#define MR_STORED_COUNT_MAX 65536u

struct mr_stored_tensor {
    struct mr_text name;
    enum mr_storage storage;
    uint32_t dim_count; /* 0: the tensor is a single number */
    uint64_t dims[MR_STORED_DIMS_MAX];
    const unsigned char *bytes; /* NULL for MR_STORAGE_PIECES */
    const struct mr_mapped_file
        *file;           /* file that has the bytes, borrowed; NULL: the bytes are in memory */
    uint64_t size_bytes; /* for MR_STORAGE_PIECES of all pieces */
    const struct mr_quantized *quantized; /* for MR_STORAGE_PIECES, borrowed; else NULL */
};

struct mr_tensor_table {
    struct mr_stored_tensor *entries; /* sorted by name after mr_tensor_table_sort */
    uint32_t count, capacity;
};

enum mr_status mr_tensor_table_create(struct mr_tensor_table *out, uint32_t capacity,
                                      struct mr_error *err);
/* Destroying a zeroed table does nothing. */
void mr_tensor_table_destroy(struct mr_tensor_table *table);
/* Returns the next free entry, zeroed. Asserts that the table is not full. */
struct mr_stored_tensor *mr_tensor_table_add(struct mr_tensor_table *table);
enum mr_status mr_tensor_table_sort(struct mr_tensor_table *table, struct mr_error *err);
/* Returns the tensor with this name, borrowed; NULL when there is none. The table must be
 * sorted. */
const struct mr_stored_tensor *mr_tensor_table_find(const struct mr_tensor_table *table,
                                                    const char *name);
/* MR_BAD_FILE when a file of the tensors was changed since it was opened. */
enum mr_status mr_tensor_table_check_files(const struct mr_tensor_table *table,
                                           struct mr_error *err);
/* Sets *numbers to the product of the dimensions, and *bytes to the size of these numbers in the
 * file. False when a product overflows, a dimension is 0, or a row is not a whole number of storage
 * blocks. */
bool mr_stored_tensor_sizes(const struct mr_stored_tensor *tensor, uint64_t *numbers,
                            uint64_t *bytes);
/* Returns the number of rows of a tensor: the product of its dimensions except the last, which is
 * the width of a row; 1 for a one-dimensional tensor. A tensor of experts [experts, out, in] has
 * experts * out rows. */
uint64_t mr_stored_tensor_rows(const struct mr_stored_tensor *tensor);
/* Makes the bytes of a tensor, which is not in pieces, private memory (mapped_file.h). */
enum mr_status mr_stored_tensor_hold(const struct mr_stored_tensor *tensor, struct mr_error *err);
/* Converts row `row` of a tensor of at least one dimension to floats: out[width]. */
void mr_stored_tensor_row(const struct mr_stored_tensor *tensor, uint64_t row, float *out);

/* ---- names of tensors and keys ---- */

/* Compares names byte by byte, for sorting: negative, 0 or positive, as memcmp. */
int mr_stored_name_order(struct mr_text a, struct mr_text b);
/* True when the name equals one of `count` words. */
bool mr_stored_name_in(struct mr_text name, const char *const *words, size_t count);
/* Returns the number of bytes of a name to print in an error message, at most 64. */
int mr_stored_name_shown(struct mr_text name);

#endif
