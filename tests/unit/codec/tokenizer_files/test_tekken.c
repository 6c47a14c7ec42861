#include "codec/tokenizer_files/tekken.h"

#include "codec/base64.h"
#include "tests/unit/codec/tokenizer_files/tokenizer_cases.h"

#define CONFIG(size)                                                                               \
    "\"config\":{\"pattern\":\"\\\\w+|\\\\W\",\"default_vocab_size\":" size                        \
    ",\"default_num_special_tokens\":5}"
#define SPECIAL                                                                                    \
    ",\"special_tokens\":[{\"rank\":1,\"token_str\":\"<s>\"},{\"rank\":0,\"token_str\":\"<u>\","   \
    "\"is_control\":true},{\"rank\":2,\"token_str\":\"[x]\",\"is_control\":false}]"

/* Writes a file with a token for each byte, then ab, abc and, not used, zz. */
static char *make(const char *config, const char *rest)
{
    const size_t max = 1 << 16;
    char *json = malloc(max), base64[8];
    size_t length = (size_t)snprintf(json, max, "{%s%s,\"vocab\":[", config, rest);
    for (unsigned i = 0; i < 259; i++) {
        const unsigned char byte = (unsigned char)i;
        const char *words[] = {"ab", "abc", "zz"};
        const char *word = i < 256 ? (const char *)&byte : words[i - 256];
        mr_base64_encode((const unsigned char *)word, i < 256 ? 1 : strlen(word), base64);
        length +=
            (size_t)snprintf(json + length, max - length, "%s{\"rank\":%u,\"token_bytes\":\"%s\"}",
                             i ? "," : "", i, base64);
    }
    snprintf(json + length, max - length, "]}");
    return json;
}

static enum mr_status read_tekken(struct mr_tokenizer **out, char *json, const char *config,
                                  struct mr_error *err)
{
    struct mr_tokenizer_files files = {text_of(config), {"", 0}, {"", 0}};
    enum mr_status status = mr_tokenizer_from_tekken(out, text_of(json), &files, err);
    free(json);
    return status;
}

static void ids_are_ranks_behind_the_special_tokens(void **state)
{
    (void)state;
    struct mr_tokenizer *tokenizer;
    assert_int_equal(read_tekken(&tokenizer, make(CONFIG("263"), SPECIAL), "", NULL), MR_OK);
    assert_int_equal(mr_tokenizer_vocab_size(tokenizer), 263);
    assert_ids(tokenizer, "abc abd", plain, "262 37 261 105"); /* abc, space, ab, d */
    assert_ids(tokenizer, "zz", plain, "127 127"); /* a token beyond the size is ignored */
    assert_ids(tokenizer, "a[x]<u><SPECIAL_4>", plain, "102 2 0 4");
    assert_ids(tokenizer, "a", framed, "1 102");
    assert_int_equal(mr_tokenizer_bytes(tokenizer, 2, true).length, 3);
    assert_int_equal(mr_tokenizer_bytes(tokenizer, 0, true).length, 0);
    assert_memory_equal(mr_tokenizer_bytes(tokenizer, 5 + 0xff, true).bytes, "\xff", 1);
    mr_tokenizer_destroy(tokenizer);
}

static void files_without_special_tokens_have_the_default_ones(void **state)
{
    (void)state;
    struct mr_tokenizer *tokenizer;
    struct mr_error err;
    /* five special tokens cannot hold the twenty default ones */
    assert_int_equal(read_tekken(&tokenizer, make(CONFIG("263"), ""), "", &err), MR_BAD_FILE);
    const char *config = "\"config\":{\"pattern\":\"a\",\"default_vocab_size\":280,"
                         "\"default_num_special_tokens\":22}";
    assert_int_equal(read_tekken(&tokenizer, make(config, ""),
                                 "{\"add_bos_token\":false,\"add_eos_token\":true}", NULL),
                     MR_OK);
    assert_ids(tokenizer, "ab[INST]<SPECIAL_21>", framed, "119 3 21 2"); /* b matches nothing */
    mr_tokenizer_destroy(tokenizer);
}

static void damaged_files_are_refused_with_the_cause(void **state)
{
    (void)state;
    static const struct {
        const char *config, *rest, *why;
    } cases[] = {
        {"\"config\":{}", SPECIAL, "config has no pattern"},
        {CONFIG("0"), SPECIAL, "default_vocab_size"},
        {CONFIG("900"), SPECIAL, "does not have the 900 tokens"},
        {CONFIG("200"), SPECIAL, "no token for byte 195"},
        {CONFIG("263"), ",\"special_tokens\":[{\"rank\":5,\"token_str\":\"x\"}]", "special token"},
        {CONFIG("263"), ",\"special_tokens\":[{\"rank\":1}]", "special token"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mr_tokenizer *tokenizer;
        struct mr_error err = {.detail = ""};
        assert_int_equal(read_tekken(&tokenizer, make(cases[i].config, cases[i].rest), "", &err),
                         MR_BAD_FILE);
        if (!strstr(err.detail, cases[i].why)) fail_msg("%s, not: %s", err.detail, cases[i].why);
        assert_non_null(strstr(err.detail, "tekken.json"));
        assert_null(tokenizer);
    }
    char *json = make(CONFIG("263"), SPECIAL);
    memcpy(strstr(json, "\"rank\":7,"), "\"rank\":8,", 9);
    struct mr_tokenizer *tokenizer;
    assert_int_equal(read_tekken(&tokenizer, json, "", NULL), MR_BAD_FILE);
    json = make(CONFIG("263"), SPECIAL);
    memcpy(strstr(json, "AA=="), "A*==", 4);
    assert_int_equal(read_tekken(&tokenizer, json, "", NULL), MR_BAD_FILE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_ranks_behind_the_special_tokens),
        cmocka_unit_test(files_without_special_tokens_have_the_default_ones),
        cmocka_unit_test(damaged_files_are_refused_with_the_cause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
