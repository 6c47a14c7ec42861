#include "worker/config/option_value.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit byte_units[] = {
    {"TiB", (uint64_t)1 << 40},
    {"GiB", (uint64_t)1 << 30},
    {"MiB", (uint64_t)1 << 20},
    {"KiB", (uint64_t)1 << 10},
    {"Ti", (uint64_t)1 << 40},
    {"Gi", (uint64_t)1 << 30},
    {"Mi", (uint64_t)1 << 20},
    {"Ki", (uint64_t)1 << 10},
    {"TB", 1000000000000u},
    {"GB", 1000000000u},
    {"MB", 1000000u},
    {"kB", 1000u},
    {"T", 1000000000000u},
    {"G", 1000000000u},
    {"M", 1000000u},
    {"k", 1000u},
    {"B", 1},
    {"", 1},
};

static const struct unit time_units[] = {
    {"h", 3600000000000u}, {"m", 60000000000u}, {"s", 1000000000u},
    {"ms", 1000000u},      {"us", 1000u},       {"ns", 1u},
};

/* Computes number * factor, truncated to an integer; false when the result does not fit into a
 * uint64_t. */
static bool scale(double number, uint64_t factor, uint64_t *out)
{
    double product = number * (double)factor;
    if (!(product >= 0 && product < 1.8e19)) return false;
    *out = (uint64_t)product;
    return true;
}

static bool parse_scaled(const char *text, const struct unit *units, size_t count, uint64_t *out)
{
    char *rest;
    if (!isdigit((unsigned char)text[0])) return false;
    errno = 0;
    double number = strtod(text, &rest);
    if (errno || !isfinite(number) || strpbrk(text, "xX") == text + 1) return false;
    while (*rest == ' ')
        rest++;
    for (size_t i = 0; i < count; i++)
        if (strcasecmp(rest, units[i].name) == 0) return scale(number, units[i].factor, out);
    return false;
}

bool mr_parse_bytes(const char *text, uint64_t *bytes)
{
    return parse_scaled(text, byte_units, sizeof byte_units / sizeof byte_units[0], bytes);
}

bool mr_parse_duration(const char *text, uint64_t *ns)
{
    if (strcmp(text, "0") == 0) {
        *ns = 0;
        return true;
    }
    return parse_scaled(text, time_units, sizeof time_units / sizeof time_units[0], ns);
}

bool mr_parse_bool(const char *text, bool *value)
{
    static const char *const words[2][4] = {{"false", "no", "off", "0"},
                                            {"true", "yes", "on", "1"}};
    for (unsigned truth = 0; truth < 2; truth++)
        for (size_t i = 0; i < 4; i++)
            if (strcasecmp(text, words[truth][i]) == 0) {
                *value = truth;
                return true;
            }
    return false;
}

bool mr_parse_int(const char *text, int64_t *value)
{
    char *rest;
    if (!isdigit((unsigned char)text[0]) && !(text[0] == '-' && isdigit((unsigned char)text[1])))
        return false;
    errno = 0;
    *value = strtoll(text, &rest, 10);
    return !errno && *rest == '\0';
}

bool mr_parse_uint(const char *text, uint64_t *value)
{
    char *rest;
    if (!isdigit((unsigned char)text[0])) return false;
    errno = 0;
    *value = strtoull(text, &rest, 10);
    return !errno && *rest == '\0';
}

bool mr_parse_double(const char *text, double *value)
{
    char *rest;
    if (text[0] == '\0' || strspn(text, "+-.0123456789eE") != strlen(text)) return false;
    *value = strtod(text, &rest);
    return *rest == '\0' && isfinite(*value);
}

static void format_scaled(uint64_t value, const struct unit *units, size_t count, char *out,
                          size_t out_bytes)
{
    for (size_t i = 0; i < count; i++) {
        if (value == 0 || value % units[i].factor) continue;
        snprintf(out, out_bytes, "%" PRIu64 "%s", value / units[i].factor, units[i].name);
        return;
    }
    snprintf(out, out_bytes, "%" PRIu64, value);
}

void mr_format_bytes(uint64_t bytes, char *out, size_t out_bytes)
{
    format_scaled(bytes, byte_units, 4, out, out_bytes);
}

void mr_format_duration(uint64_t ns, char *out, size_t out_bytes)
{
    format_scaled(ns, time_units, sizeof time_units / sizeof time_units[0], out, out_bytes);
}
