#include "codec/records/request_decode.h"

#include "codec/check.h"
#include "codec/records/request_chat.h"
#include "codec/records/request_fields.h"
#include "codec/records/request_inputs.h"
#include "codec/records/request_tools.h"
#include "codec/wire/scan.h"

#include <string.h>

/* ---- ids ---- */

static bool is_id(struct mr_text text)
{
    if (text.length == 0 || text.length > MR_ID_BYTES_MAX) return false;
    for (size_t i = 0; i < text.length; i++)
        if (text.bytes[i] < 0x20 || text.bytes[i] > 0x7e) return false;
    return true;
}

static void store_id(struct mr_reply_address *address, struct mr_text id, bool readable)
{
    memcpy(address->id, id.bytes, id.length);
    address->id[id.length] = '\0';
    address->id_readable = readable;
}

/* The end of a fallback id "<topic>/<partition>/<offset>" that is too long. It still contains
 * partition and offset, which identify the record. Kafka's topic names are printable ASCII. */
static struct mr_text shortened(struct mr_text id)
{
    if (id.length <= MR_ID_BYTES_MAX) return id;
    return (struct mr_text){id.bytes + (id.length - MR_ID_BYTES_MAX), MR_ID_BYTES_MAX};
}

/* Sets the id for a record without a valid field `id`. */
static void store_default_id(struct mr_reply_address *address,
                             const struct mr_request_context *context)
{
    struct mr_text fallback = shortened(context->fallback_id);
    MR_ASSERT(is_id(fallback));
    bool from_event = is_id(context->event_id), from_key = is_id(context->key);
    if (from_event)
        store_id(address, context->event_id, true);
    else
        store_id(address, from_key ? context->key : fallback, from_key);
}

/* Reads the id. It is read before all other fields, so that an error in another field is answered
 * under this id. */
static enum mr_status read_id(struct mr_value record, struct mr_reply_address *address,
                              struct mr_error *err)
{
    struct mr_value value;
    if (!mr_value_get(record, "id", &value) || mr_value_kind(value) == MR_VALUE_NULL) return MR_OK;
    if (mr_value_kind(value) != MR_VALUE_TEXT || !is_id(mr_value_text(value)))
        return mr_fail(err, MR_INVALID_REQUEST, "id must be 1 to %zu printable ASCII characters",
                       MR_ID_BYTES_MAX);
    store_id(address, mr_value_text(value), true);
    return MR_OK;
}

/* Reads the id of a record that cannot be opened. */
static void scan_id(struct mr_text record, size_t record_bytes_max,
                    struct mr_reply_address *address)
{
    struct mr_text value;
    char bytes[MR_ID_BYTES_MAX];
    if (record.length > record_bytes_max) record.length = record_bytes_max;
    if (!mr_scan_member(record, "id", &value)) return;
    struct mr_text id = {bytes, mr_scan_text(value, bytes, sizeof bytes)};
    if (is_id(id)) store_id(address, id, true);
}

/* ---- the record ---- */

static enum mr_status set_deadline(struct mr_request_reader *reader,
                                   const struct mr_request_context *context)
{
    int64_t start = context->timestamp_ms > 0 ? context->timestamp_ms : context->now_ms;
    if (reader->timeout_ms) reader->request->deadline_ms = start + reader->timeout_ms;
    if (reader->deadline_ms) reader->request->deadline_ms = reader->deadline_ms;
    if (reader->request->deadline_ms > context->now_ms + MR_DEADLINE_MS_MAX)
        return mr_fail(reader->err, MR_INVALID_REQUEST, "deadline is more than 24 hours ahead");
    return MR_OK;
}

static enum mr_status check_chat(struct mr_request_reader *reader, struct mr_chat *chat)
{
    const struct {
        const char *name;
        bool given;
    } fields[] = {
        {"chat_template_kwargs", chat->kwargs.kind == MR_DATA_MAP && chat->kwargs.map.count > 0},
        {"tools", chat->tools.kind != MR_DATA_NULL},
        {"documents", chat->documents.kind != MR_DATA_NULL},
        {"add_generation_prompt", chat->generation_prompt_given},
        {"continue_final_message", chat->continue_final_message},
        {"reasoning_effort", reader->reasoning_effort.bytes != NULL},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields && !chat->message_count; i++)
        if (fields[i].given)
            return mr_fail(reader->err, MR_INVALID_REQUEST, "%s needs messages", fields[i].name);
    if (reader->reasoning_effort.bytes) {
        enum mr_status status = mr_request_add_effort(reader);
        if (status != MR_OK) return status;
    }
    if (!chat->continue_final_message) return MR_OK;
    if (chat->generation_prompt_given && chat->add_generation_prompt)
        return mr_fail(reader->err, MR_INVALID_REQUEST,
                       "continue_final_message and add_generation_prompt exclude each other");
    chat->add_generation_prompt = false;
    return MR_OK;
}

