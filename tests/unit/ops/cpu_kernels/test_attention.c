/* Compares attention, with keys and values written by mr_cpu_rope_write, to a computation in
 * double; and checks that the bits of a row do not depend on chunks or batch. */
#include "ops/cpu_kernels/kv_kernels.h"
#include "ops/cpu_kernels/parallel.h"
#include "tests/unit/ops/levels.h"
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
    float gain; /* range of all numbers; 0 means 2 */
    bool sinks, bf16, int8;
    enum mr_cpu_level level;
};

/* From a sink with a negligible weight to one with nearly all weight. */
static const float sinks[9] = {-4.0f, 0.5f, 3.0f, 30.0f, 1.0f, -100.0f, 2.0f, 0.0f, 5.0f};

/* One sequence with its own pool. It uses layer 1 of 2, and its blocks are not in order. */
struct fixture {
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

static struct mr_cpu_kv *pool_create(const struct shape *shape, uint32_t block_count)
{
    struct mr_cpu_kv *kv;
    struct mr_error err;
    const struct mr_cpu_kv_spec spec = {.layer_count = 2,
                                        .kv_head_count = shape->kv_heads,
                                        .head_dim = shape->dim,
                                        .block_count = block_count,
                                        .bf16 = shape->bf16,
                                        .int8 = shape->int8,
                                        .level = shape->level};
    assert_int_equal(mr_cpu_kv_create(&kv, &spec, &err), MR_OK);
    return kv;
}

/* Replaces all numbers by numbers that int8 stores exactly: integers up to 127, with one 127 in
 * each head, times a power of two that differs between tokens. */
static void make_exact_in_int8(struct fixture *fixture)
{
    for (uint32_t i = 0; i < fixture->tokens * fixture->width; i++) {
        const float scale =
            ldexpf(1.0f, ilogbf(fixture->shape.gain) - 7 - (int)(i / fixture->width % 4));
        const float integer = rintf(fixture->qkv[i] / fixture->shape.gain * 127.0f);
        fixture->qkv[i] = scale * (i % fixture->shape.dim == 0 ? 127.0f : integer);
    }
}

static struct fixture fixture_create(const struct shape *shape, uint32_t tokens)
{
    struct fixture fixture = {.shape = *shape, .tokens = tokens};
    if (!(shape->gain > 0.0f)) fixture.shape.gain = 2.0f;
    const uint32_t blocks = blocks_for(tokens);
    uint64_t seed = 5;
    fixture.width = (shape->heads + 2 * shape->kv_heads) * shape->dim;
    fixture.kv = pool_create(shape, blocks + 3);
    fixture.blocks = malloc(blocks * sizeof *fixture.blocks);
    for (uint32_t i = 0; i < blocks; i++)
        fixture.blocks[i] = blocks + 1 - i;
    fixture.qkv = malloc((size_t)tokens * fixture.width * sizeof *fixture.qkv);
    for (size_t i = 0; i < (size_t)tokens * fixture.width; i++)
        fixture.qkv[i] = number_from_bf16(number_to_bf16(fixture.shape.gain * number_next(&seed)));
    if (shape->int8) make_exact_in_int8(&fixture);
    fixture.out = calloc((size_t)tokens * shape->heads * shape->dim, sizeof(float));
    return fixture;
}

static void fixture_destroy(struct fixture *fixture)
{
    mr_cpu_kv_destroy(fixture->kv);
    free(fixture->blocks);
    free(fixture->qkv);
    free(fixture->out);
}

static struct mr_cpu_attention_args fixture_args(const struct fixture *fixture)
{
    return (struct mr_cpu_attention_args){.layer = 1,
                                          .head_count = fixture->shape.heads,
                                          .window = fixture->shape.window,
                                          .scale = 0.3f,
                                          .softcap = fixture->shape.softcap,
                                          .sinks = fixture->shape.sinks ? sinks : NULL};
}

static size_t out_bytes(const struct fixture *fixture)
{
    return (size_t)fixture->shape.heads * fixture->shape.dim * (fixture->shape.bf16 ? 2 : 4);
}

/* Computes tokens [from, to) as one chunk. */
static void fixture_step(struct fixture *fixture, uint32_t from, uint32_t to)
{
    const struct mr_cpu_attention_sequence sequence = {
        .row_count = to - from, .context_tokens = from, .blocks = fixture->blocks};
    struct mr_cpu_attention_args args = fixture_args(fixture);
    args.sequences = &sequence;
    args.sequence_count = 1;
    const struct mr_cpu_rope_args rope = {0};
    float *qkv = fixture->qkv + (size_t)from * fixture->width;
    mr_cpu_rope_write(fixture->kv, &args, &rope, qkv);
    mr_cpu_attention(fixture->kv, &args, qkv,
                     (unsigned char *)fixture->out + from * out_bytes(fixture));
}

static void fixture_run(struct fixture *fixture, uint32_t chunk)
{
    for (uint32_t from = 0; from < fixture->tokens; from += chunk)
        fixture_step(fixture, from,
                     fixture->tokens - from < chunk ? fixture->tokens : from + chunk);
}

static double score(const struct fixture *fixture, const float *q, uint32_t key, uint32_t kv_head)
{
    const struct shape *shape = &fixture->shape;
    const float *k =
        fixture->qkv + (size_t)key * fixture->width + (size_t)(shape->heads + kv_head) * shape->dim;
    double sum = 0.0;
    for (uint32_t d = 0; d < shape->dim; d++)
        sum += (double)q[d] * (double)k[d];
    sum *= 0.3f;
    return shape->softcap > 0.0f ? (double)shape->softcap * tanh(sum / (double)shape->softcap)
                                 : sum;
}

static void check_head(const struct fixture *fixture, uint32_t row, uint32_t head)
{
    const struct shape *shape = &fixture->shape;
    const uint32_t kv_head = head / (shape->heads / shape->kv_heads);
    const float *q = fixture->qkv + (size_t)row * fixture->width + (size_t)head * shape->dim;
    const uint32_t first = shape->window > 0 && row >= shape->window ? row - shape->window + 1 : 0;
    double top = shape->sinks ? (double)sinks[head] : -1e30, total = 0.0;
    double *want = calloc(shape->dim, sizeof *want);
    for (uint32_t key = first; key <= row; key++)
        top = fmax(top, score(fixture, q, key, kv_head));
    if (shape->sinks) total = exp((double)sinks[head] - top);
    for (uint32_t key = first; key <= row; key++) {
        const double weight = exp(score(fixture, q, key, kv_head) - top);
        const float *v = fixture->qkv + (size_t)key * fixture->width +
                         (size_t)(shape->heads + shape->kv_heads + kv_head) * shape->dim;
        total += weight;
        for (uint32_t d = 0; d < shape->dim; d++)
            want[d] += weight * (double)v[d];
    }
    for (uint32_t d = 0; d < shape->dim; d++) {
        const size_t at = ((size_t)row * shape->heads + head) * shape->dim + d;
        const double got = (double)number_at(fixture->out, at, shape->bf16);
        const double off = fabs(want[d] / total - got);
        const double gain = (double)shape->gain; /* scores grow with its square */
        if (!(off <= (shape->bf16 ? 0.01 * gain : 2.5e-6 * gain * gain)))
            fail_msg("row %u head %u dim %u: %g, want %g", row, head, d, got, want[d] / total);
    }
    free(want);
}

static void fixture_check(const struct fixture *fixture, uint32_t step)
{
    for (uint32_t row = 0; row < fixture->tokens; row += step)
        for (uint32_t head = 0; head < fixture->shape.heads; head++)
            check_head(fixture, row, head);
    for (uint32_t head = 0; head < fixture->shape.heads; head++)
        check_head(fixture, fixture->tokens - 1, head);
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
        {.heads = 9, .kv_heads = 3, .dim = 64, .gain = 12.0f}, /* scores up to hundreds */
        {.heads = 9, .kv_heads = 3, .dim = 64, .gain = 1e4f},  /* scores up to 10^9 */
        {.heads = 4, .kv_heads = 2, .dim = 32, .window = 70},
        {.heads = 4, .kv_heads = 2, .dim = 32, .softcap = 3.0f},
        {.heads = 9, .kv_heads = 3, .dim = 64, .sinks = true},
        {.heads = 9, .kv_heads = 3, .dim = 64, .sinks = true, .gain = 12.0f},
        {.heads = 9, .kv_heads = 3, .dim = 64, .sinks = true, .gain = 1e4f},
        {.heads = 8, .kv_heads = 1, .dim = 80, .sinks = true, .window = 70},
        {.heads = 4, .kv_heads = 2, .dim = 32, .sinks = true, .window = 20, .softcap = 3.0f},
    };
    EACH_LEVEL (level)
        for (int bf16 = 0; bf16 < 2; bf16++)
            for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
                struct shape shape = shapes[s];
                shape.level = level;
                shape.bf16 = bf16 != 0;
                for (int int8 = 0; int8 < 2; int8++) {
                    shape.int8 = int8 != 0;
                    struct fixture fixture = fixture_create(&shape, MR_BLOCK_TOKENS + 37);
                    fixture_run(&fixture, 100);
                    fixture_check(&fixture, 41);
                    fixture_destroy(&fixture);
                }
            }
}

