#include "builders.h"

#include "codec/utf8.h"

static void a_class_is_exactly_its_characters(void **state)
{
    (void)state;
    static const struct mr_char_range ranges[] = {{0x61, 0x63},      {0x7f, 0x81},
                                                  {0x7fe, 0x802},    {0xd7f0, 0xe010},
                                                  {0xfffe, 0x10002}, {0x10fffe, 0x10ffff}};
    struct mr_expr_builder builder;
    begin(&builder, NULL);
    struct mr_grammar *grammar =
        grammar_of(&builder, mr_expr_class(&builder, ranges, 6, MR_SPELL_TEXT));
    for (uint32_t c = 1; c <= MR_CODE_POINT_MAX;
         c += c < 0x900 || (c > 0xd700 && c < 0x10010) ? 1 : 97) {
        char bytes[5] = "";
        bool wanted = false;
        if (c >= 0xd800 && c <= 0xdfff) continue;
        bytes[mr_utf8_put(bytes, c)] = '\0';
        for (size_t i = 0; i < 6; i++)
            wanted |= c >= ranges[i].low && c <= ranges[i].high;
        if (matches(grammar, bytes) != wanted) fail_msg("U+%04X", c);
    }
    mr_grammar_drop(grammar);
}

static void json_spelling_escapes(void **state)
{
    (void)state;
    static const struct mr_char_range all = {0, MR_CODE_POINT_MAX};
    struct mr_expr_builder builder;
    begin(&builder, NULL);
    struct mr_grammar *grammar =
        grammar_of(&builder, mr_expr_class(&builder, &all, 1, MR_SPELL_JSON));
    static const char *const yes[] = {"a", "\\\"", "\\\\", "\\n", "\\t", "/", "\u00e9", "\x7f"};
    static const char *const no[] = {"\"", "\\", "\n", "\\u0001", "\\/", "\x01", "\\u000a"};
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++)
        assert_true(matches(grammar, yes[i]));
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
        assert_false(matches(grammar, no[i]));
    mr_grammar_drop(grammar);
    begin(&builder, NULL);
    grammar =
        grammar_of(&builder, mr_expr_text(&builder, text_of("a\"\n\x01\u00e9"), MR_SPELL_JSON));
    assert_true(matches(grammar, "a\\\"\\n\\u0001\u00e9"));
    mr_grammar_drop(grammar);
}

static void never_disappears(void **state)
{
    (void)state;
    struct mr_expr_builder builder;
    begin(&builder, NULL);
    const struct mr_expr *a = mr_expr_word(&builder, "a"), *never = mr_expr_never();
    assert_ptr_equal(mr_expr_either(&builder, never, a), a);
    assert_ptr_equal(mr_expr_pair(&builder, never, a), never);
    assert_ptr_equal(mr_expr_repeat(&builder, never, 1, 2), never);
    assert_true(mr_expr_repeat(&builder, never, 0, 2)->nullable);
    assert_ptr_equal(mr_expr_minus(&builder, a, never), a);
    assert_ptr_equal(mr_expr_and(&builder, a, never), never);
    mr_expr_builder_drop(&builder);
}

static void the_first_failure_stays(void **state)
{
    (void)state;
    struct mr_error err;
    struct mr_expr_builder builder;
    begin(&builder, &err);
    assert_int_equal(mr_expr_fail(&builder, MR_UNSUPPORTED, "first %d", 1), MR_UNSUPPORTED);
    assert_int_equal(mr_expr_fail(&builder, MR_NOMEM, "second"), MR_UNSUPPORTED);
    assert_string_equal(err.detail, "first 1");
    assert_ptr_equal(mr_expr_word(&builder, "a"), mr_expr_never());
    struct mr_grammar *grammar;
    assert_int_equal(mr_automaton_compile(&grammar, &builder), MR_UNSUPPORTED);
    assert_null(grammar);
    mr_expr_builder_drop(&builder);
}

static void work_memory_and_rules_are_bounded(void **state)
{
    (void)state;
    struct mr_expr_builder builder;
    struct mr_error err;
    begin(&builder, &err);
    while (mr_expr_work(&builder, 1000)) {
    }
    assert_int_equal(builder.status, MR_INVALID_REQUEST);
    assert_true(builder.work <= MR_GRAMMAR_WORK_MAX);
    mr_expr_builder_drop(&builder);
    begin(&builder, &err);
    assert_null(mr_expr_take(&builder, MR_GRAMMAR_BUILD_BYTES_MAX, 2));
    assert_int_equal(builder.status, MR_INVALID_REQUEST);
    mr_expr_builder_drop(&builder);
    begin(&builder, &err);
    for (uint32_t i = 0; i < MR_GRAMMAR_RULES_MAX; i++)
        mr_expr_rule_add(&builder, "rule");
    assert_int_equal(builder.status, MR_INVALID_REQUEST);
    mr_expr_builder_drop(&builder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_class_is_exactly_its_characters),
        cmocka_unit_test(json_spelling_escapes),
        cmocka_unit_test(never_disappears),
        cmocka_unit_test(the_first_failure_stays),
        cmocka_unit_test(work_memory_and_rules_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
