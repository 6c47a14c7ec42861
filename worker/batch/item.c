#include "worker/batch/item.h"

#include "codec/openai/copy.h"
#include "codec/records/request_decode.h"
#include "codec/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* The id of a record that is only checked; as long as the ids of worker/batch/job.h. */
static const struct mr_text check_id = {"batch-0123456789abcdef-1000000000-1", 35};

/* Reads custom_id, method, url and body of a line in OpenAI's format. */
static enum mr_status read_call(struct mr_batch_item *item, struct mr_value root,
                                struct mr_error *err)
{
    struct mr_value value;
    struct mr_text text = {"POST", 4};
    if (item->custom_id.length == 0)
        return mr_fail(err, MR_INVALID_REQUEST, "custom_id is missing or not a text");
    if (mr_value_get(root, "method", &value) &&
        (!mr_openai_get_text(root, "method", &text) || !mr_text_is(text, "POST")))
        return mr_fail(err, MR_INVALID_REQUEST, "method must be POST");
    if (mr_value_kind(item->body) != MR_VALUE_MAP)
        return mr_fail(err, MR_INVALID_REQUEST, "body must be an object");
    if (!mr_openai_get_text(root, "url", &text))
        return mr_fail(err, MR_INVALID_REQUEST, "url is missing or not a text");
    if (mr_openai_find(text, &item->endpoint)) return MR_OK;
    return mr_fail(err, MR_UNSUPPORTED, "url must be %s, %s, %s, %s or %s",
                   mr_openai_path(MR_OPENAI_CHAT), mr_openai_path(MR_OPENAI_COMPLETIONS),
                   mr_openai_path(MR_OPENAI_EMBEDDINGS), mr_openai_path(MR_OPENAI_RESPONSES),
                   mr_openai_path(MR_OPENAI_RERANK));
}

static enum mr_status read_bare(struct mr_batch_item *item, uint64_t number, struct mr_error *err)
{
    const int length = snprintf(item->generated, sizeof item->generated, "line-%" PRIu64, number);
    if (item->custom_id.length == 0)
        item->custom_id = (struct mr_text){item->generated, (size_t)length};
    if (mr_openai_guess(item->body, &item->endpoint)) return MR_OK;
    return mr_fail(err, MR_INVALID_REQUEST,
                   "the line has no body, and it is not a body: neither messages nor prompt");
}

enum mr_status mr_batch_item_open(struct mr_batch_item *item, struct mr_text line, uint64_t number,
                                  struct mr_error *err)
{
    struct mr_value stream;
    *item = (struct mr_batch_item){0};
    /* the parser says so too, but not in these words */
    if (!mr_utf8_is_valid(line)) return mr_fail(err, MR_MALFORMED, "the line is not UTF-8");
    enum mr_status status = mr_document_open(&item->document, line, MR_ENCODING_JSON, err);
    if (status != MR_OK) return status;
    const struct mr_value root = mr_document_root(item->document);
    (void)mr_openai_get_text(root, "custom_id", &item->custom_id);
    const bool is_bare = !mr_value_get(root, "body", &item->body);
    if (is_bare) item->body = root;
    status = is_bare ? read_bare(item, number, err) : read_call(item, root, err);
    if (status == MR_OK && mr_openai_get(item->body, "stream", &stream) &&
        !(mr_value_kind(stream) == MR_VALUE_BOOL && !mr_value_bool(stream)))
        return mr_fail(err, MR_UNSUPPORTED,
                       "stream must be false: an output file has whole answers");
    return status;
}

void mr_batch_item_close(struct mr_batch_item *item)
{
    mr_document_close(item->document);
    item->document = NULL;
}

enum mr_status mr_batch_item_record(const struct mr_batch_item *item,
                                    const struct mr_batch_item_rules *rules, struct mr_text id,
                                    char **record, size_t *length, struct mr_error *err)
{
    const struct mr_openai_call call = {.endpoint = item->endpoint,
                                        .body = item->body,
                                        .id = id,
                                        .priority = rules->priority,
                                        .timeout_ms = rules->timeout_ms};
    return mr_openai_call_record(&call, record, length, err);
}

enum mr_status mr_batch_item_check(const struct mr_batch_item *item,
                                   const struct mr_batch_item_rules *rules, size_t *warnings,
                                   struct mr_error *err)
{
    char *record;
    size_t length;
    struct mr_request *request = NULL;
    struct mr_reply_address address;
    *warnings = 0;
    enum mr_status status = mr_batch_item_record(item, rules, check_id, &record, &length, err);
    if (status != MR_OK) return status;
    const struct mr_request_context context = {.key = check_id,
                                               .fallback_id = check_id,
                                               .content_type = {"application/json", 16},
                                               .now_ms = rules->now_ms,
                                               .default_max_tokens = INT32_MAX,
                                               .record_bytes_max = rules->record_bytes_max};
    status = mr_request_decode(&request, (struct mr_text){record, length}, &context, &address, err);
    if (status == MR_OK) *warnings = request->warning_count;
    mr_request_destroy(request);
    free(record);
    return status;
}
