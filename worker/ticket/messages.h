/* messages - the messages between the engine, intake and publish.
 *
 * Each message is one block of memory with a deep copy of its contents; only the ticket is shared.
 *
 * Threads: created by the sender, freed by the receiver. Errors: NULL when memory is out. */
#ifndef MR_WORKER_TICKET_MESSAGES_H
#define MR_WORKER_TICKET_MESSAGES_H

#include "codec/records/request.h"
#include "codec/records/result.h"
#include "ops/sampling/sample.h"
#include "worker/base/mailbox.h"
#include "worker/kafka/kafka_record.h"

struct mr_ticket;

enum mr_mail_kind {
    /* To publish. */
    MR_MAIL_DRAWN,  /* struct mr_drawn_mail: one token, to store in Redis before its token record */
    MR_MAIL_TOKENS, /* struct mr_tokens_mail: one token record */
    MR_MAIL_RESULT, /* struct mr_result_mail: the engine has finished the request */
    MR_MAIL_REFUSAL, /* struct mr_refusal_mail: intake answers a record without the engine */
    /* To intake. */
    MR_MAIL_FOUND,    /* struct mr_found_mail (worker/redis/resume.h): the answer to a lookup */
    MR_MAIL_STARTED,  /* ticket->started: the engine computes the request now */
    MR_MAIL_RETURNED, /* ticket->done: the request never started and is the ticket's again */
    MR_MAIL_READY,    /* ticket->done, exactly-once: the token records are acknowledged, the
                         terminal records are to be written in a transaction */
    MR_MAIL_DONE      /* ticket->done: its terminal records are acknowledged, or it was dropped */
};

/* A generated token, stored in Redis before it is published. */
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
    uint64_t made_ns; /* when the engine made it */
};

struct mr_result_mail {
    struct mr_mail mail;
    struct mr_ticket *ticket;
    struct mr_request *request; /* owned */
    struct mr_result result;
    uint64_t made_ns;
};

/* The answer to a record that the engine does not get. */
struct mr_refusal_mail {
    struct mr_mail mail;
    struct mr_ticket *ticket;
    enum mr_finish finish; /* rejected, deadline, cancelled */
    struct mr_error error;
    bool write_result, dead_letter;
    struct mr_text metadata;       /* echoed, in the ticket's encoding */
    struct mr_kafka_record record; /* as consumed, if dead_letter */
};

struct mr_drawn_mail *mr_drawn_mail_create(struct mr_ticket *ticket, uint32_t index,
                                           const struct mr_sample *sample);
struct mr_tokens_mail *mr_tokens_mail_create(struct mr_ticket *ticket,
                                             const struct mr_token_record *record, uint64_t now_ns);
/* Takes request only when it succeeds. */
struct mr_result_mail *mr_result_mail_create(struct mr_ticket *ticket, struct mr_request *request,
                                             const struct mr_result *result, uint64_t now_ns);
/* record: NULL when there is nothing to dead-letter. */
struct mr_refusal_mail *mr_refusal_mail_create(struct mr_ticket *ticket,
                                               const struct mr_kafka_record *record,
                                               struct mr_text metadata);
/* For the kinds to publish. mail may be NULL. */
void mr_mail_free(struct mr_mail *mail);

#endif
