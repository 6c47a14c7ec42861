#include "worker/base/clock.h"
#include "worker/batch/batch_state.h"

#include <string.h>

#define TAKE_MS 200u

/* ---- offsets of a new job ---- */

static enum mr_status find_ends(struct mr_batch *batch, struct mr_kafka_admin *admin,
                                const char *topic, struct mr_batch_job_offsets *offsets,
                                struct mr_error *err)
{
    const uint32_t timeout_ms = batch->options->timeout_ms;
    struct mr_kafka_ends ends;
    uint32_t count = 0;
    enum mr_status status = mr_kafka_admin_partitions(admin, topic, timeout_ms, &count, err);
    if (status == MR_OK && !mr_batch_job_offsets_resize(offsets, count, 0))
        status = mr_fail(err, MR_NOMEM, "no memory for offsets");
    for (uint32_t i = 0; status == MR_OK && i < count; i++) {
        status = mr_kafka_admin_ends(admin, topic, (int32_t)i, timeout_ms, &ends, err);
        if (status == MR_OK) offsets->next[i] = ends.end;
    }
    return status;
}

enum mr_status mr_batch_begin(struct mr_batch *batch, struct mr_kafka_admin *admin,
                              struct mr_error *err)
{
    enum mr_status status = find_ends(batch, admin, batch->topic, &batch->job.requests, err);
    return status == MR_OK
               ? find_ends(batch, admin, batch->config.results_topic, &batch->job.results, err)
               : status;
}

/* ---- the state file ---- */

static void lower(struct mr_batch_job_offsets *offsets, int32_t partition, int64_t offset)
{
    if (offset < 0 || (size_t)partition >= offsets->count) return;
    if (offsets->next[partition] > offset) offsets->next[partition] = offset;
}

/* The offsets must not pass what an entry still needs. */
static void lower_for_entry(void *context, struct mr_batch_flight_entry *entry)
{
    struct mr_batch_job *job = context;
    lower(&job->requests, entry->partition, entry->offset);
    lower(&job->results, entry->result_partition, entry->result_offset);
}

static bool copy_offsets(struct mr_batch_job_offsets *to, const struct mr_batch_job_offsets *from)
{
    if (!mr_batch_job_offsets_resize(to, from->count, 0)) return false;
    if (from->count > 0) memcpy(to->next, from->next, from->count * sizeof *from->next);
    return true;
}

enum mr_status mr_batch_save(struct mr_batch *batch, struct mr_error *err)
{
    struct mr_batch_job *job = &batch->job;
    enum mr_status status = mr_batch_output_sync(&batch->output, err);
    if (status != MR_OK) return status;
    if (!copy_offsets(&job->requests, &batch->sent) || !copy_offsets(&job->results, &batch->read))
        return mr_fail(err, MR_NOMEM, "no memory for offsets");
    mr_batch_flight_each(&batch->flight, lower_for_entry, job);
    return mr_batch_job_save(job, err);
}

/* ---- what earlier runs have sent ---- */

struct scan {
    struct mr_batch *batch;
    const char *topic;
    struct mr_batch_job_offsets
        *next; /* where to start; becomes the offset after the last record */
    enum mr_status (*take)(struct mr_batch *batch, const struct mr_kafka_record *record,
                           struct mr_error *err);
};

/* Reads a topic up to its present end. */
static enum mr_status scan_topic(const struct scan *scan, struct mr_error *err)
{
    struct mr_kafka_reader *reader = NULL;
    struct mr_kafka_record record;
    const uint32_t timeout_ms = scan->batch->options->timeout_ms;
    const struct mr_kafka_reader_options options = {.kafka = mr_client_kafka(scan->batch->client),
                                                    .topics = &scan->topic,
                                                    .topic_count = 1,
                                                    .from = MR_KAFKA_FROM_OFFSETS,
                                                    .offsets = scan->next->next,
                                                    .offset_count = scan->next->count,
                                                    .until_end = true,
                                                    .timeout_ms = timeout_ms};
    enum mr_status status = mr_kafka_reader_create(&reader, &options, err);
    while (status == MR_OK && mr_kafka_reader_is_behind(reader)) {
        status = mr_client_health(scan->batch->client, err);
        if (status == MR_OK) status = mr_kafka_reader_failure(reader, timeout_ms, err);
        if (status == MR_OK && mr_kafka_reader_take(reader, TAKE_MS, &record))
            status = scan->take(scan->batch, &record, err);
    }
    mr_kafka_reader_destroy(reader);
    return status;
}

/* A record of the requests topic: if it is of a line without an answer, the line is in flight. */
static enum mr_status take_request(struct mr_batch *batch, const struct mr_kafka_record *record,
                                   struct mr_error *err)
{
    uint64_t line;
    uint32_t try;
    const size_t index = (size_t)record->partition;
    if (!mr_batch_job_offsets_resize(&batch->sent, index + 1, 0))
        return mr_fail(err, MR_NOMEM, "no memory for offsets");
    batch->sent.next[index] = record->offset + 1;
    if (!record->key.bytes || !mr_batch_job_read_id(&batch->job, record->key, &line, &try) ||
        try < batch->job.first_try || line == 0 || line > batch->done.line_count ||
        mr_bits_get(&batch->done, line))
        return MR_OK;
    struct mr_batch_flight_entry *entry = mr_batch_flight_find(&batch->flight, line);
    if (!entry) entry = mr_batch_flight_add(&batch->flight, line);
    if (!entry) return mr_fail(err, MR_NOMEM, "no memory for a line");
    if (entry->offset >= 0 && entry->try >= try) return MR_OK;
    entry->try = try;
    entry->partition = record->partition;
    entry->offset = record->offset;
    return MR_OK;
}

/* Reads the lines of the entries from the input. */
static enum mr_status load_lines(struct mr_batch *batch, struct mr_error *err)
{
    struct mr_lines lines;
    struct mr_line line;
    size_t missing = batch->flight.count;
    enum mr_status status = mr_lines_open(&lines, batch->input, MR_BATCH_LINE_BYTES, NULL, err);
    while (status == MR_OK && missing > 0) {
        status = mr_lines_next(&lines, &line, err);
        if (status != MR_OK || line.number == 0) break;
        struct mr_batch_flight_entry *entry = mr_batch_flight_find(&batch->flight, line.number);
        if (!entry || entry->text) continue;
        missing--;
        if (!mr_batch_flight_load(&batch->flight, entry, line.text))
            status = mr_fail(err, MR_NOMEM, "no memory for a line");
    }
    mr_lines_close(&lines);
    return status;
}

enum mr_status mr_batch_recall(struct mr_batch *batch, struct mr_error *err)
{
    if (!copy_offsets(&batch->sent, &batch->job.requests) ||
        !copy_offsets(&batch->read, &batch->job.results))
        return mr_fail(err, MR_NOMEM, "no memory for offsets");
    const struct scan requests = {batch, batch->topic, &batch->sent, take_request};
    const struct scan results = {batch, batch->config.results_topic, &batch->read, mr_batch_take};
    enum mr_status status = scan_topic(&requests, err);
    if (status == MR_OK) status = load_lines(batch, err);
    return status == MR_OK && batch->flight.count > 0 ? scan_topic(&results, err) : status;
}
