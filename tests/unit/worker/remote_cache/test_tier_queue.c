#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/remote_cache/tier_queue.h"

#include <string.h>

#define ITEMS 4u

static unsigned char bytes[ITEMS][64];

static struct mr_tier_queue *open_limited(uint64_t store_bytes_max, uint64_t write_budget)
{
    struct mr_tier_queue_options options = {.thread_count = 3,
                                            .lookup_timeout_ns = 100,
                                            .transfer_timeout_ns = 1000,
                                            .store_bytes_max = store_bytes_max,
                                            .write_budget = write_budget,
                                            .present_ns = 10000};
    struct mr_tier_queue *queue;
    assert_int_equal(mr_tier_queue_create(&queue, &options, NULL), MR_OK);
    return queue;
}

static struct mr_tier_queue *open_queue(void)
{
    return open_limited(1 << 20, 0);
}

/* Posts ITEMS items of `length` bytes; the queue never reads the bytes themselves. */
static uint32_t post_items(struct mr_tier_queue *queue, enum mr_tier_work work, uint64_t now_ns,
                           uint64_t length)
{
    struct mr_tier_item items[ITEMS] = {0};
    struct mr_tier_request request = {.ticket = 5, .items = items, .count = ITEMS};
    for (uint32_t i = 0; i < ITEMS; i++) {
        memset(items[i].key, (int)i + 1, MR_HASH_BYTES);
        items[i].bytes = bytes[i];
        items[i].length = length;
    }
    return mr_tier_queue_post(queue, work, &request, now_ns);
}

static uint32_t post(struct mr_tier_queue *queue, enum mr_tier_work work, uint64_t now_ns)
{
    return post_items(queue, work, now_ns, sizeof bytes[0]);
}

static void set_ready(struct mr_tier_queue *queue)
{
    for (uint32_t i = 0; i < 3; i++)
        mr_tier_queue_set_ready(queue, i, true, 0);
}

static void close_queue(struct mr_tier_queue *queue)
{
    mr_tier_queue_check(queue);
    assert_int_equal(mr_tier_queue_stats(queue).jobs, 0);
    mr_tier_queue_destroy(queue);
}

static void requests_are_refused_while_not_connected(void **state)
{
    struct mr_tier_queue *queue = open_queue();
    (void)state;
    assert_false(post(queue, MR_TIER_LOOKUP, 0));
    mr_tier_queue_set_ready(queue, 0, true, 0);
    assert_false(post(queue, MR_TIER_LOOKUP, 0)); /* no connection for values */
    assert_false(mr_tier_queue_rates(queue).up);
    mr_tier_queue_set_ready(queue, 2, true, 0);
    assert_true(mr_tier_queue_rates(queue).up);
    close_queue(queue);
}

static void a_load_starts_with_the_last_item_and_reports_each(void **state)
{
    struct mr_tier_queue *queue = open_queue();
    struct mr_tier_answer answer;
    (void)state;
    set_ready(queue);
    assert_true(post(queue, MR_TIER_LOAD, 0));
    assert_null(mr_tier_queue_take(queue, 0, 0));
    for (uint32_t i = ITEMS; i-- > 0;) {
        struct mr_tier_part *part = mr_tier_queue_take(queue, 1 + i % 2, 1);
        assert_int_equal(part->item, i);
        assert_int_equal(part->step, MR_TIER_STEP_GET);
        assert_ptr_equal(part->payload, bytes[i]);
        bool good = i != 1;
        assert_int_equal(mr_tier_queue_finish(queue, part, good, 2), good);
        if (good) assert_false(mr_tier_queue_finish(queue, part, true, 3)); /* EXPIRE has ended */
        mr_tier_queue_check(queue);
        assert_true(mr_tier_queue_poll(queue, &answer));
        assert_true(!answer.final && answer.index == i && answer.loaded == good);
    }
    assert_true(mr_tier_queue_poll(queue, &answer));
    assert_true(answer.final && answer.count == ITEMS - 1);
    assert_false(mr_tier_queue_poll(queue, &answer));
    close_queue(queue);
}

