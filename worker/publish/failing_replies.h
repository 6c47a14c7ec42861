/* failing_replies - with exactly-once delivery: the reply partitions that do not take replies,
 * while the broker takes all results and dead letters.
 *
 * A transaction with such a reply is aborted, and the results of all its requests wait with it. So
 * a place (a reply topic and partition; partition -1 is the whole topic) that has made transactions
 * fail for MR_FAILING_REPLY_NS gets no reply for MR_FAILING_HOLD_NS: those replies are lost at
 * once. After that the next transaction tries a reply there again: if it fails too, its replies are
 * lost and there are none for as long again. What lies between two failures counts for a second at
 * most: nothing ran then, or other records failed too.
 *
 * Owner: the transactions thread. Pure: no clock, no I/O. Memory: of the struct; with more than
 * MR_FAILING_PLACES_MAX places the one that failed longest ago is forgotten. Errors: none. */
#ifndef MR_WORKER_PUBLISH_FAILING_REPLIES_H
#define MR_WORKER_PUBLISH_FAILING_REPLIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Longer than one transaction, which lasts 10 s at most: at least two have failed. */
#define MR_FAILING_REPLY_NS ((uint64_t)15000000000)
#define MR_FAILING_PAUSE_NS                                                                        \
    ((uint64_t)1000000000) /* a longer pause between two failures counts as this */
#define MR_FAILING_HOLD_NS    ((uint64_t)60000000000)  /* how long a place then gets no reply */
#define MR_FAILING_FORGET_NS  ((uint64_t)300000000000) /* a failure so long ago does not count */
#define MR_FAILING_PLACES_MAX 32u
#define MR_FAILING_TOPIC_MAX  250u /* bytes of the longest topic name with its NUL */

struct mr_failing_place {
    char topic[MR_FAILING_TOPIC_MAX];
    int32_t partition;
    uint64_t failed_ns; /* how long transactions have failed in a row because of the place */
    uint64_t until_ns;  /* no reply is written before; else when a transaction failed last */
};

struct mr_failing_replies {
    struct mr_failing_place places[MR_FAILING_PLACES_MAX]; /* [count], in no order */
    size_t count;
};

/* Call when a transaction that began at began_ns has failed because the place did not take a reply,
 * once for each such reply. True: give the reply up; no reply is to be written there for
 * MR_FAILING_HOLD_NS. */
bool mr_failing_replies_add(struct mr_failing_replies *failing, const char *topic,
                            int32_t partition, uint64_t began_ns, uint64_t now_ns);
/* Whether no reply is to be written there now. */
bool mr_failing_replies_has(const struct mr_failing_replies *failing, const char *topic,
                            int32_t partition, uint64_t now_ns);
/* Call when the place has taken a reply, even in a transaction that fails then. */
void mr_failing_replies_remove(struct mr_failing_replies *failing, const char *topic,
                               int32_t partition);

#endif
