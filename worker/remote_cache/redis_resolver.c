#include "worker/remote_cache/redis_resolver.h"

#include "codec/check.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORT_BYTES 8

struct resolver {
    struct mr_redis_resolver table; /* first, so that a pointer to it is one to the resolver */
    int (*resolve)(const char *host, const char *port, const struct addrinfo *hints,
                   struct addrinfo **addresses);
    pthread_mutex_t mutex;
    /* the fields below and those of all lookups are protected by the mutex */
    struct lookup *running;
    unsigned running_count;
    unsigned refs; /* the owner, and each lookup */
};

struct lookup {
    struct resolver *resolver;
    struct lookup *next; /* in the list of running lookups */
    char host[MR_REDIS_HOST_BYTES], port[PORT_BYTES];
    struct addrinfo *addresses;
    int error; /* of getaddrinfo; 0: none */
    bool done;
    unsigned refs; /* its thread while it runs, and each caller of begin */
};

/* Releases a reference; the caller holds the mutex, which this unlocks. */
static void unref_and_unlock(struct resolver *resolver)
{
    const bool last = --resolver->refs == 0;
    pthread_mutex_unlock(&resolver->mutex);
    if (!last) return;
    pthread_mutex_destroy(&resolver->mutex);
    free(resolver);
}

static void end(void *context)
{
    struct lookup *lookup = context;
    struct resolver *resolver = lookup->resolver;
    pthread_mutex_lock(&resolver->mutex);
    if (--lookup->refs > 0) {
        pthread_mutex_unlock(&resolver->mutex);
        return;
    }
    if (lookup->addresses) freeaddrinfo(lookup->addresses);
    free(lookup);
    unref_and_unlock(resolver);
}

static void *run(void *context)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct lookup *lookup = context;
    struct resolver *resolver = lookup->resolver;
    struct addrinfo *addresses = NULL;
    int error = resolver->resolve(lookup->host, lookup->port, &hints, &addresses);
    pthread_mutex_lock(&resolver->mutex);
    struct lookup **link = &resolver->running;
    while (*link != lookup)
        link = &(*link)->next;
    *link = lookup->next;
    resolver->running_count--;
    lookup->addresses = error ? NULL : addresses;
    lookup->error = error;
    lookup->done = true;
    pthread_mutex_unlock(&resolver->mutex);
    end(lookup);
    return NULL;
}

/* Starts a lookup in a thread of its own; the caller holds the mutex. NULL: too many run, or memory
 * or threads are out. */
static struct lookup *start(struct resolver *resolver, const char *host, const char *port)
{
    if (resolver->running_count == MR_REDIS_RESOLVES_MAX) return NULL;
    struct lookup *lookup = calloc(1, sizeof *lookup);
    if (!lookup) return NULL;
    lookup->resolver = resolver;
    lookup->refs = 1;
    snprintf(lookup->host, sizeof lookup->host, "%s", host);
    snprintf(lookup->port, sizeof lookup->port, "%s", port);
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    const bool started = pthread_create(&thread, &attributes, run, lookup) == 0;
    pthread_attr_destroy(&attributes);
    if (!started) {
        free(lookup);
        return NULL;
    }
    lookup->next = resolver->running;
    resolver->running = lookup;
    resolver->running_count++;
    resolver->refs++;
    return lookup;
}

static void *begin(void *context, const char *host, const char *port)
{
    struct resolver *resolver = context;
    MR_ASSERT(strlen(host) < MR_REDIS_HOST_BYTES && strlen(port) < PORT_BYTES);
    pthread_mutex_lock(&resolver->mutex);
    struct lookup *lookup = resolver->running;
    while (lookup && (strcmp(lookup->host, host) != 0 || strcmp(lookup->port, port) != 0))
        lookup = lookup->next;
    if (!lookup) lookup = start(resolver, host, port);
    if (lookup) lookup->refs++;
    pthread_mutex_unlock(&resolver->mutex);
    return lookup;
}

static bool poll_lookup(void *context, const struct addrinfo **addresses, int *error)
{
    const struct lookup *lookup = context;
    pthread_mutex_lock(&lookup->resolver->mutex);
    const bool done = lookup->done;
    *addresses = lookup->addresses;
    *error = lookup->error;
    pthread_mutex_unlock(&lookup->resolver->mutex);
    return done;
}

enum mr_status mr_redis_resolver_create(struct mr_redis_resolver **out,
                                        int (*resolve)(const char *host, const char *port,
                                                       const struct addrinfo *hints,
                                                       struct addrinfo **addresses),
                                        struct mr_error *err)
{
    *out = NULL;
    struct resolver *resolver = calloc(1, sizeof *resolver);
    if (!resolver) return mr_fail(err, MR_NOMEM, "no memory for the resolver of Redis hosts");
    resolver->table = (struct mr_redis_resolver){
        .context = resolver, .begin = begin, .poll = poll_lookup, .end = end};
    resolver->resolve = resolve;
    resolver->refs = 1;
    pthread_mutex_init(&resolver->mutex, NULL);
    *out = &resolver->table;
    return MR_OK;
}

void mr_redis_resolver_destroy(struct mr_redis_resolver *table)
{
    if (!table) return;
    struct resolver *resolver = table->context;
    pthread_mutex_lock(&resolver->mutex);
    unref_and_unlock(resolver);
}
