#include "worker/bench/bench_engine.h"

#include "batching/engine/engine.h"
#include "worker/base/clock.h"
#include "worker/base/version.h"
#include "worker/bench/bench_roof.h"
#include "worker/bench/bench_workload.h"
#include "worker/engine/engine_setup.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define REPETITIONS_MAX 32u

enum { MIX_REQUESTS = 64, WARMUP_REQUESTS = 8, TESTS_MAX = 8 };

struct test {
    const char *name;
    uint32_t sequences, prompt_tokens, output_tokens;
    bool mix;
};

_Static_assert(TESTS_MAX >= 7, "one figure for each test");
static const struct test tests[] = {
    {"prefill 512", 1, 512, 1, false},
    {"prefill 2048", 1, 2048, 1, false},
    {"decode 1", 1, 16, 128, false},
    {"decode 8", 8, 16, 128, false},
    {"decode 16", 16, 16, 128, false},
    {"decode 32", 32, 16, 128, false},
    {"mix", MIX_REQUESTS, 0, MR_BENCH_MIX_OUTPUT_TOKENS, true},
};

struct bench {
    struct mr_model *model;
    struct mr_engine *engine;
    struct mr_bench_workload workload;
    struct mr_bench_roof roof;
    /* requests in the engine; requests that have their first token */
    uint32_t running, first_tokens;
    uint64_t output_tokens; /* output tokens since run_once set this counter to 0 */
};

struct figure {
    /* result of each repetition: tokens per second, or seconds for the mix */
    double values[REPETITIONS_MAX];
    uint32_t count;
    /* share (0 to 1) of the step time spent outside the model, in the last repetition */
    double outside_share;
    double roof; /* the best value that the machine allows; 0: unknown */
};

static void on_delta(void *context, uint64_t ticket, const struct mr_request *request,
                     const struct mr_token_record *record)
{
    struct bench *bench = context;
    (void)ticket;
    (void)request;
    bench->first_tokens += record->index == 0;
    bench->output_tokens += record->token_count;
}

static void on_result(void *context, uint64_t ticket, struct mr_request *request,
                      const struct mr_result *result)
{
    struct bench *bench = context;
    (void)ticket;
    (void)result;
    bench->running--;
    mr_request_destroy(request);
}

static struct mr_request *make_request(struct bench *bench, uint32_t number, uint32_t prompt_tokens,
                                       uint32_t output_tokens)
{
    uint32_t *ids;
    struct mr_request *request =
        mr_bench_workload_request("bench", number, prompt_tokens, output_tokens, &ids);
    if (!request) return NULL;
    request->stream = true;
    mr_bench_workload_fill(&bench->workload, number, mr_model_info(bench->model)->vocab_size, ids,
                           prompt_tokens);
    return request;
}

static enum mr_status submit(struct bench *bench, uint32_t number, uint32_t prompt_tokens,
                             uint32_t output_tokens, struct mr_error *err)
{
    struct mr_submission submission = {.tenant = "default", .arrival_ns = mr_clock_ns()};
    submission.request = make_request(bench, number, prompt_tokens, output_tokens);
    if (!submission.request) return mr_fail(err, MR_NOMEM, "no memory for a request");
    enum mr_status status = mr_engine_submit(bench->engine, &submission, err);
    if (status == MR_OK) {
        bench->running++;
    } else {
        mr_request_destroy(submission.request);
    }
    return status;
}

static enum mr_status step(struct bench *bench, struct mr_error *err)
{
    uint64_t wake_ns;
    return mr_engine_step(bench->engine, mr_clock_ns(), &wake_ns, err);
}

static enum mr_status submit_all(struct bench *bench, const struct test *test, struct mr_error *err)
{
    enum mr_status status = MR_OK;
    for (uint32_t i = 0; i < test->sequences && status == MR_OK; i++) {
        uint32_t prompt =
            test->mix ? mr_bench_workload_prompt_tokens(&bench->workload, i) : test->prompt_tokens;
        status = submit(bench, i, prompt, test->output_tokens, err);
    }
    return status;
}

/* Runs one repetition. A decode test is timed from the step in which every sequence has its first
 * token; other tests are timed from the submission of the requests. */
static enum mr_status run_once(struct bench *bench, const struct test *test, double *value,
                               double *outside_share, struct mr_error *err)
{
    bool decode = !test->mix && test->output_tokens > 1;
    bench->first_tokens = 0;
    bench->workload
        .salt++; /* a new salt makes new prompts, so that no prompt is in the prefix cache */
    uint64_t begin_ns = mr_clock_ns();
    enum mr_status status = submit_all(bench, test, err);
    while (decode && status == MR_OK && bench->first_tokens < test->sequences)
        status = step(bench, err);
    if (decode) begin_ns = mr_clock_ns();
    struct mr_engine_stats before = mr_engine_stats(bench->engine);
    bench->output_tokens = 0;
    while (status == MR_OK && bench->running)
        status = step(bench, err);
    struct mr_engine_stats after = mr_engine_stats(bench->engine);
    double seconds = (double)(mr_clock_ns() - begin_ns) / 1e9;
    double total = (double)(after.step_ns_total - before.step_ns_total);
    *outside_share = total > 0 ? 1 - (double)(after.model_ns - before.model_ns) / total : 0;
    *value = test->mix ? seconds
                       : (decode ? (double)bench->output_tokens : test->prompt_tokens) / seconds;
    return status;
}

