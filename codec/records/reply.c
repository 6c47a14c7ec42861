#include "codec/records/reply.h"

#include "codec/base64.h"
#include "codec/limits.h"
#include "codec/wire/document.h"

#include <string.h>

/* The state of one call of a decoder. Reads after the first failure return nothing. */
struct reader {
    struct mr_document *document;
    struct mr_arena *arena;
    struct mr_error *err;
    enum mr_status status; /* the first failure */
};

/* Opens the record. False with reader->status set when the record cannot be read. */
static bool open_record(struct reader *reader, struct mr_text bytes, enum mr_encoding encoding,
                        struct mr_value *root)
{
    reader->status = mr_document_open(&reader->document, bytes, encoding, reader->err);
    if (reader->status == MR_OK) *root = mr_document_root(reader->document);
    return reader->status == MR_OK;
}

static void fail(struct reader *reader, enum mr_status status, const char *name)
{
    if (reader->status != MR_OK) return;
    reader->status = status == MR_NOMEM
                         ? mr_fail(reader->err, status, "no memory for %s", name)
                         : mr_fail(reader->err, status, "%s is missing or has a wrong type", name);
}

static void *take(struct reader *reader, size_t count, size_t size)
{
    void *memory = mr_arena_take_array(reader->arena, count, size);
    if (!memory) fail(reader, MR_NOMEM, "a record");
    return memory;
}

/* ---- members of a map ---- */

/* Finds a member of the map. False if the member is absent or null. A value of a wrong kind is a
 * failure and also returns false. */
static bool find(struct reader *reader, struct mr_value map, const char *name,
                 enum mr_value_kind kind, struct mr_value *out)
{
    if (reader->status != MR_OK || !mr_value_get(map, name, out)) return false;
    enum mr_value_kind found = mr_value_kind(*out);
    if (found == MR_VALUE_NULL) return false;
    bool number = kind == MR_VALUE_FLOAT && found == MR_VALUE_INT;
    if (found != kind && !number) fail(reader, MR_MALFORMED, name);
    return reader->status == MR_OK;
}

static bool need(struct reader *reader, struct mr_value map, const char *name,
                 enum mr_value_kind kind, struct mr_value *out)
{
    if (find(reader, map, name, kind, out)) return true;
    fail(reader, MR_MALFORMED, name);
    return false;
}

static struct mr_text copy_text(struct reader *reader, struct mr_text text)
{
    char *copy = mr_arena_copy_text(reader->arena, text.bytes, text.length);
    if (!copy) fail(reader, MR_NOMEM, "a text");
    return (struct mr_text){copy, copy ? text.length : 0};
}

static struct mr_text need_text(struct reader *reader, struct mr_value map, const char *name)
{
    struct mr_value value;
    if (!need(reader, map, name, MR_VALUE_TEXT, &value)) return (struct mr_text){"", 0};
    return copy_text(reader, mr_value_text(value));
}

static int64_t need_int(struct reader *reader, struct mr_value map, const char *name, int64_t min,
                        int64_t max)
{
    struct mr_value value;
    if (!need(reader, map, name, MR_VALUE_INT, &value)) return min;
    int64_t integer = mr_value_int(value);
    if (integer < min || integer > max) fail(reader, MR_MALFORMED, name);
    return integer;
}

static uint32_t need_u32(struct reader *reader, struct mr_value map, const char *name)
{
    return (uint32_t)need_int(reader, map, name, 0, UINT32_MAX);
}

/* 0 if a record of an earlier version lacks the field. */
static uint32_t read_u32(struct reader *reader, struct mr_value map, const char *name)
{
    struct mr_value value;
    return find(reader, map, name, MR_VALUE_INT, &value) ? need_u32(reader, map, name) : 0;
}

static double need_number(struct reader *reader, struct mr_value map, const char *name)
{
    struct mr_value value;
    return need(reader, map, name, MR_VALUE_FLOAT, &value) ? mr_value_number(value) : 0;
}

static const uint32_t *need_ids(struct reader *reader, struct mr_value map, size_t *count)
{
    struct mr_value array;
    *count = 0;
    if (!need(reader, map, "token_ids", MR_VALUE_ARRAY, &array)) return NULL;
    size_t length = mr_value_count(array);
    uint32_t *ids = take(reader, length, sizeof *ids);
    for (size_t i = 0; i < length && reader->status == MR_OK; i++) {
        struct mr_value id = mr_value_at(array, i);
        bool valid = mr_value_kind(id) == MR_VALUE_INT && mr_value_int(id) >= 0 &&
                     mr_value_int(id) < MR_TOKEN_NONE;
        if (valid) ids[i] = (uint32_t)mr_value_int(id);
        if (!valid) fail(reader, MR_MALFORMED, "token_ids");
    }
    *count = length;
    return ids;
}