/* Applies top_logprobs, which belongs to logprobs true in requests of OpenAI's chat form. */
static enum mr_status set_top_logprobs(struct mr_request_reader *reader)
{
    struct mr_sampling *sampling = &reader->request->sampling;
    if (reader->top_logprobs < 0 || (reader->top_logprobs == 0 && sampling->logprobs < 0))
        return MR_OK;
    if (sampling->logprobs < 0 || reader->logprobs_counted)
        return mr_fail(reader->err, MR_INVALID_REQUEST, "top_logprobs needs logprobs true");
    sampling->logprobs = (int32_t)reader->top_logprobs;
    return MR_OK;
}

/* Fields that a request without generation must not have. */
static enum mr_status check_silent(struct mr_request_reader *reader)
{
    const struct mr_request *request = reader->request;
    const struct {
        const char *name;
        bool given;
    } fields[] = {
        {"n above 1", request->choice_count > 1},
        {"prompt_logprobs", request->scores_prompt},
        {"echo", request->echo},
        {"a response_format", request->constraint.kind != MR_CONSTRAINT_NONE},
        {"logprobs", request->task != MR_TASK_SCORE && request->sampling.logprobs >= 0},
    };
    static const char *const names[] = {[MR_TASK_SCORE] = "score",
                                        [MR_TASK_EMBED] = "embed",
                                        [MR_TASK_CLASSIFY] = "classify",
                                        [MR_TASK_RERANK] = "rerank"};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].given)
            return mr_fail(reader->err, MR_INVALID_REQUEST, "task %s cannot have %s",
                           names[request->task], fields[i].name);
    return MR_OK;
}

/* Checks that the fields fit the task, and sets max_tokens of one that generates nothing to 0.
 */
static enum mr_status check_task(struct mr_request_reader *reader)
{
    struct mr_request *request = reader->request;
    const bool scores = request->task == MR_TASK_SCORE;
    if (scores != (request->continuation_count > 0))
        return mr_fail(reader->err, MR_INVALID_REQUEST,
                       scores ? "task score needs continuations" : "continuations need task score");
    if (reader->embed_field && request->task != MR_TASK_EMBED)
        return mr_fail(reader->err, MR_INVALID_REQUEST, "%s needs task embed", reader->embed_field);
    if (request->task == MR_TASK_GENERATE) return MR_OK;
    request->max_tokens = request->min_tokens = 0;
    return check_silent(reader);
}

/* Checks fields that depend on each other. */
static enum mr_status check_fields(struct mr_request_reader *reader)
{
    struct mr_request *request = reader->request;
    const bool has_prompt = mr_request_has_prompt(reader);
    if (!has_prompt && request->task != MR_TASK_RERANK)
        return mr_fail(reader->err, MR_INVALID_REQUEST,
                       "use one of prompt, prompt_token_ids, messages and input");
    if (reader->best_of > 0 && reader->best_of != request->choice_count)
        return mr_fail(reader->err, MR_UNSUPPORTED,
                       "best_of other than n is not supported: use n and choose one");
    if (request->echo && request->chat.message_count && !request->chat.continue_final_message)
        return mr_fail(reader->err, MR_INVALID_REQUEST,
                       "echo needs continue_final_message, prompt or prompt_token_ids");
    enum mr_status status = mr_request_apply_inputs(reader, has_prompt);
    if (status == MR_OK) status = set_top_logprobs(reader);
    if (status == MR_OK) status = mr_request_apply_tools(reader);
    if (status != MR_OK) return status;
    status = check_task(reader);
    if (status != MR_OK) return status;
    if (request->echo && request->sampling.logprobs >= 0 && !request->scores_prompt) {
        request->scores_prompt = true; /* as vLLM does, and OpenAI's completions */
        request->prompt_logprobs = (uint32_t)request->sampling.logprobs;
    }
    if (request->max_tokens == 0 && !request->scores_prompt && request->task == MR_TASK_GENERATE)
        return mr_fail(reader->err, MR_INVALID_REQUEST,
                       "max_tokens must be at least 1, or 0 with prompt_logprobs");
    if (request->max_tokens == 0 && request->choice_count > 1)
        return mr_fail(reader->err, MR_INVALID_REQUEST, "n needs max_tokens of at least 1");
    if (request->min_tokens > request->max_tokens)
        return mr_fail(reader->err, MR_INVALID_REQUEST, "min_tokens is above max_tokens");
    if (request->constraint.kind != MR_CONSTRAINT_NONE && request->ignore_eos)
        return mr_fail(reader->err, MR_INVALID_REQUEST,
                       "ignore_eos cannot be combined with a response_format: a complete answer "
                       "ends");
    return check_chat(reader, &request->chat);
}

