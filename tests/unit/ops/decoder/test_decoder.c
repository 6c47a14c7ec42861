#include "ops/decoder/decoder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../tiny_weights.h"

enum { ROWS = 300, SEQUENCES = 8, BLOCKS = 40 };
#define BLOCKS_OF_PROMPT ((ROWS + MR_BLOCK_TOKENS - 1) / MR_BLOCK_TOKENS)

struct fixture {
    struct tiny tiny;
    struct mr_compute *compute;
    struct mr_weights weights;
    struct mr_rope_table rope;
    struct mr_kv_groups kv;
    struct mr_decoder *decoder;
    uint32_t tokens[ROWS];
    uint32_t blocks[2][BLOCKS_OF_PROMPT]; /* of each of two sequences */
};

static void open_fixture(struct fixture *fixture, bool bf16)
{
    tiny_open(&fixture->tiny);
    assert_int_equal(mr_tensor_table_sort(&fixture->tiny.tensors, NULL), MR_OK);
    const struct mr_model_config *c = &fixture->tiny.config;
    fixture->compute = tiny_compute(bf16);
    struct mr_weights_spec weights = {
        .config = c, .tensors = &fixture->tiny.tensors, .compute = fixture->compute};
    assert_int_equal(mr_weights_load(&fixture->weights, &weights, NULL), MR_OK);
    assert_int_equal(mr_rope_table_create(&fixture->rope, &c->ropes[0], ROWS, NULL), MR_OK);
    const size_t block_bytes =
        (size_t)c->layer_count * c->kv_head_count * c->head_dim * MR_BLOCK_TOKENS * (bf16 ? 4 : 8);
    const struct mr_kv_groups_spec kv = {
        .config = c, .step_tokens = ROWS, .kv_bytes = BLOCKS * block_bytes};
    assert_int_equal(mr_kv_groups_create(&fixture->kv, fixture->compute, &kv, NULL), MR_OK);
    assert_int_equal(fixture->kv.block_count, BLOCKS);
    struct mr_decoder_spec spec = {.config = c,
                                   .weights = &fixture->weights,
                                   .ropes = &fixture->rope,
                                   .kv = &fixture->kv,
                                   .compute = fixture->compute,
                                   .rows_max = ROWS,
                                   .sequences_max = SEQUENCES};
    assert_int_equal(mr_decoder_create(&fixture->decoder, &spec, NULL), MR_OK);
    for (uint32_t i = 0; i < ROWS; i++)
        fixture->tokens[i] = (i * 7 + i / 3) % TINY_VOCAB;
    for (uint32_t i = 0; i < BLOCKS_OF_PROMPT; i++) {
        fixture->blocks[0][i] = 2 * i + 1;
        fixture->blocks[1][i] = 2 * i;
    }
}

static void close_fixture(struct fixture *fixture)
{
    mr_decoder_destroy(fixture->decoder);
    mr_kv_groups_destroy(&fixture->kv);
    mr_rope_table_destroy(&fixture->rope);
    mr_weights_destroy(&fixture->weights);
    fixture->compute->backend->close(fixture->compute);
    tiny_close(&fixture->tiny);
}

static void run_step(struct mr_decoder *decoder, const struct mr_batch *batch)
{
    mr_decoder_launch(decoder, batch, NULL);
    assert_int_equal(mr_decoder_finish(decoder, NULL), MR_OK);
}

/* Computes the prompt in chunks; out: the logits of its last token. */
static void run_chunks(struct fixture *fixture, uint32_t chunk, float *out)
{
    for (uint32_t begin = 0; begin < ROWS; begin += chunk) {
        uint32_t count = ROWS - begin < chunk ? ROWS - begin : chunk;
        struct mr_batch_sequence sequence = {.row_count = count,
                                             .context_tokens = begin,
                                             .blocks = fixture->blocks[0],
                                             .logit_rows = begin + count == ROWS ? 1 : 0};
        struct mr_batch batch = {fixture->tokens + begin, count, &sequence, 1};
        run_step(fixture->decoder, &batch);
        expect_assert_failure(mr_decoder_logits(fixture->decoder, sequence.logit_rows,
                                                NULL)); /* no further logit rows */
    }
    memcpy(out, mr_decoder_logits(fixture->decoder, 0, NULL), TINY_VOCAB * sizeof(float));
}

/* Bit for bit, because the kernels sum in one order for every chunk size. */
static void the_chunk_size_of_a_prompt_changes_nothing(void **state)
{
    (void)state;
    static const uint32_t chunks[] = {1, 7, 255, 256, 257};
    for (int bf16 = 0; bf16 < 2; bf16++) {
        struct fixture fixture;
        float whole[TINY_VOCAB], cut[TINY_VOCAB];
        open_fixture(&fixture, bf16 == 1);
        run_chunks(&fixture, ROWS, whole);
        for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
            run_chunks(&fixture, chunks[i], cut);
            assert_memory_equal(cut, whole, sizeof whole);
        }
        close_fixture(&fixture);
    }
}

