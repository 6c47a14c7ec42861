#include "worker/publish/answer.h"

#include "codec/check.h"
#include "worker/kafka/header_names.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Headers that a dead letter may add; room for them is kept free of the record's own. */
#define DEAD_LETTER_HEADERS 24u

void mr_answer_clear(struct mr_answer *answer)
{
    free(answer->value);
    answer->value = NULL;
    answer->header_count = 0;
    answer->numbers_used = 0;
    memset(&answer->record, 0, sizeof answer->record);
}

static void add_bytes(struct mr_answer *answer, const char *name, const void *value, size_t length)
{
    MR_ASSERT(answer->header_count < MR_ANSWER_HEADERS_MAX);
    answer->headers[answer->header_count++] = (struct mr_kafka_header){name, value, length};
}

static void add_text(struct mr_answer *answer, const char *name, const char *value)
{
    add_bytes(answer, name, value, strlen(value));
}

/* A number as text; it lives in the answer. */
static void add_number(struct mr_answer *answer, const char *name, long long value)
{
    char *at = answer->numbers + answer->numbers_used;
    size_t room = sizeof answer->numbers - answer->numbers_used;
    int length = snprintf(at, room, "%lld", value);
    MR_ASSERT(length > 0 && (size_t)length < room);
    answer->numbers_used += (size_t)length + 1;
    add_bytes(answer, name, at, (size_t)length);
}

/* A number as bytes, most significant first, as Spring writes them. */
static void add_big_endian(struct mr_answer *answer, const char *name, uint64_t value,
                           size_t length)
{
    char *at = answer->numbers + answer->numbers_used;
    MR_ASSERT(answer->numbers_used + length <= sizeof answer->numbers);
    for (size_t i = 0; i < length; i++)
        at[i] = (char)(value >> (8 * (length - 1 - i)) & 0xFF);
    answer->numbers_used += length;
    add_bytes(answer, name, at, length);
}

/* Which record this one ends, for the next owner of its partition (worker/intake/recovery.h). */
static void add_source(struct mr_answer *answer, const struct mr_answer_source *source,
                       const struct mr_ticket *ticket)
{
    char *at = answer->numbers + answer->numbers_used;
    size_t room = sizeof answer->numbers - answer->numbers_used;
    int length = snprintf(at, room, "%s/%" PRId32 "/%" PRId64, ticket->topic, ticket->partition,
                          ticket->offset);
    MR_ASSERT(length > 0 && (size_t)length < room);
    answer->numbers_used += (size_t)length + 1;
    add_bytes(answer, MR_HEADER_SOURCE, at, (size_t)length);
    add_text(answer, MR_HEADER_GROUP, source->group);
}

static struct mr_text text_of(const char *text)
{
    return (struct mr_text){text, strlen(text)};
}

static void begin(struct mr_answer *answer, const struct mr_ticket *ticket, const char *topic)
{
    mr_answer_clear(answer);
    answer->record = (struct mr_kafka_record){
        .topic = topic, .partition = -1, .offset = -1, .key = text_of(ticket->id)};
}

static void add_common(struct mr_answer *answer, const struct mr_answer_source *source,
                       const struct mr_ticket *ticket)
{
    add_text(answer, MR_HEADER_CONTENT_TYPE, mr_encoding_content_type(ticket->encoding));
    add_text(answer, MR_HEADER_ID, ticket->id);
    add_number(answer, MR_HEADER_ATTEMPT, ticket->attempt);
    if (ticket->generation >= 0) add_number(answer, MR_HEADER_GENERATION, ticket->generation);
    add_text(answer, MR_HEADER_WORKER, source->worker);
    for (size_t i = 0; i < ticket->echo_count; i++)
        add_bytes(answer, ticket->echo[i].name, ticket->echo[i].value, ticket->echo[i].length);
}

static void end(struct mr_answer *answer, size_t length)
{
    answer->record.headers = answer->headers;
    answer->record.header_count = answer->header_count;
    answer->record.value = (struct mr_text){(const char *)answer->value, length};
}

