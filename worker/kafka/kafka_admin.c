#include "worker/kafka/kafka_admin.h"

#include "worker/base/clock.h"
#include "worker/kafka/kafka_client.h"
#include "worker/kafka/kafka_mock.h"

#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define REASON_BYTES ((size_t)160)

struct mr_kafka_admin {
    /* must be the first field: callbacks in kafka_conf.c read it */
    const struct mr_kafka_options *kafka;
    rd_kafka_t *rk;
    bool embedded, refused;
    char reason[REASON_BYTES]; /* the last connection error; "": no error so far */
};

#define TOPIC_POLL_MS 50u
#define PROBE_POLL_MS 100u
#define CREATE_TRY_MS 2000u
#define UUID_LENGTH   36u
#define VERSION_2_6_1 0x020601ff

static void on_log(const rd_kafka_t *rk, int level, const char *facility, const char *text)
{
    (void)level;
    const struct mr_kafka_admin *admin = rd_kafka_opaque(rk);
    char line[512];
    snprintf(line, sizeof line, "kafka %s: %s", facility, text);
    if (admin->kafka->log) admin->kafka->log(admin->kafka->log_context, MR_LOG_DEBUG, line);
}

/* Stores only REASON of librdkafka's text "sasl_ssl://HOST:PORT/bootstrap: REASON (after 3ms in
 * state AUTH_REQ)". */
static void store_reason(struct mr_kafka_admin *admin, const char *reason)
{
    const char *colon = strstr(reason, "/bootstrap: ");
    const char *from = colon ? strchr(colon, ' ') + 1 : reason;
    const char *after = strstr(from, " (after ");
    size_t length = after ? (size_t)(after - from) : strlen(from);
    snprintf(admin->reason, sizeof admin->reason, "%.*s", (int)length, from);
}

/* Returns the stored reason of the connection error. librdkafka before 2.6.1 sends its SCRAM nonce
 * twice, which Kafka 4 rejects; the text for that case names the fix. */
static const char *reason_of(const struct mr_kafka_admin *admin)
{
    const struct mr_text_list *list = admin->kafka->properties;
    bool old = admin->refused && rd_kafka_version() < VERSION_2_6_1;
    for (size_t i = 0; old && list && i < list->count; i++)
        if (strstr(list->values[i], "=SCRAM-"))
            return "login refused; with Kafka 4, SCRAM needs librdkafka 2.6.1 or later; PLAIN "
                   "works "
                   "with every version";
    return admin->reason;
}

/* librdkafka retries after every error; the field refused marks an error that a retry cannot
 * change. */
static void on_error(rd_kafka_t *rk, int code, const char *reason, void *opaque)
{
    (void)rk;
    struct mr_kafka_admin *admin = opaque;
    if (code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN || admin->refused) return;
    /* With TLS 1.3 the broker rejects our client certificate only after the handshake, by a TLS
     * alert. */
    admin->refused = code == RD_KAFKA_RESP_ERR__AUTHENTICATION || code == RD_KAFKA_RESP_ERR__SSL ||
                     strstr(reason, "SSL alert number");
    store_reason(admin, reason);
}

enum mr_status mr_kafka_admin_open(struct mr_kafka_admin **out,
                                   const struct mr_kafka_options *options, struct mr_error *err)
{
    *out = NULL;
    struct mr_kafka_admin *admin = calloc(1, sizeof *admin);
    if (!admin) return mr_fail(err, MR_NOMEM, "no memory for a Kafka client");
    admin->kafka = options;
    rd_kafka_conf_t *conf = NULL;
    enum mr_status status = mr_kafka_conf_create(&conf, MR_KAFKA_PRODUCER, options, admin, err);
    if (status == MR_OK) {
        rd_kafka_conf_set_log_cb(conf, on_log);
        rd_kafka_conf_set_error_cb(conf, on_error);
        status = mr_kafka_conf_open(&admin->rk, conf, MR_KAFKA_PRODUCER, err);
    }
    if (status != MR_OK) {
        free(admin);
        return status;
    }
    *out = admin;
    return MR_OK;
}

