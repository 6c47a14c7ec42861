#include "ops/files/gguf_config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/ops/scratch.h"

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

static void put_entry(struct bytes *to, const struct entry *entry)
{
    put_text(to, entry->key);
    put_u32(to, entry->text ? MR_GGUF_TEXT : MR_GGUF_U32);
    if (entry->text)
        put_text(to, entry->text);
    else
        put_u32(to, entry->number);
}

static bool is_changed(const char *key, const struct entry *changed)
{
    for (; changed && changed->key; changed++)
        if (strcmp(key, changed->key) == 0) return true;
    return false;
}

/* The end tokens of a list, and a vocabulary; empty for most tests. */
struct vocabulary {
    uint32_t type; /* of the list's numbers, MR_GGUF_I32 or MR_GGUF_U32 */
    const uint32_t *eos_ids;
    uint64_t eos_count;
    const char *const *tokens;
    uint64_t token_count;
};

static uint64_t put_vocabulary(struct bytes *to, const struct vocabulary *vocabulary)
{
    if (vocabulary->eos_count > 0) {
        put_text(to, "tokenizer.ggml.eos_token_ids");
        put_u32(to, MR_GGUF_ARRAY);
        put_u32(to, vocabulary->type);
        put_u64(to, vocabulary->eos_count);
        for (uint64_t i = 0; i < vocabulary->eos_count; i++)
            put_u32(to, vocabulary->eos_ids[i]);
    }
    if (vocabulary->token_count > 0) {
        put_text(to, "tokenizer.ggml.tokens");
        put_u32(to, MR_GGUF_ARRAY);
        put_u32(to, MR_GGUF_TEXT);
        put_u64(to, vocabulary->token_count);
        for (uint64_t i = 0; i < vocabulary->token_count; i++)
            put_text(to, vocabulary->tokens[i]);
    }
    return (uint64_t)(vocabulary->eos_count > 0) + (uint64_t)(vocabulary->token_count > 0);
}

/* Reads a file with the usual keys. changed: keys that replace those of their name or are added, up
 * to one without a name; NULL: none. */
