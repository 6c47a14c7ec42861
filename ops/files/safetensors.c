#include "ops/files/safetensors.h"

#include "codec/check.h"
#include "codec/wire/json.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_NAME_MAX 255u

struct shard {
    char name[FILE_NAME_MAX + 1];
    struct mr_mapped_file file;
    struct mr_json *header;
    const unsigned char *data;
    size_t data_bytes;
};

struct mr_safetensors {
    struct shard *shards;
    uint32_t shard_count;
    struct mr_mapped_file index_file;
    struct mr_json *index;
    struct mr_tensor_table tensors;
};

/* The bytes of a tensor, as offsets from the start of the data in its file. */
struct extent {
    uint64_t begin, end;
};

static const struct {
    const char *name;
    enum mr_storage storage;
    uint64_t bytes;
} types[] = {
    {"F32", MR_STORAGE_F32, 4},         {"F16", MR_STORAGE_F16, 2},
    {"BF16", MR_STORAGE_BF16, 2},       {"F64", MR_STORAGE_OTHER, 8},
    {"F8_E4M3", MR_STORAGE_F8_E4M3, 1}, {"F8_E5M2", MR_STORAGE_OTHER, 1},
    {"I8", MR_STORAGE_I8, 1},           {"U8", MR_STORAGE_U8, 1},
    {"I16", MR_STORAGE_OTHER, 2},       {"U16", MR_STORAGE_OTHER, 2},
    {"I32", MR_STORAGE_I32, 4},         {"U32", MR_STORAGE_OTHER, 4},
    {"I64", MR_STORAGE_I64, 8},         {"U64", MR_STORAGE_OTHER, 8},
    {"BOOL", MR_STORAGE_OTHER, 1},      {"F8_E8M0", MR_STORAGE_OTHER, 1},
};

/* ---- one tensor ---- */

static bool read_type(const struct mr_json_value *value, enum mr_storage *storage, uint64_t *bytes)
{
    struct mr_text name;
    if (!mr_json_text(value, &name)) return false;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (mr_text_is(name, types[i].name)) {
            *storage = types[i].storage;
            *bytes = types[i].bytes;
            return true;
        }
    return false;
}

static bool read_u64(const struct mr_json_value *value, uint64_t *out)
{
    int64_t number;
    if (!mr_json_int(value, &number) || number < 0) return false;
    *out = (uint64_t)number;
    return true;
}

/* Reads the dimensions of a tensor, which may be 0, and computes its size in bytes. Dimensions from
 * the MR_STORED_DIMS_MAX-th on become one: no model uses such a tensor, but the parts of a model
 * that read pictures have some. */
static bool read_shape(const struct mr_json_value *shape, uint64_t number_bytes,
                       struct mr_stored_tensor *tensor)
{
    size_t count = mr_json_count(shape);
    if (!shape || mr_json_kind(shape) != MR_JSON_ARRAY) return false;
    tensor->dim_count = count < MR_STORED_DIMS_MAX ? (uint32_t)count : MR_STORED_DIMS_MAX;
    if (count == 0) tensor->dim_count = 1; /* a single number is a vector of one */
    tensor->dims[0] = 1;
    tensor->size_bytes = number_bytes;
    for (size_t i = 0; i < count; i++) {
        uint64_t size, *last = &tensor->dims[MR_STORED_DIMS_MAX - 1];
        if (!read_u64(mr_json_at(shape, i), &size) ||
            __builtin_mul_overflow(tensor->size_bytes, size, &tensor->size_bytes))
            return false;
        if (i < MR_STORED_DIMS_MAX)
            tensor->dims[i] = size;
        else if (__builtin_mul_overflow(*last, size, last))
            return false;
    }
    return true;
}

