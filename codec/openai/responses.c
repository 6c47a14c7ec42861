#include "codec/openai/responses.h"

#include "codec/openai/copy.h"
#include "codec/openai/logprobs.h"

#include <stdio.h>

/* Members that a Response repeats from its request, with the value that an absent one has. */
static const struct {
    const char *name, *absent;
} repeated[] = {
    {"instructions", "null"},
    {"max_output_tokens", "null"},
    {"metadata", "{}"},
    {"parallel_tool_calls", "true"},
    {"reasoning", "{\"effort\":null,\"summary\":null}"},
    {"temperature", "null"},
    {"text", "{\"format\":{\"type\":\"text\"}}"},
    {"tool_choice", "\"auto\""},
    {"tools", "[]"},
    {"top_p", "null"},
    {"truncation", "\"disabled\""},
};

static void put_raw(struct mr_json_writer *writer, const char *name, const char *json)
{
    mr_json_name(writer, name);
    mr_json_put_raw(writer, (struct mr_text){json, __builtin_strlen(json)});
}

/* Writes a member with prefix, the request's id and a number as its text. */
static void put_id(struct mr_json_writer *writer, const char *prefix, struct mr_text id,
                   size_t number)
{
    char text[256];
    snprintf(text, sizeof text, "%s%.*s-%zu", prefix, (int)id.length, id.bytes, number);
    mr_openai_put_string(writer, "id", text);
}

static void put_reasoning(struct mr_json_writer *writer, const struct mr_openai_answer *answer,
                          struct mr_text reasoning)
{
    mr_json_begin_object(writer);
    put_id(writer, "rs_", answer->id, 0);
    mr_openai_put_string(writer, "type", "reasoning");
    put_raw(writer, "summary", "[]");
    mr_json_name(writer, "content");
    mr_json_begin_array(writer);
    mr_json_begin_object(writer);
    mr_openai_put_string(writer, "type", "reasoning_text");
    mr_openai_put_text(writer, "text", reasoning);
    mr_json_end(writer);
    mr_json_end(writer);
    mr_openai_put_string(writer, "status", "completed");
    mr_json_end(writer);
}

static void put_message(struct mr_json_writer *writer, const struct mr_openai_answer *answer,
                        const char *status)
{
    struct mr_value logprobs;
    mr_json_begin_object(writer);
    put_id(writer, "msg_", answer->id, 0);
    mr_openai_put_string(writer, "type", "message");
    mr_openai_put_string(writer, "role", "assistant");
    mr_openai_put_string(writer, "status", status);
    mr_json_name(writer, "content");
    mr_json_begin_array(writer);
    mr_json_begin_object(writer);
    mr_openai_put_string(writer, "type", "output_text");
    mr_openai_put_text(writer, "text", mr_openai_content(answer->result));
    put_raw(writer, "annotations", "[]");
    mr_json_name(writer, "logprobs");
    if (mr_openai_get(answer->result, "logprobs", &logprobs))
        mr_openai_put_logprob_list(writer, logprobs);
    else
        mr_json_put_raw(writer, (struct mr_text){"[]", 2});
    mr_json_end(writer);
    mr_json_end(writer);
    mr_json_end(writer);
}

static void put_call(struct mr_json_writer *writer, const struct mr_openai_answer *answer,
                     struct mr_value call, size_t number)
{
    struct mr_value function = call;
    struct mr_text id = {"", 0}, name = {"", 0}, arguments = {"", 0};
    (void)mr_openai_get_text(call, "id", &id);
    (void)mr_openai_get(call, "function", &function);
    (void)mr_openai_get_text(function, "name", &name);
    (void)mr_openai_get_text(function, "arguments", &arguments);
    mr_json_begin_object(writer);
    put_id(writer, "fc_", answer->id, number);
    mr_openai_put_string(writer, "type", "function_call");
    mr_openai_put_text(writer, "call_id", id);
    mr_openai_put_text(writer, "name", name);
    mr_openai_put_text(writer, "arguments", arguments);
    mr_openai_put_string(writer, "status", "completed");
    mr_json_end(writer);
}

