/* The deltas of an answer, joined, are the message of the whole answer.
 *
 *     codec_test_message_deltas [COUNT]    mutated answers of each format, default 200 */
#include "codec/buffer.h"
#include "codec/records/message.h"
#include "tests/unit/codec/tools/tool_texts.h"

struct joined {
    struct mr_buffer content, reasoning;
    struct {
        char name[MR_TOOL_NAME_BYTES_MAX + 1];
        struct mr_buffer arguments;
    } calls[MR_TOOL_CALLS_MAX];
    size_t call_count, delta_count;
};

static struct joined *joined_create(void)
{
    struct joined *joined = calloc(1, sizeof *joined);
    mr_buffer_init(&joined->content, 1 << 20);
    mr_buffer_init(&joined->reasoning, 1 << 20);
    for (size_t i = 0; i < MR_TOOL_CALLS_MAX; i++)
        mr_buffer_init(&joined->calls[i].arguments, 1 << 20);
    return joined;
}

static void joined_destroy(struct joined *joined)
{
    mr_buffer_drop(&joined->content);
    mr_buffer_drop(&joined->reasoning);
    for (size_t i = 0; i < MR_TOOL_CALLS_MAX; i++)
        mr_buffer_drop(&joined->calls[i].arguments);
    free(joined);
}

/* Joins deltas as a client does. */
static void join(struct joined *joined, const struct mr_message_delta *delta)
{
    mr_buffer_append(&joined->content, delta->content);
    mr_buffer_append(&joined->reasoning, delta->reasoning);
    for (size_t i = 0; i < delta->call_count; i++) {
        const struct mr_tool_call_delta *call = &delta->calls[i];
        joined->delta_count++;
        assert_int_equal(call->index, joined->call_count - (call->name.bytes == NULL));
        if (call->name.bytes) {
            assert_true(call->name.length < sizeof joined->calls[0].name);
            memcpy(joined->calls[joined->call_count++].name, call->name.bytes, call->name.length);
        }
        mr_buffer_append(&joined->calls[call->index].arguments, call->arguments);
    }
}

/* Pushes text[from, to) in pieces of `step` bytes. */
static void push(struct mr_message *message, struct mr_text text, size_t from, size_t to,
                 size_t step, struct joined *joined)
{
    struct mr_message_delta delta;
    struct mr_error err;
    for (size_t end; from < to; from = end) {
        end = to - from > step ? from + step : to;
        assert_int_equal(
            mr_message_push(message, mr_text_part(text, from, end), false, &delta, &err), MR_OK);
        join(joined, &delta);
    }
}

static struct joined *read_text(const struct mr_message_rules *rules, struct mr_text text,
                                size_t step)
{
    struct mr_message *message;
    struct mr_message_delta delta;
    struct mr_error err;
    struct joined *joined = joined_create();
    assert_int_equal(mr_message_create(&message, rules, &err), MR_OK);
    push(message, text, 0, text.length, step, joined);
    assert_int_equal(mr_message_push(message, (struct mr_text){"", 0}, true, &delta, &err), MR_OK);
    join(joined, &delta);
    mr_message_destroy(message);
    return joined;
}

static void assert_equal(const struct joined *one, const struct joined *other, struct mr_text text)
{
    struct mr_text content = mr_buffer_text(&one->content);
    if (!mr_text_equal(content, mr_buffer_text(&other->content)))
        fail_msg("'%.*s', not '%.*s' in %.*s", (int)content.length, content.bytes,
                 (int)other->content.length, other->content.bytes, (int)text.length, text.bytes);
    assert_true(mr_text_equal(mr_buffer_text(&one->reasoning), mr_buffer_text(&other->reasoning)));
    if (one->call_count != other->call_count)
        fail_msg("%zu calls, not %zu in %.*s", one->call_count, other->call_count, (int)text.length,
                 text.bytes);
    for (size_t i = 0; i < one->call_count; i++) {
        assert_string_equal(one->calls[i].name, other->calls[i].name);
        assert_true(mr_text_equal(mr_buffer_text(&one->calls[i].arguments),
                                  mr_buffer_text(&other->calls[i].arguments)));
    }
}