void mr_kafka_admin_close(struct mr_kafka_admin *admin)
{
    if (!admin) return;
    mr_kafka_conf_close(admin->rk, false);
    free(admin);
}

enum mr_status mr_kafka_admin_probe(struct mr_kafka_admin *admin, uint32_t timeout_ms,
                                    bool *embedded, struct mr_error *err)
{
    char *id = NULL;
    admin->refused = false;
    for (uint32_t waited = 0; !id && !admin->refused; waited += PROBE_POLL_MS) {
        if (waited >= timeout_ms) break;
        id = rd_kafka_clusterid(admin->rk, (int)PROBE_POLL_MS);
        rd_kafka_poll(admin->rk, 0); /* runs the callback on_error for errors that have occurred */
    }
    if (!id)
        return mr_fail(err, MR_UNREACHABLE, "%s %s%s%s",
                       admin->refused ? "no Kafka connection to" : "no Kafka broker answered at",
                       admin->kafka->brokers, admin->reason[0] ? ": " : "", reason_of(admin));
    static const char mock[] = MR_KAFKA_MOCK_CLUSTER_ID;
    *embedded = admin->embedded = strncmp(id, mock, sizeof mock - 1) == 0;
    rd_kafka_mem_free(admin->rk, id);
    return MR_OK;
}

bool mr_kafka_admin_refused(const struct mr_kafka_admin *admin)
{
    return admin->refused;
}

enum mr_status mr_kafka_admin_partitions(struct mr_kafka_admin *admin, const char *topic,
                                         uint32_t timeout_ms, uint32_t *count, struct mr_error *err)
{
    return mr_kafka_client_partitions(admin->rk, topic, timeout_ms, count, err);
}

enum mr_status mr_kafka_admin_ends(struct mr_kafka_admin *admin, const char *topic,
                                   int32_t partition, uint32_t timeout_ms,
                                   struct mr_kafka_ends *ends, struct mr_error *err)
{
    return mr_kafka_client_ends(admin->rk, topic, partition, timeout_ms, ends, err);
}

/* For librdkafka's embedded test broker, which does not support CreateTopics: a metadata request
 * creates the topic. */
static enum mr_status create_by_metadata(struct mr_kafka_admin *admin, const char *topic,
                                         uint32_t timeout_ms, struct mr_error *err)
{
    rd_kafka_topic_t *handle = rd_kafka_topic_new(admin->rk, topic, NULL);
    if (!handle)
        return mr_fail(err, MR_BAD_CONFIG, "topic %s: %s", topic,
                       rd_kafka_err2str(rd_kafka_last_error()));
    const struct rd_kafka_metadata *metadata = NULL;
    rd_kafka_resp_err_t code = rd_kafka_metadata(admin->rk, 0, handle, &metadata, (int)timeout_ms);
    if (metadata) rd_kafka_metadata_destroy(metadata);
    rd_kafka_topic_destroy(handle);
    if (code) return mr_fail(err, MR_UNREACHABLE, "topic %s: %s", topic, rd_kafka_err2str(code));
    return MR_OK;
}

/* Errors of a cluster that has just started or created a topic. */
static bool passes(rd_kafka_resp_err_t code)
{
    return code == RD_KAFKA_RESP_ERR_NOT_CONTROLLER || code == RD_KAFKA_RESP_ERR_NOT_COORDINATOR ||
           code == RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE ||
           code == RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS ||
           code == RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION ||
           code == RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE;
}

static enum mr_status creation_status(rd_kafka_event_t *event, const char *topic,
                                      struct mr_error *err)
{
    if (!event)
        return mr_fail(err, MR_UNREACHABLE,
                       "topic %s: the broker did not answer the request to create it", topic);
    size_t count = 0;
    rd_kafka_resp_err_t code = rd_kafka_event_error(event);
    const char *reason = rd_kafka_event_error_string(event);
    const rd_kafka_CreateTopics_result_t *result = rd_kafka_event_CreateTopics_result(event);
    const rd_kafka_topic_result_t **topics =
        result ? rd_kafka_CreateTopics_result_topics(result, &count) : NULL;
    if (!code && count == 1) {
        code = rd_kafka_topic_result_error(topics[0]);
        reason = rd_kafka_topic_result_error_string(topics[0]);
    }
    if (!code || code == RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS) return MR_OK;
    bool passing = passes(code) || code == RD_KAFKA_RESP_ERR__TIMED_OUT;
    return mr_fail(err, passing ? MR_UNREACHABLE : MR_BAD_CONFIG,
                   "topic %s does not exist and cannot be created: %s", topic,
                   reason ? reason : rd_kafka_err2str(code));
}

