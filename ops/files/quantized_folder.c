#include "ops/files/quantized_folder.h"

#include "codec/check.h"
#include "ops/numbers/quantized.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INSTEAD                                                                                    \
    "use the unquantized model, a GGUF file, or a folder of fp8, compressed-tensors, awq or gptq"
#define NAME_BYTES 512

/* ---- config.json ---- */

static const struct {
    const char *name;
    enum mr_quantization_method method;
} methods[] = {
    {"fp8", MR_QUANTIZATION_FP8},     {"compressed-tensors", MR_QUANTIZATION_COMPRESSED},
    {"awq", MR_QUANTIZATION_AWQ},     {"gptq", MR_QUANTIZATION_GPTQ},
    {"mxfp4", MR_QUANTIZATION_MXFP4},
};

static struct mr_text text_or(const struct mr_json_value *object, const char *key,
                              const char *fallback)
{
    struct mr_text text = {fallback, strlen(fallback)};
    mr_json_text(mr_json_get(object, key), &text);
    return text;
}

static bool read_size(const struct mr_json_value *value, uint32_t *out)
{
    int64_t number;
    if (!mr_json_int(value, &number) || number < 1 || number > INT32_MAX) return false;
    *out = (uint32_t)number;
    return true;
}

static void add_group_size(struct mr_quantization *out, const struct mr_json_value *value)
{
    if (out->group_size_count < MR_QUANTIZATION_SIZES_MAX &&
        read_size(value, &out->group_sizes[out->group_size_count]))
        out->group_size_count++;
}

static enum mr_status unsupported(const char *what, struct mr_text name, struct mr_error *err)
{
    return mr_fail(err, MR_BAD_FILE, "config.json: %s \"%.*s\" is not supported; " INSTEAD, what,
                   mr_stored_name_shown(name), name.bytes);
}

/* The formats of compressed-tensors. Each group of layers has its own weights, and may have its own
 * format. */
static enum mr_status check_format(struct mr_text format, struct mr_error *err)
{
    static const char *const known[] = {"dense",           "float-quantized", "int-quantized",
                                        "naive-quantized", "pack-quantized",  "mixed-precision"};
    if (mr_stored_name_in(format, known, sizeof(known) / sizeof(known[0]))) return MR_OK;
    return unsupported("the compressed-tensors format", format, err);
}

static enum mr_status read_compressed(struct mr_quantization *out,
                                      const struct mr_json_value *config, struct mr_error *err)
{
    struct mr_text sparse = text_or(mr_json_get(config, "sparsity_config"), "format", "dense");
    enum mr_status status = check_format(text_or(config, "format", "dense"), err);
    if (status == MR_OK && !mr_text_is(sparse, "dense"))
        status = unsupported("the sparsity format", sparse, err);
    struct mr_json_member group = {0};
    while (status == MR_OK && mr_json_next(mr_json_get(config, "config_groups"), &group)) {
        const struct mr_json_value *weights = mr_json_get(group.value, "weights");
        const struct mr_json_value *block = mr_json_get(weights, "block_structure");
        status = check_format(text_or(group.value, "format", "dense"), err);
        add_group_size(out, mr_json_get(weights, "group_size"));
        for (size_t i = 0; i < 2 && mr_json_count(block) == 2; i++)
            read_size(mr_json_at(block, i), &out->block[i]);
    }
    return status;
}

