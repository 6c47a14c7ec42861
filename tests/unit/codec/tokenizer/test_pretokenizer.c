#include "codec/tokenizer/pretokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct mr_json_limits limits = {4096, 100, 16};

static struct mr_text text_of(const char *string)
{
    return (struct mr_text){string, strlen(string)};
}

static enum mr_status create(struct mr_pretokenizer **out, const char *component,
                             struct mr_error *err)
{
    struct mr_json *json;
    assert_int_equal(mr_json_parse(&json, text_of(component), &limits, NULL), MR_OK);
    enum mr_status status = mr_pretokenizer_create(out, mr_json_root(json), err);
    mr_json_destroy(json);
    return status;
}

struct pieces {
    char text[512]; /* the pieces, each followed by a bar */
    size_t left;    /* pieces until the sink fails */
};

static enum mr_status take(void *context, struct mr_text piece, struct mr_error *err)
{
    struct pieces *pieces = context;
    assert_true(piece.length > 0);
    if (pieces->left-- == 0) return mr_fail(err, MR_CANCELLED, "enough");
    size_t used = strlen(pieces->text);
    snprintf(pieces->text + used, sizeof pieces->text - used, "%.*s|", (int)piece.length,
             piece.bytes);
    return MR_OK;
}

static enum mr_status run(const char *component, const char *text, bool at_start,
                          struct pieces *pieces)
{
    struct mr_pretokenizer *pretokenizer;
    struct mr_error err;
    assert_int_equal(create(&pretokenizer, component, &err), MR_OK);
    struct mr_regex_scratch *regex = mr_regex_scratch_create();
    struct mr_pretokenizer_scratch *scratch =
        mr_pretokenizer_scratch_create(pretokenizer, 4096, regex);
    struct mr_piece_sink sink = {take, pieces};
    enum mr_status status =
        mr_pretokenizer_run(pretokenizer, scratch, text_of(text), at_start, &sink, &err);
    mr_pretokenizer_scratch_destroy(scratch);
    mr_regex_scratch_destroy(regex);
    mr_pretokenizer_destroy(pretokenizer);
    return status;
}

static void assert_pieces(const char *component, const char *text, const char *want)
{
    struct pieces pieces = {"", 100};
    assert_int_equal(run(component, text, true, &pieces), MR_OK);
    assert_string_equal(pieces.text, want);
}

#define SPLIT(pattern, behavior, invert)                                                           \
    "{\"type\":\"Split\",\"pattern\":{\"" pattern "\"},\"behavior\":\"" behavior                   \
    "\",\"invert\":" invert "}"
#define DASH "String\":\"-"

static void split_has_five_behaviors(void **state)
{
    (void)state;
    const char *text = "the-final--countdown-";
    assert_pieces(SPLIT(DASH, "Removed", "false"), text, "the|final|countdown|");
    assert_pieces(SPLIT(DASH, "Isolated", "false"), text, "the|-|final|-|-|countdown|-|");
    assert_pieces(SPLIT(DASH, "Contiguous", "false"), text, "the|-|final|--|countdown|-|");
    assert_pieces(SPLIT(DASH, "MergedWithPrevious", "false"), text, "the-|final-|-|countdown-|");
    assert_pieces(SPLIT(DASH, "MergedWithNext", "false"), text, "the|-final|-|-countdown|-|");
    assert_pieces(SPLIT(DASH, "MergedWithNext", "false"), "--a", "-|-a|");
    assert_pieces(SPLIT(DASH, "MergedWithPrevious", "false"), "--a", "-|-|a|");
}

static void an_inverted_split_keeps_the_matches(void **state)
{
    (void)state;
    assert_pieces(SPLIT("Regex\":\"[a-z]+", "Removed", "true"), "ab1cd 2", "ab|cd|");
    assert_pieces(SPLIT("Regex\":\"[a-z]", "MergedWithNext", "true"), "1ab2", "1a|b|2|");
    assert_pieces(SPLIT("Regex\":\"x*", "Isolated", "false"), "axb", "a|x|b|");
}

static void byte_level_cuts_like_gpt2(void **state)
{
    (void)state;
    const char *plain = "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}";
    assert_pieces(plain, "I'm  12 y/o!", "I|'m| | 12| y|/|o|!|");
    assert_pieces(plain, "a\n\n b  ", "a|\n\n| b|  |");
    assert_pieces("{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"use_regex\":false}", "a b",
                  " a b|");
    assert_pieces("{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"use_regex\":false}", " a",
                  " a|");
}

static void digits_are_split_one_by_one_or_as_runs(void **state)
{
    (void)state;
    assert_pieces("{\"type\":\"Digits\",\"individual_digits\":true}", "a12\u00b2b",
                  "a|1|2|\u00b2|b|");
    assert_pieces("{\"type\":\"Digits\",\"individual_digits\":false}", "a12\u00b2b",
                  "a|12\u00b2|b|");
}

