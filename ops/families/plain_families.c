#include "ops/families/family.h"

/* A decoder with layer norms. */
#define LAYER_NORM_FIELDS .centered_norms = true, .norm_before = true, .plain_ffn = true

static const struct mr_weight_name starcoder2_names[] = {
    {MR_WEIGHT_UP, "blk.%u.ffn_up", "model.layers.%u.mlp.c_fc"},
    {MR_WEIGHT_DOWN, "blk.%u.ffn_down", "model.layers.%u.mlp.c_proj"},
    {0}};

static const struct mr_weight_name phi_names[] = {
    {MR_WEIGHT_FINAL_NORM, "output_norm", "model.final_layernorm"},
    {MR_WEIGHT_ATTENTION_OUT, "blk.%u.attn_output", "model.layers.%u.self_attn.dense"},
    {MR_WEIGHT_UP, "blk.%u.ffn_up", "model.layers.%u.mlp.fc1"},
    {MR_WEIGHT_DOWN, "blk.%u.ffn_down", "model.layers.%u.mlp.fc2"},
    {0}};

static const struct mr_weight_name neox_names[] = {
    {MR_WEIGHT_EMBEDDING, "token_embd", "gpt_neox.embed_in"},
    {MR_WEIGHT_FINAL_NORM, "output_norm", "gpt_neox.final_layer_norm"},
    {MR_WEIGHT_HEAD, "output", "embed_out"},
    {MR_WEIGHT_HEAD, "output", "lm_head"},
    {MR_WEIGHT_ATTENTION_NORM, "blk.%u.attn_norm", "gpt_neox.layers.%u.input_layernorm"},
    {MR_WEIGHT_QKV, "blk.%u.attn_qkv", "gpt_neox.layers.%u.attention.query_key_value"},
    {MR_WEIGHT_ATTENTION_OUT, "blk.%u.attn_output", "gpt_neox.layers.%u.attention.dense"},
    {MR_WEIGHT_FFN_NORM, "blk.%u.ffn_norm", "gpt_neox.layers.%u.post_attention_layernorm"},
    {MR_WEIGHT_UP, "blk.%u.ffn_up", "gpt_neox.layers.%u.mlp.dense_h_to_4h"},
    {MR_WEIGHT_DOWN, "blk.%u.ffn_down", "gpt_neox.layers.%u.mlp.dense_4h_to_h"},
    {0}};

static const struct mr_weight_name gptj_names[] = {
    {MR_WEIGHT_EMBEDDING, NULL, "transformer.wte"},
    {MR_WEIGHT_FINAL_NORM, NULL, "transformer.ln_f"},
    {MR_WEIGHT_ATTENTION_NORM, NULL, "transformer.h.%u.ln_1"},
    {MR_WEIGHT_Q, NULL, "transformer.h.%u.attn.q_proj"},
    {MR_WEIGHT_K, NULL, "transformer.h.%u.attn.k_proj"},
    {MR_WEIGHT_V, NULL, "transformer.h.%u.attn.v_proj"},
    {MR_WEIGHT_ATTENTION_OUT, NULL, "transformer.h.%u.attn.out_proj"},
    {MR_WEIGHT_UP, NULL, "transformer.h.%u.mlp.fc_in"},
    {MR_WEIGHT_DOWN, NULL, "transformer.h.%u.mlp.fc_out"},
    {0}};

static const struct mr_weight_name gpt2_names[] = {
    {MR_WEIGHT_EMBEDDING, "token_embd", "transformer.wte"},
    {MR_WEIGHT_POSITIONS, "position_embd", "transformer.wpe"},
    {MR_WEIGHT_FINAL_NORM, "output_norm", "transformer.ln_f"},
    {MR_WEIGHT_ATTENTION_NORM, "blk.%u.attn_norm", "transformer.h.%u.ln_1"},
    {MR_WEIGHT_QKV, "blk.%u.attn_qkv", "transformer.h.%u.attn.c_attn"},
    {MR_WEIGHT_ATTENTION_OUT, "blk.%u.attn_output", "transformer.h.%u.attn.c_proj"},
    {MR_WEIGHT_FFN_NORM, "blk.%u.ffn_norm", "transformer.h.%u.ln_2"},
    {MR_WEIGHT_UP, "blk.%u.ffn_up", "transformer.h.%u.mlp.c_fc"},
    {MR_WEIGHT_DOWN, "blk.%u.ffn_down", "transformer.h.%u.mlp.c_proj"},
    {0}};

