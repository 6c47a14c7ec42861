#include "tests/integration/verdict/verdict.h"

#include "worker/offsets/ledger_metadata.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* A fleet without violations. Each test adds one violation and checks the report. */
struct scene {
    struct verdict *verdict;
    struct verdict_figures figures;
};

static struct mr_text text_of(const char *text)
{
    return (struct mr_text){text, text ? strlen(text) : 0};
}

static void open_scene(struct scene *scene, bool single)
{
    struct verdict_options options = {.single = single, .timed = true};
    *scene = (struct scene){.verdict = verdict_create(&options)};
}

static void ask(struct scene *scene, int64_t offset, const char *id, int64_t time_ms)
{
    struct verdict_place place = {"requests", 0, offset};
    verdict_request(scene->verdict, &place, text_of(id), true, time_ms);
}

/* A token record with tokens index, index + 1 and so on. Token i has the id 100 + i and one letter
 * as text. */
static void tokens(struct scene *scene, const char *id, uint32_t attempt, uint32_t index,
                   uint32_t count)
{
    uint32_t ids[64];
    char text[64];
    for (uint32_t i = 0; i < count; i++) {
        ids[i] = 100 + index + i;
        text[i] = (char)('a' + (index + i) % 26);
    }
    struct mr_token_record record = {.id = text_of(id),
                                     .attempt = attempt,
                                     .index = index,
                                     .resumed_at = -1,
                                     .token_ids = ids,
                                     .token_count = count,
                                     .text = {text, count}};
    verdict_tokens(scene->verdict, &record);
}

static void answer_as(struct scene *scene, const char *id, uint32_t attempt, uint32_t count,
                      const char *text, int64_t time_ms)
{
    uint32_t ids[64];
    for (uint32_t i = 0; i < count; i++)
        ids[i] = 100 + i;
    struct mr_choice choice = {
        .finish = MR_FINISH_LENGTH, .text = text_of(text), .token_ids = ids, .token_count = count};
    struct mr_result result = {.id = text_of(id),
                               .attempt = attempt,
                               .choices = &choice,
                               .choice_count = 1,
                               .source_topic = text_of("requests")};
    verdict_result(scene->verdict, &result, time_ms);
}

static void answer(struct scene *scene, const char *id, uint32_t attempt, int64_t time_ms)
{
    answer_as(scene, id, attempt, 4, "abcd", time_ms);
}

static void commit(struct scene *scene, int64_t offset, const char *metadata, int64_t time_ms)
{
    struct verdict_place place = {"requests", 0, offset};
    verdict_commit(scene->verdict, &place, text_of(metadata), time_ms);
}

/* Two requests, both answered and committed. */
static void open_well(struct scene *scene)
{
    open_scene(scene, true);
    ask(scene, 0, "a", 1000);
    ask(scene, 1, "b", 1100);
    tokens(scene, "a", 1, 0, 2);
    tokens(scene, "b", 1, 0, 4);
    tokens(scene, "a", 1, 2, 2);
    answer(scene, "a", 1, 2000);
    answer(scene, "b", 1, 2500);
    commit(scene, 2, "", 2500);
}

static void judge(struct scene *scene)
{
    verdict_judge(scene->verdict, &scene->figures);
    verdict_destroy(scene->verdict);
}

static void expect_only(struct scene *scene, enum verdict_kind kind, uint32_t count)
{
    judge(scene);
    for (int i = 0; i < VERDICT_COUNT; i++)
        if (scene->figures.violations[i] != (i == (int)kind ? count : 0))
            fail_msg("%s: %u", verdict_text((enum verdict_kind)i), scene->figures.violations[i]);
}

static void expect_none(struct scene *scene)
{
    expect_only(scene, VERDICT_COUNT, 0);
    assert_int_equal(scene->figures.violation_count, 0);
}

