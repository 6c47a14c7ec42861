/* engine_port - the functions of the engine that intake calls. Filled by
 * worker/engine/engine_thread.h.
 *
 * Threads: any. Memory: a request belongs to the engine once _submit has returned MR_OK.
 * Errors:  those of mr_engine_submit (batching/engine/engine.h). */
#ifndef MR_WORKER_TICKET_ENGINE_PORT_H
#define MR_WORKER_TICKET_ENGINE_PORT_H

#include "batching/engine/engine.h"

struct mr_engine_port {
    void *self;
    enum mr_status (*submit)(void *self, const struct mr_submission *submission,
                             struct mr_error *err);
    /* Cancels the request of this tenant with this id. False: the engine has no such request. */
    bool (*cancel)(void *self, uint32_t tenant_index, struct mr_text id);
    /* Returns a bit mask of tenants. Bit i: the engine's queue has space for another request of
     * tenant i. */
    uint64_t (*room)(void *self);
    /* Adds a bit mask of tenants for which intake waits to submit. When the engine's queue has
     * space for one of these tenants, the engine notifies intake's wake and clears the mask. */
    void (*set_wanted)(void *self, uint64_t tenants);
    /* Wakes the engine thread, because requests may start: `may_start` of their tickets was set. */
    void (*wake)(void *self);
};

#endif
