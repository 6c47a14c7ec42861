/* fleet - what a gateway knows of the brokers and workers: whether there are any, and the names of
 * their models.
 *
 * A thread queries the cluster every two seconds: does a broker answer, and does a consumer group
 * with members read the requests topic? Brokers that do not describe their groups, as the embedded
 * test broker, leave the second answer open. Then a worker is assumed while a record of an answer
 * was read in the last 15 seconds; so that there is one, the Kafka thread sends a probe. The probe
 * is a request without a prompt: workers reject it at once, and its result names the model.
 *
 * Threads: its own; the others call the functions below. Memory: the struct and one Kafka client.
 * Errors:  _start as mr_kafka_admin_open. */
#ifndef MR_WORKER_GATEWAY_FLEET_H
#define MR_WORKER_GATEWAY_FLEET_H

#include "worker/base/thread.h"
#include "worker/kafka/kafka_admin.h"

#include <stdatomic.h>

#define MR_FLEET_MODELS_MAX  64u
#define MR_FLEET_MODEL_BYTES ((size_t)256)

struct mr_fleet {
    const char *topic; /* requests topic */
    struct mr_kafka_admin *admin;
    struct mr_wake wake;
    struct mr_thread *thread;
    atomic_bool has_broker, is_known, has_members;
    atomic_uint_least64_t heard_ns; /* when the last record of an answer was read; 0: never */
    pthread_mutex_t lock;           /* protects the models */
    char models[MR_FLEET_MODELS_MAX][MR_FLEET_MODEL_BYTES];
    uint32_t model_count;
    atomic_bool has_model;
};

enum mr_fleet_state { MR_FLEET_READY, MR_FLEET_NO_BROKER, MR_FLEET_NO_WORKER };

enum mr_status mr_fleet_start(struct mr_fleet *fleet, const struct mr_kafka_options *kafka,
                              const char *topic, struct mr_error *err);
void mr_fleet_stop(struct mr_fleet *fleet);
enum mr_fleet_state mr_fleet_state(struct mr_fleet *fleet, uint64_t now_ns);
/* Whether the Kafka thread should send a probe. */
bool mr_fleet_wants_probe(struct mr_fleet *fleet, uint64_t now_ns);
/* A record of an answer was read. model: of a result; bytes NULL: a token record. */
void mr_fleet_note(struct mr_fleet *fleet, struct mr_text model, uint64_t now_ns);
/* Copies the name of a model; false: there are only `index` of them. */
bool mr_fleet_model(struct mr_fleet *fleet, uint32_t index, char name[MR_FLEET_MODEL_BYTES]);

#endif
