/* engine_link - intake's calls of the engine, which another thread may end. When a drain times out,
 * the main thread ends the engine even if intake is in the middle of a record. So every call is
 * made under a mutex, and no call is made once the link is closed.
 *
 * Threads: the intake thread; the thread that ends the engine calls _close. Memory: none.
 * Errors:  those of the engine; MR_CLOSED when the link is closed. */
#ifndef MR_WORKER_INTAKE_ENGINE_LINK_H
#define MR_WORKER_INTAKE_ENGINE_LINK_H

#include "worker/ticket/engine_port.h"

#include <pthread.h>

struct mr_engine_link {
    pthread_mutex_t mutex;
    /* set before the first call; self is NULL once the link is closed */
    struct mr_engine_port port;
};

void mr_engine_link_init(struct mr_engine_link *link);
void mr_engine_link_destroy(struct mr_engine_link *link);
/* Call before the engine ends: after it no call of the engine runs or follows. May be called
 * again. */
void mr_engine_link_close(struct mr_engine_link *link);
bool mr_engine_link_is_closed(struct mr_engine_link *link);
/* As in struct mr_engine_port. Once the link is closed, _cancel and _wake do nothing. */
enum mr_status mr_engine_link_submit(struct mr_engine_link *link,
                                     const struct mr_submission *submission, struct mr_error *err);
void mr_engine_link_cancel(struct mr_engine_link *link, uint32_t tenant_index, struct mr_text id);
void mr_engine_link_wake(struct mr_engine_link *link);
/* Bit i: the engine's queue has space for tenant i; 0 once the link is closed. When a tenant
 * without space gets some, the engine wakes intake. */
uint64_t mr_engine_link_room(struct mr_engine_link *link, uint32_t tenant_count);

#endif