/* AWQ and GPTQ: all weights of the folder have the same number of bits and the same groups. */
static enum mr_status read_integers(struct mr_quantization *out, const struct mr_json_value *config,
                                    struct mr_error *err)
{
    bool awq = out->method == MR_QUANTIZATION_AWQ;
    struct mr_text layout =
        awq ? text_or(config, "version", "gemm") : text_or(config, "checkpoint_format", "gptq");
    static const char *const awq_layouts[] = {"gemm", "GEMM"};
    static const char *const gptq_layouts[] = {"gptq", "gptq_v2"};
    if (!mr_stored_name_in(layout, awq ? awq_layouts : gptq_layouts, 2))
        return unsupported(awq ? "the AWQ version" : "the GPTQ checkpoint_format", layout, err);
    out->zero_less_one = mr_text_is(layout, "gptq");
    out->bits = 4;
    if (!read_size(mr_json_get(config, "bits"), &out->bits))
        read_size(mr_json_get(config, "w_bit"), &out->bits);
    if (out->bits != 4 && (awq || out->bits != 8))
        return mr_fail(err, MR_BAD_FILE,
                       "config.json: %s weights of %u bits are not supported; " INSTEAD
                       " with 4 bits",
                       awq ? "AWQ" : "GPTQ", out->bits);
    add_group_size(out, mr_json_get(config, "group_size"));
    add_group_size(out, mr_json_get(config, "q_group_size"));
    return MR_OK;
}

static enum mr_status find_method(struct mr_quantization *out, const struct mr_json_value *config,
                                  struct mr_error *err)
{
    bool bits_and_bytes = false;
    mr_json_bool(mr_json_get(config, "load_in_4bit"), &bits_and_bytes);
    if (!bits_and_bytes) mr_json_bool(mr_json_get(config, "load_in_8bit"), &bits_and_bytes);
    struct mr_text name = text_or(config, "quant_method", bits_and_bytes ? "bitsandbytes" : "");
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
        if (mr_text_is(name, methods[i].name)) out->method = methods[i].method;
    if (out->method == MR_QUANTIZATION_NONE) return unsupported("the quant_method", name, err);
    return MR_OK;
}

enum mr_status mr_quantization_from_json(struct mr_quantization *out,
                                         const struct mr_json_value *config, struct mr_error *err)
{
    *out = (struct mr_quantization){0};
    const struct mr_json_value *quantization = mr_json_get(config, "quantization_config");
    if (!quantization) quantization = mr_json_get(config, "compression_config");
    if (!quantization || mr_json_is_null(quantization)) return MR_OK;
    enum mr_status status = find_method(out, quantization, err);
    if (status != MR_OK) return status;
    const struct mr_json_value *block = mr_json_get(quantization, "weight_block_size");
    for (size_t i = 0; i < 2; i++)
        if (!read_size(mr_json_at(block, i), &out->block[i])) out->block[i] = 128;
    if (out->method == MR_QUANTIZATION_COMPRESSED) return read_compressed(out, quantization, err);
    if (out->method == MR_QUANTIZATION_AWQ || out->method == MR_QUANTIZATION_GPTQ)
        return read_integers(out, quantization, err);
    return MR_OK;
}

const char *mr_quantization_name(const struct mr_quantization *quantization)
{
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
        if (methods[i].method == quantization->method) return methods[i].name;
    return "";
}

/* ---- the pieces of a weight ---- */

struct mr_quantized_folder {
    struct mr_tensor_table tensors;
    struct mr_quantized *weights; /* [weight_count] */
    uint32_t weight_count;
    char *names; /* the names of the weights, one after the other */
    size_t name_bytes;
};

struct builder {
    struct mr_quantized_folder *folder;
    const struct mr_quantization *quantization;
    const struct mr_tensor_table *stored;
    bool *used;          /* [stored->count]; true: the tensor is a piece of a weight */
    struct mr_text stem; /* the name of the weight being read, without its last part */
    struct mr_error *err;
};

/* A weight that is being read: its pieces as tensors of the files, and the sizes derived from their
 * shapes. */
struct draft {
    struct mr_quantized size; /* without pieces */
    const struct mr_stored_tensor *weight, *scale;
    const struct mr_stored_tensor *zero, *order; /* or NULL */
    const struct mr_stored_tensor
        *repeats[2]; /* pieces that repeat information of the others, or NULL */
};