/* Compares decode steps, chunks of several sizes and the whole prompt at once. */
static void check_chunks(const struct shape *shape)
{
    static const uint32_t chunks[] = {1, 7, 16, 255, 256, 257};
#if defined(__SANITIZE_ADDRESS__)
    const bool slow = true;
#else
    const bool slow = shape->level == MR_CPU_SCALAR;
#endif
    const uint32_t tokens = slow ? 270 : 530;
    struct fixture whole = fixture_create(shape, tokens);
    fixture_run(&whole, tokens);
    for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++) {
        struct fixture cut = fixture_create(shape, tokens);
        fixture_run(&cut, chunks[c]);
        assert_memory_equal(cut.out, whole.out, tokens * out_bytes(&whole));
        fixture_destroy(&cut);
    }
    fixture_destroy(&whole);
}

static void a_row_has_the_same_bits_in_every_chunking(void **state)
{
    (void)state;
    EACH_LEVEL (level)
        for (int bf16 = 0; bf16 < 2; bf16++) {
            struct shape shape = {
                .heads = 9, .kv_heads = 3, .dim = 64, .bf16 = bf16 != 0, .level = level};
            check_chunks(&shape);
            shape.int8 = true;
            check_chunks(&shape);
            shape.int8 = false;
            if (level == MR_CPU_SCALAR) continue;
            shape.window = 200;
            check_chunks(&shape);
            shape.sinks = true;
            shape.softcap = 10.0f;
            check_chunks(&shape);
            shape.window = 0;
            shape.softcap = 0.0f;
            shape.gain = 12.0f;
            check_chunks(&shape);
            shape.int8 = true;
            shape.window = 200;
            shape.softcap = 10.0f;
            check_chunks(&shape);
        }
}

