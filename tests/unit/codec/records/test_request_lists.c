#include "records.h"

#include "codec/records/request_lists.h"

#include <stdio.h>

/* Decodes {"prompt":"x", <members>} in both encodings. */
static enum mr_status with(const char *members)
{
    static char json[1 << 17];
    struct mr_request_context context = test_context();
    snprintf(json, sizeof json, "{\"prompt\":\"x\",%s}", members);
    return status_of_both(json, &context);
}

static void ids_that_no_vocabulary_has_have_their_own_code(void **state)
{
    (void)state;
    struct mr_request_context context = test_context();
    assert_int_equal(status_of_both("{\"prompt_token_ids\":[-1]}", &context), MR_INVALID_TOKEN_ID);
    assert_int_equal(status_of_both("{\"prompt_token_ids\":[4294967295]}", &context),
                     MR_INVALID_TOKEN_ID);
    assert_int_equal(status_of_both("{\"prompt_token_ids\":[1,2.5]}", &context),
                     MR_INVALID_REQUEST);
    assert_int_equal(with("\"logit_bias\":{\"x\":1}"), MR_INVALID_TOKEN_ID);
    assert_int_equal(with("\"logit_bias\":{\"\":1}"), MR_INVALID_TOKEN_ID);
    assert_int_equal(with("\"logit_bias\":{\"07\":1}"), MR_INVALID_TOKEN_ID);
    assert_int_equal(with("\"logit_bias\":{\"4294967295\":1}"), MR_INVALID_TOKEN_ID);
    assert_int_equal(with("\"logit_bias\":{\"99999999999\":1}"), MR_INVALID_TOKEN_ID);
    assert_int_equal(with("\"stop_token_ids\":[-7]"), MR_INVALID_TOKEN_ID);
}

/* "name":[item,item,...] */
static const char *list(const char *name, const char *item, size_t count)
{
    static char text[1 << 16];
    size_t length = (size_t)snprintf(text, sizeof text, "\"%s\":[", name);
    for (size_t i = 0; i < count; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "%s%s", i ? "," : "", item);
    snprintf(text + length, sizeof text - length, "]");
    return text;
}

static const char *bias_of(size_t count)
{
    static char text[1 << 16];
    size_t length = (size_t)snprintf(text, sizeof text, "\"logit_bias\":{");
    for (size_t i = 0; i < count; i++)
        length +=
            (size_t)snprintf(text + length, sizeof text - length, "%s\"%zu\":1", i ? "," : "", i);
    snprintf(text + length, sizeof text - length, "}");
    return text;
}

static void list_limits_are_exact(void **state)
{
    (void)state;
    assert_int_equal(with(list("stop", "\"a\"", MR_STOP_COUNT_MAX)), MR_OK);
    assert_int_equal(with(list("stop", "\"a\"", MR_STOP_COUNT_MAX + 1)), MR_INVALID_REQUEST);
    assert_int_equal(with(list("bad_words", "\"a\"", MR_BAD_WORDS_MAX)), MR_OK);
    assert_int_equal(with(list("bad_words", "\"a\"", MR_BAD_WORDS_MAX + 1)), MR_INVALID_REQUEST);
    assert_int_equal(with(list("stop_token_ids", "1", MR_STOP_TOKENS_MAX)), MR_OK);
    assert_int_equal(with(list("stop_token_ids", "1", MR_STOP_TOKENS_MAX + 1)), MR_INVALID_REQUEST);
    assert_int_equal(with(list("allowed_token_ids", "1", MR_ALLOWED_TOKENS_MAX)), MR_OK);
    assert_int_equal(with(list("allowed_token_ids", "1", MR_ALLOWED_TOKENS_MAX + 1)),
                     MR_INVALID_REQUEST);
    assert_int_equal(with(bias_of(MR_LOGIT_BIAS_MAX)), MR_OK);
    assert_int_equal(with(bias_of(MR_LOGIT_BIAS_MAX + 1)), MR_INVALID_REQUEST);
}

static void too_many_messages_are_rejected(void **state)
{
    (void)state;
    struct mr_request_context context = test_context();
    for (size_t count = MR_MESSAGES_MAX; count <= MR_MESSAGES_MAX + 1; count++) {
        static char json[1 << 17];
        const char *items = list("messages", "{\"role\":\"u\",\"content\":\"c\"}", count);
        snprintf(json, sizeof json, "{%s}", items);
        assert_int_equal(status_of_both(json, &context),
                         count == MR_MESSAGES_MAX ? MR_OK : MR_INVALID_REQUEST);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_that_no_vocabulary_has_have_their_own_code),
        cmocka_unit_test(list_limits_are_exact),
        cmocka_unit_test(too_many_messages_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
