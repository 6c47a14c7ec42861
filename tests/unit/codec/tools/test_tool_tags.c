/* Calls as Qwen3-Coder writes them, and hostile texts of that kind, whose work and memory are
 * counted. */
#include "tool_texts.h"

/* An answer that was read, and its text outside the calls. */
struct reading {
    struct mr_tool_calls found;
    struct mr_arena *arena;
    char *rest;
    size_t rest_length;
};

static void read_pieces(struct reading *reading, struct mr_text text, size_t step)
{
    struct mr_tool_calls *found = &reading->found;
    struct mr_error err;
    size_t at = 0;
    found->format = MR_TOOLS_QWEN_CODER;
    if (found->count_max == 0) found->count_max = MR_TOOL_CALLS_MAX;
    found->arena = reading->arena = mr_arena_create(16 << 20);
    for (size_t length = step; length < text.length; length += step)
        assert_int_equal(mr_tool_calls_find(found, mr_text_part(text, 0, length), false, &err),
                         MR_OK);
    assert_int_equal(mr_tool_calls_find(found, text, true, &err), MR_OK);
    assert_int_equal(found->from, text.length);
    reading->rest = malloc(text.length + 1);
    reading->rest_length = 0;
    for (size_t i = 0; i <= found->place_count; i++) {
        size_t end = i < found->place_count ? found->places[i].start : text.length;
        memcpy(reading->rest + reading->rest_length, text.bytes + at, end - at);
        reading->rest_length += end - at;
        if (i < found->place_count) at = found->places[i].end;
    }
}

static void drop(struct reading *reading)
{
    mr_arena_destroy(reading->arena);
    free(reading->rest);
}

/* Reads the text whole and in pieces, and asserts the number of calls and the remaining text. rest
 * NULL: the whole text. */
static void assert_read(struct mr_text text, size_t count_max, size_t count, const char *rest)
{
    static const size_t steps[] = {SIZE_MAX / 2, 1, 2, 3, 7, 64};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        struct reading reading = {.found = {.count_max = count_max}};
        struct mr_text wanted = rest ? (struct mr_text){rest, strlen(rest)} : text;
        read_pieces(&reading, text, steps[i]);
        struct mr_text left = {reading.rest, reading.rest_length};
        if (reading.found.count != count)
            fail_msg("%zu calls, not %zu in %.200s", reading.found.count, count, text.bytes);
        if (!mr_text_equal(left, wanted))
            fail_msg("'%.*s' is left of %.200s", (int)left.length, left.bytes, text.bytes);
        drop(&reading);
    }
}

