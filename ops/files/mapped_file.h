/* mapped_file - a whole file mapped as read-only memory.
 *
 * Owner:  the opener; any thread may read the bytes until _close.
 * Memory: pages of the kernel's page cache; nothing is copied.
 * Errors: MR_BAD_FILE with the path and the reason (absent, empty, not a regular file, a Git LFS
 * pointer in place of the file). Reading a mapped file that another process has truncated ends the
 * process with SIGBUS; users close the file as soon as they have copied what they need. */
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
};

enum mr_status mr_mapped_file_open(struct mr_mapped_file *out, const char *path,
                                   struct mr_error *err);
/* Puts the path before the sentence of err, unless the sentence names it; returns status. */
enum mr_status mr_mapped_file_blame(const char *path, enum mr_status status, struct mr_error *err);
/* Closing a closed (zeroed) file does nothing. */
void mr_mapped_file_close(struct mr_mapped_file *file);
/* Returns the bytes of the file as a text, borrowed until _close. */
struct mr_text mr_mapped_file_text(const struct mr_mapped_file *file);

#endif
