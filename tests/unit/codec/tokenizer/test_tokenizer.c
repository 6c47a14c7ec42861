#include "codec/tokenizer/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct mr_text text_of(const char *string)
{
    return (struct mr_text){string, strlen(string)};
}

#define BYTE_LEVEL "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true}"
#define VOCAB                                                                                      \
    "{\"a\":0,\"b\":1,\"\u0120\":2,\"ab\":3,\"\u0120a\":4,\"<s>\":5,\"\u00c3\":6,\"\u00a9\":7}"
#define MODEL(rest)                                                                                \
    "{\"type\":\"BPE\"," rest "\"vocab\":" VOCAB ",\"merges\":[\"a b\",[\"\u0120\",\"a\"]]}"
#define ADDED(rest) "[{\"id\":5,\"content\":\"<s>\",\"special\":true}" rest "]"
#define TEMPLATE                                                                                   \
    "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}},"            \
    "{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{\"<s>\":{\"ids\":[5]}}}"
#define FILE_OF(added, normalizer, pre, post, decoder, model)                                      \
    "{\"version\":\"1.0\",\"added_tokens\":" added ",\"normalizer\":" normalizer                   \
    ",\"pre_tokenizer\":" pre ",\"post_processor\":" post ",\"decoder\":" decoder                  \
    ",\"model\":" model "}"
#define PLAIN FILE_OF(ADDED(""), "null", BYTE_LEVEL, TEMPLATE, BYTE_LEVEL, MODEL(""))

static struct mr_tokenizer *load(const char *json, const char *config)
{
    struct mr_tokenizer *tokenizer;
    struct mr_error err = {.detail = ""};
    if (mr_tokenizer_from_json(&tokenizer, text_of(json), text_of(config), &err) != MR_OK)
        fail_msg("%s", err.detail);
    return tokenizer;
}

static void assert_refused(const char *json, const char *why)
{
    struct mr_tokenizer *tokenizer;
    struct mr_error err = {.detail = ""};
    assert_int_equal(mr_tokenizer_from_json(&tokenizer, text_of(json), text_of(""), &err),
                     MR_BAD_FILE);
    assert_null(tokenizer);
    if (!strstr(err.detail, why)) fail_msg("%s, not: %s", err.detail, why);
}