/* Returns the tensor whose name is the stem and `suffix`; NULL when there is none. */
static const struct mr_stored_tensor *piece(const struct builder *builder, const char *suffix)
{
    char name[NAME_BYTES];
    int length = snprintf(name, sizeof(name), "%.*s%s", (int)builder->stem.length,
                          builder->stem.bytes, suffix);
    return length < NAME_BYTES ? mr_tensor_table_find(builder->stored, name) : NULL;
}

static enum mr_status misfit(const struct builder *builder, const char *suffix, const char *reason)
{
    return mr_fail(builder->err, MR_BAD_FILE, "tensor \"%.*s%s\" of a weight in %s: %s",
                   mr_stored_name_shown(builder->stem), builder->stem.bytes, suffix,
                   mr_quantization_name(builder->quantization), reason);
}

static bool is_float(const struct mr_stored_tensor *tensor)
{
    return tensor->storage == MR_STORAGE_F32 || tensor->storage == MR_STORAGE_F16 ||
           tensor->storage == MR_STORAGE_BF16;
}

/* True when the tensor has the type `storage` and the shape [rows, columns]. */
static bool is_matrix(const struct mr_stored_tensor *tensor, enum mr_storage storage, uint64_t rows,
                      uint64_t columns)
{
    return tensor->storage == storage && tensor->dim_count == 2 && tensor->dims[0] == rows &&
           tensor->dims[1] == columns;
}

static uint64_t parts(uint64_t count, uint64_t each)
{
    return count / each + (count % each != 0);
}

/* Sets the number and width of the groups of a row. False when no group width of the configuration
 * results in `count` groups. */
static bool set_groups(const struct builder *builder, struct draft *weight, uint64_t count)
{
    weight->size.group_count = (uint32_t)count;
    weight->size.group_width = weight->size.width;
    if (count < 1 || count > MR_QUANTIZED_GROUPS_MAX) return false;
    if (count == 1) return true;
    const struct mr_quantization *q = builder->quantization;
    for (uint32_t i = 0; i < q->group_size_count; i++) {
        weight->size.group_width = q->group_sizes[i];
        if (parts(weight->size.width, weight->size.group_width) == count) return true;
    }
    return false;
}

/* The grid of scales of a SCALED weight: one scale, one for each row, groups of the columns of a
 * row, or blocks of rows and columns. */
static bool set_grid(const struct builder *builder, struct draft *weight)
{
    const struct mr_stored_tensor *scale = weight->scale;
    uint64_t rows = scale->dim_count > 0 ? scale->dims[0] : 1;
    uint64_t columns = scale->dim_count > 1 ? scale->dims[1] : 1;
    const uint32_t *block = builder->quantization->block;
    weight->size.row_block = rows == 1 ? weight->size.rows : 1;
    if (!is_float(scale) || scale->dim_count > 2) return false;
    if (rows == 1 && columns == 1) return set_groups(builder, weight, 1);
    if (rows == weight->size.rows && set_groups(builder, weight, columns)) return true;
    weight->size.row_block = block[0];
    weight->size.group_width = block[1];
    weight->size.group_count = (uint32_t)columns;
    return columns <= MR_QUANTIZED_GROUPS_MAX && parts(weight->size.rows, block[0]) == rows &&
           parts(weight->size.width, block[1]) == columns;
}

static bool same_shape(const struct mr_stored_tensor *a, const struct mr_stored_tensor *b)
{
    return a->dim_count == b->dim_count && memcmp(a->dims, b->dims, sizeof(a->dims)) == 0;
}

static enum mr_status read_scaled(const struct builder *builder, struct draft *weight)
{
    weight->size.format = MR_QUANTIZED_SCALED;
    weight->size.rows = (uint32_t)weight->weight->dims[0];
    weight->size.width = (uint32_t)weight->weight->dims[1];
    weight->scale = piece(builder, ".weight_scale");
    if (!weight->scale) weight->scale = piece(builder, ".weight_scale_inv");
    weight->zero = piece(builder, ".weight_zero_point");
    if (!weight->scale) return misfit(builder, ".weight_scale", "it is missing");
    if (weight->weight->dim_count != 2 || !set_grid(builder, weight))
        return misfit(builder, ".weight_scale", "its shape or type does not fit the weight");
    if (weight->zero &&
        (weight->zero->storage != MR_STORAGE_I8 || !same_shape(weight->zero, weight->scale)))
        return misfit(builder, ".weight_zero_point",
                      "its shape or type differs from that of the scales");
    return MR_OK;
}

