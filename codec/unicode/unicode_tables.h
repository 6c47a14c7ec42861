/* unicode_tables - the characters that the reference tokenizer (PyPI `tokenizers`) treats in
 * another way than Unicode 14, the oldest version that this program's Unicode library may have.
 *
 * tests/golden/make_unicode.py writes codec/unicode/unicode_tables.c. All tables are sorted by code
 * point and their ranges do not overlap.
 *
 * Threads: any (constants). Memory: static. Errors: none. */
#ifndef MR_CODEC_UNICODE_UNICODE_TABLES_H
#define MR_CODEC_UNICODE_UNICODE_TABLES_H

#include <stddef.h>
#include <stdint.h>

/* Code points of one general category, for example Lu: major 'L', minor 'u'. */
struct mr_unicode_range {
    uint32_t first, last;
    char major, minor; /* 0 in tables other than mr_unicode_added */
};

struct mr_unicode_table {
    const struct mr_unicode_range *ranges; /* [count] */
    size_t count;
};

/* Assigned after Unicode 14. */
extern const struct mr_unicode_table mr_unicode_added;
/* Assigned after Unicode 14, and digits to the reference's Digits component. */
extern const struct mr_unicode_table mr_unicode_added_numeric;
/* Category P in Unicode 14 but not for the reference's Punctuation component, or the opposite. */
extern const struct mr_unicode_table mr_unicode_punctuation_flips;
/* Assigned before Unicode 14, but the reference's normalizers leave them unchanged. */
extern const struct mr_unicode_table mr_unicode_inert;
/* No marks in Unicode 14, but the reference's StripAccents removes them. */
extern const struct mr_unicode_table mr_unicode_former_marks;

/* Letters assigned after Unicode 14 and their lower case. */
struct mr_unicode_pair {
    uint32_t upper, lower;
};
extern const struct mr_unicode_pair *const mr_unicode_lower_pairs; /* [count] */
extern const size_t mr_unicode_lower_pair_count;

#endif
