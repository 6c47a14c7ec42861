#include "worker/config/config_finish.h"

#include "worker/config/option_apply.h"
#include "worker/config/option_value.h"
#include "worker/config/value_file.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOPIC_BYTES_MAX ((size_t)249)
#define WEIGHT_MAX      1000u
#define QUOTA_MAX       UINT64_C(1000000000000000)
#define NAME_BYTES_MAX  ((size_t)128)

/* Default of --poll-interval-max. Intake polls again within seconds, so only a stuck worker exceeds
 * it. Kafka's default is 5 minutes, but a rebalance can stop the whole fleet for as long. */
#define POLL_INTERVAL_DEFAULT_NS ((uint64_t)60000000000)

/* The option that gives a topic, and the number of its value, for errors. */
struct topic_source {
    const char *option;
    size_t index;
};

static enum mr_status check_topic(const struct mr_config *config, const char *topic,
                                  struct topic_source source, struct mr_error *err)
{
    size_t length = strlen(topic);
    bool invalid = strcmp(topic, ".") == 0 || strcmp(topic, "..") == 0;
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)topic[i]) && !strchr("._-", topic[i])) invalid = true;
    if (length > 0 && length <= TOPIC_BYTES_MAX && !invalid) return MR_OK;
    return mr_option_refuse(config, source.option, source.index, err,
                            "%.64s is not a topic name: 1 to %zu letters, digits, '.', '_' and '-'",
                            topic, TOPIC_BYTES_MAX);
}

/* Checks a name of --reply-topic, which may end in '*'; '*' alone would allow every topic, also
 * those that only workers may write to. */
static enum mr_status check_reply_topic(const struct mr_config *config, size_t index,
                                        struct mr_error *err)
{
    char start[TOPIC_BYTES_MAX + 2];
    const char *name = config->reply_topics.values[index];
    const struct topic_source source = {"reply-topic", index};
    size_t length = strlen(name);
    bool pattern = length > 0 && name[length - 1] == '*';
    if (!pattern || length > TOPIC_BYTES_MAX) return check_topic(config, name, source, err);
    if (length == 1)
        return mr_option_refuse(config, "reply-topic", index, err,
                                "would allow every topic; write at least one letter before *");
    memcpy(start, name, length - 1);
    start[length - 1] = '\0';
    /* '.' and '..' are not topic names, but topic names may begin with them */
    return strspn(start, ".") == length - 1 ? MR_OK : check_topic(config, start, source, err);
}

/* Returns "<prefix>.<suffix>", the default name of a topic. */
static const char *with_prefix(struct mr_config *config, const char *suffix)
{
    char name[512];
    int length = snprintf(name, sizeof name, "%s.%s", config->prefix, suffix);
    if (length < 0 || (size_t)length >= sizeof name) length = (int)sizeof name - 1;
    return mr_option_copy(config, name, (size_t)length);
}

/* option: the one whose field is *topic; without a value the name is made from --prefix. */
static enum mr_status fill_topic(struct mr_config *config, const char **topic, const char *suffix,
                                 const char *option, struct mr_error *err)
{
    const bool given = (*topic)[0] != '\0';
    if (!given) *topic = with_prefix(config, suffix);
    if (!*topic) return mr_fail(err, MR_NOMEM, "no memory for a topic name");
    return check_topic(config, *topic, (struct topic_source){given ? option : "prefix", 0}, err);
}