/* A request to the broker about topics and the queue of its answer. */
struct asking {
    rd_kafka_AdminOptions_t *options;
    rd_kafka_queue_t *queue;
};

static struct asking begin_asking(struct mr_kafka_admin *admin, rd_kafka_admin_op_t operation,
                                  uint32_t timeout_ms)
{
    char reason[128];
    struct asking asking = {.options = rd_kafka_AdminOptions_new(admin->rk, operation),
                            .queue = rd_kafka_queue_new(admin->rk)};
    rd_kafka_AdminOptions_set_request_timeout(asking.options, (int)timeout_ms, reason,
                                              sizeof reason);
    return asking;
}

/* event: the answer; may be NULL. */
static void end_asking(struct asking *asking, rd_kafka_event_t *event)
{
    if (event) rd_kafka_event_destroy(event);
    rd_kafka_queue_destroy(asking->queue);
    rd_kafka_AdminOptions_destroy(asking->options);
}

static enum mr_status request_creation(struct mr_kafka_admin *admin, const char *topic,
                                       const struct mr_kafka_topic_plan *plan, uint32_t timeout_ms,
                                       struct mr_error *err)
{
    char reason[128];
    rd_kafka_NewTopic_t *spec =
        rd_kafka_NewTopic_new(topic, plan->partitions > 0 ? (int)plan->partitions : -1,
                              plan->replicas > 0 ? (int)plan->replicas : -1, reason, sizeof reason);
    if (!spec) return mr_fail(err, MR_BAD_CONFIG, "topic %s: %s", topic, reason);
    for (size_t i = 0; i < plan->setting_count; i++)
        rd_kafka_NewTopic_set_config(spec, plan->settings[i].name, plan->settings[i].value);
    struct asking asking = begin_asking(admin, RD_KAFKA_ADMIN_OP_CREATETOPICS, timeout_ms);
    rd_kafka_CreateTopics(admin->rk, &spec, 1, asking.options, asking.queue);
    rd_kafka_event_t *event = rd_kafka_queue_poll(asking.queue, (int)timeout_ms);
    enum mr_status status = creation_status(event, topic, err);
    end_asking(&asking, event);
    rd_kafka_NewTopic_destroy(spec);
    return status;
}

/* librdkafka reads the controller's id from the first metadata only. A broker that has just
 * started, or was stopped for longer than its session with the controller, returns none. So the
 * request is repeated with new metadata. */
static enum mr_status create_by_request(struct mr_kafka_admin *admin, const char *topic,
                                        const struct mr_kafka_topic_plan *plan, uint32_t timeout_ms,
                                        struct mr_error *err)
{
    const uint64_t until_ns = mr_clock_ns() + timeout_ms * UINT64_C(1000000);
    uint32_t left_ms = timeout_ms, count = 0;
    for (;;) {
        enum mr_status status = request_creation(
            admin, topic, plan, left_ms < CREATE_TRY_MS ? left_ms : CREATE_TRY_MS, err);
        if (status != MR_UNREACHABLE) return status;
        mr_clock_sleep_ms(PROBE_POLL_MS);
        mr_kafka_client_partitions(admin->rk, topic, CREATE_TRY_MS, &count, NULL);
        left_ms = mr_clock_left_ms(mr_clock_ns(), until_ns);
        if (left_ms == 0) return status;
    }
}

/* Waits until the topic is in the broker's metadata, which takes some time after the broker has
 * acknowledged the creation. */
