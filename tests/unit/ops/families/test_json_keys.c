#include "ops/families/json_keys.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void keys_have_values_or_fallbacks(void **state)
{
    (void)state;
    static const char json[] = "{\"a\":2.5,\"b\":true,\"c\":null,\"d\":\"x\"}";
    const struct mr_json_limits limits = {256, 16, 4};
    struct mr_json *document;
    assert_int_equal(
        mr_json_parse(&document, (struct mr_text){json, sizeof json - 1}, &limits, NULL), MR_OK);
    const struct mr_json_value *root = mr_json_root(document);
    assert_true(mr_json_number_or(root, "a", 1.0) == 2.5);
    assert_true(mr_json_number_or(root, "d", 1.0) == 1.0);
    assert_true(mr_json_number_or(NULL, "a", 3.0) == 3.0);
    assert_true(mr_json_bool_or(root, "b", false));
    assert_true(mr_json_bool_or(root, "a", true));
    assert_true(mr_json_given(mr_json_get(root, "b")));
    assert_false(mr_json_given(mr_json_get(root, "c")));
    assert_false(mr_json_given(mr_json_get(root, "e")));
    mr_json_destroy(document);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_have_values_or_fallbacks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
