/* Attention and the writing of keys and values against a plain computation in double, and the
 * promise that a row's bits do not depend on how its sequence was cut or batched. */
#include "ops/cpu/kernels.h"
#include "ops/cpu/parallel.h"
#include "tests/unit/ops/numbers.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

struct shape {
    uint32_t heads, kv_heads, dim;
    uint32_t window;
    float softcap;
    float gain; /* of all numbers; 0: 2 */
    bool bf16;
    enum mr_cpu_level level;
};

/* One sequence of `tokens` tokens with its own pool; layer 1 of 2, blocks in mixed order. */
struct scene {
    struct shape shape;
    struct mr_cpu_kv *kv;
    uint32_t tokens, width; /* width of a row of qkv */
    uint32_t *blocks;
    float *qkv;
    void *out;
};

static uint32_t blocks_for(uint32_t tokens)
{
    return (tokens + MR_BLOCK_TOKENS - 1) / MR_BLOCK_TOKENS;
}

static struct mr_cpu_kv *pool_make(const struct shape *shape, uint32_t block_count)
{
    struct mr_cpu_kv *kv;
    struct mr_error err;
    const struct mr_cpu_kv_spec spec = {.layer_count = 2,
                                        .kv_head_count = shape->kv_heads,
                                        .head_dim = shape->dim,
                                        .block_count = block_count,
                                        .bf16 = shape->bf16,
                                        .level = shape->level};
    assert_int_equal(mr_cpu_kv_create(&kv, &spec, &err), MR_OK);
    return kv;
}

static struct scene scene_make(const struct shape *shape, uint32_t tokens)
{
    struct scene scene = {.shape = *shape, .tokens = tokens};
    if (!(shape->gain > 0.0f)) scene.shape.gain = 2.0f;
    const uint32_t blocks = blocks_for(tokens);
    uint64_t seed = 5;
    scene.width = (shape->heads + 2 * shape->kv_heads) * shape->dim;
    scene.kv = pool_make(shape, blocks + 3);
    scene.blocks = malloc(blocks * sizeof *scene.blocks);
    for (uint32_t i = 0; i < blocks; i++)
        scene.blocks[i] = blocks + 1 - i;
    scene.qkv = malloc((size_t)tokens * scene.width * sizeof *scene.qkv);
    for (size_t i = 0; i < (size_t)tokens * scene.width; i++)
        scene.qkv[i] = number_from_bf16(number_to_bf16(scene.shape.gain * number_next(&seed)));
    scene.out = calloc((size_t)tokens * shape->heads * shape->dim, sizeof(float));
    return scene;
}

static void scene_drop(struct scene *scene)
{
    mr_cpu_kv_destroy(scene->kv);
    free(scene->blocks);
    free(scene->qkv);
    free(scene->out);
}

static struct mr_cpu_attention_args scene_args(const struct scene *scene)
{
    return (struct mr_cpu_attention_args){.layer = 1,
                                          .head_count = scene->shape.heads,
                                          .window = scene->shape.window,
                                          .scale = 0.3f,
                                          .softcap = scene->shape.softcap};
}

static size_t out_bytes(const struct scene *scene)
{
    return (size_t)scene->shape.heads * scene->shape.dim * (scene->shape.bf16 ? 2 : 4);
}

/* Tokens [from, to) as one chunk. */
static void scene_step(struct scene *scene, uint32_t from, uint32_t to)
{
    const struct mr_cpu_attention_sequence sequence = {
        .row_count = to - from, .context_tokens = from, .blocks = scene->blocks};
    struct mr_cpu_attention_args args = scene_args(scene);
    args.sequences = &sequence;
    args.sequence_count = 1;
    const struct mr_cpu_rope_args rope = {0};
    float *qkv = scene->qkv + (size_t)from * scene->width;
    mr_cpu_rope_write(scene->kv, &args, &rope, qkv);
    mr_cpu_attention(scene->kv, &args, qkv, (unsigned char *)scene->out + from * out_bytes(scene));
}

static void scene_run(struct scene *scene, uint32_t chunk)
{
    for (uint32_t from = 0; from < scene->tokens; from += chunk)
        scene_step(scene, from, scene->tokens - from < chunk ? scene->tokens : from + chunk);
}

