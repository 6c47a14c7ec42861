#include "constraints.h"

#include "codec/constraint/decimal.h"

#define SCHEMA(source, yes, no)      assert_language(MR_CONSTRAINT_JSON_SCHEMA, source, yes, no)
#define REFUSED(source, status, why) assert_refused(MR_CONSTRAINT_JSON_SCHEMA, source, status, why)

static void types_choose_values(void **state)
{
    (void)state;
    SCHEMA("{\"type\":\"null\"}", LIST("null"), LIST("0", ""));
    SCHEMA("{\"type\":[\"boolean\",\"integer\"]}", LIST("true", "false", "-7", "0"),
           LIST("1.5", "null", "-", "00", "+1"));
    SCHEMA("{\"type\":\"number\"}", LIST("1", "-0.5", "1e5", "2.5E-3"),
           LIST("1.", ".5", "1e", "01"));
    SCHEMA("{\"type\":\"string\"}", LIST("\"\"", "\"a\\\"b\\\\\\u0041\u00e9\"", "\"\\ud7ff\""),
           LIST("\"", "\"\n\"", "\"\\x\"", "\"\\ud800\""));
    SCHEMA("{}", LIST("1", "[]", "{\"a\":[{}]}", "\"x\"", "null"), LIST("", "x", "{]"));
    REFUSED("{\"type\":\"text\"}", MR_INVALID_REQUEST, "#/type");
}

static void properties_come_in_order(void **state)
{
    (void)state;
    SCHEMA("{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},"
           "\"b\":{\"type\":\"null\"},\"c\":{\"type\":\"boolean\"}},\"required\":[\"b\"]}",
           LIST("{\"b\":null}", "{\"a\": 1, \"b\": null}", "{\"b\":null,\"c\":true}",
                "{\n \"a\":1,\n \"b\":null,\n \"c\":false\n}"),
           LIST("{}", "{\"a\":1}", "{\"b\":null,\"a\":1}", "{\"b\":null,}", "{,\"b\":null}",
                "{\"b\":null,\"d\":1}", "{\"b\":null \"c\":true}"));
}

static void additional_properties_have_other_names(void **state)
{
    (void)state;
    SCHEMA("{\"type\":\"object\",\"properties\":{\"ab\":{\"type\":\"integer\"}},"
           "\"additionalProperties\":{\"type\":\"boolean\"}}",
           LIST("{}", "{\"ab\":1}", "{\"ab\":1,\"a\":true}", "{\"abc\":true,\"x\":false}"),
           LIST("{\"ab\":true}", "{\"\\u0061b\":true}", "{\"x\":1}", "{\"x\":true,\"ab\":1}"));
    SCHEMA("{\"type\":\"object\",\"additionalProperties\":false}", LIST("{}"), LIST("{\"a\":1}"));
    SCHEMA("{\"type\":\"object\",\"required\":[\"k\"]}", LIST("{\"k\":[1]}"),
           LIST("{}", "{\"x\":1}"));
    SCHEMA("{\"type\":\"object\",\"minProperties\":1,\"maxProperties\":2}",
           LIST("{\"a\":1}", "{\"a\":1,\"b\":2}"), LIST("{}", "{\"a\":1,\"b\":2,\"c\":3}"));
}

static void arrays_have_their_length(void **state)
{
    (void)state;
    SCHEMA("{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":1,\"maxItems\":3}",
           LIST("[1]", "[1, 2,3]", "[\n  1,\n  2\n]"), LIST("[]", "[1,2,3,4]", "[1,]", "[true]"));
    SCHEMA("{\"prefixItems\":[{\"const\":1},{\"const\":2}],\"items\":{\"const\":3},\"minItems\":1,"
           "\"maxItems\":4}",
           LIST("[1]", "[1,2]", "[1,2,3,3]"), LIST("[]", "[2]", "[1,3]", "[1,2,3,3,3]"));
    SCHEMA("{\"prefixItems\":[{\"const\":1}]}", LIST("[]", "[1]"), LIST("[1,1]"));
    SCHEMA("{\"prefixItems\":[{\"const\":1}],\"minItems\":2}", LIST("[1,true]"), LIST("[1]"));
}

