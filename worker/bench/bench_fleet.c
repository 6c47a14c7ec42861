#include "worker/bench/bench_fleet.h"

#include "codec/wire/writer.h"
#include "worker/base/clock.h"
#include "worker/bench/bench_page.h"
#include "worker/bench/bench_report.h"
#include "worker/bench/bench_workload.h"
#include "worker/client/client.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define OPEN_TIMEOUT_MS 10000u
#define SEND_TIMEOUT_MS 30000u
#define POLL_MS         100u
#define PROGRESS_NS     ((uint64_t)250000000)
#define GAPS_MAX        ((size_t)4 << 20)
#define RATE_FIRST      1.0 /* of a sweep without --rate */
#define ALONE_MAX       32u /* requests that a sweep runs one after another */

/* Prompts contain only token ids below this number, which every model's vocabulary has. */
#define VOCAB_SIZE 1024u

struct fleet {
    const struct mr_bench_fleet_options *options;
    const struct mr_config *config;
    struct mr_client *client;
    struct mr_bench_tally *tally;
    struct mr_bench_workload workload;
    struct mr_bench_results *results;
    char run[32]; /* prefix of every request id of this run */
    uint32_t *ids;
    uint32_t request_count, sent;
    uint32_t concurrency; /* most requests in flight; 0: no limit */
    uint64_t begin_ns, next_ns, give_up_ns, shown_ns;
};

/* ---- sending ---- */

static enum mr_status encode(const struct fleet *fleet, struct mr_text id, uint32_t number,
                             struct mr_text *value, struct mr_error *err)
{
    struct mr_writer writer;
    unsigned char *bytes = NULL;
    uint32_t count = mr_bench_workload_prompt_tokens(&fleet->workload, number);
    mr_bench_workload_fill(&fleet->workload, number, VOCAB_SIZE, fleet->ids, count);
    mr_writer_init(&writer, fleet->config->msgpack ? MR_ENCODING_MSGPACK : MR_ENCODING_JSON,
                   (size_t)16 << 20);
    mr_writer_map(&writer, 6);
    mr_writer_name(&writer, "id");
    mr_writer_text(&writer, id);
    mr_writer_name(&writer, "prompt_token_ids");
    mr_writer_ids(&writer, fleet->ids, count);
    mr_writer_name(&writer, "max_tokens");
    mr_writer_uint(&writer, mr_bench_workload_output_tokens(&fleet->workload));
    mr_writer_name(&writer, "ignore_eos");
    mr_writer_bool(&writer, true);
    mr_writer_name(&writer, "temperature");
    mr_writer_uint(&writer, 0);
    mr_writer_name(&writer, "stream");
    mr_writer_bool(&writer, fleet->config->stream);
    enum mr_status status = mr_writer_take(&writer, &bytes, &value->length, err);
    value->bytes = (const char *)bytes;
    return status;
}

static enum mr_status send_one(struct fleet *fleet, struct mr_error *err)
{
    char id[64];
    struct mr_text value = {0};
    uint32_t number = fleet->sent;
    int length = snprintf(id, sizeof id, "%s%" PRIu32, fleet->run, number);
    struct mr_text key = {id, (size_t)length};
    enum mr_status status = encode(fleet, key, number, &value, err);
    if (status != MR_OK) return status;
    mr_bench_tally_sent(fleet->tally, number, mr_clock_ns());
    status = mr_client_request_async(
        fleet->client, fleet->config->request_topics[0].name, key, value,
        fleet->config->msgpack ? MR_ENCODING_MSGPACK : MR_ENCODING_JSON, err);
    free((void *)(uintptr_t)value.bytes);
    if (status != MR_OK) return status;
    fleet->next_ns += mr_bench_workload_gap_ns(&fleet->workload, number);
    if (++fleet->sent < fleet->request_count) return MR_OK;
    return mr_client_flush(fleet->client, SEND_TIMEOUT_MS, err);
}

static bool may_send(const struct fleet *fleet)
{
    uint32_t most = fleet->concurrency;
    return fleet->sent < fleet->request_count &&
           (most == 0 || mr_bench_tally_in_flight(fleet->tally) < most);
}

