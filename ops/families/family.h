/* family - the model families as rows of tables. The fields of a row describe how the layers of
 * a family are computed and how its files are read. The readers of configurations (config_json.h,
 * ops/files/gguf_config.h), the names of tensors (tensor_names.h) and the decoder
 * (ops/decoder/decoder.c) act on the fields, never on the name. ops/README.md explains how to add a
 * family.
 *
 * Threads: constants. Memory: none. Errors: MR_BAD_FILE names the family and the reason why it is
 * refused. */
#ifndef MR_OPS_FAMILIES_FAMILY_H
#define MR_OPS_FAMILIES_FAMILY_H

#include "codec/status.h"
#include "codec/text.h"
#include "ops/families/layer_forms.h"
#include "ops/families/mixer_family.h"
#include "ops/families/tensor_names.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Values of keys that a config.json may lack. 0: the key is required, or has the value of most
 * families (model_config.h). */
struct mr_family_defaults {
    uint32_t head_count, kv_head_count, head_dim, vocab_size, context_tokens;
    uint32_t window;         /* sliding window in tokens, if the key is absent */
    uint32_t window_pattern; /* every window_pattern-th layer has no window; 0: all have it */
    double norm_epsilon, rope_theta, window_rope_theta, rotary_share;
    double jitter_noise; /* of the key router_jitter_noise */
    double logit_scale;  /* of the key logit_scale; 0: the family does not have the key */
    double query_scalar; /* attention scale = query_scalar^-1/2 */
    double attention_softcap, logit_softcap;
    bool tied_head;
    uint32_t ffn_multiple; /* feed-forward size / hidden size */
    double llama3_factor; /* of llama3 rope scaling from 8,192 tokens on, if there is no rope key */
    uint32_t dense_layers; /* leading layers without experts */
    bool unnormalized;     /* norm_topk_prob is false */
};

struct mr_model_family {
    const char *name; /* model_type of config.json */
    const char *gguf; /* general.architecture of GGUF; NULL: files use the name of another row */
    const char *const *aliases;         /* other names in either kind of file; ends with NULL */
    const struct mr_weight_name *names; /* exceptions from the usual names; ends with a zero row */
    /* Before each name in the folder of a model with a head, such as "bert."; NULL: none. The names
     * of a decoder's row have the prefix, those of an encoder's do not. */
    const char *prefix;
    const char *body; /* replaces "model." in the names of some folders; NULL: does not */

    /* ---- how a layer is computed ---- */
    bool centered_norms;     /* layer norms with bias instead of RMS norms */
    bool norms_without_bias; /* centered norms may lack a bias */
    bool norm_before;        /* a norm before attention and before the feed-forward network */
    bool norm_after;         /* a norm of each branch's output, before it is added to the sum */
    bool bare_first_layer;   /* no norm before the attention of the first layer */
    bool norm_sum;           /* a norm of the residual stream after each branch was added to it */
    bool norm_by_kind;       /* layers with a recurrent part have norms before their branches, and
                              * the others after them */
    bool norm_embedding;     /* a norm of the embedding rows */
    bool no_final_norm;
    bool encoder;     /* each row attends to its whole sequence; the model has no output layer */
    bool positions;   /* a table of position embeddings instead of a rotary embedding */
    bool token_types; /* a table of token-type embeddings */
    /* Position 0 has row pad_token_id + 1 of the table, because the reference gives padding tokens
     * the row pad_token_id. */
    bool positions_after_padding;
    bool plain_ffn; /* down(activation(up)) instead of down(activation(gate) * up) */
    enum mr_head_norm head_norm;
    bool norm_after_rope; /* head_norm is that of the rotated q and k */
    bool clips;           /* the key clip_qkv limits q, k and v */
    enum mr_activation activation;
    bool parallel;        /* attention and feed-forward network read the same rows */
    bool may_be_parallel; /* the key use_parallel_residual decides; `parallel` if it is absent */
    bool own_ffn_norm;    /* parallel branches have a norm each, instead of one for both */
    bool grouped_decoder; /* has Falcon's keys for the form of a layer (config_json.c) */
    bool scale_keys;      /* has GPT-2's keys for the attention scale */
    bool rotary_key;      /* the key rotary_dim has the rotary size of a head */
    bool sinks;           /* attention has a sink logit for each head */
    bool embedding_root;  /* embeddings are multiplied by the root of the hidden size */
    bool embedding_root_opt_in; /* the same if mup_enabled is true */
    uint32_t rope_interval;     /* every rope_interval-th layer has no rope; 0: all have it */
    enum mr_window_rope window_rope;
    bool experts; /* layers may have experts */
    enum mr_routing routing;
    const struct mr_mixer_family *mixer; /* NULL: no recurrent layers */
    bool gated_attention; /* q has a gate after each head; outputs of attention are multiplied by
                           * the sigmoid of the gate */
    bool shared_mlp;      /* the feed-forward network has shared_intermediate_size numbers, next to
                           * the experts if there are some */
    bool rope_opt_in;     /* no rotary embedding unless position_embedding_type is "rope" */
    bool rope_if_given;   /* no rotary embedding without rope_parameters and rope_theta */
    bool no_rope;         /* no rotary embedding */
    bool adjusted_ffn;    /* two thirds of the feed-forward size, rounded up to block_multiple_of,
                           * unless block_auto_adjust_ff_dim is false */
    bool plain_shared;    /* the shared expert has weight 1: no switch */
    bool latent;          /* attention is latent (ops/mixer/latent_shape.h) */
    bool gguf_unnormalized; /* weights of experts are not normalized; GGUF has no key for it */

