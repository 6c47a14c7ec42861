#include "tests/integration/verdict/commit_log.h"

/* The unread rest of a record; bad: a field did not fit. */
struct cursor {
    const unsigned char *bytes;
    size_t left;
    bool bad;
};

static struct cursor cursor_of(struct mr_text text)
{
    return (struct cursor){(const unsigned char *)text.bytes, text.length, !text.bytes};
}

/* Reads a big-endian integer. */
static uint64_t take_number(struct cursor *cursor, size_t bytes)
{
    uint64_t value = 0;
    if (cursor->bad || cursor->left < bytes) {
        cursor->bad = true;
        return 0;
    }
    for (size_t i = 0; i < bytes; i++)
        value = value << 8 | cursor->bytes[i];
    cursor->bytes += bytes;
    cursor->left -= bytes;
    return value;
}

static struct mr_text take_bytes(struct cursor *cursor, size_t length)
{
    if (cursor->bad || cursor->left < length) {
        cursor->bad = true;
        return (struct mr_text){0};
    }
    struct mr_text text = {(const char *)cursor->bytes, length};
    cursor->bytes += length;
    cursor->left -= length;
    return text;
}

static struct mr_text take_text(struct cursor *cursor)
{
    return take_bytes(cursor, (size_t)take_number(cursor, 2));
}

/* Reads a length of the flexible versions: a varint, one more than the length. */
static struct mr_text take_compact_text(struct cursor *cursor)
{
    size_t length = 0;
    for (unsigned shift = 0; shift < 35 && !cursor->bad; shift += 7) {
        uint64_t byte = take_number(cursor, 1);
        length |= (size_t)(byte & 0x7F) << shift;
        if (!(byte & 0x80)) break;
    }
    if (length == 0) cursor->bad = true;
    return take_bytes(cursor, length > 0 ? length - 1 : 0);
}

bool commit_log_decode(struct commit_entry *entry, struct mr_text key, struct mr_text value)
{
    struct cursor from = cursor_of(key);
    if (take_number(&from, 2) > 1 || from.bad) return false;
    entry->group = take_text(&from);
    entry->topic = take_text(&from);
    entry->partition = (int32_t)take_number(&from, 4);
    if (from.bad) return false;
    from = cursor_of(value);
    uint64_t version = take_number(&from, 2);
    if (version > 4) return false;
    entry->offset = (int64_t)take_number(&from, 8);
    if (version >= 3) take_number(&from, 4); /* leader epoch */
    entry->metadata = version >= 4 ? take_compact_text(&from) : take_text(&from);
    entry->time_ms = (int64_t)take_number(&from, 8);
    return !from.bad;
}
