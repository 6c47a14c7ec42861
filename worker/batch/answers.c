#include "worker/base/clock.h"
#include "worker/batch/batch_state.h"
#include "worker/batch/output_line.h"
#include "worker/kafka/header_names.h"

#include "codec/openai/answer.h"
#include "codec/openai/copy.h"

#include <string.h>

#define RETRY_NS                                                                                   \
    ((uint64_t)1000000000) /* before the second request; doubled for each further one */

struct mr_batch_progress_counts mr_batch_counts(const struct mr_batch *batch)
{
    return (struct mr_batch_progress_counts){.calls = batch->survey.call_count,
                                             .answered = batch->output.answers.lines,
                                             .failed = batch->output.errors.lines,
                                             .in_flight = batch->flight.count,
                                             .tokens = batch->tokens};
}

/* ---- lines ---- */

/* Appends batch->line, unless encoding it has failed. */
static enum mr_status write_line(struct mr_batch *batch, uint64_t line, bool is_error,
                                 enum mr_status encoded, struct mr_error *err)
{
    if (encoded != MR_OK) return encoded;
    enum mr_status status =
        mr_batch_output_append(&batch->output, is_error, mr_buffer_text(&batch->line), err);
    if (status == MR_OK) mr_bits_set(&batch->done, line);
    return status;
}

static struct mr_batch_output_head head_of(const struct mr_batch *batch, uint64_t line,
                                           const struct mr_batch_item *item)
{
    return (struct mr_batch_output_head){
        .job_name = batch->job.name, .line = line, .custom_id = item->custom_id};
}

enum mr_status mr_batch_write_fault(struct mr_batch *batch, uint64_t line,
                                    const struct mr_batch_item *item, const struct mr_error *fault,
                                    struct mr_error *err)
{
    const struct mr_batch_output_head head = head_of(batch, line, item);
    const char *code = mr_status_code(fault->status);
    struct mr_openai_error error;
    mr_openai_error_of(&error, (struct mr_text){code, strlen(code)},
                       (struct mr_text){fault->detail, strlen(fault->detail)}, item->body);
    return write_line(batch, line, true,
                      mr_batch_output_line_failure(&batch->line, &head, &error, err), err);
}

enum mr_status mr_batch_give_up(struct mr_batch *batch, const struct mr_line *line,
                                const char *code, const char *message, struct mr_error *err)
{
    struct mr_batch_item item;
    struct mr_batch_flight_entry *entry = mr_batch_flight_find(&batch->flight, line->number);
    (void)mr_batch_item_open(&item, line->text, line->number, NULL);
    const struct mr_batch_output_head head = head_of(batch, line->number, &item);
    enum mr_status status =
        write_line(batch, line->number, true,
                   mr_batch_output_line_unanswered(&batch->line, &head, code, message, err), err);
    mr_batch_item_close(&item);
    if (status == MR_OK && entry) mr_batch_flight_remove(&batch->flight, entry);
    return status;
}

/* ---- results ---- */

struct result {
    const struct mr_kafka_record *record;
    struct mr_value root;
    struct mr_batch_flight_entry *entry;
    struct mr_openai_error error;
    bool has_error;
};

static enum mr_encoding encoding_of(const struct mr_kafka_record *record)
{
    enum mr_encoding encoding;
    const struct mr_kafka_header *type = mr_kafka_record_header(record, MR_HEADER_CONTENT_TYPE);
    struct mr_text text = {0};
    if (type && type->value) text = (struct mr_text){type->value, type->length};
    (void)mr_encoding_detect(text, record->value, &encoding, NULL);
    return encoding;
}

/* A result with duplicate_id answers another record under our id, unless it names the place of our
 * record. */
static bool is_of_another(const struct mr_batch *batch, const struct result *result)
{
    struct mr_value source;
    struct mr_text topic;
    if (!mr_text_is(result->error.code, "duplicate_id") || result->entry->offset < 0 ||
        !mr_openai_get(result->root, "source", &source) ||
        !mr_openai_get_text(source, "topic", &topic))
        return false;
    return !mr_text_is(topic, batch->topic) ||
           mr_openai_get_int(source, "partition", -1) != result->entry->partition ||
           mr_openai_get_int(source, "offset", -1) != result->entry->offset;
}

