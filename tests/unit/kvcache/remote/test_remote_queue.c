#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kvcache/remote/remote_queue_state.h"

#include <string.h>

#define VALUES 4u
static unsigned char bytes[VALUES][64];

static struct mr_remote_queue *open_limited(uint64_t store_bytes_max, uint64_t write_budget)
{
    struct mr_remote_queue_options options = {.thread_count = 3,
                                              .lookup_timeout_ns = 100,
                                              .transfer_timeout_ns = 1000,
                                              .store_bytes_max = store_bytes_max,
                                              .write_budget = write_budget,
                                              .present_ns = 10000};
    struct mr_remote_queue *queue;
    assert_int_equal(mr_remote_queue_create(&queue, &options, NULL), MR_OK);
    return queue;
}

static struct mr_remote_queue *open_queue(void)
{
    return open_limited(1 << 20, 0);
}

/* The queue never reads the bytes of the values. */
static uint32_t post_values(struct mr_remote_queue *queue, enum mr_remote_kind kind,
                            uint64_t now_ns, uint64_t length)
{
    struct mr_remote_value values[VALUES] = {0};
    struct mr_remote_operation posted = {.id = 5, .values = values, .count = VALUES};
    for (uint32_t i = 0; i < VALUES; i++) {
        memset(values[i].key, (int)i + 1, MR_HASH_BYTES);
        values[i].bytes = bytes[i];
        values[i].length = length;
    }
    return mr_remote_queue_post(queue, kind, &posted, now_ns);
}

static uint32_t post(struct mr_remote_queue *queue, enum mr_remote_kind kind, uint64_t now_ns)
{
    return post_values(queue, kind, now_ns, sizeof bytes[0]);
}

static void set_ready(struct mr_remote_queue *queue)
{
    for (uint32_t i = 0; i < 3; i++)
        mr_remote_queue_set_ready(queue, i, true, 0);
}

static void close_queue(struct mr_remote_queue *queue)
{
    mr_remote_queue_check(queue);
    assert_int_equal(mr_remote_queue_stats(queue).operations, 0);
    mr_remote_queue_destroy(queue);
}

static void requests_are_refused_while_not_connected(void **state)
{
    struct mr_remote_queue *queue = open_queue();
    (void)state;
    assert_false(post(queue, MR_REMOTE_LOOKUP, 0));
    mr_remote_queue_set_ready(queue, 0, true, 0);
    assert_false(post(queue, MR_REMOTE_LOOKUP, 0)); /* no connection for values */
    assert_false(mr_remote_queue_rates(queue).up);
    mr_remote_queue_set_ready(queue, 2, true, 0);
    assert_true(mr_remote_queue_rates(queue).up);
    close_queue(queue);
}

static void a_load_starts_with_the_last_value_and_reports_each(void **state)
{
    struct mr_remote_queue *queue = open_queue();
    struct mr_remote_answer answer;
    (void)state;
    set_ready(queue);
    assert_true(post(queue, MR_REMOTE_LOAD, 0));
    assert_null(mr_remote_queue_take(queue, 0, 0));
    for (uint32_t i = VALUES; i-- > 0;) {
        struct mr_remote_slice *slice = mr_remote_queue_take(queue, 1 + i % 2, 1);
        assert_int_equal(slice->value, i);
        assert_int_equal(slice->step, MR_REMOTE_STEP_GET);
        assert_ptr_equal(slice->payload, bytes[i]);
        bool good = i != 1;
        assert_int_equal(mr_remote_queue_finish(queue, slice, good, 2), good);
        if (good)
            assert_false(mr_remote_queue_finish(queue, slice, true, 3)); /* EXPIRE has ended */
        mr_remote_queue_check(queue);
        assert_true(mr_remote_queue_poll(queue, &answer));
        assert_true(!answer.final && answer.index == i && answer.loaded == good);
    }
    assert_true(mr_remote_queue_poll(queue, &answer));
    assert_true(answer.final && answer.count == VALUES - 1);
    assert_false(mr_remote_queue_poll(queue, &answer));
    close_queue(queue);
}

