#include "worker/intake/engine_link.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

/* An engine that counts the calls. */
struct counter {
    struct mr_engine_link link;
    uint32_t submitted, cancelled, woken;
    uint64_t room, wanted;
    pthread_t closer;
    atomic_bool closed;
};

static enum mr_status submit(void *self, const struct mr_submission *submission,
                             struct mr_error *err)
{
    ((struct counter *)self)->submitted++;
    return submission->ticket == 7 ? MR_OK : mr_fail(err, MR_FULL, "the queue is full");
}

static bool cancel(void *self, uint32_t tenant_index, struct mr_text id)
{
    assert_int_equal(tenant_index, 3);
    assert_memory_equal(id.bytes, "id", 2);
    ((struct counter *)self)->cancelled++;
    return true;
}

static uint64_t room(void *self)
{
    return ((struct counter *)self)->room;
}

static void set_wanted(void *self, uint64_t tenants)
{
    ((struct counter *)self)->wanted = tenants;
}

static void wake(void *self)
{
    ((struct counter *)self)->woken++;
}

static void open_link(struct counter *counter)
{
    *counter = (struct counter){.room = 5};
    mr_engine_link_init(&counter->link);
    counter->link.port = (struct mr_engine_port){counter, submit, cancel, room, set_wanted, wake};
}

static void calls_reach_the_engine_until_the_link_is_closed(void **state)
{
    (void)state;
    struct counter counter;
    struct mr_error err = {0};
    struct mr_submission submission = {.ticket = 7};
    open_link(&counter);
    for (uint32_t closed = 0; closed < 2; closed++) {
        submission.ticket = 7;
        assert_int_equal(mr_engine_link_submit(&counter.link, &submission, &err),
                         closed ? MR_CLOSED : MR_OK);
        submission.ticket = 8;
        assert_int_equal(mr_engine_link_submit(&counter.link, &submission, &err),
                         closed ? MR_CLOSED : MR_FULL);
        mr_engine_link_cancel(&counter.link, 3, (struct mr_text){"id", 2});
        mr_engine_link_wake(&counter.link);
        assert_int_equal(counter.submitted, 2);
        assert_int_equal(counter.cancelled, 1);
        assert_int_equal(counter.woken, 1);
        assert_int_equal(mr_engine_link_is_closed(&counter.link), closed);
        mr_engine_link_close(&counter.link);
    }
    mr_engine_link_destroy(&counter.link);
}

static void tenants_without_room_are_wanted(void **state)
{
    (void)state;
    struct counter counter;
    open_link(&counter);
    assert_int_equal(mr_engine_link_room(&counter.link, 1), 5);
    assert_int_equal(mr_engine_link_room(&counter.link, 0), 5); /* as one tenant */
    assert_int_equal(counter.wanted, 0);
    assert_int_equal(mr_engine_link_room(&counter.link, 3), 5);
    assert_int_equal(counter.wanted, 2);
    assert_int_equal(mr_engine_link_room(&counter.link, 64), 5);
    assert_true(counter.wanted == (UINT64_MAX & ~(uint64_t)5));
    mr_engine_link_close(&counter.link);
    assert_int_equal(mr_engine_link_room(&counter.link, 1), 0);
    mr_engine_link_destroy(&counter.link);
}

static void *close_link(void *context)
{
    struct counter *counter = context;
    mr_engine_link_close(&counter->link);
    atomic_store(&counter->closed, true);
    return NULL;
}

/* The link is being closed while this call runs. */
static enum mr_status submit_while_closing(void *self, const struct mr_submission *submission,
                                           struct mr_error *err)
{
    struct counter *counter = self;
    (void)submission;
    (void)err;
    assert_int_equal(pthread_create(&counter->closer, NULL, close_link, counter), 0);
    usleep(20000);
    assert_false(atomic_load(&counter->closed));
    return MR_OK;
}

static void the_engine_ends_after_the_call_that_runs(void **state)
{
    (void)state;
    struct counter counter;
    const struct mr_submission submission = {.ticket = 7};
    open_link(&counter);
    counter.link.port.submit = submit_while_closing;
    assert_int_equal(mr_engine_link_submit(&counter.link, &submission, NULL), MR_OK);
    pthread_join(counter.closer, NULL);
    assert_true(mr_engine_link_is_closed(&counter.link));
    mr_engine_link_destroy(&counter.link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_reach_the_engine_until_the_link_is_closed),
        cmocka_unit_test(tenants_without_room_are_wanted),
        cmocka_unit_test(the_engine_ends_after_the_call_that_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
