/* config_file - reads the YAML file of options. The only module that uses the YAML library.
 *
 * The file is one map. Its keys are option names; a value is a scalar; a list of scalars for an
 * option that may be given several times, and for `brokers`; or, for `kafka`, a map of NAME: VALUE.
 * Aliases, nested sections, a repeated name and a file larger than MR_CONFIG_FILE_BYTES_MAX are
 * errors.
 *
 * Owner: the main thread, at start. Memory: none kept. Errors: MR_BAD_CONFIG with file and line. */
#ifndef MR_WORKER_CONFIG_CONFIG_FILE_H
#define MR_WORKER_CONFIG_CONFIG_FILE_H

#include "codec/status.h"

#include <stdint.h>

#define MR_CONFIG_FILE_BYTES_MAX ((long)1 << 20)

/* Called for every value, in the order of the file: once for each element of a list (for `brokers`
 * once for the whole list, joined by commas), and with "NAME=VALUE" for each pair of a map. line:
 * the line of the value, from 1. An error ends the reading. */
typedef enum mr_status mr_config_file_set(void *context, const char *name, const char *value,
                                          uint32_t line, struct mr_error *err);

enum mr_status mr_config_file_read(const char *path, mr_config_file_set *set, void *context,
                                   struct mr_error *err);

#endif
