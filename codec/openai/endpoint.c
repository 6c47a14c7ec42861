#include "codec/openai/endpoint.h"

static const char *const paths[MR_OPENAI_ENDPOINTS] = {
    [MR_OPENAI_CHAT] = "/v1/chat/completions", [MR_OPENAI_COMPLETIONS] = "/v1/completions",
    [MR_OPENAI_EMBEDDINGS] = "/v1/embeddings", [MR_OPENAI_RESPONSES] = "/v1/responses",
    [MR_OPENAI_RERANK] = "/v1/rerank",
};

/* Members that only bodies of this endpoint have, the most telling first. */
static const struct {
    const char *member;
    enum mr_openai_endpoint endpoint;
} telling[] = {
    {"messages", MR_OPENAI_CHAT},
    {"query", MR_OPENAI_RERANK},
    {"encoding_format", MR_OPENAI_EMBEDDINGS},
    {"dimensions", MR_OPENAI_EMBEDDINGS},
    {"prompt", MR_OPENAI_COMPLETIONS},
    {"prompt_token_ids", MR_OPENAI_COMPLETIONS},
    {"instructions", MR_OPENAI_RESPONSES},
    {"max_output_tokens", MR_OPENAI_RESPONSES},
    {"reasoning", MR_OPENAI_RESPONSES},
    {"text", MR_OPENAI_RESPONSES},
};

const char *mr_openai_path(enum mr_openai_endpoint endpoint)
{
    MR_ASSERT((unsigned)endpoint < MR_OPENAI_ENDPOINTS);
    return paths[endpoint];
}

bool mr_openai_find(struct mr_text path, enum mr_openai_endpoint *out)
{
    for (unsigned i = 0; i < MR_OPENAI_ENDPOINTS; i++) {
        if (!mr_text_is(path, paths[i])) continue;
        *out = (enum mr_openai_endpoint)i;
        return true;
    }
    return false;
}

bool mr_openai_guess(struct mr_value body, enum mr_openai_endpoint *out)
{
    struct mr_value value;
    if (mr_value_get(body, "task", &value) && mr_value_kind(value) == MR_VALUE_TEXT &&
        mr_text_is(mr_value_text(value), "embed")) {
        *out = MR_OPENAI_EMBEDDINGS;
        return true;
    }
    for (size_t i = 0; i < sizeof telling / sizeof *telling; i++) {
        if (!mr_value_get(body, telling[i].member, &value)) continue;
        *out = telling[i].endpoint;
        return true;
    }
    if (!mr_value_get(body, "input", &value) || mr_value_kind(value) != MR_VALUE_ARRAY ||
        mr_value_count(value) == 0 || mr_value_kind(mr_value_at(value, 0)) != MR_VALUE_MAP)
        return false;
    *out = MR_OPENAI_RESPONSES; /* a list of items */
    return true;
}
