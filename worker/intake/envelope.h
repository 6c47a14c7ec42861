/* envelope - the headers of a consumed record, as opposed to the request in its value
 * (worker/intake/decode.h). They are read once; nothing else in intake reads headers.
 *
 * If a name occurs several times, its last header counts. A header without a value is treated as
 * absent. Headers to echo (repeated in the answer) may take at most MR_ENVELOPE_ECHO_BYTES_MAX
 * together, names and values. They are accepted in the order of enum mr_echo. One that does not fit
 * is left out and named in `oversized`; one with an invalid value is named in `bad`. Either rejects
 * the record.
 *
 * Pure functions. Memory: texts point into the record. Errors: none. */
#ifndef MR_WORKER_INTAKE_ENVELOPE_H
#define MR_WORKER_INTAKE_ENVELOPE_H

#include "worker/ticket/ticket.h"

#define MR_ENVELOPE_ECHO_BYTES_MAX ((size_t)4096)

struct mr_envelope {
    struct mr_text content_type; /* empty: the record has no such header */
    int64_t deadline_ms;         /* unix ms; 0: no deadline */
    struct mr_text reply_topic;  /* empty: the producer wants no reply */
    bool reply_allowed;          /* --reply-topic allows reply_topic */
    int32_t reply_partition;     /* -1: Kafka chooses the partition by the record's key */
    bool reply_tokens;           /* token records are wanted in the reply topic */
    bool is_event;               /* the record is a CloudEvent in binary mode */
    struct mr_text event_id;     /* id of that CloudEvent; empty: none */
    struct mr_kafka_header echo[MR_ECHOES]; /* [echo_count] the headers to repeat in the answer */
    size_t echo_count;
    const char *oversized; /* name of a header to echo that does not fit; NULL: all fit */
    /* name of a header whose value is invalid, and the form of a valid value; NULL: none */
    const char *bad, *wanted;
};

struct mr_text_list;

/* Reads the headers of the record. allowed: the topics to which replies may go; an entry that ends
 * in
 * `*` allows every topic with that prefix. NULL: no topic. */
void mr_envelope_read(struct mr_envelope *envelope, const struct mr_kafka_record *record,
                      const struct mr_text_list *allowed);
/* The tenant in the header of a cancel record; bytes NULL: none. */
struct mr_text mr_envelope_tenant(const struct mr_kafka_record *record);

#endif
