/* chunk - writes the chunks of a streamed chat completion or text completion, and frames events of
 * an event stream (server-sent events).
 *
 * A chat completion is streamed as one chunk with the role for each choice, chunks with what is
 * new, one chunk with the finish reason for each choice, and a chunk with the usage if the client
 * asked for one. The first part of a tool call has id, type and name, and no later part has them,
 * not even as null: clients join all texts with the same member name. Reasoning is written as
 * reasoning_content and as reasoning.
 *
 * Threads: any (pure functions). Memory: the buffer's. Errors: false when the buffer is full or
 *          memory is out; the buffer then keeps its events. */
#ifndef MR_CODEC_OPENAI_CHUNK_H
#define MR_CODEC_OPENAI_CHUNK_H

#include "codec/openai/endpoint.h"
#include "codec/wire/json_writer.h"

/* What all chunks of an answer have in common. */
struct mr_openai_chunk {
    enum mr_openai_endpoint endpoint; /* MR_OPENAI_CHAT or MR_OPENAI_COMPLETIONS */
    struct mr_text id;                /* of the request; the chunk's id is a prefix and this */
    struct mr_text model;
    int64_t created_s; /* Unix time */
    bool usage;        /* the client asked for a usage chunk: the other chunks have usage null */
};

/* A part of a tool call. */
struct mr_openai_call_part {
    uint32_t index;
    struct mr_text id, name; /* bytes NULL: an earlier part had them */
    struct mr_text arguments;
};

/* What is new in one choice. */
struct mr_openai_delta {
    uint32_t choice;
    struct mr_text content, reasoning; /* empty: nothing new */
    const struct mr_openai_call_part *calls;
    size_t call_count;
    const struct mr_value *logprobs; /* of the new tokens; NULL: none */
};

/* The first chunk of a choice. A text completion has none, and nothing is written. */
bool mr_openai_role_chunk(struct mr_buffer *out, const struct mr_openai_chunk *chunk,
                          uint32_t choice);
bool mr_openai_delta_chunk(struct mr_buffer *out, const struct mr_openai_chunk *chunk,
                           const struct mr_openai_delta *delta);
bool mr_openai_finish_chunk(struct mr_buffer *out, const struct mr_openai_chunk *chunk,
                            uint32_t choice, const char *finish_reason);
/* result: root of the result record. */
bool mr_openai_usage_chunk(struct mr_buffer *out, const struct mr_openai_chunk *chunk,
                           struct mr_value result);

/* Ends the writer's value and appends it as one event. name: NULL for an event without a name, as
 * all of chat completions. */
bool mr_openai_append_event(struct mr_buffer *out, const char *name, struct mr_json_writer *writer);

#endif