static const enum mr_tool_format formats[] = {
    MR_TOOLS_HERMES,  MR_TOOLS_GRANITE,  MR_TOOLS_LLAMA, MR_TOOLS_PYTHONIC,  MR_TOOLS_MISTRAL,
    MR_TOOLS_HARMONY, MR_TOOLS_DEEPSEEK, MR_TOOLS_ARRAY, MR_TOOLS_QWEN_CODER};
#define FORMATS (sizeof formats / sizeof formats[0])

static struct mr_message_rules rules_of(enum mr_tool_format format)
{
    return (struct mr_message_rules){.is_split = true,
                                     .format = format,
                                     .calls_max = MR_TOOL_CALLS_MAX,
                                     .types = tool_text_types(),
                                     .has_reasoning = true};
}

/* A text of the format, damaged for every other seed. Reasoning stands before every third. */
static struct mr_text make_text(enum mr_tool_format format, uint32_t seed, bool damaged,
                                struct tool_text *made, char bytes[9000])
{
    static const char reasoning[] = "<think>\nI <could> call.\n</think>\n\n";
    size_t length = 0;
    *made = tool_text_make(format, seed);
    if (seed % 3 == 0 && format != MR_TOOLS_HARMONY) {
        memcpy(bytes, reasoning, sizeof reasoning - 1);
        length = sizeof reasoning - 1;
    }
    memcpy(bytes + length, made->bytes, made->length);
    if (damaged) /* one byte of the text is changed */
        bytes[length + seed * 2654435761u % made->length] = "{}[]\"x<"[seed % 7];
    return (struct mr_text){bytes, length + made->length};
}

static void deltas_joined_are_the_whole_message(void **state)
{
    (void)state;
    static struct tool_text made;
    static char bytes[9000];
    for (uint32_t i = 0; i < FORMATS * 500; i++) {
        struct mr_message_rules rules = rules_of(formats[i % FORMATS]);
        struct mr_text text = make_text(rules.format, i + 1, false, &made, bytes);
        struct joined *whole = read_text(&rules, text, SIZE_MAX);
        struct joined *cut = read_text(&rules, text, 1);
        assert_equal(cut, whole, text);
        assert_int_equal(whole->call_count, made.count);
        for (size_t k = 0; k < made.count; k++) {
            assert_string_equal(whole->calls[k].name, made.names[k]);
            assert_true(mr_text_is(mr_buffer_text(&whole->calls[k].arguments), made.arguments[k]));
        }
        assert_true(mr_text_is(mr_buffer_text(&whole->content), made.prose));
        joined_destroy(cut);
        joined_destroy(whole);
    }
}

static void deltas_of_damaged_answers_are_the_whole_message(void **state)
{
    (void)state;
    static struct tool_text made;
    static char bytes[9000];
    for (uint32_t i = 0; i < FORMATS * 500; i++) {
        struct mr_message_rules rules = rules_of(formats[i % FORMATS]);
        struct mr_text text = make_text(rules.format, i + 1, true, &made, bytes);
        struct joined *whole = read_text(&rules, text, SIZE_MAX);
        for (size_t step = 1; step < 16; step += 7) {
            struct joined *cut = read_text(&rules, text, step);
            assert_equal(cut, whole, text);
            joined_destroy(cut);
        }
        joined_destroy(whole);
    }
}

static uint32_t mutated_count = 200;

