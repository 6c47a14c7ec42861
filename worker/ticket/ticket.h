/* ticket - one consumed record on its way through the worker, from its arrival to the commit of its
 * offset. The engine gets the ticket's address as a 64-bit number and returns it with every token.
 *
 * Created and freed by intake. The fields in `intake` and `publish` each belong to one thread.
 * Other fields do not change once the engine has the request, except the atomic ones.
 * Memory: one block, which contains the headers to echo. Errors: MR_NOMEM. */
#ifndef MR_WORKER_TICKET_TICKET_H
#define MR_WORKER_TICKET_TICKET_H

#include "codec/limits.h"
#include "codec/records/request.h"
#include "worker/base/log.h"
#include "worker/base/mailbox.h"
#include "worker/kafka/kafka_record.h"
#include "worker/metrics/request_metrics.h"
#include "worker/ticket/ticket_intake.h"
#include "worker/trace/trace_context.h"

#include <stdatomic.h>

struct mr_write_gate;
struct mr_request_trace;
struct mr_trail;

#define MR_IDENTITY_BYTES ((size_t)16)

/* Digest of a request record. Two records of one tenant with one id are the same request exactly
 * when their digests are equal (worker/intake/identity.h computes it). */
struct mr_identity {
    unsigned char bytes[MR_IDENTITY_BYTES];
};

/* The headers of the request that every answer repeats unchanged. */
enum mr_echo {
    MR_ECHO_CORRELATION,
    MR_ECHO_TRACE_PARENT, /* W3C traceparent header, or else the CloudEvents header of that name */
    MR_ECHO_TRACE_STATE,
    MR_ECHO_BAGGAGE,
    MR_ECHOES
};

/* Where the answers to a record go, and what they repeat of its headers; all borrowed. */
struct mr_ticket_answer {
    const struct mr_kafka_header *echo; /* [echo_count], at most MR_ECHOES */
    size_t echo_count;
    struct mr_text reply_topic; /* empty: no reply was asked for, or the topic is not allowed */
    int32_t reply_partition;    /* -1: Kafka chooses the partition by the record's key */
};

/* The kinds of records that the worker writes for a request. */
enum mr_part {
    MR_PART_RESULT,
    MR_PART_REPLY,
    MR_PART_DEAD_LETTER,
    MR_PART_TOKENS, /* all token records of the request together */
    MR_PARTS
};

/* Delivery state of one record, or of all token records together. librdkafka's delivery report
 * carries the address of this struct as its opaque pointer. */
struct mr_ticket_part {
    struct mr_ticket *ticket;
    enum mr_part kind;
    bool pending; /* the record is to be written and is not acknowledged yet */
    /* not produced yet: the producer's queue is full, or the reply topic is being looked up */
    bool unsent;
    bool refused; /* the broker refused the record; the record is produced again after a pause */
    bool shrunk;  /* too large for the broker: produced without text, tokens and metadata */
    bool keyed;   /* for a dead letter: its topic wants a key, so the request id is the key */
    bool lost;    /* given up */
    bool topic_exists;        /* for a reply: the reply topic was looked up and exists */
    uint64_t trying_since_ns; /* when a reply was first tried, another part first refused; 0: not */
};

/* How far publish is with the terminal records (result, reply, dead letter) of a request. */
enum mr_terminal_phase {
    MR_TERMINAL_WAITING, /* waits for the token records, or for the partition's write gate */
    MR_TERMINAL_REPLY,   /* the reply and the dead letter are being written */
    MR_TERMINAL_RESULT   /* the result, which is the last record of a request, is being written */
};

/* The ticket's fields that the publish thread owns; with exactly-once delivery the transactions
 * thread owns them while it writes the terminal records. */
