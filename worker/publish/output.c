#include "worker/publish/output.h"

#include "codec/check.h"
#include "codec/limits.h"
#include "codec/records/message.h"
#include "worker/kafka/header_names.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Number of headers that a dead letter adds to those of the consumed record. */
#define DEAD_LETTER_HEADERS 24u
/* memory limit for the content, reasoning and tool calls of a result */
#define SPLIT_BYTES_MAX (2 * MR_RESULT_BYTES_MAX)
/* added to the error message of a result whose dead letter could not be written */
#define LOST_TEXT "; the record could not be written to the dead-letter topic"

void mr_output_clear(struct mr_output *output)
{
    free(output->value);
    output->value = NULL;
    output->header_count = 0;
    output->numbers_used = 0;
    memset(&output->record, 0, sizeof output->record);
}

static void add_bytes(struct mr_output *output, const char *name, const void *value, size_t length)
{
    MR_ASSERT(output->header_count < MR_OUTPUT_HEADERS_MAX);
    output->headers[output->header_count++] = (struct mr_kafka_header){name, value, length};
}

static void add_text(struct mr_output *output, const char *name, const char *value)
{
    add_bytes(output, name, value, strlen(value));
}

/* Adds a header whose value is a number as decimal text, stored in `output`. */
static void add_number(struct mr_output *output, const char *name, long long value)
{
    char *at = output->numbers + output->numbers_used;
    size_t room = sizeof output->numbers - output->numbers_used;
    int length = snprintf(at, room, "%lld", value);
    MR_ASSERT(length > 0 && (size_t)length < room);
    output->numbers_used += (size_t)length + 1;
    add_bytes(output, name, at, (size_t)length);
}

/* Adds a header whose value is a number as bytes, most significant first, like Spring for Kafka. */
static void add_big_endian(struct mr_output *output, const char *name, uint64_t value,
                           size_t length)
{
    char *at = output->numbers + output->numbers_used;
    MR_ASSERT(output->numbers_used + length <= sizeof output->numbers);
    for (size_t i = 0; i < length; i++)
        at[i] = (char)(value >> (8 * (length - 1 - i)) & 0xFF);
    output->numbers_used += length;
    add_bytes(output, name, at, length);
}

/* Adds the headers that name the request record and the group, by which the next owner of the
 * partition recognises the request as finished (worker/offsets/recovery.h). */
static void add_source(struct mr_output *output, const struct mr_output_options *options,
                       const struct mr_ticket *ticket)
{
    char *at = output->numbers + output->numbers_used;
    size_t room = sizeof output->numbers - output->numbers_used;
    int length = snprintf(at, room, "%s/%" PRId32 "/%" PRId64, ticket->topic, ticket->partition,
                          ticket->offset);
    MR_ASSERT(length > 0 && (size_t)length < room);
    output->numbers_used += (size_t)length + 1;
    add_bytes(output, MR_HEADER_SOURCE, at, (size_t)length);
    add_text(output, MR_HEADER_GROUP, options->group);
}

static struct mr_text text_of(const char *text)
{
    return (struct mr_text){text, strlen(text)};
}

static void begin(struct mr_output *output, const struct mr_ticket *ticket, const char *topic)
{
    mr_output_clear(output);
    output->record = (struct mr_kafka_record){
        .topic = topic, .partition = -1, .offset = -1, .key = text_of(ticket->id)};
}

static void add_common(struct mr_output *output, const struct mr_output_options *options,
                       const struct mr_ticket *ticket)
{
    add_text(output, MR_HEADER_CONTENT_TYPE, mr_encoding_content_type(ticket->encoding));
    add_text(output, MR_HEADER_ID, ticket->id);
    add_number(output, MR_HEADER_ATTEMPT, ticket->attempt);
    if (ticket->generation >= 0) add_number(output, MR_HEADER_GENERATION, ticket->generation);
    add_text(output, MR_HEADER_WORKER, options->worker);
    if (ticket->tenant) add_text(output, MR_HEADER_TENANT, ticket->tenant);
    for (size_t i = 0; i < ticket->echo_count; i++)
        add_bytes(output, ticket->echo[i].name, ticket->echo[i].value, ticket->echo[i].length);
}

