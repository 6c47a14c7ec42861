/* redis_url - where a Redis is and who we are there, as one text:
 *
 *     redis://[[USER][:PASSWORD]@]HOST[:PORT][/DATABASE]        port 6379, database 0 unless given
 *     rediss://...                                              the same over TLS
 *     unix://[[USER][:PASSWORD]@]/PATH[?db=DATABASE]
 *
 * User and password may hold %XX; an IPv6 address stands in brackets. A cluster is given by any of
 * its nodes.
 *
 * Threads: any. Memory: the struct itself. Errors: MR_BAD_CONFIG with one sentence that repeats
 * nothing of the text, since it may hold a password. */
#ifndef MR_KVCACHE_REDIS_REDIS_URL_H
#define MR_KVCACHE_REDIS_REDIS_URL_H

#include "codec/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_REDIS_HOST_BYTES   ((size_t)256)
#define MR_REDIS_SECRET_BYTES ((size_t)512)

struct mr_redis_url {
    char host[MR_REDIS_HOST_BYTES]; /* name or address; "" for a socket */
    char path[108];                 /* of a unix socket; "" for a host */
    uint16_t port;
    uint32_t database;
    bool tls;
    char user[MR_REDIS_HOST_BYTES];       /* "" the default user */
    char password[MR_REDIS_SECRET_BYTES]; /* "" none */
};

enum mr_status mr_redis_url_parse(struct mr_redis_url *url, const char *text, struct mr_error *err);

#endif
