#include "worker/config/option_apply.h"

#include "codec/check.h"
#include "worker/config/option_value.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static size_t index_of(const struct mr_option *option)
{
    return (size_t)(option - mr_options);
}

static void *field_of(struct mr_config *config, const struct mr_option *option)
{
    return (char *)config + option->offset;
}

static const void *field_in(const struct mr_config *config, const struct mr_option *option)
{
    return (const char *)config + option->offset;
}

char *mr_option_copy(struct mr_config *config, const char *text, size_t length)
{
    return mr_arena_copy_text(config->store->arena, text, length);
}

/* ---- text to field ---- */

static enum mr_status refuse(const struct mr_option *option, const char *wanted,
                             struct mr_error *err)
{
    return mr_fail(err, MR_BAD_CONFIG, "%s takes %s", option->name, wanted);
}

static enum mr_status refuse_range(const struct mr_option *option, struct mr_error *err)
{
    char least[32], most[32];
    if (option->kind == MR_OPTION_BYTES) {
        mr_format_bytes((uint64_t)option->min, least, sizeof least);
        mr_format_bytes((uint64_t)option->max, most, sizeof most);
    } else if (option->kind == MR_OPTION_DURATION) {
        mr_format_duration((uint64_t)option->min, least, sizeof least);
        mr_format_duration((uint64_t)option->max, most, sizeof most);
    } else {
        snprintf(least, sizeof least, "%.15g", option->min);
        snprintf(most, sizeof most, "%.15g", option->max);
    }
    return mr_fail(err, MR_BAD_CONFIG, "%s must be between %s and %s", option->name, least, most);
}

/* Returns the index of text among the choices "a|b|c", or -1. */
static int choice_index(const char *choices, const char *text)
{
    size_t length = strlen(text);
    int index = 0;
    for (const char *at = choices;; index++) {
        size_t width = strcspn(at, "|");
        if (width == length && strncasecmp(at, text, length) == 0) return index;
        if (at[width] == '\0') return -1;
        at += width + 1;
    }
}

static bool in_range(const struct mr_option *option, double value)
{
    return value >= option->min && value <= option->max;
}

static enum mr_status apply_integer(struct mr_config *config, const struct mr_option *option,
                                    const char *text, struct mr_error *err)
{
    void *field = field_of(config, option);
    uint64_t big = 0;
    int64_t small = 0;
    bool is_signed = option->kind == MR_OPTION_I32;
    if (option->choices && strcmp(text, option->choices) == 0) {
        *(uint32_t *)field = MR_OPTION_AUTO;
        return MR_OK;
    }
    if (is_signed ? !mr_parse_int(text, &small) : !mr_parse_uint(text, &big))
        return refuse(option, is_signed ? "an integer" : "a whole number", err);
    if (!in_range(option, is_signed ? (double)small : (double)big))
        return refuse_range(option, err);
    if (is_signed)
        *(int32_t *)field = (int32_t)small;
    else if (option->kind == MR_OPTION_U32)
        *(uint32_t *)field = (uint32_t)big;
    else
        *(uint64_t *)field = big;
    return MR_OK;
}

static enum mr_status apply_measure(struct mr_config *config, const struct mr_option *option,
                                    const char *text, struct mr_error *err)
{
    uint64_t value;
    if (option->kind == MR_OPTION_BYTES && !mr_parse_bytes(text, &value))
        return refuse(option, "a size such as 512MiB", err);
    if (option->kind == MR_OPTION_DURATION && !mr_parse_duration(text, &value))
        return refuse(option, "a time such as 25s or 250ms", err);
    if (!in_range(option, (double)value)) return refuse_range(option, err);
    *(uint64_t *)field_of(config, option) = value;
    return MR_OK;
}

static enum mr_status apply_text(struct mr_config *config, const struct mr_option *option,
                                 const char *text, struct mr_error *err)
{
    if (option->choices && choice_index(option->choices, text) < 0)
        return refuse(option, option->choices, err);
    const char *copy = mr_option_copy(config, text, strlen(text));
    if (!copy) return mr_fail(err, MR_BAD_CONFIG, "%s: the values are too long", option->name);
    if (option->kind == MR_OPTION_TEXT) {
        *(const char **)field_of(config, option) = copy;
        return MR_OK;
    }
    struct mr_text_list *list = field_of(config, option);
    if (list->count == MR_LIST_MAX)
        return mr_fail(err, MR_BAD_CONFIG, "%s is given more than %zu times", option->name,
                       MR_LIST_MAX);
    list->values[list->count++] = copy;
    return MR_OK;
}

static enum mr_status apply_value(struct mr_config *config, const struct mr_option *option,
                                  const char *text, struct mr_error *err)
{
    void *field = field_of(config, option);
    switch (option->kind) {
    case MR_OPTION_BOOL:
        return mr_parse_bool(text, field) ? MR_OK : refuse(option, "true or false", err);
    case MR_OPTION_U32:
    case MR_OPTION_I32:
    case MR_OPTION_U64:
        return apply_integer(config, option, text, err);
    case MR_OPTION_DOUBLE:
        if (!mr_parse_double(text, field)) return refuse(option, "a number", err);
        return in_range(option, *(double *)field) ? MR_OK : refuse_range(option, err);
    case MR_OPTION_BYTES:
    case MR_OPTION_DURATION:
        return apply_measure(config, option, text, err);
    case MR_OPTION_CHOICE:
        if (choice_index(option->choices, text) < 0) return refuse(option, option->choices, err);
        *(unsigned *)field = (unsigned)choice_index(option->choices, text);
        return MR_OK;
    case MR_OPTION_TEXT:
    case MR_OPTION_LIST:
        return apply_text(config, option, text, err);
    }
    return MR_OK;
}

