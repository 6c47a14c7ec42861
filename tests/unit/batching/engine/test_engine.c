#include "batching/engine/engine.h"

#include "tests/fakes/engine_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct mr_request *make(const struct engine_rig *rig, const char *id, uint64_t salt,
                               uint32_t count)
{
    uint32_t tokens[2048];
    rig_tokens(rig, salt, tokens, count);
    struct mr_request *request = mr_fake_request(id, tokens, count);
    request->ignore_eos = true;
    return request;
}

static void assert_answers_greedily(const struct engine_rig *rig, uint64_t ticket, uint64_t salt,
                                    uint32_t prompt_count, uint32_t count)
{
    uint32_t prompt[2048], expected[RIG_TOKENS_MAX];
    const struct rig_choice *choice = &rig->seen[ticket].choices[0];
    rig_tokens(rig, salt, prompt, prompt_count);
    rig_expect(rig, prompt, prompt_count, expected, count);
    assert_int_equal(choice->token_count, count);
    assert_memory_equal(choice->tokens, expected, count * sizeof *expected);
}

static void a_request_ends_with_one_result(void **state)
{
    (void)state;
    struct engine_rig rig;
    rig_init(&rig);
    rig_start(&rig);
    assert_int_equal(rig_submit(&rig, 3, make(&rig, "a", 1, 700)), MR_OK);
    rig_run(&rig);
    const struct rig_seen *seen = &rig.seen[3];
    assert_int_equal(seen->results, 1);
    assert_int_equal(seen->choices[0].finish, MR_FINISH_LENGTH);
    assert_answers_greedily(&rig, 3, 1, 700, 16);
    assert_int_equal(seen->choices[0].streamed_count, 16);
    assert_int_equal(seen->choices[0].deltas, 16);
    assert_int_equal(seen->result.prompt_tokens, 700);
    assert_int_equal(seen->result.prefill_chunks, 2);
    assert_int_equal(seen->result.cached_tokens, 0);
    assert_int_equal(seen->result.error, MR_OK);
    rig_end(&rig);
}

static void a_request_that_is_not_streamed_has_no_deltas(void **state)
{
    (void)state;
    struct engine_rig rig;
    rig_init(&rig);
    rig_start(&rig);
    struct mr_request *request = make(&rig, "a", 1, 10);
    request->stream = false;
    rig_submit(&rig, 0, request);
    rig_run(&rig);
    assert_int_equal(rig.seen[0].choices[0].deltas, 0);
    assert_int_equal(rig.seen[0].choices[0].token_count, 16);
    rig_end(&rig);
}

static void any_chunk_size_gives_the_same_tokens(void **state)
{
    (void)state;
    const int32_t chunks[] = {1, 7, 255, 256, 257, 512, 0, -1};
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        struct engine_rig rig;
        rig_init(&rig);
        rig.options.chunk_tokens = chunks[i];
        rig_start(&rig);
        rig_submit(&rig, 0, make(&rig, "a", 1, 600));
        rig_submit(&rig, 1, make(&rig, "b", 2, 33));
        rig_run(&rig);
        assert_answers_greedily(&rig, 0, 1, 600, 16);
        assert_answers_greedily(&rig, 1, 2, 33, 16);
        rig_end(&rig);
    }
}

static void what_can_never_run_is_refused(void **state)
{
    (void)state;
    struct engine_rig rig;
    rig_init(&rig);
    rig.options.block_count = 2;
    rig.options.context_tokens = 2 * MR_BLOCK_TOKENS + 100;
    rig_start(&rig);
    uint32_t wrong = 200;
    assert_int_equal(rig_submit(&rig, 0, make(&rig, "a", 1, 0)), MR_EMPTY_PROMPT);
    assert_int_equal(rig_submit(&rig, 0, make(&rig, "a", 1, 2 * MR_BLOCK_TOKENS + 100)),
                     MR_PROMPT_TOO_LONG);
    assert_int_equal(rig_submit(&rig, 0, make(&rig, "a", 1, 2 * MR_BLOCK_TOKENS + 1)),
                     MR_PROMPT_TOO_LONG);
    assert_int_equal(rig_submit(&rig, 0, mr_fake_request("a", &wrong, 1)), MR_INVALID_TOKEN_ID);
    struct mr_request *request = make(&rig, "a", 1, 5);
    request->sampling.allowed_token_ids = &wrong;
    request->sampling.allowed_token_count = 1;
    assert_int_equal(rig_submit(&rig, 0, request), MR_INVALID_TOKEN_ID);
    request = make(&rig, "a", 1, 5);
    request->choice_count = 9;
    assert_int_equal(rig_submit(&rig, 0, request), MR_INVALID_REQUEST);
    assert_int_equal(rig_submit(&rig, 0, make(&rig, "a", 1, 5)), MR_OK);
    rig_run(&rig);
    assert_int_equal(rig.result_count, 1);
    rig_end(&rig);
}

