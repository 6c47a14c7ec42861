#include "batching/sequence/completion.h"

#include "small_vocab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum token {
    HELLO,
    WORLD,
    ST,
    OP,
    BRA,
    KET,
    EURO_1, /* the euro sign in two tokens */
    EURO_2,
    STOPPER, /* a stop string with text around it */
    SPACE,
    EOS,
    EOT,
    TOKENS
};

static const char *const spellings[] = {"Hello", "world",    "ST",     "OP", "<b",    "r>",
                                        "\xe2",  "\x82\xac", "xSTOPy", " ",  "<eos>", "<eot>"};
static const uint32_t eos_ids[] = {EOS, EOT};

struct bench {
    struct mr_tokenizer *tokenizer;
    struct mr_token_text *texts;
    struct mr_completion_model model;
    struct mr_request request;
    struct mr_text stops[MR_STOP_COUNT_MAX];
    struct mr_stop_match *matcher;
    struct mr_arena *arena;
    struct mr_completion *completion;
    uint32_t room;
    /* all deltas joined */
    char text[4096];
    size_t text_length;
    uint32_t token_ids[256], token_count;
    struct mr_completion_delta delta;
};

static int make_bench(void **state)
{
    struct bench *bench = calloc(1, sizeof *bench);
    assert_non_null(bench);
    bench->tokenizer = small_vocab_create(spellings, TOKENS, 2);
    assert_non_null(bench->tokenizer);
    assert_int_equal(mr_token_text_create(&bench->texts, bench->tokenizer, NULL), MR_OK);
    bench->model = (struct mr_completion_model){bench->tokenizer, bench->texts, eos_ids, 2};
    bench->request.max_tokens = 100;
    bench->request.sampling.logprobs = -1;
    bench->arena = mr_arena_create(1 << 22);
    bench->room = 1000;
    *state = bench;
    return 0;
}

static int drop_bench(void **state)
{
    struct bench *bench = *state;
    mr_completion_destroy(bench->completion);
    mr_token_text_destroy(bench->texts);
    mr_tokenizer_destroy(bench->tokenizer);
    mr_arena_destroy(bench->arena);
    free(bench);
    return 0;
}

static void stop_at(struct bench *bench, const char *stop)
{
    bench->stops[bench->request.stop_count++] = (struct mr_text){stop, strlen(stop)};
    bench->request.stops = bench->stops;
}

static void begin(struct bench *bench)
{
    assert_int_equal(mr_stop_match_create(&bench->matcher, bench->arena, bench->stops,
                                          bench->request.stop_count, NULL),
                     MR_OK);
    assert_int_equal(mr_completion_create(&bench->completion, &bench->model, &bench->request,
                                          bench->matcher, bench->room, NULL),
                     MR_OK);
}

static void join(struct bench *bench)
{
    const struct mr_completion_delta *delta = &bench->delta;
    assert_true(mr_utf8_is_valid(delta->text));
    assert_int_equal(delta->index, bench->token_count);
    memcpy(bench->text + bench->text_length, delta->text.bytes, delta->text.length);
    bench->text_length += delta->text.length;
    for (uint32_t i = 0; i < delta->token_count; i++)
        bench->token_ids[bench->token_count++] = delta->token_ids[i];
    mr_completion_check(bench->completion);
}

static enum mr_finish push_sample(struct bench *bench, const struct mr_sample *sample)
{
    enum mr_finish reason =
        mr_completion_push(bench->completion, sample, MR_FINISH_NONE, &bench->delta);
    join(bench);
    assert_int_equal(mr_completion_choice(bench->completion).finish, reason);
    return reason;
}

static enum mr_finish push(struct bench *bench, uint32_t id)
{
    return push_sample(bench, &(struct mr_sample){.token_id = id, .probability = 1});
}

static void finish(struct bench *bench, enum mr_finish reason)
{
    mr_completion_finish(bench->completion, reason, &bench->delta);
    join(bench);
}

