/* clients - the Kafka clients of the simulated workers: they implement the ports of worker/kafka
 * with the simulated broker (broker.h), as librdkafka does with a real one.
 *
 *     sim_open_consumer       the consumer of the request topics, a member of the group
 *     sim_open_reader         a reader without a group: cancels, recovery
 *     sim_producer_opener     the producer of publish: idempotent, records of a partition in order
 *     sim_transactions_opener the transactional producer
 *
 * The work of librdkafka's own threads (heartbeats, joining) is simulated by events of the broker.
 * These wait while the machine is paused, and stop when it is dead. The calls of a dead machine
 * have no effect. A record that was in flight when the machine died may arrive or not.
 *
 * sim_crash_point is called before each effect of a port call: the place where a machine may die
 * inside a step.
 *
 * Owner: one run. Memory: of the broker. */
#ifndef MR_TESTS_SIM_FLEET_CLIENTS_H
#define MR_TESTS_SIM_FLEET_CLIENTS_H

#include "tests/sim/fleet/broker.h"
#include "tests/sim/fleet/rules.h"
#include "worker/kafka/kafka_consumer_port.h"
#include "worker/kafka/kafka_reader_port.h"
#include "worker/kafka/kafka_transactions_port.h"

/* A connection of one machine to the broker: the context of the functions that open clients. */
struct sim_wire {
    struct broker *broker;
    struct sim_machine *machine;
    const char *transactional_id;
    uint32_t producer_room;    /* records that a producer accepts before it is full */
    uint64_t record_bytes_max; /* a larger record is refused */
    uint32_t crash_countdown;  /* effects until the machine dies; 0: it does not die */
    bool producer_broken;   /* a fatal error of librdkafka: the producer accepts no more records */
    bool dies_with_offsets; /* dies in its next transaction that has sent offsets */
    struct sim_rules rules;
};

/* True when the machine is dead, or dies now. */
bool sim_crash_point(struct sim_wire *wire);

/* ---- the consumer ---- */

#define CONSUMER_EVENTS_MAX 8u

struct sim_rebalance {
    bool assigned;
    enum mr_kafka_revoke how;
    uint32_t mask;
};

/* The fetch after which a client's wake is signalled. */
struct sim_ring {
    bool pending, again; /* again: a record was written since pending was set */
};

struct sim_consumer {
    struct sim_consumer *next;
    struct sim_wire *wire;
    struct mr_kafka_consumer_options options;
    uint32_t id; /* 0: not a member */
    int32_t generation;
    uint32_t owned; /* bit mask of the group's partitions */
    int64_t positions[BROKER_GROUPED_MAX];
    uint64_t ready_ns[BROKER_GROUPED_MAX]; /* time of the answer to the first fetch */
    struct sim_rebalance rebalances[CONSUMER_EVENTS_MAX];
    uint32_t rebalance_count;
    bool in_progress, joining, wants_join, lost, closed;
    struct sim_ring ring;
    uint32_t added; /* to be assigned when the revocation is completed */
    struct {
        uint64_t number;
        enum mr_status status;
        const char *reason;
        uint32_t
            refused; /* bit mask of the group's partitions whose commit failed or may have failed */
    } outcomes[CONSUMER_EVENTS_MAX];
    uint32_t outcome_count;
    uint64_t commit_ns; /* when the last commit reaches the broker */
    struct mr_kafka_claim claims[BROKER_GROUPED_MAX];
    struct mr_kafka_claim
        refused[BROKER_GROUPED_MAX]; /* number of the outcome that was returned last */
    int taken;                       /* partition of the last record; -1: none */
    int64_t taken_position;
    uint32_t turn;
};

enum mr_status sim_open_consumer(void *wire, const struct mr_kafka_consumer_options *options,
                                 struct mr_kafka_consumer_port *out, struct mr_error *err);
/* The coordinator's answer to a join is in flight. */
void sim_consumer_assign(struct sim_consumer *consumer, uint32_t id, int32_t generation,
                         uint32_t mask);
bool sim_consumer_is_connected(const struct sim_consumer *consumer);
/* A worker's membership, for offsets in a transaction. */
struct mr_kafka_membership {
    uint32_t id;
    int32_t generation;
};

/* ---- the others ---- */

struct sim_reader {
    struct sim_reader *next;
    struct sim_wire *wire;
    const struct mr_wake *wake;
    bool wanted[BROKER_TOPICS_MAX];
    int64_t positions[BROKER_TOPICS_MAX][BROKER_PARTITIONS_MAX];
    int64_t ends[BROKER_TOPICS_MAX][BROKER_PARTITIONS_MAX]; /* -1: read to its end */
    bool until_end, committed_only, closed;
    struct sim_ring ring;
    uint64_t ready_ns;
};

enum mr_status sim_open_reader(void *wire, const struct mr_kafka_reader_options *options,
                               struct mr_kafka_reader_port *out, struct mr_error *err);

struct sim_producer {
    struct sim_producer *next;
    struct sim_wire *wire;
    struct mr_producer_user user;
    bool closed, cut; /* cut: the machine is dead, and no more records arrive */
    bool unattended;  /* delivery reports do not signal the wake */
    uint32_t pending;
    uint64_t send_ns; /* when the last record reaches the broker */
    struct sim_report *reports, **reports_end;
    uint64_t asked_ns; /* time of the answer to the lookup of a topic; 0: no lookup was made */
    const char *asked;
    /* the open transaction of a transactional producer */
    struct broker_transaction *transaction;
    bool transactional, failed;
};

struct mr_producer_opener sim_producer_opener(struct sim_wire *wire);
struct mr_transactions_opener sim_transactions_opener(struct sim_wire *wire);

/* Call this after an append to the partition, or when its last stable offset has moved. */
void sim_clients_notify(struct broker *broker, uint32_t topic, int32_t partition);
/* Whether a fault has dropped a token record of this request. */
bool sim_lost_tokens(const struct broker *broker, const char *id);

#endif