static enum mr_status read_tensor(const struct shard *shard, const struct mr_json_member *member,
                                  struct mr_stored_tensor *tensor, struct extent *extent,
                                  struct mr_error *err)
{
    const char *reason = NULL;
    const struct mr_json_value *offsets = mr_json_get(member->value, "data_offsets");
    uint64_t number_bytes = 0;
    tensor->name = member->name;
    if (!read_type(mr_json_get(member->value, "dtype"), &tensor->storage, &number_bytes))
        reason = "its dtype is missing or unknown";
    else if (!read_shape(mr_json_get(member->value, "shape"), number_bytes, tensor))
        reason = "its shape is missing or too large";
    else if (mr_json_count(offsets) != 2 || !read_u64(mr_json_at(offsets, 0), &extent->begin) ||
             !read_u64(mr_json_at(offsets, 1), &extent->end))
        reason = "its data_offsets are not two numbers";
    else if (extent->begin > extent->end || extent->end > shard->data_bytes)
        reason = "its data_offsets reach outside the file";
    else if (extent->end - extent->begin != tensor->size_bytes)
        reason = "its data_offsets do not fit its shape and dtype";
    if (reason)
        return mr_fail(err, MR_BAD_FILE, "%s: tensor \"%.*s\": %s", shard->name,
                       mr_stored_name_shown(member->name), member->name.bytes, reason);
    tensor->bytes = shard->data + extent->begin;
    tensor->file = &shard->file;
    return MR_OK;
}

/* ---- one file ---- */

static enum mr_status parse_json(struct mr_json **out, const char *name, struct mr_text bytes,
                                 struct mr_error *err)
{
    const struct mr_json_limits limits = {
        .bytes_max = MR_SAFETENSORS_HEADER_MAX, .values_max = (size_t)1 << 20, .depth_max = 8};
    struct mr_error inner = {0};
    enum mr_status status = mr_json_parse(out, bytes, &limits, &inner);
    if (status == MR_OK || status == MR_NOMEM)
        return status == MR_OK ? MR_OK : mr_fail(err, MR_NOMEM, "%s: no memory", name);
    return mr_fail(err, MR_BAD_FILE, "%s: %.150s", name, inner.detail);
}

static enum mr_status open_shard(struct shard *shard, const char *folder, struct mr_error *err)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", folder, shard->name);
    enum mr_status status = mr_mapped_file_map(&shard->file, path, err);
    if (status != MR_OK) return status;
    uint64_t length = 0;
    if (shard->file.size >= sizeof(length)) memcpy(&length, shard->file.bytes, sizeof(length));
    if (length < 2 || length > MR_SAFETENSORS_HEADER_MAX || length > shard->file.size - 8)
        return mr_fail(err, MR_BAD_FILE, "%s: the header length %llu is not valid", shard->name,
                       (unsigned long long)length);
    status = mr_mapped_file_hold(&shard->file, 0, 8 + (size_t)length, err);
    if (status != MR_OK) return status;
    if (shard->file.bytes[8] != '{')
        return mr_fail(err, MR_BAD_FILE, "%s: the header does not begin with \"{\"", shard->name);
    shard->data = shard->file.bytes + 8 + length;
    shard->data_bytes = shard->file.size - 8 - (size_t)length;
    struct mr_text header = {(const char *)shard->file.bytes + 8, (size_t)length};
    return parse_json(&shard->header, shard->name, header, err);
}

static int compare_extents(const void *a, const void *b)
{
    const struct extent *left = a, *right = b;
    if (left->begin != right->begin) return left->begin < right->begin ? -1 : 1;
    return (left->end > right->end) - (left->end < right->end);
}

static enum mr_status check_cover(const struct shard *shard, struct extent *extents, size_t count,
                                  struct mr_error *err)
{
    uint64_t covered = 0;
    qsort(extents, count, sizeof(*extents), compare_extents);
    for (size_t i = 0; i < count; i++) {
        if (extents[i].begin != covered)
            return mr_fail(err, MR_BAD_FILE, "%s: tensors overlap or leave a gap at byte %llu",
                           shard->name, (unsigned long long)covered);
        covered = extents[i].end;
    }
    if (covered != shard->data_bytes)
        return mr_fail(err, MR_BAD_FILE, "%s: tensors cover %llu of %llu bytes of the data",
                       shard->name, (unsigned long long)covered,
                       (unsigned long long)shard->data_bytes);
    return MR_OK;
}

