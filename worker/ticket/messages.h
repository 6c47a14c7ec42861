/* mails - the messages between the threads: what the engine and intake send to publish, and back.
 *
 * Each is one block that holds a deep copy of what it says, so that nothing is shared but the
 * ticket. Threads: made by the sender, freed by the receiver. Errors: NULL when memory is out. */
#ifndef MR_WORKER_TICKET_MESSAGES_H
#define MR_WORKER_TICKET_MESSAGES_H

#include "codec/records/request.h"
#include "codec/records/result.h"
#include "ops/sampling/sample.h"
#include "worker/base/mailbox.h"
#include "worker/kafka/kafka_record.h"

struct mr_ticket;

enum mr_mail_kind {
    /* to publish */
    MR_MAIL_DRAWN,   /* struct mr_drawn_mail, before the tokens mail it leads to */
    MR_MAIL_TOKENS,  /* struct mr_tokens_mail */
    MR_MAIL_RESULT,  /* struct mr_result_mail */
    MR_MAIL_REFUSAL, /* struct mr_refusal_mail */
    /* to intake */
    MR_MAIL_FOUND,    /* struct mr_found_mail (worker/redis/resume.h) */
    MR_MAIL_STARTED,  /* ticket->started: the engine computes it now */
    MR_MAIL_RETURNED, /* ticket->done: it never started; the request is the ticket's again */
    MR_MAIL_READY,    /* ticket->done: its token records are on the broker, its ending is to be
                         written in a transaction */
    MR_MAIL_DONE      /* ticket->done: its records are on the broker, or it was dropped */
};

/* A token to be kept before it is published. */
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
    uint64_t made_ns;
};

struct mr_result_mail {
    struct mr_mail mail;
    struct mr_ticket *ticket;
    struct mr_request *request; /* owned */
    struct mr_result result;
    uint64_t made_ns;
};

/* A record that never reached the engine. */
struct mr_refusal_mail {
    struct mr_mail mail;
    struct mr_ticket *ticket;
    enum mr_finish finish; /* rejected, deadline, cancelled */
    struct mr_error error;
    bool write_result, dead_letter;
    struct mr_text metadata;       /* to echo, in the ticket's encoding */
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