static double mean(const struct figure *figure)
{
    double sum = 0;
    for (uint32_t i = 0; i < figure->count; i++)
        sum += figure->values[i];
    return figure->count ? sum / figure->count : 0;
}

static double deviation(const struct figure *figure)
{
    double average = mean(figure), sum = 0;
    for (uint32_t i = 0; i < figure->count; i++) {
        sum += (figure->values[i] - average) * (figure->values[i] - average);
    }
    return figure->count > 1 ? sqrt(sum / (figure->count - 1)) : 0;
}

static double best(const struct figure *figure, bool lowest)
{
    double found = figure->count ? figure->values[0] : 0;
    for (uint32_t i = 1; i < figure->count; i++) {
        bool better = lowest ? figure->values[i] < found : figure->values[i] > found;
        if (better) found = figure->values[i];
    }
    return found;
}

static enum mr_status run_test(struct bench *bench, const struct test *test, uint32_t repetitions,
                               struct figure *figure, struct mr_error *err)
{
    double value;
    enum mr_status status = MR_OK;
    figure->count = 0;
    struct test warmup = *test;
    if (test->mix && test->sequences > WARMUP_REQUESTS) warmup.sequences = WARMUP_REQUESTS;
    for (uint32_t i = 0; i <= repetitions && status == MR_OK; i++) {
        status = run_once(bench, i ? test : &warmup, &value, &figure->outside_share, err);
        if (i) figure->values[figure->count++] = value;
    }
    return status;
}

/* The best value that a test can reach on this machine; 0: unknown. Every step reads the weights
 * once, and K and V of the decoding sequences. The mix reads the weights once for each output token
 * of a request, as if all requests ran together. */
static double roof_of(const struct bench *bench, const struct test *test)
{
    const struct mr_model_info *info = mr_model_info(bench->model);
    struct mr_bench_work work = {0};
    const double steps = test->mix ? test->output_tokens : test->output_tokens - 1.0;
    for (uint32_t i = 0; test->mix && i < test->sequences; i++)
        mr_bench_work_add_tokens(
            &work, info, mr_bench_workload_prompt_tokens(&bench->workload, i) + steps, 0, false);
    for (uint32_t i = 0; !test->mix && i < (uint32_t)steps; i++) {
        const double context = test->prompt_tokens + i + 1.0;
        for (uint32_t s = 0; s < test->sequences; s++)
            mr_bench_work_add_tokens(&work, info, 1, context, true);
    }
    if (steps > 0)
        mr_bench_work_add_weights(&work, info, steps, test->sequences);
    else {
        mr_bench_work_add_tokens(&work, info, test->prompt_tokens, 0, false);
        mr_bench_work_add_weights(&work, info, 1, 1);
    }
    const double seconds = mr_bench_roof_seconds(&bench->roof, info, &work);
    const double tokens = steps > 0 ? steps * test->sequences : test->prompt_tokens;
    return test->mix || seconds <= 0 ? seconds : tokens / seconds;
}

/* The best measured value divided by the roof, 0 to 1. */
static double roof_share(const struct figure *figure, bool lowest)
{
    const double value = best(figure, lowest);
    if (figure->roof <= 0 || value <= 0) return 0;
    return lowest ? figure->roof / value : value / figure->roof;
}

static void print_header(FILE *table, const struct mr_model_info *info,
                         const struct mr_bench_roof *roof)
{
    fprintf(table, "model %s, %s, %s on %s, backend %s\n", info->name, info->architecture,
            info->dtype, info->device, info->backend);
    if (roof->bytes_per_s > 0)
        fprintf(table, "the machine reads %.1f GB/s and computes %.0f GFLOP/s of such layers\n",
                roof->bytes_per_s / 1e9, roof->flops_per_s / 1e9);
    fprintf(table, "%-14s %10s %10s %10s %10s %6s  %s\n", "test", "mean", "+/-", "best", "roof",
            "share", "outside the model");
}

static void print_row(FILE *table, const struct test *test, const struct figure *figure)
{
    fprintf(table, "%-14s %10.1f %10.1f %10.1f", test->name, mean(figure), deviation(figure),
            best(figure, test->mix));
    if (figure->roof > 0)
        fprintf(table, " %10.1f %4.0f %%", figure->roof, roof_share(figure, test->mix) * 100);
    else
        fprintf(table, " %10s %6s", "-", "-");
    fprintf(table, "  %s, %.1f %% of step\n", test->mix ? "s" : "tok/s",
            figure->outside_share * 100);
    fflush(table);
}