static void assert_delta(const struct bench *bench, const char *text, uint32_t token_count)
{
    assert_int_equal(bench->delta.text.length, strlen(text));
    assert_memory_equal(bench->delta.text.bytes, text, strlen(text));
    assert_int_equal(bench->delta.token_count, token_count);
}

/* Asserts the final choice, and that the deltas joined are equal to it. */
static void assert_choice(const struct bench *bench, const char *text, const uint32_t *ids,
                          size_t count)
{
    struct mr_choice choice = mr_completion_choice(bench->completion);
    assert_int_equal(choice.text.length, strlen(text));
    assert_memory_equal(choice.text.bytes, text, strlen(text));
    assert_int_equal(choice.token_count, count);
    assert_memory_equal(choice.token_ids, ids, count * sizeof *ids);
    assert_int_equal(bench->text_length, strlen(text));
    assert_memory_equal(bench->text, text, strlen(text));
    assert_int_equal(bench->token_count, count);
    assert_memory_equal(bench->token_ids, ids, count * sizeof *ids);
}

#define IDS(...) (const uint32_t[]){__VA_ARGS__}, sizeof((uint32_t[]){__VA_ARGS__}) / 4

static void text_and_ids_stream_as_they_come(void **state)
{
    struct bench *bench = *state;
    begin(bench);
    assert_int_equal(push(bench, HELLO), MR_FINISH_NONE);
    assert_delta(bench, "Hello", 1);
    assert_int_equal(push(bench, SPACE), MR_FINISH_NONE);
    assert_delta(bench, " ", 1);
    assert_int_equal(push(bench, EOS), MR_FINISH_EOS);
    assert_delta(bench, "", 0);
    assert_choice(bench, "Hello ", IDS(HELLO, SPACE));
    struct mr_choice choice = mr_completion_choice(bench->completion);
    assert_int_equal(choice.completion_tokens, 3); /* the end token counts, but is left out */
    assert_int_equal(choice.stop_token, MR_TOKEN_NONE);
    assert_null(choice.stop_text.bytes);
}

static void every_end_id_ends(void **state)
{
    struct bench *bench = *state;
    begin(bench);
    assert_int_equal(push(bench, EOT), MR_FINISH_EOS);
    assert_int_equal(mr_completion_choice(bench->completion).token_count, 0);
}

static void ignore_eos_makes_end_ids_ordinary(void **state)
{
    struct bench *bench = *state;
    bench->request.ignore_eos = true;
    begin(bench);
    assert_int_equal(push(bench, EOS), MR_FINISH_NONE);
    assert_int_equal(push(bench, HELLO), MR_FINISH_NONE);
    finish(bench, MR_FINISH_CANCELLED);
    assert_choice(bench, "Hello", IDS(EOS, HELLO));
}

static void max_tokens_comes_before_everything_but_the_engines_verdict(void **state)
{
    struct bench *bench = *state;
    bench->request.max_tokens = 2;
    begin(bench);
    assert_int_equal(push(bench, HELLO), MR_FINISH_NONE);
    assert_int_equal(push(bench, EOS), MR_FINISH_LENGTH);
    assert_choice(bench, "Hello", IDS(HELLO));
    assert_int_equal(mr_completion_choice(bench->completion).completion_tokens, 2);
    assert_int_equal(mr_completion_choice(bench->completion).stopped_by, MR_FINISH_EOS);
}

static void a_stop_string_is_cut_out_even_at_max_tokens(void **state)
{
    struct bench *bench = *state;
    bench->request.max_tokens = 3;
    stop_at(bench, "STOP");
    begin(bench);
    push(bench, HELLO);
    push(bench, ST);
    assert_int_equal(push(bench, OP), MR_FINISH_LENGTH);
    assert_choice(bench, "Hello", IDS(HELLO));
    assert_null(mr_completion_choice(bench->completion).stop_text.bytes);
    assert_int_equal(mr_completion_choice(bench->completion).stopped_by, MR_FINISH_STOP_STRING);
}

