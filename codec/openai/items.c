#include "codec/openai/items.h"

#include "codec/openai/copy.h"
#include "codec/wire/writer.h"

struct items {
    struct mr_json_writer *writer;
    struct mr_error *err;
    struct mr_text reasoning; /* of the item before, for the next assistant message */
    bool in_calls;            /* the array tool_calls of an assistant message is open */
};

static enum mr_status fail_item(struct items *items, size_t index, const char *reason)
{
    return mr_fail(items->err, MR_UNSUPPORTED, "input[%zu] %s", index, reason);
}

static void begin_message(struct items *items, const char *role)
{
    mr_json_begin_object(items->writer);
    mr_openai_put_string(items->writer, "role", role);
}

static void end_calls(struct items *items)
{
    if (!items->in_calls) return;
    mr_json_end(items->writer);
    mr_json_end(items->writer);
    items->in_calls = false;
}

static void put_reasoning(struct items *items)
{
    if (items->reasoning.length > 0)
        mr_openai_put_text(items->writer, "reasoning_content", items->reasoning);
    items->reasoning = (struct mr_text){0};
}

/* The text of a part of kind input_text, output_text, text or refusal. */
static bool part_text(struct mr_value part, struct mr_text *text)
{
    return mr_openai_get_text(part, "text", text) || mr_openai_get_text(part, "refusal", text);
}

/* Writes a text, or a list of parts each as {type: "text", text}. False: a part has no text. */
static bool put_content(struct mr_json_writer *writer, struct mr_value content)
{
    struct mr_text text;
    if (mr_value_kind(content) != MR_VALUE_ARRAY) {
        mr_json_put_value(writer, content);
        return true;
    }
    if (mr_value_count(content) == 1 && part_text(mr_value_at(content, 0), &text)) {
        mr_json_put_text(writer, text);
        return true;
    }
    bool valid = true;
    mr_json_begin_array(writer);
    for (size_t i = 0; i < mr_value_count(content) && valid; i++) {
        valid = part_text(mr_value_at(content, i), &text);
        if (!valid) break;
        mr_json_begin_object(writer);
        mr_openai_put_string(writer, "type", "text");
        mr_openai_put_text(writer, "text", text);
        mr_json_end(writer);
    }
    mr_json_end(writer);
    return valid;
}

static enum mr_status put_message(struct items *items, size_t index, struct mr_value item)
{
    struct mr_text role;
    struct mr_value content;
    if (!mr_openai_get_text(item, "role", &role) || !mr_openai_get(item, "content", &content))
        return mr_fail(items->err, MR_INVALID_REQUEST, "input[%zu] has no role or no content",
                       index);
    end_calls(items);
    if (mr_text_is(role, "developer")) role = (struct mr_text){"system", 6};
    mr_json_begin_object(items->writer);
    mr_openai_put_text(items->writer, "role", role);
    if (mr_text_is(role, "assistant")) put_reasoning(items);
    mr_json_name(items->writer, "content");
    const bool valid = put_content(items->writer, content);
    mr_json_end(items->writer);
    return valid ? MR_OK : fail_item(items, index, "has a part that is not text");
}

static enum mr_status put_call(struct items *items, size_t index, struct mr_value item)
{
    struct mr_text id, name, arguments;
    if (!mr_openai_get_text(item, "call_id", &id) || !mr_openai_get_text(item, "name", &name) ||
        !mr_openai_get_text(item, "arguments", &arguments))
        return mr_fail(items->err, MR_INVALID_REQUEST,
                       "input[%zu] lacks one of call_id, name and arguments", index);
    if (!items->in_calls) {
        begin_message(items, "assistant");
        put_reasoning(items);
        mr_openai_put_null(items->writer, "content");
        mr_json_name(items->writer, "tool_calls");
        mr_json_begin_array(items->writer);
        items->in_calls = true;
    }
    mr_json_begin_object(items->writer);
    mr_openai_put_text(items->writer, "id", id);
    mr_openai_put_string(items->writer, "type", "function");
    mr_json_name(items->writer, "function");
    mr_json_begin_object(items->writer);
    mr_openai_put_text(items->writer, "name", name);
    mr_openai_put_text(items->writer, "arguments", arguments);
    mr_json_end(items->writer);
    mr_json_end(items->writer);
    return MR_OK;
}

