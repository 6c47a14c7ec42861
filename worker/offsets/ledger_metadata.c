#include "worker/offsets/ledger_metadata.h"

#include "codec/base64.h"
#include "codec/check.h"

#include <string.h>

#define MAGIC             0xA3u
#define MAGIC_NO_INSTANCE 0xA2u
#define MAGIC_NO_TIME     0xA1u
#define TIME_BYTES        8u
#define INSTANCE_BYTES    4u
#define CRASH_RUNNING     0x80u /* up to version MAGIC_NO_INSTANCE */
#define VARINT_BYTES      5u
#define ENTRY_BYTES_MAX   (VARINT_BYTES + 3)
#define ENTRY_FLAGS                                                                                \
    (MR_LEDGER_SLOT_RUNNING | MR_LEDGER_SLOT_ACCOMPANIED | MR_LEDGER_SLOT_APART |                  \
     MR_LEDGER_SLOT_CRASHED | MR_LEDGER_SLOT_ALONE)

_Static_assert(MR_LEDGER_METADATA_TEXT_MAX <= 4096, "offset.metadata.max.bytes of a broker");
_Static_assert((1 + TIME_BYTES) / 3 * 4 == MR_LEDGER_METADATA_TIME_CHARS,
               "magic and time end at the border of a base64 group");
_Static_assert(MR_LEDGER_SPAN_MAX / 8 + 1 + TIME_BYTES + INSTANCE_BYTES + 2 * VARINT_BYTES <
                   MR_LEDGER_METADATA_RAW_MAX,
               "the bitmap always fits");

struct cursor {
    unsigned char *bytes;
    size_t at, end;
};

static void put_varint(struct cursor *cursor, uint32_t value)
{
    for (; value >= 0x80; value >>= 7)
        cursor->bytes[cursor->at++] = (unsigned char)(value | 0x80);
    cursor->bytes[cursor->at++] = (unsigned char)value;
}

static bool get_varint(struct cursor *cursor, uint32_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < 7 * VARINT_BYTES; shift += 7) {
        if (cursor->at == cursor->end) return false;
        unsigned char byte = cursor->bytes[cursor->at++];
        *value |= (uint32_t)(byte & 0x7F) << shift;
        if (!(byte & 0x80)) return true;
    }
    return false;
}

/* Numbers of fixed size, most significant byte first. */
static void put_number(struct cursor *cursor, uint64_t value, unsigned bytes)
{
    for (unsigned i = bytes; i > 0; i--)
        cursor->bytes[cursor->at++] = (unsigned char)(value >> (8 * (i - 1)));
}

static bool get_number(struct cursor *cursor, uint64_t *value, unsigned bytes)
{
    *value = 0;
    if (cursor->end - cursor->at < bytes) return false;
    for (unsigned i = 0; i < bytes; i++)
        *value = *value << 8 | cursor->bytes[cursor->at++];
    return *value <= INT64_MAX;
}

static bool is_finished(struct mr_offset_ledger *ledger, int64_t offset)
{
    return mr_offset_ledger_slot(ledger, offset)->flags & MR_LEDGER_SLOT_FINISHED;
}

/* Writes the bitmap of finished offsets, from base to the last finished one. It includes slots
 * restored from a commit whose records have not arrived again, so that the next commit loses no
 * finished offset. */
static void put_bitmap(struct cursor *cursor, struct mr_offset_ledger *ledger)
{
    int64_t base = mr_offset_ledger_base(ledger);
    uint32_t bits = mr_offset_ledger_extent(ledger);
    while (bits > 0 && !is_finished(ledger, base + bits - 1))
        bits--;
    uint32_t bytes = (bits + 7) / 8;
    put_varint(cursor, bytes);
    memset(cursor->bytes + cursor->at, 0, bytes);
    for (uint32_t i = 0; i < bits; i++)
        if (is_finished(ledger, base + i))
            cursor->bytes[cursor->at + i / 8] |= (unsigned char)(1u << (i % 8));
    cursor->at += bytes;
}

/* Writes the list of records that were started and are not finished. Returns their number, which
 * the caller writes before the list. */
static uint32_t put_entries(struct cursor *cursor, struct mr_offset_ledger *ledger)
{
    int64_t base = mr_offset_ledger_base(ledger);
    uint32_t count = 0, previous = 0;
    for (uint32_t i = 0; i < mr_offset_ledger_extent(ledger); i++) {
        const struct mr_ledger_slot *slot = mr_offset_ledger_slot(ledger, base + i);
        if (slot->flags & MR_LEDGER_SLOT_FINISHED || slot->attempts == 0) continue;
        MR_ASSERT(cursor->at + ENTRY_BYTES_MAX <= cursor->end);
        put_varint(cursor, i - previous);
        cursor->bytes[cursor->at++] = slot->attempts;
        cursor->bytes[cursor->at++] = slot->crashes;
        cursor->bytes[cursor->at++] = slot->flags;
        previous = i;
        count++;
    }
    return count;
}

