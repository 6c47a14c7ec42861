/* lag_view - a forecast as a table for people, as JSON for programs and KEDA's metrics-api, and as
 * Prometheus text. What is unknown is "-" in the table, null in JSON, and absent in Prometheus.
 *
 * Pure functions. Memory: the texts are malloc'ed and freed by the caller. Errors: MR_NOMEM. */
#ifndef MR_WORKER_LAG_LAG_VIEW_H
#define MR_WORKER_LAG_LAG_VIEW_H

#include "worker/config/config.h"
#include "worker/lag/lag_forecast.h"

#include <stdio.h>

/* config: names topics and tenants. now_ms: unix ms, of the forecast. */
struct mr_lag_view {
    const struct mr_config *config;
    const struct mr_lag_forecast *forecast;
    int64_t now_ms;
    uint64_t failures; /* refreshes that failed so far */
};

void mr_lag_view_table(const struct mr_lag_view *view, FILE *out);
enum mr_status mr_lag_view_json(const struct mr_lag_view *view, char **text, size_t *length,
                                struct mr_error *err);
/* forecast NULL: the page says that the last refresh failed, and has no other figure. */
enum mr_status mr_lag_view_metrics(const struct mr_lag_view *view, char **text, size_t *length,
                                   struct mr_error *err);

#endif
