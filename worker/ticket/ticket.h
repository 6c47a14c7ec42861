/* ticket - the worker's handle of one consumed record, from its arrival to the commit of its
 * offset. On the way the record becomes a request (codec/records/request.h), which the engine owns
 * while it runs as a sequence. The engine gets the ticket's address as a 64-bit number and returns
 * it with every token.
 *
 * Threads: intake creates and frees the ticket. `intake` belongs to intake (ticket_intake.h) and
 *          `publish` to publish (ticket_publish.h). Each other field is written by intake before
 *          the request is submitted and does not change after that, unless its comment says
 *          otherwise.
 * Memory:  one block, with the headers to echo. Errors: MR_NOMEM. */
#ifndef MR_WORKER_TICKET_TICKET_H
#define MR_WORKER_TICKET_TICKET_H

#include "codec/limits.h"
#include "codec/records/request.h"
#include "worker/base/log.h"
#include "worker/base/mailbox.h"
#include "worker/kafka/kafka_record.h"
#include "worker/metrics/request_metrics.h"
#include "worker/ticket/ticket_intake.h"
#include "worker/ticket/ticket_publish.h"
#include "worker/trace/trace_context.h"

#include <stdatomic.h>

struct mr_write_gate;
struct mr_request_trace;
struct mr_trail;

#define MR_IDENTITY_BYTES ((size_t)16)

struct mr_request_adapter; /* batching/sequence/submission.h */

/* Digest of a request record. Two records of one tenant with one id are the same request exactly
 * when their digests are equal (worker/intake/identity.h computes it). */
struct mr_identity {
    unsigned char bytes[MR_IDENTITY_BYTES];
};

/* The headers of the request that every answer repeats unchanged. */
enum mr_echo {
    MR_ECHO_CORRELATION,
    MR_ECHO_TRACE_PARENT, /* the W3C header traceparent; without it the CloudEvents one */
    MR_ECHO_TRACE_STATE,
    MR_ECHO_BAGGAGE,
    MR_ECHOES
};

/* The destination of the answers to a record, and the headers that they repeat; all borrowed. */
struct mr_ticket_answer {
    const struct mr_kafka_header *echo; /* [echo_count], at most MR_ECHOES */
    size_t echo_count;
    struct mr_text reply_topic; /* empty: the producer wants no reply, or it is not allowed */
    int32_t reply_partition;    /* -1: Kafka chooses the partition by the record's key */
    bool reply_tokens;          /* token records go to the reply topic; false without one */
};

struct mr_ticket {
    char id[MR_ID_BYTES_MAX + 1];
    uint32_t tenant_index;
    struct mr_identity identity;
    const char *tenant, *topic; /* borrowed from the configuration; tenant NULL: the default one */
    size_t topic_index;
    int32_t partition;
    int64_t offset;
    uint32_t attempt;
    int32_t generation; /* consumer-group generation of the partition's assignment; -1: no group */
    enum mr_encoding encoding;
    /* [echo_count] headers to repeat in the answer, copied from the request record */
    struct mr_kafka_header echo[MR_ECHOES];
    size_t echo_count;
    const char *reply_topic; /* NULL: the producer wants no reply, or the topic is not allowed */
    int32_t reply_partition; /* -1: Kafka chooses the partition by the record's key */
    bool reply_tokens;       /* token records go to the reply topic, not to the tokens topic */
    uint64_t arrival_ns;
    double waited_ms; /* time from the record's timestamp to its arrival; negative: unknown */
    atomic_bool
        dropped; /* no further record is written for this request; set by intake or publish */
    struct mr_write_gate *gate; /* write gate of the partition; NULL: publish may always write */
    uint64_t epoch;         /* number of the partition's ownership in which the record was taken */
    struct mr_trail *trail; /* the request's list in Redis (worker/resume/resume.h); NULL: none */
    char trace_id[MR_TRACE_HEX_BYTES]; /* for log lines; "": none */
    /* times of the request's spans; each thread writes its own (worker/ticket/ticket_trace.h);
     * owned; NULL: not sampled */
    struct mr_request_trace *trace;
    /* parameter types of the request's tools (codec/tools/tool_types.h), for publish: the engine
     * may free the request before its token records are written; owned; NULL: no tools */
    struct mr_tool_types *tool_types;
    const struct mr_request_adapter *adapter; /* of worker/adapters/adapters.h; NULL: none */
    const char *model;   /* the adapter's name, for the answers; NULL: the worker's model */
    uint32_t kept_count; /* number of tokens of earlier attempts that this attempt continues */
    uint32_t kept_shown; /* how many of these are already in token records */
    struct mr_ticket_intake intake;
    struct mr_ticket_publish publish;
    /* how the record was answered, for the metrics; written by intake for duplicates, else by the
     * thread that writes the terminal records, before the ticket returns to intake */
    struct mr_request_end end;
    bool start_asked;      /* the engine thread has posted `starting` */
    atomic_bool may_start; /* set by intake: the start is durable, the first step may run */
    /* messages to intake: `starting` is posted at most once, `done` each time that the ticket
     * leaves intake */
    struct mr_mail starting, done;
};

/* The ticket that contains the message `mail` as its field `member` (starting or done). */
#define MR_TICKET_OF(mail, member)                                                                 \
    ((struct mr_ticket *)(void *)((char *)(mail)-offsetof(struct mr_ticket, member)))

/* Creates the ticket with copies of the headers to echo and of the reply topic. */
enum mr_status mr_ticket_create(struct mr_ticket **out, const struct mr_kafka_record *record,
                                const struct mr_ticket_answer *answer, struct mr_error *err);
/* Frees the ticket and the memory that it still owns, but not the tickets in `followers`. ticket
 * may be NULL. */
void mr_ticket_destroy(struct mr_ticket *ticket);

struct mr_text mr_ticket_id(const struct mr_ticket *ticket);
/* Topic, partition, offset, request id and trace id as fields of a log line. */
struct mr_log_place mr_ticket_log_place(const struct mr_ticket *ticket);

#endif
