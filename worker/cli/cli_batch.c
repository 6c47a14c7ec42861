/* millrace batch INPUT OUTPUT: sends a file of requests in OpenAI's Batch format and writes the
 * answers to a file. The same command continues a run that ended early. SIGINT or SIGTERM stops
 * sending; a second one cancels what is in flight. */
#include "worker/batch/batch.h"
#include "worker/cli/cli.h"
#include "worker/cli/cli_common.h"

#define OPEN_TIMEOUT_MS 10000u

static unsigned interrupts(void *context)
{
    struct mr_cli_signals *signals = context;
    mr_cli_signals_wait(signals, -1, 0);
    return signals->count;
}

int mr_cli_batch(const struct mr_config *config, struct mr_log *log)
{
    (void)log;
    struct mr_cli_signals signals;
    struct mr_error err = {0};
    bool complete = false;
    const struct mr_batch_options options = {.config = config,
                                             .messages = stderr,
                                             .interrupts = interrupts,
                                             .context = &signals,
                                             .timeout_ms = OPEN_TIMEOUT_MS};
    mr_cli_signals_open(&signals);
    enum mr_status status = mr_batch_run(&options, &complete, &err);
    mr_cli_signals_close(&signals);
    if (status != MR_OK) {
        const int code = mr_cli_fail(&err);
        return status == MR_BAD_FILE ? MR_EXIT_FAILED : code; /* not a file of a model */
    }
    return complete ? MR_EXIT_DONE : MR_EXIT_FAILED;
}
