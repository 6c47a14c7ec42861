/* stream - turns the token records and the result of a request into the event stream of a client:
 * chunks of a chat completion or text completion, or the events of a Response.
 *
 * Every byte is sent once, although workers write at least once. A token record is used only if its
 * index is the next one of its choice and attempt. A higher attempt replaces the lower ones: if it
 * continues at the next index, the stream goes on. If it starts over, its text is compared with the
 * text that was sent, and the stream goes on after that. In every other case (a record is missing,
 * the texts differ) the choice waits for the result, which has the whole answer, and the rest of
 * it is sent then. If the answer of the result does not begin with what was sent, the stream ends
 * with an error.
 *
 * Owner:  the caller, one thread at a time. Memory: the text sent so far, at most
 *         MR_OPENAI_STREAM_BYTES_MAX for each choice.
 * Errors: _create MR_NOMEM. The others return false when the buffer `out` is full or memory is out;
 *         the stream cannot go on then. */
#ifndef MR_CODEC_OPENAI_STREAM_H
#define MR_CODEC_OPENAI_STREAM_H

#include "codec/openai/error.h"
#include "codec/openai/response.h"

#define MR_OPENAI_STREAM_BYTES_MAX ((size_t)16 << 20)

struct mr_openai_stream;

/* Texts are copied. */
struct mr_openai_stream_options {
    enum mr_openai_endpoint endpoint; /* chat completions, completions or responses */
    struct mr_text id, model;         /* of the request; model in the chunks */
    int64_t created_s;                /* Unix time */
    uint32_t choice_count;            /* n */
    bool usage;                       /* stream_options.include_usage */
};

enum mr_status mr_openai_stream_create(struct mr_openai_stream **out,
                                       const struct mr_openai_stream_options *options,
                                       struct mr_error *err);
/* stream may be NULL. */
void mr_openai_stream_destroy(struct mr_openai_stream *stream);

/* Appends what comes before the first token. request: body of the call. */
bool mr_openai_stream_begin(struct mr_openai_stream *stream, struct mr_value request,
                            struct mr_buffer *out);
/* Appends what is new in a token record. record: its root. */
bool mr_openai_stream_tokens(struct mr_openai_stream *stream, struct mr_value record,
                             struct mr_buffer *out);
/* Appends the rest of the answer and the end of the stream, or the error of the result. */
bool mr_openai_stream_result(struct mr_openai_stream *stream, struct mr_value request,
                             struct mr_value result, struct mr_buffer *out);
/* Appends an error and the end of the stream. */
bool mr_openai_stream_fail(struct mr_openai_stream *stream, struct mr_value request,
                           const struct mr_openai_error *error, struct mr_buffer *out);

#endif