static enum mr_status put_output(struct items *items, size_t index, struct mr_value item)
{
    struct mr_text id;
    struct mr_value output;
    if (!mr_openai_get_text(item, "call_id", &id) || !mr_openai_get(item, "output", &output))
        return mr_fail(items->err, MR_INVALID_REQUEST, "input[%zu] has no call_id or no output",
                       index);
    end_calls(items);
    begin_message(items, "tool");
    mr_openai_put_text(items->writer, "tool_call_id", id);
    mr_json_name(items->writer, "content");
    const bool valid = put_content(items->writer, output);
    mr_json_end(items->writer);
    return valid ? MR_OK : fail_item(items, index, "has a part that is not text");
}

/* Keeps the text of a reasoning item: its content, else its summary. */
static void keep_reasoning(struct items *items, struct mr_value item)
{
    struct mr_value parts;
    if ((mr_openai_get(item, "content", &parts) || mr_openai_get(item, "summary", &parts)) &&
        mr_value_kind(parts) == MR_VALUE_ARRAY && mr_value_count(parts) > 0)
        (void)part_text(mr_value_at(parts, 0), &items->reasoning);
}

static enum mr_status put_item(struct items *items, size_t index, struct mr_value item)
{
    struct mr_text type = {"message", 7};
    if (mr_value_kind(item) != MR_VALUE_MAP)
        return mr_fail(items->err, MR_INVALID_REQUEST, "input[%zu] is not an item", index);
    (void)mr_openai_get_text(item, "type", &type);
    if (mr_text_is(type, "message")) return put_message(items, index, item);
    if (mr_text_is(type, "function_call")) return put_call(items, index, item);
    if (mr_text_is(type, "function_call_output")) return put_output(items, index, item);
    if (!mr_text_is(type, "reasoning"))
        return fail_item(items, index,
                         "is none of message, function_call, function_call_output "
                         "and reasoning");
    end_calls(items);
    keep_reasoning(items, item);
    return MR_OK;
}

enum mr_status mr_openai_put_messages(struct mr_json_writer *writer, struct mr_text instructions,
                                      struct mr_value input, struct mr_error *err)
{
    struct items items = {.writer = writer, .err = err};
    enum mr_status status = MR_OK;
    mr_json_begin_array(writer);
    if (instructions.length > 0) {
        begin_message(&items, "system");
        mr_openai_put_text(writer, "content", instructions);
        mr_json_end(writer);
    }
    if (mr_value_kind(input) == MR_VALUE_TEXT) {
        begin_message(&items, "user");
        mr_openai_put_member(writer, "content", input);
        mr_json_end(writer);
    } else if (mr_value_kind(input) == MR_VALUE_ARRAY) {
        for (size_t i = 0; i < mr_value_count(input) && status == MR_OK; i++)
            status = put_item(&items, i, mr_value_at(input, i));
        end_calls(&items);
    } else {
        status = mr_fail(err, MR_INVALID_REQUEST, "input must be a text or a list of items");
    }
    mr_json_end(writer);
    return status;
}

enum mr_status mr_openai_put_tools(struct mr_json_writer *writer, struct mr_value tools,
                                   struct mr_error *err)
{
    if (mr_value_kind(tools) != MR_VALUE_ARRAY)
        return mr_fail(err, MR_INVALID_REQUEST, "tools must be a list");
    mr_json_begin_array(writer);
    for (size_t i = 0; i < mr_value_count(tools); i++) {
        struct mr_value tool = mr_value_at(tools, i);
        struct mr_text type;
        if (!mr_openai_get_text(tool, "type", &type) || !mr_text_is(type, "function"))
            return mr_fail(err, MR_UNSUPPORTED,
                           "tools[%zu] is not a function; only functions are supported", i);
        struct mr_member member = {0};
        mr_json_begin_object(writer);
        mr_openai_put_string(writer, "type", "function");
        mr_json_name(writer, "function");
        mr_json_begin_object(writer);
        while (mr_value_next(tool, &member)) {
            if (mr_text_is(member.name, "type")) continue;
            mr_json_name_text(writer, member.name);
            mr_json_put_value(writer, member.value);
        }
        mr_json_end(writer);
        mr_json_end(writer);
    }
    mr_json_end(writer);
    return MR_OK;
}