static void values_get_the_types_of_the_tool(void **state)
{
    (void)state;
    static const struct mr_tool_parameter parameters[] = {
        {{"f", 1}, {"nt", 2}, MR_TOOL_TEXT_OR_NULL},
        {{"f", 1}, {"i", 1}, MR_TOOL_INTEGER},
        {{"f", 1}, {"n", 1}, MR_TOOL_NUMBER},
        {{"f", 1}, {"b", 1}, MR_TOOL_BOOL},
        {{"f", 1}, {"j", 1}, MR_TOOL_JSON},
        {{"g", 1}, {"t", 1}, MR_TOOL_JSON},
        {{"f", 1}, {"oa", 2}, MR_TOOL_OBJECT_OR_ARRAY}};
    static const struct {
        const char *key, *value, *json;
    } cases[] = {
        {"t", "\n7\n", "\"7\""},
        {"t", "\n\nif (a < b) {\n  \"x\" </b>\n}\n\n",
         "\"\\nif (a < b) {\\n  \\\"x\\\" </b>\\n}\\n\""},
        {"t", "null", "\"null\""},
        {"t", "", "\"\""},
        {"t", "\n", "\"\""},
        {"t", "\x01\xff", "\"\\u0001\xef\xbf\xbd\""},
        {"nt", "\nNULL\n", "null"},
        {"nt", "None", "null"},
        {"nt", "\nnull value\n", "\"null value\""},
        {"i", "\n-7\n", "-7"},
        {"i", " 7 ", "7"},
        {"i", "7.5", "\"7.5\""},
        {"i", "seven", "\"seven\""},
        {"i", "99999999999999999999", "\"99999999999999999999\""},
        {"i", "null", "null"},
        {"n", "7.5", "7.5"},
        {"n", "7", "7"},
        {"n", "1e5", "1e5"},
        {"n", "7, 8", "\"7, 8\""},
        {"n", "1], [2", "\"1], [2\""},
        {"b", "True", "true"},
        {"b", "\nfalse\n", "false"},
        {"b", "yes", "\"yes\""},
        {"b", "None", "null"},
        {"j", "\n{\"a\": [1, \"</x>\"]}\n", "{\"a\": [1, \"</x>\"]}"},
        {"j", "[]", "[]"},
        {"j", "\"a\"", "\"a\""},
        {"j", "{a}", "\"{a}\""},
        {"j", "{\"a\": 1, \"a\": 2}", "\"{\\\"a\\\": 1, \\\"a\\\": 2}\""},
        {"j", "", "\"\""},
        {"oa", "\n{\"a\": 1}\n", "{\"a\": 1}"},
        {"oa", "[1]", "[1]"},
        {"oa", "[1", "\"[1\""},
        {"oa", "7", "\"7\""},
        {"oa", "none", "\"none\""},
        {"oa", "null", "\"null\""},
        {"other", "7", "\"7\""},
    };
    struct mr_tool_types *types;
    struct mr_error err;
    assert_int_equal(mr_tool_types_create(&types, parameters, 7, &err), MR_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct reading reading = {.found = {.types = types}};
        char text[256], want[256];
        snprintf(text, sizeof text, "<function=f><parameter=%s>%s</parameter></function>",
                 cases[i].key, cases[i].value);
        snprintf(want, sizeof want, "{\"%s\":%s}", cases[i].key, cases[i].json);
        read_pieces(&reading, (struct mr_text){text, strlen(text)}, 1 + i % 5);
        assert_int_equal(reading.found.count, 1);
        if (!mr_text_is(reading.found.calls[0].arguments, want))
            fail_msg("%.*s, not %s", (int)reading.found.calls[0].arguments.length,
                     reading.found.calls[0].arguments.bytes, want);
        drop(&reading);
    }
    free(types);
}

