#include "ops/families/family.h"

#define GEMMA_FIELDS                                                                               \
    .norm_before = true, .activation = MR_ACTIVATION_GELU_TANH, .embedding_root = true,            \
    .norm_offset = true

#define GLM_FIELDS                                                                                 \
    .norm_before = true, .fused = true, .folder_rotary_pairs = true,                               \
    .defaults = {                                                                                  \
        .kv_head_count = 2, .head_dim = 128, .norm_epsilon = 1.5625e-7, .rotary_share = 0.5}
/* ---- exceptions from the usual tensor names ---- */

static const struct mr_weight_name both_norms[] = {
    {MR_WEIGHT_FFN_NORM, "blk.%u.ffn_norm", "model.layers.%u.pre_feedforward_layernorm"}, {0}};

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

/* The norms of q and k: one tensor for each head in Hugging Face files. */
static const struct mr_weight_name stablelm_names[] = {
    {MR_WEIGHT_Q_NORM, "blk.%u.attn_q_norm", "model.layers.%u.self_attn.q_layernorm.norms.%u"},
    {MR_WEIGHT_K_NORM, "blk.%u.attn_k_norm", "model.layers.%u.self_attn.k_layernorm.norms.%u"},
    {0}};

static const struct mr_weight_name gpt_oss_names[] = {
    {MR_WEIGHT_ROUTER, "blk.%u.ffn_gate_inp", "model.layers.%u.mlp.router"},
    {MR_WEIGHT_FFN_NORM, "blk.%u.post_attention_norm", "model.layers.%u.post_attention_layernorm"},
    {0}};

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

/* ---- recurrent layers ---- */

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

/* BERT, RoBERTa and XLM-RoBERTa. */
static const struct mr_weight_name bert_names[] = {
    {MR_WEIGHT_EMBEDDING, "token_embd", "embeddings.word_embeddings"},
    {MR_WEIGHT_Q, "blk.%u.attn_q", "encoder.layer.%u.attention.self.query"},
    {MR_WEIGHT_K, "blk.%u.attn_k", "encoder.layer.%u.attention.self.key"},
    {MR_WEIGHT_V, "blk.%u.attn_v", "encoder.layer.%u.attention.self.value"},
    {MR_WEIGHT_ATTENTION_OUT, "blk.%u.attn_output", "encoder.layer.%u.attention.output.dense"},
    {MR_WEIGHT_ATTENTION_POST_NORM, "blk.%u.attn_output_norm",
     "encoder.layer.%u.attention.output.LayerNorm"},
    {MR_WEIGHT_UP, "blk.%u.ffn_up", "encoder.layer.%u.intermediate.dense"},
    {MR_WEIGHT_DOWN, "blk.%u.ffn_down", "encoder.layer.%u.output.dense"},
    {MR_WEIGHT_FFN_POST_NORM, "blk.%u.layer_output_norm", "encoder.layer.%u.output.LayerNorm"},
    {0}};

static const struct mr_weight_name distilbert_names[] = {
    {MR_WEIGHT_EMBEDDING, NULL, "embeddings.word_embeddings"},
    {MR_WEIGHT_Q, NULL, "transformer.layer.%u.attention.q_lin"},
    {MR_WEIGHT_K, NULL, "transformer.layer.%u.attention.k_lin"},
    {MR_WEIGHT_V, NULL, "transformer.layer.%u.attention.v_lin"},
    {MR_WEIGHT_ATTENTION_OUT, NULL, "transformer.layer.%u.attention.out_lin"},
    {MR_WEIGHT_ATTENTION_POST_NORM, NULL, "transformer.layer.%u.sa_layer_norm"},
    {MR_WEIGHT_UP, NULL, "transformer.layer.%u.ffn.lin1"},
    {MR_WEIGHT_DOWN, NULL, "transformer.layer.%u.ffn.lin2"},
    {MR_WEIGHT_FFN_POST_NORM, NULL, "transformer.layer.%u.output_layer_norm"},
    {0}};

static const struct mr_weight_name glm4_names[] = {
    {MR_WEIGHT_ATTENTION_POST_NORM, "blk.%u.post_attention_norm",
     "model.layers.%u.post_self_attn_layernorm"},
    {MR_WEIGHT_FFN_POST_NORM, "blk.%u.post_ffw_norm", "model.layers.%u.post_mlp_layernorm"},
    {0}};

/* ---- the families ---- */