static void a_lookup_counts_up_to_the_first_gap(void **state)
{
    struct mr_tier_queue *queue = open_queue();
    struct mr_tier_answer answer;
    struct mr_tier_part *part;
    (void)state;
    set_ready(queue);
    assert_true(post(queue, MR_TIER_LOOKUP, 0));
    while ((part = mr_tier_queue_take(queue, 0, 0)) !=
           NULL) /* the first and the third are present */
        assert_false(mr_tier_queue_finish(queue, part, part->item % 2 == 0, 0));
    assert_true(mr_tier_queue_poll(queue, &answer));
    assert_true(answer.final && answer.count == 1);
    close_queue(queue);
}

static void loads_go_before_stores(void **state)
{
    struct mr_tier_queue *queue = open_queue();
    struct mr_tier_answer answer;
    struct mr_tier_part *part;
    uint32_t finals = 0;
    (void)state;
    set_ready(queue);
    assert_true(post(queue, MR_TIER_STORE, 0));
    while ((part = mr_tier_queue_take(queue, 0, 0)) != NULL) {
        assert_int_equal(part->step, MR_TIER_STEP_LOOKUP);
        assert_false(mr_tier_queue_finish(queue, part, part->item == 0, 0));
    }
    assert_true(post(queue, MR_TIER_LOAD, 0));
    for (uint32_t i = 0; i < ITEMS; i++) {
        part = mr_tier_queue_take(queue, 1, 1);
        assert_int_equal(part->step, MR_TIER_STEP_GET);
        assert_false(mr_tier_queue_finish(queue, part, false, 1));
    }
    for (uint32_t i = 1; i < ITEMS; i++) { /* the first one is present already */
        part = mr_tier_queue_take(queue, 1, 1);
        assert_int_equal(part->step, MR_TIER_STEP_SET);
        assert_int_equal(part->item, i);
        assert_false(mr_tier_queue_finish(queue, part, true, 1));
    }
    assert_null(mr_tier_queue_take(queue, 1, 1));
    while (mr_tier_queue_poll(queue, &answer)) {
        finals += answer.final;
        assert_false(answer.loaded);
        assert_int_equal(answer.count, answer.work == MR_TIER_STORE ? ITEMS : 0);
    }
    assert_int_equal(finals, 2);
    close_queue(queue);
}

/* Runs a store to its end: Redis has the first `present` items already, and takes the others.
 * Returns how many it has then. */
static uint32_t run_store(struct mr_tier_queue *queue, uint32_t present)
{
    struct mr_tier_answer answer = {0};
    struct mr_tier_part *part;
    while ((part = mr_tier_queue_take(queue, 0, 1)) != NULL)
        assert_false(mr_tier_queue_finish(queue, part, part->item < present, 1));
    while ((part = mr_tier_queue_take(queue, 1, 1)) != NULL)
        assert_false(mr_tier_queue_finish(queue, part, true, 1));
    assert_true(mr_tier_queue_poll(queue, &answer) && answer.final);
    mr_tier_queue_check(queue);
    return answer.count;
}

static uint64_t counter(struct mr_tier_queue *queue, enum mr_tier_counter which)
{
    return mr_tier_queue_stats(queue).counters[which];
}

/* Two items fit the limit of waiting bytes, or the budget of two seconds. */
static void a_store_is_taken_from_its_front_up_to_a_limit(void **state)
{
    const uint64_t limits[][2] = {{150, 0}, {1 << 20, 75}};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct mr_tier_queue *queue = open_limited(limits[i][0], limits[i][1]);
        set_ready(queue);
        assert_int_equal(post(queue, MR_TIER_STORE, 0), 2);
        assert_int_equal(run_store(queue, 0), 2);
        assert_int_equal(counter(queue, MR_TIER_ITEMS_STORED), 2);
        assert_int_equal(counter(queue, MR_TIER_BYTES_STORED), 128);
        assert_int_equal(counter(queue, MR_TIER_ITEMS_DROPPED), 2);
        assert_int_equal(counter(queue, MR_TIER_BYTES_DROPPED), 128);
        close_queue(queue);
    }
}

