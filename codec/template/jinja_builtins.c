#include "codec/template/jinja_builtins.h"

#include "codec/jinja/jinja_objects.h"
#include "codec/template/jinja_methods.h"

#include <string.h>
#include <time.h>

#define COUNT(table) (sizeof(table) / sizeof *(table))
#define RANGE_MAX    100000u /* numbers in a range, as in the sandbox of the reference */

/* ---- tests ---- */

enum test {
    TEST_DEFINED,
    TEST_UNDEFINED,
    TEST_NONE,
    TEST_STRING,
    TEST_MAPPING,
    TEST_ITERABLE,
    TEST_SEQUENCE,
    TEST_BOOLEAN,
    TEST_INTEGER,
    TEST_FLOAT,
    TEST_NUMBER,
    TEST_TRUE,
    TEST_FALSE,
    TEST_CALLABLE,
    TEST_ESCAPED,
    TEST_ODD,
    TEST_EVEN,
    TEST_LOWER,
    TEST_UPPER,
    /* tests with an argument: */
    TEST_DIVISIBLEBY,
    TEST_SAMEAS,
    TEST_EQ,
    TEST_NE,
    TEST_IN,
    TEST_GT,
    TEST_GE,
    TEST_LT,
    TEST_LE,
};

static const struct {
    const char *name;
    enum test test;
} tests[] = {
    {"defined", TEST_DEFINED},
    {"undefined", TEST_UNDEFINED},
    {"none", TEST_NONE},
    {"string", TEST_STRING},
    {"mapping", TEST_MAPPING},
    {"iterable", TEST_ITERABLE},
    {"sequence", TEST_SEQUENCE},
    {"boolean", TEST_BOOLEAN},
    {"integer", TEST_INTEGER},
    {"float", TEST_FLOAT},
    {"number", TEST_NUMBER},
    {"true", TEST_TRUE},
    {"false", TEST_FALSE},
    {"callable", TEST_CALLABLE},
    {"escaped", TEST_ESCAPED},
    {"odd", TEST_ODD},
    {"even", TEST_EVEN},
    {"lower", TEST_LOWER},
    {"upper", TEST_UPPER},
    {"divisibleby", TEST_DIVISIBLEBY},
    {"sameas", TEST_SAMEAS},
    {"equalto", TEST_EQ},
    {"eq", TEST_EQ},
    {"==", TEST_EQ},
    {"ne", TEST_NE},
    {"!=", TEST_NE},
    {"in", TEST_IN},
    {"gt", TEST_GT},
    {"greaterthan", TEST_GT},
    {">", TEST_GT},
    {"ge", TEST_GE},
    {">=", TEST_GE},
    {"lt", TEST_LT},
    {"lessthan", TEST_LT},
    {"<", TEST_LT},
    {"le", TEST_LE},
    {"<=", TEST_LE},
};

static bool find_test(struct mr_text name, enum test *out)
{
    for (size_t i = 0; i < COUNT(tests); i++) {
        *out = tests[i].test;
        if (mr_text_is(name, tests[i].name)) return true;
    }
    return false;
}

bool mr_jinja_has_test(struct mr_text name)
{
    enum test test;
    return find_test(name, &test);
}

static bool is_callable(struct mr_jinja_value value)
{
    return value.kind == MR_JINJA_FUNCTION || value.kind == MR_JINJA_METHOD ||
           value.kind == MR_JINJA_MACRO || value.kind == MR_JINJA_UNDEFINED ||
           value.kind == MR_JINJA_LOOP || value.kind == MR_JINJA_JOINER;
}

static bool is_iterable(struct mr_jinja_value value)
{
    return value.kind == MR_JINJA_TEXT || value.kind == MR_JINJA_LIST ||
           value.kind == MR_JINJA_DICT || value.kind == MR_JINJA_UNDEFINED ||
           value.kind == MR_JINJA_LOOP;
}

/* True for values with a length that can be indexed. */
static bool is_sequence(struct mr_jinja_value value)
{
    bool list = value.kind == MR_JINJA_LIST && value.list->kind <= MR_JINJA_LIST_RANGE;
    return list || value.kind == MR_JINJA_TEXT || value.kind == MR_JINJA_DICT ||
           value.kind == MR_JINJA_UNDEFINED;
}

