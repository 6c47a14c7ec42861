#include "codec/wire/scan.h"

#include <stdint.h>
#include <string.h>

struct cursor {
    struct mr_text bytes;
    size_t at;
};

static bool has(const struct cursor *cursor, size_t count)
{
    return count <= cursor->bytes.length - cursor->at;
}

static unsigned char byte_at(const struct cursor *cursor)
{
    return cursor->at < cursor->bytes.length ? (unsigned char)cursor->bytes.bytes[cursor->at] : 0;
}

/* ---- JSON ---- */

static void skip_space(struct cursor *cursor)
{
    while (has(cursor, 1) && mr_text_is_space(cursor->bytes.bytes[cursor->at]))
        cursor->at++;
}

static bool skip_byte(struct cursor *cursor, char wanted)
{
    skip_space(cursor);
    if (byte_at(cursor) != (unsigned char)wanted) return false;
    cursor->at++;
    skip_space(cursor);
    return true;
}

/* Sets *inner to the bytes between the quotes; escapes stay as they are. */
static bool take_string(struct cursor *cursor, struct mr_text *inner)
{
    if (byte_at(cursor) != '"') return false;
    size_t start = ++cursor->at;
    for (; has(cursor, 1); cursor->at++) {
        if (byte_at(cursor) == '"') {
            *inner = mr_text_part(cursor->bytes, start, cursor->at++);
            return true;
        }
        if (byte_at(cursor) == '\\') cursor->at++;
        if (!has(cursor, 1)) return false;
    }
    return false;
}

/* Skips a value of any kind, up to the comma or bracket after it. */
static bool skip_json(struct cursor *cursor)
{
    size_t depth = 0;
    struct mr_text unused;
    while (has(cursor, 1)) {
        unsigned char c = byte_at(cursor);
        if (depth == 0 && (c == ',' || c == '}' || c == ']')) return true;
        if (c == '"') {
            if (!take_string(cursor, &unused)) return false;
            continue;
        }
        if (c == '{' || c == '[') depth++;
        if (c == '}' || c == ']') depth--;
        cursor->at++;
    }
    return false;
}

static bool find_json(struct cursor *cursor, const char *name)
{
    struct mr_text key;
    if (!skip_byte(cursor, '{')) return false;
    while (take_string(cursor, &key) && skip_byte(cursor, ':')) {
        if (mr_text_is(key, name)) return true;
        if (!skip_json(cursor) || !skip_byte(cursor, ',')) return false;
    }
    return false;
}

