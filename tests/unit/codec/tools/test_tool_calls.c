#include "tool_texts.h"

#include <stdio.h>

/* Calls found in the text, fed whole or in prefixes that grow by `step` bytes. */
static struct mr_tool_calls *find(struct mr_arena *arena, enum mr_tool_format format,
                                  struct mr_text text, size_t step)
{
    struct mr_tool_calls *found = mr_arena_take(arena, sizeof *found);
    struct mr_error err;
    assert_non_null(found);
    found->format = format;
    found->count_max = MR_TOOL_CALLS_MAX;
    found->arena = arena;
    found->types = tool_text_types();
    for (size_t length = step; step > 0 && length < text.length; length += step) {
        size_t before = found->count;
        struct mr_text part = {text.bytes, length};
        assert_int_equal(mr_tool_calls_find(found, part, false, &err), MR_OK);
        assert_true(found->count >= before);
    }
    assert_int_equal(mr_tool_calls_find(found, text, true, &err), MR_OK);
    return found;
}

/* The text without the calls, and without white space at its ends. */
static struct mr_text rest_of(const struct mr_tool_calls *found, struct mr_text text)
{
    char *bytes = mr_arena_take(found->arena, text.length + 1);
    size_t length = 0, at = 0, first = 0;
    for (size_t i = 0; i <= found->place_count; i++) {
        size_t end = i < found->place_count ? found->places[i].start : text.length;
        memcpy(bytes + length, text.bytes + at, end - at);
        length += end - at;
        if (i < found->place_count) at = found->places[i].end;
    }
    while (length > 0 && mr_text_is_space(bytes[length - 1]))
        length--;
    while (first < length && mr_text_is_space(bytes[first]))
        first++;
    return (struct mr_text){bytes + first, length - first};
}

static void assert_same(const struct mr_tool_calls *found, const struct tool_text *wanted,
                        size_t count)
{
    if (found->count != count)
        fail_msg("%s: %zu calls, not %zu in:\n%.*s", mr_tool_format_name(found->format),
                 found->count, count, (int)wanted->length, wanted->bytes);
    for (size_t i = 0; i < count; i++) {
        assert_true(mr_text_is(found->calls[i].name, wanted->names[i]));
        if (!mr_text_is(found->calls[i].arguments, wanted->arguments[i]))
            fail_msg("%.*s, not %s", (int)found->calls[i].arguments.length,
                     found->calls[i].arguments.bytes, wanted->arguments[i]);
    }
}

static const enum mr_tool_format formats[] = {
    MR_TOOLS_HERMES,  MR_TOOLS_GRANITE,  MR_TOOLS_LLAMA, MR_TOOLS_PYTHONIC,
    MR_TOOLS_MISTRAL, MR_TOOLS_DEEPSEEK, MR_TOOLS_ARRAY, MR_TOOLS_QWEN_CODER};
#define FORMATS (sizeof formats / sizeof formats[0])

static void calls_are_the_same_whole_and_cut_at_every_byte(void **state)
{
    (void)state;
    size_t calls = 0;
    for (uint32_t i = 0; i < FORMATS * 500; i++) {
        struct mr_arena *arena = mr_arena_create(16 << 20);
        struct tool_text text = tool_text_make(formats[i % FORMATS], i + 1);
        struct mr_text whole = {text.bytes, text.length};
        const struct mr_tool_calls *found = find(arena, formats[i % FORMATS], whole, 0);
        assert_same(found, &text, text.count);
        assert_same(find(arena, formats[i % FORMATS], whole, 1), &text, text.count);
        struct mr_text rest = rest_of(found, whole);
        if (!mr_text_is(rest, text.prose))
            fail_msg("%.*s is left, not %s", (int)rest.length, rest.bytes, text.prose);
        calls += text.count;
        mr_arena_destroy(arena);
    }
    assert_true(calls > FORMATS * 500);
}

/* Every prefix has the calls that are complete in it, and the rest is the text without them. */
static void an_unfinished_call_stays_text(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < FORMATS * 25; i++) {
        struct tool_text text = tool_text_make(formats[i % FORMATS], i + 1);
        for (size_t length = 0; length < text.length; length++) {
            struct mr_arena *arena = mr_arena_create(1 << 20);
            struct mr_text part = {text.bytes, length};
            const struct mr_tool_calls *found = find(arena, formats[i % FORMATS], part, 0);
            assert_true(found->count <= text.count);
            assert_same(found, &text, found->count);
            size_t kept = length;
            for (size_t k = 0; k < found->place_count; k++)
                kept -= found->places[k].end - found->places[k].start;
            assert_true(rest_of(found, part).length <= kept);
            mr_arena_destroy(arena);
        }
    }
}