static void an_id_inside_is_refused_until_its_result(void **state)
{
    (void)state;
    struct engine_rig rig;
    rig_init(&rig);
    rig_start(&rig);
    assert_int_equal(rig_submit(&rig, 0, make(&rig, "same", 1, 5)), MR_OK);
    assert_int_equal(rig_submit(&rig, 1, make(&rig, "same", 2, 5)), MR_INVALID_REQUEST);
    rig_step(&rig);
    assert_int_equal(rig_submit(&rig, 1, make(&rig, "same", 2, 5)), MR_INVALID_REQUEST);
    rig_run(&rig);
    assert_int_equal(rig_submit(&rig, 1, make(&rig, "same", 2, 5)), MR_OK);
    rig_run(&rig);
    assert_int_equal(rig.seen[0].results, 1);
    assert_int_equal(rig.seen[1].results, 1);
    rig_end(&rig);
}

static void a_full_queue_refuses(void **state)
{
    (void)state;
    struct engine_rig rig;
    rig_init(&rig);
    rig.options.queue_count_max = 1;
    rig_start(&rig);
    assert_int_equal(mr_engine_room(rig.engine), 1);
    assert_int_equal(rig_submit(&rig, 0, make(&rig, "a", 1, 5)), MR_OK);
    assert_int_equal(mr_engine_room(rig.engine), 0);
    assert_int_equal(rig_submit(&rig, 1, make(&rig, "b", 1, 5)), MR_FULL);
    rig_run(&rig);
    assert_int_equal(rig.seen[0].results, 1);
    rig_end(&rig);
}

static void cancelled_requests_end_at_the_next_step(void **state)
{
    (void)state;
    struct engine_rig rig;
    rig_init(&rig);
    rig.options.sequences_max = 1;
    rig_start(&rig);
    struct mr_text running = {"run", 3}, waiting = {"wait", 4}, unknown = {"none", 4};
    rig_submit(&rig, 0, make(&rig, "run", 1, 5));
    rig_step(&rig);
    rig_submit(&rig, 1, make(&rig, "wait", 2, 5));
    rig_step(&rig);
    assert_false(mr_engine_cancel(rig.engine, 0, unknown));
    assert_true(mr_engine_cancel(rig.engine, 0, running));
    assert_true(mr_engine_cancel(rig.engine, 0, running));
    assert_true(mr_engine_cancel(rig.engine, 0, waiting));
    assert_false(rig_step(&rig));
    assert_int_equal(rig.seen[0].choices[0].finish, MR_FINISH_CANCELLED);
    assert_int_equal(rig.seen[0].choices[0].token_count, 2);
    assert_int_equal(rig.seen[0].result.error, MR_CANCELLED);
    assert_int_equal(rig.seen[1].choices[0].finish, MR_FINISH_CANCELLED);
    assert_int_equal(rig.seen[1].choices[0].token_count, 0);
    assert_int_equal(rig.seen[0].started, 1);
    assert_int_equal(rig.seen[1].started, 0);
    assert_int_equal(mr_engine_stats(rig.engine).cache.held_count, 0);
    assert_false(mr_engine_cancel(rig.engine, 0, running));
    rig_end(&rig);
}

static void a_prompt_in_chunks_can_be_cancelled_between_them(void **state)
{
    (void)state;
    struct engine_rig rig;
    rig_init(&rig);
    rig.options.chunk_tokens = 64;
    rig_start(&rig);
    rig_submit(&rig, 0, make(&rig, "a", 1, 1000));
    rig_step(&rig);
    mr_engine_cancel(rig.engine, 0, (struct mr_text){"a", 1});
    assert_false(rig_step(&rig));
    assert_int_equal(rig.seen[0].choices[0].finish, MR_FINISH_CANCELLED);
    assert_int_equal(rig.fake->row_count, 64);
    rig_end(&rig);
}

