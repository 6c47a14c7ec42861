#include "worker/batch/batch.h"

#include "codec/limits.h"
#include "worker/base/clock.h"
#include "worker/base/printable.h"
#include "worker/batch/batch_state.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FAULTS_SHOWN 20u
#define SILENCE_NS   ((uint64_t)10000000000) /* without an answer, until stderr says so */
#define SAVE_NS      ((uint64_t)5000000000)
#define TAKE_MS      100u
#define TAKES_MAX    1000u /* results between two looks at the other work */
#define WAIT_MS      20u   /* without a window that is full: results and reports are awaited */
#define HEALTH_MS    500u
#define OVERHEAD     ((size_t)256) /* of a record batch around one value: headers, key, framing */
#define TIMEOUT_MS_MAX                                                                             \
    ((int64_t)MR_DEADLINE_MS_MAX - 600000) /* clocks may differ by 10 minutes                      \
                                            */

/* ---- the phases before a line is sent ---- */

static void on_fault(void *context, uint64_t line, const struct mr_error *fault)
{
    struct mr_batch *batch = context;
    FILE *out = batch->options->messages;
    if (batch->fault_count++ >= FAULTS_SHOWN) return;
    fprintf(out, "millrace: line %" PRIu64 ": ", line);
    mr_print_escaped(out, (struct mr_text){fault->detail, strlen(fault->detail)}, "");
    fputc('\n', out);
}

/* The largest value that the requests topic takes, and its workers. */
static enum mr_status find_record_limit(struct mr_batch *batch, struct mr_kafka_admin *admin,
                                        struct mr_error *err)
{
    static const char *const names[] = {"max.message.bytes"};
    char values[1][MR_KAFKA_SETTING_BYTES] = {""};
    const struct mr_kafka_settings settings = {names, values, 1};
    batch->rules.record_bytes_max = batch->config.max_record_bytes;
    enum mr_status status =
        mr_kafka_admin_settings(admin, batch->topic, &settings, batch->options->timeout_ms, err);
    const size_t bytes = strtoull(values[0], NULL, 10);
    if (status == MR_OK && bytes > OVERHEAD && bytes - OVERHEAD < batch->rules.record_bytes_max)
        batch->rules.record_bytes_max = bytes - OVERHEAD;
    return status;
}

static enum mr_status need_results(struct mr_batch *batch, struct mr_kafka_admin *admin,
                                   struct mr_error *err)
{
    uint32_t count = 0;
    const char *topic = batch->config.results_topic;
    enum mr_status status =
        mr_kafka_admin_partitions(admin, topic, batch->options->timeout_ms, &count, err);
    if (status != MR_OK || count > 0) return status;
    return mr_fail(err, MR_BACKEND, "topic %.100s does not exist: check --results-topic", topic);
}

/* Connects, and checks all lines against the limits of the topic. */
static enum mr_status check_lines(struct mr_batch *batch, struct mr_kafka_admin *admin,
                                  struct mr_error *err)
{
    enum mr_status status = need_results(batch, admin, err);
    if (status == MR_OK) status = find_record_limit(batch, admin, err);
    if (status != MR_OK) return status;
    mr_survey_destroy(&batch->survey);
    const struct mr_survey_options options = {.file = batch->input,
                                              .line_bytes = MR_BATCH_LINE_BYTES,
                                              .rules = &batch->rules,
                                              .fault = on_fault,
                                              .context = batch};
    status = mr_survey_run(&batch->survey, &options, err);
    if (status == MR_OK && batch->survey.warnings > 0)
        fprintf(batch->options->messages,
                "millrace: warning: %" PRIu64 " fields of the requests have no effect; results in "
                "the results topic name them\n",
                batch->survey.warnings);
    if (status != MR_OK || batch->fault_count == 0) return status;
    if (batch->fault_count > FAULTS_SHOWN)
        fprintf(batch->options->messages, "millrace: %" PRIu64 " further lines have faults\n",
                batch->fault_count - FAULTS_SHOWN);
    if (batch->config.skip_invalid) return MR_OK;
    return mr_fail(err, MR_INVALID_REQUEST,
                   "%" PRIu64 " of %" PRIu64 " requests have faults, so none was sent; "
                   "--skip-invalid sends the others",
                   batch->fault_count, batch->survey.call_count);
}

