#include "worker/publish/deltas.h"

#include "codec/check.h"
#include "worker/ticket/ticket.h"

/* Creates the message of a choice and lets it read the text before the record. */
static enum mr_status open_message(struct mr_message **out, const struct mr_tokens_mail *mail,
                                   struct mr_error *err)
{
    struct mr_message *message;
    struct mr_message_delta written;
    struct mr_message_rules rules = mail->rules;
    *out = NULL;
    rules.types = mail->ticket->tool_types;
    enum mr_status status = mr_message_create(&message, &rules, err);
    if (status == MR_OK && mail->record.before.length > 0)
        status = mr_message_push(message, mail->record.before, false, &written, err);
    if (status == MR_OK)
        *out = message;
    else
        mr_message_destroy(message);
    return status;
}

enum mr_status mr_deltas_fill(struct mr_tokens_mail *mail, struct mr_error *err)
{
    struct mr_token_record *record = &mail->record;
    enum mr_status status = MR_OK;
    if (!mail->rules.is_split || mail->filled) return MR_OK;
    MR_ASSERT(record->choice < MR_CHOICES_MAX);
    struct mr_message **message = &mail->ticket->publish.messages[record->choice];
    if (!*message) status = open_message(message, mail, err);
    if (status == MR_OK)
        status = mr_message_push(*message, record->text, record->ended, &record->message, err);
    mail->filled = status == MR_OK;
    return status;
}

bool mr_deltas_is_void(const struct mr_token_record *record)
{
    const struct mr_message_delta *message = &record->message;
    return record->token_count == 0 && record->text.length == 0 && record->resumed_at < 0 &&
           message->content.length == 0 && message->reasoning.length == 0 &&
           message->call_count == 0;
}
