#include "codec/openai/copy.h"

#include "codec/wire/writer.h"

#include <string.h>

static const struct {
    const char *bytes, *escape;
} line_ends[] = {{"\xc2\x85", "\\u0085"}, {"\xe2\x80\xa8", "\\u2028"}, {"\xe2\x80\xa9", "\\u2029"}};

/* The escape of the line end at the start of text; NULL: there is none. *length: its bytes. */
static const char *escape_of(struct mr_text text, size_t *length)
{
    for (size_t i = 0; i < sizeof line_ends / sizeof *line_ends; i++) {
        *length = strlen(line_ends[i].bytes);
        if (text.length >= *length && memcmp(text.bytes, line_ends[i].bytes, *length) == 0)
            return line_ends[i].escape;
    }
    return NULL;
}

bool mr_openai_append_line(struct mr_buffer *out, struct mr_text json)
{
    size_t kept = 0, length;
    for (size_t at = 0; at < json.length; at++) {
        const char c = json.bytes[at];
        if (c != '\xc2' && c != '\xe2') continue;
        const char *escape = escape_of(mr_text_part(json, at, json.length), &length);
        if (!escape) continue;
        if (!mr_buffer_append(out, mr_text_part(json, kept, at)) ||
            !mr_buffer_append(out, (struct mr_text){escape, strlen(escape)}))
            return false;
        kept = at + length;
        at = kept - 1;
    }
    return mr_buffer_append(out, mr_text_part(json, kept, json.length));
}

void mr_openai_put_member(struct mr_json_writer *writer, const char *name, struct mr_value value)
{
    mr_json_name(writer, name);
    mr_json_put_value(writer, value);
}

void mr_openai_put_string(struct mr_json_writer *writer, const char *name, const char *text)
{
    mr_json_name(writer, name);
    mr_json_put_string(writer, text);
}

void mr_openai_put_text(struct mr_json_writer *writer, const char *name, struct mr_text text)
{
    mr_json_name(writer, name);
    mr_json_put_text(writer, text);
}

void mr_openai_put_int(struct mr_json_writer *writer, const char *name, int64_t value)
{
    mr_json_name(writer, name);
    mr_json_put_int(writer, value);
}

void mr_openai_put_null(struct mr_json_writer *writer, const char *name)
{
    mr_json_name(writer, name);
    mr_json_put_null(writer);
}

bool mr_openai_get(struct mr_value map, const char *name, struct mr_value *out)
{
    return mr_value_kind(map) == MR_VALUE_MAP && mr_value_get(map, name, out) &&
           mr_value_kind(*out) != MR_VALUE_NULL;
}

bool mr_openai_get_text(struct mr_value map, const char *name, struct mr_text *out)
{
    struct mr_value value;
    if (!mr_openai_get(map, name, &value) || mr_value_kind(value) != MR_VALUE_TEXT) return false;
    *out = mr_value_text(value);
    return true;
}

int64_t mr_openai_get_int(struct mr_value map, const char *name, int64_t fallback)
{
    struct mr_value value;
    int64_t integer;
    return mr_openai_get(map, name, &value) && mr_value_integer(value, &integer) ? integer
                                                                                 : fallback;
}
