/* histogram - counts of values by upper bound, in the form of Prometheus.
 *
 * Owner:  one thread at a time; no lock. Memory: the struct. Errors: none; NaN counts as 0. */
#ifndef MR_WORKER_BASE_HISTOGRAM_H
#define MR_WORKER_BASE_HISTOGRAM_H

#include <stdint.h>
#include <stdio.h>

#define MR_HISTOGRAM_BOUNDS_MAX 24u

struct mr_histogram {
    const double *bounds; /* [bound_count], increasing; borrowed */
    uint32_t bound_count;
    uint64_t counts[MR_HISTOGRAM_BOUNDS_MAX + 1]; /* not cumulative; the last: above every bound */
    double sum;
};

void mr_histogram_init(struct mr_histogram *histogram, const double *bounds, uint32_t bound_count);
void mr_histogram_observe(struct mr_histogram *histogram, double value);
uint64_t mr_histogram_count(const struct mr_histogram *histogram);
/* Prints the _bucket, _sum and _count lines of the text format. labels: "from=\"record\"" or "". */
void mr_histogram_print(const struct mr_histogram *histogram, const char *name, const char *labels,
                        FILE *out);
/* Asserts that the bounds increase. */
void mr_histogram_check(const struct mr_histogram *histogram);

#endif
