#include "codec/text.h"

#include <string.h>

bool mr_text_is(struct mr_text text, const char *word)
{
    return text.length == strlen(word) && memcmp(text.bytes, word, text.length) == 0;
}

bool mr_text_is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}
