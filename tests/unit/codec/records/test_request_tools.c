#include "records.h"

#include "codec/records/request_tools.h"

#include <stdio.h>
#include <stdlib.h>

#define TOOL(name, parameters)                                                                     \
    "{\"type\":\"function\",\"function\":{\"name\":\"" name "\",\"parameters\":" parameters "}}"

/* {"messages": …, "tools": [<tools>], <more>} */
static struct decoded with(const char *tools, const char *more)
{
    static char json[1 << 17];
    struct mr_request_context context = test_context();
    snprintf(json, sizeof json,
             "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"tools\":[%s]%s}", tools,
             more);
    status_of_both(json, &context);
    return decode(text_of(json));
}

static void assert_choice(const char *tools, const char *more, enum mr_tool_choice choice)
{
    struct decoded got = with(tools, more);
    if (got.status != MR_OK) fail_msg("%s", got.err.detail);
    assert_int_equal(got.request->tool_use.choice, choice);
    assert_int_equal(got.request->constraint.kind, choice >= MR_TOOL_CHOICE_REQUIRED
                                                       ? MR_CONSTRAINT_JSON_SCHEMA
                                                       : MR_CONSTRAINT_NONE);
    mr_request_destroy(got.request);
}

static void the_model_chooses_unless_it_is_told(void **state)
{
    (void)state;
    const char *f = TOOL("f", "{}");
    assert_choice(f, "", MR_TOOL_CHOICE_AUTO);
    assert_choice(f, ",\"tool_choice\":\"auto\"", MR_TOOL_CHOICE_AUTO);
    assert_choice(f, ",\"tool_choice\":\"none\"", MR_TOOL_CHOICE_NONE);
    assert_choice(f, ",\"tool_choice\":\"required\"", MR_TOOL_CHOICE_REQUIRED);
    assert_choice(f, ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"f\"}}",
                  MR_TOOL_CHOICE_NAMED);
    assert_choice("", "", MR_TOOL_CHOICE_NONE);
}

static void wrong_choices_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {"", ",\"tool_choice\":\"required\""},
        {TOOL("f", "{}"), ",\"tool_choice\":\"always\""},
        {TOOL("f", "{}"), ",\"tool_choice\":{\"function\":\"f\"}"},
        {TOOL("f", "{}"), ",\"tool_choice\":{\"function\":{\"name\":\"g\"}}"},
        {TOOL("f", "{}"), ",\"tool_choice\":\"required\",\"guided_regex\":\"a\""},
        {TOOL("f", "{}"), ",\"tool_choice\":\"required\",\"ignore_eos\":true"},
        {TOOL("f", "7"), ",\"tool_choice\":\"required\""},
        {TOOL("", "{}"), ",\"tool_choice\":\"required\""},
        {"{\"name\":\"f\"}", ",\"tool_choice\":\"required\""},
        {TOOL("f", "{}"), ",\"parallel_tool_calls\":1"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct decoded got = with(wrong[i][0], wrong[i][1]);
        if (got.status != MR_INVALID_REQUEST) fail_msg("%s %s", wrong[i][0], wrong[i][1]);
    }
}

