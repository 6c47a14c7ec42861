#include "codec/text.h"

#include <string.h>

bool mr_text_equal(struct mr_text a, struct mr_text b)
{
    return a.length == b.length && (a.length == 0 || memcmp(a.bytes, b.bytes, a.length) == 0);
}

bool mr_text_is(struct mr_text text, const char *word)
{
    return mr_text_equal(text, (struct mr_text){word, strlen(word)});
}

struct mr_text mr_text_part(struct mr_text text, size_t start, size_t end)
{
    return (struct mr_text){text.bytes + start, end - start};
}

bool mr_text_is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

int mr_text_hex_value(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}
