#include "worker/adapters/adapter_metrics.h"

#include "worker/metrics/metric_text.h"

#include <inttypes.h>

static void put_requests(FILE *out, struct mr_adapters *adapters)
{
    static const char name[] = "millrace_adapter_requests_total";
    const char *adapter;
    uint64_t requests, others = 0;
    uint32_t lines = 0;
    mr_metric_put_head(out, name, "counter",
                       "Requests that named a LoRA adapter. Those of further adapters have the "
                       "label \"\".");
    for (uint32_t i = 0; mr_adapters_requests(adapters, i, &adapter, &requests); i++) {
        if (requests == 0) continue;
        if (lines++ >= MR_ADAPTER_LINES_MAX) {
            others += requests;
            continue;
        }
        fprintf(out, "%s{", name);
        mr_metric_put_label(out, "adapter", adapter);
        fprintf(out, "} %" PRIu64 "\n", requests);
    }
    fprintf(out, "%s{adapter=\"\"} %" PRIu64 "\n", name, others);
}

static void put_all(FILE *out, const void *all)
{
    struct mr_adapters *adapters = *(struct mr_adapters *const *)all;
    const struct mr_adapters_stats stats = mr_adapters_stats(adapters);
    mr_metric_put_value(out, "millrace_adapters_listed", "gauge",
                        "LoRA adapters that requests can name.", stats.listed);
    mr_metric_put_value(out, "millrace_adapters_loaded", "gauge",
                        "LoRA adapters whose weights are in memory.", stats.loaded);
    mr_metric_put_value(out, "millrace_adapter_bytes", "gauge",
                        "Memory of the loaded LoRA adapters, limited by --adapter-memory.",
                        (double)stats.loaded_bytes);
    mr_metric_put_value(out, "millrace_adapter_loads_total", "counter",
                        "Times that the weights of a LoRA adapter were loaded.",
                        (double)stats.loads);
    mr_metric_put_value(out, "millrace_adapter_evictions_total", "counter",
                        "Times that a LoRA adapter was unloaded to make room for another one.",
                        (double)stats.evictions);
    put_requests(out, adapters);
}

enum mr_status mr_adapter_metrics_append(struct mr_adapters *adapters, char **text, size_t *length,
                                         struct mr_error *err)
{
    return mr_metric_append(text, length, put_all, &adapters, err);
}
