#include "answers.h"

#include "codec/records/reply.h"

static bool same_text(struct mr_text a, struct mr_text b)
{
    return a.length == b.length && (a.length == 0 || memcmp(a.bytes, b.bytes, a.length) == 0);
}

static void logprobs_are_equal(const struct mr_logprobs *a, const struct mr_logprobs *b)
{
    assert_int_equal(a->chosen.token_id, b->chosen.token_id);
    assert_true(a->chosen.logprob == b->chosen.logprob);
    assert_true(same_text(a->chosen.text, b->chosen.text));
    assert_int_equal(a->top_count, b->top_count);
    for (uint32_t k = 0; k < a->top_count; k++)
        assert_int_equal(a->top[k].token_id, b->top[k].token_id);
}

static void choices_are_equal(const struct mr_choice *a, const struct mr_choice *b)
{
    assert_int_equal(a->finish, b->finish);
    assert_int_equal(a->stopped_by, b->stopped_by);
    assert_int_equal(a->stop_token, b->stop_token);
    assert_true(same_text(a->stop_text, b->stop_text) && same_text(a->text, b->text));
    assert_int_equal(a->token_count, b->token_count);
    assert_memory_equal(a->token_ids, b->token_ids, a->token_count * sizeof *a->token_ids);
    assert_int_equal(a->completion_tokens, b->completion_tokens);
    assert_int_equal(a->logprobs != NULL, b->logprobs != NULL);
    for (size_t i = 0; a->logprobs && i < a->token_count; i++)
        logprobs_are_equal(&a->logprobs[i], &b->logprobs[i]);
}

static void round_trip(const struct mr_result *result, enum mr_encoding encoding)
{
    unsigned char *bytes;
    size_t length;
    struct mr_error err;
    struct mr_result back;
    struct mr_arena *arena = mr_arena_create(1 << 20);
    assert_int_equal(mr_result_encode(result, encoding, &bytes, &length, &err), MR_OK);
    struct mr_text text = {(char *)bytes, length};
    assert_int_equal(mr_result_decode(&back, text, encoding, arena, &err), MR_OK);
    free(bytes);
    assert_true(same_text(back.id, result->id) && same_text(back.model, result->model));
    assert_true(same_text(back.worker, result->worker) && back.attempt == result->attempt);
    assert_int_equal(back.choice_count, result->choice_count);
    for (size_t i = 0; i < back.choice_count; i++)
        choices_are_equal(&back.choices[i], &result->choices[i]);
    assert_int_equal(back.prompt_tokens, result->prompt_tokens);
    assert_int_equal(back.cached_tokens, result->cached_tokens);
    assert_int_equal(back.cached_tokens_redis, result->cached_tokens_redis);
    assert_int_equal(back.accepted_draft_tokens, result->accepted_draft_tokens);
    assert_true(back.queue_ms == result->queue_ms && back.prefill_ms == result->prefill_ms);
    assert_true(back.itl_max_ms == result->itl_max_ms && back.total_ms == 99.063);
    assert_int_equal(back.recomputed_tokens, result->recomputed_tokens);
    assert_int_equal(back.error, result->error);
    assert_int_equal(back.error_retryable, result->error_retryable);
    if (result->error_message) assert_string_equal(back.error_message, result->error_message);
    assert_true(same_text(back.source_topic, result->source_topic));
    assert_true(back.source_partition == 3 && back.source_offset == 41);
    assert_true(same_text(back.metadata, result->metadata));
    assert_int_equal(back.warning_count, result->warning_count);
    for (size_t i = 0; i < back.warning_count; i++)
        assert_true(same_text(back.warnings[i], result->warnings[i]));
    assert_int_equal(back.prompt_logprob_count, result->prompt_logprob_count);
    for (size_t i = 1; i < back.prompt_logprob_count; i++)
        logprobs_are_equal(&back.prompt_logprobs[i], &result->prompt_logprobs[i]);
    assert_int_equal(back.embedding_size, result->embedding_size);
    if (back.embedding_size > 0)
        assert_memory_equal(back.embedding, result->embedding,
                            back.embedding_size * sizeof *back.embedding);
    assert_int_equal(back.score_count, result->score_count);
    for (size_t i = 0; i < back.score_count; i++) {
        assert_int_equal(back.scores[i].token_count, result->scores[i].token_count);
        for (size_t k = 0; k < back.scores[i].token_count; k++)
            logprobs_are_equal(&back.scores[i].logprobs[k], &result->scores[i].logprobs[k]);
    }
    mr_arena_destroy(arena);
}

static void results_decode_to_what_was_encoded(void **state)
{
    (void)state;
    struct mr_choice choices[2] = {answer_choice(), answer_choice()};
    choices[0].logprobs = answer_logprobs;
    choices[1].finish = MR_FINISH_STOP_STRING;
    choices[1].stop_text = text_of("END");
    for (unsigned encoding = 0; encoding < 2; encoding++)
        for (size_t count = 1; count <= 2; count++) {
            struct mr_result result = answer_result(choices, count);
            round_trip(&result, (enum mr_encoding)encoding);
            result.prompt_logprobs = answer_logprobs;
            result.prompt_logprob_count = 3;
            round_trip(&result, (enum mr_encoding)encoding);
            const struct mr_score scores[2] = {{answer_logprobs, 2}, {answer_logprobs + 1, 1}};
            result.scores = scores;
            result.score_count = 2;
            round_trip(&result, (enum mr_encoding)encoding);
            static const float vector[5] = {0.5f, -1, 3.25f, 0, 1e-3f};
            result.embedding = vector;
            for (result.embedding_size = 1; result.embedding_size <= 5; result.embedding_size++) {
                result.embedding_base64 = !result.embedding_base64;
                round_trip(&result, (enum mr_encoding)encoding);
            }
            result.embedding_size = 0;
            result.error = MR_CANCELLED;
            result.error_message = "asked to";
            result.error_retryable = true;
            result.metadata = text_of(encoding == MR_ENCODING_JSON ? "[1, 2]" : "\x92\x01\x02");
            round_trip(&result, (enum mr_encoding)encoding);
        }
}

