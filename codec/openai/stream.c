#include "codec/openai/stream.h"

#include "codec/openai/copy.h"
#include "codec/openai/events.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALLS_MAX  128u /* of a choice; later ones are left out of the stream */
#define TEXT_BYTES ((size_t)256)

static const char differs[] =
    "the answer was computed again after a failure and differs from the part that was sent";

/* One text of a choice: what was sent of it, and how much of that the present attempt has
 * repeated. */
struct track {
    struct mr_buffer sent;
    size_t at;
};

struct call {
    struct track arguments;
    char id[16], *name; /* name NULL: the call was not sent */
};

struct choice {
    uint32_t attempt, next_index;
    uint32_t sent_index; /* log-probabilities of tokens below this index were sent */
    bool begun;          /* the role was sent */
    bool waits;          /* for the result */
    struct track content, reasoning;
    struct call *calls; /* [call_count] */
    uint32_t call_count;
};

struct mr_openai_stream {
    struct mr_openai_chunk chunk; /* its texts are `id` and `model` */
    char id[TEXT_BYTES], model[TEXT_BYTES];
    struct mr_openai_events events; /* of a Response */
    struct choice *choices;         /* [choice_count] */
    uint32_t choice_count;
};

static struct mr_text keep(char bytes[TEXT_BYTES], struct mr_text text)
{
    const size_t length = text.length < TEXT_BYTES ? text.length : TEXT_BYTES;
    memcpy(bytes, text.bytes, length);
    return (struct mr_text){bytes, length};
}

static void track_init(struct track *track)
{
    mr_buffer_init(&track->sent, MR_OPENAI_STREAM_BYTES_MAX);
    track->at = 0;
}

enum mr_status mr_openai_stream_create(struct mr_openai_stream **out,
                                       const struct mr_openai_stream_options *options,
                                       struct mr_error *err)
{
    *out = NULL;
    struct mr_openai_stream *stream = calloc(1, sizeof *stream);
    const uint32_t count = options->choice_count > 0 ? options->choice_count : 1;
    struct choice *choices = calloc(count, sizeof *choices);
    if (!stream || !choices) {
        free(stream);
        free(choices);
        return mr_fail(err, MR_NOMEM, "no memory for a stream");
    }
    stream->chunk = (struct mr_openai_chunk){.endpoint = options->endpoint,
                                             .id = keep(stream->id, options->id),
                                             .model = keep(stream->model, options->model),
                                             .created_s = options->created_s,
                                             .usage = options->usage};
    stream->choices = choices;
    stream->choice_count = count;
    for (uint32_t i = 0; i < count; i++) {
        track_init(&choices[i].content);
        track_init(&choices[i].reasoning);
    }
    *out = stream;
    return MR_OK;
}

void mr_openai_stream_destroy(struct mr_openai_stream *stream)
{
    if (!stream) return;
    for (uint32_t i = 0; i < stream->choice_count; i++) {
        struct choice *choice = &stream->choices[i];
        mr_buffer_drop(&choice->content.sent);
        mr_buffer_drop(&choice->reasoning.sent);
        for (uint32_t k = 0; k < choice->call_count; k++) {
            mr_buffer_drop(&choice->calls[k].arguments.sent);
            free(choice->calls[k].name);
        }
        free(choice->calls);
    }
    free(stream->choices);
    free(stream);
}

static bool is_response(const struct mr_openai_stream *stream)
{
    return stream->chunk.endpoint == MR_OPENAI_RESPONSES;
}

/* ---- what is new ---- */

/* Passes the next part of a text. *fresh: the end of the part that was not sent yet, now noted as
 * sent. False: the part differs from what was sent, or there is no memory. */
static bool follow(struct track *track, struct mr_text part, struct mr_text *fresh)
{
    const size_t left = track->sent.length - track->at;
    const size_t repeated = left < part.length ? left : part.length;
    *fresh = (struct mr_text){"", 0};
    if (repeated > 0 && memcmp(track->sent.bytes + track->at, part.bytes, repeated) != 0)
        return false;
    if (part.length > repeated) {
        *fresh = mr_text_part(part, repeated, part.length);
        if (!mr_buffer_append(&track->sent, *fresh)) return false;
    }
    track->at += part.length;
    return true;
}

