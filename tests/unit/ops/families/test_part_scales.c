#include "ops/families/part_scales.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static enum mr_status read_text(const char *text, struct mr_part_scales *out, struct mr_error *err)
{
    const struct mr_json_limits limits = {4096, 256, 8};
    struct mr_json *document;
    assert_int_equal(mr_json_parse(&document, (struct mr_text){text, strlen(text)}, &limits, NULL),
                     MR_OK);
    const enum mr_status status = mr_part_scales_read(out, mr_json_root(document), err);
    mr_json_destroy(document);
    return status;
}

static void each_key_has_its_scale(void **state)
{
    (void)state;
    struct mr_part_scales scales;
    assert_int_equal(read_text("{\"attention_in_multiplier\":2,\"key_multiplier\":3,"
                               "\"attention_out_multiplier\":4,\"ssm_in_multiplier\":5,"
                               "\"ssm_out_multiplier\":6,\"mlp_multipliers\":[7,8],"
                               "\"ssm_multipliers\":[9,10,11,12,13]}",
                               &scales, NULL),
                     MR_OK);
    const struct mr_part_scales expected = {2, 3, 4, 7, 8, 5, 6, {9, 10, 11, 12, 13}};
    assert_memory_equal(&scales, &expected, sizeof scales);
}

static void absent_keys_are_one(void **state)
{
    (void)state;
    struct mr_part_scales scales;
    assert_int_equal(read_text("{\"key_multiplier\":null}", &scales, NULL), MR_OK);
    const struct mr_part_scales expected = {1, 1, 1, 1, 1, 1, 1, {1, 1, 1, 1, 1}};
    assert_memory_equal(&scales, &expected, sizeof scales);
}

static void scales_are_positive_numbers(void **state)
{
    (void)state;
    static const char *const texts[] = {"{\"key_multiplier\":0}",
                                        "{\"ssm_multipliers\":[1,2,-3,4,5]}",
                                        "{\"mlp_multipliers\":[\"one\",1]}"};
    struct mr_part_scales scales;
    struct mr_error err;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_int_equal(read_text(texts[i], &scales, &err), MR_BAD_FILE);
    assert_non_null(strstr(err.detail, "mlp_multipliers"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_key_has_its_scale),
        cmocka_unit_test(absent_keys_are_one),
        cmocka_unit_test(scales_are_positive_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
