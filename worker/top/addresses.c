#include "worker/top/addresses.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *one, const void *other)
{
    return strcmp(one, other);
}

void mr_addresses_make(struct mr_kafka_hosts *hosts, uint32_t port,
                       char (*addresses)[MR_ADDRESS_BYTES])
{
    uint32_t same = 0; /* workers of this host before this one */
    qsort(hosts->names, hosts->count, sizeof hosts->names[0], compare);
    for (size_t i = 0; i < hosts->count; i++) {
        const char *host = hosts->names[i];
        bool six = strchr(host, ':') != NULL;
        same = i > 0 && strcmp(host, hosts->names[i - 1]) == 0 ? same + 1 : 0;
        snprintf(addresses[i], MR_ADDRESS_BYTES, "%s%s%s:%" PRIu32, six ? "[" : "", host,
                 six ? "]" : "", (port + same) % 65536);
    }
}
