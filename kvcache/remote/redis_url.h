/* redis_url - address, credentials and database of a Redis server in one text:
 *
 *     redis://[[USER][:PASSWORD]@]HOST[:PORT][/DATABASE]        port 6379, database 0 unless given
 *     rediss://...                                              the same over TLS
 *     unix://[[USER][:PASSWORD]@]/PATH[?db=DATABASE]
 *
 * User and password may contain %XX; an IPv6 address is written in brackets. Any node of a cluster
 * may be named.
 *
 * Threads: any. Memory: the struct itself. Errors: MR_BAD_CONFIG. Messages do not quote the URL,
 * because it may contain a password. */
#ifndef MR_KVCACHE_REMOTE_REDIS_URL_H
#define MR_KVCACHE_REMOTE_REDIS_URL_H

#include "codec/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_REDIS_HOST_BYTES   ((size_t)256)
#define MR_REDIS_SECRET_BYTES ((size_t)512)

struct mr_redis_url {
    char host[MR_REDIS_HOST_BYTES]; /* host name or address; "" when `path` is used */
    char path[108];                 /* path of a unix socket; "" when `host` is used */
    uint16_t port;
    uint32_t database;
    bool tls;
    char user[MR_REDIS_HOST_BYTES];       /* "": the default user */
    char password[MR_REDIS_SECRET_BYTES]; /* "": no password */
};

/* Replaces the password; it must be shorter than MR_REDIS_SECRET_BYTES (asserted). */
void mr_redis_url_set_password(struct mr_redis_url *url, const char *password);
enum mr_status mr_redis_url_parse(struct mr_redis_url *url, const char *text, struct mr_error *err);

#endif
