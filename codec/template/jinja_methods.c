#include "codec/template/jinja_methods.h"

#include "codec/jinja/jinja_objects.h"
#include "codec/template/jinja_text_methods.h"

/* ---- dictionaries and lists ---- */

struct mr_jinja_value mr_jinja_pairs(struct mr_jinja_run *run, const struct mr_jinja_dict *dict,
                                     enum mr_jinja_list_kind kind)
{
    struct mr_jinja_value list = mr_jinja_list_of_kind(run, kind);
    for (size_t i = 0; i < dict->count && run->status == MR_OK; i++) {
        struct mr_jinja_value pair = mr_jinja_list_of_kind(run, MR_JINJA_LIST_TUPLE);
        if (pair.kind != MR_JINJA_LIST) break;
        mr_jinja_list_push(run, pair.list, dict->keys[i]);
        mr_jinja_list_push(run, pair.list, dict->values[i]);
        mr_jinja_list_push(run, list.list, pair);
    }
    return list;
}

static struct mr_jinja_value dict_items(struct mr_jinja_run *run, struct mr_jinja_value self,
                                        const struct mr_jinja_arguments *args)
{
    (void)args;
    return mr_jinja_pairs(run, self.dict, MR_JINJA_LIST_VIEW);
}

static struct mr_jinja_value dict_get(struct mr_jinja_run *run, struct mr_jinja_value self,
                                      const struct mr_jinja_arguments *args)
{
    if (args->named_count || !args->count || args->count > 2) return mr_jinja_need_text(run);
    struct mr_jinja_value *found = mr_jinja_dict_get(self.dict, args->values[0]);
    if (found) return *found;
    return args->count > 1 ? args->values[1] : mr_jinja_none();
}

static struct mr_jinja_value list_of(struct mr_jinja_run *run, const struct mr_jinja_value *values,
                                     size_t count, enum mr_jinja_list_kind kind)
{
    struct mr_jinja_value list = mr_jinja_list_of_kind(run, kind);
    for (size_t i = 0; i < count && run->status == MR_OK; i++)
        mr_jinja_list_push(run, list.list, values[i]);
    return list;
}

static struct mr_jinja_value dict_keys(struct mr_jinja_run *run, struct mr_jinja_value self,
                                       const struct mr_jinja_arguments *args)
{
    (void)args;
    return list_of(run, self.dict->keys, self.dict->count, MR_JINJA_LIST_VIEW);
}

static struct mr_jinja_value dict_values(struct mr_jinja_run *run, struct mr_jinja_value self,
                                         const struct mr_jinja_arguments *args)
{
    (void)args;
    return list_of(run, self.dict->values, self.dict->count, MR_JINJA_LIST_VIEW);
}

static struct mr_jinja_value dict_copy(struct mr_jinja_run *run, struct mr_jinja_value self,
                                       const struct mr_jinja_arguments *args)
{
    struct mr_jinja_value dict = mr_jinja_dict_new(run);
    (void)args;
    for (size_t i = 0; i < self.dict->count && run->status == MR_OK; i++)
        mr_jinja_dict_set(run, dict.dict, self.dict->keys[i], self.dict->values[i]);
    return dict;
}

static struct mr_jinja_value list_copy(struct mr_jinja_run *run, struct mr_jinja_value self,
                                       const struct mr_jinja_arguments *args)
{
    (void)args;
    return list_of(run, self.list->items, self.list->count, MR_JINJA_LIST_PLAIN);
}

static struct mr_jinja_value list_index(struct mr_jinja_run *run, struct mr_jinja_value self,
                                        const struct mr_jinja_arguments *args)
{
    for (size_t i = 0; i < self.list->count; i++)
        if (mr_jinja_equal(run, self.list->items[i], args->values[0]))
            return mr_jinja_int((int64_t)i);
    return mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: index() finds nothing");
}

static struct mr_jinja_value list_count(struct mr_jinja_run *run, struct mr_jinja_value self,
                                        const struct mr_jinja_arguments *args)
{
    int64_t count = 0;
    for (size_t i = 0; i < self.list->count; i++)
        count += mr_jinja_equal(run, self.list->items[i], args->values[0]);
    return mr_jinja_int(count);
}

