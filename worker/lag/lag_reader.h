/* lag_reader - reads the state of a fleet from Kafka for millrace lag, and makes the forecast. It
 * needs no worker: the group's commits list the finished requests, and the results of a fleet show
 * its speed.
 *
 * A refresh reads the ends and commits of all partitions, then the records of requests that are new
 * since the last refresh, and new results. It stops reading records after a time limit and
 * continues in the next refresh.
 *
 * Owner:  one thread. Memory: MR_LAG_REQUESTS_MAX kept requests of 32 bytes, 3 KiB for each
 *         partition, the samples of worker/lag/lag_rates.h, and two librdkafka clients.
 * Errors: MR_UNREACHABLE, MR_BAD_CONFIG, MR_NOMEM. */
#ifndef MR_WORKER_LAG_LAG_READER_H
#define MR_WORKER_LAG_LAG_READER_H

#include "worker/base/clock.h"
#include "worker/config/config.h"
#include "worker/lag/lag_forecast.h"

/* Most waiting requests whose records are kept. Further ones are counted by their offsets. */
#define MR_LAG_REQUESTS_MAX ((size_t)65536)

struct mr_lag_reader;

/* Connects to the broker, which takes at most timeout_ms. config: borrowed. */
enum mr_status mr_lag_reader_open(struct mr_lag_reader **out, const struct mr_config *config,
                                  uint32_t timeout_ms, struct mr_error *err);
/* reader may be NULL. */
void mr_lag_reader_close(struct mr_lag_reader *reader);
/* *forecast is borrowed until the next call. now: the current time. timeout_ms: of each query;
 * read_ms: how long records are read. On an error there is no forecast. */
enum mr_status mr_lag_reader_refresh(struct mr_lag_reader *reader, struct mr_time now,
                                     uint32_t timeout_ms, uint32_t read_ms,
                                     const struct mr_lag_forecast **forecast, struct mr_error *err);

#endif
