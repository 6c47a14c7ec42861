#include "worker/bench/bench_cache.h"

#include "batching/engine/engine.h"
#include "worker/base/clock.h"
#include "worker/bench/bench_workload.h"
#include "worker/engine/engine_setup.h"

#include <stdlib.h>
#include <string.h>

enum { PREFIXES = 20, OWN_TOKENS = 32, OUTPUT_TOKENS = 4, TRANSFERS = 64 };

struct cache_bench {
    const struct mr_config *config;
    struct mr_model *model;
    struct mr_engine *engine;
    uint32_t prefix_tokens;
    bool done; /* the running request has ended */
    double first_token_ms;
    uint64_t cached_tokens;
};

struct figures {
    double seconds;
    double *first_token_ms; /* [requests] time to first token of each request, in ascending order */
    uint64_t cached_tokens, computed_tokens;
};

static void on_result(void *context, uint64_t ticket, struct mr_request *request,
                      const struct mr_result *result)
{
    struct cache_bench *bench = context;
    (void)ticket;
    bench->done = true;
    bench->first_token_ms = result->first_token_ms;
    bench->cached_tokens += result->cached_tokens;
    mr_request_destroy(request);
}

/* Draws which of the 20 texts begins request `number`. By Zipf's law, text r has weight 1 / (r +
 * 1). */
static uint32_t prefix_of(uint64_t seed, uint32_t number)
{
    uint64_t state = seed * 0x9e3779b97f4a7c15u + number;
    double sum = 0, drawn = (double)(mr_bench_random(&state) >> 11) / 9007199254740992.0;
    for (uint32_t rank = 0; rank < PREFIXES; rank++)
        sum += 1.0 / (rank + 1);
    drawn *= sum;
    uint32_t rank = 0;
    while (rank + 1 < PREFIXES && (drawn -= 1.0 / (rank + 1)) > 0)
        rank++;
    return rank;
}

static struct mr_request *make_request(const struct cache_bench *bench, uint32_t number)
{
    uint32_t *ids;
    struct mr_request *request = mr_bench_workload_request(
        "cache", number, bench->prefix_tokens + OWN_TOKENS, OUTPUT_TOKENS, &ids);
    if (!request) return NULL;
    struct mr_bench_workload texts = {.seed = bench->config->seed};
    struct mr_bench_workload own = {.seed = bench->config->seed, .salt = 1};
    uint32_t vocab = mr_model_info(bench->model)->vocab_size;
    mr_bench_workload_fill(&texts, prefix_of(bench->config->seed, number), vocab, ids,
                           bench->prefix_tokens);
    mr_bench_workload_fill(&own, number, vocab, ids + bench->prefix_tokens, OWN_TOKENS);
    return request;
}

static enum mr_status run_one(struct cache_bench *bench, uint32_t number, struct mr_error *err)
{
    struct mr_submission submission = {.tenant = "default", .arrival_ns = mr_clock_ns()};
    submission.request = make_request(bench, number);
    if (!submission.request) return mr_fail(err, MR_NOMEM, "no memory for a request");
    enum mr_status status = mr_engine_submit(bench->engine, &submission, err);
    if (status != MR_OK) {
        mr_request_destroy(submission.request);
        return status;
    }
    uint64_t wake_ns;
    bench->done = false;
    while (status == MR_OK && !bench->done)
        status = mr_engine_step(bench->engine, mr_clock_ns(), &wake_ns, err);
    return status;
}

static int ascending(const void *left, const void *right)
{
    double one = *(const double *)left, two = *(const double *)right;
    return one < two ? -1 : one > two;
}

static enum mr_status run_trace(struct cache_bench *bench, bool cache, struct figures *figures,
                                struct mr_error *err)
{
    struct mr_config config = *bench->config;
    struct mr_sink sink = {.context = bench, .result = on_result};
    config.prefix_cache = cache;
    enum mr_status status = mr_engine_setup_engine(
        &config, bench->model, &(struct mr_engine_user){.sink = sink}, NULL, &bench->engine, err);
    if (status != MR_OK) return status;
    bench->cached_tokens = 0;
    uint64_t begin_ns = mr_clock_ns();
    for (uint32_t i = 0; i < config.requests && status == MR_OK; i++) {
        status = run_one(bench, i, err);
        figures->first_token_ms[i] = bench->first_token_ms;
    }
    figures->seconds = (double)(mr_clock_ns() - begin_ns) / 1e9;
    figures->cached_tokens = bench->cached_tokens;
    figures->computed_tokens = mr_engine_stats(bench->engine).prompt_tokens;
    qsort(figures->first_token_ms, config.requests, sizeof(double), ascending);
    mr_engine_destroy(bench->engine);
    bench->engine = NULL;
    return status;
}

/* Prompt tokens that an ideal cache would serve: those of the shared text of each request, except
 * where the text is used for the first time. */
static uint64_t possible_tokens(const struct cache_bench *bench)
{
    bool seen[PREFIXES] = {false};
    uint64_t tokens = 0;
    for (uint32_t i = 0; i < bench->config->requests; i++) {
        uint32_t prefix = prefix_of(bench->config->seed, i);
        if (seen[prefix]) tokens += bench->prefix_tokens;
        seen[prefix] = true;
    }
    return tokens;
}

