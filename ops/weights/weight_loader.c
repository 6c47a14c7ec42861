#include "ops/weights/weight_loader.h"

#include "codec/check.h"
#include "ops/cpu_kernels/quant/format.h"
#include "ops/weights/tensor_copies.h"
#include "ops/weights/weight_repack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- lookup ---- */

/* Hugging Face's names for the text part of models with other parts. */
const struct mr_tensor_naming mr_wrapped_namings[MR_WRAPPED_NAMINGS] = {
    {.outer = "language_model."},
    {.inner = "model.language_model."},
    {.inner = "model.text_model."},
};

/* Tensors of the other parts, with or without "model." before these words. */
static const char *const other_parts[] = {"vision_", "multi_modal_projector.", "visual.",
                                          "connector.", "mtp."};

/* Tensors of encoders that do not change the hidden states: heads, which
 * ops/files/text_heads.c reads, the prediction of masked tokens, and constants. */
static const char *const encoder_parts[] = {
    "pooler.",  "cls.",     "classifier.", "pre_classifier.",         "head.",
    "lm_head.", "decoder.", "vocab_",      "embeddings.position_ids", "embeddings.token_type_ids"};

static const struct mr_stored_tensor *look_up(const struct mr_weight_loader *loader,
                                              struct mr_weight_place place, const char *suffix)
{
    char name[MR_TENSOR_NAME_BYTES];
    struct mr_tensor_naming naming = loader->naming;
    const struct mr_stored_tensor *found = NULL;
    for (int i = 0; !found && i < 2; i++) {
        naming.second = i > 0;
        if (mr_tensor_name(&naming, place.part, place.layer, place.index, suffix, name))
            found = mr_tensor_table_find(loader->spec->tensors, name);
    }
    return found;
}

/* Weights are named with ".weight", or without a suffix (gpt-oss); biases likewise. */
static const struct mr_stored_tensor *find_weight(const struct mr_weight_loader *loader,
                                                  struct mr_weight_place place)
{
    const struct mr_stored_tensor *found = look_up(loader, place, ".weight");
    return found ? found : look_up(loader, place, "");
}

static const struct mr_stored_tensor *find_bias(const struct mr_weight_loader *loader,
                                                struct mr_weight_place place)
{
    const struct mr_stored_tensor *found = look_up(loader, place, ".bias");
    return found ? found : look_up(loader, place, "_bias");
}

static void mark(struct mr_weight_loader *loader, const struct mr_stored_tensor *tensor)
{
    if (tensor) loader->used[tensor - loader->spec->tensors->entries] = true;
}

bool mr_weight_loader_has(const struct mr_weight_loader *loader, struct mr_weight_place place)
{
    return find_weight(loader, place) != NULL;
}

bool mr_weight_loader_has_bias(const struct mr_weight_loader *loader, struct mr_weight_place place)
{
    return find_bias(loader, place) != NULL;
}

bool mr_weight_loader_scales(const struct mr_weight_loader *loader)
{
    return loader->spec->config->family->part_scales && !loader->spec->gguf_names;
}

bool mr_weight_loader_transposed(const struct mr_weight_loader *loader,
                                 const struct mr_linear_plan *plan)
{
    const struct mr_weight_place place = {plan->shares[0].part, plan->layer, plan->index};
    const struct mr_stored_tensor *tensor = find_weight(loader, place);
    return tensor && mr_storage_block_numbers(tensor->storage) == 1;
}

void mr_weight_loader_ignore(struct mr_weight_loader *loader, struct mr_weight_place place)
{
    mark(loader, find_weight(loader, place));
}

void mr_weight_loader_ignore_name(struct mr_weight_loader *loader, const char *name)
{
    mark(loader, mr_tensor_table_find(loader->spec->tensors, name));
}

/* ---- begin and end ---- */