/* Checks that each column names a group that exists. */
static bool check_order(const struct draft *weight)
{
    const struct mr_stored_tensor *order = weight->order;
    if (order->storage != MR_STORAGE_I32 || order->dim_count != 1 ||
        order->dims[0] != weight->size.width)
        return false;
    for (uint32_t i = 0; i < weight->size.width; i++) {
        uint32_t group;
        memcpy(&group, order->bytes + (size_t)i * sizeof(group), sizeof(group));
        if (group >= weight->size.group_count) return false;
    }
    return true;
}

/* True when `order` lists the groups in the order that group_width implies: without it the row is
 * read faster. */
static bool in_order(const struct draft *weight)
{
    for (uint32_t i = 0; i < weight->size.width; i++) {
        uint32_t group;
        memcpy(&group, weight->order->bytes + (size_t)i * sizeof(group), sizeof(group));
        if (group != i / weight->size.group_width) return false;
    }
    return true;
}

static enum mr_status set_order(const struct builder *builder, struct draft *weight,
                                const char *suffix)
{
    weight->order = piece(builder, suffix);
    if (!weight->order) return MR_OK;
    enum mr_status status = mr_stored_tensor_hold(weight->order, builder->err);
    if (status != MR_OK) return status;
    if (!check_order(weight))
        return misfit(builder, suffix, "it does not name a group for each column");
    if (!in_order(weight)) return MR_OK;
    weight->repeats[1] = weight->order;
    weight->order = NULL;
    return MR_OK;
}

/* Sets the size of the weight from its piece `weight_shape`, and its bits from the number of
 * columns stored in a word. */
static bool set_packed_size(struct draft *weight)
{
    const struct mr_stored_tensor *shape = weight->repeats[0], *packed = weight->weight;
    float size[2];
    if (shape->dim_count != 1 || shape->dims[0] != 2 ||
        (shape->storage != MR_STORAGE_I64 && shape->storage != MR_STORAGE_I32))
        return false;
    mr_dequant(shape->storage, shape->bytes, 2, size);
    if (!(size[0] >= 1 && size[0] < 0x1p24f && size[1] >= 8 && size[1] < 0x1p24f)) return false;
    weight->size.rows = (uint32_t)size[0];
    weight->size.width = (uint32_t)size[1];
    for (weight->size.bits = 4; weight->size.bits <= 8; weight->size.bits += 4)
        if (is_matrix(packed, MR_STORAGE_I32, weight->size.rows,
                      parts(weight->size.width, 32 / weight->size.bits)))
            return true;
    return false;
}

static enum mr_status read_packed(const struct builder *builder, struct draft *weight)
{
    weight->size.format = MR_QUANTIZED_PACKED;
    weight->scale = piece(builder, ".weight_scale");
    weight->zero = piece(builder, ".weight_zero_point");
    weight->repeats[0] = piece(builder, ".weight_shape");
    if (!weight->scale || !weight->repeats[0])
        return misfit(builder, ".weight_packed", "weight_scale or weight_shape is missing");
    enum mr_status status = mr_stored_tensor_hold(weight->repeats[0], builder->err);
    if (status != MR_OK) return status;
    if (!set_packed_size(weight))
        return misfit(builder, ".weight_packed",
                      "its shape does not match 4 or 8 bits for each number of weight_shape");
    const struct mr_stored_tensor *scale = weight->scale;
    if (!is_float(scale) || scale->dim_count != 2 || scale->dims[0] != weight->size.rows ||
        !set_groups(builder, weight, scale->dims[1]))
        return misfit(builder, ".weight_scale", "its shape or type does not fit the weight");
    if (weight->zero &&
        !is_matrix(weight->zero, MR_STORAGE_I32, parts(weight->size.rows, 32 / weight->size.bits),
                   weight->size.group_count))
        return misfit(builder, ".weight_zero_point", "its shape or type does not fit the weight");
    return set_order(builder, weight, ".weight_g_idx");
}