static enum mr_status read_record(struct mr_request_reader *reader, struct mr_value record,
                                  const struct mr_request_context *context, const char *id)
{
    struct mr_request *request = reader->request;
    enum mr_status status =
        mr_request_copy_text(reader, (struct mr_text){id, strlen(id)}, &request->id);
    if (status == MR_OK) status = mr_request_read_fields(reader, record);
    if (status == MR_OK) status = check_fields(reader);
    if (status == MR_OK) status = set_deadline(reader, context);
    return status;
}

static enum mr_status decode_document(struct mr_request **out, const struct mr_document *document,
                                      const struct mr_request_context *context,
                                      const struct mr_reply_address *address, struct mr_error *err)
{
    struct mr_request *request = mr_request_create(address->encoding, context->default_max_tokens);
    if (!request) return mr_fail(err, MR_NOMEM, "no memory for a request");
    request->strict = context->strict;
    request->thinking.given = context->default_thinking_tokens > 0;
    request->thinking.tokens = context->default_thinking_tokens;
    struct mr_request_reader reader = {.request = request,
                                       .document = document,
                                       .err = err,
                                       .strict = context->strict,
                                       .top_logprobs = -1};
    enum mr_status status = read_record(&reader, mr_document_root(document), context, address->id);
    if (status == MR_OK)
        *out = request;
    else
        mr_request_destroy(request);
    return status;
}

static enum mr_status open_document(struct mr_document **out, struct mr_text record,
                                    const struct mr_request_context *context,
                                    struct mr_reply_address *address, struct mr_error *err)
{
    *out = NULL;
    enum mr_status status =
        mr_encoding_detect(context->content_type, record, &address->encoding, err);
    if (status != MR_OK) return status;
    if (record.length > context->record_bytes_max)
        return mr_fail(err, MR_RECORD_TOO_LARGE, "record is %zu bytes, at most %zu are allowed",
                       record.length, context->record_bytes_max);
    return mr_document_open(out, record, address->encoding, err);
}

/* Opens the record and fills *address. *out is NULL unless the status is MR_OK. */
static enum mr_status open_record(struct mr_document **out, struct mr_text record,
                                  const struct mr_request_context *context,
                                  struct mr_reply_address *address, struct mr_error *err)
{
    struct mr_document *document;
    *out = NULL;
    store_default_id(address, context);
    enum mr_status status = open_document(&document, record, context, address, err);
    if (status != MR_OK) {
        scan_id(record, context->record_bytes_max, address);
        return status;
    }
    status = read_id(mr_document_root(document), address, err);
    if (status == MR_OK)
        *out = document;
    else
        mr_document_close(document);
    return status;
}

enum mr_status mr_request_address(struct mr_text record, const struct mr_request_context *context,
                                  struct mr_reply_address *address, struct mr_error *err)
{
    struct mr_document *document;
    enum mr_status status = open_record(&document, record, context, address, err);
    mr_document_close(document);
    return status;
}

enum mr_status mr_request_decode(struct mr_request **out, struct mr_text record,
                                 const struct mr_request_context *context,
                                 struct mr_reply_address *address, struct mr_error *err)
{
    struct mr_document *document;
    *out = NULL;
    enum mr_status status = open_record(&document, record, context, address, err);
    if (status != MR_OK) return status;
    status = decode_document(out, document, context, address, err);
    mr_document_close(document);
    return status;
}