    /* ---- how files are read ---- */
    bool part_scales;   /* config.json has Falcon-H1's multipliers (part_scales.h) */
    bool multipliers;   /* config.json has Granite's multipliers */
    bool depth_scales;  /* config.json has MiniCPM's multipliers */
    bool latent_halves; /* q and k of latent attention are not in pair order if rope_interleave is
                         * false */
    bool optional_head_norm; /* head_norm only if qk_layernorm or use_qk_norm is true */
    bool joint_head_norms;   /* Hugging Face: one tensor has the centered norms of all heads */
    bool norm_offset;        /* Hugging Face's norm weights are stored less 1; GGUF's are not */
    bool fused;              /* q, k, v are one tensor, and gate and up are one */
    bool fused_by_group;     /* Hugging Face: in one tensor of q, k and v the rows of each kv head
                                follow those of its q heads */
    bool transposed;    /* Hugging Face's linear layers, except the output layer, are [in, out] */
    bool mixed_experts; /* Hugging Face: rows of gate and up alternate; [in, out] unless MXFP4 */
    bool folder_rotary_pairs; /* Hugging Face's files store q and k in pair order */
    bool gguf_rotary_pairs;   /* GGUF stores the rows of q and k in pair order
                                 (ops/weights/weight_rows.h) */
    bool window_opt_in;       /* sliding_window is ignored unless use_sliding_window is true */
    /* config.json has the tokens of a window on both sides, under local_attention, and the interval
     * of layers without a window, of which the first is one */
    bool window_both_ways;
    bool windows_above;        /* only layers from max_window_layers on have windows */
    bool yarn_keeps_fractions; /* yarn's bounds are not rounded; GGUF files have no key for this */
    uint32_t gguf_wide_layers; /* a GGUF file with this number of layers scales attention by hidden
                                * size / heads */
    struct mr_family_defaults defaults;
};

/* The rows by kind of layer, in a file each below ops/families. */
struct mr_family_table {
    const struct mr_model_family *rows;
    size_t count;
};

extern const struct mr_family_table mr_dense_families;     /* ops/families/dense_families.c */
extern const struct mr_family_table mr_plain_families;     /* ops/families/plain_families.c */
extern const struct mr_family_table mr_expert_families;    /* ops/families/expert_families.c */
extern const struct mr_family_table mr_latent_families;    /* ops/families/latent_families.c */
extern const struct mr_family_table mr_recurrent_families; /* ops/families/recurrent_families.c */
extern const struct mr_family_table mr_encoder_families;   /* ops/families/encoder_families.c */

/* Sets *out to the family of a config.json's model_type, or of a GGUF's general.architecture.
 * MR_BAD_FILE for unknown families, and for known ones with the reason why they are refused. */
enum mr_status mr_model_family_find(const struct mr_model_family **out, struct mr_text name,
                                    bool gguf, struct mr_error *err);
/* Returns row `index` of the table; NULL past the end. For tests and help texts. */
const struct mr_model_family *mr_model_family_at(size_t index);

#endif
