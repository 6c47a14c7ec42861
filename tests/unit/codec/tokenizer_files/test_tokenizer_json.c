#include "codec/tokenizer_files/tokenizer_json.h"

#include "tests/unit/codec/tokenizer_files/tokenizer_cases.h"

static void assert_refused(const char *json, const char *why)
{
    struct mr_tokenizer *tokenizer;
    struct mr_error err = {.detail = ""};
    assert_int_equal(mr_tokenizer_from_json(&tokenizer, text_of(json), text_of(""), &err),
                     MR_BAD_FILE);
    assert_null(tokenizer);
    if (!strstr(err.detail, why)) fail_msg("%s, not: %s", err.detail, why);
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
    assert_int_equal(mr_tokenizer_first_space(tokenizer), MR_FIRST_SPACE_OF_TEXT);
    assert_memory_equal(mr_tokenizer_bytes(tokenizer, 4, true).bytes, " a", 2);
    assert_memory_equal(mr_tokenizer_bytes(tokenizer, 1, true).bytes, "\n", 1);
    mr_tokenizer_destroy(tokenizer);
}

static void a_token_listed_twice_has_one_id_and_the_flags_of_its_last_entry(void **state)
{
    (void)state;
    struct mr_tokenizer *tokenizer =
        load(FILE_OF(ADDED(",{\"content\":\"x\",\"special\":true},{\"content\":\"y\"},"
                           "{\"content\":\"\"},{\"content\":\"x\"},{\"content\":\"<s>\"},"
                           "{\"content\":\"z\"}"),
                     "null", BYTE_LEVEL, "null", BYTE_LEVEL, MODEL("")),
             "");
    assert_ids(tokenizer, "xyz<s>", plain, "8 9 10 5");
    assert_int_equal(mr_tokenizer_vocab_size(tokenizer), 11);
    assert_int_equal(mr_tokenizer_bytes(tokenizer, 8, true).length, 1);
    assert_int_equal(mr_tokenizer_bytes(tokenizer, 5, true).length, 3);
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
    assert_refused(WITH_MODEL("{\"type\":\"WordLevel\"}"), "the tokenizer model WordLevel");
    assert_refused(WITH_MODEL("{\"type\":\"Unigram\"}"), "no vocabulary");
    assert_refused(WITH_MODEL("{\"type\":\"Unigram\",\"vocab\":[[\"a\",-1]]}"), "no unk_id");
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
    assert_refused(WITH_DECODER("{\"type\":\"CTC\"}"), "unknown decoder");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sentencepiece_file_decodes_to_spaces_and_bytes),
        cmocka_unit_test(a_token_listed_twice_has_one_id_and_the_flags_of_its_last_entry),
        cmocka_unit_test(unknown_components_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
