#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kvcache/remote/redis_conn_state.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A connection over a socket pair; the test is the server and sets the time. */
struct rig {
    struct mr_redis_conn *conn;
    int server;
    char received[4096]; /* sent by the connection and not read by the test yet */
};

#define HEADER  4u
#define PAYLOAD 300u

static void send_bytes(struct rig *rig, const char *bytes, size_t length)
{
    assert_int_equal(send(rig->server, bytes, length, MSG_NOSIGNAL), (ssize_t)length);
    mr_redis_conn_step(rig->conn, 1);
}

static void send_reply(struct rig *rig, const char *text)
{
    send_bytes(rig, text, strlen(text));
}

static const char *receive(struct rig *rig)
{
    mr_redis_conn_step(rig->conn, 1);
    ssize_t length = recv(rig->server, rig->received, sizeof rig->received - 1, MSG_DONTWAIT);
    rig->received[length > 0 ? length : 0] = '\0';
    return rig->received;
}

static struct rig rig_open(const struct mr_redis_url *where)
{
    struct mr_redis_conn_options options = {.where = *where, .connect_timeout_ns = 1000};
    struct rig rig = {0};
    int pair[2];
    assert_int_equal(mr_redis_conn_create(&rig.conn, &options, NULL), MR_OK);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    rig.server = pair[1];
    mr_redis_conn_adopt(rig.conn, pair[0], 0);
    return rig;
}

static struct rig rig_ready(void)
{
    struct rig rig = rig_open(&(struct mr_redis_url){.host = "h"});
    assert_string_equal(receive(&rig), "*1\r\n$4\r\nPING\r\n");
    send_reply(&rig, "+PONG\r\n");
    assert_true(mr_redis_conn_is_ready(rig.conn));
    return rig;
}

static void rig_close(struct rig *rig)
{
    mr_redis_conn_close(rig->conn);
    for (struct mr_redis_command *command; (command = mr_redis_conn_take(rig->conn)) != NULL;)
        mr_redis_command_end(command);
    mr_redis_conn_destroy(rig->conn);
    close(rig->server);
}

struct get {
    struct mr_redis_command command;
    char header[HEADER], payload[PAYLOAD];
};

static void send_get(struct rig *rig, struct get *get)
{
    struct mr_redis_value value = {"k", 1, get->header, get->payload, HEADER, PAYLOAD};
    memset(get->payload, '?', PAYLOAD);
    mr_redis_command_get(&get->command, &value);
    get->command.deadline_ns = 100;
    mr_redis_conn_send(rig->conn, &get->command);
}

static void send_word(struct rig *rig, struct mr_redis_command *command, const char *word)
{
    mr_redis_command_word(command, word, "k", 1);
    command->deadline_ns = 100;
    mr_redis_conn_send(rig->conn, command);
}

/* The reply to a get: "$304\r\nHEADaaaa...\r\n"; returns its length. */
static size_t value_reply(char *out, char fill)
{
    memcpy(out, "$304\r\nHEAD", 10);
    memset(out + 10, fill, PAYLOAD);
    memcpy(out + 10 + PAYLOAD, "\r\n", 2);
    return 12 + PAYLOAD;
}

static void assert_value(const struct get *get, char fill)
{
    assert_memory_equal(get->header, "HEAD", HEADER);
    for (size_t i = 0; i < PAYLOAD; i++)
        assert_int_equal(get->payload[i], fill);
}

/* ---- handshake ---- */

static void the_handshake_comes_first(void **state)
{
    struct mr_redis_url where = {.host = "h", .user = "ann", .password = "pw", .database = 3};
    struct rig rig = rig_open(&where);
    (void)state;
    assert_string_equal(receive(&rig), "*3\r\n$4\r\nAUTH\r\n$3\r\nann\r\n$2\r\npw\r\n"
                                       "*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n*1\r\n$4\r\nPING\r\n");
    send_reply(&rig, "+OK\r\n+OK\r\n");
    assert_false(mr_redis_conn_is_ready(rig.conn));
    send_reply(&rig, "+PONG\r\n");
    assert_true(mr_redis_conn_is_ready(rig.conn));
    rig_close(&rig);
}

