/* millrace check: verifies that a worker with this configuration could start. Reads the model's
 * files, connects to the broker and to Redis, and looks up the topics; changes nothing; reports
 * every failure as a line, or with --json as an object. The checks that need no server are those of
 * `serve` (worker/serve/local.h). */
#include "worker/cli/adapter_report.h"
#include "worker/cli/cli.h"
#include "worker/cli/cli_common.h"
#include "worker/cli/model_report.h"
#include "worker/cli/topic_report.h"
#include "worker/cli/worker_rules.h"
#include "worker/config/option_apply.h"
#include "worker/engine/engine_setup.h"
#include "worker/http/http.h"
#include "worker/kafka/kafka_admin.h"
#include "worker/remote_cache/redis_rules.h"
#include "worker/serve/local.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MS 10000u

struct checking {
    const struct mr_config *config;
    uint32_t timeout_ms; /* of each query to a server */
    struct mr_report report;
};

static void check_options(struct checking *checking)
{
    struct mr_error err = {0};
    enum mr_status status = mr_local_check(checking->config, &err);
    if (status == MR_OK)
        mr_report(&checking->report, "ok", "options", "valid");
    else
        mr_report_failure(&checking->report, "options", mr_worker_exit_code(status), err.detail);
}

static void report_line(void *context, const char *what, const char *text)
{
    const struct checking *checking = context;
    mr_report(&checking->report, "ok", what, text);
}

static void warn(void *context, const char *text)
{
    const struct checking *checking = context;
    mr_report(&checking->report, "warn", "options", text);
}

static void check_combinations(struct checking *checking)
{
    bool given =
        mr_option_origin(checking->config, mr_option_find("worker-id")) != MR_ORIGIN_DEFAULT;
    mr_worker_rules_check(checking->config, given, warn, checking);
    mr_local_check_secrets(checking->config, warn, checking);
}

/* False: this machine refuses the memory of the KV pool, so `serve` cannot start. Memory that is
 * not touched costs nothing. */
static bool can_allocate(const struct mr_model_plan *plan)
{
    if (plan->device_bytes > 0) return true;
    void *pool = plan->kv_pool_bytes < PTRDIFF_MAX ? malloc(plan->kv_pool_bytes) : NULL;
    free(pool);
    return pool != NULL;
}

static void check_memory(struct checking *checking, const struct mr_model_plan *plan)
{
    struct mr_machine machine;
    char text[400];
    mr_machine_read(&machine, "");
    bool fits = mr_worker_rules_fits(checking->config, plan, &machine, text, sizeof text);
    if (can_allocate(plan))
        mr_report(&checking->report, fits ? "ok" : "warn", "memory", text);
    else
        mr_report_failure(&checking->report, "memory", MR_EXIT_MODEL, text);
}

static void note_right(void *context, const char *text)
{
    const struct checking *checking = context;
    mr_report(&checking->report, "note", "right", text);
}

static void report_adapter(void *context, enum mr_adapter_verdict verdict, const char *text)
{
    struct checking *checking = context;
    if (verdict == MR_ADAPTER_FAILS)
        mr_report_failure(&checking->report, "adapter", MR_EXIT_MODEL, text);
    else
        mr_report(&checking->report, verdict == MR_ADAPTER_FITS ? "ok" : "warn", "adapter", text);
}

static void check_model(struct checking *checking)
{
    struct mr_error err = {0};
    struct mr_model_source source = {0};
    struct mr_model_plan plan;
    if (!checking->config->model[0]) {
        mr_report_failure(&checking->report, "model", MR_EXIT_USAGE, "no --model is given");
        return;
    }
    enum mr_status status = mr_local_open_model(&source, checking->config, &err);
    if (status == MR_OK) status = mr_engine_setup_plan(checking->config, &source, &plan, &err);
    if (status == MR_OK) {
        mr_model_report(&source, &plan, report_line, checking);
        check_memory(checking, &plan);
        mr_adapter_report(checking->config, &source, report_adapter, checking);
    } else {
        mr_report_failure(&checking->report, "model", mr_local_model_exit(status), err.detail);
    }
    mr_model_source_close(&source);
}

static void answer_nothing(void *context, enum mr_http_page page, struct mr_http_reply *reply)
{
    (void)context;
    (void)page;
    reply->code = 503;
}

/* Listens for a moment. A port in use is a failure, because `serve` refuses it. */
static void check_http(struct checking *checking)
{
    struct mr_error err = {0};
    struct mr_http *http = NULL;
    const char *address = checking->config->http;
    if (!address[0]) return;
    enum mr_status status = mr_http_start(&http, address, answer_nothing, NULL, &err);
    mr_http_stop(http);
    if (status == MR_OK)
        mr_report(&checking->report, "ok", "http", address);
    else
        mr_report_failure(&checking->report, "http", MR_EXIT_USAGE, err.detail);
}

