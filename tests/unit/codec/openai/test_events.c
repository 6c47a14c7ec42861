/* Events of a streamed Response: order, numbers and ids of the items. */
#include "bodies.h"
#include "codec/openai/events.h"

#define TEXT(text) ((struct mr_text){text, sizeof(text) - 1})

struct fixture {
    struct mr_document *empty, *result;
    struct mr_openai_answer answer; /* unfinished */
    struct mr_openai_events events;
    struct mr_buffer out;
};

static void start(struct fixture *fixture, const char *result)
{
    fixture->empty = open_json("{}");
    fixture->result = open_json(result);
    fixture->answer = (struct mr_openai_answer){.endpoint = MR_OPENAI_RESPONSES,
                                                .id = TEXT("7"),
                                                .created_s = 1700000000,
                                                .request = mr_document_root(fixture->empty),
                                                .result = mr_document_root(fixture->empty),
                                                .unfinished = true,
                                                .model = TEXT("m")};
    mr_buffer_init(&fixture->out, (size_t)1 << 20);
    assert_true(mr_openai_events_begin(&fixture->events, &fixture->out, &fixture->answer));
}

static void stop(struct fixture *fixture)
{
    mr_buffer_drop(&fixture->out);
    mr_document_close(fixture->result);
    mr_document_close(fixture->empty);
}

static bool contains(const struct fixture *fixture, const char *part)
{
    return memmem(fixture->out.bytes, fixture->out.length, part, strlen(part)) != NULL;
}

/* The buffer has exactly this text; it is empty afterwards. */
static void expect(struct fixture *fixture, const char *expected)
{
    assert_true(mr_buffer_append(&fixture->out, (struct mr_text){"", 1})); /* its end */
    assert_string_equal(fixture->out.bytes, expected);
    mr_buffer_clear(&fixture->out);
}

static void open_item(struct fixture *fixture, enum mr_openai_item item,
                      const struct mr_openai_call_part *call)
{
    assert_true(mr_openai_events_open(&fixture->events, &fixture->out, item, call));
}

static void close_item(struct fixture *fixture, struct mr_text whole, bool complete)
{
    assert_true(mr_openai_events_close(&fixture->events, &fixture->out, whole, complete));
}

static void end(struct fixture *fixture)
{
    fixture->answer.unfinished = false;
    fixture->answer.result = mr_document_root(fixture->result);
    assert_true(mr_openai_events_end(&fixture->events, &fixture->out, &fixture->answer));
}

static void a_stream_begins_with_a_response_in_progress(void **state)
{
    (void)state;
    struct fixture fixture;
    start(&fixture, "{}");
    assert_true(contains(&fixture, "event: response.created\ndata: {\"type\":\"response.created\","
                                   "\"sequence_number\":0,\"response\":{\"id\":\"resp_7\","));
    assert_true(contains(&fixture, "event: response.in_progress\ndata: {\"type\":"
                                   "\"response.in_progress\",\"sequence_number\":1,"));
    assert_true(contains(&fixture, "\"status\":\"in_progress\""));
    assert_true(contains(&fixture, "\"model\":\"m\",\"output\":[]"));
    stop(&fixture);
}

