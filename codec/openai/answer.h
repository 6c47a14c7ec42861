/* answer - what a response is written from, and the parts of a result record that responses use.
 *
 * Threads: any (pure functions). Memory: texts and values are borrowed. Errors: none; a part that a
 * result lacks is empty. */
#ifndef MR_CODEC_OPENAI_ANSWER_H
#define MR_CODEC_OPENAI_ANSWER_H

#include "codec/openai/endpoint.h"
#include "codec/openai/error.h"

struct mr_openai_answer {
    enum mr_openai_endpoint endpoint;
    struct mr_text id;       /* of the request; the response's id is a prefix and this */
    int64_t created_s;       /* Unix time */
    struct mr_value request; /* body of the call, a map */
    struct mr_value result;  /* root of the result record, a map */
    /* For a Response of a stream only. unfinished: the answer is being computed, or has failed with
     * `error`; result is then any map without the members of a result. model: unless the result
     * has it. */
    bool unfinished;
    const struct mr_openai_error *error;
    struct mr_text model;
};

/* Whether the members that the functions of this room read have the types that workers write. Only
 * such a result or token record may be passed to them. */
bool mr_openai_is_answer(struct mr_value record);
/* finish_reason of an answer: the root of a result or one of its choices. */
const char *mr_openai_finish(struct mr_value answer);
/* The answer's text without calls and reasoning. */
struct mr_text mr_openai_content(struct mr_value answer);
/* The number of choices of a result, and one of them. */
size_t mr_openai_choice_count(struct mr_value result);
struct mr_value mr_openai_choice(struct mr_value result, size_t index);

#endif
