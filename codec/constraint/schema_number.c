/* Numbers between two bounds, digit by digit. A magnitude is written with at most MR_NUMBER_DIGITS
 * digits: of so many digits, different decimals are different doubles, so that a reader who
 * compares doubles finds the bounds kept. Numbers without bounds have at most as many digits on
 * each side of the point, and may have an exponent of two digits. */
#include "codec/constraint/schema_state.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAGNITUDE_MAX 999999999999999.0 /* of MR_NUMBER_DIGITS digits */
#define FREE_MAX      999999999.0       /* largest number where the schema has no bound */

/* A bound of a magnitude: digits without leading zeros, and after the point without trailing
 * zeros. */
struct decimal {
    char whole[32], fraction[32];
    size_t whole_length, fraction_length;
};

struct bound {
    struct mr_expr_builder *builder;
    struct decimal value;
    bool lower;            /* the language of magnitudes from here up; otherwise up to here */
    bool exclusive;        /* without the bound itself */
    uint32_t whole_max;    /* most digits before the point */
    uint32_t fraction_max; /* most digits after the point; 0: integers */
};

static const struct mr_expr *digits(struct mr_expr_builder *builder, char low, char high,
                                    uint32_t min, uint32_t max)
{
    if (low > high) return mr_expr_never();
    return mr_expr_repeat(builder, mr_expr_range(builder, (unsigned char)low, (unsigned char)high),
                          min, max);
}

/* Up to max digits of which one is not zero. */
static const struct mr_expr *positive_digits(struct mr_expr_builder *builder, uint32_t max)
{
    const struct mr_expr *all = mr_expr_never();
    for (uint32_t left = 1; left <= max; left++) {
        const struct mr_expr *now = mr_expr_pair(builder, digits(builder, '1', '9', 1, 1),
                                                 digits(builder, '0', '9', 0, left - 1));
        all = mr_expr_either(builder, now,
                             mr_expr_pair(builder, digits(builder, '0', '0', 1, 1), all));
    }
    return all;
}

static const struct mr_expr *optional(struct mr_expr_builder *builder, const struct mr_expr *item)
{
    return mr_expr_either(builder, mr_expr_empty(), item);
}

static const struct mr_expr *behind_point(struct mr_expr_builder *builder,
                                          const struct mr_expr *item)
{
    return mr_expr_pair(builder, mr_expr_word(builder, "."), item);
}

/* A fraction that may be left out; nothing for integers. */
static const struct mr_expr *any_fraction(const struct bound *bound)
{
    if (bound->fraction_max == 0) return mr_expr_empty();
    return optional(bound->builder, behind_point(bound->builder, digits(bound->builder, '0', '9', 1,
                                                                        bound->fraction_max)));
}

/* The digits after the point from digit i on, all before being those of the bound. */
static const struct mr_expr *tight_fraction(const struct bound *bound, size_t i)
{
    struct mr_expr_builder *builder = bound->builder;
    const struct decimal *value = &bound->value;
    const uint32_t left = bound->fraction_max - (uint32_t)i;
    if (i == value->fraction_length) {
        if (bound->lower)
            return bound->exclusive ? positive_digits(builder, left)
                                    : digits(builder, '0', '9', 0, left);
        return bound->exclusive ? mr_expr_never() : digits(builder, '0', '0', 0, left);
    }
    const struct mr_expr *free = digits(builder, '0', '9', 0, left - 1);
    char digit = value->fraction[i];
    const struct mr_expr *rest = tight_fraction(bound, i + 1);
    /* the fraction may end here only below an upper bound that has more digits */
    if (!bound->lower && i + 1 < value->fraction_length) rest = optional(builder, rest);
    const struct mr_expr *same = mr_expr_pair(builder, digits(builder, digit, digit, 1, 1), rest);
    const struct mr_expr *other = bound->lower ? digits(builder, (char)(digit + 1), '9', 1, 1)
                                               : digits(builder, '0', (char)(digit - 1), 1, 1);
    return mr_expr_either(builder, same, mr_expr_pair(builder, other, free));
}