static void put_output(struct mr_json_writer *writer, const struct mr_openai_answer *answer,
                       bool complete)
{
    struct mr_value calls;
    struct mr_text reasoning;
    const bool has_calls = mr_openai_get(answer->result, "tool_calls", &calls);
    mr_json_name(writer, "output");
    mr_json_begin_array(writer);
    if (mr_openai_get_text(answer->result, "reasoning", &reasoning) && reasoning.length > 0)
        put_reasoning(writer, answer, reasoning);
    if (mr_openai_content(answer->result).length > 0 || !has_calls)
        put_message(writer, answer, complete ? "completed" : "incomplete");
    for (size_t i = 0; has_calls && i < mr_value_count(calls); i++)
        put_call(writer, answer, mr_value_at(calls, i), i);
    mr_json_end(writer);
}

static void put_usage(struct mr_json_writer *writer, struct mr_value result)
{
    struct mr_value usage = result;
    (void)mr_openai_get(result, "usage", &usage);
    mr_json_name(writer, "usage");
    mr_json_begin_object(writer);
    mr_openai_put_int(writer, "input_tokens", mr_openai_get_int(usage, "prompt_tokens", 0));
    mr_json_name(writer, "input_tokens_details");
    mr_json_begin_object(writer);
    mr_openai_put_int(writer, "cached_tokens", mr_openai_get_int(usage, "cached_tokens", 0));
    mr_openai_put_int(writer, "cache_write_tokens", 0);
    mr_json_end(writer);
    mr_openai_put_int(writer, "output_tokens", mr_openai_get_int(usage, "completion_tokens", 0));
    mr_json_name(writer, "output_tokens_details");
    mr_json_begin_object(writer);
    mr_openai_put_int(writer, "reasoning_tokens", mr_openai_get_int(usage, "reasoning_tokens", 0));
    mr_json_end(writer);
    mr_openai_put_int(writer, "total_tokens", mr_openai_get_int(usage, "total_tokens", 0));
    mr_json_end(writer);
}

static void put_error(struct mr_json_writer *writer, const struct mr_openai_error *error)
{
    mr_json_name(writer, "error");
    if (!error) {
        mr_json_put_null(writer);
        return;
    }
    mr_json_begin_object(writer);
    mr_openai_put_text(writer, "code", error->code);
    mr_openai_put_text(writer, "message", error->message);
    mr_json_end(writer);
}

void mr_openai_put_responses_object(struct mr_json_writer *writer,
                                    const struct mr_openai_answer *answer)
{
    const bool complete = mr_openai_finish(answer->result)[0] != 'l'; /* not length */
    const char *status = complete ? "completed" : "incomplete";
    if (answer->unfinished) status = answer->error ? "failed" : "in_progress";
    struct mr_value value;
    struct mr_text model = {"", 0};
    char id[256];
    if (!mr_openai_get_text(answer->result, "model", &model)) model = answer->model;
    snprintf(id, sizeof id, "resp_%.*s", (int)answer->id.length, answer->id.bytes);
    mr_openai_put_string(writer, "id", id);
    mr_openai_put_string(writer, "object", "response");
    mr_openai_put_int(writer, "created_at", answer->created_s);
    mr_openai_put_string(writer, "status", status);
    put_raw(writer, "background", "false");
    put_error(writer, answer->error);
    put_raw(writer, "incomplete_details",
            complete || answer->unfinished ? "null" : "{\"reason\":\"max_output_tokens\"}");
    mr_openai_put_text(writer, "model", model);
    if (answer->unfinished)
        put_raw(writer, "output", "[]");
    else
        put_output(writer, answer, complete);
    mr_openai_put_null(writer, "previous_response_id");
    put_raw(writer, "store", "false");
    for (size_t i = 0; i < sizeof repeated / sizeof *repeated; i++) {
        if (mr_openai_get(answer->request, repeated[i].name, &value))
            mr_openai_put_member(writer, repeated[i].name, value);
        else
            put_raw(writer, repeated[i].name, repeated[i].absent);
    }
    if (answer->unfinished)
        mr_openai_put_null(writer, "usage");
    else
        put_usage(writer, answer->result);
}