static void deadlines_hold_while_waiting_and_while_running(void **state)
{
    (void)state;
    struct engine_rig rig;
    rig_init(&rig);
    rig.options.sequences_max = 1;
    rig_start(&rig);
    uint64_t now_ns = rig.fake->now_ns;
    rig_submit_as(&rig, (struct mr_submission){.request = make(&rig, "run", 1, 5),
                                               .ticket = 0,
                                               .deadline_ns = now_ns + 55000000});
    rig_step(&rig);
    rig_submit_as(&rig, (struct mr_submission){.request = make(&rig, "wait", 2, 5),
                                               .ticket = 1,
                                               .deadline_ns = now_ns + 35000000});
    rig_run(&rig);
    assert_int_equal(rig.seen[0].choices[0].finish, MR_FINISH_DEADLINE);
    assert_int_equal(rig.seen[0].result.error, MR_DEADLINE_EXCEEDED);
    assert_in_range(rig.seen[0].choices[0].token_count, 3, 6);
    assert_int_equal(rig.seen[1].choices[0].finish, MR_FINISH_DEADLINE);
    assert_int_equal(rig.seen[1].order, 1);
    rig_end(&rig);
}

static void a_second_prompt_reuses_the_first_ones_blocks(void **state)
{
    (void)state;
    struct engine_rig rig;
    rig_init(&rig);
    rig_start(&rig);
    rig_submit(&rig, 0, make(&rig, "a", 1, 700));
    rig_run(&rig);
    uint64_t rows = rig.fake->row_count;
    rig_submit(&rig, 1, make(&rig, "b", 1, 700));
    rig_submit(&rig, 2, make(&rig, "c", 1, 500));
    rig_run(&rig);
    assert_int_equal(rig.seen[1].result.cached_tokens, 699);
    assert_int_equal(rig.seen[2].result.cached_tokens, 499);
    assert_answers_greedily(&rig, 1, 1, 700, 16);
    assert_answers_greedily(&rig, 2, 1, 500, 16);
    assert_int_equal(rig.fake->row_count - rows, 2 * 16);
    rig_end(&rig);
}

static void a_conversations_next_turn_reuses_the_answer_too(void **state)
{
    (void)state;
    struct engine_rig rig;
    rig_init(&rig);
    rig_start(&rig);
    uint32_t turn[400];
    rig_tokens(&rig, 1, turn, 300);
    rig_submit(&rig, 0, make(&rig, "a", 1, 300));
    rig_run(&rig);
    memcpy(turn + 300, rig.seen[0].choices[0].tokens, 16 * sizeof *turn);
    rig_tokens(&rig, 9, turn + 316, 20);
    rig_submit(&rig, 1, mr_fake_request("b", turn, 336));
    rig_run(&rig);
    /* The KV of an answer's last token is never computed. */
    assert_int_equal(rig.seen[1].result.cached_tokens, 315);
    rig_end(&rig);
}

static void tenants_never_share(void **state)
{
    (void)state;
    struct engine_rig rig;
    rig_init(&rig);
    rig.options.prompt_cache_entries = 4;
    rig_start(&rig);
    static const char *const tenants[] = {"red", "blue", "red"};
    for (uint64_t i = 0; i < 3; i++) {
        char id[2] = {(char)('a' + i), 0};
        rig_submit_as(&rig, (struct mr_submission){.request = make(&rig, id, 1, 600),
                                                   .ticket = i,
                                                   .tenant = tenants[i]});
        rig_run(&rig);
    }
    assert_int_equal(rig.seen[1].result.cached_tokens, 0);
    assert_int_equal(rig.seen[2].result.cached_tokens, 600);
    rig_end(&rig);
}

static void a_whole_prompt_known_needs_no_model(void **state)
{
    (void)state;
    struct engine_rig rig;
    rig_init(&rig);
    rig.options.prompt_cache_entries = 4;
    rig_start(&rig);
    rig_submit(&rig, 0, make(&rig, "a", 1, 1500));
    rig_run(&rig);
    struct mr_request *request = make(&rig, "b", 1, 1500);
    request->max_tokens = 1;
    uint64_t forwards = rig.fake->forward_count;
    rig_submit(&rig, 1, request);
    rig_run(&rig);
    assert_int_equal(rig.fake->forward_count, forwards);
    assert_int_equal(rig.seen[1].result.cached_tokens, 1500);
    assert_answers_greedily(&rig, 1, 1, 1500, 1);
    rig_submit(&rig, 2, make(&rig, "c", 1, 1500));
    rig_run(&rig);
    assert_answers_greedily(&rig, 2, 1, 1500, 16);
    assert_int_equal(mr_engine_stats(rig.engine).prompt_cache_hits, 2);
    rig_end(&rig);
}

