/* Compares the logits of models with adapters with those of PEFT, and the rows of batches with
 * several adapters with the same rows alone, bit for bit. random_adapters.py writes the adapters
 * and describes expected.bin. Two small adapters are committed; their base also exists as a GGUF
 * file, in which the rows of q and k have another order. golden_test_adapters [FOLDER] default:
 * tests/golden/adapters */
#include "ops/model/model_adapter.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { ADAPTERS_MAX = 16, SEQUENCES_MAX = 512, PATH_SIZE = 320 };

static const char *root = "tests/golden/adapters";
static const float tolerance = 1e-4f;

struct fixture {
    struct mr_model *model;
    struct mr_mapped_file expected;
    uint32_t vocab, count, token_count; /* count: adapters */
    const uint32_t *tokens;
    const float *logits; /* [1 + count][token_count][vocab], the base first */
    struct mr_adapter_weights *adapters[ADAPTERS_MAX];
    float *row, *batch; /* batch: as logits, computed in one batch */
};

static void fail_on(enum mr_status status, const struct mr_error *err)
{
    if (status != MR_OK) fail_msg("%s", err->detail);
}

static void read_expected(struct fixture *fixture, const char *name)
{
    char path[PATH_SIZE];
    uint32_t head[3];
    snprintf(path, sizeof path, "%s/%s/expected.bin", root, name);
    assert_int_equal(mr_mapped_file_open(&fixture->expected, path, NULL), MR_OK);
    assert_memory_equal(fixture->expected.bytes, "MRADAPT1", 8);
    memcpy(head, fixture->expected.bytes + 8, sizeof head);
    fixture->vocab = head[0];
    fixture->count = head[1];
    fixture->token_count = head[2];
    fixture->tokens = (const uint32_t *)(const void *)(fixture->expected.bytes + 20);
    fixture->logits = (const float *)(const void *)(fixture->tokens + fixture->token_count);
    assert_true(fixture->count <= ADAPTERS_MAX);
}

static void load_adapters(struct fixture *fixture, const char *name)
{
    struct mr_error err = {0};
    for (uint32_t i = 0; i < fixture->count; i++) {
        char path[PATH_SIZE];
        struct mr_adapter_files files;
        snprintf(path, sizeof path, "%s/%s/a%02u", root, name, i);
        fail_on(mr_adapter_files_open(&files, path, &err), &err);
        fail_on(mr_model_adapter_create(fixture->model, &files, &fixture->adapters[i], &err), &err);
        mr_adapter_files_close(&files);
    }
}

static void open_fixture(struct fixture *fixture, const char *name, const char *backend,
                         enum mr_dtype dtype, bool gguf)
{
    char path[PATH_SIZE];
    struct mr_error err = {0};
    struct mr_model_options options = {.path = path,
                                       .device = "cpu",
                                       .backend = backend,
                                       .thread_count = backend ? 1 : 2,
                                       .dtype = dtype,
                                       .adapters = true,
                                       .context_tokens = MR_BLOCK_TOKENS,
                                       .rows_max = 256,
                                       .sequences_max = SEQUENCES_MAX,
                                       .kv_bytes = (uint64_t)64 << 20};
    *fixture = (struct fixture){0};
    read_expected(fixture, name);
    snprintf(path, sizeof path, gguf ? "tests/golden/gguf/%s.gguf" : "tests/golden/models/%s",
             name);
    fail_on(mr_model_open(&fixture->model, &options, &err), &err);
    assert_int_equal(mr_model_info(fixture->model)->vocab_size, fixture->vocab);
    assert_true(mr_model_info(fixture->model)->block_count > fixture->count);
    load_adapters(fixture, name);
    const size_t all = (size_t)(fixture->count + 1) * fixture->token_count * fixture->vocab;
    fixture->row = calloc(fixture->vocab, sizeof *fixture->row);
    fixture->batch = calloc(all, sizeof *fixture->batch);
}

static void close_fixture(struct fixture *fixture)
{
    for (uint32_t i = 0; i < fixture->count; i++)
        mr_adapter_weights_destroy(fixture->adapters[i]);
    mr_model_close(fixture->model);
    mr_mapped_file_close(&fixture->expected);
    free(fixture->batch);
    free(fixture->row);
}

static size_t place(const struct fixture *fixture, uint32_t subject, uint32_t position)
{
    return ((size_t)subject * fixture->token_count + position) * fixture->vocab;
}

/* Computes tokens [begin, end) of `count` subjects from `first` on in one step, and copies their
 * logits to `out`. Subject 0 is the base, subject i adapter i - 1. Each has a block of its own. */