/* The norms before the branches have other names where each branch has its own. */
static const struct mr_weight_name falcon_names[] = {
    {MR_WEIGHT_EMBEDDING, "token_embd", "transformer.word_embeddings"},
    {MR_WEIGHT_FINAL_NORM, "output_norm", "transformer.ln_f"},
    {MR_WEIGHT_ATTENTION_NORM, "blk.%u.attn_norm_2", "transformer.h.%u.ln_attn"},
    {MR_WEIGHT_ATTENTION_NORM, "blk.%u.attn_norm", "transformer.h.%u.input_layernorm"},
    {MR_WEIGHT_QKV, "blk.%u.attn_qkv", "transformer.h.%u.self_attention.query_key_value"},
    {MR_WEIGHT_ATTENTION_OUT, "blk.%u.attn_output", "transformer.h.%u.self_attention.dense"},
    {MR_WEIGHT_FFN_NORM, "blk.%u.attn_norm", "transformer.h.%u.ln_mlp"},
    {MR_WEIGHT_FFN_NORM, "blk.%u.ffn_norm", "transformer.h.%u.post_attention_layernorm"},
    {MR_WEIGHT_UP, "blk.%u.ffn_up", "transformer.h.%u.mlp.dense_h_to_4h"},
    {MR_WEIGHT_DOWN, "blk.%u.ffn_down", "transformer.h.%u.mlp.dense_4h_to_h"},
    {0}};

static const struct mr_weight_name apertus_names[] = {
    {MR_WEIGHT_ATTENTION_NORM, "blk.%u.attn_norm", "model.layers.%u.attention_layernorm"},
    {MR_WEIGHT_FFN_NORM, "blk.%u.ffn_norm", "model.layers.%u.feedforward_layernorm"},
    {0}};

/* The decoders whose feed-forward network has no gate. */
static const struct mr_model_family rows[] = {
    {.name = "starcoder2",
     .gguf = "starcoder2",
     .names = starcoder2_names,
     LAYER_NORM_FIELDS,
     .activation = MR_ACTIVATION_GELU_TANH,
     .defaults = {.norm_epsilon = 1e-5, .tied_head = true}},
    {.name = "nemotron",
     .gguf = "nemotron",
     LAYER_NORM_FIELDS,
     .activation = MR_ACTIVATION_RELU2,
     .norm_offset = true,
     .defaults = {.norm_epsilon = 1e-5, .rotary_share = 0.5}},
    {.name = "arcee",
     .gguf = "arcee",
     .gguf_rotary_pairs = true,
     .norm_before = true,
     .plain_ffn = true,
     .activation = MR_ACTIVATION_RELU2,
     .defaults = {.norm_epsilon = 1e-5}},
    {.name = "jais2",
     .gguf = "jais2",
     LAYER_NORM_FIELDS,
     .activation = MR_ACTIVATION_RELU2,
     .defaults = {.norm_epsilon = 1e-5}},
    {.name = "apertus",
     .names = apertus_names,
     .norm_before = true,
     .plain_ffn = true,
     .head_norm = MR_HEAD_NORM_EACH,
     .activation = MR_ACTIVATION_XIELU,
     .defaults = {.norm_epsilon = 1e-5, .rope_theta = 1.2e7, .llama3_factor = 8.0}},
    {.name = "phi",
     .gguf = "phi2",
     .names = phi_names,
     LAYER_NORM_FIELDS,
     .activation = MR_ACTIVATION_GELU_TANH,
     .parallel = true,
     .defaults = {.norm_epsilon = 1e-5, .rotary_share = 0.5}},
    {.name = "gpt_neox",
     .gguf = "gptneox",
     .names = neox_names,
     .prefix = "gpt_neox.",
     LAYER_NORM_FIELDS,
     .activation = MR_ACTIVATION_GELU,
     .parallel = true,
     .may_be_parallel = true,
     .own_ffn_norm = true,
     .fused_by_group = true,
     .defaults = {.norm_epsilon = 1e-5, .rotary_share = 0.25}},
    {.name = "gptj",
     .names = gptj_names,
     .prefix = "transformer.",
     LAYER_NORM_FIELDS,
     .activation = MR_ACTIVATION_GELU_TANH,
     .parallel = true,
     .rotary_key = true,
     .folder_rotary_pairs = true,
     .defaults = {.norm_epsilon = 1e-5, .rotary_share = 0.25, .ffn_multiple = 4}},
    {.name = "gpt2",
     .gguf = "gpt2",
     .names = gpt2_names,
     .prefix = "transformer.",
     LAYER_NORM_FIELDS,
     .activation = MR_ACTIVATION_GELU_TANH,
     .positions = true,
     .scale_keys = true,
     .transposed = true,
     .defaults = {.norm_epsilon = 1e-5, .tied_head = true, .ffn_multiple = 4}},
    {.name = "falcon",
     .gguf = "falcon",
     .parallel = true,
     .names = falcon_names,
     .prefix = "transformer.",
     LAYER_NORM_FIELDS,
     .activation = MR_ACTIVATION_GELU,
     .grouped_decoder = true,
     .fused_by_group = true,
     .defaults =
         {.context_tokens = 2048, .norm_epsilon = 1e-5, .tied_head = true, .ffn_multiple = 4}},
};

const struct mr_family_table mr_plain_families = {rows, sizeof(rows) / sizeof(rows[0])};
