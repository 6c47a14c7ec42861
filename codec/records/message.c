#include "codec/records/message.h"

#include "codec/buffer.h"
#include "codec/limits.h"
#include "codec/tools/harmony.h"
#include "codec/tools/tool_calls.h"

#include <stdlib.h>
#include <string.h>

#define CALLS_BYTES_MAX (2 * MR_RESULT_BYTES_MAX)
_Static_assert(MR_TOOL_CALLS_MAX *(MR_TOOL_ARGUMENTS_BYTES_MAX + 64) < CALLS_BYTES_MAX,
               "the arguments of all calls fit into the arena");

/* Collects text without the white space that belongs to the tags around it. */
struct sink {
    struct mr_buffer out;   /* since the last push */
    struct mr_buffer held;  /* white space that is left out if a tag follows */
    bool before_tag;        /* a tag may follow */
    bool after_tag;         /* the text begins after a tag */
    unsigned line_ends_max; /* most line ends at the next byte that belong to that tag */
    bool blank;             /* only white space came after the tag: all of it is in `held` */
    bool begun;             /* some text came */
};

/* The kind of the text at message->at. */
enum section { SECTION_START, SECTION_REASONING, SECTION_REST };

struct mr_message {
    struct mr_message_rules rules;
    struct mr_buffer text; /* the text so far, without the echoed prompt */
    size_t echoed_left;    /* remaining bytes of the echoed prompt */
    bool taken;            /* `text` already has the part of a push that failed */
    enum section section;
    size_t at; /* the text before this index is emitted; for the rest, see `shown` */
    struct mr_harmony harmony;
    struct mr_tool_calls found; /* its positions are relative to `at` */
    size_t shown, place; /* emitted bytes of the rest; index of the next call's place in it */
    size_t reported;     /* complete calls that were emitted */
    bool begun;          /* the name and some arguments of the next call were emitted */
    size_t sent;         /* bytes of these arguments */
    struct sink reasoning, content;
    struct mr_tool_call_delta calls[MR_TOOL_CALLS_MAX + 1];
};

struct mr_message_rules mr_message_rules_of(const struct mr_request *request)
{
    const struct mr_tool_use *use = &request->tool_use;
    size_t calls_max = use->single ? 1 : MR_TOOL_CALLS_MAX;
    enum mr_constraint_kind kind = request->constraint.kind;
    bool tagged = kind == MR_CONSTRAINT_TAGGED_CALLS || kind == MR_CONSTRAINT_TAGGED_CALL;
    return (struct mr_message_rules){
        .is_split = use->format != MR_TOOLS_NONE || use->separate_reasoning,
        .format = use->format,
        .calls_max = use->choice == MR_TOOL_CHOICE_NONE ? 0 : calls_max,
        .steady = tagged || use->format == MR_TOOLS_ARRAY,
        .has_reasoning = use->separate_reasoning,
        .opened = use->opened,
        .echoed_bytes = request->echoed.length};
}

/* ---- text between tags ---- */

/* Makes room for `bytes` more bytes of text, so that _put cannot fail. */
static enum mr_status reserve(struct sink *sink, size_t bytes, struct mr_error *err)
{
    size_t most = bytes + sink->held.length;
    if (mr_buffer_reserve(&sink->out, most) && mr_buffer_reserve(&sink->held, bytes)) return MR_OK;
    return mr_fail(err, mr_buffer_error(&sink->out, most), "no room for the content of an answer");
}

static void release(struct sink *sink)
{
    mr_buffer_append(&sink->out, mr_buffer_text(&sink->held));
    mr_buffer_clear(&sink->held);
}

static void put(struct sink *sink, struct mr_text text)
{
    size_t start = 0, end = text.length, word;
    sink->begun |= text.length > 0;
    for (; start < end && sink->line_ends_max > 0; start++) {
        if (text.bytes[start] == '\n') sink->line_ends_max--;
        if (text.bytes[start] != '\n') break;
    }
    if (start == end) return;
    sink->line_ends_max = 0;
    for (word = start; word < end && mr_text_is_space(text.bytes[word]);)
        word++;
    sink->blank &= word == end;
    if (!sink->blank) release(sink);
    if (!sink->blank && sink->before_tag && text.bytes[end - 1] == '\n') end--;
    if (sink->blank) end = start;
    mr_buffer_append(&sink->out, mr_text_part(text, start, end));
    mr_buffer_append(&sink->held, mr_text_part(text, end, text.length));
}

