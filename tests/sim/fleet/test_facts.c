/* The simulated broker behaves like Kafka: the script of tests/fakes/facts/facts.h prints the lines
 * of tests/sim/fleet/facts.txt. tests/integration/test_kafka_facts.sh compares these lines with
 * those of an Apache Kafka. */
#include "codec/check.h"
#include "tests/fakes/facts/facts.h"
#include "tests/sim/fleet/clients.h"

#include <stdlib.h>
#include <string.h>

#define LINES_MAX 32u

struct world {
    struct broker *broker;
    struct sim_machine machine, victim_machine, rival;
    struct sim_wire wire, victim_wire;
    struct facts_victim victim;
    char lines[LINES_MAX][64];
    uint32_t said, heard;
    bool alive;
};

static void pass(void *context, uint32_t ms)
{
    struct world *world = context;
    uint64_t until_ns = platform_ns() + ms * MS;
    while (broker_next_ns(world->broker) <= until_ns) {
        uint64_t next_ns = broker_next_ns(world->broker);
        if (next_ns > platform_ns()) platform_set_ns(next_ns);
        broker_run(world->broker);
    }
    platform_set_ns(until_ns);
    if (world->alive && platform_ns() >= world->victim_machine.paused_until_ns)
        facts_victim_step(&world->victim);
}

static struct mr_producer_opener open_producer(void *context)
{
    return sim_producer_opener(&((struct world *)context)->wire);
}

static struct mr_transactions_opener open_transactions(void *context, const char *id)
{
    struct world *world = context;
    world->wire.transactional_id = id;
    return sim_transactions_opener(&world->wire);
}

static void print(void *context, const char *line)
{
    struct world *world = context;
    MR_ASSERT(world->said < LINES_MAX);
    snprintf(world->lines[world->said++], sizeof world->lines[0], "%s", line);
}

static void start_victim(void *context)
{
    struct world *world = context;
    world->victim = (struct facts_victim){.print = print, .context = world};
    world->alive = facts_victim_open(&world->victim, sim_open_consumer, &world->victim_wire, NULL);
}

static void stop_victim(void *context)
{
    ((struct world *)context)->victim_machine.paused_until_ns = platform_ns() + 3600 * SECOND;
}

/* The machine's own events wait until its pause ends. */
static void continue_victim(void *context)
{
    struct world *world = context;
    world->victim_machine.paused_until_ns = platform_ns();
}

static void kill_victim(void *context)
{
    struct world *world = context;
    world->victim_machine.dead = true;
    world->alive = false;
    mr_wake_close(&world->victim.wake);
}

static const char *hear_victim(void *context)
{
    struct world *world = context;
    return world->heard < world->said ? world->lines[world->heard++] : NULL;
}

static int compare(const char *text, size_t length)
{
    static char wanted[16384];
    FILE *file = fopen("tests/sim/fleet/facts.txt", "r");
    if (!file) return 1;
    size_t bytes = fread(wanted, 1, sizeof wanted, file);
    fclose(file);
    if (bytes == length && memcmp(wanted, text, length) == 0) return 0;
    printf("the simulated broker does not do what tests/sim/fleet/facts.txt says; it does:\n%.*s",
           (int)length, text);
    return 1;
}

int main(void)
{
    char *text = NULL;
    size_t length = 0;
    struct coverage coverage = {0};
    struct broker_options options = {.seed = 1,
                                     .session_ns = FACTS_SESSION_MS * MS,
                                     .rebalance_ns = 60 * SECOND,
                                     .transaction_ns = 30 * SECOND,
                                     .latency_ns = MS};
    static struct world world;
    platform_begin(1);
    world.broker = broker_create(&options, &coverage);
    broker_add_topic(world.broker, FACTS_IN, 2, true);
    broker_add_topic(world.broker, FACTS_OUT, 1, false);
    world.wire = (struct sim_wire){.broker = world.broker,
                                   .machine = &world.machine,
                                   .producer_room = 1000,
                                   .record_bytes_max = 1 << 20};
    world.victim_wire = world.wire;
    world.victim_wire.machine = &world.victim_machine;
    struct facts_world facts = {.context = &world,
                                .open_consumer = sim_open_consumer,
                                .open_reader = sim_open_reader,
                                .producer = open_producer,
                                .transactions = open_transactions,
                                .open_context = &world.wire,
                                .pass = pass,
                                .start_victim = start_victim,
                                .stop_victim = stop_victim,
                                .continue_victim = continue_victim,
                                .kill_victim = kill_victim,
                                .hear_victim = hear_victim,
                                .out = open_memstream(&text, &length)};
    facts_run(&facts);
    fclose(facts.out);
    int wrong = compare(text, length);
    broker_destroy(world.broker);
    free(text);
    return wrong;
}
