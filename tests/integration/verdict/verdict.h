/* verdict - checks the records of all topics of a fleet for violations of its guarantees. It uses
 * no Kafka and no clock: checker.c passes in the records. test_verdict.c tests every violation.
 *
 * A result with the error duplicate_id belongs to the request record that it names as its source.
 * Every other result belongs to all records with its id.
 *
 * Pass in the records of each topic in log order, in any order of topics, and then call _judge
 * once. Times are the broker's, in unix ms; 0: unknown. The violations:
 *   - lost_result: a request record without a result and without a dead letter.
 *   - second_result: more than one result of an id, or of a refused record, if `single` is set.
 *   - unequal_results: two results of one attempt differ.
 *   - late_result: a result of a lower attempt after one of a higher attempt.
 *   - unasked: a result, token record or dead letter without a request.
 *   - gap: a token index is missing in an attempt, or between its last record and the result.
 *   - unequal_tokens: two token records of one attempt differ, or the records differ from the
 *     result.
 *   - unequal_text: the joined texts of the token records differ from the text of the result.
 *   - unwanted_tokens: token records of a request with `stream` false.
 *   - early_commit: an offset, or a bit of the metadata, was committed before the result or dead
 *     letter of its record was written.
 *   - unreadable_commit: the metadata of a commit has an unknown format.
 *   - broken_record: a token record or result that cannot be decoded.
 *
 * Memory: every record is copied and kept until _destroy. Out of memory ends the program. */
#ifndef MR_TESTS_VERDICT_H
#define MR_TESTS_VERDICT_H

#include "codec/records/result.h"
#include "worker/kafka/kafka_record.h"

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
    uint32_t requests, ids; /* request records; distinct ids in them */
    uint32_t results, answered, dead_letters;
    uint32_t results_per_id[VERDICT_RESULTS_SHOWN]; /* [i]: ids with i results; last element: that
                                                       many or more */
    uint32_t duplicates;                            /* results after the first of each id */
    uint32_t repeated_ids; /* ids with several results, which ran again after their end or were sent
                              twice */
    uint32_t same_attempt; /* duplicates with the attempt of an earlier result */
    uint32_t later_attempt; /* ids answered by an attempt above 1 */
    uint32_t duplicate_ids; /* results with the error duplicate_id */
    uint32_t refused;       /* ids whose result is an error, a rejection or an exceeded deadline */
    uint32_t token_records, tokens, tokens_again; /* again: positions published more than once */
    uint32_t late_token_records;         /* token records of an attempt below the highest so far */
    uint32_t commits, forgetful_commits; /* forgetful: commits that lack an offset that an earlier
                                            commit listed as finished */
    int64_t stall_ms;                    /* longest time without a first result while one was due */
    int64_t span_ms;                     /* from the first request to the last first result */
};

struct verdict_options {
    bool single; /* a second result of an id is a violation */
    bool timed;  /* compare the times of results and commits; false: check only that a result exists
                  */
    void (*report)(void *context, enum verdict_kind kind, const char *what); /* may be NULL */
    void *context;
};

struct verdict_place {
    const char *topic;
    int32_t partition;
    int64_t offset;
};

struct verdict *verdict_create(const struct verdict_options *options);
void verdict_destroy(struct verdict *verdict);

/* id.bytes NULL: the id is unreadable, so only a dead letter is expected. */
void verdict_request(struct verdict *verdict, const struct verdict_place *place, struct mr_text id,
                     bool streams, int64_t time_ms);
void verdict_tokens(struct verdict *verdict, const struct mr_token_record *record);
void verdict_result(struct verdict *verdict, const struct mr_result *result, int64_t time_ms);
/* place: that of the original request record. */
void verdict_dead_letter(struct verdict *verdict, const struct verdict_place *place,
                         int64_t time_ms);
/* A commit of the group, in the order of the commits. place->offset: the committed offset. */
void verdict_commit(struct verdict *verdict, const struct verdict_place *place,
                    struct mr_text metadata, int64_t time_ms);
/* A token record or result that cannot be decoded. */
void verdict_broken(struct verdict *verdict, const struct verdict_place *place, const char *why);

/* The names of the topics that workers write. */
struct verdict_topics {
    const char *tokens, *results, *dead_letters;
};

/* Passes one record to the function above for its topic. A record of any other topic is a request.
 * The times are the records' timestamps. */
void verdict_record(struct verdict *verdict, const struct verdict_topics *topics,
                    const struct mr_kafka_record *record);

/* Request records so far, and how many of their ids have a result. */
uint32_t verdict_requests(const struct verdict *verdict);
uint32_t verdict_open(const struct verdict *verdict);

void verdict_judge(struct verdict *verdict, struct verdict_figures *figures);

#endif