static void strings_have_their_length_in_characters(void **state)
{
    (void)state;
    SCHEMA("{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}",
           LIST("\"ab\"", "\"\u00e9\U0001f600\\n\"", "\"\\u0041bc\""),
           LIST("\"a\"", "\"abcd\"", "\"\\u0041\""));
    SCHEMA("{\"type\":\"string\",\"pattern\":\"^a*$\",\"minLength\":2,\"maxLength\":3}",
           LIST("\"aa\"", "\"aaa\""), LIST("\"a\"", "\"aaaa\"", "\"ab\""));
    SCHEMA("{\"type\":\"string\",\"maxLength\":1000000}", LIST("\"\"", "\"abc\""), LIST("\""));
}

static void numbers_keep_their_bounds(void **state)
{
    (void)state;
    SCHEMA("{\"type\":\"integer\",\"minimum\":-12,\"maximum\":105}",
           LIST("-12", "-9", "-1", "0", "7", "99", "100", "105"),
           LIST("-13", "-0", "106", "110", "1000", "-20"));
    SCHEMA("{\"type\":\"integer\",\"exclusiveMinimum\":3,\"exclusiveMaximum\":5}", LIST("4"),
           LIST("3", "5", "44"));
    SCHEMA("{\"type\":\"number\",\"minimum\":-1.5,\"maximum\":2.25}",
           LIST("-1.5", "-1.499", "-1", "-0.25", "0", "0.0", "2", "2.25", "2.250", "2.2"),
           LIST("-1.51", "-2", "2.26", "2.2501", "3", "-0", "-0.0", "1e1"));
    SCHEMA("{\"type\":\"number\",\"exclusiveMinimum\":0,\"exclusiveMaximum\":1}",
           LIST("0.5", "0.01", "0.999"), LIST("0", "0.0", "1", "1.0"));
    SCHEMA("{\"type\":\"number\",\"exclusiveMinimum\":-2,\"maximum\":-1}", LIST("-1", "-1.9"),
           LIST("-2", "-2.0", "-0.5", "0", "1"));
    SCHEMA("{\"type\":\"integer\",\"multipleOf\":12,\"minimum\":5}", LIST("12", "24", "120"),
           LIST("0", "6", "13", "-12"));
}

static void numbers_are_exact(void **state)
{
    (void)state;
    SCHEMA("{\"type\":\"integer\"}",
           LIST("2512292042121000001", "-1234567890123456789012345678901234567890"), LIST("01"));
    SCHEMA("{\"type\":\"number\"}",
           LIST("0.1000000000000000055511151231257827", "1.7976931348623157e+308", "5e-324",
                "123456789012345678901234567890.5"),
           LIST("1e", "1."));
    SCHEMA("{\"type\":\"integer\",\"minimum\":1000000000000000}",
           LIST("1000000000000000", "18446744073709551616"), LIST("999999999999999", "0"));
    SCHEMA("{\"type\":\"integer\",\"minimum\":-9223372036854775808,\"maximum\":"
           "18446744073709551615}",
           LIST("-9223372036854775808", "18446744073709551615", "0"),
           LIST("-9223372036854775809", "18446744073709551616"));
    SCHEMA("{\"type\":\"number\",\"exclusiveMinimum\":0.1,\"maximum\":0.3}",
           LIST("0.10000000000000002", "0.2", "0.3", "0.30"),
           LIST("0.1", "0.1000000000000000001", "0.30000000000000000001"));
    SCHEMA("{\"type\":\"number\",\"minimum\":0,\"maximum\":1.7976931348623157e308}",
           LIST("0", "1.5e3", "2E-7", "12345678901234567890"), LIST("-1", "1e308"));
    SCHEMA("{\"type\":\"number\",\"minimum\":0,\"maximum\":1}", LIST("1e-5", "0.5"), LIST("1e-0"));
    SCHEMA("{\"type\":\"number\",\"multipleOf\":0.05,\"maximum\":20}",
           LIST("-0.05", "0.1", "19.95", "20.0", "7"), LIST("0.01", "0.051", "20.05"));
    SCHEMA("{\"multipleOf\":1500000}", LIST("0", "-3000000", "1500000"), LIST("1500001", "15"));
    SCHEMA("{\"enum\":[18446744073709551616,9007199254740993],\"minimum\":9007199254740993}",
           LIST("18446744073709551616", "9007199254740993"), LIST("9007199254740992"));
}

/* A random decimal near 10^digits with up to `places` digits after the point. */
static void draw_number(uint64_t *state, bool integer, char out[64])
{
    static const char *const ends[] = {"", "0", "5", "25", "999", "0001"};
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    uint64_t value = (*state >> (integer ? 8 : 30)) >> (*state >> 12) % 34;
    const char *end = ends[(*state >> 8) % (sizeof ends / sizeof ends[0])];
    bool whole = integer || !*end;
    snprintf(out, 64, "%s%llu%s%s", (*state >> 16) % 3 == 0 ? "-" : "", (unsigned long long)value,
             whole ? "" : ".", whole ? "" : end);
    if (strcmp(out, "-0") == 0) memcpy(out, "0", 2);
}

