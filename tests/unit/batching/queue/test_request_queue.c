#include "batching/queue/request_queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>

#define SECOND ((uint64_t)1000000000)

static struct mr_request_queue *queue_of(uint32_t count_max, uint64_t bytes_max, uint64_t ageing_ns)
{
    struct mr_request_queue *queue = NULL;
    struct mr_request_queue_options options = {
        .count_max = count_max, .bytes_max = bytes_max, .ageing_ns = ageing_ns};
    assert_int_equal(mr_request_queue_create(&queue, &options, NULL), MR_OK);
    return queue;
}

static struct mr_queue_entry entry_of(const char *id, int32_t priority, uint64_t arrival_ns)
{
    return (struct mr_queue_entry){
        .id = {id, strlen(id)}, .priority = priority, .arrival_ns = arrival_ns, .held_bytes = 1};
}

static struct mr_text text_of(const char *id)
{
    return (struct mr_text){id, strlen(id)};
}

static void enqueue(struct mr_request_queue *queue, struct mr_queue_entry *entry)
{
    assert_int_equal(mr_request_queue_enqueue(queue, entry), MR_OK);
}

/* Asserts that this entry left the order, and frees its id. */
static void released(struct mr_request_queue *queue, struct mr_queue_entry *left,
                     struct mr_queue_entry *expected)
{
    assert_ptr_equal(left, expected);
    mr_request_queue_release(queue, left);
}

static void check_and_destroy(struct mr_request_queue *queue)
{
    struct mr_queue_entry *entry;
    mr_request_queue_check(queue);
    while ((entry = mr_request_queue_drain(queue)) != NULL) {
        mr_request_queue_check(queue);
        mr_request_queue_release(queue, entry);
    }
    mr_request_queue_destroy(queue);
}

static void higher_priority_goes_first_and_equals_in_order_of_arrival(void **state)
{
    (void)state;
    struct mr_request_queue *queue = queue_of(8, 100, 0);
    struct mr_queue_entry entries[5] = {entry_of("low", -10, 1), entry_of("a", 0, 3),
                                        entry_of("b", 0, 2), entry_of("urgent", 20, 9),
                                        entry_of("c", 0, 3)};
    for (int i = 0; i < 5; i++)
        enqueue(queue, &entries[i]);
    static const int order[5] = {3, 2, 1, 4, 0};
    for (int i = 0; i < 5; i++)
        released(queue, mr_request_queue_dequeue(queue), &entries[order[i]]);
    assert_null(mr_request_queue_dequeue(queue));
    assert_true(mr_request_queue_is_empty(queue));
    check_and_destroy(queue);
}

static void waiting_is_worth_priority(void **state)
{
    (void)state;
    struct mr_request_queue *queue = queue_of(8, 100, SECOND);
    struct mr_queue_entry low = entry_of("low", 0, 1 * SECOND);
    struct mr_queue_entry soon =
        entry_of("soon", 3, 3 * SECOND); /* 2 s later, 3 steps higher: first */
    struct mr_queue_entry late =
        entry_of("late", 3, 4 * SECOND); /* 3 s later: equal, low arrived first */
    struct mr_queue_entry later =
        entry_of("later", 3, 9 * SECOND); /* 8 s later: low has gained more */
    enqueue(queue, &later);
    enqueue(queue, &late);
    enqueue(queue, &low);
    enqueue(queue, &soon);
    released(queue, mr_request_queue_dequeue(queue), &soon);
    released(queue, mr_request_queue_dequeue(queue), &low);
    released(queue, mr_request_queue_dequeue(queue), &late);
    released(queue, mr_request_queue_dequeue(queue), &later);
    check_and_destroy(queue);
}