/* AWQ and GPTQ. */
static enum mr_status read_columns(const struct builder *builder, struct draft *weight)
{
    const struct mr_quantization *q = builder->quantization;
    const struct mr_stored_tensor *packed = weight->weight;
    bool awq = q->method == MR_QUANTIZATION_AWQ;
    uint32_t per = 32 / q->bits;
    weight->size.format = awq ? MR_QUANTIZED_AWQ : MR_QUANTIZED_GPTQ;
    weight->size.bits = q->bits;
    weight->size.zero_less_one = !awq && q->zero_less_one;
    weight->scale = piece(builder, ".scales");
    weight->zero = piece(builder, ".qzeros");
    const struct mr_stored_tensor *scale = weight->scale;
    if (!scale || !weight->zero) return misfit(builder, ".qweight", "scales or qzeros are missing");
    weight->size.rows = (uint32_t)(packed->dims[1] * (awq ? per : 1));
    weight->size.width = (uint32_t)(packed->dims[0] * (awq ? 1 : per));
    if (packed->dim_count != 2 || packed->storage != MR_STORAGE_I32)
        return misfit(builder, ".qweight", "it is not a matrix of I32");
    if (!is_float(scale) || scale->dim_count != 2 || scale->dims[1] != weight->size.rows ||
        !set_groups(builder, weight, scale->dims[0]))
        return misfit(builder, ".scales", "its shape or type does not fit the weight");
    if (weight->size.rows % per != 0 ||
        !is_matrix(weight->zero, MR_STORAGE_I32, weight->size.group_count, weight->size.rows / per))
        return misfit(builder, ".qzeros", "its shape or type does not fit the weight");
    return awq ? MR_OK : set_order(builder, weight, ".g_idx");
}

static enum mr_status read_mxfp4(const struct builder *builder, struct draft *weight)
{
    const struct mr_stored_tensor *blocks = weight->weight;
    const struct mr_stored_tensor *scale = piece(builder, "_scales");
    weight->size.format = MR_QUANTIZED_MXFP4;
    weight->scale = scale;
    if (!scale || scale->storage != MR_STORAGE_U8 || scale->dim_count != 3 ||
        blocks->dim_count != 4 || blocks->dims[3] != 16 ||
        memcmp(blocks->dims, scale->dims, 3 * sizeof(blocks->dims[0])) != 0 ||
        blocks->dims[2] > MR_QUANTIZED_GROUPS_MAX)
        return misfit(builder, "_scales", "it is missing, or its shape does not match the blocks");
    weight->size.rows = (uint32_t)(blocks->dims[0] * blocks->dims[1]);
    weight->size.group_count = (uint32_t)blocks->dims[2];
    weight->size.group_width = 32;
    weight->size.width = 32 * weight->size.group_count;
    return MR_OK;
}

/* ---- the table ---- */

struct kind {
    const char *suffix; /* of the name of the piece that holds the numbers */
    const char *name;   /* replaces the suffix in the name of the weight */
    enum mr_status (*read)(const struct builder *builder, struct draft *weight);
};

static bool ends_with(struct mr_text name, const char *suffix)
{
    size_t length = strlen(suffix);
    return name.length > length && memcmp(name.bytes + name.length - length, suffix, length) == 0;
}

