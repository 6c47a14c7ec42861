/* option_apply - parses the text of an option into its field of struct mr_config, and formats the
 * field as text.
 *
 * Owner:  the main thread, at start. Memory: texts are copied into the configuration's arena.
 * Errors: MR_BAD_CONFIG with the option and the values it accepts. */
#ifndef MR_WORKER_CONFIG_OPTION_APPLY_H
#define MR_WORKER_CONFIG_OPTION_APPLY_H

#include "codec/arena.h"
#include "codec/status.h"
#include "worker/config/options_table.h"

#define MR_OPTION_COUNT_MAX ((size_t)128)

enum mr_option_origin {
    MR_ORIGIN_DEFAULT,
    MR_ORIGIN_FILE,
    MR_ORIGIN_ENVIRONMENT,
    MR_ORIGIN_FLAG,
    MR_ORIGIN_COUNT
};

struct mr_config_store {
    struct mr_arena *arena;
    enum mr_option_origin origins[MR_OPTION_COUNT_MAX]; /* by index in mr_options */
};

/* Sets the field unless a stronger origin has set it already. Values of a list from one origin are
 * appended; the first value from a stronger origin replaces the whole list. */
enum mr_status mr_option_apply(struct mr_config *config, const struct mr_option *option,
                               const char *text, enum mr_option_origin origin,
                               struct mr_error *err);
/* A copy that lives as long as the configuration; NULL when its memory is full. */
char *mr_option_copy(struct mr_config *config, const char *text, size_t length);

enum mr_option_origin mr_option_origin(const struct mr_config *config,
                                       const struct mr_option *option);
/* "default", "file", "environment", "flag". Static text. */
const char *mr_option_origin_name(enum mr_option_origin origin);

/* Number of values in the field: 1, or the length of a list. */
size_t mr_option_value_count(const struct mr_config *config, const struct mr_option *option);
/* Formats value `index` of the field, truncated to out_bytes; secrets are replaced by "***". */
void mr_option_value_text(const struct mr_config *config, const struct mr_option *option,
                          size_t index, char *out, size_t out_bytes);

#endif
