#include "codec/text.h"

#include <string.h>
#include <strings.h>

bool mr_text_equal(struct mr_text a, struct mr_text b)
{
    return a.length == b.length && (a.length == 0 || memcmp(a.bytes, b.bytes, a.length) == 0);
}

bool mr_text_is(struct mr_text text, const char *word)
{
    return mr_text_equal(text, (struct mr_text){word, strlen(word)});
}

bool mr_text_is_any_case(struct mr_text text, const char *word)
{
    return text.length == strlen(word) &&
           (text.length == 0 || strncasecmp(text.bytes, word, text.length) == 0);
}

struct mr_text mr_text_part(struct mr_text text, size_t start, size_t end)
{
    return (struct mr_text){text.bytes + start, end - start};
}

bool mr_text_is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

struct mr_text mr_text_trim(struct mr_text text)
{
    while (text.length > 0 && mr_text_is_space(text.bytes[0]))
        text = mr_text_part(text, 1, text.length);
    while (text.length > 0 && mr_text_is_space(text.bytes[text.length - 1]))
        text.length--;
    return text;
}

int mr_text_hex_value(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}
