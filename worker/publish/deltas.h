/* deltas - splits the text of token records into content, reasoning and tool calls
 * (codec/records/message.h).
 *
 * The first token record of a choice creates the choice's message in the ticket. For a resumed
 * request the message first reads the text that earlier attempts have written, which is not written
 * again.
 *
 * Owner:  publish thread. Memory: the messages, freed with the ticket. Errors: those of
 *         mr_message_push; the call may be repeated with the same mail. */
#ifndef MR_WORKER_PUBLISH_DELTAS_H
#define MR_WORKER_PUBLISH_DELTAS_H

#include "worker/ticket/messages.h"

/* Fills mail->record.message, at the first call only. It is valid until the choice's next mail. */
enum mr_status mr_deltas_fill(struct mr_tokens_mail *mail, struct mr_error *err);
/* True when the record contains nothing that a reader could use. */
bool mr_deltas_is_void(const struct mr_token_record *record);

#endif
