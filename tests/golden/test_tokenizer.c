/* Compares the tokenizer with results of the reference implementation, which
 * tests/golden/make_tokenizer.py has written.
 *
 *   golden_test_tokenizer                  the test
 *   golden_test_tokenizer compare FILE     answers tests/golden/compare_tokenizer.py */
#include "codec/wire/json.h"
#include "tokenizer_compare.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FOLDER "tests/golden/tokenizer/"

static const struct mr_json_limits limits = {(size_t)8 << 20, 2000000, 8};

static struct mr_json *read_json(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("%s cannot be read", path);
    char *bytes = malloc(limits.bytes_max);
    size_t length = fread(bytes, 1, limits.bytes_max, file);
    fclose(file);
    struct mr_json *json;
    struct mr_error err;
    if (mr_json_parse(&json, (struct mr_text){bytes, length}, &limits, &err) != MR_OK)
        fail_msg("%s: %s", path, err.detail);
    free(bytes);
    return json;
}

static uint32_t *ids_of(const struct mr_json_value *list, size_t *count)
{
    *count = mr_json_count(list);
    uint32_t *ids = calloc(*count + 1, sizeof *ids);
    for (size_t i = 0; i < *count; i++) {
        int64_t id = -1;
        assert_true(mr_json_int(mr_json_at(list, i), &id) && id >= 0);
        ids[i] = (uint32_t)id;
    }
    return ids;
}

static void assert_encoding(const struct mr_tokenizer *tokenizer,
                            struct mr_tokenizer_scratch *scratch, const struct mr_json_value *one,
                            const char *name, struct mr_encode_options options)
{
    struct mr_text text;
    assert_true(mr_json_text(mr_json_get(one, "text"), &text));
    size_t want_count;
    uint32_t *want = ids_of(mr_json_get(one, name), &want_count);
    struct mr_id_list got = {.max = want_count + 1};
    got.ids = calloc(got.max, sizeof *got.ids);
    struct mr_error err = {.detail = ""};
    enum mr_status status = mr_tokenizer_encode(tokenizer, scratch, text, options, &got, &err);
    if (status != MR_OK || got.count != want_count ||
        memcmp(got.ids, want, want_count * sizeof *want) != 0)
        fail_msg("%s ids of \"%.*s\" differ (%s)", name, (int)text.length, text.bytes, err.detail);
    free(got.ids);
    free(want);
}

static void assert_decoding(const struct mr_tokenizer *tokenizer, const struct mr_json_value *one,
                            const char *name, bool skip_special)
{
    struct mr_text want;
    assert_true(mr_json_text(mr_json_get(one, name), &want));
    size_t count, length;
    uint32_t *ids = ids_of(mr_json_get(one, "ids"), &count);
    char *text = tokenizer_decode(tokenizer, ids, count, skip_special, &length);
    if (length != want.length || memcmp(text, want.bytes, length) != 0)
        fail_msg("wanted \"%.*s\", got \"%.*s\"", (int)want.length, want.bytes, (int)length, text);
    free(text);
    free(ids);
}

static void check(const char *tokenizer_path, const char *golden_path)
{
    struct mr_tokenizer *tokenizer = tokenizer_load(tokenizer_path);
    assert_non_null(tokenizer);
    struct mr_tokenizer_scratch *scratch = mr_tokenizer_scratch_create(tokenizer);
    struct mr_json *golden = read_json(golden_path);
    const struct mr_json_value *texts = mr_json_get(mr_json_root(golden), "encode");
    const struct mr_json_value *lists = mr_json_get(mr_json_root(golden), "decode");
    assert_true(mr_json_count(texts) >= 300 && mr_json_count(lists) >= 300);
    for (size_t i = 0; i < mr_json_count(texts); i++) {
        const struct mr_json_value *one = mr_json_at(texts, i);
        assert_encoding(tokenizer, scratch, one, "plain",
                        (struct mr_encode_options){.parse_special = true});
        assert_encoding(tokenizer, scratch, one, "framed",
                        (struct mr_encode_options){.add_special = true, .parse_special = true});
        assert_encoding(tokenizer, scratch, one, "unread", (struct mr_encode_options){0});
    }
    for (size_t i = 0; i < mr_json_count(lists); i++) {
        assert_decoding(tokenizer, mr_json_at(lists, i), "whole", false);
        assert_decoding(tokenizer, mr_json_at(lists, i), "without_special", true);
    }
    mr_json_destroy(golden);
    mr_tokenizer_scratch_destroy(scratch);
    mr_tokenizer_destroy(tokenizer);
}

static void smollm2_from_gguf_equals_the_reference(void **state)
{
    (void)state;
    const char *deps = getenv("MILLRACE_DEPS");
    char path[4096];
    snprintf(path, sizeof path, "%s/model/SmolLM2-135M-Instruct.Q4_1.gguf", deps ? deps : ".deps");
    check(path, FOLDER "smollm2.golden.json");
}

static void a_llama3_style_file_equals_the_reference(void **state)
{
    (void)state;
    check(FOLDER "llama3_style.json", FOLDER "llama3_style.golden.json");
}

static void a_qwen_style_file_equals_the_reference(void **state)
{
    (void)state;
    check(FOLDER "qwen_style.json", FOLDER "qwen_style.golden.json");
}

static void a_llama2_style_file_equals_the_reference(void **state)
{
    (void)state;
    check(FOLDER "llama2_style.json", FOLDER "llama2_style.golden.json");
}

/* Unigram, with the normalizer Precompiled and the decoder Metaspace. */
static void a_t5_style_file_equals_the_reference(void **state)
{
    (void)state;
    check(FOLDER "t5_style.json", FOLDER "t5_style.golden.json");
}

/* Models that PyPI sentencepiece has trained: with and without byte fallback, character map,
 * user-defined tokens, extra spaces; the space before or after a word. */
static void sentencepiece_models_equal_the_reference(void **state)
{
    (void)state;
    check(FOLDER "sentencepiece_unigram.model", FOLDER "sentencepiece_unigram.golden.json");
    check(FOLDER "sentencepiece_unigram_bytes.model",
          FOLDER "sentencepiece_unigram_bytes.golden.json");
    check(FOLDER "sentencepiece_bpe.model", FOLDER "sentencepiece_bpe.golden.json");
    check(FOLDER "sentencepiece_bpe_bytes.model", FOLDER "sentencepiece_bpe_bytes.golden.json");
}

static void a_tekken_file_equals_the_reference(void **state)
{
    (void)state;
    check(FOLDER "tekken_small.json", FOLDER "tekken_small.golden.json");
}

/* The pre-tokenizers, normalizers and added tokens that the other files lack. */
static void a_file_of_rare_components_equals_the_reference(void **state)
{
    (void)state;
    check(FOLDER "odd_style.json", FOLDER "odd_style.golden.json");
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "compare") == 0) return tokenizer_compare(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(smollm2_from_gguf_equals_the_reference),
        cmocka_unit_test(a_llama3_style_file_equals_the_reference),
        cmocka_unit_test(a_qwen_style_file_equals_the_reference),
        cmocka_unit_test(a_llama2_style_file_equals_the_reference),
        cmocka_unit_test(a_t5_style_file_equals_the_reference),
        cmocka_unit_test(sentencepiece_models_equal_the_reference),
        cmocka_unit_test(a_tekken_file_equals_the_reference),
        cmocka_unit_test(a_file_of_rare_components_equals_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
