#include "codec/records/request_reader.h"

#include "codec/limits.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum mr_status mr_request_take(struct mr_request_reader *reader, size_t count, size_t size,
                               void **out)
{
    struct mr_arena *arena = reader->request->arena;
    *out = mr_arena_take_array(arena, count, size);
    if (*out) return MR_OK;
    if (count >= (MR_REQUEST_ARENA_BYTES_MAX - mr_arena_bytes(arena)) / size)
        return mr_fail(reader->err, MR_RECORD_TOO_LARGE, "request needs more than %zu bytes",
                       MR_REQUEST_ARENA_BYTES_MAX);
    return mr_fail(reader->err, MR_NOMEM, "no memory for a request");
}

enum mr_status mr_request_copy_text(struct mr_request_reader *reader, struct mr_text text,
                                    struct mr_text *out)
{
    void *copy;
    enum mr_status status = mr_request_take(reader, text.length + 1, 1, &copy);
    if (status != MR_OK) return status;
    if (text.length) memcpy(copy, text.bytes, text.length);
    *out = (struct mr_text){copy, text.length};
    return MR_OK;
}

enum mr_status mr_request_wrong_type(struct mr_request_reader *reader, const char *field,
                                     const char *wanted, struct mr_value value)
{
    return mr_fail(reader->err, MR_INVALID_REQUEST, "%s must be %s, not %s", field, wanted,
                   mr_value_kind_name(mr_value_kind(value)));
}

/* True for a plain identifier. An error sentence quotes only such names, because a producer may put
 * any text into other names. */
static bool is_plain_name(struct mr_text name)
{
    if (name.length == 0 || name.length > 32) return false;
    for (size_t i = 0; i < name.length; i++)
        if (!isalnum((unsigned char)name.bytes[i]) && name.bytes[i] != '_') return false;
    return true;
}

enum mr_status mr_request_warn(struct mr_request_reader *reader, const char *format, ...)
{
    char sentence[MR_ERROR_DETAIL_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    if (reader->strict)
        return mr_fail(reader->err, MR_UNSUPPORTED, "%s, and the topic is strict", sentence);
    if (mr_request_add_warning(reader->request, (struct mr_text){sentence, strlen(sentence)}))
        return MR_OK;
    /* for the status: the request is too large, or memory is out */
    void *none;
    return mr_request_take(reader, MR_REQUEST_ARENA_BYTES_MAX, 1, &none);
}

enum mr_status mr_request_unknown(struct mr_request_reader *reader, struct mr_text name,
                                  struct mr_nearest nearest)
{
    char hint[64] = "", quoted[40] = "with a name that is not an identifier";
    reader->request->unknown_fields++;
    if (is_plain_name(name)) snprintf(quoted, sizeof quoted, "%.*s", (int)name.length, name.bytes);
    if (nearest.name) snprintf(hint, sizeof hint, "; did you mean %s?", nearest.name);
    if (!reader->strict)
        return mr_request_warn(reader, "unknown field %s has no effect%s", quoted, hint);
    return mr_fail(reader->err, MR_UNKNOWN_FIELD,
                   "unknown field %s, which a topic that is not strict ignores%s", quoted, hint);
}