/* The grammar has exactly the decimals within inclusive bounds, and exclusive ones as doubles. */
static void random_bounds_hold_for_random_numbers(void **state)
{
    (void)state;
    uint64_t seed = 42;
    unsigned inside = 0, outside = 0;
    for (unsigned round = 0; round < 400; round++) {
        char low[64], high[64], schema[256];
        struct mr_decimal min, max, number;
        bool integer = round % 2, exclusive = round % 4 > 1;
        draw_number(&seed, integer, low);
        draw_number(&seed, integer, high);
        assert_true(mr_decimal_read(&min, text_of(low)) && mr_decimal_read(&max, text_of(high)));
        if (mr_decimal_compare(&min, &max) >= 0) continue;
        snprintf(schema, sizeof schema, "{\"type\":\"%s\",\"%s\":%s,\"%s\":%s}",
                 integer ? "integer" : "number", exclusive ? "exclusiveMinimum" : "minimum", low,
                 exclusive ? "exclusiveMaximum" : "maximum", high);
        struct mr_grammar *grammar;
        const struct mr_constraint constraint = {MR_CONSTRAINT_JSON_SCHEMA, text_of(schema), false};
        struct mr_error err;
        enum mr_status status = mr_constraint_compile(&grammar, &constraint, NULL, &err);
        if (status != MR_OK && integer && exclusive) continue; /* nothing between n and n + 1 */
        if (status != MR_OK) fail_msg("%s: %s", schema, err.detail);
        for (unsigned i = 0; i < 20; i++) {
            char text[64];
            if (i < 2)
                snprintf(text, sizeof text, "%s", i ? low : high);
            else
                draw_number(&seed, integer, text);
            assert_true(mr_decimal_read(&number, text_of(text)));
            if (mr_decimal_is_zero(&number) && text[0] == '-') continue;
            int below = mr_decimal_compare(&number, &min),
                above = mr_decimal_compare(&number, &max);
            bool fits = exclusive ? below > 0 && above < 0 : below >= 0 && above <= 0;
            if (matches(grammar, text) != fits) fail_msg("%s and %s", schema, text);
            inside += fits;
            outside += !fits;
        }
        mr_grammar_drop(grammar);
    }
    assert_true(inside > 300 && outside > 300);
}

static void constants_are_written_out(void **state)
{
    (void)state;
    SCHEMA("{\"enum\":[1,\"a\\\"\",null,[1,{\"x\":2.5}],true]}",
           LIST("1", "\"a\\\"\"", "null", "[1,{\"x\":2.5}]", "[1, {\"x\": 2.5}]", "true"),
           LIST("2", "\"a\"", "false", "[1]"));
    SCHEMA("{\"type\":\"string\",\"enum\":[\"ab\",\"abc\",1],\"maxLength\":2}", LIST("\"ab\""),
           LIST("\"abc\"", "1"));
    SCHEMA("{\"enum\":[1,5,9],\"minimum\":4,\"allOf\":[{\"enum\":[5,7]}]}", LIST("5"),
           LIST("9", "1"));
    SCHEMA("{\"const\":\"a\\u0001\"}", LIST("\"a\\u0001\""), LIST("\"a\""));
}

static void alternatives_and_conjunctions_combine(void **state)
{
    (void)state;
    SCHEMA("{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"string\",\"maxLength\":1}]}",
           LIST("12", "\"a\""), LIST("\"ab\"", "null"));
    SCHEMA("{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":"
           "\"integer\"}},\"anyOf\":[{\"required\":[\"a\"]},{\"required\":[\"b\"]}]}",
           LIST("{\"a\":1}", "{\"b\":1}", "{\"a\":1,\"b\":2}"), LIST("{}"));
    SCHEMA("{\"allOf\":[{\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\"]},"
           "{\"properties\":{\"a\":{\"minimum\":5},\"b\":{}},\"required\":[\"b\"]}]}",
           LIST("{\"a\":5,\"b\":[]}"), LIST("{\"a\":4,\"b\":1}", "{\"a\":5}"));
    SCHEMA("{\"oneOf\":[{\"type\":\"object\",\"properties\":{\"k\":{\"const\":\"x\"}},\"required\":"
           "[\"k\"]},{\"type\":\"object\",\"properties\":{\"k\":{\"const\":\"y\"}},\"required\":"
           "[\"k\"]},{\"type\":\"null\"}]}",
           LIST("{\"k\":\"x\"}", "{\"k\":\"y\"}", "null"), LIST("{\"k\":\"z\"}", "{}"));
    SCHEMA("{\"oneOf\":[{\"minLength\":2},{\"maxLength\":3}]}", LIST("\"a\"", "\"abcd\""),
           LIST("\"ab\"", "\"abc\"", "1"));
}