static void an_answer_that_is_cut_off_was_stopped_by_nothing(void **state)
{
    struct bench *bench = *state;
    bench->request.max_tokens = 2;
    stop_at(bench, "STOP");
    begin(bench);
    push(bench, HELLO);
    assert_int_equal(push(bench, ST), MR_FINISH_LENGTH);
    assert_int_equal(mr_completion_choice(bench->completion).stopped_by, MR_FINISH_NONE);
}

static void the_echoed_text_comes_first_and_is_not_searched(void **state)
{
    struct bench *bench = *state;
    bench->request.echoed = (struct mr_text){"a STOP b ST", 11};
    bench->request.max_chars = 7;
    stop_at(bench, "STOP");
    begin(bench);
    push(bench, OP);
    push(bench, HELLO);
    assert_choice(bench, "a STOP b STOPHello", IDS(OP, HELLO));
}

static void control_tokens_are_named_if_they_are_to_be_kept(void **state)
{
    struct bench *bench = *state;
    bench->request.keep_special = true;
    bench->request.ignore_eos = true;
    begin(bench);
    push(bench, HELLO);
    push(bench, EOS);
    push(bench, WORLD);
    finish(bench, MR_FINISH_CANCELLED);
    assert_choice(bench, "Hello<eos>world", IDS(HELLO, EOS, WORLD));
}

static void the_engines_verdict_wins_and_keeps_the_token(void **state)
{
    struct bench *bench = *state;
    bench->request.max_tokens = 1;
    begin(bench);
    struct mr_sample sample = {.token_id = HELLO, .probability = 1};
    assert_int_equal(
        mr_completion_push(bench->completion, &sample, MR_FINISH_DEADLINE, &bench->delta),
        MR_FINISH_DEADLINE);
    join(bench);
    assert_choice(bench, "Hello", IDS(HELLO));
}

static void an_end_id_comes_before_the_same_stop_token(void **state)
{
    struct bench *bench = *state;
    bench->request.stop_token_ids = (const uint32_t[]){EOS, WORLD};
    bench->request.stop_token_count = 2;
    begin(bench);
    assert_int_equal(push(bench, EOS), MR_FINISH_EOS);
}

static void a_stop_token_is_named_and_left_out(void **state)
{
    struct bench *bench = *state;
    bench->request.stop_token_ids = (const uint32_t[]){EOT, WORLD};
    bench->request.stop_token_count = 2;
    begin(bench);
    push(bench, HELLO);
    assert_int_equal(push(bench, WORLD), MR_FINISH_STOP_TOKEN);
    assert_choice(bench, "Hello", IDS(HELLO));
    assert_int_equal(mr_completion_choice(bench->completion).stop_token, WORLD);
    assert_int_equal(mr_completion_choice(bench->completion).completion_tokens, 2);
}

static void a_stop_string_across_tokens_is_held_back_and_cut(void **state)
{
    struct bench *bench = *state;
    stop_at(bench, "never");
    stop_at(bench, "STOP");
    begin(bench);
    push(bench, HELLO);
    push(bench, ST);
    assert_delta(bench, "", 0); /* may become the stop string: text and id are held back */
    assert_int_equal(push(bench, OP), MR_FINISH_STOP_STRING);
    assert_choice(bench, "Hello", IDS(HELLO));
    struct mr_choice choice = mr_completion_choice(bench->completion);
    assert_ptr_equal(choice.stop_text.bytes, bench->stops[1].bytes);
    assert_int_equal(choice.completion_tokens, 3);
}

static void only_the_live_prefix_is_held_back(void **state)
{
    struct bench *bench = *state;
    stop_at(bench, "STOP");
    begin(bench);
    push(bench, ST);
    assert_delta(bench, "", 0);
    push(bench, WORLD);
    assert_delta(bench, "STworld", 2);
    push(bench, ST);
    push(bench, ST); /* the first ST is emitted, the second may still become STOP */
    assert_delta(bench, "ST", 1);
    assert_int_equal(push(bench, EOS), MR_FINISH_EOS);
    assert_choice(bench, "STworldSTST", IDS(ST, WORLD, ST, ST));
}