static enum mr_status wait_until_visible(struct mr_kafka_admin *admin, const char *topic,
                                         uint32_t timeout_ms, uint32_t *count, struct mr_error *err)
{
    enum mr_status status = MR_OK;
    for (uint32_t waited = 0; status == MR_OK && *count == 0; waited += TOPIC_POLL_MS) {
        if (waited >= timeout_ms)
            return mr_fail(err, MR_UNREACHABLE, "topic %s was created but is not visible", topic);
        if (waited > 0) mr_clock_sleep_ms(TOPIC_POLL_MS);
        status = mr_kafka_admin_partitions(admin, topic, timeout_ms, count, err);
    }
    return status;
}

static enum mr_status create(struct mr_kafka_admin *admin, const char *topic,
                             const struct mr_kafka_topic_plan *plan, uint32_t timeout_ms,
                             uint32_t *count, struct mr_error *err)
{
    enum mr_status status = admin->embedded
                                ? create_by_metadata(admin, topic, timeout_ms, err)
                                : create_by_request(admin, topic, plan, timeout_ms, err);
    return status == MR_OK ? wait_until_visible(admin, topic, timeout_ms, count, err) : status;
}

enum mr_status mr_kafka_admin_ensure(struct mr_kafka_admin *admin, const char *topic,
                                     uint32_t timeout_ms, uint32_t *count, struct mr_error *err)
{
    static const struct mr_kafka_topic_plan defaults = {0};
    enum mr_status status = mr_kafka_admin_partitions(admin, topic, timeout_ms, count, err);
    if (status != MR_OK || *count > 0) return status;
    return create(admin, topic, &defaults, timeout_ms, count, err);
}

enum mr_status mr_kafka_admin_create(struct mr_kafka_admin *admin, const char *topic,
                                     const struct mr_kafka_topic_plan *plan, uint32_t timeout_ms,
                                     bool *created, struct mr_error *err)
{
    uint32_t count = 0;
    enum mr_status status = mr_kafka_admin_partitions(admin, topic, timeout_ms, &count, err);
    *created = status == MR_OK && count == 0;
    return *created ? create(admin, topic, plan, timeout_ms, &count, err) : status;
}

/* ---- settings ---- */

static void copy_settings(const rd_kafka_ConfigResource_t *resource,
                          const struct mr_kafka_settings *settings)
{
    size_t entry_count = 0;
    const rd_kafka_ConfigEntry_t **entries =
        rd_kafka_ConfigResource_configs(resource, &entry_count);
    for (size_t i = 0; i < entry_count; i++)
        for (size_t k = 0; k < settings->count; k++) {
            const char *value = rd_kafka_ConfigEntry_value(entries[i]);
            if (value && strcmp(rd_kafka_ConfigEntry_name(entries[i]), settings->names[k]) == 0)
                snprintf(settings->values[k], MR_KAFKA_SETTING_BYTES, "%s", value);
        }
}

enum mr_status mr_kafka_admin_settings(struct mr_kafka_admin *admin, const char *topic,
                                       const struct mr_kafka_settings *settings,
                                       uint32_t timeout_ms, struct mr_error *err)
{
    memset(settings->values, 0, settings->count * sizeof *settings->values);
    if (admin->embedded) return MR_OK;
    size_t answers = 0;
    rd_kafka_ConfigResource_t *resource =
        rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topic);
    struct asking asking = begin_asking(admin, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS, timeout_ms);
    rd_kafka_DescribeConfigs(admin->rk, &resource, 1, asking.options, asking.queue);
    rd_kafka_event_t *event = rd_kafka_queue_poll(asking.queue, (int)timeout_ms);
    const rd_kafka_DescribeConfigs_result_t *result =
        event ? rd_kafka_event_DescribeConfigs_result(event) : NULL;
    const rd_kafka_ConfigResource_t **resources =
        result ? rd_kafka_DescribeConfigs_result_resources(result, &answers) : NULL;
    enum mr_status status = MR_OK;
    if (answers != 1)
        status =
            mr_fail(err, MR_UNREACHABLE, "topic %s: the broker did not return its settings%s%s",
                    topic, event ? ": " : "", event ? rd_kafka_event_error_string(event) : "");
    else if (rd_kafka_ConfigResource_error(resources[0]))
        status = mr_fail(err, MR_BAD_CONFIG, "topic %s: settings: %s", topic,
                         rd_kafka_ConfigResource_error_string(resources[0]));
    else
        copy_settings(resources[0], settings);
    end_asking(&asking, event);
    rd_kafka_ConfigResource_destroy(resource);
    return status;
}

