#include "codec/template/jinja_methods.h"

#include <string.h>

struct method {
    const char *name;
    enum mr_jinja_kind kind;
    struct mr_jinja_value (*call)(struct mr_jinja_run *run, struct mr_jinja_value self,
                                  const struct mr_jinja_arguments *args);
};

static bool is_text(const struct mr_jinja_arguments *args, uint32_t index)
{
    return index < args->count && args->values[index].kind == MR_JINJA_TEXT;
}

static struct mr_jinja_value need_text(struct mr_jinja_run *run)
{
    return mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: a method needs a text argument");
}

static bool strips(char c, const struct mr_jinja_value *chars)
{
    if (!chars) return mr_text_is_space(c);
    return c && memchr(chars->text.bytes, c, chars->text.length);
}

struct mr_jinja_value mr_jinja_strip(struct mr_jinja_run *run, struct mr_jinja_value text,
                                     const struct mr_jinja_value *chars, int sides)
{
    if (text.kind != MR_JINJA_TEXT) return need_text(run);
    if (chars && chars->kind != MR_JINJA_TEXT) chars = NULL;
    size_t begin = 0, end = text.text.length;
    while ((sides & 1) && begin < end && strips(text.text.bytes[begin], chars))
        begin++;
    while ((sides & 2) && end > begin && strips(text.text.bytes[end - 1], chars))
        end--;
    return mr_jinja_slice_bytes(text, begin, end);
}

