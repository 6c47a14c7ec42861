#include "ops/decoder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tiny_weights.h"

enum { ROWS = 300, SEQUENCES = 8, BLOCKS = 40 };
#define BLOCKS_OF_PROMPT ((ROWS + MR_BLOCK_TOKENS - 1) / MR_BLOCK_TOKENS)

struct bench {
    struct tiny tiny;
    struct mr_weights weights;
    struct mr_rope_table rope;
    struct mr_kv_groups kv;
    struct mr_decoder *decoder;
    uint32_t tokens[ROWS];
    uint32_t blocks[2][BLOCKS_OF_PROMPT]; /* of two sequences */
};

static void open_bench(struct bench *bench, bool bf16)
{
    tiny_open(&bench->tiny);
    assert_int_equal(mr_tensor_table_sort(&bench->tiny.tensors, NULL), MR_OK);
    const struct mr_model_config *c = &bench->tiny.config;
    struct mr_weights_spec weights = {.config = c, .tensors = &bench->tiny.tensors, .bf16 = bf16};
    assert_int_equal(mr_weights_load(&bench->weights, &weights, NULL), MR_OK);
    assert_int_equal(mr_rope_table_create(&bench->rope, &c->rope, NULL, ROWS, NULL), MR_OK);
    const size_t block_bytes =
        (size_t)c->layer_count * c->kv_head_count * c->head_dim * MR_BLOCK_TOKENS * (bf16 ? 4 : 8);
    assert_int_equal(mr_kv_groups_create(&bench->kv, c, bf16, ROWS, BLOCKS * block_bytes, NULL),
                     MR_OK);
    assert_int_equal(bench->kv.block_count, BLOCKS);
    struct mr_decoder_spec spec = {.config = c,
                                   .weights = &bench->weights,
                                   .rope = &bench->rope,
                                   .kv = &bench->kv,
                                   .bf16 = bf16,
                                   .rows_max = ROWS,
                                   .sequences_max = SEQUENCES};
    assert_int_equal(mr_decoder_create(&bench->decoder, &spec, NULL), MR_OK);
    for (uint32_t i = 0; i < ROWS; i++)
        bench->tokens[i] = (i * 7 + i / 3) % TINY_VOCAB;
    for (uint32_t i = 0; i < BLOCKS_OF_PROMPT; i++) {
        bench->blocks[0][i] = 2 * i + 1;
        bench->blocks[1][i] = 2 * i;
    }
}

static void close_bench(struct bench *bench)
{
    mr_decoder_destroy(bench->decoder);
    mr_kv_groups_destroy(&bench->kv);
    mr_rope_table_destroy(&bench->rope);
    mr_weights_destroy(&bench->weights);
    tiny_close(&bench->tiny);
}

/* The prompt in chunks; its last logits into out. */
static void run_chunks(struct bench *bench, uint32_t chunk, float *out)
{
    for (uint32_t begin = 0; begin < ROWS; begin += chunk) {
        uint32_t count = ROWS - begin < chunk ? ROWS - begin : chunk;
        struct mr_batch_sequence sequence = {.row_count = count,
                                             .context_tokens = begin,
                                             .blocks = bench->blocks[0],
                                             .wants_logits = begin + count == ROWS};
        struct mr_batch batch = {bench->tokens + begin, count, &sequence, 1};
        mr_decoder_forward(bench->decoder, &batch);
        expect_assert_failure(
            mr_decoder_logits(bench->decoder, sequence.wants_logits ? 1 : 0)); /* no more rows */
    }
    memcpy(out, mr_decoder_logits(bench->decoder, 0), TINY_VOCAB * sizeof(float));
}

/* bit for bit: the kernels sum in one order however the prompt is cut */
static void the_cut_of_a_prompt_changes_nothing(void **state)
{
    (void)state;
    static const uint32_t chunks[] = {1, 7, 255, 256, 257};
    for (int bf16 = 0; bf16 < 2; bf16++) {
        struct bench bench;
        float whole[TINY_VOCAB], cut[TINY_VOCAB];
        open_bench(&bench, bf16 == 1);
        run_chunks(&bench, ROWS, whole);
        for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
            run_chunks(&bench, chunks[i], cut);
            assert_memory_equal(cut, whole, sizeof whole);
        }
        close_bench(&bench);
    }
}

static void company_in_the_step_changes_nothing(void **state)
{
    (void)state;
    struct bench bench;
    float alone[TINY_VOCAB];
    open_bench(&bench, true);
    run_chunks(&bench, ROWS, alone);
    run_chunks(&bench, ROWS - 1, (float[TINY_VOCAB]){0});
    /* the last token again, behind a chunk of another sequence that wants logits too and one that
     * does not */
    uint32_t tokens[ROWS];
    memcpy(tokens, bench.tokens, sizeof tokens);
    tokens[99] = bench.tokens[ROWS - 1];
    struct mr_batch_sequence sequences[] = {{0, 60, 0, bench.blocks[1], true, NULL},
                                            {60, 39, 60, bench.blocks[1], false, NULL},
                                            {99, 1, ROWS - 1, bench.blocks[0], true, NULL}};
    struct mr_batch batch = {tokens, 100, sequences, 3};
    mr_decoder_forward(bench.decoder, &batch);
    assert_memory_equal(mr_decoder_logits(bench.decoder, 1), alone, sizeof alone);
    expect_assert_failure(mr_decoder_logits(bench.decoder, 2));
    close_bench(&bench);
}

static void an_impossible_batch_is_misuse(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, false);
    struct mr_batch_sequence sequence = {0, 1, 0, bench.blocks[0], true, NULL};
    struct mr_batch batch = {bench.tokens, 1, &sequence, 1};
    batch.row_count = 2; /* a row of nobody */
    expect_assert_failure(mr_decoder_forward(bench.decoder, &batch));
    batch.row_count = 1;
    sequence.context_tokens = ROWS; /* behind the rope table */
    expect_assert_failure(mr_decoder_forward(bench.decoder, &batch));
    sequence.context_tokens = 0;
    uint32_t outside = BLOCKS;
    sequence.blocks = &outside;
    expect_assert_failure(mr_decoder_forward(bench.decoder, &batch));
    batch.row_count = ROWS + 1;
    expect_assert_failure(mr_decoder_forward(bench.decoder, &batch));
    assert_true(mr_decoder_bytes(bench.decoder) > ROWS * TINY_HIDDEN * sizeof(float));
    close_bench(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cut_of_a_prompt_changes_nothing),
        cmocka_unit_test(company_in_the_step_changes_nothing),
        cmocka_unit_test(an_impossible_batch_is_misuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