/* ---- loop and cycler ---- */

static struct mr_jinja_value loop_cycle(struct mr_jinja_run *run, struct mr_jinja_value self,
                                        const struct mr_jinja_arguments *args)
{
    if (args->count) return args->values[self.loop->index % args->count];
    return mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: loop.cycle without arguments");
}

static struct mr_jinja_value loop_changed(struct mr_jinja_run *run, struct mr_jinja_value self,
                                          const struct mr_jinja_arguments *args)
{
    struct mr_jinja_value now = list_of(run, args->values, args->count, MR_JINJA_LIST_TUPLE);
    struct mr_jinja_value before = {.kind = MR_JINJA_LIST};
    before.list = (struct mr_jinja_list *)(uintptr_t)self.loop->changed;
    if (now.kind != MR_JINJA_LIST) return now;
    bool same = before.list && mr_jinja_equal(run, now, before);
    self.loop->changed = now.list;
    return mr_jinja_bool(!same);
}

static struct mr_jinja_value cycler_next(struct mr_jinja_run *run, struct mr_jinja_value self,
                                         const struct mr_jinja_arguments *args)
{
    struct mr_jinja_cycler *cycler = self.cycler;
    (void)run, (void)args;
    return cycler->items->items[cycler->at++ % cycler->items->count];
}

static struct mr_jinja_value cycler_reset(struct mr_jinja_run *run, struct mr_jinja_value self,
                                          const struct mr_jinja_arguments *args)
{
    (void)run, (void)args;
    self.cycler->at = 0;
    return mr_jinja_none();
}

struct method {
    const char *name;
    enum mr_jinja_kind kind;  /* kind of the values that have the method */
    mr_jinja_operation *call; /* NULL: the sandbox does not allow it */
    const char *parameters;
};

static const struct method methods[] = {
    {"get", MR_JINJA_DICT, dict_get, "*"},
    {"items", MR_JINJA_DICT, dict_items, ""},
    {"keys", MR_JINJA_DICT, dict_keys, ""},
    {"values", MR_JINJA_DICT, dict_values, ""},
    {"copy", MR_JINJA_DICT, dict_copy, ""},
    {"clear", MR_JINJA_DICT, NULL, NULL},
    {"pop", MR_JINJA_DICT, NULL, NULL},
    {"popitem", MR_JINJA_DICT, NULL, NULL},
    {"setdefault", MR_JINJA_DICT, NULL, NULL},
    {"update", MR_JINJA_DICT, NULL, NULL},
    {"copy", MR_JINJA_LIST, list_copy, ""},
    {"index", MR_JINJA_LIST, list_index, "value"},
    {"count", MR_JINJA_LIST, list_count, "value"},
    {"cycle", MR_JINJA_LOOP, loop_cycle, "*"},
    {"changed", MR_JINJA_LOOP, loop_changed, "*"},
    {"next", MR_JINJA_CYCLER, cycler_next, ""},
    {"reset", MR_JINJA_CYCLER, cycler_reset, ""},
};

static bool find_method(struct mr_jinja_value self, struct mr_text name, struct method *out)
{
    if (self.kind == MR_JINJA_TEXT) {
        const struct mr_jinja_text_method *method = mr_jinja_text_method(name);
        if (method) *out = (struct method){NULL, self.kind, method->call, method->parameters};
        return method != NULL;
    }
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        *out = methods[i];
        if (out->kind == self.kind && mr_text_is(name, out->name)) return true;
    }
    return false;
}

struct mr_jinja_value mr_jinja_method(struct mr_jinja_run *run, struct mr_jinja_value self,
                                      struct mr_text name,
                                      const struct mr_jinja_arguments *arguments)
{
    struct method method;
    struct mr_jinja_arguments bound;
    if (!find_method(self, name, &method) || !method.call)
        return mr_jinja_fail_name(run, "no method", name);
    if (method.parameters[0] == '*') return method.call(run, self, arguments);
    if (!mr_jinja_bind(run, name, method.parameters, arguments, &bound))
        return mr_jinja_undefined();
    return method.call(run, self, &bound);
}

