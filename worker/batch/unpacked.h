/* unpacked - reads a file from its beginning, decompressed: a name that ends in .gz is gzip, one
 * that ends in .zst is zstd, any other is read as it is. The only module that uses zlib and
 * libzstd.
 *
 * "-" is stdin. It is copied to a temporary file without a name in $TMPDIR, else in /var/tmp,
 * because a batch reads its input more than once.
 *
 * Owner:  one thread. Memory: 128 KiB, and the window of the compression: up to 128 MiB for a zstd
 *         file that was written with --ultra or --long, else 8 MiB.
 * Errors: MR_BAD_FILE with the file's name, also for a file that is cut off; MR_NOMEM. */
#ifndef MR_WORKER_BATCH_UNPACKED_H
#define MR_WORKER_BATCH_UNPACKED_H

#include "codec/status.h"

#include <stddef.h>

struct mr_unpacked;

enum mr_status mr_unpacked_open(struct mr_unpacked **out, const char *path, struct mr_error *err);
/* file may be NULL. */
void mr_unpacked_close(struct mr_unpacked *file);
/* Reads up to `most` bytes; *length 0: the end of the file. */
enum mr_status mr_unpacked_read(struct mr_unpacked *file, char *bytes, size_t most, size_t *length,
                                struct mr_error *err);
/* The next _read starts at the beginning of the file again. */
enum mr_status mr_unpacked_rewind(struct mr_unpacked *file, struct mr_error *err);
/* Descriptor of the file, for fstat; valid until _close. */
int mr_unpacked_fd(const struct mr_unpacked *file);

#endif
