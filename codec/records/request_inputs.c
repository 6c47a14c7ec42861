#include "codec/records/request_inputs.h"

#include "codec/limits.h"
#include "codec/records/request_lists.h"

#define WANTED "a text, or an array of texts or of arrays of token ids"

static enum mr_status take_inputs(struct mr_request_reader *reader, const char *field, size_t count)
{
    struct mr_inputs *inputs = &reader->request->inputs;
    void *memory;
    if (count == 0 || count > MR_INPUTS_MAX)
        return mr_fail(reader->err, MR_INVALID_REQUEST, "%s must have 1 to %zu entries", field,
                       MR_INPUTS_MAX);
    enum mr_status status = mr_request_take(reader, count, sizeof *inputs->list, &memory);
    if (status != MR_OK) return status;
    inputs->list = memory;
    inputs->count = count;
    return MR_OK;
}

/* Reads {"text": ..., "text_pair": ...}. */
static enum mr_status read_pair(struct mr_request_reader *reader, const char *field,
                                struct mr_value value, struct mr_input *out)
{
    struct mr_value text, second;
    if (!mr_value_get(value, "text", &text) || mr_value_kind(text) != MR_VALUE_TEXT)
        return mr_fail(reader->err, MR_INVALID_REQUEST, "%s has a map without a text", field);
    enum mr_status status = mr_request_copy_text(reader, mr_value_text(text), &out->text);
    if (status != MR_OK || !mr_value_get(value, "text_pair", &second)) return status;
    if (mr_value_kind(second) != MR_VALUE_TEXT)
        return mr_request_wrong_type(reader, "text_pair", "text", second);
    return mr_request_copy_text(reader, mr_value_text(second), &out->second);
}

static enum mr_status read_entry(struct mr_request_reader *reader, const char *field,
                                 struct mr_value value, struct mr_input *out)
{
    switch (mr_value_kind(value)) {
    case MR_VALUE_TEXT:
        return mr_request_copy_text(reader, mr_value_text(value), &out->text);
    case MR_VALUE_ARRAY:
        return mr_request_read_ids(reader, field, value, MR_NODES_MAX, &out->token_ids,
                                   &out->token_count);
    case MR_VALUE_MAP:
        return read_pair(reader, field, value, out);
    default:
        return mr_request_wrong_type(reader, field, WANTED, value);
    }
}

/* An array of integers is one text; so is a text. */
enum mr_status mr_request_read_input(struct mr_request_reader *reader, const char *field,
                                     struct mr_value value)
{
    const bool list = mr_value_kind(value) == MR_VALUE_ARRAY;
    const bool several =
        list && mr_value_count(value) > 0 && mr_value_kind(mr_value_at(value, 0)) != MR_VALUE_INT;
    if (!list && mr_value_kind(value) != MR_VALUE_TEXT)
        return mr_request_wrong_type(reader, field, WANTED, value);
    const size_t count = several ? mr_value_count(value) : !list || mr_value_count(value) > 0;
    enum mr_status status = take_inputs(reader, field, count);
    for (size_t i = 0; i < count && status == MR_OK; i++)
        status = read_entry(reader, field, several ? mr_value_at(value, i) : value,
                            &reader->request->inputs.list[i]);
    return status;
}

enum mr_status mr_request_read_query(struct mr_request_reader *reader, const char *field,
                                     struct mr_value value)
{
    if (mr_value_kind(value) != MR_VALUE_TEXT)
        return mr_request_wrong_type(reader, field, "text", value);
    reader->rerank_field = field;
    return mr_request_copy_text(reader, mr_value_text(value), &reader->request->inputs.query);
}

enum mr_status mr_request_read_top_n(struct mr_request_reader *reader, const char *field,
                                     struct mr_value value)
{
    int64_t count = 0;
    if (mr_value_kind(value) == MR_VALUE_BIG || !mr_value_integer(value, &count) || count < 1 ||
        count > INT32_MAX)
        return mr_fail(reader->err, MR_INVALID_REQUEST, "%s must be an integer of at least 1",
                       field);
    reader->rerank_field = field;
    reader->request->inputs.top = (uint32_t)count;
    return MR_OK;
}