/* Reads what earlier runs have written. */
static enum mr_status recall_output(struct mr_batch *batch, struct mr_error *err)
{
    mr_bits_destroy(&batch->done);
    if (!mr_bits_create(&batch->done, batch->survey.line_count))
        return mr_fail(err, MR_NOMEM, "no memory for %" PRIu64 " lines", batch->survey.line_count);
    return mr_batch_output_recall(&batch->output, batch->job.name, &batch->done, err);
}

static bool has_all(const struct mr_batch *batch)
{
    return batch->done.set_count == batch->survey.call_count;
}

/* Opens the job of an input whose digest is known. */
static enum mr_status open_job(struct mr_batch *batch, struct mr_error *err)
{
    mr_batch_job_close(&batch->job);
    enum mr_status status =
        mr_batch_job_open(&batch->job, batch->survey.digest, batch->config.arguments[1], err);
    return status == MR_OK ? recall_output(batch, err) : status;
}

/* Whether an earlier run has finished, which is known without a broker. */
static enum mr_status look_for_end(struct mr_batch *batch, bool *ended, struct mr_error *err)
{
    *ended = false;
    if (batch->output.is_stdout) return MR_OK;
    const struct mr_survey_options options = {.file = batch->input,
                                              .line_bytes = MR_BATCH_LINE_BYTES};
    enum mr_status status = mr_survey_run(&batch->survey, &options, err);
    if (status == MR_OK) status = open_job(batch, err);
    if (status != MR_OK) return status;
    const bool again = batch->config.retry_errors && batch->output.errors.lines > 0;
    *ended = has_all(batch) && !again;
    if (*ended) mr_batch_job_remove(&batch->job);
    return MR_OK;
}

/* Starts a new round for the lines of the error file. The state file is written first: if the
 * command dies in between, the lines have their errors still. */
static enum mr_status forget_errors(struct mr_batch *batch, struct mr_error *err)
{
    batch->job.first_try += MR_BATCH_JOB_TRIES;
    batch->job.begun_ms = mr_clock_unix_ms();
    enum mr_status status = mr_batch_job_save(&batch->job, err);
    if (status == MR_OK) status = mr_batch_output_drop_errors(&batch->output, err);
    return status == MR_OK ? recall_output(batch, err) : status;
}

/* Fixes topic, time and offsets of a job that has no state file. Lines in the output without a
 * state file: the topics are read from their beginnings. */
static enum mr_status begin_job(struct mr_batch *batch, struct mr_kafka_admin *admin,
                                struct mr_error *err)
{
    struct mr_batch_job *job = &batch->job;
    enum mr_status status = MR_OK;
    if (job->is_known && strcmp(job->topic, batch->topic) != 0)
        return mr_fail(err, MR_BAD_CONFIG,
                       "this job was begun with --topic %.100s; go on with that topic", job->topic);
    if (!job->is_known) {
        snprintf(job->topic, sizeof job->topic, "%s", batch->topic);
        job->begun_ms = mr_clock_unix_ms();
        if (batch->done.set_count == 0) status = mr_batch_begin(batch, admin, err);
        if (status == MR_OK) status = mr_batch_job_save(job, err);
    }
    if (status == MR_OK && batch->config.retry_errors && batch->output.errors.lines > 0)
        status = forget_errors(batch, err);
    return status;
}

/* Writes the error lines of the lines with faults. */
static enum mr_status write_faults(struct mr_batch *batch, struct mr_error *err)
{
    struct mr_lines lines;
    struct mr_line line;
    if (batch->survey.invalid.set_count == 0) return MR_OK;
    enum mr_status status = mr_lines_open(&lines, batch->input, MR_BATCH_LINE_BYTES, NULL, err);
    while (status == MR_OK) {
        struct mr_batch_item item;
        struct mr_error fault = {0};
        size_t warnings;
        status = mr_lines_next(&lines, &line, err);
        if (status != MR_OK || line.number == 0) break;
        if (!mr_bits_get(&batch->survey.invalid, line.number) ||
            mr_bits_get(&batch->done, line.number))
            continue;
        (void)mr_survey_fault_of(&batch->survey, &line, &batch->rules, &item, &warnings, &fault);
        status = mr_batch_write_fault(batch, line.number, &item, &fault, err);
        mr_batch_item_close(&item);
    }
    mr_lines_close(&lines);
    return status;
}

