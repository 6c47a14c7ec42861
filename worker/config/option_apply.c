#include "worker/config/option_apply.h"

#include "codec/check.h"
#include "worker/config/environment.h"
#include "worker/config/option_value.h"

#include <inttypes.h>
#include <stdarg.h>
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

/* ---- errors ---- */

static void text_value(const struct mr_option *option, const char *text, char *out,
                       size_t out_bytes);

/* Writes "PLACE VALUE: REASON". text: the value as it was given. */
static enum mr_status refuse_at(const struct mr_config *config, const struct mr_option *option,
                                struct mr_option_source source, const char *text,
                                const char *reason, struct mr_error *err)
{
    char variable[MR_VARIABLE_NAME_BYTES_MAX], value[MR_ERROR_DETAIL_BYTES];
    text_value(option, text, value, sizeof value);
    switch (source.origin) {
    case MR_ORIGIN_FILE:
        return mr_fail(err, MR_BAD_CONFIG, "%.120s, line %u: %s: %.80s: %s", config->config,
                       source.line, option->name, value, reason);
    case MR_ORIGIN_ENVIRONMENT:
        mr_variable_name_of(option->name, variable);
        return mr_fail(err, MR_BAD_CONFIG, "%s=%.80s: %s", variable, value, reason);
    default:
        return mr_fail(err, MR_BAD_CONFIG, "--%s %.80s: %s", option->name, value, reason);
    }
}

/* A value that is being applied. */
struct applying {
    struct mr_config *config;
    const struct mr_option *option;
    const char *text;
    struct mr_option_source source;
    struct mr_error *err;
};

static enum mr_status refuse(const struct applying *applying, const char *reason)
{
    return refuse_at(applying->config, applying->option, applying->source, applying->text, reason,
                     applying->err);
}

static enum mr_status refuse_choice(const struct applying *applying)
{
    char reason[160];
    snprintf(reason, sizeof reason, "is none of %s", applying->option->choices);
    return refuse(applying, reason);
}

/* too_low: the value is below the least one, otherwise above the largest one. */
static enum mr_status refuse_range(const struct applying *applying, bool too_low)
{
    char bound[32], reason[64];
    const struct mr_option *option = applying->option;
    double value = too_low ? option->min : option->max;
    if (option->kind == MR_OPTION_BYTES)
        mr_format_bytes((uint64_t)value, bound, sizeof bound);
    else if (option->kind == MR_OPTION_DURATION)
        mr_format_duration((uint64_t)value, bound, sizeof bound);
    else
        snprintf(bound, sizeof bound, "%.15g", value);
    snprintf(reason, sizeof reason, "must not be %s %s", too_low ? "below" : "above", bound);
    return refuse(applying, reason);
}

enum mr_status mr_option_refuse(const struct mr_config *config, const char *name, size_t index,
                                struct mr_error *err, const char *fmt, ...)
{
    const struct mr_option *option = mr_option_find(name);
    const void *field = (const char *)config + option->offset;
    char reason[240];
    va_list arguments;
    va_start(arguments, fmt);
    vsnprintf(reason, sizeof reason, fmt, arguments);
    va_end(arguments);
    MR_ASSERT(option->kind == MR_OPTION_TEXT || option->kind == MR_OPTION_LIST);
    const char *text = option->kind == MR_OPTION_TEXT
                           ? *(const char *const *)field
                           : ((const struct mr_text_list *)field)->values[index];
    size_t at = (size_t)(option - mr_options);
    struct mr_option_source source = {config->store->origins[at], config->store->lines[at][index]};
    return refuse_at(config, option, source, text, reason, err);
}

/* ---- text to field ---- */

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

/* MR_OK if the number is in the range of the option. */
static enum mr_status check_range(const struct applying *applying, double value)
{
    const struct mr_option *option = applying->option;
    if (value >= option->min && value <= option->max) return MR_OK;
    return refuse_range(applying, value < option->min);
}