static void a_damaged_call_stays_text(void **state)
{
    (void)state;
    static const struct {
        enum mr_tool_format format;
        const char *text;
    } cases[] = {
        {MR_TOOLS_HERMES, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": }}</tool_call>"},
        {MR_TOOLS_HERMES, "<tool_call>{\"name\": \"f\"}</tool_call>"},
        {MR_TOOLS_HERMES, "<tool_call>{\"name\": 7, \"arguments\": {}}</tool_call>"},
        {MR_TOOLS_HERMES, "<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>"},
        {MR_TOOLS_HERMES, "<tool_call>{\"name\": \"f\", \"arguments\": {}} and </tool_call>"},
        {MR_TOOLS_HERMES, "{\"name\": \"f\", \"arguments\": {}}"},
        {MR_TOOLS_GRANITE, "<|tool_call|>[]"},
        {MR_TOOLS_GRANITE, "<|tool_call|>{\"name\": \"f\"}"},
        {MR_TOOLS_GRANITE, "<tool_call>{\"name\": \"f\", \"arguments\": {}} and"},
        {MR_TOOLS_LLAMA, "{\"name\": \"f\", \"parameters\": {}} is a call"},
        {MR_TOOLS_LLAMA, "I call {\"name\": \"f\", \"parameters\": {}}"},
        {MR_TOOLS_LLAMA, "[{\"name\": \"f\", \"parameters\": {}}"},
        {MR_TOOLS_LLAMA, "```json\n{\"name\": \"f\", \"parameters\": {}}"},
        {MR_TOOLS_LLAMA, "```python\n{\"name\": \"f\", \"parameters\": {}}\n```"},
        {MR_TOOLS_LLAMA, "{\"name\": \"f\", \"parameters\": {}}]"},
        {MR_TOOLS_PYTHONIC, "[f(a=)]"},
        {MR_TOOLS_PYTHONIC, "[f(a=1), 7]"},
        {MR_TOOLS_PYTHONIC, "[f(1)]"},
        {MR_TOOLS_PYTHONIC, "[f(a=b)]"},
        {MR_TOOLS_PYTHONIC, "[f(a='b)]"},
        {MR_TOOLS_PYTHONIC, "[f(a=1)] is a call"},
        {MR_TOOLS_PYTHONIC, "[f(a='\\"},
        {MR_TOOLS_MISTRAL, "[TOOL_CALLS]f[1]"},
        {MR_TOOLS_MISTRAL, "[TOOL_CALLS]{\"name\": \"f\"}"},
        {MR_TOOLS_DEEPSEEK, "<\xef\xbd\x9ctool\xe2\x96\x81"
                            "call\xe2\x96\x81"
                            "begin\xef\xbd\x9c>f"},
        {MR_TOOLS_ARRAY, "{\"name\": \"f\", \"parameters\": {}}"},
        {MR_TOOLS_QWEN_CODER, "<tool_call>{\"name\": \"f\", \"arguments\": {}}"},
        {MR_TOOLS_QWEN_CODER, "<tool_call><function=f g></function>"},
        {MR_TOOLS_QWEN_CODER, "<tool_call><function=f><parameter=a>1</parameter>"},
        {MR_TOOLS_QWEN_CODER, "<function=f>a=1</function>"},
        {MR_TOOLS_QWEN_CODER, "<function=f><parameter=>1</parameter></function>"},
        {MR_TOOLS_QWEN_CODER, "<function=f><parameter=a\nb>1</parameter></function>"},
        {MR_TOOLS_NONE, "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mr_arena *arena = mr_arena_create(1 << 20);
        struct mr_text text = {cases[i].text, strlen(cases[i].text)};
        const struct mr_tool_calls *found = find(arena, cases[i].format, text, 1);
        if (found->count > 0) fail_msg("a call in %s", cases[i].text);
        assert_true(mr_text_equal(rest_of(found, text), text));
        mr_arena_destroy(arena);
    }
}

static void arguments_may_be_a_text_that_contains_the_object(void **state)
{
    (void)state;
    struct mr_arena *arena = mr_arena_create(1 << 20);
    const char *text = "<tool_call>{\"arguments\": \"{\\\"a\\\": 1}\", \"name\": \"f\"}";
    const struct mr_tool_calls *found =
        find(arena, MR_TOOLS_HERMES, (struct mr_text){text, strlen(text)}, 0);
    assert_int_equal(found->count, 1);
    assert_true(mr_text_is(found->calls[0].arguments, "{\"a\": 1}"));
    mr_arena_destroy(arena);
}

/* What stands around and between calls varies with the model; vLLM's parsers accept it. */
static void calls_may_be_separated_and_wrapped(void **state)
{
    (void)state;
#define OBJECT(name) "{\"name\": \"" name "\", \"parameters\": {\"a\": [1]}}"
    static const struct {
        enum mr_tool_format format;
        const char *text;
        size_t count;
    } cases[] = {
        {MR_TOOLS_LLAMA, OBJECT("f") "\n" OBJECT("g") "\n\n" OBJECT("h") "\n", 3},
        {MR_TOOLS_LLAMA, OBJECT("f") ", " OBJECT("g") ";", 2},
        {MR_TOOLS_LLAMA, "[" OBJECT("f") ",\n " OBJECT("g") "]", 2},
        {MR_TOOLS_LLAMA, "```json\n" OBJECT("f") "\n```", 1},
        {MR_TOOLS_LLAMA, "```\n[\n" OBJECT("f") "\n]\n```\n", 1},
        {MR_TOOLS_LLAMA, "<|python_tag|>" OBJECT("f") "\n" OBJECT("g"), 2},
        {MR_TOOLS_GRANITE, "<|tool_call|>" OBJECT("f"), 1},
        {MR_TOOLS_GRANITE, "<|tool_call|>\n" OBJECT("f") "\n<|tool_call|>" OBJECT("g"), 2},
        {MR_TOOLS_GRANITE,
         "<tool_call>\n" OBJECT("f") "\n</tool_call>\n<tool_call>" OBJECT("g") "</tool_call>", 2},
        {MR_TOOLS_GRANITE, "<tool_call>" OBJECT("f"), 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mr_text text = {cases[i].text, strlen(cases[i].text)};
        for (size_t step = 0; step < 2; step++) {
            struct mr_arena *arena = mr_arena_create(1 << 20);
            const struct mr_tool_calls *found = find(arena, cases[i].format, text, step);
            if (found->count != cases[i].count)
                fail_msg("%zu calls in %s", found->count, cases[i].text);
            for (size_t k = 0; k < found->count; k++) {
                assert_int_equal(found->calls[k].name.bytes[0], 'f' + (int)k);
                assert_true(mr_text_is(found->calls[k].arguments, "{\"a\": [1]}"));
            }
            assert_int_equal(rest_of(found, text).length, 0);
            mr_arena_destroy(arena);
        }
    }
}

/* Python's json.loads reads all of them. */
static void arguments_stay_as_they_are_written(void **state)
{
    (void)state;
    static const char *const cases[] = {"{\"parcel\": 1234567890123456789012}",
                                        "{\"a\": [18446744073709551615, -1e400]}",
                                        "{\"a\": 1, \"a\": 2}", "{\"a\": \"\\ud83d\"}"};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[256];
        struct mr_arena *arena = mr_arena_create(1 << 20);
        snprintf(text, sizeof text, "<tool_call>{\"name\": \"f\", \"arguments\": %s}</tool_call>",
                 cases[i]);
        const struct mr_tool_calls *found =
            find(arena, MR_TOOLS_HERMES, (struct mr_text){text, strlen(text)}, 0);
        if (found->count != 1) fail_msg("no call: %s", cases[i]);
        assert_true(mr_text_is(found->calls[0].arguments, cases[i]));
        mr_arena_destroy(arena);
    }
}

/* The arguments equal the output of Python's json.dumps(ast.literal_eval(value)). */
static void pythonic_values_are_read_as_python_reads_them(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"1234567890123456789012", "1234567890123456789012"},
        {"-9223372036854775808", "-9223372036854775808"},
        {"1_000", "1000"},
        {"0x10", "16"},
        {"-0XdEAD_beef_dead_beef_00", "-4107696892117333765888"},
        {"0o17", "15"},
        {"0b1010", "10"},
        {"1_0.2_5e1", "102.5"},
        {".5", "0.5"},
        {"2.", "2.0"},
        {"+3", "3"},
        {"1e400", "1e999"},
        {"'\\d+'", "\"\\\\d+\""},
        {"r'\\d+\\n'", "\"\\\\d+\\\\n\""},
        {"'\\U0001F600'", "\"\xf0\x9f\x98\x80\""},
        {"'\\ud83d\\ude00'", "\"\xf0\x9f\x98\x80\""},
        {"'\\101\\0'", "\"A\\u0000\""},
        {"'''it's\n\"two\"'''", "\"it's\\n\\\"two\\\"\""},
        {"\"\"\"a\\\"\"\"\"", "\"a\\\"\""},
        {"'a' \"b\"\n r'\\c'", "\"ab\\\\c\""},
        {"u'x'", "\"x\""},
        {"(1, 'a',)", "[1,\"a\"]"},
        {"()", "[]"},
        {"(1)", "1"},
        {"([1, (2, 3)])", "[1,[2,3]]"},
        {"{1: 2, True: (), None: {'a': 1.50}}", "{\"1\":2,\"true\":[],\"null\":{\"a\":1.5}}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[256], want[256];
        struct mr_arena *arena = mr_arena_create(1 << 20);
        snprintf(text, sizeof text, "[f(a=%s), g()]", cases[i][0]);
        snprintf(want, sizeof want, "{\"a\":%s}", cases[i][1]);
        const struct mr_tool_calls *found =
            find(arena, MR_TOOLS_PYTHONIC, (struct mr_text){text, strlen(text)}, 0);
        if (found->count != 2 || !mr_text_is(found->calls[0].arguments, want))
            fail_msg("%s: %.*s", cases[i][0],
                     found->count ? (int)found->calls[0].arguments.length : 4,
                     found->count ? found->calls[0].arguments.bytes : "text");
        mr_arena_destroy(arena);
    }
}

