/* output_files - the two files of a batch: OUT has a line for each line of the input with an
 * answer, the error file one for each without. Lines are only appended, each with one write, and
 * the bits of their lines are set.
 *
 * After kill -9 or a full disk the last line may be torn: _recall cuts it off. OUT is locked
 * (flock), so that a second run of the command on it is refused. The error file is created with its
 * first line. "-" is stdout: it is not locked and cannot be continued, and lines with errors go
 * there too unless an error file is given.
 *
 * Owner:  one thread. Memory: 1 MiB while _recall reads.
 * Errors: MR_BAD_FILE with the name of the file. */
#ifndef MR_WORKER_BATCH_OUTPUT_FILES_H
#define MR_WORKER_BATCH_OUTPUT_FILES_H

#include "codec/status.h"
#include "codec/text.h"
#include "worker/batch/bits.h"

#define MR_BATCH_OUTPUT_PATH_BYTES ((size_t)4096)

struct mr_batch_output_file {
    char path[MR_BATCH_OUTPUT_PATH_BYTES];
    int fd;         /* -1: not open */
    uint64_t lines; /* of this job */
};

struct mr_batch_output {
    struct mr_batch_output_file answers, errors;
    bool is_stdout; /* answers */
    bool is_one;    /* errors go to the file of answers */
};

/* errors "": OUT.errors. input_fd: descriptor of the input, which must be another file. */
enum mr_status mr_batch_output_open(struct mr_batch_output *output, const char *out,
                                    const char *errors, int input_fd, struct mr_error *err);
void mr_batch_output_close(struct mr_batch_output *output);
/* Reads the lines that earlier runs of the job have written, and sets their bits. MR_BAD_FILE: a
 * line is of another job, or a line of the input has two. */
enum mr_status mr_batch_output_recall(struct mr_batch_output *output, const char *job_name,
                                      struct mr_bits *done, struct mr_error *err);
/* Removes the lines of the error file, so that their lines of the input are sent again. */
enum mr_status mr_batch_output_drop_errors(struct mr_batch_output *output, struct mr_error *err);
/* Appends one line, which ends with a line feed, to one of the files. */
enum mr_status mr_batch_output_append(struct mr_batch_output *output, bool is_error,
                                      struct mr_text line, struct mr_error *err);
/* Makes the lines durable on the disk. */
enum mr_status mr_batch_output_sync(struct mr_batch_output *output, struct mr_error *err);

#endif