/* A tag ends the text and begins the next. line_ends_max: after the tag. */
static void put_tag(struct sink *sink, unsigned line_ends_max)
{
    mr_buffer_clear(&sink->held);
    sink->after_tag = sink->blank = true;
    sink->line_ends_max = line_ends_max;
}

/* The text is complete. */
static void put_end(struct sink *sink)
{
    if (!sink->blank || !sink->after_tag) release(sink);
}

/* ---- reasoning between tags ---- */

/* Length of the tag's prefix at this place: the whole tag, the part up to the end of the text, or
 * 0. */
static size_t tag_at(struct mr_text text, size_t at, const char *tag)
{
    size_t length = strlen(tag), left = text.length - at;
    if (length > left) length = left;
    return memcmp(text.bytes + at, tag, length) == 0 ? length : 0;
}

static void read_opening(struct mr_message *message, struct mr_text text, bool ended)
{
    size_t at = 0;
    while (at < text.length && mr_text_is_space(text.bytes[at]))
        at++;
    size_t length = tag_at(text, at, MR_REASONING_BEGIN);
    bool tagged = length == strlen(MR_REASONING_BEGIN);
    bool undecided = at == text.length || (length > 0 && !tagged);
    if (undecided && !ended) return;
    bool opened = tagged || message->rules.opened != MR_OPENED_NOTHING;
    message->section = opened ? SECTION_REASONING : SECTION_REST;
    if (tagged) message->at = at + length;
    if (opened) put_tag(&message->reasoning, 1);
}

static void read_reasoning(struct mr_message *message, struct mr_text text, bool ended)
{
    size_t from = message->at, length = 0;
    for (; message->at < text.length; message->at++)
        if (text.bytes[message->at] == MR_REASONING_END[0] &&
            (length = tag_at(text, message->at, MR_REASONING_END)) > 0)
            break;
    bool closed = length == strlen(MR_REASONING_END);
    if (ended && !closed) message->at = text.length;
    put(&message->reasoning, mr_text_part(text, from, message->at));
    if (!closed && !ended) return;
    message->at += closed ? length : 0;
    message->section = SECTION_REST;
    if (closed) put_tag(&message->reasoning, 0);
    if (closed) put_tag(&message->content, 2);
}

/* ---- content ---- */

/* Emits the part of the rest that is decided and belongs to no call. */
static void put_content(struct mr_message *message, struct mr_text rest)
{
    const struct mr_tool_calls *found = &message->found;
    while (message->shown < found->from) {
        size_t from = message->shown;
        const struct mr_text_range *place =
            message->place < found->place_count ? &found->places[message->place] : NULL;
        if (place && from >= place->end) {
            message->place++;
        } else if (place && from >= place->start) {
            message->shown = place->end;
            put_tag(&message->content, 1);
        } else {
            message->shown = place ? place->start : found->from;
            put(&message->content, mr_text_part(rest, from, message->shown));
        }
    }
}

static enum mr_status read_rest(struct mr_message *message, struct mr_text text, bool ended,
                                struct mr_error *err)
{
    struct mr_text rest = mr_text_part(text, message->at, text.length);
    enum mr_status status = MR_OK;
    if (message->rules.format == MR_TOOLS_NONE)
        message->found.from = rest.length;
    else
        status = mr_tool_calls_find(&message->found, rest, ended, err);
    put_content(message, rest);
    return status;
}

/* ---- harmony ---- */

static enum mr_status read_channels(struct mr_message *message, struct mr_text text, bool ended,
                                    struct mr_error *err)
{
    struct mr_harmony_piece piece;
    for (;;) {
        enum mr_status status =
            mr_harmony_read(&message->harmony, &message->found, text, ended, &piece, err);
        if (status != MR_OK || piece.kind == MR_HARMONY_NONE) return status;
        if (piece.kind == MR_HARMONY_CALL) continue;
        struct sink *sink =
            piece.kind == MR_HARMONY_REASONING ? &message->reasoning : &message->content;
        if (piece.begins && sink->begun) put(sink, (struct mr_text){"\n", 1});
        put(sink, piece.text);
    }
}

