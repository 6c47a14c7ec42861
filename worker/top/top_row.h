/* top_row - the row of a worker in `millrace top`, computed from its last two pages /metrics. Rates
 * and latencies cover the time between the two pages. For a tenant, finished requests and lag are
 * the tenant's own; the other columns are those of the whole worker.
 *
 * Threads: any (pure functions). Memory: none. Errors: none; an unknown value is NaN. */
#ifndef MR_WORKER_TOP_TOP_ROW_H
#define MR_WORKER_TOP_TOP_ROW_H

#include <stdbool.h>
#include <stddef.h>

#define MR_TOP_COLUMNS      13u
#define MR_TOP_TENANT_BYTES ((size_t)160)

/* The pages of a worker; before may be NULL. */
struct mr_top_pages {
    const char *before, *now;
    double seconds; /* between the two */
};

/* One value for each column. */
struct mr_top_row {
    double values[MR_TOP_COLUMNS];
};

struct mr_top_column {
    const char *name, *json; /* title, and name of the member with --json */
    int width, decimals;
    bool adds; /* the values of several workers can be added up */
};

extern const struct mr_top_column mr_top_columns[MR_TOP_COLUMNS]; /* in the order of the screen */

/* tenant: "" for all. */
void mr_top_row_fill(struct mr_top_row *row, const struct mr_top_pages *pages, const char *tenant);
/* True when the labels (length bytes) name a topic of the tenant. tenant: "" for all. */
bool mr_top_row_is_of(const char *page, const char *tenant, const char *labels, size_t length);
/* Sets `next` to the first tenant after `tenant` in alphabetical order. The candidates are the
 * page's tenants and the tenant already in `next` ("": none). `next` stays "" if there is none. */
void mr_top_row_next_tenant(const char *page, const char *tenant, char next[MR_TOP_TENANT_BYTES]);

#endif
