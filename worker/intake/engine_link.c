#include "worker/intake/engine_link.h"

void mr_engine_link_init(struct mr_engine_link *link)
{
    *link = (struct mr_engine_link){0};
    pthread_mutex_init(&link->mutex, NULL);
}

void mr_engine_link_destroy(struct mr_engine_link *link)
{
    pthread_mutex_destroy(&link->mutex);
}

void mr_engine_link_close(struct mr_engine_link *link)
{
    pthread_mutex_lock(&link->mutex);
    link->port.self = NULL;
    pthread_mutex_unlock(&link->mutex);
}

bool mr_engine_link_is_closed(struct mr_engine_link *link)
{
    pthread_mutex_lock(&link->mutex);
    bool closed = link->port.self == NULL;
    pthread_mutex_unlock(&link->mutex);
    return closed;
}

enum mr_status mr_engine_link_submit(struct mr_engine_link *link,
                                     const struct mr_submission *submission, struct mr_error *err)
{
    enum mr_status status = MR_CLOSED;
    pthread_mutex_lock(&link->mutex);
    if (link->port.self) status = link->port.submit(link->port.self, submission, err);
    pthread_mutex_unlock(&link->mutex);
    return status;
}

void mr_engine_link_cancel(struct mr_engine_link *link, uint32_t tenant_index, struct mr_text id)
{
    pthread_mutex_lock(&link->mutex);
    if (link->port.self) link->port.cancel(link->port.self, tenant_index, id);
    pthread_mutex_unlock(&link->mutex);
}

void mr_engine_link_wake(struct mr_engine_link *link)
{
    pthread_mutex_lock(&link->mutex);
    if (link->port.self) link->port.wake(link->port.self);
    pthread_mutex_unlock(&link->mutex);
}

static uint64_t room_for(const struct mr_engine_port *port, uint64_t tenants)
{
    if (!port->self) return 0;
    uint64_t room = port->room(port->self);
    if ((room & tenants) == tenants) return room;
    port->set_wanted(port->self, tenants & ~room);
    /* read again: space freed before set_wanted does not wake intake */
    return port->room(port->self);
}

uint64_t mr_engine_link_room(struct mr_engine_link *link, uint32_t tenant_count)
{
    const uint32_t count = tenant_count > 0 ? tenant_count : 1;
    const uint64_t tenants = count >= 64 ? UINT64_MAX : ((uint64_t)1 << count) - 1;
    pthread_mutex_lock(&link->mutex);
    uint64_t room = room_for(&link->port, tenants);
    pthread_mutex_unlock(&link->mutex);
    return room;
}