static enum mr_status add_tensors(struct mr_tensor_table *table, const struct shard *shard,
                                  struct mr_error *err)
{
    const struct mr_json_value *root = mr_json_root(shard->header);
    struct extent *extents = calloc(mr_json_count(root) + 1, sizeof(*extents));
    if (!extents) return mr_fail(err, MR_NOMEM, "%s: no memory", shard->name);
    size_t count = 0;
    enum mr_status status = MR_OK;
    struct mr_json_member member = {0};
    while (status == MR_OK && mr_json_next(root, &member))
        if (!mr_text_is(member.name, "__metadata__"))
            status =
                read_tensor(shard, &member, mr_tensor_table_add(table), &extents[count++], err);
    if (status == MR_OK) status = check_cover(shard, extents, count, err);
    free(extents);
    return status;
}

/* ---- the folder ---- */

static struct shard *find_shard(struct mr_safetensors *all, struct mr_text name)
{
    for (uint32_t i = 0; i < all->shard_count; i++)
        if (mr_text_is(name, all->shards[i].name)) return &all->shards[i];
    return NULL;
}

static enum mr_status add_shard(struct mr_safetensors *all, struct mr_text name,
                                struct mr_error *err)
{
    if (name.length == 0 || name.length > FILE_NAME_MAX || memchr(name.bytes, '/', name.length) ||
        memchr(name.bytes, 0, name.length))
        return mr_fail(err, MR_BAD_FILE, "the index names a file outside the folder: \"%.*s\"",
                       mr_stored_name_shown(name), name.bytes);
    if (all->shard_count == MR_SAFETENSORS_FILES_MAX)
        return mr_fail(err, MR_BAD_FILE, "the index names more than %u files",
                       MR_SAFETENSORS_FILES_MAX);
    memcpy(all->shards[all->shard_count++].name, name.bytes, name.length);
    return MR_OK;
}

static enum mr_status read_index(struct mr_safetensors *all, const char *path, struct mr_error *err)
{
    enum mr_status status = mr_mapped_file_open(&all->index_file, path, err);
    if (status == MR_OK)
        status = parse_json(&all->index, "model.safetensors.index.json",
                            mr_mapped_file_text(&all->index_file), err);
    if (status != MR_OK) return status;
    struct mr_json_member member = {0};
    const struct mr_json_value *map = mr_json_get(mr_json_root(all->index), "weight_map");
    while (status == MR_OK && mr_json_next(map, &member)) {
        struct mr_text file = {"", 0};
        mr_json_text(member.value, &file);
        if (!find_shard(all, file)) status = add_shard(all, file, err);
    }
    if (status == MR_OK && all->shard_count == 0)
        status = mr_fail(err, MR_BAD_FILE, "model.safetensors.index.json: no weight_map");
    return status;
}

static enum mr_status name_shards(struct mr_safetensors *all, const char *folder,
                                  struct mr_error *err)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/model.safetensors", folder);
    if (access(path, F_OK) == 0)
        return add_shard(all, (struct mr_text){"model.safetensors", 17}, err);
    snprintf(path, sizeof(path), "%s/model.safetensors.index.json", folder);
    if (access(path, F_OK) == 0) return read_index(all, path, err);
    return mr_fail(err, MR_BAD_FILE,
                   "%.160s: the folder has neither model.safetensors nor "
                   "model.safetensors.index.json; weights in .bin files are not read",
                   folder);
}

static enum mr_status fill_table(struct mr_safetensors *all, struct mr_error *err)
{
    size_t count = 0;
    for (uint32_t i = 0; i < all->shard_count; i++)
        count += mr_json_count(mr_json_root(all->shards[i].header));
    if (count > MR_STORED_COUNT_MAX)
        return mr_fail(err, MR_BAD_FILE, "%zu tensors, limit %u", count, MR_STORED_COUNT_MAX);
    enum mr_status status = mr_tensor_table_create(&all->tensors, (uint32_t)count, err);
    for (uint32_t i = 0; status == MR_OK && i < all->shard_count; i++)
        status = add_tensors(&all->tensors, &all->shards[i], err);
    return status == MR_OK ? mr_tensor_table_sort(&all->tensors, err) : status;
}

