#include "codec/unicode/unicode.h"

#include "codec/unicode/unicode_tables.h"
#include "codec/utf8.h"

#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

/* Number of canonical combining classes, which are 0 to 254, rounded up. */
#define CLASSES 256

/* The range of the table that holds the code point, NULL when none does. */
static const struct mr_unicode_range *find(const struct mr_unicode_table *table,
                                           uint32_t code_point)
{
    size_t low = 0, high = table->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (code_point > table->ranges[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < table->count && code_point >= table->ranges[low].first;
    return found ? &table->ranges[low] : NULL;
}

static bool is_in(const struct mr_unicode_table *table, uint32_t code_point)
{
    return find(table, code_point) != NULL;
}

static utf8proc_category_t category_of(uint32_t code_point)
{
    return utf8proc_category((utf8proc_int32_t)code_point);
}

static bool between(utf8proc_category_t category, utf8proc_category_t first,
                    utf8proc_category_t last)
{
    return category >= first && category <= last;
}

bool mr_unicode_is_numeric(uint32_t c)
{
    if (c < 0x80) return c >= '0' && c <= '9';
    return between(category_of(c), UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO) ||
           is_in(&mr_unicode_added_numeric, c);
}

bool mr_unicode_is_space(uint32_t c)
{
    if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
    if (c < 0x2000) return c == 0x85 || c == 0xa0 || c == 0x1680;
    return c <= 0x200a || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

uint32_t mr_unicode_upper(uint32_t c, bool title)
{
    utf8proc_int32_t code = (utf8proc_int32_t)c;
    return (uint32_t)(title ? utf8proc_totitle(code) : utf8proc_toupper(code));
}

bool mr_unicode_is_upper(uint32_t c)
{
    return category_of(c) == UTF8PROC_CATEGORY_LU;
}

bool mr_unicode_is_cased(uint32_t c)
{
    return between(category_of(c), UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LT);
}

bool mr_unicode_is_letter(uint32_t c)
{
    return between(category_of(c), UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LO);
}

const char *mr_unicode_category(uint32_t c)
{
    return utf8proc_category_string((utf8proc_int32_t)c);
}

bool mr_unicode_is_printable(uint32_t c)
{
    utf8proc_category_t category = category_of(c);
    bool hidden = between(category, UTF8PROC_CATEGORY_ZS, UTF8PROC_CATEGORY_CO) ||
                  category == UTF8PROC_CATEGORY_CN;
    return c == ' ' || !hidden;
}

bool mr_unicode_is_punctuation(uint32_t c)
{
    if (c < 0x80)
        return (c > ' ' && c < '0') || (c > '9' && c < 'A') || (c > 'Z' && c < 'a') ||
               (c > 'z' && c < 0x7f);
    bool category = between(category_of(c), UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO) &&
                    !is_in(&mr_unicode_added, c);
    return category != is_in(&mr_unicode_punctuation_flips, c);
}

/* True for a character that the normalizers of the reference implementation do not know, because
 * their version of Unicode is older: such a character neither decomposes nor composes. */
static bool is_inert(uint32_t c)
{
    return c >= 0x300 && (is_in(&mr_unicode_inert, c) || is_in(&mr_unicode_added, c));
}

bool mr_unicode_is_stripped_mark(uint32_t c)
{
    return (mr_unicode_is_mark(c) && !is_inert(c)) || is_in(&mr_unicode_former_marks, c);
}

static bool is_bert_kept(uint32_t c)
{
    return is_in(&mr_unicode_bert_kept, c) || is_in(&mr_unicode_added, c);
}

bool mr_unicode_is_bert_mark(uint32_t c)
{
    return c >= 0x300 && category_of(c) == UTF8PROC_CATEGORY_MN && !is_bert_kept(c);
}

bool mr_unicode_is_bert_control(uint32_t c)
{
    if (c < 0x80) return c < 0x20 || c == 0x7f;
    const utf8proc_category_t category = category_of(c);
    if (category == UTF8PROC_CATEGORY_CO) return true;
    return between(category, UTF8PROC_CATEGORY_CC, UTF8PROC_CATEGORY_CF) && !is_bert_kept(c);
}

bool mr_unicode_is_mark(uint32_t c)
{
    return c >= 0x300 && between(category_of(c), UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME);
}

/* True for categories L and Nl, and the circled and squared letters: no other symbol is
 * alphabetic. */
static bool is_alphabetic(uint32_t c, utf8proc_category_t category)
{
    if (between(category, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LO)) return true;
    if (category == UTF8PROC_CATEGORY_NL) return true;
    return (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) ||
           (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189);
}

bool mr_unicode_is_word(uint32_t c)
{
    utf8proc_category_t category = category_of(c);
    if (is_alphabetic(c, category) || mr_unicode_is_mark(c)) return true;
    if (category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_PC) return true;
    if (c == 0x200c || c == 0x200d) return true;
    const struct mr_unicode_range *added = find(&mr_unicode_added, c);
    return added && (added->major == 'L' || added->major == 'M' || added->minor == 'd');
}

size_t mr_unicode_lower(uint32_t c, uint32_t out[2])
{
    /* U+0130 is the only character whose lower case has two code points: i, dot above */
    if (c == 0x130) {
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    out[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
    const struct mr_unicode_pair *pairs = mr_unicode_lower_pairs;
    for (size_t i = 0; i < mr_unicode_lower_pair_count && c >= pairs[0].upper; i++)
        if (pairs[i].upper == c) out[0] = pairs[i].lower;
    return 1;
}

static int class_of(utf8proc_int32_t c)
{
    return utf8proc_get_property(c)->combining_class;
}

/* Stable counting sort of combining marks by combining class. The sort in utf8proc is quadratic in
 * the length of a run of marks, and a hostile text can be one run. */
static void sort_marks(utf8proc_int32_t *marks, size_t count, utf8proc_int32_t *spare)
{
    size_t starts[CLASSES + 1] = {0};
    bool sorted = true;
    for (size_t i = 0; i < count; i++) {
        starts[class_of(marks[i]) + 1]++;
        if (i > 0 && class_of(marks[i]) < class_of(marks[i - 1])) sorted = false;
    }
    if (sorted) return;
    for (size_t class = 0; class < CLASSES; class ++)
        starts[class + 1] += starts[class];
    for (size_t i = 0; i < count; i++)
        spare[starts[class_of(marks[i])]++] = marks[i];
    memcpy(marks, spare, count * sizeof *marks);
}

static void order_canonically(utf8proc_int32_t *points, size_t count, utf8proc_int32_t *spare)
{
    for (size_t at = 0; at < count;) {
        size_t end = at;
        while (end < count && class_of(points[end]) != 0)
            end++;
        if (end - at > 1) sort_marks(points + at, end - at, spare);
        at = end + 1;
    }
}

/* Most code points of a decomposed character for each byte of it. The longest decomposition has 18
 * code points; its character, U+FDFA, has 3 bytes. */
#define POINTS_PER_BYTE_MAX 6

static bool append_points(const utf8proc_int32_t *points, size_t count, struct mr_buffer *out)
{
    for (size_t i = 0; i < count; i++) {
        char *place = mr_buffer_reserve(out, 4);
        if (!place) return false;
        mr_buffer_commit(out, mr_utf8_put(place, (uint32_t)points[i]));
    }
    return true;
}

/* The state of one call of mr_unicode_normalize. */
struct normalization {
    /* points: decomposed code points since the last inert character (see is_inert) */
    utf8proc_int32_t *points, *spare;
    size_t count, points_max;
    enum mr_normal_form form;
    struct mr_buffer *out;
};

static void decompose(struct normalization *n, uint32_t code_point)
{
    unsigned options = UTF8PROC_DECOMPOSE;
    if (n->form == MR_NFKC || n->form == MR_NFKD) options |= UTF8PROC_COMPAT;
    int boundary = 0;
    utf8proc_ssize_t made = utf8proc_decompose_char(
        (utf8proc_int32_t)code_point, n->points + n->count,
        (utf8proc_ssize_t)(n->points_max - n->count), (utf8proc_option_t)options, &boundary);
    n->count += made > 0 ? (size_t)made : 0;
}

static bool flush(struct normalization *n)
{
    order_canonically(n->points, n->count, n->spare);
    if (n->form == MR_NFC || n->form == MR_NFKC)
        n->count = (size_t)utf8proc_normalize_utf32(n->points, (utf8proc_ssize_t)n->count,
                                                    UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    bool fits = append_points(n->points, n->count, n->out);
    n->count = 0;
    return fits;
}

static bool normalize_all(struct normalization *n, struct mr_text text)
{
    for (size_t at = 0; at < text.length;) {
        struct mr_utf8_step step = mr_utf8_next(text, at);
        struct mr_text same = {text.bytes + at, step.length};
        at += step.length;
        if (!is_inert(step.code_point))
            decompose(n, step.code_point);
        else if (!flush(n) || !mr_buffer_append(n->out, same))
            return false;
    }
    return flush(n);
}

enum mr_status mr_unicode_normalize(struct mr_text text, enum mr_normal_form form,
                                    struct mr_buffer *out, struct mr_error *err)
{
    struct normalization n = {
        .points_max = text.length * POINTS_PER_BYTE_MAX + 1, .form = form, .out = out};
    n.points = malloc(n.points_max * sizeof *n.points);
    n.spare = malloc(n.points_max * sizeof *n.spare);
    bool fits = n.points && n.spare && normalize_all(&n, text);
    free(n.spare);
    free(n.points);
    if (fits) return MR_OK;
    return mr_fail(err, MR_NOMEM, "no memory to normalize %zu bytes", text.length);
}

size_t mr_unicode_cluster_end(struct mr_text text, size_t at)
{
    struct mr_utf8_step left = mr_utf8_next(text, at);
    utf8proc_int32_t state = 0;
    size_t end = at + left.length;
    while (end < text.length) {
        struct mr_utf8_step right = mr_utf8_next(text, end);
        if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)left.code_point,
                                             (utf8proc_int32_t)right.code_point, &state))
            break;
        end += right.length;
        left = right;
    }
    return end;
}
