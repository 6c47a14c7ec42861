#include "codec/jinja/jinja_operations.h"

#include "codec/jinja/jinja_print.h"
#include "codec/jinja/jinja_space.h"
#include "codec/unicode/unicode.h"
#include "codec/utf8.h"

#include <string.h>

/* ---- arguments ---- */

const struct mr_jinja_value *mr_jinja_keyword(const struct mr_jinja_arguments *arguments,
                                              struct mr_text name)
{
    for (uint32_t i = 0; i < arguments->named_count; i++)
        if (mr_text_equal(arguments->names[i], name)) return &arguments->named[i];
    return NULL;
}

bool mr_jinja_bind(struct mr_jinja_run *run, struct mr_text what, const char *parameters,
                   const struct mr_jinja_arguments *arguments, struct mr_jinja_arguments *out)
{
    uint32_t used = 0;
    out->count = out->named_count = 0;
    out->given = arguments->count + arguments->named_count;
    for (const char *at = parameters; *at; at += *at == ' ') {
        struct mr_text name = {at, strcspn(at, " ")};
        const struct mr_jinja_value *named = mr_jinja_keyword(arguments, name);
        struct mr_jinja_value value = named ? *named : mr_jinja_undefined();
        if (out->count < arguments->count)
            value = arguments->values[out->count];
        else
            used += named != NULL;
        out->values[out->count++] = value;
        at += name.length;
    }
    if (arguments->count <= out->count && used == arguments->named_count) return true;
    mr_jinja_fail_name(run, "too many arguments, or unknown argument names, for", what);
    return false;
}

int64_t mr_jinja_integer_or(struct mr_jinja_run *run, struct mr_jinja_value value,
                            int64_t otherwise)
{
    if (value.kind == MR_JINJA_INT || value.kind == MR_JINJA_BOOL) return value.integer;
    if (value.kind != MR_JINJA_UNDEFINED && value.kind != MR_JINJA_NONE)
        mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: an argument must be an integer");
    return otherwise;
}

struct mr_jinja_arguments mr_jinja_skip_arguments(const struct mr_jinja_arguments *arguments,
                                                  uint32_t skip)
{
    struct mr_jinja_arguments rest = *arguments;
    rest.count = 0;
    for (uint32_t i = skip; i < arguments->count; i++)
        rest.values[rest.count++] = arguments->values[i];
    return rest;
}

const struct mr_jinja_list *mr_jinja_items_if_true(struct mr_jinja_run *run,
                                                   struct mr_jinja_value value)
{
    return mr_jinja_iterate(run, mr_jinja_truth(value) ? value : mr_jinja_undefined());
}

/* ---- failures ---- */

struct mr_jinja_value mr_jinja_fail_name(struct mr_jinja_run *run, const char *what,
                                         struct mr_text name)
{
    return mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: %s '%.*s'", what,
                         name.length > 40 ? 40 : (int)name.length, name.bytes);
}

struct mr_jinja_value mr_jinja_need_text(struct mr_jinja_run *run)
{
    return mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: a method needs a text argument");
}

/* ---- text ---- */

struct mr_jinja_value mr_jinja_text_of(struct mr_jinja_run *run, struct mr_jinja_value value)
{
    struct mr_jinja_buffer buffer = {0};
    if (value.kind == MR_JINJA_TEXT) return value;
    mr_jinja_print(run, &buffer, value);
    return mr_jinja_buffer_text(&buffer);
}

/* Bytes of the character at text.bytes[at] if it is to be stripped, else 0. */
static size_t strips(struct mr_text text, size_t at, struct mr_jinja_value chars)
{
    if (chars.kind != MR_JINJA_TEXT) return mr_jinja_space_at(text, at);
    size_t length = mr_utf8_next(text, at).length;
    bool found = chars.text.length &&
                 memmem(chars.text.bytes, chars.text.length, text.bytes + at, length) != NULL;
    return found ? length : 0;
}

