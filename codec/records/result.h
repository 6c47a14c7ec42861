/* result - encodes the answers to a request: token records and the result record, described in
 * docker/asyncapi.yaml. codec/records/reply.h decodes them.
 *
 * Threads: any (pure functions). Memory: the structs borrow everything they point to.
 * Errors:  MR_NOMEM; MR_RECORD_TOO_LARGE above MR_RESULT_BYTES_MAX. */
#ifndef MR_CODEC_RECORDS_RESULT_H
#define MR_CODEC_RECORDS_RESULT_H

#include "codec/records/result_data.h"
#include "codec/status.h"
#include "codec/tokenizer/token_ids.h"
#include "codec/tools/tool_list.h"
#include "codec/wire/encoding.h"

/* clang-format off */
#define MR_FINISH_LIST(X) \
    X(NONE, "") \
    X(EOS, "eos") \
    X(LENGTH, "length") \
    X(STOP_TOKEN, "stop_token") \
    X(STOP_STRING, "stop_string") \
    X(MAX_CHARS, "max_chars") \
    X(LOW_CONFIDENCE, "low_confidence") \
    X(CONTEXT_FULL, "context_full") \
    X(DEADLINE, "deadline") \
    X(CANCELLED, "cancelled") \
    X(POOL_EXHAUSTED, "pool_exhausted") \
    X(REJECTED, "rejected") \
    X(ERROR, "error")
/* clang-format on */

enum mr_finish {
#define X(name, text) MR_FINISH_##name,
    MR_FINISH_LIST(X)
#undef X
        MR_FINISH_COUNT
};
const char *mr_finish_text(enum mr_finish finish);

struct mr_token_logprob {
    uint32_t token_id;
    float logprob;
    struct mr_text text;  /* text of the token; invalid UTF-8 is replaced */
    struct mr_text bytes; /* bytes of the token if they differ from `text`, else bytes NULL */
};

/* Log-probabilities of one generated token. */
struct mr_logprobs {
    struct mr_token_logprob chosen;
    const struct mr_token_logprob *top; /* [top_count] alternatives, best first */
    uint32_t top_count;
};

/* A part of a call. */
struct mr_tool_call_delta {
    uint32_t index;      /* of the call in the answer */
    struct mr_text name; /* bytes NULL: an earlier delta had the name */
    struct mr_text arguments;
};

/* The part of an answer's message in one token record (codec/records/message.h). */
struct mr_message_delta {
    struct mr_text content, reasoning;
    const struct mr_tool_call_delta *calls; /* [call_count] */
    size_t call_count;
};

struct mr_token_record {
    struct mr_text id;
    uint32_t attempt, choice, index; /* index: number of tokens of the choice before this record */
    int64_t resumed_at; /* of a resumed request's first record: its `index`; -1: other records */
    const uint32_t *token_ids;
    size_t token_count;
    struct mr_text text;
    const struct mr_logprobs *logprobs; /* [token_count] or NULL: not requested */
    struct mr_message_delta message;    /* empty members are not written */
    /* These two are not written. ended: the text of the choice is complete. before: if resumed_at
     * is not -1, the text of all earlier records. */
    bool ended;
    struct mr_text before;
};

/* The log-probability of a continuation of the prompt: the sum over its tokens. */
struct mr_score {
    const struct mr_logprobs *logprobs; /* [token_count] */
    size_t token_count;
};

struct mr_choice {
    enum mr_finish finish;
    /* EOS, STOP_TOKEN or STOP_STRING if the last token is one or completes one, independent of
     * `finish`: the answer is complete. Otherwise NONE. */
    enum mr_finish stopped_by;
    struct mr_text stop_text; /* member stop_reason: the stop string; bytes NULL: none */
    uint32_t stop_token;      /* member stop_reason: the stop token; MR_TOKEN_NONE: none */
    struct mr_text text;
    const uint32_t *token_ids;
    size_t token_count;
    uint32_t completion_tokens; /* generated tokens, including an end token */
    /* content: the text without calls and reasoning, if `parsed` (codec/records/message.h).
     * reasoning: bytes NULL if it was not requested. */
    bool parsed;
    struct mr_text content, reasoning;
    const struct mr_tool_call *tool_calls; /* [tool_call_count] */
    size_t tool_call_count;
    const struct mr_logprobs *logprobs;
};

struct mr_result {
    struct mr_text id;
    uint32_t attempt;
    struct mr_text model, worker;
    /* [choice_count]; the root map also has the members of choice 0 */
    const struct mr_choice *choices;
    size_t choice_count;
    /* [prompt_logprob_count] of the tokens of the prompt; the first has none and is written as
     * null. NULL: not requested */
    const struct mr_logprobs *prompt_logprobs;
    size_t prompt_logprob_count;
    const struct mr_score *scores; /* [score_count] in the order of the request's continuations */
    const float *embedding;        /* [embedding_size] the vector of task embed */
    size_t embedding_size;         /* 0: no task embed, or it did not end */
    bool embedding_base64;
    struct mr_result_data data; /* of a request with several texts or with classes */
    size_t score_count;         /* 0: no task score, or it did not end */
    uint32_t prompt_tokens, cached_tokens, cached_tokens_redis;
    uint32_t accepted_draft_tokens; /* generated tokens that a draft had proposed */
    double queue_ms, prefill_ms, first_token_ms, total_ms, itl_mean_ms, itl_max_ms;
    double margin_ms; /* left until the deadline when the request ended; not written */
    bool has_deadline;
    uint32_t prefill_chunks, preemptions, recomputed_tokens;
    enum mr_status error; /* MR_OK: no error */
    const char *error_message;
    bool error_retryable;
    struct mr_text source_topic;
    int32_t source_partition;
    int64_t source_offset;
    struct mr_text metadata;        /* bytes of the request's metadata, encoded like the record */
    const struct mr_text *warnings; /* [warning_count] sentences about fields without effect */
    size_t warning_count;
};

/* Both encode a record into a buffer that the caller frees. On an error *bytes is NULL. */
enum mr_status mr_token_record_encode(const struct mr_token_record *record,
                                      enum mr_encoding encoding, unsigned char **bytes,
                                      size_t *length, struct mr_error *err);
enum mr_status mr_result_encode(const struct mr_result *result, enum mr_encoding encoding,
                                unsigned char **bytes, size_t *length, struct mr_error *err);

#endif
