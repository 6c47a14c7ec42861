#include "ops/weights.h"

#include "codec/check.h"
#include "ops/weight_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

enum part {
    EMBEDDING,
    FINAL_NORM,
    HEAD,
    ATTENTION_NORM,
    Q,
    K,
    V,
    Q_NORM,
    K_NORM,
    ATTENTION_OUT,
    FFN_NORM,
    GATE,
    UP,
    DOWN,
    ROPE_DIVISORS,
    PART_COUNT
};

/* Names of tensors in GGUF and Hugging Face files, without ".weight" or ".bias"; %u: layer
 * number. */
static const struct {
    const char *gguf, *hugging_face;
} part_names[PART_COUNT] = {
    [EMBEDDING] = {"token_embd", "model.embed_tokens"},
    [FINAL_NORM] = {"output_norm", "model.norm"},
    [HEAD] = {"output", "lm_head"},
    [ATTENTION_NORM] = {"blk.%u.attn_norm", "model.layers.%u.input_layernorm"},
    [Q] = {"blk.%u.attn_q", "model.layers.%u.self_attn.q_proj"},
    [K] = {"blk.%u.attn_k", "model.layers.%u.self_attn.k_proj"},
    [V] = {"blk.%u.attn_v", "model.layers.%u.self_attn.v_proj"},
    [Q_NORM] = {"blk.%u.attn_q_norm", "model.layers.%u.self_attn.q_norm"},
    [K_NORM] = {"blk.%u.attn_k_norm", "model.layers.%u.self_attn.k_norm"},
    [ATTENTION_OUT] = {"blk.%u.attn_output", "model.layers.%u.self_attn.o_proj"},
    [FFN_NORM] = {"blk.%u.ffn_norm", "model.layers.%u.post_attention_layernorm"},
    [GATE] = {"blk.%u.ffn_gate", "model.layers.%u.mlp.gate_proj"},
    [UP] = {"blk.%u.ffn_up", "model.layers.%u.mlp.up_proj"},
    [DOWN] = {"blk.%u.ffn_down", "model.layers.%u.mlp.down_proj"},
    [ROPE_DIVISORS] = {"rope_freqs", ""},
};

struct loader {
    const struct mr_weights_spec *spec;
    struct mr_weights *weights;
    struct mr_error *err;
    uint64_t done_bytes, total_bytes;
    bool *used; /* [tensors->count]; true: the model uses the tensor */
    bool checks_only;
};

#define NAME_BYTES 96

static void name_of(const struct loader *loader, enum part part, uint32_t layer, const char *suffix,
                    char name[NAME_BYTES])
{
    const char *format =
        loader->spec->gguf_names ? part_names[part].gguf : part_names[part].hugging_face;
    const char *hole = strstr(format, "%u");
    if (hole)
        snprintf(name, NAME_BYTES, "%.*s%u%s%s", (int)(hole - format), format, layer, hole + 2,
                 suffix);
    else
        snprintf(name, NAME_BYTES, "%s%s", format, suffix);
}

static const struct mr_stored_tensor *find(struct loader *loader, enum part part, uint32_t layer,
                                           const char *suffix)
{
    char name[NAME_BYTES];
    name_of(loader, part, layer, suffix, name);
    const struct mr_stored_tensor *tensor = mr_tensor_table_find(loader->spec->tensors, name);
    if (tensor) loader->used[tensor - loader->spec->tensors->entries] = true;
    return tensor;
}

/* ---- checked lookup ---- */

static enum mr_status wrong_shape(struct loader *loader, const struct mr_stored_tensor *tensor,
                                  uint64_t rows, uint64_t width)
{
    return mr_fail(loader->err, MR_BAD_FILE,
                   "tensor \"%.*s\" is %s with %u dimensions [%llu, %llu], the model needs "
                   "[%llu, %llu]",
                   (int)tensor->name.length, tensor->name.bytes, mr_storage_name(tensor->storage),
                   tensor->dim_count, (unsigned long long)tensor->dims[0],
                   (unsigned long long)tensor->dims[1], (unsigned long long)rows,
                   (unsigned long long)width);
}

/* The tensor will be read next: its bytes are hashed first, while the file is read from disk. */
static void note_read(const struct loader *loader, const struct mr_stored_tensor *tensor)
{
    if (loader->spec->digest && !loader->checks_only)
        mr_weights_digest_add(loader->spec->digest, tensor);
}

/* Looks up one weight tensor by its kind and layer, and checks that its shape is [rows, width], or
 * [width] when rows is 0. */