/* An item larger than a limit is stored when nothing of the limit is used, not refused for ever. */
static void one_item_may_be_larger_than_a_limit(void **state)
{
    const uint64_t limits[][2] = {{10, 0}, {1 << 20, 10}};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct mr_tier_queue *queue = open_limited(limits[i][0], limits[i][1]);
        set_ready(queue);
        assert_int_equal(post(queue, MR_TIER_STORE, 0), 1);
        assert_int_equal(post(queue, MR_TIER_STORE, 0), 0);
        assert_int_equal(run_store(queue, 0), 1);
        close_queue(queue);
    }
}

/* Items that Redis has are neither stored nor paid for. */
static void known_items_cost_nothing(void **state)
{
    struct mr_tier_queue *queue = open_limited(1 << 20, 128);
    (void)state;
    set_ready(queue);
    assert_int_equal(post(queue, MR_TIER_STORE, 0), ITEMS);
    assert_int_equal(run_store(queue, 3), ITEMS);
    assert_int_equal(counter(queue, MR_TIER_ITEMS_KNOWN), 3);
    assert_int_equal(counter(queue, MR_TIER_ITEMS_STORED), 1);
    assert_int_equal(counter(queue, MR_TIER_BYTES_STORED), 64);
    const uint64_t later_ns = 20000; /* the queue no longer knows what Redis has */
    assert_int_equal(post(queue, MR_TIER_STORE, later_ns), 3);
    assert_int_equal(run_store(queue, 0), 3);
    close_queue(queue);
}

static void known_items_of_a_refused_store_are_not_dropped(void **state)
{
    struct mr_tier_queue *queue = open_queue();
    (void)state;
    set_ready(queue);
    assert_int_equal(post(queue, MR_TIER_STORE, 0), ITEMS);
    assert_int_equal(run_store(queue, 0), ITEMS);
    assert_true(mr_tier_queue_refused(queue, false, 1));
    assert_int_equal(post(queue, MR_TIER_STORE, 2), 0);
    assert_int_equal(counter(queue, MR_TIER_ITEMS_KNOWN), ITEMS);
    assert_int_equal(counter(queue, MR_TIER_ITEMS_DROPPED), 0);
    assert_int_equal(counter(queue, MR_TIER_BYTES_DROPPED), 0);
    close_queue(queue);
}

static void untaken_parts_end_at_their_deadline(void **state)
{
    static const enum mr_tier_work works[] = {MR_TIER_LOOKUP, MR_TIER_LOAD, MR_TIER_STORE};
    struct mr_tier_answer answer;
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct mr_tier_queue *queue = open_queue();
        set_ready(queue);
        assert_true(post(queue, works[i], 10));
        uint64_t due_ns = works[i] == MR_TIER_LOOKUP ? 110 : 1010;
        assert_int_equal(mr_tier_queue_expire(queue, due_ns - 1), due_ns);
        assert_false(mr_tier_queue_poll(queue, &answer));
        mr_tier_queue_expire(queue, due_ns);
        assert_true(mr_tier_queue_take_answered(queue));
        assert_false(mr_tier_queue_take_answered(queue));
        for (uint32_t item = 0; item < ITEMS && works[i] == MR_TIER_LOAD; item++)
            assert_true(mr_tier_queue_poll(queue, &answer) && !answer.final && !answer.loaded);
        assert_true(mr_tier_queue_poll(queue, &answer));
        assert_true(answer.final && answer.count == 0);
        close_queue(queue);
    }
}