static void end(struct mr_output *output, size_t length)
{
    output->record.headers = output->headers;
    output->record.header_count = output->header_count;
    output->record.value = (struct mr_text){(const char *)output->value, length};
}

enum mr_status mr_output_tokens(struct mr_output *output, const struct mr_output_options *options,
                                const struct mr_tokens_mail *mail, struct mr_error *err)
{
    const struct mr_ticket *ticket = mail->ticket;
    struct mr_token_record record = mail->record;
    size_t length = 0;
    begin(output, ticket, ticket->reply_tokens ? ticket->reply_topic : options->tokens_topic);
    if (ticket->reply_tokens) output->record.partition = ticket->reply_partition;
    record.attempt = ticket->attempt;
    enum mr_status status =
        mr_token_record_encode(&record, ticket->encoding, &output->value, &length, err);
    if (status != MR_OK) return status;
    add_common(output, options, ticket);
    add_number(output, MR_HEADER_INDEX, record.index);
    end(output, length);
    return MR_OK;
}

/* ---- results ---- */

static void fill_source(struct mr_result *result, const struct mr_output_options *options,
                        const struct mr_ticket *ticket)
{
    result->id = text_of(ticket->id);
    result->attempt = ticket->attempt;
    result->model = text_of(ticket->model ? ticket->model : options->model);
    result->worker = text_of(options->worker);
    result->source_topic = text_of(ticket->topic);
    result->source_partition = ticket->partition;
    result->source_offset = ticket->offset;
}

/* Removes the log-probabilities of prompt and answer, and adds a warning before the others. */
static void lay_bare(struct mr_result *result, struct mr_choice *choices,
                     struct mr_text warnings[MR_WARNINGS_MAX])
{
    static const char lost[] = "logprobs, prompt_logprobs: left out, because the broker refused "
                               "the result with them as too large";
    size_t count = result->warning_count;
    if (count == MR_WARNINGS_MAX) count--;
    warnings[0] = (struct mr_text){lost, sizeof lost - 1};
    if (count > 0) memcpy(warnings + 1, result->warnings, count * sizeof *warnings);
    result->warnings = warnings;
    result->warning_count = count + 1;
    for (size_t i = 0; i < result->choice_count; i++) {
        choices[i] = result->choices[i];
        choices[i].logprobs = NULL;
    }
    result->choices = choices;
    result->prompt_logprobs = NULL;
}

static void shrink(struct mr_result *result, struct mr_choice *choices)
{
    for (size_t i = 0; i < result->choice_count; i++) {
        choices[i] = result->choices[i];
        choices[i].text = (struct mr_text){0};
        choices[i].token_ids = NULL;
        choices[i].token_count = 0;
        choices[i].logprobs = NULL;
    }
    result->choices = choices;
    result->prompt_logprobs = NULL;
    result->score_count = result->embedding_size = result->data.count = 0;
    result->metadata = (struct mr_text){0};
    result->warning_count = 0;
    result->error = MR_RECORD_TOO_LARGE;
    result->error_message = "the result is larger than the broker accepts; its text was left out";
    result->error_retryable = mr_status_is_retryable(result->error);
}

static enum mr_status encode_result(struct mr_output *output,
                                    const struct mr_output_options *options,
                                    const struct mr_ticket *ticket, struct mr_result *result,
                                    struct mr_error *err)
{
    size_t length = 0;
    begin(output, ticket, options->results_topic);
    fill_source(result, options, ticket);
    enum mr_status status =
        mr_result_encode(result, ticket->encoding, &output->value, &length, err);
    if (status != MR_OK) return status;
    add_common(output, options, ticket);
    add_text(output, MR_HEADER_FINISH_REASON, mr_finish_text(result->choices[0].finish));
    add_source(output, options, ticket);
    end(output, length);
    return MR_OK;
}