static void the_widest_priorities_do_not_overflow(void **state)
{
    (void)state;
    struct mr_request_queue *queue = queue_of(8, 100, UINT64_MAX / 2);
    struct mr_queue_entry low = entry_of("low", INT32_MIN, 0);
    struct mr_queue_entry high = entry_of("high", INT32_MAX, UINT64_MAX);
    enqueue(queue, &low);
    enqueue(queue, &high);
    released(queue, mr_request_queue_dequeue(queue), &high);
    check_and_destroy(queue);
}

static void bounds_hold_and_refusals_are_typed(void **state)
{
    (void)state;
    struct mr_request_queue *queue = queue_of(2, 100, 0);
    struct mr_queue_entry a = entry_of("a", 0, 1), b = entry_of("b", 0, 1), c = entry_of("c", 0, 1),
                          duplicate = entry_of("a", 0, 1);
    b.held_bytes = 100;
    enqueue(queue, &a);
    assert_int_equal(mr_request_queue_enqueue(queue, &duplicate), MR_INVALID_REQUEST);
    assert_int_equal(mr_request_queue_enqueue(queue, &b), MR_FULL);
    b.held_bytes = 99;
    enqueue(queue, &b);
    c.held_bytes = 0;
    assert_int_equal(mr_request_queue_enqueue(queue, &c), MR_FULL);
    released(queue, mr_request_queue_dequeue(queue), &a);
    check_and_destroy(queue);
}

static void an_empty_queue_takes_even_the_largest(void **state)
{
    (void)state;
    struct mr_request_queue *queue = queue_of(2, 100, 0);
    struct mr_queue_entry huge = entry_of("huge", 0, 1);
    huge.held_bytes = 1000;
    enqueue(queue, &huge);
    check_and_destroy(queue);
}

static void a_returned_entry_gets_its_old_place_whatever_the_bounds(void **state)
{
    (void)state;
    struct mr_request_queue *queue = queue_of(2, 2, 0);
    struct mr_queue_entry a = entry_of("a", 0, 5), b = entry_of("b", 0, 5), c = entry_of("c", 0, 5);
    enqueue(queue, &a);
    enqueue(queue, &b);
    assert_ptr_equal(mr_request_queue_dequeue(queue), &a);
    enqueue(queue, &c);
    mr_request_queue_return(queue, &a);
    assert_int_equal(mr_request_queue_count(queue), 3);
    mr_request_queue_check(queue);
    released(queue, mr_request_queue_dequeue(queue), &a);
    check_and_destroy(queue);
}

static void a_cancelled_entry_leaves_the_order_and_its_id_is_free_once_released(void **state)
{
    (void)state;
    struct mr_request_queue *queue = queue_of(8, 100, 0);
    struct mr_queue_entry a = entry_of("a", 0, 1), b = entry_of("b", 5, 2);
    enqueue(queue, &a);
    enqueue(queue, &b);
    assert_null(mr_request_queue_cancelled(queue));
    assert_false(mr_request_queue_cancel(queue, text_of("none")));
    assert_false(mr_request_queue_cancel(queue, text_of("")));
    assert_true(mr_request_queue_cancel(queue, text_of("b")));
    assert_int_equal(mr_request_queue_count(queue), 2); /* until the engine thread takes it */
    assert_ptr_equal(mr_request_queue_cancelled(queue), &b);
    assert_null(mr_request_queue_cancelled(queue));
    assert_int_equal(mr_request_queue_count(queue), 1);
    assert_int_equal(mr_request_queue_enqueue(queue, &(struct mr_queue_entry){.id = b.id}),
                     MR_INVALID_REQUEST);
    mr_request_queue_check(queue);
    mr_request_queue_release(queue, &b);
    assert_false(mr_request_queue_cancel(queue, text_of("b")));
    enqueue(queue, &b);
    assert_null(
        mr_request_queue_cancelled(queue)); /* the cancellation belonged to the released entry */
    check_and_destroy(queue);
}

