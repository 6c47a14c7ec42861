/* millrace - answers LLM requests from Kafka topics. worker/cli/cli.h has the commands. */
#include "worker/cli/cli.h"

#include <signal.h>
#include <unistd.h>

int main(int argc, char *argv[])
{
    struct mr_error err = {0};
    struct mr_config *config = NULL;
    signal(SIGPIPE, SIG_IGN);
    if (mr_config_create(&config, argc, argv, environ, &err) != MR_OK)
        return mr_cli_refuse(argc, argv, &err);
    int code = mr_cli_run(config);
    mr_config_destroy(config);
    return code;
}
