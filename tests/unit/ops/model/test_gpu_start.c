#include "ops/model/gpu_start.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ops/model/model.h"

/* ---- graphs ---- */

/* Returns whether a listed graph has room for a step. */
static bool has_room(const struct mr_decode_graph *graphs, uint32_t count, uint32_t rows,
                     uint32_t tokens)
{
    for (uint32_t i = 0; i < count; i++)
        if (graphs[i].rows >= rows && graphs[i].tokens >= tokens) return true;
    return false;
}

static void every_step_has_a_graph_unless_it_is_long_and_large(void **state)
{
    struct mr_decode_graph graphs[MR_DECODE_GRAPHS_MAX];
    (void)state;
    const uint32_t count = mr_decode_graphs_list(256, 131072, graphs);
    assert_int_equal(count, 46);
    assert_true(has_room(graphs, count, 256, 1024) && has_room(graphs, count, 256, 4096));
    assert_true(has_room(graphs, count, 64, 16384));
    assert_false(has_room(graphs, count, 65, 4097) || has_room(graphs, count, 1, 16385));
    for (uint32_t i = 0; i < count; i++)
        assert_true((uint64_t)graphs[i].rows * graphs[i].tokens <= 1048576);
}

static void steps_of_64_to_256_rows_have_less_than_32_rows_of_padding(void **state)
{
    struct mr_decode_graph graphs[MR_DECODE_GRAPHS_MAX];
    (void)state;
    const uint32_t count = mr_decode_graphs_list(256, 1024, graphs);
    const uint32_t rows[] = {256, 224, 192, 160, 128, 96, 64, 32, 16, 8, 4, 2, 1};
    assert_int_equal(count, sizeof rows / sizeof *rows);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(graphs[i].rows, rows[i]);
    assert_int_equal(mr_decode_graphs_list(130, 1024, graphs), 10);
    assert_int_equal(graphs[0].rows, 130);
    assert_int_equal(graphs[1].rows, 128);
}

static void graphs_come_by_falling_rows_and_rising_tokens(void **state)
{
    struct mr_decode_graph graphs[MR_DECODE_GRAPHS_MAX];
    (void)state;
    const uint32_t count = mr_decode_graphs_list(48, 1500, graphs);
    const uint32_t rows[] = {48, 32, 16, 8, 4, 2, 1};
    assert_int_equal(count, 14);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(graphs[i].rows, rows[i / 2]);
        assert_int_equal(graphs[i].tokens, i % 2 == 0 ? 1024 : 2048);
    }
}

static void short_contexts_and_single_rows_have_few(void **state)
{
    struct mr_decode_graph graphs[MR_DECODE_GRAPHS_MAX];
    (void)state;
    assert_int_equal(mr_decode_graphs_list(1, 1024, graphs), 1);
    assert_int_equal(graphs[0].rows, 1);
    assert_int_equal(graphs[0].tokens, 1024);
    assert_int_equal(mr_decode_graphs_list(0, 1024, graphs), 0);
}

static void the_largest_list_fits(void **state)
{
    struct mr_decode_graph graphs[MR_DECODE_GRAPHS_MAX];
    (void)state;
    assert_true(mr_decode_graphs_list(UINT32_MAX, UINT32_MAX, graphs) <= MR_DECODE_GRAPHS_MAX);
}

/* ---- sizes of other steps ---- */

static void steps_have_all_multiples_of_32_rows_where_chunks_lie(void **state)
{
    uint32_t sizes[MR_WARM_UP_SIZES_MAX];
    (void)state;
    const uint32_t count = mr_warm_up_sizes(2080, sizes);
    assert_int_equal(count, 6 + 768 / 32);
    assert_int_equal(sizes[0], 2080);
    for (uint32_t i = 1; i < 6; i++)
        assert_int_equal(sizes[i], 2048 - 256 * (i - 1));
    for (uint32_t i = 6; i < count; i++)
        assert_int_equal(sizes[i], 768 - 32 * (i - 6));
}

static void small_and_large_steps_have_few_sizes(void **state)
{
    uint32_t sizes[MR_WARM_UP_SIZES_MAX];
    (void)state;
    assert_int_equal(mr_warm_up_sizes(0, sizes), 0);
    assert_int_equal(mr_warm_up_sizes(40, sizes), 2);
    assert_int_equal(sizes[0], 40);
    assert_int_equal(sizes[1], 32);
    assert_true(mr_warm_up_sizes(UINT32_MAX, sizes) <= MR_WARM_UP_SIZES_MAX);
}

/* ---- a model ---- */

#define PROMPT 5u

static struct mr_model *open_model(const char *folder, const char *backend, bool warm_up)
{
    const struct mr_model_options options = {.path = folder,
                                             .device = "cpu",
                                             .backend = backend,
                                             .dtype = MR_DTYPE_F32,
                                             .kv_bytes = (uint64_t)1 << 20,
                                             .rows_max = 70,
                                             .sequences_max = 4,
                                             .warm_up = warm_up};
    struct mr_model *model;
    struct mr_error err = {.status = MR_OK};
    if (mr_model_open(&model, &options, &err) != MR_OK) fail_msg("%s", err.detail);
    return model;
}

static void compute(struct mr_model *model, float *logits)
{
    const uint32_t tokens[PROMPT] = {1, 2, 3, 4, 5}, blocks[] = {0};
    const struct mr_batch_sequence sequence = {
        .row_count = PROMPT, .blocks = blocks, .slots = blocks, .logit_rows = 1};
    const struct mr_batch batch = {tokens, PROMPT, &sequence, 1};
    struct mr_error err = {.status = MR_OK};
    if (mr_model_forward(model, &batch, &err) != MR_OK) fail_msg("%s", err.detail);
    assert_int_equal(mr_model_logits(model, 0, logits, &err), MR_OK);
}

static void compare(const char *folder, const char *backend)
{
    static float cold[1024], warm[1024];
    for (uint32_t is_warm = 0; is_warm < 2; is_warm++) {
        struct mr_model *model = open_model(folder, backend, is_warm == 1);
        assert_true(mr_model_info(model)->vocab_size <= 1024);
        compute(model, is_warm == 1 ? warm : cold);
        mr_model_close(model);
    }
    assert_memory_equal(cold, warm, sizeof cold);
}

static void steps_run_before_leave_no_trace(void **state)
{
    (void)state;
    compare("tests/golden/models/grouped_tied", "cpu");
    compare("tests/golden/models/gemma2", "cpu");
    compare("tests/golden/models/grouped_tied", "torch");
    compare("tests/golden/models/gemma2", "torch");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_step_has_a_graph_unless_it_is_long_and_large),
        cmocka_unit_test(steps_of_64_to_256_rows_have_less_than_32_rows_of_padding),
        cmocka_unit_test(graphs_come_by_falling_rows_and_rising_tokens),
        cmocka_unit_test(short_contexts_and_single_rows_have_few),
        cmocka_unit_test(the_largest_list_fits),
        cmocka_unit_test(steps_have_all_multiples_of_32_rows_where_chunks_lie),
        cmocka_unit_test(small_and_large_steps_have_few_sizes),
        cmocka_unit_test(steps_run_before_leave_no_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
