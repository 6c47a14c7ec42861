/* two_addresses - for tests: the host two.test has two addresses, 127.0.0.2 and then 127.0.0.1.
 * Include it in one file of a program: its getaddrinfo replaces the C library's. */
#ifndef MR_TESTS_UNIT_WORKER_TWO_ADDRESSES_H
#define MR_TESTS_UNIT_WORKER_TWO_ADDRESSES_H

#include <dlfcn.h>
#include <netdb.h>
#include <string.h>

int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                struct addrinfo **out)
{
    int (*resolve)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    void *found = dlsym(RTLD_NEXT, "getaddrinfo");
    memcpy(&resolve, &found, sizeof resolve);
    if (strcmp(host, "two.test") != 0) return resolve(host, port, hints, out);
    int failed = resolve("127.0.0.2", port, hints, out);
    return failed ? failed : resolve("127.0.0.1", port, hints, &(*out)->ai_next);
}

#endif
