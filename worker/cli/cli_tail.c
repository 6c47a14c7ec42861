/* millrace tail [ID...]: prints token and result records as they arrive, of all requests or of the
 * named ones. Ends at a signal, after --timeout, or when stdout is closed. Creates no topic: a
 * missing one is an error (exit code 1). */
#include "worker/base/clock.h"
#include "worker/base/printable.h"
#include "worker/cli/cli.h"
#include "worker/cli/cli_common.h"
#include "worker/client/client.h"
#include "worker/client/print_record.h"

#include <inttypes.h>
#include <string.h>

#define OPEN_TIMEOUT_MS 10000u
#define POLL_MS         200u

static bool is_wanted(const struct mr_config *config, struct mr_text id)
{
    for (size_t i = 0; i < config->argument_count; i++)
        if (strlen(config->arguments[i]) == id.length &&
            memcmp(config->arguments[i], id.bytes, id.length) == 0)
            return true;
    return config->argument_count == 0;
}

static void print_event(const struct mr_config *config, const struct mr_client_event *event)
{
    if (config->json) {
        mr_print_json(event->record.value, event->encoding, stdout, NULL);
        return;
    }
    mr_print_escaped(stdout, event->id, "");
    if (event->kind == MR_CLIENT_TOKENS) {
        printf(" #%" PRIu32 ".%" PRIu32 " [%" PRIu32 "] ", event->tokens.attempt,
               event->tokens.choice, event->tokens.index);
        mr_print_escaped(stdout, event->tokens.text, "");
        putchar('\n');
    } else {
        printf(" #%" PRIu32 " ", event->result.attempt);
        mr_print_summary(&event->result, stdout);
    }
    fflush(stdout);
}

int mr_cli_tail(const struct mr_config *config, struct mr_log *log)
{
    (void)log;
    struct mr_cli_signals signals;
    struct mr_client *client = NULL;
    struct mr_error err = {0};
    struct mr_client_options options = {.config = config,
                                        .reads = true,
                                        .from_beginning = config->from_beginning,
                                        .timeout_ms = mr_cli_timeout_ms(config, OPEN_TIMEOUT_MS),
                                        .notices = stderr};
    mr_cli_signals_open(&signals);
    enum mr_status status = mr_client_open(&client, &options, &err);
    uint64_t start_ns = mr_clock_ns();
    struct mr_client_event event;
    while (status == MR_OK && !mr_cli_signals_wait(&signals, -1, 0) && !mr_cli_output_failed()) {
        if (config->timeout_ns > 0 && mr_clock_ns() - start_ns >= config->timeout_ns) break;
        status = mr_client_health(client, &err);
        if (status != MR_OK || !mr_client_take(client, POLL_MS, &event)) continue;
        if (event.kind != MR_CLIENT_OTHER && is_wanted(config, event.id))
            print_event(config, &event);
    }
    mr_client_close(client);
    mr_cli_signals_close(&signals);
    return status == MR_OK ? MR_EXIT_DONE : mr_cli_fail(&err);
}
