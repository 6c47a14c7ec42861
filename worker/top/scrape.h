/* scrape - fetches a worker's pages and reads values from /metrics, for millrace top.
 *
 * Owner: one thread. Memory: the page, at most MR_SCRAPE_BYTES_MAX. Errors: MR_UNREACHABLE from
 * _page. */
#ifndef MR_WORKER_TOP_SCRAPE_H
#define MR_WORKER_TOP_SCRAPE_H

#include "codec/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_SCRAPE_BYTES_MAX ((size_t)8 << 20)

/* GETs http://ADDRESS and path, such as /metrics; address: HOST:PORT. *body: the page without
 * HTTP's headers, which the caller frees. Blocks for at most timeout_ms and the lookup of the host.
 */
enum mr_status mr_scrape_page(const char *address, const char *path, uint32_t timeout_ms,
                              char **body, struct mr_error *err);

/* The sum of a metric's values over all its series whose labels contain `labels`, such as
 * "state=\"held\""; "": every series. 0 if there is none. */
double mr_scrape_sum(const char *page, const char *name, const char *labels);
/* One series of a metric. */
struct mr_scrape_series {
    const char *labels; /* the text between { and }; "" has length 0; borrowed from the page */
    size_t labels_length;
    double value;
};
/* The next series of the metric after `*at`, which begins as the page; false: no more. */
bool mr_scrape_next(const char **at, const char *name, struct mr_scrape_series *series);
/* The quantile q (0 to 1) of a histogram, over all its series together; the upper bound of the
 * bucket in which it lies. before: an earlier page, whose counts are subtracted; NULL: none. NaN:
 * no value was counted. */
double mr_scrape_quantile(const char *page, const char *before, const char *name, double q);

#endif
