#include "ops/weights/adapter.h"

#include "codec/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How the two tensors of a part are stored. */
enum layout {
    PLAIN,   /* A [rank, in], B [out, rank] */
    STACKED, /* GGUF, all experts: A [experts, rank, in], B [experts, out, rank] */
    /* PEFT's target_parameters, all experts: A [experts * rank, in], expert after expert;
     * B [out, rank * experts], rank after rank */
    PARAMETER,
    TABLE, /* of the token embedding: PEFT A [rank, vocabulary], GGUF [vocabulary, rank] */
};

/* A way in which an adapter may name and store the change of a part of a layer. */
struct form {
    enum mr_weight_part part;
    uint32_t first, all; /* rows of B: the part's begin at `first`, of `all` */
    enum layout layout;
};

/* The change of one part of a layer. */
struct piece {
    struct form form;
    const struct mr_stored_tensor *a, *b;
    uint32_t rank, experts;
    uint32_t depth; /* its first rank among those of the layer */
    float scale;
};

struct loading {
    const struct mr_adapter_base *base;
    const struct mr_adapter_files *files;
    struct mr_adapter_weights *to;
    bool *used; /* [tensors->count] */
    struct mr_error *err;
};

/* ---- lookup ---- */

static struct mr_tensor_naming naming_of(const struct loading *loading, uint32_t variant)
{
    struct mr_tensor_naming naming = {0};
    if (variant > 0) naming = mr_wrapped_namings[variant - 1];
    naming.exceptions = loading->base->config->family->names;
    naming.gguf = loading->files->gguf_names;
    return naming;
}

static const struct mr_stored_tensor *find(const struct loading *loading, const char *module,
                                           const char *middle, const char *suffix)
{
    char name[2 * MR_TENSOR_NAME_BYTES];
    snprintf(name, sizeof name, "%s%s%s%s", loading->files->gguf_names ? "" : "base_model.model.",
             module, middle, suffix);
    return mr_tensor_table_find(loading->files->tensors, name);
}

static bool find_pair(const struct loading *loading, const char *module, const char *middle,
                      struct piece *piece)
{
    const bool gguf = loading->files->gguf_names, table = piece->form.layout == TABLE;
    piece->a = find(loading, module, middle,
                    gguf    ? ".weight.lora_a"
                    : table ? ".lora_embedding_A"
                            : ".lora_A.weight");
    piece->b = find(loading, module, middle,
                    gguf    ? ".weight.lora_b"
                    : table ? ".lora_embedding_B"
                            : ".lora_B.weight");
    return piece->a || piece->b;
}

static bool has_dims(const struct mr_stored_tensor *tensor, uint32_t count, const uint64_t *dims)
{
    bool equal = tensor->dim_count == count && tensor->storage != MR_STORAGE_OTHER;
    for (uint32_t i = 0; equal && i < count; i++)
        equal = tensor->dims[i] == dims[i];
    return equal;
}

/* Checks the shapes of a piece, and sets its rank. */
static bool fits(const struct loading *loading, const struct mr_linear_plan *plan,
                 struct piece *piece)
{
    const struct mr_model_config *c = loading->base->config;
    const uint64_t in = plan->width, out = piece->form.all;
    const uint64_t experts = piece->form.layout == PLAIN ? 1 : c->experts.count;
    const bool turned = piece->form.layout == TABLE && loading->files->gguf_names;
    uint64_t rank = piece->a->dims[piece->form.layout == STACKED || turned ? 1 : 0];
    if (piece->form.layout == PARAMETER) rank /= experts;
    piece->rank = (uint32_t)rank;
    piece->experts = (uint32_t)experts;
    if (piece->a->dim_count < 2 || rank == 0 || rank > MR_ADAPTER_RANK_MAX) return false;
    switch (piece->form.layout) {
    case PLAIN:
        return has_dims(piece->a, 2, (uint64_t[]){rank, in}) &&
               has_dims(piece->b, 2, (uint64_t[]){out, rank});
    case STACKED:
        return has_dims(piece->a, 3, (uint64_t[]){experts, rank, in}) &&
               has_dims(piece->b, 3, (uint64_t[]){experts, out, rank});
    case PARAMETER:
        return has_dims(piece->a, 2, (uint64_t[]){experts * rank, in}) &&
               has_dims(piece->b, 2, (uint64_t[]){out, rank * experts});
    case TABLE:
        return has_dims(piece->a, 2, turned ? (uint64_t[]){out, rank} : (uint64_t[]){rank, out}) &&
               has_dims(piece->b, 2, (uint64_t[]){in, rank});
    }
    return false;
}

