#include "worker/offsets/ledger_metadata.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

static struct mr_offset_ledger *make(void)
{
    struct mr_offset_ledger *ledger = NULL;
    assert_int_equal(mr_offset_ledger_create(&ledger, MR_LEDGER_SPAN_MAX, NULL), MR_OK);
    return ledger;
}

static struct mr_ledger_history receive(struct mr_offset_ledger *ledger, int64_t offset,
                                        enum mr_ledger_verdict expected)
{
    struct mr_ledger_history history;
    assert_int_equal(mr_offset_ledger_receive(ledger, offset, &history), expected);
    return history;
}

#define TIME_MS  ((int64_t)1763740000123)
#define INSTANCE 0x81020304u

static struct mr_text text_of(const char *text)
{
    return (struct mr_text){text, strlen(text)};
}

/* Reads the metadata as the next owner of the partition would. */
static struct mr_offset_ledger *hand_over(struct mr_offset_ledger *ledger)
{
    char text[MR_LEDGER_METADATA_TEXT_MAX];
    mr_ledger_metadata_encode(ledger, (struct mr_ledger_head){TIME_MS, INSTANCE}, text);
    struct mr_offset_ledger *next = make();
    struct mr_ledger_head head;
    assert_int_equal(
        mr_ledger_metadata_restore(next, mr_offset_ledger_base(ledger), text_of(text), &head, NULL),
        MR_OK);
    assert_int_equal(head.since_ms, TIME_MS);
    assert_int_equal(head.instance, INSTANCE);
    mr_offset_ledger_take_over(next, NULL, NULL);
    mr_offset_ledger_check(next);
    mr_offset_ledger_destroy(ledger);
    return next;
}

static void an_unknown_offset_is_an_empty_text_and_a_known_one_says_its_time(void **state)
{
    (void)state;
    struct mr_offset_ledger *ledger = make();
    char text[MR_LEDGER_METADATA_TEXT_MAX], later[MR_LEDGER_METADATA_TEXT_MAX];
    mr_ledger_metadata_encode(ledger, (struct mr_ledger_head){TIME_MS, INSTANCE}, text);
    assert_string_equal(text, "");
    receive(ledger, 0, MR_LEDGER_NEW);
    mr_ledger_metadata_encode(ledger, (struct mr_ledger_head){TIME_MS, INSTANCE}, text);
    mr_ledger_metadata_encode(ledger, (struct mr_ledger_head){TIME_MS + 1, INSTANCE}, later);
    assert_int_equal(strlen(text), strlen(later));
    assert_string_not_equal(text, later);
    assert_string_equal(text + MR_LEDGER_METADATA_TIME_CHARS,
                        later + MR_LEDGER_METADATA_TIME_CHARS);
    mr_offset_ledger_destroy(ledger);
}

static void metadata_without_a_time_is_still_read(void **state)
{
    (void)state;
    struct mr_offset_ledger *ledger = make();
    struct mr_ledger_head head = {7, 7};
    /* A1, one byte of bitmap: offset base + 1 is finished, no entries */
    assert_int_equal(mr_ledger_metadata_restore(ledger, 5, text_of("oQECAA=="), &head, NULL),
                     MR_OK);
    assert_int_equal(head.since_ms, 0);
    receive(ledger, 5, MR_LEDGER_NEW);
    receive(ledger, 6, MR_LEDGER_FINISHED);
    head.since_ms = 7;
    assert_int_equal(mr_ledger_metadata_restore(ledger, 5, text_of(""), &head, NULL), MR_OK);
    assert_int_equal(head.since_ms, 0);
    mr_offset_ledger_destroy(ledger);
}

/* Version A2, written by workers up to 0.1.0: any running request may have run with others. */
static void metadata_without_notes_is_still_read(void **state)
{
    (void)state;
    struct mr_offset_ledger *ledger = make();
    struct mr_ledger_head head = {0};
    /* A2, time 1000, no bitmap; offset 5: 2 attempts, 1 crash, running; 6: 1 attempt, no crash */
    assert_int_equal(
        mr_ledger_metadata_restore(ledger, 5, text_of("ogAAAAAAAAPoAAIAAoEBAQA="), &head, NULL),
        MR_OK);
    assert_int_equal(head.since_ms, 1000);
    assert_int_equal(head.instance, 0);
    mr_offset_ledger_take_over(ledger, NULL, NULL);
    struct mr_ledger_history first = receive(ledger, 5, MR_LEDGER_NEW);
    assert_int_equal(first.attempts, 2);
    assert_int_equal(first.crashes, 2);
    assert_true(first.crashed);
    assert_false(first.alone);
    struct mr_ledger_history second = receive(ledger, 6, MR_LEDGER_NEW);
    assert_int_equal(second.attempts, 1);
    assert_int_equal(second.crashes, 0);
    mr_offset_ledger_destroy(ledger);
}

