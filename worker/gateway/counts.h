/* counts - the counters of a gateway and its page of metrics.
 *
 * Threads: any; all counters are atomic. Memory: the struct. Errors: MR_NOMEM from _page. */
#ifndef MR_WORKER_GATEWAY_COUNTS_H
#define MR_WORKER_GATEWAY_COUNTS_H

#include "codec/histogram.h"
#include "codec/openai/endpoint.h"

#include <pthread.h>
#include <stdatomic.h>

/* X(enum, name, HELP): one counter, millrace_gateway_<name>_total. */
#define MR_GATEWAY_COUNTER_LIST(X)                                                                 \
    X(PUBLISHED, "requests_published", "Request records written to Kafka.")                        \
    X(CANCELLED, "requests_cancelled",                                                             \
      "Cancel records written, because a client left or a timeout passed.")                        \
    X(TOKEN_RECORDS, "token_records", "Token records read for calls of this gateway.")             \
    X(FOREIGN, "foreign_records",                                                                  \
      "Records of the reply partition that belong to no call of this gateway.")                    \
    X(SLOW, "slow_streams", "Streams ended because their reader was too slow.")                    \
    X(TOKENS, "tokens", "Prompt and output tokens of answered calls.")

enum mr_gateway_counter {
#define X(name, text, help) MR_GATEWAY_##name,
    MR_GATEWAY_COUNTER_LIST(X)
#undef X
        MR_GATEWAY_COUNTER_COUNT
};

#define MR_GATEWAY_STATUSES 600u

struct mr_gateway_counts {
    atomic_uint_least64_t counters[MR_GATEWAY_COUNTER_COUNT];
    /* calls by endpoint and HTTP status; further rows: other paths */
    atomic_uint_least64_t calls[MR_OPENAI_ENDPOINTS + 1][MR_GATEWAY_STATUSES];
    pthread_mutex_t lock;                   /* protects the histograms */
    struct mr_histogram first_token, total; /* seconds */
};

/* Values at the time of the page. */
struct mr_gateway_gauges {
    uint32_t in_flight, connections;
    size_t buffered_bytes;
    bool broker, workers;
};

void mr_gateway_counts_open(struct mr_gateway_counts *counts);
void mr_gateway_counts_close(struct mr_gateway_counts *counts);
void mr_gateway_count(struct mr_gateway_counts *counts, enum mr_gateway_counter counter,
                      uint64_t count);
/* A call was answered. endpoint: MR_OPENAI_ENDPOINTS for another path. */
void mr_gateway_count_call(struct mr_gateway_counts *counts, unsigned endpoint, unsigned status);
/* Times of a call until its first token record and until its result; 0: none. */
void mr_gateway_observe(struct mr_gateway_counts *counts, uint64_t first_ns, uint64_t total_ns);
/* Renders the page into *text, which the caller frees. */
enum mr_status mr_gateway_page(struct mr_gateway_counts *counts,
                               const struct mr_gateway_gauges *gauges, char **text, size_t *length,
                               struct mr_error *err);

#endif