/* Writes the forms in which an adapter may have the change of a share; returns their number. Bases
 * and adapters may differ in whether experts have tensors of their own. */
static uint32_t forms_of(const struct mr_linear_plan *plan, const struct mr_share_plan *share,
                         uint32_t expert_count, struct form forms[3])
{
    const uint32_t all = share->all > 0 ? share->all : share->rows;
    const bool second =
        share->first > 0 || share->part == MR_WEIGHT_EXPERT_UP || share->part == MR_WEIGHT_ALL_UP;
    const enum mr_weight_part own = second ? MR_WEIGHT_EXPERT_UP : MR_WEIGHT_EXPERT_GATE;
    forms[0] = (struct form){share->part, share->first, all, plan->stacked > 0 ? STACKED : PLAIN};
    if (share->part == MR_WEIGHT_EMBEDDING) forms[0].layout = TABLE;
    if (plan->transposed && plan->stacked > 0) return 0;
    if (expert_count == 0) return 1;
    switch (share->part) {
    case MR_WEIGHT_EXPERT_GATE:
    case MR_WEIGHT_EXPERT_UP:
    case MR_WEIGHT_ALL_GATE:
    case MR_WEIGHT_ALL_UP:
    case MR_WEIGHT_ALL_GATE_UP:
        forms[1] = (struct form){own, 0, share->rows, PLAIN};
        forms[2] = (struct form){MR_WEIGHT_ALL_GATE_UP, second ? share->rows : 0, 2 * share->rows,
                                 PARAMETER};
        return 3;
    case MR_WEIGHT_EXPERT_DOWN:
    case MR_WEIGHT_ALL_DOWN:
        forms[1] = (struct form){MR_WEIGHT_EXPERT_DOWN, 0, share->rows, PLAIN};
        forms[2] = (struct form){MR_WEIGHT_ALL_DOWN, 0, share->rows, PARAMETER};
        return 3;
    default:
        return 1;
    }
}

static void use(struct loading *loading, const struct mr_stored_tensor *tensor)
{
    bool *used = &loading->used[tensor - loading->files->tensors->entries];
    uint64_t numbers = 1;
    for (uint32_t i = 0; !*used && i < tensor->dim_count; i++)
        numbers *= tensor->dims[i];
    if (!*used) loading->to->parameter_count += numbers;
    *used = true;
}

/* Accepts the tensors of a piece that were found under a module's name. */
static enum mr_status accept(struct loading *loading, const struct mr_linear_plan *plan,
                             const char *module, struct piece *piece)
{
    const struct mr_stored_tensor *one = piece->a ? piece->a : piece->b;
    if (!piece->a || !piece->b)
        return mr_fail(loading->err, MR_BAD_FILE, "tensor \"%.*s\" has no counterpart",
                       mr_stored_name_shown(one->name), one->name.bytes);
    if (!fits(loading, plan, piece))
        return mr_fail(loading->err, MR_BAD_FILE,
                       "tensor \"%.*s\" does not fit a layer of %u x %u, or its rank is above %u",
                       mr_stored_name_shown(one->name), one->name.bytes, piece->form.all,
                       plan->width, MR_ADAPTER_RANK_MAX);
    use(loading, piece->a);
    use(loading, piece->b);
    if (piece->rank > loading->to->rank) loading->to->rank = piece->rank;
    return mr_adapter_files_scale(loading->files, module, piece->rank, &piece->scale, loading->err);
}

/* Finds PEFT's tensors for a parameter of all experts. The wrappers of two parameters of a module
 * are nested, in an order that only the shapes tell. */