static void a_lookup_counts_up_to_the_first_gap(void **state)
{
    struct mr_remote_queue *queue = open_queue();
    struct mr_remote_answer answer;
    struct mr_remote_slice *slice;
    (void)state;
    set_ready(queue);
    assert_true(post(queue, MR_REMOTE_LOOKUP, 0));
    while ((slice = mr_remote_queue_take(queue, 0, 0)) !=
           NULL) /* the first and the third are present */
        assert_false(mr_remote_queue_finish(queue, slice, slice->value % 2 == 0, 0));
    assert_true(mr_remote_queue_poll(queue, &answer));
    assert_true(answer.final && answer.count == 1);
    close_queue(queue);
}

static void loads_go_before_stores(void **state)
{
    struct mr_remote_queue *queue = open_queue();
    struct mr_remote_answer answer;
    struct mr_remote_slice *slice;
    uint32_t finals = 0;
    (void)state;
    set_ready(queue);
    assert_true(post(queue, MR_REMOTE_STORE, 0));
    while ((slice = mr_remote_queue_take(queue, 0, 0)) != NULL) {
        assert_int_equal(slice->step, MR_REMOTE_STEP_LOOKUP);
        assert_false(mr_remote_queue_finish(queue, slice, slice->value == 0, 0));
    }
    assert_true(post(queue, MR_REMOTE_LOAD, 0));
    for (uint32_t i = 0; i < VALUES; i++) {
        slice = mr_remote_queue_take(queue, 1, 1);
        assert_int_equal(slice->step, MR_REMOTE_STEP_GET);
        assert_false(mr_remote_queue_finish(queue, slice, false, 1));
    }
    for (uint32_t i = 1; i < VALUES; i++) { /* the first one is present already */
        slice = mr_remote_queue_take(queue, 1, 1);
        assert_int_equal(slice->step, MR_REMOTE_STEP_SET);
        assert_int_equal(slice->value, i);
        assert_false(mr_remote_queue_finish(queue, slice, true, 1));
    }
    assert_null(mr_remote_queue_take(queue, 1, 1));
    while (mr_remote_queue_poll(queue, &answer)) {
        finals += answer.final;
        assert_false(answer.loaded);
        assert_int_equal(answer.count, answer.kind == MR_REMOTE_STORE ? VALUES : 0);
    }
    assert_int_equal(finals, 2);
    close_queue(queue);
}

/* Runs a store to its end: Redis has the first `present` values already, and takes the others.
 * Returns how many it has then. */
static uint32_t run_store(struct mr_remote_queue *queue, uint32_t present)
{
    struct mr_remote_answer answer = {0};
    struct mr_remote_slice *slice;
    while ((slice = mr_remote_queue_take(queue, 0, 1)) != NULL)
        assert_false(mr_remote_queue_finish(queue, slice, slice->value < present, 1));
    while ((slice = mr_remote_queue_take(queue, 1, 1)) != NULL)
        assert_false(mr_remote_queue_finish(queue, slice, true, 1));
    assert_true(mr_remote_queue_poll(queue, &answer) && answer.final);
    mr_remote_queue_check(queue);
    return answer.count;
}

static uint64_t counter(struct mr_remote_queue *queue, enum mr_remote_counter which)
{
    return mr_remote_queue_stats(queue).counters[which];
}

/* Two values fit the limit of waiting bytes, or the budget of two seconds. */
static void a_store_is_taken_from_its_front_up_to_a_limit(void **state)
{
    const uint64_t limits[][2] = {{150, 0}, {1 << 20, 75}};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct mr_remote_queue *queue = open_limited(limits[i][0], limits[i][1]);
        set_ready(queue);
        assert_int_equal(post(queue, MR_REMOTE_STORE, 0), 2);
        assert_int_equal(run_store(queue, 0), 2);
        assert_int_equal(counter(queue, MR_REMOTE_VALUES_STORED), 2);
        assert_int_equal(counter(queue, MR_REMOTE_BYTES_STORED), 128);
        assert_int_equal(counter(queue, MR_REMOTE_VALUES_DROPPED), 2);
        assert_int_equal(counter(queue, MR_REMOTE_BYTES_DROPPED), 128);
        close_queue(queue);
    }
}