static void token_records_decode_to_what_was_encoded(void **state)
{
    (void)state;
    for (unsigned encoding = 0; encoding < 2; encoding++) {
        struct mr_token_record back, record = {.id = {"abc", 3},
                                               .attempt = 3,
                                               .choice = 1,
                                               .index = 1000,
                                               .resumed_at = 1000,
                                               .token_ids = answer_ids,
                                               .token_count = 3,
                                               .text = {"t\xc3\xa4", 3},
                                               .logprobs = answer_logprobs};
        unsigned char *bytes;
        size_t length;
        struct mr_error err;
        struct mr_arena *arena = mr_arena_create(1 << 20);
        enum mr_encoding kind = (enum mr_encoding)encoding;
        assert_int_equal(mr_token_record_encode(&record, kind, &bytes, &length, &err), MR_OK);
        struct mr_text text = {(char *)bytes, length};
        assert_int_equal(mr_token_record_decode(&back, text, kind, arena, &err), MR_OK);
        free(bytes);
        assert_true(same_text(back.id, record.id) && same_text(back.text, record.text));
        assert_true(back.attempt == 3 && back.choice == 1 && back.index == 1000);
        assert_true(back.resumed_at == 1000 && back.token_count == 3);
        assert_true(back.logprobs[1].chosen.logprob == -1.5f);
        mr_arena_destroy(arena);
    }
}

static enum mr_status decode_tokens(const char *json)
{
    struct mr_token_record back;
    struct mr_error err;
    struct mr_arena *arena = mr_arena_create(1 << 16);
    enum mr_status status =
        mr_token_record_decode(&back, text_of(json), MR_ENCODING_JSON, arena, &err);
    mr_arena_destroy(arena);
    return status;
}

#define HEAD "{\"id\":\"a\",\"attempt\":1,\"choice\":0,\"index\":0,"

static void missing_and_mistyped_members_are_malformed(void **state)
{
    (void)state;
    assert_int_equal(decode_tokens(HEAD "\"token_ids\":[1],\"text\":\"\",\"later\":{}}"), MR_OK);
    assert_int_equal(decode_tokens(HEAD "\"text\":\"\"}"), MR_MALFORMED);
    assert_int_equal(decode_tokens(HEAD "\"token_ids\":[-1],\"text\":\"\"}"), MR_MALFORMED);
    assert_int_equal(decode_tokens(HEAD "\"token_ids\":[1.5],\"text\":\"\"}"), MR_MALFORMED);
    assert_int_equal(decode_tokens(HEAD "\"token_ids\":5,\"text\":\"\"}"), MR_MALFORMED);
    assert_int_equal(decode_tokens(HEAD "\"token_ids\":[1],\"text\":5}"), MR_MALFORMED);
    assert_int_equal(decode_tokens(HEAD "\"token_ids\":[1],\"text\":\"\",\"logprobs\":[]}"),
                     MR_MALFORMED);
    assert_int_equal(decode_tokens(HEAD "\"token_ids\":[1],\"text\":\"\",\"logprobs\":[5]}"),
                     MR_MALFORMED);
    assert_int_equal(decode_tokens("{}"), MR_MALFORMED);
    assert_int_equal(decode_tokens("nonsense"), MR_MALFORMED);
}

static void a_small_arena_is_an_out_of_memory_status(void **state)
{
    (void)state;
    unsigned char *bytes;
    size_t length;
    struct mr_error err;
    struct mr_result back;
    struct mr_choice choice = answer_choice();
    struct mr_result result = answer_result(&choice, 1);
    choice.logprobs = answer_logprobs;
    assert_int_equal(mr_result_encode(&result, MR_ENCODING_JSON, &bytes, &length, &err), MR_OK);
    struct mr_text text = {(char *)bytes, length};
    for (size_t cap = 0; cap < 600; cap += 16) {
        struct mr_arena *arena = mr_arena_create(cap);
        enum mr_status status = mr_result_decode(&back, text, MR_ENCODING_JSON, arena, &err);
        assert_true(status == MR_NOMEM || status == MR_OK);
        mr_arena_destroy(arena);
    }
    free(bytes);
}

static void error_codes_decode_to_a_status_of_class_reject(void **state)
{
    (void)state;
    struct mr_choice choice = answer_choice();
    for (unsigned i = MR_MALFORMED; i <= MR_INTERNAL; i++) {
        struct mr_result result = answer_result(&choice, 1);
        result.error = (enum mr_status)i;
        result.error_message = "why";
        round_trip(&result, MR_ENCODING_MSGPACK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_decode_to_what_was_encoded),
        cmocka_unit_test(token_records_decode_to_what_was_encoded),
        cmocka_unit_test(missing_and_mistyped_members_are_malformed),
        cmocka_unit_test(a_small_arena_is_an_out_of_memory_status),
        cmocka_unit_test(error_codes_decode_to_a_status_of_class_reject),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