static void cancels_come_out_once_each_and_in_their_order(void **state)
{
    (void)state;
    struct mr_request_queue *queue = queue_of(8, 100, 0);
    struct mr_queue_entry entries[4] = {entry_of("a", 0, 1), entry_of("b", 0, 2),
                                        entry_of("c", 0, 3), entry_of("d", 0, 4)};
    for (int i = 0; i < 4; i++)
        enqueue(queue, &entries[i]);
    static const char *const order[] = {"c", "a", "c", "d", "b", "a"};
    for (int i = 0; i < 6; i++)
        assert_true(mr_request_queue_cancel(queue, text_of(order[i])));
    released(queue, mr_request_queue_dequeue(queue), &entries[0]); /* ended before its cancel */
    assert_ptr_equal(mr_request_queue_dequeue(queue), &entries[1]);
    released(queue, mr_request_queue_cancelled(queue), &entries[2]);
    released(queue, mr_request_queue_cancelled(queue), &entries[3]);
    released(queue, mr_request_queue_cancelled(queue), &entries[1]); /* does not wait */
    assert_null(mr_request_queue_cancelled(queue));
    check_and_destroy(queue);
}

static void a_cancelled_entry_that_is_returned_leaves_by_its_cancel(void **state)
{
    (void)state;
    struct mr_request_queue *queue = queue_of(8, 100, 0);
    struct mr_queue_entry a = entry_of("a", 0, 1);
    enqueue(queue, &a);
    assert_ptr_equal(mr_request_queue_dequeue(queue), &a);
    assert_true(mr_request_queue_cancel(queue, text_of("a")));
    mr_request_queue_return(queue, &a);
    released(queue, mr_request_queue_cancelled(queue), &a);
    assert_int_equal(mr_request_queue_count(queue), 0);
    check_and_destroy(queue);
}

static void expired_entries_come_out_earliest_first(void **state)
{
    (void)state;
    struct mr_request_queue *queue = queue_of(8, 100, 0);
    struct mr_queue_entry a = entry_of("a", 0, 1), b = entry_of("b", 0, 1), c = entry_of("c", 9, 1);
    a.deadline_ns = 30;
    b.deadline_ns = 20;
    enqueue(queue, &a);
    enqueue(queue, &b);
    enqueue(queue, &c);
    assert_null(mr_request_queue_expired(queue, 19));
    released(queue, mr_request_queue_expired(queue, 30), &b);
    released(queue, mr_request_queue_expired(queue, 30), &a);
    assert_null(mr_request_queue_expired(queue, UINT64_MAX));
    assert_int_equal(mr_request_queue_count(queue), 1);
    check_and_destroy(queue);
}

static struct mr_request_queue *shared_queue(uint32_t count_max, uint64_t blocks_max,
                                             const uint32_t *weights)
{
    struct mr_request_queue *queue = NULL;
    struct mr_request_queue_options options = {.count_max = count_max,
                                               .bytes_max = 100,
                                               .blocks_max = blocks_max,
                                               .tenant_count = 2,
                                               .tenant_weights = weights};
    assert_int_equal(mr_request_queue_create(&queue, &options, NULL), MR_OK);
    return queue;
}

static struct mr_queue_entry entry_for(uint32_t tenant, const char *id, int32_t priority)
{
    struct mr_queue_entry entry = entry_of(id, priority, 1);
    entry.tenant = tenant;
    return entry;
}

static void a_flood_fills_only_its_own_part(void **state)
{
    (void)state;
    const uint32_t weights[] = {3, 1};
    struct mr_request_queue *queue = shared_queue(4, 0, weights);
    struct mr_queue_entry flood[4] = {entry_for(0, "a", 0), entry_for(0, "b", 0),
                                      entry_for(0, "c", 0), entry_for(0, "d", 0)};
    struct mr_queue_entry other = entry_for(1, "x", 0);
    assert_int_equal(mr_request_queue_room(queue), 3);
    for (int i = 0; i < 3; i++)
        enqueue(queue, &flood[i]);
    assert_int_equal(mr_request_queue_enqueue(queue, &flood[3]), MR_FULL);
    assert_int_equal(mr_request_queue_room(queue), 2);
    enqueue(queue, &other);
    assert_int_equal(mr_request_queue_room(queue), 0);
    assert_int_equal(mr_request_queue_count(queue), 4);
    check_and_destroy(queue);
}