/* A value larger than a limit is stored, not refused for ever, when none of the limit is in use. */
static void one_value_may_be_larger_than_a_limit(void **state)
{
    const uint64_t limits[][2] = {{10, 0}, {1 << 20, 10}};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct mr_remote_queue *queue = open_limited(limits[i][0], limits[i][1]);
        set_ready(queue);
        assert_int_equal(post(queue, MR_REMOTE_STORE, 0), 1);
        assert_int_equal(post(queue, MR_REMOTE_STORE, 0), 0);
        assert_int_equal(run_store(queue, 0), 1);
        close_queue(queue);
    }
}

/* Values that Redis has are neither stored nor charged. */
static void known_values_cost_nothing(void **state)
{
    struct mr_remote_queue *queue = open_limited(1 << 20, 128);
    (void)state;
    set_ready(queue);
    assert_int_equal(post(queue, MR_REMOTE_STORE, 0), VALUES);
    assert_int_equal(run_store(queue, 3), VALUES);
    assert_int_equal(counter(queue, MR_REMOTE_VALUES_KNOWN), 3);
    assert_int_equal(counter(queue, MR_REMOTE_VALUES_STORED), 1);
    assert_int_equal(counter(queue, MR_REMOTE_BYTES_STORED), 64);
    const uint64_t later_ns = 20000; /* the queue no longer knows what Redis has */
    assert_int_equal(post(queue, MR_REMOTE_STORE, later_ns), 3);
    assert_int_equal(run_store(queue, 0), 3);
    close_queue(queue);
}

static void known_values_of_a_refused_store_are_not_dropped(void **state)
{
    struct mr_remote_queue *queue = open_queue();
    (void)state;
    set_ready(queue);
    assert_int_equal(post(queue, MR_REMOTE_STORE, 0), VALUES);
    assert_int_equal(run_store(queue, 0), VALUES);
    assert_true(mr_remote_queue_refused(queue, false, 1));
    assert_int_equal(post(queue, MR_REMOTE_STORE, 2), 0);
    assert_int_equal(counter(queue, MR_REMOTE_VALUES_KNOWN), VALUES);
    assert_int_equal(counter(queue, MR_REMOTE_VALUES_DROPPED), 0);
    assert_int_equal(counter(queue, MR_REMOTE_BYTES_DROPPED), 0);
    close_queue(queue);
}

static void untaken_slices_end_at_their_deadline(void **state)
{
    static const enum mr_remote_kind works[] = {MR_REMOTE_LOOKUP, MR_REMOTE_LOAD, MR_REMOTE_STORE};
    struct mr_remote_answer answer;
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct mr_remote_queue *queue = open_queue();
        set_ready(queue);
        assert_true(post(queue, works[i], 10));
        uint64_t due_ns = works[i] == MR_REMOTE_LOOKUP ? 110 : 1010;
        assert_int_equal(mr_remote_queue_expire(queue, due_ns - 1), due_ns);
        assert_false(mr_remote_queue_poll(queue, &answer));
        mr_remote_queue_expire(queue, due_ns);
        assert_true(mr_remote_queue_take_answered(queue));
        assert_false(mr_remote_queue_take_answered(queue));
        for (uint32_t value = 0; value < VALUES && works[i] == MR_REMOTE_LOAD; value++)
            assert_true(mr_remote_queue_poll(queue, &answer) && !answer.final && !answer.loaded);
        assert_true(mr_remote_queue_poll(queue, &answer));
        assert_true(answer.final && answer.count == 0);
        close_queue(queue);
    }
}