static enum mr_status connect_broker(struct mr_batch *batch, struct mr_kafka_admin **admin,
                                     struct mr_error *err)
{
    const struct mr_client_options client = {.config = &batch->config,
                                             .requests = true,
                                             .timeout_ms = batch->options->timeout_ms,
                                             .notices = batch->options->messages};
    enum mr_status status = mr_client_open(&batch->client, &client, err);
    if (status == MR_OK) status = mr_kafka_admin_open(admin, mr_client_kafka(batch->client), err);
    bool embedded;
    return status == MR_OK
               ? mr_kafka_admin_probe(*admin, batch->options->timeout_ms, &embedded, err)
               : status;
}

/* ---- the loop ---- */

static enum mr_status open_reader(struct mr_batch *batch, struct mr_error *err)
{
    const char *topic = batch->config.results_topic;
    const struct mr_kafka_reader_options options = {.kafka = mr_client_kafka(batch->client),
                                                    .topics = &topic,
                                                    .topic_count = 1,
                                                    .from = MR_KAFKA_FROM_OFFSETS,
                                                    .offsets = batch->read.next,
                                                    .offset_count = batch->read.count,
                                                    .timeout_ms = batch->options->timeout_ms};
    return mr_kafka_reader_create(&batch->reader, &options, err);
}

/* Handles the results that have arrived; waits for the first one. */
static enum mr_status take_results(struct mr_batch *batch, struct mr_error *err)
{
    struct mr_kafka_record record;
    const bool is_full = batch->is_sent || batch->flight.count >= batch->pace.window;
    uint32_t wait_ms = is_full ? TAKE_MS : WAIT_MS;
    enum mr_status status = MR_OK;
    for (uint32_t i = 0; status == MR_OK && i < TAKES_MAX; i++, wait_ms = 0) {
        if (!mr_kafka_reader_take(batch->reader, wait_ms, &record)) break;
        status = mr_batch_take(batch, &record, err);
    }
    return status;
}

static enum mr_status check_health(struct mr_batch *batch, struct mr_error *err)
{
    mr_kafka_out_serve(batch->out, 0);
    if (batch->failure.status != MR_OK) {
        *err = batch->failure;
        return err->status;
    }
    enum mr_status status = mr_client_health(batch->client, err);
    if (status == MR_OK) status = mr_kafka_out_fatal(batch->out, err);
    return status == MR_OK ? mr_kafka_reader_failure(batch->reader, HEALTH_MS, err) : status;
}

static void say(struct mr_batch *batch, const char *text)
{
    mr_batch_progress_pause(&batch->progress);
    fputs(text, batch->options->messages);
}

/* The first interrupt: nothing more is sent. */
static void stop(struct mr_batch *batch)
{
    if (batch->is_stopping) return;
    batch->is_stopping = true;
    say(batch, "millrace: nothing more is sent. Waiting for the answers that are due; interrupt "
               "again to cancel these requests. Run the same command again to go on.\n");
}

/* Says once that no answer has come, as when no worker reads the topic. */
static void note_silence(struct mr_batch *batch, uint64_t now_ns)
{
    char text[400];
    if (now_ns < batch->silence_ns) return;
    batch->silence_ns = UINT64_MAX;
    const struct mr_batch_progress_counts now = mr_batch_counts(batch),
                                          *begun = &batch->progress.begun;
    if (now.answered + now.failed > begun->answered + begun->failed) return;
    snprintf(text, sizeof text,
             "millrace: no worker has answered yet; %zu requests wait in %.249s\n",
             batch->flight.count, batch->topic);
    say(batch, text);
}