static enum mr_status send_due(struct fleet *fleet, struct mr_error *err)
{
    enum mr_status status = MR_OK;
    while (status == MR_OK && may_send(fleet) && mr_clock_ns() >= fleet->next_ns)
        status = send_one(fleet, err);
    return status;
}

/* ---- reading ---- */

/* Parses the number of a request from its id; false for ids of other runs. */
static bool number_of(const struct fleet *fleet, struct mr_text id, uint32_t *number)
{
    size_t length = strlen(fleet->run);
    uint64_t value = 0;
    if (id.length <= length || id.length > length + 9) return false;
    if (memcmp(id.bytes, fleet->run, length) != 0) return false;
    for (size_t i = length; i < id.length; i++) {
        if (id.bytes[i] < '0' || id.bytes[i] > '9') return false;
        value = value * 10 + (uint64_t)(id.bytes[i] - '0');
    }
    *number = (uint32_t)value;
    return true;
}

static void take_one(struct fleet *fleet)
{
    struct mr_client_event event;
    uint32_t number, wait_ms = POLL_MS;
    if (may_send(fleet)) {
        uint64_t now_ns = mr_clock_ns();
        uint32_t left_ms = mr_clock_left_ms(now_ns, fleet->next_ns);
        if (left_ms < wait_ms) wait_ms = left_ms;
    }
    if (!mr_client_take(fleet->client, wait_ms, &event) || !number_of(fleet, event.id, &number))
        return;
    uint64_t now_ns = mr_clock_ns();
    if (event.kind == MR_CLIENT_TOKENS) {
        mr_bench_tally_tokens(fleet->tally, number, &event.tokens, now_ns);
    } else if (event.kind == MR_CLIENT_RESULT) {
        mr_bench_tally_result(fleet->tally, number, &event.result, now_ns);
    }
}

/* ---- the run ---- */

static void show_progress(struct fleet *fleet, bool last)
{
    FILE *out = fleet->options->progress;
    uint64_t now_ns = mr_clock_ns();
    if (!out || (!last && now_ns - fleet->shown_ns < PROGRESS_NS)) return;
    fleet->shown_ns = now_ns;
    double seconds = (double)(now_ns - fleet->begin_ns) / 1e9;
    fprintf(out,
            "\r\033[K%" PRIu32 "/%" PRIu32 " finished, %" PRIu32 " in flight, %.0f tok/s, %.0f s%s",
            mr_bench_tally_ended(fleet->tally), fleet->request_count,
            mr_bench_tally_in_flight(fleet->tally),
            (double)mr_bench_tally_tokens_seen(fleet->tally) / (seconds > 0 ? seconds : 1), seconds,
            last ? "\n" : "");
    fflush(out);
}

static bool must_stop(const struct fleet *fleet)
{
    const struct mr_bench_fleet_options *options = fleet->options;
    if (options->stop && options->stop(options->context)) return true;
    return fleet->give_up_ns > 0 && mr_clock_ns() >= fleet->give_up_ns;
}

static enum mr_status run(struct fleet *fleet, struct mr_error *err)
{
    fleet->sent = 0;
    fleet->begin_ns = fleet->next_ns = mr_clock_ns();
    while (mr_bench_tally_ended(fleet->tally) < fleet->request_count) {
        enum mr_status status = send_due(fleet, err);
        if (status != MR_OK) return status;
        status = mr_client_health(fleet->client, err);
        if (status != MR_OK) return status;
        take_one(fleet);
        show_progress(fleet, false);
        if (must_stop(fleet))
            return mr_fail(err, MR_TIMEOUT, "%" PRIu32 " of %" PRIu32 " requests were answered",
                           mr_bench_tally_ended(fleet->tally), fleet->request_count);
    }
    show_progress(fleet, true);
    return MR_OK;
}

/* Begins a run. Every run has new request ids and prompts, so that no prompt is found in a cache
 * because of an earlier run. */
static enum mr_status begin(struct fleet *fleet, uint32_t request_count, const char *kind,
                            struct mr_error *err)
{
    uint64_t moment = (uint64_t)mr_clock_unix_ms() ^ mr_clock_ns() << 20;
    snprintf(fleet->run, sizeof fleet->run, "%s-%016" PRIx64 "-", kind, moment);
    fleet->workload.salt = moment;
    fleet->request_count = request_count;
    size_t gaps = GAPS_MAX / request_count < mr_bench_workload_output_tokens(&fleet->workload)
                      ? GAPS_MAX
                      : (size_t)request_count * mr_bench_workload_output_tokens(&fleet->workload);
    mr_bench_tally_destroy(fleet->tally);
    return mr_bench_tally_create(&fleet->tally, request_count, gaps, err);
}