/* The last connection for values is lost while one part is taken: the other parts end at once. */
static void untaken_parts_end_when_the_last_connection_is_lost(void **state)
{
    struct mr_tier_queue *queue = open_queue();
    struct mr_tier_answer answer;
    (void)state;
    set_ready(queue);
    assert_true(post(queue, MR_TIER_LOAD, 0));
    struct mr_tier_part *part = mr_tier_queue_take(queue, 1, 1);
    mr_tier_queue_set_ready(queue, 2, false, 1);
    assert_false(mr_tier_queue_poll(queue, &answer)); /* the other connection continues */
    mr_tier_queue_set_ready(queue, 1, false, 1);
    assert_true(mr_tier_queue_take_answered(queue));
    for (uint32_t i = 0; i + 1 < ITEMS; i++)
        assert_true(mr_tier_queue_poll(queue, &answer) && !answer.final && !answer.loaded);
    assert_false(mr_tier_queue_poll(queue, &answer));
    assert_false(mr_tier_queue_finish(queue, part, false, 1));
    assert_true(mr_tier_queue_poll(queue, &answer) && answer.index == ITEMS - 1 && !answer.loaded);
    assert_true(mr_tier_queue_poll(queue, &answer) && answer.final && answer.count == 0);
    set_ready(queue);
    assert_true(post(queue, MR_TIER_LOOKUP, 2));
    mr_tier_queue_set_ready(queue, 0, false, 3);
    assert_true(mr_tier_queue_poll(queue, &answer) && answer.final && answer.count == 0);
    assert_int_equal(mr_tier_queue_stats(queue).counters[MR_TIER_LOOKUPS_LATE], 1);
    close_queue(queue);
}

static void a_silent_server_gets_no_lookups_and_loads(void **state)
{
    struct mr_tier_queue *queue = open_queue();
    struct mr_tier_answer answer;
    (void)state;
    set_ready(queue);
    mr_tier_queue_set_silent(queue, true);
    assert_false(mr_tier_queue_rates(queue).up);
    assert_false(post(queue, MR_TIER_LOOKUP, 0));
    assert_false(post(queue, MR_TIER_LOAD, 0));
    assert_true(post(queue, MR_TIER_STORE, 0)); /* stores are still accepted */
    mr_tier_queue_set_silent(queue, false);
    assert_true(mr_tier_queue_rates(queue).up);
    mr_tier_queue_expire(queue, 1000);
    assert_true(mr_tier_queue_poll(queue, &answer) && answer.work == MR_TIER_STORE);
    close_queue(queue);
}

/* Bytes that arrive slowly count for eight times the time they should have taken, no longer. */
static void slow_bytes_count_for_a_limited_time(void **state)
{
    uint64_t second_ns = 1000000000, begun_ns = 100 * second_ns;
    struct mr_tier_queue *queue = open_queue();
    struct mr_tier_answer answer;
    (void)state;
    set_ready(queue);
    mr_tier_queue_measured(queue, 800, 0);
    assert_true(post(queue, MR_TIER_LOAD, begun_ns));
    struct mr_tier_part *part = mr_tier_queue_take(queue, 1, begun_ns);
    assert_non_null(part);
    assert_int_equal(mr_tier_queue_rates(queue).received_ns, begun_ns);
    mr_tier_queue_receive(queue, 10, begun_ns + second_ns);
    assert_int_equal(mr_tier_queue_rates(queue).received_ns, begun_ns + second_ns / 10);
    mr_tier_queue_receive(queue, 1000, begun_ns + second_ns);
    assert_int_equal(mr_tier_queue_rates(queue).received_ns, begun_ns + second_ns);
    mr_tier_queue_set_ready(queue, 1, false, begun_ns);
    mr_tier_queue_set_ready(queue, 2, false, begun_ns);
    assert_false(mr_tier_queue_finish(queue, part, false, begun_ns));
    while (mr_tier_queue_poll(queue, &answer))
        assert_false(answer.loaded);
    close_queue(queue);
}

/* Threads 1 and 2 take parts in turn until neither gets one; returns how many. */
static uint32_t take_all(struct mr_tier_queue *queue, struct mr_tier_part **parts)
{
    uint32_t count = 0;
    for (uint32_t idle = 0, turn = 0; idle < 2; turn++) {
        struct mr_tier_part *part = mr_tier_queue_take(queue, 1 + turn % 2, 1);
        idle = part ? 0 : idle + 1;
        if (part) parts[count++] = part;
    }
    return count;
}

/* Threads 1 and 2, which have `count` parts, take more in turn, each up to two; returns how many.
 */
static uint32_t take_two(struct mr_tier_queue *queue, struct mr_tier_part **parts, uint32_t count)
{
    uint32_t before = count, in_flight[3] = {0};
    for (uint32_t i = 0; i < count; i++)
        in_flight[parts[i]->thread]++;
    for (uint32_t turn = 0; turn < 4; turn++) {
        const uint32_t thread = 1 + turn % 2;
        struct mr_tier_part *part =
            in_flight[thread] < 2 ? mr_tier_queue_take(queue, thread, 1) : NULL;
        if (!part) continue;
        parts[count++] = part;
        in_flight[thread]++;
    }
    return count - before;
}