/* The schema has a call of each tool; a tool's references point into that tool. */
static void required_calls_have_a_schema(void **state)
{
    (void)state;
    const char *tools =
        TOOL("f", "{\"type\":\"object\",\"properties\":{\"n\":{\"$ref\":\"#/$defs/n\"},"
                  "\"e\":{\"enum\":[{\"$ref\":\"#/"
                  "x\"}]}},\"$defs\":{\"n\":{\"type\":\"integer\"}}}") ",{\"type\":\"function\","
                                                                       "\"function\":{\"name\":"
                                                                       "\"g\"}}";
    struct decoded got = with(tools, ",\"tool_choice\":\"required\"");
    assert_int_equal(got.status, MR_OK);
    const char *schema = got.request->constraint.text.bytes;
    assert_non_null(strstr(schema, "\"#/items/anyOf/0/properties/parameters/$defs/n\""));
    assert_non_null(strstr(schema, "{\"$ref\":\"#/x\"}"));
    assert_non_null(strstr(schema, "{\"const\":\"g\"}"));
    struct mr_grammar *grammar;
    struct mr_error err = {0};
    enum mr_status status = mr_constraint_compile(&grammar, &got.request->constraint, NULL, &err);
    if (status != MR_OK) fail_msg("%s\n%s", err.detail, schema);
    mr_grammar_drop(grammar);
    mr_request_destroy(got.request);
    got = with(tools, ",\"tool_choice\":{\"function\":{\"name\":\"g\"}}");
    assert_null(strstr(got.request->constraint.text.bytes, "\"f\""));
    assert_non_null(strstr(got.request->constraint.text.bytes, "\"maxItems\":1,"));
    mr_request_destroy(got.request);
}

/* Parameters may be named like keywords. Only values that are data contain no references.
 */
static void names_of_parameters_are_no_keywords(void **state)
{
    (void)state;
    const char *tools =
        TOOL("f", "{\"type\":\"object\",\"properties\":{\"const\":{\"$ref\":\"#/$defs/enum\"},"
                  "\"enum\":{\"$ref\":\"#/$defs/enum\"},\"properties\":{\"const\":{\"$ref\":"
                  "\"#/x\"}},\"$ref\":{\"$ref\":\"#/$defs/enum\"}},\"$defs\":{\"enum\":{\"type\":"
                  "\"integer\"}}}");
    static const char moved[] = "{\"$ref\":\"#/items/anyOf/0/properties/parameters/$defs/enum\"}";
    struct decoded got = with(tools, ",\"tool_choice\":\"required\"");
    assert_int_equal(got.status, MR_OK);
    const char *schema = got.request->constraint.text.bytes;
    size_t count = 0;
    for (const char *at = schema; (at = strstr(at, moved)) != NULL; at++)
        count++;
    assert_int_equal(count, 3);
    assert_non_null(strstr(schema, "{\"const\":{\"$ref\":\"#/x\"}}"));
    struct mr_grammar *grammar;
    struct mr_error err = {0};
    if (mr_constraint_compile(&grammar, &got.request->constraint, NULL, &err) != MR_OK)
        fail_msg("%s\n%s", err.detail, schema);
    mr_grammar_drop(grammar);
    mr_request_destroy(got.request);
}

static void strict_calls_are_constrained_where_they_begin(void **state)
{
    (void)state;
    const char *tools =
        "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"strict\":true,\"parameters\":"
        "{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"n\"],\"properties\":"
        "{\"n\":{\"$ref\":\"#/$defs/n\"}},\"$defs\":{\"n\":{\"type\":\"integer\"}}}}}," TOOL("g",
                                                                                             "{}");
    static const struct {
        enum mr_tool_format format;
        enum mr_constraint_kind kind;
        const char *reference;
    } cases[] = {
        {MR_TOOLS_HERMES, MR_CONSTRAINT_TAGGED_CALL, "\"#/anyOf/0/properties/arguments/$defs/n\""},
        {MR_TOOLS_LLAMA, MR_CONSTRAINT_WHOLE_CALL, "\"#/anyOf/0/properties/parameters/$defs/n\""}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct decoded got = with(tools, ",\"parallel_tool_calls\":false");
        struct mr_request *request = got.request;
        struct mr_error err = {.detail = ""};
        struct mr_grammar *grammar;
        assert_true(request->tool_use.strict);
        assert_int_equal(request->constraint.kind, MR_CONSTRAINT_NONE);
        assert_int_equal(mr_request_constrain_calls(request, cases[i].format, &err), MR_OK);
        assert_int_equal(request->constraint.kind, cases[i].kind);
        assert_non_null(strstr(request->constraint.text.bytes, cases[i].reference));
        enum mr_status status = mr_constraint_compile(&grammar, &request->constraint, NULL, &err);
        if (status != MR_OK) fail_msg("%s\n%s", err.detail, request->constraint.text.bytes);
        mr_grammar_drop(grammar);
        mr_request_destroy(request);
    }
}