/* The current login stays valid; only the next login uses the changed password. */
static void a_changed_password_is_used_by_the_next_login(void **state)
{
    struct mr_redis_url where = {.host = "h", .password = "old"};
    struct rig rig = rig_open(&where);
    int pair[2];
    (void)state;
    assert_string_equal(receive(&rig), "*2\r\n$4\r\nAUTH\r\n$3\r\nold\r\n*1\r\n$4\r\nPING\r\n");
    send_reply(&rig, "+OK\r\n+PONG\r\n");
    mr_redis_conn_set_password(rig.conn, "newer");
    assert_string_equal(receive(&rig), "");
    assert_true(mr_redis_conn_is_ready(rig.conn));
    mr_redis_conn_close(rig.conn);
    close(rig.server);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    rig.server = pair[1];
    mr_redis_conn_adopt(rig.conn, pair[0], 0);
    assert_string_equal(receive(&rig), "*2\r\n$4\r\nAUTH\r\n$5\r\nnewer\r\n*1\r\n$4\r\nPING\r\n");
    rig_close(&rig);
}

static void a_refused_handshake_closes_with_the_reason(void **state)
{
    static const char *const replies[] = {
        "-WRONGPASS invalid username-password pair\r\n", "-LOADING Redis is loading\r\n",
        "-NOAUTH Authentication required.\r\n", "-ERR max number of clients reached\r\n"};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct rig rig = rig_open(&(struct mr_redis_url){.host = "h", .password = "pw"});
        assert_string_equal(receive(&rig), "*2\r\n$4\r\nAUTH\r\n$2\r\npw\r\n*1\r\n$4\r\nPING\r\n");
        send_reply(&rig, replies[i]);
        assert_true(mr_redis_conn_is_closed(rig.conn));
        assert_memory_equal(mr_redis_conn_reason(rig.conn), replies[i] + 1, 6);
        rig_close(&rig);
    }
}

static void a_handshake_must_be_answered_in_time(void **state)
{
    struct rig rig = rig_open(&(struct mr_redis_url){.host = "h"});
    (void)state;
    assert_int_equal(mr_redis_conn_deadline_ns(rig.conn), 1000);
    mr_redis_conn_step(rig.conn, 999);
    assert_false(mr_redis_conn_is_closed(rig.conn));
    mr_redis_conn_step(rig.conn, 1000);
    assert_true(mr_redis_conn_is_closed(rig.conn));
    rig_close(&rig);
}

/* ---- replies ---- */

