/* Compares the results of requests of task embed, classify and rerank with those of the reference
 * implementation (random_texts.py), from the record to the numbers of the result, in fp32. The
 * requests of a model run one by one, and all at once.
 *
 *     golden_test_texts [torch] [FOLDER...]
 *
 * torch: on LibTorch's operators. FOLDER: a model with expected.json; default: the committed ones.
 */
#include "batching/engine/engine.h"
#include "codec/records/request_decode.h"
#include "codec/wire/json.h"
#include "ops/files/mapped_file.h"
#include "worker/intake/prompt.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 512, SEQUENCES = 16, CASES_MAX = 16 };

static const char *const committed[] = {"tests/golden/texts/bert_ranks"};
static const char *backend;

struct scene {
    struct mr_model *model;
    struct mr_prompt *prompt;
    struct mr_mapped_file file;
    struct mr_json *json;
    const struct mr_json_value *cases;
    size_t ended, current; /* cases */
    double worst;
};

static void compare_numbers(struct scene *scene, const struct mr_json_value *expected,
                            const float *numbers, size_t count)
{
    assert_int_equal(count, mr_json_count(expected));
    for (size_t i = 0; i < count; i++) {
        double number = NAN;
        assert_true(mr_json_number(mr_json_at(expected, i), &number));
        const double difference = fabs(number - (double)numbers[i]);
        scene->worst = fmax(scene->worst, difference);
        if (!(difference <= 1e-4))
            fail_msg("case %zu: number %zu is %g, not %g", scene->current, i, (double)numbers[i],
                     number);
    }
}

/* expected: by the index of the text; null: the text has an error. */
static void compare(struct scene *scene, const struct mr_json_value *expected,
                    const struct mr_result *result)
{
    if (result->error != MR_OK) fail_msg("case %zu: %s", scene->current, result->error_message);
    if (result->embedding_size > 0) {
        assert_int_equal(mr_json_count(expected), 1);
        compare_numbers(scene, mr_json_at(expected, 0), result->embedding, result->embedding_size);
        return;
    }
    assert_int_equal(result->data.count, mr_json_count(expected));
    for (size_t i = 0; i < result->data.count; i++) {
        const struct mr_data_entry *entry = &result->data.entries[i];
        const struct mr_json_value *numbers = mr_json_at(expected, entry->index);
        if (result->data.form == MR_DATA_RANKS && i > 0 && entry->count > 0)
            assert_true(entry->numbers[0] <= entry[-1].numbers[0]);
        if (mr_json_is_null(numbers))
            assert_int_equal(entry->error, MR_PROMPT_TOO_LONG);
        else
            compare_numbers(scene, numbers, entry->numbers, entry->count);
    }
}

static void on_result(void *context, uint64_t ticket, struct mr_request *request,
                      const struct mr_result *result)
{
    struct scene *scene = context;
    scene->current = ticket;
    compare(scene, mr_json_get(mr_json_at(scene->cases, ticket), "data"), result);
    scene->ended++;
    mr_request_destroy(request);
}

static struct mr_request *decode(struct scene *scene, size_t index)
{
    struct mr_request *request = NULL;
    struct mr_text record;
    struct mr_error err = {0};
    char id[24];
    struct mr_text fallback = {id, (size_t)snprintf(id, sizeof id, "t/0/%zu", index)};
    const struct mr_request_context context = {.fallback_id = fallback,
                                               .record_bytes_max = 1 << 20,
                                               .default_max_tokens = 16,
                                               .now_ms = 1};
    struct mr_reply_address address = {0};
    assert_true(mr_json_text(mr_json_get(mr_json_at(scene->cases, index), "record"), &record));
    if (mr_request_decode(&request, record, &context, &address, &err) != MR_OK ||
        mr_prompt_encode(scene->prompt, request, 0, &err) != MR_OK)
        fail_msg("%s: %.*s", err.detail, (int)record.length, record.bytes);
    return request;
}

static struct mr_engine *make_engine(struct scene *scene, int32_t chunk_tokens)
{
    const struct mr_model_info *info = mr_model_info(scene->model);
    const struct mr_engine_options options = {
        .model = mr_model_port_of(scene->model, NULL),
        .tokenizer = mr_model_tokenizer(scene->model),
        .block_count = info->block_count,
        .context_tokens = info->context_tokens,
        .window_slots = info->window_slots,
        .window_tokens = info->window_tokens,
        .sequences_max = SEQUENCES,
        .rows_max = ROWS,
        .chunk_tokens = chunk_tokens,
        .prefills_max = 8,
        .prefill_batch_max = 8,
        .prefill_bytes_max = (uint64_t)1 << 32,
        .prefix_cache = true,
        .queue_count_max = CASES_MAX,
        .queue_bytes_max = (uint64_t)1 << 28,
        .defaults.top_p = 1,
    };
    const struct mr_sink sink = {.context = scene, .result = on_result};
    struct mr_engine *engine;
    struct mr_error err;
    if (mr_engine_create(&engine, &options, &sink, &err) != MR_OK) fail_msg("%s", err.detail);
    return engine;
}

