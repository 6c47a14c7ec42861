#include "worker/serve/banner.h"

#include "worker/base/version.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void print_topics(const struct mr_config *config, FILE *out)
{
    for (size_t i = 0; i < config->request_topic_count; i++)
        fprintf(out, "%s%s", i > 0 ? ", " : "", config->request_topics[i].name);
}

static void print_threads(const struct mr_banner *banner, FILE *out)
{
    fprintf(out, "%" PRIu32 " threads (%" PRIu32 " cores", banner->thread_count,
            banner->machine->core_count);
    if (banner->machine->cpu_quota > 0)
        fprintf(out, ", CPU quota %.4g", banner->machine->cpu_quota);
    fprintf(out, ")\n");
}

static void print_model(const struct mr_banner *banner, FILE *out)
{
    const struct mr_model_info *model = banner->model;
    fprintf(out, "  model    %s (%s%s%s, %.0f M parameters%s)\n", banner->config->model_name,
            model->architecture, model->file_type ? " in " : "",
            model->file_type ? model->file_type : "", (double)model->parameter_count / 1e6,
            model->text_only ? "; text only, its other parts are not loaded" : "");
    fprintf(out, "  compute  %s %s%s, ", model->device, model->dtype,
            banner->config->deterministic ? ", deterministic" : "");
    print_threads(banner, out);
    uint64_t pool_tokens = (uint64_t)model->block_count * MR_BLOCK_TOKENS;
    fprintf(out, "  KV pool  %" PRIu64 " tokens (%.0f MiB", pool_tokens,
            (double)model->kv_pool_bytes / 1048576.0);
    uint64_t limit = banner->machine->memory_limit_bytes;
    if (limit > 0) fprintf(out, ", memory limit %.0f MiB", (double)limit / 1048576.0);
    fprintf(out, "), longest sequence %" PRIu32 "\n", banner->context_tokens);
}

/* Length of the host in an address HOST:PORT. */
static int host_length(const char *address)
{
    const char *colon = strrchr(address, ':');
    return colon ? (int)(colon - address) : (int)strlen(address);
}

void mr_banner_print(const struct mr_banner *banner, FILE *out)
{
    const struct mr_config *config = banner->config;
    fprintf(out, "millrace %s, worker %s\n", mr_version, config->worker_id);
    print_model(banner, out);
    fprintf(out, "  Kafka    %.200s%s\n", banner->brokers,
            banner->embedded ? " (embedded test broker: in memory, 5 MiB a partition)" : "");
    fprintf(out, "  reads    ");
    print_topics(config, out);
    fprintf(out, " (%" PRIu32 " partitions), cancel %s\n", banner->partition_count,
            config->cancel_topic);
    fprintf(out, "  writes   %s, %s, %s\n", config->tokens_topic, config->results_topic,
            config->dlq_topic);
    fprintf(out, "  group    %s\n", config->group);
    if (banner->http_port > 0)
        fprintf(out, "  http     http://%.*s:%u /livez /readyz /metrics\n",
                host_length(config->http), config->http, banner->http_port);
    fprintf(out, "started in %.1f s\n", banner->start_seconds);
    fflush(out);
}

void mr_banner_print_ready(const struct mr_banner_ready *ready, FILE *out)
{
    fprintf(out, "ready in %.1f s (start %.1f s, Kafka group %.1f s)\n",
            ready->start_seconds + ready->group_seconds, ready->start_seconds,
            ready->group_seconds);
    fflush(out);
}

void mr_banner_log_ready(const struct mr_banner_ready *ready, struct mr_log *log)
{
    mr_log_event(log, MR_LOG_INFO, NULL, "ready",
                 MR_LOG_NUMBER("seconds", ready->start_seconds + ready->group_seconds),
                 MR_LOG_NUMBER("start_seconds", ready->start_seconds),
                 MR_LOG_NUMBER("group_seconds", ready->group_seconds));
}

void mr_banner_log(const struct mr_banner *banner, struct mr_log *log)
{
    const struct mr_config *config = banner->config;
    const struct mr_model_info *model = banner->model;
    char *topics = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&topics, &length);
    if (out) print_topics(config, out);
    if (out && fclose(out) == 0)
        mr_log_event(
            log, MR_LOG_INFO, NULL, "started", MR_LOG_NUMBER("seconds", banner->start_seconds),
            MR_LOG_STRING("version", mr_version), MR_LOG_STRING("model", config->model_name),
            MR_LOG_STRING("architecture", model->architecture),
            MR_LOG_NUMBER("parameters", model->parameter_count),
            MR_LOG_STRING("device", model->device), MR_LOG_STRING("dtype", model->dtype),
            MR_LOG_NUMBER("threads", banner->thread_count),
            MR_LOG_NUMBER("kv_pool_tokens", (uint64_t)model->block_count * MR_BLOCK_TOKENS),
            MR_LOG_NUMBER("context_tokens", banner->context_tokens),
            MR_LOG_STRING("brokers", banner->brokers),
            MR_LOG_NUMBER("embedded_broker", banner->embedded),
            MR_LOG_STRING("request_topics", topics),
            MR_LOG_NUMBER("partitions", banner->partition_count),
            MR_LOG_STRING("group", config->group), MR_LOG_STRING("http", config->http),
            MR_LOG_NUMBER("http_port", banner->http_port));
    free(topics);
}
