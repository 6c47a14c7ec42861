#include "codec/tokenizer/byte_alphabet.h"

#include "codec/utf8.h"

/* True for a byte that is written as itself. False for the bytes without printable Latin-1
 * character: 0x00-0x20, 0x7f-0xa0, 0xad. */
static bool stands_for_itself(uint32_t c)
{
    return (c > 0x20 && c < 0x7f) || (c > 0xa0 && c != 0xad && c <= 0xff);
}

static uint32_t character_of(unsigned char byte)
{
    if (stands_for_itself(byte)) return byte;
    if (byte <= 0x20) return 0x100u + byte;
    if (byte <= 0xa0) return 0x121u + (byte - 0x7fu);
    return 0x143u;
}

int mr_byte_alphabet_byte(uint32_t c)
{
    if (stands_for_itself(c)) return (int)c;
    if (c < 0x100 || c > 0x143) return -1;
    if (c <= 0x120) return (int)(c - 0x100);
    return c <= 0x142 ? (int)(c - 0x121 + 0x7f) : 0xad;
}

size_t mr_byte_alphabet_put(char out[4], unsigned char byte)
{
    return mr_utf8_put(out, character_of(byte));
}

bool mr_byte_alphabet_encode(struct mr_text text, struct mr_buffer *out)
{
    for (size_t i = 0; i < text.length; i++) {
        char *place = mr_buffer_reserve(out, 4);
        if (!place) return false;
        mr_buffer_commit(out, mr_byte_alphabet_put(place, (unsigned char)text.bytes[i]));
    }
    return true;
}

bool mr_byte_alphabet_decode(struct mr_text text, struct mr_buffer *out, bool *inside)
{
    size_t before = out->length;
    *inside = true;
    for (size_t at = 0; at < text.length;) {
        struct mr_utf8_step step = mr_utf8_next(text, at);
        int byte = step.valid ? mr_byte_alphabet_byte(step.code_point) : -1;
        if (byte < 0) {
            out->length = before;
            *inside = false;
            return true;
        }
        if (!mr_buffer_append(out, (struct mr_text){(char[]){(char)byte}, 1})) return false;
        at += step.length;
    }
    return true;
}