enum mr_status mr_answer_tokens(struct mr_answer *answer, const struct mr_answer_source *source,
                                const struct mr_tokens_mail *mail, struct mr_error *err)
{
    const struct mr_ticket *ticket = mail->ticket;
    struct mr_token_record record = mail->record;
    size_t length = 0;
    begin(answer, ticket, source->tokens_topic);
    record.attempt = ticket->attempt;
    enum mr_status status =
        mr_token_record_encode(&record, ticket->encoding, &answer->value, &length, err);
    if (status != MR_OK) return status;
    add_common(answer, source, ticket);
    add_number(answer, MR_HEADER_INDEX, record.index);
    end(answer, length);
    return MR_OK;
}

/* ---- results ---- */

static void fill_source(struct mr_result *result, const struct mr_answer_source *source,
                        const struct mr_ticket *ticket)
{
    result->id = text_of(ticket->id);
    result->attempt = ticket->attempt;
    result->model = text_of(source->model);
    result->worker = text_of(source->worker);
    result->source_topic = text_of(ticket->topic);
    result->source_partition = ticket->partition;
    result->source_offset = ticket->offset;
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
    result->metadata = (struct mr_text){0};
    result->error = MR_RECORD_TOO_LARGE;
    result->error_message = "the result is larger than the broker takes; its text was left out";
    result->error_retryable = false;
}

static enum mr_status encode_result(struct mr_answer *answer, const struct mr_answer_source *source,
                                    const struct mr_ticket *ticket, struct mr_result *result,
                                    struct mr_error *err)
{
    size_t length = 0;
    begin(answer, ticket, source->results_topic);
    fill_source(result, source, ticket);
    enum mr_status status =
        mr_result_encode(result, ticket->encoding, &answer->value, &length, err);
    if (status != MR_OK) return status;
    add_common(answer, source, ticket);
    add_text(answer, MR_HEADER_FINISH_REASON, mr_finish_text(result->choices[0].finish));
    add_source(answer, source, ticket);
    end(answer, length);
    return MR_OK;
}

static enum mr_status answer_refusal(struct mr_answer *answer,
                                     const struct mr_answer_source *source,
                                     const struct mr_refusal_mail *mail, struct mr_error *err)
{
    struct mr_choice choice = {
        .finish = mail->finish, .stop_token = MR_TOKEN_NONE, .text = {"", 0}};
    struct mr_result result = {.choices = &choice,
                               .choice_count = 1,
                               .error = mail->error.status,
                               .error_message = mail->error.detail,
                               .error_retryable =
                                   mr_status_class(mail->error.status) == MR_CLASS_RETRY,
                               .metadata = mail->metadata};
    return encode_result(answer, source, mail->ticket, &result, err);
}

enum mr_status mr_answer_result(struct mr_answer *answer, const struct mr_answer_source *source,
                                const struct mr_mail *ending, bool shrunk, struct mr_error *err)
{
    if (ending->kind == MR_MAIL_REFUSAL)
        return answer_refusal(answer, source, (const struct mr_refusal_mail *)ending, err);
    const struct mr_result_mail *mail = (const struct mr_result_mail *)ending;
    struct mr_result result = mail->result;
    struct mr_choice choices[MR_CHOICES_MAX];
    MR_ASSERT(result.choice_count >= 1 && result.choice_count <= MR_CHOICES_MAX);
    if (mail->request && !result.metadata.bytes) result.metadata = mail->request->metadata;
    if (shrunk) shrink(&result, choices);
    return encode_result(answer, source, mail->ticket, &result, err);
}

/* ---- dead letters ---- */

/* There is no stack to show: where the record came from and what was wrong with it, in one line. */
static void add_trace(struct mr_answer *answer, const char *name,
                      const struct mr_refusal_mail *mail)
{
    const struct mr_ticket *ticket = mail->ticket;
    int length = snprintf(answer->trace, sizeof answer->trace, "%s: %s at %s/%d offset %lld",
                          mr_status_code(mail->error.status), mail->error.detail, ticket->topic,
                          ticket->partition, (long long)ticket->offset);
    size_t most = sizeof answer->trace - 1;
    add_bytes(answer, name, answer->trace, (size_t)length < most ? (size_t)length : most);
}