/* The last connection for values is lost while one slice is taken: the other slices end at once. */
static void untaken_slices_end_when_the_last_connection_is_lost(void **state)
{
    struct mr_remote_queue *queue = open_queue();
    struct mr_remote_answer answer;
    (void)state;
    set_ready(queue);
    assert_true(post(queue, MR_REMOTE_LOAD, 0));
    struct mr_remote_slice *slice = mr_remote_queue_take(queue, 1, 1);
    mr_remote_queue_set_ready(queue, 2, false, 1);
    assert_false(mr_remote_queue_poll(queue, &answer)); /* the other connection continues */
    mr_remote_queue_set_ready(queue, 1, false, 1);
    assert_true(mr_remote_queue_take_answered(queue));
    for (uint32_t i = 0; i + 1 < VALUES; i++)
        assert_true(mr_remote_queue_poll(queue, &answer) && !answer.final && !answer.loaded);
    assert_false(mr_remote_queue_poll(queue, &answer));
    assert_false(mr_remote_queue_finish(queue, slice, false, 1));
    assert_true(mr_remote_queue_poll(queue, &answer) && answer.index == VALUES - 1 &&
                !answer.loaded);
    assert_true(mr_remote_queue_poll(queue, &answer) && answer.final && answer.count == 0);
    set_ready(queue);
    assert_true(post(queue, MR_REMOTE_LOOKUP, 2));
    mr_remote_queue_set_ready(queue, 0, false, 3);
    assert_true(mr_remote_queue_poll(queue, &answer) && answer.final && answer.count == 0);
    assert_int_equal(mr_remote_queue_stats(queue).counters[MR_REMOTE_LOOKUPS_LATE], 1);
    close_queue(queue);
}

static void a_silent_server_gets_no_lookups_and_loads(void **state)
{
    struct mr_remote_queue *queue = open_queue();
    struct mr_remote_answer answer;
    (void)state;
    set_ready(queue);
    mr_remote_queue_set_silent(queue, true);
    assert_false(mr_remote_queue_rates(queue).up);
    assert_false(post(queue, MR_REMOTE_LOOKUP, 0));
    assert_false(post(queue, MR_REMOTE_LOAD, 0));
    assert_true(post(queue, MR_REMOTE_STORE, 0)); /* stores are still accepted */
    mr_remote_queue_set_silent(queue, false);
    assert_true(mr_remote_queue_rates(queue).up);
    mr_remote_queue_expire(queue, 1000);
    assert_true(mr_remote_queue_poll(queue, &answer) && answer.kind == MR_REMOTE_STORE);
    close_queue(queue);
}

/* Slow bytes are charged at most eight times their expected time. */
static void slow_bytes_count_for_a_limited_time(void **state)
{
    uint64_t second_ns = 1000000000, begun_ns = 100 * second_ns;
    struct mr_remote_queue *queue = open_queue();
    struct mr_remote_answer answer;
    (void)state;
    set_ready(queue);
    mr_remote_queue_measured(queue, 800, 0);
    assert_true(post(queue, MR_REMOTE_LOAD, begun_ns));
    struct mr_remote_slice *slice = mr_remote_queue_take(queue, 1, begun_ns);
    assert_non_null(slice);
    assert_int_equal(mr_remote_queue_rates(queue).received_ns, begun_ns);
    mr_remote_queue_receive(queue, 10, begun_ns + second_ns);
    assert_int_equal(mr_remote_queue_rates(queue).received_ns, begun_ns + second_ns / 10);
    mr_remote_queue_receive(queue, 1000, begun_ns + second_ns);
    assert_int_equal(mr_remote_queue_rates(queue).received_ns, begun_ns + second_ns);
    mr_remote_queue_set_ready(queue, 1, false, begun_ns);
    mr_remote_queue_set_ready(queue, 2, false, begun_ns);
    assert_false(mr_remote_queue_finish(queue, slice, false, begun_ns));
    while (mr_remote_queue_poll(queue, &answer))
        assert_false(answer.loaded);
    close_queue(queue);
}

/* Threads 1 and 2 take slices in turn until neither gets one; returns how many. */
static uint32_t take_all(struct mr_remote_queue *queue, struct mr_remote_slice **slices)
{
    uint32_t count = 0;
    for (uint32_t idle = 0, turn = 0; idle < 2; turn++) {
        struct mr_remote_slice *slice = mr_remote_queue_take(queue, 1 + turn % 2, 1);
        idle = slice ? 0 : idle + 1;
        if (slice) slices[count++] = slice;
    }
    return count;
}

/* Threads 1 and 2 hold `count` slices and take more in turn, up to two; returns how many more. */
static uint32_t take_two(struct mr_remote_queue *queue, struct mr_remote_slice **slices,
                         uint32_t count)
{
    uint32_t before = count, in_flight[3] = {0};
    for (uint32_t i = 0; i < count; i++)
        in_flight[slices[i]->thread]++;
    for (uint32_t turn = 0; turn < 4; turn++) {
        const uint32_t thread = 1 + turn % 2;
        struct mr_remote_slice *slice =
            in_flight[thread] < 2 ? mr_remote_queue_take(queue, thread, 1) : NULL;
        if (!slice) continue;
        slices[count++] = slice;
        in_flight[thread]++;
    }
    return count - before;
}