static void choices_share_one_prefill_and_differ_by_seed(void **state)
{
    (void)state;
    struct engine_rig rig;
    rig_init(&rig);
    rig_start(&rig);
    struct mr_request *request = make(&rig, "a", 1, 600);
    request->choice_count = 4;
    request->sampling.temperature = 0.7f;
    rig_submit(&rig, 0, request);
    rig_run(&rig);
    const struct rig_seen *seen = &rig.seen[0];
    assert_int_equal(seen->results, 1);
    assert_int_equal(seen->choice_count, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(seen->choices[i].token_count, 16);
        assert_int_equal(seen->choices[i].streamed_count, 16);
        for (uint32_t j = 0; j < i; j++)
            assert_memory_not_equal(seen->choices[i].tokens, seen->choices[j].tokens, 64);
    }
    /* The prompt's 600 tokens are computed once, then 15 tokens of each answer. */
    assert_int_equal(rig.fake->row_count, 600 + 4 * 15);
    rig_end(&rig);
}

static void the_same_seed_gives_the_same_tokens_in_any_company(void **state)
{
    (void)state;
    uint32_t alone[16];
    for (uint32_t others = 0; others < 6; others += 5) {
        struct engine_rig rig;
        rig_init(&rig);
        rig_start(&rig);
        for (uint32_t i = 0; i < others; i++) {
            char id[8];
            snprintf(id, sizeof id, "o%u", i);
            rig_submit(&rig, 10 + i, make(&rig, id, 50 + i, 40 + 100 * i));
        }
        struct mr_request *request = make(&rig, "a", 1, 100);
        request->sampling.temperature = 0.7f;
        rig_submit(&rig, 0, request);
        rig_run(&rig);
        if (others == 0)
            memcpy(alone, rig.seen[0].choices[0].tokens, sizeof alone);
        else
            assert_memory_equal(alone, rig.seen[0].choices[0].tokens, sizeof alone);
        rig_end(&rig);
    }
}

static void a_small_pool_preempts_and_still_answers_right(void **state)
{
    (void)state;
    struct engine_rig rig;
    rig_init(&rig);
    rig.options.block_count = RIG_BLOCKS(1024);
    rig.options.prefix_cache = false;
    rig_start(&rig);
    for (uint32_t i = 0; i < 4; i++) {
        char id[2] = {(char)('a' + i), 0};
        struct mr_request *request = make(&rig, id, i, 170);
        request->max_tokens = 100;
        rig_submit(&rig, i, request);
    }
    rig_run(&rig);
    uint32_t preemptions = 0;
    for (uint32_t i = 0; i < 4; i++) {
        assert_answers_greedily(&rig, i, i, 170, 100);
        preemptions += rig.seen[i].result.preemptions;
    }
    struct mr_engine_stats stats = mr_engine_stats(rig.engine);
    assert_true(preemptions > 0);
    assert_int_equal(stats.preemptions, preemptions);
    assert_int_equal(stats.cache.free_count, stats.cache.block_count);
    rig_end(&rig);
}

static void forced_preemption_is_counted_and_changes_nothing(void **state)
{
    (void)state;
    struct engine_rig rig;
    rig_init(&rig);
    rig.options.force_preempt_every = 3;
    rig.options.prefix_cache = false;
    rig_start(&rig);
    rig_submit(&rig, 0, make(&rig, "a", 1, 300));
    rig_submit(&rig, 1, make(&rig, "b", 2, 100));
    rig_run(&rig);
    assert_answers_greedily(&rig, 0, 1, 300, 16);
    assert_answers_greedily(&rig, 1, 2, 100, 16);
    struct mr_engine_stats stats = mr_engine_stats(rig.engine);
    assert_true(stats.preemptions > 2 && stats.recomputed_tokens > 100);
    assert_int_equal(stats.preemptions,
                     rig.seen[0].result.preemptions + rig.seen[1].result.preemptions);
    assert_int_equal(stats.recomputed_tokens,
                     rig.seen[0].result.recomputed_tokens + rig.seen[1].result.recomputed_tokens);
    rig_end(&rig);
}