/* Returns the kind of weight whose numbers are in the tensor; NULL for any other tensor. */
static const struct kind *kind_of(const struct builder *builder,
                                  const struct mr_stored_tensor *tensor)
{
    static const struct kind scaled = {".weight", ".weight", read_scaled};
    static const struct kind packed = {".weight_packed", ".weight", read_packed};
    static const struct kind columns = {".qweight", ".weight", read_columns};
    static const struct kind mxfp4 = {"_blocks", "", read_mxfp4};
    bool small = tensor->storage == MR_STORAGE_F8_E4M3 || tensor->storage == MR_STORAGE_I8;
    switch (builder->quantization->method) {
    case MR_QUANTIZATION_NONE:
        return NULL;
    case MR_QUANTIZATION_FP8:
    case MR_QUANTIZATION_COMPRESSED:
        if (small && ends_with(tensor->name, scaled.suffix)) return &scaled;
        return ends_with(tensor->name, packed.suffix) ? &packed : NULL;
    case MR_QUANTIZATION_AWQ:
    case MR_QUANTIZATION_GPTQ:
        return ends_with(tensor->name, columns.suffix) ? &columns : NULL;
    case MR_QUANTIZATION_MXFP4:
        return tensor->storage == MR_STORAGE_U8 && ends_with(tensor->name, mxfp4.suffix) ? &mxfp4
                                                                                         : NULL;
    }
    return NULL;
}

/* Checks that the sizes of a weight fit 32 bits, also when 8 numbers share a word: each dimension
 * is between 1 and 2^28 - 1, and all experts together have fewer than 2^31 rows. */
static bool has_size(const struct mr_stored_tensor *tensor)
{
    uint64_t product = 1;
    for (uint32_t i = 0; i < tensor->dim_count; i++)
        if (tensor->dims[i] == 0 || tensor->dims[i] >= (uint64_t)1 << 28) return false;
    for (uint32_t i = 0; i + 2 < tensor->dim_count; i++)
        product *= tensor->dims[i];
    return tensor->dim_count >= 2 && product < (uint64_t)1 << 31;
}

static void set_name(struct builder *builder, const struct kind *kind,
                     struct mr_stored_tensor *tensor)
{
    struct mr_quantized_folder *folder = builder->folder;
    char *name = folder->names + folder->name_bytes;
    size_t length = strlen(kind->name);
    memcpy(name, builder->stem.bytes, builder->stem.length);
    memcpy(name + builder->stem.length, kind->name, length);
    tensor->name = (struct mr_text){name, builder->stem.length + length};
    folder->name_bytes += tensor->name.length;
}

/* Adds a tensor of the file to the weight, as its piece number `place`. */
static void add_piece(struct builder *builder, struct mr_quantized *weight,
                      enum mr_quantized_place place, const struct mr_stored_tensor *tensor)
{
    if (!tensor) return;
    weight->pieces[place] = (struct mr_quantized_piece){tensor->storage, tensor->bytes,
                                                        tensor->size_bytes, tensor->file};
    builder->used[tensor - builder->stored->entries] = true;
}

static void add_weight(struct builder *builder, const struct kind *kind, const struct draft *draft)
{
    struct mr_quantized_folder *folder = builder->folder;
    struct mr_stored_tensor *tensor = mr_tensor_table_add(&folder->tensors);
    struct mr_quantized *weight = &folder->weights[folder->weight_count++];
    const struct mr_stored_tensor *stored[MR_QUANTIZED_PIECES] = {
        [MR_QUANTIZED_WEIGHT] = draft->weight,     [MR_QUANTIZED_SCALE] = draft->scale,
        [MR_QUANTIZED_ZERO] = draft->zero,         [MR_QUANTIZED_ORDER] = draft->order,
        [MR_QUANTIZED_REPEAT] = draft->repeats[0], [MR_QUANTIZED_REPEAT_TOO] = draft->repeats[1]};
    bool experts = draft->size.format == MR_QUANTIZED_MXFP4;
    *weight = draft->size;
    tensor->storage = MR_STORAGE_PIECES;
    tensor->quantized = weight;
    tensor->dim_count = experts ? 3 : 2;
    if (experts) tensor->dims[0] = draft->weight->dims[0];
    tensor->dims[tensor->dim_count - 2] = experts ? draft->weight->dims[1] : weight->rows;
    tensor->dims[tensor->dim_count - 1] = weight->width;
    set_name(builder, kind, tensor);
    for (uint32_t i = 0; i < MR_QUANTIZED_PIECES; i++) {
        add_piece(builder, weight, (enum mr_quantized_place)i, stored[i]);
        tensor->size_bytes += weight->pieces[i].size_bytes;
    }
}

