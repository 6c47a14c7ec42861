/* config_file - the YAML file of options. The only module that knows the YAML library.
 *
 * The file is one map from option name to a scalar, to a list of scalars, or (for `kafka`) to a map
 * of NAME: VALUE. Anchors, tags, nested sections and a name given twice are errors, as is a file
 * above MR_CONFIG_FILE_BYTES_MAX.
 *
 * Owner:  the main thread, at start. Memory: none kept. Errors: MR_BAD_CONFIG with file and line.
 */
#ifndef MR_WORKER_CONFIG_CONFIG_FILE_H
#define MR_WORKER_CONFIG_CONFIG_FILE_H

#include "codec/status.h"

#define MR_CONFIG_FILE_BYTES_MAX ((long)1 << 20)

/* Called for every value, in the file's order: a list calls once for each element, a map with
 * "NAME=VALUE". An error it returns ends the reading; its sentence gets file and line before it. */
typedef enum mr_status mr_config_file_set(void *context, const char *name, const char *value,
                                          struct mr_error *err);

enum mr_status mr_config_file_read(const char *path, mr_config_file_set *set, void *context,
                                   struct mr_error *err);

#endif
