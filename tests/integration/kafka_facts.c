/* kafka_facts - runs the script of tests/fakes/facts/facts.h against a real Kafka and prints the
 * results: kafka_facts BROKERS. Its topics must exist and be empty. The victim of the script is
 * another process of this program: kafka_facts BROKERS victim. */
#include "tests/fakes/facts/facts.h"
#include "worker/base/clock.h"
#include "worker/kafka/kafka_conf.h"
#include "worker/kafka/kafka_in.h"
#include "worker/kafka/kafka_out.h"
#include "worker/kafka/kafka_reader.h"
#include "worker/kafka/kafka_txn.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct real_world {
    const char *program;
    struct mr_kafka_options kafka;
    struct mr_request_topic topic;
    struct mr_kafka_txn_source source;
    pid_t victim;
    int pipe;
    char heard[256];
    size_t heard_bytes;
    char line[128];
};

static void pass(void *context, uint32_t ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    (void)context;
    nanosleep(&time, NULL);
}

static struct mr_producer_opener open_producer(void *context)
{
    return mr_kafka_out_opener(&((struct real_world *)context)->kafka);
}

static struct mr_transactions_opener open_transactions(void *context, const char *id)
{
    struct real_world *world = context;
    world->source = (struct mr_kafka_txn_source){.kafka = &world->kafka,
                                                 .transactional_id = id,
                                                 .topics = &world->topic,
                                                 .timeout_ms = 30000};
    return mr_kafka_txn_opener(&world->source);
}

static void start_victim(void *context)
{
    struct real_world *world = context;
    int ends[2];
    if (pipe(ends) != 0) exit(2);
    world->victim = fork();
    if (world->victim == 0) {
        dup2(ends[1], STDOUT_FILENO);
        execl(world->program, world->program, world->kafka.brokers, "victim", (char *)NULL);
        _exit(2);
    }
    close(ends[1]);
    world->pipe = ends[0];
    fcntl(world->pipe, F_SETFL, O_NONBLOCK);
}

static void signal_victim(void *context, int number)
{
    struct real_world *world = context;
    kill(world->victim, number);
    if (number == SIGKILL) waitpid(world->victim, NULL, 0);
}

static void stop_victim(void *context)
{
    signal_victim(context, SIGSTOP);
}

static void continue_victim(void *context)
{
    signal_victim(context, SIGCONT);
}

static void kill_victim(void *context)
{
    signal_victim(context, SIGKILL);
}

static const char *hear_victim(void *context)
{
    struct real_world *world = context;
    ssize_t bytes = read(world->pipe, world->heard + world->heard_bytes,
                         sizeof world->heard - world->heard_bytes - 1);
    if (bytes > 0) world->heard_bytes += (size_t)bytes;
    world->heard[world->heard_bytes] = '\0';
    char *end = strchr(world->heard, '\n');
    if (!end) return NULL;
    size_t length = (size_t)(end - world->heard);
    if (length >= sizeof world->line) length = sizeof world->line - 1;
    memcpy(world->line, world->heard, length);
    world->line[length] = '\0';
    world->heard_bytes -= (size_t)(end + 1 - world->heard);
    memmove(world->heard, end + 1, world->heard_bytes + 1);
    return world->line;
}

static void print(void *context, const char *line)
{
    (void)context;
    printf("%s\n", line);
    fflush(stdout);
}

static int run_victim(const struct mr_kafka_options *kafka)
{
    struct facts_victim victim = {.print = print};
    if (!facts_victim_open(&victim, mr_kafka_in_open, NULL, kafka)) return 2;
    for (;;) {
        facts_victim_step(&victim);
        pass(NULL, 10);
    }
}

int main(int argc, char **argv)
{
    if (argc < 2) return 2;
    struct real_world world = {.program = argv[0],
                               .topic = {.name = FACTS_IN},
                               .kafka = {.brokers = argv[1],
                                         .group = FACTS_GROUP,
                                         .client_id = argc > 2 ? argv[2] : "facts",
                                         .session_timeout_ns = FACTS_SESSION_MS * (uint64_t)1000000,
                                         .poll_interval_max_ns = 60000000000u,
                                         .transaction_timeout_ns = 30000000000u,
                                         .max_record_bytes = 1 << 20}};
    struct mr_kafka_options victim = world.kafka;
    victim.transaction_timeout_ns = 0;
    if (argc > 2) return run_victim(&victim);
    struct facts_world facts = {.context = &world,
                                .open_consumer = mr_kafka_in_open,
                                .open_reader = mr_kafka_reader_open_port,
                                .producer = open_producer,
                                .transactions = open_transactions,
                                .kafka = &world.kafka,
                                .pass = pass,
                                .start_victim = start_victim,
                                .stop_victim = stop_victim,
                                .continue_victim = continue_victim,
                                .kill_victim = kill_victim,
                                .hear_victim = hear_victim,
                                .out = stdout};
    setvbuf(stdout, NULL, _IOLBF, 0);
    facts_run(&facts);
    return 0;
}