static struct call *find_call(struct choice *choice, uint32_t index)
{
    if (index >= CALLS_MAX) return NULL;
    if (index >= choice->call_count) {
        struct call *grown = realloc(choice->calls, (index + 1) * sizeof *grown);
        if (!grown) return NULL;
        memset(grown + choice->call_count, 0, (index + 1 - choice->call_count) * sizeof *grown);
        for (uint32_t i = choice->call_count; i <= index; i++)
            track_init(&grown[i].arguments);
        choice->calls = grown;
        choice->call_count = index + 1;
    }
    return &choice->calls[index];
}

/* Passes a part of a call. part->arguments becomes what is new of them; *is_new: the part is to be
 * sent. Returns as follow(). */
static bool follow_call(struct choice *choice, struct mr_value value,
                        struct mr_openai_call_part *part, bool *is_new)
{
    struct mr_value function = value;
    struct mr_text arguments = {"", 0}, name, id = {"", 0};
    *part = (struct mr_openai_call_part){
        .index = (uint32_t)mr_openai_get_int(value, "index", CALLS_MAX)};
    struct call *call = find_call(choice, part->index);
    *is_new = false;
    if (!call) return false;
    (void)mr_openai_get(value, "function", &function);
    (void)mr_openai_get_text(function, "arguments", &arguments);
    (void)mr_openai_get_text(value, "id", &id);
    if (mr_openai_get_text(function, "name", &name)) {
        if (call->name && !mr_text_is(name, call->name)) return false;
        if (!call->name) {
            call->name = strndup(name.bytes, name.length);
            if (!call->name) return false;
            snprintf(call->id, sizeof call->id, "%.*s", (int)id.length, id.bytes);
            part->id = (struct mr_text){call->id, strlen(call->id)};
            part->name = (struct mr_text){call->name, strlen(call->name)};
            *is_new = true;
        }
    }
    if (!call->name || !follow(&call->arguments, arguments, &part->arguments)) return false;
    *is_new = *is_new || part->arguments.length > 0;
    return true;
}

/* ---- sending ---- */

static struct mr_text whole_of(const struct mr_openai_stream *stream)
{
    const struct choice *choice = &stream->choices[0];
    const struct mr_openai_events *events = &stream->events;
    return mr_buffer_text(events->open == MR_OPENAI_CALL
                              ? &choice->calls[events->call.index].arguments.sent
                          : events->open == MR_OPENAI_REASONING ? &choice->reasoning.sent
                                                                : &choice->content.sent);
}

/* Opens the item if another one or none is open. */
static bool open_item(struct mr_openai_stream *stream, struct mr_buffer *out,
                      enum mr_openai_item item, const struct mr_openai_call_part *call)
{
    struct mr_openai_events *events = &stream->events;
    if (events->open == item && (!call || call->index == events->call.index)) return true;
    return mr_openai_events_close(events, out, whole_of(stream), true) &&
           mr_openai_events_open(events, out, item, call);
}

static bool send_item(struct mr_openai_stream *stream, struct mr_buffer *out,
                      enum mr_openai_item item, struct mr_text text,
                      const struct mr_value *logprobs)
{
    if (text.length == 0) return true;
    return open_item(stream, out, item, NULL) &&
           mr_openai_events_delta(&stream->events, out, text, logprobs);
}

static bool send_call(struct mr_openai_stream *stream, struct mr_buffer *out,
                      const struct mr_openai_call_part *part)
{
    const struct call *call = &stream->choices[0].calls[part->index];
    const struct mr_openai_call_part whole = {
        part->index, {call->id, strlen(call->id)}, {call->name, strlen(call->name)}, {"", 0}};
    return open_item(stream, out, MR_OPENAI_CALL, &whole) &&
           (part->arguments.length == 0 ||
            mr_openai_events_delta(&stream->events, out, part->arguments, NULL));
}

static bool send_delta(struct mr_openai_stream *stream, struct mr_buffer *out,
                       const struct mr_openai_delta *delta)
{
    if (delta->content.length + delta->reasoning.length + delta->call_count == 0 &&
        !delta->logprobs)
        return true;
    if (!is_response(stream)) return mr_openai_delta_chunk(out, &stream->chunk, delta);
    bool fits = send_item(stream, out, MR_OPENAI_REASONING, delta->reasoning, NULL) &&
                send_item(stream, out, MR_OPENAI_MESSAGE, delta->content, delta->logprobs);
    for (size_t i = 0; fits && i < delta->call_count; i++)
        fits = send_call(stream, out, &delta->calls[i]);
    return fits;
}

