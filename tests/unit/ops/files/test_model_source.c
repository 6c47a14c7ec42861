#include "ops/files/model_source.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void a_copied_text_is_owned(void **state)
{
    (void)state;
    struct mr_model_source source = {0};
    char text[] = "template";
    assert_int_equal(
        mr_model_source_copy_text(&source.chat_template, (struct mr_text){text, 8}, NULL), MR_OK);
    text[0] = 'x';
    assert_int_equal(source.chat_template.length, 8);
    assert_memory_equal(source.chat_template.bytes, "template", 9);
    mr_model_source_close(&source);
    assert_null(source.chat_template.bytes);
}

static void a_long_name_is_cut(void **state)
{
    (void)state;
    struct mr_model_source source = {0};
    char name[200];
    memset(name, 'a', sizeof name);
    mr_model_source_set_name(&source, (struct mr_text){name, sizeof name});
    assert_int_equal(strlen(source.name), sizeof source.name - 1);
    mr_model_source_set_name(&source, (struct mr_text){"short", 5});
    assert_string_equal(source.name, "short");
}

static void a_source_may_be_closed_twice(void **state)
{
    (void)state;
    struct mr_model_source source = {0};
    mr_model_source_close_weights(&source);
    mr_model_source_close(&source);
    mr_model_source_close(&source);
    assert_null(source.tensors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copied_text_is_owned),
        cmocka_unit_test(a_long_name_is_cut),
        cmocka_unit_test(a_source_may_be_closed_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