static void a_log_that_is_well_is_not_accused(void **state)
{
    (void)state;
    struct scene scene;
    open_well(&scene);
    expect_none(&scene);
    assert_int_equal(scene.figures.requests, 2);
    assert_int_equal(scene.figures.ids, 2);
    assert_int_equal(scene.figures.answered, 2);
    assert_int_equal(scene.figures.results_per_id[1], 2);
    assert_int_equal(scene.figures.duplicates, 0);
    assert_int_equal(scene.figures.tokens, 8);
    assert_int_equal(scene.figures.tokens_again, 0);
    assert_int_equal(scene.figures.commits, 1);
    assert_int_equal(scene.figures.stall_ms, 1000);
    assert_int_equal(scene.figures.span_ms, 1500);
}

static void a_lost_result_is_seen(void **state)
{
    (void)state;
    struct scene scene;
    open_well(&scene);
    ask(&scene, 2, "c", 3000);
    expect_only(&scene, VERDICT_LOST_RESULT, 1);
}

static void a_request_without_a_readable_id_needs_a_dead_letter(void **state)
{
    (void)state;
    struct scene scene;
    struct verdict_place place = {"requests", 0, 2};
    open_well(&scene);
    verdict_request(scene.verdict, &place, (struct mr_text){0}, false, 3000);
    expect_only(&scene, VERDICT_LOST_RESULT, 1);

    open_well(&scene);
    verdict_request(scene.verdict, &place, (struct mr_text){0}, false, 3000);
    verdict_dead_letter(scene.verdict, &place, 3100);
    commit(&scene, 3, "", 3100);
    expect_none(&scene);
    assert_int_equal(scene.figures.dead_letters, 1);
}

static void a_second_result_is_seen_where_one_is_promised(void **state)
{
    (void)state;
    struct scene scene;
    open_well(&scene);
    tokens(&scene, "a", 2, 0, 4);
    answer(&scene, "a", 2, 3000);
    expect_only(&scene, VERDICT_SECOND_RESULT, 1);
}

static void a_second_result_is_counted_where_it_is_allowed(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, false);
    ask(&scene, 0, "a", 1000);
    for (uint32_t attempt = 1; attempt <= 3; attempt++) {
        tokens(&scene, "a", attempt, 0, 4);
        answer(&scene, "a", attempt, 2000);
    }
    answer(&scene, "a", 3, 2100);
    expect_none(&scene);
    assert_int_equal(scene.figures.duplicates, 3);
    assert_int_equal(scene.figures.repeated_ids, 1);
    assert_int_equal(scene.figures.same_attempt, 1);
    assert_int_equal(scene.figures.later_attempt, 1);
    assert_int_equal(scene.figures.results_per_id[4], 1);
    assert_int_equal(scene.figures.tokens_again, 8);
}

static void two_results_of_one_attempt_must_say_the_same(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, false);
    ask(&scene, 0, "a", 1000);
    tokens(&scene, "a", 1, 0, 4);
    answer(&scene, "a", 1, 2000);
    answer_as(&scene, "a", 1, 4, "abcX", 2100);
    expect_only(&scene, VERDICT_UNEQUAL_RESULTS, 1);
}

static void a_lower_attempt_behind_a_higher_one_is_seen(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, false);
    ask(&scene, 0, "a", 1000);
    tokens(&scene, "a", 1, 0, 2);
    tokens(&scene, "a", 2, 0, 4);
    tokens(&scene, "a", 1, 2, 2);
    answer(&scene, "a", 2, 2000);
    answer(&scene, "a", 1, 2100);
    expect_only(&scene, VERDICT_LATE_RESULT, 1);
    assert_int_equal(scene.figures.late_token_records, 1);
}

static void an_answer_to_nobody_is_seen(void **state)
{
    (void)state;
    struct scene scene;
    struct verdict_place place = {"requests", 3, 0};
    open_well(&scene);
    tokens(&scene, "x", 1, 0, 4);
    answer(&scene, "y", 1, 3000);
    verdict_dead_letter(scene.verdict, &place, 3000);
    expect_only(&scene, VERDICT_UNASKED, 3);
}

