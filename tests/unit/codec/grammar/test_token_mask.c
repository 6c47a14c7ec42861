#include "builders.h"

#include "codec/constraint/constraint.h"
#include "codec/grammar/token_mask.h"

#define VOCAB 700u

struct fixture {
    char bytes[VOCAB][8];
    struct mr_text texts[VOCAB];
    struct mr_token_mask *mask;
    uint64_t bits[(VOCAB + 63) / 64];
    struct mr_matcher matcher, copy;
};

/* All bytes, and random short texts of the letters that schemas need. */
static int open_fixture(void **state)
{
    static const char letters[] = "ab\"\\{}[]:, \n0173-.eun\xc3\xa9tr";
    struct fixture *fixture = calloc(1, sizeof *fixture);
    uint32_t random = 12345;
    for (uint32_t i = 0; i < VOCAB; i++) {
        size_t length = 1;
        if (i < 256) {
            fixture->bytes[i][0] = (char)i;
        } else {
            length = 1 + i % 6;
            for (size_t k = 0; k < length; k++) {
                random = random * 1664525u + 1013904223u;
                fixture->bytes[i][k] = letters[(random >> 16) % (sizeof letters - 1)];
            }
        }
        fixture->texts[i] = (struct mr_text){fixture->bytes[i], i == 300 ? 0 : length};
    }
    assert_int_equal(mr_token_mask_of_texts(&fixture->mask, fixture->texts, VOCAB, NULL), MR_OK);
    *state = fixture;
    return 0;
}

static int close_fixture(void **state)
{
    struct fixture *fixture = *state;
    mr_token_mask_destroy(fixture->mask);
    free(fixture);
    return 0;
}

static bool is_set(const struct fixture *fixture, uint32_t id)
{
    return fixture->bits[id / 64] >> (id % 64) & 1;
}

static struct mr_grammar *compile(enum mr_constraint_kind kind, const char *text)
{
    struct mr_grammar *grammar;
    struct mr_error err = {.detail = ""};
    const struct mr_constraint constraint = {kind, text_of(text), false};
    if (mr_constraint_compile(&grammar, &constraint, NULL, &err) != MR_OK)
        fail_msg("%s", err.detail);
    return grammar;
}

/* Asserts that the mask has exactly the tokens that the matcher accepts. */
static void assert_exact(struct fixture *fixture)
{
    mr_token_mask_fill(fixture->mask, &fixture->matcher, fixture->bits);
    for (uint32_t id = 0; id < VOCAB; id++) {
        mr_matcher_copy(&fixture->copy, &fixture->matcher);
        bool taken = mr_token_mask_accept(fixture->mask, &fixture->copy, id);
        if (taken != is_set(fixture, id)) fail_msg("token %u", id);
    }
}

/* Random answers of grammars of every kind: free text, counted text, patterns, recursion. */
static void masks_have_exactly_the_tokens_that_match(void **state)
{
    static const struct {
        enum mr_constraint_kind kind;
        const char *text;
    } cases[] = {
        {MR_CONSTRAINT_JSON_OBJECT, ""},
        {MR_CONSTRAINT_JSON_SCHEMA, "{\"type\":\"string\",\"maxLength\":4}"},
        {MR_CONSTRAINT_JSON_SCHEMA, "{\"type\":\"string\",\"minLength\":3}"},
        {MR_CONSTRAINT_JSON_SCHEMA, "{\"properties\":{\"ab\":{\"type\":\"integer\"},\"a\":{}}}"},
        {MR_CONSTRAINT_JSON_SCHEMA,
         "{\"additionalProperties\":{\"type\":\"number\",\"minimum\":3.5}}"},
        {MR_CONSTRAINT_REGEX, "(.{0,3000}\"){2}a*"},
        {MR_CONSTRAINT_REGEX, "[ab0-9]{2,9}(\u00e9|\\n)+"},
        {MR_CONSTRAINT_CHOICE, "[\"abba\",\"ab\",\"\u00e9\"]"},
    };
    struct fixture *fixture = *state;
    uint32_t random = 1;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct mr_grammar *grammar = compile(cases[c].kind, cases[c].text);
        for (unsigned round = 0; round < 6; round++) {
            mr_token_mask_start(fixture->mask, &fixture->matcher, grammar);
            for (unsigned step = 0; step < 25; step++) {
                assert_exact(fixture);
                if (mr_matcher_is_over(&fixture->matcher)) break;
                uint32_t id;
                do {
                    random = random * 1664525u + 1013904223u;
                    id = (random >> 8) % VOCAB;
                } while (!is_set(fixture, id));
                assert_true(mr_token_mask_accept(fixture->mask, &fixture->matcher, id));
            }
        }
        mr_grammar_drop(grammar);
    }
    assert_true(mr_token_mask_stats(fixture->mask).walks > 0);
}

