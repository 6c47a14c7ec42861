/* model_config - the configuration of a model: its family (family.h) and the properties that differ
 * between models of a family: sizes, rotary embeddings, sliding windows, experts, scales, end
 * tokens. config_json (config.json) or ops/files/gguf_config (GGUF metadata) fills it, and rejects
 * a file with a feature that neither the family nor these fields describe.
 *
 * Threads: values only; the family is a constant. Memory: no pointers that need freeing.
 * Errors:  MR_BAD_FILE names the key and the value. */
#ifndef MR_OPS_FAMILIES_MODEL_CONFIG_H
#define MR_OPS_FAMILIES_MODEL_CONFIG_H

#include "ops/families/family.h"
#include "ops/families/part_scales.h"
#include "ops/mixer/latent_shape.h"
#include "ops/mixer/mixer_shape.h"

#define MR_LAYERS_MAX  512u
#define MR_EOS_IDS_MAX 8u
#define MR_GROUP_MAX                                                                               \
    64u /* most query heads that share a key/value head (ops/cpu_kernels/kernels.h) */
#define MR_HEAD_DIM_MAX   256u
#define MR_ROPE_PAIRS_MAX (MR_HEAD_DIM_MAX / 2u)
#define MR_ROPES_MAX      2u
#define MR_NO_ROPE        255u /* in rope_of: the layer has no rotary embedding */
#define MR_EXPERTS_MAX    1024u

enum mr_rope_kind { MR_ROPE_PLAIN, MR_ROPE_LINEAR, MR_ROPE_LLAMA3, MR_ROPE_YARN, MR_ROPE_LONG };

/* A rotary embedding; rope_table.h defines the frequencies that follow from these numbers. Rope
 * scaling "dynamic" is read as plain: the two are equal up to max_position_embeddings, the longest
 * context served. */
struct mr_rope_config {
    enum mr_rope_kind kind;
    uint32_t rotary_dim; /* leading numbers of each head that are rotated; even */
    double theta;
    double factor;                /* divides frequencies; LINEAR, LLAMA3 and YARN */
    double low_freq, high_freq;   /* LLAMA3: bounds, in wavelengths per original_context */
    double beta_fast, beta_slow;  /* YARN: bounds, in turns per original_context */
    bool keeps_fractions;         /* YARN: the bounds are not rounded to whole pairs */
    double original_context;      /* context tokens before scaling; LLAMA3, YARN and LONG */
    double attention_factor;      /* multiplies sines and cosines; 0 means 1 */
    double long_attention_factor; /* the same in longer contexts; LONG; 0: attention_factor */
    /* q of position p is multiplied by 1 + temperature * ln(1 + floor(p / temperature_tokens)); 0:
     * it is not. */
    double temperature, temperature_tokens;
    /* [rotary_dim / 2] numbers by which frequencies are divided: LONG up to original_context, and
     * the other kinds if has_divisors. */
    bool has_divisors;
    float divisors[MR_ROPE_PAIRS_MAX];
    float long_divisors[MR_ROPE_PAIRS_MAX]; /* LONG: for longer contexts */
};

struct mr_expert_config {
    uint32_t count, top_k; /* experts of a layer, and those used for a row; 0: no experts */
    uint32_t ffn_size, shared_ffn_size; /* shared_ffn_size 0: no shared expert */
    /* As in struct mr_router (ops/backend/expert_layer.h). */
    bool sigmoid, normalized, biased, group_pairs;
    uint32_t group_count, groups_kept;
    float scale, sum_min, mixer_margin;
};

/* Which hidden states become a text's vector, as the model's files say. */
enum mr_model_pooling {
    MR_MODEL_POOLING_LAST, /* the last token's */
    MR_MODEL_POOLING_MEAN, /* the mean of all tokens' */
    MR_MODEL_POOLING_FIRST
};

