/* Numbers between two bounds, digit by digit. Exact decimals are compared. An inclusive bound then
 * also holds for a reader that compares doubles, because rounding to doubles is monotonic. An
 * exclusive bound is replaced by the next double, which every reader finds beyond it.
 *
 * A number without bounds has at most MR_NUMBER_DIGITS digits on each side of the point, so that an
 * answer cannot write digits for ever, and an exponent of three digits. A number with bounds may
 * have an exponent if every number of that form is within the bounds. */
#include "codec/constraint/schema_state.h"

#define EXPONENT_WHOLE_MIN 100u /* a bound of more whole digits is above every D.DDDe+DD */

struct side {
    const struct mr_decimal *value;
    bool lower; /* the numbers from `value` up; otherwise those up to `value` */
};

/* The allowed form of the magnitudes of one number. */
struct form {
    struct mr_schema *schema;
    bool integer;
    uint32_t places; /* most digits after the point; 0: MR_NUMBER_DIGITS, as calls of a rule */
    uint32_t whole_max;
};

static const struct mr_expr *digits(const struct form *form, char low, char high, size_t min,
                                    size_t max)
{
    struct mr_expr_builder *builder = form->schema->builder;
    if (low > high) return mr_expr_never();
    return mr_expr_repeat(builder, mr_expr_range(builder, (unsigned char)low, (unsigned char)high),
                          (uint32_t)min, (uint32_t)max);
}

static const struct mr_expr *optional(const struct form *form, const struct mr_expr *item)
{
    return mr_expr_either(form->schema->builder, mr_expr_empty(), item);
}

static const struct mr_expr *pair(const struct form *form, const struct mr_expr *first,
                                  const struct mr_expr *second)
{
    return mr_expr_pair(form->schema->builder, first, second);
}

static const struct mr_expr *after_point(const struct form *form, const struct mr_expr *item)
{
    return pair(form, mr_expr_word(form->schema->builder, "."), item);
}

/* Digits after the point, of which `used` have been written; possibly none. */
static const struct mr_expr *more_digits(const struct form *form, size_t used)
{
    struct mr_schema *schema = form->schema;
    if (form->places > 0) return digits(form, '0', '9', 0, form->places - used);
    if (schema->digits == UINT32_MAX) {
        schema->digits = mr_expr_rule_add(schema->builder, "digits");
        mr_expr_rule_define(schema->builder, schema->digits,
                            digits(form, '0', '9', 0, MR_NUMBER_DIGITS));
    }
    return mr_expr_ref(schema->builder, schema->digits);
}

static const struct mr_expr *any_fraction(const struct form *form)
{
    if (form->integer) return mr_expr_empty();
    return optional(
        form, after_point(form, pair(form, digits(form, '0', '9', 1, 1), more_digits(form, 1))));
}

static const struct mr_expr *zeros(const struct form *form, size_t used)
{
    size_t left = form->places > 0 ? form->places - used : 8;
    return digits(form, '0', '0', 0, left);
}

/* The digits after the point from digit i on, where all earlier ones equal those of the bound. */
static const struct mr_expr *tight_fraction(const struct form *form, struct side side, size_t i)
{
    const struct mr_decimal *value = side.value;
    if (i == value->fraction_length) return side.lower ? more_digits(form, i) : zeros(form, i);
    char digit = value->fraction[i];
    const struct mr_expr *rest = tight_fraction(form, side, i + 1);
    /* a shorter fraction is below the bound */
    if (!side.lower && i + 1 < value->fraction_length) rest = optional(form, rest);
    const struct mr_expr *other = side.lower ? digits(form, (char)(digit + 1), '9', 1, 1)
                                             : digits(form, '0', (char)(digit - 1), 1, 1);
    return mr_expr_either(form->schema->builder, pair(form, digits(form, digit, digit, 1, 1), rest),
                          pair(form, other, more_digits(form, i + 1)));
}

/* The text that may follow whole digits equal to those of the bound. */
static const struct mr_expr *tight_end(const struct form *form, struct side side)
{
    if (form->integer) return mr_expr_empty();
    if (side.value->fraction_length > 0) {
        const struct mr_expr *fraction = after_point(form, tight_fraction(form, side, 0));
        return side.lower ? fraction : optional(form, fraction);
    }
    if (side.lower) return any_fraction(form);
    return optional(form,
                    after_point(form, pair(form, digits(form, '0', '0', 1, 1), zeros(form, 1))));
}

