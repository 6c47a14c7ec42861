/* deltas - the content, reasoning and tool calls of token records (codec/records/message.h).
 *
 * The first token record of a choice that is split creates the choice's message in its ticket. A
 * resumed request's message first reads the text that earlier attempts have written, without
 * putting it out again.
 *
 * Owner:  publish's thread. Memory: the messages, freed with the ticket. Errors: those of
 *         mr_message_push; the same mail may be tried again. */
#ifndef MR_WORKER_PUBLISH_DELTAS_H
#define MR_WORKER_PUBLISH_DELTAS_H

#include "worker/ticket/messages.h"

/* Fills mail->record.message, once; it is valid until the next mail of the choice. */
enum mr_status mr_deltas_fill(struct mr_tokens_mail *mail, struct mr_error *err);
/* True when the record would tell nothing. */
bool mr_deltas_is_void(const struct mr_token_record *record);

#endif