/* Both the target of a reference and its sibling keywords may exclude the other alternatives. */
static void one_of_looks_through_references(void **state)
{
    (void)state;
    SCHEMA("{\"oneOf\":[{\"$ref\":\"#/$defs/s\",\"description\":\"x\"},{\"$ref\":\"#/$defs/i\","
           "\"title\":\"y\"}],\"$defs\":{\"s\":{\"$ref\":\"#/$defs/t\"},\"t\":{\"type\":\"string\","
           "\"maxLength\":1},\"i\":{\"type\":\"integer\"}}}",
           LIST("\"a\"", "7"), LIST("1.5", "null"));
    SCHEMA("{\"oneOf\":[{\"$ref\":\"#/$defs/o\",\"properties\":{\"k\":{\"const\":1}},\"required\":"
           "[\"k\"]},{\"$ref\":\"#/$defs/o\",\"properties\":{\"k\":{\"const\":2}},\"required\":"
           "[\"k\"]}],\"$defs\":{\"o\":{\"type\":\"object\"}}}",
           LIST("{\"k\":1}", "{\"k\":2}"), LIST("{\"k\":3}", "{}"));
    REFUSED("{\"oneOf\":[{\"$ref\":\"#/$defs/a\",\"title\":\"x\"},{\"type\":\"string\"}],\"$defs\":"
            "{\"a\":{\"$ref\":\"#/$defs/a\"}}}",
            MR_INVALID_REQUEST, "#/$defs/a: refers to itself");
}

/* What generators write for a union: the tag has a default, so it is not required. */
static void tags_with_a_default_are_written(void **state)
{
    (void)state;
    SCHEMA("{\"oneOf\":[{\"$ref\":\"#/$defs/A\"},{\"$ref\":\"#/$defs/B\"}],\"discriminator\":{"
           "\"propertyName\":\"kind\"},\"$defs\":{\"A\":{\"type\":\"object\",\"properties\":{"
           "\"kind\":{"
           "\"const\":\"a\",\"default\":\"a\"},\"x\":{\"type\":\"integer\"}},\"required\":[\"x\"]},"
           "\"B\":{"
           "\"type\":\"object\",\"properties\":{\"kind\":{\"const\":\"b\",\"default\":\"b\"},\"x\":"
           "{\"type\":"
           "\"integer\"}},\"required\":[\"x\"]}}}",
           LIST("{\"kind\":\"a\",\"x\":1}", "{\"kind\":\"b\",\"x\":1}"),
           LIST("{\"x\":1}", "{\"kind\":\"c\",\"x\":1}"));
}

static void names_of_properties_have_conditions(void **state)
{
    (void)state;
    SCHEMA("{\"type\":\"object\",\"propertyNames\":{\"type\":\"string\"},\"additionalProperties\":{"
           "\"type\":\"number\"}}",
           LIST("{}", "{\"a\":1,\"b\":2.5}"), LIST("{\"a\":\"x\"}"));
    SCHEMA(
        "{\"propertyNames\":{\"pattern\":\"^[a-c]+$\",\"maxLength\":2},\"properties\":{\"ab\":{},"
        "\"xy\":{}},\"additionalProperties\":{\"type\":\"integer\"}}",
        LIST("{\"ab\":null,\"c\":1}", "{}"),
        LIST("{\"xy\":1}", "{\"abc\":1}", "{\"d\":1}", "{\"c\":null}"));
    SCHEMA("{\"propertyNames\":{\"enum\":[\"red\",\"blue\"]},\"additionalProperties\":{\"type\":"
           "\"integer\"}}",
           LIST("{\"red\":1}", "{\"blue\":1}"), LIST("{\"green\":1}"));
    SCHEMA("{\"patternProperties\":{\"^n_\":{\"type\":\"integer\"},\"^s_\":{\"type\":\"string\"}},"
           "\"properties\":{\"n_a\":{\"minimum\":5}},\"additionalProperties\":false}",
           LIST("{}", "{\"n_a\":5}", "{\"n_a\":6,\"n_b\":1,\"s_x\":\"\"}"),
           LIST("{\"n_a\":4}", "{\"n_a\":\"x\"}", "{\"n_b\":\"\"}", "{\"z\":1}"));
    SCHEMA(
        "{\"patternProperties\":{\"a\":{\"type\":\"integer\"}},\"additionalProperties\":{\"type\":"
        "\"null\"}}",
        LIST("{\"xax\":1,\"b\":null}"), LIST("{\"xax\":null}", "{\"b\":1}"));
}

