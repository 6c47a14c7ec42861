#include "codec/template/jinja_text_methods.h"

#include "codec/jinja/jinja_space.h"
#include "codec/template/jinja_format.h"
#include "codec/unicode/unicode.h"
#include "codec/utf8.h"

#include <string.h>

/* The functions have the form of mr_jinja_operation. */
#define METHOD(name)                                                                               \
    static struct mr_jinja_value name(struct mr_jinja_run *run, struct mr_jinja_value self,        \
                                      const struct mr_jinja_arguments *args)

/* The characters to strip: none when no argument was given. */
static struct mr_jinja_value chars_of(const struct mr_jinja_arguments *args)
{
    return args->given ? args->values[0] : mr_jinja_none();
}

METHOD(text_strip)
{
    return mr_jinja_strip(run, self, chars_of(args), MR_JINJA_BOTH);
}

METHOD(text_lstrip)
{
    return mr_jinja_strip(run, self, chars_of(args), MR_JINJA_LEFT);
}

METHOD(text_rstrip)
{
    return mr_jinja_strip(run, self, chars_of(args), MR_JINJA_RIGHT);
}

METHOD(text_replace)
{
    return mr_jinja_replace(run, self, args->values[0], args->values[1],
                            mr_jinja_integer_or(run, args->values[2], -1));
}

METHOD(text_join)
{
    if (args->values[0].kind == MR_JINJA_UNDEFINED) return mr_jinja_need_text(run);
    const struct mr_jinja_list *list = mr_jinja_iterate(run, args->values[0]);
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].kind != MR_JINJA_TEXT) return mr_jinja_need_text(run);
    struct mr_jinja_value items = {.kind = MR_JINJA_LIST};
    items.list = (struct mr_jinja_list *)(uintptr_t)list;
    return mr_jinja_join(run, items, self);
}

METHOD(text_ljust)
{
    return mr_jinja_pad(run, self, mr_jinja_integer_or(run, args->values[0], 0), MR_JINJA_RIGHT,
                        args->values[1]);
}

METHOD(text_rjust)
{
    return mr_jinja_pad(run, self, mr_jinja_integer_or(run, args->values[0], 0), MR_JINJA_LEFT,
                        args->values[1]);
}

METHOD(text_zfill)
{
    int64_t width = mr_jinja_integer_or(run, args->values[0], 0);
    bool sign = self.text.length && strchr("+-", self.text.bytes[0]);
    struct mr_jinja_value rest = mr_jinja_slice_bytes(self, sign, self.text.length);
    struct mr_jinja_buffer buffer = {0};
    mr_jinja_append(run, &buffer, mr_jinja_slice_bytes(self, 0, sign));
    mr_jinja_append(run, &buffer,
                    mr_jinja_pad(run, rest, width - sign, MR_JINJA_LEFT, mr_jinja_literal("0")));
    return mr_jinja_buffer_text(&buffer);
}

/* ---- search ---- */

/* The characters [start, end) of a text. The last arguments of startswith, find and count are start
 * and end; none or undefined: from the start, to the end. Sets *offset to the index of the
 * first. */
static struct mr_jinja_value window(struct mr_jinja_run *run, struct mr_jinja_value self,
                                    const struct mr_jinja_arguments *args, int64_t *offset)
{
    int64_t count = (int64_t)mr_jinja_length(run, self);
    int64_t start = mr_jinja_integer_or(run, args->values[1], 0);
    int64_t end = mr_jinja_integer_or(run, args->values[2], count);
    if (start < 0) start = start < -count ? 0 : start + count;
    if (end < 0) end = end < -count ? 0 : end + count;
    if (end > count) end = count;
    if (start > end) start = end;
    *offset = start;
    return mr_jinja_slice_bytes(self, mr_jinja_offset(self, (size_t)start),
                                mr_jinja_offset(self, (size_t)end));
}

/* affix: a text, or a tuple of texts of which one must match. */
static bool has_affix(struct mr_jinja_run *run, struct mr_jinja_value self,
                      struct mr_jinja_value affix, bool at_start)
{
    if (affix.kind == MR_JINJA_LIST && affix.list->kind == MR_JINJA_LIST_TUPLE) {
        for (size_t i = 0; i < affix.list->count && mr_jinja_step(run); i++) {
            if (affix.list->items[i].kind != MR_JINJA_TEXT)
                mr_jinja_need_text(run);
            else if (has_affix(run, self, affix.list->items[i], at_start))
                return true;
        }
        return false;
    }
    if (affix.kind != MR_JINJA_TEXT) mr_jinja_need_text(run);
    if (affix.kind != MR_JINJA_TEXT || affix.text.length > self.text.length) return false;
    size_t from = at_start ? 0 : self.text.length - affix.text.length;
    return !affix.text.length ||
           memcmp(self.text.bytes + from, affix.text.bytes, affix.text.length) == 0;
}

