#include "worker/bench/bench_workload.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void the_mix_has_prompts_of_32_to_512_tokens_and_every_length_once(void **state)
{
    (void)state;
    struct mr_bench_workload workload = {.seed = 1, .mix = true, .prompt_tokens = 7};
    bool seen[MR_BENCH_MIX_PROMPT_MAX + 1] = {false};
    uint32_t first_64 = 0;
    for (uint32_t i = 0; i < 481; i++) {
        uint32_t length = mr_bench_workload_prompt_tokens(&workload, i);
        assert_in_range(length, 32, 512);
        assert_false(seen[length]);
        seen[length] = true;
        if (i < 64) first_64 += length;
    }
    assert_int_equal(first_64, 17705);
    assert_int_equal(mr_bench_workload_prompt_tokens(&workload, 481), 32);
    assert_int_equal(mr_bench_workload_output_tokens(&workload), 64);
    assert_int_equal(mr_bench_workload_prompt_tokens_max(&workload), 512);
}

static void without_the_mix_all_lengths_are_as_configured(void **state)
{
    (void)state;
    struct mr_bench_workload workload = {.seed = 1, .prompt_tokens = 7, .output_tokens = 9};
    assert_int_equal(mr_bench_workload_prompt_tokens(&workload, 3), 7);
    assert_int_equal(mr_bench_workload_prompt_tokens_max(&workload), 7);
    assert_int_equal(mr_bench_workload_output_tokens(&workload), 9);
}

static void the_same_seed_gives_the_same_ids_and_another_salt_others(void **state)
{
    (void)state;
    struct mr_bench_workload workload = {.seed = 5}, salted = {.seed = 5, .salt = 1};
    uint32_t a[64], b[64];
    mr_bench_workload_fill(&workload, 3, 100, a, 64);
    mr_bench_workload_fill(&workload, 3, 100, b, 64);
    assert_memory_equal(a, b, sizeof a);
    for (size_t i = 0; i < 64; i++)
        assert_true(a[i] < 100);
    mr_bench_workload_fill(&workload, 4, 100, b, 64);
    assert_memory_not_equal(a, b, sizeof a);
    mr_bench_workload_fill(&salted, 3, 100, b, 64);
    assert_memory_not_equal(a, b, sizeof a);
}

static void a_request_has_room_for_its_ids_and_its_output_length(void **state)
{
    (void)state;
    uint32_t *ids;
    struct mr_request *request = mr_bench_workload_request("bench", 4000000000u, 70000, 9, &ids);
    assert_non_null(request);
    memset(ids, 1, 70000 * sizeof *ids);
    assert_memory_equal(request->id.bytes, "bench-4000000000", request->id.length);
    assert_ptr_equal(request->token_ids, ids);
    assert_int_equal(request->token_count, 70000);
    assert_int_equal(request->max_tokens, 9);
    mr_request_destroy(request);
    assert_null(mr_bench_workload_request("bench", 0, UINT32_MAX, 9, &ids));
}

static void arrivals_come_at_the_rate_and_spread_like_a_poisson_process(void **state)
{
    (void)state;
    struct mr_bench_workload workload = {.seed = 9, .rate = 10};
    double sum = 0, squares = 0;
    enum { COUNT = 20000 };
    for (uint32_t i = 0; i < COUNT; i++) {
        double gap = (double)mr_bench_workload_gap_ns(&workload, i) / 1e9;
        sum += gap;
        squares += gap * gap;
    }
    double mean = sum / COUNT, variance = squares / COUNT - mean * mean;
    assert_true(mean > 0.097 && mean < 0.103);
    assert_true(variance > 0.0092 && variance < 0.0108); /* the square of the mean */
}

static void without_a_rate_all_arrive_at_once(void **state)
{
    (void)state;
    struct mr_bench_workload workload = {.seed = 9};
    for (uint32_t i = 0; i < 10; i++)
        assert_int_equal(mr_bench_workload_gap_ns(&workload, i), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_mix_has_prompts_of_32_to_512_tokens_and_every_length_once),
        cmocka_unit_test(without_the_mix_all_lengths_are_as_configured),
        cmocka_unit_test(the_same_seed_gives_the_same_ids_and_another_salt_others),
        cmocka_unit_test(a_request_has_room_for_its_ids_and_its_output_length),
        cmocka_unit_test(arrivals_come_at_the_rate_and_spread_like_a_poisson_process),
        cmocka_unit_test(without_a_rate_all_arrive_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