static struct mr_tool_types *types_of(struct mr_request *request)
{
    struct mr_tool_types *types;
    struct mr_error err;
    request->tool_use.format = MR_TOOLS_QWEN_CODER;
    assert_int_equal(mr_request_tool_types(request, &types, &err), MR_OK);
    mr_tool_types_check(types);
    return types;
}

static void types_of_parameters_are_those_of_the_schemas(void **state)
{
    (void)state;
    static const struct {
        const char *schema;
        enum mr_tool_type type;
    } cases[] = {
        {"{}", MR_TOOL_TEXT},
        {"true", MR_TOOL_TEXT},
        {"{\"type\":\"string\"}", MR_TOOL_TEXT},
        {"{\"type\":[\"string\",\"null\"]}", MR_TOOL_TEXT_OR_NULL},
        {"{\"type\":\"null\"}", MR_TOOL_TEXT_OR_NULL},
        {"{\"type\":\"integer\"}", MR_TOOL_INTEGER},
        {"{\"type\":\"int\"}", MR_TOOL_INTEGER},
        {"{\"type\":[\"integer\",\"null\"]}", MR_TOOL_INTEGER},
        {"{\"type\":[\"integer\",\"number\"]}", MR_TOOL_NUMBER},
        {"{\"type\":[\"integer\",\"string\"]}", MR_TOOL_TEXT},
        {"{\"type\":[\"integer\",\"boolean\"]}", MR_TOOL_JSON},
        {"{\"type\":\"boolean\"}", MR_TOOL_BOOL},
        {"{\"type\":\"array\",\"items\":{\"type\":\"string\"}}", MR_TOOL_JSON},
        {"{\"type\":\"dict\"}", MR_TOOL_JSON},
        {"{\"anyOf\":[{\"type\":\"object\"},{\"type\":\"null\"}]}", MR_TOOL_JSON},
        {"{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}", MR_TOOL_TEXT_OR_NULL},
        {"{\"allOf\":[{\"type\":\"integer\"}]}", MR_TOOL_INTEGER},
        {"{\"type\":\"STRING\"}", MR_TOOL_TEXT},
        {"{\"type\":[\"Varchar\",\"NULL\"]}", MR_TOOL_TEXT_OR_NULL},
        {"{\"type\":\"char\"}", MR_TOOL_TEXT},
        {"{\"type\":\"BOOLEAN\"}", MR_TOOL_BOOL},
        {"{\"type\":\"Integer\"}", MR_TOOL_INTEGER},
        {"{\"$ref\":\"#/$defs/color\"}", MR_TOOL_TEXT},
        {"{\"allOf\":[{\"$ref\":\"#/$defs/color\"}]}", MR_TOOL_TEXT},
        {"{\"$ref\":\"#/$defs/maybe\"}", MR_TOOL_TEXT_OR_NULL},
        {"{\"$ref\":\"#/$defs/point\"}", MR_TOOL_JSON},
        {"{\"$ref\":\"#/definitions/count\"}", MR_TOOL_INTEGER},
        {"{\"anyOf\":[{\"$ref\":\"#/definitions/count\"},{\"type\":\"null\"}]}", MR_TOOL_INTEGER},
        {"{\"$ref\":\"#/$defs/again\"}", MR_TOOL_OBJECT_OR_ARRAY},
        {"{\"$ref\":\"#/$defs/x\"}", MR_TOOL_OBJECT_OR_ARRAY},
        {"{\"$ref\":\"#/definitions/color\"}", MR_TOOL_OBJECT_OR_ARRAY},
        {"{\"$ref\":\"other.json\"}", MR_TOOL_OBJECT_OR_ARRAY},
        {"{\"$ref\":7}", MR_TOOL_OBJECT_OR_ARRAY},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char tools[1024];
        struct mr_tool_types *types;
        struct mr_error err;
        snprintf(tools, sizeof tools,
                 TOOL("f",
                      "{\"properties\":{\"a\":%s,\"b\":{}},\"$defs\":{\"color\":{\"type\":"
                      "\"string\",\"enum\":[\"none\"]},\"point\":{\"type\":\"object\"},"
                      "\"maybe\":{\"anyOf\":[{\"$ref\":\"#/$defs/color\"},{\"type\":\"null\"}]},"
                      "\"again\":{\"$ref\":\"#/$defs/again\"}},"
                      "\"definitions\":{\"count\":{\"type\":\"integer\"}}}") "," TOOL("g", "{}"),
                 cases[i].schema);
        struct decoded got = with(tools, "");
        assert_int_equal(got.status, MR_OK);
        assert_int_equal(mr_request_tool_types(got.request, &types, &err), MR_OK);
        assert_null(types);
        types = types_of(got.request);
        assert_int_equal(got.request->warning_count, 0);
        mr_request_destroy(got.request);
        if (mr_tool_types_find(types, text_of("f"), text_of("a")) != cases[i].type)
            fail_msg("%s", cases[i].schema);
        assert_int_equal(mr_tool_types_find(types, text_of("g"), text_of("a")), MR_TOOL_TEXT);
        assert_int_equal(types ? types->count : 0, cases[i].type != MR_TOOL_TEXT);
        free(types);
    }
}

