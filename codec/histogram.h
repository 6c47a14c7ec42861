/* histogram - counts values by upper bounds, as a Prometheus histogram does.
 *
 * Owner: one thread at a time; no lock. Memory: the struct. Errors: none; NaN is treated as 0. */
#ifndef MR_CODEC_HISTOGRAM_H
#define MR_CODEC_HISTOGRAM_H

#include <stdint.h>

#define MR_HISTOGRAM_BOUNDS_MAX 24u

struct mr_histogram {
    const double *bounds; /* [bound_count] upper bounds, increasing; borrowed */
    uint32_t bound_count;
    /* counts[i]: values above bounds[i - 1], up to bounds[i]; the last: above every bound */
    uint64_t counts[MR_HISTOGRAM_BOUNDS_MAX + 1];
    double sum;
};

void mr_histogram_init(struct mr_histogram *histogram, const double *bounds, uint32_t bound_count);
void mr_histogram_observe(struct mr_histogram *histogram, double value);
uint64_t mr_histogram_count(const struct mr_histogram *histogram);
/* Asserts that the upper bounds increase. */
void mr_histogram_check(const struct mr_histogram *histogram);

#endif
