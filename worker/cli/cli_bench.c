/* millrace bench: measures a running fleet through Kafka, or with --engine or --cache the engine in
 * this process. With --compare it compares the output files of two runs. */
#include "worker/bench/bench_cache.h"
#include "worker/bench/bench_compare.h"
#include "worker/bench/bench_engine.h"
#include "worker/bench/bench_fleet.h"
#include "worker/cli/cli.h"
#include "worker/cli/cli_common.h"
#include "worker/config/option_apply.h"

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

/* Whether the user set this option, in whatever way. */
static bool is_set(const struct mr_config *config, const char *name)
{
    return mr_option_origin(config, mr_option_find(name)) != MR_ORIGIN_DEFAULT;
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

/* Fails if an option is set that --engine would ignore. */
static enum mr_status check_engine(const struct mr_config *config, struct mr_error *err)
{
    static const char *const never[] = {"rate",  "concurrency", "warmup", "objective",
                                        "sweep", "stream",      "report"};
    static const char *const lengths[] = {"prompt-tokens", "output-tokens"};
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        if (is_set(config, never[i]))
            return mr_fail(err, MR_BAD_CONFIG, "--%s has no effect with --engine", never[i]);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths && config->batch == 0; i++)
        if (is_set(config, lengths[i]))
            return mr_fail(err, MR_BAD_CONFIG,
                           "--%s has an effect with --engine only if --batch "
                           "is set",
                           lengths[i]);
    if (config->mix && config->batch > 0)
        return mr_fail(err, MR_BAD_CONFIG, "--batch has no effect with --mix");
    if (!config->mix && is_set(config, "requests"))
        return mr_fail(err, MR_BAD_CONFIG,
                       "--requests has an effect with --engine only if --mix "
                       "is set");
    if (config->batch > config->max_sequences)
        return mr_fail(err, MR_BAD_CONFIG, "--batch %u is above --max-sequences %u", config->batch,
                       config->max_sequences);
    return MR_OK;
}

int mr_cli_bench(const struct mr_config *config, struct mr_log *log)
{
    (void)log;
    struct mr_error err = {0};
    enum mr_status status = config->engine ? check_engine(config, &err) : MR_OK;
    if (status == MR_OK) status = check_writable(config->output, &err);
    if (status == MR_OK) status = check_writable(config->report, &err);
    if (status == MR_OK)
        status = config->compare  ? mr_bench_compare(config, stdout, &err)
                 : config->cache  ? mr_bench_cache(config, stdout, &err)
                 : config->engine ? mr_bench_engine(config, stdout, &err)
                                  : measure_fleet(config, &err);
    return status == MR_OK ? MR_EXIT_DONE : mr_cli_fail(&err);
}
