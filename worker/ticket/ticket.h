/* ticket - one consumed record on its way through the worker, from its arrival to the commit of its
 * offset. The engine gets the ticket's address as a 64-bit number and returns it with every token.
 *
 * Created and freed by intake. Each part has one owner. The fields outside the parts do not change
 * after the submission to the engine, except the atomic one.
 *
 * Memory: one block, headers to echo included. Errors: MR_NOMEM. */
#ifndef MR_WORKER_TICKET_TICKET_H
#define MR_WORKER_TICKET_TICKET_H

#include "codec/limits.h"
#include "codec/records/request.h"
#include "worker/base/log.h"
#include "worker/base/mailbox.h"
#include "worker/ticket/envelope.h"

#include <stdatomic.h>

struct mr_partition;
struct mr_write_gate;
struct mr_ticket;
struct mr_trail;
struct mr_found_mail;
struct mr_refusal_mail;

/* What a record is to its ticket. */
enum mr_part {
    MR_PART_RESULT,
    MR_PART_REPLY,
    MR_PART_DEAD_LETTER,
    MR_PART_TOKENS, /* all token records of the ticket together */
    MR_PARTS
};

/* One record, or all token records together, on the way to the broker. Its address is the opaque of
 * the record's delivery report. */
struct mr_ticket_part {
    struct mr_ticket *ticket;
    enum mr_part kind;
    bool pending;      /* to be written, and not acknowledged yet */
    bool unsent;       /* not produced yet: no room, or the reply topic is being looked up */
    bool refused;      /* the broker refused it; produced again after a pause */
    bool shrunk;       /* produced without its bulk */
    bool topic_exists; /* of a reply: its topic was looked up */
};

/* How far publish is with the terminal records of a ticket. */
enum mr_terminal_phase {
    MR_TERMINAL_WAITING, /* for its token records, or for the partition's gate */
    MR_TERMINAL_REPLY,   /* reply and dead letter are being written */
    MR_TERMINAL_RESULT   /* the result is being written, the last record of all */
};

/* Intake's part: no other thread reads or writes it. */
struct mr_ticket_intake {
    struct mr_partition *partition;
    struct mr_ticket *next;       /* in one bucket of the table, or in a list */
    struct mr_ticket *followers;  /* records with the same id, answered by this one's result */
    struct mr_ticket *ready_next; /* exactly-once: the list of ready tickets, or of a transaction */
    struct mr_request *request;   /* until the engine takes it */
    uint64_t deadline_ns;
    uint64_t start_by_ns; /* its topic's limit on waiting; 0: none */
    int32_t priority;
    uint8_t crashes;
    bool submitted, running;
    bool draining;                   /* ran when the revocation of its partition began */
    struct mr_found_mail *lookup;    /* in Redis, without an answer yet */
    uint64_t lookup_until_ns;        /* then intake stops waiting for the answer */
    struct mr_sample *kept;          /* [kept_count], until it is submitted */
    struct mr_refusal_mail *refusal; /* with the record, in case the answer makes it poison */
};

/* Publish's; with exactly-once delivery the transactions thread's while it writes the terminal
 * records. */
struct mr_ticket_publish {
    struct mr_ticket_part parts[MR_PARTS];
    struct mr_mail *terminal; /* the result or refusal, kept until its records are on the broker */
    enum mr_terminal_phase phase;
    int64_t terminal_ms;     /* unix; every terminal record is later */
    uint32_t tokens_pending; /* token records without a report */
    uint64_t token_ns;       /* when the last token of choice 0 was made */
    uint32_t generated;      /* tokens generated when the last record was produced */
    /* Token records produced and acknowledged. Tokens up to `readable` are on the broker; more are
     * when `mark_produced` records are acknowledged: then the first `mark_generated` tokens. */
    uint32_t records_produced, records_acknowledged, mark_produced, mark_generated, readable;
    bool tokens_lost;                /* a token record was lost, and that was logged */
    bool unsent, refused, advancing; /* it is in the list that is linked by: */
    struct mr_ticket *unsent_next, *refused_next, *advance_next;
    struct mr_ticket *older, *newer; /* the list of tickets with a terminal message */
};

struct mr_ticket {
    char id[MR_ID_BYTES_MAX + 1];
    const char *topic; /* the configuration's */
    size_t topic_index;
    int32_t partition;
    int64_t offset;
    uint32_t attempt;
    int32_t generation; /* of the group, in which the partition came; -1: no group */
    enum mr_encoding encoding;
    struct mr_kafka_header echo[MR_ECHOES]; /* [echo_count], copied from the envelope */
    size_t echo_count;
    const char *reply_topic; /* NULL: none asked for, or not allowed */
    int32_t reply_partition; /* -1: chosen by the key */
    uint64_t arrival_ns;
    double waited_ms;           /* in Kafka, by the record's timestamp; negative: unknown */
    atomic_bool dropped;        /* publish may write no further record for it */
    struct mr_write_gate *gate; /* of its partition; NULL: always open */
    uint64_t epoch;             /* of the partition's ownership in which it was taken */
    /* Its record in Redis (worker/redis/resume.h), set before it is submitted; NULL: none. */
    struct mr_trail *trail;
    uint32_t kept_count; /* tokens of earlier attempts that this one continues */
    uint32_t kept_shown; /* of these, published */

    struct mr_ticket_intake intake;
    struct mr_ticket_publish publish;
    struct mr_mail started, done; /* messages to intake, each posted once */
};

/* The ticket that one of its two messages belongs to. */
#define MR_TICKET_OF(mail, member)                                                                 \
    ((struct mr_ticket *)(void *)((char *)(mail)-offsetof(struct mr_ticket, member)))

/* Copies from the envelope the headers to echo and where to reply. */
enum mr_status mr_ticket_create(struct mr_ticket **out, const struct mr_kafka_record *record,
                                const struct mr_envelope *envelope, struct mr_error *err);
/* Frees the request and the messages that the ticket still owns, not its followers. ticket may be
 * NULL. */
void mr_ticket_destroy(struct mr_ticket *ticket);

/* The request's id. */
struct mr_text mr_ticket_id(const struct mr_ticket *ticket);
/* The request in a log line. */
struct mr_log_place mr_ticket_log_place(const struct mr_ticket *ticket);

#endif