enum mr_status mr_option_apply(struct mr_config *config, const struct mr_option *option,
                               const char *text, enum mr_option_origin origin, struct mr_error *err)
{
    MR_ASSERT(mr_option_count <= MR_OPTION_COUNT_MAX);
    enum mr_option_origin *current = &config->store->origins[index_of(option)];
    if (origin < *current) return MR_OK;
    if (origin > *current && option->kind == MR_OPTION_LIST)
        ((struct mr_text_list *)field_of(config, option))->count = 0;
    *current = origin;
    return apply_value(config, option, text, err);
}

/* ---- field to text ---- */

enum mr_option_origin mr_option_origin(const struct mr_config *config,
                                       const struct mr_option *option)
{
    return config->store->origins[index_of(option)];
}

const char *mr_option_origin_name(enum mr_option_origin origin)
{
    static const char *const names[MR_ORIGIN_COUNT] = {"default", "file", "environment", "flag"};
    MR_ASSERT((unsigned)origin < MR_ORIGIN_COUNT);
    return names[origin];
}

size_t mr_option_value_count(const struct mr_config *config, const struct mr_option *option)
{
    if (option->kind != MR_OPTION_LIST) return 1;
    return ((const struct mr_text_list *)field_in(config, option))->count;
}

/* Writes scheme://user:password@host as scheme://user:***@host, for printing; false if text has
 * neither user nor password. */
static bool mask_url(const char *text, char *out, size_t out_bytes)
{
    const char *scheme = strstr(text, "://");
    const char *at = scheme ? strrchr(scheme, '@') : NULL;
    const char *colon = at ? memchr(scheme + 3, ':', (size_t)(at - scheme) - 3) : NULL;
    if (!at) return false;
    int head = (int)((colon ? colon + 1 : scheme + 3) - text);
    snprintf(out, out_bytes, "%.*s***%s", head, text, at);
    return true;
}

/* Writes a librdkafka property NAME=VALUE for printing, with the value masked if the name suggests
 * a secret. */
static bool mask_property(const char *text, char *out, size_t out_bytes)
{
    static const char *const words[] = {"password", "secret", ".key",  "jaas",
                                        "token",    "pem",    "oauth", "credential"};
    size_t name = strcspn(text, "=");
    if (text[name] != '=') return false;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const char *found = strcasestr(text, words[i]);
        if (!found || (size_t)(found - text) >= name) continue;
        snprintf(out, out_bytes, "%.*s=***", (int)name, text);
        return true;
    }
    return false;
}

static void text_value(const struct mr_option *option, const char *text, char *out,
                       size_t out_bytes)
{
    bool list = option->kind == MR_OPTION_LIST;
    if (list && mask_property(text, out, out_bytes)) return;
    if (mask_url(text, out, out_bytes)) return;
    snprintf(out, out_bytes, "%s", text);
}

static void choice_text(const char *choices, unsigned index, char *out, size_t out_bytes)
{
    for (; index > 0; index--)
        choices += strcspn(choices, "|") + 1;
    snprintf(out, out_bytes, "%.*s", (int)strcspn(choices, "|"), choices);
}

void mr_option_value_text(const struct mr_config *config, const struct mr_option *option,
                          size_t index, char *out, size_t out_bytes)
{
    const void *field = field_in(config, option);
    MR_ASSERT(index < mr_option_value_count(config, option));
    switch (option->kind) {
    case MR_OPTION_BOOL:
        snprintf(out, out_bytes, "%s", *(const bool *)field ? "true" : "false");
        return;
    case MR_OPTION_U32:
        if (option->choices && *(const uint32_t *)field == MR_OPTION_AUTO)
            snprintf(out, out_bytes, "%s", option->choices);
        else
            snprintf(out, out_bytes, "%" PRIu32, *(const uint32_t *)field);
        return;
    case MR_OPTION_I32:
        snprintf(out, out_bytes, "%" PRId32, *(const int32_t *)field);
        return;
    case MR_OPTION_U64:
        snprintf(out, out_bytes, "%" PRIu64, *(const uint64_t *)field);
        return;
    case MR_OPTION_DOUBLE:
        snprintf(out, out_bytes, "%.15g", *(const double *)field);
        return;
    case MR_OPTION_BYTES:
        mr_format_bytes(*(const uint64_t *)field, out, out_bytes);
        return;
    case MR_OPTION_DURATION:
        mr_format_duration(*(const uint64_t *)field, out, out_bytes);
        return;
    case MR_OPTION_CHOICE:
        choice_text(option->choices, *(const unsigned *)field, out, out_bytes);
        return;
    case MR_OPTION_TEXT:
        text_value(option, *(const char *const *)field, out, out_bytes);
        return;
    case MR_OPTION_LIST:
        text_value(option, ((const struct mr_text_list *)field)->values[index], out, out_bytes);
        return;
    }
}