struct mr_model_config {
    const struct mr_model_family *family;
    uint32_t layer_count, hidden_size, head_count, kv_head_count, head_dim, ffn_size, vocab_size;
    uint32_t context_tokens;
    float norm_epsilon;
    uint32_t extra_layers; /* after layer_count, which predict further tokens: ignored */
    bool tied_head;        /* the output layer uses the weights of the token embedding */
    bool wraps_text;       /* the text part of a larger model, whose other tensors are ignored */
    enum mr_activation activation;
    enum mr_head_norm head_norm;
    bool parallel;     /* attention and feed-forward network read the same rows */
    bool own_ffn_norm; /* parallel: each branch has a norm of its own */
    bool scale_falls;  /* the attention scale of layer i is divided by i + 1 */
    bool both_ways;    /* a row attends to its whole sequence, and no KV outlives the step */
    enum mr_model_pooling pooling;
    uint32_t position_rows;  /* rows of the table of position embeddings; 0: no table */
    uint32_t first_position; /* row of position 0 */
    uint32_t type_count;     /* rows of the table of token types; 0: no table */
    float attention_scale;
    float attention_softcap, logit_softcap, qkv_clip; /* 0: none */
    float embedding_scale, residual_scale, logit_scale;
    struct mr_part_scales scales; /* only in families with part_scales */
    struct mr_rope_config ropes[MR_ROPES_MAX];
    uint32_t rope_count;
    struct mr_expert_config experts;
    /* Size of the sliding window in tokens: a row attends to itself and the window - 1 tokens
     * before it, and if both_ways to as many after it. 0: none. */
    uint32_t window;
    bool windowed[MR_LAYERS_MAX];        /* true for layers that use the sliding window */
    bool routed[MR_LAYERS_MAX];          /* true for layers with experts */
    uint8_t rope_of[MR_LAYERS_MAX];      /* index in ropes, or MR_NO_ROPE */
    struct mr_latent_shape latent;       /* of all layers */
    struct mr_mixer_shape mixer;         /* of all recurrent layers */
    bool mixes[MR_LAYERS_MAX];           /* true for layers with a recurrent part */
    bool skips_attention[MR_LAYERS_MAX]; /* true for layers without attention */
    bool skips_ffn[MR_LAYERS_MAX];       /* true for layers without a feed-forward network */
    uint32_t eos_ids[MR_EOS_IDS_MAX];
    uint32_t eos_count;
};

/* Returns head_dim rounded up to a multiple of 16: the size of a head in the packed weights and in
 * the KV pool, where zeros follow the head's head_dim numbers. */
uint32_t mr_model_config_padded_head(const struct mr_model_config *config);
/* Returns the number of leading rows of each head of q and k that the files store in pair order
 * (ops/weights/weight_rows.h); 0: none. gguf: of GGUF files, else of Hugging Face's. */
uint32_t mr_model_config_pair_dim(const struct mr_model_config *config, bool gguf);
/* Adds an end-of-sequence token id unless the list has it; no effect when the list is full. */
void mr_model_config_add_eos(struct mr_model_config *config, uint32_t id);
/* Writes a text that identifies rope `index`: different ropes have different texts. size: 320 or
 * more. */
void mr_model_config_describe_rope(const struct mr_model_config *config, uint32_t index, char *out,
                                   size_t size);
/* Returns the number of bytes of a text from a file to print in an error message, at most 64. */
int mr_model_config_shown(struct mr_text text);

/* ---- for the readers that fill a configuration ---- */

/* Sets scales to 1 and copies the fields that all models of the family share. Call it first, after
 * setting `family`. */
void mr_model_config_begin(struct mr_model_config *config);
/* Sets which layers use the sliding window: the layers from `first` on, except every pattern-th
 * layer of the model; pattern 0: no exception. */
void mr_model_config_set_windows(struct mr_model_config *config, uint32_t first, uint32_t pattern);
/* Sets the fields of `experts` that follow from the family's routing. `normalized` is the value of
 * a file without a key for it. */
void mr_model_config_begin_experts(struct mr_model_config *config);
/* Sets rope_of of all layers from windowed and the family; drops a second rope that is equal
 * to the first, or that no layer has. */
void mr_model_config_assign_ropes(struct mr_model_config *config);
/* Yarn serves `factor` times the context that the model was trained with. Raises context_tokens to
 * that length when the file gives the trained length as the model's context (Qwen's recipe for long
 * texts). original_tokens: the trained length; 0: not in the file. */
void mr_model_config_extend_context(struct mr_model_config *config, double factor,
                                    double original_tokens);
/* Checks all limits. A reader returns the status of this call. */
enum mr_status mr_model_config_check(const struct mr_model_config *config, struct mr_error *err);

#endif