/* Checks that every tensor listed in the index is in the file that the index names for this
 * tensor. */
static enum mr_status check_index(struct mr_safetensors *all, struct mr_error *err)
{
    struct mr_json_member member = {0};
    const struct mr_json_value *map = mr_json_get(mr_json_root(all->index), "weight_map");
    while (mr_json_next(map, &member)) {
        char name[256] = "";
        struct mr_text file = {"", 0};
        mr_json_text(member.value, &file);
        const struct shard *shard = find_shard(all, file);
        if (member.name.length < sizeof(name)) memcpy(name, member.name.bytes, member.name.length);
        const struct mr_stored_tensor *tensor = mr_tensor_table_find(&all->tensors, name);
        if (!tensor || tensor->bytes < shard->data ||
            tensor->bytes > shard->data + shard->data_bytes)
            return mr_fail(err, MR_BAD_FILE,
                           "tensor \"%.*s\" is not in %s, the file that the index names",
                           mr_stored_name_shown(member.name), member.name.bytes, shard->name);
    }
    return MR_OK;
}

/* name: of the only file; NULL: the files of a model. */
static enum mr_status open_all(struct mr_safetensors *all, const char *folder, const char *name,
                               struct mr_error *err)
{
    all->shards = calloc(MR_SAFETENSORS_FILES_MAX, sizeof(*all->shards));
    if (!all->shards) return mr_fail(err, MR_NOMEM, "no memory for the list of weight files");
    enum mr_status status = name ? add_shard(all, (struct mr_text){name, strlen(name)}, err)
                                 : name_shards(all, folder, err);
    for (uint32_t i = 0; status == MR_OK && i < all->shard_count; i++)
        status = open_shard(&all->shards[i], folder, err);
    if (status == MR_OK) status = fill_table(all, err);
    return status == MR_OK && all->index ? check_index(all, err) : status;
}

enum mr_status mr_safetensors_open(struct mr_safetensors **out, const char *folder,
                                   struct mr_error *err)
{
    return mr_safetensors_open_file(out, folder, NULL, err);
}

enum mr_status mr_safetensors_open_file(struct mr_safetensors **out, const char *folder,
                                        const char *name, struct mr_error *err)
{
    *out = NULL;
    struct mr_safetensors *all = calloc(1, sizeof(*all));
    if (!all) return mr_fail(err, MR_NOMEM, "no memory to open %s", folder);
    enum mr_status status = open_all(all, folder, name, err);
    if (status != MR_OK) {
        mr_safetensors_close(all);
        return status;
    }
    *out = all;
    return MR_OK;
}

void mr_safetensors_close(struct mr_safetensors *safetensors)
{
    if (!safetensors) return;
    for (uint32_t i = 0; safetensors->shards && i < safetensors->shard_count; i++) {
        mr_json_destroy(safetensors->shards[i].header);
        mr_mapped_file_close(&safetensors->shards[i].file);
    }
    free(safetensors->shards);
    mr_json_destroy(safetensors->index);
    mr_mapped_file_close(&safetensors->index_file);
    mr_tensor_table_destroy(&safetensors->tensors);
    free(safetensors);
}

const struct mr_tensor_table *mr_safetensors_tensors(const struct mr_safetensors *safetensors)
{
    return &safetensors->tensors;
}

uint32_t mr_safetensors_file_count(const struct mr_safetensors *safetensors)
{
    return safetensors->shard_count;
}

struct mr_file_stamp mr_safetensors_stamp(const struct mr_safetensors *safetensors, uint32_t index)
{
    MR_ASSERT(index < safetensors->shard_count);
    return safetensors->shards[index].file.stamp;
}
