/* handover - tells the next worker which requests this one gave up on purpose, when no commit can
 * tell it.
 *
 * A worker notes in its commits which requests it runs. When it gives requests up (shutdown,
 * rebalance), its last commit says so. If the broker does not take that commit, the next worker
 * would count a crash for each of them. So the worker also appends them to a file in the state
 * folder. A successor on the same machine, or with the same folder on a shared volume, reads the
 * file when it takes over a partition whose last commit that worker made.
 *
 * A worker's file is named by its instance, a number that each process draws at random. Each line
 * of text is one request: partition, offset, attempt, topic. A line never becomes wrong, so no
 * worker has to remove a file in time: a worker removes its own file when its last commit was
 * acknowledged, and at its start those of all workers that are older than MR_HANDOVER_KEEP_S.
 *
 * Owner:  one thread. Memory: the struct. Errors: a folder or file that cannot be written is logged
 *         once; then nothing is handed over. */
#ifndef MR_WORKER_OFFSETS_HANDOVER_H
#define MR_WORKER_OFFSETS_HANDOVER_H

#include "worker/base/log.h"

#include <stdbool.h>
#include <stdint.h>

#define MR_HANDOVER_KEEP_S     ((int64_t)30 * 24 * 3600)
#define MR_HANDOVER_PATH_BYTES ((size_t)1024)

struct mr_handover {
    uint32_t instance; /* of this process; 0: none, then every end of it counts as a crash */
    uint32_t lines;    /* written by this process */
    struct mr_log *log;
    char folder[MR_HANDOVER_PATH_BYTES]; /* "": no folder can be written */
    bool failed;                         /* a failure was logged */
};

/* One attempt at a request, by the place of its record. topic is borrowed. */
struct mr_handover_place {
    const char *topic;
    int32_t partition;
    int64_t offset;
    uint32_t attempt;
};

/* Draws the instance, makes the folder and its parents, and removes old files from it. folder: the
 * option --state-dir; "": the first of these that can be written: $STATE_DIRECTORY (systemd),
 * $XDG_STATE_HOME/millrace, $HOME/.local/state/millrace, /var/tmp/millrace-UID. log: borrowed. */
void mr_handover_open(struct mr_handover *handover, const char *folder, struct mr_log *log);

/* Notes that this worker gave up the attempt on purpose. */
void mr_handover_add(struct mr_handover *handover, const struct mr_handover_place *place);
/* Whether the worker `instance` gave up the attempt on purpose. Always true of this process: it
 * lives. */
bool mr_handover_has(const struct mr_handover *handover, uint32_t instance,
                     const struct mr_handover_place *place);
/* Removes this worker's file, because its last commit says all. */
void mr_handover_remove(struct mr_handover *handover);

#endif
