/* memory_file - replaces ops/files/mapped_file.c in fuzz targets: the given files are opened from
 * memory, in blocks of exactly their size, so that AddressSanitizer sees a read past the end of a
 * file. Other paths are opened from the disk.
 *
 * Threads: one. Memory: the contents are borrowed until the next call of _set or _clear. */
#ifndef MR_TESTS_FUZZ_MEMORY_FILE_H
#define MR_TESTS_FUZZ_MEMORY_FILE_H

#include "codec/text.h"

/* Opening a path that ends with `name`, a static string, returns these bytes. At most four names.
 */
void memory_file_set(const char *name, struct mr_text bytes);
void memory_file_clear(void);

#endif
