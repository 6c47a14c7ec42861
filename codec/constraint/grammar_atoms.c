/* The parts of grammars in GBNF and Lark: names, texts, classes, regular expressions. */
#include "codec/constraint/char_set.h"
#include "codec/constraint/grammar_reader.h"
#include "codec/constraint/regex_front.h"
#include "codec/hash.h"
#include "codec/utf8.h"

#include <stdio.h>
#include <string.h>

const struct mr_expr *mr_grammar_fail(struct mr_grammar_reader *reader, enum mr_status status,
                                      const char *what)
{
    size_t line = 1;
    for (size_t i = 0; i < reader->at && i < reader->text.length; i++)
        line += reader->text.bytes[i] == '\n';
    mr_expr_fail(reader->builder, status, "grammar: line %zu: %s", line, what);
    return mr_expr_never();
}

int mr_grammar_peek(const struct mr_grammar_reader *reader)
{
    if (reader->at >= reader->text.length || reader->builder->status != MR_OK) return -1;
    return (unsigned char)reader->text.bytes[reader->at];
}

bool mr_grammar_take(struct mr_grammar_reader *reader, const char *word)
{
    size_t length = strlen(word);
    if (mr_grammar_peek(reader) < 0 || reader->text.length - reader->at < length ||
        memcmp(reader->text.bytes + reader->at, word, length) != 0)
        return false;
    reader->at += length;
    return true;
}

void mr_grammar_skip(struct mr_grammar_reader *reader)
{
    for (;;) {
        int byte = mr_grammar_peek(reader);
        if (byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n') {
            reader->at++;
        } else if (byte == '#' || (reader->lark && mr_grammar_take(reader, "//"))) {
            while (mr_grammar_peek(reader) >= 0 && mr_grammar_peek(reader) != '\n')
                reader->at++;
        } else {
            return;
        }
    }
}

static bool is_name(int byte, bool lark)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || byte == '_' || (byte == '-' && !lark);
}

struct mr_text mr_grammar_name(struct mr_grammar_reader *reader)
{
    size_t begin = reader->at;
    while (is_name(mr_grammar_peek(reader), reader->lark))
        reader->at++;
    return mr_text_part(reader->text, begin, reader->at);
}

struct mr_grammar_name *mr_grammar_rule(struct mr_grammar_reader *reader, struct mr_text name)
{
    struct mr_expr_builder *builder = reader->builder;
    uint64_t hash = mr_hash_bytes(MR_HASH_START, name.bytes, name.length);
    struct mr_grammar_name **slot =
        &reader->names[hash % (sizeof reader->names / sizeof reader->names[0])];
    if (name.length > MR_GRAMMAR_NAME_BYTES_MAX) {
        mr_grammar_fail(reader, MR_INVALID_REQUEST, "the name of a rule is too long");
        return NULL;
    }
    for (struct mr_grammar_name *at = *slot; at && mr_expr_work(builder, 1); at = at->next)
        if (mr_text_equal(at->name, name)) return at;
    struct mr_grammar_name *made = mr_expr_take(builder, 1, sizeof *made);
    char *copy = mr_expr_take(builder, name.length + 1, 1);
    if (!made || !copy || builder->status != MR_OK) return NULL;
    memcpy(copy, name.bytes, name.length);
    const bool is_start = mr_text_is(name, reader->lark ? "start" : "root");
    uint32_t rule = is_start ? 0 : mr_expr_rule_add(builder, copy);
    if (is_start) builder->rules[0].name = copy;
    *made = (struct mr_grammar_name){*slot, {copy, name.length}, rule, false};
    *slot = made;
    return builder->status == MR_OK ? made : NULL;
}