static void a_token_that_straddles_the_cut_stays_as_an_id(void **state)
{
    struct bench *bench = *state;
    stop_at(bench, "STOP");
    begin(bench);
    push(bench, HELLO);
    assert_int_equal(push(bench, STOPPER), MR_FINISH_STOP_STRING);
    assert_choice(bench, "Hellox", IDS(HELLO, STOPPER));
}

static void include_stop_cuts_behind_the_match(void **state)
{
    struct bench *bench = *state;
    stop_at(bench, "STOP");
    bench->request.include_stop = true;
    begin(bench);
    push(bench, HELLO);
    push(bench, STOPPER);
    assert_choice(bench, "HelloxSTOP", IDS(HELLO, STOPPER));
}

static void stop_strings_are_case_sensitive(void **state)
{
    struct bench *bench = *state;
    stop_at(bench, "stop");
    begin(bench);
    assert_int_equal(push(bench, STOPPER), MR_FINISH_NONE);
}

static void half_a_character_is_held_back(void **state)
{
    struct bench *bench = *state;
    begin(bench);
    push(bench, EURO_1);
    assert_delta(bench, "", 1);
    push(bench, EURO_2);
    assert_delta(bench, "\xe2\x82\xac", 1);
    push(bench, EURO_1);
    assert_int_equal(push(bench, EOS), MR_FINISH_EOS);
    assert_choice(bench, "\xe2\x82\xac\xef\xbf\xbd", IDS(EURO_1, EURO_2, EURO_1));
}

static void max_chars_counts_characters_and_is_exact(void **state)
{
    struct bench *bench = *state;
    bench->request.max_chars = 7;
    begin(bench);
    push(bench, EURO_1);
    push(bench, EURO_2);
    push(bench, HELLO);
    assert_int_equal(push(bench, WORLD), MR_FINISH_MAX_CHARS);
    assert_choice(bench, "\xe2\x82\xacHellow", IDS(EURO_1, EURO_2, HELLO, WORLD));
}

static void reaching_max_chars_exactly_ends_as_well(void **state)
{
    struct bench *bench = *state;
    bench->request.max_chars = 5;
    begin(bench);
    assert_int_equal(push(bench, HELLO), MR_FINISH_MAX_CHARS);
    assert_choice(bench, "Hello", IDS(HELLO));
}

static void a_stop_string_comes_before_max_chars(void **state)
{
    struct bench *bench = *state;
    bench->request.max_chars = 3;
    stop_at(bench, "STOP");
    begin(bench);
    assert_int_equal(push(bench, STOPPER), MR_FINISH_STOP_STRING);
    assert_choice(bench, "x", IDS(STOPPER));
}

static void low_confidence_ends_and_keeps_the_token(void **state)
{
    struct bench *bench = *state;
    bench->request.min_confidence = 0.25f;
    begin(bench);
    struct mr_sample sample = {.token_id = HELLO, .probability = 0.25f};
    assert_int_equal(push_sample(bench, &sample), MR_FINISH_NONE);
    sample.probability = 0.24f;
    assert_int_equal(push_sample(bench, &sample), MR_FINISH_LOW_CONFIDENCE);
    assert_choice(bench, "HelloHello", IDS(HELLO, HELLO));
}

static void a_full_context_is_the_last_reason(void **state)
{
    struct bench *bench = *state;
    bench->room = 2;
    begin(bench);
    push(bench, HELLO);
    assert_int_equal(push(bench, WORLD), MR_FINISH_CONTEXT_FULL);
    assert_choice(bench, "Helloworld", IDS(HELLO, WORLD));
}