static void conditions_choose_between_schemas(void **state)
{
    (void)state;
    SCHEMA("{\"type\":\"object\",\"properties\":{\"k\":{\"enum\":[\"a\",\"b\"]},\"v\":{}},"
           "\"required\":["
           "\"k\",\"v\"],\"if\":{\"properties\":{\"k\":{\"const\":\"a\"}}},\"then\":{"
           "\"properties\":{\"v\":{"
           "\"type\":\"integer\"}}},\"else\":{\"properties\":{\"v\":{\"type\":\"null\"}}}}",
           LIST("{\"k\":\"a\",\"v\":1}", "{\"k\":\"b\",\"v\":null}"),
           LIST("{\"k\":\"a\",\"v\":null}", "{\"k\":\"b\",\"v\":1}"));
    SCHEMA("{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{}},\"dependentRequired\":{\"a\":["
           "\"b\"]}}",
           LIST("{}", "{\"b\":1}", "{\"a\":1,\"b\":1}"), LIST("{\"a\":1}"));
    SCHEMA("{\"type\":\"object\",\"properties\":{\"a\":{}},\"dependentSchemas\":{\"a\":{"
           "\"properties\":{"
           "\"b\":{\"type\":\"integer\"}},\"required\":[\"b\"]}}}",
           LIST("{}", "{\"a\":1,\"b\":1}"), LIST("{\"a\":1}", "{\"a\":1,\"b\":null}"));
}

static void what_a_negated_schema_allows_is_left_out(void **state)
{
    (void)state;
    SCHEMA("{\"type\":[\"string\",\"null\"],\"not\":{\"type\":\"string\",\"pattern\":\"^a\"}}",
           LIST("\"b\"", "\"\"", "null"), LIST("\"a\"", "\"ab\""));
    SCHEMA("{\"type\":\"string\",\"not\":{\"enum\":[\"x\",\"yy\"]}}", LIST("\"y\"", "\"xx\""),
           LIST("\"x\"", "\"yy\""));
    SCHEMA("{\"type\":\"integer\",\"not\":{\"const\":0},\"minimum\":-1,\"maximum\":1}",
           LIST("1", "-1"), LIST("0"));
    SCHEMA("{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{}},\"not\":{\"required\":[\"a\","
           "\"b\"]}"
           "}",
           LIST("{}", "{\"a\":1}", "{\"b\":1}"), LIST("{\"a\":1,\"b\":1}"));
    SCHEMA("{\"type\":\"array\",\"not\":{\"contains\":{\"type\":\"null\"}},\"maxItems\":2}",
           LIST("[]", "[1]", "[1,true]"), LIST("[null]", "[1,null]"));
    SCHEMA("{\"type\":[\"boolean\",\"null\"],\"not\":{\"const\":true}}", LIST("false", "null"),
           LIST("true"));
    REFUSED("{\"type\":\"object\",\"not\":{\"uniqueItems\":true}}", MR_UNSUPPORTED,
            "#/not/uniqueItems");
}

static void arrays_have_items_that_are_different_or_contained(void **state)
{
    (void)state;
    SCHEMA("{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"enum\":[\"a\",\"b\",\"c\"]},"
           "\"minItems\":1,\"maxItems\":2}",
           LIST("[\"a\"]", "[\"c\"]", "[\"a\",\"c\"]", "[\"b\",\"c\"]"),
           LIST("[]", "[\"a\",\"a\"]", "[\"a\",\"b\",\"c\"]", "[\"d\"]"));
    SCHEMA("{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"anyOf\":[{\"const\":1},{"
           "\"const\":1.0},{"
           "\"const\":\"x\"},{\"type\":\"null\"}]}}",
           LIST("[]", "[1,\"x\",null]"), LIST("[1,1.0]", "[1,1]", "[null,null]"));
    SCHEMA("{\"contains\":{\"const\":7},\"items\":{\"type\":\"integer\"},\"minContains\":2,"
           "\"maxContains\":2}",
           LIST("[7,7]", "[7,7,8]"), LIST("[]", "[7]", "[7,7,7]", "[7,7,null]"));
    SCHEMA("{\"items\":[{\"type\":\"string\"},{\"type\":\"integer\"}],\"additionalItems\":false,"
           "\"minItems\":2}",
           LIST("[\"a\",1]"), LIST("[\"a\"]", "[\"a\",1,1]", "[1,1]"));
    SCHEMA("{\"prefixItems\":[{\"type\":\"string\"}],\"unevaluatedItems\":{\"type\":\"null\"},"
           "\"minItems\":2}",
           LIST("[\"a\",null]"), LIST("[\"a\",1]"));
}