/* An encoder with the layers of BERT. */
#define BERT_FIELDS                                                                                \
    .encoder = true, .centered_norms = true, .norm_sum = true, .norm_embedding = true,             \
    .no_final_norm = true, .plain_ffn = true, .activation = MR_ACTIVATION_GELU, .positions = true

static const struct mr_model_family families[] = {
    {.name = "llama",
     .gguf = "llama", /* also Mistral and Mixtral */
     .norm_before = true,
     .experts = true,
     .gguf_rotary_pairs = true},
    {.name = "mistral", .norm_before = true, .defaults = {.window = 4096}},
    /* llama.cpp's name for the text part of Mistral Small 3.1 and later. Folders name that part
     * "mistral". */
    {.name = "mistral3", .gguf = "mistral3", .norm_before = true, .gguf_rotary_pairs = true},
    {.name = "mixtral",
     .names = mixtral_names,
     .norm_before = true,
     .experts = true,
     .defaults = {.norm_epsilon = 1e-5, .rope_theta = 1e6}},
    {.name = "qwen2",
     .gguf = "qwen2",
     .norm_before = true,
     .window_opt_in = true,
     .windows_above = true},
    {.name = "qwen2_moe",
     .gguf = "qwen2moe",
     .norm_before = true,
     .experts = true,
     .routing = MR_ROUTING_KEY,
     .gguf_unnormalized = true,
     .window_opt_in = true},
    {.name = "qwen3",
     .gguf = "qwen3",
     .norm_before = true,
     .head_norm = MR_HEAD_NORM_EACH,
     .window_opt_in = true,
     .windows_above = true},
    {.name = "qwen3_moe",
     .gguf = "qwen3moe",
     .norm_before = true,
     .head_norm = MR_HEAD_NORM_EACH,
     .experts = true,
     .routing = MR_ROUTING_KEY,
     .window_opt_in = true},
    {.name = "gemma",
     .gguf = "gemma",
     GEMMA_FIELDS,
     .defaults = {.head_dim = 256, .tied_head = true}},
    {.name = "gemma2",
     .gguf = "gemma2",
     .names = both_norms,
     GEMMA_FIELDS,
     .norm_after = true,
     .gguf_wide_layers = 46,
     .defaults = {.head_dim = 256,
                  .window = 4096,
                  .window_pattern = 2,
                  .query_scalar = 256.0,
                  .attention_softcap = 50.0,
                  .logit_softcap = 30.0,
                  .tied_head = true}},
    {.name = "gemma3_text",
     .gguf = "gemma3",
     .names = both_norms,
     GEMMA_FIELDS,
     .norm_after = true,
     .head_norm = MR_HEAD_NORM_EACH,
     .window_rope = MR_WINDOW_ROPE_OWN_BASE,
     .gguf_wide_layers = 62,
     .defaults = {.head_count = 8,
                  .kv_head_count = 4,
                  .head_dim = 256,
                  .vocab_size = 262208,
                  .context_tokens = 131072,
                  .window = 4096,
                  .window_pattern = 6,
                  .rope_theta = 1e6,
                  .window_rope_theta = 1e4,
                  .query_scalar = 256.0,
                  .tied_head = true}},
    {.name = "phi3",
     .gguf = "phi3",
     .norm_before = true,
     .fused = true,
     .defaults = {.norm_epsilon = 1e-5}},
    {.name = "smollm3",
     .gguf = "smollm3",
     .norm_before = true,
     .rope_interval = 4,
     .gguf_rotary_pairs = true,
     .window_opt_in = true,
     .defaults = {.rope_theta = 2e6, .tied_head = true}},
    {.name = "olmo2",
     .gguf = "olmo2", /* also OLMo 3 */
     .norm_after = true,
     .head_norm = MR_HEAD_NORM_ROW,
     .window_rope = MR_WINDOW_ROPE_UNSCALED,
     .defaults = {.norm_epsilon = 1e-5}},
    {.name = "olmo3",
     .norm_after = true,
     .head_norm = MR_HEAD_NORM_ROW,
     .window_rope = MR_WINDOW_ROPE_UNSCALED,
     .defaults = {.norm_epsilon = 1e-5, .window = 4096, .window_pattern = 4, .rope_theta = 5e5}},
    {.name = "granite",
     .gguf = "granite",
     .norm_before = true,
     .multipliers = true,
     .gguf_rotary_pairs = true},
    {.name = "granitemoe",
     .gguf = "granitemoe",
     .names = granite_moe_names,
     .norm_before = true,
     .experts = true,
     .multipliers = true,
     .gguf_rotary_pairs = true},
    {.name = "stablelm",
     .gguf = "stablelm",
     .names = stablelm_names,
     .centered_norms = true,
     .norm_before = true,
     .may_be_parallel = true,
     .head_norm = MR_HEAD_NORM_CENTERED,
     .optional_head_norm = true,
     .defaults = {.norm_epsilon = 1e-5, .rotary_share = 0.25}},
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
    {.name = "bert",
     .names = bert_names,
     .prefix = "bert.",
     BERT_FIELDS,
     .token_types = true,
     .defaults = {.vocab_size = 30522, .context_tokens = 512, .norm_epsilon = 1e-12}},
    {.name = "roberta",
     .names = bert_names,
     .prefix = "roberta.",
     BERT_FIELDS,
     .token_types = true,
     .positions_after_padding = true,
     .defaults = {.vocab_size = 50265, .context_tokens = 512, .norm_epsilon = 1e-12}},
    {.name = "xlm-roberta",
     .names = bert_names,
     .prefix = "roberta.",
     BERT_FIELDS,
     .token_types = true,
     .positions_after_padding = true,
     .defaults = {.vocab_size = 30522, .context_tokens = 512, .norm_epsilon = 1e-12}},
    {.name = "distilbert",
     .names = distilbert_names,
     .prefix = "distilbert.",
     BERT_FIELDS,
     .defaults =
         {.head_count = 12, .vocab_size = 30522, .context_tokens = 512, .norm_epsilon = 1e-12}},
    {.name = "glm", GLM_FIELDS},
    {.name = "glm4", .names = glm4_names, GLM_FIELDS, .norm_after = true},
    {.name = "ernie4_5",
     .norm_before = true,
     .folder_rotary_pairs = true,
     .defaults = {.head_dim = 128, .norm_epsilon = 1e-5, .rope_theta = 5e5, .tied_head = true}},
    {.name = "seed_oss", .norm_before = true, .defaults = {.head_dim = 128}},
    {.name = "exaone4",
     .norm_after = true,
     .head_norm = MR_HEAD_NORM_EACH,
     .window_rope = MR_WINDOW_ROPE_ONLY,
     .defaults = {.norm_epsilon = 1e-5, .window = 4096, .window_pattern = 4}},
    {.name = "ministral", .norm_before = true, .defaults = {.window = 4096}},
    {.name = "cohere",
     .centered_norms = true,
     .norms_without_bias = true,
     .norm_before = true,
     .parallel = true,
     .folder_rotary_pairs = true,
     .defaults =
         {.norm_epsilon = 1e-5, .rope_theta = 5e5, .logit_scale = 0.0625, .tied_head = true}},
    {.name = "cohere2",
     .centered_norms = true,
     .norms_without_bias = true,
     .norm_before = true,
     .parallel = true,
     .window_rope = MR_WINDOW_ROPE_ONLY,
     .folder_rotary_pairs = true,
     .defaults = {.head_dim = 128,
                  .window = 4096,
                  .window_pattern = 4,
                  .norm_epsilon = 1e-5,
                  .logit_scale = 0.0625,
                  .tied_head = true}},
    {.name = "vaultgemma",
     .names = both_norms,
     GEMMA_FIELDS,
     .defaults = {.head_dim = 256,
                  .window = 4096,
                  .window_pattern = 2,
                  .query_scalar = 256.0,
                  .attention_softcap = 50.0,
                  .logit_softcap = 30.0,
                  .tied_head = true}},
    {.name = "olmoe",
     .norm_before = true,
     .head_norm = MR_HEAD_NORM_ROW,
     .experts = true,
     .routing = MR_ROUTING_KEY,
     .defaults = {.norm_epsilon = 1e-5}},
};

