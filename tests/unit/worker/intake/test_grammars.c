#include "worker/intake/grammars.h"

#include "tests/fakes/fake_request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct mr_tokenizer *tokenizer;
static struct mr_grammars *grammars;

static int setup(void **state)
{
    (void)state;
    tokenizer = mr_fake_tokenizer();
    assert_int_equal(mr_grammars_create(&grammars, tokenizer, NULL), MR_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    mr_grammars_destroy(grammars);
    mr_tokenizer_destroy(tokenizer);
    return 0;
}

static struct mr_constraint regex(const char *text)
{
    return (struct mr_constraint){MR_CONSTRAINT_REGEX, {text, strlen(text)}, false};
}

static void equal_constraints_share_a_grammar(void **state)
{
    (void)state;
    struct mr_grammar *one, *two, *other;
    size_t bytes;
    const struct mr_constraint a = regex("a"), b = regex("b");
    assert_int_equal(mr_grammars_get(grammars, &a, &one, NULL), MR_OK);
    assert_int_equal(mr_grammars_get(grammars, &a, &two, NULL), MR_OK);
    assert_int_equal(mr_grammars_get(grammars, &b, &other, NULL), MR_OK);
    assert_ptr_equal(one, two);
    assert_ptr_not_equal(one, other);
    assert_int_equal(mr_grammars_count(grammars, &bytes), 2);
    assert_int_equal(bytes, mr_grammar_bytes(one) + mr_grammar_bytes(other));
    mr_grammar_drop(one);
    mr_grammar_drop(two);
    mr_grammar_drop(other);
}

static void a_refusal_is_repeated(void **state)
{
    (void)state;
    struct mr_grammar *grammar;
    struct mr_error first, second;
    size_t bytes;
    const struct mr_constraint wrong = regex("(a");
    assert_int_equal(mr_grammars_get(grammars, &wrong, &grammar, &first), MR_INVALID_REQUEST);
    assert_int_equal(mr_grammars_get(grammars, &wrong, &grammar, &second), MR_INVALID_REQUEST);
    assert_null(grammar);
    assert_string_equal(first.detail, second.detail);
    assert_int_equal(mr_grammars_count(grammars, &bytes), 1);
    assert_int_equal(bytes, 0);
}

/* A grammar that is still in use outlives its place in the cache. */
static void the_one_used_longest_ago_is_dropped(void **state)
{
    (void)state;
    struct mr_grammar *first, *again, *other;
    size_t bytes;
    const struct mr_constraint kept = regex("kept");
    assert_int_equal(mr_grammars_get(grammars, &kept, &first, NULL), MR_OK);
    for (unsigned i = 0; i < 2 * MR_GRAMMARS_MAX; i++) {
        char text[16];
        snprintf(text, sizeof text, "r%u", i);
        const struct mr_constraint constraint = regex(text);
        assert_int_equal(mr_grammars_get(grammars, &constraint, &other, NULL), MR_OK);
        mr_grammar_drop(other);
        if (i >= MR_GRAMMARS_MAX) continue;
        assert_int_equal(mr_grammars_get(grammars, &kept, &again, NULL), MR_OK);
        assert_ptr_equal(again, first);
        mr_grammar_drop(again);
    }
    assert_int_equal(mr_grammars_count(grammars, &bytes), MR_GRAMMARS_MAX);
    assert_int_equal(mr_grammars_get(grammars, &kept, &again, NULL), MR_OK);
    assert_ptr_not_equal(again, first);
    assert_true(mr_grammar_bytes(first) == mr_grammar_bytes(again));
    mr_grammar_drop(again);
    mr_grammar_drop(first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(equal_constraints_share_a_grammar, setup, teardown),
        cmocka_unit_test_setup_teardown(a_refusal_is_repeated, setup, teardown),
        cmocka_unit_test_setup_teardown(the_one_used_longest_ago_is_dropped, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
