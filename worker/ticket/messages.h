/* messages - the messages between the engine, intake and publish.
 *
 * A message is one block of memory with a deep copy of its contents. Sender and receiver share only
 * the ticket.
 *
 * Threads: the sender creates a message, the receiver frees it. Errors: NULL when memory is out. */
#ifndef MR_WORKER_TICKET_MESSAGES_H
#define MR_WORKER_TICKET_MESSAGES_H

#include "codec/records/message.h"
#include "codec/records/request.h"
#include "codec/records/result.h"
#include "ops/sampling/sample.h"
#include "worker/base/mailbox.h"
#include "worker/kafka/kafka_record.h"

struct mr_ticket;

enum mr_mail_kind {
    /* Kinds of messages to publish: */
    MR_MAIL_DRAWN,   /* struct mr_drawn_mail: one token; publish sends it to Redis */
    MR_MAIL_TOKENS,  /* struct mr_tokens_mail: one token record */
    MR_MAIL_RESULT,  /* struct mr_result_mail: the engine has finished the request */
    MR_MAIL_REFUSAL, /* struct mr_refusal_mail: intake answers a record without the engine */
    /* Kinds of messages to intake: */
    /* struct mr_found_mail (worker/resume/resume.h): the request's list in Redis */
    MR_MAIL_FOUND,
    /* struct mr_found_mail: whether Redis has stored the start of a request */
    MR_MAIL_NOTED,
    /* ticket->starting: the engine is about to run the request's first step and waits until the
     * start is durable (ticket->may_start) */
    MR_MAIL_STARTING,
    MR_MAIL_RETURNED, /* ticket->done: the engine returns the request unstarted */
    /* ticket->done, with exactly-once delivery: the token records are acknowledged; the terminal
     * records are to be written in a transaction */
    MR_MAIL_READY,
    MR_MAIL_DONE /* ticket->done: the terminal records are acknowledged, or the ticket was dropped
                  */
};

/* A generated token. Publish sends it to Redis before it produces the token record. */
struct mr_drawn_mail {
    struct mr_mail mail;
    struct mr_ticket *ticket;
    uint32_t index;
    struct mr_sample sample;
};

struct mr_tokens_mail {
    struct mr_mail mail;
    struct mr_ticket *ticket;
    struct mr_token_record record;
    struct mr_message_rules rules; /* set by the sender; zero: the text is not split */
    bool filled;                   /* publish has filled record.message */
    uint64_t made_ns;              /* time of the engine step that generated the tokens */
};

struct mr_result_mail {
    struct mr_mail mail;
    struct mr_ticket *ticket;
    struct mr_request *request; /* owned by this message */
    struct mr_result result;
    uint64_t made_ns;
};

/* An error answer to a record that the engine does not get. */
struct mr_refusal_mail {
    struct mr_mail mail;
    struct mr_ticket *ticket;
    enum mr_finish finish; /* rejected, deadline passed or cancelled */
    struct mr_error error;
    bool write_result, dead_letter;
    /* the request's metadata, which the answer repeats, in the ticket's encoding */
    struct mr_text metadata;
    struct mr_kafka_record record; /* copy of the consumed record, filled if dead_letter */
};

struct mr_drawn_mail *mr_drawn_mail_create(struct mr_ticket *ticket, uint32_t index,
                                           const struct mr_sample *sample);
struct mr_tokens_mail *mr_tokens_mail_create(struct mr_ticket *ticket,
                                             const struct mr_token_record *record, uint64_t now_ns);
/* Takes ownership of the request; when NULL is returned the caller keeps it. */
struct mr_result_mail *mr_result_mail_create(struct mr_ticket *ticket, struct mr_request *request,
                                             const struct mr_result *result, uint64_t now_ns);
/* record: the consumed record, copied for the dead-letter topic; NULL: no dead letter. */
struct mr_refusal_mail *mr_refusal_mail_create(struct mr_ticket *ticket,
                                               const struct mr_kafka_record *record,
                                               struct mr_text metadata);
/* Frees a message of one of the kinds to publish. mail may be NULL. */
void mr_mail_free(struct mr_mail *mail);

#endif
