/* tool_cursor - reads markers, names and JSON from the text of an answer. Only codec/tools includes
 * this.
 *
 * A reader returns FOUND and moves the cursor past the bytes read; MORE if more text is needed to
 * decide; BAD if the text does not match; NOMEM.
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
    bool ended; /* the text is complete: readers return BAD in place of MORE */
    struct mr_tool_calls *found;
    struct mr_arena *arena;
};

/* The result of a reader that reaches the end of the text: MORE or BAD. */
enum mr_tool_outcome mr_tool_end(const struct mr_tool_cursor *cursor);
void mr_tool_skip_space(struct mr_tool_cursor *cursor);
enum mr_tool_outcome mr_tool_read_word(struct mr_tool_cursor *cursor, const char *word);
/* Reads the characters of a function's name, 1 to 128 of A-Z a-z 0-9 _ . - */
enum mr_tool_outcome mr_tool_read_name(struct mr_tool_cursor *cursor, struct mr_text *name);
/* Reads one JSON object. */
enum mr_tool_outcome mr_tool_read_object(struct mr_tool_cursor *cursor, struct mr_text *object);
/* Reads {"name": …, "arguments": …}, or "parameters" in place of "arguments", and adds the call.
 * The arguments may also be a text that contains the object. */
enum mr_tool_outcome mr_tool_read_call(struct mr_tool_cursor *cursor);
/* Reads the start of such an object up to the arguments. The name must come first and have no
 * escapes. */
enum mr_tool_outcome mr_tool_read_head(struct mr_tool_cursor *cursor, struct mr_text *name);
/* Adds the call that such an object describes. */
enum mr_tool_outcome mr_tool_add_object(struct mr_tool_cursor *cursor, struct mr_text object);
/* Reads an array of such objects, at least one. */
enum mr_tool_outcome mr_tool_read_array(struct mr_tool_cursor *cursor);
/* Adds a call with this name and arguments; BAD if the arguments are not a JSON object. */
enum mr_tool_outcome mr_tool_add(struct mr_tool_cursor *cursor, struct mr_text name,
                                 struct mr_text arguments);
/* Like the function above, with the text of a writer as the arguments. Copies the text to the arena
 * and empties the writer. */
enum mr_tool_outcome mr_tool_add_written(struct mr_tool_cursor *cursor, struct mr_text name,
                                         struct mr_json_writer *writer);
/* Reads calls in Python's syntax, [f(a=1), g()], and adds them (codec/tools/tool_pythonic.c). */
enum mr_tool_outcome mr_tool_read_pythonic(struct mr_tool_cursor *cursor);

#endif
