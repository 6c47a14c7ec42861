#include "codec/records/request_fields.h"

#include "codec/limits.h"
#include "codec/records/foreign_fields.h"
#include "codec/records/request_chat.h"
#include "codec/records/request_format.h"
#include "codec/records/request_inputs.h"
#include "codec/records/request_lists.h"
#include "codec/records/request_tools.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>

enum kind { KIND_BOOL, KIND_U32, KIND_FLOAT, KIND_TEXT, KIND_TEXTS, KIND_IDS, KIND_READ };

/* A record may have at most one field of each group. */
enum group { GROUP_NONE, GROUP_PROMPT, GROUP_MAX_TOKENS, GROUP_DEADLINE, GROUP_SESSION };

struct field {
    const char *name;
    enum kind kind;
    enum group group;
    bool above_min;  /* the value must be above min, not equal to it */
    size_t offset;   /* offset of the value in struct mr_request */
    double min, max; /* range of a number; max of TEXT: bytes; max of TEXTS and IDS: entries */
    mr_request_read *read; /* function that reads a field of kind READ */
    size_t count_offset;   /* offset of the entry count of TEXTS and IDS in struct mr_request */
};

static mr_request_read read_seed, read_logprobs, read_prompt_logprobs, read_top_logprobs,
    read_best_of, read_priority, read_deadline, read_timeout, read_top_k, read_truncate,
    read_truncation_side, read_add_special_tokens, read_skip_special_tokens, read_reasoning_effort,
    read_stream_options, read_task, read_pooling, read_normalize, read_encoding_format,
    read_thinking_budget, read_dimensions;