static bool send_role(struct mr_openai_stream *stream, uint32_t index, struct mr_buffer *out)
{
    struct choice *choice = &stream->choices[index];
    if (choice->begun) return true;
    choice->begun = true;
    return is_response(stream) || mr_openai_role_chunk(out, &stream->chunk, index);
}

/* Sends what is new in content, reasoning and tool_calls of a token record or of a choice of the
 * result. Sets choice->waits if they contradict what was sent. logprobs: may be NULL. */
static bool send_message(struct mr_openai_stream *stream, uint32_t index, struct mr_value message,
                         const struct mr_value *logprobs, struct mr_buffer *out)
{
    struct choice *choice = &stream->choices[index];
    struct mr_openai_delta delta = {.choice = index, .logprobs = logprobs};
    struct mr_text text = {"", 0}, reasoning = {"", 0};
    struct mr_value calls;
    const bool plain = stream->chunk.endpoint == MR_OPENAI_COMPLETIONS;
    (void)mr_openai_get_text(message, plain ? "text" : "content", &text);
    if (!plain) (void)mr_openai_get_text(message, "reasoning", &reasoning);
    bool agrees = follow(&choice->reasoning, reasoning, &delta.reasoning);
    agrees = agrees && follow(&choice->content, text, &delta.content);
    bool fits = send_role(stream, index, out) && send_delta(stream, out, &delta);
    const bool has_calls = !plain && mr_openai_get(message, "tool_calls", &calls) &&
                           mr_value_kind(calls) == MR_VALUE_ARRAY;
    for (size_t i = 0; has_calls && agrees && fits && i < mr_value_count(calls); i++) {
        struct mr_openai_call_part part;
        bool is_new = false;
        agrees = follow_call(choice, mr_value_at(calls, i), &part, &is_new);
        delta = (struct mr_openai_delta){.choice = index, .calls = &part, .call_count = 1};
        if (agrees && is_new) fits = send_delta(stream, out, &delta);
    }
    if (!agrees) choice->waits = true;
    return fits;
}

/* ---- records ---- */

static void rewind_to_start(struct choice *choice)
{
    choice->next_index = 0;
    choice->content.at = choice->reasoning.at = 0;
    for (uint32_t i = 0; i < choice->call_count; i++)
        choice->calls[i].arguments.at = 0;
}

/* A first record of a higher attempt. */
static void begin_attempt(struct choice *choice, struct mr_value record, int64_t index)
{
    const int64_t resumed_at = mr_openai_get_int(record, "resumed_at", -1);
    choice->attempt = (uint32_t)mr_openai_get_int(record, "attempt", 1);
    if (resumed_at == index && index == choice->next_index && !choice->waits) return;
    choice->waits = index != 0;
    rewind_to_start(choice);
}

bool mr_openai_stream_begin(struct mr_openai_stream *stream, struct mr_value request,
                            struct mr_buffer *out)
{
    if (!is_response(stream)) return true;
    const struct mr_openai_answer answer = {.endpoint = MR_OPENAI_RESPONSES,
                                            .id = stream->chunk.id,
                                            .created_s = stream->chunk.created_s,
                                            .request = request,
                                            .result = request,
                                            .unfinished = true,
                                            .model = stream->chunk.model};
    return mr_openai_events_begin(&stream->events, out, &answer);
}

bool mr_openai_stream_tokens(struct mr_openai_stream *stream, struct mr_value record,
                             struct mr_buffer *out)
{
    struct mr_value ids, logprobs;
    const int64_t number = mr_openai_get_int(record, "choice", 0);
    const int64_t attempt = mr_openai_get_int(record, "attempt", 1);
    const int64_t index = mr_openai_get_int(record, "index", 0);
    if (number < 0 || number >= stream->choice_count) return true;
    struct choice *choice = &stream->choices[number];
    if (attempt < choice->attempt) return true;
    if (attempt > choice->attempt) begin_attempt(choice, record, index);
    const size_t count =
        mr_openai_get(record, "token_ids", &ids) && mr_value_kind(ids) == MR_VALUE_ARRAY
            ? mr_value_count(ids)
            : 0;
    if (index > choice->next_index) choice->waits = true;
    if (choice->waits || index < choice->next_index) return true;
    choice->next_index += (uint32_t)count;
    const bool has_new =
        choice->next_index > choice->sent_index && mr_openai_get(record, "logprobs", &logprobs);
    if (choice->next_index > choice->sent_index) choice->sent_index = choice->next_index;
    return send_message(stream, (uint32_t)number, record, has_new ? &logprobs : NULL, out);
}