static void below_min_tokens_nothing_but_limits_ends(void **state)
{
    struct bench *bench = *state;
    bench->request.min_tokens = 2;
    bench->request.min_confidence = 0.5f;
    bench->request.stop_token_ids = (const uint32_t[]){WORLD};
    bench->request.stop_token_count = 1;
    stop_at(bench, "STOP");
    begin(bench);
    uint32_t count;
    const uint32_t *suppressed = mr_completion_suppressed(bench->completion, 0, &count);
    assert_int_equal(count, 3);
    assert_memory_equal(suppressed, ((const uint32_t[]){EOS, EOT, WORLD}), 12);
    struct mr_sample doubtful = {.token_id = STOPPER, .probability = 0.1f};
    assert_int_equal(push_sample(bench, &doubtful), MR_FINISH_NONE);
    assert_int_equal(push(bench, STOPPER), MR_FINISH_NONE);
    (void)mr_completion_suppressed(bench->completion, 0, &count);
    assert_int_equal(count, 0);
    assert_int_equal(push(bench, WORLD), MR_FINISH_STOP_TOKEN);
    assert_choice(bench, "xSTOPyxSTOPy", IDS(STOPPER, STOPPER));
}

static void a_stop_string_may_begin_within_min_tokens(void **state)
{
    struct bench *bench = *state;
    bench->request.min_tokens = 1;
    stop_at(bench, "lloworld");
    begin(bench);
    assert_int_equal(push(bench, HELLO), MR_FINISH_NONE);
    assert_delta(bench, "He", 1);
    assert_int_equal(push(bench, WORLD), MR_FINISH_STOP_STRING);
    assert_choice(bench, "He", IDS(HELLO));
}

static void finishing_from_outside_flushes_what_was_held(void **state)
{
    struct bench *bench = *state;
    stop_at(bench, "STOP");
    begin(bench);
    push(bench, ST);
    finish(bench, MR_FINISH_POOL_EXHAUSTED);
    assert_delta(bench, "ST", 1);
    finish(bench, MR_FINISH_CANCELLED); /* too late: the first reason stays */
    assert_delta(bench, "", 0);
    assert_int_equal(mr_completion_choice(bench->completion).finish, MR_FINISH_POOL_EXHAUSTED);
    assert_choice(bench, "ST", IDS(ST));
}

static void logprobs_go_with_their_tokens(void **state)
{
    struct bench *bench = *state;
    bench->request.sampling.logprobs = 2;
    begin(bench);
    struct mr_sample sample = {.token_id = EURO_1,
                               .probability = 1,
                               .logprob = -0.5f,
                               .top_count = 2,
                               .top_ids = {HELLO, EOS},
                               .top_logprobs = {-0.1f, -2}};
    push_sample(bench, &sample);
    sample.token_id = WORLD;
    push_sample(bench, &sample);
    assert_non_null(bench->delta.logprobs);
    assert_int_equal(bench->delta.logprobs[0].chosen.token_id, WORLD);
    const struct mr_logprobs *first = mr_completion_choice(bench->completion).logprobs;
    assert_int_equal(first->chosen.token_id, EURO_1);
    assert_true(first->chosen.logprob == -0.5f);
    assert_memory_equal(first->chosen.text.bytes, "\xef\xbf\xbd", 3);
    assert_int_equal(first->top_count, 2);
    assert_memory_equal(first->top[0].text.bytes, "Hello", 5);
    assert_memory_equal(first->top[1].text.bytes, "<eos>", 5);
}

/* Replays the ids in a new completion. */
static struct mr_replay replay(struct bench *bench, const uint32_t *ids, size_t count,
                               uint32_t shown)
{
    struct mr_sample samples[16] = {{.token_id = 0}};
    for (size_t i = 0; i < count; i++)
        samples[i] = (struct mr_sample){.token_id = ids[i], .probability = 1};
    mr_completion_destroy(bench->completion);
    begin(bench);
    return mr_completion_try_replay(bench->completion, samples, (uint32_t)count, shown);
}

