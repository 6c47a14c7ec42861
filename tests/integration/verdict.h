/* verdict - decides from what lies in the topics whether a fleet kept its promises (SPEC I1 to I3,
 * I8 and the gapless-token rule). Pure: no Kafka, no clock; checker.c feeds it, and test_verdict.c
 * plants every violation it must see.
 *
 * Feed each topic in log order, in any order of topics; then judge once. Times are the broker's, in
 * unix ms; 0 where there is none.
 *   - lost_result: a request record without a result, and not dead-lettered (I1, I8).
 *   - second_result: more than one result of an id, where `single` is asked for; one that asks
 *     differently (another attempt's text may differ) is still only one too many.
 *   - unequal_results: two results of one attempt that do not say the same (I1).
 *   - late_result: a result of a lower attempt behind one of a higher (I1).
 *   - unasked: a result, token record or dead letter that belongs to no request.
 *   - gap: an index is missing in the token records of an attempt, or behind the last one (I2).
 *   - unequal_tokens: two token records of one attempt differ, or records and result do (I2).
 *   - unequal_text: the texts of the token records joined are not the result's (CONTRACT 4).
 *   - unwanted_tokens: token records of a request that asked for none.
 *   - early_commit: an offset or a bit of the metadata was committed before its record had a
 *     durable end (I3).
 *   - unreadable_commit: metadata that is not millrace's.
 *   - broken_record: a record of ours that cannot be decoded.
 *
 * Memory: everything fed is copied, until _destroy. Out of memory ends the program. */
#ifndef MR_TESTS_VERDICT_H
#define MR_TESTS_VERDICT_H

#include "codec/records/result.h"

/* clang-format off */
#define VERDICT_LIST(X) \
    X(LOST_RESULT, "lost_result") \
    X(SECOND_RESULT, "second_result") \
    X(UNEQUAL_RESULTS, "unequal_results") \
    X(LATE_RESULT, "late_result") \
    X(UNASKED, "unasked") \
    X(GAP, "gap") \
    X(UNEQUAL_TOKENS, "unequal_tokens") \
    X(UNEQUAL_TEXT, "unequal_text") \
    X(UNWANTED_TOKENS, "unwanted_tokens") \
    X(EARLY_COMMIT, "early_commit") \
    X(UNREADABLE_COMMIT, "unreadable_commit") \
    X(BROKEN_RECORD, "broken_record")
/* clang-format on */

enum verdict_kind {
#define X(name, text) VERDICT_##name,
    VERDICT_LIST(X)
#undef X
        VERDICT_COUNT
};
const char *verdict_text(enum verdict_kind kind);

#define VERDICT_RESULTS_SHOWN ((size_t)8)

struct verdict_figures {
    uint32_t violations[VERDICT_COUNT];
    uint32_t violation_count;
    uint32_t requests, ids; /* records, and different ids in them */
    uint32_t results, answered, dead_letters;
    uint32_t results_per_id[VERDICT_RESULTS_SHOWN]; /* [i]: ids with i results; the last: or more */
    uint32_t duplicates;                            /* results beyond the first of each id */
    uint32_t repeated_ids; /* ids with more: finished requests that ran again, or were sent twice */
    uint32_t same_attempt; /* duplicates of the attempt of an earlier result */
    uint32_t later_attempt; /* ids answered by an attempt above 1 */
    uint32_t refused;       /* ids whose result is no answer: rejected, error, deadline ... */
    uint32_t token_records, tokens, tokens_again; /* again: positions published more than once */
    uint32_t late_token_records;                  /* of an attempt below one that has begun */
    uint32_t commits, forgetful_commits; /* forgetful: an offset finished before is not any more */
    int64_t stall_ms;                    /* longest time without a first result while one was due */
    int64_t span_ms;                     /* from the first request to the last first result */
};

struct verdict_options {
    bool single; /* a second result of an id is a violation */
    bool timed;  /* times order results and commits; false: only that the result is there */
    void (*say)(void *context, enum verdict_kind kind, const char *what); /* may be NULL */
    void *context;
};

struct verdict_place {
    const char *topic;
    int32_t partition;
    int64_t offset;
};

struct verdict *verdict_create(const struct verdict_options *options);
void verdict_destroy(struct verdict *verdict);

/* id.bytes NULL: not readable; then a dead letter is its only end. */
void verdict_request(struct verdict *verdict, const struct verdict_place *place, struct mr_text id,
                     bool streams, int64_t time_ms);
void verdict_tokens(struct verdict *verdict, const struct mr_token_record *record);
void verdict_result(struct verdict *verdict, const struct mr_result *result, int64_t time_ms);
/* place: of the request record it was made from. */
void verdict_dead_letter(struct verdict *verdict, const struct verdict_place *place,
                         int64_t time_ms);
/* A commit of the group, in the order the group made them. place->offset: what was committed. */
void verdict_commit(struct verdict *verdict, const struct verdict_place *place,
                    struct mr_text metadata, int64_t time_ms);
/* A record of a topic of ours that no decoder takes. */
void verdict_broken(struct verdict *verdict, const struct verdict_place *place, const char *why);

/* Request records so far, and ids among them with a result: for a reader that waits. */
uint32_t verdict_requests(const struct verdict *verdict);
uint32_t verdict_open(const struct verdict *verdict);

void verdict_judge(struct verdict *verdict, struct verdict_figures *figures);

#endif