/* Computes 12 sequences of different lengths in one step, prompts and single rows mixed, and
 * compares each with the sequence computed alone by one thread. */
static void check_batch(const struct shape *shape)
{
    enum { COUNT = 12 };
    struct mr_cpu_attention_sequence sequences[COUNT];
    struct fixture fixtures[COUNT];
    struct mr_error err;
    uint32_t rows = 0, ids = 0;
    assert_int_equal(mr_parallel_set_thread_count(1, &err), MR_OK);
    for (uint32_t s = 0; s < COUNT; s++) {
        fixtures[s] = fixture_create(shape, 1 + s * 97);
        fixture_run(&fixtures[s], 1 + s * 97);
    }
    assert_int_equal(mr_parallel_set_thread_count(2, &err), MR_OK);
    for (uint32_t s = 0; s < COUNT; s++) {
        const uint32_t count = s % 3 == 0 ? 1 + s * 40 : 1;
        sequences[s] = (struct mr_cpu_attention_sequence){
            .row_begin = rows, .row_count = count, .context_tokens = 1 + s * 97 - count};
        rows += count;
        ids += blocks_for(fixtures[s].tokens);
    }
    struct mr_cpu_kv *kv = pool_create(shape, ids);
    const uint32_t width = fixtures[0].width;
    float *qkv = malloc((size_t)rows * width * sizeof *qkv);
    unsigned char *out = malloc(rows * out_bytes(&fixtures[0]));
    unsigned char *moved = malloc(mr_cpu_kv_export_bytes(kv, MR_BLOCK_TOKENS));
    uint32_t *blocks = malloc(ids * sizeof *blocks), next = 0;
    for (uint32_t s = 0; s < COUNT; s++) {
        sequences[s].blocks = blocks + next;
        for (uint32_t b = 0; b < blocks_for(fixtures[s].tokens); b++, next++) {
            const uint32_t left = fixtures[s].tokens - b * MR_BLOCK_TOKENS;
            const uint32_t tokens = left < MR_BLOCK_TOKENS ? left : MR_BLOCK_TOKENS;
            blocks[next] = next;
            mr_cpu_kv_export(fixtures[s].kv, fixtures[s].blocks[b], 0, tokens, moved);
            mr_cpu_kv_import(kv, next, 0, tokens, moved);
        }
        memcpy(qkv + (size_t)sequences[s].row_begin * width,
               fixtures[s].qkv + (size_t)sequences[s].context_tokens * width,
               (size_t)sequences[s].row_count * width * sizeof *qkv);
    }
    struct mr_cpu_attention_args args = fixture_args(&fixtures[0]);
    args.sequences = sequences;
    for (args.sequence_count = 1; args.sequence_count <= COUNT; args.sequence_count++) {
        memset(out, 0, rows * out_bytes(&fixtures[0]));
        mr_cpu_attention(kv, &args, qkv, out);
        for (uint32_t s = 0; s < args.sequence_count; s++)
            assert_memory_equal(out + sequences[s].row_begin * out_bytes(&fixtures[0]),
                                (unsigned char *)fixtures[s].out +
                                    sequences[s].context_tokens * out_bytes(&fixtures[0]),
                                sequences[s].row_count * out_bytes(&fixtures[0]));
    }
    assert_int_equal(mr_parallel_set_thread_count(1, &err), MR_OK);
    for (uint32_t s = 0; s < COUNT; s++)
        fixture_destroy(&fixtures[s]);
    mr_cpu_kv_destroy(kv);
    free(qkv);
    free(out);
    free(moved);
    free(blocks);
}

