#include "codec/openai/response.h"

#include "codec/openai/copy.h"
#include "codec/openai/logprobs.h"
#include "codec/openai/responses.h"
#include "codec/wire/writer.h"

#include <stdio.h>
#include <string.h>

/* ---- members of several responses ---- */

void mr_openai_put_head(struct mr_json_writer *writer, const char *prefix, const char *object,
                        const struct mr_openai_head *head)
{
    char id[256];
    const int length =
        snprintf(id, sizeof id, "%s%.*s", prefix, (int)head->id.length, head->id.bytes);
    const size_t most = sizeof id - 1;
    mr_openai_put_text(writer, "id",
                       (struct mr_text){id, length < 0              ? 0
                                            : (size_t)length < most ? (size_t)length
                                                                    : most});
    mr_openai_put_string(writer, "object", object);
    mr_openai_put_int(writer, "created", head->created_s);
    mr_openai_put_text(writer, "model", head->model);
}

static void put_head(struct mr_json_writer *writer, const struct mr_openai_answer *answer,
                     const char *prefix, const char *object)
{
    struct mr_openai_head head = {answer->id, {"", 0}, answer->created_s};
    (void)mr_openai_get_text(answer->result, "model", &head.model);
    mr_openai_put_head(writer, prefix, object, &head);
}

void mr_openai_put_usage(struct mr_json_writer *writer, struct mr_value result)
{
    struct mr_value usage = result;
    (void)mr_openai_get(result, "usage", &usage);
    mr_json_name(writer, "usage");
    mr_json_begin_object(writer);
    mr_openai_put_int(writer, "prompt_tokens", mr_openai_get_int(usage, "prompt_tokens", 0));
    mr_openai_put_int(writer, "completion_tokens",
                      mr_openai_get_int(usage, "completion_tokens", 0));
    mr_openai_put_int(writer, "total_tokens", mr_openai_get_int(usage, "total_tokens", 0));
    mr_json_name(writer, "prompt_tokens_details");
    mr_json_begin_object(writer);
    mr_openai_put_int(writer, "cached_tokens", mr_openai_get_int(usage, "cached_tokens", 0));
    mr_json_end(writer);
    mr_json_end(writer);
}

/* ---- chat completions ---- */

/* The calls of a result have a member index, which only chunks have in OpenAI's API. */
static void put_calls(struct mr_json_writer *writer, struct mr_value calls)
{
    mr_json_name(writer, "tool_calls");
    mr_json_begin_array(writer);
    for (size_t i = 0; i < mr_value_count(calls); i++) {
        struct mr_member member = {0};
        mr_json_begin_object(writer);
        while (mr_value_next(mr_value_at(calls, i), &member)) {
            if (mr_text_is(member.name, "index")) continue;
            mr_json_name_text(writer, member.name);
            mr_json_put_value(writer, member.value);
        }
        mr_json_end(writer);
    }
    mr_json_end(writer);
}

static void put_message(struct mr_json_writer *writer, struct mr_value answer)
{
    const struct mr_text content = mr_openai_content(answer);
    struct mr_value calls;
    struct mr_text reasoning;
    const bool has_calls = mr_openai_get(answer, "tool_calls", &calls);
    mr_json_name(writer, "message");
    mr_json_begin_object(writer);
    mr_openai_put_string(writer, "role", "assistant");
    if (content.length == 0 && has_calls)
        mr_openai_put_null(writer, "content");
    else
        mr_openai_put_text(writer, "content", content);
    mr_openai_put_null(writer, "refusal");
    if (mr_openai_get_text(answer, "reasoning", &reasoning) && reasoning.length > 0) {
        mr_openai_put_text(writer, "reasoning_content", reasoning);
        mr_openai_put_text(writer, "reasoning", reasoning);
    }
    if (has_calls) put_calls(writer, calls);
    mr_json_end(writer);
}

static void put_chat(struct mr_json_writer *writer, const struct mr_openai_answer *answer)
{
    put_head(writer, answer, "chatcmpl-", "chat.completion");
    mr_json_name(writer, "choices");
    mr_json_begin_array(writer);
    for (size_t i = 0; i < mr_openai_choice_count(answer->result); i++) {
        struct mr_value choice = mr_openai_choice(answer->result, i), logprobs;
        mr_json_begin_object(writer);
        mr_openai_put_int(writer, "index", (int64_t)i);
        put_message(writer, choice);
        mr_json_name(writer, "logprobs");
        if (mr_openai_get(choice, "logprobs", &logprobs))
            mr_openai_put_chat_logprobs(writer, logprobs);
        else
            mr_json_put_null(writer);
        mr_openai_put_string(writer, "finish_reason", mr_openai_finish(choice));
        mr_json_end(writer);
    }
    mr_json_end(writer);
    mr_openai_put_usage(writer, answer->result);
}

/* ---- completions ---- */

static void put_completion(struct mr_json_writer *writer, const struct mr_openai_answer *answer)
{
    put_head(writer, answer, "cmpl-", "text_completion");
    mr_json_name(writer, "choices");
    mr_json_begin_array(writer);
    for (size_t i = 0; i < mr_openai_choice_count(answer->result); i++) {
        struct mr_value choice = mr_openai_choice(answer->result, i), logprobs;
        struct mr_text text = {"", 0};
        (void)mr_openai_get_text(choice, "text", &text);
        mr_json_begin_object(writer);
        mr_openai_put_int(writer, "index", (int64_t)i);
        mr_openai_put_text(writer, "text", text);
        mr_json_name(writer, "logprobs");
        if (mr_openai_get(choice, "logprobs", &logprobs))
            mr_openai_put_text_logprobs(writer, logprobs);
        else
            mr_json_put_null(writer);
        mr_openai_put_string(writer, "finish_reason", mr_openai_finish(choice));
        mr_json_end(writer);
    }
    mr_json_end(writer);
    mr_openai_put_usage(writer, answer->result);
}