enum mr_status mr_weight_loader_begin(struct mr_weight_loader *loader)
{
    const struct mr_weights_spec *spec = loader->spec;
    const struct mr_tensor_table *table = spec->tensors;
    const struct mr_weight_place embedding = {MR_WEIGHT_EMBEDDING, 0, 0};
    loader->used = calloc((size_t)table->count + 1, sizeof(*loader->used));
    if (!loader->used) return mr_fail(loader->err, MR_NOMEM, "no memory for the table of tensors");
    for (uint32_t i = 0; i < table->count; i++)
        loader->total_bytes += table->entries[i].size_bytes;
    for (size_t i = 0; spec->config->wraps_text && i < MR_WRAPPED_NAMINGS; i++) {
        if (mr_weight_loader_has(loader, embedding)) break;
        loader->naming = mr_wrapped_namings[i];
    }
    loader->naming.exceptions = spec->config->family->names;
    loader->naming.gguf = spec->gguf_names;
    if (spec->config->family->body && !mr_weight_loader_has(loader, embedding)) {
        const char *usual = loader->naming.inner;
        loader->naming.inner = spec->config->family->body;
        if (!mr_weight_loader_has(loader, embedding)) loader->naming.inner = usual;
    }
    if (spec->config->family->prefix && !spec->gguf_names &&
        !mr_weight_loader_has(loader, embedding)) {
        if (spec->config->family->encoder)
            loader->naming.outer = spec->config->family->prefix;
        else
            loader->naming.left_out = spec->config->family->prefix;
    }
    return loader->checks_only ? MR_OK : mr_tensor_copies_create(&loader->copies, loader->err);
}

void mr_weight_loader_end(struct mr_weight_loader *loader)
{
    free(loader->used);
    loader->used = NULL;
    mr_tensor_copies_destroy(loader->copies);
    loader->copies = NULL;
}

void mr_weight_loader_next_layer(struct mr_weight_loader *loader)
{
    if (loader->copies) mr_tensor_copies_recycle(loader->copies);
}

static bool begins_with(struct mr_text name, const char *word)
{
    size_t length = strlen(word);
    return name.length >= length && memcmp(name.bytes, word, length) == 0;
}

/* True for tensors of layers after the last one, which predict further tokens. */
static bool is_extra(const struct mr_weight_loader *loader, struct mr_text name)
{
    const struct mr_model_config *config = loader->spec->config;
    const char *format = loader->spec->gguf_names ? "blk.%u." : "model.layers.%u.";
    char prefix[64];
    for (uint32_t i = 0; i < config->extra_layers && i < MR_LAYERS_MAX; i++) {
        snprintf(prefix, sizeof(prefix), format, config->layer_count + i);
        if (begins_with(name, prefix)) return true;
    }
    return false;
}

static bool ends_with(struct mr_text name, const char *suffix)
{
    const size_t length = strlen(suffix);
    return name.length > length &&
           begins_with(mr_text_part(name, name.length - length, name.length), suffix);
}

/* Older files store rotary frequencies and causal masks (".bias", four dimensions) as tensors,
 * which are not needed: they follow from the configuration. */
static bool is_constant(const struct mr_stored_tensor *tensor)
{
    const struct mr_text name = tensor->name;
    const bool mask = ends_with(name, ".attn.bias") || ends_with(name, ".attention.bias");
    return ends_with(name, ".rotary_emb.inv_freq") || ends_with(name, ".masked_bias") ||
           (mask && tensor->dim_count == 4);
}

static bool may_be_unused(const struct mr_weight_loader *loader,
                          const struct mr_stored_tensor *tensor)
{
    struct mr_text name = tensor->name;
    if (is_constant(tensor) || is_extra(loader, name)) return true;
    const struct mr_text word =
        begins_with(name, "model.") ? mr_text_part(name, 6, name.length) : name;
    for (size_t i = 0; i < sizeof(other_parts) / sizeof(other_parts[0]); i++)
        if (loader->spec->config->wraps_text && begins_with(word, other_parts[i])) return true;
    const char *outer = loader->naming.outer ? loader->naming.outer : "";
    if (begins_with(name, outer)) name = mr_text_part(name, strlen(outer), name.length);
    for (size_t i = 0; i < sizeof(encoder_parts) / sizeof(encoder_parts[0]); i++)
        if (loader->spec->config->family->encoder && begins_with(name, encoder_parts[i]))
            return true;
    return false;
}