static bool test_case(struct mr_jinja_run *run, struct mr_jinja_value value, const char *method)
{
    static const struct mr_jinja_arguments none;
    struct mr_jinja_value text = mr_jinja_text_of(run, value);
    return mr_jinja_truth(
        mr_jinja_method(run, text, (struct mr_text){method, strlen(method)}, &none));
}

static bool divides(struct mr_jinja_run *run, struct mr_jinja_value value, struct mr_jinja_value by)
{
    bool integers = (value.kind == MR_JINJA_INT || value.kind == MR_JINJA_BOOL) &&
                    (by.kind == MR_JINJA_INT || by.kind == MR_JINJA_BOOL);
    if (integers && by.integer != 0) return by.integer == -1 || value.integer % by.integer == 0;
    mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: the test needs integers");
    return false;
}

/* Runs the tests that depend only on the kind of a value. */
static bool test_kind(enum test test, struct mr_jinja_value value)
{
    switch (test) {
    case TEST_DEFINED:
        return value.kind != MR_JINJA_UNDEFINED;
    case TEST_UNDEFINED:
        return value.kind == MR_JINJA_UNDEFINED;
    case TEST_NONE:
        return value.kind == MR_JINJA_NONE;
    case TEST_STRING:
        return value.kind == MR_JINJA_TEXT;
    case TEST_MAPPING:
        return value.kind == MR_JINJA_DICT;
    case TEST_ITERABLE:
        return is_iterable(value);
    case TEST_SEQUENCE:
        return is_sequence(value);
    case TEST_BOOLEAN:
        return value.kind == MR_JINJA_BOOL;
    case TEST_INTEGER:
        return value.kind == MR_JINJA_INT;
    case TEST_FLOAT:
        return value.kind == MR_JINJA_FLOAT;
    case TEST_NUMBER:
        return mr_jinja_is_number(value);
    case TEST_TRUE:
        return value.kind == MR_JINJA_BOOL && value.integer;
    case TEST_FALSE:
        return value.kind == MR_JINJA_BOOL && !value.integer;
    case TEST_CALLABLE:
        return is_callable(value);
    default:
        return value.kind == MR_JINJA_TEXT && value.markup;
    }
}

/* True for the same object in memory. Templates compare only none, booleans and numbers in this
 * way. */
static bool same(struct mr_jinja_run *run, struct mr_jinja_value a, struct mr_jinja_value b)
{
    if (a.kind == MR_JINJA_LIST && b.kind == MR_JINJA_LIST) return a.list == b.list;
    if (a.kind == MR_JINJA_DICT && b.kind == MR_JINJA_DICT) return a.dict == b.dict;
    return a.kind == b.kind && mr_jinja_equal(run, a, b);
}

static bool test_other(struct mr_jinja_run *run, enum test test, struct mr_jinja_value value,
                       struct mr_jinja_value other)
{
    switch (test) {
    case TEST_ODD:
        return !divides(run, value, mr_jinja_int(2));
    case TEST_EVEN:
        return divides(run, value, mr_jinja_int(2));
    case TEST_LOWER:
        return test_case(run, value, "islower");
    case TEST_UPPER:
        return test_case(run, value, "isupper");
    case TEST_DIVISIBLEBY:
        return divides(run, value, other);
    case TEST_SAMEAS:
        return same(run, value, other);
    case TEST_EQ:
        return mr_jinja_equal(run, value, other);
    case TEST_NE:
        return !mr_jinja_equal(run, value, other);
    case TEST_IN:
        return mr_jinja_contains(run, other, value);
    case TEST_GT:
        return mr_jinja_compare(run, value, other) > 0;
    case TEST_GE:
        return mr_jinja_compare(run, value, other) >= 0;
    case TEST_LT:
        return mr_jinja_compare(run, value, other) < 0;
    default:
        return mr_jinja_compare(run, value, other) <= 0;
    }
}