static void objects_have_their_number_of_properties(void **state)
{
    (void)state;
    SCHEMA("{\"properties\":{\"a\":{\"const\":1},\"b\":{\"const\":1},\"c\":{\"const\":1}},"
           "\"minProperties\":1,\"maxProperties\":2}",
           LIST("{\"a\":1}", "{\"b\":1,\"c\":1}"), LIST("{}", "{\"a\":1,\"b\":1,\"c\":1}"));
    SCHEMA("{\"properties\":{\"a\":{},\"b\":{},\"c\":{}},\"required\":[\"b\"],\"minProperties\":2}",
           LIST("{\"a\":1,\"b\":1}", "{\"b\":1,\"c\":1}"), LIST("{\"b\":1}", "{\"a\":1,\"c\":1}"));
    SCHEMA("{\"type\":\"object\",\"properties\":{}}", LIST("{}"), LIST("{\"a\":1}"));
}

static void references_have_anchors_and_ids(void **state)
{
    (void)state;
    SCHEMA("{\"$ref\":\"#n\",\"$defs\":{\"x\":{\"$anchor\":\"n\",\"type\":\"null\"}}}",
           LIST("null"), LIST("1"));
    SCHEMA(
        "{\"items\":{\"$dynamicRef\":\"#n\"},\"$defs\":{\"x\":{\"$dynamicAnchor\":\"n\",\"type\":"
        "\"null\"}}}",
        LIST("[null]"), LIST("[1]"));
    SCHEMA("{\"type\":\"object\",\"id\":\"urn:x:Node\",\"properties\":{\"v\":{\"type\":\"integer\","
           "\"required\":true},\"next\":{\"$ref\":\"urn:x:Node\"}}}",
           LIST("{\"v\":1}", "{\"v\":1,\"next\":{\"v\":2}}"), LIST("{}", "{\"v\":1,\"next\":{}}"));
    REFUSED("{\"$ref\":\"#n\",\"$defs\":{\"x\":{\"$anchor\":\"n\"},\"y\":{\"$anchor\":\"n\"}}}",
            MR_UNSUPPORTED, "#/$ref: must lead to one schema");
    SCHEMA("{\"properties\":{\"a\":{\"$id\":\"http://x/a\",\"type\":\"array\",\"items\":{\"$ref\":"
           "\"#\"}}},\"required\":[\"a\"]}",
           LIST("{\"a\":[[]]}"), LIST("{\"a\":[{\"a\":[]}]}"));
    SCHEMA("{\"$id\":\"T0\",\"type\":\"array\",\"items\":{\"$ref\":\"T0\"}}", LIST("[]", "[[],[]]"),
           LIST("[1]"));
    SCHEMA("{\"type\":\"string\",\"format\":\"uri\",\"minLength\":1,\"maxLength\":2083}",
           LIST("\"https://example.org/a/path?with=parts\""), LIST("\"x\""));
    SCHEMA("{\"$ref\":\"item.json\",\"$defs\":{\"x\":{\"$id\":\"item.json\",\"type\":\"null\"}}}",
           LIST("null"), LIST("1"));
    SCHEMA(
        "{\"$id\":\"http://h/d/root.json\",\"prefixItems\":[{\"$ref\":\"./x/../b.json\"},{\"$ref\":"
        "\"/c\"},{\"$ref\":\"sub/"
        "e#n\"}],\"items\":false,\"minItems\":3,\"type\":\"array\",\"$defs\":{"
        "\"b\":{\"$id\":\"b.json\",\"const\":1},\"c\":{\"$id\":\"//h/c\",\"const\":2},"
        "\"s\":{\"$id\":\"sub/"
        "\",\"$defs\":{\"e\":{\"$id\":\"e\",\"$defs\":{\"f\":{\"$anchor\":\"n\","
        "\"const\":3}}}}}}}",
        LIST("[1,2,3]"), LIST("[2,1,3]", "[1,2,1]"));
    /* no schema stands below an unknown keyword, so its $id names nothing */
    REFUSED("{\"$ref\":\"item.json\",\"x\":{\"$id\":\"item.json\"}}", MR_UNSUPPORTED, "#/$ref");
    REFUSED("{\"$ref\":\"a\",\"$defs\":{\"x\":{\"$id\":\"a\"},\"y\":{\"$id\":\"a\"}}}",
            MR_UNSUPPORTED, "#/$ref");
}