static double score(const struct scene *scene, const float *q, uint32_t key, uint32_t kv_head)
{
    const struct shape *shape = &scene->shape;
    const float *k =
        scene->qkv + (size_t)key * scene->width + (size_t)(shape->heads + kv_head) * shape->dim;
    double sum = 0.0;
    for (uint32_t d = 0; d < shape->dim; d++)
        sum += (double)q[d] * (double)k[d];
    sum *= 0.3f;
    return shape->softcap > 0.0f ? (double)shape->softcap * tanh(sum / (double)shape->softcap)
                                 : sum;
}

static void check_head(const struct scene *scene, uint32_t row, uint32_t head)
{
    const struct shape *shape = &scene->shape;
    const uint32_t kv_head = head / (shape->heads / shape->kv_heads);
    const float *q = scene->qkv + (size_t)row * scene->width + (size_t)head * shape->dim;
    const uint32_t first = shape->window > 0 && row >= shape->window ? row - shape->window + 1 : 0;
    double top = -1e30, total = 0.0;
    double *want = calloc(shape->dim, sizeof *want);
    for (uint32_t key = first; key <= row; key++)
        top = fmax(top, score(scene, q, key, kv_head));
    for (uint32_t key = first; key <= row; key++) {
        const double weight = exp(score(scene, q, key, kv_head) - top);
        const float *v = scene->qkv + (size_t)key * scene->width +
                         (size_t)(shape->heads + shape->kv_heads + kv_head) * shape->dim;
        total += weight;
        for (uint32_t d = 0; d < shape->dim; d++)
            want[d] += weight * (double)v[d];
    }
    for (uint32_t d = 0; d < shape->dim; d++) {
        const size_t at = ((size_t)row * shape->heads + head) * shape->dim + d;
        const double got = (double)number_at(scene->out, at, shape->bf16);
        const double off = fabs(want[d] / total - got);
        const double gain = (double)shape->gain; /* scores grow with its square */
        if (!(off <= (shape->bf16 ? 0.01 * gain : 2.5e-6 * gain * gain)))
            fail_msg("row %u head %u dim %u: %g, want %g", row, head, d, got, want[d] / total);
    }
    free(want);
}

static void scene_check(const struct scene *scene, uint32_t step)
{
    for (uint32_t row = 0; row < scene->tokens; row += step)
        for (uint32_t head = 0; head < scene->shape.heads; head++)
            check_head(scene, row, head);
    for (uint32_t head = 0; head < scene->shape.heads; head++)
        check_head(scene, scene->tokens - 1, head);
}

static void every_level_matches_the_definition(void **state)
{
    (void)state;
    static const struct shape shapes[] = {
        {.heads = 9, .kv_heads = 3, .dim = 64},
        {.heads = 4, .kv_heads = 4, .dim = 16},
        {.heads = 8, .kv_heads = 1, .dim = 80},
        {.heads = 2, .kv_heads = 1, .dim = 128},
        {.heads = 2, .kv_heads = 1, .dim = 96},
        {.heads = 9, .kv_heads = 3, .dim = 64, .gain = 12.0f}, /* scores of hundreds */
        {.heads = 9, .kv_heads = 3, .dim = 64, .gain = 1e4f},  /* of 10^9 */
        {.heads = 4, .kv_heads = 2, .dim = 32, .window = 70},
        {.heads = 4, .kv_heads = 2, .dim = 32, .softcap = 3.0f},
    };
    for (int level = MR_CPU_SCALAR; level <= MR_CPU_AMX; level++)
        for (int bf16 = 0; bf16 < 2; bf16++)
            for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
                struct shape shape = shapes[s];
                shape.level = (enum mr_cpu_level)level;
                shape.bf16 = bf16 != 0;
                struct scene scene = scene_make(&shape, MR_BLOCK_TOKENS + 37);
                scene_run(&scene, 100);
                scene_check(&scene, 41);
                scene_drop(&scene);
            }
}