bool mr_jinja_test(struct mr_jinja_run *run, struct mr_text name, struct mr_jinja_value value,
                   const struct mr_jinja_arguments *arguments)
{
    enum test test;
    bool known = find_test(name, &test);
    if (!known || arguments->named_count || arguments->count != (test >= TEST_DIVISIBLEBY)) {
        mr_jinja_fail_name(run, known ? "wrong number of arguments for the test" : "unknown test",
                           name);
        return false;
    }
    return test <= TEST_ESCAPED ? test_kind(test, value)
                                : test_other(run, test, value, arguments->values[0]);
}

/* ---- functions ---- */

static struct mr_jinja_value call_range(struct mr_jinja_run *run,
                                        const struct mr_jinja_arguments *args)
{
    int64_t bounds[3] = {0, 0, 1};
    struct mr_jinja_value list = mr_jinja_list_of_kind(run, MR_JINJA_LIST_RANGE);
    bool bad = args->count < 1 || args->count > 3 || args->named_count;
    for (uint32_t i = 0; i < args->count && i < 3; i++) {
        bad |= args->values[i].kind != MR_JINJA_INT && args->values[i].kind != MR_JINJA_BOOL;
        bounds[i] = args->values[i].integer;
    }
    if (bad || run->status != MR_OK)
        return mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: range needs integers");
    if (args->count == 1) {
        bounds[1] = bounds[0];
        bounds[0] = 0;
    }
    if (!bounds[2])
        return mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: range has step 0");
    bool overflow = false;
    for (int64_t i = bounds[0]; !overflow && (bounds[2] > 0 ? i < bounds[1] : i > bounds[1]);
         overflow = __builtin_add_overflow(i, bounds[2], &i)) {
        if (list.list->count == RANGE_MAX)
            return mr_jinja_fail(run, MR_INVALID_REQUEST,
                                 "chat template: a range has more than %u numbers", RANGE_MAX);
        mr_jinja_list_push(run, list.list, mr_jinja_int(i));
        if (run->status != MR_OK) break;
    }
    return list;
}

/* Copies the pairs of a dictionary or of a list of pairs. */
static void copy_pairs(struct mr_jinja_run *run, struct mr_jinja_dict *dict,
                       struct mr_jinja_value from)
{
    struct mr_jinja_value pairs = from;
    if (from.kind == MR_JINJA_DICT || from.kind == MR_JINJA_NAMESPACE)
        pairs = mr_jinja_pairs(run, from.dict, MR_JINJA_LIST_PLAIN);
    const struct mr_jinja_list *list = mr_jinja_iterate(run, pairs);
    for (size_t i = 0; i < list->count && run->status == MR_OK; i++) {
        const struct mr_jinja_list *pair = mr_jinja_iterate(run, list->items[i]);
        if (pair->count == 2)
            mr_jinja_dict_set(run, dict, pair->items[0], pair->items[1]);
        else
            mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: dict needs pairs");
    }
}

static struct mr_jinja_value call_dict(struct mr_jinja_run *run,
                                       const struct mr_jinja_arguments *args)
{
    struct mr_jinja_value dict = mr_jinja_dict_new(run);
    if (dict.kind == MR_JINJA_DICT && args->count) copy_pairs(run, dict.dict, args->values[0]);
    for (uint32_t i = 0; run->status == MR_OK && i < args->named_count; i++)
        mr_jinja_dict_set(run, dict.dict, mr_jinja_name(args->names[i]), args->named[i]);
    return dict;
}

static struct mr_jinja_value call_namespace(struct mr_jinja_run *run,
                                            const struct mr_jinja_arguments *args)
{
    struct mr_jinja_value space = call_dict(run, args);
    if (run->status != MR_OK) return space;
    for (size_t i = 0; i < space.dict->count; i++) {
        struct mr_text name = mr_jinja_as_text(space.dict->keys[i]);
        if (name.length && name.bytes[0] == '_')
            return mr_jinja_fail_name(run, "a namespace has no attribute", name);
    }
    space.kind = MR_JINJA_NAMESPACE;
    return space;
}

