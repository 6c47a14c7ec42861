#include "worker/client/outage.h"

#include "worker/base/clock.h"

#include <string.h>

#define ASK_NS ((uint64_t)1000000000)

void mr_outage_init(struct mr_outage *outage, FILE *out)
{
    *outage = (struct mr_outage){.out = out};
}

static void on_failed(void *context, bool unreachable, const char *reason)
{
    struct mr_outage *outage = context;
    if (!unreachable) snprintf(outage->reason, sizeof outage->reason, "%s", reason);
    if (!unreachable || outage->suspected) return;
    outage->suspected = true;
    outage->ask_ns = mr_clock_ns() + ASK_NS;
    if (!outage->reason[0]) snprintf(outage->reason, sizeof outage->reason, "%s", reason);
}

static void on_log(void *context, enum mr_log_level level, const char *text)
{
    const struct mr_outage *outage = context;
    (void)level;
    fprintf(outage->out, "%s\n", text);
}

void mr_outage_watch(struct mr_outage *outage, struct mr_kafka_options *kafka)
{
    const struct mr_text_list *properties = kafka->properties;
    kafka->failed = on_failed;
    kafka->log_context = outage;
    for (size_t i = 0; outage->out && properties && i < properties->count; i++)
        if (strncmp(properties->values[i], "debug=", 6) == 0) kafka->log = on_log;
}

bool mr_outage_must_ask(const struct mr_outage *outage, uint64_t now_ns)
{
    return outage->suspected && now_ns >= outage->ask_ns;
}

void mr_outage_answer(struct mr_outage *outage, bool answers, uint64_t now_ns)
{
    outage->ask_ns = now_ns + ASK_NS;
    if (!answers && !outage->announced && outage->out)
        fprintf(outage->out, "millrace: broker away: %s; waiting\n", outage->reason);
    if (answers && outage->announced && outage->out)
        fputs("millrace: the broker is back\n", outage->out);
    outage->announced = !answers;
    if (!answers) return;
    outage->suspected = false;
    outage->reason[0] = '\0';
}
