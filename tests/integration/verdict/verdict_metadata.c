/* Decodes the metadata of a commit. Format (worker/offsets/ledger_metadata.h): base64 of a magic
 * byte, since version 2 a time of eight bytes, since version 3 an instance of four bytes, a length
 * as varint, and a bitmap of that many bytes. The attempts after the bitmap are ignored here. */
#include "tests/integration/verdict/verdict_state.h"

#include <stdlib.h>
#include <string.h>

#define MAGIC             0xA3u
#define MAGIC_NO_INSTANCE 0xA2u
#define MAGIC_NO_TIME     0xA1u
#define TIME_BYTES        8u
#define INSTANCE_BYTES    4u

static int digit(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* The decoded bytes; NULL: text is not base64. */
static unsigned char *decode(struct mr_text text, size_t *length)
{
    unsigned char *bytes = verdict_memory(NULL, text.length);
    uint32_t bits = 0, held = 0;
    *length = 0;
    for (size_t i = 0; i < text.length && text.bytes[i] != '='; i++) {
        int value = digit(text.bytes[i]);
        if (value < 0) {
            free(bytes);
            return NULL;
        }
        bits = bits << 6 | (uint32_t)value;
        held += 6;
        if (held < 8) continue;
        held -= 8;
        bytes[(*length)++] = (unsigned char)(bits >> held);
    }
    return bytes;
}

bool verdict_metadata_bits(struct mr_text text, unsigned char **bits, size_t *bit_count)
{
    size_t length = 0, at = 1, size = 0;
    *bits = NULL;
    *bit_count = 0;
    if (text.length == 0) return true;
    unsigned char *bytes = decode(text, &length);
    bool ours = bytes && length > 1 && bytes[0] >= MAGIC_NO_TIME && bytes[0] <= MAGIC;
    if (ours && bytes[0] >= MAGIC_NO_INSTANCE) at += TIME_BYTES;
    if (ours && bytes[0] == MAGIC) at += INSTANCE_BYTES;
    for (unsigned shift = 0; ours && shift < 35; shift += 7) {
        if (at >= length) ours = false;
        if (!ours) break;
        size |= (size_t)(bytes[at] & 0x7F) << shift;
        if (!(bytes[at++] & 0x80)) break;
    }
    if (ours && (at > length || size > length - at)) ours = false;
    if (ours && size > 0) {
        *bits = verdict_memory(NULL, size);
        memcpy(*bits, bytes + at, size);
        *bit_count = size * 8;
    }
    free(bytes);
    return ours;
}
