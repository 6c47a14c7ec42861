#include "codec/openai/events.h"

#include "codec/limits.h"
#include "codec/openai/copy.h"
#include "codec/openai/logprobs.h"
#include "codec/openai/responses.h"

#include <stdio.h>

/* Names of the events of an item: its part added and done, its text's delta and done. NULL: the
 * item has no such event. */
static const struct {
    const char *prefix, *type, *part_type, *text, *delta, *text_done;
} items[] = {
    [MR_OPENAI_REASONING] = {"rs_", "reasoning", NULL, "text", "response.reasoning_text.delta",
                             "response.reasoning_text.done"},
    [MR_OPENAI_MESSAGE] = {"msg_", "message", "output_text", "text", "response.output_text.delta",
                           "response.output_text.done"},
    [MR_OPENAI_CALL] = {"fc_", "function_call", NULL, "arguments",
                        "response.function_call_arguments.delta",
                        "response.function_call_arguments.done"},
};

static void begin(struct mr_openai_events *events, struct mr_json_writer *writer, const char *type)
{
    mr_json_writer_init(writer, MR_RESULT_BYTES_MAX);
    mr_json_begin_object(writer);
    mr_openai_put_string(writer, "type", type);
    mr_openai_put_int(writer, "sequence_number", events->sequence++);
}

static bool end(struct mr_buffer *out, const char *type, struct mr_json_writer *writer)
{
    mr_json_end(writer);
    return mr_openai_append_event(out, type, writer);
}

static void put_item_id(struct mr_json_writer *writer, const struct mr_openai_events *events,
                        const char *name)
{
    char id[256];
    const unsigned number = events->open == MR_OPENAI_CALL ? events->call.index : 0;
    snprintf(id, sizeof id, "%s%.*s-%u", items[events->open].prefix, (int)events->id.length,
             events->id.bytes, number);
    mr_openai_put_string(writer, name, id);
}

/* Writes item_id, output_index and, except for a call, content_index. */
static void put_place(struct mr_json_writer *writer, const struct mr_openai_events *events)
{
    put_item_id(writer, events, "item_id");
    mr_openai_put_int(writer, "output_index", (int64_t)events->items - 1);
    if (events->open != MR_OPENAI_CALL) mr_openai_put_int(writer, "content_index", 0);
}

static bool put_response(struct mr_openai_events *events, struct mr_buffer *out, const char *type,
                         const struct mr_openai_answer *answer)
{
    struct mr_json_writer writer;
    begin(events, &writer, type);
    mr_json_name(&writer, "response");
    mr_json_begin_object(&writer);
    mr_openai_put_responses_object(&writer, answer);
    mr_json_end(&writer);
    return end(out, type, &writer);
}

bool mr_openai_events_begin(struct mr_openai_events *events, struct mr_buffer *out,
                            const struct mr_openai_answer *answer)
{
    *events = (struct mr_openai_events){.id = answer->id};
    return put_response(events, out, "response.created", answer) &&
           put_response(events, out, "response.in_progress", answer);
}

static void put_part(struct mr_json_writer *writer, const struct mr_openai_events *events,
                     struct mr_text text)
{
    const char *type = items[events->open].part_type;
    mr_json_begin_object(writer);
    mr_openai_put_string(writer, "type", type ? type : "reasoning_text");
    mr_openai_put_text(writer, "text", text);
    if (type) {
        mr_json_name(writer, "annotations");
        mr_json_put_raw(writer, (struct mr_text){"[]", 2});
        mr_json_name(writer, "logprobs");
        mr_json_put_raw(writer, (struct mr_text){"[]", 2});
    }
    mr_json_end(writer);
}