/* clang-format off */
#define BOOL(name, member) \
    {#name, KIND_BOOL, GROUP_NONE, false, offsetof(struct mr_request, member), 0, 0, NULL, 0}
#define NUMBER(kind, name, member, min, max) \
    {#name, kind, GROUP_NONE, false, offsetof(struct mr_request, member), min, max, NULL, 0}
#define ABOVE(name, member, min, max) \
    {#name, KIND_FLOAT, GROUP_NONE, true, offsetof(struct mr_request, member), min, max, NULL, 0}
#define MAX_TOKENS(name) \
    {#name, KIND_U32, GROUP_MAX_TOKENS, false, offsetof(struct mr_request, max_tokens), 0, INT32_MAX, NULL, 0}
#define SESSION(name) \
    {#name, KIND_TEXT, GROUP_SESSION, false, offsetof(struct mr_request, session), 1, (double)MR_SESSION_BYTES_MAX, NULL, 0}
#define TEXT(name, member, bytes_max) \
    {#name, KIND_TEXT, GROUP_NONE, false, offsetof(struct mr_request, member), 1, (double)(bytes_max), NULL, 0}
#define LIST(kind, name, member, count_member, count_max) \
    {#name, kind, GROUP_NONE, false, offsetof(struct mr_request, member), 0, (double)(count_max), NULL, \
     offsetof(struct mr_request, count_member)}
#define READ(name, group, function) \
    {#name, KIND_READ, group, false, 0, 0, 0, function, 0}
/* clang-format on */

static const struct field fields[] = {
    TEXT(model, model, MR_MODEL_NAME_BYTES_MAX),
    READ(prompt, GROUP_PROMPT, mr_request_read_prompt),
    READ(prompt_token_ids, GROUP_PROMPT, mr_request_read_prompt_ids),
    READ(messages, GROUP_PROMPT, mr_request_read_messages),
    READ(input, GROUP_PROMPT, mr_request_read_input),
    READ(tools, GROUP_NONE, mr_request_read_tools),
    READ(tool_choice, GROUP_NONE, mr_request_read_tool_choice),
    READ(parallel_tool_calls, GROUP_NONE, mr_request_read_parallel_calls),
    BOOL(separate_reasoning, tool_use.separate_reasoning),
    READ(documents, GROUP_NONE, mr_request_read_documents),
    READ(chat_template_kwargs, GROUP_NONE, mr_request_read_kwargs),
    READ(add_generation_prompt, GROUP_NONE, mr_request_read_generation_prompt),
    BOOL(continue_final_message, chat.continue_final_message),
    READ(reasoning_effort, GROUP_NONE, read_reasoning_effort),
    READ(truncate_prompt_tokens, GROUP_NONE, read_truncate),
    READ(truncation_side, GROUP_NONE, read_truncation_side),
    READ(add_special_tokens, GROUP_NONE, read_add_special_tokens),
    BOOL(echo, echo),
    READ(skip_special_tokens, GROUP_NONE, read_skip_special_tokens),
    MAX_TOKENS(max_tokens),
    MAX_TOKENS(max_completion_tokens),
    MAX_TOKENS(max_new_tokens),
    NUMBER(KIND_U32, min_tokens, min_tokens, 0, INT32_MAX),
    BOOL(ignore_eos, ignore_eos),
    READ(thinking_token_budget, GROUP_NONE, read_thinking_budget),
    NUMBER(KIND_FLOAT, temperature, sampling.temperature, 0, 100),
    READ(top_k, GROUP_NONE, read_top_k),
    ABOVE(top_p, sampling.top_p, 0, 1),
    NUMBER(KIND_FLOAT, min_p, sampling.min_p, 0, 1),
    ABOVE(typical_p, sampling.typical_p, 0, 1),
    ABOVE(repetition_penalty, sampling.repetition_penalty, 0, 100),
    NUMBER(KIND_FLOAT, presence_penalty, sampling.presence_penalty, -2, 2),
    NUMBER(KIND_FLOAT, frequency_penalty, sampling.frequency_penalty, -2, 2),
    READ(seed, GROUP_NONE, read_seed),
    LIST(KIND_TEXTS, stop, stops, stop_count, MR_STOP_COUNT_MAX),
    BOOL(include_stop_str_in_output, include_stop),
    LIST(KIND_IDS, stop_token_ids, stop_token_ids, stop_token_count, MR_STOP_TOKENS_MAX),
    READ(logit_bias, GROUP_NONE, mr_request_read_logit_bias),
    READ(allowed_token_ids, GROUP_NONE, mr_request_read_allowed_ids),
    LIST(KIND_TEXTS, bad_words, sampling.bad_words, sampling.bad_word_count, MR_BAD_WORDS_MAX),
    READ(logprobs, GROUP_NONE, read_logprobs),
    READ(prompt_logprobs, GROUP_NONE, read_prompt_logprobs),
    READ(top_logprobs, GROUP_NONE, read_top_logprobs),
    NUMBER(KIND_U32, max_chars, max_chars, 0, INT32_MAX),
    NUMBER(KIND_FLOAT, min_confidence, min_confidence, 0, 1),
    NUMBER(KIND_U32, n, choice_count, 1, MR_CHOICES_MAX),
    READ(best_of, GROUP_NONE, read_best_of),
    READ(task, GROUP_NONE, read_task),
    READ(continuations, GROUP_NONE, mr_request_read_continuations),
    READ(query, GROUP_NONE, mr_request_read_query),
    READ(top_n, GROUP_NONE, mr_request_read_top_n),
    READ(return_documents, GROUP_NONE, mr_request_read_return_documents),
    READ(use_activation, GROUP_NONE, mr_request_read_use_activation),
    READ(pooling, GROUP_NONE, read_pooling),
    READ(normalize, GROUP_NONE, read_normalize),
    READ(dimensions, GROUP_NONE, read_dimensions),
    READ(encoding_format, GROUP_NONE, read_encoding_format),
    READ(priority, GROUP_NONE, read_priority),
    READ(deadline_ms, GROUP_DEADLINE, read_deadline),
    READ(timeout_ms, GROUP_DEADLINE, read_timeout),
    BOOL(stream, stream),
    READ(stream_options, GROUP_NONE, read_stream_options),
    SESSION(session),
    SESSION(session_id),
    READ(cache, GROUP_NONE, mr_request_read_cache),
    TEXT(cache_salt, cache_salt, MR_SALT_BYTES_MAX),
    BOOL(speculate, speculate),
    READ(response_format, GROUP_NONE, mr_request_read_response_format),
    READ(structured_outputs, GROUP_NONE, mr_request_read_structured_outputs),
    READ(guided_json, GROUP_NONE, mr_request_read_guided),
    READ(guided_regex, GROUP_NONE, mr_request_read_guided),
    READ(guided_choice, GROUP_NONE, mr_request_read_guided),
    READ(guided_grammar, GROUP_NONE, mr_request_read_guided),
    READ(metadata, GROUP_NONE, mr_request_read_metadata),
};

/* ---- numbers ---- */

static enum mr_status out_of_range(struct mr_request_reader *reader, const struct field *field)
{
    return mr_fail(reader->err, MR_INVALID_REQUEST, "%s must be %s %g and at most %g", field->name,
                   field->above_min ? "above" : "at least", field->min, field->max);
}

static enum mr_status read_integer(struct mr_request_reader *reader, const struct field *field,
                                   struct mr_value value, int64_t *out)
{
    int64_t integer;
    if (mr_value_kind(value) == MR_VALUE_BIG) return out_of_range(reader, field);
    if (!mr_value_integer(value, &integer))
        return mr_request_wrong_type(reader, field->name, "an integer", value);
    if ((double)integer < field->min || (double)integer > field->max)
        return out_of_range(reader, field);
    *out = integer;
    return MR_OK;
}

static enum mr_status read_float(struct mr_request_reader *reader, const struct field *field,
                                 struct mr_value value, float *out)
{
    enum mr_value_kind kind = mr_value_kind(value);
    if (kind == MR_VALUE_BIG) return out_of_range(reader, field);
    if (kind != MR_VALUE_INT && kind != MR_VALUE_FLOAT)
        return mr_request_wrong_type(reader, field->name, "a number", value);
    double number = mr_value_number(value);
    if (!isfinite(number))
        return mr_fail(reader->err, MR_INVALID_REQUEST, "%s is not finite", field->name);
    float narrowed = (float)number;
    if (number < field->min || number > field->max ||
        (field->above_min && (double)narrowed <= field->min))
        return out_of_range(reader, field);
    *out = narrowed;
    return MR_OK;
}

static enum mr_status read_text(struct mr_request_reader *reader, const struct field *field,
                                struct mr_value value, struct mr_text *out)
{
    if (mr_value_kind(value) != MR_VALUE_TEXT)
        return mr_request_wrong_type(reader, field->name, "text", value);
    struct mr_text text = mr_value_text(value);
    if (text.length == 0 || (double)text.length > field->max)
        return mr_fail(reader->err, MR_INVALID_REQUEST, "%s must be 1 to %g bytes long",
                       field->name, field->max);
    return mr_request_copy_text(reader, text, out);
}

/* Reads top_k. Other servers use -1 for "off". */
static enum mr_status read_top_k(struct mr_request_reader *reader, const char *field,
                                 struct mr_value value)
{
    const struct field range = {.name = field, .min = -1, .max = INT32_MAX};
    int64_t integer;
    enum mr_status status = read_integer(reader, &range, value, &integer);
    if (status != MR_OK) return status;
    reader->request->sampling.top_k = integer < 0 ? 0 : (uint32_t)integer;
    return MR_OK;
}

static enum mr_status read_seed(struct mr_request_reader *reader, const char *field,
                                struct mr_value value)
{
    int64_t seed;
    if (!mr_value_integer(value, &seed))
        return mr_request_wrong_type(reader, field, "an integer of 64 bits", value);
    reader->request->sampling.seed = (uint64_t)seed;
    reader->request->sampling.has_seed = true;
    return MR_OK;
}

static enum mr_status read_logprobs(struct mr_request_reader *reader, const char *field,
                                    struct mr_value value)
{
    int64_t count = 0;
    if (mr_value_kind(value) == MR_VALUE_BOOL) {
        count = mr_value_bool(value) ? 0 : -1;
    } else {
        const struct field range = {.name = field, .min = 0, .max = MR_LOGPROBS_MAX};
        enum mr_status status = read_integer(reader, &range, value, &count);
        if (status != MR_OK) return status;
        reader->logprobs_counted = true;
    }
    reader->request->sampling.logprobs = (int32_t)count;
    return MR_OK;
}

static enum mr_status read_prompt_logprobs(struct mr_request_reader *reader, const char *field,
                                           struct mr_value value)
{
    const struct field range = {.name = field, .min = 0, .max = MR_LOGPROBS_MAX};
    int64_t count;
    enum mr_status status = read_integer(reader, &range, value, &count);
    if (status != MR_OK) return status;
    reader->request->scores_prompt = true;
    reader->request->prompt_logprobs = (uint32_t)count;
    return MR_OK;
}

static enum mr_status read_top_logprobs(struct mr_request_reader *reader, const char *field,
                                        struct mr_value value)
{
    const struct field range = {.name = field, .min = 0, .max = MR_LOGPROBS_MAX};
    return read_integer(reader, &range, value, &reader->top_logprobs);
}

static enum mr_status read_best_of(struct mr_request_reader *reader, const char *field,
                                   struct mr_value value)
{
    const struct field range = {.name = field, .min = 1, .max = INT32_MAX};
    return read_integer(reader, &range, value, &reader->best_of);
}

/* -1: no limit, also where the topic has one. */
static enum mr_status read_thinking_budget(struct mr_request_reader *reader, const char *field,
                                           struct mr_value value)
{
    const struct field range = {.name = field, .min = -1, .max = INT32_MAX};
    int64_t tokens;
    enum mr_status status = read_integer(reader, &range, value, &tokens);
    if (status != MR_OK) return status;
    reader->request->thinking.given = tokens >= 0;
    if (tokens >= 0) reader->request->thinking.tokens = (uint32_t)tokens;
    return MR_OK;
}

static enum mr_status read_priority(struct mr_request_reader *reader, const char *field,
                                    struct mr_value value)
{
    static const struct {
        const char *name;
        int32_t priority;
    } names[] = {{"low", -10}, {"normal", 0}, {"high", 10}, {"urgent", 20}};
    if (mr_value_kind(value) == MR_VALUE_TEXT) {
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            if (!mr_text_is(mr_value_text(value), names[i].name)) continue;
            reader->request->priority = names[i].priority;
            return MR_OK;
        }
        return mr_fail(reader->err, MR_INVALID_REQUEST,
                       "%s must be low, normal, high, urgent or -100 to 100", field);
    }
    const struct field range = {.name = field, .min = -100, .max = 100};
    int64_t priority;
    enum mr_status status = read_integer(reader, &range, value, &priority);
    if (status == MR_OK) reader->request->priority = (int32_t)priority;
    return status;
}

static enum mr_status read_deadline(struct mr_request_reader *reader, const char *field,
                                    struct mr_value value)
{
    const struct field range = {.name = field, .min = 1, .max = 9e15};
    return read_integer(reader, &range, value, &reader->deadline_ms);
}

static enum mr_status read_timeout(struct mr_request_reader *reader, const char *field,
                                   struct mr_value value)
{
    const struct field range = {.name = field, .min = 1, .max = (double)MR_DEADLINE_MS_MAX};
    return read_integer(reader, &range, value, &reader->timeout_ms);
}

/* ---- fields of OpenAI's API and vLLM ---- */

static enum mr_status read_bool(struct mr_request_reader *reader, const char *field,
                                struct mr_value value, bool *out)
{
    if (mr_value_kind(value) != MR_VALUE_BOOL)
        return mr_request_wrong_type(reader, field, "true or false", value);
    *out = mr_value_bool(value);
    return MR_OK;
}

/* Reads truncate_prompt_tokens. -1: as many tokens as the model has room for. */
static enum mr_status read_truncate(struct mr_request_reader *reader, const char *field,
                                    struct mr_value value)
{
    const struct field range = {.name = field, .min = -1, .max = INT32_MAX};
    int64_t count;
    enum mr_status status = read_integer(reader, &range, value, &count);
    if (status != MR_OK) return status;
    if (count == 0)
        return mr_fail(reader->err, MR_INVALID_REQUEST, "%s must be -1 or at least 1", field);
    reader->request->prompt_rules.tokens_max = count < 0 ? UINT32_MAX : (uint32_t)count;
    return MR_OK;
}

static enum mr_status read_truncation_side(struct mr_request_reader *reader, const char *field,
                                           struct mr_value value)
{
    bool text = mr_value_kind(value) == MR_VALUE_TEXT;
    bool right = text && mr_text_is(mr_value_text(value), "right");
    if (!right && !(text && mr_text_is(mr_value_text(value), "left")))
        return mr_fail(reader->err, MR_INVALID_REQUEST, "%s must be left or right", field);
    reader->request->prompt_rules.keep_start = right;
    reader->request->prompt_rules.side_given = true;
    return MR_OK;
}

static enum mr_status read_add_special_tokens(struct mr_request_reader *reader, const char *field,
                                              struct mr_value value)
{
    reader->request->prompt_rules.special_given = true;
    return read_bool(reader, field, value, &reader->request->prompt_rules.add_special);
}

static enum mr_status read_skip_special_tokens(struct mr_request_reader *reader, const char *field,
                                               struct mr_value value)
{
    bool skip = true;
    enum mr_status status = read_bool(reader, field, value, &skip);
    reader->request->keep_special = !skip;
    return status;
}

static enum mr_status read_reasoning_effort(struct mr_request_reader *reader, const char *field,
                                            struct mr_value value)
{
    const struct field range = {.name = field, .max = MR_KWARG_NAME_BYTES_MAX};
    return read_text(reader, &range, value, &reader->reasoning_effort);
}

/* The result always has usage, so include_usage has no effect; only the other options are checked.
 */
static enum mr_status read_stream_options(struct mr_request_reader *reader, const char *field,
                                          struct mr_value value)
{
    struct mr_member member = {0};
    enum mr_status status = MR_OK;
    if (mr_value_kind(value) != MR_VALUE_MAP)
        return mr_request_wrong_type(reader, field, "a map", value);
    while (status == MR_OK && mr_value_next(value, &member)) {
        bool on = false;
        bool each = mr_text_is(member.name, "continuous_usage_stats");
        if (each || mr_text_is(member.name, "include_usage") ||
            mr_text_is(member.name, "include_obfuscation"))
            status = read_bool(reader, field, member.value, &on);
        else
            status = mr_request_unknown(reader, member.name, (struct mr_nearest){0});
        if (status == MR_OK && each && on)
            status = mr_request_warn(reader, "stream_options.continuous_usage_stats is not "
                                             "supported: only the result has usage");
    }
    return status;
}

/* Reads a text that must be one of `count` names and sets *out to its index. */
static enum mr_status read_name(struct mr_request_reader *reader, const char *field,
                                struct mr_value value, const char *const *names, size_t *out)
{
    const bool text = mr_value_kind(value) == MR_VALUE_TEXT;
    for (*out = 0; text && names[*out]; ++*out)
        if (mr_text_is(mr_value_text(value), names[*out])) return MR_OK;
    char list[96] = "";
    for (size_t i = 0, used = 0; names[i] && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? " or " : "",
                                 names[i]);
    return mr_fail(reader->err, MR_INVALID_REQUEST, "%s must be %s", field, list);
}

static enum mr_status read_task(struct mr_request_reader *reader, const char *field,
                                struct mr_value value)
{
    static const char *const names[] = {"generate", "score", "embed", "classify", "rerank", NULL};
    size_t index;
    enum mr_status status = read_name(reader, field, value, names, &index);
    if (status == MR_OK) reader->request->task = (enum mr_task)index;
    return status;
}

static enum mr_status read_pooling(struct mr_request_reader *reader, const char *field,
                                   struct mr_value value)
{
    static const char *const names[] = {"last", "mean", "cls", NULL};
    size_t index;
    enum mr_status status = read_name(reader, field, value, names, &index);
    struct mr_pooling *pooling = &reader->request->pooling;
    pooling->last = status == MR_OK && index == 0;
    pooling->mean = status == MR_OK && index == 1;
    pooling->first = status == MR_OK && index == 2;
    reader->embed_field = field;
    return status;
}

static enum mr_status read_dimensions(struct mr_request_reader *reader, const char *field,
                                      struct mr_value value)
{
    const struct field range = {.name = field, .min = 1, .max = INT32_MAX};
    int64_t count = 0;
    enum mr_status status = read_integer(reader, &range, value, &count);
    reader->request->pooling.dimensions = (uint32_t)count;
    reader->embed_field = field;
    return status;
}

static enum mr_status read_normalize(struct mr_request_reader *reader, const char *field,
                                     struct mr_value value)
{
    reader->embed_field = field;
    return read_bool(reader, field, value, &reader->request->pooling.normalize);
}

static enum mr_status read_encoding_format(struct mr_request_reader *reader, const char *field,
                                           struct mr_value value)
{
    static const char *const names[] = {"float", "base64", NULL};
    size_t index;
    enum mr_status status = read_name(reader, field, value, names, &index);
    if (status == MR_OK) reader->request->embedding_base64 = index == 1;
    reader->embed_field = field;
    return status;
}

/* The field that is most similar to an unknown member's name. Not searched when no further warning
 * would be stored, so that a record with very many unknown members costs little. */
static struct mr_nearest nearest_to(const struct mr_request_reader *reader, struct mr_text name)
{
    struct mr_nearest nearest = {.written = name};
    if (reader->request->warning_count == MR_WARNINGS_MAX) return nearest;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        mr_nearest_consider(&nearest, fields[i].name);
    return nearest;
}

/* Accepts, warns about or refuses a member that this version does not serve. */
static enum mr_status read_unserved(struct mr_request_reader *reader,
                                    const struct mr_member *member)
{
    const struct mr_foreign_field *field = mr_foreign_field_find(member->name);
    if (!field) return mr_request_unknown(reader, member->name, nearest_to(reader, member->name));
    if (mr_foreign_field_is_neutral(field, member->value)) return MR_OK;
    if (!field->refused)
        return mr_request_warn(reader, "%s is not supported: %s", field->name, field->hint);
    return mr_fail(reader->err, MR_UNSUPPORTED, "%s is not supported: %s", field->name,
                   field->hint);
}

/* ---- the record ---- */

static enum mr_status read_field(struct mr_request_reader *reader, const struct field *field,
                                 struct mr_value value)
{
    void *target = (char *)reader->request + field->offset;
    size_t *count = (size_t *)(void *)((char *)reader->request + field->count_offset);
    int64_t integer = 0;
    enum mr_status status = MR_OK;
    switch (field->kind) {
    case KIND_BOOL:
        return read_bool(reader, field->name, value, target);
    case KIND_U32:
        status = read_integer(reader, field, value, &integer);
        if (status == MR_OK) *(uint32_t *)target = (uint32_t)integer;
        return status;
    case KIND_FLOAT:
        return read_float(reader, field, value, target);
    case KIND_TEXT:
        return read_text(reader, field, value, target);
    case KIND_TEXTS:
        return mr_request_read_texts(reader, field->name, value, (size_t)field->max, target, count);
    case KIND_IDS:
        return mr_request_read_ids(reader, field->name, value, (size_t)field->max, target, count);
    case KIND_READ:
        return field->read(reader, field->name, value);
    }
    return status;
}

static const struct field *find_field(struct mr_text name)
{
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (mr_text_is(name, fields[i].name)) return &fields[i];
    return NULL;
}

static enum mr_status check_group(struct mr_request_reader *reader, const struct field *field)
{
    static const char *const sentences[] = {
        [GROUP_PROMPT] = "use one of prompt, prompt_token_ids, messages and input",
        [GROUP_MAX_TOKENS] = "use one of max_tokens, max_completion_tokens and max_new_tokens",
        [GROUP_DEADLINE] = "use one of deadline_ms and timeout_ms",
        [GROUP_SESSION] = "use one of session and session_id",
    };
    if (field->group == GROUP_NONE) return MR_OK;
    uint32_t bit = 1u << field->group;
    if (reader->groups_seen & bit)
        return mr_fail(reader->err, MR_INVALID_REQUEST, "%s, not two", sentences[field->group]);
    reader->groups_seen |= bit;
    return MR_OK;
}

enum mr_status mr_request_read_fields(struct mr_request_reader *reader, struct mr_value record)
{
    struct mr_member member = {0};
    while (mr_value_next(record, &member)) {
        if (mr_text_is(member.name, "id")) continue;
        const struct field *field = find_field(member.name);
        bool absent = mr_value_kind(member.value) == MR_VALUE_NULL;
        enum mr_status status = MR_OK;
        if (!field)
            status = read_unserved(reader, &member);
        else if (!absent)
            status = check_group(reader, field);
        if (status == MR_OK && field && !absent) status = read_field(reader, field, member.value);
        if (status != MR_OK) return status;
    }
    return MR_OK;
}

bool mr_request_has_prompt(const struct mr_request_reader *reader)
{
    return reader->groups_seen >> GROUP_PROMPT & 1u;
}
