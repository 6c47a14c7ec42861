#include "worker/client/answer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct printing {
    struct mr_answer answer;
    FILE *out;
    char *text;
    size_t length;
};

static void begin(struct printing *printing, bool several)
{
    printing->out = open_memstream(&printing->text, &printing->length);
    assert_non_null(printing->out);
    mr_answer_init(&printing->answer, printing->out, several);
}

static void end(struct printing *printing, const char *want)
{
    fclose(printing->out);
    assert_string_equal(printing->text, want);
    free(printing->text);
    mr_answer_free(&printing->answer);
}

static void tokens(struct printing *printing, uint32_t choice, const char *text)
{
    static const uint32_t id = 1;
    const struct mr_token_record record = {.attempt = 1,
                                           .choice = choice,
                                           .resumed_at = -1,
                                           .token_ids = &id,
                                           .token_count = 1,
                                           .text = {text, strlen(text)}};
    mr_answer_tokens(&printing->answer, &record);
}

static void result(struct printing *printing, const char *record, struct mr_result result)
{
    const struct mr_client_event event = {.kind = MR_CLIENT_RESULT,
                                          .encoding = MR_ENCODING_JSON,
                                          .result = result,
                                          .record = {.value = {record, strlen(record)}}};
    mr_answer_result(&printing->answer, &event);
}

static void every_choice_is_printed_under_a_heading(void **state)
{
    (void)state;
    const struct mr_choice choices[] = {{.text = {"ab", 2}}, {.text = {"cd", 2}}};
    const struct mr_result two = {.choices = choices, .choice_count = 2};
    const struct mr_result one = {.choices = choices, .choice_count = 1};
    static const char want[] = "--- choice 0 ---\nab\n--- choice 1 ---\ncd\n";
    struct printing printing;
    begin(&printing, true);
    tokens(&printing, 1, "c");
    tokens(&printing, 0, "a");
    result(&printing, "{}", two);
    end(&printing, want);
    begin(&printing, false);
    result(&printing, "{}", two);
    end(&printing, want);
    begin(&printing, false);
    tokens(&printing, 0, "a");
    result(&printing, "{}", one);
    end(&printing, "ab\n");
}

static void vectors_and_scores_are_printed_as_json(void **state)
{
    (void)state;
    const float vector[] = {1};
    const struct mr_score score = {0};
    struct printing printing;
    begin(&printing, false);
    result(&printing, "{\"embedding\": [1.5, 2]}",
           (struct mr_result){.embedding = vector, .embedding_size = 1});
    end(&printing, "[1.5,2]\n");
    begin(&printing, false);
    result(&printing, "{\"scores\": [{\"logprob\": -1}]}",
           (struct mr_result){.scores = &score, .score_count = 1});
    end(&printing, "[{\"logprob\":-1}]\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_choice_is_printed_under_a_heading),
        cmocka_unit_test(vectors_and_scores_are_printed_as_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
