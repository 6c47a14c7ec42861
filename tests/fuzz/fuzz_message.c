/* The message of an answer: the joined reasoning, content and tool calls of a text in pieces equal
 * those of the whole text, in every format, including harmony.
 *
 * Input: a byte that chooses the format, a byte of flags, a byte with the size of the pieces, a
 * byte with the length of the echoed prompt, then the text. */
#include "codec/buffer.h"
#include "codec/records/message.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

#define TEXT_BYTES_MAX ((size_t)64 << 10)

/* The deltas that a client has joined so far. */
struct joined {
    struct mr_buffer content, reasoning;
    struct mr_buffer names[MR_TOOL_CALLS_MAX + 1], arguments[MR_TOOL_CALLS_MAX + 1];
    size_t call_count;
};

static struct joined *joined_create(void)
{
    struct joined *joined = calloc(1, sizeof *joined);
    MR_ASSERT(joined);
    mr_buffer_init(&joined->content, 4 * TEXT_BYTES_MAX);
    mr_buffer_init(&joined->reasoning, 4 * TEXT_BYTES_MAX);
    for (size_t i = 0; i <= MR_TOOL_CALLS_MAX; i++) {
        mr_buffer_init(&joined->names[i], 4 * TEXT_BYTES_MAX);
        mr_buffer_init(&joined->arguments[i], 4 * TEXT_BYTES_MAX);
    }
    return joined;
}

static void joined_destroy(struct joined *joined)
{
    mr_buffer_drop(&joined->content);
    mr_buffer_drop(&joined->reasoning);
    for (size_t i = 0; i <= MR_TOOL_CALLS_MAX; i++) {
        mr_buffer_drop(&joined->names[i]);
        mr_buffer_drop(&joined->arguments[i]);
    }
    free(joined);
}

static void add(struct mr_buffer *buffer, struct mr_text text)
{
    MR_ASSERT(mr_buffer_append(buffer, text));
}

/* The deltas of a call follow each other, and the first one has the call's name. */
static void join(struct joined *joined, const struct mr_message_delta *delta)
{
    add(&joined->content, delta->content);
    add(&joined->reasoning, delta->reasoning);
    for (size_t i = 0; i < delta->call_count; i++) {
        const struct mr_tool_call_delta *call = &delta->calls[i];
        MR_ASSERT(call->index == joined->call_count - (call->name.bytes == NULL));
        MR_ASSERT(call->index <= MR_TOOL_CALLS_MAX);
        joined->call_count += call->name.bytes != NULL;
        add(&joined->names[call->index], call->name);
        add(&joined->arguments[call->index], call->arguments);
    }
}

static struct joined *read_pieces(const struct mr_message_rules *rules, struct mr_text text,
                                  size_t step)
{
    struct mr_message *message;
    struct mr_message_delta delta;
    struct mr_error err;
    struct joined *joined = joined_create();
    MR_ASSERT(mr_message_create(&message, rules, &err) == MR_OK);
    for (size_t from = 0; from < text.length; from += step) {
        size_t end = text.length - from > step ? from + step : text.length;
        MR_ASSERT(mr_message_push(message, mr_text_part(text, from, end), false, &delta, &err) ==
                  MR_OK);
        join(joined, &delta);
    }
    MR_ASSERT(mr_message_push(message, mr_text_part(text, 0, 0), true, &delta, &err) == MR_OK);
    join(joined, &delta);
    mr_message_destroy(message);
    return joined;
}

static void compare(const struct joined *joined, const struct mr_choice *choice, bool steady)
{
    MR_ASSERT(mr_text_equal(mr_buffer_text(&joined->content), choice->content));
    MR_ASSERT(mr_text_equal(mr_buffer_text(&joined->reasoning), choice->reasoning));
    /* a text that no grammar constrains may have calls without an end */
    if (steady) return;
    MR_ASSERT(joined->call_count == choice->tool_call_count);
    for (size_t i = 0; i < joined->call_count; i++) {
        const struct mr_tool_call *call = &choice->tool_calls[i];
        MR_ASSERT(mr_text_equal(mr_buffer_text(&joined->names[i]), call->name));
        MR_ASSERT(mr_text_equal(mr_buffer_text(&joined->arguments[i]), call->arguments));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_cursor cursor = {data, size};
    struct mr_error err;
    uint8_t format = fuzz_u8(&cursor), flags = fuzz_u8(&cursor), step = fuzz_u8(&cursor);
    struct mr_message_rules rules = {
        .is_split = true,
        .format = (enum mr_tool_format)(format % MR_TOOLS_FORMAT_COUNT),
        .calls_max = flags & 1 ? 1 : MR_TOOL_CALLS_MAX,
        .has_reasoning = flags & 2,
        .opened = (enum mr_opened)(flags / 4 % 2 * (1 + flags / 16 % 3)),
        .steady = flags & 8,
        .echoed_bytes = fuzz_u8(&cursor) % 8u,
    };
    struct mr_text text = fuzz_take(&cursor, TEXT_BYTES_MAX);
    if (!text.bytes) text.bytes = "";
    if (rules.echoed_bytes > text.length) rules.echoed_bytes = text.length;
    struct mr_arena *arena = mr_arena_create((size_t)64 << 20);
    MR_ASSERT(arena);
    struct mr_choice choice = {.text = text};
    MR_ASSERT(mr_message_split(&choice, &rules, arena, &err) == MR_OK);
    /* one byte at a time, and in larger pieces */
    const size_t steps[] = {1, 2u + step % 15u};
    for (size_t i = 0; i < 2; i++) {
        struct joined *joined = read_pieces(&rules, text, steps[i]);
        compare(joined, &choice, rules.steady);
        joined_destroy(joined);
    }
    mr_arena_destroy(arena);
    return 0;
}
