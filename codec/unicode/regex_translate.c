#include "codec/unicode/regex_translate.h"

#include "codec/unicode/unicode_tables.h"
#include "codec/utf8.h"

#include <stdio.h>
#include <string.h>

/* The characters with property White_Space. The \s of PCRE2 has U+180E in addition. */
#define SPACE                                                                                      \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}"    \
    "\\x{205f}\\x{3000}"

struct translator {
    struct mr_text in;
    size_t at;
    struct mr_buffer *out;
    struct mr_error *err;
    bool in_class;
};

static enum mr_status refuse(struct translator *t, const char *what)
{
    return mr_fail(t->err, MR_BAD_FILE, "pattern has %s at byte %zu, which is not supported", what,
                   t->at);
}

static enum mr_status put(struct translator *t, const char *text)
{
    if (mr_buffer_append(t->out, (struct mr_text){text, strlen(text)})) return MR_OK;
    return mr_fail(t->err, MR_NOMEM, "no memory to translate a pattern");
}

static enum mr_status copy(struct translator *t, size_t length)
{
    struct mr_text part = {t->in.bytes + t->at, length};
    t->at += length;
    if (mr_buffer_append(t->out, part)) return MR_OK;
    return mr_fail(t->err, MR_NOMEM, "no memory to translate a pattern");
}

static bool starts(const struct translator *t, const char *text)
{
    size_t length = strlen(text);
    return t->in.length - t->at >= length && memcmp(t->in.bytes + t->at, text, length) == 0;
}

/* Appends the characters assigned after Unicode 14 that are in this general category ("L" or
 * "Lu"). */
static enum mr_status put_added(struct translator *t, struct mr_text category)
{
    const struct mr_unicode_range *ranges = mr_unicode_added.ranges;
    enum mr_status status = MR_OK;
    for (size_t i = 0; i < mr_unicode_added.count && status == MR_OK; i++) {
        if (ranges[i].major != category.bytes[0]) continue;
        if (category.length == 2 && ranges[i].minor != category.bytes[1]) continue;
        char text[40];
        snprintf(text, sizeof text, "\\x{%x}-\\x{%x}", ranges[i].first, ranges[i].last);
        status = put(t, text);
    }
    return status;
}

static bool is_category(struct mr_text name)
{
    if (name.length == 0 || name.length > 2 || !memchr("LMNPSZ", name.bytes[0], 6)) return false;
    return name.length == 1 || memchr("ulmtoncdesifkp", name.bytes[1], 14) != NULL;
}

static bool is_script(struct mr_text name)
{
    static const char *const scripts[] = {"Han",      "Hiragana", "Katakana", "Hangul",
                                          "Latin",    "Greek",    "Cyrillic", "Arabic",
                                          "Hebrew",   "Thai",     "Bengali",  "Devanagari",
                                          "Armenian", "Georgian", "Ethiopic"};
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++)
        if (mr_text_is(name, scripts[i])) return true;
    return false;
}

/* Translates \p{..} or \P{..}; t->at is the backslash. */
static enum mr_status translate_property(struct translator *t)
{
    bool negated = t->in.bytes[t->at + 1] == 'P';
    const char *open = t->in.bytes + t->at + 2;
    const char *close = memchr(open, '}', t->in.length - t->at - 2);
    if (!starts(t, "\\p{") && !starts(t, "\\P{")) return refuse(t, "a property without braces");
    if (!close) return refuse(t, "an unclosed property");
    struct mr_text name = {open + 1, (size_t)(close - open - 1)};
    if (negated && t->in_class) return refuse(t, "a negated property inside a class");
    bool script = is_script(name);
    if (!script && !is_category(name)) return refuse(t, "an unknown property");
    char text[40];
    snprintf(text, sizeof text, script ? "\\p{sc:%.*s}" : "\\p{%.*s}", (int)name.length,
             name.bytes);
    t->at += name.length + 4;
    enum mr_status status = MR_OK;
    if (!t->in_class) status = put(t, negated ? "[^" : "[");
    if (status == MR_OK) status = put(t, text);
    if (status == MR_OK && !script) status = put_added(t, name);
    if (status == MR_OK && !t->in_class) status = put(t, "]");
    return status;
}