static void a_message_has_a_part_deltas_and_the_whole_text(void **state)
{
    (void)state;
    static const char expected[] =
        "event: response.output_item.added\ndata: {\"type\":\"response.output_item.added\","
        "\"sequence_number\":2,\"output_index\":0,\"item\":{\"id\":\"msg_7-0\",\"type\":"
        "\"message\",\"status\":\"in_progress\",\"role\":\"assistant\",\"content\":[]}}\n\n"
        "event: response.content_part.added\ndata: {\"type\":\"response.content_part.added\","
        "\"sequence_number\":3,\"item_id\":\"msg_7-0\",\"output_index\":0,\"content_index\":0,"
        "\"part\":{\"type\":\"output_text\",\"text\":\"\",\"annotations\":[],\"logprobs\":[]}}\n\n"
        "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\","
        "\"sequence_number\":4,\"item_id\":\"msg_7-0\",\"output_index\":0,\"content_index\":0,"
        "\"delta\":\"ab\",\"logprobs\":[]}\n\n"
        "event: response.output_text.done\ndata: {\"type\":\"response.output_text.done\","
        "\"sequence_number\":5,\"item_id\":\"msg_7-0\",\"output_index\":0,\"content_index\":0,"
        "\"text\":\"ab\",\"logprobs\":[]}\n\n"
        "event: response.content_part.done\ndata: {\"type\":\"response.content_part.done\","
        "\"sequence_number\":6,\"item_id\":\"msg_7-0\",\"output_index\":0,\"content_index\":0,"
        "\"part\":{\"type\":\"output_text\",\"text\":\"ab\",\"annotations\":[],\"logprobs\":[]}}"
        "\n\nevent: response.output_item.done\ndata: {\"type\":\"response.output_item.done\","
        "\"sequence_number\":7,\"output_index\":0,\"item\":{\"id\":\"msg_7-0\",\"type\":"
        "\"message\",\"status\":\"completed\",\"role\":\"assistant\",\"content\":[{\"type\":"
        "\"output_text\",\"text\":\"ab\",\"annotations\":[],\"logprobs\":[]}]}}\n\n";
    struct fixture fixture;
    start(&fixture, "{}");
    mr_buffer_clear(&fixture.out);
    open_item(&fixture, MR_OPENAI_MESSAGE, NULL);
    assert_true(mr_openai_events_delta(&fixture.events, &fixture.out, TEXT("ab"), NULL));
    close_item(&fixture, TEXT("ab"), true);
    expect(&fixture, expected);
    close_item(&fixture, TEXT("ab"), true); /* no item is open */
    assert_int_equal(fixture.out.length, 0);
    stop(&fixture);
}

static void a_call_has_arguments_and_no_parts(void **state)
{
    (void)state;
    static const char expected[] =
        "event: response.output_item.added\ndata: {\"type\":\"response.output_item.added\","
        "\"sequence_number\":2,\"output_index\":0,\"item\":{\"id\":\"fc_7-1\",\"type\":"
        "\"function_call\",\"status\":\"in_progress\",\"call_id\":\"c\",\"name\":\"f\","
        "\"arguments\":\"\"}}\n\nevent: response.function_call_arguments.delta\ndata: {\"type\":"
        "\"response.function_call_arguments.delta\",\"sequence_number\":3,\"item_id\":\"fc_7-1\","
        "\"output_index\":0,\"delta\":\"{}\"}\n\nevent: response.function_call_arguments.done\n"
        "data: {\"type\":\"response.function_call_arguments.done\",\"sequence_number\":4,"
        "\"item_id\":\"fc_7-1\",\"output_index\":0,\"arguments\":\"{}\",\"name\":\"f\"}\n\n"
        "event: response.output_item.done\ndata: {\"type\":\"response.output_item.done\","
        "\"sequence_number\":5,\"output_index\":0,\"item\":{\"id\":\"fc_7-1\",\"type\":"
        "\"function_call\",\"status\":\"incomplete\",\"call_id\":\"c\",\"name\":\"f\","
        "\"arguments\":\"{}\"}}\n\n";
    const struct mr_openai_call_part call = {.index = 1, .id = TEXT("c"), .name = TEXT("f")};
    struct fixture fixture;
    start(&fixture, "{}");
    mr_buffer_clear(&fixture.out);
    open_item(&fixture, MR_OPENAI_CALL, &call);
    assert_true(mr_openai_events_delta(&fixture.events, &fixture.out, TEXT("{}"), NULL));
    close_item(&fixture, TEXT("{}"), false);
    expect(&fixture, expected);
    stop(&fixture);
}

/* Clients find the items of the last event by the ids of the earlier ones. */
static void ids_and_places_are_those_of_the_response_at_the_end(void **state)
{
    (void)state;
    static const char *const ids[] = {"rs_7-0", "msg_7-0", "fc_7-0"};
    static const char result[] =
        "{\"model\":\"m\",\"stopped_by\":\"eos\",\"text\":\"\",\"reasoning\":\"hm\",\"content\":"
        "\"a\","
        "\"tool_calls\":[{\"id\":\"c\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]}";
    const struct mr_openai_call_part call = {.id = TEXT("c"), .name = TEXT("f")};
    struct fixture fixture;
    char *whole = respond(MR_OPENAI_RESPONSES, "{}", result);
    const char *at = whole;
    start(&fixture, result);
    open_item(&fixture, MR_OPENAI_REASONING, NULL);
    close_item(&fixture, TEXT("hm"), true);
    assert_true(contains(&fixture, "\"summary\":[],\"content\":[{\"type\":\"reasoning_text\","
                                   "\"text\":\"hm\"}]"));
    open_item(&fixture, MR_OPENAI_MESSAGE, NULL);
    close_item(&fixture, TEXT("a"), true);
    open_item(&fixture, MR_OPENAI_CALL, &call);
    close_item(&fixture, TEXT("{}"), true);
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        char added[120];
        snprintf(added, sizeof added, "\"output_index\":%zu,\"item\":{\"id\":\"%s\"", i, ids[i]);
        assert_true(contains(&fixture, added));
        at = strstr(at, ids[i]); /* in this order */
        assert_non_null(at);
    }
    mr_buffer_clear(&fixture.out);
    end(&fixture);
    assert_true(contains(&fixture, "event: response.completed\n"));
    assert_true(contains(&fixture, whole));
    free(whole);
    stop(&fixture);
}

