#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kvcache/redis_client.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MS ((uint64_t)1000000)

/* A server of one connection that answers each command by a script of this test. */
struct server {
    int door, peer;
    uint16_t port;
    char heard[8192]; /* commands since the last look */
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
    close(server->door);
}

static void server_say(struct server *server, const char *text)
{
    assert_int_equal(send(server->peer, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* Takes a connection and answers PING. */
static void server_turn(struct server *server)
{
    if (server->peer < 0) server->peer = accept4(server->door, NULL, NULL, SOCK_NONBLOCK);
    if (server->peer < 0) return;
    int on = 1;
    setsockopt(server->peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ssize_t got = recv(server->peer, server->heard + server->length,
                       sizeof server->heard - 1 - server->length, MSG_DONTWAIT);
    if (got == 0) server_hang_up(server);
    if (got <= 0) return;
    server->length += (size_t)got;
    server->heard[server->length] = '\0';
    if (strcmp(server->heard, "*1\r\n$4\r\nPING\r\n") != 0) return;
    server->length = 0;
    server->heard[0] = '\0';
    server_say(server, "+PONG\r\n");
}

static bool server_heard(struct server *server, const char *word)
{
    if (!server->length || !strstr(server->heard, word)) return false;
    server->length = 0;
    return true;
}

static struct mr_redis_client *client_open(const struct server *server)
{
    struct mr_redis_conn_options options = {.where = {.host = "127.0.0.1", .port = server->port},
                                            .connect_timeout_ns = 20 * MS};
    struct mr_redis_client *client;
    assert_int_equal(mr_redis_client_create(&client, &options, 7, NULL), MR_OK);
    return client;
}

static void client_end(struct mr_redis_client *client)
{
    mr_redis_client_check(client);
    mr_redis_client_close(client);
    for (struct mr_redis_op *op; (op = mr_redis_client_take(client)) != NULL;)
        mr_redis_op_end(op);
    mr_redis_client_destroy(client);
}

/* Turns both ends some times; now_ns is virtual, the loopback is not. */
static void turn(struct mr_redis_client *client, struct server *servers, int count, uint64_t now_ns)
{
    for (int round = 0; round < 20; round++) {
        mr_redis_client_turn(client, now_ns);
        for (int i = 0; i < count; i++)
            server_turn(&servers[i]);
        usleep(200);
    }
}

static void word(struct mr_redis_op *op, const char *name, const char *key, uint64_t deadline_ns)
{
    mr_redis_op_word(op, name, key, strlen(key));
    op->deadline_ns = deadline_ns;
}

static void connects_and_answers(void **state)
{
    struct server server = server_open();
    struct mr_redis_client *client = client_open(&server);
    struct mr_redis_op op;
    struct pollfd doors[4];
    (void)state;
    word(&op, "STRLEN", "k", 100 * MS);
    assert_false(mr_redis_client_send(client, &op));
    turn(client, &server, 1, 0);
    assert_true(mr_redis_client_is_ready(client));
    assert_int_equal(mr_redis_client_fill(client, doors, 4), 1);
    assert_true(mr_redis_client_send(client, &op));
    turn(client, &server, 1, 0);
    assert_true(server_heard(&server, "STRLEN"));
    server_say(&server, ":5\r\n");
    turn(client, &server, 1, 0);
    assert_ptr_equal(mr_redis_client_take(client), &op);
    assert_int_equal(mr_redis_reply_integer(op.reply), 5);
    mr_redis_op_end(&op);
    client_end(client);
    server_close(&server);
}

/* A server that takes connections and answers nonsense is left alone for longer and longer. */
static void a_bad_server_is_tried_less_and_less(void **state)
{
    struct server server = server_open();
    struct mr_redis_client *client = client_open(&server);
    uint64_t now_ns = 0;
    (void)state;
    for (int second = 0; second < 60; second++) {
        for (int round = 0; round < 100; round++, now_ns += 10 * MS) {
            mr_redis_client_turn(client, now_ns);
            server_turn(&server);
            struct mr_redis_op op;
            word(&op, "STRLEN", "k", now_ns + MS);
            if (!mr_redis_client_is_ready(client) || !mr_redis_client_send(client, &op)) continue;
            server_say(&server, "what?\r\n");
            for (int i = 0; i < 50 && !mr_redis_client_take(client); i++, usleep(100))
                mr_redis_client_turn(client, now_ns);
            server_hang_up(&server);
        }
    }
    struct mr_redis_client_stats stats = mr_redis_client_stats(client);
    assert_true(stats.connects >= 8 && stats.connects <= 60);
    assert_int_equal(stats.breaker_openings, 1);
    assert_string_not_equal(mr_redis_client_reason(client), "");
    client_end(client);
    server_close(&server);
}

static void comes_back_when_the_server_does(void **state)
{
    struct server server = server_open();
    struct mr_redis_client *client = client_open(&server);
    uint64_t now_ns = 0;
    (void)state;
    turn(client, &server, 1, now_ns);
    assert_true(mr_redis_client_is_ready(client));
    server_hang_up(&server);
    mr_redis_client_turn(client, now_ns);
    assert_false(mr_redis_client_is_ready(client));
    uint64_t retry_ns = mr_redis_client_deadline_ns(client);
    assert_true(retry_ns > now_ns && retry_ns <= MR_BREAKER_WAIT_MIN_NS);
    turn(client, &server, 1, retry_ns);
    assert_true(mr_redis_client_is_ready(client));
    client_end(client);
    server_close(&server);
}

static void moved_teaches_the_slot_and_the_map(void **state)
{
    struct server servers[2] = {server_open(), server_open()};
    struct mr_redis_client *client = client_open(&servers[0]);
    struct mr_redis_op op, next;
    char text[128];
    (void)state;
    turn(client, servers, 2, 0);
    word(&op, "STRLEN", "foo", 100 * MS);
    assert_true(mr_redis_client_send(client, &op));
    turn(client, servers, 2, 0);
    assert_true(server_heard(&servers[0], "STRLEN"));
    snprintf(text, sizeof text, "-MOVED 12182 127.0.0.1:%u\r\n", servers[1].port);
    server_say(&servers[0], text);
    turn(client, servers, 2, 0);
    assert_true(server_heard(&servers[0], "CLUSTER"));
    assert_true(server_heard(&servers[1], "STRLEN"));
    server_say(&servers[1], ":9\r\n");
    snprintf(text, sizeof text,
             "*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$9\r\n127.0.0.1\r\n:%u\r\n$2\r\nid\r\n",
             servers[1].port);
    server_say(&servers[0], text);
    turn(client, servers, 2, 0);
    assert_ptr_equal(mr_redis_client_take(client), &op);
    assert_int_equal(mr_redis_reply_integer(op.reply), 9);
    mr_redis_op_end(&op);
    word(&next, "STRLEN", "another", 100 * MS); /* a slot only the map has told */
    assert_true(mr_redis_client_send(client, &next));
    turn(client, servers, 2, 0);
    assert_true(server_heard(&servers[1], "another"));
    assert_int_equal(mr_redis_client_stats(client).redirects, 1);
    assert_int_equal(mr_redis_client_stats(client).nodes, 2);
    client_end(client);
    server_close(&servers[0]);
    server_close(&servers[1]);
}

static void ask_goes_there_once_and_says_asking(void **state)
{
    struct server servers[2] = {server_open(), server_open()};
    struct mr_redis_client *client = client_open(&servers[0]);
    struct mr_redis_op op;
    char text[128];
    (void)state;
    turn(client, servers, 2, 0);
    word(&op, "STRLEN", "foo", 100 * MS);
    assert_true(mr_redis_client_send(client, &op));
    turn(client, servers, 2, 0);
    assert_true(server_heard(&servers[0], "STRLEN"));
    snprintf(text, sizeof text, "-ASK 12182 127.0.0.1:%u\r\n", servers[1].port);
    server_say(&servers[0], text);
    turn(client, servers, 2, 0);
    assert_true(server_heard(&servers[1], "*1\r\n$6\r\nASKING\r\n*2\r\n$6\r\nSTRLEN"));
    server_say(&servers[1], "+OK\r\n:4\r\n");
    turn(client, servers, 2, 0);
    assert_ptr_equal(mr_redis_client_take(client), &op);
    assert_int_equal(mr_redis_reply_integer(op.reply), 4);
    mr_redis_op_end(&op);
    word(&op, "STRLEN", "foo", 100 * MS);
    assert_true(mr_redis_client_send(client, &op));
    turn(client, servers, 2, 0);
    assert_true(server_heard(&servers[0], "STRLEN"));
    client_end(client);
    server_close(&servers[0]);
    server_close(&servers[1]);
}

static void redirections_in_a_circle_end(void **state)
{
    struct server server = server_open();
    struct mr_redis_client *client = client_open(&server);
    struct mr_redis_op op;
    char text[64];
    uint32_t told = 0;
    (void)state;
    turn(client, &server, 1, 0);
    word(&op, "STRLEN", "foo", 100 * MS);
    assert_true(mr_redis_client_send(client, &op));
    snprintf(text, sizeof text, "-ASK 12182 127.0.0.1:%u\r\n", server.port);
    for (struct mr_redis_op *back = NULL; !back; back = mr_redis_client_take(client)) {
        turn(client, &server, 1, 0);
        if (server_heard(&server, "ASKING")) server_say(&server, "+OK\r\n");
        server_say(&server, text);
        assert_true(++told <= MR_REDIS_REDIRECTS_MAX + 1);
        turn(client, &server, 1, 0);
    }
    assert_int_equal(op.outcome, MR_REDIS_MOVED);
    client_end(client);
    server_close(&server);
}

/* The node a command is sent on to does not answer: the command ends at its own deadline. */
static void a_redirection_into_the_void_ends_in_time(void **state)
{
    struct server servers[2] = {server_open(), server_open()};
    struct mr_redis_client *client = client_open(&servers[0]);
    struct mr_redis_op op;
    char text[64];
    (void)state;
    turn(client, servers, 1, 0);
    word(&op, "STRLEN", "foo", 10 * MS);
    assert_true(mr_redis_client_send(client, &op));
    turn(client, servers, 1, 0);
    snprintf(text, sizeof text, "-MOVED 12182 127.0.0.1:%u\r\n", servers[1].port);
    server_say(&servers[0], text);
    turn(client, servers, 1, 0);
    assert_null(mr_redis_client_take(client));
    turn(client, servers, 1, 10 * MS);
    assert_ptr_equal(mr_redis_client_take(client), &op);
    assert_int_equal(op.outcome, MR_REDIS_LATE);
    client_end(client);
    server_close(&servers[0]);
    server_close(&servers[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connects_and_answers),
        cmocka_unit_test(a_bad_server_is_tried_less_and_less),
        cmocka_unit_test(comes_back_when_the_server_does),
        cmocka_unit_test(moved_teaches_the_slot_and_the_map),
        cmocka_unit_test(ask_goes_there_once_and_says_asking),
        cmocka_unit_test(redirections_in_a_circle_end),
        cmocka_unit_test(a_redirection_into_the_void_ends_in_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