/* Loads request no more than arrives soon at the measured rate, and a store does not use the slots
 * that a load is denied. */
static void bytes_in_flight_are_limited_by_the_rate(void **state)
{
    static const struct {
        double items_ahead;
        uint32_t taken;
    } cases[] = {{0, VALUES}, {2.5, 2}, {3.5, 3}, {9, VALUES}};
    struct mr_remote_slice *slices[2 * VALUES], *other;
    struct mr_remote_answer answer;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mr_remote_queue *queue = open_queue();
        double rate = cases[i].items_ahead * sizeof bytes[0] * 1e9 / MR_LOAD_AHEAD_NS;
        set_ready(queue);
        if (rate > 0) mr_remote_queue_measured(queue, rate, 0);
        assert_true(post(queue, MR_REMOTE_STORE, 0));
        while ((other = mr_remote_queue_take(queue, 0, 0)) != NULL)
            assert_false(mr_remote_queue_finish(queue, other, false, 0));
        assert_true(post(queue, MR_REMOTE_LOAD, 0));
        uint32_t count = take_all(queue, slices), loads = 0;
        for (uint32_t taken = 0; taken < count; taken++)
            loads += slices[taken]->step == MR_REMOTE_STEP_GET;
        assert_int_equal(loads, cases[i].taken);
        mr_remote_queue_check(queue);
        for (; count > 0; count = take_all(queue, slices))
            for (uint32_t taken = 0; taken < count; taken++)
                while (mr_remote_queue_finish(queue, slices[taken], true, 2)) {
                }
        while (mr_remote_queue_poll(queue, &answer))
            assert_true(answer.final ? answer.count == VALUES : answer.loaded);
        close_queue(queue);
    }
}

/* At any measured rate the limit is small at first and grows with the bytes received, because Redis
 * copies all requested values before it sends one. */
static void bytes_in_flight_are_limited_by_what_was_received(void **state)
{
    struct mr_remote_queue *queue = open_queue();
    struct mr_remote_slice *slices[4 * VALUES]; /* a value has three slices */
    struct mr_remote_answer answer;
    uint64_t length = MR_LOAD_AHEAD_BYTES * 3 / 8, bound = MR_LOAD_AHEAD_FIRST, most = 0, sum = 0;
    (void)state;
    set_ready(queue);
    mr_remote_queue_measured(queue, 1e15, 0);
    assert_true(post_values(queue, MR_REMOTE_LOAD, 0, length));
    for (uint32_t count = 0, done = 0; done == 0 || done < count;
         done++) { /* one value is received, others are requested */
        uint64_t coming = 0, of_thread[3] = {0};
        count += take_two(queue, slices + done, count - done);
        for (uint32_t i = done; i < count; i++) {
            coming += slices[i]->frame.length;
            of_thread[slices[i]->thread] += slices[i]->frame.length;
        }
        assert_true(coming <= bound || coming == of_thread[1] || coming == of_thread[2]);
        if (coming > most) most = coming;
        sum += slices[done]->frame.length;
        bound += slices[done]->frame.length;
        if (bound > MR_LOAD_AHEAD_BYTES) bound = MR_LOAD_AHEAD_BYTES;
        while (mr_remote_queue_finish(queue, slices[done], true, 2)) {
        }
    }
    assert_int_equal(sum, VALUES * length);
    assert_in_range(most, MR_LOAD_AHEAD_BYTES / 2, MR_LOAD_AHEAD_BYTES);
    while (mr_remote_queue_poll(queue, &answer))
        assert_true(answer.final ? answer.count == VALUES : answer.loaded);
    close_queue(queue);
}

