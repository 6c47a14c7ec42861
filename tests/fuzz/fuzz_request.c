/* Records as producers send them: headers, CloudEvents, and requests in JSON and msgpack.
 *
 * Input: headers, one "name: value" a line, an empty line, then the record's value. A header with
 * the name "@key" is the record's key; with the name "@strict" it makes the topic strict. Without
 * an empty line the whole input is the value. */
#include "codec/limits.h"
#include "codec/records/request_tools.h"
#include "codec/utf8.h"
#include "codec/wire/document.h"
#include "codec/wire/writer.h"
#include "tests/fuzz/fuzz.h"
#include "worker/config/config.h"
#include "worker/intake/decode.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#define HEADERS_MAX 24u
#define NOW_MS      ((int64_t)1750000000000)

struct record {
    struct mr_kafka_header headers[HEADERS_MAX]; /* names and values are malloc'ed */
    struct mr_kafka_record record;
    bool strict;
};

/* A copy in a block of exactly its size, so that AddressSanitizer sees a read past its end. */
static char *copy_of(const uint8_t *bytes, size_t length, size_t zeros)
{
    char *copy = calloc(1, length + zeros + (length + zeros == 0));
    MR_ASSERT(copy);
    if (length) memcpy(copy, bytes, length);
    return copy;
}

static void add_header(struct record *record, const uint8_t *line, size_t length)
{
    const uint8_t *colon = memchr(line, ':', length);
    size_t name = colon ? (size_t)(colon - line) : length;
    size_t skip = name < length ? name + 1 : name;
    if (skip < length && line[skip] == ' ') skip++;
    struct mr_kafka_record *kafka = &record->record;
    if (name == 7 && memcmp(line, "@strict", 7) == 0) {
        record->strict = true;
    } else if (name == 4 && memcmp(line, "@key", 4) == 0) {
        free((char *)(uintptr_t)kafka->key.bytes);
        kafka->key = (struct mr_text){copy_of(line + skip, length - skip, 0), length - skip};
    } else if (kafka->header_count < HEADERS_MAX) {
        record->headers[kafka->header_count++] =
            (struct mr_kafka_header){.name = copy_of(line, name, 1),
                                     .value = colon ? copy_of(line + skip, length - skip, 0) : NULL,
                                     .length = colon ? length - skip : 0};
    }
}

/* Bytes of the headers and the empty line after them; 0: there is no empty line. */
static size_t head_bytes(const uint8_t *data, size_t size)
{
    if (size > 0 && data[0] == '\n') return 1;
    const uint8_t *end = size ? memmem(data, size, "\n\n", 2) : NULL;
    return end ? (size_t)(end - data) + 2 : 0;
}

static void open_record(struct record *record, const uint8_t *data, size_t size)
{
    size_t head = head_bytes(data, size);
    *record = (struct record){.record = {.topic = "millrace.requests",
                                         .partition = 3,
                                         .offset = 41,
                                         .timestamp_ms = NOW_MS - 500,
                                         .headers = record->headers}};
    for (size_t at = 0; at + 1 < head;) {
        const uint8_t *end = memchr(data + at, '\n', head - at);
        size_t length = (size_t)(end - data) - at;
        add_header(record, data + at, length);
        at += length + 1;
    }
    size_t rest = size - head;
    record->record.value = (struct mr_text){copy_of(data + head, rest, 0), rest};
}

static void close_record(struct record *record)
{
    for (size_t i = 0; i < record->record.header_count; i++) {
        free((char *)(uintptr_t)record->headers[i].name);
        free((void *)(uintptr_t)record->headers[i].value);
    }
    free((char *)(uintptr_t)record->record.key.bytes);
    free((char *)(uintptr_t)record->record.value.bytes);
}

/* Asserts that the value is not set, or in [least, most]. */
static void check_float(float value, float least, float most)
{
    MR_ASSERT(isnan(value) || (value >= least && value <= most));
}

static void check_sampling(const struct mr_sampling *sampling)
{
    check_float(sampling->temperature, 0, 100);
    check_float(sampling->top_p, FLT_MIN, 1);
    check_float(sampling->min_p, 0, 1);
    check_float(sampling->typical_p, FLT_MIN, 1);
    check_float(sampling->repetition_penalty, FLT_MIN, 100);
    check_float(sampling->presence_penalty, -2, 2);
    check_float(sampling->frequency_penalty, -2, 2);
    for (size_t i = 0; i < sampling->logit_bias_count; i++)
        MR_ASSERT(isfinite(sampling->logit_bias[i].bias));
    MR_ASSERT(sampling->logprobs >= -1 && sampling->logprobs <= (int32_t)MR_LOGPROBS_MAX);
}