/* Every kind of reply in one stream, cut in two at every byte, and byte by byte. */
static void replies_may_be_cut_anywhere(void **state)
{
    char stream[3000];
    size_t length = value_reply(stream, 'a');
    memcpy(stream + length, ":1234\r\n$-1\r\n", 12);
    length += 12;
    length += value_reply(stream + length, 'b');
    memcpy(stream + length, "-OOM command not allowed\r\n*2\r\n$4\r\na\r\nb\r\n:7\r\n", 44);
    length += 44;
    (void)state;
    for (size_t cut = 0; cut <= length; cut++) {
        struct rig rig = rig_ready();
        struct get first, missing, second;
        struct mr_redis_command count, full, list;
        send_get(&rig, &first);
        send_word(&rig, &count, "STRLEN");
        send_get(&rig, &missing);
        send_get(&rig, &second);
        send_word(&rig, &full, "DEL");
        send_word(&rig, &list, "LRANGE");
        receive(&rig);
        for (size_t i = 0; cut == length && i < length; i++)
            send_bytes(&rig, stream + i, 1);
        if (cut && cut < length) send_bytes(&rig, stream, cut);
        if (cut < length) send_bytes(&rig, stream + cut, length - cut);
        assert_ptr_equal(mr_redis_conn_take(rig.conn), &first.command);
        assert_int_equal(first.command.outcome, MR_REDIS_DONE);
        assert_value(&first, 'a');
        assert_ptr_equal(mr_redis_conn_take(rig.conn), &count);
        assert_int_equal(mr_redis_reply_integer(count.reply), 1234);
        assert_ptr_equal(mr_redis_conn_take(rig.conn), &missing.command);
        assert_int_equal(missing.command.outcome, MR_REDIS_MISS);
        assert_ptr_equal(mr_redis_conn_take(rig.conn), &second.command);
        assert_value(&second, 'b');
        assert_ptr_equal(mr_redis_conn_take(rig.conn), &full);
        assert_int_equal(full.outcome, MR_REDIS_FULL);
        assert_string_equal(full.error, "OOM command not allowed");
        assert_ptr_equal(mr_redis_conn_take(rig.conn), &list);
        assert_int_equal(mr_redis_reply_count(list.reply), 2);
        size_t text_length = 0;
        const char *text = mr_redis_reply_text(mr_redis_reply_at(list.reply, 0), &text_length);
        assert_int_equal(text_length, 4);
        assert_memory_equal(text, "a\r\nb", 4);
        mr_redis_command_end(&count);
        mr_redis_command_end(&list);
        rig_close(&rig);
    }
}

static void a_large_value_is_not_copied(void **state)
{
    static char payload[1 << 20], reply[(1 << 20) + 64];
    struct rig rig = rig_ready();
    struct mr_redis_command command;
    char header[64];
    struct mr_redis_value value = {"k", 1, header, payload, sizeof header, sizeof payload};
    (void)state;
    mr_redis_command_get(&command, &value);
    command.deadline_ns = 100;
    mr_redis_conn_send(rig.conn, &command);
    receive(&rig);
    memset(reply, 'z', sizeof reply);
    send_reply(&rig, "$1048640\r\n");
    for (size_t sent = 0; sent < sizeof reply; sent += 4096) {
        size_t part = sizeof reply - sent < 4096 ? sizeof reply - sent : 4096;
        send_bytes(&rig, reply + sent, part);
    }
    send_reply(&rig, "\r\n");
    assert_ptr_equal(mr_redis_conn_take(rig.conn), &command);
    assert_memory_equal(payload, reply, sizeof payload);
    assert_int_equal(mr_redis_conn_stats(rig.conn).value_bytes, sizeof reply);
    assert_true(mr_redis_conn_stats(rig.conn).copied_bytes <= 96);
    rig_close(&rig);
}

static void a_value_of_another_size_is_read_past(void **state)
{
    struct rig rig = rig_ready();
    struct get shorter, longer;
    struct mr_redis_command count;
    char reply[500];
    (void)state;
    send_get(&rig, &shorter);
    send_get(&rig, &longer);
    send_word(&rig, &count, "STRLEN");
    send_reply(&rig, "$3\r\nabc\r\n$400\r\n");
    memset(reply, 'x', 400);
    memcpy(reply + 400, "\r\n:5\r\n", 7);
    send_reply(&rig, reply);
    assert_ptr_equal(mr_redis_conn_take(rig.conn), &shorter.command);
    assert_int_equal(shorter.command.outcome, MR_REDIS_WRONG_SIZE);
    assert_int_equal(shorter.payload[0], '?');
    assert_ptr_equal(mr_redis_conn_take(rig.conn), &longer.command);
    assert_int_equal(longer.command.outcome, MR_REDIS_WRONG_SIZE);
    assert_ptr_equal(mr_redis_conn_take(rig.conn), &count);
    assert_int_equal(mr_redis_reply_integer(count.reply), 5);
    mr_redis_command_end(&count);
    rig_close(&rig);
}

