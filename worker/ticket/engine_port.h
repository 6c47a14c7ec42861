/* engine_port - the engine's functions that intake calls. worker/engine/engine_thread.h fills this
 * struct.
 *
 * Threads: any. Memory: a request belongs to the engine once `submit` has returned MR_OK.
 * Errors:  those of mr_engine_submit (batching/engine/engine.h). */
#ifndef MR_WORKER_TICKET_ENGINE_PORT_H
#define MR_WORKER_TICKET_ENGINE_PORT_H

#include "batching/engine/engine.h"

struct mr_engine_port {
    void *self;
    enum mr_status (*submit)(void *self, const struct mr_submission *submission,
                             struct mr_error *err);
    /* Cancels the tenant's request with this id. False: the engine has no such request. */
    bool (*cancel)(void *self, uint32_t tenant_index, struct mr_text id);
    /* Returns a bit mask of tenants. Bit i: the engine's queue has space for a request of tenant
     * i. */
    uint64_t (*room)(void *self);
    /* Adds tenants (bit mask) for which intake has requests to submit. When the engine's queue has
     * space for one of them, the engine rings intake's wake and clears the mask. */
    void (*set_wanted)(void *self, uint64_t tenants);
    /* Wakes the engine thread after `may_start` of tickets was set. */
    void (*wake)(void *self);
};

#endif