/* No more than arrives soon at the measured rate; a store does not get what a load is denied. */
static void bytes_in_flight_are_limited_by_the_rate(void **state)
{
    static const struct {
        double items_ahead;
        uint32_t taken;
    } cases[] = {{0, ITEMS}, {2.5, 2}, {3.5, 3}, {9, ITEMS}};
    struct mr_tier_part *parts[2 * ITEMS], *other;
    struct mr_tier_answer answer;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mr_tier_queue *queue = open_queue();
        double rate = cases[i].items_ahead * sizeof bytes[0] * 1e9 / MR_TIER_AHEAD_NS;
        set_ready(queue);
        if (rate > 0) mr_tier_queue_measured(queue, rate, 0);
        assert_true(post(queue, MR_TIER_STORE, 0));
        while ((other = mr_tier_queue_take(queue, 0, 0)) != NULL)
            assert_false(mr_tier_queue_finish(queue, other, false, 0));
        assert_true(post(queue, MR_TIER_LOAD, 0));
        uint32_t count = take_all(queue, parts), loads = 0;
        for (uint32_t taken = 0; taken < count; taken++)
            loads += parts[taken]->step == MR_TIER_STEP_GET;
        assert_int_equal(loads, cases[i].taken);
        mr_tier_queue_check(queue);
        for (; count > 0; count = take_all(queue, parts))
            for (uint32_t taken = 0; taken < count; taken++)
                while (mr_tier_queue_finish(queue, parts[taken], true, 2)) {
                }
        while (mr_tier_queue_poll(queue, &answer))
            assert_true(answer.final ? answer.count == ITEMS : answer.loaded);
        close_queue(queue);
    }
}

/* At any rate, because Redis copies all requested values before it sends one: a small limit at
 * first, which grows with the bytes received. */
static void bytes_in_flight_are_limited_by_what_was_received(void **state)
{
    struct mr_tier_queue *queue = open_queue();
    struct mr_tier_part *parts[4 * ITEMS]; /* an item has three slices */
    struct mr_tier_answer answer;
    uint64_t length = MR_TIER_AHEAD_BYTES * 3 / 8, bound = MR_TIER_AHEAD_FIRST, most = 0, sum = 0;
    (void)state;
    set_ready(queue);
    mr_tier_queue_measured(queue, 1e15, 0);
    assert_true(post_items(queue, MR_TIER_LOAD, 0, length));
    for (uint32_t count = 0, done = 0; done == 0 || done < count;
         done++) { /* one value is received, others are requested */
        uint64_t coming = 0, of_thread[3] = {0};
        count += take_two(queue, parts + done, count - done);
        for (uint32_t i = done; i < count; i++) {
            coming += parts[i]->frame.length;
            of_thread[parts[i]->thread] += parts[i]->frame.length;
        }
        assert_true(coming <= bound || coming == of_thread[1] || coming == of_thread[2]);
        if (coming > most) most = coming;
        sum += parts[done]->frame.length;
        bound += parts[done]->frame.length;
        if (bound > MR_TIER_AHEAD_BYTES) bound = MR_TIER_AHEAD_BYTES;
        while (mr_tier_queue_finish(queue, parts[done], true, 2)) {
        }
    }
    assert_int_equal(sum, ITEMS * length);
    assert_in_range(most, MR_TIER_AHEAD_BYTES / 2, MR_TIER_AHEAD_BYTES);
    while (mr_tier_queue_poll(queue, &answer))
        assert_true(answer.final ? answer.count == ITEMS : answer.loaded);
    close_queue(queue);
}

