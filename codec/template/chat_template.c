#include "codec/template/chat_template.h"

#include "codec/jinja/jinja_lexer.h"
#include "codec/jinja/jinja_operations.h"
#include "codec/jinja/jinja_parser.h"
#include "codec/jinja/jinja_space.h"
#include "codec/template/jinja_content.h"
#include "codec/template/jinja_names.h"
#include "codec/template/jinja_statements.h"

#include <stdlib.h>
#include <string.h>

#define TEMPLATE_ARENA_BYTES ((size_t)16 << 20)

struct mr_chat_template {
    struct mr_arena *arena;
    const struct mr_jinja_node *root;
    struct mr_special_texts special;
    bool reads_parts; /* contents may be lists; otherwise their parts are joined */
};

/* Copies the template source, replacing "\r\n" and "\r" by "\n", as Jinja does. */
static bool copy_source(struct mr_arena *arena, struct mr_text source, struct mr_text *out)
{
    char *copy = mr_arena_take(arena, source.length + 1);
    size_t length = 0;
    if (!copy) return false;
    for (size_t i = 0; i < source.length; i++) {
        bool ends_line = i + 1 < source.length && source.bytes[i + 1] == '\n';
        if (source.bytes[i] == '\r' && ends_line) continue;
        copy[length++] = source.bytes[i] == '\r' ? '\n' : source.bytes[i];
    }
    *out = (struct mr_text){copy, length};
    return true;
}

static bool copy_special(struct mr_chat_template *template, const struct mr_special_texts *special)
{
    for (size_t i = 0; i < MR_SPECIAL_TEXT_COUNT; i++) {
        struct mr_text text = special->of[i];
        const char *copy = mr_arena_copy_text(template->arena, text.bytes, text.length);
        if (!copy) return false;
        template->special.of[i] = (struct mr_text){copy, text.length};
    }
    return true;
}

enum mr_status mr_chat_template_compile(struct mr_chat_template **out, struct mr_text source,
                                        const struct mr_special_texts *special,
                                        struct mr_error *err)
{
    struct mr_jinja_token *tokens;
    struct mr_text copy;
    enum mr_status status = MR_NOMEM;
    *out = NULL;
    struct mr_chat_template *template = calloc(1, sizeof *template);
    if (!template) return mr_fail(err, MR_NOMEM, "chat template");
    template->arena = mr_arena_create(TEMPLATE_ARENA_BYTES);
    if (!template->arena || !copy_source(template->arena, source, &copy) ||
        !copy_special(template, special)) {
        mr_fail(err, MR_NOMEM, "chat template of %zu bytes", source.length);
        goto out_destroy;
    }
    status = mr_jinja_lex(copy, template->arena, &tokens, err);
    if (status == MR_OK) status = mr_jinja_parse(tokens, template->arena, &template->root, err);
    if (status == MR_OK) status = mr_jinja_check_names(template->root, err);
    if (status != MR_OK) goto out_destroy;
    template->reads_parts = mr_jinja_reads_parts(template->root);
    *out = template;
    return MR_OK;
out_destroy:
    mr_chat_template_destroy(template);
    return status;
}

bool mr_chat_template_reads_parts(const struct mr_chat_template *chat_template)
{
    return chat_template->reads_parts;
}

void mr_chat_template_destroy(struct mr_chat_template *chat_template)
{
    if (!chat_template) return;
    mr_arena_destroy(chat_template->arena);
    free(chat_template);
}

/* ---- variables ---- */

static void set(struct mr_jinja_run *run, struct mr_jinja_dict *dict, const char *name,
                struct mr_jinja_value value)
{
    mr_jinja_dict_set(run, dict, mr_jinja_literal(name), value);
}

/* Makes a value from data of the request. Recursive; decoding has limited the depth. */
static struct mr_jinja_value make(struct mr_jinja_run *run, const struct mr_data *data)
{
    struct mr_jinja_value value;
    switch (data->kind) {
    case MR_DATA_BOOL:
        return mr_jinja_bool(data->integer != 0);
    case MR_DATA_INT:
        return mr_jinja_int(data->integer);
    case MR_DATA_FLOAT:
        return mr_jinja_float(data->number);
    case MR_DATA_BIG:
        value = mr_jinja_text(run, data->text, true);
        value.kind = MR_JINJA_BIG;
        return value;
    case MR_DATA_TEXT:
        return mr_jinja_text(run, data->text, true);
    case MR_DATA_LIST:
        value = mr_jinja_list_new(run);
        for (size_t i = 0; i < data->list.count && run->status == MR_OK; i++)
            mr_jinja_list_push(run, value.list, make(run, &data->list.items[i]));
        return value;
    case MR_DATA_MAP:
        value = mr_jinja_dict_new(run);
        for (size_t i = 0; i < data->map.count && run->status == MR_OK; i++) {
            const struct mr_data_member *member = &data->map.members[i];
            struct mr_jinja_value name = mr_jinja_text(run, member->name, true);
            mr_jinja_dict_append(run, value.dict, name, make(run, &member->value));
        }
        return value;
    default:
        return mr_jinja_none();
    }
}

