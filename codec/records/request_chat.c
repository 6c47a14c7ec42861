#include "codec/records/request_chat.h"

#include "codec/limits.h"

#include <ctype.h>
#include <math.h>

/* ---- values ---- */

static enum mr_status copy(struct mr_request_reader *reader, const char *field,
                           struct mr_value value, struct mr_data *out);

static enum mr_status copy_list(struct mr_request_reader *reader, const char *field,
                                struct mr_value value, struct mr_data *out)
{
    size_t count = mr_value_count(value);
    void *memory;
    enum mr_status status = mr_request_take(reader, count, sizeof(struct mr_data), &memory);
    struct mr_data *items = memory;
    for (size_t i = 0; i < count && status == MR_OK; i++)
        status = copy(reader, field, mr_value_at(value, i), &items[i]);
    out->list.items = items;
    out->list.count = count;
    return status;
}

static enum mr_status copy_map(struct mr_request_reader *reader, const char *field,
                               struct mr_value value, struct mr_data *out)
{
    struct mr_member member = {0};
    void *memory;
    enum mr_status status =
        mr_request_take(reader, mr_value_count(value), sizeof(struct mr_data_member), &memory);
    struct mr_data_member *members = memory;
    size_t count = 0;
    while (status == MR_OK && mr_value_next(value, &member)) {
        status = mr_request_copy_text(reader, member.name, &members[count].name);
        if (status == MR_OK) status = copy(reader, field, member.value, &members[count].value);
        count++;
    }
    out->map.members = members;
    out->map.count = count;
    return status;
}

/* Copies a value into the request's arena. Recursive; the document has limited the depth to
 * MR_NESTING_MAX. */
static enum mr_status copy(struct mr_request_reader *reader, const char *field,
                           struct mr_value value, struct mr_data *out)
{
    char digits[24];
    switch (mr_value_kind(value)) {
    case MR_VALUE_NULL:
        out->kind = MR_DATA_NULL;
        return MR_OK;
    case MR_VALUE_BOOL:
        out->kind = MR_DATA_BOOL;
        out->integer = mr_value_bool(value);
        return MR_OK;
    case MR_VALUE_INT:
        out->kind = MR_DATA_INT;
        out->integer = mr_value_int(value);
        return MR_OK;
    case MR_VALUE_FLOAT:
        out->kind = MR_DATA_FLOAT;
        out->number = mr_value_number(value);
        if (isfinite(out->number)) return MR_OK;
        return mr_fail(reader->err, MR_INVALID_REQUEST, "%s holds a number that is not finite",
                       field);
    case MR_VALUE_BIG:
        out->kind = MR_DATA_BIG;
        return mr_request_copy_text(reader, mr_value_big(value, digits), &out->text);
    case MR_VALUE_TEXT:
        out->kind = MR_DATA_TEXT;
        return mr_request_copy_text(reader, mr_value_text(value), &out->text);
    case MR_VALUE_ARRAY:
        out->kind = MR_DATA_LIST;
        return copy_list(reader, field, value, out);
    case MR_VALUE_MAP:
        out->kind = MR_DATA_MAP;
        return copy_map(reader, field, value, out);
    default:
        return mr_fail(reader->err, MR_INVALID_REQUEST,
                       "%s holds %s, which a chat template cannot read", field,
                       mr_value_kind_name(mr_value_kind(value)));
    }
}

/* Reads an array of maps. */
static enum mr_status read_maps(struct mr_request_reader *reader, const char *field,
                                struct mr_value value, struct mr_data *out)
{
    if (mr_value_kind(value) != MR_VALUE_ARRAY)
        return mr_request_wrong_type(reader, field, "an array of maps", value);
    for (size_t i = 0; i < mr_value_count(value); i++)
        if (mr_value_kind(mr_value_at(value, i)) != MR_VALUE_MAP)
            return mr_request_wrong_type(reader, field, "an array of maps", mr_value_at(value, i));
    return copy(reader, field, value, out);
}

enum mr_status mr_request_read_tools(struct mr_request_reader *reader, const char *field,
                                     struct mr_value value)
{
    return read_maps(reader, field, value, &reader->request->chat.tools);
}

enum mr_status mr_request_read_documents(struct mr_request_reader *reader, const char *field,
                                         struct mr_value value)
{
    /* mr_request_apply_inputs checks the entries, which depend on the task */
    if (mr_value_kind(value) != MR_VALUE_ARRAY)
        return mr_request_wrong_type(reader, field, "an array of maps", value);
    return copy(reader, field, value, &reader->request->chat.documents);
}