static void check_request(const struct mr_request *request)
{
    MR_ASSERT(request->id.length >= 1 && request->id.length <= MR_ID_BYTES_MAX);
    MR_ASSERT(
        !!request->prompt.bytes + (request->chat.message_count > 0) + request->has_token_ids == 1);
    MR_ASSERT(request->max_tokens >= 1 || request->task != MR_TASK_GENERATE ||
              request->scores_prompt);
    MR_ASSERT(request->min_tokens <= request->max_tokens);
    MR_ASSERT((request->continuation_count > 0) == (request->task == MR_TASK_SCORE));
    MR_ASSERT(request->choice_count >= 1 && request->choice_count <= MR_CHOICES_MAX);
    MR_ASSERT(request->stop_count <= MR_STOP_COUNT_MAX);
    for (size_t i = 0; i < request->stop_count; i++)
        MR_ASSERT(request->stops[i].length >= 1 && request->stops[i].length <= MR_STOP_BYTES_MAX);
    MR_ASSERT(request->metadata.length <= MR_METADATA_BYTES_MAX);
    check_sampling(&request->sampling);
}

/* Constrains strict calls, as for a model whose call format can be constrained. */
static void constrain_calls(struct mr_request *request)
{
    struct mr_error err = {0};
    if (!request->tool_use.strict) return;
    enum mr_tool_format format = request->max_tokens % 2 ? MR_TOOLS_HERMES : MR_TOOLS_LLAMA;
    enum mr_status status = mr_request_constrain_calls(request, format, &err);
    MR_ASSERT(status == MR_OK || (mr_status_class(status) == MR_CLASS_REJECT && err.detail[0]));
    MR_ASSERT(status != MR_OK || request->constraint.text.length > 0);
    MR_ASSERT(mr_request_constrain_calls(request, MR_TOOLS_NONE, &err) == MR_UNSUPPORTED);
}

/* Reads the types of parameters, as for a model that writes calls in tags. */
static void check_tool_types(struct mr_request *request)
{
    struct mr_tool_types *types;
    struct mr_error err = {0};
    request->tool_use.format = MR_TOOLS_QWEN_CODER;
    MR_ASSERT(mr_request_tool_types(request, &types, &err) == MR_OK);
    mr_tool_types_check(types);
    free(types);
}

static void check_decoded(const struct mr_decoded *decoded, enum mr_status status,
                          const struct mr_error *err)
{
    enum mr_status_class class = mr_status_class(status);
    size_t id = strlen(decoded->address.id);
    MR_ASSERT(class == MR_CLASS_FINE || class == MR_CLASS_REJECT);
    MR_ASSERT((status == MR_OK) == (decoded->request != NULL));
    MR_ASSERT(id >= 1 && id <= MR_ID_BYTES_MAX && decoded->deadline_ms >= 0);
    if (status == MR_OK) {
        check_request(decoded->request);
        constrain_calls(decoded->request);
        check_tool_types(decoded->request);
        return;
    }
    struct mr_text sentence = {err->detail, strlen(err->detail)};
    MR_ASSERT(err->status == status && sentence.length > 0 && mr_utf8_is_valid(sentence));
}

/* The document in this encoding; bytes NULL when it is too large or nested too deeply. */
static struct mr_text written(const struct mr_document *document, enum mr_encoding encoding)
{
    struct mr_writer writer;
    unsigned char *bytes = NULL;
    size_t length = 0;
    mr_writer_init(&writer, encoding, MR_RECORD_BYTES_MAX);
    mr_writer_value(&writer, mr_document_root(document));
    mr_writer_take(&writer, &bytes, &length, NULL);
    return (struct mr_text){(char *)bytes, length};
}

/* Writes the record in both encodings, reads both, and writes each again. A value that one encoding
 * can express must not change in the conversion to the other and back. */
static void transcode(struct mr_text value, enum mr_encoding from, enum mr_encoding to)
{
    struct mr_document *first = NULL, *second = NULL;
    struct mr_text once = {0}, again = {0};
    if (mr_document_open(&first, value, from, NULL) != MR_OK) return;
    once = written(first, to);
    if (once.bytes && mr_document_open(&second, once, to, NULL) == MR_OK) {
        again = written(second, to);
        MR_ASSERT(mr_text_equal(once, again));
    }
    mr_document_close(second);
    mr_document_close(first);
    free((char *)(uintptr_t)again.bytes);
    free((char *)(uintptr_t)once.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{

    const struct mr_text_list allowed = {{"answers", "team.*"}, 2};
    struct record record;
    struct mr_envelope envelope;
    struct mr_decoded decoded;
    struct mr_error err = {0};
    open_record(&record, data, size);
    mr_envelope_read(&envelope, &record.record, &allowed);
    struct mr_decode_options options = {.default_max_tokens = 256,
                                        .record_bytes_max = MR_RECORD_BYTES_MAX,
                                        .strict = record.strict,
                                        .now_ms = NOW_MS};
    enum mr_status status = mr_decode_record(&decoded, &envelope, &record.record, &options, &err);
    check_decoded(&decoded, status, &err);
    mr_request_destroy(decoded.request);
    for (int i = 0; i < 4; i++)
        transcode(record.record.value, (enum mr_encoding)(i / 2), (enum mr_encoding)(i % 2));
    close_record(&record);
    return 0;
}
