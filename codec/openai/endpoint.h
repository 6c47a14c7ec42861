/* endpoint - the endpoints of OpenAI's HTTP API that millrace serves, and /v1/rerank, which vLLM
 * adds to them.
 *
 * Threads: any (pure functions). Memory: static texts. Errors: none. */
#ifndef MR_CODEC_OPENAI_ENDPOINT_H
#define MR_CODEC_OPENAI_ENDPOINT_H

#include "codec/wire/value.h"

enum mr_openai_endpoint {
    MR_OPENAI_CHAT,        /* /v1/chat/completions */
    MR_OPENAI_COMPLETIONS, /* /v1/completions */
    MR_OPENAI_EMBEDDINGS,  /* /v1/embeddings */
    MR_OPENAI_RESPONSES,   /* /v1/responses */
    MR_OPENAI_RERANK,      /* /v1/rerank */
    MR_OPENAI_ENDPOINTS
};

/* The path, such as "/v1/chat/completions". */
const char *mr_openai_path(enum mr_openai_endpoint endpoint);
/* Finds the endpoint of a path. False: millrace does not serve that path. */
bool mr_openai_find(struct mr_text path, enum mr_openai_endpoint *out);
/* Finds the endpoint that a request body is written for, by its members. False: the members do not
 * tell, as with `input` alone, which embeddings and responses both have. */
bool mr_openai_guess(struct mr_value body, enum mr_openai_endpoint *out);

#endif