static void other_sequences_in_the_step_change_nothing(void **state)
{
    (void)state;
    struct fixture fixture;
    float alone[TINY_VOCAB];
    open_fixture(&fixture, true);
    run_chunks(&fixture, ROWS, alone);
    run_chunks(&fixture, ROWS - 1, (float[TINY_VOCAB]){0});
    /* compute the last token again, in a step with two chunks of another sequence: one with logits
     * and one without */
    uint32_t tokens[ROWS];
    memcpy(tokens, fixture.tokens, sizeof tokens);
    tokens[99] = fixture.tokens[ROWS - 1];
    struct mr_batch_sequence sequences[] = {
        {.row_begin = 0,
         .row_count = 60,
         .context_tokens = 0,
         .blocks = fixture.blocks[1],
         .logit_rows = 1},
        {.row_begin = 60, .row_count = 39, .context_tokens = 60, .blocks = fixture.blocks[1]},
        {.row_begin = 99,
         .row_count = 1,
         .context_tokens = ROWS - 1,
         .blocks = fixture.blocks[0],
         .logit_rows = 1}};
    struct mr_batch batch = {tokens, 100, sequences, 3};
    run_step(fixture.decoder, &batch);
    assert_memory_equal(mr_decoder_logits(fixture.decoder, 1, NULL), alone, sizeof alone);
    expect_assert_failure(mr_decoder_logits(fixture.decoder, 2, NULL));
    close_fixture(&fixture);
}

/* The logits of the last rows of a chunk equal those of the same row as the last one of a step.
 */
static void rows_with_logits_do_not_depend_on_each_other(void **state)
{
    (void)state;
    for (int bf16 = 0; bf16 < 2; bf16++) {
        struct fixture fixture;
        float alone[SEQUENCES][TINY_VOCAB];
        open_fixture(&fixture, bf16 == 1);
        struct mr_batch_sequence sequence = {.row_begin = 0,
                                             .row_count = ROWS - SEQUENCES,
                                             .context_tokens = 0,
                                             .blocks = fixture.blocks[0]};
        struct mr_batch batch = {fixture.tokens, ROWS - SEQUENCES, &sequence, 1};
        run_step(fixture.decoder, &batch);
        for (uint32_t i = 0; i < SEQUENCES; i++) {
            const uint32_t at = ROWS - SEQUENCES + i;
            sequence = (struct mr_batch_sequence){.row_begin = 0,
                                                  .row_count = 1,
                                                  .context_tokens = at,
                                                  .blocks = fixture.blocks[0],
                                                  .logit_rows = 1};
            batch = (struct mr_batch){fixture.tokens + at, 1, &sequence, 1};
            run_step(fixture.decoder, &batch);
            memcpy(alone[i], mr_decoder_logits(fixture.decoder, 0, NULL), sizeof alone[i]);
        }
        const uint32_t before = ROWS - SEQUENCES - 3;
        sequence = (struct mr_batch_sequence){.row_begin = 0,
                                              .row_count = ROWS - before,
                                              .context_tokens = before,
                                              .blocks = fixture.blocks[0],
                                              .logit_rows = SEQUENCES};
        batch = (struct mr_batch){fixture.tokens + before, ROWS - before, &sequence, 1};
        run_step(fixture.decoder, &batch);
        for (uint32_t i = 0; i < SEQUENCES; i++)
            assert_memory_equal(mr_decoder_logits(fixture.decoder, i, NULL), alone[i],
                                sizeof alone[i]);
        sequence.logit_rows = SEQUENCES + 1; /* more than the step has room for */
        expect_assert_failure(mr_decoder_launch(fixture.decoder, &batch, NULL));
        close_fixture(&fixture);
    }
}

static void a_batch_outside_the_limits_is_misuse(void **state)
{
    (void)state;
    struct fixture fixture;
    open_fixture(&fixture, false);
    struct mr_batch_sequence sequence = {.row_begin = 0,
                                         .row_count = 1,
                                         .context_tokens = 0,
                                         .blocks = fixture.blocks[0],
                                         .logit_rows = 1};
    struct mr_batch batch = {fixture.tokens, 1, &sequence, 1};
    batch.row_count = 2; /* a row that belongs to no sequence */
    expect_assert_failure(mr_decoder_launch(fixture.decoder, &batch, NULL));
    batch.row_count = 1;
    sequence.context_tokens = ROWS; /* past the end of the rope table */
    expect_assert_failure(mr_decoder_launch(fixture.decoder, &batch, NULL));
    sequence.context_tokens = 0;
    uint32_t outside = BLOCKS;
    sequence.blocks = &outside;
    expect_assert_failure(mr_decoder_launch(fixture.decoder, &batch, NULL));
    batch.row_count = ROWS + 1;
    expect_assert_failure(mr_decoder_launch(fixture.decoder, &batch, NULL));
    assert_true(mr_decoder_bytes(fixture.decoder) > ROWS * TINY_HIDDEN * sizeof(float));
    close_fixture(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_chunk_size_of_a_prompt_changes_nothing),
        cmocka_unit_test(other_sequences_in_the_step_change_nothing),
        cmocka_unit_test(rows_with_logits_do_not_depend_on_each_other),
        cmocka_unit_test(a_batch_outside_the_limits_is_misuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
