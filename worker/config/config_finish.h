/* config_finish - the last step of reading the configuration, which needs all options: values
 * derived from other options, forbidden combinations, and options that a command requires.
 *
 * Owner: the main thread, at start. Memory: the configuration's arena. Errors: MR_BAD_CONFIG. */
#ifndef MR_WORKER_CONFIG_CONFIG_FINISH_H
#define MR_WORKER_CONFIG_CONFIG_FINISH_H

#include "codec/status.h"
#include "worker/config/config.h"

/* Fills in topics, tenants, secrets, model name and worker id, and checks the configuration as a
 * whole. */
enum mr_status mr_config_finish(struct mr_config *config, struct mr_error *err);
/* Checks the number of the command's arguments. */
enum mr_status mr_config_check_arguments(const struct mr_config *config, struct mr_error *err);

#endif
