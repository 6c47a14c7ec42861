/* handover - a file that lists the requests which this worker released (stopped on purpose), in
 * case its last commit does not reach the broker.
 *
 * A worker's commits list the requests that it runs. When it releases requests (shutdown,
 * rebalance), its last commit lists them as released. If the broker does not accept that commit,
 * the next worker would count a crash for each of these requests. Therefore the worker also appends
 * them to a file in the state folder. A successor on the same machine, or with the same folder on a
 * shared volume, reads the file when it takes over a partition whose last commit that worker made.
 *
 * The file is named by the worker's instance, a random number of the process. Each line of text is
 * one request: partition, offset, attempt, topic. A line never becomes false, so files may be
 * removed late: a worker removes its own file when its last commit was acknowledged, and at its
 * start every worker's files that are older than MR_HANDOVER_KEEP_S.
 *
 * Files and the folder are readable only for the worker's user; links are not followed.
 *
 * Owner:  one thread. Memory: the struct. Errors: a folder or file that cannot be written is logged
 *         once; requests are then not handed over. */
#ifndef MR_WORKER_OFFSETS_HANDOVER_H
#define MR_WORKER_OFFSETS_HANDOVER_H

#include "worker/base/log.h"

#include <stdbool.h>
#include <stdint.h>

#define MR_HANDOVER_KEEP_S     ((int64_t)30 * 24 * 3600)
#define MR_HANDOVER_PATH_BYTES ((size_t)1024)

struct mr_handover {
    uint32_t instance; /* random number of this process; 0: the system provided none, no handover */
    uint32_t lines;    /* lines written by this process */
    struct mr_log *log;
    char folder[MR_HANDOVER_PATH_BYTES]; /* "": no folder is writable, no handover */
    bool failed;                         /* a failure was logged */
};

/* One attempt of a request, identified by the place of its record. topic is borrowed. */
struct mr_handover_place {
    const char *topic;
    int32_t partition;
    int64_t offset;
    uint32_t attempt;
};

/* Draws the instance, creates the folder and its parents, and removes old files from the folder.
 * folder: the option --state-dir; "": the first writable one of $STATE_DIRECTORY (systemd),
 * $XDG_STATE_HOME/millrace, $HOME/.local/state/millrace, /var/tmp/millrace-UID. log: borrowed. */
void mr_handover_open(struct mr_handover *handover, const char *folder, struct mr_log *log);

/* Appends a line: this worker released the attempt. */
void mr_handover_add(struct mr_handover *handover, const struct mr_handover_place *place);
/* Whether the worker `instance` released the attempt. Always true for this process, which has not
 * crashed. */
bool mr_handover_has(const struct mr_handover *handover, uint32_t instance,
                     const struct mr_handover_place *place);
/* Removes this worker's file: its last commit was acknowledged and lists every released request. */
void mr_handover_remove(struct mr_handover *handover);

#endif
