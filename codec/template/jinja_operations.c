#include "codec/template/jinja_operations.h"
#include "codec/template/jinja_print.h"

#include <string.h>

/* ---- arguments ---- */

struct mr_jinja_value mr_jinja_keyword(const struct mr_jinja_arguments *arguments, const char *name)
{
    for (uint32_t i = 0; i < arguments->named_count; i++)
        if (mr_text_is(arguments->names[i], name)) return arguments->named[i];
    return mr_jinja_undefined();
}

struct mr_jinja_value mr_jinja_argument(const struct mr_jinja_arguments *arguments, uint32_t index,
                                        const char *name)
{
    if (index < arguments->count) return arguments->values[index];
    return mr_jinja_keyword(arguments, name);
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

static bool strips(char c, const struct mr_jinja_value *chars)
{
    if (!chars) return mr_text_is_space(c);
    return c && memchr(chars->text.bytes, c, chars->text.length);
}

struct mr_jinja_value mr_jinja_strip(struct mr_jinja_run *run, struct mr_jinja_value text,
                                     const struct mr_jinja_value *chars, enum mr_jinja_sides sides)
{
    if (text.kind != MR_JINJA_TEXT) return mr_jinja_need_text(run);
    if (chars && chars->kind != MR_JINJA_TEXT) chars = NULL;
    size_t begin = 0, end = text.text.length;
    while ((sides & MR_JINJA_LEFT) && begin < end && strips(text.text.bytes[begin], chars))
        begin++;
    while ((sides & MR_JINJA_RIGHT) && end > begin && strips(text.text.bytes[end - 1], chars))
        end--;
    return mr_jinja_slice_bytes(text, begin, end);
}

struct mr_jinja_value mr_jinja_replace(struct mr_jinja_run *run, struct mr_jinja_value text,
                                       struct mr_jinja_value from, struct mr_jinja_value to)
{
    if (text.kind != MR_JINJA_TEXT || from.kind != MR_JINJA_TEXT || to.kind != MR_JINJA_TEXT) {
        return mr_jinja_need_text(run);
    }
    struct mr_jinja_buffer buffer = {0};
    size_t at = 0;
    while (from.text.length && run->status == MR_OK) {
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

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

enum letter_case { CASE_UPPER, CASE_LOWER, CASE_TITLE, CASE_CAPITALIZE };

static struct mr_jinja_value change_case(struct mr_jinja_run *run, struct mr_jinja_value text,
                                         enum letter_case to)
{
    if (text.kind != MR_JINJA_TEXT) return mr_jinja_need_text(run);
    struct mr_jinja_buffer buffer = {0};
    mr_jinja_append(run, &buffer, text);
    for (size_t i = 0; i < buffer.length; i++) {
        char c = buffer.bytes[i];
        bool starts_word = i == 0 || !is_letter(buffer.bytes[i - 1]);
        bool upper = to == CASE_UPPER || (to == CASE_TITLE && starts_word) ||
                     (to == CASE_CAPITALIZE && i == 0);
        if (is_letter(c)) buffer.bytes[i] = (char)(upper ? c & ~0x20 : c | 0x20);
    }
    return mr_jinja_buffer_text(&buffer);
}

struct mr_jinja_value mr_jinja_upper(struct mr_jinja_run *run, struct mr_jinja_value value,
                                     const struct mr_jinja_arguments *arguments)
{
    (void)arguments;
    return change_case(run, value, CASE_UPPER);
}

struct mr_jinja_value mr_jinja_lower(struct mr_jinja_run *run, struct mr_jinja_value value,
                                     const struct mr_jinja_arguments *arguments)
{
    (void)arguments;
    return change_case(run, value, CASE_LOWER);
}

struct mr_jinja_value mr_jinja_title(struct mr_jinja_run *run, struct mr_jinja_value value,
                                     const struct mr_jinja_arguments *arguments)
{
    (void)arguments;
    return change_case(run, value, CASE_TITLE);
}

struct mr_jinja_value mr_jinja_capitalize(struct mr_jinja_run *run, struct mr_jinja_value value,
                                          const struct mr_jinja_arguments *arguments)
{
    (void)arguments;
    return change_case(run, value, CASE_CAPITALIZE);
}

/* ---- lists and dictionaries ---- */

struct mr_jinja_value mr_jinja_items(struct mr_jinja_run *run, struct mr_jinja_value value,
                                     const struct mr_jinja_arguments *arguments)
{
    (void)arguments;
    struct mr_jinja_value list = mr_jinja_list_new(run);
    if (value.kind == MR_JINJA_UNDEFINED) return list;
    if (value.kind != MR_JINJA_DICT)
        return mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: items needs a dictionary");
    for (size_t i = 0; i < value.dict->count && run->status == MR_OK; i++) {
        struct mr_jinja_value pair = mr_jinja_list_new(run);
        if (pair.kind != MR_JINJA_LIST) break;
        mr_jinja_list_push(run, pair.list, value.dict->keys[i]);
        mr_jinja_list_push(run, pair.list, value.dict->values[i]);
        mr_jinja_list_push(run, list.list, pair);
    }
    return list;
}

struct mr_jinja_value mr_jinja_join(struct mr_jinja_run *run, struct mr_jinja_value items,
                                    struct mr_jinja_value separator)
{
    struct mr_jinja_buffer buffer = {0};
    struct mr_jinja_list *list = mr_jinja_iterate(run, items);
    for (size_t i = 0; i < list->count && run->status == MR_OK; i++) {
        if (i && separator.kind == MR_JINJA_TEXT) mr_jinja_append(run, &buffer, separator);
        mr_jinja_print(run, &buffer, list->items[i]);
    }
    return mr_jinja_buffer_text(&buffer);
}
