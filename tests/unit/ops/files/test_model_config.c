#include "ops/files/model_config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/ops/scratch.h"

/* ---- config.json ---- */

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
    assert_int_equal(c.rope.rotary_dim, 16);
    assert_int_equal(c.rope.kind, MR_ROPE_PLAIN);
    assert_true(c.rope.theta == 10000.0);
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
    assert_true(c.rope.theta == 1000000.0);
}

static void rope_scaling_is_read_under_either_key(void **state)
{
    (void)state;
    struct mr_model_config c = read_valid(
        "{\"model_type\":\"llama\"," SIZES ",\"rope_theta\":500000.0,\"rope_scaling\":{"
        "\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1,\"high_freq_factor\":4,"
        "\"original_max_position_embeddings\":1024}}");
    assert_int_equal(c.rope.kind, MR_ROPE_LLAMA3);
    assert_true(c.rope.theta == 500000.0 && c.rope.factor == 8.0);
    assert_true(c.rope.original_context == 1024.0);
    c = read_valid("{\"model_type\":\"llama\"," SIZES ",\"rope_parameters\":{\"rope_theta\":7.0,"
                   "\"rope_type\":\"linear\",\"factor\":2.0},\"rope_scaling\":null}");
    assert_int_equal(c.rope.kind, MR_ROPE_LINEAR);
    assert_true(c.rope.theta == 7.0 && c.rope.factor == 2.0);
}

/* As many as the attention kernel takes: ops/cpu/attention.c. */
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
    rejected("{\"model_type\":\"mamba\"}", "\"mamba\" is not supported");
    rejected("{\"model_type\":\"llama\",\"hidden_size\":64}", "num_hidden_layers");
    rejected("{\"model_type\":\"llama\"," SIZES ",\"head_dim\":-1}", "head_dim");
    rejected("{\"model_type\":\"llama\"," SIZES ",\"hidden_act\":\"gelu\"}", "gelu");
    rejected("{\"model_type\":\"llama\"," SIZES ",\"quantization_config\":{}}", "quantized");
    rejected("{\"model_type\":\"llama\"," SIZES ",\"num_key_value_heads\":3}", "evenly");
    rejected("{\"model_type\":\"llama\"," SIZES ",\"num_key_value_heads\":0}", "key/value");
    rejected("{\"model_type\":\"llama\"," MANY_HEADS ",\"num_attention_heads\":130,"
             "\"num_key_value_heads\":2}",
             "at most 64 each");
    rejected("{\"model_type\":\"llama\"," SIZES ",\"rms_norm_eps\":0}", "epsilon");
    rejected("{\"model_type\":\"llama\"," SIZES ",\"head_dim\":512}", "head size");
    rejected("{\"model_type\":\"llama\"," SIZES ",\"eos_token_id\":300}", "end token 300");
    rejected("{\"model_type\":\"llama\"," SIZES ",\"rope_scaling\":{\"type\":\"yarn\"}}", "yarn");
    rejected("{\"model_type\":\"llama\"," SIZES ",\"rope_scaling\":{\"type\":\"linear\"}}",
             "factor");
    rejected("{\"model_type\":\"llama\"," SIZES ",\"rope_scaling\":{\"type\":\"llama3\","
             "\"factor\":8}}",
             "frequencies");
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

/* ---- GGUF ---- */

struct entry {
    const char *key;
    uint32_t number;
    const char *text; /* value; NULL: the value is the number */
};

static const struct entry usual[] = {
    {"general.architecture", 0, "llama"},       {"llama.block_count", 2, NULL},
    {"llama.embedding_length", 64, NULL},       {"llama.attention.head_count", 4, NULL},
    {"llama.attention.head_count_kv", 2, NULL}, {"llama.feed_forward_length", 96, NULL},
    {"llama.context_length", 512, NULL},        {"tokenizer.ggml.eos_token_id", 2, NULL},
    {"tokenizer.ggml.eot_token_id", 3, NULL},
};
#define USUAL_COUNT (sizeof usual / sizeof usual[0])

