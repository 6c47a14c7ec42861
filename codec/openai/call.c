#include "codec/openai/call.h"

#include "codec/limits.h"
#include "codec/openai/copy.h"
#include "codec/openai/items.h"
#include "codec/wire/writer.h"

#define CHAT        (1u << MR_OPENAI_CHAT)
#define COMPLETIONS (1u << MR_OPENAI_COMPLETIONS)
#define EMBEDDINGS  (1u << MR_OPENAI_EMBEDDINGS)
#define RESPONSES   (1u << MR_OPENAI_RESPONSES)
#define RERANK      (1u << MR_OPENAI_RERANK)
#define ALL         ((1u << MR_OPENAI_ENDPOINTS) - 1)

struct translation {
    const struct mr_openai_call *call;
    struct mr_json_writer writer;
    struct mr_error *err;
};

/* Writes what becomes of a member whose value is not null. */
typedef enum mr_status put_function(struct translation *translation, const char *name,
                                    struct mr_value value);

static put_function put_nothing, put_prompt, put_input, put_items, put_effort, put_text_format,
    put_flat_tools, put_flat_choice, put_include, put_top_logprobs, put_truncation,
    refuse_unless_false, refuse;

/* A member that is not copied. The first row for the endpoint counts. */
static const struct rule {
    unsigned endpoints;
    const char *name;
    put_function *put; /* NULL: copied under the name `becomes` */
    const char *becomes;
} rules[] = {
    {ALL, "id", put_nothing, NULL},
    {ALL, "stream", put_nothing, NULL},
    {ALL, "stream_options", put_nothing, NULL},
    {COMPLETIONS, "prompt", put_prompt, NULL},
    {EMBEDDINGS, "prompt", put_prompt, NULL},
    {EMBEDDINGS, "input", put_input, NULL},
    {EMBEDDINGS | RERANK, "task", put_nothing, NULL},
    {RESPONSES, "input", put_items, NULL},
    {RESPONSES, "instructions", put_nothing, NULL}, /* put_items writes them */
    {RESPONSES, "max_output_tokens", NULL, "max_tokens"},
    {RESPONSES, "tools", put_flat_tools, NULL},
    {RESPONSES, "tool_choice", put_flat_choice, NULL},
    {RESPONSES, "text", put_text_format, NULL},
    {RESPONSES, "reasoning", put_effort, NULL},
    {RESPONSES, "top_logprobs", put_top_logprobs, NULL},
    {RESPONSES, "include", put_include, NULL},
    {RESPONSES, "truncation", put_truncation, NULL},
    {RESPONSES, "store", put_nothing, NULL}, /* no response is stored */
    {RESPONSES, "background", refuse_unless_false, NULL},
    {RESPONSES, "previous_response_id", refuse, NULL},
    {RESPONSES, "conversation", refuse, NULL},
    {RESPONSES, "prompt", refuse, NULL},
    {RESPONSES, "max_tool_calls", refuse, NULL},
};

static enum mr_status put_nothing(struct translation *translation, const char *name,
                                  struct mr_value value)
{
    (void)translation, (void)name, (void)value;
    return MR_OK;
}

static enum mr_status refuse(struct translation *translation, const char *name,
                             struct mr_value value)
{
    (void)value;
    return mr_fail(translation->err, MR_UNSUPPORTED,
                   "%s is not supported: nothing is stored between calls; send the whole input",
                   name);
}

static enum mr_status refuse_unless_false(struct translation *translation, const char *name,
                                          struct mr_value value)
{
    if (mr_value_kind(value) == MR_VALUE_BOOL && !mr_value_bool(value)) return MR_OK;
    return refuse(translation, name, value);
}

/* True if all elements are integers, as in a list of token ids; an empty list is none. */
static bool is_token_list(struct mr_value value)
{
    if (mr_value_kind(value) != MR_VALUE_ARRAY || mr_value_count(value) == 0) return false;
    for (size_t i = 0; i < mr_value_count(value); i++)
        if (mr_value_kind(mr_value_at(value, i)) != MR_VALUE_INT) return false;
    return true;
}