/* ---- log-probabilities ---- */

static struct mr_token_logprob read_logprob(struct reader *reader, struct mr_value value)
{
    struct mr_token_logprob logprob = {0};
    if (mr_value_kind(value) != MR_VALUE_MAP) {
        fail(reader, MR_MALFORMED, "logprobs");
        return logprob;
    }
    logprob.token_id = need_u32(reader, value, "token_id");
    logprob.logprob = (float)need_number(reader, value, "logprob");
    logprob.text = need_text(reader, value, "text");
    return logprob;
}

static void read_top(struct reader *reader, struct mr_value value, struct mr_logprobs *logprobs)
{
    struct mr_value array;
    if (!need(reader, value, "top", MR_VALUE_ARRAY, &array)) return;
    size_t count = mr_value_count(array);
    struct mr_token_logprob *top = take(reader, count, sizeof *top);
    for (size_t i = 0; i < count && reader->status == MR_OK; i++)
        top[i] = read_logprob(reader, mr_value_at(array, i));
    logprobs->top = top;
    logprobs->top_count = (uint32_t)count;
}

/* Reads the entries of the array from index `first` on; the entries before stay zero. */
static const struct mr_logprobs *read_entries(struct reader *reader, struct mr_value array,
                                              size_t first)
{
    size_t count = mr_value_count(array);
    struct mr_logprobs *logprobs = take(reader, count, sizeof *logprobs);
    for (size_t i = first; i < count && reader->status == MR_OK; i++) {
        struct mr_value entry = mr_value_at(array, i);
        logprobs[i].chosen = read_logprob(reader, entry);
        if (reader->status == MR_OK) read_top(reader, entry, &logprobs[i]);
    }
    return logprobs;
}

static const struct mr_logprobs *read_logprobs(struct reader *reader, struct mr_value map,
                                               size_t token_count)
{
    struct mr_value array;
    if (!find(reader, map, "logprobs", MR_VALUE_ARRAY, &array)) return NULL;
    if (mr_value_count(array) != token_count) fail(reader, MR_MALFORMED, "logprobs");
    return read_entries(reader, array, 0);
}

/* The first token of a prompt has no log-probability: its entry is null. */
static void read_prompt_logprobs(struct reader *reader, struct mr_value root, struct mr_result *out)
{
    struct mr_value array;
    if (!find(reader, root, "prompt_logprobs", MR_VALUE_ARRAY, &array)) return;
    out->prompt_logprobs = read_entries(reader, array, 1);
    out->prompt_logprob_count = mr_value_count(array);
}

/* The record's sum is not read; it is computed from the tokens. */
static void read_scores(struct reader *reader, struct mr_value root, struct mr_result *out)
{
    struct mr_value array, tokens;
    if (!find(reader, root, "scores", MR_VALUE_ARRAY, &array)) return;
    const size_t count = mr_value_count(array);
    struct mr_score *scores = take(reader, count, sizeof *scores);
    for (size_t i = 0; i < count && reader->status == MR_OK; i++) {
        struct mr_value map = mr_value_at(array, i);
        if (mr_value_kind(map) != MR_VALUE_MAP) fail(reader, MR_MALFORMED, "scores");
        if (!need(reader, map, "logprobs", MR_VALUE_ARRAY, &tokens)) return;
        scores[i].token_count = mr_value_count(tokens);
        scores[i].logprobs = read_entries(reader, tokens, 0);
    }
    out->scores = scores;
    out->score_count = count;
}

/* Reads the vector: an array of floats, or the base64 text of their bytes. */
static void read_embedding(struct reader *reader, struct mr_value root, struct mr_result *out)
{
    struct mr_value value, number;
    if (reader->status != MR_OK || !mr_value_get(root, "embedding", &value)) return;
    out->embedding_base64 = mr_value_kind(value) == MR_VALUE_TEXT;
    if (!out->embedding_base64 && !find(reader, root, "embedding", MR_VALUE_ARRAY, &value)) return;
    size_t bytes, count = out->embedding_base64 ? mr_value_text(value).length / 4 * 3 / 4
                                                : mr_value_count(value);
    float *vector = take(reader, count + 1, sizeof *vector);
    if (reader->status != MR_OK) return;
    if (out->embedding_base64 && (!mr_base64_decode(mr_value_text(value), (unsigned char *)vector,
                                                    count * sizeof *vector, &bytes) ||
                                  bytes != count * sizeof *vector))
        fail(reader, MR_MALFORMED, "embedding");
    for (size_t i = 0; i < count && !out->embedding_base64 && reader->status == MR_OK; i++) {
        number = mr_value_at(value, i);
        bool valid =
            mr_value_kind(number) == MR_VALUE_FLOAT || mr_value_kind(number) == MR_VALUE_INT;
        if (valid) vector[i] = (float)mr_value_number(number);
        if (!valid) fail(reader, MR_MALFORMED, "embedding");
    }
    out->embedding = vector;
    out->embedding_size = count;
}