static void predicted_blocks_are_bounded(void **state)
{
    (void)state;
    struct mr_request_queue *queue = shared_queue(8, 20, NULL);
    struct mr_queue_entry huge = entry_for(0, "huge", 0), more = entry_for(0, "more", 0),
                          other = entry_for(1, "other", 0);
    huge.blocks = 50; /* above the bound: accepted into an empty queue */
    more.blocks = 1;
    other.blocks = 10;
    enqueue(queue, &huge);
    assert_int_equal(mr_request_queue_enqueue(queue, &more), MR_FULL);
    enqueue(queue, &other);
    assert_int_equal(mr_request_queue_room(queue), 0);
    assert_true(mr_request_queue_cancel(queue, text_of("huge")));
    released(queue, mr_request_queue_cancelled(queue), &huge);
    enqueue(queue, &more);
    assert_int_equal(mr_request_queue_room(queue), 1);
    check_and_destroy(queue);
}

static void the_tenant_served_less_goes_first_and_keeps_its_own_order(void **state)
{
    (void)state;
    struct mr_request_queue *queue = shared_queue(8, 0, NULL);
    struct mr_queue_entry a = entry_for(0, "a", 50), b = entry_for(0, "b", 0),
                          x = entry_for(1, "x", 0), y = entry_for(1, "y", 1);
    enqueue(queue, &b);
    enqueue(queue, &a);
    enqueue(queue, &x);
    enqueue(queue, &y);
    released(queue, mr_request_queue_dequeue(queue), &a);
    mr_request_queue_charge(queue, 0, 100);
    assert_true(mr_request_queue_is_behind(queue, 1, 0, 0));
    assert_ptr_equal(mr_request_queue_dequeue(queue), &y);
    mr_request_queue_return(queue, &y); /* returned: the order is as before */
    released(queue, mr_request_queue_dequeue(queue), &y);
    mr_request_queue_charge(queue, 1, 250);
    assert_true(mr_request_queue_is_behind(queue, 0, 1, 0));
    mr_request_queue_refund(queue, 1, 200);
    assert_true(mr_request_queue_is_behind(queue, 1, 0, 0));
    mr_request_queue_charge(queue, 1, 100);
    released(queue, mr_request_queue_dequeue(queue), &b);
    released(queue, mr_request_queue_dequeue(queue), &x);
    check_and_destroy(queue);
}

static void misuse_is_caught(void **state)
{
    (void)state;
    struct mr_request_queue *queue = queue_of(8, 100, 0);
    struct mr_queue_entry a = entry_of("a", 0, 1);
    enqueue(queue, &a);
    expect_assert_failure(mr_request_queue_destroy(queue));
    assert_ptr_equal(mr_request_queue_dequeue(queue), &a);
    expect_assert_failure(mr_request_queue_destroy(queue)); /* the id is still in use */
    mr_request_queue_release(queue, &a);
    mr_request_queue_destroy(queue);
}

/* ---- random operations against a list ---- */

#define LISTED 40u

static uint32_t draw(uint64_t *seed, uint32_t below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % below;
}

/* Effective priority, times 100, at a time later than every arrival. */
static bool list_goes_before(const struct mr_queue_entry *one, const struct mr_queue_entry *two)
{
    int64_t first = one->priority * 100 - (int64_t)one->arrival_ns;
    int64_t second = two->priority * 100 - (int64_t)two->arrival_ns;
    if (first != second) return first > second;
    return one->arrival_ns != two->arrival_ns ? one->arrival_ns < two->arrival_ns
                                              : one->sequence < two->sequence;
}

