#include "worker/top/top_fleet.h"

#include "worker/base/clock.h"
#include "worker/top/scrape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void free_pages(struct mr_top_worker *worker)
{
    free(worker->before);
    free(worker->now);
    worker->before = worker->now = NULL;
}

/* Replaces the workers by those of these addresses; one that is there already keeps its pages. */
static void set_workers(struct mr_top_fleet *fleet, char (*addresses)[MR_ADDRESS_BYTES],
                        size_t count)
{
    struct mr_top_worker *old = fleet->workers;
    struct mr_top_worker *workers = calloc(MR_TOP_WORKERS_MAX, sizeof *workers);
    if (!workers) return; /* the old ones stay */
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; old && k < fleet->count; k++) {
            if (strcmp(old[k].address, addresses[i]) != 0) continue;
            workers[i] = old[k];
            old[k].before = old[k].now = NULL;
            break;
        }
        memcpy(workers[i].address, addresses[i], MR_ADDRESS_BYTES);
    }
    for (size_t k = 0; old && k < fleet->count; k++)
        free_pages(&old[k]);
    free(old);
    fleet->workers = workers;
    fleet->count = count;
}

static enum mr_status describe(struct mr_top_fleet *fleet, struct mr_error *err)
{
    char(*names)[MR_KAFKA_HOST_BYTES] = calloc(MR_TOP_WORKERS_MAX, sizeof *names);
    char(*addresses)[MR_ADDRESS_BYTES] = calloc(MR_TOP_WORKERS_MAX, sizeof *addresses);
    struct mr_kafka_hosts hosts = {.names = names, .max = MR_TOP_WORKERS_MAX};
    enum mr_status status = MR_OK;
    fleet->described_ns = mr_clock_ns();
    if (!names || !addresses)
        status = mr_fail(err, MR_NOMEM, "no memory for the addresses of workers");
    else
        status = mr_kafka_admin_members(fleet->admin, fleet->config->group, fleet->kafka_ms, &hosts,
                                        err);
    if (status == MR_OK && hosts.count == 0)
        status =
            mr_fail(err, MR_UNREACHABLE, "the group %.64s has no workers", fleet->config->group);
    if (status == MR_OK) {
        mr_addresses_make(&hosts, fleet->config->http_port, addresses);
        set_workers(fleet, addresses, hosts.count);
    }
    free(names);
    free(addresses);
    return status;
}

static enum mr_status find_workers(struct mr_top_fleet *fleet, struct mr_error *err)
{
    const struct mr_config *config = fleet->config;
    bool embedded = false;
    fleet->kafka = (struct mr_kafka_options){
        .brokers = config->brokers, .client_id = "millrace-top", .properties = &config->kafka};
    enum mr_status status = mr_kafka_conf_check(&fleet->kafka, err);
    if (status == MR_OK) status = mr_kafka_admin_open(&fleet->admin, &fleet->kafka, err);
    if (status == MR_OK)
        status = mr_kafka_admin_probe(fleet->admin, fleet->kafka_ms, &embedded, err);
    if (status != MR_OK) return status;
    if (embedded)
        return mr_fail(err, MR_BAD_CONFIG,
                       "the embedded test broker cannot list the members of a group: name the "
                       "workers' --http addresses, such as millrace top " MR_TOP_ADDRESS);
    return describe(fleet, err);
}

static enum mr_status take_arguments(struct mr_top_fleet *fleet, struct mr_error *err)
{
    static const char *const usual = MR_TOP_ADDRESS;
    const struct mr_config *config = fleet->config;
    size_t count = config->argument_count > 0 ? config->argument_count : 1;
    if (count > MR_TOP_WORKERS_MAX)
        return mr_fail(err, MR_BAD_CONFIG, "top shows at most %zu workers", MR_TOP_WORKERS_MAX);
    fleet->workers = calloc(MR_TOP_WORKERS_MAX, sizeof *fleet->workers);
    if (!fleet->workers) return mr_fail(err, MR_NOMEM, "no memory for the workers");
    for (size_t i = 0; i < count; i++)
        snprintf(fleet->workers[i].address, MR_ADDRESS_BYTES, "%s",
                 config->argument_count > 0 ? config->arguments[i] : usual);
    fleet->count = count;
    return MR_OK;
}

enum mr_status mr_top_fleet_open(struct mr_top_fleet *fleet, const struct mr_config *config,
                                 uint32_t kafka_ms, struct mr_error *err)
{
    *fleet = (struct mr_top_fleet){.config = config, .kafka_ms = kafka_ms};
    if (config->argument_count == 0 && config->brokers[0]) return find_workers(fleet, err);
    return take_arguments(fleet, err);
}

void mr_top_fleet_close(struct mr_top_fleet *fleet)
{
    for (size_t i = 0; i < fleet->count; i++)
        free_pages(&fleet->workers[i]);
    free(fleet->workers);
    mr_kafka_admin_close(fleet->admin);
}

static void fetch(struct mr_top_worker *worker)
{
    struct mr_error err = {0};
    free(worker->before);
    worker->before = worker->now;
    worker->before_ns = worker->now_ns;
    worker->now_ns = mr_clock_ns();
    worker->error[0] = '\0';
    if (mr_scrape_page(worker->address, "/metrics", MR_TOP_TIMEOUT_MS, &worker->now, &err) != MR_OK)
        snprintf(worker->error, sizeof worker->error, "%s", err.detail);
}

bool mr_top_fleet_refresh(struct mr_top_fleet *fleet)
{
    bool answers = false;
    /* the last known workers stay while the broker is unreachable */
    if (fleet->admin && mr_clock_ns() - fleet->described_ns > MR_TOP_DESCRIBE_NS)
        describe(fleet, NULL);
    for (size_t i = 0; i < fleet->count; i++) {
        fetch(&fleet->workers[i]);
        answers |= fleet->workers[i].now != NULL;
    }
    return answers;
}

void mr_top_fleet_row(const struct mr_top_worker *worker, const char *tenant,
                      struct mr_top_row *row)
{
    struct mr_top_pages pages = {.before = worker->before,
                                 .now = worker->now,
                                 .seconds = (double)(worker->now_ns - worker->before_ns) / 1e9};
    mr_top_row_fill(row, &pages, tenant);
}
