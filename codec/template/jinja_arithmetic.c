#include "codec/template/jinja_arithmetic.h"

#include "codec/jinja/jinja_print.h"
#include "codec/template/jinja_format.h"

#include <math.h>

static bool is_integer(struct mr_jinja_value value)
{
    return value.kind == MR_JINJA_INT || value.kind == MR_JINJA_BOOL;
}

static bool is_sequence(struct mr_jinja_value value)
{
    return value.kind == MR_JINJA_LIST && value.list->kind <= MR_JINJA_LIST_TUPLE;
}

/* ---- numbers ---- */

static int64_t floor_divide(int64_t a, int64_t b)
{
    int64_t quotient = a / b;
    return (a % b != 0 && (a < 0) != (b < 0)) ? quotient - 1 : quotient;
}

static struct mr_jinja_value fail_arithmetic(struct mr_jinja_run *run)
{
    return mr_jinja_fail(run, MR_INVALID_REQUEST,
                         "chat template: integer overflow or division by zero");
}

/* a ** b: an integer, or a float when b is negative. */
static struct mr_jinja_value integer_power(struct mr_jinja_run *run, int64_t a, int64_t b)
{
    double power = pow((double)a, (double)b);
    if (b < 0) return isfinite(power) ? mr_jinja_float(power) : fail_arithmetic(run);
    if (!(fabs(power) < 0x1p63)) return fail_arithmetic(run);
    int64_t result = 1;
    bool unit = a >= -1 && a <= 1; /* any other base exceeds 64 bits within 63 steps */
    for (int64_t i = 0; i < (unit ? b % 2 + 2 * (b > 1) : b); i++)
        if (__builtin_mul_overflow(result, a, &result)) return fail_arithmetic(run);
    return mr_jinja_int(result);
}

static struct mr_jinja_value integer_arithmetic(struct mr_jinja_run *run, struct mr_text op,
                                                int64_t a, int64_t b)
{
    int64_t result = 0;
    bool bad = false;
    switch (op.bytes[0]) {
    case '+':
        bad = __builtin_add_overflow(a, b, &result);
        break;
    case '-':
        bad = __builtin_sub_overflow(a, b, &result);
        break;
    case '*':
        if (op.length == 2) return integer_power(run, a, b);
        bad = __builtin_mul_overflow(a, b, &result);
        break;
    default:
        bad = b == 0 || (a == INT64_MIN && b == -1);
        if (bad) break;
        if (op.bytes[0] == '/' && op.length == 1) return mr_jinja_float((double)a / (double)b);
        result = op.bytes[0] == '%' ? a - floor_divide(a, b) * b : floor_divide(a, b);
    }
    return bad ? fail_arithmetic(run) : mr_jinja_int(result);
}

static struct mr_jinja_value float_arithmetic(struct mr_jinja_run *run, struct mr_text op, double a,
                                              double b)
{
    if ((op.bytes[0] == '/' || op.bytes[0] == '%') && b == 0)
        return mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: division by zero");
    double rest = op.bytes[0] == '/' || op.bytes[0] == '%' ? fmod(a, b) : 0;
    bool other_side = rest != 0 && (rest < 0) != (b < 0);
    switch (op.bytes[0]) {
    case '+':
        return mr_jinja_float(a + b);
    case '-':
        return mr_jinja_float(a - b);
    case '*':
        return mr_jinja_float(op.length == 2 ? pow(a, b) : a * b);
    case '%':
        return mr_jinja_float(other_side ? rest + b : rest);
    default:
        return mr_jinja_float(op.length == 2 ? floor((a - rest) / b + 0.5) - other_side : a / b);
    }
}