static void words_and_punctuation_are_separate_pieces(void **state)
{
    (void)state;
    assert_pieces("{\"type\":\"Whitespace\"}", "Hey friend!  ok?!", "Hey|friend|!|ok|?!|");
    assert_pieces("{\"type\":\"WhitespaceSplit\"}", " Hey  friend! ", "Hey|friend!|");
    assert_pieces("{\"type\":\"BertPreTokenizer\"}", "Hey, you!!", "Hey|,|you|!|!|");
    assert_pieces("{\"type\":\"Punctuation\"}", "a,.b", "a|,|.|b|");
    assert_pieces("{\"type\":\"Punctuation\",\"behavior\":\"Contiguous\"}", "a,.b", "a|,.|b|");
}

#define METASPACE(rest) "{\"type\":\"Metaspace\",\"replacement\":\"_\"" rest "}"

static void metaspace_replaces_spaces_in_front_of_words(void **state)
{
    (void)state;
    assert_pieces(METASPACE(""), "Hey you", "_Hey|_you|");
    assert_pieces(METASPACE(""), " Hey", "_Hey|");
    assert_pieces(METASPACE(",\"split\":false"), "Hey  you", "_Hey__you|");
    assert_pieces(METASPACE(",\"prepend_scheme\":\"never\""), "Hey you", "Hey|_you|");
    struct pieces pieces = {"", 100};
    assert_int_equal(run(METASPACE(",\"prepend_scheme\":\"first\""), "a b", false, &pieces), MR_OK);
    assert_string_equal(pieces.text, "a|_b|");
    assert_pieces(METASPACE(",\"prepend_scheme\":\"first\""), "a b", "_a|_b|");
}

static void stages_run_one_after_the_other(void **state)
{
    (void)state;
    assert_pieces("{\"type\":\"Sequence\",\"pretokenizers\":["
                  "{\"type\":\"Digits\",\"individual_digits\":true},"
                  "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}]}",
                  "ab 12 c", "ab| |1|2| c|");
    /* A stage after ByteLevel gets text in the byte alphabet, in which 0xb2 is a digit. */
    assert_pieces("{\"type\":\"Sequence\",\"pretokenizers\":["
                  "{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
                  "{\"type\":\"Digits\",\"individual_digits\":true}]}",
                  "\u00f2", "\u00c3|\u00b2|");
}

static void a_last_byte_stage_is_left_out(void **state)
{
    (void)state;
    struct mr_pretokenizer *pretokenizer;
    assert_int_equal(
        create(&pretokenizer, "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}", NULL), MR_OK);
    assert_true(mr_pretokenizer_gives_bytes(pretokenizer));
    mr_pretokenizer_destroy(pretokenizer);
    assert_int_equal(mr_pretokenizer_create(&pretokenizer, NULL, NULL), MR_OK);
    assert_false(mr_pretokenizer_gives_bytes(pretokenizer));
    mr_pretokenizer_destroy(pretokenizer);
    mr_pretokenizer_destroy(NULL);
}

static void the_sink_can_end_the_run(void **state)
{
    (void)state;
    struct pieces pieces = {"", 2};
    assert_int_equal(run("{\"type\":\"WhitespaceSplit\"}", "a b c d", true, &pieces), MR_CANCELLED);
    assert_string_equal(pieces.text, "a|b|");
    assert_pieces("{\"type\":\"WhitespaceSplit\"}", "", "");
}

static void unknown_components_fail_to_load(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "{}",
        "{\"type\":\"UnicodeScripts\"}",
        "{\"type\":\"Sequence\"}",
        "{\"type\":\"Digits\"}",
        "{\"type\":\"ByteLevel\"}",
        "{\"type\":\"Punctuation\",\"behavior\":\"Sideways\"}",
        SPLIT(DASH, "Sideways", "false"),
        SPLIT(DASH, "Isolated", "1"),
        SPLIT("String\":\"", "Isolated", "false"),
        SPLIT("Other\":\"a", "Isolated", "false"),
        SPLIT("Regex\":\"(", "Isolated", "false"),
        METASPACE(",\"prepend_scheme\":\"last\""),
        METASPACE(",\"add_prefix_space\":false"),
        "{\"type\":\"Metaspace\",\"replacement\":\"__\"}",
        "{\"type\":\"Metaspace\"}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct mr_pretokenizer *pretokenizer;
        struct mr_error err;
        assert_int_equal(create(&pretokenizer, bad[i], &err), MR_BAD_FILE);
        assert_null(pretokenizer);
        assert_true(err.detail[0] != '\0');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(split_has_five_behaviors),
        cmocka_unit_test(an_inverted_split_keeps_the_matches),
        cmocka_unit_test(byte_level_cuts_like_gpt2),
        cmocka_unit_test(digits_are_split_one_by_one_or_as_runs),
        cmocka_unit_test(words_and_punctuation_are_separate_pieces),
        cmocka_unit_test(metaspace_replaces_spaces_in_front_of_words),
        cmocka_unit_test(stages_run_one_after_the_other),
        cmocka_unit_test(a_last_byte_stage_is_left_out),
        cmocka_unit_test(the_sink_can_end_the_run),
        cmocka_unit_test(unknown_components_fail_to_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