static enum mr_status find_parameter(struct loading *loading, const struct mr_linear_plan *plan,
                                     const char *module, struct piece *piece)
{
    static const char *const middles[] = {"", ".base_layer"};
    const char *dot = strrchr(module, '.');
    char owner[MR_TENSOR_NAME_BYTES];
    if (!dot) return MR_OK;
    snprintf(owner, sizeof owner, "%.*s", (int)(dot - module), module);
    for (uint32_t i = 0; i < 2; i++)
        if (find_pair(loading, owner, middles[i], piece) && piece->a && piece->b &&
            fits(loading, plan, piece))
            return accept(loading, plan, module, piece);
    piece->a = piece->b = NULL;
    return MR_OK;
}

/* Sets *piece to the change of a share; without tensors if the adapter has none. */
static enum mr_status find_piece(struct loading *loading, const struct mr_linear_plan *plan,
                                 const struct mr_share_plan *share, struct piece *piece)
{
    struct form forms[3];
    const uint32_t count = forms_of(plan, share, loading->base->config->experts.count, forms);
    const uint32_t variants = loading->files->gguf_names ? 1 : 1 + MR_WRAPPED_NAMINGS;
    *piece = (struct piece){0};
    for (uint32_t i = 0; i < count * variants; i++) {
        const struct mr_tensor_naming naming = naming_of(loading, i % variants);
        char module[MR_TENSOR_NAME_BYTES];
        *piece = (struct piece){.form = forms[i / variants]};
        if (!mr_tensor_name(&naming, piece->form.part, plan->layer, plan->index, "", module))
            continue;
        if (piece->form.layout == PARAMETER) {
            enum mr_status status = find_parameter(loading, plan, module, piece);
            if (status != MR_OK || piece->a) return status;
        } else if (find_pair(loading, module, "", piece)) {
            return accept(loading, plan, module, piece);
        }
    }
    return MR_OK;
}

/* ---- one layer ---- */

struct layer {
    const struct mr_linear_plan *plan;
    struct piece pieces[MR_WEIGHT_SHARES_MAX]; /* of the plan's shares; without a: unchanged */
    struct mr_low_rank_spec spec;
    float *a, *b;
};

/* Gives each piece its ranks; pieces with the same A share them. */
static void stack(struct layer *layer)
{
    for (uint32_t i = 0; i < layer->plan->share_count; i++) {
        struct piece *piece = &layer->pieces[i];
        if (!piece->a) continue;
        uint32_t same = 0;
        while (layer->pieces[same].a != piece->a)
            same++;
        piece->depth = same < i ? layer->pieces[same].depth : layer->spec.rank;
        if (same == i) layer->spec.rank += piece->rank;
    }
}

static struct mr_head_padding padding_of(const struct mr_model_config *config, bool heads)
{
    const uint32_t padded = mr_model_config_padded_head(config);
    if (!heads || padded == config->head_dim) return (struct mr_head_padding){0, 0};
    return (struct mr_head_padding){config->head_dim, padded};
}

static uint32_t padded(uint32_t count, struct mr_head_padding heads)
{
    return heads.size > 0 ? count / heads.size * heads.padded : count;
}

static uint32_t share_rows(const struct loading *loading, const struct mr_share_plan *share)
{
    return padded(share->rows, padding_of(loading->base->config, share->heads));
}

static void fill_a(const struct loading *loading, struct layer *layer, const struct piece *piece)
{
    const struct mr_linear_plan *plan = layer->plan;
    const uint32_t expert = piece->form.layout == PLAIN ? 0 : plan->index;
    struct mr_weight_rows rows = {.shares = {{.weight = piece->a,
                                              .row_count = piece->rank,
                                              .first_row = (uint64_t)expert * piece->rank}},
                                  .share_count = 1,
                                  .width = layer->spec.in_size,
                                  .columns = padding_of(loading->base->config, plan->head_columns)};
    for (uint32_t i = 0; i < piece->rank; i++)
        mr_weight_rows_read(&rows, i, layer->a + (size_t)(piece->depth + i) * layer->spec.in_size);
}

