/* envelope - the headers of a consumed record, read once. No other code of intake looks at them.
 *
 * Of several headers with one name the last one counts. The headers to echo are bounded: together,
 * names and values, they take at most MR_ENVELOPE_ECHO_BYTES_MAX. They are accepted in the order of
 * enum mr_echo; one that does not fit is left out and named in `oversized`, and the record is then
 * rejected (worker/ticket/decode.h).
 *
 * Pure. Memory: texts point into the record. Errors: none; a header that cannot be read counts as
 * absent. */
#ifndef MR_WORKER_TICKET_ENVELOPE_H
#define MR_WORKER_TICKET_ENVELOPE_H

#include "worker/kafka/kafka_record.h"

#define MR_ENVELOPE_ECHO_BYTES_MAX ((size_t)4096)

/* Headers that every answer carries unchanged. */
enum mr_echo {
    MR_ECHO_CORRELATION,
    MR_ECHO_TRACE_PARENT, /* W3C's header, else CloudEvents' */
    MR_ECHO_TRACE_STATE,
    MR_ECHO_BAGGAGE,
    MR_ECHOES
};

struct mr_envelope {
    struct mr_text content_type;            /* empty: none */
    int64_t deadline_ms;                    /* unix; 0: none */
    struct mr_text reply_topic;             /* as asked for; empty: none */
    bool reply_allowed;                     /* the operator's list contains reply_topic */
    int32_t reply_partition;                /* -1: chosen by the key */
    bool is_event;                          /* a CloudEvent in binary mode */
    struct mr_text event_id;                /* empty: none, or no event */
    struct mr_kafka_header echo[MR_ECHOES]; /* [echo_count] */
    size_t echo_count;
    const char *oversized; /* NULL: every header to echo fits */
};

struct mr_text_list;

/* allowed: topics that replies may go to, an entry that ends in `*` allows a prefix; NULL: none. */
void mr_envelope_read(struct mr_envelope *envelope, const struct mr_kafka_record *record,
                      const struct mr_text_list *allowed);

#endif
