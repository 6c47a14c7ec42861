#include "kvcache/remote/redis_conn_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* A reader on one end of a socket pair; the test writes replies to the other end. */
struct rig {
    struct mr_redis_reader *reader;
    struct mr_redis_link link;
    int server;
    const char *reason;
};

static struct rig rig_open(void)
{
    struct rig rig = {0};
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    mr_redis_link_init(&rig.link);
    mr_redis_link_adopt(&rig.link, pair[0]);
    rig.server = pair[1];
    assert_int_equal(mr_redis_reader_create(&rig.reader, NULL), MR_OK);
    assert_int_equal(mr_redis_reader_reset(rig.reader, NULL), MR_OK);
    return rig;
}

static void rig_close(struct rig *rig)
{
    mr_redis_reader_destroy(rig->reader);
    mr_redis_link_close(&rig->link);
    close(rig->server);
}

static void send_text(struct rig *rig, const char *text)
{
    assert_int_equal(send(rig->server, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Receives until command has its reply, no byte is left or the reply is malformed. */
static enum mr_redis_read read_reply(struct rig *rig, struct mr_redis_command *command)
{
    enum mr_redis_read read = mr_redis_reader_next(rig->reader, command, 1, &rig->reason);
    while (read == MR_READ_MORE &&
           mr_redis_reader_receive(rig->reader, &rig->link, command, command && command->bulk) > 0)
        read = mr_redis_reader_next(rig->reader, command, 1, &rig->reason);
    return read;
}

static void replies_and_values_are_read_in_order(void **state)
{
    struct rig rig = rig_open();
    char header[4], payload[200];
    struct mr_redis_command word = {0}, get = {.bulk = true, .into = {{header, 4}, {payload, 200}}};
    (void)state;
    char value[216] = "$204\r\nHEAD";
    memset(value + 10, 'x', 200);
    memcpy(value + 210, "\r\n", 3);
    send_text(&rig, ":7\r\n");
    send_text(&rig, value);
    send_text(&rig, "-OOM no room\r\n");
    assert_int_equal(read_reply(&rig, &word), MR_READ_REPLY);
    assert_int_equal(mr_redis_reply_integer(word.reply), 7);
    mr_redis_command_end(&word);
    assert_int_equal(read_reply(&rig, &get), MR_READ_REPLY);
    assert_int_equal(get.outcome, MR_REDIS_DONE);
    assert_memory_equal(header, "HEAD", 4);
    assert_int_equal(payload[199], 'x');
    assert_int_equal(read_reply(&rig, &word), MR_READ_REPLY);
    assert_int_equal(word.outcome, MR_REDIS_FULL);
    assert_string_equal(word.error, "OOM no room");
    assert_int_equal(mr_redis_reader_stats(rig.reader).value_bytes, 204);
    rig_close(&rig);
}

static void a_cancelled_value_is_read_past_with_a_short_deadline(void **state)
{
    struct rig rig = rig_open();
    char header[4], payload[8];
    struct mr_redis_command get = {
        .bulk = true, .into = {{header, 4}, {payload, 8}}, .deadline_ns = 100 * MR_REDIS_CANCEL_NS};
    (void)state;
    send_text(&rig, "$12\r\nHEADab");
    assert_int_equal(read_reply(&rig, &get), MR_READ_MORE);
    get.cancelled = true;
    mr_redis_reader_cancel(rig.reader, &get, 5);
    assert_true(get.deadline_ns == 5 + MR_REDIS_CANCEL_NS);
    memset(payload, '-', sizeof payload);
    send_text(&rig, "cdefgh\r\n");
    assert_int_equal(read_reply(&rig, &get), MR_READ_REPLY);
    assert_int_equal(get.outcome, MR_REDIS_MISS);
    assert_memory_equal(payload, "--------", 8);
    rig_close(&rig);
}

/* Only the CR LF after the value is missing: the caller owns the memory again, so the value must
 * not be reported as received. */
static void a_value_cancelled_before_its_line_end_is_not_reported(void **state)
{
    struct rig rig = rig_open();
    char header[4], payload[8];
    struct mr_redis_command word = {0}, get = {.bulk = true, .into = {{header, 4}, {payload, 8}}};
    (void)state;
    send_text(&rig, "$12\r\nHEADabcdefgh");
    assert_int_equal(read_reply(&rig, &get), MR_READ_MORE);
    get.cancelled = true;
    mr_redis_reader_cancel(rig.reader, &get, 5);
    send_text(&rig, "\r\n:7\r\n");
    assert_int_equal(read_reply(&rig, &get), MR_READ_REPLY);
    assert_int_equal(get.outcome, MR_REDIS_MISS);
    assert_int_equal(read_reply(&rig, &word), MR_READ_REPLY);
    assert_int_equal(mr_redis_reply_integer(word.reply), 7);
    mr_redis_command_end(&word);
    rig_close(&rig);
}

static void invalid_replies_are_malformed(void **state)
{
    static const char *const replies[] = {"?\r\n", "$x\r\n", "*99999999\r\n", "$99999999\r\n"};
    (void)state;
    for (size_t i = 0; i < sizeof replies / sizeof *replies; i++) {
        struct rig rig = rig_open();
        struct mr_redis_command word = {0};
        send_text(&rig, replies[i]);
        assert_int_equal(read_reply(&rig, &word), MR_READ_MALFORMED);
        assert_string_not_equal(rig.reason, "");
        rig_close(&rig);
    }
    struct rig rig = rig_open();
    send_text(&rig, "+OK\r\n");
    assert_int_equal(read_reply(&rig, NULL), MR_READ_MALFORMED); /* no command waits for it */
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replies_and_values_are_read_in_order),
        cmocka_unit_test(a_cancelled_value_is_read_past_with_a_short_deadline),
        cmocka_unit_test(a_value_cancelled_before_its_line_end_is_not_reported),
        cmocka_unit_test(invalid_replies_are_malformed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