/* Adds the figures of the run that has ended. */
static enum mr_status keep_run(struct fleet *fleet, struct mr_error *err)
{
    struct mr_bench_results *results = fleet->results;
    struct mr_bench_run *run = &results->runs[results->run_count];
    run->setting = (struct mr_bench_setting){fleet->config->concurrency, fleet->workload.rate,
                                             fleet->config->stream};
    mr_bench_tally_check(fleet->tally);
    enum mr_status status = mr_bench_tally_figures(fleet->tally, &run->figures, err);
    if (status == MR_OK)
        status = mr_bench_tally_series(fleet->tally, run->points, MR_BENCH_POINTS, err);
    if (status != MR_OK) return status;
    run->met =
        mr_bench_objectives_met(results->objectives, results->objective_count, &run->figures);
    results->run_count++;
    return MR_OK;
}

static enum mr_status report(const struct fleet *fleet, struct mr_error *err)
{
    const struct mr_config *config = fleet->config;
    const struct mr_bench_results *results = fleet->results;
    const struct mr_bench_run *run = mr_bench_results_best(results);
    enum mr_status status = MR_OK;
    mr_bench_report_print(&run->figures, &run->setting, fleet->options->table);
    if (results->objective_count > 0)
        mr_bench_report_print_objectives(results, fleet->options->table);
    if (config->output[0]) status = mr_bench_report_write(results, config->output, err);
    if (status == MR_OK && config->report[0])
        status = mr_bench_page_write(results, config->report, err);
    return status;
}

static enum mr_status warm_up(struct fleet *fleet, struct mr_error *err)
{
    if (fleet->config->warmup == 0) return MR_OK;
    enum mr_status status = begin(fleet, fleet->config->warmup, "warmup", err);
    return status == MR_OK ? run(fleet, err) : status;
}

/* One run; its figures are kept also when it timed out. */
static enum mr_status measure(struct fleet *fleet, struct mr_error *err)
{
    enum mr_status status = begin(fleet, fleet->config->requests, "bench", err);
    if (status != MR_OK) return status;
    status = run(fleet, err);
    if (status != MR_OK && status != MR_TIMEOUT) return status;
    enum mr_status kept = keep_run(fleet, status == MR_OK ? err : NULL);
    return status == MR_OK ? kept : status;
}

/* Runs requests one after another; *met: they meet the objectives. */
static enum mr_status run_alone(struct fleet *fleet, bool *met, struct mr_error *err)
{
    const struct mr_bench_results *results = fleet->results;
    struct mr_bench_figures figures;
    uint32_t count = fleet->config->requests < ALONE_MAX ? fleet->config->requests : ALONE_MAX;
    if (fleet->options->progress) fputs("one request after another\n", fleet->options->progress);
    enum mr_status status = begin(fleet, count, "alone", err);
    if (status == MR_OK) status = run(fleet, err);
    if (status == MR_OK) status = mr_bench_tally_figures(fleet->tally, &figures, err);
    if (status == MR_OK)
        *met = mr_bench_objectives_met(results->objectives, results->objective_count, &figures);
    return status;
}

/* If requests that run one after another miss the objectives, a lower rate misses them too. A
 * single slow request can be the reason, so two such runs must miss them. */
static enum mr_status try_alone(struct fleet *fleet, struct mr_error *err)
{
    bool met = false;
    fleet->workload.rate = 0;
    fleet->concurrency = 1;
    enum mr_status status = run_alone(fleet, &met, err);
    if (status == MR_OK && !met) status = run_alone(fleet, &met, err);
    fleet->concurrency = fleet->config->concurrency;
    fleet->results->unattainable = status == MR_OK && !met;
    return status;
}