void mr_ledger_metadata_encode(struct mr_offset_ledger *ledger, struct mr_ledger_head head,
                               char text[MR_LEDGER_METADATA_TEXT_MAX])
{
    unsigned char raw[MR_LEDGER_METADATA_RAW_MAX], tail[MR_LEDGER_METADATA_RAW_MAX];
    text[0] = '\0';
    if (mr_offset_ledger_base(ledger) < 0) return;
    struct cursor cursor = {.bytes = raw, .end = sizeof raw};
    raw[cursor.at++] = MAGIC;
    put_number(&cursor, (uint64_t)head.since_ms, TIME_BYTES);
    put_number(&cursor, head.instance, INSTANCE_BYTES);
    put_bitmap(&cursor, ledger);
    struct cursor entries = {.bytes = tail, .end = sizeof raw - cursor.at - VARINT_BYTES};
    uint32_t count = put_entries(&entries, ledger);
    put_varint(&cursor, count);
    memcpy(raw + cursor.at, tail, entries.at);
    mr_base64_encode(raw, cursor.at + entries.at, text);
}

static bool take_bitmap(struct cursor *cursor, struct mr_offset_ledger *ledger)
{
    uint32_t bytes = 0;
    if (!get_varint(cursor, &bytes) || bytes > cursor->end - cursor->at) return false;
    if (bytes > (mr_offset_ledger_span(ledger) + 7) / 8) return false;
    int64_t base = mr_offset_ledger_base(ledger);
    for (uint32_t i = 0; i < bytes * 8; i++) {
        if (!(cursor->bytes[cursor->at + i / 8] >> (i % 8) & 1)) continue;
        if (i >= mr_offset_ledger_span(ledger)) return false;
        mr_offset_ledger_restore_slot(ledger, base + i,
                                      (struct mr_ledger_slot){.flags = MR_LEDGER_SLOT_FINISHED});
    }
    cursor->at += bytes;
    return true;
}

/* Reads the part of an entry after the distance. Older versions do not record whether other
 * requests ran at the same time, so their running requests are treated as accompanied. */
static bool take_entry(struct cursor *cursor, unsigned char magic, struct mr_ledger_slot *slot)
{
    size_t bytes = magic == MAGIC ? 3 : 2;
    if (cursor->end - cursor->at < bytes) return false;
    const unsigned char *entry = cursor->bytes + cursor->at;
    cursor->at += bytes;
    *slot = (struct mr_ledger_slot){.attempts = entry[0], .crashes = entry[1]};
    if (magic == MAGIC) {
        slot->flags = entry[2];
        return (entry[2] & ~ENTRY_FLAGS) == 0;
    }
    slot->crashes &= (uint8_t)~CRASH_RUNNING;
    if (entry[1] & CRASH_RUNNING) slot->flags = MR_LEDGER_SLOT_RUNNING | MR_LEDGER_SLOT_ACCOMPANIED;
    return true;
}

static bool take_entries(struct cursor *cursor, unsigned char magic,
                         struct mr_offset_ledger *ledger)
{
    uint32_t count = 0, distance = 0, index = 0;
    if (!get_varint(cursor, &count)) return false;
    for (uint32_t n = 0; n < count; n++) {
        if (!get_varint(cursor, &distance)) return false;
        if (distance >= mr_offset_ledger_span(ledger) - index) return false;
        index += distance;
        struct mr_ledger_slot slot;
        if (!take_entry(cursor, magic, &slot) ||
            !mr_offset_ledger_restore_slot(ledger, mr_offset_ledger_base(ledger) + index, slot))
            return false;
    }
    return cursor->at == cursor->end;
}

static bool take_head(struct cursor *cursor, unsigned char *magic, struct mr_ledger_head *head)
{
    uint64_t since_ms = 0, instance = 0;
    if (cursor->end == 0) return false;
    *magic = cursor->bytes[cursor->at++];
    if (*magic == MAGIC_NO_TIME) return true;
    if (*magic != MAGIC && *magic != MAGIC_NO_INSTANCE) return false;
    if (!get_number(cursor, &since_ms, TIME_BYTES)) return false;
    if (*magic == MAGIC && !get_number(cursor, &instance, INSTANCE_BYTES)) return false;
    *head = (struct mr_ledger_head){(int64_t)since_ms, (uint32_t)instance};
    return true;
}

enum mr_status mr_ledger_metadata_restore(struct mr_offset_ledger *ledger, int64_t offset,
                                          struct mr_text text, struct mr_ledger_head *head,
                                          struct mr_error *err)
{
    MR_ASSERT(offset >= 0);
    unsigned char raw[MR_LEDGER_METADATA_RAW_MAX], magic = 0;
    struct cursor cursor = {.bytes = raw};
    *head = (struct mr_ledger_head){0};
    mr_offset_ledger_reset(ledger, offset);
    if (text.length == 0) return MR_OK;
    if (mr_base64_decode(text, raw, sizeof raw, &cursor.end) && take_head(&cursor, &magic, head) &&
        take_bitmap(&cursor, ledger) && take_entries(&cursor, magic, ledger))
        return MR_OK;
    mr_offset_ledger_reset(ledger, offset);
    *head = (struct mr_ledger_head){0};
    return mr_fail(err, MR_MALFORMED, "metadata of the committed offset %lld is not millrace's",
                   (long long)offset);
}