/* Has the line sent again under a new id. False: not again. */
static bool retry(struct mr_batch *batch, const struct result *result)
{
    struct mr_batch_flight_entry *entry = result->entry;
    const uint32_t tried = entry->try - batch->job.first_try + 1;
    const bool helps = result->error.retryable || mr_text_is(result->error.code, "duplicate_id");
    if (!helps || tried >= MR_BATCH_JOB_TRIES) return false;
    if (entry->result_offset < 0) {
        entry->result_partition = result->record->partition;
        entry->result_offset = result->record->offset;
    }
    entry->try++;
    mr_batch_flight_wait(&batch->flight, entry, mr_clock_ns() + (RETRY_NS << (tried - 1)));
    return true;
}

static enum mr_status write_answer(struct mr_batch *batch, const struct result *result,
                                   struct mr_error *err)
{
    struct mr_batch_item item;
    const uint64_t line = result->entry->line;
    const struct mr_text text = {result->entry->text, result->entry->length};
    /* the line was valid when it was sent */
    enum mr_status status = mr_batch_item_open(&item, text, line, err);
    if (status != MR_OK) {
        mr_batch_item_close(&item);
        return status;
    }
    struct mr_batch_output_head head = head_of(batch, line, &item);
    head.request_id = result->record->key;
    const struct mr_openai_answer answer = {.endpoint = item.endpoint,
                                            .id = head.request_id,
                                            .created_s = result->record->timestamp_ms / 1000,
                                            .request = item.body,
                                            .result = result->root};
    if (result->has_error) {
        struct mr_openai_error error;
        (void)mr_openai_result_failed(result->root, item.body, &error);
        status = mr_batch_output_line_failure(&batch->line, &head, &error, err);
    } else {
        status = mr_batch_output_line_answer(&batch->line, &head, &answer, err);
    }
    status = write_line(batch, line, result->has_error, status, err);
    mr_batch_item_close(&item);
    return status;
}

static enum mr_status take_result(struct mr_batch *batch, struct result *result,
                                  struct mr_error *err)
{
    struct mr_value usage;
    result->has_error = mr_openai_result_failed(result->root, result->root, &result->error);
    if (result->has_error && is_of_another(batch, result)) return MR_OK;
    if (result->has_error && retry(batch, result)) return MR_OK;
    enum mr_status status = write_answer(batch, result, err);
    if (status != MR_OK) return status;
    if (mr_openai_get(result->root, "usage", &usage)) {
        const int64_t tokens = mr_openai_get_int(usage, "completion_tokens", 0);
        batch->tokens += tokens > 0 ? (uint64_t)tokens : 0;
    }
    mr_batch_flight_remove(&batch->flight, result->entry);
    mr_pace_answered(&batch->pace, mr_clock_ns());
    return MR_OK;
}

/* After this result the next one of its partition is read. */
static bool note_read(struct mr_batch *batch, const struct mr_kafka_record *record)
{
    const size_t index = (size_t)record->partition;
    if (!mr_batch_job_offsets_resize(&batch->read, index + 1, 0)) return false;
    batch->read.next[index] = record->offset + 1;
    return true;
}

enum mr_status mr_batch_take(struct mr_batch *batch, const struct mr_kafka_record *record,
                             struct mr_error *err)
{
    uint64_t line;
    uint32_t try;
    struct mr_document *document = NULL;
    struct result result = {.record = record};
    if (!note_read(batch, record)) return mr_fail(err, MR_NOMEM, "no memory for an offset");
    if (!record->key.bytes || !record->value.bytes ||
        !mr_batch_job_read_id(&batch->job, record->key, &line, &try))
        return MR_OK;
    result.entry = mr_batch_flight_find(&batch->flight, line);
    if (!result.entry || result.entry->try != try) return MR_OK; /* answered, or an earlier try */
    enum mr_status status = mr_document_open(&document, record->value, encoding_of(record), err);
    if (status == MR_NOMEM) return status;
    if (status != MR_OK) return MR_OK; /* not a worker's: the line waits for the worker's result */
    result.root = mr_document_root(document);
    if (mr_openai_is_answer(result.root)) status = take_result(batch, &result, err);
    mr_document_close(document);
    return status;
}
