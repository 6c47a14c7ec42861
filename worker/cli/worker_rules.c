#include "worker/cli/worker_rules.h"

#include "worker/config/topics.h"

#include <stdio.h>
#include <string.h>

#define MEBIBYTE       1048576.0
#define TEXT_BYTES     512
#define PRODUCER_BYTES ((uint64_t)128 << 20) /* worker/kafka/kafka_out.h */
#define REDIS_BYTES    ((uint64_t)256 << 20)
#define OTHER_BYTES    ((uint64_t)100 << 20)
/* the time that Kubernetes gives a container between SIGTERM and SIGKILL by default */
#define GRACE_NS ((uint64_t)30000000000)

/* ---- combinations ---- */

/* Whether this value of --reply-topic allows the topic. */
static bool allows(const char *pattern, const char *topic)
{
    const char *star = strchr(pattern, '*');
    size_t length = star ? (size_t)(star - pattern) : strlen(pattern) + 1;
    return strncmp(pattern, topic, length) == 0;
}

static void check_reply_topics(const struct mr_config *config, mr_worker_rules_report *report,
                               void *context)
{
    struct mr_topic topic;
    char text[TEXT_BYTES];
    for (size_t i = 0; i < config->reply_topics.count; i++)
        for (size_t k = 0; mr_topics_at(config, k, &topic); k++) {
            if (!allows(config->reply_topics.values[i], topic.name)) continue;
            snprintf(text, sizeof text,
                     "--reply-topic %s allows %s, so a producer can have copies of results written "
                     "there; use a separate prefix for reply topics",
                     config->reply_topics.values[i], topic.name);
            report(context, text);
            break;
        }
}

static bool is_loopback(const char *address)
{
    return strstr(address, "//127.") || strstr(address, "//localhost") ||
           strstr(address, "@127.") || strstr(address, "@localhost") || strstr(address, "unix:");
}

static void check_redis(const struct mr_config *config, mr_worker_rules_report *report,
                        void *context)
{
    if (!config->redis[0]) return;
    if (!config->redis_key_file[0])
        report(context,
               "--redis without --redis-key-file: anyone who can read Redis can read prompts, "
               "and anyone who can write to it can change what the model reads; a key "
               "encrypts and signs the values");
    else if (strncmp(config->redis, "redis://", 8) == 0 && !is_loopback(config->redis) &&
             strchr(config->redis, '@'))
        report(context, "--redis redis:// sends the password in clear over the network; use "
                        "rediss://");
}

void mr_worker_rules_check(const struct mr_config *config, bool worker_id_given,
                           mr_worker_rules_report *report, void *context)
{
    if (config->delivery == MR_DELIVERY_EXACTLY_ONCE && !worker_id_given)
        report(context,
               "exactly-once without --worker-id: its default changes at each start, so a "
               "restarted worker cannot end the transaction that a crash left open, and readers of "
               "committed records wait for its timeout; set a permanent name for each worker");
    if (config->group_instance[0] && !worker_id_given)
        report(context, "--group-instance without --worker-id: the group member keeps its name "
                        "across restarts, but the worker's name in results changes; set both");
    if (config->duplicate_id == MR_DUPLICATE_ID_RUN)
        report(context, "--duplicate-id run: two requests under one id both run, and readers must "
                        "distinguish their results by `source`");
    if (config->drain_timeout_ns + 5000000000u > GRACE_NS)
        report(context, "--drain-timeout and 5 seconds are more than 30 seconds, after which "
                        "Kubernetes kills a container by default: set "
                        "terminationGracePeriodSeconds, or TimeoutStopSec of systemd, above it");
    check_reply_topics(config, report, context);
    check_redis(config, report, context);
}

/* ---- memory ---- */

