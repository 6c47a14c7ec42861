/* quiet_log - a log without output, for tests: pass quiet_log_open and quiet_log_close as the setup
 * and teardown of a group. */
#ifndef MR_TESTS_UNIT_WORKER_QUIET_LOG_H
#define MR_TESTS_UNIT_WORKER_QUIET_LOG_H

#include "worker/base/log.h"

#include <fcntl.h>

static struct mr_log *quiet;

static inline int quiet_log_open(void **state)
{
    (void)state;
    struct mr_log_options options = {.fd = open("/dev/null", O_WRONLY), .worker = "w"};
    return mr_log_create(&quiet, &options, NULL) == MR_OK ? 0 : -1;
}

static inline int quiet_log_close(void **state)
{
    (void)state;
    mr_log_destroy(quiet);
    return 0;
}

#endif
