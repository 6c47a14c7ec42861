/* gguf - a GGUF file. _open checks the whole description: the header, every key and value, every
 * tensor's name, shape, type, alignment and offset.
 *
 * Format: "GGUF", u32 version (2 or 3), u64 tensor count, u64 key count; keys as (string, u32 type,
 *         value); tensors as (string, u32 number of dimensions, u64 for each dimension from the
 *         innermost, u32 type, u64 offset from the start of the data); then padding to a multiple
 *         of general.alignment (32 if absent); then the data. All little-endian. A string is a u64
 *         length and its bytes.
 *
 * Owner:  one thread opens and closes; immutable in between.
 * Memory: the file is mapped; texts, values and tensor bytes are borrowed from it until _close.
 * Errors: MR_BAD_FILE names the key or tensor and the reason; MR_NOMEM. */
#ifndef MR_OPS_FILES_GGUF_H
#define MR_OPS_FILES_GGUF_H

#include "codec/status.h"
#include "codec/text.h"
#include "ops/files/mapped_file.h"
#include "ops/files/tensor_table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_GGUF_KEYS_MAX     65536u
#define MR_GGUF_TEXT_MAX     ((uint64_t)16 << 20)
#define MR_GGUF_ELEMENTS_MAX ((uint64_t)4 << 20)
#define MR_GGUF_NAME_MAX     64u /* longest name of a tensor, in bytes */

enum mr_gguf_type {
    MR_GGUF_U8,
    MR_GGUF_I8,
    MR_GGUF_U16,
    MR_GGUF_I16,
    MR_GGUF_U32,
    MR_GGUF_I32,
    MR_GGUF_F32,
    MR_GGUF_BOOL,
    MR_GGUF_TEXT,
    MR_GGUF_ARRAY,
    MR_GGUF_U64,
    MR_GGUF_I64,
    MR_GGUF_F64,
    MR_GGUF_TYPE_COUNT
};

struct mr_gguf_value {
    struct mr_text key;
    enum mr_gguf_type type; /* type of the value, or of the elements of an array */
    bool is_array;
    uint64_t count;             /* number of elements of an array; 1 for other types */
    const unsigned char *bytes; /* first element, in the mapped file */
};

struct mr_gguf;

enum mr_status mr_gguf_open(struct mr_gguf **out, const char *path, struct mr_error *err);
/* gguf may be NULL. */
void mr_gguf_close(struct mr_gguf *gguf);

/* Returns the tensors of the file, sorted by name. */
const struct mr_tensor_table *mr_gguf_tensors(const struct mr_gguf *gguf);

/* Returns the stamp of the file as it was when it was opened. */
struct mr_file_stamp mr_gguf_stamp(const struct mr_gguf *gguf);

/* Returns the value of `key`; NULL when the file lacks the key. */
const struct mr_gguf_value *mr_gguf_find(const struct mr_gguf *gguf, const char *key);

/* Returns the array under `key`; NULL when the key is absent or its value is not an array with
 * elements of this type. */
const struct mr_gguf_value *mr_gguf_array(const struct mr_gguf *gguf, const char *key,
                                          enum mr_gguf_type type);

/* Typed reads of a single value: false, with *out unchanged, when the key is absent or has another
 * type. _u32 accepts every integer type whose value fits; _number accepts integers and floats. */
bool mr_gguf_u32(const struct mr_gguf *gguf, const char *key, uint32_t *out);
bool mr_gguf_number(const struct mr_gguf *gguf, const char *key, double *out);
bool mr_gguf_bool(const struct mr_gguf *gguf, const char *key, bool *out);
bool mr_gguf_text(const struct mr_gguf *gguf, const char *key, struct mr_text *out);
/* Returns element `index` of an array of numbers as a 64-bit integer or float; index <
 * value->count. */
int64_t mr_gguf_element_int(const struct mr_gguf_value *value, uint64_t index);
double mr_gguf_element_number(const struct mr_gguf_value *value, uint64_t index);
/* Returns the texts of an array value as a new array that the caller frees; NULL when out of
 * memory. */
struct mr_text *mr_gguf_texts(const struct mr_gguf_value *value);

#endif