/* At any measured rate one connection has a value in flight; the others posted none. */
static void one_connection_always_has_a_value_in_flight(void **state)
{
    struct mr_remote_queue *queue = open_queue();
    struct mr_remote_answer answer;
    struct mr_remote_slice *slices[VALUES];
    (void)state;
    set_ready(queue);
    mr_remote_queue_measured(queue, 1, 0);
    assert_true(post(queue, MR_REMOTE_LOAD, 0));
    slices[0] = mr_remote_queue_take(queue, 2, 1);
    slices[1] = mr_remote_queue_take(queue, 2, 1);
    assert_true(slices[0] && slices[1]);
    assert_null(mr_remote_queue_take(queue, 1, 1));
    for (uint32_t i = 0; i < 2; i++) /* its value is lost: the other connection continues */
        assert_false(mr_remote_queue_finish(queue, slices[i], false, 2));
    slices[2] = mr_remote_queue_take(queue, 1, 2);
    assert_non_null(slices[2]);
    assert_null(mr_remote_queue_take(queue, 2, 2));
    assert_false(mr_remote_queue_finish(queue, slices[2], false, 2));
    mr_remote_queue_expire(queue, 2000);
    while (mr_remote_queue_poll(queue, &answer))
        assert_false(answer.loaded);
    close_queue(queue);
}

static void a_value_skipped_in_flight_is_released(void **state)
{
    struct mr_remote_queue *queue = open_queue();
    struct mr_remote_answer answer;
    (void)state;
    set_ready(queue);
    assert_true(post(queue, MR_REMOTE_LOAD, 0));
    struct mr_remote_slice *last = mr_remote_queue_take(queue, 1, 1);
    struct mr_remote_slice *third = mr_remote_queue_take(queue, 2, 1);
    mr_remote_queue_skip(queue, 5, 3);
    assert_null(mr_remote_queue_take(queue, 1, 1));
    assert_true(mr_remote_queue_is_cancelled(queue, third));
    assert_false(mr_remote_queue_is_cancelled(queue, last));
    assert_true(mr_remote_queue_finish(queue, last, true, 2));
    assert_false(mr_remote_queue_finish(queue, last, true, 2));
    for (uint32_t i = 0; i < 2; i++) /* not taken yet */
        assert_true(mr_remote_queue_poll(queue, &answer) && answer.index == i && !answer.loaded);
    assert_true(mr_remote_queue_poll(queue, &answer) && answer.index == 3 && answer.loaded);
    assert_false(mr_remote_queue_poll(queue, &answer));
    mr_remote_queue_release(queue, third, 2);
    assert_true(mr_remote_queue_poll(queue, &answer) && answer.index == 2 && !answer.loaded);
    assert_false(answer.final);
    assert_true(mr_remote_queue_poll(queue, &answer) && answer.final && answer.count == 1);
    mr_remote_queue_check(queue);
    assert_false(
        mr_remote_queue_finish(queue, third, false, 3)); /* the reply arrived nevertheless */
    close_queue(queue);
}

static void an_cancelled_operation_has_only_its_final_answer(void **state)
{
    struct mr_remote_queue *queue = open_queue();
    struct mr_remote_answer answer;
    (void)state;
    set_ready(queue);
    assert_true(post(queue, MR_REMOTE_LOAD, 0));
    struct mr_remote_slice *first = mr_remote_queue_take(queue, 1, 1);
    struct mr_remote_slice *second = mr_remote_queue_take(queue, 1, 1);
    assert_true(mr_remote_queue_finish(queue, first, true, 2));
    assert_false(mr_remote_queue_finish(queue, first, true, 2));
    mr_remote_queue_cancel(queue, 5);
    assert_false(mr_remote_queue_poll(queue, &answer)); /* one is still being received */
    mr_remote_queue_release(queue, second, 2);
    assert_false(mr_remote_queue_finish(queue, second, false, 2));
    assert_true(mr_remote_queue_poll(queue, &answer) && answer.final);
    assert_false(mr_remote_queue_poll(queue, &answer));
    close_queue(queue);
}

