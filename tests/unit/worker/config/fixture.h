/* An empty configuration with its arena, as the state of a test. */
#ifndef MR_TESTS_WORKER_CONFIG_FIXTURE_H
#define MR_TESTS_WORKER_CONFIG_FIXTURE_H

#include "worker/config/option_apply.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

struct fixture {
    struct mr_config config;
    struct mr_config_store store;
    struct mr_error err;
};

static inline int create_fixture(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    fixture->store.arena = mr_arena_create(1 << 16);
    fixture->config.store = &fixture->store;
    *state = fixture;
    return 0;
}

static inline int destroy_fixture(void **state)
{
    struct fixture *fixture = *state;
    mr_arena_destroy(fixture->store.arena);
    free(fixture);
    return 0;
}

#endif