/* One digit of a range, `left` more whole digits and any fraction. */
static const struct mr_expr *free_from(const struct form *form, char low, char high, size_t left)
{
    if (low > high) return mr_expr_never();
    const struct mr_expr *items[3] = {digits(form, low, high, 1, 1),
                                      digits(form, '0', '9', left, left), any_fraction(form)};
    return mr_expr_seq(form->schema->builder, items, 3);
}

/* The whole digits from digit i on, where all earlier ones equal those of the bound. */
static const struct mr_expr *tight_whole(const struct form *form, struct side side, size_t i)
{
    const struct mr_decimal *value = side.value;
    if (i == value->whole_length) return tight_end(form, side);
    char digit = value->whole[i], lowest = i == 0 && value->whole_length > 1 ? '1' : '0';
    size_t left = value->whole_length - i - 1;
    return mr_expr_either(
        form->schema->builder,
        pair(form, digits(form, digit, digit, 1, 1), tight_whole(form, side, i + 1)),
        side.lower ? free_from(form, (char)(digit + 1), '9', left)
                   : free_from(form, lowest, (char)(digit - 1), left));
}

/* The digits after the point from digit i on, where all earlier ones equal those of both bounds. */
static const struct mr_expr *between_fractions(const struct form *form,
                                               const struct mr_decimal *low,
                                               const struct mr_decimal *high, size_t i)
{
    const struct side from = {low, true}, to = {high, false};
    if (i == low->fraction_length) return optional(form, tight_fraction(form, to, i));
    char first = low->fraction[i], last = high->fraction[i];
    if (first == last)
        return pair(form, digits(form, first, first, 1, 1),
                    between_fractions(form, low, high, i + 1));
    const struct mr_expr *end = tight_fraction(form, to, i + 1);
    if (i + 1 < high->fraction_length) end = optional(form, end);
    const struct mr_expr *items[3] = {
        pair(form, digits(form, first, first, 1, 1), tight_fraction(form, from, i + 1)),
        pair(form, digits(form, (char)(first + 1), (char)(last - 1), 1, 1),
             more_digits(form, i + 1)),
        pair(form, digits(form, last, last, 1, 1), end)};
    return mr_expr_alt(form->schema->builder, items, 3);
}

/* The whole digits from digit i on, where all earlier ones equal those of both bounds, which have
 * as many whole digits. */
static const struct mr_expr *between(const struct form *form, const struct mr_decimal *low,
                                     const struct mr_decimal *high, size_t i)
{
    const struct side from = {low, true}, to = {high, false};
    if (i == low->whole_length) {
        if (form->integer || low->fraction_length == 0) return tight_end(form, to);
        return after_point(form, between_fractions(form, low, high, 0));
    }
    char first = low->whole[i], last = high->whole[i];
    if (first == last)
        return pair(form, digits(form, first, first, 1, 1), between(form, low, high, i + 1));
    const struct mr_expr *items[3] = {
        pair(form, digits(form, first, first, 1, 1), tight_whole(form, from, i + 1)),
        free_from(form, (char)(first + 1), (char)(last - 1), low->whole_length - i - 1),
        pair(form, digits(form, last, last, 1, 1), tight_whole(form, to, i + 1))};
    return mr_expr_alt(form->schema->builder, items, 3);
}

/* Magnitudes of min to max whole digits; min is at least 2, or 1 for all but 0. */
static const struct mr_expr *of_length(const struct form *form, size_t min, size_t max)
{
    if (min > max) return mr_expr_never();
    const struct mr_expr *items[3] = {digits(form, '1', '9', 1, 1),
                                      digits(form, '0', '9', min - 1, max - 1), any_fraction(form)};
    return mr_expr_seq(form->schema->builder, items, 3);
}

static bool is_tiny(const struct mr_decimal *value)
{
    return value->whole_length == 1 && value->whole[0] == '0' &&
           (value->fraction_length == 0 || value->fraction_length >= MR_NUMBER_DIGITS);
}