/* ---- the message ---- */

/* Sets what may come first. In the harmony format that is the text that the prompt has opened. */
static bool begin(struct mr_message *message)
{
    const enum mr_opened opened = message->rules.opened;
    if (message->rules.format == MR_TOOLS_HARMONY)
        return mr_buffer_append(&message->text, mr_opened_text(MR_TOOLS_HARMONY, opened));
    message->reasoning.before_tag = true;
    message->content.before_tag = message->content.blank = message->rules.format != MR_TOOLS_NONE;
    if (opened == MR_OPENED_TEXT) message->section = SECTION_REASONING;
    return true;
}

enum mr_status mr_message_create(struct mr_message **out, const struct mr_message_rules *rules,
                                 struct mr_error *err)
{
    *out = NULL;
    struct mr_message *message = calloc(1, sizeof *message);
    if (!message) return mr_fail(err, MR_NOMEM, "no memory for the message of an answer");
    message->rules = *rules;
    message->echoed_left = rules->echoed_bytes;
    message->found.format = rules->format;
    message->found.count_max = rules->calls_max;
    message->found.steady = rules->steady;
    message->found.types = rules->types;
    mr_buffer_init(&message->text, MR_RESULT_BYTES_MAX);
    mr_buffer_init(&message->reasoning.out, 2 * MR_RESULT_BYTES_MAX);
    mr_buffer_init(&message->reasoning.held, 2 * MR_RESULT_BYTES_MAX);
    mr_buffer_init(&message->content.out, 2 * MR_RESULT_BYTES_MAX);
    mr_buffer_init(&message->content.held, 2 * MR_RESULT_BYTES_MAX);
    message->found.arena = mr_arena_create(CALLS_BYTES_MAX);
    if (!message->found.arena || !begin(message)) {
        mr_message_destroy(message);
        return mr_fail(err, MR_NOMEM, "no memory for the message of an answer");
    }
    *out = message;
    return MR_OK;
}

void mr_message_destroy(struct mr_message *message)
{
    if (!message) return;
    mr_arena_destroy(message->found.arena);
    mr_buffer_drop(&message->text);
    mr_buffer_drop(&message->reasoning.out);
    mr_buffer_drop(&message->reasoning.held);
    mr_buffer_drop(&message->content.out);
    mr_buffer_drop(&message->content.held);
    free(message);
}

/* Appends the part to the text, and reserves room for everything that it can emit. */
static enum mr_status take(struct mr_message *message, struct mr_text part, struct mr_error *err)
{
    size_t echoed = part.length < message->echoed_left ? part.length : message->echoed_left;
    size_t old = message->text.length;
    mr_buffer_clear(&message->reasoning.out);
    mr_buffer_clear(&message->content.out);
    if (!mr_buffer_append(&message->text, mr_text_part(part, echoed, part.length)))
        return mr_fail(err, mr_buffer_error(&message->text, part.length), "no room for an answer");
    size_t open = 1 + message->text.length - message->at - message->shown;
    if (message->rules.format == MR_TOOLS_HARMONY)
        open = 1 + message->text.length - message->harmony.header;
    enum mr_status status = reserve(&message->reasoning, open, err);
    if (status == MR_OK) status = reserve(&message->content, open, err);
    message->taken = status == MR_OK;
    if (status == MR_OK) message->echoed_left -= echoed;
    if (status != MR_OK) message->text.length = old;
    return status;
}