static void add_connect(struct mr_answer *answer, const struct mr_answer_source *source,
                        const struct mr_refusal_mail *mail)
{
    const struct mr_ticket *ticket = mail->ticket;
    add_text(answer, MR_HEADER_CONNECT_TOPIC, ticket->topic);
    add_number(answer, MR_HEADER_CONNECT_PARTITION, ticket->partition);
    add_number(answer, MR_HEADER_CONNECT_OFFSET, ticket->offset);
    add_text(answer, MR_HEADER_CONNECT_CONNECTOR, "millrace");
    add_text(answer, MR_HEADER_CONNECT_TASK, source->worker);
    add_text(answer, MR_HEADER_CONNECT_STAGE,
             mail->error.status == MR_POISON ? "TASK_PUT" : "VALUE_CONVERTER");
    add_text(answer, MR_HEADER_CONNECT_CLASS, "millrace");
    add_text(answer, MR_HEADER_CONNECT_EXCEPTION, mr_status_code(mail->error.status));
    add_text(answer, MR_HEADER_CONNECT_MESSAGE, mail->error.detail);
    add_trace(answer, MR_HEADER_CONNECT_STACKTRACE, mail);
}

static void add_spring(struct mr_answer *answer, const struct mr_answer_source *source,
                       const struct mr_refusal_mail *mail)
{
    const struct mr_ticket *ticket = mail->ticket;
    add_text(answer, MR_HEADER_SPRING_TOPIC, ticket->topic);
    add_big_endian(answer, MR_HEADER_SPRING_PARTITION, (uint32_t)ticket->partition, 4);
    add_big_endian(answer, MR_HEADER_SPRING_OFFSET, (uint64_t)ticket->offset, 8);
    add_big_endian(answer, MR_HEADER_SPRING_TIMESTAMP, (uint64_t)mail->record.timestamp_ms, 8);
    add_text(answer, MR_HEADER_SPRING_TIME_TYPE,
             mail->record.append_time ? "LogAppendTime" : "CreateTime");
    add_text(answer, MR_HEADER_SPRING_GROUP, source->group);
    add_text(answer, MR_HEADER_SPRING_EXCEPTION, mr_status_code(mail->error.status));
    add_text(answer, MR_HEADER_SPRING_MESSAGE, mail->error.detail);
    add_trace(answer, MR_HEADER_SPRING_STACKTRACE, mail);
}

/* The record's own headers, but for those that would end a request. */
static void copy_headers(struct mr_answer *answer, const struct mr_kafka_record *record)
{
    for (size_t i = 0; i < record->header_count; i++) {
        const struct mr_kafka_header *header = &record->headers[i];
        if (strcmp(header->name, MR_HEADER_SOURCE) == 0) continue;
        if (answer->header_count + DEAD_LETTER_HEADERS < MR_ANSWER_HEADERS_MAX)
            add_bytes(answer, header->name, header->value, header->length);
    }
}

void mr_answer_dead_letter(struct mr_answer *answer, const struct mr_answer_source *source,
                           const struct mr_refusal_mail *mail, bool shrunk)
{
    begin(answer, mail->ticket, source->dlq_topic);
    copy_headers(answer, &mail->record);
    add_connect(answer, source, mail);
    add_spring(answer, source, mail);
    add_text(answer, MR_HEADER_WORKER, source->worker);
    if (!mail->write_result) add_source(answer, source, mail->ticket);
    if (shrunk) add_number(answer, MR_HEADER_VALUE_BYTES, (long long)mail->record.value.length);
    end(answer, 0);
    answer->record.key = mail->record.key;
    answer->record.value = shrunk ? (struct mr_text){0} : mail->record.value;
}