/* A list whose items are what the schemas around it say: the outermost anchor holds. */
static void dynamic_references_depend_on_what_was_entered(void **state)
{
    (void)state;
#define LISTS                                                                                      \
    "\"list\":{\"$id\":\"list\",\"type\":\"array\",\"items\":{\"$dynamicRef\":\"#item\"},\"$"      \
    "defs\":{"                                                                                     \
    "\"any\":{\"$dynamicAnchor\":\"item\",\"type\":\"null\"}}}"
#define OF(name, type)                                                                             \
    "\"" name "\":{\"$id\":\"" name                                                                \
    "\",\"$ref\":\"list\",\"$defs\":{\"i\":{\"$dynamicAnchor\":\"item\","                          \
    "\"type\":\"" type "\"}}}"
    SCHEMA("{\"$id\":\"http://h/r\",\"prefixItems\":[{\"$ref\":\"numbers\"},{\"$ref\":\"texts\"},{"
           "\"$ref\":\"list\"}],\"items\":false,\"minItems\":3,\"type\":\"array\",\"$defs\":{" LISTS
           "," OF("numbers", "integer") "," OF("texts", "string") "}}",
           LIST("[[1],[\"a\"],[null]]", "[[],[],[]]"),
           LIST("[[\"a\"],[\"a\"],[null]]", "[[1],[1],[null]]", "[[1],[\"a\"],[1]]"));
    REFUSED(
        "{\"$id\":\"http://h/r\",\"$ref\":\"list\",\"$defs\":{\"i\":{\"$dynamicAnchor\":\"item\","
        "\"properties\":{\"a\":{\"uniqueItems\":true}}}," LISTS "}}",
        MR_UNSUPPORTED, "#/$defs/i/properties/a/uniqueItems");
}

static void references_may_recurse(void **state)
{
    (void)state;
    SCHEMA("{\"$ref\":\"#/$defs/a~1b\",\"$defs\":{\"a/b\":{\"type\":\"array\",\"items\":{\"$ref\":"
           "\"#/$defs/a~1b\"}}}}",
           LIST("[]", "[[],[[]]]"), LIST("[1]", "[[]"));
    SCHEMA(
        "{\"properties\":{\"n\":{\"anyOf\":[{\"$ref\":\"#\"},{\"type\":\"null\"}]}},\"required\":"
        "[\"n\"]}",
        LIST("{\"n\":null}", "{\"n\":{\"n\":null}}"), LIST("{}", "null"));
    REFUSED("{\"$ref\":\"#\"}", MR_INVALID_REQUEST, "itself");
    REFUSED("{\"$defs\":{\"a\":{\"anyOf\":[{\"$ref\":\"#/$defs/a\"}]}},\"$ref\":\"#/$defs/a\"}",
            MR_INVALID_REQUEST, "itself");
    REFUSED("{\"$ref\":\"http://x/y\"}", MR_UNSUPPORTED, "#/$ref");
    REFUSED("{\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}", MR_INVALID_REQUEST,
            "no text");
}