/* A state cached for one grammar must not be used for another grammar, nor a cached mask for
 * another stack. */
static void kept_masks_depend_on_the_stack(void **state)
{
    struct fixture *fixture = *state;
    struct mr_grammar *one = compile(MR_CONSTRAINT_REGEX, "([^\"]*)a");
    struct mr_grammar *other = compile(MR_CONSTRAINT_REGEX, "([^\"]*)b");
    for (unsigned round = 0; round < 3; round++) {
        mr_token_mask_start(fixture->mask, &fixture->matcher, one);
        assert_exact(fixture);
        mr_token_mask_start(fixture->mask, &fixture->matcher, other);
        assert_exact(fixture);
    }
    mr_grammar_drop(one);
    mr_grammar_drop(other);
    struct mr_grammar *nested =
        compile(MR_CONSTRAINT_JSON_SCHEMA, "{\"type\":\"array\",\"items\":{\"type\":\"array\"}}");
    mr_token_mask_start(fixture->mask, &fixture->matcher, nested);
    static const char text[] = "[[1,[0]],[]]";
    for (const char *at = text; *at; at++) {
        assert_exact(fixture);
        assert_true(mr_token_mask_accept(fixture->mask, &fixture->matcher, (unsigned char)*at));
    }
    mr_grammar_drop(nested);
}

/* Where the stack is nearly full, a mask cached at a lower depth would allow more than fits. */
static void masks_are_exact_up_to_the_deepest_nesting(void **state)
{
    struct fixture *fixture = *state;
    struct mr_grammar *grammar =
        compile(MR_CONSTRAINT_EBNF, "root ::= \"[\" root \"]\" | [^\\[\\]]*");
    uint32_t depth = 0;
    mr_token_mask_start(fixture->mask, &fixture->matcher, grammar);
    for (; depth < 2 * MR_STACK_MAX; depth++) {
        assert_exact(fixture);
        if (!is_set(fixture, '[')) break;
        assert_true(mr_token_mask_accept(fixture->mask, &fixture->matcher, '['));
    }
    assert_in_range(depth, 20, 2 * MR_STACK_MAX - 1);
    for (; depth > 0; depth--) {
        assert_exact(fixture);
        assert_true(mr_token_mask_accept(fixture->mask, &fixture->matcher, ']'));
    }
    assert_true(mr_matcher_is_over(&fixture->matcher));
    mr_grammar_drop(grammar);
}

/* Far from its limits a counted rule has the same mask at every count. */
static void counts_far_from_their_limits_share_a_mask(void **state)
{
    struct fixture *fixture = *state;
    struct mr_grammar *grammar = compile(MR_CONSTRAINT_REGEX, "[^a]{700,4000}");
    mr_token_mask_start(fixture->mask, &fixture->matcher, grammar);
    uint64_t walks = 0;
    for (uint32_t i = 0; i < 4000; i++) {
        if (i == 5) walks = mr_token_mask_stats(fixture->mask).walks;
        if (i == 400) assert_int_equal(mr_token_mask_stats(fixture->mask).walks, walks);
        if (i % 100 == 0 || i > 3990 || (i > 690 && i < 710))
            assert_exact(fixture);
        else
            mr_token_mask_fill(fixture->mask, &fixture->matcher, fixture->bits);
        assert_true(is_set(fixture, 'b'));
        assert_true(mr_token_mask_accept(fixture->mask, &fixture->matcher, 'b'));
    }
    assert_true(mr_matcher_is_over(&fixture->matcher));
    mr_grammar_drop(grammar);
}

static void tokens_outside_the_vocabulary_are_refused(void **state)
{
    struct fixture *fixture = *state;
    struct mr_grammar *grammar = compile(MR_CONSTRAINT_REGEX, ".*");
    mr_token_mask_start(fixture->mask, &fixture->matcher, grammar);
    assert_false(mr_token_mask_accept(fixture->mask, &fixture->matcher, VOCAB));
    assert_false(mr_token_mask_accept(fixture->mask, &fixture->matcher, 300)); /* has no bytes */
    mr_token_mask_fill(fixture->mask, &fixture->matcher, fixture->bits);
    assert_false(is_set(fixture, 300));
    mr_grammar_drop(grammar);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(masks_have_exactly_the_tokens_that_match, open_fixture,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(kept_masks_depend_on_the_stack, open_fixture,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(masks_are_exact_up_to_the_deepest_nesting, open_fixture,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(counts_far_from_their_limits_share_a_mask, open_fixture,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(tokens_outside_the_vocabulary_are_refused, open_fixture,
                                        close_fixture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