/* Asserts the ids of text, written as "1 2 3". */
static void assert_ids(const struct mr_tokenizer *tokenizer, const char *text,
                       struct mr_encode_options options, const char *want)
{
    struct mr_tokenizer_scratch *scratch = mr_tokenizer_scratch_create(tokenizer);
    uint32_t ids[64];
    struct mr_id_list list = {.ids = ids, .max = 64};
    struct mr_error err;
    assert_int_equal(mr_tokenizer_encode(tokenizer, scratch, text_of(text), options, &list, &err),
                     MR_OK);
    char got[256] = "";
    for (size_t i = 0; i < list.count; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%u", i ? " " : "", ids[i]);
    assert_string_equal(got, want);
    mr_tokenizer_scratch_destroy(scratch);
}

static const struct mr_encode_options plain = {.parse_special = true};
static const struct mr_encode_options framed = {.add_special = true, .parse_special = true};
static const struct mr_encode_options unread = {0};

static void a_byte_level_file_encodes_and_decodes(void **state)
{
    (void)state;
    struct mr_tokenizer *tokenizer = load(PLAIN, "");
    assert_ids(tokenizer, "ab ab a", plain, "3 2 3 4");
    assert_ids(tokenizer, "\u00e9", plain, "6 7");
    assert_ids(tokenizer, "", plain, "");
    assert_int_equal(mr_tokenizer_vocab_size(tokenizer), 8);
    assert_memory_equal(mr_tokenizer_bytes(tokenizer, 4, true).bytes, " a", 2);
    assert_memory_equal(mr_tokenizer_bytes(tokenizer, 7, true).bytes, "\xa9", 1);
    assert_int_equal(mr_tokenizer_bytes(tokenizer, 7, true).length, 1);
    assert_false(mr_tokenizer_strips_first_space(tokenizer));
    mr_tokenizer_destroy(tokenizer);
    mr_tokenizer_destroy(NULL);
}

static void special_tokens_are_parsed_and_added_as_options_say(void **state)
{
    (void)state;
    struct mr_tokenizer *tokenizer = load(PLAIN, "{\"bos_token\":\"<s>\",\"eos_token\":null}");
    assert_ids(tokenizer, "a<s>b", plain, "0 5 1");
    assert_ids(tokenizer, "ab", framed, "5 3");
    assert_ids(tokenizer, "", framed, "5");
    assert_ids(tokenizer, "a<s>b", unread, "0 1");
    assert_int_equal(mr_tokenizer_bos_id(tokenizer), 5);
    assert_int_equal(mr_tokenizer_eos_id(tokenizer), MR_TOKEN_NONE);
    assert_int_equal(mr_tokenizer_bytes(tokenizer, 5, true).length, 0);
    assert_int_equal(mr_tokenizer_bytes(tokenizer, 5, false).length, 3);
    mr_tokenizer_destroy(tokenizer);
}

static void added_tokens_are_found_and_decoded(void **state)
{
    (void)state;
    struct mr_tokenizer *tokenizer =
        load(FILE_OF(ADDED(",{\"id\":8,\"content\":\"new one\"}"), "null", BYTE_LEVEL, "null",
                     BYTE_LEVEL, MODEL("")),
             "{\"eos_token\":{\"content\":\"new one\"}}");
    assert_int_equal(mr_tokenizer_eos_id(tokenizer), 8);
    assert_ids(tokenizer, "anew oneb", plain, "0 8 1");
    assert_memory_equal(mr_tokenizer_bytes(tokenizer, 8, true).bytes, "new one", 7);
    assert_int_equal(mr_tokenizer_bytes(tokenizer, 9, false).length, 0);
    assert_int_equal(mr_tokenizer_bytes(tokenizer, MR_TOKEN_NONE, false).length, 0);
    mr_tokenizer_destroy(tokenizer);
}

static void barred_ranges_hold_no_special_token(void **state)
{
    (void)state;
    const struct mr_text_range range = {1, 5};
    const struct mr_encode_options barred = {
        .parse_special = true, .barred = &range, .barred_count = 1};
    struct mr_tokenizer *tokenizer = load(PLAIN, "");
    assert_ids(tokenizer, "a<s>b<s>a", barred, "0 1 5 0");
    assert_ids(tokenizer, "<s>ab", barred, "3");
    mr_tokenizer_destroy(tokenizer);
    /* tokens that are searched for in the normalized text, which is longer than the original */
    static const char normalizer[] =
        "{\"type\":\"Replace\",\"pattern\":{\"String\":\"b\"},\"content\":\"aab\"}";
    char *file;
    static const char added[] =
        "[{\"id\":5,\"content\":\"<s>\",\"special\":true,\"normalized\":true}]";
    assert_true(asprintf(&file, FILE_OF("%s", "%s", BYTE_LEVEL, "null", BYTE_LEVEL, MODEL("")),
                         added, normalizer) > 0);
    tokenizer = load(file, "");
    assert_ids(tokenizer, "a<s>b<s>a", plain, "0 5 0 3 5 0");
    assert_ids(tokenizer, "a<s>b<s>a", barred, "0 0 3 5 0");
    mr_tokenizer_destroy(tokenizer);
    free(file);
}

static void normalized_tokens_are_found_in_normalized_text(void **state)
{
    (void)state;
    struct mr_tokenizer *tokenizer =
        load(FILE_OF(ADDED(",{\"id\":8,\"content\":\"B!\",\"normalized\":true},"
                           "{\"id\":9,\"content\":\"C!\"}"),
                     "{\"type\":\"Lowercase\"}", BYTE_LEVEL, "null", BYTE_LEVEL, MODEL("")),
             "");
    assert_ids(tokenizer, "AB!a", plain, "0 8 0");
    assert_ids(tokenizer, "ab!", plain, "0 8");
    assert_ids(tokenizer, "aC!", plain, "0 9");
    assert_ids(tokenizer, "ac!", plain, "0");
    assert_memory_equal(mr_tokenizer_bytes(tokenizer, 8, true).bytes, "b!", 2);
    mr_tokenizer_destroy(tokenizer);
}

static void text_is_checked_and_counted(void **state)
{
    (void)state;
    struct mr_tokenizer *tokenizer = load(PLAIN, "");
    struct mr_tokenizer_scratch *scratch = mr_tokenizer_scratch_create(tokenizer);
    uint32_t ids[3] = {77, 77, 77};
    struct mr_id_list three = {ids, 0, 3}, two = {ids, 0, 2}, none = {NULL, 0, 0};
    struct mr_error err;
    assert_int_equal(mr_tokenizer_encode(tokenizer, scratch, text_of("a\xff"), plain, &three, &err),
                     MR_MALFORMED);
    assert_int_equal(mr_tokenizer_encode(tokenizer, scratch, text_of("aaaa<s>"), plain, &two, &err),
                     MR_PROMPT_TOO_LONG);
    assert_int_equal(two.count, 5);
    assert_true(ids[0] == 0 && ids[1] == 0 && ids[2] == 77);
    assert_int_equal(mr_tokenizer_encode(tokenizer, scratch, text_of("ab"), framed, &none, NULL),
                     MR_PROMPT_TOO_LONG);
    assert_int_equal(none.count, 2);
    mr_tokenizer_scratch_destroy(scratch);
    mr_tokenizer_scratch_destroy(NULL);
    mr_tokenizer_destroy(tokenizer);
}

#define SPM_DECODER                                                                                \
    "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"_\"},"   \
    "\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},"                          \
    "{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]}"

static void a_sentencepiece_file_decodes_to_spaces_and_bytes(void **state)
{
    (void)state;
    const char *model = "{\"unk_token\":\"?\",\"byte_fallback\":true,\"vocab\":{\"?\":0,"
                        "\"<0x0A>\":1,\"_\":2,\"a\":3,\"_a\":4},\"merges\":[\"_ a\"]}";
    char json[2048];
    snprintf(json, sizeof json,
             FILE_OF("[]",
                     "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\","
                     "\"prepend\":\"_\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},"
                     "\"content\":\"_\"}]}",
                     "null", "null", SPM_DECODER, "%s"),
             model);
    struct mr_tokenizer *tokenizer = load(json, "");
    assert_ids(tokenizer, "a a\nx", plain, "4 4 1 0");
    assert_true(mr_tokenizer_strips_first_space(tokenizer));
    assert_memory_equal(mr_tokenizer_bytes(tokenizer, 4, true).bytes, " a", 2);
    assert_memory_equal(mr_tokenizer_bytes(tokenizer, 1, true).bytes, "\n", 1);
    mr_tokenizer_destroy(tokenizer);
}

static void unknown_components_are_rejected(void **state)
{
    (void)state;
#define WITH_MODEL(model) FILE_OF("[]", "null", "null", "null", BYTE_LEVEL, model)
#define WITH_DECODER(d)   FILE_OF("[]", "null", "null", "null", d, MODEL(""))
#define WITH_POST(p)      FILE_OF(ADDED(""), "null", "null", p, BYTE_LEVEL, MODEL(""))
    assert_refused("", "ends too early");
    assert_refused("[]", "no decoder");
    assert_refused(WITH_MODEL("{\"type\":\"Unigram\"}"), "unknown tokenizer model");
    assert_refused(WITH_MODEL("{}"), "no vocabulary");
    assert_refused(WITH_MODEL("{\"vocab\":{\"a\":-1},\"merges\":[]}"), "not a number in range");
    assert_refused(WITH_MODEL("{\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}"), "two tokens");
    assert_refused(WITH_MODEL("{\"vocab\":{\"a\":0}}"), "no merges");
    assert_refused(WITH_MODEL("{\"vocab\":{\"a\":0},\"merges\":[\"a\"]}"), "not a pair");
    assert_refused(WITH_MODEL("{\"vocab\":{\"a\":0},\"merges\":[\"a a\"]}"), "outside");
    assert_refused(WITH_MODEL("{\"vocab\":{\"a\":0},\"merges\":[],\"unk_token\":\"u\"}"),
                   "unknown token");
    assert_refused(WITH_MODEL(MODEL("\"dropout\":0.1,")), "dropout");
    assert_refused(WITH_MODEL(MODEL("\"end_of_word_suffix\":\"</w>\",")), "end_of_word_suffix");
    assert_refused(WITH_MODEL(MODEL("\"fuse_unk\":1,")), "not true or false");
    assert_refused(WITH_DECODER("null"), "no decoder");
    assert_refused(WITH_DECODER("{\"type\":\"WordPiece\"}"), "unknown decoder");
    assert_refused(WITH_DECODER("{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}"),
                   "Strip");
    assert_refused(WITH_POST("{\"type\":\"X\"}"), "unknown post-processor");
    assert_refused(WITH_POST("{\"type\":\"TemplateProcessing\",\"single\":[]}"), "leaves");
    assert_refused(WITH_POST("{\"type\":\"TemplateProcessing\",\"single\":"
                             "[{\"SpecialToken\":{\"id\":\"x\"}},{\"Sequence\":{}}]}"),
                   "does not define");
    assert_refused(WITH_POST("{\"type\":\"BertProcessing\",\"sep\":[\"x\",99],"
                             "\"cls\":[\"<s>\",5]}"),
                   "outside the vocabulary");
    assert_refused(FILE_OF("[{}]", "null", "null", "null", BYTE_LEVEL, MODEL("")), "no content");
    assert_refused(FILE_OF("[]", "{\"type\":\"X\"}", "null", "null", BYTE_LEVEL, MODEL("")),
                   "unknown normalizer");
    assert_refused(FILE_OF("[]", "null", "{\"type\":\"X\"}", "null", BYTE_LEVEL, MODEL("")),
                   "unknown pre-tokenizer");
}

/* ---- GGUF metadata ---- */

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
        {"smollm", "6 3 4 4 4 2 7 6"}, {"gpt2", "6 3 5 4 2 7 6"},   {"llama-bpe", "6 3 5 4 2 7 6"},
        {"qwen2", "6 3 4 4 4 2 7 6"},  {"gpt-4o", "6 3 5 4 2 7 6"},
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
    assert_true(mr_tokenizer_strips_first_space(tokenizer));
    mr_tokenizer_destroy(tokenizer);
    spec.add_space_prefix = false;
    assert_int_equal(mr_tokenizer_create(&tokenizer, &spec, NULL), MR_OK);
    assert_ids(tokenizer, "aba", plain, "7");
    assert_false(mr_tokenizer_strips_first_space(tokenizer));
    mr_tokenizer_destroy(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_byte_level_file_encodes_and_decodes),
        cmocka_unit_test(special_tokens_are_parsed_and_added_as_options_say),
        cmocka_unit_test(added_tokens_are_found_and_decoded),
        cmocka_unit_test(barred_ranges_hold_no_special_token),
        cmocka_unit_test(normalized_tokens_are_found_in_normalized_text),
        cmocka_unit_test(text_is_checked_and_counted),
        cmocka_unit_test(a_sentencepiece_file_decodes_to_spaces_and_bytes),
        cmocka_unit_test(unknown_components_are_rejected),
        cmocka_unit_test(gguf_names_select_the_pre_tokenizer),
        cmocka_unit_test(inconsistent_gguf_arrays_are_rejected),
        cmocka_unit_test(sentencepiece_merges_by_score),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
