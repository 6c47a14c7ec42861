#include "ops/families/config_json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MANY_HEADS                                                                                 \
    "\"num_hidden_layers\":4,\"hidden_size\":64,\"head_dim\":16,\"intermediate_size\":128,"        \
    "\"vocab_size\":300,\"max_position_embeddings\":2048"
#define SIZES                                                                                      \
    "\"num_hidden_layers\":4,\"hidden_size\":64,\"num_attention_heads\":4,"                        \
    "\"intermediate_size\":128,\"vocab_size\":300,\"max_position_embeddings\":2048"

static enum mr_status from_json(const char *text, struct mr_model_config *out, struct mr_error *err)
{
    const struct mr_json_limits limits = {4096, 256, 8};
    struct mr_json *document;
    assert_int_equal(mr_json_parse(&document, (struct mr_text){text, strlen(text)}, &limits, NULL),
                     MR_OK);
    enum mr_status status = mr_model_config_from_json(out, mr_json_root(document), err);
    mr_json_destroy(document);
    return status;
}

static struct mr_model_config read_valid(const char *text)
{
    struct mr_model_config config;
    struct mr_error err = {0};
    if (from_json(text, &config, &err) != MR_OK) fail_msg("%s", err.detail);
    return config;
}

static void rejected(const char *text, const char *because)
{
    struct mr_model_config config;
    struct mr_error err = {0};
    assert_int_equal(from_json(text, &config, &err), MR_BAD_FILE);
    if (!strstr(err.detail, because)) fail_msg("\"%s\" without \"%s\"", err.detail, because);
}

static void keys_missing_from_config_json_have_default_values(void **state)
{
    (void)state;
    struct mr_model_config c = read_valid("{\"model_type\":\"llama\"," SIZES "}");
    assert_string_equal(c.family->name, "llama");
    assert_int_equal(c.kv_head_count, 4);
    assert_int_equal(c.head_dim, 16);
    assert_int_equal(c.ropes[0].rotary_dim, 16);
    assert_int_equal(c.ropes[0].kind, MR_ROPE_PLAIN);
    assert_true(c.ropes[0].theta == 10000.0);
    assert_true(c.norm_epsilon == 1e-6f);
    assert_false(c.tied_head);
    assert_int_equal(c.window, 0);
    assert_false(c.windowed[0]);
    assert_int_equal(c.eos_count, 0);
}

static void keys_of_config_json_are_used(void **state)
{
    (void)state;
    struct mr_model_config c =
        read_valid("{\"model_type\":\"qwen3\"," SIZES ",\"num_key_value_heads\":2,\"head_dim\":32,"
                   "\"rms_norm_eps\":1e-5,\"tie_word_embeddings\":true,\"eos_token_id\":[2,7,2],"
                   "\"rope_theta\":1000000}");
    assert_true(c.family->head_norm);
    assert_int_equal(c.kv_head_count, 2);
    assert_int_equal(c.head_dim, 32);
    assert_true(c.norm_epsilon == 1e-5f);
    assert_true(c.tied_head);
    assert_int_equal(c.eos_count, 2);
    assert_int_equal(c.eos_ids[1], 7);
    assert_true(c.ropes[0].theta == 1000000.0);
}

static void rope_scaling_is_read_under_either_key(void **state)
{
    (void)state;
    struct mr_model_config c = read_valid(
        "{\"model_type\":\"llama\"," SIZES ",\"rope_theta\":500000.0,\"rope_scaling\":{"
        "\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1,\"high_freq_factor\":4,"
        "\"original_max_position_embeddings\":1024}}");
    assert_int_equal(c.ropes[0].kind, MR_ROPE_LLAMA3);
    assert_true(c.ropes[0].theta == 500000.0 && c.ropes[0].factor == 8.0);
    assert_true(c.ropes[0].original_context == 1024.0);
    c = read_valid("{\"model_type\":\"llama\"," SIZES ",\"rope_parameters\":{\"rope_theta\":7.0,"
                   "\"rope_type\":\"linear\",\"factor\":2.0},\"rope_scaling\":null}");
    assert_int_equal(c.ropes[0].kind, MR_ROPE_LINEAR);
    assert_true(c.ropes[0].theta == 7.0 && c.ropes[0].factor == 2.0);
}

/* The limit of the attention kernel: ops/cpu_kernels/attention.c. */
static void sixty_four_heads_may_share_one(void **state)
{
    (void)state;
    struct mr_model_config c =
        read_valid("{\"model_type\":\"llama\"," MANY_HEADS ",\"num_attention_heads\":128,"
                   "\"num_key_value_heads\":2}");
    assert_int_equal(c.head_count / c.kv_head_count, MR_GROUP_MAX);
}

