/* items - translates the input items and the tools of /v1/responses into messages and tools as chat
 * completions have them.
 *
 * A message item becomes a message. Calls of functions that follow each other become one assistant
 * message, and the output of a call a message of role tool. Reasoning items become the
 * reasoning_content of the assistant message after them. Role developer becomes system, which every
 * template knows.
 *
 * Threads: any (pure functions). Memory: the writer's.
 * Errors:  MR_INVALID_REQUEST, MR_UNSUPPORTED (an item, a part or a tool of another kind). The
 *          writer is then incomplete and must be dropped. */
#ifndef MR_CODEC_OPENAI_ITEMS_H
#define MR_CODEC_OPENAI_ITEMS_H

#include "codec/wire/json_writer.h"
#include "codec/wire/value.h"

/* Writes the array of messages. instructions: text of the first message, of role system; empty:
 * none. input: a text or an array of items. */
enum mr_status mr_openai_put_messages(struct mr_json_writer *writer, struct mr_text instructions,
                                      struct mr_value input, struct mr_error *err);
/* Writes the array of tools; each {type, name, ...} becomes {type, function: {name, ...}}. */
enum mr_status mr_openai_put_tools(struct mr_json_writer *writer, struct mr_value tools,
                                   struct mr_error *err);

#endif