/* Writes the item. whole: its text; NULL: the item has just been added. */
static void put_item(struct mr_json_writer *writer, const struct mr_openai_events *events,
                     const struct mr_text *whole, const char *status)
{
    static const struct mr_text empty = {"", 0};
    mr_json_name(writer, "item");
    mr_json_begin_object(writer);
    put_item_id(writer, events, "id");
    mr_openai_put_string(writer, "type", items[events->open].type);
    mr_openai_put_string(writer, "status", status);
    if (events->open == MR_OPENAI_CALL) {
        mr_openai_put_text(writer, "call_id", events->call.id);
        mr_openai_put_text(writer, "name", events->call.name);
        mr_openai_put_text(writer, "arguments", whole ? *whole : empty);
    } else {
        if (events->open == MR_OPENAI_MESSAGE) mr_openai_put_string(writer, "role", "assistant");
        if (events->open == MR_OPENAI_REASONING) {
            mr_json_name(writer, "summary");
            mr_json_put_raw(writer, (struct mr_text){"[]", 2});
        }
        mr_json_name(writer, "content");
        mr_json_begin_array(writer);
        if (whole) put_part(writer, events, *whole);
        mr_json_end(writer);
    }
    mr_json_end(writer);
}

static bool put_item_event(struct mr_openai_events *events, struct mr_buffer *out, const char *type,
                           const struct mr_text *whole, const char *status)
{
    struct mr_json_writer writer;
    begin(events, &writer, type);
    mr_openai_put_int(&writer, "output_index", (int64_t)events->items - 1);
    put_item(&writer, events, whole, status);
    return end(out, type, &writer);
}

/* Writes content_part.added or .done; a call has no parts. */
static bool put_part_event(struct mr_openai_events *events, struct mr_buffer *out, const char *type,
                           struct mr_text text)
{
    struct mr_json_writer writer;
    if (events->open == MR_OPENAI_CALL) return true;
    begin(events, &writer, type);
    put_place(&writer, events);
    mr_json_name(&writer, "part");
    put_part(&writer, events, text);
    return end(out, type, &writer);
}

bool mr_openai_events_open(struct mr_openai_events *events, struct mr_buffer *out,
                           enum mr_openai_item item, const struct mr_openai_call_part *call)
{
    MR_ASSERT(events->open == MR_OPENAI_NO_ITEM && item != MR_OPENAI_NO_ITEM);
    events->open = item;
    events->items++;
    if (call) events->call = *call;
    return put_item_event(events, out, "response.output_item.added", NULL, "in_progress") &&
           put_part_event(events, out, "response.content_part.added", (struct mr_text){"", 0});
}

bool mr_openai_events_delta(struct mr_openai_events *events, struct mr_buffer *out,
                            struct mr_text text, const struct mr_value *logprobs)
{
    struct mr_json_writer writer;
    MR_ASSERT(events->open != MR_OPENAI_NO_ITEM);
    const char *type = items[events->open].delta;
    begin(events, &writer, type);
    put_place(&writer, events);
    mr_openai_put_text(&writer, "delta", text);
    if (events->open == MR_OPENAI_MESSAGE) {
        mr_json_name(&writer, "logprobs");
        if (logprobs)
            mr_openai_put_logprob_list(&writer, *logprobs);
        else
            mr_json_put_raw(&writer, (struct mr_text){"[]", 2});
    }
    return end(out, type, &writer);
}

bool mr_openai_events_close(struct mr_openai_events *events, struct mr_buffer *out,
                            struct mr_text whole, bool complete)
{
    struct mr_json_writer writer;
    if (events->open == MR_OPENAI_NO_ITEM) return true;
    const char *type = items[events->open].text_done;
    begin(events, &writer, type);
    put_place(&writer, events);
    mr_openai_put_text(&writer, items[events->open].text, whole);
    if (events->open == MR_OPENAI_CALL) mr_openai_put_text(&writer, "name", events->call.name);
    if (events->open == MR_OPENAI_MESSAGE) {
        mr_json_name(&writer, "logprobs");
        mr_json_put_raw(&writer, (struct mr_text){"[]", 2});
    }
    const bool fits = end(out, type, &writer) &&
                      put_part_event(events, out, "response.content_part.done", whole) &&
                      put_item_event(events, out, "response.output_item.done", &whole,
                                     complete ? "completed" : "incomplete");
    events->open = MR_OPENAI_NO_ITEM;
    return fits;
}

bool mr_openai_events_end(struct mr_openai_events *events, struct mr_buffer *out,
                          const struct mr_openai_answer *answer)
{
    const bool complete = !answer->error && mr_openai_finish(answer->result)[0] != 'l';
    return put_response(events, out,
                        answer->error ? "response.failed"
                        : complete    ? "response.completed"
                                      : "response.incomplete",
                        answer);
}
