#include "worker/base/printable.h"

#include "codec/utf8.h"

#include <inttypes.h>
#include <string.h>

static bool is_control(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c <= 0x9f) || (c >= 0x202a && c <= 0x202e) ||
           (c >= 0x2066 && c <= 0x2069);
}

static void print_control(FILE *out, uint32_t c)
{
    static const char letters[] = {'n', 't', 'r'}, characters[] = {'\n', '\t', '\r'};
    for (size_t i = 0; i < sizeof letters; i++)
        if (c == (unsigned char)characters[i]) {
            fprintf(out, "\\%c", letters[i]);
            return;
        }
    fprintf(out, c < 0x80 ? "\\x%02" PRIx32 : "\\u%04" PRIx32, c);
}

void mr_print_escaped(FILE *out, struct mr_text text, const char *kept)
{
    for (size_t at = 0; at < text.length;) {
        struct mr_utf8_step step = mr_utf8_next(text, at);
        char byte = text.bytes[at];
        if (!step.valid)
            for (size_t i = 0; i < step.length; i++)
                fprintf(out, "\\x%02x", (unsigned char)text.bytes[at + i]);
        else if (is_control(step.code_point) && !(byte != '\0' && strchr(kept, byte)))
            print_control(out, step.code_point);
        else
            fwrite(text.bytes + at, 1, step.length, out);
        at += step.length;
    }
}

void mr_print_escaped_json(FILE *out, struct mr_text json)
{
    for (size_t at = 0; at < json.length;) {
        struct mr_utf8_step step = mr_utf8_next(json, at);
        if (step.valid && step.code_point >= 0x20 && is_control(step.code_point))
            fprintf(out, "\\u%04" PRIx32, step.code_point);
        else
            fwrite(json.bytes + at, 1, step.length, out);
        at += step.length;
    }
}

void mr_make_printable(char *text)
{
    struct mr_text all = {text, strlen(text)};
    for (size_t at = 0; at < all.length;) {
        struct mr_utf8_step step = mr_utf8_next(all, at);
        if (!step.valid || is_control(step.code_point)) memset(text + at, '?', step.length);
        at += step.length;
    }
}
