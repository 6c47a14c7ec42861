#include "ops/files/gguf.h"

#include "codec/check.h"

#include <stdlib.h>
#include <string.h>

struct mr_gguf {
    struct mr_mapped_file file;
    struct mr_gguf_value *values; /* the key-value pairs of the file, sorted by key */
    uint32_t value_count;
    struct mr_tensor_table tensors;
};

/* A position in the file. Every take_ function advances it by the bytes that it reads, and returns
 * false when too few bytes are left. */
struct cursor {
    const unsigned char *at;
    size_t left;
    const struct mr_mapped_file *file; /* NULL: the bytes are private memory already */
    size_t held;                       /* leading bytes of the file that are private memory */
    struct mr_error
        failure; /* first error of copying bytes: every take_ function fails from then on */
};

#define HOLD_BYTES ((size_t)1 << 20) /* copied at a time */

/* Makes the next `bytes` bytes private memory. */
static bool hold(struct cursor *cursor, size_t bytes)
{
    const struct mr_mapped_file *file = cursor->file;
    if (!file) return true;
    const size_t end = (size_t)(cursor->at - file->bytes) + bytes;
    if (end <= cursor->held) return true;
    size_t to = end + HOLD_BYTES < file->size ? end + HOLD_BYTES : file->size;
    const size_t size = to - cursor->held;
    if (mr_mapped_file_hold(file, cursor->held, size, &cursor->failure) != MR_OK) return false;
    cursor->held = to;
    return true;
}

static bool take(struct cursor *cursor, size_t size, const unsigned char **bytes)
{
    if (cursor->left < size || !hold(cursor, size)) return false;
    *bytes = cursor->at;
    cursor->at += size;
    cursor->left -= size;
    return true;
}

static bool take_u32(struct cursor *cursor, uint32_t *out)
{
    const unsigned char *bytes;
    if (!take(cursor, sizeof(*out), &bytes)) return false;
    memcpy(out, bytes, sizeof(*out));
    return true;
}

static bool take_u64(struct cursor *cursor, uint64_t *out)
{
    const unsigned char *bytes;
    if (!take(cursor, sizeof(*out), &bytes)) return false;
    memcpy(out, bytes, sizeof(*out));
    return true;
}

static bool take_text(struct cursor *cursor, uint64_t length_max, struct mr_text *out)
{
    uint64_t length;
    const unsigned char *bytes;
    if (!take_u64(cursor, &length) || length > length_max || !take(cursor, length, &bytes))
        return false;
    *out = (struct mr_text){(const char *)bytes, length};
    return true;
}

static const size_t type_bytes[MR_GGUF_TYPE_COUNT] = {
    [MR_GGUF_U8] = 1,  [MR_GGUF_I8] = 1,  [MR_GGUF_U16] = 2, [MR_GGUF_I16] = 2,
    [MR_GGUF_U32] = 4, [MR_GGUF_I32] = 4, [MR_GGUF_F32] = 4, [MR_GGUF_BOOL] = 1,
    [MR_GGUF_U64] = 8, [MR_GGUF_I64] = 8, [MR_GGUF_F64] = 8,
};

/* ---- keys ---- */

static bool take_elements(struct cursor *cursor, struct mr_gguf_value *value)
{
    const unsigned char *bytes;
    value->bytes = cursor->at;
    if (value->type != MR_GGUF_TEXT)
        return take(cursor, type_bytes[value->type] * value->count, &bytes);
    struct mr_text text;
    for (uint64_t i = 0; i < value->count; i++)
        if (!take_text(cursor, MR_GGUF_TEXT_MAX, &text)) return false;
    return true;
}

static bool bools_are_bools(const struct mr_gguf_value *value)
{
    for (uint64_t i = 0; value->type == MR_GGUF_BOOL && i < value->count; i++)
        if (value->bytes[i] > 1) return false;
    return true;
}