static const char *const pieces[] = {"<think>",
                                     "</think>",
                                     "<tool_call>",
                                     "</tool_call>",
                                     "<|tool_call|>",
                                     "[TOOL_CALLS]",
                                     "[ARGS]",
                                     "<function=f>",
                                     "</function>",
                                     "<parameter=a>",
                                     "</parameter>",
                                     "<|channel|>",
                                     "<|message|>",
                                     "<|start|>",
                                     "<|end|>",
                                     "<|call|>",
                                     "analysis",
                                     "to=functions.f ",
                                     "<|python_tag|>",
                                     "```json\n",
                                     "```",
                                     WIDE("calls" LOW "begin"),
                                     WIDE("sep"),
                                     WIDE("call" LOW "begin"),
                                     WIDE("call" LOW "end"),
                                     "{\"name\": \"f\", \"arguments\": {}}",
                                     "{",
                                     "}",
                                     "[",
                                     "]",
                                     "(",
                                     ")",
                                     "\"",
                                     "\\",
                                     "'",
                                     "\n",
                                     "\n\n",
                                     " ",
                                     ",",
                                     ";",
                                     ":",
                                     "<",
                                     "f(a=1)",
                                     "\xc3\xa9",
                                     "\xe2\x82"};

/* Changes the text in place: bytes are replaced, removed, repeated or inserted. Returns its length.
 */
static size_t mutate(struct draw *draw, char *bytes, size_t length, size_t room)
{
    for (uint32_t i = 1 + draw_below(draw, 4); i > 0 && length > 0; i--) {
        size_t at = draw_below(draw, (uint32_t)length), run = 1 + draw_below(draw, 24);
        const char *piece = pieces[draw_below(draw, sizeof pieces / sizeof pieces[0])];
        if (run > length - at) run = length - at;
        switch (draw_below(draw, 5)) {
        case 0:
            bytes[at] = "{}[]\"x<\n"[draw_below(draw, 8)];
            continue;
        case 1: /* cut off, or without a run */
            if (draw_below(draw, 4) == 0) run = length - at;
            memmove(bytes + at, bytes + at + run, length - at - run);
            length -= run;
            continue;
        case 2:
            if (length + run > room) continue;
            memmove(bytes + at + run, bytes + at, length - at);
            length += run;
            continue;
        default:
            run = strlen(piece);
            if (length + run > room) continue;
            memmove(bytes + at + run, bytes + at, length - at);
            memcpy(bytes + at, piece, run);
            length += run;
        }
    }
    return length;
}

/* The deltas of an answer equal the message in its result. */
static void assert_result(const struct mr_message_rules *rules, struct mr_text text, size_t step)
{
    struct mr_arena *arena = mr_arena_create(1 << 22);
    struct joined *joined = read_text(rules, text, step);
    struct mr_choice choice = {.text = text};
    struct mr_error err;
    assert_int_equal(mr_message_split(&choice, rules, arena, &err), MR_OK);
    bool equal = mr_text_equal(mr_buffer_text(&joined->content), choice.content) &&
                 mr_text_equal(mr_buffer_text(&joined->reasoning), choice.reasoning) &&
                 joined->call_count == choice.tool_call_count;
    for (size_t i = 0; equal && i < joined->call_count; i++)
        equal = mr_text_is(choice.tool_calls[i].name, joined->calls[i].name) &&
                mr_text_equal(choice.tool_calls[i].arguments,
                              mr_buffer_text(&joined->calls[i].arguments));
    if (!equal)
        fail_msg("%s, steps of %zu: %.*s", mr_tool_format_name(rules->format), step,
                 (int)text.length, text.bytes);
    joined_destroy(joined);
    mr_arena_destroy(arena);
}

static void deltas_of_mutated_answers_are_the_result(void **state)
{
    (void)state;
    static struct tool_text made;
    static char bytes[10000];
    size_t with_calls = 0;
    for (uint32_t i = 0; i < FORMATS * mutated_count; i++) {
        struct mr_message_rules rules = rules_of(formats[i % FORMATS]);
        struct draw draw = {.state = i};
        struct mr_text text = make_text(rules.format, i + 1, false, &made, bytes);
        text.length = mutate(&draw, bytes, text.length, sizeof bytes);
        rules.opened = draw_below(&draw, 4) ? MR_OPENED_NOTHING : 1 + draw_below(&draw, 3);
        if (draw_below(&draw, 8) == 0) rules.calls_max = 1;
        assert_result(&rules, text, 1);
        assert_result(&rules, text, 2 + draw_below(&draw, 14));
        struct joined *whole = read_text(&rules, text, SIZE_MAX);
        with_calls += whole->call_count > 0;
        joined_destroy(whole);
    }
    assert_true(with_calls > FORMATS * mutated_count / 4);
}

