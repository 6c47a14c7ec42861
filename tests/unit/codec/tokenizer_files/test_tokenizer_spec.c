#include "codec/tokenizer_files/tokenizer_spec.h"

#include "tests/unit/codec/tokenizer_files/tokenizer_cases.h"

static const struct mr_text gguf_tokens[] = {{"a", 1}, {"b", 1},  {"\u0120", 2}, {"ab", 2},
                                             {"1", 1}, {"11", 2}, {"<s>", 3},    {"<u>", 3}};
static const enum mr_token_kind gguf_kinds[] = {
    MR_TOKEN_NORMAL, MR_TOKEN_NORMAL, MR_TOKEN_NORMAL,  MR_TOKEN_NORMAL,
    MR_TOKEN_NORMAL, MR_TOKEN_NORMAL, MR_TOKEN_CONTROL, MR_TOKEN_USER_DEFINED};
static const struct mr_text gguf_merges[] = {{"a b", 3}, {"1 1", 3}};

static struct mr_tokenizer_spec spec_of(const char *pre)
{
    return (struct mr_tokenizer_spec){.model = text_of("gpt2"),
                                      .pre = text_of(pre),
                                      .tokens = gguf_tokens,
                                      .kinds = gguf_kinds,
                                      .token_count = 8,
                                      .merges = gguf_merges,
                                      .merge_count = 2,
                                      .bos_id = 6,
                                      .eos_id = 6,
                                      .unk_id = MR_TOKEN_NONE,
                                      .add_bos = true};
}