static void a_gap_in_the_middle_and_at_the_end_is_seen(void **state)
{
    (void)state;
    struct scene scene;
    open_well(&scene);
    ask(&scene, 2, "c", 3000);
    tokens(&scene, "c", 1, 0, 1);
    tokens(&scene, "c", 1, 2, 2);
    answer(&scene, "c", 1, 3000);
    expect_only(&scene, VERDICT_GAP, 1);

    open_well(&scene);
    ask(&scene, 2, "c", 3000);
    tokens(&scene, "c", 1, 0, 3);
    answer(&scene, "c", 1, 3000);
    expect_only(&scene, VERDICT_GAP, 1);

    open_well(&scene); /* token records of an attempt without a result */
    ask(&scene, 2, "c", 3000);
    tokens(&scene, "c", 1, 1, 3);
    tokens(&scene, "c", 2, 0, 4);
    answer(&scene, "c", 2, 3000);
    expect_only(&scene, VERDICT_GAP, 1);
}

static void tokens_that_arrive_late_are_a_gap_to_their_reader(void **state)
{
    (void)state;
    struct scene scene;
    open_well(&scene);
    ask(&scene, 2, "c", 3000);
    tokens(&scene, "c", 1, 2, 2);
    tokens(&scene, "c", 1, 0, 2);
    answer_as(&scene, "c", 1, 2, "ab", 3000);
    expect_only(&scene, VERDICT_GAP, 1);
}

static void repeated_token_records_must_be_identical(void **state)
{
    (void)state;
    struct scene scene;
    open_well(&scene);
    tokens(&scene, "a", 1, 0, 4); /* the same attempt once more, from the start */
    expect_none(&scene);
    assert_int_equal(scene.figures.tokens_again, 4);

    static const uint32_t other = 7;
    open_well(&scene);
    struct mr_token_record record = {.id = {"a", 1},
                                     .attempt = 1,
                                     .index = 1,
                                     .resumed_at = -1,
                                     .token_ids = &other,
                                     .token_count = 1,
                                     .text = {"b", 1}};
    verdict_tokens(scene.verdict, &record);
    expect_only(&scene, VERDICT_UNEQUAL_TOKENS, 1);
}

static void token_records_must_be_the_results(void **state)
{
    (void)state;
    struct scene scene;
    open_well(&scene);
    ask(&scene, 2, "c", 3000);
    tokens(&scene, "c", 1, 0, 4);
    answer_as(&scene, "c", 1, 3, "abc", 3000);
    expect_only(&scene, VERDICT_UNEQUAL_TOKENS, 1);

    open_well(&scene);
    ask(&scene, 2, "c", 3000);
    tokens(&scene, "c", 1, 0, 4);
    answer_as(&scene, "c", 1, 4, "abcD", 3000);
    expect_only(&scene, VERDICT_UNEQUAL_TEXT, 1);
}

static void who_wants_no_token_records_gets_none(void **state)
{
    (void)state;
    struct scene scene;
    struct verdict_place place = {"requests", 0, 2};
    open_well(&scene);
    verdict_request(scene.verdict, &place, text_of("c"), false, 3000);
    answer(&scene, "c", 1, 3100);
    expect_none(&scene);

    open_well(&scene);
    verdict_request(scene.verdict, &place, text_of("c"), false, 3000);
    tokens(&scene, "c", 1, 0, 4);
    answer(&scene, "c", 1, 3100);
    expect_only(&scene, VERDICT_UNWANTED_TOKENS, 1);
}

static void resume(struct scene *scene, uint32_t attempt, uint32_t index)
{
    const uint32_t id = 100 + index;
    const char letter = (char)('a' + index);
    struct mr_token_record record = {.id = {"c", 1},
                                     .attempt = attempt,
                                     .index = index,
                                     .resumed_at = index,
                                     .token_ids = &id,
                                     .token_count = 1,
                                     .text = {&letter, 1}};
    verdict_tokens(scene->verdict, &record);
}

static void an_attempt_that_resumes_goes_on_where_the_lower_one_stopped(void **state)
{
    (void)state;
    struct scene scene;
    open_well(&scene);
    ask(&scene, 2, "c", 3000);
    tokens(&scene, "c", 1, 0, 1);
    tokens(&scene, "c", 1, 1, 2); /* the next worker did not get the last of these */
    resume(&scene, 2, 1);
    tokens(&scene, "c", 2, 2, 2);
    answer(&scene, "c", 2, 4000);
    expect_none(&scene);
    assert_int_equal(scene.figures.tokens_again, 2);

    open_well(&scene);
    ask(&scene, 2, "c", 3000);
    tokens(&scene, "c", 1, 0, 1);
    resume(&scene, 2, 2); /* no attempt published index 1 */
    answer(&scene, "c", 2, 4000);
    expect_only(&scene, VERDICT_GAP, 1);
}