/* Decode, chunks of every awkward size and the whole prompt at once. */
static void check_chunks(const struct shape *shape)
{
    static const uint32_t chunks[] = {1, 7, 16, 255, 256, 257};
    const uint32_t tokens = shape->level == MR_CPU_SCALAR ? 270 : 530; /* scalar is slow */
    struct scene whole = scene_make(shape, tokens);
    scene_run(&whole, tokens);
    for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++) {
        struct scene cut = scene_make(shape, tokens);
        scene_run(&cut, chunks[c]);
        assert_memory_equal(cut.out, whole.out, tokens * out_bytes(&whole));
        scene_drop(&cut);
    }
    scene_drop(&whole);
}

static void a_row_has_the_same_bits_in_every_chunking(void **state)
{
    (void)state;
    for (int level = MR_CPU_SCALAR; level <= MR_CPU_AMX; level++)
        for (int bf16 = 0; bf16 < 2; bf16++) {
            struct shape shape = {.heads = 9,
                                  .kv_heads = 3,
                                  .dim = 64,
                                  .bf16 = bf16 != 0,
                                  .level = (enum mr_cpu_level)level};
            check_chunks(&shape);
            if (level == MR_CPU_SCALAR) continue;
            shape.window = 200;
            check_chunks(&shape);
            shape.window = 0;
            shape.gain = 12.0f;
            check_chunks(&shape);
        }
}

/* 12 sequences of different lengths in one step, prompts and single rows mixed, against each alone
 * with one thread. */
static void a_row_has_the_same_bits_in_every_batch(void **state)
{
    (void)state;
    enum { COUNT = 12 };
    const struct shape shape = {.heads = 6, .kv_heads = 2, .dim = 64, .bf16 = true};
    struct mr_cpu_attention_sequence sequences[COUNT];
    struct scene scenes[COUNT];
    struct mr_error err;
    uint32_t rows = 0, ids = 0;
    assert_int_equal(mr_parallel_set_thread_count(1, &err), MR_OK);
    for (uint32_t s = 0; s < COUNT; s++) {
        scenes[s] = scene_make(&shape, 1 + s * 97);
        scene_run(&scenes[s], 1 + s * 97);
    }
    assert_int_equal(mr_parallel_set_thread_count(2, &err), MR_OK);
    for (uint32_t s = 0; s < COUNT; s++) {
        const uint32_t count = s % 3 == 0 ? 1 + s * 40 : 1;
        sequences[s] = (struct mr_cpu_attention_sequence){
            .row_begin = rows, .row_count = count, .context_tokens = 1 + s * 97 - count};
        rows += count;
        ids += blocks_for(scenes[s].tokens);
    }
    struct mr_cpu_kv *kv = pool_make(&shape, ids);
    const uint32_t width = scenes[0].width;
    float *qkv = malloc((size_t)rows * width * sizeof *qkv);
    unsigned char *out = malloc(rows * out_bytes(&scenes[0]));
    unsigned char *moved = malloc(mr_cpu_kv_export_bytes(kv, MR_BLOCK_TOKENS));
    uint32_t *blocks = malloc(ids * sizeof *blocks), next = 0;
    for (uint32_t s = 0; s < COUNT; s++) {
        sequences[s].blocks = blocks + next;
        for (uint32_t b = 0; b < blocks_for(scenes[s].tokens); b++, next++) {
            const uint32_t left = scenes[s].tokens - b * MR_BLOCK_TOKENS;
            const uint32_t tokens = left < MR_BLOCK_TOKENS ? left : MR_BLOCK_TOKENS;
            blocks[next] = next;
            mr_cpu_kv_export(scenes[s].kv, scenes[s].blocks[b], 0, tokens, moved);
            mr_cpu_kv_import(kv, next, 0, tokens, moved);
        }
        memcpy(qkv + (size_t)sequences[s].row_begin * width,
               scenes[s].qkv + (size_t)sequences[s].context_tokens * width,
               (size_t)sequences[s].row_count * width * sizeof *qkv);
    }
    struct mr_cpu_attention_args args = scene_args(&scenes[0]);
    args.sequences = sequences;
    for (args.sequence_count = 1; args.sequence_count <= COUNT; args.sequence_count++) {
        memset(out, 0, rows * out_bytes(&scenes[0]));
        mr_cpu_attention(kv, &args, qkv, out);
        for (uint32_t s = 0; s < args.sequence_count; s++)
            assert_memory_equal(out + sequences[s].row_begin * out_bytes(&scenes[0]),
                                (unsigned char *)scenes[s].out +
                                    sequences[s].context_tokens * out_bytes(&scenes[0]),
                                sequences[s].row_count * out_bytes(&scenes[0]));
    }
    assert_int_equal(mr_parallel_set_thread_count(1, &err), MR_OK);
    for (uint32_t s = 0; s < COUNT; s++)
        scene_drop(&scenes[s]);
    mr_cpu_kv_destroy(kv);
    free(qkv);
    free(out);
    free(moved);
    free(blocks);
}

