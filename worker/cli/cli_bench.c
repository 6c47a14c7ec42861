/* millrace bench: measures a running fleet through Kafka; with --engine or --cache the engine in
 * this process, without Kafka; with --compare nothing: it compares what two runs have written. */
#include "worker/bench/bench_cache.h"
#include "worker/bench/bench_compare.h"
#include "worker/bench/bench_engine.h"
#include "worker/bench/bench_fleet.h"
#include "worker/cli/cli.h"
#include "worker/cli/cli_common.h"

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
                                             .stop = interrupted,
                                             .context = &signals};
    mr_cli_signals_open(&signals);
    enum mr_status status = mr_bench_fleet(&options, err);
    mr_cli_signals_close(&signals);
    return status;
}

int mr_cli_bench(const struct mr_config *config, struct mr_log *log)
{
    (void)log;
    struct mr_error err = {0};
    enum mr_status status = config->compare  ? mr_bench_compare(config, stdout, &err)
                            : config->cache  ? mr_bench_cache(config, stdout, &err)
                            : config->engine ? mr_bench_engine(config, stdout, &err)
                                             : measure_fleet(config, &err);
    return status == MR_OK ? MR_EXIT_DONE : mr_cli_fail(&err);
}
