#include "codec/openai/answer.h"

#include "bodies.h"

#include "codec/text.h"

static void a_result_with_one_choice_is_that_choice(void **state)
{
    (void)state;
    struct mr_document *document =
        open_json("{\"text\":\"<think>r</think>a\",\"content\":\"a\",\"stopped_by\":\"eos\"}");
    const struct mr_value root = mr_document_root(document);
    assert_int_equal(mr_openai_choice_count(root), 1);
    assert_true(mr_text_is(mr_openai_content(mr_openai_choice(root, 0)), "a"));
    assert_string_equal(mr_openai_finish(root), "stop");
    mr_document_close(document);
}

static void choices_have_texts_and_finish_reasons_of_their_own(void **state)
{
    (void)state;
    struct mr_document *document =
        open_json("{\"text\":\"one\",\"choices\":[{\"text\":\"one\",\"stopped_by\":null},"
                  "{\"text\":\"two\",\"tool_calls\":[],\"stopped_by\":\"eos\"}]}");
    const struct mr_value root = mr_document_root(document);
    assert_int_equal(mr_openai_choice_count(root), 2);
    assert_true(mr_text_is(mr_openai_content(mr_openai_choice(root, 1)), "two"));
    assert_string_equal(mr_openai_finish(mr_openai_choice(root, 0)), "length");
    mr_document_close(document);
}

static void a_part_that_a_result_lacks_is_empty(void **state)
{
    (void)state;
    struct mr_document *document = open_json("{\"choices\":7}");
    const struct mr_value root = mr_document_root(document);
    assert_int_equal(mr_openai_choice_count(root), 1);
    assert_int_equal(mr_openai_content(root).length, 0);
    assert_string_equal(mr_openai_finish(root), "length");
    mr_document_close(document);
}

static void a_record_whose_members_have_other_types_is_no_answer(void **state)
{
    (void)state;
    static const struct {
        const char *record;
        bool want;
    } cases[] = {
        {"{}", true},
        {"{\"logprobs\":null,\"tool_calls\":[]}", true},
        {"{\"logprobs\":[{\"top\":[{}]}],\"choices\":[{\"tool_calls\":[{}]}]}", true},
        {"{\"data\":[{\"embedding\":[1,2]}],\"embedding\":[1]}", true},
        {"[]", false},
        {"{\"logprobs\":7}", false},
        {"{\"logprobs\":[7]}", false},
        {"{\"logprobs\":[{\"top\":{}}]}", false},
        {"{\"tool_calls\":{\"a\":1}}", false},
        {"{\"choices\":7}", false},
        {"{\"choices\":[{\"logprobs\":\"x\"}]}", false},
        {"{\"embedding\":\"AAAA\"}", true},
        {"{\"data\":[{\"embedding\":{}}]}", false},
        {"{\"embedding\":7}", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mr_document *document = NULL;
        const struct mr_text text = {cases[i].record, strlen(cases[i].record)};
        if (mr_document_open(&document, text, MR_ENCODING_JSON, NULL) == MR_OK)
            assert_int_equal(mr_openai_is_answer(mr_document_root(document)), cases[i].want);
        else
            assert_false(cases[i].want);
        mr_document_close(document);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_result_with_one_choice_is_that_choice),
        cmocka_unit_test(choices_have_texts_and_finish_reasons_of_their_own),
        cmocka_unit_test(a_part_that_a_result_lacks_is_empty),
        cmocka_unit_test(a_record_whose_members_have_other_types_is_no_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