/* Roles that templates know. Only their text may become part of a marker such as "<|user|>"; any
 * other role is text of the request. */
static bool is_known_role(struct mr_text role)
{
    static const char *const known[] = {
        "system",          "user",      "assistant", "tool",     "developer",   "function",
        "ipython",         "model",     "context",   "document", "documents",   "observation",
        "environment",     "critic",    "tools",     "thinking", "tool_result", "tool_response",
        "available_tools", "tool_call", "control",   "chatbot"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (mr_text_is(role, known[i])) return true;
    return false;
}

/* The texts of the parts of a content with line ends between, as vLLM joins them. */
static struct mr_jinja_value join_parts(struct mr_jinja_run *run, const struct mr_data *content)
{
    struct mr_jinja_buffer buffer = {0};
    for (size_t i = 0; i < content->list.count && run->status == MR_OK; i++) {
        const struct mr_data *text = mr_data_part_text(&content->list.items[i]);
        if (!text) {
            mr_jinja_fail(run, MR_UNSUPPORTED_CONTENT,
                          "a part of the content of a message has no text, and the chat template "
                          "of this model reads texts only");
            break;
        }
        if (i > 0) mr_jinja_append_bytes(run, &buffer, "\n", 1, true);
        mr_jinja_append_bytes(run, &buffer, text->text.bytes, text->text.length, true);
    }
    return mr_jinja_buffer_text(&buffer);
}

/* As in transformers, members with null are left out. The reasoning of a message may have one of
 * three names. It is also set under the first name, as the last member, and under the second, as
 * the first member. */
static struct mr_jinja_value make_message(struct mr_jinja_run *run, const struct mr_data *message,
                                          bool reads_parts)
{
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    const struct mr_data *reasoning = NULL;
    struct mr_jinja_value dict = mr_jinja_dict_new(run);
    for (size_t i = 0; i < 3 && !(reasoning && reasoning->kind != MR_DATA_NULL); i++)
        reasoning = mr_data_get(message, names[i]);
    bool reasons = reasoning && reasoning->kind != MR_DATA_NULL;
    if (dict.kind != MR_JINJA_DICT) return dict;
    if (reasons) set(run, dict.dict, "thinking", make(run, reasoning));
    for (size_t i = 0; i < message->map.count && run->status == MR_OK; i++) {
        const struct mr_data_member *member = &message->map.members[i];
        bool joins = !reads_parts && member->value.kind == MR_DATA_LIST &&
                     mr_text_is(member->name, "content");
        struct mr_jinja_value value =
            joins ? join_parts(run, &member->value) : make(run, &member->value);
        if (member->value.kind == MR_DATA_NULL) continue;
        if (mr_text_is(member->name, "role") && is_known_role(member->value.text))
            value.text.marks = NULL;
        mr_jinja_dict_set(run, dict.dict, mr_jinja_text(run, member->name, true), value);
    }
    if (reasons) set(run, dict.dict, "reasoning_content", make(run, reasoning));
    return dict;
}

static struct mr_jinja_value make_messages(struct mr_jinja_run *run, const struct mr_chat *chat,
                                           bool reads_parts)
{
    struct mr_jinja_value list = mr_jinja_list_new(run);
    for (size_t i = 0; i < chat->message_count && run->status == MR_OK; i++)
        mr_jinja_list_push(run, list.list, make_message(run, &chat->messages[i], reads_parts));
    return list;
}

/* Sets the same template variables as the reference implementation. chat_template_kwargs come
 * first, so they cannot replace another variable. */
static void set_globals(struct mr_jinja_run *run, struct mr_jinja_dict *globals,
                        const struct mr_chat_template *chat_template, const struct mr_chat *chat,
                        struct mr_jinja_value messages)
{
    const struct mr_data *kwargs = &chat->kwargs;
    for (size_t i = 0; kwargs->kind == MR_DATA_MAP && i < kwargs->map.count; i++) {
        struct mr_jinja_value name = mr_jinja_name(kwargs->map.members[i].name);
        mr_jinja_dict_set(run, globals, name, make(run, &kwargs->map.members[i].value));
    }
    set(run, globals, "messages", messages);
    set(run, globals, "tools", make(run, &chat->tools));
    set(run, globals, "documents", make(run, &chat->documents));
    set(run, globals, "add_generation_prompt", mr_jinja_bool(chat->add_generation_prompt));
    for (unsigned i = 0; i < MR_SPECIAL_TEXT_COUNT; i++)
        if (chat_template->special.of[i].length > 0)
            set(run, globals, mr_special_text_name(i),
                mr_jinja_text(run, chat_template->special.of[i], false));
}

/* ---- continue_final_message ---- */

/* As in transformers, a tag after the text to continue shows where the rendered text ends. */
#define TAG "CONTINUE_FINAL_MESSAGE_TAG "

/* The text to continue: the last message's content, or the last text in a list of parts. NULL when
 * there is none; the run has failed then. */
static struct mr_jinja_value *final_text(struct mr_jinja_run *run, struct mr_jinja_value messages)
{
    struct mr_jinja_value name = mr_jinja_literal("content"), text_name = mr_jinja_literal("text");
    struct mr_jinja_value *found = NULL;
    if (run->status != MR_OK) return NULL;
    struct mr_jinja_value last = messages.list->items[messages.list->count - 1];
    struct mr_jinja_value *content = mr_jinja_dict_get(last.dict, name);
    if (content && content->kind == MR_JINJA_LIST) {
        for (size_t i = content->list->count; i > 0 && !found; i--) {
            struct mr_jinja_value part = content->list->items[i - 1];
            if (part.kind == MR_JINJA_DICT) found = mr_jinja_dict_get(part.dict, text_name);
        }
        content = found;
    }
    if (content && content->kind == MR_JINJA_TEXT) return content;
    mr_jinja_fail(run, MR_INVALID_REQUEST,
                  "continue_final_message: the last message has no text to continue");
    return NULL;
}

static void append_tag(struct mr_jinja_run *run, struct mr_jinja_value *text)
{
    struct mr_jinja_buffer buffer = {0};
    mr_jinja_append(run, &buffer, *text);
    mr_jinja_append(run, &buffer, mr_jinja_literal(TAG));
    *text = mr_jinja_buffer_text(&buffer);
}

/* Cuts the output at the last tag. text: the text to continue, without the tag. */
static void cut_at_tag(struct mr_jinja_run *run, struct mr_jinja_buffer *out,
                       struct mr_jinja_value text)
{
    static const size_t tag = sizeof TAG - 1;
    size_t at = SIZE_MAX;
    text = mr_jinja_strip(run, text, mr_jinja_none(), MR_JINJA_BOTH);
    for (size_t i = 0; i + tag - 1 <= out->length; i++)
        if (memcmp(out->bytes + i, TAG, tag - 1) == 0) at = i;
    bool whole =
        out->length && memmem(out->bytes, out->length, text.text.bytes, text.text.length) != NULL;
    if (at == SIZE_MAX || !whole) {
        mr_jinja_fail(run, MR_INVALID_REQUEST,
                      "continue_final_message: the chat template changes the last message");
        return;
    }
    bool spaced = at + tag <= out->length && out->bytes[at + tag - 1] == ' ';
    out->length = at;
    if (!spaced) out->length = mr_jinja_space_start((struct mr_text){out->bytes, at});
}

/* ---- rendering ---- */

/* Finds the runs of bytes that come from the request. */
static enum mr_status find_user_ranges(const struct mr_jinja_buffer *buffer, struct mr_arena *arena,
                                       struct mr_rendered *out, struct mr_error *err)
{
    size_t count = 0;
    for (size_t i = 0; i < buffer->length; i++)
        count += buffer->marks[i] && (i == 0 || !buffer->marks[i - 1]);
    struct mr_text_range *ranges = mr_arena_take_array(arena, count, sizeof *ranges);
    if (!ranges) return mr_fail(err, MR_INVALID_REQUEST, "chat template: out of memory");
    for (size_t i = 0; i < buffer->length; i++) {
        if (!buffer->marks[i]) continue;
        size_t start = i;
        while (i < buffer->length && buffer->marks[i])
            i++;
        ranges[out->user_count++] = (struct mr_text_range){start, i};
    }
    out->text = (struct mr_text){buffer->length ? buffer->bytes : "", buffer->length};
    out->user = ranges;
    return MR_OK;
}

enum mr_status mr_chat_template_render(const struct mr_chat_template *chat_template,
                                       const struct mr_request *request, uint64_t unix_seconds,
                                       struct mr_arena *arena, struct mr_rendered *out,
                                       struct mr_error *err)
{
    struct mr_jinja_run run = {.arena = arena, .err = err, .unix_seconds = unix_seconds};
    struct mr_jinja_buffer buffer = {0};
    bool continues = request->chat.continue_final_message;
    *out = (struct mr_rendered){0};
    struct mr_jinja_value globals = mr_jinja_dict_new(&run), text = mr_jinja_undefined();
    struct mr_jinja_value messages =
        make_messages(&run, &request->chat, chat_template->reads_parts);
    struct mr_jinja_value *final = continues ? final_text(&run, messages) : NULL;
    if (final) {
        text = *final;
        append_tag(&run, final);
    }
    if (run.status == MR_OK) {
        set_globals(&run, globals.dict, chat_template, &request->chat, messages);
        mr_jinja_run_template(&run, chat_template->root, globals.dict, &buffer);
    }
    if (run.status == MR_OK && continues) cut_at_tag(&run, &buffer, text);
    if (run.status != MR_OK) return run.status;
    return find_user_ranges(&buffer, arena, out, err);
}
