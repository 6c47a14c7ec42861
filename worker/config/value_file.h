/* value_file - reads a file whose content is the value of an option, such as a password, at start
 * and again after SIGHUP.
 *
 * Threads: any. Memory: the caller's. Errors: MR_BAD_CONFIG with the path; never the content. */
#ifndef MR_WORKER_CONFIG_VALUE_FILE_H
#define MR_WORKER_CONFIG_VALUE_FILE_H

#include "codec/status.h"

#include <stdbool.h>
#include <stddef.h>

#define MR_VALUE_FILE_BYTES ((size_t)65536) /* a longer file is refused */

/* Reads the file without the line breaks at its end into value[MR_VALUE_FILE_BYTES], and ends it
 * with a NUL that *length does not count. */
enum mr_status mr_value_file_read(const char *path, char *value, size_t *length,
                                  struct mr_error *err);

#endif
