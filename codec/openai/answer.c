#include "codec/openai/answer.h"

#include "codec/openai/copy.h"

/* True if the member is absent, or an array of values of this kind for each of which check, unless
 * it is NULL, is true. */
static bool is_list(struct mr_value map, const char *name, enum mr_value_kind kind,
                    bool (*check)(struct mr_value entry))
{
    struct mr_value array;
    if (!mr_openai_get(map, name, &array)) return true;
    if (mr_value_kind(array) != MR_VALUE_ARRAY) return false;
    for (size_t i = 0; i < mr_value_count(array); i++) {
        const struct mr_value entry = mr_value_at(array, i);
        if (mr_value_kind(entry) != kind || (check && !check(entry))) return false;
    }
    return true;
}

static bool is_logprob(struct mr_value entry)
{
    return is_list(entry, "top", MR_VALUE_MAP, NULL);
}

static bool is_choice(struct mr_value entry)
{
    return is_list(entry, "tool_calls", MR_VALUE_MAP, NULL) &&
           is_list(entry, "logprobs", MR_VALUE_MAP, is_logprob);
}

static bool is_vector(struct mr_value entry)
{
    struct mr_value vector; /* an array of numbers, or their bytes in base64 */
    if (!mr_openai_get(entry, "embedding", &vector)) return true;
    return mr_value_kind(vector) == MR_VALUE_ARRAY || mr_value_kind(vector) == MR_VALUE_TEXT;
}

bool mr_openai_is_answer(struct mr_value record)
{
    return mr_value_kind(record) == MR_VALUE_MAP && is_choice(record) && is_vector(record) &&
           is_list(record, "choices", MR_VALUE_MAP, is_choice) &&
           is_list(record, "data", MR_VALUE_MAP, is_vector);
}

size_t mr_openai_choice_count(struct mr_value result)
{
    struct mr_value choices;
    if (!mr_openai_get(result, "choices", &choices)) return 1;
    return mr_value_kind(choices) == MR_VALUE_ARRAY ? mr_value_count(choices) : 1;
}

struct mr_value mr_openai_choice(struct mr_value result, size_t index)
{
    struct mr_value choices;
    if (!mr_openai_get(result, "choices", &choices) || mr_value_kind(choices) != MR_VALUE_ARRAY)
        return result;
    return mr_value_at(choices, index);
}

const char *mr_openai_finish(struct mr_value answer)
{
    struct mr_value value;
    if (mr_openai_get(answer, "tool_calls", &value)) return "tool_calls";
    return mr_openai_get(answer, "stopped_by", &value) ? "stop" : "length";
}

struct mr_text mr_openai_content(struct mr_value answer)
{
    struct mr_text text = {"", 0};
    if (!mr_openai_get_text(answer, "content", &text))
        (void)mr_openai_get_text(answer, "text", &text);
    return text;
}