enum mr_status mr_weight_loader_reject_unused(const struct mr_weight_loader *loader)
{
    const struct mr_tensor_table *table = loader->spec->tensors;
    for (uint32_t i = 0; i < table->count; i++) {
        struct mr_text name = table->entries[i].name;
        if (!loader->used[i] && !may_be_unused(loader, &table->entries[i]))
            return mr_fail(loader->err, MR_BAD_FILE, "tensor \"%.*s\" is not used by a %s model",
                           mr_stored_name_shown(name), name.bytes,
                           loader->spec->config->family->name);
    }
    return MR_OK;
}

/* ---- checked lookup ---- */

struct shape {
    uint64_t dims[3];
    uint32_t dim_count;
};

static void print_dims(const uint64_t *dims, uint32_t count, char text[96])
{
    text[0] = '\0';
    for (uint32_t i = 0, used = 0; i < count && used < 96; i++)
        used += (uint32_t)snprintf(text + used, 96 - used, "%s%llu", i > 0 ? ", " : "",
                                   (unsigned long long)dims[i]);
}

static enum mr_status wrong_shape(struct mr_weight_loader *loader,
                                  const struct mr_stored_tensor *tensor, const struct shape *shape)
{
    char stored[96], needed[96];
    print_dims(tensor->dims, tensor->dim_count, stored);
    print_dims(shape->dims, shape->dim_count, needed);
    return mr_fail(loader->err, MR_BAD_FILE,
                   "tensor \"%.*s\" is %s with %u dimensions [%s], the model needs [%s]",
                   mr_stored_name_shown(tensor->name), tensor->name.bytes,
                   mr_storage_name(tensor->storage), tensor->dim_count, stored, needed);
}

/* Checks a tensor that will be read next, sets *out to a copy of it, and hashes the copy. */
static enum mr_status accept(struct mr_weight_loader *loader, const struct mr_stored_tensor **out,
                             const struct shape *shape)
{
    const struct mr_stored_tensor *tensor = *out;
    /* A matrix of one row may be stored as a vector. */
    uint32_t skipped = shape->dim_count == 2 && shape->dims[0] == 1 && tensor->dim_count == 1;
    bool fits = tensor->dim_count == shape->dim_count - skipped;
    for (uint32_t i = 0; fits && i < tensor->dim_count; i++)
        fits = tensor->dims[i] == shape->dims[i + skipped];
    if (!fits || tensor->storage == MR_STORAGE_OTHER) return wrong_shape(loader, tensor, shape);
    mark(loader, tensor);
    if (loader->checks_only) return MR_OK;
    enum mr_status status = mr_tensor_copies_take(loader->copies, tensor, out, loader->err);
    if (status == MR_OK && loader->spec->digest)
        mr_weights_digest_add(loader->spec->digest, tensor, *out);
    return status;
}

static enum mr_status need_weight(struct mr_weight_loader *loader, struct mr_weight_place place,
                                  const struct shape *shape, const struct mr_stored_tensor **out)
{
    *out = find_weight(loader, place);
    if (*out) return accept(loader, out, shape);
    char name[MR_TENSOR_NAME_BYTES];
    if (!mr_tensor_name(&loader->naming, place.part, place.layer, place.index, ".weight", name))
        return mr_fail(loader->err, MR_BAD_FILE, "a tensor of layer %u is missing", place.layer);
    return mr_fail(loader->err, MR_BAD_FILE, "tensor \"%s\" is missing", name);
}

static void report(struct mr_weight_loader *loader, uint64_t bytes)
{
    loader->done_bytes += bytes;
    if (loader->spec->progress)
        loader->spec->progress(loader->spec->progress_context, loader->done_bytes,
                               loader->total_bytes);
}

