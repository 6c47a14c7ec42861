#include "worker/remote_cache/redis_port.h"

static void client_step(void *context, uint64_t now_ns)
{
    mr_redis_client_step(context, now_ns);
}

static bool client_is_ready(const void *context)
{
    return mr_redis_client_is_ready(context);
}

static bool client_send(void *context, struct mr_redis_op *op)
{
    return mr_redis_client_send(context, op);
}

static void client_cancel(void *context, struct mr_redis_op *op, uint64_t now_ns)
{
    mr_redis_client_cancel(context, op, now_ns);
}

static struct mr_redis_op *client_take(void *context)
{
    return mr_redis_client_take(context);
}

static uint64_t client_deadline_ns(const void *context)
{
    return mr_redis_client_deadline_ns(context);
}

static size_t client_sockets(const void *context, struct pollfd *fds, size_t max)
{
    return mr_redis_client_pollfds(context, fds, max);
}

static void client_set_password(void *context, const char *password)
{
    mr_redis_client_set_password(context, password);
}

static struct mr_redis_client_stats client_stats(const void *context)
{
    return mr_redis_client_stats(context);
}

static const char *client_reason(const void *context)
{
    return mr_redis_client_reason(context);
}

static void client_close(void *context)
{
    mr_redis_client_close(context);
}

static void client_destroy(void *context)
{
    mr_redis_client_destroy(context);
}

static const struct mr_redis_port client_port = {.step = client_step,
                                                 .is_ready = client_is_ready,
                                                 .send = client_send,
                                                 .cancel = client_cancel,
                                                 .take = client_take,
                                                 .deadline_ns = client_deadline_ns,
                                                 .sockets = client_sockets,
                                                 .set_password = client_set_password,
                                                 .stats = client_stats,
                                                 .reason = client_reason,
                                                 .close = client_close,
                                                 .destroy = client_destroy};

enum mr_status mr_redis_port_open(struct mr_redis_port *out,
                                  const struct mr_redis_conn_options *options, uint64_t seed,
                                  struct mr_error *err)
{
    struct mr_redis_client *client;
    enum mr_status status = mr_redis_client_create(&client, options, seed, err);
    *out = client_port;
    out->context = client;
    return status;
}