static void windows_apply_to_the_layers_named(void **state)
{
    (void)state;
    struct mr_model_config c =
        read_valid("{\"model_type\":\"mistral\"," SIZES ",\"sliding_window\":9}");
    assert_int_equal(c.window, 9);
    assert_true(c.windowed[0] && c.windowed[3]);
    assert_int_equal(read_valid("{\"model_type\":\"mistral\"," SIZES "}").window, 4096);
    c = read_valid("{\"model_type\":\"mistral\"," SIZES ",\"sliding_window\":null}");
    assert_int_equal(c.window, 0);
    c = read_valid("{\"model_type\":\"qwen2\"," SIZES ",\"sliding_window\":9}");
    assert_int_equal(c.window, 0);
    assert_false(c.windowed[3]);
    c = read_valid("{\"model_type\":\"qwen2\"," SIZES
                   ",\"sliding_window\":9,\"use_sliding_window\":"
                   "true,\"max_window_layers\":2}");
    assert_true(!c.windowed[1] && c.windowed[2]);
    c = read_valid(
        "{\"model_type\":\"mistral\"," SIZES ",\"sliding_window\":9,\"layer_types\":["
        "\"full_attention\",\"sliding_attention\",\"full_attention\",\"full_attention\"]}");
    assert_true(!c.windowed[0] && c.windowed[1] && !c.windowed[2]);
    c = read_valid("{\"model_type\":\"mistral\"," SIZES
                   ",\"sliding_window\":9,\"sliding_window_pattern\":"
                   "2}");
    assert_true(c.windowed[0] && !c.windowed[1] && c.windowed[2] && !c.windowed[3]);
}

static void unsupported_or_invalid_keys_are_rejected(void **state)
{
    (void)state;
    rejected("{}", "model_type");
    rejected("{\"model_type\":\"mamba\"}", "\"mamba\" is refused: state-space");
    rejected("{\"model_type\":\"llama\",\"hidden_size\":64}", "num_hidden_layers");
    rejected("{\"model_type\":\"llama\"," SIZES ",\"head_dim\":-1}", "head_dim");
    rejected("{\"model_type\":\"llama\"," SIZES ",\"hidden_act\":\"relu2\"}", "relu2");
    rejected("{\"model_type\":\"llama\"," SIZES ",\"num_key_value_heads\":3}", "evenly");
    rejected("{\"model_type\":\"llama\"," SIZES ",\"num_key_value_heads\":0}", "key/value");
    rejected("{\"model_type\":\"llama\"," MANY_HEADS ",\"num_attention_heads\":130,"
             "\"num_key_value_heads\":2}",
             "at most 64 each");
    rejected("{\"model_type\":\"llama\"," SIZES ",\"rms_norm_eps\":0}", "epsilon");
    rejected("{\"model_type\":\"llama\"," SIZES ",\"head_dim\":512}", "head size");
    rejected("{\"model_type\":\"llama\"," SIZES ",\"eos_token_id\":300}", "end token 300");
    rejected("{\"model_type\":\"llama\"," SIZES ",\"rope_scaling\":{\"type\":\"3d\"}}", "\"3d\"");
    rejected("{\"model_type\":\"llama\"," SIZES ",\"rope_scaling\":{\"type\":\"linear\"}}",
             "factor");
    rejected("{\"model_type\":\"llama\"," SIZES ",\"rope_scaling\":{\"type\":\"llama3\","
             "\"factor\":8}}",
             "original context");
    rejected("{\"model_type\":\"llama\"," SIZES ",\"layer_types\":[\"full_attention\"]}",
             "each of the 4 layers");
    rejected("{\"model_type\":\"qwen3\"," SIZES ",\"layer_types\":[\"a\",\"a\",\"a\",\"a\"]}",
             "layer type");
}

static void end_tokens_are_stored_once_and_up_to_the_limit(void **state)
{
    (void)state;
    struct mr_model_config c = {0};
    for (uint32_t i = 0; i < 2 * MR_EOS_IDS_MAX; i++)
        mr_model_config_add_eos(&c, i / 2);
    assert_int_equal(c.eos_count, MR_EOS_IDS_MAX);
    mr_model_config_add_eos(&c, 99);
    assert_int_equal(c.eos_count, MR_EOS_IDS_MAX);
    assert_int_equal(c.eos_ids[MR_EOS_IDS_MAX - 1], MR_EOS_IDS_MAX - 1);
}

