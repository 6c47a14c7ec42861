/* mapped_file - the bytes of a file at one address, copied into private memory before they are
 * read.
 *
 * Reading mapped pages of a file that another process truncates ends the process with SIGBUS. So
 * _open copies the whole file. _map only maps it: the reader of a large file copies ranges, in
 * place with _hold or into its own memory with _read, and both fail when the file has become
 * shorter.
 *
 * Owner:  the opener; any thread may read the bytes and call _read until _close.
 * Memory: held ranges are private memory; the rest are addresses of the file.
 * Errors: MR_BAD_FILE with the path and the reason (absent, empty, not a regular file, a Git LFS
 *         pointer in place of the file, shorter than when it was opened). */
#ifndef MR_OPS_FILES_MAPPED_FILE_H
#define MR_OPS_FILES_MAPPED_FILE_H

#include "codec/status.h"
#include "codec/text.h"

#include <stdbool.h>
#include <stdint.h>

#include <stddef.h>

/* Identifies one state of a file's content: every write through the file system changes at least
 * the times. Times are in nanoseconds since 1970. */
struct mr_file_stamp {
    uint64_t inode, size_bytes;
    int64_t modified_ns;
    int64_t changed_ns; /* last change of content or attributes; no program can set it back */
};

struct mr_mapped_file {
    const unsigned char *bytes; /* NULL when the file is closed */
    size_t size;
    struct mr_file_stamp stamp; /* at the time of _open */
    int descriptor;
    char *path; /* owned */
};

enum mr_status mr_mapped_file_open(struct mr_mapped_file *out, const char *path,
                                   struct mr_error *err);
enum mr_status mr_mapped_file_map(struct mr_mapped_file *out, const char *path,
                                  struct mr_error *err);
/* Makes bytes [first, first + size), which are in the file, private memory at the same address. */
enum mr_status mr_mapped_file_hold(const struct mr_mapped_file *file, size_t first, size_t size,
                                   struct mr_error *err);
/* Copies bytes [first, first + size) of the file to out. */
enum mr_status mr_mapped_file_read(const struct mr_mapped_file *file, size_t first, size_t size,
                                   void *out, struct mr_error *err);
/* MR_BAD_FILE when the stamp shows that the file is no longer the one that was opened. */
enum mr_status mr_mapped_file_check(const struct mr_mapped_file *file, struct mr_error *err);
/* Puts the path before the sentence of err, unless the sentence names it; returns status. */
enum mr_status mr_mapped_file_blame(const char *path, enum mr_status status, struct mr_error *err);
/* Closing a closed (zeroed) file does nothing. */
void mr_mapped_file_close(struct mr_mapped_file *file);
/* Returns the bytes of the file as a text, borrowed until _close. */
struct mr_text mr_mapped_file_text(const struct mr_mapped_file *file);

#endif