/* ---- vectors ---- */

static enum mr_status read_vector(struct mr_weight_loader *loader,
                                  const struct mr_stored_tensor *tensor, uint32_t count,
                                  float offset, float **out)
{
    loader->parameter_count += count;
    loader->packed_bytes += count * sizeof(float);
    if (loader->checks_only) return MR_OK;
    float *vector = calloc(count, sizeof(float));
    if (!vector)
        return mr_fail(loader->err, MR_NOMEM, "no memory for a vector of %u numbers", count);
    uint64_t width = tensor->dims[tensor->dim_count - 1];
    for (uint64_t row = 0; row * width < count; row++)
        mr_stored_tensor_row(tensor, row, vector + row * width);
    for (uint32_t i = 0; i < count; i++)
        vector[i] += offset;
    report(loader, tensor->size_bytes);
    *out = vector;
    return MR_OK;
}

static struct shape shape_of(const struct mr_stored_tensor *tensor)
{
    struct shape shape = {{0}, tensor->dim_count};
    for (uint32_t i = 0; i < tensor->dim_count && i < 3; i++)
        shape.dims[i] = tensor->dims[i];
    return shape;
}

/* Returns the numbers of a tensor of at most three dimensions; 0 for others. */
static uint64_t numbers_in(const struct mr_stored_tensor *tensor)
{
    uint64_t count = tensor->dim_count <= 3;
    for (uint32_t i = 0; i < tensor->dim_count; i++)
        count *= tensor->dims[i];
    return count;
}

enum mr_status mr_weight_loader_read(struct mr_weight_loader *loader, struct mr_weight_place place,
                                     uint32_t count, float offset, float **out)
{
    const struct mr_stored_tensor *tensor = find_weight(loader, place);
    struct shape shape = {{count}, 1};
    /* Tables of embeddings are matrices; the norms of all heads, and a router's bias, may be stored
     * as one. */
    bool matrix = place.part == MR_WEIGHT_Q_NORM || place.part == MR_WEIGHT_K_NORM ||
                  place.part == MR_WEIGHT_ROUTER_BIAS || place.part == MR_WEIGHT_POSITIONS ||
                  place.part == MR_WEIGHT_TOKEN_TYPES || place.part == MR_WEIGHT_KV_B;
    if (matrix && tensor && tensor->dim_count == 2 && tensor->dims[1] > 0 &&
        count % tensor->dims[1] == 0)
        shape = (struct shape){{count / tensor->dims[1], tensor->dims[1]}, 2};
    const bool mixer = place.part >= MR_WEIGHT_MIXER_IN && place.part <= MR_WEIGHT_MIXER_OUT;
    if (mixer && tensor && numbers_in(tensor) == count) shape = shape_of(tensor);
    enum mr_status status = need_weight(loader, place, &shape, &tensor);
    return status == MR_OK ? read_vector(loader, tensor, count, offset, out) : status;
}

enum mr_status mr_weight_loader_upload(struct mr_weight_loader *loader, enum mr_status status,
                                       float *numbers, uint32_t count, struct mr_vector **out)
{
    struct mr_compute *compute = loader->spec->compute;
    if (status == MR_OK && numbers)
        status = compute->backend->vector_create(compute, out, numbers, count, loader->err);
    free(numbers);
    return status;
}

enum mr_status mr_weight_loader_vector(struct mr_weight_loader *loader,
                                       struct mr_weight_place place, uint32_t count, float offset,
                                       struct mr_vector **out)
{
    float *numbers = NULL;
    enum mr_status status = mr_weight_loader_read(loader, place, count, offset, &numbers);
    return mr_weight_loader_upload(loader, status, numbers, count, out);
}