static void notes_of_a_start_are_handed_over(void **state)
{
    (void)state;
    struct mr_offset_ledger *ledger = make();
    for (int64_t offset = 0; offset < 3; offset++)
        receive(ledger, offset, MR_LEDGER_NEW);
    mr_offset_ledger_start(ledger, 0, 0);
    mr_offset_ledger_start(ledger, 1, MR_LEDGER_SLOT_ACCOMPANIED);
    mr_offset_ledger_start(ledger, 2, MR_LEDGER_SLOT_ACCOMPANIED | MR_LEDGER_SLOT_APART);
    ledger = hand_over(ledger);
    assert_true(receive(ledger, 0, MR_LEDGER_NEW).alone);
    ledger = hand_over(ledger); /* 1 and 2 are not received yet: their history is kept */
    assert_true(receive(ledger, 0, MR_LEDGER_NEW).alone);
    assert_false(receive(ledger, 1, MR_LEDGER_NEW).alone);
    assert_true(receive(ledger, 2, MR_LEDGER_NEW).alone);
    mr_offset_ledger_start(ledger, 0, 0);
    mr_offset_ledger_accompany(ledger, 0);
    ledger = hand_over(ledger);
    struct mr_ledger_history history = receive(ledger, 0, MR_LEDGER_NEW);
    assert_int_equal(history.crashes, 2);
    assert_false(history.alone);
    mr_offset_ledger_start(ledger, 0, MR_LEDGER_SLOT_APART); /* a suspect's run that is released */
    mr_offset_ledger_release(ledger, 0);
    ledger = hand_over(ledger);
    history = receive(ledger, 0, MR_LEDGER_NEW);
    assert_int_equal(history.crashes, 2);
    assert_false(history.crashed);
    assert_false(history.alone);
    mr_offset_ledger_destroy(ledger);
}

static void finished_records_are_not_run_again_after_a_restart(void **state)
{
    (void)state;
    struct mr_offset_ledger *ledger = make();
    for (int64_t offset = 100; offset < 120; offset++)
        receive(ledger, offset, MR_LEDGER_NEW);
    for (int64_t offset = 101; offset < 120; offset += 2)
        mr_offset_ledger_finish(ledger, offset);
    ledger = hand_over(ledger);
    assert_int_equal(mr_offset_ledger_base(ledger), 100);
    for (int64_t offset = 100; offset < 120; offset++)
        receive(ledger, offset, offset % 2 ? MR_LEDGER_FINISHED : MR_LEDGER_NEW);
    receive(ledger, 120, MR_LEDGER_NEW);
    assert_int_equal(mr_offset_ledger_unfinished(ledger), 11);
    mr_offset_ledger_check(ledger);
    mr_offset_ledger_destroy(ledger);
}

static void a_commit_made_before_records_are_read_again_forgets_nothing(void **state)
{
    (void)state;
    struct mr_offset_ledger *ledger = make();
    for (int64_t offset = 0; offset < 4; offset++)
        receive(ledger, offset, MR_LEDGER_NEW);
    mr_offset_ledger_start(ledger, 0, 0);
    mr_offset_ledger_finish(ledger, 3);
    ledger = hand_over(hand_over(ledger));
    assert_int_equal(receive(ledger, 0, MR_LEDGER_NEW).attempts, 1);
    receive(ledger, 1, MR_LEDGER_NEW);
    ledger = hand_over(ledger);
    receive(ledger, 0, MR_LEDGER_NEW);
    receive(ledger, 1, MR_LEDGER_NEW);
    receive(ledger, 2, MR_LEDGER_NEW);
    receive(ledger, 3, MR_LEDGER_FINISHED);
    mr_offset_ledger_destroy(ledger);
}

static void a_worker_that_vanishes_is_counted_and_a_hand_back_is_not(void **state)
{
    (void)state;
    struct mr_offset_ledger *ledger = make();
    receive(ledger, 7, MR_LEDGER_NEW);
    receive(ledger, 8, MR_LEDGER_NEW);
    mr_offset_ledger_start(ledger, 7, 0);
    mr_offset_ledger_start(ledger, 8, 0);
    mr_offset_ledger_release(ledger, 8);
    ledger = hand_over(ledger);
    struct mr_ledger_history crashed = receive(ledger, 7, MR_LEDGER_NEW);
    struct mr_ledger_history returned = receive(ledger, 8, MR_LEDGER_NEW);
    assert_int_equal(crashed.attempts, 1);
    assert_int_equal(crashed.crashes, 1);
    assert_int_equal(returned.attempts, 1);
    assert_int_equal(returned.crashes, 0);
    mr_offset_ledger_start(ledger, 7, 0);
    ledger = hand_over(ledger);
    crashed = receive(ledger, 7, MR_LEDGER_NEW);
    assert_int_equal(crashed.attempts, 2);
    assert_int_equal(crashed.crashes, 2);
    ledger = hand_over(ledger); /* never started again: the count stays */
    assert_int_equal(receive(ledger, 7, MR_LEDGER_NEW).crashes, 2);
    mr_offset_ledger_destroy(ledger);
}