static uint32_t count_of(const struct mr_openai_stream *stream, struct mr_value result)
{
    const size_t count = mr_openai_choice_count(result);
    return count < stream->choice_count ? (uint32_t)count : stream->choice_count;
}

static bool send_end(struct mr_openai_stream *stream, struct mr_value result, struct mr_buffer *out)
{
    bool fits = true;
    for (uint32_t i = 0; fits && i < count_of(stream, result); i++)
        fits = mr_openai_finish_chunk(out, &stream->chunk, i,
                                      mr_openai_finish(mr_openai_choice(result, i)));
    if (fits && stream->chunk.usage) fits = mr_openai_usage_chunk(out, &stream->chunk, result);
    return fits && mr_buffer_append(out, (struct mr_text){"data: [DONE]\n\n", 14});
}

static bool send_response_end(struct mr_openai_stream *stream, struct mr_value request,
                              struct mr_value result, struct mr_buffer *out)
{
    const struct mr_openai_answer answer = {.endpoint = MR_OPENAI_RESPONSES,
                                            .id = stream->chunk.id,
                                            .created_s = stream->chunk.created_s,
                                            .request = request,
                                            .result = result,
                                            .model = stream->chunk.model};
    const bool complete = mr_openai_finish(result)[0] != 'l';
    const bool has_item =
        stream->choices[0].content.sent.length > 0 || stream->choices[0].call_count > 0;
    return (has_item || open_item(stream, out, MR_OPENAI_MESSAGE, NULL)) &&
           mr_openai_events_close(&stream->events, out, whole_of(stream), complete) &&
           mr_openai_events_end(&stream->events, out, &answer);
}

/* Whether all that was sent is part of the answer. */
static bool is_repeated(const struct track *track)
{
    return track->at >= track->sent.length;
}

bool mr_openai_stream_result(struct mr_openai_stream *stream, struct mr_value request,
                             struct mr_value result, struct mr_buffer *out)
{
    struct mr_openai_error error;
    if (mr_openai_result_failed(result, request, &error))
        return mr_openai_stream_fail(stream, request, &error, out);
    for (uint32_t i = 0; i < count_of(stream, result); i++) {
        struct choice *choice = &stream->choices[i];
        rewind_to_start(choice);
        choice->waits = false;
        if (!send_message(stream, i, mr_openai_choice(result, i), NULL, out)) return false;
        if (!choice->waits && is_repeated(&choice->content) && is_repeated(&choice->reasoning))
            continue;
        mr_openai_error_of(&error, (struct mr_text){"internal", 8},
                           (struct mr_text){differs, sizeof differs - 1}, request);
        error.retryable = true;
        return mr_openai_stream_fail(stream, request, &error, out);
    }
    return is_response(stream) ? send_response_end(stream, request, result, out)
                               : send_end(stream, result, out);
}

bool mr_openai_stream_fail(struct mr_openai_stream *stream, struct mr_value request,
                           const struct mr_openai_error *error, struct mr_buffer *out)
{
    if (is_response(stream)) {
        const struct mr_openai_answer answer = {.endpoint = MR_OPENAI_RESPONSES,
                                                .id = stream->chunk.id,
                                                .created_s = stream->chunk.created_s,
                                                .request = request,
                                                .result = request,
                                                .unfinished = true,
                                                .error = error,
                                                .model = stream->chunk.model};
        return mr_openai_events_close(&stream->events, out, whole_of(stream), false) &&
               mr_openai_events_end(&stream->events, out, &answer);
    }
    struct mr_json_writer writer;
    mr_json_writer_init(&writer, (size_t)1 << 20);
    mr_openai_put_error(&writer, error);
    return mr_openai_append_event(out, NULL, &writer) &&
           mr_buffer_append(out, (struct mr_text){"data: [DONE]\n\n", 14});
}