enum mr_status mr_weight_loader_bias(struct mr_weight_loader *loader, struct mr_weight_place place,
                                     uint32_t count, struct mr_vector **out)
{
    const struct mr_stored_tensor *tensor = find_bias(loader, place);
    const struct shape shape = {{count}, 1};
    char name[MR_TENSOR_NAME_BYTES];
    mr_tensor_name(&loader->naming, place.part, place.layer, place.index, ".bias", name);
    if (!tensor) return mr_fail(loader->err, MR_BAD_FILE, "tensor \"%s\" is missing", name);
    float *numbers = NULL;
    enum mr_status status = accept(loader, &tensor, &shape);
    if (status == MR_OK) status = read_vector(loader, tensor, count, 0.0f, &numbers);
    return mr_weight_loader_upload(loader, status, numbers, count, out);
}

/* ---- linear layers ---- */

/* The shape of the tensor of a share: [rows, width], stacked [matrices, rows, width]. */
static struct shape share_shape(const struct mr_linear_plan *plan, uint64_t rows)
{
    uint64_t out = plan->transposed ? plan->width : rows;
    uint64_t in = plan->transposed ? rows : plan->width;
    if (plan->stacked > 0) return (struct shape){{plan->stacked, out, in}, 3};
    return (struct shape){{out, in}, 2};
}

static struct shape bias_shape(const struct mr_linear_plan *plan, uint64_t rows)
{
    if (plan->stacked > 0) return (struct shape){{plan->stacked, rows}, 2};
    return (struct shape){{rows}, 1};
}

static uint64_t bytes_of(const struct mr_linear_plan *plan, const struct mr_stored_tensor *tensor)
{
    return tensor ? tensor->size_bytes / (plan->stacked > 0 ? plan->stacked : 1) : 0;
}

static enum mr_status gather_share(struct mr_weight_loader *loader,
                                   const struct mr_linear_plan *plan,
                                   const struct mr_share_plan *share, struct mr_weight_share *to)
{
    const struct mr_model_config *config = loader->spec->config;
    struct mr_weight_place place = {share->part, plan->layer, plan->index};
    uint32_t all = share->all > 0 ? share->all : share->rows;
    struct shape shape = share_shape(plan, all);
    enum mr_status status = need_weight(loader, place, &shape, &to->weight);
    if (status != MR_OK) return status;
    /* A tied output layer may have a bias, which reading rows of the table ignores. */
    if (share->part == MR_WEIGHT_EMBEDDING && config->tied_head) place.part = MR_WEIGHT_HEAD;
    to->bias = find_bias(loader, place);
    shape = bias_shape(plan, all);
    if (to->bias) status = accept(loader, &to->bias, &shape);
    to->first_row = (uint64_t)(plan->stacked > 0 ? plan->index : 0) * all + share->first;
    to->row_count = share->rows;
    if (share->rotary_pairs) {
        to->pair_dim = mr_model_config_pair_dim(config, loader->spec->gguf_names);
        to->pair_head = config->head_dim;
    }
    to->groups = share->groups;
    to->scale = share->scale;
    to->bias_scale = share->bias_scale;
    uint32_t padded = mr_model_config_padded_head(config);
    if (share->heads && padded != config->head_dim) {
        to->rows = (struct mr_head_padding){config->head_dim, padded};
        to->row_count = share->rows / config->head_dim * padded;
    }
    loader->parameter_count += (uint64_t)share->rows * plan->width + (to->bias ? share->rows : 0);
    return status;
}

static enum mr_status gather(struct mr_weight_loader *loader, const struct mr_linear_plan *plan,
                             struct mr_weight_rows *rows, uint64_t *bytes)
{
    const struct mr_model_config *config = loader->spec->config;
    uint32_t padded = mr_model_config_padded_head(config);
    *rows = (struct mr_weight_rows){
        .share_count = plan->share_count, .alternate = plan->alternate, .width = plan->width};
    if (plan->head_columns && padded != config->head_dim) {
        rows->columns = (struct mr_head_padding){config->head_dim, padded};
        rows->width = plan->width / config->head_dim * padded;
    }
    for (uint32_t i = 0; i < plan->share_count; i++) {
        enum mr_status status = gather_share(loader, plan, &plan->shares[i], &rows->shares[i]);
        if (status != MR_OK) return status;
        bool again = i > 0 && rows->shares[i].weight == rows->shares[0].weight;
        if (!again)
            *bytes += bytes_of(plan, rows->shares[i].weight) + bytes_of(plan, rows->shares[i].bias);
    }
    return MR_OK;
}