static void an_early_commit_is_seen(void **state)
{
    (void)state;
    struct scene scene;
    open_well(&scene);
    commit(&scene, 2, "", 2499); /* b has its result a millisecond later */
    expect_only(&scene, VERDICT_EARLY_COMMIT, 1);

    open_well(&scene);
    ask(&scene, 2, "c", 3000);
    commit(&scene, 3, "", 9000); /* c has no result */
    judge(&scene);
    assert_int_equal(scene.figures.violations[VERDICT_EARLY_COMMIT], 1);
    assert_int_equal(scene.figures.violations[VERDICT_LOST_RESULT], 1);
}

/* The metadata that a worker commits for base offset 0 with these offsets finished. */
static void metadata_of(char text[MR_LEDGER_METADATA_TEXT_MAX], int64_t received,
                        const int64_t *finished, size_t count)
{
    struct mr_offset_ledger *ledger = NULL;
    struct mr_ledger_history history;
    assert_int_equal(mr_offset_ledger_create(&ledger, 64, NULL), MR_OK);
    for (int64_t offset = 0; offset < received; offset++)
        mr_offset_ledger_receive(ledger, offset, &history);
    for (size_t i = 0; i < count; i++)
        mr_offset_ledger_finish(ledger, finished[i]);
    mr_offset_ledger_start(ledger, 0, 0);
    mr_ledger_metadata_encode(ledger, (struct mr_ledger_head){1763740000123, 7}, text);
    mr_offset_ledger_destroy(ledger);
}

static void an_early_bit_of_the_metadata_is_seen(void **state)
{
    (void)state;
    static const int64_t second[] = {1}, ninth[] = {9};
    char text[MR_LEDGER_METADATA_TEXT_MAX];
    struct scene scene;
    metadata_of(text, 2, second, 1);
    open_well(&scene);
    commit(&scene, 0, text, 2500);
    expect_none(&scene);
    assert_int_equal(scene.figures.forgetful_commits,
                     1); /* an earlier commit listed offset 0 as finished */

    open_well(&scene);
    commit(&scene, 0, text, 2499);
    expect_only(&scene, VERDICT_EARLY_COMMIT, 1);

    metadata_of(text, 10, ninth, 1);
    open_well(&scene);
    ask(&scene, 9, "c", 3000);
    commit(&scene, 0, text, 9000);
    judge(&scene);
    assert_int_equal(scene.figures.violations[VERDICT_EARLY_COMMIT], 1);
}

static void metadata_of_somebody_else_is_seen(void **state)
{
    (void)state;
    static const char *const texts[] = {"hello", "AAAA", "oQ==", "of//////", "!"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct scene scene;
        open_well(&scene);
        commit(&scene, 2, texts[i], 2600);
        expect_only(&scene, VERDICT_UNREADABLE_COMMIT, 1);
    }
}

static void a_record_that_cannot_be_read_is_seen(void **state)
{
    (void)state;
    struct scene scene;
    struct verdict_place place = {"results", 0, 2};
    open_well(&scene);
    verdict_broken(scene.verdict, &place, "garbage");
    expect_only(&scene, VERDICT_BROKEN_RECORD, 1);
}

static void a_stall_counts_only_while_somebody_waits(void **state)
{
    (void)state;
    struct scene scene;
    open_well(&scene);
    ask(&scene, 2, "c", 60000);
    tokens(&scene, "c", 1, 0, 4);
    answer(&scene, "c", 1, 60100);
    expect_none(&scene);
    assert_int_equal(scene.figures.stall_ms, 1000);
    assert_int_equal(scene.figures.span_ms, 59100);
}