static void compute(struct fixture *fixture, uint32_t first, uint32_t count, uint32_t begin,
                    uint32_t end, float *out)
{
    struct mr_batch_sequence sequences[ADAPTERS_MAX + 1] = {0};
    uint32_t ids[256], blocks[ADAPTERS_MAX + 1];
    struct mr_batch batch = {ids, 0, sequences, count};
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t subject = first + i;
        blocks[i] = subject;
        sequences[i] = (struct mr_batch_sequence){
            .row_begin = batch.row_count,
            .row_count = end - begin,
            .context_tokens = begin,
            .blocks = &blocks[i],
            .slots = &blocks[i],
            .logit_rows = end - begin,
            .adapter = subject > 0 ? &fixture->adapters[subject - 1]->adapter : NULL};
        memcpy(ids + batch.row_count, fixture->tokens + begin, (end - begin) * sizeof *ids);
        batch.row_count += end - begin;
    }
    assert_int_equal(mr_model_forward(fixture->model, &batch, NULL), MR_OK);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t row = 0; row < end - begin; row++)
            assert_int_equal(mr_model_logits(fixture->model, i * (end - begin) + row,
                                             out + place(fixture, first + i, begin + row), NULL),
                             MR_OK);
}

/* Returns the largest difference of the batch's logits to those of PEFT. */
static float compare(const struct fixture *fixture, const char *name)
{
    const size_t all = place(fixture, fixture->count + 1, 0);
    float worst = 0;
    for (size_t i = 0; i < all; i++) {
        const float difference = fabsf(fixture->batch[i] - fixture->logits[i]);
        if (!(difference <= tolerance))
            fail_msg("%s: subject %zu, position %zu: a logit differs by %g", name,
                     i / place(fixture, 1, 0), i / fixture->vocab % fixture->token_count,
                     (double)difference);
        worst = difference > worst ? difference : worst;
    }
    return worst;
}

static void expect_same_bits(const struct fixture *fixture, const float *other, const char *what)
{
    const size_t all = place(fixture, fixture->count + 1, 0);
    if (memcmp(fixture->batch, other, all * sizeof *other) != 0)
        fail_msg("%s: the rows differ from those of the batch", what);
}

/* Calls `check` for every model of the folder. */
static void each_model(void (*check)(const char *name))
{
    DIR *folder = opendir(root);
    uint32_t models = 0;
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.') continue;
        check(entry->d_name);
        models++;
    }
    closedir(folder);
    assert_true(models > 0);
}

static void check_logits(const char *name)
{
    static const char *const backends[] = {"cpu", "torch"};
    for (uint32_t i = 0; i < 2; i++) {
        struct fixture fixture;
        open_fixture(&fixture, name, backends[i], MR_DTYPE_F32, false);
        compute(&fixture, 0, fixture.count + 1, 0, fixture.token_count, fixture.batch);
        printf("%s, %s, %u adapters: largest difference %g\n", name, backends[i], fixture.count,
               (double)compare(&fixture, name));
        close_fixture(&fixture);
    }
}

static void check_gguf(const char *name)
{
    char path[PATH_SIZE];
    struct fixture fixture;
    snprintf(path, sizeof path, "tests/golden/gguf/%s.gguf", name);
    if (access(path, R_OK) != 0) return;
    open_fixture(&fixture, name, "cpu", MR_DTYPE_F32, true);
    compute(&fixture, 0, fixture.count + 1, 0, fixture.token_count, fixture.batch);
    printf("%s.gguf: largest difference %g\n", name, (double)compare(&fixture, name));
    close_fixture(&fixture);
}

static void a_base_in_gguf_gives_the_same(void **state)
{
    (void)state;
    each_model(check_gguf);
}

static void logits_are_those_of_peft(void **state)
{
    (void)state;
    each_model(check_logits);
}

static void check_rows(const char *name, enum mr_dtype dtype)
{
    struct fixture fixture;
    open_fixture(&fixture, name, NULL, dtype, false);
    const uint32_t all = fixture.count + 1, tokens = fixture.token_count;
    float *other = calloc(place(&fixture, all, 0), sizeof *other);
    assert_non_null(other);
    compute(&fixture, 0, all, 0, tokens, fixture.batch);
    for (uint32_t i = 0; i < all; i++)
        compute(&fixture, i, 1, 0, tokens, other);
    expect_same_bits(&fixture, other, "each sequence alone");
    for (uint32_t i = 0; i < tokens; i++)
        compute(&fixture, 0, all, i, i + 1, other);
    expect_same_bits(&fixture, other, "steps of one token of each sequence");
    free(other);
    close_fixture(&fixture);
}

static void check_rows_of_all_formats(const char *name)
{
    static const enum mr_dtype dtypes[] = {MR_DTYPE_F32, MR_DTYPE_BF16, MR_DTYPE_INT8,
                                           MR_DTYPE_INT4};
    for (uint32_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        check_rows(name, dtypes[i]);
}

static void rows_do_not_depend_on_the_batch(void **state)
{
    (void)state;
    each_model(check_rows_of_all_formats);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_are_those_of_peft),
        cmocka_unit_test(a_base_in_gguf_gives_the_same),
        cmocka_unit_test(rows_do_not_depend_on_the_batch),
    };
    if (argc > 1) root = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