static void only_so_many_calls_are_looked_for(void **state)
{
    (void)state;
    struct mr_arena *arena = mr_arena_create(1 << 20);
    struct mr_error err;
    const char *text = "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>"
                       "<tool_call>{\"name\":\"g\",\"arguments\":{}}</tool_call>";
    struct mr_tool_calls found = {.format = MR_TOOLS_HERMES, .count_max = 1, .arena = arena};
    assert_int_equal(mr_tool_calls_find(&found, (struct mr_text){text, strlen(text)}, true, &err),
                     MR_OK);
    assert_int_equal(found.count, 1);
    assert_true(mr_text_is(found.calls[0].name, "f"));
    mr_arena_destroy(arena);
}

/* DeepSeek's markers around calls are never content, not even after the last call that is
 * parsed. */
static void markers_behind_the_last_call_are_no_text(void **state)
{
    (void)state;
    static const char bytes[] = WIDE("calls" LOW "begin")
        WIDE("call" LOW "begin") "f" WIDE("sep") "{}" WIDE("call" LOW "end")
            WIDE("call" LOW "begin") "g" WIDE("sep") "{}" WIDE("call" LOW "end")
                WIDE("calls" LOW "end");
    static const char second[] =
        WIDE("call" LOW "begin") "g" WIDE("sep") "{}" WIDE("call" LOW "end");
    const struct mr_text text = {bytes, sizeof bytes - 1};
    for (size_t count = 1; count <= 2; count++) {
        struct mr_arena *arena = mr_arena_create(1 << 20);
        struct mr_tool_calls found = {
            .format = MR_TOOLS_DEEPSEEK, .count_max = count, .arena = arena};
        struct mr_error err;
        for (size_t length = 0; length <= text.length; length++)
            assert_int_equal(mr_tool_calls_find(&found, mr_text_part(text, 0, length),
                                                length == text.length, &err),
                             MR_OK);
        assert_int_equal(found.count, count);
        assert_true(mr_text_is(rest_of(&found, text), count == 1 ? second : ""));
        mr_arena_destroy(arena);
    }
}