/* ---- attributes ---- */

static struct mr_jinja_value loop_attribute(const struct mr_jinja_loop *loop, struct mr_text name)
{
    int64_t index = (int64_t)loop->index, count = (int64_t)loop->items->count;
    const struct {
        const char *name;
        struct mr_jinja_value value;
    } fields[] = {
        {"index", mr_jinja_int(index + 1)},
        {"index0", mr_jinja_int(index)},
        {"revindex", mr_jinja_int(count - index)},
        {"revindex0", mr_jinja_int(count - index - 1)},
        {"first", mr_jinja_bool(index == 0)},
        {"last", mr_jinja_bool(index + 1 == count)},
        {"length", mr_jinja_int(count)},
        {"depth", mr_jinja_int((int64_t)loop->depth + 1)},
        {"depth0", mr_jinja_int((int64_t)loop->depth)},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (mr_text_is(name, fields[i].name)) return fields[i].value;
    if (mr_text_is(name, "previtem") && index > 0) return loop->items->items[index - 1];
    if (mr_text_is(name, "nextitem") && index + 1 < count) return loop->items->items[index + 1];
    return mr_jinja_undefined();
}

static struct mr_jinja_value bind_method(struct mr_jinja_run *run, struct mr_jinja_value self,
                                         struct mr_text name)
{
    struct mr_jinja_value bound = {.kind = MR_JINJA_METHOD};
    bound.function.name = name;
    bound.function.self = mr_jinja_take(run, 1, sizeof self);
    if (!bound.function.self) return mr_jinja_undefined();
    *bound.function.self = self;
    return bound;
}

struct mr_jinja_value mr_jinja_attribute(struct mr_jinja_run *run, struct mr_jinja_value value,
                                         struct mr_text name)
{
    struct method method;
    if (find_method(value, name, &method))
        return method.call ? bind_method(run, value, name) : mr_jinja_undefined();
    if (value.kind == MR_JINJA_UNDEFINED)
        return mr_jinja_fail_name(run, "undefined value has no", name);
    if (value.kind == MR_JINJA_LOOP) return loop_attribute(value.loop, name);
    if (value.kind == MR_JINJA_CYCLER && mr_text_is(name, "current"))
        return value.cycler->items->items[value.cycler->at % value.cycler->items->count];
    if (value.kind == MR_JINJA_MACRO && mr_text_is(name, "name"))
        return mr_jinja_name(value.macro->node->text);
    if (value.kind != MR_JINJA_DICT && value.kind != MR_JINJA_NAMESPACE)
        return mr_jinja_undefined();
    struct mr_jinja_value *found = mr_jinja_dict_get(value.dict, mr_jinja_name(name));
    return found ? *found : mr_jinja_undefined();
}

struct mr_jinja_value mr_jinja_index(struct mr_jinja_run *run, struct mr_jinja_value value,
                                     struct mr_jinja_value index)
{
    if (value.kind == MR_JINJA_UNDEFINED)
        return mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: undefined value indexed");
    if (value.kind == MR_JINJA_DICT) {
        struct mr_jinja_value *found = mr_jinja_dict_get(value.dict, index);
        if (found) return *found;
    }
    if (index.kind == MR_JINJA_TEXT) return mr_jinja_attribute(run, value, mr_jinja_as_text(index));
    bool list = value.kind == MR_JINJA_LIST && value.list->kind <= MR_JINJA_LIST_RANGE;
    if ((index.kind != MR_JINJA_INT && index.kind != MR_JINJA_BOOL) ||
        (!list && value.kind != MR_JINJA_TEXT))
        return mr_jinja_undefined();
    int64_t count = (int64_t)mr_jinja_length(run, value);
    int64_t at = index.integer < 0 ? index.integer + count : index.integer;
    if (at < 0 || at >= count) return mr_jinja_undefined();
    if (list) return value.list->items[at];
    size_t begin = mr_jinja_offset(value, (size_t)at), end = mr_jinja_offset(value, (size_t)at + 1);
    return mr_jinja_slice_bytes(value, begin, end);
}