/* A pool full of NaN stands for whatever another request left. */
static void what_another_request_left_is_never_read(void **state)
{
    (void)state;
    for (int bf16 = 0; bf16 < 2; bf16++) {
        const struct shape shape = {.heads = 3, .kv_heads = 1, .dim = 64, .bf16 = bf16 != 0};
        struct scene scene = scene_make(&shape, MR_BLOCK_TOKENS + 5);
        const size_t bytes = mr_cpu_kv_export_bytes(scene.kv, MR_BLOCK_TOKENS);
        void *nan = malloc(bytes);
        memset(nan, 0xff, bytes);
        for (uint32_t block = 0; block < blocks_for(scene.tokens) + 3; block++)
            mr_cpu_kv_import(scene.kv, block, 0, MR_BLOCK_TOKENS, nan);
        scene_run(&scene, 3);
        scene_check(&scene, 1);
        free(nan);
        scene_drop(&scene);
    }
}

/* Keys of the next block, in which the first rows of a tile see nothing, may be of any size. */
static void later_tokens_change_nothing(void **state)
{
    (void)state;
    for (int bf16 = 0; bf16 < 2; bf16++) {
        const struct shape shape = {.heads = 9, .kv_heads = 3, .dim = 64, .bf16 = bf16 != 0};
        struct scene a = scene_make(&shape, MR_BLOCK_TOKENS + 20);
        struct scene b = scene_make(&shape, MR_BLOCK_TOKENS + 20);
        for (size_t i = (size_t)MR_BLOCK_TOKENS * b.width; i < (size_t)b.tokens * b.width; i++)
            b.qkv[i] *= 1000.0f;
        scene_step(&a, 0, 10); /* so that a tile has rows of both blocks */
        scene_step(&b, 0, 10);
        scene_step(&a, 10, a.tokens);
        scene_step(&b, 10, b.tokens);
        assert_memory_equal(a.out, b.out, MR_BLOCK_TOKENS * out_bytes(&a));
        scene_drop(&a);
        scene_drop(&b);
    }
}

static void misuse_is_caught(void **state)
{
    (void)state;
    const struct shape shape = {.heads = 3, .kv_heads = 1, .dim = 64};
    struct scene scene = scene_make(&shape, 4);
    scene_run(&scene, 4);
    const struct mr_cpu_attention_sequence sequence = {.row_count = 4, .blocks = scene.blocks};
    struct mr_cpu_attention_args args = scene_args(&scene);
    args.sequences = &sequence;
    args.sequence_count = 1;
    args.layer = 2;
    expect_assert_failure(mr_cpu_attention(scene.kv, &args, scene.qkv, scene.out));
    const struct mr_cpu_rope_args rope = {0};
    expect_assert_failure(mr_cpu_rope_write(scene.kv, &args, &rope, scene.qkv));
    scene_drop(&scene);
}

int main(void)
{
    /* One thread where nothing is said about threads: a thousand short regions would only wait. */
    struct mr_error err;
    if (mr_parallel_set_thread_count(1, &err) != MR_OK) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_level_matches_the_definition),
        cmocka_unit_test(a_row_has_the_same_bits_in_every_chunking),
        cmocka_unit_test(a_row_has_the_same_bits_in_every_batch),
        cmocka_unit_test(what_another_request_left_is_never_read),
        cmocka_unit_test(later_tokens_change_nothing),
        cmocka_unit_test(misuse_is_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
