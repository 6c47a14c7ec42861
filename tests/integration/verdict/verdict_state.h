/* verdict_state - the records that verdict.c collects and verdict_judge.c checks. */
#ifndef MR_TESTS_VERDICT_STATE_H
#define MR_TESTS_VERDICT_STATE_H

#include "tests/integration/verdict/verdict.h"

/* A token record. */
struct piece {
    struct piece *next;
    uint32_t attempt, choice, index, count;
    int64_t resumed_at;
    uint32_t *ids;
    struct mr_text text;
};

struct answer {
    struct answer *next;
    uint32_t attempt, choice_count;
    bool whole; /* false: the result was written without its text, which was too large */
    struct mr_choice *choices;
    struct verdict_place source;
    int64_t time_ms;
};

/* One request id. */
struct subject {
    struct subject *next; /* in its hash bucket */
    struct subject *order_next;
    char *id;
    uint32_t records;
    bool asked, streams;
    struct piece *pieces, *last_piece; /* in log order */
    struct answer *answers, *last_answer;
};

/* One request record. */
struct request {
    struct verdict_place place;
    struct subject *subject; /* NULL: the id is not readable */
    int64_t time_ms, dead_ms, refused_ms;
    bool dead;
    bool refused; /* has a result of its own with the error duplicate_id */
};

struct commit {
    struct verdict_place place;
    struct mr_text metadata;
    int64_t time_ms;
};

#define VERDICT_BUCKETS 16384u

struct verdict {
    struct verdict_options options;
    struct verdict_figures figures;
    struct subject *buckets[VERDICT_BUCKETS];
    struct subject *first, *last; /* in order of appearance */
    struct request *requests;
    struct commit *commits;
    struct verdict_place *dead; /* dead letters */
    int64_t *dead_ms;
    struct commit *refusals; /* results with the error duplicate_id; without metadata */
    size_t request_count, request_max, commit_count, commit_max, dead_count, dead_max,
        refusal_count, refusal_max;
};

void *verdict_memory(void *old, size_t bytes);
bool verdict_same_place(const struct verdict_place *a, const struct verdict_place *b);
__attribute__((format(printf, 3, 4))) void
verdict_accuse(struct verdict *verdict, enum verdict_kind kind, const char *format, ...);

/* Decodes the finished offsets in the metadata of a commit: bit i is offset + i. *bits: malloc'ed;
 * NULL: none. False: unknown format. Written from the description of the format, independently of
 * the worker's decoder. */
bool verdict_metadata_bits(struct mr_text text, unsigned char **bits, size_t *bit_count);

#endif