static struct mr_jinja_value call_cycler(struct mr_jinja_run *run,
                                         const struct mr_jinja_arguments *args)
{
    struct mr_jinja_value items = mr_jinja_list_new(run), value = {.kind = MR_JINJA_CYCLER};
    value.cycler = mr_jinja_take(run, 1, sizeof *value.cycler);
    if (!args->count)
        return mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: cycler without items");
    for (uint32_t i = 0; i < args->count && run->status == MR_OK; i++)
        mr_jinja_list_push(run, items.list, args->values[i]);
    if (run->status != MR_OK) return mr_jinja_undefined();
    value.cycler->items = items.list;
    return value;
}

static struct mr_jinja_value call_joiner(struct mr_jinja_run *run,
                                         const struct mr_jinja_arguments *args)
{
    struct mr_jinja_value joiner = mr_jinja_list_new(run);
    if (joiner.kind != MR_JINJA_LIST) return joiner;
    mr_jinja_list_push(run, joiner.list, args->count ? args->values[0] : mr_jinja_literal(", "));
    joiner.list->count = 0; /* the first use prints nothing */
    joiner.kind = MR_JINJA_JOINER;
    return joiner;
}

static struct mr_jinja_value use_joiner(struct mr_jinja_value joiner)
{
    if (joiner.list->count) return joiner.list->items[0];
    joiner.list->count = 1;
    return mr_jinja_literal("");
}

/* The only argument of a function, given by position or by name; undefined without one. */
static struct mr_jinja_value only_argument(const struct mr_jinja_arguments *args)
{
    if (args->count) return args->values[0];
    return args->named_count ? args->named[0] : mr_jinja_undefined();
}

static struct mr_jinja_value call_raise(struct mr_jinja_run *run,
                                        const struct mr_jinja_arguments *args)
{
    struct mr_text why = mr_jinja_as_text(mr_jinja_text_of(run, only_argument(args)));
    return mr_jinja_fail(run, MR_INVALID_REQUEST, "the chat template rejects the request: %.*s",
                         why.length > 150 ? 150 : (int)why.length, why.bytes);
}

static struct mr_jinja_value call_strftime(struct mr_jinja_run *run,
                                           const struct mr_jinja_arguments *args)
{
    struct mr_text format = mr_jinja_as_text(only_argument(args));
    char pattern[64] = "", out[128];
    time_t seconds = (time_t)run->unix_seconds;
    struct tm parts;
    if (!format.length || format.length >= sizeof pattern || !gmtime_r(&seconds, &parts)) {
        return mr_jinja_fail(
            run, MR_INVALID_REQUEST,
            "chat template: strftime_now has no format, or its format is too long");
    }
    memcpy(pattern, format.bytes, format.length);
    size_t length = strftime(out, sizeof out, pattern, &parts);
    const char *copy = mr_arena_copy_text(run->arena, out, length);
    if (!copy) return mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: out of memory");
    return mr_jinja_text(run, (struct mr_text){copy, length}, false);
}

static const struct {
    const char *name;
    struct mr_jinja_value (*call)(struct mr_jinja_run *run, const struct mr_jinja_arguments *args);
} functions[] = {
    {"range", call_range},           {"namespace", call_namespace}, {"dict", call_dict},
    {"cycler", call_cycler},         {"joiner", call_joiner},       {"raise_exception", call_raise},
    {"strftime_now", call_strftime},
};

bool mr_jinja_is_function(struct mr_text name)
{
    for (size_t i = 0; i < COUNT(functions); i++) {
        if (mr_text_is(name, functions[i].name)) return true;
    }
    return false;
}

struct mr_jinja_value mr_jinja_call(struct mr_jinja_run *run, struct mr_jinja_value callee,
                                    const struct mr_jinja_arguments *arguments)
{
    if (callee.kind == MR_JINJA_METHOD) {
        return mr_jinja_method(run, *callee.function.self, callee.function.name, arguments);
    }
    if (callee.kind == MR_JINJA_JOINER) return use_joiner(callee);
    for (size_t i = 0; callee.kind == MR_JINJA_FUNCTION && i < COUNT(functions); i++) {
        if (mr_text_is(callee.function.name, functions[i].name)) {
            return functions[i].call(run, arguments);
        }
    }
    return mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: the value cannot be called");
}