static void print_figures(FILE *table, const char *name, const struct figures *figures,
                          uint32_t requests)
{
    fprintf(table,
            "%-10s %8.2f s  %10llu tokens computed  first token median %8.2f  p95 %8.2f ms\n", name,
            figures->seconds, (unsigned long long)figures->computed_tokens,
            figures->first_token_ms[requests / 2], figures->first_token_ms[requests * 95 / 100]);
}

struct transfers {
    unsigned char *buffer; /* [2 * bytes] memory outside the KV pool */
    size_t bytes;
    uint64_t out_ns, in_ns;
    bool same;
};

static enum mr_status transfer(const struct cache_bench *bench, struct transfers *all,
                               uint32_t turn, struct mr_error *err)
{
    const struct mr_model_info *info = mr_model_info(bench->model);
    uint32_t slots = info->window_slots > 0 ? info->window_slots : 1;
    struct mr_kv_place place = {.block = turn * 7 % info->block_count, .slot = turn * 7 % slots};
    for (size_t at = 0; at < all->bytes; at += 61)
        all->buffer[at] = (unsigned char)(at * 31 + turn);
    uint64_t begin_ns = mr_clock_ns();
    enum mr_status status =
        mr_model_kv_import(bench->model, place, MR_BLOCK_TOKENS, all->buffer, all->bytes, err);
    uint64_t middle_ns = mr_clock_ns();
    if (status == MR_OK)
        status = mr_model_kv_export(bench->model, place, MR_BLOCK_TOKENS, all->buffer + all->bytes,
                                    all->bytes, err);
    all->in_ns += middle_ns - begin_ns;
    all->out_ns += mr_clock_ns() - middle_ns;
    all->same = all->same && memcmp(all->buffer, all->buffer + all->bytes, all->bytes) == 0;
    return status;
}

/* Copies blocks into the KV pool and out again, twice. In the first pass the kernel allocates the
 * pages of the pool, which takes many times longer than the copy. */
static enum mr_status measure_transfers(const struct cache_bench *bench, FILE *table,
                                        struct mr_error *err)
{
    struct transfers all = {.bytes = mr_model_kv_export_bytes(bench->model, MR_BLOCK_TOKENS)};
    enum mr_status status = MR_OK;
    all.buffer = calloc(2, all.bytes);
    if (!all.buffer) return mr_fail(err, MR_NOMEM, "no memory for a block buffer");
    memset(all.buffer, 1, 2 * all.bytes);
    all.same = true;
    for (uint32_t pass = 0; pass < 2; pass++) {
        all.out_ns = all.in_ns = 0;
        for (uint32_t i = 0; i < TRANSFERS && status == MR_OK; i++)
            status = transfer(bench, &all, i, err);
        double bytes = (double)all.bytes * TRANSFERS;
        fprintf(table, "blocks of %.1f MB, %s: out %.1f GB/s, in %.1f GB/s, round trip %s\n",
                (double)all.bytes / 1e6, pass == 0 ? "fresh pool" : "used pool",
                bytes / (double)all.out_ns, bytes / (double)all.in_ns,
                all.same ? "bit-identical" : "DIFFERS");
    }
    free(all.buffer);
    return status;
}

static enum mr_status run_both(struct cache_bench *bench, FILE *table, struct mr_error *err)
{
    uint32_t requests = bench->config->requests;
    double *times = calloc(2 * (size_t)requests, sizeof *times);
    if (!times) return mr_fail(err, MR_NOMEM, "no memory for the figures");
    struct figures with = {.first_token_ms = times}, without = {.first_token_ms = times + requests};
    enum mr_status status = measure_transfers(bench, table, err);
    if (status == MR_OK) status = run_trace(bench, true, &with, err);
    if (status == MR_OK) status = run_trace(bench, false, &without, err);
    if (status == MR_OK) {
        uint64_t possible = possible_tokens(bench);
        print_figures(table, "cache on", &with, requests);
        print_figures(table, "cache off", &without, requests);
        fprintf(table, "hit tokens %llu of %llu possible (%.4f); prefill work fell by %.4f\n",
                (unsigned long long)with.cached_tokens, (unsigned long long)possible,
                possible ? (double)with.cached_tokens / (double)possible : 1.0,
                1.0 - (double)with.computed_tokens / (double)without.computed_tokens);
    }
    free(times);
    return status;
}

enum mr_status mr_bench_cache(const struct mr_config *config, FILE *table, struct mr_error *err)
{
    struct cache_bench bench = {.config = config, .prefix_tokens = config->prompt_tokens};
    enum mr_status status = mr_engine_setup_model(config, NULL, NULL, &bench.model, err);
    if (status != MR_OK) return status;
    uint32_t context = mr_engine_setup_context(config, mr_model_info(bench.model));
    if (config->prompt_tokens + OWN_TOKENS + OUTPUT_TOKENS > context)
        status = mr_fail(err, MR_BAD_CONFIG, "%u prompt tokens exceed the context of %u tokens",
                         config->prompt_tokens + OWN_TOKENS, context);
    else
        status = run_both(&bench, table, err);
    mr_model_close(bench.model);
    return status;
}
