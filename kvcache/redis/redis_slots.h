/* redis_slots - which node of a Redis Cluster a key belongs to: CRC16 (XMODEM) of the key, or of
 * what stands between its first braces (Redis cluster specification, "Keys distribution model").
 *
 * Threads: a map belongs to one thread. Memory: the struct. Errors: none. */
#ifndef MR_KVCACHE_REDIS_REDIS_SLOTS_H
#define MR_KVCACHE_REDIS_REDIS_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_REDIS_SLOTS     16384u
#define MR_REDIS_NODE_NONE UINT8_MAX

/* Slot of a key, below MR_REDIS_SLOTS. */
uint32_t mr_redis_slot(const char *key, size_t length);

/* What "MOVED 3999 127.0.0.1:6381" and "ASK ..." say. host points into text; it is empty when the
 * node is the one that answered. */
struct mr_redis_redirect {
    uint32_t slot;
    const char *host;
    size_t host_length;
    uint16_t port;
    bool ask; /* this once only */
};
/* False: not such a text. */
bool mr_redis_redirect_parse(const char *text, size_t length, struct mr_redis_redirect *out);

#endif