struct plan {
    const struct test *tests;
    size_t count;
};

static enum mr_status write_json(const struct bench *bench, const char *path,
                                 const struct plan *plan, const struct figure *figures,
                                 struct mr_error *err)
{
    const struct mr_model_info *info = mr_model_info(bench->model);
    FILE *file = fopen(path, "w");
    if (!file) return mr_fail(err, MR_BAD_CONFIG, "cannot write %s", path);
    fprintf(file,
            "{\"program\": \"millrace %s\", \"dtype\": \"%s\", \"roof_gb_per_s\": %.2f, "
            "\"roof_gflop_per_s\": %.1f, \"tests\": [\n",
            mr_version, info->dtype, bench->roof.bytes_per_s / 1e9, bench->roof.flops_per_s / 1e9);
    for (size_t i = 0; i < plan->count; i++) {
        const struct test *test = &plan->tests[i];
        fprintf(
            file,
            " {\"test\": \"%s\", \"unit\": \"%s\", \"mean\": %.3f, \"stddev\": %.3f, "
            "\"best\": %.3f, \"roof\": %.3f, \"roof_share\": %.4f, \"outside_share\": %.4f}%s\n",
            test->name, test->mix ? "s" : "tok/s", mean(&figures[i]), deviation(&figures[i]),
            best(&figures[i], test->mix), figures[i].roof, roof_share(&figures[i], test->mix),
            figures[i].outside_share, i + 1 < plan->count ? "," : "");
    }
    fprintf(file, "]}\n");
    bool failed = ferror(file) != 0;
    failed |= fclose(file) != 0;
    return failed ? mr_fail(err, MR_BAD_CONFIG, "cannot write %s", path) : MR_OK;
}

/* Fills plan with the tests of --batch and of the lengths; own: [2], names: [2]. */
static void plan_batch(const struct mr_config *config, struct test *own, char (*names)[24],
                       struct plan *plan)
{
    snprintf(names[0], sizeof *names, "prefill %u", config->prompt_tokens);
    snprintf(names[1], sizeof *names, "decode %u", config->batch);
    own[0] = (struct test){names[0], 1, config->prompt_tokens, 1, false};
    own[1] =
        (struct test){names[1], config->batch, config->prompt_tokens, config->output_tokens, false};
    *plan = (struct plan){own, config->output_tokens > 1 ? 2 : 1};
}

static enum mr_status run_all(struct bench *bench, const struct mr_config *config, FILE *table,
                              struct mr_error *err)
{
    struct figure figures[TESTS_MAX] = {0};
    struct test mix = {"mix", config->requests, 0, MR_BENCH_MIX_OUTPUT_TOKENS, true};
    struct test own[2];
    char names[2][24];
    struct plan plan_all = {tests, sizeof tests / sizeof *tests}, only_mix = {&mix, 1}, batch;
    const struct plan *plan = config->mix ? &only_mix : config->batch > 0 ? &batch : &plan_all;
    plan_batch(config, own, names, &batch);
    const struct mr_model_info *info = mr_model_info(bench->model);
    uint32_t repetitions = config->repetitions ? config->repetitions : 3;
    if (repetitions > REPETITIONS_MAX) repetitions = REPETITIONS_MAX;
    enum mr_status measured = mr_bench_roof_measure(&bench->roof, info, err);
    if (measured != MR_OK) return measured;
    print_header(table, info, &bench->roof);
    for (size_t i = 0; i < plan->count; i++) {
        enum mr_status status = run_test(bench, &plan->tests[i], repetitions, &figures[i], err);
        if (status != MR_OK) return status;
        figures[i].roof = roof_of(bench, &plan->tests[i]);
        print_row(table, &plan->tests[i], &figures[i]);
    }
    return config->output[0] ? write_json(bench, config->output, plan, figures, err) : MR_OK;
}

enum mr_status mr_bench_engine(const struct mr_config *given, FILE *table, struct mr_error *err)
{
    struct mr_config adjusted = *given;
    const struct mr_config *config = &adjusted;
    if (adjusted.mix && adjusted.queue_requests < adjusted.requests)
        adjusted.queue_requests = adjusted.requests;
    struct bench bench = {.workload = {.seed = config->seed, .mix = true}};
    struct mr_sink sink = {.context = &bench, .delta = on_delta, .result = on_result};
    enum mr_status status = mr_engine_setup_model(config, NULL, NULL, &bench.model, err);
    if (status != MR_OK) return status;
    status = mr_engine_setup_engine(config, bench.model, &(struct mr_engine_user){.sink = sink},
                                    NULL, &bench.engine, err);
    if (status != MR_OK) goto out_close_model;
    while (mr_model_kv_populate(bench.model)) {
    } /* allocate the pages of the KV pool before measuring, as an idle worker does */
    status = run_all(&bench, config, table, err);
    mr_engine_destroy(bench.engine);
out_close_model:
    mr_model_close(bench.model);
    return status;
}