static void a_cancelled_value_is_not_written_to_memory(void **state)
{
    struct rig rig = rig_ready();
    struct get begun, waiting;
    char reply[400];
    size_t length = value_reply(reply, 'q');
    (void)state;
    send_get(&rig, &begun);
    send_get(&rig, &waiting);
    send_bytes(&rig, reply, 50);
    mr_redis_conn_cancel(rig.conn, &begun.command, 1);
    mr_redis_conn_cancel(rig.conn, &waiting.command, 1);
    memset(begun.payload, '!', PAYLOAD);
    send_bytes(&rig, reply + 50, length - 50);
    send_bytes(&rig, reply, length);
    assert_ptr_equal(mr_redis_conn_take(rig.conn), &begun.command);
    assert_int_equal(begun.command.outcome, MR_REDIS_MISS);
    assert_ptr_equal(mr_redis_conn_take(rig.conn), &waiting.command);
    for (size_t i = 0; i < PAYLOAD; i++)
        assert_true(begun.payload[i] == '!' && waiting.payload[i] == '?');
    assert_true(mr_redis_conn_is_ready(rig.conn));
    rig_close(&rig);
}

/* Reading past a cancelled value takes too long: the connection is closed. A value that has not
 * started to arrive keeps its deadline. */
static void a_cancelled_value_does_not_block_its_connection(void **state)
{
    uint64_t due_ns = 1 + MR_REDIS_CANCEL_NS;
    char reply[400];
    size_t length = value_reply(reply, 'q');
    (void)state;
    for (uint32_t turn = 0; turn < 2; turn++) {
        struct rig rig = rig_ready();
        struct get get;
        send_get(&rig, &get);
        get.command.deadline_ns = UINT64_MAX;
        receive(&rig);
        if (turn == 0) send_bytes(&rig, reply, 50);
        mr_redis_conn_cancel(rig.conn, &get.command, 1);
        assert_int_equal(mr_redis_conn_deadline_ns(rig.conn), turn == 0 ? due_ns : UINT64_MAX);
        if (turn == 1) send_bytes(&rig, reply, length - 1);
        assert_int_equal(mr_redis_conn_deadline_ns(rig.conn), due_ns);
        mr_redis_conn_step(rig.conn, due_ns - 1);
        assert_true(mr_redis_conn_is_ready(rig.conn));
        mr_redis_conn_step(rig.conn, due_ns);
        assert_true(mr_redis_conn_is_closed(rig.conn));
        assert_ptr_equal(mr_redis_conn_take(rig.conn), &get.command);
        rig_close(&rig);
    }
}

/* A command that is not sent yet is never sent; one sent completely gets its reply; one sent in
 * part closes the connection. */
static void a_cancelled_command_is_not_read_from_memory_again(void **state)
{
    (void)state;
    for (uint32_t turn = 0; turn < 3; turn++) {
        struct rig rig = rig_ready();
        size_t length = turn == 2 ? (size_t)8 << 20 : PAYLOAD;
        char *payload = calloc(1, length);
        struct mr_redis_value value = {
            .key = "k", .key_length = 1, .payload = payload, .length = length};
        struct mr_redis_command set, count;
        mr_redis_command_set(&set, &value, 0);
        set.deadline_ns = UINT64_MAX;
        mr_redis_conn_send(rig.conn, &set);
        if (turn > 0) mr_redis_conn_step(rig.conn, 1);
        mr_redis_conn_cancel(rig.conn, &set, 1);
        free(payload);
        assert_int_equal(mr_redis_conn_is_closed(rig.conn), turn == 2);
        if (turn == 1) send_reply(&rig, "+OK\r\n");
        assert_ptr_equal(mr_redis_conn_take(rig.conn), &set);
        assert_int_equal(set.outcome, turn == 1 ? MR_REDIS_DONE : MR_REDIS_LOST);
        mr_redis_command_end(&set);
        if (turn == 0) {
            assert_int_equal(mr_redis_conn_in_flight(rig.conn), 0);
            send_word(&rig, &count, "STRLEN");
            assert_string_equal(receive(&rig), "*2\r\n$6\r\nSTRLEN\r\n$1\r\nk\r\n");
        }
        rig_close(&rig);
    }
}