/* D.DDDe+DD, where all of them are within the bounds, and D.DDDe-DD likewise. high NULL: no bound.
 */
static const struct mr_expr *exponents(const struct form *form, const struct mr_decimal *low,
                                       const struct mr_decimal *high)
{
    struct mr_expr_builder *builder = form->schema->builder;
    bool below_one = low->whole_length == 1 && low->whole[0] <= '0' + (low->fraction_length == 0);
    bool large = below_one && (!high || high->whole_length > EXPONENT_WHOLE_MIN);
    bool small = is_tiny(low) && (!high || high->whole[0] != '0');
    if (form->integer || form->places > 0) return mr_expr_never();
    const struct mr_expr *plus =
        pair(form, optional(form, mr_expr_word(builder, "+")), digits(form, '0', '9', 1, 2));
    const struct mr_expr *positive = mr_expr_either(
        builder, pair(form, digits(form, '1', '9', 1, 1), digits(form, '0', '9', 0, 1)),
        pair(form, mr_expr_word(builder, "0"), digits(form, '1', '9', 1, 1)));
    const struct mr_expr *minus = pair(form, mr_expr_word(builder, "-"), positive);
    const struct mr_expr *items[4] = {
        digits(form, '1', '9', 1, 1), any_fraction(form),
        mr_expr_either(builder, mr_expr_word(builder, "e"), mr_expr_word(builder, "E")),
        mr_expr_either(builder, large ? plus : mr_expr_never(), small ? minus : mr_expr_never())};
    return mr_expr_seq(builder, items, 4);
}

/* Magnitudes from low to high; high NULL: no bound. */
static const struct mr_expr *magnitudes(const struct form *form, const struct mr_decimal *low,
                                        const struct mr_decimal *high)
{
    struct mr_expr_builder *builder = form->schema->builder;
    const struct side from = {low, true}, to = {high, false};
    if (high && mr_decimal_compare(low, high) > 0) return mr_expr_never();
    const struct mr_expr *plain;
    if (high && high->whole_length <= form->whole_max && high->whole_length == low->whole_length) {
        plain = between(form, low, high, 0);
    } else {
        /* all numbers of at most whole_max digits are below a bound of more digits */
        bool bounded = high && high->whole_length <= form->whole_max;
        size_t longest = bounded ? high->whole_length - 1 : form->whole_max;
        const struct mr_expr *items[3] = {tight_whole(form, from, 0),
                                          of_length(form, low->whole_length + 1, longest),
                                          bounded ? tight_whole(form, to, 0) : mr_expr_never()};
        if (!high || bounded || high->whole_length > low->whole_length)
            plain = mr_expr_alt(builder, items, 3);
        else
            plain = between(form, low, high, 0);
    }
    return mr_expr_either(builder, plain, exponents(form, low, high));
}

/* Numbers without bounds. */
static const struct mr_expr *any_number(struct mr_schema *schema, bool integer)
{
    struct mr_expr_builder *builder = schema->builder;
    const struct form form = {schema, integer, 0, MR_NUMBER_DIGITS};
    uint32_t *rule = integer ? &schema->integer : &schema->number;
    if (*rule != UINT32_MAX) return mr_expr_ref(builder, *rule);
    const struct mr_expr *sign[3] = {mr_expr_empty(), mr_expr_word(builder, "+"),
                                     mr_expr_word(builder, "-")};
    const struct mr_expr *exponent[3] = {
        mr_expr_either(builder, mr_expr_word(builder, "e"), mr_expr_word(builder, "E")),
        mr_expr_alt(builder, sign, 3), digits(&form, '0', '9', 1, 3)};
    const struct mr_expr *zero = pair(&form, mr_expr_word(builder, "0"), any_fraction(&form));
    const struct mr_expr *items[3] = {
        optional(&form, mr_expr_word(builder, "-")),
        mr_expr_either(builder, zero, of_length(&form, 1, MR_NUMBER_DIGITS)),
        integer ? mr_expr_empty() : optional(&form, mr_expr_seq(builder, exponent, 3))};
    *rule = mr_expr_rule_add(builder, "number");
    mr_expr_rule_define(builder, *rule, mr_expr_seq(builder, items, 3));
    return mr_expr_ref(builder, *rule);
}

