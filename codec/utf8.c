#include "codec/utf8.h"

#include "codec/check.h"

/* Length in bytes of the UTF-8 character that starts with the byte `lead`, 0 for a byte that cannot
 * be the first. */
static uint8_t length_of(unsigned char lead)
{
    if (lead < 0x80) return 1;
    if (lead < 0xc2) return 0;
    if (lead < 0xe0) return 2;
    if (lead < 0xf0) return 3;
    return lead < 0xf5 ? 4 : 0;
}

/* True when `second` may follow `lead`. Only the range of the second byte of a character depends on
 * its first byte. */
static bool second_fits(unsigned char lead, unsigned char second)
{
    unsigned char low = 0x80, high = 0xbf;
    if (lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
    return second >= low && second <= high;
}

/* How many of the next bytes fit a valid character of `length` bytes; the first byte must fit. */
static uint8_t count_valid(const unsigned char *bytes, size_t left, uint8_t length)
{
    uint8_t valid = 1;
    while (valid < length && valid < left) {
        unsigned char c = bytes[valid];
        if (valid == 1 ? !second_fits(bytes[0], c) : (c & 0xc0) != 0x80) break;
        valid++;
    }
    return valid;
}

struct mr_utf8_step mr_utf8_next(struct mr_text text, size_t at)
{
    MR_ASSERT(at < text.length);
    const unsigned char *bytes = (const unsigned char *)text.bytes + at;
    uint8_t length = length_of(bytes[0]);
    if (length == 1) return (struct mr_utf8_step){1, true, bytes[0]};
    if (length == 0) return (struct mr_utf8_step){1, false, 0xfffd};
    uint8_t valid = count_valid(bytes, text.length - at, length);
    if (valid < length) return (struct mr_utf8_step){valid, false, 0xfffd};
    uint32_t code_point = bytes[0] & (0x7fu >> length);
    for (uint8_t i = 1; i < length; i++)
        code_point = code_point << 6 | (bytes[i] & 0x3fu);
    return (struct mr_utf8_step){length, true, code_point};
}

bool mr_utf8_is_unfinished(struct mr_text text, size_t at)
{
    MR_ASSERT(at < text.length);
    const unsigned char *bytes = (const unsigned char *)text.bytes + at;
    uint8_t length = length_of(bytes[0]);
    size_t left = text.length - at;
    return left < length && count_valid(bytes, left, length) == left;
}

bool mr_utf8_is_start(char byte)
{
    return ((unsigned char)byte & 0xc0) != 0x80;
}

size_t mr_utf8_previous(struct mr_text text, size_t at)
{
    do
        at--;
    while (at > 0 && !mr_utf8_is_start(text.bytes[at]));
    return at;
}

bool mr_utf8_is_valid(struct mr_text text)
{
    for (size_t at = 0; at < text.length;) {
        struct mr_utf8_step step = mr_utf8_next(text, at);
        if (!step.valid) return false;
        at += step.length;
    }
    return true;
}

size_t mr_utf8_put(char out[4], uint32_t code_point)
{
    MR_ASSERT(code_point < 0x110000 && (code_point < 0xd800 || code_point > 0xdfff));
    unsigned char *bytes = (unsigned char *)out;
    if (code_point < 0x80) {
        bytes[0] = (unsigned char)code_point;
        return 1;
    }
    size_t length = code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
    for (size_t i = length; i-- > 1; code_point >>= 6)
        bytes[i] = (unsigned char)(0x80 | (code_point & 0x3f));
    static const unsigned char leads[5] = {0, 0, 0xc0, 0xe0, 0xf0};
    bytes[0] = (unsigned char)(leads[length] | code_point);
    return length;
}
