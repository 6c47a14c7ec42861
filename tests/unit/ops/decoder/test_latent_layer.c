#include "ops/decoder/latent_layer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* The operations of a backend, as a text of one letter each. */
static char calls[16];

static void record(char call)
{
    calls[strlen(calls)] = call;
}

static void linear(struct mr_step *step, const struct mr_linear *layer, enum mr_step_buffer from,
                   uint32_t rows, enum mr_epilogue epilogue, enum mr_step_buffer to)
{
    (void)step, (void)layer, (void)rows, (void)epilogue;
    if (to == MR_LATENTS) assert_int_equal(from, MR_NORMED);
    if (to == MR_QKV)
        assert_int_equal(from, strchr(calls, 'n') != NULL ? MR_QUERY_LATENT : MR_NORMED);
    record(to == MR_LATENTS ? 'l' : 'q');
}

static void norm_queries(struct mr_step *step, const struct mr_latent *latent, uint32_t rows)
{
    (void)step, (void)latent, (void)rows;
    record('n');
}

static void write(struct mr_step *step, const struct mr_latent *latent)
{
    (void)step;
    assert_int_equal(latent->shape.rank, 512);
    assert_int_equal(latent->attention.head_count, 16);
    record('w');
}

static void attend(struct mr_step *step, const struct mr_latent *latent)
{
    (void)step, (void)latent;
    record('a');
}

static const struct mr_latent_ops ops = {norm_queries, write, attend};
static const struct mr_backend backend = {.linear = linear, .latent = &ops};

static struct mr_model_config lite(void)
{
    return (struct mr_model_config){
        .head_count = 16,
        .latent = {.rank = 512, .rope_dim = 64, .nope_dim = 128, .value_dim = 128}};
}

static void widths_follow_from_the_shape(void **state)
{
    (void)state;
    struct mr_model_config config = lite();
    uint32_t widths[MR_BUFFER_COUNT] = {0};
    mr_latent_set_widths(&config, widths);
    assert_int_equal(widths[MR_QKV], 16 * 192);
    assert_int_equal(widths[MR_ATTENDED], 16 * 128);
    assert_int_equal(widths[MR_LATENTS], 576);
    assert_int_equal(widths[MR_QUERY_LATENT], 0);
    assert_int_equal(widths[MR_ABSORBED], 16 * 576);
    assert_int_equal(widths[MR_ATTENDED_LATENTS], 16 * 512);
    config.latent.rank = 0;
    widths[MR_QKV] = 7;
    mr_latent_set_widths(&config, widths);
    assert_int_equal(widths[MR_QKV], 7);
}

static void queries_have_a_norm_only_with_a_rank(void **state)
{
    (void)state;
    const struct mr_model_config config = lite();
    const struct mr_attention attention = {.head_count = 16};
    struct mr_latent_weights weights = {0};
    float numbers = 1.0f;
    memset(calls, 0, sizeof calls);
    mr_latent_write(&backend, NULL, &config, &weights, &attention, 3);
    mr_latent_attend(&backend, NULL, &config, &weights, &attention);
    assert_string_equal(calls, "lqwa");
    weights.query_norm = (struct mr_vector *)&numbers;
    memset(calls, 0, sizeof calls);
    mr_latent_write(&backend, NULL, &config, &weights, &attention, 3);
    assert_string_equal(calls, "lnqw");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(widths_follow_from_the_shape),
        cmocka_unit_test(queries_have_a_norm_only_with_a_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
