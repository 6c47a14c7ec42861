#include "ops/files/sampling_defaults.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "ops/files/gguf.h"
#include "tests/unit/ops/scratch.h"

static struct mr_sampling_defaults read_json(const char *text)
{
    const struct mr_json_limits limits = {.bytes_max = 4096, .values_max = 64, .depth_max = 4};
    struct mr_json *json;
    struct mr_text bytes = {text, strlen(text)};
    assert_int_equal(mr_json_parse_wide(&json, bytes, &limits, NULL), MR_OK);
    struct mr_sampling_defaults defaults = mr_sampling_defaults_from_json(mr_json_root(json));
    mr_json_destroy(json);
    return defaults;
}

static void every_default_of_generation_config_is_read(void **state)
{
    (void)state;
    struct mr_sampling_defaults d =
        read_json("{\"temperature\":0.5,\"top_p\":0.75,\"top_k\":20,\"min_p\":0.25,"
                  "\"typical_p\":0.875,\"repetition_penalty\":1.125,\"presence_penalty\":1.5,"
                  "\"frequency_penalty\":-0.5,\"do_sample\":true}");
    assert_true(d.temperature == 0.5f && d.top_p == 0.75f && d.min_p == 0.25f);
    assert_true(d.typical_p == 0.875f && d.repetition_penalty == 1.125f);
    assert_true(d.presence_penalty == 1.5f && d.frequency_penalty == -0.5f);
    assert_int_equal(d.top_k, 20);
}

static void put_number(struct bytes *bytes, const char *key, float number)
{
    put_text(bytes, key);
    put_u32(bytes, MR_GGUF_F32);
    put_float(bytes, number);
}

static void the_keys_of_gguf_are_read(void **state)
{
    (void)state;
    static struct bytes bytes;
    struct scratch scratch;
    struct mr_gguf *gguf;
    put(&bytes, "GGUF", 4);
    put_u32(&bytes, 3);
    put_u64(&bytes, 0);
    put_u64(&bytes, 5);
    put_number(&bytes, "general.sampling.temp", 0.25f);
    put_number(&bytes, "general.sampling.top_p", 0.5f);
    put_number(&bytes, "general.sampling.min_p", 0.125f);
    put_number(&bytes, "general.sampling.penalty_repeat", 1.5f);
    put_text(&bytes, "general.sampling.top_k");
    put_u32(&bytes, MR_GGUF_I32);
    put_u32(&bytes, 30);
    put_padding(&bytes, 32);
    scratch_open(&scratch);
    scratch_write(&scratch, "a.gguf", bytes.data, bytes.size);
    assert_int_equal(mr_gguf_open(&gguf, scratch.path, NULL), MR_OK);
    struct mr_sampling_defaults d = mr_sampling_defaults_from_gguf(gguf);
    mr_gguf_close(gguf);
    scratch_close(&scratch);
    assert_true(d.temperature == 0.25f && d.top_p == 0.5f && d.min_p == 0.125f);
    assert_true(d.repetition_penalty == 1.5f && d.typical_p == 0);
    assert_int_equal(d.top_k, 30);
}

static void what_is_absent_or_out_of_range_is_not_given(void **state)
{
    (void)state;
    static const char out_of_range[] =
        "{\"temperature\":-1,\"top_p\":0,\"top_k\":0,\"min_p\":1.5,\"typical_p\":2,"
        "\"repetition_penalty\":0,\"presence_penalty\":3,\"frequency_penalty\":\"1\"}";
    static const char *const texts[] = {
        "{}", "{\"temperature\":null,\"top_p\":null,\"top_k\":null}", out_of_range};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct mr_sampling_defaults d = read_json(texts[i]);
        assert_true(isnan(d.temperature));
        assert_true(d.top_p == 0 && d.min_p == 0 && d.typical_p == 0);
        assert_true(d.repetition_penalty == 0 && d.presence_penalty == 0);
        assert_true(d.frequency_penalty == 0);
        assert_int_equal(d.top_k, 0);
    }
    assert_true(isnan(mr_sampling_defaults_from_json(NULL).temperature));
}

static void a_model_that_does_not_sample_is_greedy(void **state)
{
    (void)state;
    assert_true(read_json("{\"do_sample\":false,\"temperature\":0.5}").temperature == 0.0f);
    assert_true(isnan(read_json("{\"do_sample\":true}").temperature));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_default_of_generation_config_is_read),
        cmocka_unit_test(the_keys_of_gguf_are_read),
        cmocka_unit_test(what_is_absent_or_out_of_range_is_not_given),
        cmocka_unit_test(a_model_that_does_not_sample_is_greedy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
