#include "codec/base64.h"

#include "codec/check.h"

#include <openssl/evp.h>
#include <string.h>

#define LENGTH_MAX ((size_t)1 << 30)

void mr_base64_encode(const unsigned char *bytes, size_t length, char *out)
{
    MR_ASSERT(length < LENGTH_MAX);
    out[0] = '\0';
    if (length > 0) EVP_EncodeBlock((unsigned char *)out, bytes, (int)length);
}

static size_t padding_of(const char *group)
{
    if (group[3] != '=') return 0;
    return group[2] == '=' ? 2 : 1;
}

/* True for a character of the base64 alphabet. The library skips white space and accepts '='
 * anywhere: both are errors in this decoder. */
static bool is_alphabet(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' ||
           c == '/';
}

/* Decodes four characters at a time, because the library writes the zero bytes of the padding as
 * well. */
bool mr_base64_decode(struct mr_text text, unsigned char *bytes, size_t bytes_max, size_t *length)
{
    *length = 0;
    if (text.length % 4 != 0) return false;
    for (size_t at = 0; at < text.length; at += 4) {
        const char *group = text.bytes + at;
        size_t padding = at + 4 == text.length ? padding_of(group) : 0;
        for (size_t i = 0; i < 4 - padding; i++)
            if (!is_alphabet(group[i])) return false;
        unsigned char decoded[3];
        size_t count = sizeof decoded - padding;
        if (EVP_DecodeBlock(decoded, (const unsigned char *)group, 4) != 3) return false;
        if (count > bytes_max - *length) return false;
        memcpy(bytes + *length, decoded, count);
        *length += count;
    }
    return true;
}
