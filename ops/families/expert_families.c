#include "ops/families/family.h"

/* A shared expert without a switch, as DeepSeek names it. */
#define SHARED_EXPERTS                                                                             \
    {MR_WEIGHT_SHARED_GATE, "blk.%u.ffn_gate_shexp",                                               \
     "model.layers.%u.mlp.shared_experts.gate_proj"},                                              \
        {MR_WEIGHT_SHARED_UP, "blk.%u.ffn_up_shexp",                                               \
         "model.layers.%u.mlp.shared_experts.up_proj"},                                            \
    {                                                                                              \
        MR_WEIGHT_SHARED_DOWN, "blk.%u.ffn_down_shexp",                                            \
            "model.layers.%u.mlp.shared_experts.down_proj"                                         \
    }

static const struct mr_weight_name mixtral_names[] = {
    {MR_WEIGHT_ROUTER, "blk.%u.ffn_gate_inp", "model.layers.%u.block_sparse_moe.gate"},
    {MR_WEIGHT_EXPERT_GATE, NULL, "model.layers.%u.block_sparse_moe.experts.%u.w1"},
    {MR_WEIGHT_EXPERT_UP, NULL, "model.layers.%u.block_sparse_moe.experts.%u.w3"},
    {MR_WEIGHT_EXPERT_DOWN, NULL, "model.layers.%u.block_sparse_moe.experts.%u.w2"},
    {0}};

static const struct mr_weight_name granite_moe_names[] = {
    {MR_WEIGHT_ROUTER, "blk.%u.ffn_gate_inp", "model.layers.%u.block_sparse_moe.router.layer"},
    {MR_WEIGHT_ALL_GATE_UP, "blk.%u.ffn_gate_up_exps",
     "model.layers.%u.block_sparse_moe.input_linear"},
    {MR_WEIGHT_ALL_DOWN, "blk.%u.ffn_down_exps", "model.layers.%u.block_sparse_moe.output_linear"},
    {0}};

static const struct mr_weight_name gpt_oss_names[] = {
    {MR_WEIGHT_ROUTER, "blk.%u.ffn_gate_inp", "model.layers.%u.mlp.router"},
    {MR_WEIGHT_FFN_NORM, "blk.%u.post_attention_norm", "model.layers.%u.post_attention_layernorm"},
    {0}};

static const struct mr_weight_name shared_names[] = {SHARED_EXPERTS, {0}};

/* GGUF names the norm before the feed-forward network after attention. */
static const struct mr_weight_name glm4_moe_names[] = {
    {MR_WEIGHT_FFN_NORM, "blk.%u.post_attention_norm", "model.layers.%u.post_attention_layernorm"},
    SHARED_EXPERTS,
    {0}};

static const struct mr_weight_name minimax_names[] = {
    {MR_WEIGHT_ROUTER, "blk.%u.ffn_gate_inp", "model.layers.%u.block_sparse_moe.gate"},
    {MR_WEIGHT_ROUTER_BIAS, "blk.%u.exp_probs_b.bias",
     "model.layers.%u.block_sparse_moe.e_score_correction_bias"},
    {MR_WEIGHT_EXPERT_GATE, NULL, "model.layers.%u.block_sparse_moe.experts.%u.w1"},
    {MR_WEIGHT_EXPERT_UP, NULL, "model.layers.%u.block_sparse_moe.experts.%u.w3"},
    {MR_WEIGHT_EXPERT_DOWN, NULL, "model.layers.%u.block_sparse_moe.experts.%u.w2"},
    {0}};

/* Of hunyuan_v1_dense too, which has no experts. */
static const struct mr_weight_name hunyuan_names[] = {
    {MR_WEIGHT_Q_NORM, "blk.%u.attn_q_norm", "model.layers.%u.self_attn.query_layernorm"},
    {MR_WEIGHT_K_NORM, "blk.%u.attn_k_norm", "model.layers.%u.self_attn.key_layernorm"},
    {MR_WEIGHT_ROUTER, "blk.%u.ffn_gate_inp", "model.layers.%u.mlp.gate.wg"},
    {MR_WEIGHT_SHARED_GATE, "blk.%u.ffn_gate_shexp", "model.layers.%u.mlp.shared_mlp.gate_proj"},
    {MR_WEIGHT_SHARED_UP, "blk.%u.ffn_up_shexp", "model.layers.%u.mlp.shared_mlp.up_proj"},
    {MR_WEIGHT_SHARED_DOWN, "blk.%u.ffn_down_shexp", "model.layers.%u.mlp.shared_mlp.down_proj"},
    {0}};

static const struct mr_weight_name ernie_names[] = {
    {MR_WEIGHT_ROUTER_BIAS, "blk.%u.exp_probs_b.bias",
     "model.layers.%u.mlp.moe_statics.e_score_correction_bias"},
    SHARED_EXPERTS,
    {0}};

static const struct mr_weight_name afmoe_names[] = {
    {MR_WEIGHT_FFN_NORM, "blk.%u.ffn_norm", "model.layers.%u.pre_mlp_layernorm"},
    {MR_WEIGHT_FFN_POST_NORM, "blk.%u.post_ffw_norm", "model.layers.%u.post_mlp_layernorm"},
    {MR_WEIGHT_ROUTER, "blk.%u.ffn_gate_inp", "model.layers.%u.mlp.router.gate"},
    {MR_WEIGHT_ROUTER_BIAS, "blk.%u.exp_probs_b.bias", "model.layers.%u.mlp.expert_bias"},
    SHARED_EXPERTS,
    {0}};

