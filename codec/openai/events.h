/* events - writes the events of a streamed Response (/v1/responses).
 *
 * The order is: created, in_progress; for each item output_item.added, its deltas and its done
 * events, output_item.done; at last completed, incomplete or failed. One item is open at a time:
 * the reasoning, the message or a call. The ids of items are those of the Response at the end
 * (codec/openai/response.h).
 *
 * Owner:  the caller, one thread at a time. Memory: the buffer's; texts are borrowed.
 * Errors: false when the buffer is full or memory is out. */
#ifndef MR_CODEC_OPENAI_EVENTS_H
#define MR_CODEC_OPENAI_EVENTS_H

#include "codec/openai/chunk.h"
#include "codec/openai/response.h"

enum mr_openai_item { MR_OPENAI_NO_ITEM, MR_OPENAI_REASONING, MR_OPENAI_MESSAGE, MR_OPENAI_CALL };

struct mr_openai_events {
    struct mr_text id;               /* of the request */
    uint32_t sequence;               /* sequence_number of the next event */
    uint32_t items;                  /* items that were opened */
    enum mr_openai_item open;        /* the open item */
    struct mr_openai_call_part call; /* if it is a call: its index, id and name */
};

/* Writes created and in_progress. answer: unfinished. */
bool mr_openai_events_begin(struct mr_openai_events *events, struct mr_buffer *out,
                            const struct mr_openai_answer *answer);
/* Opens an item. No item is open. call: for MR_OPENAI_CALL; its texts must live until the item is
 * closed. */
bool mr_openai_events_open(struct mr_openai_events *events, struct mr_buffer *out,
                           enum mr_openai_item item, const struct mr_openai_call_part *call);
/* Writes a part of the open item. logprobs: of its tokens; NULL: none. */
bool mr_openai_events_delta(struct mr_openai_events *events, struct mr_buffer *out,
                            struct mr_text text, const struct mr_value *logprobs);
/* Closes the open item; without one nothing is written. whole: its whole text or arguments. */
bool mr_openai_events_close(struct mr_openai_events *events, struct mr_buffer *out,
                            struct mr_text whole, bool complete);
/* Writes the last event: completed, incomplete or, with answer->error, failed. */
bool mr_openai_events_end(struct mr_openai_events *events, struct mr_buffer *out,
                          const struct mr_openai_answer *answer);

#endif