static void an_answer_larger_than_the_pool_keeps_what_it_has(void **state)
{
    (void)state;
    struct engine_rig rig;
    rig_init(&rig);
    rig.options.block_count = 2;
    rig_start(&rig);
    struct mr_request *request = make(&rig, "a", 1, 2 * MR_BLOCK_TOKENS - 10);
    request->max_tokens = 100;
    rig_submit(&rig, 0, request);
    rig_run(&rig);
    assert_int_equal(rig.seen[0].choices[0].finish, MR_FINISH_POOL_EXHAUSTED);
    assert_answers_greedily(&rig, 0, 1, 2 * MR_BLOCK_TOKENS - 10, 11);
    rig_end(&rig);
}

static void higher_priority_is_admitted_first(void **state)
{
    (void)state;
    struct engine_rig rig;
    rig_init(&rig);
    rig.options.sequences_max = 1;
    rig_start(&rig);
    const int32_t priorities[] = {0, -10, 20, 10};
    for (uint32_t i = 0; i < 4; i++) {
        char id[2] = {(char)('a' + i), 0};
        struct mr_request *request = make(&rig, id, i, 10);
        request->priority = priorities[i];
        rig_submit(&rig, i, request);
    }
    rig_run(&rig);
    assert_int_equal(rig.seen[2].order, 1);
    assert_int_equal(rig.seen[3].order, 2);
    assert_int_equal(rig.seen[0].order, 3);
    assert_int_equal(rig.seen[1].order, 4);
    rig_end(&rig);
}

struct returned {
    uint64_t tickets[8];
    uint32_t count;
};

static void on_returned(void *context, uint64_t ticket, struct mr_request *request)
{
    struct returned *returned = context;
    returned->tickets[returned->count++] = ticket;
    mr_request_destroy(request);
}

static void draining_returns_requests_not_started(void **state)
{
    (void)state;
    struct engine_rig rig;
    struct returned returned = {.count = 0};
    rig_init(&rig);
    rig.options.sequences_max = 1;
    rig_start(&rig);
    rig_submit(&rig, 0, make(&rig, "a", 1, 5));
    rig_step(&rig);
    rig_submit(&rig, 1, make(&rig, "b", 1, 5));
    rig_submit(&rig, 2, make(&rig, "c", 1, 5));
    mr_engine_return_waiting(rig.engine, on_returned, &returned);
    assert_int_equal(returned.count, 2);
    rig_run(&rig);
    assert_int_equal(rig.seen[0].results, 1);
    assert_int_equal(rig.result_count, 1);
    assert_int_equal(rig_submit(&rig, 1, make(&rig, "b", 1, 5)), MR_OK);
    rig_end(&rig);
}

static void timings_follow_the_clock(void **state)
{
    (void)state;
    struct engine_rig rig;
    rig_init(&rig);
    rig.fake_options.row_ms = 0;
    rig.fake_options.token_ms = 0;
    rig_start(&rig);
    struct mr_request *request = make(&rig, "a", 1, 50);
    request->max_tokens = 5;
    rig_submit_as(&rig, (struct mr_submission){.request = request, .arrival_ns = 500000});
    rig_run(&rig);
    const struct mr_result *result = &rig.seen[0].result;
    assert_true(result->queue_ms > 0.49 && result->queue_ms < 0.51);
    assert_true(result->prefill_ms > 9.99 && result->prefill_ms < 10.01);
    assert_true(result->first_token_ms > 10.49 && result->first_token_ms < 10.51);
    assert_true(result->total_ms > 50.49 && result->total_ms < 50.51);
    assert_true(result->itl_mean_ms > 9.99 && result->itl_max_ms < 10.01);
    rig_end(&rig);
}

static void a_failed_model_ends_the_step_with_its_error(void **state)
{
    (void)state;
    struct engine_rig rig;
    rig_init(&rig);
    rig_start(&rig);
    rig_submit(&rig, 0, make(&rig, "a", 1, 50));
    rig.fake->fail_after = 1;
    uint64_t wake_ns;
    struct mr_error err = {0};
    assert_int_equal(mr_engine_step(rig.engine, rig.fake->now_ns, &wake_ns, &err), MR_BACKEND);
    assert_int_equal(err.status, MR_BACKEND);
    rig_end(&rig);
}