static struct mr_queue_entry *best_listed(struct mr_queue_entry *entries, const bool *here)
{
    struct mr_queue_entry *best = NULL;
    for (uint32_t i = 0; i < LISTED; i++)
        if (here[i] && (best == NULL || list_goes_before(&entries[i], best))) best = &entries[i];
    return best;
}

static void any_history_gives_the_order_a_sorted_list_gives(void **state)
{
    (void)state;
    uint64_t seed = 7;
    struct mr_request_queue *queue = queue_of(LISTED, 10 * LISTED, 100);
    struct mr_queue_entry entries[LISTED];
    char ids[LISTED][4] = {""};
    bool here[LISTED] = {false};
    for (uint32_t round = 0; round < 20000; round++) {
        uint32_t i = draw(&seed, LISTED);
        ids[i][0] = (char)('A' + i / 10);
        ids[i][1] = (char)('0' + i % 10);
        if (draw(&seed, 3) == 0) {
            struct mr_queue_entry *best = best_listed(entries, here);
            assert_ptr_equal(mr_request_queue_dequeue(queue), best);
            if (best == NULL) continue;
            mr_request_queue_release(queue, best);
            here[best - entries] = false;
        } else if (here[i]) {
            assert_true(mr_request_queue_cancel(queue, text_of(ids[i])));
            released(queue, mr_request_queue_cancelled(queue), &entries[i]);
            here[i] = false;
        } else {
            entries[i] = entry_of(ids[i], (int32_t)draw(&seed, 7) - 3, draw(&seed, 500));
            entries[i].deadline_ns = draw(&seed, 3) * 100;
            enqueue(queue, &entries[i]);
            here[i] = true;
        }
        mr_request_queue_check(queue);
    }
    check_and_destroy(queue);
}

/* ---- many threads ---- */

#define PRODUCERS    4u
#define CONSUMERS    3u
#define PER_PRODUCER 2000u

struct shared {
    struct mr_request_queue *queue;
    struct mr_queue_entry entries[PRODUCERS][PER_PRODUCER];
    char ids[PRODUCERS][PER_PRODUCER][8];
    uint8_t seen[PRODUCERS * PER_PRODUCER]; /* written only by the thread that dequeued the entry */
    atomic_uint producing;
};

struct worker {
    struct shared *shared;
    uint32_t number, got;
    bool returned; /* the last entry dequeued was returned */
    pthread_t thread;
};

static void record(struct worker *worker, struct mr_queue_entry *entry)
{
    ptrdiff_t index = entry - &worker->shared->entries[0][0];
    worker->shared->seen[index]++;
    worker->got++;
    mr_request_queue_release(worker->shared->queue, entry);
}

static void *produce(void *argument)
{
    struct worker *self = argument;
    for (uint32_t i = 0; i < PER_PRODUCER; i++) {
        struct mr_queue_entry *entry = &self->shared->entries[self->number][i];
        char *id = self->shared->ids[self->number][i];
        id[0] = (char)('a' + self->number);
        for (uint32_t digit = 0, rest = i; digit < 4; digit++, rest /= 10)
            id[1 + digit] = (char)('0' + rest % 10);
        *entry = entry_of(id, (int32_t)(i % 5), i);
        entry->deadline_ns = i % 7 == 0 ? 1 : 0;
        while (mr_request_queue_enqueue(self->shared->queue, entry) == MR_FULL)
            sched_yield();
        if (i % 11 == 0) (void)mr_request_queue_cancel(self->shared->queue, text_of(id));
    }
    atomic_fetch_sub(&self->shared->producing, 1);
    return NULL;
}

/* True when no entry waits and none will be enqueued. */
static bool is_over(struct shared *shared)
{
    return atomic_load(&shared->producing) == 0 && mr_request_queue_is_empty(shared->queue);
}