/* A message that reads the beginning of an answer at once, as after a crash, goes on as one that
 * has read it in pieces. */
static void a_stream_may_be_resumed_at_every_byte(void **state)
{
    (void)state;
    static struct tool_text made;
    static char bytes[9000];
    for (uint32_t i = 0; i < FORMATS * 4; i++) {
        struct mr_message_rules rules = rules_of(formats[i % FORMATS]);
        struct mr_text text = make_text(rules.format, i + 1, i >= FORMATS * 2, &made, bytes);
        struct joined *whole = read_text(&rules, text, SIZE_MAX);
        for (size_t at = 0; at < text.length; at++) {
            struct mr_message *first, *second;
            struct mr_message_delta delta;
            struct mr_error err;
            struct joined *joined = joined_create();
            assert_int_equal(mr_message_create(&first, &rules, &err), MR_OK);
            push(first, text, 0, at, 3, joined);
            assert_int_equal(mr_message_create(&second, &rules, &err), MR_OK);
            assert_int_equal(
                mr_message_push(second, mr_text_part(text, 0, at), false, &delta, &err), MR_OK);
            push(second, text, at, text.length, 5, joined);
            assert_int_equal(mr_message_push(second, (struct mr_text){"", 0}, true, &delta, &err),
                             MR_OK);
            join(joined, &delta);
            assert_equal(joined, whole, text);
            mr_message_destroy(first);
            mr_message_destroy(second);
            joined_destroy(joined);
        }
        joined_destroy(whole);
    }
}

/* When a grammar constrains the calls, arguments are streamed byte by byte, the name with the first
 * one. */
static void arguments_of_constrained_calls_come_in_pieces(void **state)
{
    (void)state;
    static struct tool_text made;
    static char bytes[9000];
    static const enum mr_tool_format steady[] = {MR_TOOLS_HERMES, MR_TOOLS_ARRAY};
    size_t in_pieces = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        struct mr_message_rules rules = rules_of(steady[i % 2]);
        rules.steady = true;
        struct mr_text text = make_text(rules.format, i + 1, false, &made, bytes);
        struct joined *whole = read_text(&rules, text, SIZE_MAX);
        struct joined *cut = read_text(&rules, text, 1 + i % 5);
        assert_equal(cut, whole, text);
        assert_int_equal(whole->call_count, made.count);
        in_pieces += cut->delta_count > cut->call_count;
        joined_destroy(cut);
        joined_destroy(whole);
    }
    assert_true(in_pieces > 700);
}

/* The deltas of the call that is cut off are a beginning of its arguments. */
static void a_constrained_call_that_is_cut_off_is_text_at_the_end(void **state)
{
    (void)state;
    static const char text[] = "[{\"name\": \"f\", \"parameters\": {}}, "
                               "{\"name\": \"g\", \"parameters\": {\"a";
    static const char rest[] = " {\"name\": \"g\", \"parameters\": {\"a";
    struct mr_message_rules rules = rules_of(MR_TOOLS_ARRAY);
    rules.steady = true;
    struct joined *cut = read_text(&rules, (struct mr_text){text, sizeof text - 1}, 3);
    assert_int_equal(cut->call_count, 2);
    assert_string_equal(cut->calls[1].name, "g");
    assert_true(mr_text_is(mr_buffer_text(&cut->calls[1].arguments), "{\"a"));
    assert_true(mr_text_is(mr_buffer_text(&cut->content), rest));
    joined_destroy(cut);
    /* the result of the same answer */
    struct mr_arena *arena = mr_arena_create(1 << 16);
    struct mr_choice choice = {.text = {text, sizeof text - 1}};
    struct mr_error err;
    assert_int_equal(mr_message_split(&choice, &rules, arena, &err), MR_OK);
    assert_int_equal(choice.tool_call_count, 1);
    assert_true(mr_text_is(choice.content, rest));
    mr_arena_destroy(arena);
}