/* A reply that is invalid, belongs to another command or declares too great a length closes the
 * connection before memory is allocated for it; later replies are not used. */
static void an_invalid_reply_closes_the_connection(void **state)
{
    static const char *const to_get[] = {"HTTP/1.1 400 Bad Request\r\n",
                                         "\r\n",
                                         "+OK\r\n",
                                         ":5\r\n",
                                         "*0\r\n",
                                         "$99999999999\r\n",
                                         "$16777217\r\n",
                                         "$-2\r\n",
                                         "$1x\r\n",
                                         "$\r\n",
                                         "$00000000000000000000000001",
                                         "%1\r\n",
                                         "_\r\n",
                                         "$304\nHEAD"};
    static const char *const to_word[] = {
        "*1000000000\r\n", "$99999999999\r\n",    "*65537\r\n",  ":x\r\n",
        "?\r\n",           "*1\r\n*1\r\n*-5\r\n", ":1\r\n:2\r\n"};
    (void)state;
    for (size_t i = 0; i < sizeof to_get / sizeof *to_get; i++) {
        struct rig rig = rig_ready();
        struct get get, next;
        send_get(&rig, &get);
        send_get(&rig, &next);
        send_reply(&rig, to_get[i]);
        if (!mr_redis_conn_is_closed(rig.conn)) fail_msg("%s was taken", to_get[i]);
        assert_ptr_equal(mr_redis_conn_take(rig.conn), &get.command);
        assert_int_equal(get.command.outcome, MR_REDIS_MALFORMED);
        assert_ptr_equal(mr_redis_conn_take(rig.conn), &next.command);
        assert_int_equal(next.command.outcome, MR_REDIS_LOST);
        rig_close(&rig);
    }
    for (size_t i = 0; i < sizeof to_word / sizeof *to_word; i++) {
        struct rig rig = rig_ready();
        struct mr_redis_command command;
        send_word(&rig, &command, "STRLEN");
        send_reply(&rig, to_word[i]);
        if (!mr_redis_conn_is_closed(rig.conn)) fail_msg("%s was taken", to_word[i]);
        rig_close(&rig);
    }
}

static void a_value_must_have_the_declared_length(void **state)
{
    struct rig rig = rig_ready();
    struct get get;
    char reply[400];
    size_t length = value_reply(reply, 'q');
    (void)state;
    send_get(&rig, &get);
    reply[length - 2] = 'q';
    send_bytes(&rig, reply, length);
    assert_true(mr_redis_conn_is_closed(rig.conn));
    assert_ptr_equal(mr_redis_conn_take(rig.conn), &get.command);
    assert_int_equal(get.command.outcome, MR_REDIS_MALFORMED);
    rig_close(&rig);
}

static void a_reply_without_a_command_closes_the_connection(void **state)
{
    struct rig rig = rig_ready();
    (void)state;
    send_reply(&rig, "+OK\r\n");
    assert_true(mr_redis_conn_is_closed(rig.conn));
    rig_close(&rig);
}

/* ---- closing ---- */

static void commands_in_flight_are_lost_when_the_server_closes(void **state)
{
    char reply[400];
    size_t length = value_reply(reply, 'q');
    (void)state;
    for (size_t cut = 0; cut < length; cut += 11) {
        struct rig rig = rig_ready();
        struct get get;
        struct mr_redis_command command;
        send_get(&rig, &get);
        send_word(&rig, &command, "STRLEN");
        if (cut) send_bytes(&rig, reply, cut);
        shutdown(rig.server, SHUT_RDWR);
        mr_redis_conn_step(rig.conn, 2);
        assert_true(mr_redis_conn_is_closed(rig.conn));
        assert_ptr_equal(mr_redis_conn_take(rig.conn), &get.command);
        assert_int_equal(get.command.outcome, MR_REDIS_LOST);
        assert_ptr_equal(mr_redis_conn_take(rig.conn), &command);
        assert_null(mr_redis_conn_take(rig.conn));
        rig_close(&rig);
    }
}