static enum mr_status refusal_result(struct mr_output *output,
                                     const struct mr_output_options *options,
                                     const struct mr_refusal_mail *mail, struct mr_error *err)
{
    struct mr_choice choice = {
        .finish = mail->finish, .stop_token = MR_TOKEN_NONE, .text = {"", 0}};
    char message[MR_ERROR_DETAIL_BYTES + sizeof LOST_TEXT];
    bool lost = mail->ticket->publish.parts[MR_PART_DEAD_LETTER].lost;
    snprintf(message, sizeof message, "%s%s", mail->error.detail, lost ? LOST_TEXT : "");
    struct mr_result result = {.choices = &choice,
                               .choice_count = 1,
                               .error = mail->error.status,
                               .error_message = message,
                               .error_retryable = mr_status_is_retryable(mail->error.status),
                               .metadata = mail->metadata};
    return encode_result(output, options, mail->ticket, &result, err);
}

/* Encodes a result whose choices are split into content, reasoning and tool calls. */
static enum mr_status split_result(struct mr_output *output,
                                   const struct mr_output_options *options,
                                   const struct mr_ticket *ticket, struct mr_result *result,
                                   const struct mr_message_rules *rules, struct mr_error *err)
{
    struct mr_choice choices[MR_CHOICES_MAX];
    enum mr_status status = MR_OK;
    struct mr_arena *arena = mr_arena_create(SPLIT_BYTES_MAX);
    if (!arena) return mr_fail(err, MR_NOMEM, "no memory for a result");
    for (size_t i = 0; i < result->choice_count && status == MR_OK; i++) {
        choices[i] = result->choices[i];
        status = mr_message_split(&choices[i], rules, arena, err);
    }
    result->choices = choices;
    if (status == MR_OK) status = encode_result(output, options, ticket, result, err);
    mr_arena_destroy(arena);
    return status;
}

enum mr_status mr_output_result(struct mr_output *output, const struct mr_output_options *options,
                                const struct mr_mail *terminal, const struct mr_ticket_part *part,
                                struct mr_error *err)
{
    if (terminal->kind == MR_MAIL_REFUSAL)
        return refusal_result(output, options, (const struct mr_refusal_mail *)terminal, err);
    const struct mr_result_mail *mail = (const struct mr_result_mail *)terminal;
    struct mr_result result = mail->result;
    struct mr_choice choices[MR_CHOICES_MAX];
    MR_ASSERT(result.choice_count >= 1 && result.choice_count <= MR_CHOICES_MAX);
    if (mail->request && !result.metadata.bytes) result.metadata = mail->request->metadata;
    if (mail->request) {
        result.warnings = mail->request->warnings;
        result.warning_count = mail->request->warning_count;
        if (mail->request->inputs.return_documents)
            result.data.documents = mail->request->inputs.list;
    }
    struct mr_text warnings[MR_WARNINGS_MAX];
    if (part->bare) lay_bare(&result, choices, warnings);
    if (part->shrunk) {
        shrink(&result, choices);
        return encode_result(output, options, mail->ticket, &result, err);
    }
    struct mr_message_rules rules = {0};
    if (mail->request) rules = mr_message_rules_of(mail->request);
    rules.types = mail->ticket->tool_types;
    if (!rules.is_split) return encode_result(output, options, mail->ticket, &result, err);
    return split_result(output, options, mail->ticket, &result, &rules, err);
}

/* ---- dead letters ---- */

/* Adds one line in place of a stack trace: the record's source and its error.
 */
static void add_trace(struct mr_output *output, const char *name,
                      const struct mr_refusal_mail *mail)
{
    const struct mr_ticket *ticket = mail->ticket;
    int length = snprintf(output->trace, sizeof output->trace, "%s: %s at %s/%d offset %lld",
                          mr_status_code(mail->error.status), mail->error.detail, ticket->topic,
                          ticket->partition, (long long)ticket->offset);
    size_t most = sizeof output->trace - 1;
    add_bytes(output, name, output->trace, (size_t)length < most ? (size_t)length : most);
}