enum mr_status mr_request_read_generation_prompt(struct mr_request_reader *reader,
                                                 const char *field, struct mr_value value)
{
    struct mr_chat *chat = &reader->request->chat;
    if (mr_value_kind(value) != MR_VALUE_BOOL)
        return mr_request_wrong_type(reader, field, "true or false", value);
    chat->add_generation_prompt = mr_value_bool(value);
    chat->generation_prompt_given = true;
    return MR_OK;
}

/* ---- messages ---- */

/* Rejects images, audio and other media in a message's content: the models read text only. */
static enum mr_status check_part(struct mr_request_reader *reader, size_t index,
                                 const struct mr_data *part)
{
    static const char *const unsupported[] = {
        "image",       "image_url", "input_image", "audio", "audio_url",
        "input_audio", "video",     "video_url",   "file",  "input_file"};
    const struct mr_data *type = mr_data_get(part, "type");
    if (part->kind != MR_DATA_MAP && part->kind != MR_DATA_TEXT)
        return mr_fail(reader->err, MR_INVALID_REQUEST,
                       "a part of the content of message %zu must be a map or text", index);
    for (size_t i = 0; type && i < sizeof unsupported / sizeof *unsupported; i++)
        if (type->kind == MR_DATA_TEXT && mr_text_is(type->text, unsupported[i]))
            return mr_fail(reader->err, MR_UNSUPPORTED_CONTENT,
                           "message %zu has a part of type %s; only text is supported", index,
                           unsupported[i]);
    return MR_OK;
}

static enum mr_status check_message(struct mr_request_reader *reader, size_t index,
                                    const struct mr_data *message)
{
    const struct mr_data *role = mr_data_get(message, "role");
    const struct mr_data *content = mr_data_get(message, "content");
    if (!role || role->kind != MR_DATA_TEXT)
        return mr_fail(reader->err, MR_INVALID_REQUEST, "message %zu lacks a role of text", index);
    if (role->text.length == 0 || role->text.length > MR_ROLE_BYTES_MAX)
        return mr_fail(reader->err, MR_INVALID_REQUEST,
                       "role of message %zu must be 1 to %zu bytes", index, MR_ROLE_BYTES_MAX);
    bool nothing = !content || content->kind == MR_DATA_NULL;
    if (nothing && mr_text_is(role->text, "assistant")) return MR_OK; /* tool calls only */
    if (!nothing && content->kind == MR_DATA_TEXT) return MR_OK;
    if (nothing || content->kind != MR_DATA_LIST)
        return mr_fail(reader->err, MR_INVALID_REQUEST,
                       "content of message %zu must be text or a list of parts", index);
    enum mr_status status = MR_OK;
    for (size_t i = 0; i < content->list.count && status == MR_OK; i++)
        status = check_part(reader, index, &content->list.items[i]);
    return status;
}

/* Arguments of a call are a JSON text in OpenAI's API, but templates expect an object. Replaces
 * such a text by the object in it, as vLLM does. Any other text stays. */
static enum mr_status open_arguments(struct mr_request_reader *reader, struct mr_data *arguments)
{
    struct mr_document *document;
    struct mr_error why;
    if (arguments->text.length == 0) {
        *arguments = (struct mr_data){.kind = MR_DATA_MAP};
        return MR_OK;
    }
    enum mr_status status = mr_document_open_wide(&document, arguments->text, &why);
    if (status == MR_NOMEM) return mr_fail(reader->err, status, "no memory for a request");
    if (status != MR_OK) return MR_OK;
    status = copy(reader, "messages", mr_document_root(document), arguments);
    mr_document_close(document);
    return status;
}

/* Opens the arguments of every call of a message. */
static enum mr_status open_calls(struct mr_request_reader *reader, const struct mr_data *message)
{
    const struct mr_data *calls = mr_data_get(message, "tool_calls");
    enum mr_status status = MR_OK;
    if (!calls || calls->kind != MR_DATA_LIST) return MR_OK;
    for (size_t i = 0; i < calls->list.count && status == MR_OK; i++) {
        const struct mr_data *function = mr_data_get(&calls->list.items[i], "function");
        const struct mr_data *arguments = function ? mr_data_get(function, "arguments") : NULL;
        if (arguments &&
            arguments->kind ==
                MR_DATA_TEXT) /* the memory belongs to this request, so it may be written */
            status = open_arguments(reader, (struct mr_data *)(uintptr_t)arguments);
    }
    return status;
}

