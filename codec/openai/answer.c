#include "codec/openai/answer.h"

#include "codec/openai/copy.h"

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