static void tags_may_be_left_out_where_the_call_is_clear(void **state)
{
    (void)state;
    static const struct {
        const char *text, *rest;
        size_t count;
    } cases[] = {
        {"So:\n<function=f>\n</function>\n</tool_call>\nDone", "So:\n\nDone", 1},
        {"<tool_call><function=f><parameter=a>1<parameter=b>2</function></tool_call>", "", 1},
        {"<tool_call><function=f></function><function=g></function></tool_call>", "", 2},
        {"<tool_call><function=f></function> so <tool_call><function=g></function>", " so ", 2},
        {"<function=f><parameter=a>1</parameter><parameter=a>2</parameter></function>", "", 1},
        {"<tool_call> is a tag, <function=f></function>", "<tool_call> is a tag, ", 1},
        {"<tool_call><tool_call><function=f></function>", "<tool_call>", 1},
        {"<function=NAME x> as <function=f></function>", "<function=NAME x> as ", 1},
        {"<function=f> <function=f></function>", "<function=f> ", 1},
        {"a </tool_call> b", "a </tool_call> b", 0},
        {"<function=f></function> a </tool_call>", " a </tool_call>", 1},
        {"<function=f></function> \n <tool_cal", " \n <tool_cal", 1},
        {"<function=f></function></tool_call></tool_call>", "</tool_call>", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_read((struct mr_text){cases[i].text, strlen(cases[i].text)}, 0, cases[i].count,
                    cases[i].rest);
}

/* The calls of a reading, as name, arguments and a space each. */
static struct mr_text calls_of(const struct reading *reading, char *out, size_t room)
{
    size_t length = 0;
    out[0] = '\0';
    for (size_t i = 0; i < reading->found.count; i++) {
        const struct mr_tool_call *call = &reading->found.calls[i];
        length += (size_t)snprintf(out + length, room - length, "%s%.*s%.*s", i > 0 ? " " : "",
                                   (int)call->name.length, call->name.bytes,
                                   (int)call->arguments.length, call->arguments.bytes);
    }
    return (struct mr_text){out, length};
}

/* Asserts the same calls and remaining text whether the text is read whole or byte by byte, also
 * when it is cut off after any byte. */
static void assert_cut_anywhere(struct mr_text text)
{
    for (size_t length = 1; length <= text.length; length++) {
        struct reading whole = {.found = {.count_max = 0}}, bytes = {.found = {.count_max = 0}};
        char wanted[1024], got[1024];
        read_pieces(&whole, mr_text_part(text, 0, length), SIZE_MAX / 2);
        read_pieces(&bytes, mr_text_part(text, 0, length), 1);
        if (!mr_text_equal(calls_of(&whole, wanted, sizeof wanted),
                           calls_of(&bytes, got, sizeof got)) ||
            !mr_text_equal((struct mr_text){whole.rest, whole.rest_length},
                           (struct mr_text){bytes.rest, bytes.rest_length}))
            fail_msg("pieces differ from %.*s", (int)length, text.bytes);
        drop(&whole);
        drop(&bytes);
    }
}

struct answer {
    const char *text, *calls, *rest;
};

static void assert_answers(const struct answer *answers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct mr_text text = {answers[i].text, strlen(answers[i].text)};
        struct reading reading = {.found = {.count_max = 0}};
        char calls[1024];
        read_pieces(&reading, text, SIZE_MAX / 2);
        if (!mr_text_is(calls_of(&reading, calls, sizeof calls), answers[i].calls))
            fail_msg("%s\nhas the calls\n%.1000s\nnot\n%s", text.bytes, calls, answers[i].calls);
        if (!mr_text_is((struct mr_text){reading.rest, reading.rest_length}, answers[i].rest))
            fail_msg("%s\nleaves\n%.*s", text.bytes, (int)reading.rest_length, reading.rest);
        drop(&reading);
        assert_cut_anywhere(text);
    }
}

#define ASSERT_ANSWERS(answers) assert_answers(answers, sizeof answers / sizeof answers[0])

static void tags_within_a_value_are_part_of_it(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"<tool_call>\n<function=f>\n<parameter=a>\n<para>See <function>strlen</function> and "
         "<function>memcpy</function></para>\n</parameter>\n</function>\n</tool_call>",
         "f{\"a\":\"<para>See <function>strlen</function> and "
         "<function>memcpy</function></para>\"}",
         ""},
        {"<function=f>\n<parameter=a>\nre.search('<parameter=([^>]+)>', s)\n</parameter>\n"
         "</function>",
         "f{\"a\":\"re.search('<parameter=([^>]+)>', s)\"}", ""},
        {"<function=f><parameter=a>x = '</parameter>'\n</parameter></function>",
         "f{\"a\":\"x = '</parameter>'\"}", ""},
        {"<function=f><parameter=a>\n1\n</parameter>\n</parameter>\n</function>",
         "f{\"a\":\"1\\n</parameter>\"}", ""},
        {"<function=f><parameter=a>1</parameter> <parameter=\n<parameter=b>2</parameter>"
         "</function>",
         "f{\"a\":\"1</parameter> <parameter=\",\"b\":\"2\"}", ""},
        {"<function=f><parameter=a>1\n<parameter=>\n</parameter></function>",
         "f{\"a\":\"1\\n<parameter=>\"}", ""},
        {"<function=f><parameter=a>1</parameter><parameter=a>2</parameter> or so\n</parameter>"
         "</function>",
         "f{\"a\":\"2</parameter> or so\"}", ""},
        {"<tool_call><function=f><parameter=a>\n</tool_call> ends it\n</parameter></function>"
         "</tool_call>",
         "f{\"a\":\"</tool_call> ends it\"}", ""},
        {"<function=f><parameter=a>\n<tool_call>\n{}\n</parameter></function>",
         "f{\"a\":\"<tool_call>\\n{}\"}", ""},
    };
    ASSERT_ANSWERS(answers);
}

static void a_value_without_its_end_ends_at_a_tag_of_the_call(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"<function=f>\n<parameter=a>\n1\n<parameter=b>\n2\n</function>",
         "f{\"a\":\"1\",\"b\":\"2\"}", ""},
        {"<function=f><parameter=a><parameter=b>2</function>  \n", "f{\"a\":\"\",\"b\":\"2\"}",
         "  \n"},
        {"<function=f><parameter=a>1</function>\n</tool_call>\nDone", "f{\"a\":\"1\"}", "\nDone"},
        {"<function=f><parameter=a>1</function>\n<function=g></function>", "f{\"a\":\"1\"} g{}",
         "\n"},
        {"<function=f><parameter=a>1</function>\n<tool_call>\n", "f{\"a\":\"1\"}",
         "\n<tool_call>\n"},
        {"<function=f><parameter=a>1</function> Done", "",
         "<function=f><parameter=a>1</function> Done"},
    };
    ASSERT_ANSWERS(answers);
}

