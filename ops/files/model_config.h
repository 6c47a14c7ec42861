/* model_config - the configuration of a model, read from GGUF metadata or from a config.json:
 * sizes, rotary embedding, sliding windows, end tokens. A model family is one row of a table that
 * one decoder (ops/decoder.c) interprets. A file with a feature that the table does not describe is
 * rejected.
 *
 * Threads: values only; the family is a constant. Memory: no pointers that need freeing.
 * Errors:  MR_BAD_FILE says which key and which value. */
#ifndef MR_OPS_FILES_MODEL_CONFIG_H
#define MR_OPS_FILES_MODEL_CONFIG_H

#include "codec/status.h"
#include "codec/wire/json.h"
#include "ops/files/gguf.h"

#define MR_LAYERS_MAX  512u
#define MR_EOS_IDS_MAX 8u
#define MR_GROUP_MAX   64u /* most query heads that share a key/value head (ops/cpu/kv_kernels.h) */

/* A family of models that differ in sizes only. All families have an RMS norm before attention and
 * before the feed-forward network, rotary positions and silu(gate) * up; a bias is used when the
 * file has one. */
struct mr_model_family {
    const char *name;        /* the model_type of config.json or general.architecture of GGUF */
    bool head_norm;          /* an RMS norm is applied to each head of q and k */
    bool gguf_rotary_pairs;  /* GGUF stores the rows of q and k in pair order (ops/weight_rows.h) */
    bool window_needs_optin; /* sliding_window is ignored unless use_sliding_window is true */
    uint32_t default_window; /* used when config.json has no key sliding_window */
};

enum mr_rope_kind { MR_ROPE_PLAIN, MR_ROPE_LINEAR, MR_ROPE_LLAMA3 };

struct mr_rope_config {
    enum mr_rope_kind kind;
    uint32_t rotary_dim; /* leading numbers of each head that are rotated; even */
    double theta;
    double factor;              /* divides frequencies; used by MR_ROPE_LINEAR and MR_ROPE_LLAMA3 */
    double low_freq, high_freq; /* MR_ROPE_LLAMA3: bounds, in wavelengths per original_context */
    double original_context;    /* MR_ROPE_LLAMA3: context tokens before scaling */
};

struct mr_model_config {
    const struct mr_model_family *family;
    uint32_t layer_count, hidden_size, head_count, kv_head_count, head_dim, ffn_size, vocab_size;
    uint32_t context_tokens;
    float norm_epsilon;
    bool tied_head; /* the output layer uses the weights of the token embedding */
    struct mr_rope_config rope;
    uint32_t window;              /* size of the sliding window in tokens; 0: none */
    bool windowed[MR_LAYERS_MAX]; /* true for layers that use the sliding window */
    uint32_t eos_ids[MR_EOS_IDS_MAX];
    uint32_t eos_count;
};

/* gguf: the file with the model's keys; tensors: those of all its files. */
enum mr_status mr_model_config_from_gguf(struct mr_model_config *out, const struct mr_gguf *gguf,
                                         const struct mr_tensor_table *tensors,
                                         struct mr_error *err);
/* root: the top-level object of a config.json. */
enum mr_status mr_model_config_from_json(struct mr_model_config *out,
                                         const struct mr_json_value *root, struct mr_error *err);
/* Adds an end-of-sequence token id unless the list has it; no effect when the list is full. */
void mr_model_config_add_eos(struct mr_model_config *config, uint32_t id);
/* Adds the end-of-sequence id, or list of ids, in a JSON value; ignores ids of `limit` and
 * above. */
void mr_model_config_add_eos_json(struct mr_model_config *config, const struct mr_json_value *value,
                                  uint32_t limit);

#endif