void mr_grammar_append(struct mr_grammar_reader *reader, struct mr_expr_items *list,
                       const struct mr_expr *item)
{
    if (list->count == list->capacity) {
        uint32_t capacity = list->capacity ? 2 * list->capacity : 8;
        const struct mr_expr **items = mr_expr_take(reader->builder, capacity, sizeof *items);
        if (!items) return;
        if (list->count) memcpy(items, list->items, list->count * sizeof *items);
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = item;
}

bool mr_grammar_number(struct mr_grammar_reader *reader, uint32_t *out)
{
    uint64_t value = 0;
    size_t begin = reader->at;
    for (int byte; (byte = mr_grammar_peek(reader)) >= '0' && byte <= '9'; reader->at++)
        value = value > MR_EXPR_COUNT_MAX ? value : value * 10 + (uint64_t)(byte - '0');
    *out = value > MR_EXPR_COUNT_MAX ? MR_EXPR_COUNT_MAX : (uint32_t)value;
    return reader->at > begin;
}

/* ---- characters ---- */

static bool take_hex(struct mr_grammar_reader *reader, unsigned digits, uint32_t *out)
{
    *out = 0;
    for (unsigned i = 0; i < digits; i++, reader->at++) {
        int byte = mr_grammar_peek(reader);
        int digit = byte < 0 ? -1 : mr_text_hex_value((char)byte);
        if (digit < 0) return false;
        *out = *out * 16 + (uint32_t)digit;
    }
    return *out <= MR_CODE_POINT_MAX;
}

/* Reads a character or an escape. */
static bool take_char(struct mr_grammar_reader *reader, uint32_t *out)
{
    static const char letters[] = "nrtfv", values[] = "\n\r\t\f\v";
    if (!mr_grammar_take(reader, "\\")) {
        struct mr_utf8_step step = mr_utf8_next(reader->text, reader->at);
        reader->at += step.length;
        *out = step.code_point;
        return true;
    }
    int letter = mr_grammar_peek(reader);
    if (letter < 0) return false;
    reader->at++;
    const char *found = strchr(letters, letter);
    if (letter != 0 && found) {
        *out = (uint32_t)values[found - letters];
        return true;
    }
    if (letter == 'x') return take_hex(reader, 2, out);
    if (letter == 'u') return take_hex(reader, 4, out);
    if (letter == 'U') return take_hex(reader, 8, out);
    *out = (uint32_t)letter;
    return letter < 0x80 && !(letter >= '0' && letter <= '9') &&
           !(letter >= 'a' && letter <= 'z') && !(letter >= 'A' && letter <= 'Z');
}

/* One character. fold: an ASCII letter also matches in the other case. */
static const struct mr_expr *char_expr(struct mr_grammar_reader *reader, uint32_t character,
                                       bool fold)
{
    const uint32_t other = character ^ 0x20;
    const bool letter =
        (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z');
    const struct mr_char_range ranges[] = {{character, character}, {other, other}};
    return mr_expr_class(reader->builder, ranges, fold && letter ? 2 : 1, MR_SPELL_TEXT);
}

/* Reads the characters up to the closing quote into an array of the builder's memory. */
static bool take_quoted(struct mr_grammar_reader *reader, uint32_t **out, size_t *count)
{
    size_t end = ++reader->at;
    while (end < reader->text.length && reader->text.bytes[end] != '"' &&
           reader->text.bytes[end] != '\n')
        end += reader->text.bytes[end] == '\\' ? 2 : 1;
    *count = 0;
    *out = mr_expr_take(reader->builder, end - reader->at + 1, sizeof **out);
    while (*out && mr_grammar_peek(reader) >= 0 && reader->at < end)
        if (!take_char(reader, &(*out)[(*count)++])) {
            mr_grammar_fail(reader, MR_INVALID_REQUEST, "unknown escape");
            return false;
        }
    if (mr_grammar_take(reader, "\"")) return true;
    mr_grammar_fail(reader, MR_INVALID_REQUEST, "a text has no closing quote");
    return false;
}

const struct mr_expr *mr_grammar_quoted(struct mr_grammar_reader *reader)
{
    struct mr_expr_items list = {0};
    uint32_t *text, *last;
    size_t count, last_count;
    if (!take_quoted(reader, &text, &count)) return mr_expr_never();
    if (reader->lark && mr_grammar_take(reader, "..")) {
        if (mr_grammar_peek(reader) != '"' || !take_quoted(reader, &last, &last_count) ||
            count != 1 || last_count != 1 || text[0] > last[0])
            return mr_grammar_fail(reader, MR_INVALID_REQUEST,
                                   "invalid range of characters: the end is below the start");
        const struct mr_char_range range = {text[0], last[0]};
        return mr_expr_class(reader->builder, &range, 1, MR_SPELL_TEXT);
    }
    const bool fold = reader->lark && mr_grammar_take(reader, "i");
    for (size_t i = 0; i < count; i++)
        mr_grammar_append(reader, &list, char_expr(reader, text[i], fold));
    return mr_expr_seq(reader->builder, list.items, list.count);
}

const struct mr_expr *mr_grammar_class(struct mr_grammar_reader *reader)
{
    struct mr_char_set set = {.count = 0};
    reader->at++;
    const bool inverted = mr_grammar_take(reader, "^");
    while (mr_grammar_peek(reader) != ']') {
        uint32_t low, high;
        if (mr_grammar_peek(reader) < 0)
            return mr_grammar_fail(reader, MR_INVALID_REQUEST, "a class has no closing bracket");
        if (!take_char(reader, &low))
            return mr_grammar_fail(reader, MR_INVALID_REQUEST, "unknown escape");
        high = low;
        const bool range = mr_grammar_peek(reader) == '-' && reader->at + 1 < reader->text.length &&
                           reader->text.bytes[reader->at + 1] != ']';
        if (range) reader->at++;
        if (range && (!take_char(reader, &high) || high < low))
            return mr_grammar_fail(reader, MR_INVALID_REQUEST,
                                   "invalid range of characters: the end is below the start");
        if (!mr_char_set_add(&set, low, high))
            return mr_grammar_fail(reader, MR_INVALID_REQUEST, "a class has too many ranges");
    }
    reader->at++;
    if (inverted && !mr_char_set_invert(&set))
        return mr_grammar_fail(reader, MR_INVALID_REQUEST, "a class has too many ranges");
    return mr_char_set_expr(reader->builder, &set, MR_SPELL_TEXT);
}

const struct mr_expr *mr_grammar_regex(struct mr_grammar_reader *reader)
{
    static const struct mr_regex_options options = {MR_REGEX_WHOLE, MR_SPELL_TEXT,
                                                    "grammar: regex"};
    const size_t begin = ++reader->at;
    int byte;
    while ((byte = mr_grammar_peek(reader)) >= 0 && byte != '/' && byte != '\n')
        reader->at += byte == '\\' && reader->at + 1 < reader->text.length ? 2 : 1;
    const struct mr_text pattern = mr_text_part(reader->text, begin, reader->at);
    if (!mr_grammar_take(reader, "/"))
        return mr_grammar_fail(reader, MR_INVALID_REQUEST, "a regex has no closing slash");
    byte = mr_grammar_peek(reader);
    if (byte >= 'a' && byte <= 'z')
        return mr_grammar_fail(reader, MR_UNSUPPORTED, "flags of a regex are not supported");
    return mr_regex_expr(reader->builder, pattern, &options);
}
