/* top_row - what `millrace top` shows of a worker, computed from its last two pages /metrics: rates
 * and latencies are those of the time between the two. Of a tenant, only what the pages count by
 * tenant or topic: requests finished and lag; the other columns are of the whole worker.
 *
 * Threads: any (pure functions). Memory: none. Errors: none; what is not known is NaN. */
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
/* Whether the labels of a series, of this length, name a topic of the tenant. tenant: "" for all.
 */
bool mr_top_row_is_of(const char *page, const char *tenant, const char *labels, size_t length);
/* Of the tenants in the page and the one in `next` ("": none), leaves in `next` the first one after
 * `tenant` in alphabetical order; it stays "" if there is none. */
void mr_top_row_next_tenant(const char *page, const char *tenant, char next[MR_TOP_TENANT_BYTES]);

#endif