static void gguf_names_select_the_pre_tokenizer(void **state)
{
    (void)state;
    static const struct {
        const char *pre, *ids;
    } cases[] = {
        {"smollm", "6 3 4 4 4 2 7 6"},       {"gpt2", "6 3 5 4 2 7 6"},
        {"llama-bpe", "6 3 5 4 2 7 6"},      {"qwen2", "6 3 4 4 4 2 7 6"},
        {"gpt-4o", "6 3 5 4 2 7 6"},         {"tekken", "6 3 4 4 4 2 7 6"},
        {"deepseek-v3", "6 3 5 4 2 7 6"},    {"glm4", "6 3 5 4 2 7 6"},
        {"deepseek-llm", "6 3 4 4 4 2 7 6"}, {"deepseek-coder", "6 3 4 4 4 2 7 6"},
        {"falcon", "6 3 5 4 2 7 6"},         {"falcon3", "6 3 5 4 2 7 6"},
        {"command-r", "6 3 4 4 4 2 7 6"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mr_tokenizer_spec spec = spec_of(cases[i].pre);
        struct mr_tokenizer *tokenizer;
        assert_int_equal(mr_tokenizer_create(&tokenizer, &spec, NULL), MR_OK);
        assert_ids(tokenizer, "ab111 <u><s>", framed, cases[i].ids);
        assert_int_equal(mr_tokenizer_bos_id(tokenizer), 6);
        mr_tokenizer_destroy(tokenizer);
    }
}

static void inconsistent_gguf_arrays_are_rejected(void **state)
{
    (void)state;
    struct mr_tokenizer *tokenizer;
    struct mr_error err;
    struct mr_tokenizer_spec spec = spec_of("never-heard-of");
    assert_int_equal(mr_tokenizer_create(&tokenizer, &spec, &err), MR_BAD_FILE);
    assert_non_null(strstr(err.detail, "never-heard-of"));
    spec = spec_of("gpt2");
    spec.model = text_of("bert");
    assert_int_equal(mr_tokenizer_create(&tokenizer, &spec, &err), MR_BAD_FILE);
    spec = spec_of("gpt2");
    spec.bos_id = MR_TOKEN_NONE;
    assert_int_equal(mr_tokenizer_create(&tokenizer, &spec, &err), MR_BAD_FILE);
    spec = spec_of("gpt2");
    spec.eos_id = 8;
    assert_int_equal(mr_tokenizer_create(&tokenizer, &spec, &err), MR_BAD_FILE);
    spec = spec_of("gpt2");
    spec.merges = (const struct mr_text[]){{"a", 1}, {"1 2", 3}};
    assert_int_equal(mr_tokenizer_create(&tokenizer, &spec, &err), MR_BAD_FILE);
    spec.merges = (const struct mr_text[]){{"a b", 3}, {"1 2", 3}};
    assert_int_equal(mr_tokenizer_create(&tokenizer, &spec, &err), MR_BAD_FILE);
    spec = spec_of("");
    spec.model = text_of("llama");
    assert_int_equal(mr_tokenizer_create(&tokenizer, &spec, &err), MR_BAD_FILE);
    assert_non_null(strstr(err.detail, "scores"));
    assert_null(tokenizer);
}

static void an_unknown_or_absent_pre_tokenizer_is_rejected(void **state)
{
    (void)state;
    const char *const names[] = {"", "default", "of tomorrow"};
    const char *const reasons[] = {"tokenizer.ggml.pre", "default", "of tomorrow"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct mr_tokenizer_spec spec = spec_of(names[i]);
        struct mr_tokenizer *tokenizer;
        struct mr_error err = {0};
        assert_int_equal(mr_tokenizer_create(&tokenizer, &spec, &err), MR_BAD_FILE);
        assert_null(tokenizer);
        assert_non_null(strstr(err.detail, reasons[i]));
    }
}

static void sentencepiece_merges_by_score(void **state)
{
    (void)state;
    const struct mr_text tokens[] = {{"\u2581", 3}, {"a", 1},      {"b", 1},       {"ab", 2},
                                     {"ba", 2},     {"<0x0A>", 6}, {"\u2581a", 4}, {"aba", 3}};
    const float scores[] = {-9, -9, -9, -2, -1, 0, -3, -4};
    enum mr_token_kind kinds[8] = {0};
    kinds[5] = MR_TOKEN_BYTE;
    struct mr_tokenizer_spec spec = {.model = text_of("llama"),
                                     .pre = text_of("default"),
                                     .tokens = tokens,
                                     .kinds = kinds,
                                     .scores = scores,
                                     .token_count = 8,
                                     .bos_id = MR_TOKEN_NONE,
                                     .eos_id = MR_TOKEN_NONE,
                                     .unk_id = MR_TOKEN_NONE,
                                     .add_space_prefix = true};
    struct mr_tokenizer *tokenizer;
    assert_int_equal(mr_tokenizer_create(&tokenizer, &spec, NULL), MR_OK);
    assert_ids(tokenizer, "aba", plain, "6 4");
    assert_ids(tokenizer, "b ab\n", plain, "0 2 0 3 5");
    assert_ids(tokenizer, "baba", plain, "0 4 4");
    assert_int_equal(mr_tokenizer_first_space(tokenizer), MR_FIRST_SPACE_OF_TEXT);
    mr_tokenizer_destroy(tokenizer);
    spec.add_space_prefix = false;
    assert_int_equal(mr_tokenizer_create(&tokenizer, &spec, NULL), MR_OK);
    assert_ids(tokenizer, "aba", plain, "7");
    assert_int_equal(mr_tokenizer_first_space(tokenizer), MR_FIRST_SPACE_KEPT);
    mr_tokenizer_destroy(tokenizer);
}

static void a_t5_vocabulary_is_a_unigram_model(void **state)
{
    (void)state;
    const struct mr_text tokens[] = {{"<unk>", 5}, {"</s>", 4}, {"\u2581", 3},
                                     {"a", 1},     {"b", 1},    {"ab", 2}};
    const float scores[] = {0, 0, -2, -3, -3, -7};
    enum mr_token_kind kinds[6] = {MR_TOKEN_CONTROL, MR_TOKEN_CONTROL};
    struct mr_tokenizer_spec spec = {.model = text_of("t5"),
                                     .tokens = tokens,
                                     .kinds = kinds,
                                     .scores = scores,
                                     .token_count = 6,
                                     .bos_id = MR_TOKEN_NONE,
                                     .eos_id = 1,
                                     .unk_id = 0,
                                     .add_eos = true,
                                     .add_space_prefix = true,
                                     .remove_extra_spaces = true};
    struct mr_tokenizer *tokenizer;
    struct mr_error err;
    assert_int_equal(mr_tokenizer_create(&tokenizer, &spec, NULL), MR_OK);
    assert_ids(tokenizer, "  ab   xa ", framed, "2 3 4 2 0 3 1");
    assert_int_equal(mr_tokenizer_first_space(tokenizer), MR_FIRST_SPACE_UNTIL_TEXT);
    mr_tokenizer_destroy(tokenizer);
    spec.unk_id = MR_TOKEN_NONE;
    assert_int_equal(mr_tokenizer_create(&tokenizer, &spec, &err), MR_BAD_FILE);
    assert_non_null(strstr(err.detail, "no unknown token"));
    spec.charsmap = text_of("x");
    spec.unk_id = 0;
    assert_int_equal(mr_tokenizer_create(&tokenizer, &spec, &err), MR_BAD_FILE);
    assert_non_null(strstr(err.detail, "character map"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gguf_names_select_the_pre_tokenizer),
        cmocka_unit_test(inconsistent_gguf_arrays_are_rejected),
        cmocka_unit_test(an_unknown_or_absent_pre_tokenizer_is_rejected),
        cmocka_unit_test(sentencepiece_merges_by_score),
        cmocka_unit_test(a_t5_vocabulary_is_a_unigram_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