struct mr_jinja_value mr_jinja_sign(struct mr_jinja_run *run, struct mr_jinja_value value,
                                    bool negative)
{
    if (value.kind == MR_JINJA_FLOAT)
        return mr_jinja_float(negative ? -value.number : value.number);
    if (!is_integer(value))
        return mr_jinja_fail(run, MR_INVALID_REQUEST,
                             "chat template: sign of a value that is not a number");
    if (!negative) return mr_jinja_int(value.integer);
    return integer_arithmetic(run, (struct mr_text){"-", 1}, 0, value.integer);
}

/* ---- text and lists ---- */

/* a + b of texts. Text added to the result of `safe` or `escape` is escaped. */
static struct mr_jinja_value add_texts(struct mr_jinja_run *run, struct mr_jinja_value a,
                                       struct mr_jinja_value b)
{
    struct mr_jinja_buffer buffer = {0};
    bool markup = a.markup || b.markup;
    mr_jinja_append(run, &buffer, markup ? mr_jinja_escape(run, a) : a);
    mr_jinja_append(run, &buffer, markup ? mr_jinja_escape(run, b) : b);
    struct mr_jinja_value text = mr_jinja_buffer_text(&buffer);
    text.markup = markup;
    return text;
}

static struct mr_jinja_value concatenate(struct mr_jinja_run *run, struct mr_jinja_value a,
                                         struct mr_jinja_value b)
{
    struct mr_jinja_buffer buffer = {0};
    mr_jinja_print(run, &buffer, a);
    mr_jinja_print(run, &buffer, b);
    return mr_jinja_buffer_text(&buffer);
}

static struct mr_jinja_value add_lists(struct mr_jinja_run *run, const struct mr_jinja_list *a,
                                       const struct mr_jinja_list *b)
{
    struct mr_jinja_value list = mr_jinja_list_of_kind(run, a->kind);
    if (list.kind != MR_JINJA_LIST) return list;
    mr_jinja_list_extend(run, list.list, a);
    mr_jinja_list_extend(run, list.list, b);
    return list;
}

static struct mr_jinja_value repeat(struct mr_jinja_run *run, struct mr_jinja_value value,
                                    int64_t times)
{
    struct mr_jinja_buffer buffer = {0};
    if (value.kind == MR_JINJA_TEXT) {
        for (int64_t i = 0; i < times && mr_jinja_step(run); i++)
            mr_jinja_append(run, &buffer, value);
        return mr_jinja_buffer_text(&buffer);
    }
    struct mr_jinja_value list = mr_jinja_list_of_kind(run, value.list->kind);
    for (int64_t i = 0; i < times && mr_jinja_step(run); i++)
        mr_jinja_list_extend(run, list.list, value.list);
    return list;
}

struct mr_jinja_value mr_jinja_arithmetic(struct mr_jinja_run *run, struct mr_text op,
                                          struct mr_jinja_value a, struct mr_jinja_value b)
{
    char sign = op.bytes[0];
    bool times = sign == '*' && op.length == 1;
    if (sign == '~') return concatenate(run, a, b);
    if (sign == '%' && a.kind == MR_JINJA_TEXT) return mr_jinja_format_percent(run, a, b);
    if (sign == '+' && a.kind == MR_JINJA_TEXT && b.kind == MR_JINJA_TEXT)
        return add_texts(run, a, b);
    if (sign == '+' && is_sequence(a) && is_sequence(b) && a.list->kind == b.list->kind)
        return add_lists(run, a.list, b.list);
    if (times && (a.kind == MR_JINJA_TEXT || is_sequence(a)) && is_integer(b))
        return repeat(run, a, b.integer);
    if (times && (b.kind == MR_JINJA_TEXT || is_sequence(b)) && is_integer(a))
        return repeat(run, b, a.integer);
    if (is_integer(a) && is_integer(b)) return integer_arithmetic(run, op, a.integer, b.integer);
    if (mr_jinja_is_number(a) && mr_jinja_is_number(b))
        return float_arithmetic(run, op, mr_jinja_as_number(a), mr_jinja_as_number(b));
    return mr_jinja_fail(run, MR_INVALID_REQUEST,
                         "chat template: operands of '%.*s' are undefined or have wrong types",
                         (int)op.length, op.bytes);
}

