/* adapter_report - describes the LoRA adapters of a configuration for `millrace check`, a line
 * each: what they change, their rank, their size; or why they cannot be used with the model.
 *
 * Owner: main thread. Memory: none kept. Errors: given to the caller as lines. */
#ifndef MR_WORKER_CLI_ADAPTER_REPORT_H
#define MR_WORKER_CLI_ADAPTER_REPORT_H

#include "ops/files/model_source.h"
#include "worker/config/config.h"

enum mr_adapter_verdict {
    MR_ADAPTER_FITS,
    MR_ADAPTER_IGNORED, /* an adapter of the folder, without which `serve` starts */
    MR_ADAPTER_FAILS    /* an adapter of --adapter */
};

/* Calls line for each adapter of --adapter and of the folder of --adapters. source: the model's
 * files, its tensors still open. */
void mr_adapter_report(const struct mr_config *config, const struct mr_model_source *source,
                       void (*line)(void *context, enum mr_adapter_verdict verdict,
                                    const char *text),
                       void *context);

#endif
