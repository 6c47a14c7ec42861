#include "ops/families/family.h"

static const struct mr_weight_name lfm2_names[] = {
    {MR_WEIGHT_FINAL_NORM, "token_embd_norm", "model.embedding_norm"},
    {MR_WEIGHT_ATTENTION_NORM, "blk.%u.attn_norm", "model.layers.%u.operator_norm"},
    {MR_WEIGHT_ATTENTION_OUT, "blk.%u.attn_output", "model.layers.%u.self_attn.out_proj"},
    {MR_WEIGHT_Q_NORM, "blk.%u.attn_q_norm", "model.layers.%u.self_attn.q_layernorm"},
    {MR_WEIGHT_K_NORM, "blk.%u.attn_k_norm", "model.layers.%u.self_attn.k_layernorm"},
    {MR_WEIGHT_FFN_NORM, "blk.%u.ffn_norm", "model.layers.%u.ffn_norm"},
    {MR_WEIGHT_GATE, "blk.%u.ffn_gate", "model.layers.%u.feed_forward.w1"},
    {MR_WEIGHT_UP, "blk.%u.ffn_up", "model.layers.%u.feed_forward.w3"},
    {MR_WEIGHT_DOWN, "blk.%u.ffn_down", "model.layers.%u.feed_forward.w2"},
    {MR_WEIGHT_MIXER_IN, "blk.%u.shortconv.in_proj", "model.layers.%u.conv.in_proj"},
    {MR_WEIGHT_MIXER_TAPS, "blk.%u.shortconv.conv", "model.layers.%u.conv.conv"},
    {MR_WEIGHT_MIXER_OUT, "blk.%u.shortconv.out_proj", "model.layers.%u.conv.out_proj"},
    {0}};

static const struct mr_weight_name granite_hybrid_names[] = {
    {MR_WEIGHT_ROUTER, "blk.%u.ffn_gate_inp", "model.layers.%u.block_sparse_moe.router.layer"},
    {MR_WEIGHT_ALL_GATE_UP, "blk.%u.ffn_gate_up_exps",
     "model.layers.%u.block_sparse_moe.input_linear"},
    {MR_WEIGHT_ALL_DOWN, "blk.%u.ffn_down_exps", "model.layers.%u.block_sparse_moe.output_linear"},
    {MR_WEIGHT_GATE_UP, NULL, "model.layers.%u.shared_mlp.input_linear"},
    {MR_WEIGHT_DOWN, "blk.%u.ffn_down", "model.layers.%u.shared_mlp.output_linear"},
    {0}};

static const struct mr_weight_name qwen3_next_names[] = {
    {MR_WEIGHT_MIXER_IN, NULL, "model.layers.%u.linear_attn.in_proj_qkvz"},
    {MR_WEIGHT_MIXER_GATES, "blk.%u.ssm_ba", "model.layers.%u.linear_attn.in_proj_ba"},
    {MR_WEIGHT_MIXER_TAPS, "blk.%u.ssm_conv1d", "model.layers.%u.linear_attn.conv1d"},
    {MR_WEIGHT_MIXER_A, "blk.%u.ssm_a", "model.layers.%u.linear_attn.A_log"},
    {MR_WEIGHT_MIXER_DT_BIAS, "blk.%u.ssm_dt.bias", "model.layers.%u.linear_attn.dt_bias"},
    {MR_WEIGHT_MIXER_NORM, "blk.%u.ssm_norm", "model.layers.%u.linear_attn.norm"},
    {MR_WEIGHT_MIXER_OUT, "blk.%u.ssm_out", "model.layers.%u.linear_attn.out_proj"},
    {0}};

static const struct mr_weight_name qwen3_5_names[] = {
    {MR_WEIGHT_MIXER_IN, NULL, "model.layers.%u.linear_attn.in_proj_qkv"},
    {MR_WEIGHT_MIXER_Z, NULL, "model.layers.%u.linear_attn.in_proj_z"},
    {MR_WEIGHT_MIXER_BETA, NULL, "model.layers.%u.linear_attn.in_proj_b"},
    {MR_WEIGHT_MIXER_DECAY, NULL, "model.layers.%u.linear_attn.in_proj_a"},
    {MR_WEIGHT_MIXER_TAPS, NULL, "model.layers.%u.linear_attn.conv1d"},
    {MR_WEIGHT_MIXER_A, NULL, "model.layers.%u.linear_attn.A_log"},
    {MR_WEIGHT_MIXER_DT_BIAS, NULL, "model.layers.%u.linear_attn.dt_bias"},
    {MR_WEIGHT_MIXER_NORM, NULL, "model.layers.%u.linear_attn.norm"},
    {MR_WEIGHT_MIXER_OUT, NULL, "model.layers.%u.linear_attn.out_proj"},
    {0}};