static enum mr_status need_weight(struct loader *loader, enum part part, uint32_t layer,
                                  uint64_t rows, uint64_t width,
                                  const struct mr_stored_tensor **out)
{
    const struct mr_stored_tensor *tensor = find(loader, part, layer, ".weight");
    if (!tensor) {
        char name[NAME_BYTES];
        name_of(loader, part, layer, ".weight", name);
        return mr_fail(loader->err, MR_BAD_FILE, "tensor \"%s\" is missing", name);
    }
    bool fits = rows == 0
                    ? tensor->dim_count == 1 && tensor->dims[0] == width
                    : tensor->dim_count == 2 && tensor->dims[0] == rows && tensor->dims[1] == width;
    if (!fits || tensor->storage == MR_STORAGE_OTHER)
        return wrong_shape(loader, tensor, rows, width);
    loader->weights->parameter_count += (rows > 0 ? rows : 1) * width;
    note_read(loader, tensor);
    *out = tensor;
    return MR_OK;
}

static enum mr_status find_bias(struct loader *loader, enum part part, uint32_t layer,
                                uint64_t count, const struct mr_stored_tensor **out)
{
    const struct mr_stored_tensor *tensor = find(loader, part, layer, ".bias");
    *out = tensor;
    if (!tensor) return MR_OK;
    if (tensor->dim_count != 1 || tensor->dims[0] != count || tensor->storage == MR_STORAGE_OTHER)
        return wrong_shape(loader, tensor, 0, count);
    loader->weights->parameter_count += count;
    note_read(loader, tensor);
    return MR_OK;
}

static void report(struct loader *loader, uint64_t bytes)
{
    loader->done_bytes += bytes;
    if (loader->spec->progress)
        loader->spec->progress(loader->spec->progress_context, loader->done_bytes,
                               loader->total_bytes);
}

/* ---- vectors ---- */

static enum mr_status load_vector(struct loader *loader, enum part part, uint32_t layer,
                                  uint32_t count, float **out)
{
    const struct mr_stored_tensor *tensor;
    enum mr_status status = need_weight(loader, part, layer, 0, count, &tensor);
    if (status != MR_OK || loader->checks_only) return status;
    *out = calloc(count, sizeof(float));
    if (!*out) return mr_fail(loader->err, MR_NOMEM, "no memory for a vector of %u numbers", count);
    mr_stored_tensor_row(tensor, 0, *out);
    loader->weights->packed_bytes += count * sizeof(float);
    report(loader, tensor->size_bytes);
    return MR_OK;
}

/* Loads the weights of the norm of one head and repeats them for all heads. */
static enum mr_status load_head_norm(struct loader *loader, enum part part, uint32_t layer,
                                     uint32_t heads, float **out)
{
    const size_t dim = loader->spec->config->head_dim;
    enum mr_status status = load_vector(loader, part, layer, (uint32_t)dim, out);
    if (status != MR_OK || loader->checks_only) return status;
    float *all = realloc(*out, heads * dim * sizeof(float));
    if (!all) return mr_fail(loader->err, MR_NOMEM, "no memory for norms of %u heads", heads);
    for (uint32_t head = 1; head < heads; head++)
        memcpy(all + head * dim, all, dim * sizeof(float));
    loader->weights->packed_bytes += (heads - 1) * dim * sizeof(float);
    *out = all;
    return MR_OK;
}

/* ---- linears ---- */

/* The rows that one tensor contributes to a merged linear layer. */
struct share {
    enum part part;
    uint32_t rows;
    bool rotary_pairs;
};

struct linear_plan {
    uint32_t layer, width;
    struct share shares[MR_WEIGHT_SHARES_MAX];
    uint32_t share_count;
    bool alternate; /* true: rows are taken from the tensors in turn; false: tensor after tensor */
};

static enum mr_status gather(struct loader *loader, const struct linear_plan *plan,
                             struct mr_weight_rows *rows, uint64_t *bytes)
{
    *rows = (struct mr_weight_rows){.share_count = plan->share_count, .alternate = plan->alternate};
    for (uint32_t i = 0; i < plan->share_count; i++) {
        const struct share *share = &plan->shares[i];
        struct mr_weight_share *to = &rows->shares[i];
        enum mr_status status =
            need_weight(loader, share->part, plan->layer, share->rows, plan->width, &to->weight);
        if (status == MR_OK)
            status = find_bias(loader, share->part, plan->layer, share->rows, &to->bias);
        if (status != MR_OK) return status;
        to->row_count = share->rows;
        to->pair_dim = share->rotary_pairs ? loader->spec->config->head_dim : 0;
        *bytes += to->weight->size_bytes + (to->bias ? to->bias->size_bytes : 0);
    }
    return MR_OK;
}