/* True while an answer is awaited. A line that waits to be sent again is not, after an interrupt.
 */
static bool is_awaiting(const struct mr_batch *batch)
{
    size_t waiting = 0;
    if (!batch->is_stopping) return !has_all(batch);
    for (const struct mr_batch_flight_entry *entry = batch->flight.waiting; entry;
         entry = entry->next)
        waiting++;
    return batch->flight.count > waiting;
}

static enum mr_status run_loop(struct mr_batch *batch, struct mr_error *err)
{
    enum mr_status status = MR_OK;
    while (status == MR_OK && is_awaiting(batch)) {
        const unsigned interrupts = batch->options->interrupts(batch->options->context);
        if (interrupts > 0) stop(batch);
        const uint64_t now_ns = mr_clock_ns();
        if (interrupts > 1 || now_ns >= batch->end_ns) break;
        status = check_health(batch, err);
        if (status == MR_OK) status = mr_batch_fill(batch, err);
        if (status == MR_OK) status = take_results(batch, err);
        const struct mr_batch_progress_counts counts = mr_batch_counts(batch);
        mr_batch_progress_show(&batch->progress, &counts, now_ns);
        note_silence(batch, now_ns);
        if (status != MR_OK || now_ns < batch->save_ns) continue;
        batch->save_ns = now_ns + SAVE_NS;
        status = mr_batch_save(batch, err);
    }
    return status;
}

/* Writes an error line for each line that has none. */
static enum mr_status give_up_all(struct mr_batch *batch, const char *code, const char *message,
                                  struct mr_error *err)
{
    struct mr_lines lines;
    struct mr_line line;
    enum mr_status status = mr_lines_open(&lines, batch->input, MR_BATCH_LINE_BYTES, NULL, err);
    while (status == MR_OK) {
        status = mr_lines_next(&lines, &line, err);
        if (status != MR_OK || line.number == 0) break;
        if (!mr_bits_get(&batch->done, line.number))
            status = mr_batch_give_up(batch, &line, code, message, err);
    }
    mr_lines_close(&lines);
    return status;
}

/* What is left to do after the loop. */
static enum mr_status end_run(struct mr_batch *batch, struct mr_error *err)
{
    const bool is_late = mr_clock_ns() >= batch->end_ns && !has_all(batch);
    enum mr_status status = MR_OK;
    if (batch->config.cancel_job) {
        status = mr_batch_cancel(batch, err);
        if (status == MR_OK)
            status = give_up_all(batch, "batch_cancelled", "The batch was cancelled.", err);
    } else if (is_late) {
        status = give_up_all(batch, "batch_expired",
                             "The request was not answered before the deadline.", err);
    } else if (batch->options->interrupts(batch->options->context) > 1) {
        status = mr_batch_cancel(batch, err);
    }
    return status;
}

/* Sends and receives until every line has an answer, or the run is interrupted. */
static enum mr_status run_job(struct mr_batch *batch, struct mr_error *err)
{
    const uint64_t now_ns = mr_clock_ns();
    const int64_t left_ms = batch->job.begun_ms +
                            (int64_t)(batch->config.batch_deadline_ns / 1000000) -
                            mr_clock_unix_ms();
    batch->end_ns = now_ns + (left_ms > 0 ? (uint64_t)left_ms * 1000000 : 0);
    batch->save_ns = now_ns + SAVE_NS;
    batch->silence_ns = now_ns + SILENCE_NS;
    const uint32_t most = batch->config.concurrency;
    mr_pace_init(&batch->pace, most > 0 && most < MR_BATCH_WINDOW_MAX ? most : MR_BATCH_WINDOW_MAX,
                 now_ns);
    enum mr_status status = mr_batch_recall(batch, err);
    if (status == MR_OK) status = mr_batch_open_producer(batch, err);
    if (status == MR_OK) status = open_reader(batch, err);
    if (status == MR_OK)
        status = mr_lines_open(&batch->lines, batch->input, MR_BATCH_LINE_BYTES, NULL, err);
    const struct mr_batch_progress_counts counts = mr_batch_counts(batch);
    mr_batch_progress_init(&batch->progress, batch->options->messages, &counts, now_ns);
    if (status == MR_OK && !batch->config.cancel_job) status = run_loop(batch, err);
    if (status == MR_OK) status = end_run(batch, err);
    return status;
}

