/* text_heads - the layers that follow a text's pooled hidden state, as the files of the model say:
 * the Dense modules of sentence-transformers, which make its vector, and the head of a
 * ForSequenceClassification model, which makes a number for each label.
 *
 * The layers are small and computed once for each text, so the CPU computes them in fp32 on every
 * device.
 *
 * Owner:  the model's source (model_source.h); immutable once read. Threads: any may apply a head,
 *         each with its own scratch.
 * Memory: the heads own copies of all numbers and texts.
 * Errors: MR_BAD_FILE names the tensor or the key; MR_NOMEM. */
#ifndef MR_OPS_FILES_TEXT_HEADS_H
#define MR_OPS_FILES_TEXT_HEADS_H

#include "codec/wire/json.h"
#include "ops/families/model_config.h"
#include "ops/files/tensor_table.h"

#define MR_HEAD_LAYERS_MAX 4u
#define MR_LABELS_MAX      4096u

enum mr_head_activation {
    MR_HEAD_IDENTITY,
    MR_HEAD_TANH,
    MR_HEAD_RELU,
    MR_HEAD_GELU, /* with the error function */
    MR_HEAD_SILU,
    MR_HEAD_SIGMOID,
    MR_HEAD_SOFTMAX
};

/* out = norm(activation(weight x + bias)) */
struct mr_head_layer {
    uint32_t in_size, out_size;
    float *weight; /* [out_size][in_size] */
    float *bias;   /* [out_size]; NULL: none */
    enum mr_head_activation activation;
    float *norm, *norm_bias; /* [out_size] of a layer norm; NULL: none */
    float norm_epsilon;
};

struct mr_text_head {
    struct mr_head_layer layers[MR_HEAD_LAYERS_MAX];
    uint32_t layer_count; /* 0: the pooled hidden state itself */
};

struct mr_text_heads {
    struct mr_text_head vector;  /* of task embed */
    struct mr_text_head classes; /* of the tasks classify and rerank */
    struct mr_text *labels;      /* [label_count] names of the classes */
    uint32_t label_count;        /* 0: the model has no classes */
    enum mr_model_pooling class_pooling;
    enum mr_head_activation class_activation; /* makes the probabilities of task classify */
    enum mr_head_activation rank_activation;  /* makes the score of task rerank */
    uint32_t scratch_size;                    /* floats that mr_text_head_apply needs */
};

/* Numbers of a head's result for a pooled hidden state of hidden_size numbers. */
uint32_t mr_text_head_size(const struct mr_text_head *head, uint32_t hidden_size);
/* out[mr_text_head_size] of in[hidden_size]. scratch: [heads->scratch_size]. */
void mr_text_head_apply(const struct mr_text_head *head, const float *in, uint32_t hidden_size,
                        float *out, float *scratch);
/* Applies an activation to `count` numbers in place. */
void mr_head_activate(enum mr_head_activation activation, float *numbers, uint32_t count);

/* Reads labels, pooling and activations from config.json. */
enum mr_status mr_text_heads_read_config(struct mr_text_heads *heads,
                                         const struct mr_model_config *config,
                                         const struct mr_json_value *root, struct mr_error *err);
/* Reads the layers of `classes` if config.json names labels. */
enum mr_status mr_text_heads_read_classes(struct mr_text_heads *heads,
                                          const struct mr_model_config *config,
                                          const struct mr_tensor_table *tensors,
                                          struct mr_error *err);
/* Adds a layer from the tensors `name`.weight and `name`.bias to a head. in_size: of its input. */
enum mr_status mr_text_heads_add(struct mr_text_heads *heads, struct mr_text_head *head,
                                 const struct mr_tensor_table *tensors, const char *name,
                                 uint32_t in_size, struct mr_error *err);
/* Destroying zeroed heads does nothing. */
void mr_text_heads_destroy(struct mr_text_heads *heads);

#endif