static void tokens_of_a_delta_have_log_probabilities(void **state)
{
    (void)state;
    struct fixture fixture;
    struct mr_value logprobs;
    start(&fixture, "{\"logprobs\":[{\"text\":\"a\",\"logprob\":-0.5}]}");
    assert_true(mr_value_get(mr_document_root(fixture.result), "logprobs", &logprobs));
    open_item(&fixture, MR_OPENAI_MESSAGE, NULL);
    assert_true(mr_openai_events_delta(&fixture.events, &fixture.out, TEXT("a"), &logprobs));
    assert_true(contains(&fixture, "\"delta\":\"a\",\"logprobs\":[{\"token\":\"a\",\"logprob\":"
                                   "-0.5,\"bytes\":[97],\"top_logprobs\":[]}]}"));
    close_item(&fixture, TEXT("a"), true);
    stop(&fixture);
}

static void the_last_event_names_how_the_answer_ended(void **state)
{
    (void)state;
    struct fixture fixture;
    struct mr_openai_error error;
    start(&fixture, "{\"stopped_by\":null,\"text\":\"a\",\"content\":\"a\"}");
    end(&fixture);
    assert_true(contains(&fixture, "event: response.incomplete\n"));
    assert_true(contains(&fixture, "\"incomplete_details\":{\"reason\":\"max_output_tokens\"}"));
    stop(&fixture);
    start(&fixture, "{}");
    mr_openai_error_of(&error, TEXT("overloaded"), TEXT("full"), fixture.answer.request);
    fixture.answer.error = &error;
    assert_true(mr_openai_events_end(&fixture.events, &fixture.out, &fixture.answer));
    assert_true(contains(&fixture, "event: response.failed\n"));
    assert_true(contains(&fixture, "\"status\":\"failed\",\"background\":false,\"error\":{"
                                   "\"code\":\"overloaded\",\"message\":\"full\"}"));
    stop(&fixture);
}

static void one_item_is_open_at_a_time(void **state)
{
    (void)state;
    struct fixture fixture;
    start(&fixture, "{}");
    struct mr_openai_events *events = &fixture.events;
    expect_assert_failure(mr_openai_events_delta(events, &fixture.out, TEXT("a"), NULL));
    open_item(&fixture, MR_OPENAI_MESSAGE, NULL);
    expect_assert_failure(mr_openai_events_open(events, &fixture.out, MR_OPENAI_REASONING, NULL));
    stop(&fixture);
}

static void a_full_buffer_is_reported(void **state)
{
    (void)state;
    struct fixture fixture;
    start(&fixture, "{}");
    struct mr_openai_events *events = &fixture.events;
    fixture.out.bytes_max = fixture.out.length;
    assert_false(mr_openai_events_open(events, &fixture.out, MR_OPENAI_MESSAGE, NULL));
    assert_false(mr_openai_events_delta(events, &fixture.out, TEXT("a"), NULL));
    assert_false(mr_openai_events_close(events, &fixture.out, TEXT("a"), true));
    assert_false(mr_openai_events_end(events, &fixture.out, &fixture.answer));
    assert_int_equal(fixture.out.length, fixture.out.bytes_max);
    stop(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_begins_with_a_response_in_progress),
        cmocka_unit_test(a_message_has_a_part_deltas_and_the_whole_text),
        cmocka_unit_test(a_call_has_arguments_and_no_parts),
        cmocka_unit_test(ids_and_places_are_those_of_the_response_at_the_end),
        cmocka_unit_test(tokens_of_a_delta_have_log_probabilities),
        cmocka_unit_test(the_last_event_names_how_the_answer_ended),
        cmocka_unit_test(one_item_is_open_at_a_time),
        cmocka_unit_test(a_full_buffer_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
