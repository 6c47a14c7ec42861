/* lookups - what Redis knows of a request (worker/resume/resume.h), looked up before the request is
 * submitted: how often it was started, how many workers crashed while it ran, and its tokens so
 * far.
 *
 * A request waits for Redis' answer at most MR_LOOKUP_WAIT_NS; after that the request runs as if
 * Redis knew nothing. While that late answer is outstanding, other new requests run without waiting
 * for lookups of their own. A request that was started before, according to the commit of its
 * partition, waits as long as the lookup takes: it may have crashed too many workers, or have many
 * tokens already. The answer is combined with the commit's metadata: of the two, the one with more
 * attempts is right about attempts; a release that only Redis knows is no crash.
 *
 * Owner:  intake thread. Memory: copies of the records of waiting requests, MR_LOOKUP_BYTES_MAX and
 *         at most one record more. Errors: none; a lookup that fails counts as an empty answer. */
#ifndef MR_WORKER_INTAKE_LOOKUPS_H
#define MR_WORKER_INTAKE_LOOKUPS_H

#include "worker/config/config.h"
#include "worker/kafka/kafka_record.h"
#include "worker/resume/resume.h"

/* with this many bytes of copied records, no further record is taken */
#define MR_LOOKUP_BYTES_MAX ((size_t)16 << 20)
#define MR_LOOKUP_WAIT_NS   ((uint64_t)30000000)

struct mr_lookups {
    struct mr_resume *resume; /* borrowed; NULL: without Redis */
    const struct mr_config *config;
    struct mr_metrics *metrics;
    size_t bytes; /* bytes of the copied records of waiting tickets */
    /* no waiting ticket reaches its time limit before this time */
    uint64_t due_ns;
    uint64_t redelivered; /* number of requests whose earlier attempts only Redis knew */
};

/* Starts the lookup. Sets ticket->intake.lookup when the ticket has to wait for an answer. The
 * request's prompt must be encoded. */
void mr_lookups_start(struct mr_lookups *lookups, struct mr_ticket *ticket,
                      const struct mr_kafka_record *record, uint64_t now_ns);
/* Applies an answer of Redis to the ticket of the lookup, and frees the answer. True: the ticket
 * waited for the answer. */
bool mr_lookups_finish(struct mr_lookups *lookups, struct mr_found_mail *found);
/* Ends the ticket's wait for an answer, because the ticket ends or is refused. */
void mr_lookups_stop(struct mr_lookups *lookups, struct mr_ticket *ticket);
/* Ends the wait of each ticket of the list `parked` that has waited too long for an answer; true if
 * there were any. */
bool mr_lookups_expire(struct mr_lookups *lookups, struct mr_ticket *parked, uint64_t now_ns);
/* Abandons all lookups and frees the answers in the mailbox, which must contain no other
 * messages. */
void mr_lookups_close(struct mr_lookups *lookups, struct mr_mailbox *mailbox);

#endif