/* False: the name is not a setting of topics, or its value is invalid. */
static bool apply_topic_setting(struct mr_config *config, struct mr_request_topic *topic,
                                const char *setting, size_t length)
{
    int64_t priority;
    uint64_t weight, tokens;
    const char *text = mr_option_copy(config, setting, length);
    if (!text) return false;
    if (strcmp(text, "strict") == 0) {
        topic->strict = true;
    } else if (strncmp(text, "tenant=", 7) == 0 && text[7]) {
        topic->tenant = text + 7;
    } else if (strncmp(text, "adapter=", 8) == 0 && text[8]) {
        topic->adapter = text + 8;
    } else if (strncmp(text, "priority=", 9) == 0 && mr_parse_int(text + 9, &priority) &&
               priority >= -100 && priority <= 100) {
        topic->priority = (int32_t)priority;
    } else if (strncmp(text, "weight=", 7) == 0 && mr_parse_uint(text + 7, &weight) &&
               weight >= 1 && weight <= WEIGHT_MAX) {
        topic->weight = (uint32_t)weight;
    } else if (strncmp(text, "thinking=", 9) == 0 && mr_parse_uint(text + 9, &tokens) &&
               tokens >= 1 && tokens <= INT32_MAX) {
        topic->thinking_tokens = (uint32_t)tokens;
    } else if (strncmp(text, "queue=", 6) == 0) {
        return mr_parse_duration(text + 6, &topic->queue_limit_ns);
    } else if (strncmp(text, "run=", 4) == 0) {
        return mr_parse_duration(text + 4, &topic->run_limit_ns);
    } else {
        return false;
    }
    return true;
}

/* text: value number `index` of --requests-topic, or the default name. */
static enum mr_status parse_topic(struct mr_config *config, const char *text, size_t index,
                                  struct mr_error *err)
{
    struct mr_request_topic *topic = &config->request_topics[index];
    const bool given = config->requests_topic.count > 0;
    size_t length = strcspn(text, ",");
    *topic = (struct mr_request_topic){.name = mr_option_copy(config, text, length),
                                       .tenant = MR_TENANT_DEFAULT,
                                       .strict = config->strict};
    if (!topic->name) return mr_fail(err, MR_NOMEM, "no memory for a topic");
    const struct topic_source source = {given ? "requests-topic" : "prefix", given ? index : 0};
    enum mr_status status = check_topic(config, topic->name, source, err);
    while (status == MR_OK && text[length] == ',') {
        text += length + 1;
        length = strcspn(text, ",");
        if (!apply_topic_setting(config, topic, text, length))
            status = mr_option_refuse(
                config, source.option, source.index, err,
                "%.*s is none of priority=-100..100, weight=1..%u, "
                "tenant=NAME, queue=TIME, run=TIME, thinking=N, adapter=NAME, strict",
                (int)(length < 64 ? length : 64), text, WEIGHT_MAX);
    }
    return status;
}

static enum mr_status fill_request_topics(struct mr_config *config, struct mr_error *err)
{
    const char *fallback = with_prefix(config, "requests");
    if (!fallback) return mr_fail(err, MR_NOMEM, "no memory for a topic name");
    size_t count = config->requests_topic.count;
    config->request_topic_count = count ? count : 1;
    for (size_t i = 0; i < config->request_topic_count; i++) {
        const char *text = count ? config->requests_topic.values[i] : fallback;
        enum mr_status status = parse_topic(config, text, i, err);
        if (status != MR_OK) return status;
        for (size_t k = 0; k < i; k++)
            if (strcmp(config->request_topics[k].name, config->request_topics[i].name) == 0)
                return mr_option_refuse(config, "requests-topic", i, err,
                                        "this topic is given twice; leave out one");
    }
    return MR_OK;
}

/* Numbers the tenants in the order in which their names first appear in the request topics. */
static void fill_tenants(struct mr_config *config)
{
    config->tenant_count = 0;
    for (size_t i = 0; i < config->request_topic_count; i++) {
        struct mr_request_topic *topic = &config->request_topics[i];
        size_t same = 0;
        while (strcmp(config->request_topics[same].tenant, topic->tenant) != 0)
            same++;
        if (same == i) config->tenant_weights[config->tenant_count] = 1;
        topic->tenant_index =
            same == i ? config->tenant_count++ : config->request_topics[same].tenant_index;
    }
}

/* The first topic of the tenant whose name is the first `length` bytes of text;
 * request_topic_count: there is none. */