enum mr_status mr_request_read_messages(struct mr_request_reader *reader, const char *field,
                                        struct mr_value value)
{
    struct mr_data list;
    if (mr_value_kind(value) != MR_VALUE_ARRAY)
        return mr_request_wrong_type(reader, field, "an array of messages", value);
    size_t count = mr_value_count(value);
    if (count == 0) return mr_fail(reader->err, MR_EMPTY_PROMPT, "messages is empty");
    if (count > MR_MESSAGES_MAX)
        return mr_fail(reader->err, MR_INVALID_REQUEST,
                       "%s has %zu entries, at most %zu are allowed", field, count,
                       MR_MESSAGES_MAX);
    enum mr_status status = read_maps(reader, field, value, &list);
    for (size_t i = 0; i < count && status == MR_OK; i++)
        status = check_message(reader, i, &list.list.items[i]);
    for (size_t i = 0; i < count && status == MR_OK; i++)
        status = open_calls(reader, &list.list.items[i]);
    if (status != MR_OK) return status;
    reader->request->chat.messages = list.list.items;
    reader->request->chat.message_count = count;
    return MR_OK;
}

/* ---- chat_template_kwargs ---- */

/* True for variables that the template renderer sets, and for names that other servers pass to
 * their tokenizer library, where a request could change options of the server. */
static bool is_reserved(struct mr_text name)
{
    static const char *const reserved[] = {
        "messages",      "tools",     "documents",     "add_generation_prompt",
        "tokenize",      "bos_token", "eos_token",     "continue_final_message",
        "chat_template", "padding",   "truncation",    "max_length",
        "return_dict",   "tokenizer", "return_tensors"};
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++)
        if (mr_text_is(name, reserved[i])) return true;
    return false;
}

static bool is_identifier(struct mr_text name)
{
    if (name.length == 0 || name.length > MR_KWARG_NAME_BYTES_MAX) return false;
    if (isdigit((unsigned char)name.bytes[0])) return false;
    for (size_t i = 0; i < name.length; i++)
        if (!isalnum((unsigned char)name.bytes[i]) && name.bytes[i] != '_') return false;
    return true;
}

enum mr_status mr_request_read_kwargs(struct mr_request_reader *reader, const char *field,
                                      struct mr_value value)
{
    struct mr_member member = {0};
    if (mr_value_kind(value) != MR_VALUE_MAP)
        return mr_request_wrong_type(reader, field, "a map", value);
    if (mr_value_count(value) > MR_TEMPLATE_KWARGS_MAX)
        return mr_fail(reader->err, MR_INVALID_REQUEST,
                       "%s has %zu entries, at most %zu are allowed", field, mr_value_count(value),
                       MR_TEMPLATE_KWARGS_MAX);
    while (mr_value_next(value, &member))
        if (!is_identifier(member.name) || is_reserved(member.name))
            return mr_fail(reader->err, MR_INVALID_REQUEST,
                           "chat_template_kwargs holds a name that is reserved or not an "
                           "identifier");
    return copy(reader, field, value, &reader->request->chat.kwargs);
}

enum mr_status mr_request_add_effort(struct mr_request_reader *reader)
{
    struct mr_data *kwargs = &reader->request->chat.kwargs;
    size_t count = kwargs->kind == MR_DATA_MAP ? kwargs->map.count : 0;
    void *memory;
    enum mr_status status =
        mr_request_take(reader, count + 2, sizeof(struct mr_data_member), &memory);
    if (status != MR_OK) return status;
    struct mr_data_member *members = memory;
    bool thinks = !mr_text_is(reader->reasoning_effort, "none");
    const struct mr_data_member added[] = {
        {{"reasoning_effort", 16}, {.kind = MR_DATA_TEXT, .text = reader->reasoning_effort}},
        {{"enable_thinking", 15}, {.kind = MR_DATA_BOOL, .integer = thinks}},
    };
    for (size_t i = 0; i < count; i++)
        members[i] = kwargs->map.members[i];
    for (size_t i = 0; i < 2; i++)
        if (!mr_data_get(kwargs, added[i].name.bytes)) members[count++] = added[i];
    *kwargs = (struct mr_data){.kind = MR_DATA_MAP, .map = {members, count}};
    return MR_OK;
}
