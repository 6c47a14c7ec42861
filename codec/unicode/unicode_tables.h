/* unicode_tables - the characters that the reference tokenizer (PyPI `tokenizers`) treats
 * differently from Unicode 14, the oldest version that this program's Unicode library may have.
 *
 * tests/golden/make_unicode.py writes codec/unicode/unicode_tables.c. All tables are sorted by code
 * point and their ranges do not overlap.
 *
 * Threads: any (constants). Memory: static. Errors: none. */
#ifndef MR_CODEC_UNICODE_UNICODE_TABLES_H
#define MR_CODEC_UNICODE_UNICODE_TABLES_H

#include <stddef.h>
#include <stdint.h>

/* Range of code points of one general category, for example Lu: major 'L', minor 'u'. */
struct mr_unicode_range {
    uint32_t first, last;
    char major, minor; /* 0 in tables other than mr_unicode_added */
};

struct mr_unicode_table {
    const struct mr_unicode_range *ranges; /* [count] ranges */
    size_t count;
};

/* Characters assigned after Unicode 14. */
extern const struct mr_unicode_table mr_unicode_added;
/* Characters assigned after Unicode 14 that are digits for the reference tokenizer's component
 * Digits. */
extern const struct mr_unicode_table mr_unicode_added_numeric;
/* Characters of category P in Unicode 14 that the reference tokenizer's component Punctuation does
 * not split on, and characters of other categories that it splits on. */
extern const struct mr_unicode_table mr_unicode_punctuation_flips;
/* Characters assigned before Unicode 14 that the reference tokenizer's normalizers leave
 * unchanged. */
extern const struct mr_unicode_table mr_unicode_inert;
/* Characters that Unicode 14 does not class as marks but that the reference tokenizer's
 * StripAccents removes. */
extern const struct mr_unicode_table mr_unicode_former_marks;

/* Format characters and nonspacing marks of Unicode 14 that the reference tokenizer's
 * BertNormalizer does not remove. */
extern const struct mr_unicode_table mr_unicode_bert_kept;

/* A letter assigned after Unicode 14 and its lower case. */
struct mr_unicode_pair {
    uint32_t upper, lower;
};
/* [mr_unicode_lower_pair_count] pairs */
extern const struct mr_unicode_pair *const mr_unicode_lower_pairs;
extern const size_t mr_unicode_lower_pair_count;

#endif