static void families_have_their_own_defaults(void **state)
{
    (void)state;
    struct mr_model_config c = read_valid("{\"model_type\":\"gemma2\"," SIZES "}");
    assert_int_equal(c.head_dim, 256);
    assert_true(c.tied_head && c.activation == MR_ACTIVATION_GELU_TANH);
    assert_true(c.embedding_scale == 8.0f && c.attention_scale == 1.0f / 16);
    assert_true(c.attention_softcap == 50.0f && c.logit_softcap == 30.0f);
    assert_true(c.window == 4096 && c.windowed[0] && !c.windowed[1]);
    c = read_valid("{\"model_type\":\"gemma2\"," SIZES ",\"attn_logit_softcapping\":null,"
                   "\"query_pre_attn_scalar\":64,\"hidden_activation\":\"gelu\"}");
    assert_true(c.attention_softcap == 0.0f && c.attention_scale == 1.0f / 8);
    c = read_valid("{\"model_type\":\"granite\"," SIZES ",\"embedding_multiplier\":12,"
                   "\"attention_multiplier\":0.5,\"residual_multiplier\":0.25,"
                   "\"logits_scaling\":8}");
    assert_true(c.embedding_scale == 12.0f && c.attention_scale == 0.5f);
    assert_true(c.residual_scale == 0.25f && c.logit_scale == 0.125f);
    c = read_valid("{\"model_type\":\"llama\"," SIZES ",\"hidden_act\":\"gelu\"}");
    assert_true(c.activation == MR_ACTIVATION_GELU);
    c = read_valid("{\"model_type\":\"stablelm\"," SIZES ",\"qk_layernorm\":true,"
                   "\"use_parallel_residual\":true,\"layer_norm_eps\":0.5}");
    assert_true(c.parallel && c.head_norm == MR_HEAD_NORM_CENTERED);
    assert_true(c.norm_epsilon == 0.5f && c.ropes[0].rotary_dim == 4);
}

static void families_without_a_gate_have_their_own_keys(void **state)
{
    (void)state;
    const char *const gpt = "\"n_layer\":3,\"n_embd\":96,\"n_head\":4,\"n_positions\":512,"
                            "\"vocab_size\":300,\"layer_norm_epsilon\":0.5";
    char text[512];
    snprintf(text, sizeof text,
             "{\"model_type\":\"gpt2\",%s,\"n_inner\":null,\"activation_function\":\"relu2\","
             "\"scale_attn_weights\":false,\"scale_attn_by_inverse_layer_idx\":true}",
             gpt);
    struct mr_model_config c = read_valid(text);
    assert_true(c.layer_count == 3 && c.hidden_size == 96 && c.head_count == 4);
    assert_true(c.ffn_size == 384 && c.context_tokens == 512 && c.position_rows == 512);
    assert_true(c.norm_epsilon == 0.5f && c.activation == MR_ACTIVATION_RELU2);
    assert_true(c.attention_scale == 1.0f && c.scale_falls && c.rope_of[0] == MR_NO_ROPE);
    snprintf(text, sizeof text, "{\"model_type\":\"gptj\",%s,\"n_inner\":40,\"rotary_dim\":12}",
             gpt);
    c = read_valid(text);
    assert_true(c.ffn_size == 40 && c.ropes[0].rotary_dim == 12 && c.parallel && !c.own_ffn_norm);
    assert_int_equal(mr_model_config_pair_dim(&c, false), 12);
    snprintf(text, sizeof text, "{\"model_type\":\"gptj\",%s,\"rotary_dim\":25}", gpt);
    rejected(text, "rotary size");
    c = read_valid("{\"model_type\":\"gpt_neox\"," SIZES
                   ",\"rotary_pct\":0.5,\"rotary_emb_base\":500}");
    assert_true(c.parallel && c.own_ffn_norm && c.ropes[0].rotary_dim == 8);
    assert_true(c.ropes[0].theta == 500.0);
    c = read_valid("{\"model_type\":\"gpt_neox\"," SIZES ",\"use_parallel_residual\":false}");
    assert_true(!c.parallel && !c.own_ffn_norm);
    rejected("{\"model_type\":\"gpt_neox\"," SIZES ",\"hidden_act\":\"quick_gelu\"}", "quick_gelu");
    rejected("{\"model_type\":\"phi\"," SIZES ",\"qk_layernorm\":true}", "qk_layernorm");
    c = read_valid("{\"model_type\":\"apertus\"," SIZES
                   ",\"rope_theta\":500,\"rope_scaling\":null}");
    assert_true(c.ropes[0].kind == MR_ROPE_LLAMA3 && c.ropes[0].theta == 1.2e7);
    assert_true(c.ropes[0].factor == 8.0 && c.ropes[0].original_context == 8192.0);
}

