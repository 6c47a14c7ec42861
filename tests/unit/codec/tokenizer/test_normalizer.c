#include "codec/tokenizer/normalizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const struct mr_json_limits limits = {4096, 100, 16};

static struct mr_text text_of(const char *string)
{
    return (struct mr_text){string, strlen(string)};
}

static enum mr_status create(struct mr_normalizer **out, const char *component,
                             struct mr_error *err)
{
    struct mr_json *json;
    assert_int_equal(mr_json_parse(&json, text_of(component), &limits, NULL), MR_OK);
    enum mr_status status = mr_normalizer_create(out, mr_json_root(json), err);
    mr_json_destroy(json);
    return status;
}

static void assert_normal(const char *component, const char *text, const char *want)
{
    struct mr_normalizer *normalizer;
    struct mr_error err;
    assert_int_equal(create(&normalizer, component, &err), MR_OK);
    struct mr_regex_scratch *regex = mr_regex_scratch_create();
    struct mr_normalizer_scratch scratch;
    mr_normalizer_scratch_init(&scratch, 4096, regex);
    struct mr_text out;
    assert_int_equal(mr_normalizer_run(normalizer, &scratch, text_of(text), true, &out, &err),
                     MR_OK);
    assert_int_equal(out.length, strlen(want));
    assert_memory_equal(out.bytes, want, out.length);
    mr_normalizer_scratch_drop(&scratch);
    mr_regex_scratch_destroy(regex);
    mr_normalizer_destroy(normalizer);
}

static void assert_refused(const char *component, const char *why)
{
    struct mr_normalizer *normalizer;
    struct mr_error err;
    assert_int_equal(create(&normalizer, component, &err), MR_BAD_FILE);
    assert_null(normalizer);
    assert_non_null(strstr(err.detail, why));
}

static void null_does_not_change_the_text(void **state)
{
    (void)state;
    struct mr_normalizer *normalizer;
    assert_int_equal(mr_normalizer_create(&normalizer, NULL, NULL), MR_OK);
    struct mr_normalizer_scratch scratch;
    mr_normalizer_scratch_init(&scratch, 10, NULL);
    struct mr_text text = text_of("A e\u0301"), out;
    assert_int_equal(mr_normalizer_run(normalizer, &scratch, text, true, &out, NULL), MR_OK);
    assert_ptr_equal(out.bytes, text.bytes);
    mr_normalizer_scratch_drop(&scratch);
    mr_normalizer_destroy(normalizer);
    mr_normalizer_destroy(NULL);
}

static void normal_forms_compose_with_an_ascii_character(void **state)
{
    (void)state;
    assert_normal("{\"type\":\"NFC\"}", "abe\u0301 a\u0300", "ab\u00e9 \u00e0");
    assert_normal("{\"type\":\"NFC\"}", "plain", "plain");
    assert_normal("{\"type\":\"NFC\"}", "\u00e9", "\u00e9");
    assert_normal("{\"type\":\"NFD\"}", "x\u00e9y", "xe\u0301y");
    assert_normal("{\"type\":\"NFKC\"}", "\ufb01x", "fix");
    assert_normal("{\"type\":\"NFKD\"}", "\u00b2", "2");
}

static void prepend_and_replace_make_sentencepiece(void **state)
{
    (void)state;
    const char *llama = "{\"type\":\"Sequence\",\"normalizers\":["
                        "{\"type\":\"Prepend\",\"prepend\":\"_\"},{\"type\":\"NFC\"},"
                        "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"_\"}]}";
    assert_normal(llama, "a  b ", "_a__b_");
    assert_normal(llama, "", "");
    assert_normal(llama, " e\u0301", "__\u00e9");
}

static void replace_supports_patterns(void **state)
{
    (void)state;
    const char *spaces =
        "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},\"content\":\"-\"}";
    assert_normal(spaces, "a  b c   d", "a-b c-d");
    assert_normal(spaces, "  ", "-");
}

static void strip_removes_white_space_on_the_given_sides(void **state)
{
    (void)state;
    assert_normal("{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true}", " \u3000a b\n",
                  "a b");
    assert_normal("{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":false}", " a ", "a ");
    assert_normal("{\"type\":\"Strip\",\"strip_left\":false,\"strip_right\":true}", " a ", " a");
    assert_normal("{\"type\":\"Strip\",\"strip_left\":false,\"strip_right\":true}", "  ", "");
    assert_normal("{\"type\":\"Strip\",\"strip_left\":false,\"strip_right\":false}", "  ", "  ");
}

static void characters_are_mapped_one_by_one(void **state)
{
    (void)state;
    assert_normal("{\"type\":\"Lowercase\"}", "A\u00c9\u0130", "a\u00e9i\u0307");
    assert_normal("{\"type\":\"StripAccents\"}", "e\u0301a", "ea");
    assert_normal("{\"type\":\"Nmt\"}",
                  "a\tb\x01"
                  "c\u200b",
                  "a bc ");
    assert_normal("{\"type\":\"ByteLevel\"}", " \u00e9", "\u0120\u00c3\u00a9");
}

static void unknown_components_fail_to_load(void **state)
{
    (void)state;
    assert_refused("{\"type\":\"Precompiled\"}", "no precompiled_charsmap");
    assert_refused("{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AA==\"}", "damaged");
    assert_refused("{}", "no type");
    assert_refused("{\"type\":\"Sequence\"}", "no list");
    assert_refused("{\"type\":\"Replace\",\"content\":\"\"}", "no pattern");
    assert_refused("{\"type\":\"Replace\",\"pattern\":{\"String\":\"\"},\"content\":\"\"}",
                   "no pattern");
    assert_refused("{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"(\"},\"content\":\"\"}",
                   "pattern");
    assert_refused("{\"type\":\"Prepend\"}", "no text");
    assert_refused("{\"type\":\"Strip\"}", "lacks strip_left");
    assert_refused("{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":\"X\"}]}",
                   "unknown normalizer X");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_does_not_change_the_text),
        cmocka_unit_test(normal_forms_compose_with_an_ascii_character),
        cmocka_unit_test(prepend_and_replace_make_sentencepiece),
        cmocka_unit_test(replace_supports_patterns),
        cmocka_unit_test(strip_removes_white_space_on_the_given_sides),
        cmocka_unit_test(characters_are_mapped_one_by_one),
        cmocka_unit_test(unknown_components_fail_to_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