/* Emits the complete calls and the available part of an open one. */
static void put_calls(struct mr_message *message, struct mr_message_delta *delta)
{
    const struct mr_tool_calls *found = &message->found;
    bool complete = true;
    while (complete) {
        complete = message->reported < found->count;
        const struct mr_tool_call *call =
            complete ? &found->calls[message->reported] : &found->open;
        if (!call->name.bytes) return; /* none is open */
        /* Without a constraint, a begun call may turn out not to be one, and a shorter call may get
         * its index. */
        size_t sent =
            message->sent < call->arguments.length ? message->sent : call->arguments.length;
        struct mr_tool_call_delta more = {
            (uint32_t)message->reported, message->begun ? (struct mr_text){0} : call->name,
            mr_text_part(call->arguments, sent, call->arguments.length)};
        if (!message->begun || more.arguments.length > 0)
            message->calls[delta->call_count++] = more;
        message->reported += complete;
        message->begun = !complete;
        message->sent = complete ? 0 : call->arguments.length;
    }
}

enum mr_status mr_message_push(struct mr_message *message, struct mr_text part, bool ended,
                               struct mr_message_delta *delta, struct mr_error *err)
{
    enum mr_status status = MR_OK;
    *delta = (struct mr_message_delta){.calls = message->calls};
    if (!message->taken) status = take(message, part, err);
    if (status != MR_OK) return status;
    struct mr_text text = mr_buffer_text(&message->text);
    if (message->rules.format == MR_TOOLS_HARMONY) {
        status = read_channels(message, text, ended, err);
    } else {
        if (message->section == SECTION_START) read_opening(message, text, ended);
        if (message->section == SECTION_REASONING) read_reasoning(message, text, ended);
        if (message->section == SECTION_REST) status = read_rest(message, text, ended, err);
    }
    if (status != MR_OK) return status;
    message->taken = false;
    if (ended) put_end(&message->reasoning);
    if (ended) put_end(&message->content);
    put_calls(message, delta);
    delta->content = mr_buffer_text(&message->content.out);
    if (message->rules.has_reasoning) delta->reasoning = mr_buffer_text(&message->reasoning.out);
    return MR_OK;
}

/* ---- a whole answer ---- */

static bool copy(struct mr_arena *arena, struct mr_text text, struct mr_text *out)
{
    char *bytes = mr_arena_copy_text(arena, text.bytes, text.length);
    *out = (struct mr_text){bytes, text.length};
    return bytes != NULL;
}

static bool copy_delta(struct mr_choice *choice, const struct mr_message_delta *delta,
                       bool has_reasoning, struct mr_arena *arena)
{
    struct mr_tool_call *calls = mr_arena_take_array(arena, delta->call_count, sizeof *calls);
    bool room = calls && copy(arena, delta->content, &choice->content);
    if (room && has_reasoning) room = copy(arena, delta->reasoning, &choice->reasoning);
    for (size_t i = 0; room && i < delta->call_count; i++)
        room = copy(arena, delta->calls[i].name, &calls[i].name) &&
               copy(arena, delta->calls[i].arguments, &calls[i].arguments);
    choice->tool_calls = calls;
    choice->tool_call_count = delta->call_count;
    choice->parsed = room;
    return room;
}

/* Bytes of the texts of a delta. */
static size_t bytes_of(const struct mr_message_delta *delta)
{
    size_t bytes = delta->content.length + delta->reasoning.length;
    for (size_t i = 0; i < delta->call_count; i++)
        bytes += delta->calls[i].name.length + delta->calls[i].arguments.length;
    return bytes;
}

enum mr_status mr_message_split(struct mr_choice *choice, const struct mr_message_rules *rules,
                                struct mr_arena *arena, struct mr_error *err)
{
    struct mr_message *message;
    struct mr_message_delta delta;
    if (!rules->is_split) return MR_OK;
    enum mr_status status = mr_message_create(&message, rules, err);
    if (status == MR_OK) status = mr_message_push(message, choice->text, true, &delta, err);
    /* values without types grow when they are converted to JSON */
    if (status == MR_OK && mr_arena_bytes(arena) + bytes_of(&delta) > MR_RESULT_BYTES_MAX)
        status = mr_fail(err, MR_RECORD_TOO_LARGE, "the message of an answer is above %zu bytes",
                         MR_RESULT_BYTES_MAX);
    if (status == MR_OK && !copy_delta(choice, &delta, rules->has_reasoning, arena))
        status = mr_fail(err, MR_NOMEM, "no memory for the message of an answer");
    mr_message_destroy(message);
    return status;
}