/* ---- families that are refused by name ---- */

#define LATENT                                                                                     \
    "multi-head latent attention is not supported; its distillations on Llama and Qwen are"
#define STATE                                                                                      \
    "state-space (recurrent) layers of this kind are not supported; LFM2, Granite 4 and "          \
    "Qwen3-Next are"
#define FOLDER "GGUF files with recurrent layers are not supported; the Hugging Face folder is"
#define ENCODER                                                                                    \
    "this kind of encoder is not supported; folders of BERT, RoBERTa, XLM-RoBERTa and DistilBERT " \
    "are"
#define PICTURES                                                                                   \
    "its text layers attend to pictures, which are not supported; Gemma 3 (its text part) is"
#define ALIBI_MLP "its feed-forward network without a gate is not supported; Llama 3 and Phi 3 are"
#define TEMPERED  "its attention temperature is not supported; Mistral Small 3 is"

static const struct {
    const char *name, *reason; /* reason: the missing feature, and the nearest supported family */
} refused[] = {
    {"deepseek2", LATENT},
    {"deepseek_v2", LATENT},
    {"deepseek_v3", LATENT},
    {"deepseek_v32", LATENT},
    {"deepseek_r1", LATENT},
    {"kimi_k2", LATENT},
    {"minicpm3", LATENT},
    {"mamba", STATE},
    {"mamba2", STATE},
    {"falcon_mamba", STATE},
    {"falcon_h1", STATE},
    {"falcon-h1", STATE},
    {"jamba", STATE},
    {"zamba2", STATE},
    {"nemotron_h", STATE},
    {"qwen35", FOLDER},
    {"qwen35moe", FOLDER},
    {"kimi_linear", STATE},
    {"olmo_hybrid", STATE},
    {"rwkv", STATE},
    {"rwkv6", STATE},
    {"rwkv7", STATE},
    {"recurrent_gemma", STATE},
    {"lfm2", FOLDER},
    {"granitehybrid", FOLDER},
    {"qwen3next", FOLDER},
    {"t5", ENCODER},
    {"t5encoder", ENCODER},
    {"bart", ENCODER},
    {"whisper", ENCODER},
    {"bert", ENCODER}, /* in GGUF files */
    {"nomic-bert", ENCODER},
    {"modernbert", ENCODER},
    {"gemma-embedding", ENCODER},
    {"mllama", PICTURES},
    {"qwen2_vl", PICTURES},
    {"qwen2vl", PICTURES},
    {"qwen2_5_vl", PICTURES},
    {"qwen3_vl", PICTURES},
    {"qwen3vl", PICTURES},
    {"clip",
     "it encodes pictures and has no text layers; use the language model of its repository"},
    {"siglip_vision_model",
     "it encodes pictures and has no text layers; use the language model of its repository"},
    {"llama4", "its chunked attention and temperature tuning are not supported; Llama 3 is"},
    {"llama4_text", "its chunked attention and temperature tuning are not supported; Llama 3 is"},
    {"gemma3n", "its per-layer embeddings are not supported; Gemma 3 is"},
    {"gemma3n_text", "its per-layer embeddings are not supported; Gemma 3 is"},
    {"gemma4",
     "its per-layer embeddings and shared key/value layers are not supported; Gemma 3 is"},
    {"gemma4_text",
     "its per-layer embeddings and shared key/value layers are not supported; Gemma 3 is"},
    {"ministral3", TEMPERED},
    {"gpt2", ALIBI_MLP},
    {"gpt_neox", ALIBI_MLP},
    {"gptneox", ALIBI_MLP},
    {"phi", ALIBI_MLP},
    {"phi2", ALIBI_MLP},
    {"falcon", ALIBI_MLP},
    {"starcoder2", ALIBI_MLP},
    {"mpt", ALIBI_MLP},
    {"bloom", ALIBI_MLP},
    {"nemotron", ALIBI_MLP},
    {"phimoe", "its sparse-mixer routing is not supported; Phi 3 is"},
    {"command-r",
     "its layer norm without bias and parallel residual are not supported; Mistral Small is"},
};

/* ---- lookup ---- */

const struct mr_model_family *mr_model_family_at(size_t index)
{
    return index < sizeof(families) / sizeof(families[0]) ? &families[index] : NULL;
}

enum mr_status mr_model_family_find(const struct mr_model_family **out, struct mr_text name,
                                    bool gguf, struct mr_error *err)
{
    int shown = (int)(name.length < 64 ? name.length : 64);
    *out = NULL;
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        const char *own = gguf ? families[i].gguf : families[i].name;
        if (own && mr_text_is(name, own)) {
            *out = &families[i];
            return MR_OK;
        }
    }
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        if (mr_text_is(name, refused[i].name))
            return mr_fail(err, MR_BAD_FILE, "model architecture \"%.*s\" is refused: %s", shown,
                           name.bytes, refused[i].reason);
    return mr_fail(
        err, MR_BAD_FILE,
        "model architecture \"%.*s\" is not supported; Llama, Mistral, Mixtral, Qwen 2 "
        "and 3, Gemma 1 to 3, Phi 3, SmolLM 3, OLMo 2 and 3, Granite 3 and 4, StableLM 2, "
        "LFM2, Bamba, Qwen3-Next, Qwen 3.5 and gpt-oss are",
        shown, name.bytes);
}
