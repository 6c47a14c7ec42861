/* facts - a script of operations on Kafka through the ports of worker/kafka, and their results.
 *
 * The script runs against a real Apache Kafka (tests/integration/kafka_facts.c) and against the
 * simulated broker (tests/sim/fleet/test_facts.c). Both must print the lines of
 * tests/sim/fleet/facts.txt, so that the simulated broker behaves like Kafka.
 *
 * The script uses a world: clients, time that passes, and a victim, a member of the group in a
 * process of its own that can be stopped, continued and killed. Lines hold no times, no member ids
 * and no absolute generations.
 *
 * Owner: one thread. Memory: the caller's. Errors: a wait that times out prints a line. */
#ifndef MR_TESTS_FAKES_FACTS_FACTS_H
#define MR_TESTS_FAKES_FACTS_FACTS_H

#include "worker/kafka/kafka_consumer_port.h"
#include "worker/kafka/kafka_reader_port.h"
#include "worker/kafka/kafka_transactions_port.h"

#include <stdio.h>

#define FACTS_IN         "facts.in"  /* 2 partitions, consumed by the group */
#define FACTS_OUT        "facts.out" /* 1 partition */
#define FACTS_GROUP      "facts"
#define FACTS_SESSION_MS 6000u

struct facts_world {
    void *context;
    mr_kafka_consumer_open open_consumer;
    mr_kafka_reader_open open_reader;
    struct mr_producer_opener (*producer)(void *context);
    struct mr_transactions_opener (*transactions)(void *context, const char *id);
    void *open_context; /* of the two functions that open */
    const struct mr_kafka_options *kafka;
    /* Lets about ms milliseconds pass. */
    void (*pass)(void *context, uint32_t ms);
    void (*start_victim)(void *context);
    /* SIGSTOP, SIGCONT, SIGKILL */
    void (*stop_victim)(void *context);
    void (*continue_victim)(void *context);
    void (*kill_victim)(void *context);
    /* The next line that the victim has printed; NULL: none. */
    const char *(*hear_victim)(void *context);
    FILE *out;
};

/* Runs the script; the topics exist and are empty. */
void facts_run(const struct facts_world *world);

/* The victim: joins the group and prints its events. */
struct facts_victim {
    struct mr_kafka_consumer_port port;
    struct mr_wake wake;
    struct mr_kafka_consumer_topic topic;
    void (*print)(void *context, const char *line);
    void *context;
    uint64_t steps;
};

bool facts_victim_open(struct facts_victim *victim, mr_kafka_consumer_open open, void *open_context,
                       const struct mr_kafka_options *kafka);
/* Call it often. */
void facts_victim_step(struct facts_victim *victim);

#endif