/* Text is passed on as soon as it cannot belong to a call, not only at the end. */
static void text_is_held_back_only_while_it_may_be_a_call(void **state)
{
    (void)state;
    static const struct {
        enum mr_tool_format format;
        const char *text, *content; /* the part of the unfinished text that is passed on */
    } cases[] = {
        {MR_TOOLS_HERMES, "It is <b>", "It is <b>"},
        {MR_TOOLS_HERMES, "It is \n", "It is "},
        {MR_TOOLS_HERMES, "It is <tool", "It is "},
        {MR_TOOLS_HERMES, "It <tool_call> is", "It <tool_call> is"},
        {MR_TOOLS_HERMES, "It <tool_call>{\"name\": \"f\"} is",
         "It <tool_call>{\"name\": \"f\"} is"},
        {MR_TOOLS_MISTRAL, "It [TOOL_CALLS]f[1]", "It [TOOL_CALLS]f[1]"},
        {MR_TOOLS_LLAMA, "It is {", "It is {"},
        {MR_TOOLS_LLAMA, " {\"name\": \"f\"} is", ""},
        {MR_TOOLS_LLAMA, "```json\n[ {\"name\"", ""},
        {MR_TOOLS_LLAMA, "```python\nx", "```python\nx"},
        {MR_TOOLS_LLAMA, "[1] It", "[1] It"},
        {MR_TOOLS_LLAMA, "<|python_tag|>x", "<|python_tag|>x"},
        {MR_TOOLS_PYTHONIC, "It is [f()]", "It is [f()]"},
        {MR_TOOLS_HARMONY, "<|channel|>final<|message|>It is", "It is"},
        {MR_TOOLS_HARMONY, "<|channel|>final<|mess", ""},
        {MR_TOOLS_HARMONY, "It is", "It is"},
        {MR_TOOLS_QWEN_CODER, "It is <b>", "It is <b>"},
        {MR_TOOLS_QWEN_CODER, "It is <tool_call>\n<func", "It is "},
        {MR_TOOLS_QWEN_CODER, "It <tool_call> is", "It <tool_call> is"},
        {MR_TOOLS_QWEN_CODER, "It <function=f> is", "It <function=f> is"},
        {MR_TOOLS_QWEN_CODER, "It <function=f> <parameter a>", "It <function=f> <parameter a>"},
        {MR_TOOLS_QWEN_CODER, "It <tool_call><function=f> is", "It "},
        {MR_TOOLS_QWEN_CODER, "It <function=f><parameter=a>is</parameter> not", "It "},
        {MR_TOOLS_QWEN_CODER, "It <function=f><parameter=a>is\n<tool_call>\n<function=g>",
         "It <function=f><parameter=a>is"},
        {MR_TOOLS_QWEN_CODER, "It is <function=f><parameter=a>what</par", "It is "},
        {MR_TOOLS_QWEN_CODER, "So <function=f></function> \n</tool", "So "},
        {MR_TOOLS_QWEN_CODER, "So <function=f></function> \n</tool_call> it", "So  it"},
        {MR_TOOLS_NONE, "It is <tool_call>", "It is <tool_call>"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mr_message_rules rules = rules_of(cases[i].format);
        struct mr_message *message;
        struct mr_error err;
        struct joined *joined = joined_create();
        struct mr_text text = {cases[i].text, strlen(cases[i].text)};
        assert_int_equal(mr_message_create(&message, &rules, &err), MR_OK);
        push(message, text, 0, text.length, 1, joined);
        if (!mr_text_is(mr_buffer_text(&joined->content), cases[i].content))
            fail_msg("'%.*s' of %s", (int)joined->content.length,
                     mr_buffer_text(&joined->content).bytes, cases[i].text);
        mr_message_destroy(message);
        joined_destroy(joined);
    }
}

static void channels_of_harmony_are_told_apart(void **state)
{
    (void)state;
    static const struct {
        const char *text, *reasoning, *content, *name;
    } cases[] = {
        {"<|channel|>analysis<|message|>Why<|end|><|start|>assistant<|channel|>final<|message|>So.",
         "Why", "So.", NULL},
        {"<|channel|>analysis<|message|>Why<|end|><|start|>assistant<|channel|>commentary "
         "to=functions.f <|constrain|>json<|message|>{\"a\":1}",
         "Why", "", "f"},
        {"<|channel|>analysis<|message|>A<|end|><|start|>assistant<|channel|>analysis<|message|>B"
         "<|end|><|start|>assistant<|channel|>commentary<|message|>C<|end|>",
         "A\nB", "C", NULL},
        {"<|channel|>analysis<|message|>A<|channel|>final<|message|>B<|return|>", "A", "B", NULL},
        {" to=functions.f<|channel|>commentary<|message|>{} <|call|>", "", "", "f"},
        {" to=functions.f<|channel|>commentary<|message|>{<|call|>", "",
         " to=functions.f<|channel|>commentary<|message|>{", NULL},
        {"to=functions.f {\"a\": 1}<|call|>", "", "to=functions.f {\"a\": 1}", NULL},
        {"to=functions.f<|message|><|call|>", "", "", "f"},
        {"<|channel|>commentary to=functions.f<|message|>\n", "", "", "f"},
        {"to=functions.f<|message|>7<|call|>", "", "to=functions.f<|message|>7", NULL},
        {"<|channel|>commentary to=browser.search<|message|>{}<|call|>", "", "{}", NULL},
        {"<|channel|>analysis<|start|>", "", "<|channel|>analysis\n<|start|>", NULL},
    };
    struct mr_message_rules rules = rules_of(MR_TOOLS_HARMONY);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mr_text text = {cases[i].text, strlen(cases[i].text)};
        for (size_t step = 1; step < 100; step += 50) {
            struct joined *joined = read_text(&rules, text, step);
            if (!mr_text_is(mr_buffer_text(&joined->content), cases[i].content))
                fail_msg("'%.*s' of %s", (int)joined->content.length,
                         mr_buffer_text(&joined->content).bytes, cases[i].text);
            assert_true(mr_text_is(mr_buffer_text(&joined->reasoning), cases[i].reasoning));
            assert_int_equal(joined->call_count, cases[i].name != NULL);
            if (cases[i].name) assert_string_equal(joined->calls[0].name, cases[i].name);
            if (cases[i].name) assert_int_equal(joined->calls[0].arguments.bytes[0], '{');
            joined_destroy(joined);
        }
    }
}

