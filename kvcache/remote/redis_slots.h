/* redis_slots - the hash slot of a key in a Redis Cluster: CRC16 (XMODEM) of the key, or of the
 * text between its first braces (Redis cluster specification, "Keys distribution model").
 *
 * Threads: any. Memory: none. Errors: none. */
#ifndef MR_KVCACHE_REMOTE_REDIS_SLOTS_H
#define MR_KVCACHE_REMOTE_REDIS_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_REDIS_SLOTS     16384u
#define MR_REDIS_NODE_NONE UINT8_MAX

/* Hash slot of a key, below MR_REDIS_SLOTS. */
uint32_t mr_redis_slot(const char *key, size_t length);

/* The fields of the error replies "MOVED 3999 127.0.0.1:6381" and "ASK ...". host points into the
 * text; host is empty when the redirection is to the node that answered. */
struct mr_redis_redirect {
    uint32_t slot;
    const char *host;
    size_t host_length;
    uint16_t port;
    bool ask; /* true: ASK, which redirects this command only; false: MOVED */
};
/* Parses the text of an error reply. False: the text is neither MOVED nor ASK. */
bool mr_redis_redirect_parse(const char *text, size_t length, struct mr_redis_redirect *out);

#endif
