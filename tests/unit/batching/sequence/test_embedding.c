/* Which rows an embedding vector needs, and how it is computed from them. */
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
    mr_embedding_finish(embedding);
    assert_true(embedding->vector[0] == 3.0f && embedding->vector[1] == -4.0f);
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
    mr_embedding_finish(embedding);
    assert_true(embedding->vector[0] == 1.0f && embedding->vector[1] == 1.0f);
    mr_embedding_destroy(embedding);
}

static void a_normalized_vector_has_the_length_one(void **state)
{
    (void)state;
    struct mr_embedding *embedding = make((struct mr_pooling){.normalize = true}, 1);
    assert_true(mr_embedding_add(embedding, (const float[]){3, -4}, 1));
    mr_embedding_finish(embedding);
    assert_true(fabsf(embedding->vector[0] - 0.6f) < 1e-6f);
    assert_true(fabsf(embedding->vector[1] + 0.8f) < 1e-6f);
    mr_embedding_destroy(embedding);
    embedding = make((struct mr_pooling){.normalize = true}, 1);
    assert_true(mr_embedding_add(embedding, (const float[]){0, 0}, 1));
    mr_embedding_finish(embedding);
    assert_true(embedding->vector[0] == 0.0f && embedding->vector[1] == 0.0f);
    mr_embedding_destroy(embedding);
}

static void a_vector_is_cut_before_it_is_normalized(void **state)
{
    (void)state;
    struct mr_embedding *embedding =
        make((struct mr_pooling){.normalize = true, .dimensions = 1}, 1);
    assert_int_equal(embedding->kept, 1);
    assert_true(mr_embedding_add(embedding, (const float[]){-3, 4}, 1));
    mr_embedding_finish(embedding);
    assert_true(embedding->vector[0] == -1.0f);
    mr_embedding_destroy(embedding);
    embedding = make((struct mr_pooling){.mean = true}, 1);
    assert_int_equal(embedding->kept, 2);
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
        cmocka_unit_test(a_normalized_vector_has_the_length_one),
        cmocka_unit_test(a_vector_is_cut_before_it_is_normalized),
        cmocka_unit_test(numbers_that_are_not_finite_are_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