/* At any rate one connection always has a value in flight; the others request none. */
static void one_connection_always_has_a_value_in_flight(void **state)
{
    struct mr_tier_queue *queue = open_queue();
    struct mr_tier_answer answer;
    struct mr_tier_part *parts[ITEMS];
    (void)state;
    set_ready(queue);
    mr_tier_queue_measured(queue, 1, 0);
    assert_true(post(queue, MR_TIER_LOAD, 0));
    parts[0] = mr_tier_queue_take(queue, 2, 1);
    parts[1] = mr_tier_queue_take(queue, 2, 1);
    assert_true(parts[0] && parts[1]);
    assert_null(mr_tier_queue_take(queue, 1, 1));
    for (uint32_t i = 0; i < 2; i++) /* its value is lost: the other connection continues */
        assert_false(mr_tier_queue_finish(queue, parts[i], false, 2));
    parts[2] = mr_tier_queue_take(queue, 1, 2);
    assert_non_null(parts[2]);
    assert_null(mr_tier_queue_take(queue, 2, 2));
    assert_false(mr_tier_queue_finish(queue, parts[2], false, 2));
    mr_tier_queue_expire(queue, 2000);
    while (mr_tier_queue_poll(queue, &answer))
        assert_false(answer.loaded);
    close_queue(queue);
}

static void a_value_skipped_in_flight_is_released(void **state)
{
    struct mr_tier_queue *queue = open_queue();
    struct mr_tier_answer answer;
    (void)state;
    set_ready(queue);
    assert_true(post(queue, MR_TIER_LOAD, 0));
    struct mr_tier_part *last = mr_tier_queue_take(queue, 1, 1);
    struct mr_tier_part *third = mr_tier_queue_take(queue, 2, 1);
    mr_tier_queue_skip(queue, 5, 3);
    assert_null(mr_tier_queue_take(queue, 1, 1));
    assert_true(mr_tier_queue_is_cancelled(queue, third));
    assert_false(mr_tier_queue_is_cancelled(queue, last));
    assert_true(mr_tier_queue_finish(queue, last, true, 2));
    assert_false(mr_tier_queue_finish(queue, last, true, 2));
    for (uint32_t i = 0; i < 2; i++) /* not taken yet */
        assert_true(mr_tier_queue_poll(queue, &answer) && answer.index == i && !answer.loaded);
    assert_true(mr_tier_queue_poll(queue, &answer) && answer.index == 3 && answer.loaded);
    assert_false(mr_tier_queue_poll(queue, &answer));
    mr_tier_queue_release(queue, third, 2);
    assert_true(mr_tier_queue_poll(queue, &answer) && answer.index == 2 && !answer.loaded);
    assert_false(answer.final);
    assert_true(mr_tier_queue_poll(queue, &answer) && answer.final && answer.count == 1);
    mr_tier_queue_check(queue);
    assert_false(mr_tier_queue_finish(queue, third, false, 3)); /* the reply arrived nevertheless */
    close_queue(queue);
}

static void an_abandoned_job_has_only_its_final_answer(void **state)
{
    struct mr_tier_queue *queue = open_queue();
    struct mr_tier_answer answer;
    (void)state;
    set_ready(queue);
    assert_true(post(queue, MR_TIER_LOAD, 0));
    struct mr_tier_part *first = mr_tier_queue_take(queue, 1, 1);
    struct mr_tier_part *second = mr_tier_queue_take(queue, 1, 1);
    assert_true(mr_tier_queue_finish(queue, first, true, 2));
    assert_false(mr_tier_queue_finish(queue, first, true, 2));
    mr_tier_queue_abandon(queue, 5);
    assert_false(mr_tier_queue_poll(queue, &answer)); /* one is still being received */
    mr_tier_queue_release(queue, second, 2);
    assert_false(mr_tier_queue_finish(queue, second, false, 2));
    assert_true(mr_tier_queue_poll(queue, &answer) && answer.final);
    assert_false(mr_tier_queue_poll(queue, &answer));
    close_queue(queue);
}