uint64_t mr_worker_rules_memory(const struct mr_config *config, const struct mr_model_plan *plan)
{
    const uint64_t model = plan->device_bytes > 0 ? 0 : plan->weight_bytes + plan->kv_pool_bytes;
    const uint64_t producers = config->delivery == MR_DELIVERY_EXACTLY_ONCE ? 2 : 1;
    return model + config->queue_bytes + config->prefetch_bytes + producers * PRODUCER_BYTES +
           (config->redis[0] ? REDIS_BYTES : 0) + OTHER_BYTES;
}

/* The same for a GPU: the model is in the GPU's memory, the rest in the process's. */
static bool fits_gpu(const struct mr_model_plan *plan, double process_mib, char *text,
                     size_t text_bytes, int *length)
{
    const uint64_t needed = plan->weight_bytes + plan->kv_pool_bytes;
    *length =
        snprintf(text, text_bytes,
                 "%.0f MiB at most for queues; on the GPU weights of %.0f MiB and a KV pool "
                 "of %.0f MiB, where %.0f MiB are free%s",
                 process_mib, (double)plan->weight_bytes / MEBIBYTE,
                 (double)plan->kv_pool_bytes / MEBIBYTE, (double)plan->device_bytes / MEBIBYTE,
                 needed <= plan->device_bytes ? "" : ": the model is too large for it");
    return needed <= plan->device_bytes;
}

bool mr_worker_rules_fits(const struct mr_config *config, const struct mr_model_plan *plan,
                          const struct mr_machine *machine, char *text, size_t text_bytes)
{
    uint64_t needed = mr_worker_rules_memory(config, plan);
    uint64_t usable = mr_machine_usable_bytes(machine);
    bool fits = usable == 0 || needed <= usable, fits_device = true;
    int length = 0;
    if (plan->device_bytes > 0)
        fits_device = fits_gpu(plan, (double)needed / MEBIBYTE, text, text_bytes, &length);
    else
        length = snprintf(text, text_bytes,
                          "%.0f MiB at most (weights %.0f, KV pool %.0f, the rest is queues)",
                          (double)needed / MEBIBYTE, (double)plan->weight_bytes / MEBIBYTE,
                          (double)plan->kv_pool_bytes / MEBIBYTE);
    if (usable > 0 && length > 0 && (size_t)length < text_bytes)
        snprintf(text + length, text_bytes - (size_t)length, "; %s is %.0f MiB%s",
                 machine->memory_limit_bytes > 0 ? "the limit of the control group"
                                                 : "the machine's memory",
                 (double)usable / MEBIBYTE,
                 fits ? "" : ": lower --kv-memory or --queue-bytes, or raise the limit");
    return fits && fits_device;
}

/* ---- rights ---- */

static const char *operations_of(enum mr_topic_role role)
{
    switch (role) {
    case MR_TOPIC_TOKENS:
        return "Write";
    case MR_TOPIC_RESULTS:
    case MR_TOPIC_DLQ:
        return "Read, Write";
    default:
        return "Read";
    }
}

void mr_worker_rules_rights(const struct mr_config *config, mr_worker_rules_report *report,
                            void *context)
{
    struct mr_topic topic;
    char text[TEXT_BYTES];
    for (size_t i = 0; mr_topics_at(config, i, &topic); i++) {
        snprintf(text, sizeof text, "%s on topic %s", operations_of(topic.role), topic.name);
        report(context, text);
    }
    for (size_t i = 0; i < config->reply_topics.count; i++) {
        const char *name = config->reply_topics.values[i], *star = strchr(name, '*');
        snprintf(text, sizeof text, "Write on %s %.*s", star ? "topics that begin with" : "topic",
                 (int)(star ? star - name : (int)strlen(name)), name);
        report(context, text);
    }
    snprintf(text, sizeof text, "Read on group %s", config->group);
    report(context, text);
    if (config->delivery != MR_DELIVERY_EXACTLY_ONCE) return;
    snprintf(text, sizeof text, "Write, Describe on transactional ids that begin with millrace-%s-",
             config->group);
    report(context, text);
}
