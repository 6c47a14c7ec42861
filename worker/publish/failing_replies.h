/* failing_replies - with exactly-once delivery: reply partitions to which no reply is written,
 * because they do not accept replies while the broker accepts all results and dead letters.
 *
 * A reply that is not accepted aborts its transaction, so the results of all requests in it are
 * delayed. A place is a reply topic and partition; partition -1 is the whole topic. After a place
 * has made transactions fail for MR_FAILING_REPLY_NS, its replies are dropped for
 * MR_FAILING_HOLD_NS. Then the next transaction tries a reply there again; if that fails, the
 * replies of the place are dropped for another MR_FAILING_HOLD_NS. At most MR_FAILING_PAUSE_NS of
 * the time between two failures is counted, because either no transaction ran in it or other
 * records failed too.
 *
 * Owner: transactions thread. Pure: no clock, no I/O. Memory: the struct; above
 * MR_FAILING_PLACES_MAX places, the one that failed longest ago is removed. Errors: none. */
#ifndef MR_WORKER_PUBLISH_FAILING_REPLIES_H
#define MR_WORKER_PUBLISH_FAILING_REPLIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Longer than one transaction (at most 10 s), so that at least two have failed. */
#define MR_FAILING_REPLY_NS ((uint64_t)15000000000)
/* most time that counts between two failures */
#define MR_FAILING_PAUSE_NS ((uint64_t)1000000000)
/* time for which a failing place gets no reply */
#define MR_FAILING_HOLD_NS ((uint64_t)60000000000)
/* age at which a failure is forgotten */
#define MR_FAILING_FORGET_NS  ((uint64_t)300000000000)
#define MR_FAILING_PLACES_MAX 32u
#define MR_FAILING_TOPIC_MAX  250u /* bytes of the longest topic name with its NUL */

struct mr_failing_place {
    char topic[MR_FAILING_TOPIC_MAX];
    int32_t partition;
    uint64_t failed_ns; /* time for which transactions have failed in a row because of the place */
    uint64_t until_ns;  /* no reply is written before this time, or time of the last failure */
};

struct mr_failing_replies {
    struct mr_failing_place places[MR_FAILING_PLACES_MAX]; /* [count], in no order */
    size_t count;
};

/* Call for each reply that the place did not accept in a transaction that began at began_ns and was
 * aborted. True: drop the reply, and write none there for MR_FAILING_HOLD_NS. */
bool mr_failing_replies_add(struct mr_failing_replies *failing, const char *topic,
                            int32_t partition, uint64_t began_ns, uint64_t now_ns);
/* Whether replies to the place are dropped now. */
bool mr_failing_replies_has(const struct mr_failing_replies *failing, const char *topic,
                            int32_t partition, uint64_t now_ns);
/* Call when the place has accepted a reply, even if its transaction is aborted later. */
void mr_failing_replies_remove(struct mr_failing_replies *failing, const char *topic,
                               int32_t partition);

#endif
