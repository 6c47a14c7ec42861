#include "codec/records/result.h"

#include "codec/check.h"
#include "codec/hash.h"
#include "codec/limits.h"
#include "codec/wire/writer.h"

#include <math.h>

/* Replaces a log-probability of minus infinity or NaN, which JSON cannot express. */
#define LOGPROB_FLOOR -9999.0f

const char *mr_finish_text(enum mr_finish finish)
{
    static const char *const texts[] = {
#define X(name, text) text,
        MR_FINISH_LIST(X)
#undef X
    };
    MR_ASSERT((unsigned)finish < MR_FINISH_COUNT);
    return texts[finish];
}

/* ---- members: a name and its value ---- */

static void put_text(struct mr_writer *writer, const char *name, struct mr_text text)
{
    mr_writer_name(writer, name);
    mr_writer_text(writer, text);
}

static void put_uint(struct mr_writer *writer, const char *name, uint64_t value)
{
    mr_writer_name(writer, name);
    mr_writer_uint(writer, value);
}

/* Writes a member with a time in milliseconds, rounded to microseconds. */
static void put_ms(struct mr_writer *writer, const char *name, double value_ms)
{
    mr_writer_name(writer, name);
    double rounded_ms = round(value_ms * 1000) / 1000;
    mr_writer_double(writer, isfinite(rounded_ms) ? rounded_ms : 0);
}

static void put_ids(struct mr_writer *writer, const uint32_t *ids, size_t count)
{
    mr_writer_name(writer, "token_ids");
    mr_writer_ids(writer, ids, count);
}

/* ---- log-probabilities ---- */

static void put_logprob_members(struct mr_writer *writer, const struct mr_token_logprob *logprob)
{
    put_uint(writer, "token_id", logprob->token_id);
    put_text(writer, "text", logprob->text);
    mr_writer_name(writer, "logprob");
    mr_writer_float(writer, isfinite(logprob->logprob) ? logprob->logprob : LOGPROB_FLOOR);
    const struct mr_text bytes = logprob->bytes.bytes ? logprob->bytes : logprob->text;
    mr_writer_name(writer, "bytes");
    mr_writer_array(writer, (uint32_t)bytes.length);
    for (size_t i = 0; i < bytes.length; i++)
        mr_writer_uint(writer, (unsigned char)bytes.bytes[i]);
}

static void put_token_logprobs(struct mr_writer *writer, const struct mr_logprobs *logprobs)
{
    mr_writer_map(writer, 5);
    put_logprob_members(writer, &logprobs->chosen);
    mr_writer_name(writer, "top");
    mr_writer_array(writer, logprobs->top_count);
    for (uint32_t k = 0; k < logprobs->top_count; k++) {
        mr_writer_map(writer, 4);
        put_logprob_members(writer, &logprobs->top[k]);
    }
}

static void put_logprobs(struct mr_writer *writer, const struct mr_logprobs *logprobs, size_t count)
{
    mr_writer_name(writer, "logprobs");
    mr_writer_array(writer, count);
    for (size_t i = 0; i < count; i++)
        put_token_logprobs(writer, &logprobs[i]);
}

static void put_prompt_logprobs(struct mr_writer *writer, const struct mr_result *result)
{
    mr_writer_name(writer, "prompt_logprobs");
    mr_writer_array(writer, result->prompt_logprob_count);
    mr_writer_null(writer);
    for (size_t i = 1; i < result->prompt_logprob_count; i++)
        put_token_logprobs(writer, &result->prompt_logprobs[i]);
}

static void put_scores(struct mr_writer *writer, const struct mr_result *result)
{
    mr_writer_name(writer, "scores");
    mr_writer_array(writer, result->score_count);
    for (size_t i = 0; i < result->score_count; i++) {
        const struct mr_score *score = &result->scores[i];
        double sum = 0;
        for (size_t k = 0; k < score->token_count; k++)
            sum += (double)score->logprobs[k].chosen.logprob;
        mr_writer_map(writer, 2);
        mr_writer_name(writer, "logprob");
        mr_writer_float(writer, isfinite(sum) ? (float)sum : LOGPROB_FLOOR);
        put_logprobs(writer, score->logprobs, score->token_count);
    }
}

/* ---- tool calls ---- */

#define CALL_ID_BYTES 10

/* The id of a call: nine letters and digits, which every template accepts; the same in every
 * attempt at the request. */