static void a_replay_stops_before_the_token_that_ends(void **state)
{
    struct bench *bench = *state;
    struct mr_replay result = replay(bench, IDS(HELLO, SPACE, EOS, WORLD), 4);
    assert_int_equal(result.count, 2);
    assert_int_equal(result.clean, 2);
    bench->request.max_tokens = 3;
    result = replay(bench, IDS(HELLO, SPACE, WORLD, HELLO), 1);
    assert_int_equal(result.count, 2);
    assert_int_equal(result.clean, 1);
    result = replay(bench, IDS(HELLO), 0);
    assert_int_equal(result.count, 1);
    assert_int_equal(result.clean, 0);
}

static void a_reader_resumes_only_where_text_and_tokens_agree(void **state)
{
    struct bench *bench = *state;
    /* Half a character: its id is emitted without text, and the next token's text begins there too.
     */
    assert_int_equal(replay(bench, IDS(HELLO, EURO_1, EURO_2), 2).clean, 2);
    /* STOP may begin here: ST is held back, so the reader has exactly the tokens before it. */
    stop_at(bench, "STOP");
    assert_int_equal(replay(bench, IDS(HELLO, ST, ST, WORLD), 2).clean, 2);
    assert_int_equal(replay(bench, IDS(HELLO, ST, ST, WORLD), 4).clean, 4);
}

static void text_without_a_token_is_not_resumed_from(void **state)
{
    struct bench *bench = *state;
    /* "<b" is emitted as "<" while "b" is held back; later "b" alone is emitted, and "r>" is held
     * back. */
    stop_at(bench, "br><");
    stop_at(bench, "r>Hellox");
    struct mr_replay result = replay(bench, IDS(HELLO, BRA, KET, HELLO, WORLD), 2);
    assert_int_equal(result.clean, 1);
    result = replay(bench, IDS(HELLO, BRA, KET, HELLO, WORLD), 4);
    assert_int_equal(result.clean, 1);
    result = replay(bench, IDS(HELLO, BRA, KET, HELLO, WORLD), 5);
    assert_int_equal(result.clean, 5);
}

static void misuse_is_caught(void **state)
{
    struct bench *bench = *state;
    begin(bench);
    push(bench, EOS);
    expect_assert_failure(push(bench, HELLO));
    assert_true(mr_completion_bytes(&bench->model, &bench->request, 1) <
                mr_completion_bytes(&bench->model, &bench->request, 1000));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, make_bench, drop_bench)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(text_and_ids_stream_as_they_come),
        CASE(every_end_id_ends),
        CASE(ignore_eos_makes_end_ids_ordinary),
        CASE(max_tokens_comes_before_everything_but_the_engines_verdict),
        CASE(a_stop_string_is_cut_out_even_at_max_tokens),
        CASE(an_answer_that_is_cut_off_was_stopped_by_nothing),
        CASE(the_echoed_text_comes_first_and_is_not_searched),
        CASE(control_tokens_are_named_if_they_are_to_be_kept),
        CASE(the_engines_verdict_wins_and_keeps_the_token),
        CASE(an_end_id_comes_before_the_same_stop_token),
        CASE(a_stop_token_is_named_and_left_out),
        CASE(a_stop_string_across_tokens_is_held_back_and_cut),
        CASE(only_the_live_prefix_is_held_back),
        CASE(a_token_that_straddles_the_cut_stays_as_an_id),
        CASE(include_stop_cuts_behind_the_match),
        CASE(stop_strings_are_case_sensitive),
        CASE(half_a_character_is_held_back),
        CASE(max_chars_counts_characters_and_is_exact),
        CASE(reaching_max_chars_exactly_ends_as_well),
        CASE(a_stop_string_comes_before_max_chars),
        CASE(low_confidence_ends_and_keeps_the_token),
        CASE(a_full_context_is_the_last_reason),
        CASE(below_min_tokens_nothing_but_limits_ends),
        CASE(a_stop_string_may_begin_within_min_tokens),
        CASE(finishing_from_outside_flushes_what_was_held),
        CASE(logprobs_go_with_their_tokens),
        CASE(a_replay_stops_before_the_token_that_ends),
        CASE(a_reader_resumes_only_where_text_and_tokens_agree),
        CASE(text_without_a_token_is_not_resumed_from),
        CASE(misuse_is_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
