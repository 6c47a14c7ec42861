#include "ops/files/text_heads.h"

#include "codec/check.h"
#include "ops/families/json_keys.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LANES 8u /* partial sums of a product, so that the compiler can use vector registers */

/* ---- computation ---- */

static void softmax(float *numbers, uint32_t count)
{
    float most = numbers[0], sum = 0.0f;
    for (uint32_t i = 1; i < count; i++)
        most = fmaxf(most, numbers[i]);
    for (uint32_t i = 0; i < count; i++)
        sum += numbers[i] = expf(numbers[i] - most);
    for (uint32_t i = 0; i < count; i++)
        numbers[i] /= sum;
}

static float activated(enum mr_head_activation activation, float x)
{
    switch (activation) {
    case MR_HEAD_TANH:
        return tanhf(x);
    case MR_HEAD_RELU:
        return fmaxf(x, 0.0f);
    case MR_HEAD_GELU:
        return 0.5f * x * (1.0f + erff(x * 0.70710678f));
    case MR_HEAD_SILU:
        return x / (1.0f + expf(-x));
    case MR_HEAD_SIGMOID:
        return 1.0f / (1.0f + expf(-x));
    default:
        return x;
    }
}

void mr_head_activate(enum mr_head_activation activation, float *numbers, uint32_t count)
{
    if (activation == MR_HEAD_IDENTITY || count == 0) return;
    if (activation == MR_HEAD_SOFTMAX) {
        softmax(numbers, count);
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        numbers[i] = activated(activation, numbers[i]);
}

static float product(const float *left, const float *right, uint32_t count)
{
    float sums[LANES] = {0}, sum = 0.0f;
    uint32_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (uint32_t lane = 0; lane < LANES; lane++)
            sums[lane] += left[i + lane] * right[i + lane];
    for (; i < count; i++)
        sum += left[i] * right[i];
    for (uint32_t lane = 0; lane < LANES; lane++)
        sum += sums[lane];
    return sum;
}

static void normalize(const struct mr_head_layer *layer, float *numbers)
{
    const uint32_t count = layer->out_size;
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += (double)numbers[i];
    const float mean = (float)(sum / count);
    for (uint32_t i = 0; i < count; i++)
        squares += (double)(numbers[i] - mean) * (double)(numbers[i] - mean);
    const float scale = 1.0f / sqrtf((float)(squares / count) + layer->norm_epsilon);
    for (uint32_t i = 0; i < count; i++)
        numbers[i] = (numbers[i] - mean) * scale * layer->norm[i] +
                     (layer->norm_bias ? layer->norm_bias[i] : 0.0f);
}

static void run_layer(const struct mr_head_layer *layer, const float *in, float *out)
{
    for (uint32_t i = 0; i < layer->out_size; i++)
        out[i] = product(layer->weight + (size_t)i * layer->in_size, in, layer->in_size) +
                 (layer->bias ? layer->bias[i] : 0.0f);
    mr_head_activate(layer->activation, out, layer->out_size);
    if (layer->norm) normalize(layer, out);
}

uint32_t mr_text_head_size(const struct mr_text_head *head, uint32_t hidden_size)
{
    return head->layer_count > 0 ? head->layers[head->layer_count - 1].out_size : hidden_size;
}

void mr_text_head_apply(const struct mr_text_head *head, const float *in, uint32_t hidden_size,
                        float *out, float *scratch)
{
    float *turns[2] = {scratch, scratch};
    if (head->layer_count == 0) memcpy(out, in, hidden_size * sizeof *out);
    for (uint32_t i = 0; i + 1 < head->layer_count; i++)
        turns[1] = head->layers[i].out_size > (uint32_t)(turns[1] - turns[0])
                       ? turns[0] + head->layers[i].out_size
                       : turns[1];
    for (uint32_t i = 0; i < head->layer_count; i++) {
        float *to = i + 1 == head->layer_count ? out : turns[i % 2];
        run_layer(&head->layers[i], in, to);
        in = to;
    }
}

/* ---- tensors ---- */

static enum mr_status read_numbers(float **out, const struct mr_stored_tensor *tensor,
                                   const char *name, uint64_t count, struct mr_error *err)
{
    uint64_t numbers = 0, bytes = 0;
    if (!mr_stored_tensor_sizes(tensor, &numbers, &bytes) || numbers != count)
        return mr_fail(err, MR_BAD_FILE, "tensor \"%.100s\" has %llu numbers, not %llu", name,
                       (unsigned long long)numbers, (unsigned long long)count);
    float *copy = malloc(count * sizeof *copy);
    if (!copy) return mr_fail(err, MR_NOMEM, "no memory for tensor \"%.100s\"", name);
    const uint64_t width = tensor->dims[tensor->dim_count - 1];
    for (uint64_t row = 0; row * width < count; row++)
        mr_stored_tensor_row(tensor, row, copy + row * width);
    *out = copy;
    return MR_OK;
}

/* Reads NAME.SUFFIX if the file has it. */
static enum mr_status read_part(float **out, const struct mr_tensor_table *tensors,
                                const char *name, const char *suffix, uint64_t count,
                                struct mr_error *err)
{
    char full[MR_TENSOR_NAME_BYTES];
    snprintf(full, sizeof full, "%s.%s", name, suffix);
    const struct mr_stored_tensor *tensor = mr_tensor_table_find(tensors, full);
    return tensor && tensor->dim_count > 0 ? read_numbers(out, tensor, full, count, err) : MR_OK;
}

static const struct mr_stored_tensor *weight_of(const struct mr_tensor_table *tensors,
                                                const char *name)
{
    char full[MR_TENSOR_NAME_BYTES];
    snprintf(full, sizeof full, "%s.weight", name);
    return mr_tensor_table_find(tensors, full);
}

enum mr_status mr_text_heads_add(struct mr_text_heads *heads, struct mr_text_head *head,
                                 const struct mr_tensor_table *tensors, const char *name,
                                 uint32_t in_size, struct mr_error *err)
{
    const struct mr_stored_tensor *weight = weight_of(tensors, name);
    if (!weight || weight->dim_count != 2 || weight->dims[1] != in_size ||
        weight->dims[0] > UINT32_MAX / sizeof(float))
        return mr_fail(err, MR_BAD_FILE, "tensor \"%.100s.weight\" is not a layer of %u inputs",
                       name, in_size);
    if (head->layer_count == MR_HEAD_LAYERS_MAX)
        return mr_fail(err, MR_BAD_FILE, "more than %u dense layers after the pooling",
                       MR_HEAD_LAYERS_MAX);
    struct mr_head_layer *layer = &head->layers[head->layer_count++];
    *layer = (struct mr_head_layer){.in_size = in_size, .out_size = (uint32_t)weight->dims[0]};
    heads->scratch_size += 2 * layer->out_size;
    enum mr_status status =
        read_part(&layer->weight, tensors, name, "weight", weight->dims[0] * in_size, err);
    return status == MR_OK ? read_part(&layer->bias, tensors, name, "bias", layer->out_size, err)
                           : status;
}

/* The layers of a head by their names in a folder. The last one has a row for each label. */
static const struct {
    const char *name, *norm;
    enum mr_head_activation activation;
} first_layers[] = {
    {"bert.pooler.dense", NULL, MR_HEAD_TANH}, {"nomic_bert.pooler.dense", NULL, MR_HEAD_TANH},
    {"classifier.dense", NULL, MR_HEAD_TANH},  {"pre_classifier", NULL, MR_HEAD_RELU},
    {"head.dense", "head.norm", MR_HEAD_GELU},
};
static const char *const last_layers[] = {"classifier.out_proj", "classifier", "score"};

static enum mr_status read_norm(struct mr_head_layer *layer, const char *name, float epsilon,
                                const struct mr_tensor_table *tensors, struct mr_error *err)
{
    layer->norm_epsilon = epsilon;
    enum mr_status status = read_part(&layer->norm, tensors, name, "weight", layer->out_size, err);
    return status == MR_OK
               ? read_part(&layer->norm_bias, tensors, name, "bias", layer->out_size, err)
               : status;
}

enum mr_status mr_text_heads_read_classes(struct mr_text_heads *heads,
                                          const struct mr_model_config *config,
                                          const struct mr_tensor_table *tensors,
                                          struct mr_error *err)
{
    struct mr_text_head *head = &heads->classes;
    uint32_t size = config->hidden_size;
    enum mr_status status = MR_OK;
    if (heads->label_count == 0) return MR_OK;
    for (size_t i = 0; i < sizeof first_layers / sizeof *first_layers && status == MR_OK; i++) {
        if (!weight_of(tensors, first_layers[i].name)) continue;
        status = mr_text_heads_add(heads, head, tensors, first_layers[i].name, size, err);
        if (status != MR_OK) break;
        struct mr_head_layer *layer = &head->layers[head->layer_count - 1];
        layer->activation = first_layers[i].activation;
        size = layer->out_size;
        if (first_layers[i].norm)
            status = read_norm(layer, first_layers[i].norm, config->norm_epsilon, tensors, err);
    }
    size_t last = 0;
    while (last + 1 < sizeof last_layers / sizeof *last_layers &&
           !weight_of(tensors, last_layers[last]))
        last++;
    if (status == MR_OK)
        status = mr_text_heads_add(heads, head, tensors, last_layers[last], size, err);
    if (status == MR_OK && mr_text_head_size(head, size) != heads->label_count)
        return mr_fail(err, MR_BAD_FILE, "the head has %u outputs, config.json names %u labels",
                       mr_text_head_size(head, size), heads->label_count);
    return status;
}

/* ---- config.json ---- */

static enum mr_status add_label(struct mr_text_heads *heads, struct mr_text name,
                                struct mr_error *err)
{
    char *copy = malloc(name.length + 1);
    if (!copy) return mr_fail(err, MR_NOMEM, "no memory for the labels");
    if (name.length > 0) memcpy(copy, name.bytes, name.length);
    copy[name.length] = '\0';
    heads->labels[heads->label_count++] = (struct mr_text){copy, name.length};
    return MR_OK;
}

/* id2label maps the decimal number of a class to its name. A file without it has two classes, or
 * num_labels, called LABEL_0 and so on, as in transformers. */
static enum mr_status read_labels(struct mr_text_heads *heads, const struct mr_json_value *root,
                                  struct mr_error *err)
{
    const struct mr_json_value *names = mr_json_get(root, "id2label");
    const size_t named = mr_json_count(names);
    const double count = named > 0 ? (double)named : mr_json_number_or(root, "num_labels", 2);
    enum mr_status status = MR_OK;
    if (!(count >= 1 && count <= MR_LABELS_MAX))
        return mr_fail(err, MR_BAD_FILE, "config.json has %.0f labels, at most %u are supported",
                       count, MR_LABELS_MAX);
    heads->labels = calloc((size_t)count, sizeof *heads->labels);
    if (!heads->labels) return mr_fail(err, MR_NOMEM, "no memory for the labels");
    for (unsigned i = 0; i < (unsigned)count && status == MR_OK; i++) {
        char key[16], usual[24];
        snprintf(key, sizeof key, "%u", i);
        struct mr_text name = {usual, (size_t)snprintf(usual, sizeof usual, "LABEL_%u", i)};
        mr_json_text(mr_json_get(names, key), &name);
        status = add_label(heads, name, err);
    }
    return status;
}

static bool ends_with(struct mr_text text, const char *end)
{
    const size_t length = strlen(end);
    return text.length >= length && memcmp(text.bytes + text.length - length, end, length) == 0;
}

/* The activation function of a cross-encoder, by the name of its class in torch. */
static enum mr_head_activation cross_encoder_activation(const struct mr_json_value *root,
                                                        enum mr_head_activation usual)
{
    struct mr_text name = {"", 0};
    if (!mr_json_text(mr_json_get(mr_json_get(root, "sentence_transformers"), "activation_fn"),
                      &name))
        mr_json_text(mr_json_get(root, "sbert_ce_default_activation_function"), &name);
    if (ends_with(name, ".Identity")) return MR_HEAD_IDENTITY;
    return ends_with(name, ".Sigmoid") ? MR_HEAD_SIGMOID : usual;
}

enum mr_status mr_text_heads_read_config(struct mr_text_heads *heads,
                                         const struct mr_model_config *config,
                                         const struct mr_json_value *root, struct mr_error *err)
{
    struct mr_text name = {"", 0}, problem = {"", 0}, pooling = {"", 0};
    mr_json_text(mr_json_at(mr_json_get(root, "architectures"), 0), &name);
    if (!ends_with(name, "ForSequenceClassification")) return MR_OK;
    mr_json_text(mr_json_get(root, "problem_type"), &problem);
    mr_json_text(mr_json_get(root, "classifier_pooling"), &pooling);
    enum mr_status status = read_labels(heads, root, err);
    if (status != MR_OK) return status;
    const bool single = heads->label_count == 1;
    heads->class_pooling = config->both_ways ? MR_MODEL_POOLING_FIRST : MR_MODEL_POOLING_LAST;
    if (mr_text_is(pooling, "mean")) heads->class_pooling = MR_MODEL_POOLING_MEAN;
    heads->rank_activation =
        cross_encoder_activation(root, single ? MR_HEAD_SIGMOID : MR_HEAD_IDENTITY);
    heads->class_activation = single ? heads->rank_activation : MR_HEAD_SOFTMAX;
    if (mr_text_is(problem, "multi_label_classification"))
        heads->class_activation = MR_HEAD_SIGMOID;
    if (mr_text_is(problem, "regression")) heads->class_activation = MR_HEAD_IDENTITY;
    return MR_OK;
}

static void destroy_head(struct mr_text_head *head)
{
    for (uint32_t i = 0; i < head->layer_count; i++) {
        free(head->layers[i].weight);
        free(head->layers[i].bias);
        free(head->layers[i].norm);
        free(head->layers[i].norm_bias);
    }
}

void mr_text_heads_destroy(struct mr_text_heads *heads)
{
    destroy_head(&heads->vector);
    destroy_head(&heads->classes);
    for (uint32_t i = 0; i < heads->label_count; i++)
        free((void *)(uintptr_t)heads->labels[i].bytes);
    free(heads->labels);
    *heads = (struct mr_text_heads){0};
}