/* Abandoned during its lookups, and then, in another run, during its writes. */
static void an_abandoned_store_ends_before_its_replies(void **state)
{
    (void)state;
    for (uint32_t looked = 0; looked < 2; looked++) {
        struct mr_tier_queue *queue = open_queue();
        struct mr_tier_answer answer;
        struct mr_tier_part *parts[ITEMS];
        set_ready(queue);
        assert_true(post(queue, MR_TIER_STORE, 0));
        for (uint32_t i = 0; i < ITEMS; i++)
            parts[i] = mr_tier_queue_take(queue, 0, 1);
        for (uint32_t i = 0; i < ITEMS && looked; i++)
            assert_false(mr_tier_queue_finish(queue, parts[i], false, 1));
        if (looked) parts[0] = mr_tier_queue_take(queue, 1, 1);
        assert_false(mr_tier_queue_is_cancelled(queue, parts[0]));
        mr_tier_queue_abandon(queue, 5);
        uint32_t out = looked ? 1 : ITEMS;
        for (uint32_t i = 0; i < out; i++) {
            assert_false(mr_tier_queue_poll(queue, &answer));
            assert_true(mr_tier_queue_is_cancelled(queue, parts[i]));
            mr_tier_queue_release(queue, parts[i], 2);
            assert_false(mr_tier_queue_is_cancelled(queue, parts[i]));
        }
        assert_true(mr_tier_queue_poll(queue, &answer) && answer.final && answer.count == 0);
        for (uint32_t i = 0; i < out; i++)
            assert_false(mr_tier_queue_finish(queue, parts[i], true, 3));
        close_queue(queue);
    }
}

static void jobs_are_bounded(void **state)
{
    struct mr_tier_queue *queue = open_queue();
    struct mr_tier_answer answer;
    uint32_t count = 0, finals = 0;
    (void)state;
    set_ready(queue);
    while (count < 2 * MR_TIER_JOBS_MAX && post(queue, MR_TIER_LOOKUP, 0))
        count++;
    assert_int_equal(count, MR_TIER_JOBS_MAX);
    mr_tier_queue_expire(queue, 1000);
    while (mr_tier_queue_poll(queue, &answer))
        finals++;
    assert_int_equal(finals, MR_TIER_JOBS_MAX);
    close_queue(queue);
}

static void a_refusal_is_logged_once_a_minute(void **state)
{
    struct mr_tier_queue *queue = open_queue();
    uint64_t second_ns = 1000000000;
    (void)state;
    set_ready(queue);
    assert_true(mr_tier_queue_refused(queue, false, second_ns));
    assert_false(post(queue, MR_TIER_STORE, second_ns + 1));
    assert_false(mr_tier_queue_refused(queue, false, 30 * second_ns));
    assert_true(mr_tier_queue_refused(queue, false, 62 * second_ns));
    assert_int_equal(mr_tier_queue_stats(queue).counters[MR_TIER_REFUSALS], 3);
    assert_int_equal(mr_tier_queue_stats(queue).counters[MR_TIER_BYTES_DROPPED],
                     ITEMS * sizeof bytes[0]);
    close_queue(queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_refused_while_not_connected),
        cmocka_unit_test(a_load_starts_with_the_last_item_and_reports_each),
        cmocka_unit_test(a_lookup_counts_up_to_the_first_gap),
        cmocka_unit_test(loads_go_before_stores),
        cmocka_unit_test(a_store_is_taken_from_its_front_up_to_a_limit),
        cmocka_unit_test(one_item_may_be_larger_than_a_limit),
        cmocka_unit_test(known_items_cost_nothing),
        cmocka_unit_test(known_items_of_a_refused_store_are_not_dropped),
        cmocka_unit_test(untaken_parts_end_at_their_deadline),
        cmocka_unit_test(untaken_parts_end_when_the_last_connection_is_lost),
        cmocka_unit_test(a_silent_server_gets_no_lookups_and_loads),
        cmocka_unit_test(slow_bytes_count_for_a_limited_time),
        cmocka_unit_test(bytes_in_flight_are_limited_by_the_rate),
        cmocka_unit_test(bytes_in_flight_are_limited_by_what_was_received),
        cmocka_unit_test(one_connection_always_has_a_value_in_flight),
        cmocka_unit_test(a_value_skipped_in_flight_is_released),
        cmocka_unit_test(an_abandoned_job_has_only_its_final_answer),
        cmocka_unit_test(an_abandoned_store_ends_before_its_replies),
        cmocka_unit_test(jobs_are_bounded),
        cmocka_unit_test(a_refusal_is_logged_once_a_minute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