static void make_call_id(char id[CALL_ID_BYTES], struct mr_text request_id, uint32_t choice,
                         uint32_t index)
{
    static const char letters[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    uint32_t place[2] = {choice, index};
    uint64_t value = mr_hash_bytes(MR_HASH_START, request_id.bytes, request_id.length);
    value = mr_hash_bytes(value, place, sizeof place);
    for (size_t i = 0; i + 1 < CALL_ID_BYTES; i++, value /= sizeof letters - 1)
        id[i] = letters[value % (sizeof letters - 1)];
    id[CALL_ID_BYTES - 1] = '\0';
}

/* Writes a call; without a name: a further part of its arguments. */
static void put_call(struct mr_writer *writer, struct mr_text request_id, uint32_t choice,
                     const struct mr_tool_call_delta *call)
{
    bool begins = call->name.bytes != NULL;
    mr_writer_map(writer, begins ? 4 : 2);
    put_uint(writer, "index", call->index);
    if (begins) {
        char id[CALL_ID_BYTES];
        make_call_id(id, request_id, choice, call->index);
        mr_writer_name(writer, "id");
        mr_writer_string(writer, id);
        mr_writer_name(writer, "type");
        mr_writer_string(writer, "function");
    }
    mr_writer_name(writer, "function");
    mr_writer_map(writer, 1u + begins);
    if (begins) put_text(writer, "name", call->name);
    put_text(writer, "arguments", call->arguments);
}

static void put_tool_calls(struct mr_writer *writer, struct mr_text id, uint32_t choice_index,
                           const struct mr_tool_call *calls, size_t count)
{
    mr_writer_name(writer, "tool_calls");
    mr_writer_array(writer, count);
    for (uint32_t i = 0; i < count; i++) {
        struct mr_tool_call_delta call = {i, calls[i].name, calls[i].arguments};
        put_call(writer, id, choice_index, &call);
    }
}

/* ---- token record ---- */

/* Number of members that put_message writes. */
static uint32_t message_members(const struct mr_message_delta *message)
{
    return 0u + (message->content.length > 0) + (message->reasoning.length > 0) +
           (message->call_count > 0);
}

static void put_message(struct mr_writer *writer, const struct mr_token_record *record)
{
    const struct mr_message_delta *message = &record->message;
    if (message->content.length > 0) put_text(writer, "content", message->content);
    if (message->reasoning.length > 0) put_text(writer, "reasoning", message->reasoning);
    if (message->call_count == 0) return;
    mr_writer_name(writer, "tool_calls");
    mr_writer_array(writer, message->call_count);
    for (size_t i = 0; i < message->call_count; i++)
        put_call(writer, record->id, record->choice, &message->calls[i]);
}

enum mr_status mr_token_record_encode(const struct mr_token_record *record,
                                      enum mr_encoding encoding, unsigned char **bytes,
                                      size_t *length, struct mr_error *err)
{
    struct mr_writer writer;
    mr_writer_init(&writer, encoding, MR_RESULT_BYTES_MAX);
    bool resumed = record->resumed_at >= 0;
    mr_writer_map(&writer,
                  6u + resumed + (record->logprobs != NULL) + message_members(&record->message));
    put_text(&writer, "id", record->id);
    put_uint(&writer, "attempt", record->attempt);
    if (resumed) put_uint(&writer, "resumed_at", (uint64_t)record->resumed_at);
    put_uint(&writer, "choice", record->choice);
    put_uint(&writer, "index", record->index);
    put_ids(&writer, record->token_ids, record->token_count);
    put_text(&writer, "text", record->text);
    if (record->logprobs) put_logprobs(&writer, record->logprobs, record->token_count);
    put_message(&writer, record);
    return mr_writer_take(&writer, bytes, length, err);
}

/* ---- result record ---- */

static void put_stop_reason(struct mr_writer *writer, const struct mr_choice *choice)
{
    mr_writer_name(writer, "stop_reason");
    if (choice->stop_text.bytes)
        mr_writer_text(writer, choice->stop_text);
    else if (choice->tool_call_count > 0)
        mr_writer_string(writer, "tool_calls");
    else if (choice->stop_token != MR_TOKEN_NONE)
        mr_writer_uint(writer, choice->stop_token);
    else
        mr_writer_null(writer);
}

static void put_stopped_by(struct mr_writer *writer, const struct mr_choice *choice)
{
    mr_writer_name(writer, "stopped_by");
    if (choice->stopped_by == MR_FINISH_NONE)
        mr_writer_null(writer);
    else
        mr_writer_string(writer, mr_finish_text(choice->stopped_by));
}

static void put_warnings(struct mr_writer *writer, const struct mr_result *result)
{
    mr_writer_name(writer, "warnings");
    mr_writer_array(writer, result->warning_count);
    for (size_t i = 0; i < result->warning_count; i++)
        mr_writer_text(writer, result->warnings[i]);
}

/* Number of members that put_answer writes. */
static uint32_t answer_members(const struct mr_choice *choice)
{
    return 5u + (choice->logprobs != NULL) + choice->parsed + (choice->reasoning.bytes != NULL) +
           (choice->tool_call_count > 0);
}

/* Writes finish_reason, stopped_by, stop_reason, text and token_ids, and if requested: logprobs,
 * content, reasoning, tool_calls. */
static void put_answer(struct mr_writer *writer, const struct mr_result *result, uint32_t index)
{
    const struct mr_choice *choice = &result->choices[index];
    mr_writer_name(writer, "finish_reason");
    mr_writer_string(writer, mr_finish_text(choice->finish));
    put_stopped_by(writer, choice);
    put_stop_reason(writer, choice);
    put_text(writer, "text", choice->text);
    put_ids(writer, choice->token_ids, choice->token_count);
    if (choice->logprobs) put_logprobs(writer, choice->logprobs, choice->token_count);
    if (choice->parsed) put_text(writer, "content", choice->content);
    if (choice->reasoning.bytes) put_text(writer, "reasoning", choice->reasoning);
    if (choice->tool_call_count > 0)
        put_tool_calls(writer, result->id, index, choice->tool_calls, choice->tool_call_count);
}

static void put_choices(struct mr_writer *writer, const struct mr_result *result)
{
    mr_writer_name(writer, "choices");
    mr_writer_array(writer, result->choice_count);
    for (uint32_t i = 0; i < result->choice_count; i++) {
        const struct mr_choice *choice = &result->choices[i];
        mr_writer_map(writer, 2u + answer_members(choice));
        put_uint(writer, "choice", i);
        put_answer(writer, result, i);
        put_uint(writer, "completion_tokens", choice->completion_tokens);
    }
}

static void put_usage(struct mr_writer *writer, const struct mr_result *result)
{
    uint64_t completion = 0;
    for (size_t i = 0; i < result->choice_count; i++)
        completion += result->choices[i].completion_tokens;
    mr_writer_name(writer, "usage");
    mr_writer_map(writer, 6);
    put_uint(writer, "prompt_tokens", result->prompt_tokens);
    put_uint(writer, "completion_tokens", completion);
    put_uint(writer, "total_tokens", result->prompt_tokens + completion);
    put_uint(writer, "cached_tokens", result->cached_tokens);
    put_uint(writer, "cached_tokens_redis", result->cached_tokens_redis);
    put_uint(writer, "accepted_draft_tokens", result->accepted_draft_tokens);
}

static void put_timings(struct mr_writer *writer, const struct mr_result *result)
{
    mr_writer_name(writer, "timings_ms");
    mr_writer_map(writer, 6);
    put_ms(writer, "queue", result->queue_ms);
    put_ms(writer, "prefill", result->prefill_ms);
    put_ms(writer, "first_token", result->first_token_ms);
    put_ms(writer, "total", result->total_ms);
    put_ms(writer, "itl_mean", result->itl_mean_ms);
    put_ms(writer, "itl_max", result->itl_max_ms);
}

static void put_source(struct mr_writer *writer, const struct mr_result *result)
{
    mr_writer_name(writer, "source");
    mr_writer_map(writer, 3);
    put_text(writer, "topic", result->source_topic);
    mr_writer_name(writer, "partition");
    mr_writer_int(writer, result->source_partition);
    mr_writer_name(writer, "offset");
    mr_writer_int(writer, result->source_offset);
}

enum mr_status mr_result_encode(const struct mr_result *result, enum mr_encoding encoding,
                                unsigned char **bytes, size_t *length, struct mr_error *err)
{
    MR_ASSERT(result->choice_count >= 1);
    struct mr_writer writer;
    bool choices = result->choice_count > 1;
    bool error = result->error != MR_OK;
    bool metadata = result->metadata.length > 0;
    bool prompt = result->prompt_logprobs != NULL, scores = result->score_count > 0;
    bool vector = result->embedding_size > 0, data = result->data.count > 0;
    bool warnings = result->warning_count > 0;
    mr_writer_init(&writer, encoding, MR_RESULT_BYTES_MAX);
    mr_writer_map(&writer, 10u + vector + data + choices + prompt + scores + error + metadata +
                               warnings + answer_members(&result->choices[0]));
    put_text(&writer, "id", result->id);
    put_uint(&writer, "attempt", result->attempt);
    put_text(&writer, "model", result->model);
    put_answer(&writer, result, 0);
    if (choices) put_choices(&writer, result);
    if (prompt) put_prompt_logprobs(&writer, result);
    if (scores) put_scores(&writer, result);
    bool written = true;
    if (vector)
        written = mr_result_vector_put(&writer, result->embedding, result->embedding_size,
                                       result->embedding_base64);
    if (data) written = mr_result_data_put(&writer, &result->data);
    if (!written) {
        mr_writer_drop(&writer);
        return mr_fail(err, MR_NOMEM, "no memory for the vectors of a result");
    }
    put_usage(&writer, result);
    put_timings(&writer, result);
    put_uint(&writer, "prefill_chunks", result->prefill_chunks);
    put_uint(&writer, "preemptions", result->preemptions);
    put_uint(&writer, "recomputed_tokens", result->recomputed_tokens);
    if (error)
        mr_result_error_put(&writer, result->error, result->error_message, result->error_retryable);
    put_text(&writer, "worker", result->worker);
    put_source(&writer, result);
    if (warnings) put_warnings(&writer, result);
    if (metadata) mr_writer_name(&writer, "metadata");
    if (metadata) mr_writer_raw(&writer, result->metadata);
    return mr_writer_take(&writer, bytes, length, err);
}
