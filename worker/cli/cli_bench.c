/* millrace bench: measures a running fleet through Kafka, or with --engine or --cache the engine in
 * this process. With --compare it compares the output files of two runs. */
#include "worker/bench/bench_cache.h"
#include "worker/bench/bench_compare.h"
#include "worker/bench/bench_engine.h"
#include "worker/bench/bench_fleet.h"
#include "worker/cli/cli.h"
#include "worker/cli/cli_common.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static bool interrupted(void *context)
{
    return mr_cli_signals_wait(context, -1, 0);
}

static enum mr_status measure_fleet(const struct mr_config *config, struct mr_error *err)
{
    struct mr_cli_signals signals;
    struct mr_bench_fleet_options options = {.config = config,
                                             .table = stdout,
                                             .progress = isatty(STDERR_FILENO) ? stderr : NULL,
                                             .notices = stderr,
                                             .stop = interrupted,
                                             .context = &signals};
    mr_cli_signals_open(&signals);
    enum mr_status status = mr_bench_fleet(&options, err);
    mr_cli_signals_close(&signals);
    return status;
}

/* Fails before the measurement if the file cannot be written. */
static enum mr_status check_writable(const char *path, struct mr_error *err)
{
    if (!path[0]) return MR_OK;
    FILE *file = fopen(path, "a");
    if (!file) return mr_fail(err, MR_BAD_CONFIG, "cannot write %s: %s", path, strerror(errno));
    fclose(file);
    return MR_OK;
}

int mr_cli_bench(const struct mr_config *config, struct mr_log *log)
{
    (void)log;
    struct mr_error err = {0};
    enum mr_status status = check_writable(config->output, &err);
    if (status == MR_OK) status = check_writable(config->report, &err);
    if (status == MR_OK)
        status = config->compare  ? mr_bench_compare(config, stdout, &err)
                 : config->cache  ? mr_bench_cache(config, stdout, &err)
                 : config->engine ? mr_bench_engine(config, stdout, &err)
                                  : measure_fleet(config, &err);
    return status == MR_OK ? MR_EXIT_DONE : mr_cli_fail(&err);
}