/* ---- groups, times ---- */

/* True if the request is worth repeating after this error; waits before. */
static bool must_repeat(rd_kafka_resp_err_t code, uint32_t *waited_ms, uint32_t timeout_ms)
{
    if (!passes(code) || *waited_ms >= timeout_ms) return false;
    *waited_ms += PROBE_POLL_MS;
    mr_clock_sleep_ms(PROBE_POLL_MS);
    return true;
}

/* Describes a group; repeats the request while the cluster starts. *list has this group only; the
 * caller destroys it if it is not NULL.
 * This uses rd_kafka_list_groups, because after the newer rd_kafka_DescribeConsumerGroups
 * librdkafka 2.0.2 hangs in rd_kafka_destroy if the coordinator did not answer. */
static rd_kafka_resp_err_t describe_group(struct mr_kafka_admin *admin, const char *name,
                                          uint32_t timeout_ms,
                                          const struct rd_kafka_group_list **list)
{
    rd_kafka_resp_err_t code;
    uint32_t waited_ms = 0;
    *list = NULL;
    do {
        if (*list) rd_kafka_group_list_destroy(*list);
        *list = NULL;
        code = rd_kafka_list_groups(admin->rk, name, list, (int)timeout_ms);
        if (!code && *list && (*list)->group_cnt > 0) code = (*list)->groups[0].err;
    } while (must_repeat(code, &waited_ms, timeout_ms));
    return code;
}

/* The broker writes an address as "/10.0.0.3". */
static void copy_hosts(const struct rd_kafka_group_info *group, struct mr_kafka_hosts *hosts)
{
    for (int i = 0; i < group->member_cnt && hosts->count < hosts->max; i++) {
        const char *host = group->members[i].client_host;
        snprintf(hosts->names[hosts->count++], MR_KAFKA_HOST_BYTES, "%s", host + strspn(host, "/"));
    }
}

enum mr_status mr_kafka_admin_members(struct mr_kafka_admin *admin, const char *group,
                                      uint32_t timeout_ms, struct mr_kafka_hosts *hosts,
                                      struct mr_error *err)
{
    const struct rd_kafka_group_list *list;
    hosts->count = 0;
    rd_kafka_resp_err_t code = describe_group(admin, group, timeout_ms, &list);
    if (list && list->group_cnt > 0) copy_hosts(&list->groups[0], hosts);
    if (list) rd_kafka_group_list_destroy(list);
    if (hosts->count > 0 || !code) return MR_OK;
    return mr_fail(err, MR_UNREACHABLE, "group %.64s cannot be described: %s", group,
                   rd_kafka_err2str(code));
}

/* Kafka names a static member by its instance, a hyphen and a UUID. */
static bool is_instance(const char *member_id, const char *instance)
{
    size_t length = strlen(instance);
    return length > 0 && strncmp(member_id, instance, length) == 0 && member_id[length] == '-' &&
           strlen(member_id) == length + 1 + UUID_LENGTH;
}

static void copy_group(const struct rd_kafka_group_info *group, const char *instance,
                       struct mr_kafka_group *out)
{
    snprintf(out->state, sizeof out->state, "%s", group->state ? group->state : "");
    out->members = (uint32_t)group->member_cnt;
    for (int i = 0; i < group->member_cnt; i++)
        out->has_instance |= is_instance(group->members[i].member_id, instance);
}

