#include "codec/wire/encoding.h"

#include <string.h>

/* Splits at the first separator: returns the trimmed text before it, sets *rest to the text after
 * it. */
static struct mr_text split(struct mr_text text, char separator, struct mr_text *rest)
{
    const char *at = text.length ? memchr(text.bytes, separator, text.length) : NULL;
    size_t length = at ? (size_t)(at - text.bytes) : text.length;
    *rest = at ? (struct mr_text){at + 1, text.length - length - 1} : (struct mr_text){"", 0};
    return mr_text_trim((struct mr_text){text.bytes, length});
}

/* True unless the content-type header has a charset other than UTF-8. Text is UTF-8 in both
 * encodings; another charset is an error. */
static bool charset_is_utf8(struct mr_text parameters)
{
    while (parameters.length) {
        struct mr_text value;
        struct mr_text parameter = split(parameters, ';', &parameters);
        struct mr_text name = split(parameter, '=', &value);
        value = mr_text_trim(value);
        if (value.length >= 2 && value.bytes[0] == '"' && value.bytes[value.length - 1] == '"')
            value = (struct mr_text){value.bytes + 1, value.length - 2};
        if (mr_text_is_any_case(name, "charset") && !mr_text_is_any_case(value, "utf-8") &&
            !mr_text_is_any_case(value, "utf8") && !mr_text_is_any_case(value, "us-ascii"))
            return false;
    }
    return true;
}

static enum mr_status from_header(struct mr_text content_type, enum mr_encoding *out,
                                  struct mr_error *err)
{
    struct mr_text parameters;
    struct mr_text media = split(content_type, ';', &parameters);
    bool msgpack = mr_text_is_any_case(media, "application/msgpack") ||
                   mr_text_is_any_case(media, "application/x-msgpack");
    if (!msgpack && !mr_text_is_any_case(media, "application/json"))
        return mr_fail(err, MR_UNSUPPORTED_ENCODING,
                       "content-type is neither application/msgpack nor application/json");
    *out = msgpack ? MR_ENCODING_MSGPACK : MR_ENCODING_JSON;
    if (!charset_is_utf8(parameters))
        return mr_fail(err, MR_UNSUPPORTED_ENCODING, "content-type has a charset other than UTF-8");
    return MR_OK;
}

enum mr_status mr_encoding_detect(struct mr_text content_type, struct mr_text record,
                                  enum mr_encoding *out, struct mr_error *err)
{
    *out = MR_ENCODING_JSON;
    content_type = mr_text_trim(content_type);
    if (content_type.length) return from_header(content_type, out, err);
    struct mr_text value = mr_text_trim(record);
    if (value.length && value.bytes[0] == '{') return MR_OK;
    unsigned char first = record.length ? (unsigned char)record.bytes[0] : 0;
    if ((first & 0xf0) == 0x80 || first == 0xde || first == 0xdf) {
        *out = MR_ENCODING_MSGPACK;
        return MR_OK;
    }
    return mr_fail(err, MR_MALFORMED, "record is neither a JSON object nor a msgpack map");
}

const char *mr_encoding_content_type(enum mr_encoding encoding)
{
    return encoding == MR_ENCODING_MSGPACK ? "application/msgpack" : "application/json";
}