/* Reads the matrix of a transposed layer, [width][stride], so that its columns can be rows. All
 * shares are columns of one tensor. */
static enum mr_status read_transposed(struct mr_weight_loader *loader,
                                      const struct mr_linear_plan *plan,
                                      struct mr_weight_rows *rows, float **matrix)
{
    const uint32_t columns = plan->shares[0].all > 0 ? plan->shares[0].all : plan->shares[0].rows;
    *matrix = malloc((size_t)plan->width * columns * sizeof(float));
    if (!*matrix)
        return mr_fail(loader->err, MR_NOMEM, "no memory for a matrix of %u x %u numbers",
                       plan->width, columns);
    uint64_t first = (uint64_t)(plan->stacked > 0 ? plan->index : 0) * plan->width;
    for (uint32_t row = 0; row < plan->width; row++)
        mr_stored_tensor_row(rows->shares[0].weight, first + row, *matrix + (size_t)row * columns);
    for (uint32_t i = 0; i < plan->share_count; i++) {
        MR_ASSERT(rows->shares[i].weight == rows->shares[0].weight);
        rows->shares[i].transposed = *matrix + plan->shares[i].first;
        rows->shares[i].stride = columns;
    }
    return MR_OK;
}

enum mr_weight_numbers mr_weight_numbers_of(enum mr_dtype dtype)
{
    return dtype == MR_DTYPE_AUTO   ? MR_WEIGHTS_STORED
           : dtype == MR_DTYPE_INT8 ? MR_WEIGHTS_INT8
           : dtype == MR_DTYPE_INT4 ? MR_WEIGHTS_INT4
                                    : MR_WEIGHTS_FLOAT;
}

/* Returns the number format of a layer. Experts in separate tensors may have several storages, so
 * they are not computed as stored. */
static enum mr_weight_numbers numbers_of(const struct mr_weight_loader *loader,
                                         const struct mr_linear_plan *plan)
{
    const enum mr_weight_numbers numbers = loader->spec->numbers;
    const enum mr_weight_part part = plan->shares[0].part;
    const bool alone = part == MR_WEIGHT_EXPERT_GATE || part == MR_WEIGHT_EXPERT_DOWN;
    if (!loader->spec->compute->backend->integer_weights) return MR_WEIGHTS_FLOAT;
    if (plan->floats || part == MR_WEIGHT_ROUTER || part == MR_WEIGHT_SHARED_SWITCH)
        return MR_WEIGHTS_FLOAT;
    return numbers == MR_WEIGHTS_STORED && alone ? MR_WEIGHTS_FLOAT : numbers;
}

/* Fills in the bands of a layer that has integer weights. */
static void choose_bands(struct mr_weight_loader *loader, const struct mr_linear_plan *plan,
                         struct mr_weight_rows *rows, struct mr_linear_spec *spec)
{
    const enum mr_weight_numbers numbers = numbers_of(loader, plan);
    const enum mr_weight_part part = plan->shares[0].part;
    const bool table = part == MR_WEIGHT_EMBEDDING || part == MR_WEIGHT_HEAD;
    if (numbers == MR_WEIGHTS_FLOAT) return;
    if (numbers == MR_WEIGHTS_STORED) {
        spec->band_count = mr_weight_rows_bands(rows, spec->bands);
        spec->stored = mr_weight_rows_bytes;
    } else {
        spec->band_count = 1;
        spec->bands[0] = (struct mr_quant_band){
            spec->out_size, numbers == MR_WEIGHTS_INT4 && !table ? MR_QUANT_Q4_0 : MR_QUANT_INT8};
    }
    if (spec->band_count > 0) loader->quantized = true;
}

