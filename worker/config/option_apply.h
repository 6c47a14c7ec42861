/* option_apply - parses the text of an option into its field of struct mr_config, and formats the
 * field as text.
 *
 * Owner:  the main thread, at start. Memory: texts are copied into the configuration's arena.
 * Errors: MR_BAD_CONFIG with one sentence: where the value was given, the value, and what is
 * accepted. Secrets in it are masked. */
#ifndef MR_WORKER_CONFIG_OPTION_APPLY_H
#define MR_WORKER_CONFIG_OPTION_APPLY_H

#include "codec/arena.h"
#include "codec/status.h"
#include "worker/config/options_table.h"

#define MR_OPTION_COUNT_MAX ((size_t)192)

enum mr_option_origin {
    MR_ORIGIN_DEFAULT,
    MR_ORIGIN_FILE,
    MR_ORIGIN_ENVIRONMENT,
    MR_ORIGIN_FLAG,
    MR_ORIGIN_COUNT
};

/* Where a value was given. */
struct mr_option_source {
    enum mr_option_origin origin;
    uint32_t line; /* of the file of --config, with MR_ORIGIN_FILE */
};

struct mr_config_store {
    struct mr_arena *arena;
    /* where the value of each option came from; by index in mr_options */
    enum mr_option_origin origins[MR_OPTION_COUNT_MAX];
    /* lines of values from the file; by index in mr_options and in a list's values */
    uint32_t lines[MR_OPTION_COUNT_MAX][MR_LIST_MAX];
};

/* Sets the option's field in config from text, unless the field was set from an origin of higher
 * precedence (flag > environment > file > default). Values of a list option from the same origin
 * are appended; the first value from an origin of higher precedence replaces the list. */
enum mr_status mr_option_apply(struct mr_config *config, const struct mr_option *option,
                               const char *text, struct mr_option_source source,
                               struct mr_error *err);
/* Writes an error about the value number `index` of an option that was applied: its place, the
 * value, and the reason given by fmt, such as "--http 9464: is not HOST:PORT". */
__attribute__((format(printf, 5, 6))) enum mr_status
mr_option_refuse(const struct mr_config *config, const char *name, size_t index,
                 struct mr_error *err, const char *fmt, ...);
/* Copies a text; the copy lives as long as the configuration; NULL when the configuration's memory
 * is full. */
char *mr_option_copy(struct mr_config *config, const char *text, size_t length);

enum mr_option_origin mr_option_origin(const struct mr_config *config,
                                       const struct mr_option *option);
/* Returns "default", "file", "environment" or "flag"; a string literal. */
const char *mr_option_origin_name(enum mr_option_origin origin);

/* Number of values in the option's field: 1, or for a list its length. */
size_t mr_option_value_count(const struct mr_config *config, const struct mr_option *option);
/* Formats value number `index` of the option's field as text, truncated to out_bytes; secrets are
 * replaced by "***". */
void mr_option_value_text(const struct mr_config *config, const struct mr_option *option,
                          size_t index, char *out, size_t out_bytes);

#endif