static enum mr_status sweep(struct fleet *fleet, struct mr_error *err)
{
    struct mr_bench_sweep search = {0};
    double first = fleet->config->rate > 0 ? fleet->config->rate : RATE_FIRST, rate;
    enum mr_status status = MR_OK;
    fleet->results->sweep = true;
    while (status == MR_OK && (rate = mr_bench_sweep_next(&search, first)) > 0) {
        fleet->workload.rate = rate;
        if (fleet->options->progress) fprintf(fleet->options->progress, "%.4g requests/s\n", rate);
        status = measure(fleet, err);
        if (status != MR_OK) break;
        const struct mr_bench_run *last = &fleet->results->runs[fleet->results->run_count - 1];
        mr_bench_sweep_note(&search, rate, last->met);
        fleet->results->highest_rate = search.good;
        if (last->figures.completed == 0) break;
        if (search.tried == 1 && !last->met) status = try_alone(fleet, err);
        if (fleet->results->unattainable) break;
    }
    return status;
}

static enum mr_status measure_all(struct fleet *fleet, struct mr_error *err)
{
    enum mr_status status = fleet->config->sweep ? sweep(fleet, err) : measure(fleet, err);
    if (fleet->results->run_count == 0) return status;
    enum mr_status reported = report(fleet, status == MR_OK ? err : NULL);
    if (status != MR_OK || reported != MR_OK) return status != MR_OK ? status : reported;
    const struct mr_bench_figures *figures = &mr_bench_results_best(fleet->results)->figures;
    if (figures->completed > 0) return MR_OK;
    return mr_fail(err, MR_BACKEND, "no request succeeded: %s", figures->first_failure);
}

static enum mr_status read_objectives(const struct mr_config *config,
                                      struct mr_bench_results *results, struct mr_error *err)
{
    if (config->objectives.count > MR_BENCH_OBJECTIVES_MAX)
        return mr_fail(err, MR_BAD_CONFIG, "at most %zu objectives", MR_BENCH_OBJECTIVES_MAX);
    for (size_t i = 0; i < config->objectives.count; i++) {
        struct mr_bench_objective *objective = &results->objectives[results->objective_count++];
        enum mr_status status =
            mr_bench_objective_parse(objective, config->objectives.values[i], err);
        if (status != MR_OK) return status;
        if (!config->stream && mr_bench_objective_needs_stream(objective))
            return mr_fail(err, MR_BAD_CONFIG,
                           "objective %s is measured by token records: leave out --no-stream",
                           objective->figure);
    }
    if (config->sweep && results->objective_count == 0)
        return mr_fail(err, MR_BAD_CONFIG, "--sweep needs an --objective");
    if (config->sweep && config->concurrency > 0)
        return mr_fail(err, MR_BAD_CONFIG,
                       "--sweep cannot be combined with --concurrency, which limits the rate");
    return MR_OK;
}

enum mr_status mr_bench_fleet(const struct mr_bench_fleet_options *options, struct mr_error *err)
{
    const struct mr_config *config = options->config;
    struct fleet fleet = {.options = options, .config = config, .concurrency = config->concurrency};
    fleet.workload = (struct mr_bench_workload){.seed = config->seed,
                                                .mix = config->mix,
                                                .prompt_tokens = config->prompt_tokens,
                                                .output_tokens = config->output_tokens,
                                                .rate = config->rate};
    if (config->timeout_ns > 0) fleet.give_up_ns = mr_clock_ns() + config->timeout_ns;
    uint32_t longest = mr_bench_workload_prompt_tokens_max(&fleet.workload);
    fleet.results = calloc(1, sizeof *fleet.results);
    fleet.ids = calloc(longest, sizeof *fleet.ids);
    enum mr_status status = MR_OK;
    if (!fleet.ids || !fleet.results)
        status = mr_fail(err, MR_NOMEM, "no memory for a prompt of %u ids", longest);
    if (status == MR_OK) status = read_objectives(config, fleet.results, err);
    struct mr_client_options client = {.config = config,
                                       .brokers = options->brokers,
                                       .reads = true,
                                       .requests = true,
                                       .timeout_ms = OPEN_TIMEOUT_MS,
                                       .notices = options->notices};
    if (status == MR_OK) status = mr_client_open(&fleet.client, &client, err);
    if (status == MR_OK) status = warm_up(&fleet, err);
    if (status == MR_OK) status = measure_all(&fleet, err);
    mr_client_close(fleet.client);
    mr_bench_tally_destroy(fleet.tally);
    free(fleet.results);
    free(fleet.ids);
    return status;
}