/* Makes a bound inclusive and as precise as the numbers of the form. lower: it is a minimum. False:
 * no number is within it. */
static bool sharpen(const struct form *form, struct mr_decimal *bound, bool exclusive, bool lower)
{
    if (exclusive && form->integer && bound->fraction_length == 0)
        mr_decimal_step(bound, lower);
    else if (exclusive && !form->integer && !mr_decimal_next_double(bound, lower))
        return false;
    mr_decimal_cut(bound,
                   form->integer      ? 0
                   : form->places > 0 ? form->places
                                      : MR_NUMBER_DIGITS,
                   lower);
    return true;
}

/* Sets a zero to the least magnitude of the form above it. */
static void make_least(const struct form *form, struct mr_decimal *zero)
{
    if (form->integer) {
        mr_decimal_step(zero, true);
        return;
    }
    zero->fraction_length = form->places > 0 ? form->places : MR_NUMBER_DIGITS;
    zero->fraction[zero->fraction_length - 1] = '1';
}

static const struct mr_expr *bounded(struct form *form, const struct mr_schema_facts *facts)
{
    struct mr_expr_builder *builder = form->schema->builder;
    struct mr_decimal *work = mr_expr_take(builder, 3, sizeof *work);
    struct mr_decimal *min = NULL, *max = NULL, *zero = work;
    if (!work || !mr_decimal_read(zero, (struct mr_text){"0", 1})) return mr_expr_never();
    if (facts->min) {
        work[1] = *facts->min;
        min = &work[1];
        if (!sharpen(form, min, facts->above_min, true)) return mr_expr_never();
    }
    if (facts->max) {
        work[2] = *facts->max;
        max = &work[2];
        if (!sharpen(form, max, facts->below_max, false)) return mr_expr_never();
    }
    bool below = !min || min->negative, above = !max || !max->negative;
    const struct mr_expr *negative = mr_expr_never(), *positive = mr_expr_never();
    if (min && max && mr_decimal_compare(min, max) > 0) return mr_expr_never();
    if (above) {
        size_t least = min && !below ? min->whole_length : 1;
        if (least > form->whole_max) form->whole_max = (uint32_t)least;
        positive = magnitudes(form, min && !below ? min : zero, max);
    }
    if (below) {
        struct mr_decimal *low = zero, *high = min;
        if (max && max->negative) low = max;
        if (low == zero) make_least(form, zero); /* 0 has no sign */
        if (low != zero) low->negative = false;
        if (high) high->negative = false;
        if (low->whole_length > form->whole_max) form->whole_max = (uint32_t)low->whole_length;
        negative = pair(form, mr_expr_word(builder, "-"), magnitudes(form, low, high));
    }
    return mr_expr_either(builder, negative, positive);
}

const struct mr_expr *mr_schema_number(struct mr_schema *schema,
                                       const struct mr_schema_facts *facts)
{
    struct mr_expr_builder *builder = schema->builder;
    struct form form = {schema, facts->integer, 0, MR_NUMBER_DIGITS};
    uint64_t divisor = facts->multiple;
    uint32_t places = facts->multiple_places, trailing = 0;
    bool multiple = divisor > 0 && !(facts->integer && divisor == 1);
    if (!facts->min && !facts->max && !multiple) return any_number(schema, facts->integer);
    if (!multiple) return bounded(&form, facts);
    for (; places == 0 && divisor % 10 == 0; divisor /= 10)
        trailing++;
    /* the product with the automaton of remainders must stay small */
    uint64_t whole_max = 30000 / (divisor * (places + 1)) + trailing;
    form.whole_max = whole_max < 15                 ? 15
                     : whole_max > MR_NUMBER_DIGITS ? MR_NUMBER_DIGITS
                                                    : (uint32_t)whole_max;
    form.places = places;
    const struct mr_expr *multiples =
        pair(&form, mr_expr_multiple(builder, (uint32_t)divisor, places),
             digits(&form, '0', '0', trailing, trailing));
    if (trailing > 0) multiples = mr_expr_either(builder, multiples, mr_expr_word(builder, "0"));
    return mr_expr_and(builder, bounded(&form, facts),
                       pair(&form, optional(&form, mr_expr_word(builder, "-")), multiples));
}