static size_t find_tenant(const struct mr_config *config, const char *text, size_t length)
{
    const struct mr_request_topic *topics = config->request_topics;
    size_t k = 0;
    while (k < config->request_topic_count &&
           (strncmp(topics[k].tenant, text, length) != 0 || topics[k].tenant[length] != '\0'))
        k++;
    return k;
}

static enum mr_status fill_tenant_weights(struct mr_config *config, struct mr_error *err)
{
    for (size_t i = 0; i < config->tenant_weight.count; i++) {
        const char *text = config->tenant_weight.values[i];
        size_t length = strcspn(text, "=");
        uint64_t weight;
        if (text[length] != '=' || !mr_parse_uint(text + length + 1, &weight) || weight < 1 ||
            weight > WEIGHT_MAX)
            return mr_option_refuse(config, "tenant-weight", i, err,
                                    "is not TENANT=N with N from 1 to %u", WEIGHT_MAX);
        const size_t k = find_tenant(config, text, length);
        if (k == config->request_topic_count)
            return mr_option_refuse(config, "tenant-weight", i, err,
                                    "no --requests-topic has tenant=%.*s",
                                    (int)(length < 64 ? length : 64), text);
        config->tenant_weights[config->request_topics[k].tenant_index] = (uint32_t)weight;
    }
    return MR_OK;
}

static enum mr_status fill_tenant_quotas(struct mr_config *config, struct mr_error *err)
{
    for (size_t i = 0; i < config->tenant_quota.count; i++) {
        const char *text = config->tenant_quota.values[i];
        const size_t length = strcspn(text, "=");
        const char *number = text + length + (text[length] == '=');
        const size_t digits = strcspn(number, "/");
        const bool minute = strcmp(number + digits, "/minute") == 0;
        const char *copy = mr_option_copy(config, number, digits);
        uint64_t tokens;
        if (!copy) return mr_fail(err, MR_NOMEM, "no memory for a quota");
        if (number == text + length || (!minute && strcmp(number + digits, "/day") != 0) ||
            !mr_parse_uint(copy, &tokens) || tokens < 1 || tokens > QUOTA_MAX)
            return mr_option_refuse(
                config, "tenant-quota", i, err,
                "is not TENANT=N/minute or TENANT=N/day with N from 1 to 10^15");
        const size_t k = find_tenant(config, text, length);
        if (k == config->request_topic_count)
            return mr_option_refuse(config, "tenant-quota", i, err,
                                    "no --requests-topic has tenant=%.*s",
                                    (int)(length < 64 ? length : 64), text);
        (minute ? config->minute_quotas
                : config->day_quotas)[config->request_topics[k].tenant_index] = tokens;
    }
    return MR_OK;
}

static enum mr_status fill_topics(struct mr_config *config, struct mr_error *err)
{
    enum mr_status status = fill_request_topics(config, err);
    if (status == MR_OK) fill_tenants(config);
    if (status == MR_OK) status = fill_tenant_weights(config, err);
    if (status == MR_OK) status = fill_tenant_quotas(config, err);
    if (status == MR_OK)
        status = fill_topic(config, &config->tokens_topic, "tokens", "tokens-topic", err);
    if (status == MR_OK)
        status = fill_topic(config, &config->results_topic, "results", "results-topic", err);
    if (status == MR_OK)
        status = fill_topic(config, &config->cancel_topic, "cancel", "cancel-topic", err);
    if (status == MR_OK) status = fill_topic(config, &config->dlq_topic, "dlq", "dlq-topic", err);
    if (config->reply_topics.count == 0)
        config->reply_topics = (struct mr_text_list){{with_prefix(config, "replies")}, 1};
    for (size_t i = 0; i < config->reply_topics.count && status == MR_OK; i++)
        status = check_reply_topic(config, i, err);
    return status;
}

