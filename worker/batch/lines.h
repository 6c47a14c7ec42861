/* lines - the lines of a batch's input. A line ends at a line feed and at no other character:
 * U+2028, U+2029 and U+0085 are part of it. A byte order mark at the start of the file and white
 * space at the ends of a line, such as the CR of CRLF, are left out. Blank lines are skipped but
 * counted in the line numbers.
 *
 * Owner:  one thread. Memory: the longest line read so far, at most bytes_max, and 256 KiB.
 * Errors: those of worker/batch/unpacked.h; MR_NOMEM. */
#ifndef MR_WORKER_BATCH_LINES_H
#define MR_WORKER_BATCH_LINES_H

#include "codec/sha256.h"
#include "codec/text.h"
#include "worker/batch/unpacked.h"

#include <stdbool.h>
#include <stdint.h>

struct mr_line {
    uint64_t number;     /* from 1 */
    struct mr_text text; /* borrowed until the next call */
    bool is_too_long;    /* longer than bytes_max; text has its beginning */
};

struct mr_lines {
    struct mr_unpacked *file; /* borrowed */
    struct mr_sha256 *digest; /* gets every byte of the file; NULL: none */
    size_t bytes_max;
    char *buffer; /* malloc'ed */
    size_t capacity, start, end;
    uint64_t number; /* of the line returned last */
    bool is_ended;   /* the file has no more bytes */
};

/* Starts at the beginning of the file. */
enum mr_status mr_lines_open(struct mr_lines *lines, struct mr_unpacked *file, size_t bytes_max,
                             struct mr_sha256 *digest, struct mr_error *err);
void mr_lines_close(struct mr_lines *lines);
/* Returns the next line that is not blank; line->number 0: there is none. */
enum mr_status mr_lines_next(struct mr_lines *lines, struct mr_line *line, struct mr_error *err);

#endif