struct mr_ticket_publish {
    struct mr_ticket_part parts[MR_PARTS];
    struct mr_mail *terminal; /* the result or refusal, until its records are on the broker */
    enum mr_terminal_phase phase;
    /* unix ms when `terminal` arrived; every terminal record has a later timestamp */
    int64_t terminal_ms;
    uint32_t tokens_pending; /* token records produced whose delivery is not reported yet */
    uint64_t token_ns;       /* when the last token of choice 0 (the first completion) was made */
    uint32_t generated;      /* tokens generated when the last token record was produced */
    /* Counts of token records produced and acknowledged. The first `readable` tokens are on the
     * broker for certain. Once `mark_produced` records are acknowledged, the first `mark_generated`
     * tokens are. */
    uint32_t records_produced, records_acknowledged, mark_produced, mark_generated, readable;
    struct mr_message *messages[MR_CHOICES_MAX]; /* worker/publish/deltas.h */
    bool tokens_lost; /* a token record was lost, and the loss was logged */
    /* whether the ticket is in the list linked by unsent_next, refused_next, advance_next */
    bool unsent, refused, advancing;
    struct mr_ticket *unsent_next, *refused_next, *advance_next;
    struct mr_ticket *older, *newer; /* links in the list of tickets whose `terminal` is set */
};

struct mr_ticket {
    char id[MR_ID_BYTES_MAX + 1];
    uint32_t tenant_index;
    struct mr_identity identity; /* tells apart requests of one tenant with one id */
    const char *tenant, *topic;  /* names in the configuration; tenant NULL: the default one */
    size_t topic_index;
    int32_t partition;
    int64_t offset;
    uint32_t attempt;
    /* generation of the consumer group at the partition's assignment; -1: no group */
    int32_t generation;
    enum mr_encoding encoding;
    /* [echo_count] headers to repeat in the answer, copied from the request record */
    struct mr_kafka_header echo[MR_ECHOES];
    size_t echo_count;
    const char *reply_topic; /* NULL: no reply was asked for, or the topic is not allowed */
    int32_t reply_partition; /* -1: Kafka chooses the partition by the record's key */
    uint64_t arrival_ns;
    double waited_ms;    /* time the record spent in Kafka, by its timestamp; negative: unknown */
    atomic_bool dropped; /* publish may write no further record for this request */
    struct mr_write_gate *gate; /* write gate of the partition; NULL: publish may always write */
    uint64_t epoch; /* number of the partition's ownership in which the record was taken */
    /* The request's progress in Redis (worker/resume/resume.h), set before the request is
     * submitted; NULL: not kept in Redis. */
    struct mr_trail *trail;
    char trace_id[MR_TRACE_HEX_BYTES]; /* for log lines; "": none */
    /* notes for the request's spans (worker/ticket/ticket_trace.h); owned; NULL: not sampled */
    struct mr_request_trace *trace;
    /* of the request's tools, for publish (codec/tools/tool_types.h), since the engine may end the
     * request while its token records are written; owned; NULL: none. Set before the request is
     * submitted. */
    struct mr_tool_types *tool_types;
    uint32_t kept_count; /* number of tokens of earlier attempts that this attempt continues */
    uint32_t kept_shown; /* how many of the kept_count tokens are already in token records */
    struct mr_ticket_intake intake;
    struct mr_ticket_publish publish;
    /* how the record was answered: written by the thread that then has the ticket, counted by
     * intake when the ticket has returned */
    struct mr_request_end end;
    bool start_asked;              /* the engine has posted `starting`; engine thread */
    atomic_bool may_start;         /* set by intake: the start is durable, the first step may run */
    struct mr_mail starting, done; /* messages to intake, each posted at most once */
};

/* The ticket whose field `member` (starting or done) is the message `mail`. */
#define MR_TICKET_OF(mail, member)                                                                 \
    ((struct mr_ticket *)(void *)((char *)(mail)-offsetof(struct mr_ticket, member)))

/* Creates the ticket with copies of the headers to echo and of the reply topic. */
enum mr_status mr_ticket_create(struct mr_ticket **out, const struct mr_kafka_record *record,
                                const struct mr_ticket_answer *answer, struct mr_error *err);
/* Frees the ticket, with the request and the messages that the ticket still owns, but not the
 * tickets in `followers`. ticket may be NULL. */
void mr_ticket_destroy(struct mr_ticket *ticket);

struct mr_text mr_ticket_id(const struct mr_ticket *ticket);
/* The topic, partition, offset, request id and trace id for a log line. */
struct mr_log_place mr_ticket_log_place(const struct mr_ticket *ticket);

#endif
