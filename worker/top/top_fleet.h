/* top_fleet - the workers that `millrace top` shows, with their last two pages /metrics. These are
 * the workers that the command line names; without any and with --brokers the members of the
 * consumer group, read again every MR_TOP_DESCRIBE_NS; otherwise the worker at MR_TOP_ADDRESS.
 *
 * Owner: main thread. Memory: MR_TOP_WORKERS_MAX workers, two pages each. Errors: MR_BAD_CONFIG,
 * MR_UNREACHABLE and MR_NOMEM from _open; afterwards a worker that does not answer has an error. */
#ifndef MR_WORKER_TOP_TOP_FLEET_H
#define MR_WORKER_TOP_TOP_FLEET_H

#include "worker/config/config.h"
#include "worker/top/addresses.h"
#include "worker/top/top_row.h"

#define MR_TOP_WORKERS_MAX ((size_t)256)
#define MR_TOP_TIMEOUT_MS  2000u /* of one page */
#define MR_TOP_DESCRIBE_NS ((uint64_t)10000000000)
#define MR_TOP_ADDRESS     "127.0.0.1:9464"

struct mr_top_worker {
    char address[MR_ADDRESS_BYTES];
    char *before, *now; /* the last two pages; NULL: it did not answer */
    uint64_t before_ns, now_ns;
    char error[MR_ERROR_DETAIL_BYTES];
};

struct mr_top_fleet {
    const struct mr_config *config;
    uint32_t kafka_ms;
    struct mr_kafka_options kafka;
    struct mr_kafka_admin *admin; /* NULL: the list of workers is fixed */
    uint64_t described_ns;
    struct mr_top_worker *workers; /* [MR_TOP_WORKERS_MAX] */
    size_t count;
};

/* kafka_ms: longest time of a query to the broker. */
enum mr_status mr_top_fleet_open(struct mr_top_fleet *fleet, const struct mr_config *config,
                                 uint32_t kafka_ms, struct mr_error *err);
void mr_top_fleet_close(struct mr_top_fleet *fleet);
/* Gets a page of every worker; true if any answered. */
bool mr_top_fleet_refresh(struct mr_top_fleet *fleet);
/* The row of a worker whose /metrics page was fetched. */
void mr_top_fleet_row(const struct mr_top_worker *worker, const char *tenant,
                      struct mr_top_row *row);

#endif
