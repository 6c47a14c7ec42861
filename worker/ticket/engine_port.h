/* engine_port - what intake needs of the engine. Filled by worker/engine/engine_thread.h.
 *
 * Threads: any. Memory: a request belongs to the engine once _submit has returned MR_OK.
 * Errors:  those of mr_engine_submit (batching/engine.h). */
#ifndef MR_WORKER_TICKET_ENGINE_PORT_H
#define MR_WORKER_TICKET_ENGINE_PORT_H

#include "batching/engine.h"

struct mr_engine_port {
    void *self;
    enum mr_status (*submit)(void *self, const struct mr_submission *submission,
                             struct mr_error *err);
    /* False: the id is not in the engine. */
    bool (*cancel)(void *self, struct mr_text id);
    /* Bit i: there is room for another request of tenant i. */
    uint64_t (*room)(void *self);
    /* Adds tenants that intake wants room for: when the engine has room for one of them, it rings
     * intake's wake and forgets them all. */
    void (*set_wanted)(void *self, uint64_t tenants);
};

#endif