static void check_group(struct checking *checking, struct mr_kafka_admin *admin)
{
    const struct mr_config *config = checking->config;
    struct mr_error err = {0};
    struct mr_kafka_group group;
    char text[640];
    enum mr_status status = mr_kafka_admin_group(admin, config->group, config->group_instance,
                                                 checking->timeout_ms, &group, &err);
    if (status != MR_OK) {
        mr_report_failure(&checking->report, "group", MR_EXIT_UNREACHABLE, err.detail);
        return;
    }
    if (!group.is_known) return;
    snprintf(text, sizeof text, "%s, %" PRIu32 " members%s%s", config->group, group.members,
             group.state[0] ? ", " : "", group.state);
    mr_report(&checking->report, "ok", "group", text);
    if (!group.has_instance) return;
    snprintf(text, sizeof text,
             "%s has a member %s: a worker that starts with this --group-instance replaces that "
             "member, which then ends",
             config->group, config->group_instance);
    mr_report(&checking->report, "warn", "group", text);
}

static void check_broker(struct checking *checking)
{
    struct mr_error err = {0};
    struct mr_kafka_admin *admin = NULL;
    struct mr_topic topic;
    char text[400];
    bool embedded = false;
    struct mr_kafka_options options = {.brokers = checking->config->brokers,
                                       .group = checking->config->group,
                                       .client_id = "millrace-check",
                                       .properties = &checking->config->kafka};
    enum mr_status status = mr_kafka_conf_check(&options, &err);
    if (status == MR_OK) status = mr_kafka_admin_open(&admin, &options, &err);
    if (status == MR_OK)
        status = mr_kafka_admin_probe(admin, checking->timeout_ms, &embedded, &err);
    if (status == MR_OK) {
        snprintf(text, sizeof text, "%s%s", options.brokers,
                 embedded ? " (embedded test broker)" : "");
        mr_report(&checking->report, "ok", "broker", text);
        struct mr_topic_reporter reporter = {&checking->report, checking->config, admin,
                                             checking->timeout_ms};
        for (size_t i = 0; mr_topic_reporter_at(checking->config, i, &topic); i++)
            mr_topic_report(&reporter, &topic);
        check_group(checking, admin);
    } else {
        mr_report_failure(&checking->report, "broker",
                          status == MR_BAD_CONFIG ? MR_EXIT_USAGE : MR_EXIT_UNREACHABLE,
                          err.detail);
    }
    mr_kafka_admin_close(admin);
}

static void on_redis(void *context, bool fails, const char *text)
{
    struct checking *checking = context;
    if (fails)
        mr_report_failure(&checking->report, "redis", MR_EXIT_UNREACHABLE, text);
    else
        mr_report(&checking->report, "warn", "redis", text);
}

struct surveying {
    struct mr_redis_survey survey;
    uint32_t timeout_ms;
};

static enum mr_status survey(void *context, const struct mr_redis_port *port, struct mr_error *err)
{
    struct surveying *surveying = context;
    return mr_redis_survey_run(&surveying->survey, port, surveying->timeout_ms, err);
}

static void check_redis(struct checking *checking)
{
    struct mr_error err = {0};
    struct surveying surveying = {.timeout_ms = checking->timeout_ms};
    struct mr_redis_cache_options options = mr_local_redis(checking->config, NULL);
    char url[512]; /* without the password */
    char kind[128], text[sizeof url + sizeof kind];
    if (!options.url[0]) return;
    if (mr_redis_cache_check(&options, NULL) != MR_OK) return; /* check_options has reported it */
    enum mr_status status =
        mr_redis_cache_probe(&options, checking->timeout_ms, survey, &surveying, &err);
    if (status != MR_OK) {
        mr_report_failure(&checking->report, "redis", mr_worker_exit_code(status), err.detail);
        return;
    }
    mr_option_value_text(checking->config, mr_option_find("redis"), 0, url, sizeof url);
    mr_redis_rules_describe(&surveying.survey, kind, sizeof kind);
    snprintf(text, sizeof text, "%s%s", url, kind);
    mr_report(&checking->report, "ok", "redis", text);
    mr_redis_rules_check(&surveying.survey, options.ttl_ns > 0, on_redis, checking);
}

int mr_cli_check(const struct mr_config *config, struct mr_log *log)
{
    (void)log;
    struct checking checking = {.config = config,
                                .timeout_ms = mr_cli_timeout_ms(config, TIMEOUT_MS),
                                .report = {.json = config->json}};
    check_options(&checking);
    check_combinations(&checking);
    check_model(&checking);
    check_http(&checking);
    if (config->brokers[0]) {
        check_broker(&checking);
        mr_worker_rules_rights(config, note_right, &checking);
    } else {
        mr_report(&checking.report, "note", "broker", "not checked: no --brokers are given");
    }
    check_redis(&checking);
    return checking.report.code;
}
