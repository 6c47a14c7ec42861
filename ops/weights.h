/* weights - packs the tensors of a model file into the linear layers and vectors of the decoder.
 *
 * Each tensor is looked up by name and its shape and type are checked against the configuration. It
 * is read once, row by row, into packed form: q, k and v become one linear layer; gate and up
 * become one whose rows alternate. A tensor of the file that the model does not use is an error,
 * because an ignored bias or norm would silently give wrong answers.
 *
 * Owner:  the model; engine thread. Packing runs on the parallel team.
 * Memory: everything is copied; the file may be closed afterwards.
 * Errors: MR_BAD_FILE names the tensor and both shapes; MR_NOMEM; MR_UNSUPPORTED by the kernels. */
#ifndef MR_OPS_WEIGHTS_H
#define MR_OPS_WEIGHTS_H

#include "ops/cpu/kernels.h"
#include "ops/files/model_config.h"
#include "ops/files/tensor_table.h"
#include "ops/weights_digest.h"

struct mr_layer_weights {
    float *attention_norm, *ffn_norm; /* [hidden_size] */
    float *q_norm, *k_norm;           /* [heads * head_dim], [kv heads * head_dim]; or NULL */
    struct mr_cpu_linear *qkv;        /* [(heads + 2 kv_heads) head_dim, hidden_size] */
    struct mr_cpu_linear *attention_out;
    struct mr_cpu_linear *gate_up; /* row order: gate 0, up 0, gate 1, up 1 ... */
    struct mr_cpu_linear *down;
};

struct mr_weights {
    struct mr_layer_weights *layers;
    uint32_t layer_count;
    float *final_norm;
    struct mr_cpu_linear *head;      /* output layer, [vocab_size, hidden_size] */
    struct mr_cpu_linear *embedding; /* the same pointer as head when the model ties them */
    float *rope_divisors;            /* [rotary_dim / 2] divisors of rope frequencies, or NULL */
    uint64_t parameter_count, packed_bytes;
};

struct mr_weights_spec {
    const struct mr_model_config *config;
    const struct mr_tensor_table *tensors;
    bool gguf_names; /* true: tensors have GGUF's names; false: Hugging Face's */
    bool bf16;
    struct mr_weights_digest *digest; /* gets each tensor that is read; NULL: none */
    /* Called after each loaded tensor; may be NULL. */
    void (*progress)(void *context, uint64_t done_bytes, uint64_t total_bytes);
    void *progress_context;
};

enum mr_status mr_weights_load(struct mr_weights *out, const struct mr_weights_spec *spec,
                               struct mr_error *err);
/* Checks the tensors as _load does, without packing them: spec->digest and progress are not used.
 */
enum mr_status mr_weights_check(const struct mr_weights_spec *spec, struct mr_error *err);
/* Destroying zeroed weights does nothing. */
void mr_weights_destroy(struct mr_weights *weights);

#endif
