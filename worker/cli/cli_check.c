/* millrace check: verifies that a worker with this configuration could start. Reads the model's
 * files, connects to the broker and to Redis, and looks up the topics; changes nothing; reports
 * every failure, a line each, or with --json an object each. What needs no server is checked by the
 * functions that `serve` calls (worker/serve/local.h). */
#include "codec/wire/json_writer.h"
#include "worker/cli/cli.h"
#include "worker/cli/cli_common.h"
#include "worker/cli/model_report.h"
#include "worker/config/option_apply.h"
#include "worker/config/topics.h"
#include "worker/engine/engine_setup.h"
#include "worker/http/http.h"
#include "worker/kafka/kafka_admin.h"
#include "worker/serve/local.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MS     10000u
#define LINE_BYTES_MAX ((size_t)4096)

struct checking {
    const struct mr_config *config;
    uint32_t timeout_ms; /* of each query to a server */
    int code;            /* exit code for the first failure; MR_EXIT_DONE: no failure yet */
};

/* Prints one line. verdict: "ok", "note" or "FAIL". */
static void report(const struct checking *checking, const char *verdict, const char *what,
                   const char *text)
{
    struct mr_json_writer writer;
    char *bytes = NULL;
    size_t length = 0;
    if (!checking->config->json) {
        printf("%-4s  %-8s %s\n", verdict, what, text);
        return;
    }
    mr_json_writer_init(&writer, LINE_BYTES_MAX);
    mr_json_begin_object(&writer);
    mr_json_name(&writer, "verdict");
    mr_json_put_text(&writer, (struct mr_text){verdict, strlen(verdict)});
    mr_json_name(&writer, "what");
    mr_json_put_text(&writer, (struct mr_text){what, strlen(what)});
    mr_json_name(&writer, "text");
    mr_json_put_text(&writer, (struct mr_text){text, strlen(text)});
    mr_json_end(&writer);
    if (mr_json_writer_take(&writer, &bytes, &length, NULL) == MR_OK) puts(bytes);
    free(bytes);
}

static void report_failure(struct checking *checking, const char *what, enum mr_exit code,
                           const char *text)
{
    report(checking, "FAIL", what, text);
    if (checking->code == MR_EXIT_DONE) checking->code = (int)code;
}

static void check_options(struct checking *checking)
{
    struct mr_error err = {0};
    enum mr_status status = mr_local_check(checking->config, &err);
    if (status == MR_OK)
        report(checking, "ok", "options", "valid");
    else
        report_failure(checking, "options", mr_worker_exit_code(status), err.detail);
}

static void report_line(void *context, const char *what, const char *text)
{
    report(context, "ok", what, text);
}

static void check_model(struct checking *checking)
{
    struct mr_error err = {0};
    struct mr_model_source source = {0};
    struct mr_model_plan plan;
    const char *dtype;
    if (!checking->config->model[0]) {
        report_failure(checking, "model", MR_EXIT_USAGE, "no --model is given");
        return;
    }
    enum mr_status status = mr_local_open_model(&source, checking->config, &err);
    if (status == MR_OK)
        status = mr_engine_setup_plan(checking->config, &source, &plan, &dtype, &err);
    if (status == MR_OK)
        mr_model_report(&source, &plan, dtype, report_line, checking);
    else
        report_failure(checking, "model", mr_local_model_exit(status), err.detail);
    mr_model_source_close(&source);
}

static void answer_nothing(void *context, enum mr_http_page page, struct mr_http_reply *reply)
{
    (void)context;
    (void)page;
    reply->code = 503;
}

/* Listens for a moment. A port that is in use is no failure: the worker that this configuration is
 * for may be the one that uses it. */
static void check_http(struct checking *checking)
{
    struct mr_error err = {0};
    struct mr_http *http = NULL;
    const char *address = checking->config->http;
    if (!address[0]) return;
    enum mr_status status = mr_http_start(&http, address, answer_nothing, NULL, &err);
    mr_http_stop(http);
    if (status == MR_OK)
        report(checking, "ok", "http", address);
    else if (status == MR_UNREACHABLE)
        report(checking, "note", "http", err.detail);
    else
        report_failure(checking, "http", MR_EXIT_USAGE, err.detail);
}

static void check_topic(struct checking *checking, struct mr_kafka_admin *admin, const char *topic)
{
    struct mr_error err = {0};
    uint32_t count = 0;
    char text[400];
    if (mr_kafka_admin_partitions(admin, topic, checking->timeout_ms, &count, &err) != MR_OK) {
        report_failure(checking, "topic", MR_EXIT_UNREACHABLE, err.detail);
    } else if (count > 0) {
        snprintf(text, sizeof text, "%s, %" PRIu32 " partitions", topic, count);
        report(checking, "ok", "topic", text);
    } else {
        snprintf(text, sizeof text, "%s does not exist; a worker creates it when it starts", topic);
        report(checking, "note", "topic", text);
    }
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
    if (!options.brokers[0]) {
        report_failure(checking, "broker", MR_EXIT_USAGE, "no --brokers are given");
        return;
    }
    enum mr_status status = mr_kafka_conf_check(&options, &err);
    if (status == MR_OK) status = mr_kafka_admin_open(&admin, &options, &err);
    if (status == MR_OK)
        status = mr_kafka_admin_probe(admin, checking->timeout_ms, &embedded, &err);
    if (status == MR_OK) {
        snprintf(text, sizeof text, "%s%s", options.brokers,
                 embedded ? " (embedded test broker)" : "");
        report(checking, "ok", "broker", text);
        for (size_t i = 0; mr_topics_at(checking->config, i, &topic); i++)
            check_topic(checking, admin, topic.name);
    } else {
        report_failure(checking, "broker",
                       status == MR_BAD_CONFIG ? MR_EXIT_USAGE : MR_EXIT_UNREACHABLE, err.detail);
    }
    mr_kafka_admin_close(admin);
}

static void check_redis(struct checking *checking)
{
    struct mr_error err = {0};
    struct mr_tier_redis_options options = mr_local_redis(checking->config, NULL);
    char url[512]; /* without the password */
    if (!options.url[0]) return;
    if (mr_tier_redis_check(&options, NULL) != MR_OK) return; /* check_options has reported it */
    enum mr_status status = mr_tier_redis_probe(&options, checking->timeout_ms, &err);
    mr_option_value_text(checking->config, mr_option_find("redis"), 0, url, sizeof url);
    if (status == MR_OK)
        report(checking, "ok", "redis", url);
    else
        report_failure(checking, "redis", mr_worker_exit_code(status), err.detail);
}

int mr_cli_check(const struct mr_config *config, struct mr_log *log)
{
    (void)log;
    struct checking checking = {config, mr_cli_timeout_ms(config, TIMEOUT_MS), MR_EXIT_DONE};
    check_options(&checking);
    check_model(&checking);
    check_http(&checking);
    check_broker(&checking);
    check_redis(&checking);
    return checking.code;
}