/* ---- the whole ---- */

static enum mr_status run_phases(struct mr_batch *batch, struct mr_error *err)
{
    struct mr_kafka_admin *admin = NULL;
    bool ended;
    enum mr_status status = look_for_end(batch, &ended, err);
    if (status != MR_OK || ended) return status;
    status = connect_broker(batch, &admin, err);
    if (status == MR_OK) status = check_lines(batch, admin, err);
    if (status == MR_OK) status = open_job(batch, err);
    if (status == MR_OK) status = begin_job(batch, admin, err);
    mr_kafka_admin_close(admin);
    if (status == MR_OK) status = write_faults(batch, err);
    if (status == MR_OK && !has_all(batch)) status = run_job(batch, err);
    if (status != MR_OK) return status;
    if (!has_all(batch)) return mr_batch_save(batch, err);
    mr_batch_job_remove(&batch->job);
    return mr_batch_output_sync(&batch->output, err);
}

static enum mr_status open_files(struct mr_batch *batch, struct mr_error *err)
{
    const struct mr_config *config = &batch->config;
    enum mr_status status = mr_unpacked_open(&batch->input, config->arguments[0], err);
    if (status == MR_OK)
        status = mr_batch_output_open(&batch->output, config->arguments[1], config->batch_errors,
                                      mr_unpacked_fd(batch->input), err);
    if (status == MR_OK && !mr_batch_flight_create(&batch->flight, MR_BATCH_WINDOW_MAX))
        status = mr_fail(err, MR_NOMEM, "no memory for a batch");
    return status;
}

static void close_all(struct mr_batch *batch)
{
    mr_lines_close(&batch->lines);
    mr_kafka_reader_destroy(batch->reader);
    mr_kafka_out_destroy(batch->out);
    mr_client_close(batch->client);
    mr_batch_flight_destroy(&batch->flight);
    mr_bits_destroy(&batch->done);
    mr_survey_destroy(&batch->survey);
    mr_batch_job_close(&batch->job);
    mr_batch_job_offsets_free(&batch->sent);
    mr_batch_job_offsets_free(&batch->read);
    mr_buffer_drop(&batch->line);
    mr_batch_output_close(&batch->output);
    mr_unpacked_close(batch->input);
}

enum mr_status mr_batch_run(const struct mr_batch_options *options, bool *complete,
                            struct mr_error *err)
{
    struct mr_batch batch = {.options = options, .config = *options->config};
    if (batch.config.batch_topic[0]) batch.config.request_topics[0].name = batch.config.batch_topic;
    batch.topic = batch.config.request_topics[0].name;
    const int64_t deadline_ms = (int64_t)(batch.config.batch_deadline_ns / 1000000);
    batch.rules = (struct mr_batch_item_rules){
        .priority = "low",
        .timeout_ms = deadline_ms < TIMEOUT_MS_MAX ? deadline_ms : TIMEOUT_MS_MAX,
        .record_bytes_max = batch.config.max_record_bytes,
        .now_ms = mr_clock_unix_ms()};
    batch.output.answers.fd = batch.output.errors.fd = -1;
    mr_buffer_init(&batch.line, MR_RESULT_BYTES_MAX);
    enum mr_status status = open_files(&batch, err);
    if (status == MR_OK) status = run_phases(&batch, err);
    const struct mr_batch_progress_counts counts = mr_batch_counts(&batch);
    if (!batch.progress.out)
        mr_batch_progress_init(&batch.progress, options->messages, &counts, mr_clock_ns());
    if (status == MR_OK)
        mr_batch_progress_end(&batch.progress, &counts, batch.output.errors.path, mr_clock_ns());
    else
        mr_batch_progress_pause(&batch.progress);
    *complete = status == MR_OK && has_all(&batch) && counts.failed == 0;
    close_all(&batch);
    return status;
}