static void the_layers_of_falcon_have_two_forms(void **state)
{
    (void)state;
    struct mr_model_config c =
        read_valid("{\"model_type\":\"falcon\"," SIZES ",\"num_kv_heads\":2}");
    assert_true(c.kv_head_count == 1 && c.parallel && !c.own_ffn_norm);
    c = read_valid("{\"model_type\":\"falcon\"," SIZES
                   ",\"multi_query\":false,\"parallel_attn\":false}");
    assert_true(c.kv_head_count == 4 && !c.parallel);
    c = read_valid(
        "{\"model_type\":\"falcon\"," SIZES
        ",\"num_kv_heads\":2,\"new_decoder_architecture\":true,\"parallel_attn\":false}");
    assert_true(c.kv_head_count == 2 && c.parallel && c.own_ffn_norm);
    c = read_valid("{\"model_type\":\"falcon\"," SIZES
                   ",\"new_decoder_architecture\":true,\"num_ln_in_parallel_attn\":1}");
    assert_true(c.parallel && !c.own_ffn_norm);
    rejected("{\"model_type\":\"falcon\"," SIZES ",\"alibi\":true}", "alibi");
}

#define EXPERTS ",\"num_experts\":6,\"num_experts_per_tok\":2,\"moe_intermediate_size\":32"
static void experts_are_read_with_their_layers(void **state)
{
    (void)state;
    struct mr_model_config c = read_valid("{\"model_type\":\"mixtral\"," SIZES
                                          ",\"num_local_experts\":8,\"num_experts_per_tok\":2}");
    assert_true(c.experts.count == 8 && c.experts.top_k == 2 && c.experts.normalized);
    assert_true(c.experts.ffn_size == 128 && c.routed[0] && c.routed[3]);
    c = read_valid("{\"model_type\":\"qwen2_moe\"," SIZES EXPERTS
                   ",\"shared_expert_intermediate_size\":48,\"mlp_only_layers\":[1]}");
    assert_true(c.experts.shared_ffn_size == 48 && !c.experts.normalized);
    assert_true(c.routed[0] && !c.routed[1] && c.routed[2]);
    c = read_valid("{\"model_type\":\"qwen3_moe\"," SIZES EXPERTS
                   ",\"norm_topk_prob\":true,\"decoder_sparse_step\":2}");
    assert_true(c.experts.normalized && !c.routed[0] && c.routed[1]);
}

#define ROUTED ",\"num_local_experts\":4,\"num_experts_per_tok\":2"
static void a_sparse_mixer_has_a_margin(void **state)
{
    (void)state;
    struct mr_model_config c = read_valid("{\"model_type\":\"phimoe\"," SIZES ROUTED "}");
    assert_true(c.experts.mixer_margin == 0.02f);
    c = read_valid("{\"model_type\":\"phimoe\"," SIZES ROUTED ",\"router_jitter_noise\":0.0}");
    assert_true(c.experts.mixer_margin > 0.0f && c.experts.mixer_margin < 1e-30f);
    c = read_valid("{\"model_type\":\"mixtral\"," SIZES ROUTED ",\"router_jitter_noise\":0.5}");
    assert_true(c.experts.mixer_margin == 0.0f);
}

static void embeddings_are_multiplied_if_the_file_says_so(void **state)
{
    (void)state;
    struct mr_model_config c = read_valid("{\"model_type\":\"afmoe\"," SIZES "}");
    assert_true(c.embedding_scale == 1.0f && c.windowed[2] && !c.windowed[3]);
    c = read_valid("{\"model_type\":\"afmoe\"," SIZES
                   ",\"mup_enabled\":true,\"global_attn_every_n_layers\":2}");
    assert_true(c.embedding_scale == 8.0f && !c.windowed[1] && c.windowed[2]);
}

static void q_k_and_v_may_be_limited(void **state)
{
    (void)state;
    struct mr_model_config c =
        read_valid("{\"model_type\":\"olmoe\"," SIZES ROUTED ",\"clip_qkv\":8.0}");
    assert_true(c.qkv_clip == 8.0f);
    rejected("{\"model_type\":\"olmoe\"," SIZES ROUTED ",\"clip_qkv\":-1.0}",
             "the limit of q, k and v");
    rejected("{\"model_type\":\"ministral3\"," SIZES ",\"rope_parameters\":{\"rope_type\":"
             "\"default\",\"llama_4_scaling_beta\":-0.5}}",
             "an attention temperature of -0.5");
    rejected("{\"model_type\":\"hunyuan_v1_moe\"," SIZES ROUTED ",\"use_cla\":true}", "use_cla");
}