/* ---- embeddings ---- */

/* Writes the vector of an entry, or the error that it has instead. */
static void put_vector(struct mr_json_writer *writer, int64_t index, struct mr_value entry)
{
    struct mr_value value;
    mr_json_begin_object(writer);
    mr_openai_put_string(writer, "object", "embedding");
    mr_openai_put_int(writer, "index", index);
    if (mr_openai_get(entry, "embedding", &value))
        mr_openai_put_member(writer, "embedding", value);
    else if (mr_openai_get(entry, "error", &value))
        mr_openai_put_member(writer, "error", value);
    mr_json_end(writer);
}

/* The vector of a result with one input is its member `embedding`; a result with several has
 * `data`. */
static void put_embeddings(struct mr_json_writer *writer, const struct mr_openai_answer *answer)
{
    struct mr_value data, vector;
    struct mr_text model = {"", 0};
    (void)mr_openai_get_text(answer->result, "model", &model);
    mr_openai_put_string(writer, "object", "list");
    mr_json_name(writer, "data");
    mr_json_begin_array(writer);
    if (mr_openai_get(answer->result, "data", &data)) {
        for (size_t i = 0; i < mr_value_count(data); i++)
            put_vector(writer, (int64_t)i, mr_value_at(data, i));
    } else if (mr_openai_get(answer->result, "embedding", &vector)) {
        put_vector(writer, 0, answer->result);
    }
    mr_json_end(writer);
    mr_openai_put_text(writer, "model", model);
    struct mr_value usage = answer->result;
    (void)mr_openai_get(answer->result, "usage", &usage);
    const int64_t tokens = mr_openai_get_int(usage, "prompt_tokens", 0);
    mr_json_name(writer, "usage");
    mr_json_begin_object(writer);
    mr_openai_put_int(writer, "prompt_tokens", tokens);
    mr_openai_put_int(writer, "total_tokens", tokens);
    mr_json_end(writer);
}

/* ---- rerank ---- */

/* documents of the request: texts, or maps with a member text. */
static struct mr_text document_text(struct mr_value request, size_t index)
{
    struct mr_value documents;
    struct mr_text text = {"", 0};
    if (!mr_openai_get(request, "documents", &documents) ||
        mr_value_kind(documents) != MR_VALUE_ARRAY || index >= mr_value_count(documents))
        return text;
    struct mr_value document = mr_value_at(documents, index);
    if (mr_value_kind(document) == MR_VALUE_TEXT) return mr_value_text(document);
    (void)mr_openai_get_text(document, "text", &text);
    return text;
}

/* Writes the score of a document, or the error that it has instead. */
static void put_rank(struct mr_json_writer *writer, const struct mr_openai_answer *answer,
                     struct mr_value entry)
{
    const int64_t index = mr_openai_get_int(entry, "index", 0);
    struct mr_value value;
    mr_json_begin_object(writer);
    mr_openai_put_int(writer, "index", index);
    if (!mr_openai_get(answer->request, "return_documents", &value) ||
        mr_value_kind(value) != MR_VALUE_BOOL || mr_value_bool(value)) {
        mr_json_name(writer, "document");
        mr_json_begin_object(writer);
        mr_openai_put_text(writer, "text", document_text(answer->request, (size_t)index));
        mr_json_end(writer);
    }
    if (mr_openai_get(entry, "relevance_score", &value))
        mr_openai_put_member(writer, "relevance_score", value);
    else if (mr_openai_get(entry, "error", &value))
        mr_openai_put_member(writer, "error", value);
    mr_json_end(writer);
}

/* `data` of the result has the documents in descending order of their scores, at most top_n. */
static void put_ranking(struct mr_json_writer *writer, const struct mr_openai_answer *answer)
{
    struct mr_value data;
    const size_t count = mr_openai_get(answer->result, "data", &data) ? mr_value_count(data) : 0;
    put_head(writer, answer, "rerank-", "rerank");
    mr_json_name(writer, "results");
    mr_json_begin_array(writer);
    for (size_t i = 0; i < count; i++)
        put_rank(writer, answer, mr_value_at(data, i));
    mr_json_end(writer);
    mr_openai_put_usage(writer, answer->result);
}

void mr_openai_put_response(struct mr_json_writer *writer, const struct mr_openai_answer *answer)
{
    static void (*const put[MR_OPENAI_ENDPOINTS])(struct mr_json_writer *,
                                                  const struct mr_openai_answer *) = {
        [MR_OPENAI_CHAT] = put_chat,
        [MR_OPENAI_COMPLETIONS] = put_completion,
        [MR_OPENAI_EMBEDDINGS] = put_embeddings,
        [MR_OPENAI_RESPONSES] = mr_openai_put_responses_object,
        [MR_OPENAI_RERANK] = put_ranking,
    };
    mr_json_begin_object(writer);
    put[answer->endpoint](writer, answer);
    mr_json_end(writer);
}