static enum mr_status pack(struct mr_weight_loader *loader, const struct mr_linear_plan *plan,
                           struct mr_weight_rows *rows, uint32_t site, struct mr_linear **out)
{
    float *bias = NULL;
    struct mr_weight_repack repack = {0};
    struct mr_compute *compute = loader->spec->compute;
    enum mr_status status = mr_weight_rows_bias(rows, &bias, loader->err);
    if (status == MR_OK && numbers_of(loader, plan) == MR_WEIGHTS_STORED)
        status = mr_weight_repack_begin(&repack, rows, loader->err);
    struct mr_linear_spec spec = {.out_size = mr_weight_rows_count(rows),
                                  .in_size = rows->width,
                                  .source = mr_weight_rows_read,
                                  .source_context = rows,
                                  .bias = bias,
                                  .curve = plan->curve,
                                  .scale = plan->scale,
                                  .gated = plan->gated,
                                  .table = plan->table,
                                  .site = site,
                                  .stack = {.index = plan->index, .layers = plan->experts}};
    if (plan->experts) spec.stack.count = loader->spec->config->experts.count;
    if (status == MR_OK) {
        choose_bands(loader, plan, rows, &spec);
        status = compute->backend->linear_create(compute, out, &spec, loader->err);
    }
    mr_weight_repack_end(&repack);
    free(bias);
    return status;
}

/* Bytes of a layer's weights, from the shapes of its tensors. */
static uint64_t planned_bytes(struct mr_weight_loader *loader, const struct mr_linear_plan *plan,
                              struct mr_weight_rows *rows)
{
    struct mr_linear_spec spec = {.out_size = mr_weight_rows_count(rows), .in_size = rows->width};
    const uint32_t groups = (spec.in_size + MR_QUANT_GROUP - 1) / MR_QUANT_GROUP;
    uint64_t bytes = 0;
    choose_bands(loader, plan, rows, &spec);
    if (spec.band_count == 0 && numbers_of(loader, plan) == MR_WEIGHTS_STORED &&
        mr_weight_repack_fits(rows)) {
        spec.bands[spec.band_count++] = (struct mr_quant_band){spec.out_size, MR_QUANT_Q4_1};
        loader->quantized = true;
    }
    if (spec.band_count == 0)
        return (uint64_t)spec.out_size * spec.in_size *
               mr_number_bytes(loader->spec->compute->number);
    for (uint32_t i = 0; i < spec.band_count; i++)
        bytes += (uint64_t)((spec.bands[i].rows + MR_QUANT_COLUMNS - 1) / MR_QUANT_COLUMNS) *
                 mr_quant_parts_of(&mr_quant_shapes[spec.bands[i].format], groups).end;
    return bytes;
}

enum mr_status mr_weight_loader_linear(struct mr_weight_loader *loader,
                                       const struct mr_linear_plan *plan, struct mr_linear **out)
{
    struct mr_weight_rows rows;
    uint64_t bytes = 0;
    uint32_t site = 0;
    float *matrix = NULL;
    enum mr_status status = gather(loader, plan, &rows, &bytes);
    if (status == MR_OK) status = mr_layer_sites_add(loader, plan, &site);
    if (status != MR_OK) return status;
    if (loader->checks_only) {
        if (loader->spec->compute) loader->packed_bytes += planned_bytes(loader, plan, &rows);
        return MR_OK;
    }
    if (plan->transposed) status = read_transposed(loader, plan, &rows, &matrix);
    if (status == MR_OK) status = pack(loader, plan, &rows, site, out);
    free(matrix);
    if (status != MR_OK) return status;
    loader->packed_bytes += loader->spec->compute->backend->linear_bytes(*out);
    report(loader, bytes);
    return MR_OK;
}