/* Fills the rows of B of share `index`. numbers: room for a row of the tensor. */
static void fill_b(const struct loading *loading, struct layer *layer, uint32_t index,
                   float *numbers)
{
    const struct mr_linear_plan *plan = layer->plan;
    const struct mr_share_plan *share = &plan->shares[index];
    const struct piece *piece = &layer->pieces[index];
    const uint32_t count = share_rows(loading, share);
    const struct mr_model_config *config = loading->base->config;
    const bool rotates = share->part == MR_WEIGHT_Q || share->part == MR_WEIGHT_K;
    const uint32_t expert = piece->form.layout == STACKED ? plan->index : 0;
    struct mr_weight_rows rows = {
        .shares = {{.weight = piece->b,
                    .row_count = count,
                    .pair_dim =
                        rotates ? mr_model_config_pair_dim(config, loading->files->gguf_names) : 0,
                    .pair_head = config->head_dim,
                    .first_row = (uint64_t)expert * piece->form.all + piece->form.first,
                    .rows = padding_of(config, share->heads),
                    .groups = share->groups,
                    .scale = share->scale}},
        .share_count = 1,
        .width = (uint32_t)piece->b->dims[piece->b->dim_count - 1]};
    const bool spread = piece->form.layout == PARAMETER;
    uint32_t before = 0;
    for (uint32_t i = 0; i < index; i++)
        before += share_rows(loading, &plan->shares[i]);
    for (uint32_t row = 0; row < count; row++) {
        const size_t to = plan->alternate ? (size_t)row * plan->share_count + index : before + row;
        mr_weight_rows_read(&rows, row, numbers);
        for (uint32_t i = 0; i < piece->rank; i++)
            layer->b[to * layer->spec.rank + piece->depth + i] =
                piece->scale * numbers[spread ? i * piece->experts + plan->index : i];
    }
}

/* The token embedding: a row of `a` for each token, and B [hidden, rank]. */
static void fill_table(const struct loading *loading, struct layer *layer, float *numbers)
{
    const struct piece *piece = &layer->pieces[0];
    const uint32_t rank = piece->rank;
    const bool turned = loading->files->gguf_names;
    for (uint32_t row = 0; row < (turned ? layer->spec.in_size : rank); row++) {
        mr_stored_tensor_row(piece->a, row, turned ? layer->a + (size_t)row * rank : numbers);
        for (uint32_t i = 0; !turned && i < layer->spec.in_size; i++)
            layer->a[(size_t)i * rank + row] = numbers[i];
    }
    for (uint32_t row = 0; row < layer->spec.out_size; row++) {
        mr_stored_tensor_row(piece->b, row, layer->b + (size_t)row * rank);
        for (uint32_t i = 0; i < rank; i++)
            layer->b[(size_t)row * rank + i] *= piece->scale;
    }
}

static void fill(const struct loading *loading, struct layer *layer, float *numbers)
{
    if (layer->spec.table) {
        fill_table(loading, layer, numbers);
        return;
    }
    for (uint32_t i = 0; i < layer->plan->share_count; i++) {
        if (!layer->pieces[i].a) continue;
        fill_a(loading, layer, &layer->pieces[i]);
        fill_b(loading, layer, i, numbers);
    }
}

static void set_sizes(const struct loading *loading, struct layer *layer)
{
    const struct mr_linear_plan *plan = layer->plan;
    struct mr_low_rank_spec *spec = &layer->spec;
    spec->gated = plan->gated;
    spec->table = layer->pieces[0].form.layout == TABLE;
    spec->in_size = padded(plan->width, padding_of(loading->base->config, plan->head_columns));
    for (uint32_t i = 0; i < plan->share_count; i++)
        spec->out_size += share_rows(loading, &plan->shares[i]);
    if (!spec->table) return;
    spec->in_size = plan->shares[0].rows;
    spec->out_size = plan->width;
}

/* Floats that a row of any tensor of the layer has at most. */
static size_t row_floats(const struct layer *layer)
{
    size_t most = layer->spec.in_size;
    for (uint32_t i = 0; i < layer->plan->share_count; i++)
        if (layer->pieces[i].b &&
            layer->pieces[i].b->dims[layer->pieces[i].b->dim_count - 1] > most)
            most = layer->pieces[i].b->dims[layer->pieces[i].b->dim_count - 1];
    return most;
}