static void layers_may_have_no_rope(void **state)
{
    (void)state;
    struct mr_model_config c = read_valid("{\"model_type\":\"smollm3\"," SIZES "}");
    assert_true(c.rope_of[2] == 0 && c.rope_of[3] == MR_NO_ROPE);
    c = read_valid("{\"model_type\":\"smollm3\"," SIZES ",\"no_rope_layers\":[0,1,1,1]}");
    assert_true(c.rope_of[0] == MR_NO_ROPE && c.rope_of[3] == 0);
    rejected("{\"model_type\":\"smollm3\"," SIZES ",\"no_rope_layers\":[0,1]}", "no_rope_layers");
}

static void the_text_part_of_a_larger_model_is_read(void **state)
{
    (void)state;
    struct mr_model_config c =
        read_valid("{\"model_type\":\"gemma3\",\"eos_token_id\":[1,106],\"vision_config\":{},"
                   "\"text_config\":{\"model_type\":\"gemma3_text\",\"hidden_size\":64,"
                   "\"intermediate_size\":128,\"num_hidden_layers\":6}}");
    assert_true(c.wraps_text);
    assert_string_equal(c.family->name, "gemma3_text");
    assert_int_equal(c.head_count, 8);
    assert_int_equal(c.vocab_size, 262208);
    assert_int_equal(c.eos_ids[1], 106);
    rejected("{\"model_type\":\"gemma3\"," SIZES "}", "text_config");
    /* older folders have the sizes of the text part at the top level */
    c = read_valid("{\"model_type\":\"qwen2_5_vl\"," SIZES ",\"vision_config\":{}}");
    assert_true(c.wraps_text);
    assert_string_equal(c.family->name, "qwen2");
    c = read_valid(
        "{\"model_type\":\"qwen3_vl\",\"text_config\":{\"model_type\":\"qwen3_vl_text\"," SIZES
        "}}");
    assert_string_equal(c.family->name, "qwen3");
    rejected("{\"model_type\":\"qwen3_vl\"," SIZES "}", "text_config");
    rejected("{\"model_type\":\"mistral3\",\"text_config\":{\"model_type\":\"deepseek_v32\"}}",
             "its sparse attention");
}

static void keys_of_features_that_are_not_computed_are_rejected(void **state)
{
    (void)state;
    static const char *const keys[] = {
        "\"clip_qkv\":8.0",
        "\"attention_chunk_size\":8192",
        "\"position_embedding_type\":\"nope\"",
        "\"use_bidirectional_attention\":true",
        "\"scoring_func\":\"sigmoid\"",
        "\"kv_lora_rank\":512",
        "\"swiglu_limit\":5.0",
        "\"dual_chunk_attention_config\":{\"chunk_size\":8}",
    };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        char text[512], name[64];
        snprintf(text, sizeof text, "{\"model_type\":\"llama\"," SIZES ",%s}", keys[i]);
        snprintf(name, sizeof name, "%.*s", (int)(strchr(keys[i], ':') - keys[i]), keys[i]);
        rejected(text, name);
    }
    read_valid("{\"model_type\":\"llama\"," SIZES
               ",\"clip_qkv\":null,\"swiglu_limit\":7.0,\"n_group\":1,\"scoring_func\":"
               "\"softmax\",\"use_bidirectional_attention\":false,\"cross_attention_layers\":[]}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_missing_from_config_json_have_default_values),
        cmocka_unit_test(keys_of_config_json_are_used),
        cmocka_unit_test(rope_scaling_is_read_under_either_key),
        cmocka_unit_test(sixty_four_heads_may_share_one),
        cmocka_unit_test(windows_apply_to_the_layers_named),
        cmocka_unit_test(unsupported_or_invalid_keys_are_rejected),
        cmocka_unit_test(end_tokens_are_stored_once_and_up_to_the_limit),
        cmocka_unit_test(families_have_their_own_defaults),
        cmocka_unit_test(families_without_a_gate_have_their_own_keys),
        cmocka_unit_test(the_layers_of_falcon_have_two_forms),
        cmocka_unit_test(experts_are_read_with_their_layers),
        cmocka_unit_test(a_sparse_mixer_has_a_margin),
        cmocka_unit_test(embeddings_are_multiplied_if_the_file_says_so),
        cmocka_unit_test(q_k_and_v_may_be_limited),
        cmocka_unit_test(layers_may_have_no_rope),
        cmocka_unit_test(the_text_part_of_a_larger_model_is_read),
        cmocka_unit_test(keys_of_features_that_are_not_computed_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