static const struct mr_weight_name bamba_names[] = {
    {MR_WEIGHT_FINAL_NORM, NULL, "model.final_layernorm"},
    {MR_WEIGHT_FFN_NORM, NULL, "model.layers.%u.pre_ff_layernorm"},
    {MR_WEIGHT_GATE, NULL, "model.layers.%u.feed_forward.gate_proj"},
    {MR_WEIGHT_UP, NULL, "model.layers.%u.feed_forward.up_proj"},
    {MR_WEIGHT_DOWN, NULL, "model.layers.%u.feed_forward.down_proj"},
    {0}};

static const struct mr_mixer_family short_convolution = {
    .kind = MR_MIXER_CONV, .taps = "conv_L_cache", .attention_list = "full_attn_idxs"};

static const struct mr_mixer_family mamba2_hybrid = {.kind = MR_MIXER_SSD,
                                                     .taps = "mamba_d_conv",
                                                     .heads = "mamba_n_heads",
                                                     .key_heads = "mamba_n_groups",
                                                     .key_dim = "mamba_d_state",
                                                     .value_dim = "mamba_d_head",
                                                     .attention_list = "attn_layer_indices",
                                                     .norm_after_gate = true};

static const struct mr_mixer_family delta_rule = {.kind = MR_MIXER_DELTA,
                                                  .taps = "linear_conv_kernel_dim",
                                                  .heads = "linear_num_value_heads",
                                                  .key_heads = "linear_num_key_heads",
                                                  .key_dim = "linear_key_head_dim",
                                                  .value_dim = "linear_value_head_dim",
                                                  .attention_interval = 4};

/* The families with recurrent layers. */
static const struct mr_model_family rows[] = {
    {.name = "lfm2",
     .names = lfm2_names,
     .norm_before = true,
     .head_norm = MR_HEAD_NORM_EACH,
     .mixer = &short_convolution,
     .adjusted_ffn = true,
     .defaults = {.norm_epsilon = 1e-5, .rope_theta = 1e6, .tied_head = true}},
    {.name = "granitemoehybrid",
     .names = granite_hybrid_names,
     .norm_before = true,
     .mixer = &mamba2_hybrid,
     .shared_mlp = true,
     .rope_opt_in = true,
     .multipliers = true,
     .fused = true,
     .gguf_rotary_pairs = true},
    {.name = "qwen3_next",
     .names = qwen3_next_names,
     .norm_before = true,
     .head_norm = MR_HEAD_NORM_EACH,
     .experts = true,
     .routing = MR_ROUTING_KEY,
     .mixer = &delta_rule,
     .gated_attention = true,
     .norm_offset = true,
     .defaults = {.rotary_share = 0.25}},
    {.name = "qwen3_5_text",
     .names = qwen3_5_names,
     .norm_before = true,
     .head_norm = MR_HEAD_NORM_EACH,
     .mixer = &delta_rule,
     .gated_attention = true,
     .norm_offset = true,
     .defaults = {.rotary_share = 0.25}},
    {.name = "qwen3_5_moe_text",
     .names = qwen3_5_names,
     .norm_before = true,
     .head_norm = MR_HEAD_NORM_EACH,
     .experts = true,
     .mixer = &delta_rule,
     .gated_attention = true,
     .norm_offset = true,
     .defaults = {.rotary_share = 0.25}},
    {.name = "bamba",
     .names = bamba_names,
     .norm_before = true,
     .mixer = &mamba2_hybrid,
     .defaults = {.norm_epsilon = 1e-5, .rotary_share = 0.5}},
};

const struct mr_family_table mr_recurrent_families = {rows, sizeof(rows) / sizeof(rows[0])};
