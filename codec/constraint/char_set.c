#include "codec/constraint/char_set.h"

#include "codec/unicode/unicode.h"

#include <stdlib.h>
#include <string.h>

bool mr_char_set_add(struct mr_char_set *set, uint32_t low, uint32_t high)
{
    if (set->count == MR_CHAR_SET_RANGES_MAX) return false;
    set->ranges[set->count++] = (struct mr_char_range){low, high};
    return true;
}

static int compare(const void *one, const void *other)
{
    uint32_t a = ((const struct mr_char_range *)one)->low;
    uint32_t b = ((const struct mr_char_range *)other)->low;
    return (a > b) - (a < b);
}

bool mr_char_set_invert(struct mr_char_set *set)
{
    struct mr_char_set inverse = {.count = 0};
    uint32_t next = 0;
    bool fits = true;
    qsort(set->ranges, set->count, sizeof *set->ranges, compare);
    for (uint32_t i = 0; i < set->count; i++) {
        if (set->ranges[i].low > next)
            fits &= mr_char_set_add(&inverse, next, set->ranges[i].low - 1);
        if (set->ranges[i].high >= next) next = set->ranges[i].high + 1;
    }
    if (next <= MR_CODE_POINT_MAX) fits &= mr_char_set_add(&inverse, next, MR_CODE_POINT_MAX);
    *set = inverse;
    return fits;
}

struct named {
    char name;
    bool narrow;
    uint32_t count;
    struct mr_char_range ranges[12];
};

/* Opposites are inverted: the narrow \D is the inverse of the wide \d. The wide \d and \w include
 * every character above ASCII, because Python's sets have several hundred ranges there. */
static const struct named names[] = {
    {'d', true, 1, {{'0', '9'}}},
    {'d', false, 2, {{'0', '9'}, {0x80, MR_CODE_POINT_MAX}}},
    {'w', true, 4, {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}},
    {'w', false, 5, {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}, {0x80, MR_CODE_POINT_MAX}}},
    {'s',
     true,
     9,
     {{'\t', '\r'},
      {' ', ' '},
      {0xa0, 0xa0},
      {0x1680, 0x1680},
      {0x2000, 0x200a},
      {0x2028, 0x2029},
      {0x202f, 0x202f},
      {0x205f, 0x205f},
      {0x3000, 0x3000}}},
    {'s',
     false,
     12,
     {{'\t', '\r'},
      {0x1c, ' '},
      {0x85, 0x85},
      {0xa0, 0xa0},
      {0x1680, 0x1680},
      {0x180e, 0x180e},
      {0x2000, 0x200a},
      {0x2028, 0x2029},
      {0x202f, 0x202f},
      {0x205f, 0x205f},
      {0x3000, 0x3000},
      {0xfeff, 0xfeff}}},
};

bool mr_char_set_add_named(struct mr_char_set *set, char name, bool narrow)
{
    const bool opposite = name == 'D' || name == 'W' || name == 'S';
    const char base = opposite ? (char)(name - 'A' + 'a') : name;
    struct mr_char_set part = {.count = 0};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].name == base && names[i].narrow == (narrow != opposite))
            for (uint32_t r = 0; r < names[i].count; r++)
                mr_char_set_add(&part, names[i].ranges[r].low, names[i].ranges[r].high);
    if (opposite && !mr_char_set_invert(&part)) return false;
    for (uint32_t i = 0; i < part.count; i++)
        if (!mr_char_set_add(set, part.ranges[i].low, part.ranges[i].high)) return false;
    return true;
}

/* The categories of characters and their longer names in Unicode's PropertyValueAliases.txt. */
static const struct category {
    const char *letters, *name, *alias;
} categories[] = {{"L", "Letter", "L"},
                  {"Lu", "Uppercase_Letter", "Lu"},
                  {"Ll", "Lowercase_Letter", "Ll"},
                  {"Lt", "Titlecase_Letter", "Lt"},
                  {"Lm", "Modifier_Letter", "Lm"},
                  {"Lo", "Other_Letter", "Lo"},
                  {"M", "Mark", "Combining_Mark"},
                  {"Mn", "Nonspacing_Mark", "Mn"},
                  {"Mc", "Spacing_Mark", "Mc"},
                  {"Me", "Enclosing_Mark", "Me"},
                  {"N", "Number", "N"},
                  {"Nd", "Decimal_Number", "digit"},
                  {"Nl", "Letter_Number", "Nl"},
                  {"No", "Other_Number", "No"},
                  {"P", "Punctuation", "punct"},
                  {"Pc", "Connector_Punctuation", "Pc"},
                  {"Pd", "Dash_Punctuation", "Pd"},
                  {"Ps", "Open_Punctuation", "Ps"},
                  {"Pe", "Close_Punctuation", "Pe"},
                  {"Pi", "Initial_Punctuation", "Pi"},
                  {"Pf", "Final_Punctuation", "Pf"},
                  {"Po", "Other_Punctuation", "Po"},
                  {"S", "Symbol", "S"},
                  {"Sm", "Math_Symbol", "Sm"},
                  {"Sc", "Currency_Symbol", "Sc"},
                  {"Sk", "Modifier_Symbol", "Sk"},
                  {"So", "Other_Symbol", "So"},
                  {"Z", "Separator", "Z"},
                  {"Zs", "Space_Separator", "Zs"},
                  {"Zl", "Line_Separator", "Zl"},
                  {"Zp", "Paragraph_Separator", "Zp"},
                  {"Cc", "Control", "cntrl"},
                  {"Cf", "Format", "Cf"},
                  {"Co", "Private_Use", "Co"}};

/* The letters of a category by any of its names; NULL for another name. */
static const char *category_named(struct mr_text name)
{
    static const char *const prefixes[] = {"gc=", "General_Category="};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        const size_t length = strlen(prefixes[i]);
        if (name.length > length && memcmp(name.bytes, prefixes[i], length) == 0)
            name = mr_text_part(name, length, name.length);
    }
    for (size_t i = 0; i < sizeof categories / sizeof categories[0]; i++)
        if (mr_text_is(name, categories[i].letters) || mr_text_is(name, categories[i].name) ||
            mr_text_is(name, categories[i].alias))
            return categories[i].letters;
    return NULL;
}

bool mr_char_set_add_category(struct mr_char_set *set, struct mr_text name, bool opposite,
                              bool narrow)
{
    const char *letters = category_named(name);
    const size_t length = letters ? strlen(letters) : 0;
    uint32_t begin = UINT32_MAX;
    if (!letters) return false;
    for (uint32_t c = 0; c <= MR_CODE_POINT_MAX + 1; c++) {
        const bool is_character = c <= MR_CODE_POINT_MAX && (c < 0xd800 || c > 0xdfff);
        const char *category = is_character ? mr_unicode_category(c) : "Cs";
        bool is_in = is_character && (memcmp(category, letters, length) == 0) != opposite;
        if (strcmp(category, "Cn") == 0) is_in = !narrow;
        if (is_in && begin == UINT32_MAX) begin = c;
        if (is_in || begin == UINT32_MAX) continue;
        if (!mr_char_set_add(set, begin, c - 1)) return false;
        begin = UINT32_MAX;
    }
    return true;
}

const struct mr_expr *mr_char_set_expr(struct mr_expr_builder *builder,
                                       const struct mr_char_set *set, enum mr_spelling spelling)
{
    return mr_expr_class(builder, set->ranges, set->count, spelling);
}
