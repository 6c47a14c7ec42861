#include "kvcache/remote/redis_url.h"

#include "codec/check.h"
#include "codec/text.h"

#include <ctype.h>
#include <string.h>

#define DATABASE_MAX 1000000u

static enum mr_status bad(struct mr_error *err, const char *what)
{
    return mr_fail(err, MR_BAD_CONFIG, "redis URL: %s", what);
}

/* Decodes %XX; false when the text does not fit into out, or a %XX is invalid or NUL. */
static bool decode(const char *text, size_t length, char *out, size_t out_bytes)
{
    size_t used = 0;
    for (size_t i = 0; i < length; i++) {
        char byte = text[i];
        if (byte == '%') {
            int high = i + 2 < length ? mr_text_hex_value(text[i + 1]) : -1;
            int low = high >= 0 ? mr_text_hex_value(text[i + 2]) : -1;
            if (low < 0) return false;
            byte = (char)(high * 16 + low);
            i += 2;
        }
        if (byte == '\0' || used + 1 >= out_bytes) return false;
        out[used++] = byte;
    }
    out[used] = '\0';
    return true;
}

static bool parse_number(const char *text, size_t length, uint32_t max, uint32_t *out)
{
    uint64_t value = 0;
    if (length == 0 || length > 9) return false;
    for (size_t i = 0; i < length; i++) {
        if (!isdigit((unsigned char)text[i])) return false;
        value = value * 10 + (uint64_t)(text[i] - '0');
    }
    *out = (uint32_t)value;
    return value <= max;
}

/* Parses "USER:PASSWORD@" at the front of the URL. The password ends at the last @ before the path,
 * because it may contain an @. */
static enum mr_status take_user(struct mr_redis_url *url, const char **text, size_t span,
                                struct mr_error *err)
{
    size_t at = span;
    while (at > 0 && (*text)[at - 1] != '@')
        at--;
    if (at == 0) return MR_OK;
    const char *colon = memchr(*text, ':', at - 1);
    size_t user = colon ? (size_t)(colon - *text) : at - 1;
    if (!decode(*text, user, url->user, sizeof url->user))
        return bad(err, "the user is too long or has an invalid %XX");
    if (colon && !decode(colon + 1, at - 2 - user, url->password, sizeof url->password))
        return bad(err, "the password is too long or has an invalid %XX");
    *text += at;
    return MR_OK;
}

static enum mr_status parse_host(struct mr_redis_url *url, const char *text, struct mr_error *err)
{
    size_t span = strcspn(text, "/");
    const char *rest = text + span, *end = rest;
    uint32_t port = 6379;
    enum mr_status status = take_user(url, &text, span, err);
    if (status != MR_OK) return status;
    const char *host = text, *colon = NULL;
    size_t length = 0;
    if (*text == '[') {
        host++;
        length = strcspn(host, "]");
        if (host + length >= end) return bad(err, "a bracket is not closed");
        if (host + length + 1 < end) colon = host + length + 1;
    } else {
        colon = memchr(text, ':', (size_t)(end - text));
        length = colon ? (size_t)(colon - text) : (size_t)(end - text);
    }
    if (colon && (*colon != ':' ||
                  !parse_number(colon + 1, (size_t)(end - colon - 1), 65535, &port) || port == 0))
        return bad(err, "the port is not a number from 1 to 65535");
    if (length == 0 || !decode(host, length, url->host, sizeof url->host))
        return bad(err, "the host is missing or too long");
    url->port = (uint16_t)port;
    if (*rest == '/' && rest[1] &&
        !parse_number(rest + 1, strlen(rest + 1), DATABASE_MAX, &url->database))
        return bad(err, "the database is not a number");
    return MR_OK;
}

static enum mr_status parse_socket(struct mr_redis_url *url, const char *text, struct mr_error *err)
{
    size_t first = strcspn(text, "/");
    size_t span = first > 0 ? first : 0; /* the part USER:PASSWORD@ ends before the path */
    enum mr_status status = take_user(url, &text, span, err);
    if (status != MR_OK) return status;
    size_t length = strcspn(text, "?");
    if (text[0] != '/' || !decode(text, length, url->path, sizeof url->path))
        return bad(err, "the socket's path is missing or too long");
    if (text[length] == '\0') return MR_OK;
    const char *query = text + length + 1;
    if (strncmp(query, "db=", 3) != 0 ||
        !parse_number(query + 3, strlen(query + 3), DATABASE_MAX, &url->database))
        return bad(err, "only ?db=NUMBER may follow the socket's path");
    return MR_OK;
}

enum mr_status mr_redis_url_parse(struct mr_redis_url *url, const char *text, struct mr_error *err)
{
    *url = (struct mr_redis_url){0};
    if (strncmp(text, "unix://", 7) == 0) return parse_socket(url, text + 7, err);
    if (strncmp(text, "redis://", 8) == 0) return parse_host(url, text + 8, err);
    if (strncmp(text, "rediss://", 9) != 0)
        return bad(err, "it must begin with redis://, rediss:// or unix://");
    url->tls = true;
    return parse_host(url, text + 9, err);
}

void mr_redis_url_set_password(struct mr_redis_url *url, const char *password)
{
    size_t length = strlen(password);
    MR_ASSERT(length < sizeof url->password);
    memcpy(url->password, password, length + 1);
}