/* The families whose layers have experts. */
static const struct mr_model_family rows[] = {
    {.name = "mixtral",
     .names = mixtral_names,
     .norm_before = true,
     .experts = true,
     .defaults = {.norm_epsilon = 1e-5, .rope_theta = 1e6}},
    {.name = "qwen2_moe",
     .gguf = "qwen2moe",
     .norm_before = true,
     .experts = true,
     .routing = MR_ROUTING_KEY,
     .gguf_unnormalized = true,
     .window_opt_in = true},
    {.name = "qwen3_moe",
     .gguf = "qwen3moe",
     .norm_before = true,
     .head_norm = MR_HEAD_NORM_EACH,
     .experts = true,
     .routing = MR_ROUTING_KEY,
     .window_opt_in = true},
    {.name = "qwen3_vl_moe_text",
     .norm_before = true,
     .head_norm = MR_HEAD_NORM_EACH,
     .experts = true,
     .defaults = {.rope_theta = 5e5}},
    {.name = "granitemoe",
     .gguf = "granitemoe",
     .names = granite_moe_names,
     .norm_before = true,
     .experts = true,
     .multipliers = true,
     .gguf_rotary_pairs = true},
    {.name = "gpt_oss",
     .gguf = "gpt-oss",
     .names = gpt_oss_names,
     .norm_before = true,
     .activation = MR_ACTIVATION_SWIGLU_OAI,
     .sinks = true,
     .experts = true,
     .mixed_experts = true,
     .yarn_keeps_fractions = true,
     .defaults = {.head_dim = 64,
                  .window = 128,
                  .window_pattern = 2,
                  .norm_epsilon = 1e-5,
                  .rope_theta = 150000.0}},
    {.name = "glm4_moe",
     .gguf = "glm4moe", /* also Solar Open */
     .names = glm4_moe_names,
     .norm_before = true,
     .head_norm = MR_HEAD_NORM_EACH,
     .optional_head_norm = true,
     .experts = true,
     .routing = MR_ROUTING_SIGMOID,
     .plain_shared = true,
     .defaults = {.norm_epsilon = 1e-5, .rotary_share = 0.5, .dense_layers = 1}},
    {.name = "solar_open",
     .names = shared_names,
     .norm_before = true,
     .experts = true,
     .routing = MR_ROUTING_SIGMOID,
     .plain_shared = true,
     .defaults = {.head_dim = 128, .norm_epsilon = 1e-5, .rope_theta = 1e6}},
    {.name = "dots1",
     .gguf = "dots1",
     .names = shared_names,
     .norm_before = true,
     .head_norm = MR_HEAD_NORM_EACH,
     .experts = true,
     .routing = MR_ROUTING_SIGMOID,
     .plain_shared = true,
     .windows_above = true,
     .defaults = {.window = 4096, .unnormalized = true}},
    {.name = "minimax_m2",
     .gguf = "minimax-m2",
     .names = minimax_names,
     .norm_before = true,
     .head_norm = MR_HEAD_NORM_ROW,
     .experts = true,
     .routing = MR_ROUTING_SIGMOID,
     .defaults = {.rope_theta = 5e6}},
    {.name = "hunyuan_v1_dense",
     .gguf = "hunyuan-dense",
     .names = hunyuan_names,
     .norm_before = true,
     .head_norm = MR_HEAD_NORM_EACH,
     .norm_after_rope = true,
     .defaults = {.norm_epsilon = 1e-5}},
    {.name = "hunyuan_v1_moe",
     .gguf = "hunyuan-moe",
     .names = hunyuan_names,
     .norm_before = true,
     .head_norm = MR_HEAD_NORM_EACH,
     .norm_after_rope = true,
     .experts = true,
     .plain_shared = true,
     .defaults = {.norm_epsilon = 1e-5}},
    {.name = "ernie4_5_moe",
     .gguf = "ernie4_5-moe",
     .names = ernie_names,
     .norm_before = true,
     .experts = true,
     .routing = MR_ROUTING_BIASED,
     .plain_shared = true,
     .folder_rotary_pairs = true,
     .gguf_rotary_pairs = true,
     .defaults = {.norm_epsilon = 1e-5, .rope_theta = 5e5, .tied_head = true, .dense_layers = 1}},
    {.name = "phimoe",
     .names = mixtral_names,
     .centered_norms = true,
     .norm_before = true,
     .experts = true,
     .routing = MR_ROUTING_MIXER,
     .defaults = {.norm_epsilon = 1e-5, .rope_theta = 1e6, .jitter_noise = 0.01}},
    {.name = "afmoe",
     .names = afmoe_names,
     .norm_before = true,
     .norm_after = true,
     .head_norm = MR_HEAD_NORM_EACH,
     .window_rope = MR_WINDOW_ROPE_ONLY,
     .gated_attention = true,
     .embedding_root_opt_in = true,
     .experts = true,
     .routing = MR_ROUTING_SIGMOID,
     .plain_shared = true,
     .defaults = {.head_dim = 128,
                  .window = 1024,
                  .window_pattern = 4,
                  .norm_epsilon = 1e-5,
                  .dense_layers = 1}},
    {.name = "olmoe",
     .gguf = "olmoe",
     .norm_before = true,
     .clips = true,
     .gguf_unnormalized = true,
     .head_norm = MR_HEAD_NORM_ROW,
     .experts = true,
     .routing = MR_ROUTING_KEY,
     .defaults = {.norm_epsilon = 1e-5}},
};

const struct mr_family_table mr_expert_families = {rows, sizeof(rows) / sizeof(rows[0])};
