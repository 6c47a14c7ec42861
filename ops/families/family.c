#include "ops/families/family.h"

#define GEMMA_FIELDS                                                                               \
    .norm_before = true, .activation = MR_ACTIVATION_GELU_TANH, .embedding_root = true,            \
    .norm_offset = true

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

/* ---- the families ---- */

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
};

/* ---- families that are refused by name ---- */

#define LATENT                                                                                     \
    "multi-head latent attention is not supported; its distillations on Llama and Qwen are"
#define STATE   "state-space (recurrent) layers are not supported; Qwen 3 and Granite 3 are"
#define ENCODER "encoders and encoder-decoder models are not supported; decoders such as Qwen 3 are"
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
    {"bamba", STATE},
    {"zamba2", STATE},
    {"nemotron_h", STATE},
    {"granitemoehybrid", STATE},
    {"granitehybrid", STATE},
    {"lfm2", STATE},
    {"qwen3_next", STATE},
    {"qwen3next", STATE},
    {"qwen3_5", STATE},
    {"qwen3_5_moe", STATE},
    {"qwen35", STATE},
    {"qwen35moe", STATE},
    {"kimi_linear", STATE},
    {"olmo_hybrid", STATE},
    {"rwkv", STATE},
    {"rwkv6", STATE},
    {"rwkv7", STATE},
    {"recurrent_gemma", STATE},
    {"t5", ENCODER},
    {"t5encoder", ENCODER},
    {"bart", ENCODER},
    {"whisper", ENCODER},
    {"bert", ENCODER},
    {"nomic-bert", ENCODER},
    {"roberta", ENCODER},
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
    {"cohere",
     "its layer norm without bias and parallel residual are not supported; Mistral Small is"},
    {"cohere2",
     "its layer norm without bias and parallel residual are not supported; Mistral Small is"},
    {"command-r",
     "its layer norm without bias and parallel residual are not supported; Mistral Small is"},
    {"glm4_moe", "its routing with a correction bias is not supported; Qwen 3 MoE is"},
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
    return mr_fail(err, MR_BAD_FILE,
                   "model architecture \"%.*s\" is not supported; Llama, Mistral, Mixtral, Qwen 2 "
                   "and 3, Gemma 1 to 3, Phi 3, SmolLM 3, OLMo 2 and 3, Granite 3, StableLM 2 and "
                   "gpt-oss are",
                   shown, name.bytes);
}