static void invalid_options_are_refused(void **state)
{
    (void)state;
    struct engine_rig rig;
    struct mr_error err = {0};
    struct mr_sink sink = {0};
    struct mr_engine *engine = NULL;
    rig_init(&rig);
    rig_start(&rig);
    struct mr_engine_options options = rig.options;
    options.rows_max = options.sequences_max;
    assert_int_equal(mr_engine_create(&engine, &options, &sink, &err), MR_BAD_CONFIG);
    options = rig.options;
    options.prefills_max = 0;
    assert_int_equal(mr_engine_create(&engine, &options, &sink, &err), MR_BAD_CONFIG);
    options = rig.options;
    options.context_tokens = 1;
    assert_int_equal(mr_engine_create(&engine, &options, &sink, &err), MR_BAD_CONFIG);
    assert_null(engine);
    rig_end(&rig);
}

/* Runs a request, fills the pool with others, and returns the cached tokens of the next turn. */
static uint32_t next_turn_after_a_flood(const char *session)
{
    struct engine_rig rig;
    rig_init(&rig);
    rig.options.block_count = RIG_BLOCKS(4096);
    rig.options.session_keep_ns = 1000000000000u;
    rig.options.session_blocks_max = rig.options.block_count / 2;
    rig_start(&rig);
    uint32_t tokens[1024], count = 600;
    rig_tokens(&rig, 1, tokens, count);
    struct mr_request *request = mr_fake_request("turn", tokens, count);
    request->ignore_eos = true;
    if (session != NULL) request->session = (struct mr_text){session, strlen(session)};
    rig_submit(&rig, 0, request);
    rig_run(&rig);
    for (uint32_t i = 1; i < 8; i++) {
        char id[16];
        snprintf(id, sizeof id, "s%u", i);
        rig_submit(&rig, i, make(&rig, id, 10 + i, 1000));
        rig_run(&rig);
    }
    rig_expect(&rig, tokens, count, tokens + count, 16);
    rig_tokens(&rig, 99, tokens + count + 16, 20);
    rig_submit(&rig, 9, mr_fake_request("next", tokens, count + 36));
    rig_run(&rig);
    uint32_t found = rig.seen[9].result.cached_tokens;
    rig_end(&rig);
    return found;
}

static void a_session_survives_a_flood(void **state)
{
    (void)state;
    assert_int_equal(next_turn_after_a_flood("talk"), 600 + 15); /* the 16th has no KV */
    assert_int_equal(next_turn_after_a_flood(NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_ends_with_one_result),
        cmocka_unit_test(a_request_that_is_not_streamed_has_no_deltas),
        cmocka_unit_test(any_chunk_size_gives_the_same_tokens),
        cmocka_unit_test(what_can_never_run_is_refused),
        cmocka_unit_test(an_id_inside_is_refused_until_its_result),
        cmocka_unit_test(a_full_queue_refuses),
        cmocka_unit_test(cancelled_requests_end_at_the_next_step),
        cmocka_unit_test(a_prompt_in_chunks_can_be_cancelled_between_them),
        cmocka_unit_test(deadlines_hold_while_waiting_and_while_running),
        cmocka_unit_test(a_second_prompt_reuses_the_first_ones_blocks),
        cmocka_unit_test(a_conversations_next_turn_reuses_the_answer_too),
        cmocka_unit_test(tenants_never_share),
        cmocka_unit_test(a_whole_prompt_known_needs_no_model),
        cmocka_unit_test(choices_share_one_prefill_and_differ_by_seed),
        cmocka_unit_test(the_same_seed_gives_the_same_tokens_in_any_company),
        cmocka_unit_test(a_small_pool_preempts_and_still_answers_right),
        cmocka_unit_test(forced_preemption_is_counted_and_changes_nothing),
        cmocka_unit_test(an_answer_larger_than_the_pool_keeps_what_it_has),
        cmocka_unit_test(higher_priority_is_admitted_first),
        cmocka_unit_test(draining_returns_requests_not_started),
        cmocka_unit_test(timings_follow_the_clock),
        cmocka_unit_test(a_failed_model_ends_the_step_with_its_error),
        cmocka_unit_test(invalid_options_are_refused),
        cmocka_unit_test(a_session_survives_a_flood),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