/* Reads one value. Returns NULL, or the reason why the value is not valid. */
static const char *parse_value(struct cursor *cursor, struct mr_gguf_value *value)
{
    uint32_t type;
    if (!take_u32(cursor, &type)) return "the file ends inside the value";
    value->count = 1;
    if (type == MR_GGUF_ARRAY) {
        value->is_array = true;
        if (!take_u32(cursor, &type) || !take_u64(cursor, &value->count))
            return "the file ends inside the value";
        if (value->count > MR_GGUF_ELEMENTS_MAX) return "the array is longer than 4 Mi elements";
    }
    if (type >= MR_GGUF_TYPE_COUNT || type == MR_GGUF_ARRAY) return "its type is unknown";
    value->type = (enum mr_gguf_type)type;
    if (!take_elements(cursor, value))
        return "its value reaches past the end of the file or a text is longer than 16 MiB";
    return bools_are_bools(value) ? NULL : "a boolean is neither 0 nor 1";
}

static int compare_values(const void *a, const void *b)
{
    const struct mr_gguf_value *left = a, *right = b;
    return mr_stored_name_order(left->key, right->key);
}

static enum mr_status parse_values(struct mr_gguf *gguf, struct cursor *cursor, uint64_t count,
                                   struct mr_error *err)
{
    if (count > MR_GGUF_KEYS_MAX)
        return mr_fail(err, MR_BAD_FILE, "GGUF: %llu keys, limit %u", (unsigned long long)count,
                       MR_GGUF_KEYS_MAX);
    gguf->values = calloc(count + 1, sizeof(*gguf->values));
    if (!gguf->values)
        return mr_fail(err, MR_NOMEM, "no memory for %llu GGUF keys", (unsigned long long)count);
    for (uint64_t i = 0; i < count; i++) {
        struct mr_gguf_value *value = &gguf->values[i];
        if (!take_text(cursor, 65535, &value->key))
            return mr_fail(err, MR_BAD_FILE, "GGUF: the file ends inside key %llu",
                           (unsigned long long)i);
        const char *reason = parse_value(cursor, value);
        if (reason)
            return mr_fail(err, MR_BAD_FILE, "GGUF key \"%.*s\": %s",
                           mr_stored_name_shown(value->key), value->key.bytes, reason);
    }
    gguf->value_count = (uint32_t)count;
    qsort(gguf->values, count, sizeof(*gguf->values), compare_values);
    for (uint64_t i = 1; i < count; i++)
        if (compare_values(&gguf->values[i - 1], &gguf->values[i]) == 0)
            return mr_fail(err, MR_BAD_FILE, "GGUF key \"%.*s\" is in the file twice",
                           mr_stored_name_shown(gguf->values[i].key), gguf->values[i].key.bytes);
    return MR_OK;
}

/* ---- tensors ---- */

static const struct {
    uint32_t code;
    enum mr_storage storage;
} tensor_types[] = {
    {0, MR_STORAGE_F32},     {1, MR_STORAGE_F16},     {2, MR_STORAGE_Q4_0},  {3, MR_STORAGE_Q4_1},
    {6, MR_STORAGE_Q5_0},    {7, MR_STORAGE_Q5_1},    {8, MR_STORAGE_Q8_0},  {10, MR_STORAGE_Q2_K},
    {11, MR_STORAGE_Q3_K},   {12, MR_STORAGE_Q4_K},   {13, MR_STORAGE_Q5_K}, {14, MR_STORAGE_Q6_K},
    {20, MR_STORAGE_IQ4_NL}, {23, MR_STORAGE_IQ4_XS}, {30, MR_STORAGE_BF16}, {39, MR_STORAGE_MXFP4},
};