struct mr_jinja_value mr_jinja_comparison(struct mr_jinja_run *run, struct mr_text op,
                                          struct mr_jinja_value a, struct mr_jinja_value b)
{
    if (mr_text_is(op, "==")) return mr_jinja_bool(mr_jinja_equal(run, a, b));
    if (mr_text_is(op, "!=")) return mr_jinja_bool(!mr_jinja_equal(run, a, b));
    if (mr_text_is(op, "in")) return mr_jinja_bool(mr_jinja_contains(run, b, a));
    if (mr_text_is(op, "not in")) return mr_jinja_bool(!mr_jinja_contains(run, b, a));
    int order = mr_jinja_compare(run, a, b);
    bool or_equal = op.length == 2 && order == 0;
    return mr_jinja_bool(or_equal || (op.bytes[0] == '<' ? order < 0 : order > 0));
}

/* ---- slices ---- */

static int64_t slice_bound(struct mr_jinja_value bound, int64_t count, int64_t otherwise,
                           int64_t lowest)
{
    if (!is_integer(bound)) return otherwise;
    int64_t at = bound.integer;
    if (at < 0) at = at < -count ? lowest : at + count;
    return at > count ? count : at;
}

/* The items begin, begin + by ... in front of end. */
static struct mr_jinja_value pick(struct mr_jinja_run *run, struct mr_jinja_value base,
                                  int64_t begin, int64_t end, int64_t by)
{
    bool text = base.kind == MR_JINJA_TEXT;
    const struct mr_jinja_list *from = mr_jinja_iterate(run, base);
    struct mr_jinja_value list =
        mr_jinja_list_of_kind(run, text ? MR_JINJA_LIST_PLAIN : base.list->kind);
    struct mr_jinja_buffer buffer = {0};
    for (int64_t i = begin; (by > 0 ? i < end : i > end) && mr_jinja_step(run); i += by) {
        if (text)
            mr_jinja_append(run, &buffer, from->items[i]);
        else
            mr_jinja_list_push(run, list.list, from->items[i]);
    }
    return text ? mr_jinja_buffer_text(&buffer) : list;
}

struct mr_jinja_value mr_jinja_slice(struct mr_jinja_run *run, struct mr_jinja_value base,
                                     const struct mr_jinja_value bounds[3])
{
    int64_t by = is_integer(bounds[2]) ? bounds[2].integer : 1;
    bool text = base.kind == MR_JINJA_TEXT;
    bool list = base.kind == MR_JINJA_LIST && base.list->kind <= MR_JINJA_LIST_RANGE;
    for (int i = 0; i < 3; i++)
        if (!is_integer(bounds[i]) && bounds[i].kind != MR_JINJA_NONE) list = text = false;
    if (base.kind == MR_JINJA_UNDEFINED || (!by && (text || list)))
        return mr_jinja_fail(run, MR_INVALID_REQUEST,
                             "chat template: slice of an undefined value, or with step 0");
    if (!text && !list) return mr_jinja_undefined();
    int64_t count = (int64_t)mr_jinja_length(run, base);
    int64_t begin = slice_bound(bounds[0], count, by > 0 ? 0 : count - 1, by > 0 ? 0 : -1);
    int64_t end = slice_bound(bounds[1], count, by > 0 ? count : -1, by > 0 ? 0 : -1);
    if (by < 0 && begin >= count) begin = count - 1;
    if (by > count) by = count + 1; /* one step leaves the list either way, and cannot overflow */
    if (by < -count) by = -count - 1;
    if (text && by == 1) {
        size_t from = mr_jinja_offset(base, (size_t)begin);
        return mr_jinja_slice_bytes(base, from,
                                    begin < end ? mr_jinja_offset(base, (size_t)end) : from);
    }
    return pick(run, base, begin, end, by);
}