static enum mr_status load_linear(struct loader *loader, const struct linear_plan *plan,
                                  struct mr_cpu_linear **out)
{
    struct mr_weight_rows rows;
    uint64_t bytes = 0;
    enum mr_status status = gather(loader, plan, &rows, &bytes);
    if (status != MR_OK || loader->checks_only) return status;
    float *bias = NULL;
    status = mr_weight_rows_bias(&rows, &bias, loader->err);
    if (status != MR_OK) return status;
    struct mr_cpu_linear_spec spec = {.out_size = mr_weight_rows_count(&rows),
                                      .in_size = plan->width,
                                      .bf16 = loader->spec->bf16,
                                      .source = mr_weight_rows_read,
                                      .source_context = &rows,
                                      .bias = bias};
    status = mr_cpu_linear_create(out, &spec, loader->err);
    free(bias);
    if (status != MR_OK) return status;
    loader->weights->packed_bytes += mr_cpu_linear_bytes(*out);
    report(loader, bytes);
    return MR_OK;
}

static enum mr_status load_single(struct loader *loader, enum part part, uint32_t layer,
                                  uint32_t rows, uint32_t width, struct mr_cpu_linear **out)
{
    struct linear_plan plan = {
        .layer = layer, .width = width, .shares = {{.part = part, .rows = rows}}, .share_count = 1};
    return load_linear(loader, &plan, out);
}

static enum mr_status load_qkv(struct loader *loader, uint32_t layer, struct mr_cpu_linear **out)
{
    const struct mr_model_config *c = loader->spec->config;
    bool pairs = loader->spec->gguf_names && c->family->gguf_rotary_pairs;
    struct linear_plan plan = {.layer = layer,
                               .width = c->hidden_size,
                               .shares = {{Q, c->head_count * c->head_dim, pairs},
                                          {K, c->kv_head_count * c->head_dim, pairs},
                                          {V, c->kv_head_count * c->head_dim, false}},
                               .share_count = 3};
    return load_linear(loader, &plan, out);
}

static enum mr_status load_gate_up(struct loader *loader, uint32_t layer,
                                   struct mr_cpu_linear **out)
{
    const struct mr_model_config *c = loader->spec->config;
    struct linear_plan plan = {.layer = layer,
                               .width = c->hidden_size,
                               .shares = {{GATE, c->ffn_size, false}, {UP, c->ffn_size, false}},
                               .share_count = 2,
                               .alternate = true};
    return load_linear(loader, &plan, out);
}

/* ---- the model ---- */

static enum mr_status load_layer(struct loader *loader, uint32_t layer)
{
    const struct mr_model_config *c = loader->spec->config;
    struct mr_layer_weights *to = &loader->weights->layers[layer];
    enum mr_status status =
        load_vector(loader, ATTENTION_NORM, layer, c->hidden_size, &to->attention_norm);
    if (status == MR_OK) status = load_qkv(loader, layer, &to->qkv);
    if (status == MR_OK && c->family->head_norm)
        status = load_head_norm(loader, Q_NORM, layer, c->head_count, &to->q_norm);
    if (status == MR_OK && c->family->head_norm)
        status = load_head_norm(loader, K_NORM, layer, c->kv_head_count, &to->k_norm);
    if (status == MR_OK)
        status = load_single(loader, ATTENTION_OUT, layer, c->hidden_size,
                             c->head_count * c->head_dim, &to->attention_out);
    if (status == MR_OK)
        status = load_vector(loader, FFN_NORM, layer, c->hidden_size, &to->ffn_norm);
    if (status == MR_OK) status = load_gate_up(loader, layer, &to->gate_up);
    if (status == MR_OK)
        status = load_single(loader, DOWN, layer, c->hidden_size, c->ffn_size, &to->down);
    return status;
}

/* When the output layer is tied to the token embedding, an output tensor in the file is a copy of
 * the embedding and is ignored. */
static enum mr_status load_embedding_and_head(struct loader *loader)
{
    const struct mr_model_config *c = loader->spec->config;
    struct mr_weights *weights = loader->weights;
    enum mr_status status =
        load_single(loader, EMBEDDING, 0, c->vocab_size, c->hidden_size, &weights->embedding);
    if (status == MR_OK)
        status = load_vector(loader, FINAL_NORM, 0, c->hidden_size, &weights->final_norm);
    if (status != MR_OK) return status;
    if (!c->tied_head)
        return load_single(loader, HEAD, 0, c->vocab_size, c->hidden_size, &weights->head);
    weights->head = weights->embedding;
    (void)find(loader, HEAD, 0, ".weight");
    return MR_OK;
}

