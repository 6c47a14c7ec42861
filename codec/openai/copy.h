/* copy - copies values of a decoded document into JSON that is written.
 *
 * Threads: any (pure functions). Memory: the writer's. Errors: those of mr_json_put_value. */
#ifndef MR_CODEC_OPENAI_COPY_H
#define MR_CODEC_OPENAI_COPY_H

#include "codec/buffer.h"
#include "codec/wire/json_writer.h"
#include "codec/wire/value.h"

/* Appends JSON to a buffer, with U+0085, U+2028 and U+2029 as escapes: some readers of lines take
 * them for line ends. False: no room. */
bool mr_openai_append_line(struct mr_buffer *out, struct mr_text json);

/* Writes a member with this name and value. */
void mr_openai_put_member(struct mr_json_writer *writer, const char *name, struct mr_value value);
void mr_openai_put_string(struct mr_json_writer *writer, const char *name, const char *text);
void mr_openai_put_text(struct mr_json_writer *writer, const char *name, struct mr_text text);
void mr_openai_put_int(struct mr_json_writer *writer, const char *name, int64_t value);
void mr_openai_put_null(struct mr_json_writer *writer, const char *name);

/* The member of a map; false if it is absent or null, or if map is no map. */
bool mr_openai_get(struct mr_value map, const char *name, struct mr_value *out);
/* The text of a member; false if it is absent or no text. */
bool mr_openai_get_text(struct mr_value map, const char *name, struct mr_text *out);
/* The integer of a member, else `fallback`. */
int64_t mr_openai_get_int(struct mr_value map, const char *name, int64_t fallback);

#endif
