#include "worker/cli/adapter_report.h"

#include "ops/model/model_adapter.h"
#include "worker/adapters/adapter_folder.h"
#include "worker/adapters/adapters.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

struct reporting {
    const struct mr_model_source *source;
    void (*line)(void *context, enum mr_adapter_verdict verdict, const char *text);
    void *context;
};

static void report(const struct reporting *reporting, struct mr_text name, const char *path,
                   enum mr_adapter_verdict otherwise)
{
    char text[400];
    struct mr_error err = {0};
    struct mr_adapter_files files = {0};
    struct mr_adapter_weights *weights = NULL;
    enum mr_status status = mr_adapter_files_open(&files, path, &err);
    if (status == MR_OK) status = mr_model_adapter_check(reporting->source, &files, &weights, &err);
    if (status == MR_OK)
        snprintf(text, sizeof text,
                 "%.*s: changes %" PRIu32 " layers, rank up to %" PRIu32 ", %.1f MiB in the files",
                 (int)name.length, name.bytes, weights->layer_count, weights->rank,
                 (double)files.bytes / 1048576.0);
    else
        snprintf(text, sizeof text, "%.*s: %s", (int)name.length, name.bytes, err.detail);
    reporting->line(reporting->context, status == MR_OK ? MR_ADAPTER_FITS : otherwise, text);
    mr_adapter_weights_destroy(weights);
    mr_adapter_files_close(&files);
}

static void report_found(void *context, struct mr_text name, const char *path,
                         const struct mr_adapter_stamp *stamp)
{
    (void)stamp;
    report(context, name, path, MR_ADAPTER_IGNORED);
}

void mr_adapter_report(const struct mr_config *config, const struct mr_model_source *source,
                       void (*line)(void *context, enum mr_adapter_verdict verdict,
                                    const char *text),
                       void *context)
{
    struct reporting reporting = {source, line, context};
    for (size_t i = 0; i < config->adapter.count; i++) {
        struct mr_adapter_option option;
        char path[PATH_MAX];
        if (!mr_adapter_option_parse(config->adapter.values[i], &option)) {
            line(context, MR_ADAPTER_FAILS,
                 "a value of --adapter is not NAME=PATH[,tenant=TENANT]");
            continue;
        }
        snprintf(path, sizeof path, "%.*s", (int)option.path.length, option.path.bytes);
        report(&reporting, option.name, path, MR_ADAPTER_FAILS);
    }
    if (config->adapters && config->adapters[0] &&
        !mr_adapter_folder_scan(config->adapters, report_found, &reporting))
        line(context, MR_ADAPTER_FAILS, "the folder of --adapters cannot be read");
}