static enum mr_status load_rope_divisors(struct loader *loader)
{
    const struct mr_stored_tensor *tensor = find(loader, ROPE_DIVISORS, 0, ".weight");
    if (!tensor) return MR_OK;
    uint32_t count = loader->spec->config->rope.rotary_dim / 2;
    if (tensor->dim_count != 1 || tensor->dims[0] != count || tensor->storage != MR_STORAGE_F32)
        return wrong_shape(loader, tensor, 0, count);
    loader->weights->rope_divisors = calloc(count, sizeof(float));
    if (!loader->weights->rope_divisors)
        return mr_fail(loader->err, MR_NOMEM, "no memory for rope divisors");
    mr_stored_tensor_row(tensor, 0, loader->weights->rope_divisors);
    for (uint32_t i = 0; i < count; i++)
        if (!(loader->weights->rope_divisors[i] > 0.0f))
            return mr_fail(loader->err, MR_BAD_FILE,
                           "\"rope_freqs.weight\" has a number that is not positive");
    return MR_OK;
}

/* Older files store rotary frequencies as tensors, which are not needed: they follow from the
 * configuration. */
static bool may_be_unused(struct mr_text name)
{
    static const char suffix[] = ".rotary_emb.inv_freq";
    size_t length = sizeof(suffix) - 1;
    return name.length > length && memcmp(name.bytes + name.length - length, suffix, length) == 0;
}

static enum mr_status reject_unused_tensors(const struct loader *loader)
{
    const struct mr_tensor_table *table = loader->spec->tensors;
    for (uint32_t i = 0; i < table->count; i++) {
        struct mr_text name = table->entries[i].name;
        if (!loader->used[i] && !may_be_unused(name))
            return mr_fail(loader->err, MR_BAD_FILE, "tensor \"%.*s\" is not used by a %s model",
                           mr_stored_name_shown(name), name.bytes,
                           loader->spec->config->family->name);
    }
    return MR_OK;
}

static enum mr_status load_all(struct loader *loader)
{
    enum mr_status status = load_rope_divisors(loader);
    for (uint32_t i = 0; status == MR_OK && i < loader->weights->layer_count; i++)
        status = load_layer(loader, i);
    if (status == MR_OK) status = load_embedding_and_head(loader);
    return status == MR_OK ? reject_unused_tensors(loader) : status;
}

static enum mr_status load(struct mr_weights *out, const struct mr_weights_spec *spec,
                           bool checks_only, struct mr_error *err)
{
    *out = (struct mr_weights){0};
    const struct mr_tensor_table *table = spec->tensors;
    struct mr_weights weights = {.layer_count = spec->config->layer_count};
    weights.layers = calloc(weights.layer_count, sizeof(*weights.layers));
    bool *used = calloc((size_t)table->count + 1, sizeof(*used));
    struct loader loader = {
        .spec = spec, .weights = &weights, .err = err, .used = used, .checks_only = checks_only};
    for (uint32_t i = 0; i < table->count; i++)
        loader.total_bytes += table->entries[i].size_bytes;
    enum mr_status status = weights.layers && used
                                ? load_all(&loader)
                                : mr_fail(err, MR_NOMEM, "no memory for the table of layers");
    free(used);
    if (status != MR_OK) {
        mr_weights_destroy(&weights);
        return status;
    }
    *out = weights;
    return MR_OK;
}

enum mr_status mr_weights_load(struct mr_weights *out, const struct mr_weights_spec *spec,
                               struct mr_error *err)
{
    return load(out, spec, false, err);
}

enum mr_status mr_weights_check(const struct mr_weights_spec *spec, struct mr_error *err)
{
    struct mr_weights weights;
    enum mr_status status = load(&weights, spec, true, err);
    mr_weights_destroy(&weights);
    return status;
}

static void destroy_layer(struct mr_layer_weights *layer)
{
    free(layer->attention_norm);
    free(layer->ffn_norm);
    free(layer->q_norm);
    free(layer->k_norm);
    mr_cpu_linear_destroy(layer->qkv);
    mr_cpu_linear_destroy(layer->attention_out);
    mr_cpu_linear_destroy(layer->gate_up);
    mr_cpu_linear_destroy(layer->down);
}

void mr_weights_destroy(struct mr_weights *weights)
{
    for (uint32_t i = 0; weights->layers && i < weights->layer_count; i++)
        destroy_layer(&weights->layers[i]);
    free(weights->layers);
    free(weights->final_norm);
    free(weights->rope_divisors);
    if (weights->head != weights->embedding) mr_cpu_linear_destroy(weights->head);
    mr_cpu_linear_destroy(weights->embedding);
    *weights = (struct mr_weights){0};
}
