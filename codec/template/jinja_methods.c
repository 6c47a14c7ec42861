#include "codec/template/jinja_methods.h"

#include <string.h>

struct method {
    const char *name;
    enum mr_jinja_kind kind; /* kind of the values that have the method */
    mr_jinja_operation *call;
};

static bool is_text(const struct mr_jinja_arguments *args, uint32_t index)
{
    return index < args->count && args->values[index].kind == MR_JINJA_TEXT;
}

/* ---- text ---- */

static struct mr_jinja_value text_strip(struct mr_jinja_run *run, struct mr_jinja_value self,
                                        const struct mr_jinja_arguments *args)
{
    return mr_jinja_strip(run, self, args->count ? &args->values[0] : NULL, MR_JINJA_BOTH);
}

static struct mr_jinja_value text_lstrip(struct mr_jinja_run *run, struct mr_jinja_value self,
                                         const struct mr_jinja_arguments *args)
{
    return mr_jinja_strip(run, self, args->count ? &args->values[0] : NULL, MR_JINJA_LEFT);
}

static struct mr_jinja_value text_rstrip(struct mr_jinja_run *run, struct mr_jinja_value self,
                                         const struct mr_jinja_arguments *args)
{
    return mr_jinja_strip(run, self, args->count ? &args->values[0] : NULL, MR_JINJA_RIGHT);
}

static struct mr_jinja_value text_replace(struct mr_jinja_run *run, struct mr_jinja_value self,
                                          const struct mr_jinja_arguments *args)
{
    if (!is_text(args, 0) || !is_text(args, 1)) return mr_jinja_need_text(run);
    return mr_jinja_replace(run, self, args->values[0], args->values[1]);
}

/* startswith and endswith as in Python: affix is a text, or a tuple of texts of which one must
 * match. */
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
    return args->count ? mr_jinja_bool(has_affix(self, args->values[0], true))
                       : mr_jinja_need_text(run);
}

static struct mr_jinja_value text_endswith(struct mr_jinja_run *run, struct mr_jinja_value self,
                                           const struct mr_jinja_arguments *args)
{
    return args->count ? mr_jinja_bool(has_affix(self, args->values[0], false))
                       : mr_jinja_need_text(run);
}

static struct mr_jinja_value text_find(struct mr_jinja_run *run, struct mr_jinja_value self,
                                       const struct mr_jinja_arguments *args)
{
    if (!is_text(args, 0)) return mr_jinja_need_text(run);
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
    if (!by.text.length) return mr_jinja_need_text(run);
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
    if (!args->count) return mr_jinja_need_text(run);
    return mr_jinja_join(run, args->values[0], self);
}

/* ---- dictionaries and lists ---- */

static struct mr_jinja_value dict_get(struct mr_jinja_run *run, struct mr_jinja_value self,
                                      const struct mr_jinja_arguments *args)
{
    if (!args->count) return mr_jinja_need_text(run);
    struct mr_jinja_value *found = mr_jinja_dict_get(self.dict, args->values[0]);
    if (found) return *found;
    return args->count > 1 ? args->values[1] : mr_jinja_none();
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
    {"upper", MR_JINJA_TEXT, mr_jinja_upper},
    {"lower", MR_JINJA_TEXT, mr_jinja_lower},
    {"title", MR_JINJA_TEXT, mr_jinja_title},
    {"capitalize", MR_JINJA_TEXT, mr_jinja_capitalize},
    {"replace", MR_JINJA_TEXT, text_replace},
    {"startswith", MR_JINJA_TEXT, text_startswith},
    {"endswith", MR_JINJA_TEXT, text_endswith},
    {"find", MR_JINJA_TEXT, text_find},
    {"split", MR_JINJA_TEXT, text_split},
    {"join", MR_JINJA_TEXT, text_join},
    {"get", MR_JINJA_DICT, dict_get},
    {"items", MR_JINJA_DICT, mr_jinja_items},
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

struct mr_jinja_value mr_jinja_method(struct mr_jinja_run *run, struct mr_jinja_value self,
                                      struct mr_text name,
                                      const struct mr_jinja_arguments *arguments)
{
    const struct method *method = find_method(self.kind, name);
    if (!method) return mr_jinja_fail_name(run, "no method", name);
    return method->call(run, self, arguments);
}

/* ---- attributes ---- */

struct mr_jinja_value mr_jinja_attribute(struct mr_jinja_run *run, struct mr_jinja_value value,
                                         struct mr_text name)
{
    if (find_method(value.kind, name)) {
        struct mr_jinja_value bound = {.kind = MR_JINJA_METHOD};
        bound.function.name = name;
        bound.function.self = mr_arena_take(run->arena, sizeof value);
        if (!bound.function.self) return mr_jinja_fail_name(run, "out of memory for", name);
        *bound.function.self = value;
        return bound;
    }
    if (value.kind == MR_JINJA_UNDEFINED)
        return mr_jinja_fail_name(run, "undefined value has no", name);
    if (value.kind != MR_JINJA_DICT) return mr_jinja_undefined();
    struct mr_jinja_value *found = mr_jinja_dict_get(value.dict, mr_jinja_text(run, name, false));
    return found ? *found : mr_jinja_undefined();
}

struct mr_jinja_value mr_jinja_index(struct mr_jinja_run *run, struct mr_jinja_value value,
                                     struct mr_jinja_value index)
{
    if (value.kind == MR_JINJA_UNDEFINED) {
        return mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: undefined value indexed");
    }
    if (value.kind == MR_JINJA_DICT) {
        struct mr_jinja_value *found = mr_jinja_dict_get(value.dict, index);
        return found ? *found : mr_jinja_undefined();
    }
    if (index.kind == MR_JINJA_TEXT) return mr_jinja_attribute(run, value, mr_jinja_as_text(index));
    if (index.kind != MR_JINJA_INT ||
        (value.kind != MR_JINJA_LIST && value.kind != MR_JINJA_TEXT)) {
        return mr_jinja_undefined();
    }
    int64_t count = (int64_t)mr_jinja_length(run, value);
    int64_t at = index.integer < 0 ? index.integer + count : index.integer;
    if (at < 0 || at >= count) return mr_jinja_undefined();
    if (value.kind == MR_JINJA_LIST) return value.list->items[at];
    size_t begin = mr_jinja_offset(value, (size_t)at), end = mr_jinja_offset(value, (size_t)at + 1);
    return mr_jinja_slice_bytes(value, begin, end);
}
