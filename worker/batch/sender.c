#include "worker/base/clock.h"
#include "worker/batch/batch_state.h"
#include "worker/kafka/header_names.h"

#include <stdlib.h>
#include <string.h>

#define LINGER_NS ((uint64_t)5000000)
#define AGAIN_NS  ((uint64_t)1000000000) /* until a record is sent again that was not accepted */
#define PRIME_MS  5000u
#define CANCEL_MS 10000u

/* ---- delivery reports ---- */

/* opaque is the line number: the entry may be gone, if the answer came before the report. NULL is a
 * cancel record. */
static struct mr_batch_flight_entry *entry_of(const struct mr_batch *batch, const void *opaque)
{
    return opaque ? mr_batch_flight_find(&batch->flight, (uint64_t)(uintptr_t)opaque) : NULL;
}

static void on_placed(void *context, void *opaque, int32_t partition, int64_t offset)
{
    struct mr_batch *batch = context;
    struct mr_batch_flight_entry *entry = entry_of(batch, opaque);
    if (!opaque || offset < 0) return;
    if (!mr_batch_job_offsets_resize(&batch->sent, (size_t)partition + 1, 0)) {
        mr_fail(&batch->failure, MR_NOMEM, "no memory for an offset");
        return;
    }
    int64_t *next = &batch->sent.next[partition];
    if (*next <= offset) *next = offset + 1;
    if (!entry) return;
    entry->partition = partition;
    entry->offset = offset;
    entry->result_offset = -1;
}

/* The line's record is larger than the topic takes, although its size was checked: the limit was
 * lowered, or is not known. */
static void fail_line(struct mr_batch *batch, struct mr_batch_flight_entry *entry,
                      const char *reason)
{
    struct mr_batch_item item;
    struct mr_error fault = {0};
    mr_fail(&fault, MR_RECORD_TOO_LARGE, "topic %.100s does not take the record: %s", batch->topic,
            reason);
    (void)mr_batch_item_open(&item, (struct mr_text){entry->text, entry->length}, entry->line,
                             NULL);
    if (mr_batch_write_fault(batch, entry->line, &item, &fault, &batch->failure) == MR_OK)
        mr_batch_flight_remove(&batch->flight, entry);
    mr_batch_item_close(&item);
}

static void on_reported(void *context, void *opaque, enum mr_status status, const char *reason)
{
    struct mr_batch *batch = context;
    struct mr_batch_flight_entry *entry = entry_of(batch, opaque);
    if (status == MR_OK || !entry) return;
    if (status == MR_RECORD_TOO_LARGE)
        fail_line(batch, entry, reason);
    else if (status == MR_BAD_CONFIG)
        mr_fail(&batch->failure, MR_BACKEND, "topic %.100s does not take requests: %s",
                batch->topic, reason);
    else
        mr_batch_flight_wait(&batch->flight, entry, mr_clock_ns() + AGAIN_NS);
}

enum mr_status mr_batch_open_producer(struct mr_batch *batch, struct mr_error *err)
{
    batch->kafka = *mr_client_kafka(batch->client);
    batch->kafka.linger_ns = LINGER_NS;
    const struct mr_kafka_out_options options = {
        .kafka = &batch->kafka, .reported = on_reported, .placed = on_placed, .context = batch};
    enum mr_status status = mr_kafka_out_create(&batch->out, &options, err);
    if (status == MR_OK) (void)mr_kafka_out_prime(batch->out, batch->topic, PRIME_MS, NULL);
    return status;
}

/* ---- sending ---- */

static enum mr_status produce(struct mr_batch *batch, uint64_t line, struct mr_text id,
                              struct mr_text value, struct mr_error *err)
{
    const char *type = mr_encoding_content_type(MR_ENCODING_JSON);
    const struct mr_kafka_header header = {MR_HEADER_CONTENT_TYPE, type, strlen(type)};
    const struct mr_kafka_record record = {.topic = batch->topic,
                                           .partition = -1,
                                           .key = id,
                                           .value = value,
                                           .headers = &header,
                                           .header_count = 1};
    return mr_kafka_out_produce(batch->out, &record, (void *)(uintptr_t)line, err);
}

enum mr_status mr_batch_send(struct mr_batch *batch, struct mr_batch_flight_entry *entry,
                             struct mr_error *err)
{
    char id[MR_BATCH_JOB_ID_BYTES], *record = NULL;
    size_t length = 0;
    struct mr_batch_item item;
    const size_t id_length = mr_batch_job_request_id(&batch->job, entry->line, entry->try, id);
    const struct mr_text text = {entry->text, entry->length}, key = {id, id_length};
    enum mr_status status = mr_batch_item_open(&item, text, entry->line, err);
    if (status == MR_OK)
        status = mr_batch_item_record(&item, &batch->rules, key, &record, &length, err);
    if (status == MR_OK)
        status = produce(batch, entry->line, key, (struct mr_text){record, length}, err);
    mr_batch_item_close(&item);
    free(record);
    if (status == MR_OK) mr_batch_flight_wait(&batch->flight, entry, 0);
    if (status != MR_RECORD_TOO_LARGE) return status;
    fail_line(batch, entry, "it is larger than the producer's limit");
    return MR_OK;
}

