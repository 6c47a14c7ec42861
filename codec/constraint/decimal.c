#include "codec/constraint/decimal.h"

#include "codec/wire/json_writer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool mr_decimal_is_zero(const struct mr_decimal *value)
{
    return value->whole_length == 1 && value->whole[0] == '0' && value->fraction_length == 0;
}

static void normalize(struct mr_decimal *value)
{
    size_t zeros = 0;
    while (zeros < value->whole_length && value->whole[zeros] == '0')
        zeros++;
    value->whole_length -= zeros;
    memmove(value->whole, value->whole + zeros, value->whole_length);
    if (value->whole_length == 0) value->whole[value->whole_length++] = '0';
    while (value->fraction_length > 0 && value->fraction[value->fraction_length - 1] == '0')
        value->fraction_length--;
    if (mr_decimal_is_zero(value)) value->negative = false;
}

/* Appends a digit of the number's text at this distance from the point: 0 is the last whole digit,
 * negative numbers are after the point. False: the digit does not fit and is not 0. */
static bool put_digit(struct mr_decimal *out, char digit, long distance)
{
    if (distance >= (long)MR_DECIMAL_DIGITS_MAX || -distance > (long)MR_DECIMAL_DIGITS_MAX)
        return digit == '0';
    if (distance >= 0)
        out->whole[MR_DECIMAL_DIGITS_MAX - 1 - (size_t)distance] = digit;
    else
        out->fraction[-distance - 1] = digit;
    return true;
}

bool mr_decimal_read(struct mr_decimal *out, struct mr_text number)
{
    *out = (struct mr_decimal){.whole_length = MR_DECIMAL_DIGITS_MAX,
                               .fraction_length = MR_DECIMAL_DIGITS_MAX};
    memset(out->whole, '0', sizeof out->whole);
    memset(out->fraction, '0', sizeof out->fraction);
    size_t at = number.length > 0 && number.bytes[0] == '-', begin = at;
    long whole = 0, exponent = 0;
    for (; at < number.length && number.bytes[at] >= '0' && number.bytes[at] <= '9'; at++)
        whole++;
    size_t end = at;
    if (end < number.length && number.bytes[end] == '.')
        for (end++; end < number.length && number.bytes[end] >= '0' && number.bytes[end] <= '9';)
            end++;
    if (end < number.length) {
        char text[16] = "";
        if (number.length - end - 1 >= sizeof text) return false;
        memcpy(text, number.bytes + end + 1, number.length - end - 1);
        exponent = strtol(text, NULL, 10);
        if (labs(exponent) > 1000000) exponent = exponent < 0 ? -1000000 : 1000000;
    }
    long distance = whole - 1 + exponent;
    for (at = begin; at < end; at++)
        if (number.bytes[at] != '.' && !put_digit(out, number.bytes[at], distance--)) return false;
    out->negative = begin == 1;
    normalize(out);
    return true;
}

static int compare_magnitudes(const struct mr_decimal *one, const struct mr_decimal *other)
{
    if (one->whole_length != other->whole_length)
        return one->whole_length < other->whole_length ? -1 : 1;
    int order = memcmp(one->whole, other->whole, one->whole_length);
    if (order != 0) return order;
    size_t shared = one->fraction_length < other->fraction_length ? one->fraction_length
                                                                  : other->fraction_length;
    order = memcmp(one->fraction, other->fraction, shared);
    if (order != 0) return order;
    return (one->fraction_length > other->fraction_length) -
           (one->fraction_length < other->fraction_length);
}

int mr_decimal_compare(const struct mr_decimal *value, const struct mr_decimal *other)
{
    if (value->negative != other->negative) return value->negative ? -1 : 1;
    int order = compare_magnitudes(value, other);
    return value->negative ? -order : order;
}

/* Adds 1 to the magnitude of an integer, or subtracts 1 from one above 0. */
static void count(struct mr_decimal *value, bool up)
{
    char last = up ? '9' : '0', first = up ? '0' : '9';
    size_t at = value->whole_length;
    while (at > 0 && value->whole[at - 1] == last)
        value->whole[--at] = first;
    if (at > 0) {
        value->whole[at - 1] = (char)(value->whole[at - 1] + (up ? 1 : -1));
    } else if (value->whole_length < MR_DECIMAL_DIGITS_MAX) {
        memmove(value->whole + 1, value->whole, value->whole_length++);
        value->whole[0] = '1';
    }
}

void mr_decimal_step(struct mr_decimal *value, bool up)
{
    if (mr_decimal_is_zero(value)) value->negative = !up;
    count(value, value->negative != up);
    normalize(value);
}

void mr_decimal_cut(struct mr_decimal *value, size_t places, bool up)
{
    if (value->fraction_length <= places) return;
    value->fraction_length = places;
    if (value->negative != up) { /* away from zero */
        size_t at = places;
        while (at > 0 && value->fraction[at - 1] == '9')
            value->fraction[--at] = '0';
        if (at > 0)
            value->fraction[at - 1]++;
        else
            count(value, true);
    }
    normalize(value);
}

bool mr_decimal_next_double(struct mr_decimal *value, bool up)
{
    char text[2 * MR_DECIMAL_DIGITS_MAX + 4], shortest[32];
    snprintf(text, sizeof text, "%s%.*s.%.*s", value->negative ? "-" : "", (int)value->whole_length,
             value->whole, (int)value->fraction_length, value->fraction);
    double next = nextafter(strtod(text, NULL), up ? INFINITY : -INFINITY);
    if (!isfinite(next)) return false;
    mr_json_format_double(next, shortest);
    return mr_decimal_read(value, (struct mr_text){shortest, strlen(shortest)});
}

bool mr_decimal_is_multiple(const struct mr_decimal *value, uint64_t divisor, uint32_t places)
{
    uint64_t rest = 0;
    if (value->fraction_length > places) return false;
    for (size_t i = 0; i < value->whole_length; i++)
        rest = (rest * 10 + (uint64_t)(value->whole[i] - '0')) % divisor;
    for (size_t i = 0; i < places; i++) {
        uint64_t digit = i < value->fraction_length ? (uint64_t)(value->fraction[i] - '0') : 0;
        rest = (rest * 10 + digit) % divisor;
    }
    return rest == 0;
}
