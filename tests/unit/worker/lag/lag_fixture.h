/* Partitions as Kafka shows them to millrace lag: commits written by a ledger, requests that were
 * read, and rates learned from results. */
#ifndef MR_TESTS_UNIT_WORKER_LAG_LAG_FIXTURE_H
#define MR_TESTS_UNIT_WORKER_LAG_LAG_FIXTURE_H

#include "worker/lag/lag_forecast.h"
#include "worker/offsets/ledger_metadata.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define NOW_MS INT64_C(1700000000000)

/* A commit at `base`: the text lists one letter for each offset from there on: F finished, S
 * started, ? received. */
struct commit {
    char text[MR_LEDGER_METADATA_TEXT_MAX];
    struct mr_kafka_backlog_partition state;
};

static inline void make_commit(struct commit *commit, int64_t begin, int64_t base, int64_t end,
                               const char *list)
{
    struct mr_offset_ledger *ledger = NULL;
    assert_int_equal(mr_offset_ledger_create(&ledger, MR_LEDGER_SPAN_MAX, NULL), MR_OK);
    mr_offset_ledger_reset(ledger, base);
    for (int64_t i = 0; list[i]; i++) {
        struct mr_ledger_history history;
        mr_offset_ledger_receive(ledger, base + i, &history);
        if (list[i] == 'S') mr_offset_ledger_start(ledger, base + i, 0);
        if (list[i] == 'F') mr_offset_ledger_finish(ledger, base + i);
    }
    mr_ledger_metadata_encode(ledger, (struct mr_ledger_head){0, 0}, commit->text);
    mr_offset_ledger_destroy(ledger);
    commit->state =
        (struct mr_kafka_backlog_partition){.begin = begin,
                                            .end = end,
                                            .committed = base,
                                            .metadata = {commit->text, strlen(commit->text)}};
}

static inline void update(struct mr_lag_partition *partition, int64_t begin, int64_t base,
                          int64_t end, const char *list)
{
    struct commit commit;
    struct mr_offset_ledger *scratch = NULL;
    assert_int_equal(mr_offset_ledger_create(&scratch, MR_LEDGER_SPAN_MAX, NULL), MR_OK);
    make_commit(&commit, begin, base, end, list);
    mr_lag_partition_update(partition, &commit.state, scratch);
    mr_offset_ledger_destroy(scratch);
    mr_lag_partition_check(partition);
}

/* A request of this age that was read, with a deadline in this many ms; 0: none. */
static inline bool add(struct mr_lag_partition *partition, int64_t offset, int64_t age_ms,
                       int64_t deadline_ms)
{
    const struct mr_lag_request request = {.offset = offset,
                                           .timestamp_ms = NOW_MS - age_ms,
                                           .deadline_ms = deadline_ms ? NOW_MS + deadline_ms : 0,
                                           .answer_tokens_max = UINT32_MAX};
    return mr_lag_partition_add(partition, &request);
}

/* The work of a worker: `rounds` times without a pause it ran `at_a_time` requests of 10 + 90
 * tokens, each for run_ms. The last ones ended ago_ms before NOW_MS. */
struct load {
    uint64_t worker;
    size_t topic;
    unsigned at_a_time, rounds;
    double run_ms;
    int64_t ago_ms;
};

static inline void add_results(struct mr_lag_rates *rates, struct load load)
{
    for (unsigned round = 0; round < load.rounds; round++)
        for (unsigned i = 0; i < load.at_a_time; i++) {
            const struct mr_lag_sample sample = {
                .worker = load.worker,
                .topic = load.topic,
                .end_ms = NOW_MS - load.ago_ms - (int64_t)(load.run_ms * (load.rounds - 1 - round)),
                .run_ms = load.run_ms,
                .prompt_tokens = 10,
                .answer_tokens = 90};
            mr_lag_rates_add(rates, &sample);
        }
}

#endif
