#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kvcache/remote/redis_client_state.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MS ((uint64_t)1000000)

/* A server with one connection, whose replies the test writes. */
struct server {
    int door, peer;
    uint16_t port;
    bool mute;           /* accepts connections and sends nothing */
    char received[8192]; /* commands received and not read by the test yet */
    size_t length;
};

static struct server server_open(void)
{
    struct server server = {.peer = -1};
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    server.door = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(server.door, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(server.door, 8), 0);
    assert_int_equal(getsockname(server.door, (struct sockaddr *)&address, &length), 0);
    server.port = ntohs(address.sin_port);
    return server;
}

static void server_hang_up(struct server *server)
{
    if (server->peer >= 0) close(server->peer);
    server->peer = -1;
    server->length = 0;
}

static void server_close(struct server *server)
{
    server_hang_up(server);
    if (server->door >= 0) close(server->door);
}

static void server_say(struct server *server, const char *text)
{
    assert_int_equal(send(server->peer, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* Accepts a connection and answers PING. */
static void server_turn(struct server *server)
{
    if (server->mute) return;
    if (server->peer < 0) server->peer = accept4(server->door, NULL, NULL, SOCK_NONBLOCK);
    if (server->peer < 0) return;
    int on = 1;
    setsockopt(server->peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ssize_t got = recv(server->peer, server->received + server->length,
                       sizeof server->received - 1 - server->length, MSG_DONTWAIT);
    if (got == 0) server_hang_up(server);
    if (got <= 0) return;
    server->length += (size_t)got;
    server->received[server->length] = '\0';
    if (strcmp(server->received, "*1\r\n$4\r\nPING\r\n") != 0) return;
    server->length = 0;
    server->received[0] = '\0';
    server_say(server, "+PONG\r\n");
}

static bool server_heard(struct server *server, const char *word)
{
    if (!server->length || !strstr(server->received, word)) return false;
    server->length = 0;
    return true;
}

struct rig {
    struct server servers[2];
    struct mr_redis_port client; /* of the first server */
    struct mr_redis_command command;
};

/* Steps both ends a few times; now_ns is virtual time, the loopback connection is real. */
static void turn(struct rig *rig, uint64_t now_ns)
{
    for (int round = 0; round < 20; round++) {
        rig->client.step(rig->client.context, now_ns);
        for (int i = 0; i < 2; i++)
            server_turn(&rig->servers[i]);
        usleep(200);
    }
}

static struct rig rig_open(void)
{
    struct rig rig = {.servers = {server_open(), server_open()}};
    struct mr_redis_conn_options options = {
        .where = {.host = "127.0.0.1", .port = rig.servers[0].port}, .connect_timeout_ns = 20 * MS};
    assert_int_equal(mr_redis_port_open(&rig.client, &options, 7, NULL), MR_OK);
    return rig;
}

static struct rig rig_ready(void)
{
    struct rig rig = rig_open();
    turn(&rig, 0);
    assert_true(rig.client.is_ready(rig.client.context));
    return rig;
}

static void rig_close(struct rig *rig)
{
    mr_redis_client_check(&rig->client);
    rig->client.close(rig->client.context);
    for (struct mr_redis_command *command;
         (command = rig->client.take(rig->client.context)) != NULL;)
        mr_redis_command_end(command);
    rig->client.destroy(rig->client.context);
    for (int i = 0; i < 2; i++)
        server_close(&rig->servers[i]);
}

static bool send_lookup(struct rig *rig, const char *key, uint64_t deadline_ns)
{
    mr_redis_command_word(&rig->command, "STRLEN", key, strlen(key));
    rig->command.deadline_ns = deadline_ns;
    return rig->client.send(rig->client.context, &rig->command);
}

/* Sends a lookup of "foo", which the first server receives. */
static void ask(struct rig *rig, uint64_t deadline_ns)
{
    assert_true(send_lookup(rig, "foo", deadline_ns));
    turn(rig, 0);
    assert_true(server_heard(&rig->servers[0], "STRLEN"));
}

/* The first server redirects the command: "MOVED" or "ASK" and a port. */
static void send_on(struct rig *rig, const char *how, unsigned port)
{
    char text[64];
    snprintf(text, sizeof text, "-%s 12182 127.0.0.1:%u\r\n", how, port);
    server_say(&rig->servers[0], text);
    turn(rig, 0);
}

static void assert_answered(struct rig *rig, struct server *server, const char *line, int64_t value)
{
    server_say(server, line);
    turn(rig, 0);
    assert_ptr_equal(rig->client.take(rig->client.context), &rig->command);
    assert_int_equal(rig->command.outcome, MR_REDIS_DONE);
    assert_int_equal(mr_redis_reply_integer(rig->command.reply), value);
    mr_redis_command_end(&rig->command);
}

static void connects_and_answers(void **state)
{
    struct rig rig = rig_open();
    struct pollfd doors[4];
    (void)state;
    assert_false(send_lookup(&rig, "foo", 100 * MS));
    turn(&rig, 0);
    assert_int_equal(rig.client.sockets(rig.client.context, doors, 4), 1);
    ask(&rig, 100 * MS);
    assert_answered(&rig, &rig.servers[0], ":5\r\n", 5);
    rig_close(&rig);
}

/* A server that accepts connections and sends invalid replies is retried after longer and longer
 * waits. */
static void a_faulty_server_is_retried_less_and_less(void **state)
{
    struct rig rig = rig_open();
    uint64_t now_ns = 0;
    (void)state;
    for (int round = 0; round < 6000; round++, now_ns += 10 * MS) {
        rig.client.step(rig.client.context, now_ns);
        server_turn(&rig.servers[0]);
        if (!rig.client.is_ready(rig.client.context) || !send_lookup(&rig, "foo", now_ns + MS))
            continue;
        server_say(&rig.servers[0], "what?\r\n");
        for (int i = 0; i < 50 && !rig.client.take(rig.client.context); i++, usleep(100))
            rig.client.step(rig.client.context, now_ns);
        server_hang_up(&rig.servers[0]);
    }
    struct mr_redis_client_stats stats = rig.client.stats(rig.client.context);
    assert_true(stats.connects >= 8 && stats.connects <= 60);
    assert_int_equal(stats.breaker_openings, 1);
    assert_string_not_equal(rig.client.reason(rig.client.context), "");
    rig_close(&rig);
}

static void reconnects_when_the_server_is_back(void **state)
{
    struct rig rig = rig_ready();
    (void)state;
    server_hang_up(&rig.servers[0]);
    rig.client.step(rig.client.context, 0);
    assert_false(rig.client.is_ready(rig.client.context));
    uint64_t retry_ns = rig.client.deadline_ns(rig.client.context);
    assert_true(retry_ns > 0 && retry_ns <= MR_BREAKER_WAIT_MIN_NS);
    turn(&rig, retry_ns);
    assert_true(rig.client.is_ready(rig.client.context));
    rig_close(&rig);
}

static void a_closed_client_connects_again_at_the_next_step(void **state)
{
    struct rig rig = rig_ready();
    (void)state;
    ask(&rig, 100 * MS);
    rig.client.close(rig.client.context);
    assert_ptr_equal(rig.client.take(rig.client.context), &rig.command);
    assert_int_equal(rig.command.outcome, MR_REDIS_LOST);
    assert_false(rig.client.is_ready(rig.client.context));
    turn(&rig, 0);
    assert_true(rig.client.is_ready(rig.client.context));
    assert_int_equal(rig.client.stats(rig.client.context).failures, 0);
    rig_close(&rig);
}

/* Connections to nodes discovered later use the changed password too. */
static void a_changed_password_is_used_for_every_node(void **state)
{
    struct rig rig = rig_ready();
    (void)state;
    rig.client.set_password(rig.client.context, "newer");
    ask(&rig, 100 * MS);
    send_on(&rig, "MOVED", rig.servers[1].port);
    assert_true(server_heard(&rig.servers[1], "AUTH\r\n$5\r\nnewer"));
    rig_close(&rig);
}

static void moved_updates_the_slot_and_requests_the_map(void **state)
{
    struct rig rig = rig_ready();
    char text[128];
    (void)state;
    ask(&rig, 100 * MS);
    send_on(&rig, "MOVED", rig.servers[1].port);
    assert_true(server_heard(&rig.servers[0], "CLUSTER"));
    assert_true(server_heard(&rig.servers[1], "STRLEN"));
    snprintf(text, sizeof text,
             "*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$9\r\n127.0.0.1\r\n:%u\r\n$2\r\nid\r\n",
             rig.servers[1].port);
    server_say(&rig.servers[0], text);
    assert_answered(&rig, &rig.servers[1], ":9\r\n", 9);
    assert_true(send_lookup(&rig, "another", 100 * MS)); /* a slot that only the map names */
    turn(&rig, 0);
    assert_true(server_heard(&rig.servers[1], "another"));
    assert_int_equal(rig.client.stats(rig.client.context).moved, 1);
    assert_int_equal(rig.client.stats(rig.client.context).asked, 0);
    assert_int_equal(rig.client.stats(rig.client.context).nodes, 2);
    rig_close(&rig);
}

/* The second server answers MOVED and CLUSTER SLOTS as a node that does not know its own address.
 */
static void an_empty_host_in_the_map_is_that_of_the_node_that_answers(void **state)
{
    struct rig rig = {.servers = {server_open(), server_open()}};
    struct mr_redis_conn_options options = {
        .where = {.host = "0.0.0.0", .port = rig.servers[0].port}, /* another name of 127.0.0.1 */
        .connect_timeout_ns = 20 * MS};
    char text[128];
    (void)state;
    assert_int_equal(mr_redis_port_open(&rig.client, &options, 7, NULL), MR_OK);
    turn(&rig, 0);
    ask(&rig, 100 * MS);
    send_on(&rig, "MOVED", rig.servers[1].port); /* to 127.0.0.1 */
    assert_true(server_heard(&rig.servers[1], "STRLEN"));
    assert_true(server_heard(&rig.servers[0], "CLUSTER"));
    server_say(&rig.servers[0], "*0\r\n");
    assert_answered(&rig, &rig.servers[1], ":9\r\n", 9);
    assert_true(send_lookup(&rig, "foo", 100 * MS));
    turn(&rig, 0);
    assert_true(server_heard(&rig.servers[1], "STRLEN"));
    snprintf(text, sizeof text, "-MOVED 12182 127.0.0.1:%u\r\n", rig.servers[1].port);
    server_say(&rig.servers[1], text);
    turn(&rig, 0);
    assert_true(server_heard(&rig.servers[1], "CLUSTER"));
    snprintf(text, sizeof text, "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$0\r\n\r\n:%u\r\n",
             rig.servers[1].port);
    server_say(&rig.servers[1], text);
    turn(&rig, 0);
    assert_int_equal(rig.client.stats(rig.client.context).nodes, 2); /* not 0.0.0.0 as a third */
    rig_close(&rig);
}

static void ask_redirects_once_after_asking(void **state)
{
    struct rig rig = rig_ready();
    (void)state;
    ask(&rig, 100 * MS);
    send_on(&rig, "ASK", rig.servers[1].port);
    assert_true(server_heard(&rig.servers[1], "*1\r\n$6\r\nASKING\r\n*2\r\n$6\r\nSTRLEN"));
    assert_answered(&rig, &rig.servers[1], "+OK\r\n:4\r\n", 4);
    assert_int_equal(rig.client.stats(rig.client.context).asked, 1);
    ask(&rig, 100 * MS);
    rig_close(&rig);
}

static void redirections_in_a_circle_end(void **state)
{
    struct rig rig = rig_ready();
    uint32_t told = 0;
    (void)state;
    ask(&rig, 100 * MS);
    for (struct mr_redis_command *back = NULL; !back; back = rig.client.take(rig.client.context)) {
        assert_true(++told <= MR_REDIS_REDIRECTS_MAX + 1);
        send_on(&rig, "ASK", rig.servers[0].port);
        if (server_heard(&rig.servers[0], "ASKING")) server_say(&rig.servers[0], "+OK\r\n");
    }
    assert_int_equal(rig.command.outcome, MR_REDIS_MOVED);
    rig_close(&rig);
}

/* The node that a command is redirected to does not answer: the command ends at its own deadline.
 */
static void a_redirection_to_an_unreachable_node_times_out(void **state)
{
    struct rig rig = rig_ready();
    (void)state;
    ask(&rig, 10 * MS);
    rig.servers[1].mute = true;
    send_on(&rig, "MOVED", rig.servers[1].port);
    assert_null(rig.client.take(rig.client.context));
    turn(&rig, 10 * MS);
    assert_ptr_equal(rig.client.take(rig.client.context), &rig.command);
    assert_int_equal(rig.command.outcome, MR_REDIS_TIMEOUT);
    rig_close(&rig);
}

/* With one node of a cluster down, only the keys of that node fail, and at once. */
static void a_command_does_not_wait_for_a_failed_node(void **state)
{
    struct rig rig = rig_ready();
    (void)state;
    ask(&rig, 100 * MS);
    rig.servers[1].mute = true;
    unsigned port = rig.servers[1].port;
    close(rig.servers[1].door); /* refuses connections from now on */
    rig.servers[1].door = -1;
    send_on(&rig, "MOVED", port);
    assert_ptr_equal(rig.client.take(rig.client.context),
                     &rig.command); /* the node is known, and down */
    assert_int_equal(rig.command.outcome, MR_REDIS_LOST);
    assert_true(server_heard(&rig.servers[0], "CLUSTER"));
    server_say(&rig.servers[0], "*0\r\n");
    ask(&rig, 100 * MS);
    send_on(&rig, "MOVED", port);
    assert_ptr_equal(rig.client.take(rig.client.context), &rig.command);
    assert_int_equal(rig.command.outcome, MR_REDIS_LOST);
    rig_close(&rig);
}

/* The first server answers CLUSTER SLOTS: it owns every slot. */
static void say_map(struct rig *rig)
{
    char text[128];
    assert_true(server_heard(&rig->servers[0], "CLUSTER"));
    snprintf(text, sizeof text,
             "*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$9\r\n127.0.0.1\r\n:%u\r\n$2\r\nid\r\n",
             rig->servers[0].port);
    server_say(&rig->servers[0], text);
}

/* As when the nodes of a cluster get new addresses again and again: the old ones own no slot. */
static void addresses_of_dead_nodes_are_forgotten(void **state)
{
    struct rig rig = rig_ready();
    char text[64];
    uint64_t now_ns = 0, connects = 0;
    (void)state;
    for (unsigned i = 1; i <= MR_REDIS_NODES_MAX + 6; i++) {
        assert_true(send_lookup(&rig, "foo", now_ns + 100 * MS));
        turn(&rig, now_ns);
        assert_true(server_heard(&rig.servers[0], "STRLEN"));
        snprintf(text, sizeof text, "-MOVED 12182 127.1.0.%u:%u\r\n", i, rig.servers[1].port);
        server_say(&rig.servers[0], text);
        turn(&rig, now_ns);
        assert_ptr_equal(rig.client.take(rig.client.context),
                         &rig.command); /* nobody listens there */
        assert_int_equal(rig.command.outcome, MR_REDIS_LOST);
        say_map(&rig);
        for (int attempt = 0; attempt < 4; attempt++, now_ns += 10000 * MS)
            turn(&rig, now_ns);
        assert_int_equal(rig.client.stats(rig.client.context).nodes, 1);
        mr_redis_client_check(&rig.client);
    }
    struct mr_redis_client_stats stats = rig.client.stats(rig.client.context);
    assert_int_equal(stats.breaker_openings, MR_REDIS_NODES_MAX + 6);
    connects = stats.connects;
    turn(&rig, now_ns + 60000 * MS);
    assert_int_equal(rig.client.stats(rig.client.context).connects, connects);
    assert_true(send_lookup(&rig, "foo", UINT64_MAX)); /* a new node is still found */
    turn(&rig, now_ns);
    assert_true(server_heard(&rig.servers[0], "STRLEN"));
    snprintf(text, sizeof text, "-MOVED 12182 127.0.0.1:%u\r\n", rig.servers[1].port);
    server_say(&rig.servers[0], text);
    turn(&rig, now_ns);
    assert_true(server_heard(&rig.servers[1], "STRLEN"));
    rig_close(&rig);
}

/* A name server that answers when `port` is set. */
struct names {
    uint16_t port;
    unsigned lookups, ended;
    struct sockaddr_in address;
    struct addrinfo result;
};

static void *names_begin(void *context, const char *host, const char *port)
{
    struct names *names = context;
    assert_string_equal(host, "redis.example");
    assert_string_equal(port, "6379");
    names->lookups++;
    return names;
}

static bool names_poll(void *lookup, const struct addrinfo **addresses, int *error)
{
    struct names *names = lookup;
    names->address = (struct sockaddr_in){.sin_family = AF_INET,
                                          .sin_port = htons(names->port),
                                          .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    names->result = (struct addrinfo){.ai_family = AF_INET,
                                      .ai_addr = (struct sockaddr *)&names->address,
                                      .ai_addrlen = sizeof names->address};
    *addresses = &names->result;
    *error = 0;
    return names->port != 0;
}

static void names_end(void *lookup)
{
    ((struct names *)lookup)->ended++;
}

static void a_name_server_that_hangs_blocks_no_step(void **state)
{
    struct names names = {0};
    const struct mr_redis_resolver resolver = {&names, names_begin, names_poll, names_end};
    struct mr_redis_conn_options options = {.where = {.host = "redis.example", .port = 6379},
                                            .resolver = &resolver,
                                            .connect_timeout_ns = 20 * MS};
    struct rig rig = {.servers = {server_open(), server_open()}};
    (void)state;
    assert_int_equal(mr_redis_port_open(&rig.client, &options, 7, NULL), MR_OK);
    turn(&rig, 0);
    assert_false(send_lookup(&rig, "foo", 100 * MS)); /* refused, not kept */
    assert_in_range(rig.client.deadline_ns(rig.client.context), 1, 5 * MS);
    turn(&rig, 20 * MS);
    assert_string_equal(rig.client.reason(rig.client.context),
                        "the name server did not answer in time");
    assert_int_equal(names.ended, names.lookups);
    names.port = rig.servers[0].port;
    turn(&rig, 1000 * MS);
    assert_true(rig.client.is_ready(rig.client.context));
    assert_int_equal(names.ended, names.lookups);
    assert_int_equal(rig.client.stats(rig.client.context).addresses, 1);
    rig_close(&rig);
}

/* Nothing listens at the address. */
static void a_client_without_a_connection_refuses_commands(void **state)
{
    struct mr_redis_conn_options options = {.where = {.path = "/nowhere/redis.sock"},
                                            .connect_timeout_ns = 1000 * MS};
    struct mr_redis_port port;
    struct mr_redis_command command = {0};
    struct pollfd fds[4];
    (void)state;
    assert_int_equal(mr_redis_port_open(&port, &options, 1, NULL), MR_OK);
    assert_int_equal(port.deadline_ns(port.context), 0);
    port.step(port.context, 1);
    assert_false(port.is_ready(port.context));
    assert_int_equal(port.stats(port.context).connects, 1);
    assert_int_equal(port.stats(port.context).failures, 1);
    assert_string_not_equal(port.reason(port.context), "");
    assert_int_equal(port.sockets(port.context, fds, 4), 0);
    mr_redis_command_word(&command, "PING", "k", 1);
    assert_false(port.send(port.context, &command));
    port.cancel(port.context, &command, 2);
    assert_null(port.take(port.context));
    port.close(port.context);
    port.destroy(port.context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connects_and_answers),
        cmocka_unit_test(a_faulty_server_is_retried_less_and_less),
        cmocka_unit_test(reconnects_when_the_server_is_back),
        cmocka_unit_test(a_name_server_that_hangs_blocks_no_step),
        cmocka_unit_test(a_client_without_a_connection_refuses_commands),
        cmocka_unit_test(a_closed_client_connects_again_at_the_next_step),
        cmocka_unit_test(a_changed_password_is_used_for_every_node),
        cmocka_unit_test(moved_updates_the_slot_and_requests_the_map),
        cmocka_unit_test(an_empty_host_in_the_map_is_that_of_the_node_that_answers),
        cmocka_unit_test(ask_redirects_once_after_asking),
        cmocka_unit_test(redirections_in_a_circle_end),
        cmocka_unit_test(a_redirection_to_an_unreachable_node_times_out),
        cmocka_unit_test(a_command_does_not_wait_for_a_failed_node),
        cmocka_unit_test(addresses_of_dead_nodes_are_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
