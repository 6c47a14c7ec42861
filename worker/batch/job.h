/* job - the identity of a batch and its state file, OUT.state, from which the same command
 * continues.
 *
 * The job's name is the beginning of the SHA-256 of the decompressed input. The id of a request is
 * batch-NAME-LINE-TRY, and the id of an output line batch_req_NAME-LINE. So both follow from the
 * content of the input, and two runs of one command write the same records.
 *
 * The file is written before the first request is sent, and replaced (write, fsync, rename) every
 * few seconds and at the end of a run. It says where to read on:
 *   results   every result before these offsets is in OUT or in the error file.
 *   requests  the record of every request without an answer is at these offsets or behind them.
 * What kill -9 leaves is therefore enough to find out what was sent and what was answered: a run
 * first reads both topics from these offsets to their ends. A record that is in the requests topic
 * is not sent again, because a worker answers it, and a result that came while no command ran is
 * written to OUT. Without the file the topics are read from their beginnings.
 *
 * Owner:  one thread. Memory: 8 bytes for each partition.
 * Errors: MR_BAD_FILE (the file is of another job, or cannot be read or written), MR_NOMEM. */
#ifndef MR_WORKER_BATCH_JOB_H
#define MR_WORKER_BATCH_JOB_H

#include "codec/sha256.h"
#include "codec/status.h"
#include "codec/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_BATCH_JOB_NAME_BYTES ((size_t)17) /* 16 hexadecimal digits and a NUL */
#define MR_BATCH_JOB_ID_BYTES   ((size_t)64) /* an id and a NUL */
#define MR_BATCH_JOB_PATH_BYTES ((size_t)4096)
/* Requests of one line with an error that can be retried. A line that is run again by
 * --retry-errors starts with the next multiple of this number, so that results of earlier requests
 * are not taken for its own. */
#define MR_BATCH_JOB_TRIES 4u

/* The next offset to read of each partition of a topic. */
struct mr_batch_job_offsets {
    int64_t *next; /* [count] malloc'ed */
    size_t count;
};

struct mr_batch_job {
    char name[MR_BATCH_JOB_NAME_BYTES];
    char path[MR_BATCH_JOB_PATH_BYTES]; /* of the state file; "": the job has none */
    char topic[256];                    /* the requests topic */
    int64_t begun_ms;                   /* Unix time of the first run, where the deadline starts */
    uint32_t first_try;                 /* lower tries are of a run before --retry-errors */
    struct mr_batch_job_offsets requests, results;
    bool is_known; /* the state file existed */
};

/* out: path of the output; "-": no state file. */
enum mr_status mr_batch_job_open(struct mr_batch_job *job,
                                 const unsigned char digest[MR_SHA256_BYTES], const char *out,
                                 struct mr_error *err);
void mr_batch_job_close(struct mr_batch_job *job);
/* Replaces the state file. */
enum mr_status mr_batch_job_save(const struct mr_batch_job *job, struct mr_error *err);
/* Removes the state file: every line has an answer. */
void mr_batch_job_remove(const struct mr_batch_job *job);

/* Makes room for the offsets of `count` partitions; new ones are `value`. */
bool mr_batch_job_offsets_resize(struct mr_batch_job_offsets *offsets, size_t count, int64_t value);

void mr_batch_job_offsets_free(struct mr_batch_job_offsets *offsets);

/* Writes the id of a request; returns its length. */
size_t mr_batch_job_request_id(const struct mr_batch_job *job, uint64_t line, uint32_t try,
                               char id[MR_BATCH_JOB_ID_BYTES]);
/* Reads the id of a request; false: it is not one of this job. */
bool mr_batch_job_read_id(const struct mr_batch_job *job, struct mr_text id, uint64_t *line,
                          uint32_t *try);

#endif