/* Abandoned during its lookups, and then, in another run, during its writes. */
static void an_cancelled_store_ends_before_its_replies(void **state)
{
    (void)state;
    for (uint32_t looked = 0; looked < 2; looked++) {
        struct mr_remote_queue *queue = open_queue();
        struct mr_remote_answer answer;
        struct mr_remote_slice *slices[VALUES];
        set_ready(queue);
        assert_true(post(queue, MR_REMOTE_STORE, 0));
        for (uint32_t i = 0; i < VALUES; i++)
            slices[i] = mr_remote_queue_take(queue, 0, 1);
        for (uint32_t i = 0; i < VALUES && looked; i++)
            assert_false(mr_remote_queue_finish(queue, slices[i], false, 1));
        if (looked) slices[0] = mr_remote_queue_take(queue, 1, 1);
        assert_false(mr_remote_queue_is_cancelled(queue, slices[0]));
        mr_remote_queue_cancel(queue, 5);
        uint32_t out = looked ? 1 : VALUES;
        for (uint32_t i = 0; i < out; i++) {
            assert_false(mr_remote_queue_poll(queue, &answer));
            assert_true(mr_remote_queue_is_cancelled(queue, slices[i]));
            mr_remote_queue_release(queue, slices[i], 2);
            assert_false(mr_remote_queue_is_cancelled(queue, slices[i]));
        }
        assert_true(mr_remote_queue_poll(queue, &answer) && answer.final && answer.count == 0);
        for (uint32_t i = 0; i < out; i++)
            assert_false(mr_remote_queue_finish(queue, slices[i], true, 3));
        close_queue(queue);
    }
}

static void operations_are_bounded(void **state)
{
    struct mr_remote_queue *queue = open_queue();
    struct mr_remote_answer answer;
    uint32_t count = 0, finals = 0;
    (void)state;
    set_ready(queue);
    while (count < 2 * MR_REMOTE_OPERATIONS_MAX && post(queue, MR_REMOTE_LOOKUP, 0))
        count++;
    assert_int_equal(count, MR_REMOTE_OPERATIONS_MAX);
    mr_remote_queue_expire(queue, 1000);
    while (mr_remote_queue_poll(queue, &answer))
        finals++;
    assert_int_equal(finals, MR_REMOTE_OPERATIONS_MAX);
    close_queue(queue);
}

static void a_refusal_is_logged_once_a_minute(void **state)
{
    struct mr_remote_queue *queue = open_queue();
    uint64_t second_ns = 1000000000;
    (void)state;
    set_ready(queue);
    assert_true(mr_remote_queue_refused(queue, false, second_ns));
    assert_false(post(queue, MR_REMOTE_STORE, second_ns + 1));
    assert_false(mr_remote_queue_refused(queue, false, 30 * second_ns));
    assert_true(mr_remote_queue_refused(queue, false, 62 * second_ns));
    assert_int_equal(mr_remote_queue_stats(queue).counters[MR_REMOTE_REFUSALS], 3);
    assert_int_equal(mr_remote_queue_stats(queue).counters[MR_REMOTE_BYTES_DROPPED],
                     VALUES * sizeof bytes[0]);
    close_queue(queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_refused_while_not_connected),
        cmocka_unit_test(a_load_starts_with_the_last_value_and_reports_each),
        cmocka_unit_test(a_lookup_counts_up_to_the_first_gap),
        cmocka_unit_test(loads_go_before_stores),
        cmocka_unit_test(a_store_is_taken_from_its_front_up_to_a_limit),
        cmocka_unit_test(one_value_may_be_larger_than_a_limit),
        cmocka_unit_test(known_values_cost_nothing),
        cmocka_unit_test(known_values_of_a_refused_store_are_not_dropped),
        cmocka_unit_test(untaken_slices_end_at_their_deadline),
        cmocka_unit_test(untaken_slices_end_when_the_last_connection_is_lost),
        cmocka_unit_test(a_silent_server_gets_no_lookups_and_loads),
        cmocka_unit_test(slow_bytes_count_for_a_limited_time),
        cmocka_unit_test(bytes_in_flight_are_limited_by_the_rate),
        cmocka_unit_test(bytes_in_flight_are_limited_by_what_was_received),
        cmocka_unit_test(one_connection_always_has_a_value_in_flight),
        cmocka_unit_test(a_value_skipped_in_flight_is_released),
        cmocka_unit_test(an_cancelled_operation_has_only_its_final_answer),
        cmocka_unit_test(an_cancelled_store_ends_before_its_replies),
        cmocka_unit_test(operations_are_bounded),
        cmocka_unit_test(a_refusal_is_logged_once_a_minute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
