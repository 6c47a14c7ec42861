/* histogram - counts of values by upper bound, as Prometheus has them.
 *
 * Owner:  whoever holds it; no lock. Memory: the struct. Errors: none; NaN counts as 0. */
#ifndef MR_WORKER_BASE_HISTOGRAM_H
#define MR_WORKER_BASE_HISTOGRAM_H

#include <stdint.h>
#include <stdio.h>

#define MR_HISTOGRAM_BOUNDS_MAX 24u

struct mr_histogram {
    const double *bounds; /* [bound_count] rising */
    uint32_t bound_count;
    uint64_t counts[MR_HISTOGRAM_BOUNDS_MAX + 1]; /* the last one: above every bound */
    double sum;
};

void mr_histogram_init(struct mr_histogram *histogram, const double *bounds, uint32_t bound_count);
void mr_histogram_observe(struct mr_histogram *histogram, double value);
uint64_t mr_histogram_count(const struct mr_histogram *histogram);
/* The _bucket, _sum and _count lines. labels: "from=\"record\"" or "". */
void mr_histogram_print(const struct mr_histogram *histogram, const char *name, const char *labels,
                        FILE *out);
/* Asserts what holds always: bounds rise. */
void mr_histogram_check(const struct mr_histogram *histogram);

#endif