/* Types that llama.cpp's tools write and that this reader does not support. */
static const struct {
    uint32_t code;
    const char *name;
} other_types[] = {{9, "Q8_1"},   {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"},
                   {19, "IQ1_S"}, {21, "IQ3_S"}, {22, "IQ2_S"},   {24, "I8"},     {25, "I16"},
                   {26, "I32"},   {27, "I64"},   {28, "F64"},     {29, "IQ1_M"},  {34, "TQ1_0"},
                   {35, "TQ2_0"}, {40, "NVFP4"}};

static enum mr_status parse_type(uint32_t code, struct mr_stored_tensor *tensor,
                                 struct mr_error *err)
{
    for (size_t i = 0; i < sizeof(tensor_types) / sizeof(tensor_types[0]); i++) {
        if (tensor_types[i].code != code) continue;
        tensor->storage = tensor_types[i].storage;
        return MR_OK;
    }
    const char *name = "unknown";
    for (size_t i = 0; i < sizeof(other_types) / sizeof(other_types[0]); i++)
        if (other_types[i].code == code) name = other_types[i].name;
    tensor->storage = MR_STORAGE_OTHER;
    return mr_fail(
        err, MR_BAD_FILE,
        "tensor \"%.*s\" is of type %u (%s), which is not read; quantize the model to "
        "Q8_0, Q6_K, Q5_K_M, Q4_K_M, Q3_K_M, Q2_K, Q4_0, IQ4_XS, IQ4_NL, MXFP4, F16, BF16 "
        "or F32",
        mr_stored_name_shown(tensor->name), tensor->name.bytes, code, name);
}

/* A GGUF file lists the dimensions of a tensor innermost first; the tensor table stores them
 * outermost first. */
static bool take_dims(struct cursor *cursor, struct mr_stored_tensor *tensor)
{
    if (!take_u32(cursor, &tensor->dim_count) || tensor->dim_count < 1 ||
        tensor->dim_count > MR_STORED_DIMS_MAX)
        return false;
    for (uint32_t i = tensor->dim_count; i-- > 0;)
        if (!take_u64(cursor, &tensor->dims[i])) return false;
    return true;
}

/* Reads the description of one tensor. tensor->bytes is set later (place_tensors), when the start
 * of the data is known. */
static enum mr_status parse_tensor(struct cursor *cursor, struct mr_stored_tensor *tensor,
                                   uint64_t *offset, struct mr_error *err)
{
    if (!take_text(cursor, MR_GGUF_NAME_MAX, &tensor->name))
        return mr_fail(err, MR_BAD_FILE, "GGUF: a tensor's name is cut off or longer than %u bytes",
                       MR_GGUF_NAME_MAX);
    uint32_t code;
    if (!take_dims(cursor, tensor) || !take_u32(cursor, &code) || !take_u64(cursor, offset))
        return mr_fail(err, MR_BAD_FILE, "tensor \"%.*s\": cut off, or without 1 to 4 dimensions",
                       mr_stored_name_shown(tensor->name), tensor->name.bytes);
    enum mr_status status = parse_type(code, tensor, err);
    if (status != MR_OK) return status;
    uint64_t numbers;
    if (!mr_stored_tensor_sizes(tensor, &numbers, &tensor->size_bytes))
        return mr_fail(err, MR_BAD_FILE, "tensor \"%.*s\": its shape is not valid for %s",
                       mr_stored_name_shown(tensor->name), tensor->name.bytes,
                       mr_storage_name(tensor->storage));
    return MR_OK;
}

static int compare_places(const void *a, const void *b)
{
    const struct mr_stored_tensor *left = a, *right = b;
    return (left->bytes > right->bytes) - (left->bytes < right->bytes);
}

/* Sets tensor->bytes; checks that tensors are aligned, inside the data, and do not overlap. */
static enum mr_status place_tensors(struct mr_gguf *gguf, const uint64_t *offsets,
                                    struct cursor data, uint64_t alignment, struct mr_error *err)
{
    struct mr_tensor_table *table = &gguf->tensors;
    for (uint32_t i = 0; i < table->count; i++) {
        struct mr_stored_tensor *tensor = &table->entries[i];
        if (offsets[i] % alignment != 0 || offsets[i] > data.left ||
            tensor->size_bytes > data.left - offsets[i])
            return mr_fail(err, MR_BAD_FILE,
                           "tensor \"%.*s\": offset %llu, %llu bytes do not fit the file",
                           mr_stored_name_shown(tensor->name), tensor->name.bytes,
                           (unsigned long long)offsets[i], (unsigned long long)tensor->size_bytes);
        tensor->bytes = data.at + offsets[i];
        tensor->file = &gguf->file;
    }
    qsort(table->entries, table->count, sizeof(*table->entries), compare_places);
    for (uint32_t i = 1; i < table->count; i++) {
        const struct mr_stored_tensor *before = &table->entries[i - 1], *tensor = before + 1;
        if (before->bytes + before->size_bytes > tensor->bytes)
            return mr_fail(err, MR_BAD_FILE, "tensors \"%.*s\" and \"%.*s\" overlap",
                           mr_stored_name_shown(before->name), before->name.bytes,
                           mr_stored_name_shown(tensor->name), tensor->name.bytes);
    }
    return mr_tensor_table_sort(table, err);
}

static enum mr_status find_data(const struct mr_gguf *gguf, struct cursor *cursor,
                                uint64_t *alignment, struct mr_error *err)
{
    uint32_t value = 32;
    mr_gguf_u32(gguf, "general.alignment", &value);
    if (value < 8 || value > 65536 || (value & (value - 1)) != 0)
        return mr_fail(err, MR_BAD_FILE, "general.alignment is %u: not a power of two", value);
    *alignment = value;
    size_t used = gguf->file.size - cursor->left;
    size_t padding = (value - used % value) % value;
    const unsigned char *skipped;
    if (!take(cursor, padding, &skipped))
        return mr_fail(err, MR_BAD_FILE, "GGUF: the file ends before the tensor data");
    return MR_OK;
}

static enum mr_status parse_tensors(struct mr_gguf *gguf, struct cursor *cursor, uint64_t count,
                                    struct mr_error *err)
{
    if (count > MR_STORED_COUNT_MAX)
        return mr_fail(err, MR_BAD_FILE, "GGUF: %llu tensors, limit %u", (unsigned long long)count,
                       MR_STORED_COUNT_MAX);
    enum mr_status status = mr_tensor_table_create(&gguf->tensors, (uint32_t)count, err);
    uint64_t *offsets = calloc(count + 1, sizeof(*offsets));
    if (status == MR_OK && !offsets)
        status = mr_fail(err, MR_NOMEM, "no memory for %llu tensors", (unsigned long long)count);
    for (uint64_t i = 0; status == MR_OK && i < count; i++)
        status = parse_tensor(cursor, mr_tensor_table_add(&gguf->tensors), &offsets[i], err);
    uint64_t alignment = 0;
    if (status == MR_OK) status = find_data(gguf, cursor, &alignment, err);
    if (status == MR_OK) status = place_tensors(gguf, offsets, *cursor, alignment, err);
    free(offsets);
    return status;
}

/* ---- the file ---- */

static enum mr_status parse_all(struct mr_gguf *gguf, struct cursor *cursor, struct mr_error *err)
{
    const unsigned char *magic;
    uint32_t version;
    uint64_t tensor_count, key_count;
    if (!take(cursor, 4, &magic) || memcmp(magic, "GGUF", 4) != 0)
        return mr_fail(err, MR_BAD_FILE, "not a GGUF file: it does not begin with \"GGUF\"");
    if (!take_u32(cursor, &version) || version < 2 || version > 3)
        return mr_fail(err, MR_BAD_FILE, "GGUF: only little-endian versions 2 and 3 are read");
    if (!take_u64(cursor, &tensor_count) || !take_u64(cursor, &key_count))
        return mr_fail(err, MR_BAD_FILE, "GGUF: the file ends inside its header");
    enum mr_status status = parse_values(gguf, cursor, key_count, err);
    return status == MR_OK ? parse_tensors(gguf, cursor, tensor_count, err) : status;
}

static enum mr_status parse(struct mr_gguf *gguf, struct mr_error *err)
{
    struct cursor cursor = {.at = gguf->file.bytes, .left = gguf->file.size, .file = &gguf->file};
    enum mr_status status = parse_all(gguf, &cursor, err);
    const struct mr_error *failure = &cursor.failure;
    return failure->status == MR_OK ? status : mr_fail(err, failure->status, "%s", failure->detail);
}

enum mr_status mr_gguf_open(struct mr_gguf **out, const char *path, struct mr_error *err)
{
    *out = NULL;
    struct mr_gguf *gguf = calloc(1, sizeof(*gguf));
    if (!gguf) return mr_fail(err, MR_NOMEM, "no memory to open %s", path);
    enum mr_status status = mr_mapped_file_map(&gguf->file, path, err);
    if (status == MR_OK) status = parse(gguf, err);
    if (status != MR_OK) {
        mr_gguf_close(gguf);
        return mr_mapped_file_blame(path, status, err);
    }
    *out = gguf;
    return MR_OK;
}

void mr_gguf_close(struct mr_gguf *gguf)
{
    if (!gguf) return;
    mr_tensor_table_destroy(&gguf->tensors);
    free(gguf->values);
    mr_mapped_file_close(&gguf->file);
    free(gguf);
}

const struct mr_tensor_table *mr_gguf_tensors(const struct mr_gguf *gguf)
{
    return &gguf->tensors;
}

struct mr_file_stamp mr_gguf_stamp(const struct mr_gguf *gguf)
{
    return gguf->file.stamp;
}

const struct mr_gguf_value *mr_gguf_find(const struct mr_gguf *gguf, const char *key)
{
    struct mr_gguf_value wanted = {.key = {key, strlen(key)}};
    return bsearch(&wanted, gguf->values, gguf->value_count, sizeof(wanted), compare_values);
}

const struct mr_gguf_value *mr_gguf_array(const struct mr_gguf *gguf, const char *key,
                                          enum mr_gguf_type type)
{
    const struct mr_gguf_value *value = mr_gguf_find(gguf, key);
    return value && value->is_array && value->type == type ? value : NULL;
}

/* ---- values ---- */

static bool is_integer(enum mr_gguf_type type)
{
    return type <= MR_GGUF_I32 || type == MR_GGUF_U64 || type == MR_GGUF_I64;
}

static const struct mr_gguf_value *find_single(const struct mr_gguf *gguf, const char *key)
{
    const struct mr_gguf_value *value = mr_gguf_find(gguf, key);
    return value && !value->is_array ? value : NULL;
}

/* A u64 above INT64_MAX becomes negative; mr_gguf_u32 rejects negative numbers. */
int64_t mr_gguf_element_int(const struct mr_gguf_value *value, uint64_t index)
{
    MR_ASSERT(index < value->count && is_integer(value->type));
    size_t size = type_bytes[value->type];
    uint64_t raw = 0;
    memcpy(&raw, value->bytes + index * size, size);
    switch (value->type) {
    case MR_GGUF_I8:
        return (int8_t)raw;
    case MR_GGUF_I16:
        return (int16_t)raw;
    case MR_GGUF_I32:
        return (int32_t)raw;
    default:
        return (int64_t)raw;
    }
}

double mr_gguf_element_number(const struct mr_gguf_value *value, uint64_t index)
{
    MR_ASSERT(index < value->count);
    float single;
    double wide;
    switch (value->type) {
    case MR_GGUF_F32:
        memcpy(&single, value->bytes + index * sizeof(single), sizeof(single));
        return (double)single;
    case MR_GGUF_F64:
        memcpy(&wide, value->bytes + index * sizeof(wide), sizeof(wide));
        return wide;
    default:
        return (double)mr_gguf_element_int(value, index);
    }
}

bool mr_gguf_u32(const struct mr_gguf *gguf, const char *key, uint32_t *out)
{
    const struct mr_gguf_value *value = find_single(gguf, key);
    if (!value || !is_integer(value->type)) return false;
    int64_t number = mr_gguf_element_int(value, 0);
    if (number < 0 || number > UINT32_MAX) return false;
    *out = (uint32_t)number;
    return true;
}

bool mr_gguf_number(const struct mr_gguf *gguf, const char *key, double *out)
{
    const struct mr_gguf_value *value = find_single(gguf, key);
    if (!value || value->type == MR_GGUF_BOOL || value->type == MR_GGUF_TEXT) return false;
    *out = mr_gguf_element_number(value, 0);
    return true;
}

bool mr_gguf_bool(const struct mr_gguf *gguf, const char *key, bool *out)
{
    const struct mr_gguf_value *value = find_single(gguf, key);
    if (!value || value->type != MR_GGUF_BOOL) return false;
    *out = value->bytes[0] == 1;
    return true;
}

bool mr_gguf_text(const struct mr_gguf *gguf, const char *key, struct mr_text *out)
{
    const struct mr_gguf_value *value = find_single(gguf, key);
    if (!value || value->type != MR_GGUF_TEXT) return false;
    struct cursor cursor = {.at = value->bytes, .left = SIZE_MAX};
    return take_text(&cursor, MR_GGUF_TEXT_MAX, out);
}

struct mr_text *mr_gguf_texts(const struct mr_gguf_value *value)
{
    MR_ASSERT(value->type == MR_GGUF_TEXT);
    struct mr_text *texts = calloc(value->count + 1, sizeof(*texts));
    struct cursor cursor = {.at = value->bytes, .left = SIZE_MAX};
    for (uint64_t i = 0; texts && i < value->count; i++)
        (void)take_text(&cursor, MR_GGUF_TEXT_MAX, &texts[i]);
    return texts;
}