/* Each definition refers to the next one ten times, and there are many parameters. */
static void references_are_followed_in_bounded_steps(void **state)
{
    (void)state;
    static char tools[1 << 16];
    size_t length = (size_t)snprintf(tools, sizeof tools,
                                     "{\"type\":\"function\",\"function\":{\"name\":\"f\","
                                     "\"parameters\":{\"$defs\":{\"d30\":{\"type\":\"string\"}");
    for (unsigned i = 0; i < 30; i++) {
        length +=
            (size_t)snprintf(tools + length, sizeof tools - length, ",\"d%u\":{\"anyOf\":[", i);
        for (unsigned k = 0; k < 10; k++)
            length += (size_t)snprintf(tools + length, sizeof tools - length,
                                       "%s{\"$ref\":\"#/$defs/d%u\"}", k > 0 ? "," : "", i + 1);
        length += (size_t)snprintf(tools + length, sizeof tools - length, "]}");
    }
    length += (size_t)snprintf(tools + length, sizeof tools - length, "},\"properties\":{");
    for (unsigned i = 0; i < 1000; i++)
        length += (size_t)snprintf(tools + length, sizeof tools - length,
                                   "%s\"p%u\":{\"$ref\":\"#/$defs/d%u\"}", i > 0 ? "," : "", i,
                                   i > 0 ? 0 : 28);
    snprintf(tools + length, sizeof tools - length, "}}}}");
    struct decoded got = with(tools, "");
    if (got.status != MR_OK) fail_msg("%s", got.err.detail);
    struct mr_tool_types *types = types_of(got.request);
    mr_request_destroy(got.request);
    assert_int_equal(types->count, 999);
    assert_int_equal(mr_tool_types_find(types, text_of("f"), text_of("p0")), MR_TOOL_TEXT);
    assert_int_equal(mr_tool_types_find(types, text_of("f"), text_of("p1")),
                     MR_TOOL_OBJECT_OR_ARRAY);
    free(types);
}

