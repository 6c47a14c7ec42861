/* The layers after the pooling, and what config.json says about them. */
#include "ops/files/text_heads.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static float ones[20], bias[2] = {1, -30};

static void layers_follow_each_other(void **state)
{
    (void)state;
    float last[] = {1, 0, 0.5f, 2}, scratch[16], out[2];
    const float in[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    for (size_t i = 0; i < 20; i++)
        ones[i] = 1;
    const struct mr_text_head head = {
        .layers = {{.in_size = 10, .out_size = 2, .weight = ones, .bias = bias},
                   {.in_size = 2, .out_size = 2, .weight = last, .activation = MR_HEAD_RELU}},
        .layer_count = 2};
    assert_int_equal(mr_text_head_size(&head, 10), 2);
    mr_text_head_apply(&head, in, 10, out, scratch);
    assert_true(out[0] == 56.0f && out[1] == 56.0f * 0.5f + 25.0f * 2.0f);
    const struct mr_text_head none = {.layer_count = 0};
    mr_text_head_apply(&none, in, 2, out, scratch);
    assert_true(out[0] == 1.0f && out[1] == 2.0f);
}

static void a_norm_follows_the_activation(void **state)
{
    (void)state;
    float identity[] = {1, 0, 0, 1}, scale[] = {2, 3}, shift[] = {0.5f, -1}, out[2], scratch[4];
    const struct mr_text_head head = {
        .layers =
            {{.in_size = 2, .out_size = 2, .weight = identity, .norm = scale, .norm_bias = shift}},
        .layer_count = 1};
    mr_text_head_apply(&head, (const float[]){1, 3}, 2, out, scratch);
    assert_true(fabsf(out[0] - (-2 + 0.5f)) < 1e-6f && fabsf(out[1] - (3 - 1)) < 1e-6f);
}

static void activations_are_those_of_torch(void **state)
{
    (void)state;
    static const struct {
        enum mr_head_activation activation;
        float at_one;
    } known[] = {{MR_HEAD_IDENTITY, 1.0f},     {MR_HEAD_TANH, 0.7615942f},
                 {MR_HEAD_RELU, 1.0f},         {MR_HEAD_GELU, 0.8413447f},
                 {MR_HEAD_SILU, 0.7310586f},   {MR_HEAD_SIGMOID, 0.7310586f},
                 {MR_HEAD_SOFTMAX, 0.8807971f}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        float numbers[] = {1, -1};
        mr_head_activate(known[i].activation, numbers, 2);
        assert_true(fabsf(numbers[0] - known[i].at_one) < 1e-6f);
    }
}

static enum mr_status read(const char *text, struct mr_text_heads *heads)
{
    static const struct mr_model_config config = {.both_ways = true};
    const struct mr_json_limits limits = {.bytes_max = 4096, .values_max = 256, .depth_max = 8};
    struct mr_json *json;
    struct mr_error err;
    assert_int_equal(mr_json_parse(&json, (struct mr_text){text, strlen(text)}, &limits, &err),
                     MR_OK);
    *heads = (struct mr_text_heads){0};
    const enum mr_status status =
        mr_text_heads_read_config(heads, &config, mr_json_root(json), &err);
    mr_json_destroy(json);
    return status;
}

#define HEAD "{\"architectures\":[\"BertForSequenceClassification\"],"

static void config_names_labels_and_activations(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t labels;
        enum mr_head_activation rank, classes;
        enum mr_model_pooling pooling;
    } cases[] = {
        {"{\"architectures\":[\"BertModel\"]}", 0, MR_HEAD_IDENTITY, MR_HEAD_IDENTITY,
         MR_MODEL_POOLING_LAST},
        {HEAD "\"id2label\":{\"0\":\"a\"}}", 1, MR_HEAD_SIGMOID, MR_HEAD_SIGMOID,
         MR_MODEL_POOLING_FIRST},
        {HEAD "\"num_labels\":1,\"sentence_transformers\":{\"activation_fn\":"
              "\"torch.nn.modules.linear.Identity\"}}",
         1, MR_HEAD_IDENTITY, MR_HEAD_IDENTITY, MR_MODEL_POOLING_FIRST},
        {HEAD "\"classifier_pooling\":\"mean\"}", 2, MR_HEAD_IDENTITY, MR_HEAD_SOFTMAX,
         MR_MODEL_POOLING_MEAN},
        {HEAD "\"problem_type\":\"multi_label_classification\"}", 2, MR_HEAD_IDENTITY,
         MR_HEAD_SIGMOID, MR_MODEL_POOLING_FIRST},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mr_text_heads heads;
        assert_int_equal(read(cases[i].text, &heads), MR_OK);
        assert_int_equal(heads.label_count, cases[i].labels);
        assert_int_equal(heads.rank_activation, cases[i].rank);
        assert_int_equal(heads.class_activation, cases[i].classes);
        assert_int_equal(heads.class_pooling, cases[i].pooling);
        mr_text_heads_destroy(&heads);
    }
    struct mr_text_heads heads;
    assert_int_equal(read(HEAD "\"num_labels\":5000}", &heads), MR_BAD_FILE);
    assert_int_equal(read(HEAD "\"id2label\":{\"0\":\"a\",\"1\":\"b\"}}", &heads), MR_OK);
    assert_true(mr_text_is(heads.labels[1], "b"));
    mr_text_heads_destroy(&heads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_follow_each_other),
        cmocka_unit_test(a_norm_follows_the_activation),
        cmocka_unit_test(activations_are_those_of_torch),
        cmocka_unit_test(config_names_labels_and_activations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
