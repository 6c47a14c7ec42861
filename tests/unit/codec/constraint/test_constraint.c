#include "constraints.h"

#include "codec/buffer.h"

static void choices_are_exactly_the_texts(void **state)
{
    (void)state;
    assert_language(MR_CONSTRAINT_CHOICE, "[\"yes\",\"no\",\"no \\\"way\\\"\",\"\u00e9\"]",
                    LIST("yes", "no", "no \"way\"", "\u00e9"), LIST("", "y", "yesno", "no "));
}

static void choices_must_be_texts(void **state)
{
    (void)state;
    assert_refused(MR_CONSTRAINT_CHOICE, "[]", MR_INVALID_REQUEST, "no texts");
    assert_refused(MR_CONSTRAINT_CHOICE, "[\"a\",1]", MR_INVALID_REQUEST, "choice/1");
    assert_refused(MR_CONSTRAINT_CHOICE, "[\"\"]", MR_INVALID_REQUEST, "choice/0");
    assert_refused(MR_CONSTRAINT_CHOICE, "{", MR_INVALID_REQUEST, "choice");
}

static void json_object_is_any_object(void **state)
{
    (void)state;
    assert_language(MR_CONSTRAINT_JSON_OBJECT, "",
                    LIST("{}", "{\"a\":[1,-2.5e3,true,{\"b\":null}], \"c\": \"\\u00e9\\n\"}",
                         "{\n  \"a\": 1,\n  \"b\": []\n}"),
                    LIST("", "[]", "1", "{\"a\"}", "{\"a\":01}", "{\"a\":1,}", "{\"\\ud800\":1}",
                         "{\"\x01\":1}"));
}