static void a_waiting_reader_is_told_what_is_open(void **state)
{
    (void)state;
    struct scene scene;
    open_well(&scene);
    assert_int_equal(verdict_requests(scene.verdict), 2);
    assert_int_equal(verdict_open(scene.verdict), 0);
    ask(&scene, 2, "c", 3000);
    assert_int_equal(verdict_open(scene.verdict), 1);
    judge(&scene);
}

static void refuse(struct scene *scene, const char *id, int64_t offset, int64_t time_ms)
{
    struct mr_choice choice = {.finish = MR_FINISH_REJECTED};
    struct mr_result result = {.id = text_of(id),
                               .attempt = 1,
                               .choices = &choice,
                               .choice_count = 1,
                               .error = MR_DUPLICATE_ID,
                               .source_topic = text_of("requests"),
                               .source_offset = offset};
    verdict_result(scene->verdict, &result, time_ms);
}

static void a_duplicate_id_answers_its_own_record_only(void **state)
{
    (void)state;
    struct scene scene;
    open_well(&scene);
    ask(&scene, 2, "a", 3000);
    refuse(&scene, "a", 2, 3100);
    commit(&scene, 3, "", 3200);
    expect_none(&scene);
    assert_int_equal(scene.figures.duplicate_ids, 1);
    assert_int_equal(scene.figures.results_per_id[1], 2);
    open_scene(&scene, true);
    ask(&scene, 0, "a", 1000);
    ask(&scene, 1, "a", 1100);
    refuse(&scene, "a", 1, 1200);
    expect_only(&scene, VERDICT_LOST_RESULT, 1); /* the first record has no answer */
    open_well(&scene);
    refuse(&scene, "a", 7, 3100);
    expect_only(&scene, VERDICT_UNASKED, 1);
    open_well(&scene);
    ask(&scene, 2, "a", 3000);
    commit(&scene, 3, "", 3050);
    refuse(&scene, "a", 2, 3100);
    expect_only(&scene, VERDICT_EARLY_COMMIT, 1);
}

static void a_refused_record_that_is_answered_too_is_seen_where_one_result_is_promised(void **state)
{
    (void)state;
    struct scene scene;
    open_well(&scene);
    refuse(&scene, "a", 0, 3100);
    expect_only(&scene, VERDICT_SECOND_RESULT, 1);
    open_well(&scene);
    ask(&scene, 2, "a", 3000);
    refuse(&scene, "a", 2, 3100);
    refuse(&scene, "a", 2, 3200);
    expect_only(&scene, VERDICT_SECOND_RESULT, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_log_that_is_well_is_not_accused),
        cmocka_unit_test(a_lost_result_is_seen),
        cmocka_unit_test(a_request_without_a_readable_id_needs_a_dead_letter),
        cmocka_unit_test(a_second_result_is_seen_where_one_is_promised),
        cmocka_unit_test(a_second_result_is_counted_where_it_is_allowed),
        cmocka_unit_test(two_results_of_one_attempt_must_say_the_same),
        cmocka_unit_test(a_lower_attempt_behind_a_higher_one_is_seen),
        cmocka_unit_test(an_answer_to_nobody_is_seen),
        cmocka_unit_test(a_gap_in_the_middle_and_at_the_end_is_seen),
        cmocka_unit_test(tokens_that_arrive_late_are_a_gap_to_their_reader),
        cmocka_unit_test(repeated_token_records_must_be_identical),
        cmocka_unit_test(token_records_must_be_the_results),
        cmocka_unit_test(who_wants_no_token_records_gets_none),
        cmocka_unit_test(an_attempt_that_resumes_goes_on_where_the_lower_one_stopped),
        cmocka_unit_test(an_early_commit_is_seen),
        cmocka_unit_test(an_early_bit_of_the_metadata_is_seen),
        cmocka_unit_test(metadata_of_somebody_else_is_seen),
        cmocka_unit_test(a_record_that_cannot_be_read_is_seen),
        cmocka_unit_test(a_stall_counts_only_while_somebody_waits),
        cmocka_unit_test(a_waiting_reader_is_told_what_is_open),
        cmocka_unit_test(a_duplicate_id_answers_its_own_record_only),
        cmocka_unit_test(
            a_refused_record_that_is_answered_too_is_seen_where_one_result_is_promised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
