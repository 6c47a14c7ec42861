#include "codec/openai/chunk.h"

#include "codec/limits.h"
#include "codec/openai/copy.h"
#include "codec/openai/logprobs.h"
#include "codec/openai/response.h"

#include <stdlib.h>
#include <string.h>

static bool append(struct mr_buffer *out, const char *text)
{
    return mr_buffer_append(out, (struct mr_text){text, strlen(text)});
}

bool mr_openai_append_event(struct mr_buffer *out, const char *name, struct mr_json_writer *writer)
{
    const size_t before = out->length;
    char *json = NULL;
    size_t length = 0;
    if (mr_json_writer_take(writer, &json, &length, NULL) != MR_OK) return false;
    const bool fits =
        (!name || (append(out, "event: ") && append(out, name) && append(out, "\n"))) &&
        append(out, "data: ") && mr_openai_append_line(out, (struct mr_text){json, length}) &&
        append(out, "\n\n");
    if (!fits) out->length = before;
    free(json);
    return fits;
}

/* Writes the chunk up to the elements of `choices`. */
static void begin(struct mr_json_writer *writer, const struct mr_openai_chunk *chunk)
{
    const bool chat = chunk->endpoint == MR_OPENAI_CHAT;
    mr_json_writer_init(writer, MR_RESULT_BYTES_MAX);
    mr_json_begin_object(writer);
    mr_openai_put_head(writer, chat ? "chatcmpl-" : "cmpl-",
                       chat ? "chat.completion.chunk" : "text_completion",
                       &(struct mr_openai_head){chunk->id, chunk->model, chunk->created_s});
    mr_json_name(writer, "choices");
    mr_json_begin_array(writer);
}

static bool end(struct mr_buffer *out, const struct mr_openai_chunk *chunk,
                struct mr_json_writer *writer)
{
    mr_json_end(writer);
    if (chunk->usage) mr_openai_put_null(writer, "usage");
    mr_json_end(writer);
    return mr_openai_append_event(out, NULL, writer);
}

/* Writes the choice up to the members of its delta. */
static void begin_choice(struct mr_json_writer *writer, uint32_t choice)
{
    mr_json_begin_object(writer);
    mr_openai_put_int(writer, "index", choice);
    mr_json_name(writer, "delta");
    mr_json_begin_object(writer);
}

/* Writes the members of a choice after its delta or text. finish_reason: NULL: none yet. */
static void end_choice(struct mr_json_writer *writer, const struct mr_openai_chunk *chunk,
                       const struct mr_value *logprobs, const char *finish_reason)
{
    mr_json_name(writer, "logprobs");
    if (!logprobs)
        mr_json_put_null(writer);
    else if (chunk->endpoint == MR_OPENAI_CHAT)
        mr_openai_put_chat_logprobs(writer, *logprobs);
    else
        mr_openai_put_text_logprobs(writer, *logprobs);
    if (finish_reason)
        mr_openai_put_string(writer, "finish_reason", finish_reason);
    else
        mr_openai_put_null(writer, "finish_reason");
    mr_json_end(writer);
}

bool mr_openai_role_chunk(struct mr_buffer *out, const struct mr_openai_chunk *chunk,
                          uint32_t choice)
{
    struct mr_json_writer writer;
    if (chunk->endpoint != MR_OPENAI_CHAT) return true;
    begin(&writer, chunk);
    begin_choice(&writer, choice);
    mr_openai_put_string(&writer, "role", "assistant");
    mr_openai_put_string(&writer, "content", "");
    mr_json_end(&writer);
    end_choice(&writer, chunk, NULL, NULL);
    return end(out, chunk, &writer);
}

static void put_call(struct mr_json_writer *writer, const struct mr_openai_call_part *call)
{
    mr_json_begin_object(writer);
    mr_openai_put_int(writer, "index", call->index);
    if (call->name.bytes) {
        mr_openai_put_text(writer, "id", call->id);
        mr_openai_put_string(writer, "type", "function");
    }
    mr_json_name(writer, "function");
    mr_json_begin_object(writer);
    if (call->name.bytes) mr_openai_put_text(writer, "name", call->name);
    mr_openai_put_text(writer, "arguments", call->arguments);
    mr_json_end(writer);
    mr_json_end(writer);
}

static void put_delta(struct mr_json_writer *writer, const struct mr_openai_delta *delta)
{
    if (delta->reasoning.length > 0) {
        mr_openai_put_text(writer, "reasoning_content", delta->reasoning);
        mr_openai_put_text(writer, "reasoning", delta->reasoning);
    }
    if (delta->content.length > 0) mr_openai_put_text(writer, "content", delta->content);
    if (delta->call_count == 0) return;
    mr_json_name(writer, "tool_calls");
    mr_json_begin_array(writer);
    for (size_t i = 0; i < delta->call_count; i++)
        put_call(writer, &delta->calls[i]);
    mr_json_end(writer);
}

bool mr_openai_delta_chunk(struct mr_buffer *out, const struct mr_openai_chunk *chunk,
                           const struct mr_openai_delta *delta)
{
    struct mr_json_writer writer;
    begin(&writer, chunk);
    if (chunk->endpoint == MR_OPENAI_CHAT) {
        begin_choice(&writer, delta->choice);
        put_delta(&writer, delta);
        mr_json_end(&writer);
    } else {
        mr_json_begin_object(&writer);
        mr_openai_put_int(&writer, "index", delta->choice);
        mr_openai_put_text(&writer, "text", delta->content);
    }
    end_choice(&writer, chunk, delta->logprobs, NULL);
    return end(out, chunk, &writer);
}

bool mr_openai_finish_chunk(struct mr_buffer *out, const struct mr_openai_chunk *chunk,
                            uint32_t choice, const char *finish_reason)
{
    struct mr_json_writer writer;
    begin(&writer, chunk);
    if (chunk->endpoint == MR_OPENAI_CHAT) {
        begin_choice(&writer, choice);
        mr_json_end(&writer);
    } else {
        mr_json_begin_object(&writer);
        mr_openai_put_int(&writer, "index", choice);
        mr_openai_put_string(&writer, "text", "");
    }
    end_choice(&writer, chunk, NULL, finish_reason);
    return end(out, chunk, &writer);
}

bool mr_openai_usage_chunk(struct mr_buffer *out, const struct mr_openai_chunk *chunk,
                           struct mr_value result)
{
    struct mr_json_writer writer;
    begin(&writer, chunk);
    mr_json_end(&writer);
    mr_openai_put_usage(&writer, result);
    mr_json_end(&writer);
    return mr_openai_append_event(out, NULL, &writer);
}