static void the_group_of_a_call_ends_its_values(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"<tool_call><function=f><parameter=a>1\n</tool_call>\n<tool_call>\n<function=g>"
         "<parameter=b>2</parameter></function></tool_call>",
         "f{\"a\":\"1\"} g{\"b\":\"2\"}", "\n"},
        {"<tool_call><function=f><parameter=a>1\n</tool_call> \n", "f{\"a\":\"1\"}", " \n"},
        {"<tool_call><function=f><parameter=a>1\n</tool_call>\nDone", "",
         "<tool_call><function=f><parameter=a>1\n</tool_call>\nDone"},
        {"<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</tool_call>\nDone",
         "f{\"a\":\"1\"}", "\nDone"},
        {"<tool_call>\n<function=f>\n</tool_call></tool_call>", "f{}", "</tool_call>"},
        {"<function=f>\n<parameter=a>\n1\n</parameter>\n</tool_call>", "",
         "<function=f>\n<parameter=a>\n1\n</parameter>\n</tool_call>"},
    };
    ASSERT_ANSWERS(answers);
}

static void a_group_ends_a_call_without_one(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"I use <function=g><parameter=k> now.\n<tool_call>\n<function=f>\n<parameter=a>\n1\n"
         "</parameter>\n</function>\n</tool_call>",
         "f{\"a\":\"1\"}", "I use <function=g><parameter=k> now.\n"},
        {"<function=g><parameter=k>1</parameter>\n<tool_call><function=f></function></tool_call>",
         "f{}", "<function=g><parameter=k>1</parameter>\n"},
        {"<tool_call><function=g><parameter=k>\n<tool_call>\n<function=f>\n</parameter>"
         "</function></tool_call>",
         "g{\"k\":\"<tool_call>\\n<function=f>\"}", ""},
    };
    ASSERT_ANSWERS(answers);
}

static void text_before_the_first_parameter_is_skipped(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"<tool_call>\n<function=f>\nwith a < b: <parameter=c>\n<parameter=a>\n1\n</parameter>\n"
         "</function>\n</tool_call>",
         "f{\"a\":\"1\"}", ""},
        {"<tool_call><function=NAME> as\n<tool_call><function=f></function></tool_call>", "f{}",
         "<tool_call><function=NAME> as\n"},
        {"<tool_call><function=NAME>...</function></tool_call>", "",
         "<tool_call><function=NAME>...</function></tool_call>"},
        {"<function=NAME> as\n<parameter=a>1</parameter></function>", "",
         "<function=NAME> as\n<parameter=a>1</parameter></function>"},
    };
    ASSERT_ANSWERS(answers);
}

static void names_of_tools_may_have_other_characters(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"<function=mcp/fs:read></function>", "mcp/fs:read{}", ""},
        {"<function=caf\xc3\xa9></function>", "caf\xc3\xa9{}", ""},
        {"<function={name}></function>", "", "<function={name}></function>"},
        {"<function='f'></function>", "", "<function='f'></function>"},
        {"<function=\"f\"></function>", "", "<function=\"f\"></function>"},
        {"<function=a b></function>", "", "<function=a b></function>"},
        {"<function=></function>", "", "<function=></function>"},
    };
    ASSERT_ANSWERS(answers);
}

static void the_last_value_of_a_key_counts(void **state)
{
    (void)state;
    static const char text[] = "<function=f><parameter=a>1</parameter><parameter=b>2</parameter>"
                               "<parameter=a>3</parameter></function>";
    struct reading reading = {.found = {.count_max = 1}};
    read_pieces(&reading, (struct mr_text){text, sizeof text - 1}, 1);
    assert_true(mr_text_is(reading.found.calls[0].arguments, "{\"a\":\"3\",\"b\":\"2\"}"));
    drop(&reading);
}

static void the_closing_tag_of_the_last_call_is_no_text(void **state)
{
    (void)state;
    static const char text[] = "<tool_call>\n<function=f>\n</function>\n</tool_call>\n"
                               "<tool_call>\n<function=g>\n</function>\n</tool_call>";
    const struct mr_text whole = {text, sizeof text - 1};
    assert_read(whole, 1, 1, "\n<tool_call>\n<function=g>\n</function>\n</tool_call>");
    assert_read(whole, 2, 2, "\n");
    assert_read(whole, MR_TOOL_CALLS_MAX, 2, "\n");
}

