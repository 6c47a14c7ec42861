/* batch - runs a file of calls through a fleet: checks all lines, sends a window of them, writes
 * each answer to the output, and continues a run that ended early.
 *
 * What is sent and answered is known from Kafka and the output alone (worker/batch/job.h,
 * worker/batch/output_files.h). So whatever dies, the command itself by kill -9, a worker or the
 * broker, the same command continues: no line is written twice, and no line is sent again after its
 * answer. A record that was on its way to the broker when the command was killed may be sent twice;
 * both copies are equal, so a worker runs them once (docker/guide/producers.md).
 *
 * A result with a retryable error, or the code duplicate_id, is answered by sending the line again
 * under a new id, MR_BATCH_JOB_TRIES times in all. At the deadline each line without an answer gets
 * the error batch_expired.
 *
 * worker/batch/batch.c has the phases and the loop, worker/batch/recall.c reads what earlier runs
 * have left in the topics, worker/batch/sender.c sends records, and worker/batch/answers.c turns
 * results into lines of the output.
 *
 * Threads: one, the caller's; librdkafka has its own.
 * Memory:  a bit for each line of the input, the window (at most 8,192 lines and 16 MiB), the
 *          queues of librdkafka (about 30 MiB), and while the lines are checked 16 bytes for each.
 * Errors:  MR_BAD_FILE, MR_UNREACHABLE, MR_BACKEND (a topic is missing), MR_INVALID_REQUEST (lines
 *          have faults), MR_NOMEM. */
#ifndef MR_WORKER_BATCH_BATCH_H
#define MR_WORKER_BATCH_BATCH_H

#include "codec/status.h"
#include "worker/config/config.h"

#include <stdio.h>

struct mr_batch_options {
    const struct mr_config *config; /* its arguments are the input and the output */
    FILE *messages;                 /* faults, progress, summary */
    /* Number of interrupts so far. 1: send nothing more and wait for the answers that are due. 2:
     * cancel what is in flight, and return. */
    unsigned (*interrupts)(void *context);
    void *context;
    uint32_t timeout_ms; /* limit for each query of the broker at the start */
};

/* *complete: every line has an answer in the output. */
enum mr_status mr_batch_run(const struct mr_batch_options *options, bool *complete,
                            struct mr_error *err);

#endif