static enum mr_status read_flag(struct mr_request_reader *reader, const char *field,
                                struct mr_value value, bool *out)
{
    if (mr_value_kind(value) != MR_VALUE_BOOL)
        return mr_request_wrong_type(reader, field, "true or false", value);
    *out = mr_value_bool(value);
    return MR_OK;
}

enum mr_status mr_request_read_return_documents(struct mr_request_reader *reader, const char *field,
                                                struct mr_value value)
{
    reader->rerank_field = field;
    return read_flag(reader, field, value, &reader->request->inputs.return_documents);
}

enum mr_status mr_request_read_use_activation(struct mr_request_reader *reader, const char *field,
                                              struct mr_value value)
{
    bool use = true;
    enum mr_status status = read_flag(reader, field, value, &use);
    reader->request->inputs.raw = !use;
    reader->head_field = field;
    return status;
}

/* Makes a pair of the query and each document, which is a text or a map with a member text. */
static enum mr_status pair_documents(struct mr_request_reader *reader)
{
    struct mr_request *request = reader->request;
    struct mr_inputs *inputs = &request->inputs;
    const struct mr_data documents = request->chat.documents;
    if (!inputs->query.bytes || documents.kind != MR_DATA_LIST)
        return mr_fail(reader->err, MR_INVALID_REQUEST, "task rerank needs query and documents");
    enum mr_status status = take_inputs(reader, "documents", documents.list.count);
    for (size_t i = 0; i < inputs->count && status == MR_OK; i++) {
        const struct mr_data *entry = &documents.list.items[i];
        const struct mr_data *text =
            entry->kind == MR_DATA_TEXT ? entry : mr_data_get(entry, "text");
        if (!text || text->kind != MR_DATA_TEXT)
            return mr_fail(reader->err, MR_INVALID_REQUEST, "entry %zu of documents has no text",
                           i);
        inputs->list[i] = (struct mr_input){.text = inputs->query, .second = text->text};
    }
    request->chat.documents = (struct mr_data){0};
    return status;
}

/* Documents of a chat are maps; those of task rerank may be texts. */
static enum mr_status check_documents(struct mr_request_reader *reader)
{
    const struct mr_data *documents = &reader->request->chat.documents;
    for (size_t i = 0; documents->kind == MR_DATA_LIST && i < documents->list.count; i++)
        if (documents->list.items[i].kind != MR_DATA_MAP)
            return mr_fail(reader->err, MR_INVALID_REQUEST,
                           "documents must be an array of maps, or with task rerank of texts");
    return MR_OK;
}

enum mr_status mr_request_apply_inputs(struct mr_request_reader *reader, bool has_prompt)
{
    const struct mr_request *request = reader->request;
    const struct mr_inputs *inputs = &request->inputs;
    const bool heads = request->task == MR_TASK_CLASSIFY || request->task == MR_TASK_RERANK;
    if (reader->head_field && !heads)
        return mr_fail(reader->err, MR_INVALID_REQUEST, "%s needs task classify or rerank",
                       reader->head_field);
    if (request->task == MR_TASK_RERANK && has_prompt)
        return mr_fail(reader->err, MR_INVALID_REQUEST,
                       "task rerank has query and documents instead of a prompt");
    if (request->task == MR_TASK_RERANK) return pair_documents(reader);
    if (reader->rerank_field)
        return mr_fail(reader->err, MR_INVALID_REQUEST, "%s needs task rerank",
                       reader->rerank_field);
    if (inputs->count > 0 && request->task != MR_TASK_EMBED && request->task != MR_TASK_CLASSIFY)
        return mr_fail(reader->err, MR_INVALID_REQUEST, "input needs task embed or classify");
    for (size_t i = 0; i < inputs->count; i++)
        if (inputs->list[i].second.bytes && request->task == MR_TASK_EMBED)
            return mr_fail(reader->err, MR_INVALID_REQUEST, "task embed has no pairs of texts");
    return check_documents(reader);
}