struct mr_jinja_value mr_jinja_replace(struct mr_jinja_run *run, struct mr_jinja_value text,
                                       struct mr_jinja_value from, struct mr_jinja_value to)
{
    if (text.kind != MR_JINJA_TEXT || from.kind != MR_JINJA_TEXT || to.kind != MR_JINJA_TEXT) {
        return need_text(run);
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

struct mr_jinja_value mr_jinja_recase(struct mr_jinja_run *run, struct mr_jinja_value text,
                                      const char *how)
{
    if (text.kind != MR_JINJA_TEXT) return need_text(run);
    struct mr_jinja_buffer buffer = {0};
    mr_jinja_append(run, &buffer, text);
    for (size_t i = 0; i < buffer.length; i++) {
        char c = buffer.bytes[i];
        bool first = i == 0 || (how[0] == 't' && !is_letter(buffer.bytes[i - 1]));
        bool upper = how[0] == 'u' || ((how[0] == 'c' || how[0] == 't') && first);
        if (is_letter(c)) buffer.bytes[i] = (char)(upper ? c & ~0x20 : c | 0x20);
    }
    return mr_jinja_buffer_text(&buffer);
}

struct mr_jinja_value mr_jinja_pairs(struct mr_jinja_run *run, struct mr_jinja_value dict)
{
    struct mr_jinja_value list = mr_jinja_list_new(run);
    if (dict.kind != MR_JINJA_DICT) {
        return mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: items needs a dictionary");
    }
    for (size_t i = 0; i < dict.dict->count && run->status == MR_OK; i++) {
        struct mr_jinja_value pair = mr_jinja_list_new(run);
        if (pair.kind != MR_JINJA_LIST) break;
        mr_jinja_list_push(run, pair.list, dict.dict->keys[i]);
        mr_jinja_list_push(run, pair.list, dict.dict->values[i]);
        mr_jinja_list_push(run, list.list, pair);
    }
    return list;
}

/* ---- text ---- */

static struct mr_jinja_value text_strip(struct mr_jinja_run *run, struct mr_jinja_value self,
                                        const struct mr_jinja_arguments *args)
{
    return mr_jinja_strip(run, self, args->count ? &args->values[0] : NULL, 3);
}

static struct mr_jinja_value text_lstrip(struct mr_jinja_run *run, struct mr_jinja_value self,
                                         const struct mr_jinja_arguments *args)
{
    return mr_jinja_strip(run, self, args->count ? &args->values[0] : NULL, 1);
}

static struct mr_jinja_value text_rstrip(struct mr_jinja_run *run, struct mr_jinja_value self,
                                         const struct mr_jinja_arguments *args)
{
    return mr_jinja_strip(run, self, args->count ? &args->values[0] : NULL, 2);
}

static struct mr_jinja_value text_upper(struct mr_jinja_run *run, struct mr_jinja_value self,
                                        const struct mr_jinja_arguments *args)
{
    (void)args;
    return mr_jinja_recase(run, self, "upper");
}

static struct mr_jinja_value text_lower(struct mr_jinja_run *run, struct mr_jinja_value self,
                                        const struct mr_jinja_arguments *args)
{
    (void)args;
    return mr_jinja_recase(run, self, "lower");
}

static struct mr_jinja_value text_title(struct mr_jinja_run *run, struct mr_jinja_value self,
                                        const struct mr_jinja_arguments *args)
{
    (void)args;
    return mr_jinja_recase(run, self, "title");
}

static struct mr_jinja_value text_capitalize(struct mr_jinja_run *run, struct mr_jinja_value self,
                                             const struct mr_jinja_arguments *args)
{
    (void)args;
    return mr_jinja_recase(run, self, "capitalize");
}

static struct mr_jinja_value text_replace(struct mr_jinja_run *run, struct mr_jinja_value self,
                                          const struct mr_jinja_arguments *args)
{
    if (!is_text(args, 0) || !is_text(args, 1)) return need_text(run);
    return mr_jinja_replace(run, self, args->values[0], args->values[1]);
}

/* One affix, or any of a tuple of them, as Python's startswith takes. */
static bool has_affix(struct mr_jinja_value self, struct mr_jinja_value affix, bool at_start)
{
    if (affix.kind == MR_JINJA_LIST) {
        for (size_t i = 0; i < affix.list->count; i++) {
            if (has_affix(self, affix.list->items[i], at_start)) return true;
        }
        return false;
    }
    if (affix.kind != MR_JINJA_TEXT || affix.text.length > self.text.length) return false;
    size_t from = at_start ? 0 : self.text.length - affix.text.length;
    return memcmp(self.text.bytes + from, affix.text.bytes, affix.text.length) == 0;
}

static struct mr_jinja_value text_startswith(struct mr_jinja_run *run, struct mr_jinja_value self,
                                             const struct mr_jinja_arguments *args)
{
    return args->count ? mr_jinja_bool(has_affix(self, args->values[0], true)) : need_text(run);
}

static struct mr_jinja_value text_endswith(struct mr_jinja_run *run, struct mr_jinja_value self,
                                           const struct mr_jinja_arguments *args)
{
    return args->count ? mr_jinja_bool(has_affix(self, args->values[0], false)) : need_text(run);
}

static struct mr_jinja_value text_find(struct mr_jinja_run *run, struct mr_jinja_value self,
                                       const struct mr_jinja_arguments *args)
{
    if (!is_text(args, 0)) return need_text(run);
    const char *found = memmem(self.text.bytes, self.text.length, args->values[0].text.bytes,
                               args->values[0].text.length);
    if (!found) return mr_jinja_int(-1);
    struct mr_jinja_value before = mr_jinja_slice_bytes(self, 0, (size_t)(found - self.text.bytes));
    return mr_jinja_int((int64_t)mr_jinja_length(run, before));
}

static void split_spaces(struct mr_jinja_run *run, struct mr_jinja_value self,
                         struct mr_jinja_list *out)
{
    for (size_t i = 0; i < self.text.length;) {
        size_t end = i;
        while (end < self.text.length && !mr_text_is_space(self.text.bytes[end]))
            end++;
        if (end > i) mr_jinja_list_push(run, out, mr_jinja_slice_bytes(self, i, end));
        i = end + 1;
    }
}

static struct mr_jinja_value text_split(struct mr_jinja_run *run, struct mr_jinja_value self,
                                        const struct mr_jinja_arguments *args)
{
    struct mr_jinja_value list = mr_jinja_list_new(run);
    if (list.kind != MR_JINJA_LIST) return list;
    if (!is_text(args, 0)) {
        split_spaces(run, self, list.list);
        return list;
    }
    struct mr_jinja_value by = args->values[0];
    int64_t most = args->count > 1 && args->values[1].kind == MR_JINJA_INT ? args->values[1].integer
                                                                           : INT64_MAX;
    if (most < 0) most = INT64_MAX;
    if (!by.text.length) return need_text(run);
    size_t at = 0;
    while (run->status == MR_OK && most-- > 0) {
        const char *found =
            memmem(self.text.bytes + at, self.text.length - at, by.text.bytes, by.text.length);
        if (!found) break;
        size_t where = (size_t)(found - self.text.bytes);
        mr_jinja_list_push(run, list.list, mr_jinja_slice_bytes(self, at, where));
        at = where + by.text.length;
    }
    mr_jinja_list_push(run, list.list, mr_jinja_slice_bytes(self, at, self.text.length));
    return list;
}

static struct mr_jinja_value text_join(struct mr_jinja_run *run, struct mr_jinja_value self,
                                       const struct mr_jinja_arguments *args)
{
    struct mr_jinja_arguments by = {.values = {self}, .count = 1};
    if (!args->count) return need_text(run);
    return mr_jinja_filter(run, (struct mr_text){"join", 4}, args->values[0], &by);
}

/* ---- dictionaries and lists ---- */

static struct mr_jinja_value dict_get(struct mr_jinja_run *run, struct mr_jinja_value self,
                                      const struct mr_jinja_arguments *args)
{
    if (!args->count) return need_text(run);
    struct mr_jinja_value *found = mr_jinja_dict_get(self.dict, args->values[0]);
    if (found) return *found;
    return args->count > 1 ? args->values[1] : mr_jinja_none();
}

static struct mr_jinja_value dict_items(struct mr_jinja_run *run, struct mr_jinja_value self,
                                        const struct mr_jinja_arguments *args)
{
    (void)args;
    return mr_jinja_pairs(run, self);
}

static struct mr_jinja_value dict_keys(struct mr_jinja_run *run, struct mr_jinja_value self,
                                       const struct mr_jinja_arguments *args)
{
    (void)args;
    struct mr_jinja_value list = {.kind = MR_JINJA_LIST, .list = mr_jinja_iterate(run, self)};
    return list;
}

static struct mr_jinja_value dict_values(struct mr_jinja_run *run, struct mr_jinja_value self,
                                         const struct mr_jinja_arguments *args)
{
    (void)args;
    struct mr_jinja_value list = mr_jinja_list_new(run);
    for (size_t i = 0; list.kind == MR_JINJA_LIST && i < self.dict->count; i++) {
        mr_jinja_list_push(run, list.list, self.dict->values[i]);
    }
    return list;
}

static struct mr_jinja_value list_append(struct mr_jinja_run *run, struct mr_jinja_value self,
                                         const struct mr_jinja_arguments *args)
{
    if (args->count) mr_jinja_list_push(run, self.list, args->values[0]);
    return mr_jinja_none();
}

static const struct method methods[] = {
    {"strip", MR_JINJA_TEXT, text_strip},
    {"lstrip", MR_JINJA_TEXT, text_lstrip},
    {"rstrip", MR_JINJA_TEXT, text_rstrip},
    {"upper", MR_JINJA_TEXT, text_upper},
    {"lower", MR_JINJA_TEXT, text_lower},
    {"title", MR_JINJA_TEXT, text_title},
    {"capitalize", MR_JINJA_TEXT, text_capitalize},
    {"replace", MR_JINJA_TEXT, text_replace},
    {"startswith", MR_JINJA_TEXT, text_startswith},
    {"endswith", MR_JINJA_TEXT, text_endswith},
    {"find", MR_JINJA_TEXT, text_find},
    {"split", MR_JINJA_TEXT, text_split},
    {"join", MR_JINJA_TEXT, text_join},
    {"get", MR_JINJA_DICT, dict_get},
    {"items", MR_JINJA_DICT, dict_items},
    {"keys", MR_JINJA_DICT, dict_keys},
    {"values", MR_JINJA_DICT, dict_values},
    {"append", MR_JINJA_LIST, list_append},
};

static const struct method *find_method(enum mr_jinja_kind kind, struct mr_text name)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        if (methods[i].kind == kind && mr_text_is(name, methods[i].name)) return &methods[i];
    }
    return NULL;
}

bool mr_jinja_has_method(enum mr_jinja_kind kind, struct mr_text name)
{
    return find_method(kind, name) != NULL;
}

struct mr_jinja_value mr_jinja_method(struct mr_jinja_run *run, struct mr_jinja_value self,
                                      struct mr_text name,
                                      const struct mr_jinja_arguments *arguments)
{
    const struct method *method = find_method(self.kind, name);
    if (!method) {
        return mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: no method '%.*s'",
                             name.length > 40 ? 40 : (int)name.length, name.bytes);
    }
    return method->call(run, self, arguments);
}