/* A text or a list of token ids, alone or as the only element of a list. False: neither. */
static bool put_single(struct translation *translation, struct mr_value value)
{
    struct mr_json_writer *writer = &translation->writer;
    if (mr_value_kind(value) == MR_VALUE_ARRAY && mr_value_count(value) == 1 &&
        !is_token_list(value))
        value = mr_value_at(value, 0);
    const bool is_text = mr_value_kind(value) == MR_VALUE_TEXT;
    if (!is_text && !is_token_list(value)) return false;
    mr_openai_put_member(writer, is_text ? "prompt" : "prompt_token_ids", value);
    return true;
}

static enum mr_status put_prompt(struct translation *translation, const char *name,
                                 struct mr_value value)
{
    if (put_single(translation, value)) return MR_OK;
    return mr_fail(translation->err, MR_UNSUPPORTED,
                   "%s must be one text or one list of token ids; send several as several requests",
                   name);
}

/* Several texts stay `input`, which a record has too. */
static enum mr_status put_input(struct translation *translation, const char *name,
                                struct mr_value value)
{
    if (put_single(translation, value)) return MR_OK;
    if (mr_value_kind(value) != MR_VALUE_ARRAY || mr_value_count(value) == 0)
        return mr_fail(translation->err, MR_INVALID_REQUEST,
                       "%s must be a text, a list of token ids, or a list of these", name);
    mr_openai_put_member(&translation->writer, name, value);
    return MR_OK;
}

/* ---- members of /v1/responses ---- */

static enum mr_status put_items(struct translation *translation, const char *name,
                                struct mr_value value)
{
    struct mr_text instructions = {0};
    (void)name;
    (void)mr_openai_get_text(translation->call->body, "instructions", &instructions);
    mr_json_name(&translation->writer, "messages");
    return mr_openai_put_messages(&translation->writer, instructions, value, translation->err);
}

static enum mr_status put_flat_tools(struct translation *translation, const char *name,
                                     struct mr_value value)
{
    mr_json_name(&translation->writer, name);
    return mr_openai_put_tools(&translation->writer, value, translation->err);
}

/* {type, name} becomes {type, function: {name}}; a word is copied. */
static enum mr_status put_flat_choice(struct translation *translation, const char *name,
                                      struct mr_value value)
{
    struct mr_json_writer *writer = &translation->writer;
    struct mr_text function;
    mr_json_name(writer, name);
    if (!mr_openai_get_text(value, "name", &function)) {
        mr_json_put_value(writer, value);
        return MR_OK;
    }
    mr_json_begin_object(writer);
    mr_openai_put_string(writer, "type", "function");
    mr_json_name(writer, "function");
    mr_json_begin_object(writer);
    mr_openai_put_text(writer, "name", function);
    mr_json_end(writer);
    mr_json_end(writer);
    return MR_OK;
}

/* text.format is a response_format whose json_schema lies flat; text.verbosity is copied. */
static enum mr_status put_text_format(struct translation *translation, const char *name,
                                      struct mr_value value)
{
    struct mr_json_writer *writer = &translation->writer;
    struct mr_value format, schema;
    struct mr_text verbosity;
    (void)name;
    if (mr_openai_get_text(value, "verbosity", &verbosity))
        mr_openai_put_text(writer, "verbosity", verbosity);
    if (!mr_openai_get(value, "format", &format)) return MR_OK;
    mr_json_name(writer, "response_format");
    if (!mr_openai_get(format, "schema", &schema)) {
        mr_json_put_value(writer, format);
        return MR_OK;
    }
    mr_json_begin_object(writer);
    mr_openai_put_string(writer, "type", "json_schema");
    mr_json_name(writer, "json_schema");
    mr_json_begin_object(writer);
    struct mr_member member = {0};
    while (mr_value_next(format, &member)) {
        if (mr_text_is(member.name, "type")) continue;
        mr_json_name_text(writer, member.name);
        mr_json_put_value(writer, member.value);
    }
    mr_json_end(writer);
    mr_json_end(writer);
    return MR_OK;
}

static enum mr_status put_effort(struct translation *translation, const char *name,
                                 struct mr_value value)
{
    struct mr_value effort;
    (void)name;
    if (mr_openai_get(value, "effort", &effort))
        mr_openai_put_member(&translation->writer, "reasoning_effort", effort);
    return MR_OK;
}

static enum mr_status put_top_logprobs(struct translation *translation, const char *name,
                                       struct mr_value value)
{
    struct mr_json_writer *writer = &translation->writer;
    mr_json_name(writer, "logprobs");
    mr_json_put_bool(writer, true);
    mr_openai_put_member(writer, name, value);
    return MR_OK;
}

