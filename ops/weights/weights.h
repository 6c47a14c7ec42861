/* weights - packs the tensors of a model file into the linear layers and vectors of the decoder.
 *
 * Each tensor is looked up by name, its shape and type are checked against the configuration, and
 * it is read once, row by row, into packed form. q, k and v become one linear layer; gate and up
 * become one layer whose rows alternate. A tensor of the file that the model does not use is an
 * error, because an ignored bias or norm would silently cause wrong answers.
 *
 * Owner:  the model; engine thread. Packing runs on the parallel team. Memory: all numbers are
 * copied; the file may be closed afterwards. Errors: MR_BAD_FILE names the tensor and both shapes;
 * MR_NOMEM; those of the backend. */
#ifndef MR_OPS_WEIGHTS_WEIGHTS_H
#define MR_OPS_WEIGHTS_WEIGHTS_H

#include "ops/weights/expert_weights.h"
#include "ops/weights/latent_weights.h"
#include "ops/weights/mixer_weights.h"

/* bias NULL: none; both NULL: the model lacks this norm. */
struct mr_norm_weights {
    struct mr_vector *weight, *bias; /* [hidden_size] */
};

/* Heads have head_dim numbers, rounded up to a multiple of 16, with zeros past head_dim. */
struct mr_layer_weights {
    struct mr_norm_weights attention_norm, attention_post_norm, ffn_norm, ffn_post_norm;
    /* [heads * padded], [kv_heads * padded], or NULL for no norm */
    struct mr_vector *q_norm, *k_norm;
    struct mr_vector *sinks;          /* [heads], or NULL */
    struct mr_linear *qkv;            /* [(heads + 2 kv_heads) padded, hidden_size] */
    struct mr_linear *attention_gate; /* [heads * padded, hidden_size], or NULL */
    struct mr_linear *attention_out;
    struct mr_latent_weights latent; /* instead of qkv; zero in a layer without latent attention */
    struct mr_mixer_weights mixer;   /* zero in a layer without a recurrent part */
    /* Of a layer without experts; rows of gate_up: gate 0, up 0, gate 1, up 1 ... */
    struct mr_linear *gate_up, *down;
    struct mr_expert_weights experts; /* zero in a layer without experts */
};

struct mr_weights {
    const struct mr_backend *backend; /* of the device that has the weights */
    struct mr_layer_weights *layers;
    uint32_t layer_count, expert_count;
    struct mr_norm_weights final_norm, embedding_norm;
    /* [types * positions_per_type][hidden_size] the embedding of each token type plus that of each
     * position; NULL: the model has neither */
    struct mr_vector *positions;
    uint32_t positions_per_type; /* 1: the model has no position embeddings */
    struct mr_linear *head;      /* output layer, [vocab_size, hidden_size]; NULL: none */
    struct mr_linear *embedding; /* the same pointer as head when the model ties them */
    uint64_t parameter_count, packed_bytes;
    bool quantized; /* some linear layers have integer weights */
};

enum mr_status mr_weights_load(struct mr_weights *out, const struct mr_weights_spec *spec,
                               struct mr_error *err);
/* The memory that the weights of a model will need. */
struct mr_weights_size {
    uint64_t parameter_count;
    uint64_t bytes; /* without biases, and without the padding of layers in floats */
    bool quantized; /* some layers will have integer weights */
};

/* Checks the tensors as _load does, without packing them; digest and progress are not used. Sets
 * *size, unless it is NULL; bytes need spec->compute, which need not be open. */
enum mr_status mr_weights_check(const struct mr_weights_spec *spec, struct mr_weights_size *size,
                                struct mr_error *err);
/* Destroying zeroed weights does nothing. */
void mr_weights_destroy(struct mr_weights *weights);

#endif
