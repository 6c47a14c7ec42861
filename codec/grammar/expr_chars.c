/* Characters as bytes. A range of characters becomes at most a few sequences of byte ranges per
 * length of UTF-8, as in R. Cox, "Regular Expression Matching in the Wild" (2010). */
#include "codec/check.h"
#include "codec/grammar/expr.h"
#include "codec/utf8.h"

#include <stdio.h>
#include <stdlib.h>

#define SURROGATE_FIRST 0xd800u
#define SURROGATE_LAST  0xdfffu

/* A growing list of alternatives in the arena. */
struct alternatives {
    struct mr_expr_builder *builder;
    const struct mr_expr **items;
    uint32_t count, capacity;
};

static void add(struct alternatives *list, const struct mr_expr *item)
{
    if (list->count == list->capacity) {
        uint32_t capacity = list->capacity ? 2 * list->capacity : 16;
        const struct mr_expr **items = mr_expr_take(list->builder, capacity, sizeof *items);
        if (!items) return;
        for (uint32_t i = 0; i < list->count; i++)
            items[i] = list->items[i];
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = item;
}

/* Adds one sequence of byte ranges from `low` to `high`, two characters of the same length. Every
 * combination of bytes in these ranges must be a character between the two. */
static void add_sequence(struct alternatives *list, const char *low, const char *high,
                         size_t length)
{
    const struct mr_expr *bytes[4];
    for (size_t i = 0; i < length; i++)
        bytes[i] = mr_expr_range(list->builder, (unsigned char)low[i], (unsigned char)high[i]);
    add(list, mr_expr_seq(list->builder, bytes, (uint32_t)length));
}

/* Adds the characters low to high, all of one length. Splits where a trailing byte does not span
 * its whole range 80 to BF. */
static void add_same_length(struct alternatives *list, uint32_t low, uint32_t high)
{
    for (unsigned shift = 6; shift <= 18 && high > 0x7f; shift += 6) {
        uint32_t mask = (1u << shift) - 1;
        if ((low & ~mask) == (high & ~mask)) continue;
        if ((low & mask) != 0) {
            add_same_length(list, low, low | mask);
            add_same_length(list, (low | mask) + 1, high);
            return;
        }
        if ((high & mask) != mask) {
            add_same_length(list, low, (high & ~mask) - 1);
            add_same_length(list, high & ~mask, high);
            return;
        }
    }
    char from[4], to[4];
    size_t length = mr_utf8_put(from, low);
    mr_utf8_put(to, high);
    add_sequence(list, from, to, length);
}

/* Adds characters as themselves. */
static void add_raw(struct alternatives *list, uint32_t low, uint32_t high)
{
    static const struct mr_char_range lengths[] = {{0, 0x7f},
                                                   {0x80, 0x7ff},
                                                   {0x800, SURROGATE_FIRST - 1},
                                                   {SURROGATE_LAST + 1, 0xffff},
                                                   {0x10000, MR_CODE_POINT_MAX}};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        uint32_t from = low > lengths[i].low ? low : lengths[i].low;
        uint32_t to = high < lengths[i].high ? high : lengths[i].high;
        if (from <= to) add_same_length(list, from, to);
    }
}

/* Writes the JSON form of a character that must be escaped; NUL-terminated. */
static void escape(uint32_t code_point, char out[8])
{
    static const char codes[] = "\b\f\n\r\t\"\\", names[] = "bfnrt\"\\";
    for (size_t i = 0; i + 1 < sizeof codes; i++)
        if (code_point == (unsigned char)codes[i]) {
            snprintf(out, 8, "\\%c", names[i]);
            return;
        }
    snprintf(out, 8, "\\u%04x", code_point & 0xffff);
}

static bool needs_escape(uint32_t code_point)
{
    return code_point < 0x20 || code_point == '"' || code_point == '\\';
}

static void add_json(struct alternatives *list, uint32_t low, uint32_t high)
{
    uint32_t from = low;
    for (uint32_t at = low; at <= high && at <= '\\'; at++) {
        if (!needs_escape(at)) continue;
        char form[8];
        escape(at, form);
        if (from < at) add_raw(list, from, at - 1);
        if (form[1] != 'u') add(list, mr_expr_word(list->builder, form));
        from = at + 1;
    }
    if (from <= high) add_raw(list, from, high);
}

static int compare_ranges(const void *one, const void *other)
{
    uint32_t a = ((const struct mr_char_range *)one)->low;
    uint32_t b = ((const struct mr_char_range *)other)->low;
    return (a > b) - (a < b);
}

const struct mr_expr *mr_expr_class(struct mr_expr_builder *builder,
                                    const struct mr_char_range *ranges, uint32_t count,
                                    enum mr_spelling spelling)
{
    struct alternatives list = {.builder = builder};
    struct mr_char_range *sorted = mr_expr_take(builder, count, sizeof *sorted);
    if (!sorted) return mr_expr_never();
    for (uint32_t i = 0; i < count; i++)
        sorted[i] = ranges[i];
    qsort(sorted, count, sizeof *sorted, compare_ranges);
    for (uint32_t i = 0; i < count;) {
        struct mr_char_range merged = sorted[i++];
        MR_ASSERT(merged.low <= merged.high && merged.high <= MR_CODE_POINT_MAX);
        for (; i < count && sorted[i].low <= merged.high + 1; i++)
            if (sorted[i].high > merged.high) merged.high = sorted[i].high;
        if (spelling == MR_SPELL_JSON)
            add_json(&list, merged.low, merged.high);
        else
            add_raw(&list, merged.low, merged.high);
    }
    return mr_expr_alt(builder, list.items, list.count);
}

const struct mr_expr *mr_expr_text(struct mr_expr_builder *builder, struct mr_text text,
                                   enum mr_spelling spelling)
{
    if (spelling == MR_SPELL_TEXT) return mr_expr_bytes(builder, text);
    char *out = mr_expr_take(builder, 6 * text.length + 1, 1);
    size_t length = 0;
    for (size_t i = 0; out && i < text.length; i++) {
        unsigned char byte = (unsigned char)text.bytes[i];
        if (!needs_escape(byte)) {
            out[length++] = text.bytes[i];
            continue;
        }
        char form[8];
        escape(byte, form);
        for (const char *c = form; *c; c++)
            out[length++] = *c;
    }
    if (!out) return mr_expr_never();
    return mr_expr_bytes(builder, (struct mr_text){out, length});
}