static void after_reasoning_the_constraint_begins_with_the_end_tag(void **state)
{
    (void)state;
    static const char schema[] = "{\"properties\":{\"a\":{\"$ref\":\"#\"}}}";
    static const struct {
        enum mr_constraint_kind kind;
        const char *source, *text;
        bool fits;
    } cases[] = {
        {MR_CONSTRAINT_CHOICE, "[\"yes\"]", "is it?\n{\"</thin</think>\n\nyes", true},
        {MR_CONSTRAINT_CHOICE, "[\"yes\"]", "</think>yes", true},
        {MR_CONSTRAINT_CHOICE, "[\"yes\"]", "yes", false},
        {MR_CONSTRAINT_CHOICE, "[\"yes\"]", "a</think>", false},
        {MR_CONSTRAINT_CHOICE, "[\"yes\"]", "a</think>no</think>yes", false},
        {MR_CONSTRAINT_CHOICE, "[\"yes\"]", "a</think>\n\n\nyes", false},
        {MR_CONSTRAINT_JSON_OBJECT, "", "{</think>{}", true},
        {MR_CONSTRAINT_JSON_SCHEMA, schema, "a</think>{\"a\":{\"a\":{}}}", true},
        {MR_CONSTRAINT_JSON_SCHEMA, schema, "a</think>{\"a\":b</think>{}}", false},
        {MR_CONSTRAINT_EBNF, "root ::= \"(\" root? \")\"", "a</think>(())", true},
        {MR_CONSTRAINT_TAGGED_CALLS, "{\"const\":1}",
         "<tool_call></think>so <tool_call>1</tool_call>", true},
        {MR_CONSTRAINT_TAGGED_CALLS, "{\"const\":1}", "a</think><tool_call>2</tool_call>", false},
        {MR_CONSTRAINT_WHOLE_CALLS, "{\"const\":{}}", "{a</think>\n{}", true},
        {MR_CONSTRAINT_WHOLE_CALLS, "{\"const\":{}}", "a</think>\n\n{1}", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct mr_constraint constraint = {cases[i].kind, text_of(cases[i].source), true};
        struct mr_grammar *grammar;
        struct mr_error err = {.detail = ""};
        if (mr_constraint_compile(&grammar, &constraint, NULL, &err) != MR_OK)
            fail_msg("%s: %s", cases[i].source, err.detail);
        if (matches(grammar, cases[i].text) != cases[i].fits) fail_msg("%s", cases[i].text);
        mr_grammar_drop(grammar);
    }
}

/* As codec/records/request_tools.c writes the schema of calls. */
#define CALL(name, more, parameters)                                                               \
    "{\"$tool\":\"" name "\"," more "\"type\":\"object\",\"required\":[\"name\",\"parameters\"],"  \
    "\"additionalProperties\":false,\"properties\":{\"name\":{\"const\":\"" name "\"},"            \
    "\"parameters\":" parameters "}}"
#define CALLS(one, other) "{\"type\":\"array\",\"items\":{\"anyOf\":[" one "," other "]}}"
#define BAD               "{\"properties\":{\"x\":{\"properties\":{\"y\":{\"pattern\":\"(?<=a)\"}}}}}"
#define GOOD              "{\"properties\":{\"n\":{\"type\":\"integer\"}},\"required\":[\"n\"]}"

static void a_bad_schema_of_a_tool_leaves_its_arguments_free(void **state)
{
    (void)state;
    struct mr_grammar *grammar =
        compile(MR_CONSTRAINT_JSON_SCHEMA, CALLS(CALL("bad", "", BAD), CALL("good", "", GOOD)));
    assert_true(matches(grammar, "[{\"name\":\"good\",\"parameters\":{\"n\":1}}]"));
    assert_false(matches(grammar, "[{\"name\":\"good\",\"parameters\":{\"n\":null}}]"));
    assert_true(matches(grammar, "[{\"name\":\"bad\",\"parameters\":{\"z\":[1]}}]"));
    assert_ptr_equal(
        strstr(grammar->warning, "tool bad: schema #/properties/x/properties/y/pattern"),
        grammar->warning);
    assert_non_null(strstr(grammar->warning, "may be any object"));
    mr_grammar_drop(grammar);
}

static void a_bad_schema_of_a_strict_tool_is_refused_by_its_name(void **state)
{
    (void)state;
    assert_refused(MR_CONSTRAINT_JSON_SCHEMA,
                   CALLS(CALL("good", "", GOOD), CALL("bad", "\"$strict\":true,", BAD)),
                   MR_UNSUPPORTED, "tool bad: schema #/properties/x/properties/y/pattern: at byte");
    assert_refused(
        MR_CONSTRAINT_JSON_SCHEMA,
        CALLS(CALL("good", "", GOOD),
              CALL("bad", "\"$strict\":true,", "{\"properties\":{\"a\":{\"type\":\"text\"}}}")),
        MR_INVALID_REQUEST, "tool bad: schema #/properties/a/type: must be");
}

/* The work grows with the number of values, not with its square. */
static void large_enums_compile_as_large_choices_do(void **state)
{
    (void)state;
    enum { VALUES = 10000 };
    static char choice[VALUES * 10 + 2], schema[sizeof choice + 10];
    size_t length = 0;
    for (unsigned i = 0; i < VALUES; i++)
        length += (size_t)snprintf(choice + length, sizeof choice - length, "%c\"v%05u\"",
                                   i == 0 ? '[' : ',', i * 7919 % 100000);
    snprintf(choice + length, sizeof choice - length, "]");
    snprintf(schema, sizeof schema, "{\"enum\":%s}", choice);
    struct mr_grammar *enumerated = compile(MR_CONSTRAINT_JSON_SCHEMA, schema);
    struct mr_grammar *chosen = compile(MR_CONSTRAINT_CHOICE, choice);
    assert_true(matches(enumerated, "\"v07919\"") && matches(chosen, "v07919"));
    assert_false(matches(enumerated, "\"v07920\"") || matches(chosen, "v7919"));
    assert_true(enumerated->state_count < chosen->state_count + VALUES + 100);
    mr_grammar_drop(enumerated);
    mr_grammar_drop(chosen);
}

static void digests_tell_kinds_and_texts_apart(void **state)
{
    (void)state;
    unsigned char one[MR_GRAMMAR_DIGEST_BYTES], other[MR_GRAMMAR_DIGEST_BYTES];
    struct mr_constraint constraint = {MR_CONSTRAINT_REGEX, text_of("a"), false};
    assert_int_equal(mr_constraint_digest(&constraint, one, NULL), MR_OK);
    assert_int_equal(mr_constraint_digest(&constraint, other, NULL), MR_OK);
    assert_memory_equal(one, other, sizeof one);
    constraint.kind = MR_CONSTRAINT_EBNF;
    assert_int_equal(mr_constraint_digest(&constraint, other, NULL), MR_OK);
    assert_memory_not_equal(one, other, sizeof one);
    constraint.kind = MR_CONSTRAINT_REGEX;
    constraint.after_reasoning = true;
    assert_int_equal(mr_constraint_digest(&constraint, other, NULL), MR_OK);
    assert_memory_not_equal(one, other, sizeof one);
    constraint = (struct mr_constraint){MR_CONSTRAINT_REGEX, text_of("b"), false};
    assert_int_equal(mr_constraint_digest(&constraint, other, NULL), MR_OK);
    assert_memory_not_equal(one, other, sizeof one);
}

/* head, `count` times part, tail. */
static char *repeated(const char *head, const char *part, size_t count, const char *tail)
{
    struct mr_buffer text;
    mr_buffer_init(&text, (size_t)64 << 20);
    assert_true(mr_buffer_append(&text, text_of(head)));
    for (size_t i = 0; i < count; i++)
        assert_true(mr_buffer_append(&text, text_of(part)));
    assert_true(mr_buffer_append(&text, text_of(tail)));
    assert_true(mr_buffer_append(&text, (struct mr_text){"", 1}));
    return text.bytes;
}

static void a_source_above_the_limit_is_refused(void **state)
{
    (void)state;
    char *text = repeated("", "a", MR_CONSTRAINT_BYTES_MAX + 1, "");
    assert_refused(MR_CONSTRAINT_REGEX, text, MR_INVALID_REQUEST, "bytes, at most");
    free(text);
}

/* Each of these would take minutes or gigabytes if it were followed. */
static void hostile_sources_are_refused_or_small(void **state)
{
    (void)state;
    char *deep = repeated("", "(", 10000, "");
    assert_refused(MR_CONSTRAINT_REGEX, deep, MR_INVALID_REQUEST, "nested");
    free(deep);
    assert_refused(MR_CONSTRAINT_REGEX, "(a?){2000}a{2000}(x|(y|z{1000}){1000})",
                   MR_INVALID_REQUEST, "");
    assert_refused(MR_CONSTRAINT_REGEX, "(.*a.{18}b)*", MR_INVALID_REQUEST, "");
    char *schema = repeated("", "{\"items\":", 10000, "{}");
    assert_refused(MR_CONSTRAINT_JSON_SCHEMA, schema, MR_INVALID_REQUEST, "schema");
    free(schema);
    char *values = repeated("[\"x\"", ",\"y\"", 60000, "]");
    struct mr_grammar *grammar = compile(MR_CONSTRAINT_CHOICE, values);
    assert_true(mr_grammar_bytes(grammar) < 100000);
    mr_grammar_drop(grammar);
    free(values);
    assert_refused(MR_CONSTRAINT_REGEX, "(.{0,100000}){0,100000}", MR_INVALID_REQUEST, "");
    grammar = compile(MR_CONSTRAINT_REGEX, "(x.{0,100000}){0,100000}");
    assert_true(mr_grammar_bytes(grammar) < 100000);
    mr_grammar_drop(grammar);
}

/* A limit that is reached is reported with the part of the source that reached it. */
static void limits_name_their_place(void **state)
{
    (void)state;
    assert_refused(MR_CONSTRAINT_REGEX, "(a{0,99}){0,99}", MR_INVALID_REQUEST,
                   "regex: too complex");
    assert_refused(MR_CONSTRAINT_JSON_SCHEMA,
                   "{\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"items\":"
                   "{\"type\":\"string\",\"pattern\":\"^(a{0,99}){0,99}$\"}}}}",
                   MR_INVALID_REQUEST, "schema #/properties/b: ");
    char *schema =
        repeated("{\"oneOf\":[{\"const\":0}", ",{\"enum\":[[1,1,1,1,1,1,1,1,1,1]]}", 900, "]}");
    assert_refused(MR_CONSTRAINT_JSON_SCHEMA, schema, MR_INVALID_REQUEST, "too complex");
    free(schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choices_are_exactly_the_texts),
        cmocka_unit_test(choices_must_be_texts),
        cmocka_unit_test(json_object_is_any_object),
        cmocka_unit_test(after_reasoning_the_constraint_begins_with_the_end_tag),
        cmocka_unit_test(digests_tell_kinds_and_texts_apart),
        cmocka_unit_test(large_enums_compile_as_large_choices_do),
        cmocka_unit_test(a_bad_schema_of_a_tool_leaves_its_arguments_free),
        cmocka_unit_test(a_bad_schema_of_a_strict_tool_is_refused_by_its_name),
        cmocka_unit_test(a_source_above_the_limit_is_refused),
        cmocka_unit_test(hostile_sources_are_refused_or_small),
        cmocka_unit_test(limits_name_their_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