static enum mr_status send_due(struct mr_batch *batch, uint64_t now_ns, struct mr_error *err)
{
    enum mr_status status = MR_OK;
    for (struct mr_batch_flight_entry *entry = batch->flight.waiting, *next;
         entry && status == MR_OK; entry = next) {
        next = entry->next;
        if (entry->due_ns <= now_ns) status = mr_batch_send(batch, entry, err);
    }
    return status;
}

/* The entry of a line that was not sent, with its text; NULL: no memory. */
static struct mr_batch_flight_entry *add_line(struct mr_batch *batch, const struct mr_line *line)
{
    struct mr_batch_flight_entry *entry = mr_batch_flight_add(&batch->flight, line->number);
    if (!entry) return NULL;
    entry->try = batch->job.first_try;
    if (mr_batch_flight_load(&batch->flight, entry, line->text)) return entry;
    mr_batch_flight_remove(&batch->flight, entry);
    return NULL;
}

static bool has_room(const struct mr_batch *batch)
{
    return batch->flight.count < batch->pace.window && batch->flight.bytes < MR_BATCH_FLIGHT_BYTES;
}

/* Sends the next line that has neither an answer nor an entry. */
static enum mr_status send_next(struct mr_batch *batch, struct mr_error *err)
{
    struct mr_line line;
    enum mr_status status;
    do {
        status = mr_lines_next(&batch->lines, &line, err);
        if (status != MR_OK) return status;
        batch->is_sent = line.number == 0;
    } while (!batch->is_sent && (mr_bits_get(&batch->done, line.number) ||
                                 mr_batch_flight_find(&batch->flight, line.number)));
    if (batch->is_sent) return MR_OK;
    struct mr_batch_flight_entry *entry = add_line(batch, &line);
    if (!entry) return mr_fail(err, MR_NOMEM, "no memory for a line");
    status = mr_batch_send(batch, entry, err);
    /* the producer has no room: the line is sent with those that are due */
    if (status == MR_FULL) mr_batch_flight_wait(&batch->flight, entry, 1);
    return status;
}

enum mr_status mr_batch_fill(struct mr_batch *batch, struct mr_error *err)
{
    if (batch->is_stopping) return MR_OK;
    enum mr_status status = send_due(batch, mr_clock_ns(), err);
    while (status == MR_OK && !batch->is_sent && has_room(batch))
        status = send_next(batch, err);
    if (status == MR_OK && !batch->is_sent) mr_pace_full(&batch->pace);
    return status == MR_FULL ? MR_OK : status;
}

/* ---- cancelling ---- */

struct cancelling {
    struct mr_batch *batch;
    struct mr_error *err;
    enum mr_status status;
};

static void cancel_entry(void *context, struct mr_batch_flight_entry *entry)
{
    struct cancelling *cancelling = context;
    struct mr_batch *batch = cancelling->batch;
    char id[MR_BATCH_JOB_ID_BYTES];
    if (cancelling->status != MR_OK) return;
    const size_t length = mr_batch_job_request_id(&batch->job, entry->line, entry->try, id);
    const struct mr_kafka_record record = {.topic = batch->config.cancel_topic,
                                           .partition = -1,
                                           .key = {id, length},
                                           .value = {"cancel", 6}};
    while ((cancelling->status =
                mr_kafka_out_produce(batch->out, &record, NULL, cancelling->err)) == MR_FULL)
        mr_kafka_out_serve(batch->out, 100);
    const struct mr_line line = {.number = entry->line, .text = {entry->text, entry->length}};
    if (cancelling->status == MR_OK)
        cancelling->status = mr_batch_give_up(batch, &line, "batch_cancelled",
                                              "The request was cancelled.", cancelling->err);
}

enum mr_status mr_batch_cancel(struct mr_batch *batch, struct mr_error *err)
{
    struct cancelling cancelling = {.batch = batch, .err = err, .status = MR_OK};
    /* a record that is not acknowledged yet must not come after its cancel */
    (void)mr_kafka_out_flush(batch->out, CANCEL_MS);
    mr_batch_flight_each(&batch->flight, cancel_entry, &cancelling);
    if (cancelling.status == MR_OK && mr_kafka_out_flush(batch->out, CANCEL_MS) != MR_OK)
        return mr_fail(err, MR_UNREACHABLE, "the broker did not acknowledge all cancel records");
    return cancelling.status;
}