struct mr_jinja_value mr_jinja_strip(struct mr_jinja_run *run, struct mr_jinja_value text,
                                     struct mr_jinja_value chars, enum mr_jinja_sides sides)
{
    bool spaces = chars.kind == MR_JINJA_NONE;
    if (text.kind != MR_JINJA_TEXT || (!spaces && chars.kind != MR_JINJA_TEXT))
        return mr_jinja_need_text(run);
    size_t begin = 0, end = text.text.length, length;
    struct mr_text bytes = mr_jinja_as_text(text);
    while ((sides & MR_JINJA_LEFT) && begin < end && (length = strips(bytes, begin, chars)) > 0)
        begin += length;
    while ((sides & MR_JINJA_RIGHT) && end > begin) {
        size_t last = end - 1;
        while (last > begin && !mr_utf8_is_start(bytes.bytes[last]))
            last--;
        if (strips(bytes, last, chars) != end - last) break;
        end = last;
    }
    return mr_jinja_slice_bytes(text, begin, end);
}

struct mr_jinja_value mr_jinja_pad(struct mr_jinja_run *run, struct mr_jinja_value text,
                                   int64_t width, enum mr_jinja_sides sides,
                                   struct mr_jinja_value fill)
{
    struct mr_jinja_buffer buffer = {0};
    int64_t length = (int64_t)mr_jinja_length(run, text);
    int64_t missing = width > length ? width - length : 0;
    int64_t left = sides == MR_JINJA_LEFT ? missing : sides == MR_JINJA_RIGHT ? 0 : missing / 2;
    if (sides == MR_JINJA_BOTH) left += missing & width & 1;
    if (fill.kind != MR_JINJA_TEXT) fill = mr_jinja_literal(" ");
    for (int64_t i = 0; i <= missing && mr_jinja_step(run); i++) {
        if (i == left) mr_jinja_append(run, &buffer, text);
        if (i < missing) mr_jinja_append(run, &buffer, fill);
    }
    return mr_jinja_buffer_text(&buffer);
}

struct mr_jinja_value mr_jinja_center(struct mr_jinja_run *run, struct mr_jinja_value value,
                                      const struct mr_jinja_arguments *arguments)
{
    return mr_jinja_pad(run, value, mr_jinja_integer_or(run, arguments->values[0], 80),
                        MR_JINJA_BOTH, mr_jinja_undefined());
}

/* replace with an empty `from`: `to` stands in front of every character and at the end. */
static struct mr_jinja_value replace_empty(struct mr_jinja_run *run, struct mr_jinja_value text,
                                           struct mr_jinja_value to, int64_t count)
{
    struct mr_jinja_buffer buffer = {0};
    size_t at = 0;
    for (bool more = true; more && mr_jinja_step(run);) {
        if (count-- != 0) mr_jinja_append(run, &buffer, to);
        more = at < text.text.length;
        size_t end = more ? at + mr_utf8_next(mr_jinja_as_text(text), at).length : at;
        mr_jinja_append(run, &buffer, mr_jinja_slice_bytes(text, at, end));
        at = end;
    }
    return mr_jinja_buffer_text(&buffer);
}

struct mr_jinja_value mr_jinja_replace(struct mr_jinja_run *run, struct mr_jinja_value text,
                                       struct mr_jinja_value from, struct mr_jinja_value to,
                                       int64_t count)
{
    if (text.kind != MR_JINJA_TEXT || from.kind != MR_JINJA_TEXT || to.kind != MR_JINJA_TEXT)
        return mr_jinja_need_text(run);
    if (!from.text.length) return replace_empty(run, text, to, count);
    struct mr_jinja_buffer buffer = {0};
    size_t at = 0;
    while (count-- != 0 && mr_jinja_step(run)) {
        const char *found =
            memmem(text.text.bytes + at, text.text.length - at, from.text.bytes, from.text.length);
        if (!found) break;
        size_t where = (size_t)(found - text.text.bytes);
        mr_jinja_append(run, &buffer, mr_jinja_slice_bytes(text, at, where));
        mr_jinja_append(run, &buffer, to);
        at = where + from.text.length;
    }
    if (!at) return text;
    mr_jinja_append(run, &buffer, mr_jinja_slice_bytes(text, at, text.text.length));
    return mr_jinja_buffer_text(&buffer);
}

/* ---- upper and lower case ---- */

enum letter_case { CASE_UPPER, CASE_LOWER, CASE_TITLE };