static enum mr_status apply_integer(const struct applying *applying)
{
    const struct mr_option *option = applying->option;
    void *field = field_of(applying->config, option);
    uint64_t big = 0;
    int64_t small = 0;
    bool is_signed = option->kind == MR_OPTION_I32;
    if (option->choices && strcmp(applying->text, option->choices) == 0) {
        *(uint32_t *)field = MR_OPTION_AUTO;
        return MR_OK;
    }
    if (!is_signed && mr_parse_int(applying->text, &small) && small < 0)
        return refuse_range(applying, true);
    if (is_signed ? !mr_parse_int(applying->text, &small) : !mr_parse_uint(applying->text, &big))
        return refuse(applying, option->choices ? "is neither a whole number nor auto"
                                                : "is not a whole number");
    enum mr_status status = check_range(applying, is_signed ? (double)small : (double)big);
    if (status != MR_OK) return status;
    if (is_signed)
        *(int32_t *)field = (int32_t)small;
    else if (option->kind == MR_OPTION_U32)
        *(uint32_t *)field = (uint32_t)big;
    else
        *(uint64_t *)field = big;
    return MR_OK;
}

static enum mr_status apply_measure(const struct applying *applying)
{
    uint64_t value;
    bool is_size = applying->option->kind == MR_OPTION_BYTES;
    if (is_size && !mr_parse_bytes(applying->text, &value))
        return refuse(applying, "is not a size such as 512MiB, 2Gi or 1048576");
    if (!is_size && !mr_parse_duration(applying->text, &value))
        return refuse(applying, "is not a time such as 25s, 250ms or 5m");
    enum mr_status status = check_range(applying, (double)value);
    if (status == MR_OK) *(uint64_t *)field_of(applying->config, applying->option) = value;
    return status;
}

static enum mr_status apply_double(const struct applying *applying)
{
    double value;
    if (!mr_parse_double(applying->text, &value)) return refuse(applying, "is not a number");
    enum mr_status status = check_range(applying, value);
    if (status == MR_OK) *(double *)field_of(applying->config, applying->option) = value;
    return status;
}

static enum mr_status apply_text(const struct applying *applying)
{
    const struct mr_option *option = applying->option;
    struct mr_config *config = applying->config;
    uint32_t *lines = config->store->lines[index_of(option)];
    if (option->choices && choice_index(option->choices, applying->text) < 0)
        return refuse_choice(applying);
    const char *copy = mr_option_copy(config, applying->text, strlen(applying->text));
    if (!copy) return refuse(applying, "is too long together with all other values");
    if (option->kind == MR_OPTION_TEXT) {
        *(const char **)field_of(config, option) = copy;
        lines[0] = applying->source.line;
        return MR_OK;
    }
    struct mr_text_list *list = field_of(config, option);
    if (list->count == MR_LIST_MAX) {
        char reason[64];
        snprintf(reason, sizeof reason, "is value number %zu, at most %zu are accepted",
                 MR_LIST_MAX + 1, MR_LIST_MAX);
        return refuse(applying, reason);
    }
    lines[list->count] = applying->source.line;
    list->values[list->count++] = copy;
    return MR_OK;
}

static enum mr_status apply_value(const struct applying *applying)
{
    const struct mr_option *option = applying->option;
    void *field = field_of(applying->config, option);
    switch (option->kind) {
    case MR_OPTION_BOOL:
        return mr_parse_bool(applying->text, field) ? MR_OK
                                                    : refuse(applying, "is neither true nor false");
    case MR_OPTION_U32:
    case MR_OPTION_I32:
    case MR_OPTION_U64:
        return apply_integer(applying);
    case MR_OPTION_DOUBLE:
        return apply_double(applying);
    case MR_OPTION_BYTES:
    case MR_OPTION_DURATION:
        return apply_measure(applying);
    case MR_OPTION_CHOICE:
        if (choice_index(option->choices, applying->text) < 0) return refuse_choice(applying);
        *(unsigned *)field = (unsigned)choice_index(option->choices, applying->text);
        return MR_OK;
    case MR_OPTION_TEXT:
    case MR_OPTION_LIST:
        return apply_text(applying);
    }
    return MR_OK;
}

enum mr_status mr_option_apply(struct mr_config *config, const struct mr_option *option,
                               const char *text, struct mr_option_source source,
                               struct mr_error *err)
{
    MR_ASSERT(mr_option_count <= MR_OPTION_COUNT_MAX);
    const struct applying applying = {config, option, text, source, err};
    enum mr_option_origin *current = &config->store->origins[index_of(option)];
    if (source.origin < *current) return MR_OK;
    if (source.origin > *current && option->kind == MR_OPTION_LIST)
        ((struct mr_text_list *)field_of(config, option))->count = 0;
    *current = source.origin;
    return apply_value(&applying);
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