/* {"messages": …, "tools": [a tool with `count` properties, and g]} with a name of some bytes */
static struct decoded with_properties(size_t name_bytes, size_t count, const char *schema)
{
    static char json[1 << 20], name[1 << 16];
    memset(name, 'f', name_bytes);
    name[name_bytes] = '\0';
    size_t length = (size_t)snprintf(
        json, sizeof json,
        "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"tools\":[{\"type\":\"function\","
        "\"function\":{\"name\":\"%s\",\"parameters\":{\"properties\":{",
        name);
    for (size_t i = 0; i < count; i++)
        length += (size_t)snprintf(json + length, sizeof json - length, "%s\"p%zu\":%s",
                                   i > 0 ? "," : "", i, schema);
    snprintf(json + length, sizeof json - length, "}}}},%s]}",
             TOOL("g", "{\"properties\":{\"a\":{\"type\":\"integer\"}}}"));
    return decode(text_of(json));
}

static void many_properties_have_a_bounded_list(void **state)
{
    (void)state;
    static const char integer[] = "{\"type\":\"integer\"}", string[] = "{\"type\":\"string\"}";
    static const struct {
        size_t name_bytes, count;
        const char *schema;
        size_t types;
        bool cut;
    } cases[] = {
        {1, 15000, integer, MR_TOOL_TYPES_MAX, true},
        {128, MR_TOOL_TYPES_MAX - 1, integer, MR_TOOL_TYPES_MAX, false},
        {129, 10, integer, 1, true},
        {60000, 15000, integer, 1, true},
        {60000, 15000, string, 1, false},
        {1, 15000, string, 1, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct decoded got = with_properties(cases[i].name_bytes, cases[i].count, cases[i].schema);
        if (got.status != MR_OK) fail_msg("%s", got.err.detail);
        struct mr_tool_types *types = types_of(got.request);
        assert_int_equal(types->count, cases[i].types);
        assert_int_equal(got.request->warning_count, cases[i].cut);
        if (cases[i].count < MR_TOOL_TYPES_MAX || cases[i].types == 1)
            assert_int_equal(mr_tool_types_find(types, text_of("g"), text_of("a")),
                             MR_TOOL_INTEGER);
        mr_request_destroy(got.request);
        free(types);
    }
}

static void strict_is_refused_where_it_cannot_be_guaranteed(void **state)
{
    (void)state;
    static const struct {
        enum mr_tool_format format;
        const char *more;
        enum mr_status status;
        const char *why;
    } cases[] = {
        {MR_TOOLS_MISTRAL, "", MR_UNSUPPORTED, "function.strict in tools cannot be guaranteed"},
        {MR_TOOLS_NONE, "", MR_UNSUPPORTED, "use tool_choice required"},
        {MR_TOOLS_QWEN_CODER, "", MR_UNSUPPORTED, "in the format qwen-coder"},
        {MR_TOOLS_HERMES, ",\"guided_regex\":\"a\"", MR_INVALID_REQUEST, "response_format"},
        {MR_TOOLS_HERMES, "", MR_INVALID_REQUEST, "ignore_eos"},
    };
    const char *strict = "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"strict\":true}}";
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mr_error err = {.detail = ""};
        struct decoded got = with(strict, cases[i].more);
        got.request->ignore_eos = i == 4;
        assert_int_equal(mr_request_constrain_calls(got.request, cases[i].format, &err),
                         cases[i].status);
        assert_non_null(strstr(err.detail, cases[i].why));
        mr_request_destroy(got.request);
    }
    struct decoded got = with(strict, ",\"tool_choice\":\"required\"");
    assert_false(got.request->tool_use.strict);
    mr_request_destroy(got.request);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_model_chooses_unless_it_is_told),
        cmocka_unit_test(wrong_choices_are_refused),
        cmocka_unit_test(required_calls_have_a_schema),
        cmocka_unit_test(names_of_parameters_are_no_keywords),
        cmocka_unit_test(strict_calls_are_constrained_where_they_begin),
        cmocka_unit_test(types_of_parameters_are_those_of_the_schemas),
        cmocka_unit_test(references_are_followed_in_bounded_steps),
        cmocka_unit_test(many_properties_have_a_bounded_list),
        cmocka_unit_test(strict_is_refused_where_it_cannot_be_guaranteed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