static void formats_are_languages(void **state)
{
    (void)state;
#define FORMAT(name) "{\"type\":\"string\",\"format\":\"" name "\"}"
    SCHEMA(FORMAT("date"), LIST("\"2024-02-29\"", "\"1999-12-31\"", "\"2000-02-29\""),
           LIST("\"2023-02-29\"", "\"1900-02-29\"", "\"0000-01-01\"", "\"2024-04-31\"",
                "\"2024-13-01\""));
    SCHEMA(FORMAT("date-time"), LIST("\"2024-01-01T23:59:59.5Z\"", "\"2024-01-01T00:00:00+05:30\""),
           LIST("\"2024-01-01\"", "\"2024-01-01T24:00:00Z\"", "\"2024-01-01T00:00:00\""));
    SCHEMA(FORMAT("uuid"), LIST("\"123e4567-E89b-12d3-a456-426614174000\""), LIST("\"123e4567\""));
    SCHEMA(FORMAT("ipv4"), LIST("\"255.0.10.199\""),
           LIST("\"256.0.0.1\"", "\"1.2.3\"", "\"01.2.3.4\""));
    SCHEMA(FORMAT("email"), LIST("\"a.b@example.org\""),
           LIST("\"a@b\"", "\"@x.org\"", "\"a..b@x.org\""));
    SCHEMA(FORMAT("uri"), LIST("\"https://example.org/a?b=c#d\""),
           LIST("\"example\"", "\"a b://c\""));
    SCHEMA(FORMAT("time"), LIST("\"10:20:30Z\""), LIST("\"10:20\"", "\"25:00:00Z\""));
    SCHEMA(FORMAT("iri"), LIST("\"https://example.org/a\""), LIST("\"example\""));
    SCHEMA(FORMAT("phone"), LIST("\"any\""), LIST("1"));
    struct mr_grammar *grammar =
        compile(MR_CONSTRAINT_JSON_SCHEMA, "{\"properties\":{\"p\":" FORMAT("phone") "}}");
    assert_non_null(strstr(grammar->warning, "#/properties/p/format"));
    mr_grammar_drop(grammar);
}

static void what_cannot_be_guaranteed_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *source, *why;
        enum mr_status status;
    } cases[] = {
        {"{\"not\":{}}", "no text", MR_INVALID_REQUEST},
        {"{\"type\":\"array\",\"uniqueItems\":true}", "#/uniqueItems", MR_UNSUPPORTED},
        {"{\"multipleOf\":0.123456789}", "#/multipleOf", MR_UNSUPPORTED},
        {"{\"additionalProperties\":{},\"minProperties\":3}", "minProperties", MR_UNSUPPORTED},
        {"{\"type\":\"integer\",\"minimum\":5,\"maximum\":4}", "no text", MR_INVALID_REQUEST},
        {"{\"minLength\":-1}", "#/minLength", MR_INVALID_REQUEST},
        {"{\"properties\":{\"a\":3}}", "#/properties/a", MR_INVALID_REQUEST},
        {"{\"properties\":{\"a\":{\"pattern\":\"(?<=a)\"}}}", "#/properties/a/pattern: at byte 2",
         MR_UNSUPPORTED},
        {"{\"enum\":[]}", "#/enum", MR_INVALID_REQUEST},
        {"[1]", "object", MR_INVALID_REQUEST},
        {"nonsense", "schema", MR_INVALID_REQUEST},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        REFUSED(cases[i].source, cases[i].status, cases[i].why);
}

static void unevaluated_properties_are_left_out(void **state)
{
    (void)state;
    SCHEMA("{\"allOf\":[{\"properties\":{\"a\":{\"type\":\"integer\"}}}],\"properties\":{\"b\":{"
           "\"type\":\"null\"}},\"unevaluatedProperties\":false}",
           LIST("{\"b\":null,\"a\":1}"), LIST("{\"c\":1}"));
    REFUSED("{\"unevaluatedProperties\":false,\"required\":[\"x\"]}", MR_INVALID_REQUEST,
            "no text");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_choose_values),
        cmocka_unit_test(properties_come_in_order),
        cmocka_unit_test(additional_properties_have_other_names),
        cmocka_unit_test(arrays_have_their_length),
        cmocka_unit_test(strings_have_their_length_in_characters),
        cmocka_unit_test(numbers_keep_their_bounds),
        cmocka_unit_test(numbers_are_exact),
        cmocka_unit_test(random_bounds_hold_for_random_numbers),
        cmocka_unit_test(constants_are_written_out),
        cmocka_unit_test(alternatives_and_conjunctions_combine),
        cmocka_unit_test(one_of_looks_through_references),
        cmocka_unit_test(tags_with_a_default_are_written),
        cmocka_unit_test(names_of_properties_have_conditions),
        cmocka_unit_test(conditions_choose_between_schemas),
        cmocka_unit_test(what_a_negated_schema_allows_is_left_out),
        cmocka_unit_test(arrays_have_items_that_are_different_or_contained),
        cmocka_unit_test(objects_have_their_number_of_properties),
        cmocka_unit_test(references_have_anchors_and_ids),
        cmocka_unit_test(dynamic_references_depend_on_what_was_entered),
        cmocka_unit_test(references_may_recurse),
        cmocka_unit_test(formats_are_languages),
        cmocka_unit_test(what_cannot_be_guaranteed_is_refused),
        cmocka_unit_test(unevaluated_properties_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
