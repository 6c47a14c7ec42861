#include "worker/trace/trace_context.h"

#include "codec/sha256.h"

#include <string.h>

/* "00-", trace id, "-", parent id, "-", flags */
#define HEADER_BYTES ((size_t)55)
#define TRACE_AT     ((size_t)3)
#define PARENT_AT    ((size_t)36)
#define FLAGS_AT     ((size_t)53)
#define FLAG_SAMPLED 1u

/* ---- the header ---- */

/* Reads `count` bytes of lower-case hexadecimal digits; false: another character. */
static bool read_hex(unsigned char *out, const char *digits, size_t count)
{
    for (size_t i = 0; i < 2 * count; i++) {
        char c = digits[i];
        if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f')) return false;
        unsigned value = (unsigned)mr_text_hex_value(c);
        out[i / 2] = (unsigned char)(i % 2 == 0 ? value << 4 : out[i / 2] | value);
    }
    return true;
}

static bool is_zero(const unsigned char *bytes, size_t count)
{
    unsigned char any = 0;
    for (size_t i = 0; i < count; i++)
        any |= bytes[i];
    return any == 0;
}

bool mr_trace_context_parse(struct mr_trace_context *out, struct mr_text header)
{
    struct mr_trace_context read = {.has_parent = true};
    unsigned char version, flags;
    const char *at = header.bytes;
    if (header.length < HEADER_BYTES || at[2] != '-' || at[PARENT_AT - 1] != '-' ||
        at[FLAGS_AT - 1] != '-')
        return false;
    if (!read_hex(&version, at, 1) || !read_hex(&flags, at + FLAGS_AT, 1) || version == 0xff)
        return false;
    /* a later version may append fields */
    if (header.length > HEADER_BYTES && (version == 0 || at[HEADER_BYTES] != '-')) return false;
    if (!read_hex(read.trace_id, at + TRACE_AT, MR_TRACE_ID_BYTES) ||
        !read_hex(read.parent_id, at + PARENT_AT, MR_SPAN_ID_BYTES))
        return false;
    if (is_zero(read.trace_id, MR_TRACE_ID_BYTES) || is_zero(read.parent_id, MR_SPAN_ID_BYTES))
        return false;
    read.sampled = (flags & FLAG_SAMPLED) != 0;
    *out = read;
    return true;
}

/* ---- ids ---- */

static void add_place(struct mr_sha256 *hash, const struct mr_trace_place *place)
{
    mr_sha256_add_field(hash, "topic", place->topic, strlen(place->topic));
    mr_sha256_add_field(hash, "partition", &place->partition, sizeof place->partition);
    mr_sha256_add_field(hash, "offset", &place->offset, sizeof place->offset);
}

/* Samples by the last 8 bytes of the trace id as a number between 0 and 1, as OpenTelemetry's
 * samplers do. */
static bool is_sampled(const unsigned char *trace_id, double ratio)
{
    uint64_t number = 0;
    for (unsigned i = 8; i < MR_TRACE_ID_BYTES; i++)
        number = number << 8 | trace_id[i];
    return (double)(number >> 1) < ratio * 0x1p63;
}

void mr_trace_context_make(struct mr_trace_context *out, const struct mr_trace_place *place,
                           double ratio)
{
    struct mr_sha256 hash;
    unsigned char digest[MR_SHA256_BYTES];
    mr_sha256_begin(&hash);
    add_place(&hash, place);
    /* so that a recreated topic gets different ids */
    mr_sha256_add_field(&hash, "timestamp", &place->timestamp_ms, sizeof place->timestamp_ms);
    mr_sha256_end(&hash, digest);
    *out = (struct mr_trace_context){.has_parent = false};
    memcpy(out->trace_id, digest, sizeof out->trace_id);
    out->sampled = is_sampled(out->trace_id, ratio);
}

void mr_trace_span_id(const struct mr_trace_context *context, const struct mr_trace_place *place,
                      uint32_t attempt, uint32_t number, unsigned char id[MR_SPAN_ID_BYTES])
{
    struct mr_sha256 hash;
    unsigned char digest[MR_SHA256_BYTES];
    mr_sha256_begin(&hash);
    mr_sha256_add_field(&hash, "trace", context->trace_id, sizeof context->trace_id);
    add_place(&hash, place);
    mr_sha256_add_field(&hash, "attempt", &attempt, sizeof attempt);
    mr_sha256_add_field(&hash, "span", &number, sizeof number);
    mr_sha256_end(&hash, digest);
    memcpy(id, digest, MR_SPAN_ID_BYTES);
}

void mr_trace_context_hex(const struct mr_trace_context *context, char out[MR_TRACE_HEX_BYTES])
{
    mr_sha256_hex(context->trace_id, MR_TRACE_ID_BYTES, out);
    out[MR_TRACE_HEX_BYTES - 1] = '\0';
}