static void a_timeout_closes_the_connection(void **state)
{
    struct rig rig = rig_ready();
    struct mr_redis_command early, late;
    (void)state;
    send_word(&rig, &late, "STRLEN");
    send_word(&rig, &early, "STRLEN");
    late.deadline_ns = 50;
    assert_int_equal(mr_redis_conn_deadline_ns(rig.conn), 50);
    mr_redis_conn_step(rig.conn, 49);
    assert_true(mr_redis_conn_is_ready(rig.conn));
    mr_redis_conn_step(rig.conn, 50);
    assert_ptr_equal(mr_redis_conn_take(rig.conn), &late);
    assert_int_equal(late.outcome, MR_REDIS_TIMEOUT);
    assert_ptr_equal(mr_redis_conn_take(rig.conn), &early);
    assert_int_equal(early.outcome, MR_REDIS_LOST);
    assert_int_equal(mr_redis_conn_in_flight(rig.conn), 0);
    rig_close(&rig);
}

static void commands_arrive_complete_through_a_small_socket_buffer(void **state)
{
    static char payload[1 << 20], got[(1 << 20) + 4096];
    struct rig rig = rig_ready();
    struct mr_redis_command set, after;
    char header[64];
    size_t length = 0;
    struct mr_redis_value value = {"k", 1, header, payload, sizeof header, sizeof payload};
    (void)state;
    for (size_t i = 0; i < sizeof payload; i++)
        payload[i] = (char)(i * 31);
    memset(header, 'h', sizeof header);
    mr_redis_command_set(&set, &value, 60);
    set.deadline_ns = 100;
    mr_redis_conn_send(rig.conn, &set);
    send_word(&rig, &after, "STRLEN");
    for (int i = 0; i < 100000 && length < sizeof payload + 64; i++) {
        mr_redis_conn_step(rig.conn, 1);
        ssize_t part = recv(rig.server, got + length, 3333, MSG_DONTWAIT);
        if (part > 0) length += (size_t)part;
    }
    receive(&rig);
    const char *front = "*5\r\n$3\r\nSET\r\n$1\r\nk\r\n$1048640\r\n";
    assert_memory_equal(got, front, strlen(front));
    assert_memory_equal(got + strlen(front) + 64, payload, sizeof payload - 4096);
    send_reply(&rig, "+OK\r\n:9\r\n");
    assert_ptr_equal(mr_redis_conn_take(rig.conn), &set);
    assert_int_equal(set.outcome, MR_REDIS_DONE);
    assert_ptr_equal(mr_redis_conn_take(rig.conn), &after);
    mr_redis_command_end(&set);
    mr_redis_command_end(&after);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_handshake_comes_first),
        cmocka_unit_test(a_changed_password_is_used_by_the_next_login),
        cmocka_unit_test(a_refused_handshake_closes_with_the_reason),
        cmocka_unit_test(a_handshake_must_be_answered_in_time),
        cmocka_unit_test(replies_may_be_cut_anywhere),
        cmocka_unit_test(a_large_value_is_not_copied),
        cmocka_unit_test(a_value_of_another_size_is_read_past),
        cmocka_unit_test(a_cancelled_value_is_not_written_to_memory),
        cmocka_unit_test(a_cancelled_value_does_not_block_its_connection),
        cmocka_unit_test(a_cancelled_command_is_not_read_from_memory_again),
        cmocka_unit_test(an_invalid_reply_closes_the_connection),
        cmocka_unit_test(a_value_must_have_the_declared_length),
        cmocka_unit_test(a_reply_without_a_command_closes_the_connection),
        cmocka_unit_test(commands_in_flight_are_lost_when_the_server_closes),
        cmocka_unit_test(a_timeout_closes_the_connection),
        cmocka_unit_test(commands_arrive_complete_through_a_small_socket_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