/* ---- token record ---- */

enum mr_status mr_token_record_decode(struct mr_token_record *out, struct mr_text bytes,
                                      enum mr_encoding encoding, struct mr_arena *arena,
                                      struct mr_error *err)
{
    struct reader reader = {.arena = arena, .err = err};
    struct mr_value root, resumed;
    *out = (struct mr_token_record){0};
    if (!open_record(&reader, bytes, encoding, &root)) return reader.status;
    out->id = need_text(&reader, root, "id");
    out->attempt = need_u32(&reader, root, "attempt");
    out->choice = need_u32(&reader, root, "choice");
    out->index = need_u32(&reader, root, "index");
    bool has_resumed = find(&reader, root, "resumed_at", MR_VALUE_INT, &resumed);
    out->resumed_at = has_resumed ? mr_value_int(resumed) : -1;
    out->token_ids = need_ids(&reader, root, &out->token_count);
    out->text = need_text(&reader, root, "text");
    out->logprobs = read_logprobs(&reader, root, out->token_count);
    mr_document_close(reader.document);
    return reader.status;
}

/* ---- result record ---- */

static enum mr_finish finish_of(struct reader *reader, struct mr_value map)
{
    struct mr_value value;
    if (!need(reader, map, "finish_reason", MR_VALUE_TEXT, &value)) return MR_FINISH_NONE;
    for (unsigned i = MR_FINISH_NONE + 1; i < MR_FINISH_COUNT; i++)
        if (mr_text_is(mr_value_text(value), mr_finish_text((enum mr_finish)i)))
            return (enum mr_finish)i;
    fail(reader, MR_MALFORMED, "finish_reason");
    return MR_FINISH_NONE;
}

/* Results of earlier versions have no stopped_by. */
static enum mr_finish stopped_by_of(struct reader *reader, struct mr_value map)
{
    static const enum mr_finish ends[] = {MR_FINISH_EOS, MR_FINISH_STOP_TOKEN,
                                          MR_FINISH_STOP_STRING};
    struct mr_value value;
    if (!find(reader, map, "stopped_by", MR_VALUE_TEXT, &value)) return MR_FINISH_NONE;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (mr_text_is(mr_value_text(value), mr_finish_text(ends[i]))) return ends[i];
    fail(reader, MR_MALFORMED, "stopped_by");
    return MR_FINISH_NONE;
}

static void read_warnings(struct reader *reader, struct mr_value root, struct mr_result *out)
{
    struct mr_value array;
    if (!find(reader, root, "warnings", MR_VALUE_ARRAY, &array)) return;
    size_t count = mr_value_count(array);
    struct mr_text *warnings = take(reader, count, sizeof *warnings);
    for (size_t i = 0; i < count && reader->status == MR_OK; i++) {
        struct mr_value warning = mr_value_at(array, i);
        if (mr_value_kind(warning) == MR_VALUE_TEXT)
            warnings[i] = copy_text(reader, mr_value_text(warning));
        else
            fail(reader, MR_MALFORMED, "warnings");
    }
    out->warnings = warnings;
    out->warning_count = count;
}

static void read_stop_reason(struct reader *reader, struct mr_value map, struct mr_choice *choice)
{
    struct mr_value value;
    choice->stop_token = MR_TOKEN_NONE;
    if (reader->status != MR_OK || !mr_value_get(map, "stop_reason", &value)) return;
    switch (mr_value_kind(value)) {
    case MR_VALUE_TEXT:
        choice->stop_text = copy_text(reader, mr_value_text(value));
        return;
    case MR_VALUE_INT:
        choice->stop_token = (uint32_t)need_int(reader, map, "stop_reason", 0, UINT32_MAX - 1);
        return;
    case MR_VALUE_NULL:
        return;
    default:
        fail(reader, MR_MALFORMED, "stop_reason");
    }
}

static void read_choice(struct reader *reader, struct mr_value map, struct mr_choice *choice)
{
    choice->finish = finish_of(reader, map);
    choice->stopped_by = stopped_by_of(reader, map);
    read_stop_reason(reader, map, choice);
    choice->text = need_text(reader, map, "text");
    choice->token_ids = need_ids(reader, map, &choice->token_count);
    choice->logprobs = read_logprobs(reader, map, choice->token_count);
}

