/* The order of waiting requests that have a deadline: urgent ones go first, and starve nobody. */
#include "batching/queue/request_queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define ENTRIES 8u

struct fixture {
    struct mr_request_queue *queue;
    struct mr_queue_entry entries[ENTRIES];
    uint64_t own_ns[ENTRIES]; /* predicted own times */
    uint32_t count, predictions;
};

static void begin(struct fixture *fixture)
{
    const struct mr_request_queue_options options = {.count_max = ENTRIES, .bytes_max = 100};
    *fixture = (struct fixture){.count = 0};
    assert_int_equal(mr_request_queue_create(&fixture->queue, &options, NULL), MR_OK);
}

static uint64_t own_ns(void *context, struct mr_queue_entry *entry)
{
    struct fixture *fixture = context;
    fixture->predictions++;
    return fixture->own_ns[entry - fixture->entries];
}

static void update(struct fixture *fixture, uint64_t now_ns)
{
    mr_request_queue_update_urgent(fixture->queue, now_ns, own_ns, fixture);
    mr_request_queue_check(fixture->queue);
}

/* Each arrives later than the ones before. */
static struct mr_queue_entry *add(struct fixture *fixture, int32_t priority, uint64_t deadline_ns,
                                  uint64_t own)
{
    static const char ids[] = "abcdefgh";
    const uint32_t index = fixture->count++;
    struct mr_queue_entry *entry = &fixture->entries[index];
    *entry = (struct mr_queue_entry){.id = {&ids[index], 1},
                                     .priority = priority,
                                     .arrival_ns = index,
                                     .deadline_ns = deadline_ns,
                                     .held_bytes = 1};
    fixture->own_ns[index] = own;
    assert_int_equal(mr_request_queue_enqueue(fixture->queue, entry), MR_OK);
    return entry;
}

static void next_is(struct fixture *fixture, struct mr_queue_entry *expected)
{
    assert_ptr_equal(mr_request_queue_first_of(fixture->queue, 0), expected);
    assert_ptr_equal(mr_request_queue_dequeue(fixture->queue), expected);
    mr_request_queue_check(fixture->queue);
    if (expected != NULL) mr_request_queue_release(fixture->queue, expected);
}

static void end(struct fixture *fixture)
{
    next_is(fixture, NULL);
    mr_request_queue_destroy(fixture->queue);
}

static void an_urgent_request_goes_first_once_its_slack_is_its_own_time(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture);
    struct mr_queue_entry *first = add(&fixture, 0, 0, 0), *second = add(&fixture, 0, 0, 0);
    struct mr_queue_entry *timed = add(&fixture, 0, 1000, 200);
    update(&fixture, 100);
    next_is(&fixture, first);
    update(&fixture, 599);
    assert_ptr_equal(mr_request_queue_first_of(fixture.queue, 0), second);
    update(&fixture, 601);
    next_is(&fixture, timed);
    next_is(&fixture, second);
    end(&fixture);
}

static void of_two_urgent_requests_the_one_with_less_slack_goes_first(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture);
    struct mr_queue_entry *other = add(&fixture, 0, 0, 0);
    struct mr_queue_entry *short_one = add(&fixture, 0, 1000, 600);
    struct mr_queue_entry *long_one = add(&fixture, 0, 1100, 900);
    update(&fixture, 100);
    next_is(&fixture, long_one);
    next_is(&fixture, other); /* at most every second one goes first */
    next_is(&fixture, short_one);
    end(&fixture);
}

static void a_request_that_cannot_meet_its_deadline_is_not_urgent(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture);
    struct mr_queue_entry *first = add(&fixture, 0, 0, 0);
    struct mr_queue_entry *late = add(&fixture, 0, 1000, 950);
    struct mr_queue_entry *missed = add(&fixture, 0, 1000, 600);
    update(&fixture, 100);
    assert_ptr_equal(mr_request_queue_first_of(fixture.queue, 0), missed);
    update(&fixture, 500);
    next_is(&fixture, first);
    next_is(&fixture, late);
    next_is(&fixture, missed);
    end(&fixture);
}

static void a_higher_priority_goes_before_an_urgent_request(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture);
    struct mr_queue_entry *low = add(&fixture, -1, 0, 0);
    struct mr_queue_entry *urgent = add(&fixture, 0, 1000, 600);
    struct mr_queue_entry *lower = add(&fixture, -1, 1000, 700);
    struct mr_queue_entry *high = add(&fixture, 1, 0, 0);
    update(&fixture, 10);
    next_is(&fixture, high);
    next_is(&fixture, urgent);
    next_is(&fixture, lower);
    next_is(&fixture, low);
    end(&fixture);
}

/* Predicted again when half of the time until it would be urgent has passed. */
static void an_own_time_that_grows_is_noticed(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture);
    struct mr_queue_entry *first = add(&fixture, 0, 0, 0);
    struct mr_queue_entry *timed = add(&fixture, 0, 1000, 100);
    for (uint64_t now_ns = 0; now_ns < 100; now_ns++)
        update(&fixture, now_ns);
    assert_int_equal(fixture.predictions, 1);
    fixture.own_ns[1] = 400;
    update(&fixture, 402);
    next_is(&fixture, timed);
    next_is(&fixture, first);
    end(&fixture);
}

static void a_request_that_was_returned_is_predicted_again(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture);
    struct mr_queue_entry *first = add(&fixture, 0, 0, 0);
    struct mr_queue_entry *timed = add(&fixture, 0, 1000, 600);
    update(&fixture, 0);
    assert_ptr_equal(mr_request_queue_dequeue(fixture.queue), timed);
    mr_request_queue_return(fixture.queue, timed);
    mr_request_queue_check(fixture.queue);
    update(&fixture, 10);
    next_is(&fixture, first);
    next_is(&fixture, timed);
    end(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_urgent_request_goes_first_once_its_slack_is_its_own_time),
        cmocka_unit_test(of_two_urgent_requests_the_one_with_less_slack_goes_first),
        cmocka_unit_test(a_request_that_cannot_meet_its_deadline_is_not_urgent),
        cmocka_unit_test(a_higher_priority_goes_before_an_urgent_request),
        cmocka_unit_test(an_own_time_that_grows_is_noticed),
        cmocka_unit_test(a_request_that_was_returned_is_predicted_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