static enum mr_status create_layer(struct loading *loading, struct layer *layer,
                                   struct mr_low_rank **out)
{
    struct mr_compute *compute = loading->base->compute;
    struct mr_low_rank_spec *spec = &layer->spec;
    float *numbers = malloc(row_floats(layer) * sizeof *numbers);
    layer->a = calloc((size_t)spec->rank * spec->in_size, sizeof *layer->a);
    layer->b = calloc((size_t)spec->out_size * spec->rank, sizeof *layer->b);
    enum mr_status status = MR_NOMEM;
    if (numbers && layer->a && layer->b) {
        fill(loading, layer, numbers);
        spec->a = layer->a;
        spec->b = layer->b;
        status = compute->backend->low_rank->create(compute, out, spec, loading->err);
    } else {
        (void)mr_fail(loading->err, MR_NOMEM, "no memory for an adapter of a layer");
    }
    if (status == MR_OK) loading->to->bytes += compute->backend->low_rank->bytes(*out);
    free(layer->b);
    free(layer->a);
    free(numbers);
    return status;
}

static enum mr_status load_layer(struct loading *loading, uint32_t site)
{
    struct layer layer = {.plan = &loading->base->sites->plans[site]};
    for (uint32_t i = 0; i < layer.plan->share_count; i++) {
        enum mr_status status =
            find_piece(loading, layer.plan, &layer.plan->shares[i], &layer.pieces[i]);
        if (status != MR_OK) return status;
    }
    stack(&layer);
    if (layer.spec.rank == 0) return MR_OK;
    set_sizes(loading, &layer);
    loading->to->layer_count++;
    if (!loading->base->compute) return MR_OK;
    return create_layer(loading, &layer, &loading->to->adapter.sites[site]);
}

/* ---- the adapter ---- */

static enum mr_status load_all(struct loading *loading)
{
    const struct mr_tensor_table *tensors = loading->files->tensors;
    const struct mr_model_config *config = loading->base->config;
    enum mr_status status = MR_OK;
    for (uint32_t site = 1; status == MR_OK && site < loading->base->sites->count; site++)
        status = load_layer(loading, site);
    for (uint32_t i = 0; status == MR_OK && i < tensors->count; i++)
        if (!loading->used[i])
            status =
                mr_fail(loading->err, MR_BAD_FILE, "tensor \"%.*s\" has no place in this %s model",
                        (int)tensors->entries[i].name.length, tensors->entries[i].name.bytes,
                        config->family->name);
    return status;
}

enum mr_status mr_adapter_weights_create(struct mr_adapter_weights **out,
                                         const struct mr_adapter_base *base,
                                         const struct mr_adapter_files *files, struct mr_error *err)
{
    *out = NULL;
    struct mr_adapter_weights *made = calloc(1, sizeof *made);
    struct loading loading = {base, files, made, calloc(files->tensors->count, sizeof(bool)), err};
    enum mr_status status = MR_NOMEM;
    if (made) {
        made->backend = base->compute ? base->compute->backend : NULL;
        made->adapter.site_count = base->sites->count;
        made->adapter.sites = calloc(base->sites->count, sizeof *made->adapter.sites);
    }
    if (made && made->adapter.sites && loading.used)
        status = load_all(&loading);
    else
        (void)mr_fail(err, MR_NOMEM, "no memory for an adapter");
    free(loading.used);
    if (status != MR_OK) {
        mr_adapter_weights_destroy(made);
        return status == MR_BAD_FILE ? mr_mapped_file_blame(files->path, status, err) : status;
    }
    *out = made;
    return MR_OK;
}

void mr_adapter_weights_destroy(struct mr_adapter_weights *weights)
{
    if (!weights) return;
    for (uint32_t i = 0;
         weights->backend && weights->adapter.sites && i < weights->adapter.site_count; i++)
        weights->backend->low_rank->destroy(weights->adapter.sites[i]);
    free(weights->adapter.sites);
    free(weights);
}