static void the_echoed_prompt_may_come_in_pieces(void **state)
{
    (void)state;
    const char *text = "<think>Call: <think>a</think>b";
    struct mr_message_rules rules = rules_of(MR_TOOLS_NONE);
    rules.echoed_bytes = strlen("<think>Call: ");
    struct joined *joined = read_text(&rules, (struct mr_text){text, strlen(text)}, 5);
    assert_true(mr_text_is(mr_buffer_text(&joined->reasoning), "a"));
    assert_true(mr_text_is(mr_buffer_text(&joined->content), "b"));
    joined_destroy(joined);
}

int main(int argc, char **argv)
{
    if (argc > 1) mutated_count = (uint32_t)strtoul(argv[1], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deltas_joined_are_the_whole_message),
        cmocka_unit_test(deltas_of_damaged_answers_are_the_whole_message),
        cmocka_unit_test(deltas_of_mutated_answers_are_the_result),
        cmocka_unit_test(a_stream_may_be_resumed_at_every_byte),
        cmocka_unit_test(arguments_of_constrained_calls_come_in_pieces),
        cmocka_unit_test(a_constrained_call_that_is_cut_off_is_text_at_the_end),
        cmocka_unit_test(text_is_held_back_only_while_it_may_be_a_call),
        cmocka_unit_test(channels_of_harmony_are_told_apart),
        cmocka_unit_test(the_echoed_prompt_may_come_in_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