static void add_connect(struct mr_output *output, const struct mr_output_options *options,
                        const struct mr_refusal_mail *mail)
{
    const struct mr_ticket *ticket = mail->ticket;
    add_text(output, MR_HEADER_CONNECT_TOPIC, ticket->topic);
    add_number(output, MR_HEADER_CONNECT_PARTITION, ticket->partition);
    add_number(output, MR_HEADER_CONNECT_OFFSET, ticket->offset);
    add_text(output, MR_HEADER_CONNECT_CONNECTOR, "millrace");
    add_text(output, MR_HEADER_CONNECT_TASK, options->worker);
    add_text(output, MR_HEADER_CONNECT_STAGE,
             mail->error.status == MR_POISON ? "TASK_PUT" : "VALUE_CONVERTER");
    add_text(output, MR_HEADER_CONNECT_CLASS, "millrace");
    add_text(output, MR_HEADER_CONNECT_EXCEPTION, mr_status_code(mail->error.status));
    add_text(output, MR_HEADER_CONNECT_MESSAGE, mail->error.detail);
    add_trace(output, MR_HEADER_CONNECT_STACKTRACE, mail);
}

static void add_spring(struct mr_output *output, const struct mr_output_options *options,
                       const struct mr_refusal_mail *mail)
{
    const struct mr_ticket *ticket = mail->ticket;
    add_text(output, MR_HEADER_SPRING_TOPIC, ticket->topic);
    add_big_endian(output, MR_HEADER_SPRING_PARTITION, (uint32_t)ticket->partition, 4);
    add_big_endian(output, MR_HEADER_SPRING_OFFSET, (uint64_t)ticket->offset, 8);
    add_big_endian(output, MR_HEADER_SPRING_TIMESTAMP, (uint64_t)mail->record.timestamp_ms, 8);
    add_text(output, MR_HEADER_SPRING_TIME_TYPE,
             mail->record.append_time ? "LogAppendTime" : "CreateTime");
    add_text(output, MR_HEADER_SPRING_GROUP, options->group);
    add_text(output, MR_HEADER_SPRING_EXCEPTION, mr_status_code(mail->error.status));
    add_text(output, MR_HEADER_SPRING_MESSAGE, mail->error.detail);
    add_trace(output, MR_HEADER_SPRING_STACKTRACE, mail);
}

/* Copies the headers of the request record except MR_HEADER_SOURCE: recovery takes a record with
 * that header as the end of a request. */
static void copy_headers(struct mr_output *output, const struct mr_kafka_record *record)
{
    for (size_t i = 0; i < record->header_count; i++) {
        const struct mr_kafka_header *header = &record->headers[i];
        if (strcmp(header->name, MR_HEADER_SOURCE) == 0) continue;
        if (output->header_count + DEAD_LETTER_HEADERS < MR_OUTPUT_HEADERS_MAX)
            add_bytes(output, header->name, header->value, header->length);
    }
}

void mr_output_dead_letter(struct mr_output *output, const struct mr_output_options *options,
                           const struct mr_refusal_mail *mail, const struct mr_ticket_part *part)
{
    begin(output, mail->ticket, options->dlq_topic);
    copy_headers(output, &mail->record);
    add_connect(output, options, mail);
    add_spring(output, options, mail);
    add_text(output, MR_HEADER_WORKER, options->worker);
    if (!mail->write_result) add_source(output, options, mail->ticket);
    if (part->shrunk)
        add_number(output, MR_HEADER_VALUE_BYTES, (long long)mail->record.value.length);
    end(output, 0);
    if (!part->keyed) output->record.key = mail->record.key;
    output->record.value = part->shrunk ? (struct mr_text){0} : mail->record.value;
}