METHOD(text_startswith)
{
    int64_t offset;
    return mr_jinja_bool(has_affix(run, window(run, self, args, &offset), args->values[0], true));
}

METHOD(text_endswith)
{
    int64_t offset;
    return mr_jinja_bool(has_affix(run, window(run, self, args, &offset), args->values[0], false));
}

/* Byte offset of the first or last place of `what` in text; -1: there is none. */
static int64_t search(struct mr_text text, struct mr_text what, bool last)
{
    int64_t found = -1;
    if (!what.length) return last ? (int64_t)text.length : 0;
    for (size_t at = 0; at + what.length <= text.length; at++) {
        const char *place = memmem(text.bytes + at, text.length - at, what.bytes, what.length);
        if (!place) break;
        found = place - text.bytes;
        if (!last) break;
        at = (size_t)found;
    }
    return found;
}

static struct mr_jinja_value find(struct mr_jinja_run *run, struct mr_jinja_value self,
                                  const struct mr_jinja_arguments *args, bool last)
{
    int64_t offset;
    if (args->values[0].kind != MR_JINJA_TEXT) return mr_jinja_need_text(run);
    struct mr_jinja_value part = window(run, self, args, &offset);
    int64_t found = search(mr_jinja_as_text(part), mr_jinja_as_text(args->values[0]), last);
    if (found < 0) return mr_jinja_int(-1);
    struct mr_jinja_value before = mr_jinja_slice_bytes(part, 0, (size_t)found);
    return mr_jinja_int(offset + (int64_t)mr_jinja_length(run, before));
}

METHOD(text_find)
{
    return find(run, self, args, false);
}

METHOD(text_rfind)
{
    return find(run, self, args, true);
}

static struct mr_jinja_value need_found(struct mr_jinja_run *run, struct mr_jinja_value index)
{
    if (index.kind == MR_JINJA_INT && index.integer >= 0) return index;
    return mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: index() finds nothing");
}

METHOD(text_index)
{
    return need_found(run, find(run, self, args, false));
}

METHOD(text_rindex)
{
    return need_found(run, find(run, self, args, true));
}

METHOD(text_count)
{
    int64_t offset, count = 0;
    struct mr_text text = mr_jinja_as_text(window(run, self, args, &offset));
    struct mr_text what = mr_jinja_as_text(args->values[0]);
    if (args->values[0].kind != MR_JINJA_TEXT) return mr_jinja_need_text(run);
    if (!what.length) return mr_jinja_int((int64_t)mr_jinja_length(run, self) + 1);
    for (int64_t found; (found = search(text, what, false)) >= 0; count++)
        text = mr_text_part(text, (size_t)found + what.length, text.length);
    return mr_jinja_int(count);
}

/* ---- split ---- */

static void push_part(struct mr_jinja_run *run, struct mr_jinja_value list,
                      struct mr_jinja_value text, size_t begin, size_t end)
{
    if (list.kind == MR_JINJA_LIST)
        mr_jinja_list_push(run, list.list, mr_jinja_slice_bytes(text, begin, end));
}

/* split() at runs of white space, at most `most` times. */
static void split_spaces(struct mr_jinja_run *run, struct mr_jinja_value self, int64_t most,
                         struct mr_jinja_value list)
{
    struct mr_text text = mr_jinja_as_text(self);
    for (size_t at = 0, length; at < text.length && run->status == MR_OK;) {
        length = mr_jinja_space_at(text, at);
        if (length > 0) {
            at += length;
            continue;
        }
        size_t end = most-- == 0 ? text.length : at;
        while (end < text.length && !mr_jinja_space_at(text, end) && most >= 0)
            end += mr_utf8_next(text, end).length;
        push_part(run, list, self, at, end);
        if (most < 0) break;
        at = end;
    }
}

/* rsplit() at runs of white space; fills the list from its end. */
static void rsplit_spaces(struct mr_jinja_run *run, struct mr_jinja_value self, int64_t most,
                          struct mr_jinja_value list)
{
    struct mr_text text = mr_jinja_as_text(self);
    size_t end;
    while ((end = mr_jinja_space_start(text)) > 0 && run->status == MR_OK) {
        size_t begin = end;
        text.length = end;
        if (most-- == 0) begin = 0;
        while (begin > 0 && most >= 0) {
            size_t before = begin - 1;
            while (before > 0 && !mr_utf8_is_start(text.bytes[before]))
                before--;
            if (mr_jinja_space_at(text, before)) break;
            begin = before;
        }
        push_part(run, list, self, begin, end);
        if (most < 0) break;
        text.length = begin;
    }
}