/* What may follow when all digits before the point are those of the bound. */
static const struct mr_expr *tight_end(const struct bound *bound)
{
    struct mr_expr_builder *builder = bound->builder;
    bool whole = bound->value.fraction_length == 0;
    if (bound->fraction_max == 0) return bound->exclusive ? mr_expr_never() : mr_expr_empty();
    if (!whole) {
        const struct mr_expr *fraction = behind_point(builder, tight_fraction(bound, 0));
        return bound->lower ? fraction : optional(builder, fraction);
    }
    if (bound->lower)
        return bound->exclusive
                   ? behind_point(builder, positive_digits(builder, bound->fraction_max))
                   : any_fraction(bound);
    if (bound->exclusive) return mr_expr_never();
    return optional(builder,
                    behind_point(builder, digits(builder, '0', '0', 1, bound->fraction_max)));
}

/* The digits before the point from digit i on, all before being those of the bound. */
static const struct mr_expr *tight_whole(const struct bound *bound, size_t i)
{
    struct mr_expr_builder *builder = bound->builder;
    const struct decimal *value = &bound->value;
    if (i == value->whole_length) return tight_end(bound);
    char digit = value->whole[i], lowest = i == 0 && value->whole_length > 1 ? '1' : '0';
    uint32_t left = (uint32_t)(value->whole_length - i - 1);
    const struct mr_expr *same =
        mr_expr_pair(builder, digits(builder, digit, digit, 1, 1), tight_whole(bound, i + 1));
    const struct mr_expr *other[3] = {bound->lower
                                          ? digits(builder, (char)(digit + 1), '9', 1, 1)
                                          : digits(builder, lowest, (char)(digit - 1), 1, 1),
                                      digits(builder, '0', '9', left, left), any_fraction(bound)};
    return mr_expr_either(builder, same, mr_expr_seq(builder, other, 3));
}

/* Magnitudes with min to max digits before the point. */
static const struct mr_expr *of_length(const struct bound *bound, size_t min, size_t max)
{
    struct mr_expr_builder *builder = bound->builder;
    if (min > max) return mr_expr_never();
    const struct mr_expr *items[3] = {
        digits(builder, '1', '9', 1, 1),
        digits(builder, '0', '9', (uint32_t)(min < 1 ? 0 : min - 1), (uint32_t)(max - 1)),
        any_fraction(bound)};
    const struct mr_expr *longer = mr_expr_seq(builder, items, 3);
    if (min > 1) return longer;
    return mr_expr_either(builder, longer,
                          mr_expr_pair(builder, mr_expr_word(builder, "0"), items[2]));
}

static const struct mr_expr *one_side(const struct bound *bound)
{
    size_t length = bound->value.whole_length;
    const struct mr_expr *others = bound->lower ? of_length(bound, length + 1, bound->whole_max)
                                   : length > 1 ? of_length(bound, 1, length - 1)
                                                : mr_expr_never();
    return mr_expr_either(bound->builder, tight_whole(bound, 0), others);
}

/* Writes a magnitude in decimal. False when it has more digits after the point than the bound may
 * have. */
static bool to_decimal(double magnitude, struct bound *bound)
{
    char text[64];
    for (int precision = 0;; precision++) {
        if (precision > (int)bound->fraction_max) return false;
        snprintf(text, sizeof text, "%.*f", precision, magnitude);
        const double back = strtod(text, NULL);
        if (!(back < magnitude) && !(back > magnitude)) break;
    }
    struct decimal *out = &bound->value;
    char *point = strchr(text, '.');
    *out = (struct decimal){.whole_length = point ? (size_t)(point - text) : strlen(text)};
    memcpy(out->whole, text, out->whole_length);
    if (point) {
        out->fraction_length = strlen(point + 1);
        memcpy(out->fraction, point + 1, out->fraction_length);
    }
    return true;
}

/* A range of magnitudes; an infinite high has no bound. */
struct range {
    double low, high;
    bool above_low, below_high;
};

static uint32_t whole_digits(double magnitude)
{
    uint32_t count = 1;
    for (double power = 10; magnitude >= power; power *= 10)
        count++;
    return count;
}

