/* tool_cursor - reads markers and JSON from the text of an answer. Only codec/tools includes this.
 *
 * A reader returns FOUND and moves the cursor behind what it has read; MORE if the text ends before
 * that can be decided; BAD if the text is something else; NOMEM.
 *
 * Memory: the caller's arena. */
#ifndef MR_CODEC_TOOLS_TOOL_CURSOR_H
#define MR_CODEC_TOOLS_TOOL_CURSOR_H

#include "codec/tools/tool_list.h"
#include "codec/wire/json_writer.h"

enum mr_tool_outcome { MR_TOOL_FOUND, MR_TOOL_MORE, MR_TOOL_BAD, MR_TOOL_NOMEM };

struct mr_tool_cursor {
    struct mr_text text;
    size_t at;
    bool ended; /* nothing follows the text: what is not there yet is BAD, not MORE */
    struct mr_tool_calls *found;
    struct mr_arena *arena;
};

/* What a reader returns at the end of the text. */
enum mr_tool_outcome mr_tool_end(const struct mr_tool_cursor *cursor);
void mr_tool_skip_space(struct mr_tool_cursor *cursor);
enum mr_tool_outcome mr_tool_read_word(struct mr_tool_cursor *cursor, const char *word);
/* Reads the characters of a function's name, 1 to 128 of A-Z a-z 0-9 _ . - */
enum mr_tool_outcome mr_tool_read_name(struct mr_tool_cursor *cursor, struct mr_text *name);
/* Reads one JSON object. */
enum mr_tool_outcome mr_tool_read_object(struct mr_tool_cursor *cursor, struct mr_text *object);
/* Reads {"name": …, "arguments": …}, or "parameters" in place of "arguments", and adds the call.
 * The arguments may be a text that contains the object. */
enum mr_tool_outcome mr_tool_read_call(struct mr_tool_cursor *cursor);
/* Reads the beginning of such an object, with the name first and without escapes, up to the object
 * that the arguments are. */
enum mr_tool_outcome mr_tool_read_head(struct mr_tool_cursor *cursor, struct mr_text *name);
/* Adds the call that such an object is. */
enum mr_tool_outcome mr_tool_add_object(struct mr_tool_cursor *cursor, struct mr_text object);
/* Reads an array of such objects, at least one. */
enum mr_tool_outcome mr_tool_read_array(struct mr_tool_cursor *cursor);
/* Adds a call with this name and arguments; BAD when the arguments are no JSON object. */
enum mr_tool_outcome mr_tool_add(struct mr_tool_cursor *cursor, struct mr_text name,
                                 struct mr_text arguments);
/* As above, with the arguments of a writer, which is empty afterwards; copies them to the arena. */
enum mr_tool_outcome mr_tool_add_written(struct mr_tool_cursor *cursor, struct mr_text name,
                                         struct mr_json_writer *writer);
/* Reads calls in Python's syntax, [f(a=1), g()], and adds them (codec/tools/tool_pythonic.c). */
enum mr_tool_outcome mr_tool_read_pythonic(struct mr_tool_cursor *cursor);

#endif