static enum mr_status read_gguf(const struct entry *changed, const struct vocabulary *vocabulary,
                                struct mr_model_config *out, struct mr_error *err)
{
    static struct bytes bytes;
    struct scratch scratch;
    bytes.size = 0;
    put(&bytes, "GGUF\3\0\0\0\1\0\0\0\0\0\0\0", 16);
    put_u64(&bytes, 0);
    uint64_t count = 0;
    for (size_t i = 0; i < USUAL_COUNT; i++) {
        if (is_changed(usual[i].key, changed)) continue;
        put_entry(&bytes, &usual[i]);
        count++;
    }
    for (; changed && changed->key; changed++, count++)
        put_entry(&bytes, changed);
    put_text(&bytes, "llama.attention.layer_norm_rms_epsilon");
    put_u32(&bytes, MR_GGUF_F32);
    put_float(&bytes, 1e-5f);
    count += 1 + put_vocabulary(&bytes, vocabulary);
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

static enum mr_status from_gguf(const struct entry *changed, struct mr_model_config *out,
                                struct mr_error *err)
{
    static const struct vocabulary none;
    const struct entry entries[] = {changed ? *changed : (struct entry){0}, {0}};
    return read_gguf(entries, &none, out, err);
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
        {{"general.architecture", 0, "deepseek2"}, "GGUF files with latent attention are not"},
        {{"general.architecture", 0, "qwen2"}, "qwen2.block_count"},
        {{"general.architecture", 0, "mistral3"}, "mistral3.block_count"},
        {{"general.architecture", 7, NULL}, "general.architecture"},
        {{"llama.block_count", 0, "many"}, "llama.block_count"},
        {{"llama.block_count", 100000, NULL}, "number of layers"},
        {{"llama.expert_count", 8, NULL}, "expert_used_count"},
        {{"llama.rope.scaling.type", 0, "3d"}, "\"3d\""},
        {{"llama.rope.scaling.type", 0, "linear"}, "factor"},
        {{"llama.rope.dimension_count", 8, NULL}, "rotary size 8"},
        {{"llama.attention.value_length", 32, NULL}, "different sizes"},
        {{"llama.attention.clamp_kqv", 8, NULL}, "clamp_kqv"},
        {{"llama.rope.scaling.yarn_log_multiplier", 1, NULL}, "yarn_log_multiplier"},
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

static void a_rope_factor_without_a_type_is_linear(void **state)
{
    (void)state;
    static const struct entry cases[] = {{"llama.rope.scaling.factor", 4, NULL},
                                         {"llama.rope.scale_linear", 4, NULL},
                                         {"llama.rope.scaling.factor", 1, NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mr_model_config c;
        struct mr_error err = {0};
        if (from_gguf(&cases[i], &c, &err) != MR_OK) fail_msg("%s", err.detail);
        assert_int_equal(c.ropes[0].kind, i < 2 ? MR_ROPE_LINEAR : MR_ROPE_PLAIN);
        if (i < 2) assert_true(c.ropes[0].factor == 4.0);
    }
}

static void a_temperature_counts_in_original_contexts(void **state)
{
    (void)state;
    const struct entry entry = {"llama.attention.temperature_scale", 2, NULL};
    struct mr_model_config c;
    struct mr_error err = {0};
    if (from_gguf(&entry, &c, &err) != MR_OK) fail_msg("%s", err.detail);
    assert_true(c.ropes[0].temperature == 2.0 && c.ropes[0].temperature_tokens == 512.0);
}

/* As in a folder: test_json_rope.c. The usual context_length is 512. */
static void yarn_extends_the_context(void **state)
{
    (void)state;
#define YARN(factor)                                                                               \
    {"llama.rope.scaling.type", 0, "yarn"},                                                        \
    {                                                                                              \
        "llama.rope.scaling.factor", factor, NULL                                                  \
    }
    static const struct vocabulary none;
    static const struct {
        struct entry entries[5];
        uint32_t context, original;
    } cases[] = {
        {{YARN(4), {"llama.rope.scaling.original_context_length", 512, NULL}}, 2048, 512},
        {{YARN(4), {"llama.rope.scaling.original_context_length", 128, NULL}}, 512, 128},
        {{YARN(4), {"llama.rope.scaling.original_context_length", 64, NULL}}, 512, 64},
        {{YARN(4)}, 512, 512}, /* it may be the extended one already */
        {{YARN(4000000000), {"llama.rope.scaling.original_context_length", 512, NULL}}, 512, 512},
        {{YARN(4),
          {"llama.rope.scaling.original_context_length", 512, NULL},
          {"llama.context_length", 4096, NULL}},
         4096,
         512},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mr_model_config c;
        struct mr_error err = {0};
        if (read_gguf(cases[i].entries, &none, &c, &err) != MR_OK) fail_msg("%s", err.detail);
        assert_int_equal(c.ropes[0].kind, MR_ROPE_YARN);
        assert_true(c.ropes[0].original_context == cases[i].original);
        assert_int_equal(c.context_tokens, cases[i].context);
    }
}

static void assert_ends(const struct vocabulary *vocabulary, const uint32_t *ids, uint32_t count)
{
    struct mr_model_config c;
    struct mr_error err = {0};
    if (read_gguf(NULL, vocabulary, &c, &err) != MR_OK) fail_msg("%s", err.detail);
    assert_int_equal(c.eos_count, count);
    assert_memory_equal(c.eos_ids, ids, count * sizeof *ids);
}

/* The keys name 2 and 3; the model has 40 tokens. */
static void end_tokens_are_named_by_keys_by_a_list_and_by_their_text(void **state)
{
    (void)state;
    static const uint32_t listed[] = {7, 3, (uint32_t)-1, 40, 39};
    static const char *const tokens[] = {"a", "<eos>", "b", "</s>", "<|im_end|>", "<|im_start|>"};
    const struct vocabulary by_list[] = {{MR_GGUF_I32, listed, 5, NULL, 0},
                                         {MR_GGUF_U32, listed, 5, NULL, 0}};
    const struct vocabulary by_text = {0, NULL, 0, tokens, 6},
                            both = {MR_GGUF_U32, listed, 5, tokens, 6},
                            wrong_type = {MR_GGUF_F32, listed, 5, NULL, 0};
    for (size_t i = 0; i < 2; i++)
        assert_ends(&by_list[i], (const uint32_t[]){2, 3, 7, 39}, 4);
    assert_ends(&by_text, (const uint32_t[]){2, 3, 4}, 3);
    assert_ends(&both, (const uint32_t[]){2, 3, 7, 39, 4}, 5);
    assert_ends(&wrong_type, (const uint32_t[]){2, 3}, 2);
}

static void keys_of_features_that_are_not_computed_are_rejected(void **state)
{
    (void)state;
    static const struct entry cases[] = {
        {"llama.attention.kv_lora_rank", 512, NULL},
        {"llama.expert_group_count", 2, NULL},
        {"llama.expert_gating_func", 2, NULL},
        {"llama.pooling_type", 1, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mr_model_config c;
        struct mr_error err = {0};
        assert_int_equal(from_gguf(&cases[i], &c, &err), MR_BAD_FILE);
        assert_non_null(strstr(err.detail, i == 2 ? "function 2" : cases[i].key));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gguf_metadata_is_a_configuration),
        cmocka_unit_test(gguf_metadata_that_is_wrong_is_rejected),
        cmocka_unit_test(a_rope_factor_without_a_type_is_linear),
        cmocka_unit_test(a_temperature_counts_in_original_contexts),
        cmocka_unit_test(yarn_extends_the_context),
        cmocka_unit_test(end_tokens_are_named_by_keys_by_a_list_and_by_their_text),
        cmocka_unit_test(keys_of_features_that_are_not_computed_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