/* What a client includes is an extra part of the output. Only log-probabilities exist here. */
static enum mr_status put_include(struct translation *translation, const char *name,
                                  struct mr_value value)
{
    struct mr_value top;
    (void)name;
    for (size_t i = 0; mr_value_kind(value) == MR_VALUE_ARRAY && i < mr_value_count(value); i++) {
        struct mr_value entry = mr_value_at(value, i);
        if (mr_value_kind(entry) != MR_VALUE_TEXT ||
            !mr_text_is(mr_value_text(entry), "message.output_text.logprobs") ||
            mr_openai_get(translation->call->body, "top_logprobs", &top))
            continue;
        mr_json_name(&translation->writer, "logprobs");
        mr_json_put_bool(&translation->writer, true);
        return MR_OK;
    }
    return MR_OK;
}

static enum mr_status put_truncation(struct translation *translation, const char *name,
                                     struct mr_value value)
{
    (void)name;
    if (mr_value_kind(value) == MR_VALUE_TEXT && mr_text_is(mr_value_text(value), "auto"))
        mr_openai_put_int(&translation->writer, "truncate_prompt_tokens", -1);
    return MR_OK;
}

/* ---- the record ---- */

static const struct rule *find_rule(enum mr_openai_endpoint endpoint, struct mr_text name)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].endpoints >> endpoint & 1u && mr_text_is(name, rules[i].name))
            return &rules[i];
    return NULL;
}

static enum mr_status put_members(struct translation *translation)
{
    struct mr_member member = {0};
    enum mr_status status = MR_OK;
    while (status == MR_OK && mr_value_next(translation->call->body, &member)) {
        const struct rule *rule = find_rule(translation->call->endpoint, member.name);
        if (rule && rule->put) {
            if (mr_value_kind(member.value) != MR_VALUE_NULL)
                status = rule->put(translation, rule->name, member.value);
        } else if (rule) {
            mr_openai_put_member(&translation->writer, rule->becomes, member.value);
        } else {
            mr_json_name_text(&translation->writer, member.name);
            mr_json_put_value(&translation->writer, member.value);
        }
    }
    return status;
}

/* The members that the body does not set: id, stream, and those with a default of the caller. */
static void put_defaults(struct translation *translation)
{
    const struct mr_openai_call *call = translation->call;
    struct mr_json_writer *writer = &translation->writer;
    struct mr_value value;
    if (call->id.length > 0) mr_openai_put_text(writer, "id", call->id);
    mr_json_name(writer, "stream");
    mr_json_put_bool(writer, call->stream);
    if (call->endpoint == MR_OPENAI_EMBEDDINGS) mr_openai_put_string(writer, "task", "embed");
    if (call->endpoint == MR_OPENAI_RERANK) mr_openai_put_string(writer, "task", "rerank");
    const bool answers = call->endpoint == MR_OPENAI_CHAT || call->endpoint == MR_OPENAI_RESPONSES;
    if (answers && !mr_value_get(call->body, "separate_reasoning", &value)) {
        mr_json_name(writer, "separate_reasoning");
        mr_json_put_bool(writer, true);
    }
    if (call->priority && !mr_value_get(call->body, "priority", &value))
        mr_openai_put_string(writer, "priority", call->priority);
    if (call->timeout_ms > 0 && !mr_value_get(call->body, "timeout_ms", &value) &&
        !mr_value_get(call->body, "deadline_ms", &value))
        mr_openai_put_int(writer, "timeout_ms", call->timeout_ms);
}

enum mr_status mr_openai_call_record(const struct mr_openai_call *call, char **record,
                                     size_t *length, struct mr_error *err)
{
    struct translation translation = {.call = call, .err = err};
    struct mr_json_writer *writer = &translation.writer;
    *record = NULL;
    *length = 0;
    mr_json_writer_init(writer, MR_RESULT_BYTES_MAX);
    mr_json_begin_object(writer);
    enum mr_status status = put_members(&translation);
    if (status != MR_OK) {
        mr_json_writer_drop(writer);
        return status;
    }
    put_defaults(&translation);
    mr_json_end(writer);
    if (writer->status == MR_MALFORMED) {
        mr_json_writer_drop(writer);
        return mr_fail(err, MR_MALFORMED, "the body is nested too deeply");
    }
    return mr_json_writer_take(writer, record, length, err);
}