/* Runs the cases [first, first + count) at once. */
static void run(struct scene *scene, size_t first, size_t count, int32_t chunk_tokens)
{
    struct mr_engine *engine = make_engine(scene, chunk_tokens);
    struct mr_error err;
    uint64_t wake_ns;
    scene->ended = 0;
    for (size_t i = first; i < first + count; i++) {
        const struct mr_submission submission = {
            .request = decode(scene, i), .ticket = i, .tenant = "default"};
        if (mr_engine_submit(engine, &submission, &err) != MR_OK) fail_msg("%s", err.detail);
    }
    for (uint64_t now_ns = 1; scene->ended < count; now_ns += 1000000) {
        if (mr_engine_step(engine, now_ns, &wake_ns, &err) != MR_OK) fail_msg("%s", err.detail);
        assert_true(now_ns < (uint64_t)1000000 * 10000);
    }
    mr_engine_check(engine);
    mr_engine_destroy(engine);
}

static void open_scene(struct scene *scene, const char *folder)
{
    struct mr_error err = {0};
    char path[512];
    const struct mr_json_limits limits = {
        .bytes_max = (size_t)16 << 20, .values_max = (size_t)1 << 20, .depth_max = 8};
    const struct mr_model_options options = {.path = folder,
                                             .device = "cpu",
                                             .backend = backend,
                                             .thread_count = backend ? 1 : 0,
                                             .dtype = MR_DTYPE_F32,
                                             .rows_max = ROWS,
                                             .sequences_max = SEQUENCES,
                                             .kv_bytes = (uint64_t)64 << 20};
    if (mr_model_open(&scene->model, &options, &err) != MR_OK) fail_msg("%s", err.detail);
    const struct mr_model_info *info = mr_model_info(scene->model);
    const struct mr_prompt_options prompt = {.tokenizer = mr_model_tokenizer(scene->model),
                                             .special = info->special,
                                             .prompt_tokens_max =
                                                 info->context_tokens - !info->both_ways};
    if (mr_prompt_create(&scene->prompt, &prompt, &err) != MR_OK) fail_msg("%s", err.detail);
    snprintf(path, sizeof path, "%s/expected.json", folder);
    if (mr_mapped_file_open(&scene->file, path, &err) != MR_OK ||
        mr_json_parse(&scene->json, mr_mapped_file_text(&scene->file), &limits, &err) != MR_OK)
        fail_msg("%s", err.detail);
    scene->cases = mr_json_root(scene->json);
}

static void results_equal_the_reference(void **state)
{
    struct scene scene = {0};
    open_scene(&scene, *state);
    const size_t count = mr_json_count(scene.cases);
    assert_true(count > 0 && count <= CASES_MAX);
    for (size_t i = 0; i < count; i++)
        run(&scene, i, 1, ROWS);
    run(&scene, 0, count, ROWS);
    run(&scene, 0, count, 40);
    print_message("largest difference %g\n", scene.worst);
    mr_json_destroy(scene.json);
    mr_mapped_file_close(&scene.file);
    mr_prompt_destroy(scene.prompt);
    mr_model_close(scene.model);
}

int main(int argument_count, char **arguments)
{
    const char *const *folders = committed;
    size_t count = sizeof committed / sizeof *committed;
    if (argument_count > 1 && strcmp(arguments[1], "torch") == 0) {
        backend = "torch";
        argument_count--;
        arguments++;
    }
    if (argument_count > 1) {
        folders = (const char *const *)arguments + 1;
        count = (size_t)argument_count - 1;
    }
    struct CMUnitTest *tests = calloc(count, sizeof *tests);
    if (!tests) return 1;
    for (size_t i = 0; i < count; i++)
        tests[i] = (struct CMUnitTest){.name = folders[i],
                                       .test_func = results_equal_the_reference,
                                       .initial_state = (void *)(uintptr_t)folders[i]};
    const int failed = _cmocka_run_group_tests("texts", tests, count, NULL, NULL);
    free(tests);
    return failed;
}
