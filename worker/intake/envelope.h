/* envelope - the headers of a consumed record, read once. No other code of intake reads headers.
 *
 * Of several headers with one name the last one counts. Headers to echo (to repeat in the answer)
 * may take at most MR_ENVELOPE_ECHO_BYTES_MAX together, names and values. Headers are accepted in
 * the order of enum mr_echo; a header that does not fit is left out and named in `oversized`, and
 * the record is then rejected (worker/intake/decode.h).
 *
 * A header that says something else than it should is named in `bad`, and the record is rejected
 * too. A header without a value counts as absent.
 *
 * Pure functions. Memory: texts point into the record. Errors: none. */
#ifndef MR_WORKER_INTAKE_ENVELOPE_H
#define MR_WORKER_INTAKE_ENVELOPE_H

#include "worker/ticket/ticket.h"

#define MR_ENVELOPE_ECHO_BYTES_MAX ((size_t)4096)

struct mr_envelope {
    struct mr_text content_type; /* empty: the record has no such header */
    int64_t deadline_ms;         /* unix ms; 0: no deadline */
    /* the topic the producer asks the reply in; empty: no reply wanted */
    struct mr_text reply_topic;
    bool reply_allowed; /* true when the operator's list of reply topics contains reply_topic */
    /* -1: Kafka chooses the partition by the record's key */
    int32_t reply_partition;
    bool is_event; /* the record is a CloudEvent in binary mode */
    /* id of the CloudEvent; empty: no id, or the record is no CloudEvent */
    struct mr_text event_id;
    struct mr_kafka_header echo[MR_ECHOES]; /* [echo_count] the headers to repeat in the answer */
    size_t echo_count;
    /* name of the first header to echo that is too large; NULL: every such header fits */
    const char *oversized;
    /* name of a header that cannot be read, and what its value should be; NULL: there is none */
    const char *bad, *wanted;
};

struct mr_text_list;

/* Reads the headers of the record. allowed: list of topics to which replies may go; an entry that
 * ends in `*` allows every topic with that prefix; NULL: no topic. */
void mr_envelope_read(struct mr_envelope *envelope, const struct mr_kafka_record *record,
                      const struct mr_text_list *allowed);
/* The tenant that a cancel record names in its header; bytes NULL: none. */
struct mr_text mr_envelope_tenant(const struct mr_kafka_record *record);

#endif
