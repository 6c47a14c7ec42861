#include "tests/fuzz/memory_link.h"

#include "codec/check.h"
#include "kvcache/remote/redis_conn_state.h"

#include <poll.h>
#include <string.h>

static struct {
    struct mr_text turns;   /* not begun */
    struct mr_text present; /* the rest of the turn that can be read now */
    uint32_t state;         /* state of the random numbers that cut reads; 0: whole reads */
} server;

void memory_link_set(struct mr_text turns, uint8_t seed)
{
    server.turns = turns;
    server.present = (struct mr_text){0};
    server.state = seed;
}

bool memory_link_is_empty(void)
{
    return server.turns.length + server.present.length == 0;
}

static void begin_turn(void)
{
    struct mr_text turns = server.turns;
    if (turns.length == 0 || server.present.length > 0) return;
    size_t end = 1 + (size_t)(unsigned char)turns.bytes[0];
    if (end > turns.length) end = turns.length;
    server.present = mr_text_part(turns, 1, end);
    server.turns = mr_text_part(turns, end, turns.length);
}

/* The number of bytes that the next read may return: all of the turn, or 0 to 31. */
static size_t next_piece(void)
{
    if (server.state == 0) return server.present.length;
    server.state = server.state * 1664525u + 1013904223u; /* Numerical Recipes, chapter 7 */
    size_t piece = server.state >> 27;
    return piece < server.present.length ? piece : server.present.length;
}

void mr_redis_link_init(struct mr_redis_link *link)
{
    *link = (struct mr_redis_link){.fd = -1};
}

void mr_redis_link_adopt(struct mr_redis_link *link, int fd)
{
    link->fd = fd;
    link->connected = true;
}

void mr_redis_link_close(struct mr_redis_link *link)
{
    link->fd = -1;
    link->connected = false;
}

enum mr_status mr_redis_link_open(struct mr_redis_link *link, const struct mr_redis_url *where,
                                  struct mr_redis_tls_context *tls, struct mr_error *err)
{
    (void)where;
    (void)tls;
    (void)err;
    MR_ASSERT(link->fd < 0);
    mr_redis_link_adopt(link, 0);
    return MR_OK;
}

enum mr_status mr_redis_link_finish(struct mr_redis_link *link, struct mr_error *err)
{
    (void)link;
    (void)err;
    return MR_OK;
}

short mr_redis_link_events(const struct mr_redis_link *link, bool writing)
{
    (void)link;
    return writing ? POLLIN | POLLOUT : POLLIN;
}

ssize_t mr_redis_link_read(struct mr_redis_link *link, struct iovec *parts, int count)
{
    size_t left = next_piece(), done = 0;
    MR_ASSERT(link->fd >= 0 && count <= MR_REDIS_PARTS_MAX);
    for (int i = 0; i < count && left > 0; i++) {
        size_t part = left < parts[i].iov_len ? left : parts[i].iov_len;
        if (part) memcpy(parts[i].iov_base, server.present.bytes, part);
        server.present = mr_text_part(server.present, part, server.present.length);
        left -= part;
        done += part;
    }
    return (ssize_t)done;
}

ssize_t mr_redis_link_write(struct mr_redis_link *link, struct iovec *parts, int count)
{
    size_t done = 0;
    MR_ASSERT(link->fd >= 0);
    for (int i = 0; i < count; i++)
        done += parts[i].iov_len;
    if (done > 0) begin_turn();
    return (ssize_t)done;
}

bool mr_redis_link_has_bytes(const struct mr_redis_link *link)
{
    (void)link;
    return false;
}

bool mr_redis_link_is_writing(const struct mr_redis_link *link)
{
    (void)link;
    return false;
}