static void append_character(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer,
                             struct mr_jinja_value character, enum letter_case to)
{
    char bytes[8];
    uint32_t lower[2];
    struct mr_utf8_step step = mr_utf8_next(mr_jinja_as_text(character), 0);
    size_t length = 0;
    bool marked = character.text.marks && character.text.marks[0];
    if (!step.valid) {
        mr_jinja_append(run, buffer, character);
        return;
    }
    if (to == CASE_LOWER) {
        size_t count = mr_unicode_lower(step.code_point, lower);
        for (size_t i = 0; i < count; i++)
            length += mr_utf8_put(bytes + length, lower[i]);
    } else if (step.code_point == 0xdf) {
        memcpy(bytes, to == CASE_UPPER ? "SS" : "Ss", length = 2);
    } else {
        length = mr_utf8_put(bytes, mr_unicode_upper(step.code_point, to == CASE_TITLE));
    }
    mr_jinja_append_bytes(run, buffer, bytes, length, marked);
}

/* How a function that changes case finds the borders of words. */
enum word_rule { NO_WORDS, ONE_WORD, AFTER_NO_LETTER, AFTER_SPACE };

static bool starts_word(enum word_rule rule, struct mr_text text, size_t at)
{
    if (at == 0) return true;
    if (rule == ONE_WORD) return false;
    size_t before = at - 1;
    while (before > 0 && !mr_utf8_is_start(text.bytes[before]))
        before--;
    if (rule == AFTER_NO_LETTER) return !mr_unicode_is_cased(mr_utf8_next(text, before).code_point);
    return mr_jinja_space_at(text, before) || strchr("-({[<", text.bytes[before]);
}

static struct mr_jinja_value change_case(struct mr_jinja_run *run, struct mr_jinja_value text,
                                         enum letter_case to, enum word_rule rule)
{
    if (text.kind != MR_JINJA_TEXT) return mr_jinja_need_text(run);
    struct mr_jinja_buffer buffer = {0};
    struct mr_text bytes = mr_jinja_as_text(text);
    for (size_t at = 0; at < bytes.length && run->status == MR_OK;) {
        size_t end = at + mr_utf8_next(bytes, at).length;
        enum letter_case one = to;
        if (rule != NO_WORDS && !starts_word(rule, bytes, at)) one = CASE_LOWER;
        append_character(run, &buffer, mr_jinja_slice_bytes(text, at, end), one);
        at = end;
    }
    return mr_jinja_buffer_text(&buffer);
}

struct mr_jinja_value mr_jinja_upper(struct mr_jinja_run *run, struct mr_jinja_value value,
                                     const struct mr_jinja_arguments *arguments)
{
    (void)arguments;
    return change_case(run, value, CASE_UPPER, NO_WORDS);
}

struct mr_jinja_value mr_jinja_lower(struct mr_jinja_run *run, struct mr_jinja_value value,
                                     const struct mr_jinja_arguments *arguments)
{
    (void)arguments;
    return change_case(run, value, CASE_LOWER, NO_WORDS);
}

struct mr_jinja_value mr_jinja_title(struct mr_jinja_run *run, struct mr_jinja_value value,
                                     const struct mr_jinja_arguments *arguments)
{
    (void)arguments;
    return change_case(run, value, CASE_TITLE, AFTER_NO_LETTER);
}

struct mr_jinja_value mr_jinja_title_words(struct mr_jinja_run *run, struct mr_jinja_value value,
                                           const struct mr_jinja_arguments *arguments)
{
    (void)arguments;
    return change_case(run, value, CASE_UPPER, AFTER_SPACE);
}

struct mr_jinja_value mr_jinja_capitalize(struct mr_jinja_run *run, struct mr_jinja_value value,
                                          const struct mr_jinja_arguments *arguments)
{
    (void)arguments;
    return change_case(run, value, CASE_TITLE, ONE_WORD);
}

struct mr_jinja_value mr_jinja_join(struct mr_jinja_run *run, struct mr_jinja_value items,
                                    struct mr_jinja_value separator)
{
    struct mr_jinja_buffer buffer = {0};
    const struct mr_jinja_list *list = mr_jinja_iterate(run, items);
    for (size_t i = 0; i < list->count && run->status == MR_OK; i++) {
        if (i && separator.kind == MR_JINJA_TEXT) mr_jinja_append(run, &buffer, separator);
        mr_jinja_print(run, &buffer, list->items[i]);
    }
    return mr_jinja_buffer_text(&buffer);
}