static void read_choices(struct reader *reader, struct mr_value root, struct mr_result *out)
{
    struct mr_value array;
    bool several = find(reader, root, "choices", MR_VALUE_ARRAY, &array);
    size_t count = several ? mr_value_count(array) : 1;
    if (count == 0) fail(reader, MR_MALFORMED, "choices");
    struct mr_choice *choices = take(reader, count, sizeof *choices);
    for (size_t i = 0; i < count && reader->status == MR_OK; i++) {
        struct mr_value map = several ? mr_value_at(array, i) : root;
        if (mr_value_kind(map) != MR_VALUE_MAP) {
            fail(reader, MR_MALFORMED, "choices");
            break;
        }
        read_choice(reader, map, &choices[i]);
        if (several) choices[i].completion_tokens = need_u32(reader, map, "completion_tokens");
    }
    out->choices = choices;
    out->choice_count = count;
    struct mr_value usage;
    if (several || !need(reader, root, "usage", MR_VALUE_MAP, &usage)) return;
    choices[0].completion_tokens = need_u32(reader, usage, "completion_tokens");
}

static void read_figures(struct reader *reader, struct mr_value root, struct mr_result *out)
{
    struct mr_value usage, timings;
    if (need(reader, root, "usage", MR_VALUE_MAP, &usage)) {
        out->prompt_tokens = need_u32(reader, usage, "prompt_tokens");
        out->cached_tokens = need_u32(reader, usage, "cached_tokens");
        out->cached_tokens_redis = need_u32(reader, usage, "cached_tokens_redis");
        out->accepted_draft_tokens = read_u32(reader, usage, "accepted_draft_tokens");
    }
    if (need(reader, root, "timings_ms", MR_VALUE_MAP, &timings)) {
        out->queue_ms = need_number(reader, timings, "queue");
        out->prefill_ms = need_number(reader, timings, "prefill");
        out->first_token_ms = need_number(reader, timings, "first_token");
        out->total_ms = need_number(reader, timings, "total");
        out->itl_mean_ms = need_number(reader, timings, "itl_mean");
        out->itl_max_ms = need_number(reader, timings, "itl_max");
    }
    out->prefill_chunks = need_u32(reader, root, "prefill_chunks");
    out->preemptions = need_u32(reader, root, "preemptions");
    out->recomputed_tokens = need_u32(reader, root, "recomputed_tokens");
}

/* Converts the error code of a result to a status. If several statuses share the code, the one with
 * class REJECT is returned. */
static enum mr_status status_of(struct mr_text code)
{
    enum mr_status found = MR_INTERNAL;
    for (unsigned i = MR_STATUS_COUNT; i-- > 1;) {
        enum mr_status status = (enum mr_status)i;
        if (!mr_text_is(code, mr_status_code(status))) continue;
        found = status;
        if (mr_status_class(status) == MR_CLASS_REJECT) return status;
    }
    return found;
}

static void read_error(struct reader *reader, struct mr_value root, struct mr_result *out)
{
    struct mr_value error, retryable;
    if (!find(reader, root, "error", MR_VALUE_MAP, &error)) return;
    struct mr_text code = need_text(reader, error, "code");
    out->error_message = need_text(reader, error, "message").bytes;
    bool given = need(reader, error, "retryable", MR_VALUE_BOOL, &retryable);
    out->error_retryable = given && mr_value_bool(retryable);
    out->error = status_of(code);
}

static void read_source(struct reader *reader, struct mr_value root, struct mr_result *out)
{
    struct mr_value source;
    if (!need(reader, root, "source", MR_VALUE_MAP, &source)) return;
    out->source_topic = need_text(reader, source, "topic");
    out->source_partition = (int32_t)need_int(reader, source, "partition", INT32_MIN, INT32_MAX);
    out->source_offset = need_int(reader, source, "offset", INT64_MIN, INT64_MAX);
}

enum mr_status mr_result_decode(struct mr_result *out, struct mr_text bytes,
                                enum mr_encoding encoding, struct mr_arena *arena,
                                struct mr_error *err)
{
    struct reader reader = {.arena = arena, .err = err};
    struct mr_value root;
    struct mr_text metadata;
    *out = (struct mr_result){0};
    if (!open_record(&reader, bytes, encoding, &root)) return reader.status;
    out->id = need_text(&reader, root, "id");
    out->attempt = need_u32(&reader, root, "attempt");
    out->model = need_text(&reader, root, "model");
    out->worker = need_text(&reader, root, "worker");
    read_choices(&reader, root, out);
    read_figures(&reader, root, out);
    read_error(&reader, root, out);
    read_source(&reader, root, out);
    read_warnings(&reader, root, out);
    read_prompt_logprobs(&reader, root, out);
    read_scores(&reader, root, out);
    read_embedding(&reader, root, out);
    if (mr_document_raw_member(reader.document, "metadata", &metadata))
        out->metadata = copy_text(&reader, metadata);
    mr_document_close(reader.document);
    return reader.status;
}