static const struct mr_expr *magnitudes(struct mr_schema *schema, struct range range, bool integer)
{
    struct bound lower = {.builder = schema->builder, .lower = true, .exclusive = range.above_low};
    struct bound upper = {.builder = schema->builder, .exclusive = range.below_high};
    if (range.high > MAGNITUDE_MAX) {
        double free =
            range.low < FREE_MAX && isinf(range.high) && !integer ? FREE_MAX : MAGNITUDE_MAX;
        range.high = free;
        upper.exclusive = false;
    }
    if (range.low > range.high) return mr_expr_never();
    lower.whole_max = upper.whole_max = whole_digits(range.high);
    if (!integer) lower.fraction_max = upper.fraction_max = MR_NUMBER_DIGITS - upper.whole_max;
    if (!to_decimal(range.low, &lower) || !to_decimal(range.high, &upper)) {
        mr_schema_fail(schema, MR_UNSUPPORTED, schema->root, NULL,
                       "the bounds of a number have more than 15 digits");
        return mr_expr_never();
    }
    return mr_expr_and(schema->builder, one_side(&lower), one_side(&upper));
}

/* Numbers without bounds. */
static const struct mr_expr *any_number(struct mr_schema *schema, bool integer)
{
    struct mr_expr_builder *builder = schema->builder;
    uint32_t *rule = integer ? &schema->integer : &schema->number;
    if (*rule != UINT32_MAX) return mr_expr_ref(builder, *rule);
    const struct bound free = {.builder = builder, .fraction_max = integer ? 0 : MR_NUMBER_DIGITS};
    const struct mr_expr *exponent[3] = {
        mr_expr_either(builder, mr_expr_word(builder, "e"), mr_expr_word(builder, "E")),
        mr_expr_alt(builder,
                    (const struct mr_expr *const[]){mr_expr_empty(), mr_expr_word(builder, "+"),
                                                    mr_expr_word(builder, "-")},
                    3),
        digits(builder, '0', '9', 1, 2)};
    const struct mr_expr *items[3] = {
        optional(builder, mr_expr_word(builder, "-")), of_length(&free, 1, MR_NUMBER_DIGITS),
        integer ? mr_expr_empty() : optional(builder, mr_expr_seq(builder, exponent, 3))};
    *rule = mr_expr_rule_add(builder, "number");
    mr_expr_rule_define(builder, *rule, mr_expr_seq(builder, items, 3));
    return mr_expr_ref(builder, *rule);
}

static const struct mr_expr *bounded(struct mr_schema *schema, const struct mr_schema_facts *facts,
                                     bool integer)
{
    struct mr_expr_builder *builder = schema->builder;
    double min = facts->has_min ? facts->min : -INFINITY;
    double max = facts->has_max ? facts->max : INFINITY;
    bool above_min = facts->above_min, below_max = facts->below_max;
    if (integer) {
        if (above_min && min == floor(min)) min += 1;
        if (below_max && max == floor(max)) max -= 1;
        min = ceil(min);
        max = floor(max);
        above_min = below_max = false;
    }
    const struct mr_expr *negative = mr_expr_never(), *positive = mr_expr_never();
    if (min < 0) {
        /* zero has no sign */
        struct range range = {max < 0 ? -max : 0, -min, max < 0 ? below_max : true, above_min};
        if (integer && max >= 0) range = (struct range){1, -min, false, false};
        negative =
            mr_expr_pair(builder, mr_expr_word(builder, "-"), magnitudes(schema, range, integer));
    }
    if (max >= 0) {
        struct range range = {min > 0 ? min : 0, max, min >= 0 && above_min, below_max};
        positive = magnitudes(schema, range, integer);
    }
    return mr_expr_either(builder, negative, positive);
}

const struct mr_expr *mr_schema_number(struct mr_schema *schema,
                                       const struct mr_schema_facts *facts)
{
    struct mr_expr_builder *builder = schema->builder;
    bool integer = facts->integer;
    if (!facts->has_min && !facts->has_max && facts->multiple <= 1)
        return any_number(schema, integer);
    const struct mr_expr *numbers = bounded(schema, facts, integer);
    if (facts->multiple <= 1) return numbers;
    const struct mr_expr *multiples =
        mr_expr_pair(builder, optional(builder, mr_expr_word(builder, "-")),
                     mr_expr_multiple(builder, facts->multiple));
    return mr_expr_and(builder, numbers, multiples);
}