static uint32_t start_if_it_fits(struct mr_offset_ledger *ledger, int64_t offset)
{
    if (!mr_offset_ledger_may_start(ledger, offset)) return 0;
    mr_offset_ledger_start(ledger, offset, 0);
    return 1;
}

/* Receives the records of [0, span) again; returns how many of them were started. */
static uint32_t count_started(struct mr_offset_ledger *ledger, int64_t span)
{
    uint32_t count = 0;
    struct mr_ledger_history history;
    for (int64_t offset = 0; offset < span; offset++) {
        mr_offset_ledger_receive(ledger, offset, &history);
        count += history.attempts > 0;
    }
    return count;
}

static void the_largest_bitmap_and_many_attempts_fit_a_broker(void **state)
{
    (void)state;
    struct mr_offset_ledger *ledger = make();
    uint32_t started = 0;
    for (int64_t offset = 0; offset < MR_LEDGER_SPAN_MAX; offset++) {
        receive(ledger, offset, MR_LEDGER_NEW);
        if (offset % 3) mr_offset_ledger_finish(ledger, offset);
    }
    for (int64_t offset = 0; offset < MR_LEDGER_SPAN_MAX; offset += 3)
        started += start_if_it_fits(ledger, offset);
    assert_in_range(started, 350, 400);
    char text[MR_LEDGER_METADATA_TEXT_MAX];
    mr_ledger_metadata_encode(ledger, (struct mr_ledger_head){TIME_MS, INSTANCE}, text);
    assert_true(strlen(text) < 4096);
    assert_true(strlen(text) > 3000);
    ledger = hand_over(ledger);
    mr_offset_ledger_check(ledger);
    assert_int_equal(count_started(ledger, MR_LEDGER_SPAN_MAX), started);
    mr_offset_ledger_check(ledger);
    mr_offset_ledger_destroy(ledger);
}

/* The bitmap grows after the starts: a record that would leave no room for a start is not taken. */
static void a_start_stays_recorded_while_later_records_finish(void **state)
{
    (void)state;
    struct mr_offset_ledger *ledger = make();
    struct mr_ledger_history history;
    uint32_t started = 0;
    int64_t next = 0;
    for (; next < 1000; next++) {
        receive(ledger, next, MR_LEDGER_NEW);
        if (started < 700) started += start_if_it_fits(ledger, next);
    }
    assert_int_equal(started, 700);
    while (mr_offset_ledger_has_room(ledger) &&
           mr_offset_ledger_receive(ledger, next, &history) == MR_LEDGER_NEW)
        mr_offset_ledger_finish(ledger, next++);
    assert_true(next < MR_LEDGER_SPAN_MAX);
    assert_int_equal(mr_offset_ledger_receive(ledger, next + 2000, &history), MR_LEDGER_FULL);
    mr_offset_ledger_found(ledger, next + 2000); /* recovery finds more than fits: run again */
    ledger = hand_over(ledger);
    assert_int_equal(count_started(ledger, next), started);
    mr_offset_ledger_finish(ledger, 1); /* makes room for one */
    assert_int_equal(start_if_it_fits(ledger, 999), 1);
    assert_int_equal(start_if_it_fits(ledger, 998), 0);
    mr_offset_ledger_check(ledger);
    mr_offset_ledger_destroy(ledger);
}

