#include "codec/histogram.h"

#include "codec/check.h"

#include <math.h>

void mr_histogram_init(struct mr_histogram *histogram, const double *bounds, uint32_t bound_count)
{
    MR_ASSERT(bound_count <= MR_HISTOGRAM_BOUNDS_MAX);
    *histogram = (struct mr_histogram){.bounds = bounds, .bound_count = bound_count};
}

void mr_histogram_observe(struct mr_histogram *histogram, double value)
{
    if (isnan(value)) value = 0;
    uint32_t i = 0;
    while (i < histogram->bound_count && value > histogram->bounds[i])
        i++;
    histogram->counts[i]++;
    histogram->sum += value;
}

uint64_t mr_histogram_count(const struct mr_histogram *histogram)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i <= histogram->bound_count; i++)
        count += histogram->counts[i];
    return count;
}

void mr_histogram_check(const struct mr_histogram *histogram)
{
    for (uint32_t i = 1; i < histogram->bound_count; i++)
        MR_ASSERT(histogram->bounds[i - 1] < histogram->bounds[i]);
}