enum mr_status mr_kafka_admin_group(struct mr_kafka_admin *admin, const char *name,
                                    const char *instance, uint32_t timeout_ms,
                                    struct mr_kafka_group *out, struct mr_error *err)
{
    const struct rd_kafka_group_list *list;
    *out = (struct mr_kafka_group){.is_known = !admin->embedded};
    if (admin->embedded) return MR_OK;
    rd_kafka_resp_err_t code = describe_group(admin, name, timeout_ms, &list);
    if (list && list->group_cnt > 0) copy_group(&list->groups[0], instance, out);
    if (list) rd_kafka_group_list_destroy(list);
    if (!code) return MR_OK;
    return mr_fail(err, MR_UNREACHABLE, "group %.64s: %s", name, rd_kafka_err2str(code));
}

/* Reads a big-endian number of `bytes` bytes; false: the metadata ends before it. */
static bool read_number(struct mr_text *metadata, size_t bytes, size_t *number)
{
    if (metadata->length < bytes) return false;
    *number = 0;
    for (size_t i = 0; i < bytes; i++)
        *number = *number << 8 | (unsigned char)metadata->bytes[i];
    *metadata = mr_text_part(*metadata, bytes, metadata->length);
    return true;
}

/* Whether a member subscribes to the topic. Its metadata, by Kafka's consumer protocol, begins with
 * a version (2 bytes), the number of topics (4) and the topics, each with its length (2). */
static bool subscribes(struct mr_text metadata, const char *topic)
{
    size_t version, count, length;
    if (!read_number(&metadata, 2, &version) || !read_number(&metadata, 4, &count)) return false;
    for (size_t i = 0; i < count; i++) {
        if (!read_number(&metadata, 2, &length) || length > metadata.length) return false;
        if (mr_text_is(mr_text_part(metadata, 0, length), topic)) return true;
        metadata = mr_text_part(metadata, length, metadata.length);
    }
    return false;
}

enum mr_status mr_kafka_admin_readers(struct mr_kafka_admin *admin, const char *topic,
                                      uint32_t timeout_ms, bool *is_known, uint32_t *members,
                                      struct mr_error *err)
{
    const struct rd_kafka_group_list *list = NULL;
    *members = 0;
    *is_known = !admin->embedded;
    if (admin->embedded) return MR_OK;
    rd_kafka_resp_err_t code = rd_kafka_list_groups(admin->rk, NULL, &list, (int)timeout_ms);
    for (int i = 0; list && i < list->group_cnt; i++)
        for (int k = 0; k < list->groups[i].member_cnt; k++) {
            const struct rd_kafka_group_member_info *member = &list->groups[i].members[k];
            const struct mr_text metadata = {member->member_metadata,
                                             (size_t)member->member_metadata_size};
            *members += subscribes(metadata, topic);
        }
    if (list) rd_kafka_group_list_destroy(list);
    if (!code) return MR_OK;
    return mr_fail(err, MR_UNREACHABLE, "the groups cannot be listed: %s", rd_kafka_err2str(code));
}

static rd_kafka_resp_err_t look_up_time(struct mr_kafka_admin *admin,
                                        const struct mr_kafka_since *since, uint32_t timeout_ms,
                                        bool *found)
{
    int count = (int)since->partitions;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(count);
    for (int i = 0; i < count; i++)
        rd_kafka_topic_partition_list_add(list, since->topic, i)->offset = since->unix_ms;
    rd_kafka_resp_err_t code = rd_kafka_offsets_for_times(admin->rk, list, (int)timeout_ms);
    if (!code) code = (rd_kafka_resp_err_t)mr_kafka_client_list_error(list);
    for (int i = 0; !code && i < list->cnt; i++)
        *found |= list->elems[i].offset >= 0;
    rd_kafka_topic_partition_list_destroy(list);
    return code;
}

enum mr_status mr_kafka_admin_has_since(struct mr_kafka_admin *admin,
                                        const struct mr_kafka_since *since, uint32_t timeout_ms,
                                        bool *found, struct mr_error *err)
{
    rd_kafka_resp_err_t code;
    uint32_t waited_ms = 0;
    *found = false;
    if (admin->embedded) return MR_OK;
    do
        code = look_up_time(admin, since, timeout_ms, found);
    while (must_repeat(code, &waited_ms, timeout_ms));
    if (!code) return MR_OK;
    return mr_fail(err, MR_UNREACHABLE, "topic %s: %s", since->topic, rd_kafka_err2str(code));
}
