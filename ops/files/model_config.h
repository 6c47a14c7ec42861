/* model_config - what a model is, read from GGUF metadata or from a config.json: sizes, the rotary
 * embedding, windows, end tokens. A model family is data: one row of a table, walked by one decoder
 * (ops/decoder.c). What the table does not know is refused, never guessed.
 *
 * Threads: values only; the family is a constant. Memory: none of its own.
 * Errors:  MR_BAD_FILE says which key, and what stood there. */
#ifndef MR_OPS_FILES_MODEL_CONFIG_H
#define MR_OPS_FILES_MODEL_CONFIG_H

#include "codec/status.h"
#include "codec/wire/json.h"
#include "ops/files/gguf.h"

#define MR_LAYERS_MAX  512u
#define MR_EOS_IDS_MAX 8u

/* A family of models that differ in sizes only. Every one has RMS norm before attention and before
 * the feed-forward net, rotary positions and silu(gate) * up; biases are used where the file has
 * them. */
struct mr_model_family {
    const char *name;        /* model_type of config.json, general.architecture of GGUF */
    bool head_norm;          /* q and k go through an RMS norm for each head */
    bool gguf_rotary_pairs;  /* GGUF keeps the rows of q and k in the order of rotary pairs */
    bool window_needs_optin; /* sliding_window counts only with use_sliding_window */
    uint32_t default_window; /* where config.json does not name sliding_window at all */
};

enum mr_rope_kind { MR_ROPE_PLAIN, MR_ROPE_LINEAR, MR_ROPE_LLAMA3 };

struct mr_rope_config {
    enum mr_rope_kind kind;
    uint32_t rotary_dim; /* of each head, from its first number on; even */
    double theta;
    double factor;              /* LINEAR, LLAMA3 */
    double low_freq, high_freq; /* LLAMA3: wavelengths per original context */
    double original_context;    /* LLAMA3 */
};

struct mr_model_config {
    const struct mr_model_family *family;
    uint32_t layer_count, hidden_size, head_count, kv_head_count, head_dim, ffn_size, vocab_size;
    uint32_t context_tokens;
    float norm_epsilon;
    bool tied_head; /* the output layer is the embedding */
    struct mr_rope_config rope;
    uint32_t window;              /* tokens; 0 none */
    bool windowed[MR_LAYERS_MAX]; /* layers the window holds for */
    uint32_t eos_ids[MR_EOS_IDS_MAX];
    uint32_t eos_count;
};

enum mr_status mr_model_config_from_gguf(struct mr_model_config *out, const struct mr_gguf *gguf,
                                         struct mr_error *err);
/* root: the object of a config.json. */
enum mr_status mr_model_config_from_json(struct mr_model_config *out,
                                         const struct mr_json_value *root, struct mr_error *err);
/* Adds id unless it is there; ids beyond MR_EOS_IDS_MAX are left out. */
void mr_model_config_add_eos(struct mr_model_config *config, uint32_t id);

#endif