/* The character of the escape whose backslash is before text[*at]; -1 if it is not below U+0100. */
static int unescape(struct mr_text text, size_t *at)
{
    if (*at >= text.length) return -1;
    char c = text.bytes[(*at)++];
    if (c == '"' || c == '\\' || c == '/') return c;
    if (c != 'u' || text.length - *at < 4 || memcmp(text.bytes + *at, "00", 2) != 0) return -1;
    int high = mr_text_hex_value(text.bytes[*at + 2]), low = mr_text_hex_value(text.bytes[*at + 3]);
    *at += 4;
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

static size_t copy_json(struct mr_text inner, char *out, size_t room)
{
    size_t length = 0, at = 0;
    while (at < inner.length) {
        int c = (unsigned char)inner.bytes[at++];
        if (c == '\\') c = unescape(inner, &at);
        if (c < 0 || length == room) return 0;
        out[length++] = (char)c;
    }
    return length;
}

/* ---- msgpack ---- */

/* The layout of a value, as its first byte declares it: a big-endian length of `length_bytes`
 * bytes, then `size` payload bytes or elements. */
struct shape {
    unsigned length_bytes;
    uint64_t size;
    unsigned values; /* values per element: 0 for texts and numbers, 1 for arrays, 2 for maps */
};

static struct shape shape_of(unsigned char first)
{
    static const struct shape table[32] = {
        [0x04] = {1, 0, 0},  [0x05] = {2, 0, 0}, [0x06] = {4, 0, 0}, [0x07] = {1, 1, 0},
        [0x08] = {2, 1, 0},  [0x09] = {4, 1, 0}, [0x0a] = {0, 4, 0}, [0x0b] = {0, 8, 0},
        [0x0c] = {0, 1, 0},  [0x0d] = {0, 2, 0}, [0x0e] = {0, 4, 0}, [0x0f] = {0, 8, 0},
        [0x10] = {0, 1, 0},  [0x11] = {0, 2, 0}, [0x12] = {0, 4, 0}, [0x13] = {0, 8, 0},
        [0x14] = {0, 2, 0},  [0x15] = {0, 3, 0}, [0x16] = {0, 5, 0}, [0x17] = {0, 9, 0},
        [0x18] = {0, 17, 0}, [0x19] = {1, 0, 0}, [0x1a] = {2, 0, 0}, [0x1b] = {4, 0, 0},
        [0x1c] = {2, 0, 1},  [0x1d] = {4, 0, 1}, [0x1e] = {2, 0, 2}, [0x1f] = {4, 0, 2},
    };
    if (first <= 0x7f || first >= 0xe0) return (struct shape){0, 0, 0};
    if (first <= 0x8f) return (struct shape){0, first & 0x0fu, 2};
    if (first <= 0x9f) return (struct shape){0, first & 0x0fu, 1};
    if (first <= 0xbf) return (struct shape){0, first & 0x1fu, 0};
    return table[first - 0xc0];
}

static bool is_text(unsigned char first)
{
    return (first & 0xe0) == 0xa0 || (first >= 0xd9 && first <= 0xdb);
}

/* Reads the first byte and the length field, and sets shape->size to the declared length. */
static bool take_head(struct cursor *cursor, struct shape *shape)
{
    if (!has(cursor, 1)) return false;
    *shape = shape_of(byte_at(cursor));
    cursor->at++;
    if (!has(cursor, shape->length_bytes)) return false;
    uint64_t length = 0;
    for (unsigned i = 0; i < shape->length_bytes; i++)
        length = length << 8 | (unsigned char)cursor->bytes.bytes[cursor->at++];
    shape->size += length;
    return shape->values > 0 || has(cursor, shape->size);
}

static bool skip_msgpack(struct cursor *cursor)
{
    struct shape shape;
    for (uint64_t left = 1; left > 0; left--) {
        if (!take_head(cursor, &shape)) return false;
        /* every remaining value takes at least one byte, which also bounds the sum */
        if (shape.values > 0) left += shape.size * shape.values;
        if (shape.values > 0 && left > cursor->bytes.length) return false;
        if (shape.values == 0) cursor->at += shape.size;
    }
    return true;
}

static bool take_text(struct cursor *cursor, struct mr_text *text)
{
    struct shape shape;
    if (!is_text(byte_at(cursor)) || !take_head(cursor, &shape)) return false;
    *text = mr_text_part(cursor->bytes, cursor->at, cursor->at + shape.size);
    cursor->at += shape.size;
    return true;
}

static bool find_msgpack(struct cursor *cursor, const char *name)
{
    struct shape map;
    struct mr_text key;
    if (!take_head(cursor, &map) || map.values != 2) return false;
    for (uint64_t i = 0; i < map.size; i++) {
        if (!take_text(cursor, &key)) return false;
        if (mr_text_is(key, name)) return true;
        if (!skip_msgpack(cursor)) return false;
    }
    return false;
}

/* ---- either ---- */

bool mr_scan_member(struct mr_text record, const char *name, struct mr_text *value)
{
    struct cursor json = {.bytes = record}, msgpack = {.bytes = record};
    bool is_json = find_json(&json, name);
    if (!is_json && !find_msgpack(&msgpack, name)) return false;
    *value = mr_text_part(record, is_json ? json.at : msgpack.at, record.length);
    return true;
}

size_t mr_scan_text(struct mr_text value, char *out, size_t room)
{
    struct mr_text text;
    struct cursor cursor = {.bytes = value};
    if (take_string(&cursor, &text)) return copy_json(text, out, room);
    if (!take_text(&cursor, &text) || text.length > room) return 0;
    memcpy(out, text.bytes, text.length);
    return text.length;
}
