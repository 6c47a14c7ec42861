/* The stop matcher against its oracle: with a text in pieces it finds the stop string that a search
 * in the whole text finds, and holds back exactly the bytes that may become a stop string.
 *
 * Input: a byte with the number of stop strings, each of them a length (u8) and its bytes, a byte
 * that decides where pieces end, then the text. */
#include "codec/limits.h"
#include "codec/tokenizer/stop_match.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

struct stops {
    struct mr_text texts[MR_STOP_COUNT_MAX];
    size_t count;
};

static bool ends_with(struct mr_text text, size_t end, struct mr_text stop)
{
    return end >= stop.length &&
           memcmp(text.bytes + end - stop.length, stop.bytes, stop.length) == 0;
}

/* The match that ends first; among matches with the same end, the first in the list. */
static bool search(const struct stops *stops, struct mr_text text, size_t *end, size_t *index)
{
    for (*end = 1; *end <= text.length; (*end)++)
        for (*index = 0; *index < stops->count; (*index)++)
            if (ends_with(text, *end, stops->texts[*index])) return true;
    return false;
}

/* The longest suffix of text[0..length) that is the beginning of a stop string. */
static size_t held(const struct stops *stops, struct mr_text text, size_t length)
{
    for (size_t count = MR_STOP_BYTES_MAX; count > 0; count--)
        for (size_t i = 0; i < stops->count && count <= length; i++)
            if (count < stops->texts[i].length &&
                memcmp(text.bytes + length - count, stops->texts[i].bytes, count) == 0)
                return count;
    return 0;
}

static void compare(const struct mr_stop_match *matcher, const struct stops *stops,
                    struct mr_text text, uint32_t cuts)
{
    uint32_t position = 0;
    size_t end = 0, index = 0, at = 0;
    bool found = search(stops, text, &end, &index), hit_seen = false;
    while (at < text.length && !hit_seen) {
        struct mr_stop_hit hit;
        cuts = cuts * 1664525u + 1013904223u;
        size_t length = cuts >> 28;
        if (length > text.length - at) length = text.length - at;
        char *piece = malloc(length + (length == 0));
        MR_ASSERT(piece);
        if (length) memcpy(piece, text.bytes + at, length);
        hit_seen = mr_stop_match_feed(matcher, &position, piece, length, &hit);
        free(piece);
        if (hit_seen) {
            MR_ASSERT(found && at + hit.end == end && hit.stop_index == index);
            MR_ASSERT(hit.length == stops->texts[index].length);
        } else {
            at += length;
            MR_ASSERT(mr_stop_match_held(matcher, position) == held(stops, text, at));
        }
    }
    MR_ASSERT(hit_seen == found);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_cursor cursor = {data, size};
    struct stops stops = {.count = fuzz_u8(&cursor) % (MR_STOP_COUNT_MAX + 1)};
    struct mr_stop_match *matcher;
    size_t kept = 0;
    if (size > 4096) return 0;
    for (size_t i = 0; i < stops.count; i++) {
        struct mr_text text = fuzz_take(&cursor, fuzz_u8(&cursor) % (MR_STOP_BYTES_MAX + 1));
        if (text.length > 0) stops.texts[kept++] = text;
    }
    stops.count = kept;
    uint32_t cuts = fuzz_u8(&cursor);
    struct mr_arena *arena = mr_arena_create((size_t)8 << 20);
    MR_ASSERT(arena);
    MR_ASSERT(mr_stop_match_create(&matcher, arena, stops.texts, stops.count, NULL) == MR_OK);
    compare(matcher, &stops, fuzz_rest(&cursor), cuts);
    mr_arena_destroy(arena);
    return 0;
}
