/* Which rows a pooled hidden state needs, and how it is computed from them. */
#include "batching/sequence/embedding.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct mr_embedding *make(struct mr_pooling pooling, uint32_t tokens)
{
    struct mr_embedding *embedding;
    assert_int_equal(mr_embedding_create(&embedding, pooling, tokens, 2, NULL), MR_OK);
    return embedding;
}

static void the_last_token_needs_the_last_row(void **state)
{
    (void)state;
    struct mr_embedding *embedding = make((struct mr_pooling){.mean = false}, 10);
    assert_int_equal(mr_embedding_rows(embedding, 0, 9), 0);
    assert_int_equal(mr_embedding_rows(embedding, 0, 10), 1);
    assert_int_equal(mr_embedding_rows(NULL, 0, 10), 0);
    assert_true(mr_embedding_add(embedding, (const float[]){3, -4}, 1));
    assert_true(mr_embedding_done(embedding));
    assert_int_equal(mr_embedding_rows(embedding, 0, 10), 0);
    float state_of_last[2];
    mr_embedding_mean(embedding, state_of_last);
    assert_true(state_of_last[0] == 3.0f && state_of_last[1] == -4.0f);
    mr_embedding_destroy(embedding);
}

static void the_mean_needs_each_row_once(void **state)
{
    (void)state;
    struct mr_embedding *embedding = make((struct mr_pooling){.mean = true}, 10);
    assert_int_equal(mr_embedding_rows(embedding, 0, 4), 4);
    assert_true(mr_embedding_add(embedding, (const float[]){4, 8}, 4));
    assert_int_equal(mr_embedding_rows(embedding, 0, 3), 0); /* again, after a preemption */
    assert_int_equal(mr_embedding_rows(embedding, 0, 6), 2);
    assert_int_equal(mr_embedding_rows(embedding, 4, 10), 6);
    assert_false(mr_embedding_done(embedding));
    assert_true(mr_embedding_add(embedding, (const float[]){6, 2}, 6));
    float mean[2];
    mr_embedding_mean(embedding, mean);
    assert_true(mean[0] == 1.0f && mean[1] == 1.0f);
    mr_embedding_destroy(embedding);
}

static void another_text_begins_with_nothing(void **state)
{
    (void)state;
    float mean[2];
    struct mr_embedding *embedding = make((struct mr_pooling){.mean = true}, 1);
    assert_true(mr_embedding_add(embedding, (const float[]){3, -4}, 1));
    mr_embedding_restart(embedding, 2);
    assert_false(mr_embedding_done(embedding));
    assert_int_equal(mr_embedding_rows(embedding, 0, 2), 2);
    assert_true(mr_embedding_add(embedding, (const float[]){2, 6}, 2));
    mr_embedding_mean(embedding, mean);
    assert_true(mean[0] == 1.0f && mean[1] == 3.0f);
    mr_embedding_destroy(embedding);
}

static void numbers_that_are_not_finite_are_noticed(void **state)
{
    (void)state;
    struct mr_embedding *embedding = make((struct mr_pooling){.mean = true}, 2);
    assert_false(mr_embedding_add(embedding, (const float[]){1, NAN}, 1));
    assert_false(mr_embedding_add(embedding, (const float[]){INFINITY, 1}, 1));
    mr_embedding_destroy(embedding);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_token_needs_the_last_row),
        cmocka_unit_test(the_mean_needs_each_row_once),
        cmocka_unit_test(another_text_begins_with_nothing),
        cmocka_unit_test(numbers_that_are_not_finite_are_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
