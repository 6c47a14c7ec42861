#include "codec/template/chat_template.h"

#include "codec/template/jinja_eval.h"
#include "codec/template/jinja_lexer.h"
#include "codec/template/jinja_parser.h"

#include <stdlib.h>
#include <string.h>

#define TEMPLATE_ARENA_BYTES ((size_t)16 << 20)

struct mr_chat_template {
    struct mr_arena *arena;
    const struct mr_jinja_node *root;
    struct mr_text bos, eos;
};

/* Copies the template source with "\n" for "\r\n" and for "\r", as Jinja does. */
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

static bool copy_text(struct mr_arena *arena, struct mr_text text, struct mr_text *out)
{
    *out = (struct mr_text){mr_arena_copy_text(arena, text.bytes, text.length), text.length};
    return out->bytes != NULL;
}

enum mr_status mr_chat_template_compile(struct mr_chat_template **out, struct mr_text source,
                                        struct mr_text bos_token, struct mr_text eos_token,
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
        !copy_text(template->arena, bos_token, &template->bos) ||
        !copy_text(template->arena, eos_token, &template->eos)) {
        mr_fail(err, MR_NOMEM, "chat template of %zu bytes", source.length);
        goto out_destroy;
    }
    status = mr_jinja_lex(copy, template->arena, &tokens, err);
    if (status == MR_OK) status = mr_jinja_parse(tokens, template->arena, &template->root, err);
    if (status != MR_OK) goto out_destroy;
    *out = template;
    return MR_OK;
out_destroy:
    mr_chat_template_destroy(template);
    return status;
}

void mr_chat_template_destroy(struct mr_chat_template *chat_template)
{
    if (!chat_template) return;
    mr_arena_destroy(chat_template->arena);
    free(chat_template);
}

static void set(struct mr_jinja_run *run, struct mr_jinja_dict *dict, const char *name,
                struct mr_jinja_value value)
{
    mr_jinja_dict_set(run, dict, mr_jinja_literal(name), value);
}

static struct mr_jinja_value make_messages(struct mr_jinja_run *run,
                                           const struct mr_request *request)
{
    struct mr_jinja_value list = mr_jinja_list_new(run);
    for (size_t i = 0; i < request->message_count && run->status == MR_OK; i++) {
        const struct mr_message *message = &request->messages[i];
        struct mr_jinja_value dict = mr_jinja_dict_new(run);
        if (dict.kind != MR_JINJA_DICT) break;
        set(run, dict.dict, "role", mr_jinja_text(run, message->role, true));
        set(run, dict.dict, "content", mr_jinja_text(run, message->content, true));
        mr_jinja_list_push(run, list.list, dict);
    }
    return list;
}

static struct mr_jinja_value make_kwarg(struct mr_jinja_run *run, const struct mr_kwarg *kwarg)
{
    switch (kwarg->kind) {
    case MR_SCALAR_BOOL:
        return mr_jinja_bool(kwarg->integer != 0);
    case MR_SCALAR_INT:
        return mr_jinja_int(kwarg->integer);
    case MR_SCALAR_FLOAT:
        return mr_jinja_float(kwarg->number);
    case MR_SCALAR_TEXT:
        return mr_jinja_text(run, kwarg->text, true);
    default:
        return mr_jinja_none();
    }
}

/* Sets the template's variables, the same as the reference implementation sets.
 * chat_template_kwargs come first, so they cannot replace another variable. */
static void set_globals(struct mr_jinja_run *run, struct mr_jinja_dict *globals,
                        const struct mr_chat_template *chat_template,
                        const struct mr_request *request)
{
    for (size_t i = 0; i < request->kwarg_count; i++) {
        struct mr_jinja_value name = mr_jinja_text(run, request->kwargs[i].name, false);
        mr_jinja_dict_set(run, globals, name, make_kwarg(run, &request->kwargs[i]));
    }
    set(run, globals, "messages", make_messages(run, request));
    set(run, globals, "tools", mr_jinja_none());
    set(run, globals, "documents", mr_jinja_none());
    set(run, globals, "add_generation_prompt", mr_jinja_bool(true));
    set(run, globals, "bos_token", mr_jinja_text(run, chat_template->bos, false));
    set(run, globals, "eos_token", mr_jinja_text(run, chat_template->eos, false));
}

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
    *out = (struct mr_rendered){0};
    struct mr_jinja_value globals = mr_jinja_dict_new(&run);
    if (run.status == MR_OK) {
        set_globals(&run, globals.dict, chat_template, request);
        mr_jinja_eval(&run, chat_template->root, globals.dict, &buffer);
    }
    if (run.status != MR_OK) return run.status;
    return find_user_ranges(&buffer, arena, out, err);
}