/* Translates \s, \S, \w or \W; t->at is the backslash. */
static enum mr_status translate_shorthand(struct translator *t, char letter)
{
    bool negated = letter == 'S' || letter == 'W';
    if (negated && t->in_class) return refuse(t, "\\S or \\W inside a class");
    t->at += 2;
    enum mr_status status = MR_OK;
    if (!t->in_class) status = put(t, negated ? "[^" : "[");
    bool space = letter == 's' || letter == 'S';
    if (status == MR_OK)
        status = put(t, space ? SPACE : "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}");
    static const char *const added[] = {"L", "M", "Nd"};
    for (size_t i = 0; i < 3 && !space && status == MR_OK; i++)
        status = put_added(t, (struct mr_text){added[i], strlen(added[i])});
    if (status == MR_OK && !t->in_class) status = put(t, "]");
    return status;
}

static enum mr_status translate_escape(struct translator *t)
{
    if (t->at + 1 >= t->in.length) return refuse(t, "a lone backslash");
    char c = t->in.bytes[t->at + 1];
    if (c == 'p' || c == 'P') return translate_property(t);
    if (c == 's' || c == 'S' || c == 'w' || c == 'W') return translate_shorthand(t, c);
    if (c == 'v') {
        t->at += 2;
        return put(t, "\\x0b");
    }
    if (c == 'u') {
        static const char hex[] = "0123456789abcdefABCDEF";
        if (t->in.length - t->at < 6) return refuse(t, "a short \\u");
        for (size_t i = 2; i < 6; i++)
            if (!memchr(hex, t->in.bytes[t->at + i], sizeof hex - 1)) return refuse(t, "a bad \\u");
        char text[16];
        snprintf(text, sizeof text, "\\x{%.4s}", t->in.bytes + t->at + 2);
        t->at += 6;
        return put(t, text);
    }
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    bool digit = c >= '0' && c <= '9';
    bool known = c && (strchr("rntfaexdD", c) || (!t->in_class && strchr("Az", c)));
    if (digit || (letter && !known)) return refuse(t, "an unknown escape");
    struct mr_text rest = {t->in.bytes + t->at + 1, t->in.length - t->at - 1};
    return copy(t, 1 + (size_t)mr_utf8_next(rest, 0).length);
}

static enum mr_status translate_group(struct translator *t)
{
    static const char *const known[] = {"(?i:", "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (starts(t, known[i])) return copy(t, strlen(known[i]));
    /* Options without a colon, such as (?i), apply to the end of the group in one engine and end at
     * the next | in the other. At the start of the pattern both engines agree. */
    if (t->at == 0 && starts(t, "(?i)")) return copy(t, 4);
    if (starts(t, "(?") || starts(t, "(*")) return refuse(t, "an unknown group");
    return copy(t, 1);
}

/* Translates {n,m}. {n,m}+ is a possessive interval in PCRE2 and a repeated interval in
 * Oniguruma. */
static enum mr_status translate_interval(struct translator *t)
{
    const char *open = t->in.bytes + t->at;
    const char *close = memchr(open, '}', t->in.length - t->at);
    size_t length = close ? (size_t)(close - open) + 1 : 1;
    for (size_t i = 1; i + 1 < length; i++)
        if (!memchr("0123456789,", open[i], 11)) return refuse(t, "a malformed interval");
    if (!close || length == 2 || open[1] == ',') return refuse(t, "a malformed interval");
    if (t->at + length < t->in.length && open[length] == '+')
        return refuse(t, "a plus after an interval");
    return copy(t, length);
}

static enum mr_status translate_in_class(struct translator *t)
{
    if (starts(t, "&&")) return refuse(t, "a class intersection");
    if (starts(t, "[")) return refuse(t, "a class inside a class");
    t->in_class = !starts(t, "]");
    return copy(t, 1);
}

static enum mr_status translate_next(struct translator *t)
{
    char c = t->in.bytes[t->at];
    if (c == '\\') return translate_escape(t);
    if (t->in_class) return translate_in_class(t);
    if (c == '(') return translate_group(t);
    if (c == '{') return translate_interval(t);
    if (c != '[') return copy(t, 1);
    t->in_class = true;
    size_t length = starts(t, "[^") ? 2 : 1;
    if (t->in.length - t->at > length && t->in.bytes[t->at + length] == ']')
        return refuse(t, "a class that starts with ]");
    return copy(t, length);
}

enum mr_status mr_regex_translate(struct mr_text pattern, struct mr_buffer *out,
                                  struct mr_error *err)
{
    struct translator t = {.in = pattern, .out = out, .err = err};
    if (!mr_utf8_is_valid(pattern)) return refuse(&t, "bytes that are not UTF-8");
    enum mr_status status = MR_OK;
    while (t.at < pattern.length && status == MR_OK)
        status = translate_next(&t);
    if (status == MR_OK && t.in_class) return refuse(&t, "an unclosed class");
    return status;
}