static void *consume(void *argument)
{
    struct worker *self = argument;
    struct mr_request_queue *queue = self->shared->queue;
    while (!is_over(self->shared)) {
        struct mr_queue_entry *entry = mr_request_queue_dequeue(queue);
        if (entry == NULL) {
            sched_yield();
        } else if (self->got % 3 == 0 && !self->returned) {
            mr_request_queue_return(queue, entry);
            self->returned = true;
        } else {
            record(self, entry);
            self->returned = false;
        }
    }
    return NULL;
}

static void *expire(void *argument)
{
    struct worker *self = argument;
    struct mr_request_queue *queue = self->shared->queue;
    while (!is_over(self->shared)) {
        struct mr_queue_entry *entry = mr_request_queue_expired(queue, 1);
        if (entry != NULL) record(self, entry);
        mr_request_queue_check(queue);
        if (entry == NULL) sched_yield();
    }
    return NULL;
}

static void every_entry_reaches_exactly_one_of_many_threads(void **state)
{
    (void)state;
    struct shared *shared = calloc(1, sizeof *shared);
    assert_non_null(shared);
    shared->queue = queue_of(64, 1000, 10);
    atomic_store(&shared->producing, PRODUCERS);
    struct worker producers[PRODUCERS], consumers[CONSUMERS], expirer = {.shared = shared};
    pthread_create(&expirer.thread, NULL, expire, &expirer);
    for (uint32_t i = 0; i < CONSUMERS; i++) {
        consumers[i] = (struct worker){.shared = shared, .number = i};
        pthread_create(&consumers[i].thread, NULL, consume, &consumers[i]);
    }
    for (uint32_t i = 0; i < PRODUCERS; i++) {
        producers[i] = (struct worker){.shared = shared, .number = i};
        pthread_create(&producers[i].thread, NULL, produce, &producers[i]);
    }
    uint32_t got = 0;
    for (uint32_t i = 0; i < PRODUCERS; i++) {
        pthread_join(producers[i].thread, NULL);
        got += producers[i].got;
    }
    for (uint32_t i = 0; i < CONSUMERS; i++) {
        pthread_join(consumers[i].thread, NULL);
        got += consumers[i].got;
    }
    pthread_join(expirer.thread, NULL);
    got += expirer.got;
    assert_true(mr_request_queue_is_empty(shared->queue));
    assert_int_equal(got, PRODUCERS * PER_PRODUCER);
    for (uint32_t i = 0; i < PRODUCERS * PER_PRODUCER; i++)
        assert_int_equal(shared->seen[i], 1);
    check_and_destroy(shared->queue);
    free(shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(higher_priority_goes_first_and_equals_in_order_of_arrival),
        cmocka_unit_test(waiting_is_worth_priority),
        cmocka_unit_test(the_widest_priorities_do_not_overflow),
        cmocka_unit_test(bounds_hold_and_refusals_are_typed),
        cmocka_unit_test(an_empty_queue_takes_even_the_largest),
        cmocka_unit_test(a_returned_entry_gets_its_old_place_whatever_the_bounds),
        cmocka_unit_test(a_cancelled_entry_leaves_the_order_and_its_id_is_free_once_released),
        cmocka_unit_test(cancels_come_out_once_each_and_in_their_order),
        cmocka_unit_test(a_cancelled_entry_that_is_returned_leaves_by_its_cancel),
        cmocka_unit_test(expired_entries_come_out_earliest_first),
        cmocka_unit_test(a_flood_fills_only_its_own_part),
        cmocka_unit_test(predicted_blocks_are_bounded),
        cmocka_unit_test(the_tenant_served_less_goes_first_and_keeps_its_own_order),
        cmocka_unit_test(misuse_is_caught),
        cmocka_unit_test(any_history_gives_the_order_a_sorted_list_gives),
        cmocka_unit_test(every_entry_reaches_exactly_one_of_many_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
