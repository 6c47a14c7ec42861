#include "kvcache/remote/redis_slots.h"

#include <string.h>

static uint16_t crc16(const char *bytes, size_t length)
{
    uint32_t crc = 0;
    for (size_t i = 0; i < length; i++) {
        crc ^= (uint32_t)(unsigned char)bytes[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 0x8000u ? crc << 1 ^ 0x1021u : crc << 1;
    }
    return (uint16_t)crc;
}

uint32_t mr_redis_slot(const char *key, size_t length)
{
    const char *open = memchr(key, '{', length);
    if (open) {
        size_t rest = length - (size_t)(open + 1 - key);
        const char *close = memchr(open + 1, '}', rest);
        if (close && close > open + 1) return crc16(open + 1, (size_t)(close - open - 1)) & 0x3fffu;
    }
    return crc16(key, length) & 0x3fffu;
}

static bool parse_number(const char **text, const char *end, uint32_t max, uint32_t *out)
{
    uint32_t value = 0;
    const char *first = *text;
    while (*text < end && **text >= '0' && **text <= '9' && *text - first < 6)
        value = value * 10 + (uint32_t)(*(*text)++ - '0');
    *out = value;
    return *text > first && value <= max;
}

bool mr_redis_redirect_parse(const char *text, size_t length, struct mr_redis_redirect *out)
{
    const char *end = text + length, *colon = NULL;
    *out = (struct mr_redis_redirect){0};
    out->ask = length > 4 && memcmp(text, "ASK ", 4) == 0;
    if (!out->ask && (length <= 6 || memcmp(text, "MOVED ", 6) != 0)) return false;
    text += out->ask ? 4 : 6;
    uint32_t port;
    if (!parse_number(&text, end, MR_REDIS_SLOTS - 1, &out->slot) || text == end || *text++ != ' ')
        return false;
    for (const char *at = text; at < end; at++)
        /* use the last colon, because an IPv6 address contains colons */
        if (*at == ':') colon = at;
    if (!colon) return false;
    out->host = text;
    out->host_length = (size_t)(colon - text);
    text = colon + 1;
    if (!parse_number(&text, end, 65535, &port) || port == 0) return false;
    out->port = (uint16_t)port;
    return text == end;
}