static void a_row_has_the_same_bits_in_every_batch(void **state)
{
    (void)state;
    struct shape shape = {.heads = 6, .kv_heads = 2, .dim = 64, .bf16 = true};
    check_batch(&shape);
    shape.sinks = true;
    shape.window = 300;
    check_batch(&shape);
    shape.softcap = 10.0f;
    check_batch(&shape);
    shape.int8 = true;
    check_batch(&shape);
}

/* The pool is filled with NaN, as leftovers of another request could be. */
static void values_left_by_another_request_are_never_read(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        const struct shape shape = {
            .heads = 3, .kv_heads = 1, .dim = 64, .bf16 = i % 2 == 1, .int8 = i >= 2};
        struct fixture fixture = fixture_create(&shape, MR_BLOCK_TOKENS + 5);
        const size_t bytes = mr_cpu_kv_export_bytes(fixture.kv, MR_BLOCK_TOKENS);
        void *nan = malloc(bytes);
        memset(nan, 0xff, bytes);
        for (uint32_t block = 0; block < blocks_for(fixture.tokens) + 3; block++)
            mr_cpu_kv_import(fixture.kv, block, 0, MR_BLOCK_TOKENS, nan);
        fixture_run(&fixture, 3);
        fixture_check(&fixture, 1);
        free(nan);
        fixture_destroy(&fixture);
    }
}

/* The first rows of a tile attend to no key of the next block; its keys may be very large. */
static void later_tokens_change_nothing(void **state)
{
    (void)state;
    for (int form = 0; form < 4; form++) {
        const struct shape shape = {
            .heads = 9, .kv_heads = 3, .dim = 64, .bf16 = form % 2 == 1, .int8 = form >= 2};
        struct fixture a = fixture_create(&shape, MR_BLOCK_TOKENS + 20);
        struct fixture b = fixture_create(&shape, MR_BLOCK_TOKENS + 20);
        for (size_t i = (size_t)MR_BLOCK_TOKENS * b.width; i < (size_t)b.tokens * b.width; i++)
            b.qkv[i] *= 1000.0f;
        fixture_step(&a, 0, 10); /* so that a later tile has rows in both blocks */
        fixture_step(&b, 0, 10);
        fixture_step(&a, 10, a.tokens);
        fixture_step(&b, 10, b.tokens);
        assert_memory_equal(a.out, b.out, MR_BLOCK_TOKENS * out_bytes(&a));
        fixture_destroy(&a);
        fixture_destroy(&b);
    }
}

static void misuse_is_caught(void **state)
{
    (void)state;
    const struct shape shape = {.heads = 3, .kv_heads = 1, .dim = 64};
    struct fixture fixture = fixture_create(&shape, 4);
    fixture_run(&fixture, 4);
    const struct mr_cpu_attention_sequence sequence = {.row_count = 4, .blocks = fixture.blocks};
    struct mr_cpu_attention_args args = fixture_args(&fixture);
    args.sequences = &sequence;
    args.sequence_count = 1;
    args.layer = 2;
    expect_assert_failure(mr_cpu_attention(fixture.kv, &args, fixture.qkv, fixture.out));
    const struct mr_cpu_rope_args rope = {0};
    expect_assert_failure(mr_cpu_rope_write(fixture.kv, &args, &rope, fixture.qkv));
    fixture_destroy(&fixture);
}

int main(void)
{
    /* One thread by default: more threads only slow down many short loops. */
    struct mr_error err;
    if (mr_parallel_set_thread_count(1, &err) != MR_OK) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_level_matches_the_definition),
        cmocka_unit_test(a_row_has_the_same_bits_in_every_chunking),
        cmocka_unit_test(a_row_has_the_same_bits_in_every_batch),
        cmocka_unit_test(values_left_by_another_request_are_never_read),
        cmocka_unit_test(later_tokens_change_nothing),
        cmocka_unit_test(misuse_is_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