/* Starts, ends and restarts in any order; every start is in the commit. */
static void every_start_is_in_the_commit_whatever_happens(void **state)
{
    (void)state;
    uint32_t random = 7;
    for (uint32_t round = 0; round < 20; round++) {
        struct mr_offset_ledger *ledger = make();
        struct mr_ledger_history history;
        int64_t next = 0;
        for (int i = 0; i < 20000; i++) {
            random = random * 1664525u + 1013904223u;
            const int64_t base =
                mr_offset_ledger_base(ledger) < 0 ? 0 : mr_offset_ledger_base(ledger);
            const int64_t any = base + (int64_t)(random >> 8) % (next > base ? next - base : 1);
            if (random % 4 < 2 && mr_offset_ledger_has_room(ledger)) {
                next += random % 64 == 0 ? (int64_t)((random >> 8) % 200) : 0; /* a gap */
                if (mr_offset_ledger_receive(ledger, next, &history) != MR_LEDGER_FULL) next++;
            } else if (random % 4 < 3) {
                start_if_it_fits(ledger, any);
            } else if (random % (round + 5) == 0) {
                mr_offset_ledger_finish(ledger, any);
            }
        }
        mr_offset_ledger_check(ledger);
        char before[MR_LEDGER_METADATA_TEXT_MAX], after[MR_LEDGER_METADATA_TEXT_MAX];
        struct mr_ledger_head head = {TIME_MS, INSTANCE};
        mr_ledger_metadata_encode(ledger, head, before);
        const int64_t base = mr_offset_ledger_base(ledger);
        assert_int_equal(mr_ledger_metadata_restore(ledger, base, text_of(before), &head, NULL),
                         MR_OK);
        mr_offset_ledger_check(ledger);
        mr_ledger_metadata_encode(ledger, head, after);
        assert_string_equal(before, after);
        mr_offset_ledger_destroy(ledger);
    }
}

static void text_of_another_application_is_refused_and_harmless(void **state)
{
    (void)state;
    static const char *const texts[] = {"x",
                                        "hello world!",
                                        "AAAA",
                                        "oQ==x",
                                        "oQ==",
                                        "oQ8=",
                                        "oQEBAg==",
                                        "oQABAQ==",
                                        "oQABAQEBAQ==",
                                        "oQD/////",
                                        "=ABC",
                                        "ob+/vw==",
                                        "oQAB////fwEB",
                                        "og==",
                                        "ogAAAAAAAAA=",
                                        "owAAAAAAAAAAAAA=",
                                        "owAAAAAAAAPoAAAABwABAAEAQA==",
                                        "ov////////8AAA=="};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct mr_offset_ledger *ledger = make();
        struct mr_error err;
        struct mr_ledger_head head = {7, 7};
        assert_int_equal(mr_ledger_metadata_restore(ledger, 42, text_of(texts[i]), &head, &err),
                         MR_MALFORMED);
        assert_int_equal(head.since_ms, 0);
        assert_int_equal(mr_offset_ledger_base(ledger), 42);
        receive(ledger, 42, MR_LEDGER_NEW);
        mr_offset_ledger_check(ledger);
        mr_offset_ledger_destroy(ledger);
    }
}

static void any_bytes_end_in_a_verdict(void **state)
{
    (void)state;
    static const char letters[] = "oQABCD/+=8wEx";
    uint32_t seed = 1;
    struct mr_offset_ledger *ledger = make();
    for (int round = 0; round < 20000; round++) {
        char text[64] = "oQ";
        text[1] = "Qgw"[round % 3];
        size_t length = 2;
        for (; length < 4 + (seed >> 20) % 48; length++) {
            seed = seed * 1664525u + 1013904223u;
            text[length] = letters[(seed >> 16) % (sizeof letters - 1)];
        }
        struct mr_ledger_head head;
        enum mr_status status =
            mr_ledger_metadata_restore(ledger, round, (struct mr_text){text, length}, &head, NULL);
        assert_true(status == MR_OK || status == MR_MALFORMED);
        mr_offset_ledger_check(ledger);
    }
    char *large = malloc(8192);
    memset(large, 'A', 8192);
    struct mr_ledger_head head;
    assert_int_equal(
        mr_ledger_metadata_restore(ledger, 1, (struct mr_text){large, 8192}, &head, NULL),
        MR_MALFORMED);
    free(large);
    mr_offset_ledger_destroy(ledger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unknown_offset_is_an_empty_text_and_a_known_one_says_its_time),
        cmocka_unit_test(metadata_without_a_time_is_still_read),
        cmocka_unit_test(metadata_without_notes_is_still_read),
        cmocka_unit_test(notes_of_a_start_are_handed_over),
        cmocka_unit_test(finished_records_are_not_run_again_after_a_restart),
        cmocka_unit_test(a_commit_made_before_records_are_read_again_forgets_nothing),
        cmocka_unit_test(a_worker_that_vanishes_is_counted_and_a_hand_back_is_not),
        cmocka_unit_test(the_largest_bitmap_and_many_attempts_fit_a_broker),
        cmocka_unit_test(a_start_stays_recorded_while_later_records_finish),
        cmocka_unit_test(every_start_is_in_the_commit_whatever_happens),
        cmocka_unit_test(text_of_another_application_is_refused_and_harmless),
        cmocka_unit_test(any_bytes_end_in_a_verdict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
