#include "worker/base/histogram.h"

#include "codec/check.h"

#include <inttypes.h>
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

void mr_histogram_print(const struct mr_histogram *histogram, const char *name, const char *labels,
                        FILE *out)
{
    const char *comma = labels[0] ? "," : "";
    const char *open = labels[0] ? "{" : "";
    const char *close = labels[0] ? "}" : "";
    uint64_t below = 0;
    for (uint32_t i = 0; i < histogram->bound_count; i++) {
        below += histogram->counts[i];
        fprintf(out, "%s_bucket{%s%sle=\"%g\"} %" PRIu64 "\n", name, labels, comma,
                histogram->bounds[i], below);
    }
    uint64_t count = below + histogram->counts[histogram->bound_count];
    fprintf(out, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", name, labels, comma, count);
    fprintf(out, "%s_sum%s%s%s %.15g\n", name, open, labels, close, histogram->sum);
    fprintf(out, "%s_count%s%s%s %" PRIu64 "\n", name, open, labels, close, count);
}

void mr_histogram_check(const struct mr_histogram *histogram)
{
    for (uint32_t i = 1; i < histogram->bound_count; i++)
        MR_ASSERT(histogram->bounds[i - 1] < histogram->bounds[i]);
}