static enum mr_status read_weights(struct builder *builder)
{
    enum mr_status status = MR_OK;
    for (uint32_t i = 0; status == MR_OK && i < builder->stored->count; i++) {
        const struct mr_stored_tensor *tensor = &builder->stored->entries[i];
        const struct kind *kind = kind_of(builder, tensor);
        if (!kind) continue;
        struct draft draft = {.weight = tensor, .size = {.row_block = 1}};
        builder->stem =
            (struct mr_text){tensor->name.bytes, tensor->name.length - strlen(kind->suffix)};
        if (!has_size(tensor)) return misfit(builder, kind->suffix, "it is not a matrix");
        status = kind->read(builder, &draft);
        if (status == MR_OK) add_weight(builder, kind, &draft);
    }
    return status;
}

static bool is_left_out(struct mr_text name)
{
    static const char *const suffixes[] = {".input_scale", ".input_zero_point", ".output_scale",
                                           ".k_scale",     ".v_scale",          ".q_scale"};
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++)
        if (ends_with(name, suffixes[i])) return true;
    return false;
}

static void copy_others(struct builder *builder)
{
    for (uint32_t i = 0; i < builder->stored->count; i++) {
        const struct mr_stored_tensor *tensor = &builder->stored->entries[i];
        bool left_out =
            builder->quantization->method != MR_QUANTIZATION_NONE && is_left_out(tensor->name);
        if (!builder->used[i] && !left_out)
            *mr_tensor_table_add(&builder->folder->tensors) = *tensor;
    }
}

static enum mr_status build(struct builder *builder)
{
    struct mr_quantized_folder *folder = builder->folder;
    uint32_t count = builder->stored->count;
    size_t name_bytes = 1;
    for (uint32_t i = 0; i < count; i++)
        name_bytes += builder->stored->entries[i].name.length;
    enum mr_status status = mr_tensor_table_create(&folder->tensors, count, builder->err);
    if (status != MR_OK) return status;
    folder->weights = calloc((size_t)count + 1, sizeof(*folder->weights));
    folder->names = malloc(name_bytes);
    if (!folder->weights || !folder->names || !builder->used)
        return mr_fail(builder->err, MR_NOMEM, "no memory for a table of %u tensors", count);
    status = read_weights(builder);
    if (status != MR_OK) return status;
    copy_others(builder);
    return mr_tensor_table_sort(&folder->tensors, builder->err);
}

enum mr_status mr_quantized_folder_create(struct mr_quantized_folder **out,
                                          const struct mr_quantization *quantization,
                                          const struct mr_tensor_table *stored,
                                          struct mr_error *err)
{
    *out = NULL;
    struct mr_quantized_folder *folder = calloc(1, sizeof(*folder));
    if (!folder) return mr_fail(err, MR_NOMEM, "no memory for the table of quantized tensors");
    struct builder builder = {folder, quantization, stored, NULL, {"", 0}, err};
    builder.used = calloc((size_t)stored->count + 1, sizeof(*builder.used));
    enum mr_status status = build(&builder);
    free(builder.used);
    if (status != MR_OK) {
        mr_quantized_folder_destroy(folder);
        return status;
    }
    *out = folder;
    return MR_OK;
}

void mr_quantized_folder_destroy(struct mr_quantized_folder *folder)
{
    if (!folder) return;
    mr_tensor_table_destroy(&folder->tensors);
    free(folder->weights);
    free(folder->names);
    free(folder);
}

const struct mr_tensor_table *mr_quantized_folder_tensors(const struct mr_quantized_folder *folder)
{
    return &folder->tensors;
}