static void split_by(struct mr_jinja_run *run, struct mr_jinja_value self, struct mr_text by,
                     int64_t most, struct mr_jinja_value list)
{
    size_t at = 0;
    while (most-- > 0 && mr_jinja_step(run)) {
        int64_t found =
            search(mr_text_part(mr_jinja_as_text(self), at, self.text.length), by, false);
        if (found < 0) break;
        push_part(run, list, self, at, at + (size_t)found);
        at += (size_t)found + by.length;
    }
    push_part(run, list, self, at, self.text.length);
}

static void rsplit_by(struct mr_jinja_run *run, struct mr_jinja_value self, struct mr_text by,
                      int64_t most, struct mr_jinja_value list)
{
    size_t end = self.text.length;
    for (size_t at = end; most > 0 && at >= by.length && mr_jinja_step(run); at--) {
        if (memcmp(self.text.bytes + at - by.length, by.bytes, by.length) != 0) continue;
        push_part(run, list, self, at, end);
        end = at - by.length;
        at = end + 1;
        most--;
    }
    push_part(run, list, self, 0, end);
}

static void reverse(struct mr_jinja_list *list)
{
    for (size_t i = 0; i < list->count / 2; i++) {
        struct mr_jinja_value item = list->items[i];
        list->items[i] = list->items[list->count - 1 - i];
        list->items[list->count - 1 - i] = item;
    }
}

static struct mr_jinja_value split(struct mr_jinja_run *run, struct mr_jinja_value self,
                                   const struct mr_jinja_arguments *args, bool from_end)
{
    struct mr_jinja_value by = args->values[0], list = mr_jinja_list_new(run);
    bool spaces = by.kind == MR_JINJA_NONE || by.kind == MR_JINJA_UNDEFINED;
    int64_t most = mr_jinja_integer_or(run, args->values[1], -1);
    if (most < 0) most = INT64_MAX;
    if (!spaces && (by.kind != MR_JINJA_TEXT || !by.text.length)) return mr_jinja_need_text(run);
    if (spaces)
        (from_end ? rsplit_spaces : split_spaces)(run, self, most, list);
    else
        (from_end ? rsplit_by : split_by)(run, self, mr_jinja_as_text(by), most, list);
    if (from_end && list.kind == MR_JINJA_LIST) reverse(list.list);
    return list;
}

METHOD(text_split)
{
    return split(run, self, args, false);
}

METHOD(text_rsplit)
{
    return split(run, self, args, true);
}

