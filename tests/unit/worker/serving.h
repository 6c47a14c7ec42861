/* The configuration of `millrace serve` for tests of whole workers: an embedded broker, the default
 * model and a small KV pool. */
#ifndef MR_TESTS_WORKER_SERVING_H
#define MR_TESTS_WORKER_SERVING_H

#include "tests/unit/worker/broker.h"
#include "worker/base/log.h"
#include "worker/cli/default_model.h"
#include "worker/config/options.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct serving {
    struct broker broker;
    struct mr_config *config;
    struct mr_log *log;
    char model[PATH_MAX];
};

/* model: NULL for the default model. more: further flags, up to a NULL. */
static inline void open_serving(struct serving *serving, const char *model, const char *const *more)
{
    struct mr_error err = {0};
    struct mr_log_options log = {.fd = 2, .format = MR_LOG_TEXT, .worker = "w"};
    const char *deps = getenv("MILLRACE_DEPS");
    snprintf(serving->model, sizeof serving->model, "%s/model/%s.gguf", deps ? deps : ".deps",
             MR_DEFAULT_MODEL);
    if (model) snprintf(serving->model, sizeof serving->model, "%s", model);
    open_broker(&serving->broker);
    const char *arguments[32] = {"millrace",
                                 "serve",
                                 "--brokers",
                                 "",
                                 "--model",
                                 serving->model,
                                 "--http",
                                 "127.0.0.1:0",
                                 "--kv-memory",
                                 "64MiB",
                                 "--max-sequences",
                                 "4",
                                 "--session-timeout",
                                 "4s"};
    int count = 14;
    arguments[3] = serving->broker.kafka.brokers;
    for (; more && *more; more++)
        arguments[count++] = *more;
    char *none[] = {NULL};
    if (mr_config_create(&serving->config, count, (char *const *)(uintptr_t)arguments, none,
                         &err) != MR_OK)
        fail_msg("%s", err.detail);
    assert_int_equal(mr_log_create(&serving->log, &log, NULL), MR_OK);
}

static inline void close_serving(struct serving *serving)
{
    mr_config_destroy(serving->config);
    mr_log_destroy(serving->log);
    close_broker(&serving->broker);
}

#endif
