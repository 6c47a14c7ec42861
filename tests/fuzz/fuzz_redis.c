/* Replies of Redis: a client reads arbitrary bytes from a server or from several nodes of a
 * cluster.
 *
 * Input: a byte with the number of commands, a byte for each command (its kind, the size of the
 * value it expects, whether it is cancelled), a byte that decides where reads end, then the turns
 * of the server (memory_link.h), the first of them its replies to AUTH, SELECT and PING. */
#include "kvcache/remote/redis_client.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/memory_link.h"

#include <stdlib.h>

#define OPS_MAX       16u
#define STEPS_MAX     120u
#define HEADER_BYTES  4u
#define PAYLOAD_BYTES 64u
#define SECOND_NS     ((uint64_t)1000000000)

struct command {
    struct mr_redis_command op;
    struct mr_redis_value value;
    char header[HEADER_BYTES];
    char *payload; /* a block of exactly the value's length */
    bool sent, cancels, ended;
};

static void make_command(struct command *command, uint8_t kind)
{
    static const char *const words[] = {"LRANGE", "{a}b", "0", "-1"};
    static const size_t lengths[] = {6, 4, 1, 2};
    *command = (struct command){.cancels = kind >> 7};
    command->value = (struct mr_redis_value){.key = "mr1:key",
                                             .key_length = 7,
                                             .header = command->header,
                                             .header_length = HEADER_BYTES,
                                             .length = (kind >> 2 & 31u) * 2};
    command->payload = malloc(PAYLOAD_BYTES);
    MR_ASSERT(command->payload && command->value.length <= PAYLOAD_BYTES);
    command->payload = realloc(command->payload, command->value.length + 1);
    command->value.payload = command->payload;
    if (kind % 4 == 0)
        MR_ASSERT(mr_redis_command_make(&command->op, 4, words, lengths, true));
    else if (kind % 4 == 1)
        mr_redis_command_set(&command->op, &command->value, 60);
    else if (kind % 4 == 2)
        mr_redis_command_word(&command->op, "STRLEN", "mr1:key", 7);
    else
        mr_redis_command_get(&command->op, &command->value);
    command->op.deadline_ns = 50 * SECOND_NS;
    command->op.owner = command;
}

/* Reads every byte of a reply, like the users of replies. */
static void visit(const struct mr_redis_reply *reply)
{
    unsigned sum = 0;
    size_t length;
    const char *text = mr_redis_reply_text(reply, &length);
    MR_ASSERT(mr_redis_reply_integer(reply) == 0 || length == 0);
    for (size_t i = 0; i < length; i++)
        sum += (unsigned char)text[i];
    MR_ASSERT(sum <= 255 * length);
    for (size_t i = 0; i < mr_redis_reply_count(reply); i++)
        visit(mr_redis_reply_at(reply, i));
}

static void take_all(const struct mr_redis_port *client)
{
    for (struct mr_redis_command *op; (op = client->take(client->context)) != NULL;) {
        struct command *command = op->owner;
        MR_ASSERT(command->sent && !command->ended && op->outcome != MR_REDIS_IN_FLIGHT);
        MR_ASSERT(op->outcome < MR_REDIS_OUTCOME_COUNT);
        command->ended = true;
        if (op->reply) visit(op->reply);
        MR_ASSERT(strlen(op->error) < MR_REDIS_ERROR_BYTES);
        mr_redis_command_end(op);
    }
}

/* The queries that the owner of a client makes between steps. */
static void ask(const struct mr_redis_port *client, uint64_t now_ns)
{
    struct pollfd fds[MR_REDIS_NODES_MAX];
    struct mr_redis_client_stats stats = client->stats(client->context);
    MR_ASSERT(client->sockets(client->context, fds, MR_REDIS_NODES_MAX) <= stats.nodes);
    MR_ASSERT(stats.nodes >= 1 && stats.nodes <= MR_REDIS_NODES_MAX);
    uint64_t next_ns = client->deadline_ns(client->context);
    MR_ASSERT(next_ns <= now_ns + 60 * SECOND_NS || next_ns == UINT64_MAX);
    MR_ASSERT(strlen(client->reason(client->context)) < MR_ERROR_DETAIL_BYTES);
    MR_ASSERT(!client->is_ready(client->context) || stats.connects > 0);
}

static void run(const struct mr_redis_port *client, struct command *commands, size_t count)
{
    uint64_t now_ns = SECOND_NS;
    size_t next = 0, idle = 0;
    for (unsigned step = 0; step < STEPS_MAX && idle < 70; step++) {
        client->step(client->context, now_ns);
        take_all(client);
        if (next < count && client->send(client->context, &commands[next].op))
            commands[next++].sent = true;
        if (next > 0 && commands[next - 1].cancels && !commands[next - 1].ended)
            client->cancel(client->context, &commands[next - 1].op, now_ns);
        ask(client, now_ns);
        idle = memory_link_is_empty() ? idle + 1 : 0;
        now_ns += idle ? SECOND_NS : SECOND_NS / 100;
    }
    mr_redis_client_check(client);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mr_redis_conn_options options = {
        .where = {.host = "fuzz", .port = 6379, .database = 1, .password = "secret"},
        .connect_timeout_ns = 10 * SECOND_NS};
    static struct command commands[OPS_MAX];
    struct fuzz_cursor cursor = {data, size};
    struct mr_redis_port client;
    size_t count = fuzz_u8(&cursor) % (OPS_MAX + 1);
    for (size_t i = 0; i < count; i++)
        make_command(&commands[i], fuzz_u8(&cursor));
    uint8_t cuts = fuzz_u8(&cursor);
    if (cuts & 1u) memcpy(options.where.user, "user", 5);
    memory_link_set(fuzz_rest(&cursor), cuts);
    MR_ASSERT(mr_redis_port_open(&client, &options, 1, NULL) == MR_OK);
    run(&client, commands, count);
    client.close(client.context);
    take_all(&client);
    for (size_t i = 0; i < count; i++) {
        MR_ASSERT(commands[i].sent == commands[i].ended);
        mr_redis_command_end(&commands[i].op);
        free(commands[i].payload);
    }
    client.destroy(client.context);
    return 0;
}
