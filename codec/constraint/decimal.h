/* decimal - exact decimal numbers: the bounds of a schema and its numeric constants.
 *
 * Owner: the caller. Memory: the struct, about 1.6 KiB. Errors: _read returns false. */
#ifndef MR_CODEC_CONSTRAINT_DECIMAL_H
#define MR_CODEC_CONSTRAINT_DECIMAL_H

#include "codec/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_DECIMAL_DIGITS_MAX 800u /* on each side of the point; a double needs at most 324 */

struct mr_decimal {
    bool negative; /* false for zero */
    size_t whole_length, fraction_length;
    char whole[MR_DECIMAL_DIGITS_MAX];    /* digits without leading zeros, "0" for none */
    char fraction[MR_DECIMAL_DIGITS_MAX]; /* digits without trailing zeros, may be empty */
};

/* Reads a number in the syntax of JSON. False if it has too many digits. */
bool mr_decimal_read(struct mr_decimal *out, struct mr_text number);
bool mr_decimal_is_zero(const struct mr_decimal *value);
/* Below 0, 0 or above 0, as value is below, equal to or above other. */
int mr_decimal_compare(const struct mr_decimal *value, const struct mr_decimal *other);
/* Rounds to so many digits after the point, up or down. */
void mr_decimal_cut(struct mr_decimal *value, size_t places, bool up);
/* Adds 1 to an integer, or subtracts 1. */
void mr_decimal_step(struct mr_decimal *value, bool up);
/* Sets *value to the shortest decimal of the next double above or below it. False if that is not
 * finite. */
bool mr_decimal_next_double(struct mr_decimal *value, bool up);
/* True if value times 10^places is an integer and a multiple of divisor, which is
 * at most 10^15. */
bool mr_decimal_is_multiple(const struct mr_decimal *value, uint64_t divisor, uint32_t places);

#endif