/* ---- hostile texts ---- */

struct hostile {
    char *bytes;
    size_t length, room;
};

static struct hostile hostile_create(void)
{
    return (struct hostile){malloc(4 << 20), 0, 4 << 20};
}

static void add(struct hostile *hostile, const char *text, size_t times)
{
    size_t length = strlen(text);
    assert_true(length * times <= hostile->room - hostile->length);
    for (size_t i = 0; i < times; i++, hostile->length += length)
        memcpy(hostile->bytes + hostile->length, text, length);
}

/* Reads the text in pieces of several sizes: each byte about once, with memory in the arena for
 * complete calls only. Frees the text. */
static void assert_cheap(struct hostile *hostile, size_t calls, size_t arena_max)
{
    static const size_t steps[] = {SIZE_MAX / 2, 1, 7, 1000};
    struct mr_text text = {hostile->bytes, hostile->length};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        struct reading reading = {.found = {.types = tool_text_types()}};
        read_pieces(&reading, text, steps[i]);
        assert_int_equal(reading.found.count, calls);
        assert_true(reading.found.work <= 2 * text.length);
        assert_true(mr_arena_bytes(reading.arena) <= arena_max);
        drop(&reading);
    }
    free(hostile->bytes);
}

static void unfinished_functions_are_read_once(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "<function=f>",
        "<function=f><parameter=a>",
        "<function=f><parameter=a>1</parameter>",
        "<tool_call>\n<function=f>\n",
        "<tool_call>",
        "<function=",
        "<function=f><parameter=a>1</parameter></functio",
        "<function=f><parameter=a>1</function>  .",
        "<tool_call><function=f> as\n",
        "<function=f><parameter=a>\n<tool_call>\n<function= x>",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct hostile hostile = hostile_create();
        add(&hostile, texts[i], 10000);
        assert_cheap(&hostile, 0, 0);
    }
}

static void unfinished_functions_may_end_in_one(void **state)
{
    (void)state;
    struct hostile hostile = hostile_create();
    add(&hostile, "<function=f>", 10000);
    add(&hostile, "<parameter=a>1</parameter></function>", 1);
    assert_cheap(&hostile, 1, 64);
}

static void too_many_parameters_are_text(void **state)
{
    (void)state;
    struct hostile hostile = hostile_create();
    add(&hostile, "<function=f>", 1);
    for (unsigned i = 0; i < 10000; i++) {
        char parameter[64];
        snprintf(parameter, sizeof parameter, "<parameter=p%u>1</parameter>", i);
        add(&hostile, parameter, 1);
    }
    add(&hostile, "</function>", 1);
    assert_cheap(&hostile, 0, 0);
}

static void as_many_parameters_as_fit_are_a_call(void **state)
{
    (void)state;
    for (unsigned more = 0; more < 2; more++) {
        struct hostile hostile = hostile_create();
        add(&hostile, "<function=f>", 1);
        for (unsigned i = 0; i < MR_TOOL_PARAMETERS_MAX + more; i++) {
            char parameter[64];
            snprintf(parameter, sizeof parameter, "<parameter=p%u>1</parameter>", i);
            add(&hostile, parameter, 1);
        }
        add(&hostile, "</function>", 1);
        assert_cheap(&hostile, more == 0, 4096);
    }
}

static void nested_tags_are_part_of_a_value(void **state)
{
    (void)state;
    struct hostile hostile = hostile_create();
    add(&hostile, "<function=f><parameter=a>", 1);
    add(&hostile, "<tool_call><function=g>", 10000);
    add(&hostile, "</parameter></function>", 1);
    add(&hostile, "</tool_call>", 10000);
    assert_cheap(&hostile, 1, 512 << 10);
}

static void long_names_are_no_calls(void **state)
{
    (void)state;
    static const char *const parts[][3] = {{"<function=", "f", "></function>"},
                                           {"<function=f><parameter=", "k", "></function>"}};
    for (size_t i = 0; i < 2; i++) {
        for (size_t over = 0; over < 2; over++) {
            char text[512], name[MR_TOOL_NAME_BYTES_MAX + 2] = "";
            memset(name, parts[i][1][0], MR_TOOL_NAME_BYTES_MAX + over);
            snprintf(text, sizeof text, "%s%s%s", parts[i][0], name, parts[i][2]);
            assert_read((struct mr_text){text, strlen(text)}, 0, over == 0, over ? NULL : "");
        }
        struct hostile hostile = hostile_create();
        add(&hostile, parts[i][0], 1);
        add(&hostile, parts[i][1], 1000000);
        add(&hostile, parts[i][2], 1);
        assert_cheap(&hostile, 0, 0);
    }
}

