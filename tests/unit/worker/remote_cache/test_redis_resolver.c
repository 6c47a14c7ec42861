#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/remote_cache/redis_resolver.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A name server that hangs while `closed` is true; "bad" has no address. */
static atomic_bool closed;
static atomic_uint calls, returned;

static int resolve(const char *host, const char *port, const struct addrinfo *hints,
                   struct addrinfo **addresses)
{
    (void)hints;
    atomic_fetch_add(&calls, 1);
    while (atomic_load(&closed))
        usleep(1000);
    struct addrinfo numeric = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    int error =
        getaddrinfo(strcmp(host, "bad") == 0 ? host : "127.0.0.1", port, &numeric, addresses);
    atomic_fetch_add(&returned, 1);
    return error;
}

static struct mr_redis_resolver *open_resolver(bool hangs)
{
    struct mr_redis_resolver *resolver;
    atomic_store(&closed, hangs);
    atomic_store(&calls, 0);
    atomic_store(&returned, 0);
    assert_int_equal(mr_redis_resolver_create(&resolver, resolve, NULL), MR_OK);
    return resolver;
}

/* Waits for the end of a lookup; returns the error of getaddrinfo. */
static int finish(struct mr_redis_resolver *resolver, void *lookup)
{
    const struct addrinfo *addresses = NULL;
    int error = -1;
    assert_non_null(lookup);
    while (!resolver->poll(lookup, &addresses, &error))
        usleep(1000);
    assert_true(error ? addresses == NULL : addresses->ai_family == AF_INET);
    resolver->end(lookup);
    return error;
}

static void a_name_is_resolved_or_has_an_error(void **state)
{
    (void)state;
    struct mr_redis_resolver *resolver = open_resolver(false);
    assert_int_equal(finish(resolver, resolver->begin(resolver->context, "redis", "6379")), 0);
    assert_int_equal(finish(resolver, resolver->begin(resolver->context, "bad", "6379")),
                     EAI_NONAME);
    mr_redis_resolver_destroy(resolver);
    mr_redis_resolver_destroy(NULL);
}

static void connections_share_the_lookup_of_a_host(void **state)
{
    (void)state;
    struct mr_redis_resolver *resolver = open_resolver(true);
    void *one = resolver->begin(resolver->context, "redis", "6379");
    void *two = resolver->begin(resolver->context, "redis", "6379");
    void *other = resolver->begin(resolver->context, "redis", "6380");
    assert_ptr_equal(one, two);
    assert_ptr_not_equal(one, other);
    const struct addrinfo *addresses;
    int error;
    assert_false(resolver->poll(one, &addresses, &error));
    resolver->end(one); /* abandoned; the second connection still waits */
    atomic_store(&closed, false);
    assert_int_equal(finish(resolver, two), 0);
    assert_int_equal(finish(resolver, other), 0);
    assert_int_equal(atomic_load(&calls), 2);
    mr_redis_resolver_destroy(resolver);
}

/* Each retry of a connection joins the lookup thread that hangs. */
static void lookups_that_hang_are_bounded_and_outlive_the_resolver(void **state)
{
    (void)state;
    struct mr_redis_resolver *resolver = open_resolver(true);
    for (int i = 0; i < 100; i++)
        resolver->end(resolver->begin(resolver->context, "redis", "6379"));
    for (unsigned i = 1; i < MR_REDIS_RESOLVES_MAX; i++) {
        char port[8];
        snprintf(port, sizeof port, "%u", i);
        resolver->end(resolver->begin(resolver->context, "redis", port));
    }
    assert_null(resolver->begin(resolver->context, "another", "6379"));
    mr_redis_resolver_destroy(resolver);
    atomic_store(&closed, false);
    for (int i = 0; i < 5000 && atomic_load(&returned) < MR_REDIS_RESOLVES_MAX; i++)
        usleep(1000);
    assert_int_equal(atomic_load(&calls), MR_REDIS_RESOLVES_MAX);
    assert_int_equal(atomic_load(&returned), MR_REDIS_RESOLVES_MAX);
    usleep(50000); /* the threads free their memory */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_is_resolved_or_has_an_error),
        cmocka_unit_test(connections_share_the_lookup_of_a_host),
        cmocka_unit_test(lookups_that_hang_are_bounded_and_outlive_the_resolver),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