/* If no model name is given, sets it to the last part of the model's path, without ".gguf". */
static void fill_model_name(struct mr_config *config)
{
    size_t end = strlen(config->model);
    while (end > 1 && config->model[end - 1] == '/')
        end--;
    size_t start = end;
    while (start > 0 && config->model[start - 1] != '/')
        start--;
    size_t length = end - start;
    if (length > 5 && strncmp(config->model + end - 5, ".gguf", 5) == 0) length -= 5;
    const char *name = mr_option_copy(config, config->model + start, length);
    if (name) config->model_name = name;
}

static void fill_worker_id(struct mr_config *config)
{
    char host[128] = "", name[160];
    if (gethostname(host, sizeof host - 1) != 0 || !host[0]) memcpy(host, "worker", 7);
    int length = snprintf(name, sizeof name, "%s-%ld", host, (long)getpid());
    const char *copy = mr_option_copy(config, name, (size_t)length);
    if (copy) config->worker_id = copy;
}

static enum mr_status check_device(const struct mr_config *config, struct mr_error *err)
{
    uint64_t index;
    const char *device = config->device;
    bool known = strcmp(device, "cpu") == 0 || strcmp(device, "cuda") == 0 ||
                 (strncmp(device, "cuda:", 5) == 0 && mr_parse_uint(device + 5, &index));
    return known ? MR_OK
                 : mr_option_refuse(config, "device", 0, err, "is none of cpu, cuda, cuda:N");
}

static enum mr_status check_http(struct mr_config *config, struct mr_error *err)
{
    uint64_t port;
    /* demo gets no HTTP port, so that two demos can run at the same time */
    bool serves = config->command == MR_COMMAND_SERVE || config->command == MR_COMMAND_CHECK;
    if (!serves || strcmp(config->http, "off") == 0) config->http = "";
    const char *colon = strrchr(config->http, ':');
    if (!config->http[0]) return MR_OK;
    if (!colon || colon == config->http || !mr_parse_uint(colon + 1, &port) || port > 65535)
        return mr_option_refuse(config, "http", 0, err,
                                "is neither HOST:PORT, with a port from 0 to 65535, nor off");
    return MR_OK;
}

/* Checks the ports in "HOST:PORT,HOST:PORT", because a placeholder such as the word PORT would
 * otherwise be a broker that never answers. librdkafka also accepts a host without a port, and
 * PROTOCOL://HOST:PORT. */
static enum mr_status check_brokers(const struct mr_config *config, struct mr_error *err)
{
    for (const char *at = config->brokers; *at;) {
        size_t length = strcspn(at, ",");
        const char *scheme = memmem(at, length, "://", 3), *end = at + length;
        const char *host = scheme ? scheme + 3 : at;
        const char *bracket = memchr(host, ']', (size_t)(end - host));
        const char *colon = memrchr(host, ':', (size_t)(end - host));
        char *rest = NULL;
        bool has_port = colon && (!bracket || colon > bracket);
        unsigned long port = has_port ? strtoul(colon + 1, &rest, 10) : 1;
        if (host == end || colon == host || port == 0 || port > 65535 ||
            (has_port && (rest != end || !isdigit((unsigned char)colon[1]))))
            return mr_option_refuse(config, "brokers", 0, err,
                                    "%.*s is not HOST:PORT, with a port from 1 to 65535",
                                    (int)(length < 64 ? length : 64), at);
        at = end + (*end == ',');
    }
    return MR_OK;
}

/* In a --kafka property, replaces NAME=@FILE by the content of the file and NAME=env:VARIABLE by
 * the variable's value; so secrets need not be on the command line. NAME=@@TEXT means the value
 * "@TEXT". */
