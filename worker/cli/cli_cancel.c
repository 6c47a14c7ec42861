/* millrace cancel ID...: publishes one cancel record for each request id. */
#include "worker/cli/cli.h"
#include "worker/cli/cli_common.h"
#include "worker/client/client.h"

#include <string.h>

#define OPEN_TIMEOUT_MS 10000u
#define SEND_TIMEOUT_MS 30000u

int mr_cli_cancel(const struct mr_config *config, struct mr_log *log)
{
    (void)log;
    struct mr_client *client = NULL;
    struct mr_error err = {0};
    struct mr_client_options options = {.config = config,
                                        .timeout_ms = mr_cli_timeout_ms(config, OPEN_TIMEOUT_MS),
                                        .send_timeout_ms =
                                            mr_cli_timeout_ms(config, SEND_TIMEOUT_MS),
                                        .notices = stderr};
    enum mr_status status = MR_OK;
    for (size_t i = 0; i < config->argument_count && status == MR_OK; i++)
        status = mr_cli_check_id(config->arguments[i], &err);
    if (status == MR_OK) status = mr_client_open(&client, &options, &err);
    for (size_t i = 0; i < config->argument_count && status == MR_OK; i++)
        status = mr_client_cancel(
            client, (struct mr_text){config->arguments[i], strlen(config->arguments[i])}, &err);
    mr_client_close(client);
    if (status != MR_OK) return mr_cli_fail(&err);
    fprintf(stderr,
            "sent; a request with this id ends with finish_reason cancelled (millrace tail ID "
            "shows its result), an id without a request has no effect\n");
    return MR_EXIT_DONE;
}