/* Bytes of the line end at `at`, 0: there is none. */
static size_t line_end(struct mr_text text, size_t at)
{
    struct mr_utf8_step step = mr_utf8_next(text, at);
    uint32_t c = step.code_point;
    if (c == '\r' && at + 1 < text.length && text.bytes[at + 1] == '\n') return 2;
    bool ends = (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 ||
                c == 0x2029;
    return step.valid && ends ? step.length : 0;
}

METHOD(text_splitlines)
{
    struct mr_text text = mr_jinja_as_text(self);
    struct mr_jinja_value list = mr_jinja_list_new(run);
    bool keep = mr_jinja_truth(args->values[0]);
    size_t begin = 0;
    for (size_t at = 0; at < text.length && run->status == MR_OK;) {
        size_t length = line_end(text, at);
        if (length > 0) {
            push_part(run, list, self, begin, keep ? at + length : at);
            begin = at + length;
        }
        at += length > 0 ? length : mr_utf8_next(text, at).length;
    }
    if (begin < text.length) push_part(run, list, self, begin, text.length);
    return list;
}

static struct mr_jinja_value partition(struct mr_jinja_run *run, struct mr_jinja_value self,
                                       struct mr_jinja_value by, bool last)
{
    struct mr_jinja_value list = mr_jinja_list_of_kind(run, MR_JINJA_LIST_TUPLE);
    if (by.kind != MR_JINJA_TEXT || !by.text.length) return mr_jinja_need_text(run);
    int64_t found = search(mr_jinja_as_text(self), mr_jinja_as_text(by), last);
    size_t length = self.text.length, cut = found < 0 ? (last ? 0 : length) : (size_t)found;
    size_t after = found < 0 ? cut : cut + by.text.length;
    push_part(run, list, self, 0, cut);
    push_part(run, list, self, cut, after);
    push_part(run, list, self, after, length);
    return list;
}

METHOD(text_partition)
{
    return partition(run, self, args->values[0], false);
}

METHOD(text_rpartition)
{
    return partition(run, self, args->values[0], true);
}

METHOD(text_removeprefix)
{
    bool found = has_affix(run, self, args->values[0], true);
    return mr_jinja_slice_bytes(self, found ? args->values[0].text.length : 0, self.text.length);
}

METHOD(text_removesuffix)
{
    bool found = has_affix(run, self, args->values[0], false);
    return mr_jinja_slice_bytes(self, 0,
                                self.text.length - (found ? args->values[0].text.length : 0));
}

/* ---- questions ---- */

static bool is_space(uint32_t c)
{
    char bytes[4];
    return mr_jinja_space_at((struct mr_text){bytes, mr_utf8_put(bytes, c)}, 0) > 0;
}

static bool is_alphanumeric(uint32_t c)
{
    return mr_unicode_is_letter(c) || mr_unicode_is_numeric(c);
}

static struct mr_jinja_value every(struct mr_jinja_value self, bool (*is)(uint32_t c))
{
    struct mr_text text = mr_jinja_as_text(self);
    for (size_t at = 0; at < text.length; at += mr_utf8_next(text, at).length)
        if (!is(mr_utf8_next(text, at).code_point)) return mr_jinja_bool(false);
    return mr_jinja_bool(text.length > 0);
}

METHOD(text_isspace)
{
    (void)run, (void)args;
    return every(self, is_space);
}

METHOD(text_isdigit)
{
    (void)run, (void)args;
    return every(self, mr_unicode_is_numeric);
}

METHOD(text_isalpha)
{
    (void)run, (void)args;
    return every(self, mr_unicode_is_letter);
}

METHOD(text_isalnum)
{
    (void)run, (void)args;
    return every(self, is_alphanumeric);
}

static struct mr_jinja_value has_case(struct mr_jinja_value self, bool upper)
{
    struct mr_text text = mr_jinja_as_text(self);
    bool cased = false;
    for (size_t at = 0; at < text.length; at += mr_utf8_next(text, at).length) {
        uint32_t c = mr_utf8_next(text, at).code_point;
        if (!mr_unicode_is_cased(c)) continue;
        if (mr_unicode_is_upper(c) != upper) return mr_jinja_bool(false);
        cased = true;
    }
    return mr_jinja_bool(cased);
}

METHOD(text_isupper)
{
    (void)run, (void)args;
    return has_case(self, true);
}

METHOD(text_islower)
{
    (void)run, (void)args;
    return has_case(self, false);
}

const struct mr_jinja_text_method *mr_jinja_text_method(struct mr_text name)
{
    static const struct mr_jinja_text_method methods[] = {
        {"strip", text_strip, "chars"},
        {"lstrip", text_lstrip, "chars"},
        {"rstrip", text_rstrip, "chars"},
        {"upper", mr_jinja_upper, ""},
        {"lower", mr_jinja_lower, ""},
        {"casefold", mr_jinja_lower, ""},
        {"title", mr_jinja_title, ""},
        {"capitalize", mr_jinja_capitalize, ""},
        {"replace", text_replace, "old new count"},
        {"startswith", text_startswith, "prefix start end"},
        {"endswith", text_endswith, "suffix start end"},
        {"find", text_find, "sub start end"},
        {"rfind", text_rfind, "sub start end"},
        {"index", text_index, "sub start end"},
        {"rindex", text_rindex, "sub start end"},
        {"count", text_count, "sub start end"},
        {"split", text_split, "sep maxsplit"},
        {"rsplit", text_rsplit, "sep maxsplit"},
        {"splitlines", text_splitlines, "keepends"},
        {"partition", text_partition, "sep"},
        {"rpartition", text_rpartition, "sep"},
        {"removeprefix", text_removeprefix, "prefix"},
        {"removesuffix", text_removesuffix, "suffix"},
        {"join", text_join, "iterable"},
        {"format", mr_jinja_format_braces, "*"},
        {"center", mr_jinja_center, "width"},
        {"ljust", text_ljust, "width fillchar"},
        {"rjust", text_rjust, "width fillchar"},
        {"zfill", text_zfill, "width"},
        {"isspace", text_isspace, ""},
        {"isdigit", text_isdigit, ""},
        {"isdecimal", text_isdigit, ""},
        {"isnumeric", text_isdigit, ""},
        {"isalpha", text_isalpha, ""},
        {"isalnum", text_isalnum, ""},
        {"isupper", text_isupper, ""},
        {"islower", text_islower, ""},
    };
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (mr_text_is(name, methods[i].name)) return &methods[i];
    return NULL;
}