/* Half a megabyte of openers, each of which could begin an object that never ends. */
static void hostile_text_costs_bounded_work(void **state)
{
    (void)state;
    static char text[1 << 19];
    static const char unit[] = "<tool_call>{\"";
    struct mr_arena *arena = mr_arena_create(1 << 20);
    for (size_t at = 0; at < sizeof text; at++)
        text[at] = unit[at % (sizeof unit - 1)];
    const struct mr_tool_calls *found =
        find(arena, MR_TOOLS_HERMES, (struct mr_text){text, sizeof text}, 64);
    assert_int_equal(found->count, 0);
    assert_true(found->work <= MR_TOOL_WORK_MAX + sizeof text);
    mr_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_are_the_same_whole_and_cut_at_every_byte),
        cmocka_unit_test(an_unfinished_call_stays_text),
        cmocka_unit_test(a_damaged_call_stays_text),
        cmocka_unit_test(arguments_may_be_a_text_that_contains_the_object),
        cmocka_unit_test(calls_may_be_separated_and_wrapped),
        cmocka_unit_test(arguments_stay_as_they_are_written),
        cmocka_unit_test(pythonic_values_are_read_as_python_reads_them),
        cmocka_unit_test(only_so_many_calls_are_looked_for),
        cmocka_unit_test(markers_behind_the_last_call_are_no_text),
        cmocka_unit_test(hostile_text_costs_bounded_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
