#include "worker/gateway/fleet.h"

#include <stdio.h>
#include <string.h>

#define QUERY_MS     2000u
#define INTERVAL_NS  ((uint64_t)2000000000)
#define HEARD_NS     ((uint64_t)15000000000)
#define PROBE_AGE_NS ((uint64_t)5000000000)

static uint64_t query(void *context, struct mr_time now)
{
    struct mr_fleet *fleet = context;
    bool embedded, is_known = false;
    uint32_t members = 0;
    const bool answers = mr_kafka_admin_probe(fleet->admin, QUERY_MS, &embedded, NULL) == MR_OK &&
                         mr_kafka_admin_readers(fleet->admin, fleet->topic, QUERY_MS, &is_known,
                                                &members, NULL) == MR_OK;
    atomic_store(&fleet->has_broker, answers);
    if (answers) {
        atomic_store(&fleet->is_known, is_known);
        atomic_store(&fleet->has_members, members > 0);
    }
    return now.ns + INTERVAL_NS;
}

enum mr_status mr_fleet_start(struct mr_fleet *fleet, const struct mr_kafka_options *kafka,
                              const char *topic, struct mr_error *err)
{
    memset(fleet, 0, sizeof *fleet);
    fleet->topic = topic;
    pthread_mutex_init(&fleet->lock, NULL);
    atomic_store(&fleet->has_broker, true); /* the gateway has just connected */
    enum mr_status status = mr_wake_open(&fleet->wake, err);
    if (status != MR_OK) goto destroy_lock;
    status = mr_kafka_admin_open(&fleet->admin, kafka, err);
    if (status != MR_OK) goto close_wake;
    (void)query(fleet, mr_clock_now());
    const struct mr_thread_options thread = {
        .name = "fleet", .step = query, .state = fleet, .wake = &fleet->wake};
    status = mr_thread_start(&fleet->thread, &thread, err);
    if (status == MR_OK) return MR_OK;
    mr_kafka_admin_close(fleet->admin);
close_wake:
    mr_wake_close(&fleet->wake);
destroy_lock:
    pthread_mutex_destroy(&fleet->lock);
    return status;
}

void mr_fleet_stop(struct mr_fleet *fleet)
{
    mr_thread_stop(fleet->thread);
    mr_kafka_admin_close(fleet->admin);
    mr_wake_close(&fleet->wake);
    pthread_mutex_destroy(&fleet->lock);
}

/* heard_ns may be later than now_ns: another thread reads the clock for it. */
static bool is_recent(struct mr_fleet *fleet, uint64_t now_ns, uint64_t age_ns)
{
    const uint64_t heard_ns = atomic_load(&fleet->heard_ns);
    return heard_ns > 0 && now_ns < heard_ns + age_ns;
}

enum mr_fleet_state mr_fleet_state(struct mr_fleet *fleet, uint64_t now_ns)
{
    if (!atomic_load(&fleet->has_broker)) return MR_FLEET_NO_BROKER;
    if (atomic_load(&fleet->is_known))
        return atomic_load(&fleet->has_members) ? MR_FLEET_READY : MR_FLEET_NO_WORKER;
    return is_recent(fleet, now_ns, HEARD_NS) ? MR_FLEET_READY : MR_FLEET_NO_WORKER;
}

bool mr_fleet_wants_probe(struct mr_fleet *fleet, uint64_t now_ns)
{
    if (!atomic_load(&fleet->has_broker)) return false;
    if (atomic_load(&fleet->is_known))
        return atomic_load(&fleet->has_members) && !atomic_load(&fleet->has_model);
    return !is_recent(fleet, now_ns, PROBE_AGE_NS);
}

void mr_fleet_note(struct mr_fleet *fleet, struct mr_text model, uint64_t now_ns)
{
    atomic_store(&fleet->heard_ns, now_ns);
    if (!model.bytes || model.length == 0 || model.length >= MR_FLEET_MODEL_BYTES) return;
    pthread_mutex_lock(&fleet->lock);
    uint32_t index = 0;
    while (index < fleet->model_count && !mr_text_is(model, fleet->models[index]))
        index++;
    if (index == fleet->model_count && index < MR_FLEET_MODELS_MAX) {
        snprintf(fleet->models[index], MR_FLEET_MODEL_BYTES, "%.*s", (int)model.length,
                 model.bytes);
        fleet->model_count++;
    }
    pthread_mutex_unlock(&fleet->lock);
    atomic_store(&fleet->has_model, true);
}

bool mr_fleet_model(struct mr_fleet *fleet, uint32_t index, char name[MR_FLEET_MODEL_BYTES])
{
    pthread_mutex_lock(&fleet->lock);
    const bool exists = index < fleet->model_count;
    if (exists) memcpy(name, fleet->models[index], MR_FLEET_MODEL_BYTES);
    pthread_mutex_unlock(&fleet->lock);
    return exists;
}
