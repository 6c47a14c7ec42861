/* lookups - reads a request's list in Redis (worker/resume/resume.h) before the request is
 * submitted: its earlier starts, the crashes of workers that ran it, and its tokens so far.
 *
 * A request waits at most MR_LOOKUP_WAIT_NS for the answer and then runs as if the list were empty.
 * While such a late answer is outstanding, other new requests run without a lookup. A request that
 * was started before, according to the commit of its partition, waits as long as the lookup takes,
 * because it may have crashed too many workers or have many tokens. The answer is combined with the
 * commit's metadata: the higher number of attempts counts, and a release that only Redis has is not
 * counted as a crash.
 *
 * Owner:  intake thread. Memory: copies of the records of waiting requests, at most
 *         MR_LOOKUP_BYTES_MAX and one record more. Errors: none; a failed lookup is treated as an
 *         empty answer. */
#ifndef MR_WORKER_INTAKE_LOOKUPS_H
#define MR_WORKER_INTAKE_LOOKUPS_H

#include "worker/config/config.h"
#include "worker/kafka/kafka_record.h"
#include "worker/resume/resume.h"

/* No further record is taken while the copied records take this many bytes. */
#define MR_LOOKUP_BYTES_MAX ((size_t)16 << 20)
#define MR_LOOKUP_WAIT_NS   ((uint64_t)30000000)

struct mr_lookups {
    struct mr_resume *resume; /* borrowed; NULL: no Redis */
    const struct mr_config *config;
    struct mr_metrics *metrics;
    size_t bytes;    /* size of the copied records of waiting tickets */
    uint64_t due_ns; /* no waiting ticket reaches its time limit before this time */
    uint64_t
        redelivered; /* number of requests with earlier attempts that were recorded only in Redis */
};

/* Starts the lookup and sets ticket->intake.lookup if the ticket has to wait for the answer. The
 * request's prompt must be encoded. */
void mr_lookups_start(struct mr_lookups *lookups, struct mr_ticket *ticket,
                      const struct mr_kafka_record *record, uint64_t now_ns);
/* Applies an answer to its ticket and frees the answer. True: a ticket was waiting for it. */
bool mr_lookups_finish(struct mr_lookups *lookups, struct mr_found_mail *found);
/* Ends the ticket's wait for an answer, because the ticket ends or is refused. */
void mr_lookups_stop(struct mr_lookups *lookups, struct mr_ticket *ticket);
/* Ends the wait of each ticket in the list `parked` whose time limit has passed; true: there were
 * any. */
bool mr_lookups_expire(struct mr_lookups *lookups, struct mr_ticket *parked, uint64_t now_ns);
/* Stops further answers and frees those in the mailbox, which must contain no other messages. */
void mr_lookups_close(struct mr_lookups *lookups, struct mr_mailbox *mailbox);

#endif