/* Reads a file with the usual keys; `changed` replaces the key of its name, or is added. */
static enum mr_status from_gguf(const struct entry *changed, struct mr_model_config *out,
                                struct mr_error *err)
{
    static struct bytes bytes;
    struct scratch scratch;
    bool replaced = false;
    bytes.size = 0;
    put(&bytes, "GGUF\3\0\0\0\1\0\0\0\0\0\0\0", 16);
    put_u64(&bytes, 0);
    uint64_t count = 0;
    for (size_t i = 0; i <= USUAL_COUNT; i++) {
        const struct entry *entry = i < USUAL_COUNT ? &usual[i] : changed;
        if (i < USUAL_COUNT && changed && strcmp(entry->key, changed->key) == 0) {
            entry = changed;
            replaced = true;
        }
        if (!entry || (i == USUAL_COUNT && replaced) || !entry->key[0]) continue;
        put_text(&bytes, entry->key);
        put_u32(&bytes, entry->text ? MR_GGUF_TEXT : MR_GGUF_U32);
        if (entry->text)
            put_text(&bytes, entry->text);
        else
            put_u32(&bytes, entry->number);
        count++;
    }
    put_text(&bytes, "llama.attention.layer_norm_rms_epsilon");
    put_u32(&bytes, MR_GGUF_F32);
    put_float(&bytes, 1e-5f);
    count++;
    memcpy(bytes.data + 16, &count, sizeof count);
    put_text(&bytes, "token_embd.weight");
    put_u32(&bytes, 2);
    put_u64(&bytes, 1);
    put_u64(&bytes, 40);
    put_u32(&bytes, 0);
    put_u64(&bytes, 0);
    put_padding(&bytes, 32);
    for (size_t i = 0; i < 40; i++)
        put_float(&bytes, 0.0f);
    scratch_open(&scratch);
    struct mr_gguf *gguf;
    assert_int_equal(mr_gguf_open(&gguf, scratch_write(&scratch, "f", bytes.data, bytes.size), err),
                     MR_OK);
    enum mr_status status = mr_model_config_from_gguf(out, gguf, mr_gguf_tensors(gguf), err);
    mr_gguf_close(gguf);
    scratch_close(&scratch);
    return status;
}

static void gguf_metadata_is_a_configuration(void **state)
{
    (void)state;
    struct mr_model_config c;
    struct mr_error err = {0};
    if (from_gguf(NULL, &c, &err) != MR_OK) fail_msg("%s", err.detail);
    assert_true(c.family->gguf_rotary_pairs);
    assert_int_equal(c.layer_count, 2);
    assert_int_equal(c.head_dim, 16);
    assert_int_equal(c.kv_head_count, 2);
    assert_int_equal(c.ffn_size, 96);
    assert_int_equal(c.vocab_size, 40);
    assert_int_equal(c.context_tokens, 512);
    assert_true(c.norm_epsilon == 1e-5f);
    assert_true(c.tied_head);
    assert_int_equal(c.eos_count, 2);
    assert_int_equal(c.eos_ids[1], 3);
}

static void gguf_metadata_that_is_wrong_is_rejected(void **state)
{
    (void)state;
    static const struct {
        struct entry entry;
        const char *because;
    } cases[] = {
        {{"general.architecture", 0, "gemma3"}, "\"gemma3\" is not supported"},
        {{"general.architecture", 0, "qwen2"}, "qwen2.block_count"},
        {{"general.architecture", 7, NULL}, "general.architecture"},
        {{"llama.block_count", 0, "many"}, "llama.block_count"},
        {{"llama.block_count", 100000, NULL}, "number of layers"},
        {{"llama.expert_count", 8, NULL}, "experts"},
        {{"llama.rope.scaling.type", 0, "yarn"}, "yarn"},
        {{"llama.rope.scaling.type", 0, "linear"}, "factor"},
        {{"llama.rope.dimension_count", 8, NULL}, "rotary size 8"},
        {{"llama.attention.value_length", 32, NULL}, "different sizes"},
        {{"tokenizer.ggml.eos_token_id", 40, NULL}, "end token 40"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mr_model_config c;
        struct mr_error err = {0};
        assert_int_equal(from_gguf(&cases[i].entry, &c, &err), MR_BAD_FILE);
        if (!strstr(err.detail, cases[i].because))
            fail_msg("\"%s\" without \"%s\"", err.detail, cases[i].because);
    }
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
        cmocka_unit_test(gguf_metadata_is_a_configuration),
        cmocka_unit_test(gguf_metadata_that_is_wrong_is_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
