/* Texts and pairs keep their special tokens when they are cut; a text that is too long has an error
 * of its own. golden_test_texts compares the ids with the reference. */
#include "worker/intake/inputs.h"

#include "codec/tokenizer_files/tokenizer_json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define MOST 8u

static const char file[] =
    "{\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":"
    "\"##\",\"max_input_chars_per_word\":100,\"vocab\":{\"[UNK]\":0,\"[CLS]\":1,\"[SEP]\":2,"
    "\"a\":3,\"b\":4}},\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"
    "\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"[SEP]\",2],\"cls\":[\"[CLS]\",1]},"
    "\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true},\"added_tokens\":[]}";

struct rig {
    struct mr_tokenizer *tokenizer;
    uint32_t ids[MOST + 1];
    struct mr_input_encoder encoder;
    struct mr_request *request;
    struct mr_error err;
};

static struct mr_text text_of(const char *text)
{
    return (struct mr_text){text, text ? strlen(text) : 0};
}

static void open_rig(struct rig *rig)
{
    *rig = (struct rig){.tokenizer = NULL};
    if (mr_tokenizer_from_json(&rig->tokenizer, text_of(file), (struct mr_text){0}, &rig->err) !=
        MR_OK)
        fail_msg("%s", rig->err.detail);
    rig->encoder = (struct mr_input_encoder){
        .tokenizer = rig->tokenizer,
        .scratch = mr_tokenizer_scratch_create(rig->tokenizer),
        .ids = rig->ids,
        .tokens_max = MOST,
    };
    rig->request = mr_request_create(MR_ENCODING_JSON, 1);
    assert_non_null(rig->request);
    rig->request->task = MR_TASK_CLASSIFY;
}

static void close_rig(struct rig *rig)
{
    mr_request_destroy(rig->request);
    mr_tokenizer_scratch_destroy(rig->encoder.scratch);
    mr_tokenizer_destroy(rig->tokenizer);
}

/* Encodes a text or a pair; `letters` are the tokens in order: [ ] for the special ones. */
static void encodes(struct rig *rig, const char *first, const char *second, const char *letters)
{
    struct mr_input input = {.text = text_of(first), .second = text_of(second)};
    if (mr_input_encode(&rig->encoder, rig->request, &input, &rig->err) != MR_OK)
        fail_msg("%s", rig->err.detail);
    assert_int_equal(input.token_count, strlen(letters));
    for (size_t i = 0; i < input.token_count; i++)
        assert_int_equal(letters[i], "?[]ab"[input.token_ids[i]]);
    if (second) assert_int_equal(letters[input.second_begin - 1], ']');
    if (!second) assert_int_equal(input.second_begin, 0);
}

static void special_tokens_stay_when_a_text_is_cut(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    struct mr_prompt_rules *rules = &rig.request->prompt_rules;
    encodes(&rig, "a b a", NULL, "[aba]");
    encodes(&rig, "", NULL, "[]");
    encodes(&rig, "a", "b b", "[a]bb]");
    rules->tokens_max = 5;
    encodes(&rig, "a b b a a a a a a a a a", NULL, "[abb]");
    encodes(&rig, "a b a", "b a b", "[a]b]");
    rules->tokens_max = UINT32_MAX;
    encodes(&rig, "a b b a a a a a a a a a", NULL, "[abbaaa]");
    encodes(&rig, "a", "b b b b b b b", "[a]bbbb]");
    encodes(&rig, "a a a a a a a a a a a", "b b b b b b b b b b", "[aaa]bb]");
    rules->side_given = true;
    encodes(&rig, "a b a a a a a a a a a b", NULL, "[aaaaab]");
    rules->special_given = true;
    encodes(&rig, "a b", NULL, "ab");
    close_rig(&rig);
}

static void one_long_text_does_not_stop_the_others(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    struct mr_input list[] = {
        {.text = {"a", 1}}, {.text = {"a a a a a a a", 13}}, {.text = {"b", 1}}};
    rig.request->inputs = (struct mr_inputs){.list = list, .count = 3};
    assert_int_equal(mr_inputs_encode(&rig.encoder, rig.request, &rig.err), MR_OK);
    assert_int_equal(list[0].error, MR_OK);
    assert_int_equal(list[1].error, MR_PROMPT_TOO_LONG);
    assert_non_null(strstr(list[1].message, "8 tokens"));
    assert_int_equal(list[2].token_count, 3);
    assert_int_equal(rig.request->inputs.token_count, 6);
    rig.request->inputs = (struct mr_inputs){.list = list + 1, .count = 1};
    list[1].error = MR_OK;
    assert_int_equal(mr_inputs_encode(&rig.encoder, rig.request, &rig.err), MR_PROMPT_TOO_LONG);
    close_rig(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(special_tokens_stay_when_a_text_is_cut),
        cmocka_unit_test(one_long_text_does_not_stop_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