static enum mr_status fill_property(struct mr_config *config, size_t index, struct mr_error *err)
{
    const char **property = &config->kafka.values[index];
    char text[MR_VALUE_FILE_BYTES + NAME_BYTES_MAX];
    const char *given = strchr(*property, '=') + 1;
    size_t name = (size_t)(given - *property), length = 0;
    bool file = given[0] == '@' && given[1] != '@', variable = strncmp(given, "env:", 4) == 0;
    if (!file && !variable && given[0] != '@') return MR_OK;
    if (name > NAME_BYTES_MAX)
        return mr_option_refuse(config, "kafka", index, err, "the property's name is too long");
    memcpy(text, *property, name);
    enum mr_status status = MR_OK;
    struct mr_error inner = {0};
    const char *value = variable ? getenv(given + 4) : given + 1;
    if (!value)
        return mr_option_refuse(config, "kafka", index, err,
                                "the environment variable %.64s is not set", given + 4);
    if (file)
        status = mr_value_file_read(given + 1, text + name, &length, &inner);
    else
        length = (size_t)snprintf(text + name, MR_VALUE_FILE_BYTES, "%s", value);
    if (status != MR_OK) return mr_option_refuse(config, "kafka", index, err, "%s", inner.detail);
    if (length >= MR_VALUE_FILE_BYTES)
        return mr_option_refuse(config, "kafka", index, err, "the value is longer than %zu bytes",
                                MR_VALUE_FILE_BYTES);
    *property = mr_option_copy(config, text, name + length);
    return *property ? MR_OK : mr_fail(err, MR_BAD_CONFIG, "kafka: the values are too long");
}

static enum mr_status fill_properties(struct mr_config *config, struct mr_error *err)
{
    config->kafka_given = config->kafka;
    for (size_t i = 0; i < config->kafka.count; i++) {
        const char *equals = strchr(config->kafka.values[i], '=');
        if (!equals || equals == config->kafka.values[i])
            return mr_option_refuse(config, "kafka", i, err, "is not NAME=VALUE");
        enum mr_status status = fill_property(config, i, err);
        if (status != MR_OK) return status;
    }
    return MR_OK;
}

/* Refuses --redis-kv int8 with --deterministic: with int8 an answer depends on which blocks Redis
 * has. With --kv-dtype int8 the exact form of a block is int8 already. */
static enum mr_status check_redis_kv(struct mr_config *config, struct mr_error *err)
{
    if (!config->redis[0] || config->kv_dtype == MR_KV_DTYPE_INT8)
        config->redis_kv = MR_REDIS_KV_EXACT;
    if (config->redis_kv == MR_REDIS_KV_EXACT || !config->deterministic) return MR_OK;
    return mr_fail(err, MR_BAD_CONFIG,
                   "--deterministic and --redis-kv int8 exclude each other: an answer would depend "
                   "on which blocks Redis has; use --redis-kv exact");
}

/* A rebalance of the group waits for a revocation that drains, for at most --poll-interval-max. So
 * --poll-interval-max must be at least twice --revoke-timeout. If it is not set, it becomes the
 * longest of its default, the session timeout (librdkafka refuses less) and twice
 * --revoke-timeout. */
static enum mr_status fill_poll_interval(struct mr_config *config, struct mr_error *err)
{
    const bool drain = config->on_revoke == MR_ON_REVOKE_DRAIN;
    const uint64_t least_ns = drain ? 2 * config->revoke_timeout_ns : 0;
    uint64_t *interval_ns = &config->poll_interval_max_ns;
    if (*interval_ns == 0) {
        *interval_ns = POLL_INTERVAL_DEFAULT_NS;
        if (*interval_ns < config->session_timeout_ns) *interval_ns = config->session_timeout_ns;
        if (*interval_ns < least_ns) *interval_ns = least_ns;
    }
    if (*interval_ns >= least_ns) return MR_OK;
    return mr_fail(err, MR_BAD_CONFIG,
                   "--revoke-timeout is more than half of --poll-interval-max; lower the first or "
                   "raise the second");
}

