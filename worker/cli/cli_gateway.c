/* millrace gateway: serves OpenAI's HTTP API until a signal; SIGHUP reads the key file again. */
#include "worker/cli/cli.h"
#include "worker/cli/cli_common.h"
#include "worker/gateway/gateway.h"

int mr_cli_gateway(const struct mr_config *config, struct mr_log *log)
{
    struct mr_cli_signals signals;
    struct mr_gateway *gateway = NULL;
    struct mr_error err = {0};
    unsigned hangups = 0;
    mr_cli_signals_open(&signals);
    mr_cli_signals_watch_hangups(&signals);
    const enum mr_status status = mr_gateway_start(&gateway, config, log, &err);
    int code = MR_EXIT_DONE;
    if (status == MR_OK) {
        mr_log_event(log, MR_LOG_INFO, NULL, "gateway ready",
                     MR_LOG_NUMBER("port", mr_gateway_port(gateway)),
                     MR_LOG_STRING("reply_topic", config->reply_topics.values[0]),
                     MR_LOG_NUMBER("reply_partition", mr_gateway_reply_partition(gateway)));
        while (!mr_cli_signals_wait(&signals, -1, 500)) {
            if (signals.hangups == hangups) continue;
            hangups = signals.hangups;
            mr_gateway_reload(gateway);
        }
        mr_log_info(log, "gateway stopping");
        mr_gateway_stop(gateway, (uint32_t)(config->drain_timeout_ns / 1000000));
    } else {
        code = mr_cli_fail(&err);
    }
    mr_cli_signals_close(&signals);
    return code;
}