static void white_space_is_read_once(void **state)
{
    (void)state;
    struct hostile hostile = hostile_create();
    add(&hostile, "<tool_call>", 1);
    add(&hostile, " ", 100000);
    add(&hostile, "<function=f>", 1);
    add(&hostile, "\n", 100000);
    add(&hostile, "</function>", 1);
    add(&hostile, "\t", 100000);
    add(&hostile, "</tool_call>", 1);
    assert_cheap(&hostile, 1, 64);
}

static void white_space_behind_a_tag_in_a_value_is_read_once(void **state)
{
    (void)state;
    static const char *const tags[] = {"</parameter>", "</function>", "\n</tool_call>",
                                       "\n<tool_call>"};
    for (size_t grouped = 0; grouped < 2; grouped++) {
        struct hostile hostile = hostile_create();
        add(&hostile,
            grouped ? "<tool_call><function=f><parameter=a>" : "<function=f><parameter=a>", 1);
        for (size_t i = 0; i < 2 * sizeof tags / sizeof tags[0]; i++) {
            add(&hostile, tags[i / 2], 1);
            add(&hostile, " ", 50000);
            if (i % 2) add(&hostile, "x", 1);
        }
        add(&hostile, "</parameter></function>", 1);
        assert_cheap(&hostile, 1, (size_t)1 << 20);
    }
}

/* Arguments above their limit are text, and leave nothing in the arena. */
static void large_arguments_are_text(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct hostile hostile = hostile_create();
        add(&hostile, "<function=get_1><parameter=a>", 1);
        add(&hostile, i ? "\x01" : "[", i ? MR_TOOL_ARGUMENTS_BYTES_MAX / 5 : 1200000);
        add(&hostile, "</parameter></function>", 1);
        assert_cheap(&hostile, 0, 0);
    }
}

static void nested_json_is_a_text(void **state)
{
    (void)state;
    struct hostile hostile = hostile_create();
    add(&hostile, "<function=get_1><parameter=a>", 1);
    add(&hostile, "[", 100000);
    add(&hostile, "]", 100000);
    add(&hostile, "</parameter></function>", 1);
    assert_cheap(&hostile, 1, 256 << 10);
}

/* All calls of an answer fit into the arena of a message. */
static void calls_behind_the_limit_are_text(void **state)
{
    (void)state;
    struct hostile hostile = hostile_create();
    add(&hostile,
        "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>\n",
        10000);
    assert_cheap(&hostile, MR_TOOL_CALLS_MAX, MR_TOOL_CALLS_MAX * 32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_get_the_types_of_the_tool),
        cmocka_unit_test(tags_may_be_left_out_where_the_call_is_clear),
        cmocka_unit_test(tags_within_a_value_are_part_of_it),
        cmocka_unit_test(a_value_without_its_end_ends_at_a_tag_of_the_call),
        cmocka_unit_test(the_group_of_a_call_ends_its_values),
        cmocka_unit_test(a_group_ends_a_call_without_one),
        cmocka_unit_test(text_before_the_first_parameter_is_skipped),
        cmocka_unit_test(names_of_tools_may_have_other_characters),
        cmocka_unit_test(the_last_value_of_a_key_counts),
        cmocka_unit_test(the_closing_tag_of_the_last_call_is_no_text),
        cmocka_unit_test(unfinished_functions_are_read_once),
        cmocka_unit_test(unfinished_functions_may_end_in_one),
        cmocka_unit_test(too_many_parameters_are_text),
        cmocka_unit_test(as_many_parameters_as_fit_are_a_call),
        cmocka_unit_test(nested_tags_are_part_of_a_value),
        cmocka_unit_test(long_names_are_no_calls),
        cmocka_unit_test(white_space_is_read_once),
        cmocka_unit_test(white_space_behind_a_tag_in_a_value_is_read_once),
        cmocka_unit_test(large_arguments_are_text),
        cmocka_unit_test(nested_json_is_a_text),
        cmocka_unit_test(calls_behind_the_limit_are_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