/* Checks that the options and arguments are given that the command requires. */
static enum mr_status check_needs(const struct mr_config *config, struct mr_error *err)
{
    static const uint32_t need_model = 1u << MR_COMMAND_SERVE | 1u << MR_COMMAND_TOKENIZE;
    static const uint32_t need_brokers =
        1u << MR_COMMAND_SERVE | 1u << MR_COMMAND_SEND | 1u << MR_COMMAND_TAIL |
        1u << MR_COMMAND_CANCEL | 1u << MR_COMMAND_REPLAY | 1u << MR_COMMAND_TOPICS |
        1u << MR_COMMAND_LAG | 1u << MR_COMMAND_BATCH | 1u << MR_COMMAND_GATEWAY;
    bool bench = config->command == MR_COMMAND_BENCH;
    bool alone = config->engine || config->cache;
    bool model = need_model >> config->command & 1u || (bench && alone);
    bool brokers = need_brokers >> config->command & 1u || (bench && !alone && !config->compare);
    const struct mr_command_entry *command = &mr_commands[config->command];
    if (model && !config->model[0])
        return mr_fail(err, MR_BAD_CONFIG,
                       "%s needs --model PATH, or the variable MILLRACE_MODEL, or `model` in the "
                       "file of --config",
                       command->name);
    if (brokers && !config->brokers[0])
        return mr_fail(
            err, MR_BAD_CONFIG,
            "%s needs --brokers HOST:PORT, or the variable MILLRACE_BROKERS, or `brokers` "
            "in the file of --config",
            command->name);
    if (bench && config->argument_count != (config->compare ? 2 : 0))
        return mr_fail(err, MR_BAD_CONFIG,
                       "bench takes two files with --compare, and no argument without it; see "
                       "millrace bench --help");
    return mr_config_check_arguments(config, err);
}

/* The reply topic of a gateway is one topic, and TLS needs both files. */
static enum mr_status check_gateway(const struct mr_config *config, struct mr_error *err)
{
    const char *topic = config->reply_topics.values[0];
    if (config->command != MR_COMMAND_GATEWAY) return MR_OK;
    if (config->reply_topics.count != 1 || strchr(topic, '*'))
        return mr_option_refuse(config, "reply-topic", 0, err, "must be one topic for gateway");
    if (!config->tls_cert[0] != !config->tls_key[0])
        return mr_fail(err, MR_BAD_CONFIG, "--tls-cert and --tls-key need each other");
    return MR_OK;
}

enum mr_status mr_config_check_arguments(const struct mr_config *config, struct mr_error *err)
{
    const struct mr_command_entry *command = &mr_commands[config->command];
    if (config->argument_count > command->argument_max)
        return mr_fail(err, MR_BAD_CONFIG,
                       "%s takes no argument %.64s: options begin with --; see millrace %s --help",
                       command->name, config->arguments[command->argument_max], command->name);
    if (config->argument_count < command->argument_min)
        return mr_fail(err, MR_BAD_CONFIG, "usage: millrace %s [options] %s", command->name,
                       command->arguments);
    return MR_OK;
}

enum mr_status mr_config_finish(struct mr_config *config, struct mr_error *err)
{
    enum mr_status status = fill_topics(config, err);
    if (status == MR_OK) status = check_device(config, err);
    if (status == MR_OK) status = check_http(config, err);
    if (status == MR_OK) status = check_brokers(config, err);
    if (status == MR_OK) status = check_redis_kv(config, err);
    if (status == MR_OK) status = fill_poll_interval(config, err);
    if (status == MR_OK) status = check_gateway(config, err);
    if (status == MR_OK) status = fill_properties(config, err);
    if (status == MR_OK && !config->print_config) status = check_needs(config, err);
    if (status != MR_OK) return status;
    config->kv_memory_given =
        mr_option_origin(config, mr_option_find("kv-memory")) != MR_ORIGIN_DEFAULT;
    if (!config->model_name[0]) fill_model_name(config);
    if (!config->worker_id[0]) fill_worker_id(config);
    return MR_OK;
}
