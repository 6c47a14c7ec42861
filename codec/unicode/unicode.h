/* unicode - properties of characters, normal forms, lower case. The only module that uses the
 * Unicode library (utf8proc).
 *
 * The reference tokenizer splits text by a newer version of Unicode than the library may have, and
 * normalizes text by an older one. codec/unicode/unicode_tables.h lists the differences to Unicode
 * 14, so token ids do not depend on the version of a shared library.
 *
 * Threads: any (pure functions). Memory: only mr_unicode_normalize allocates, and it frees before
 *          it returns. Errors: MR_NOMEM. */
#ifndef MR_CODEC_UNICODE_UNICODE_H
#define MR_CODEC_UNICODE_UNICODE_H

#include "codec/buffer.h"

/* True for category N in the version of Unicode by which the reference implementation splits
 * text. */
bool mr_unicode_is_numeric(uint32_t code_point);
/* True for a character with property White_Space. */
bool mr_unicode_is_space(uint32_t code_point);
/* True for a character on which the component Punctuation of the reference implementation
 * splits. */
bool mr_unicode_is_punctuation(uint32_t code_point);
/* True for the categories of combining marks: Mn, Mc and Me. */
bool mr_unicode_is_mark(uint32_t code_point);
/* True for a combining mark that StripAccents of the reference implementation removes; it keeps
 * newer marks. */
bool mr_unicode_is_stripped_mark(uint32_t code_point);
/* True for a nonspacing mark (Mn), and for a control, format or private character (Cc, Cf, Co),
 * that BertNormalizer of the reference implementation removes; it keeps newer ones. */
bool mr_unicode_is_bert_mark(uint32_t code_point);
bool mr_unicode_is_bert_control(uint32_t code_point);
/* True for a character that \w matches: alphabetic, a mark, a decimal digit or a connector. */
bool mr_unicode_is_word(uint32_t code_point);

/* Writes the lower case of code_point (without context rules) to out; returns the number of code
 * points, 1 or 2. */
size_t mr_unicode_lower(uint32_t code_point, uint32_t out[2]);

/* The upper case, or with `title` the title case, of code_point: the character that maps to it
 * one to one, or code_point itself. */
uint32_t mr_unicode_upper(uint32_t code_point, bool title);
/* True for the categories of letters that have case: Lu, Ll and Lt. */
bool mr_unicode_is_cased(uint32_t code_point);
bool mr_unicode_is_upper(uint32_t code_point);
/* True for the categories of letters. */
bool mr_unicode_is_letter(uint32_t code_point);
/* The general category as its two letters, such as "Lu"; "Cn" for an unassigned code point. */
const char *mr_unicode_category(uint32_t code_point);
/* True for a character that Python's repr prints as it is: no control, format, unassigned, private
 * or surrogate character and no separator but the space. */
bool mr_unicode_is_printable(uint32_t code_point);

enum mr_normal_form { MR_NFC, MR_NFD, MR_NFKC, MR_NFKD };

/* Appends text in the Unicode normal form `form` to out; text is valid UTF-8. The time is
 * O(text.length) for any text, also for long runs of combining marks. */
enum mr_status mr_unicode_normalize(struct mr_text text, enum mr_normal_form form,
                                    struct mr_buffer *out, struct mr_error *err);

/* The end of the extended grapheme cluster that starts at byte `at` of text, which is valid UTF-8:
 * the bytes that a reader sees as one character. */
size_t mr_unicode_cluster_end(struct mr_text text, size_t at);

#endif
