#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kvcache/redis_link.h"

#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int door = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    assert_int_equal(bind(door, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(door, 1), 0);
    return door;
}

static void bytes_go_both_ways_over_a_unix_socket(void **state)
{
    char folder[] = "/tmp/mr-link-XXXXXX", heard[8] = "", first[3] = "", second[4] = "";
    struct mr_redis_url where = {0};
    struct mr_redis_link link;
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(where.path, sizeof where.path, "%s/s", folder);
    int door = listen_at(where.path);
    mr_redis_link_init(&link);
    assert_int_equal(mr_redis_link_open(&link, &where, NULL, NULL), MR_OK);
    int peer = accept(door, NULL, NULL);
    assert_int_equal(mr_redis_link_finish(&link, NULL), MR_OK);
    struct iovec out[] = {{"he", 2}, {"", 0}, {"llo", 3}};
    assert_int_equal(mr_redis_link_write(&link, out, 3), 5);
    assert_int_equal(recv(peer, heard, sizeof heard, 0), 5);
    assert_string_equal(heard, "hello");
    struct iovec in[] = {{first, 2}, {second, 3}};
    assert_int_equal(mr_redis_link_read(&link, in, 2), 0);
    assert_int_equal(mr_redis_link_events(&link, false), POLLIN);
    assert_int_equal(mr_redis_link_events(&link, true), POLLIN | POLLOUT);
    assert_int_equal(send(peer, "world", 5, 0), 5);
    assert_int_equal(mr_redis_link_read(&link, in, 2), 5);
    assert_string_equal(first, "wo");
    assert_string_equal(second, "rld");
    close(peer);
    assert_int_equal(mr_redis_link_read(&link, in, 2), -1);
    mr_redis_link_close(&link);
    close(door);
    unlink(where.path);
    rmdir(folder);
}

static void accept_link(struct mr_redis_link *link, int *peer)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct mr_redis_url where = {.host = "127.0.0.1"};
    socklen_t length = sizeof address;
    int door = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(door, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(door, 1), 0);
    assert_int_equal(getsockname(door, (struct sockaddr *)&address, &length), 0);
    where.port = ntohs(address.sin_port);
    mr_redis_link_init(link);
    assert_int_equal(mr_redis_link_open(link, &where, NULL, NULL), MR_OK);
    *peer = accept(door, NULL, NULL);
    while (mr_redis_link_finish(link, NULL) == MR_AGAIN)
        usleep(1000);
    close(door);
}

static bool rings(const struct mr_redis_link *link, int wait_ms)
{
    struct pollfd door = {.fd = link->fd, .events = mr_redis_link_events(link, false)};
    return poll(&door, 1, wait_ms) == 1;
}

static void poll_waits_for_as_much_as_is_expected(void **state)
{
    char bytes[8];
    struct iovec in = {bytes, sizeof bytes};
    struct mr_redis_link link;
    int peer;
    (void)state;
    accept_link(&link, &peer);
    mr_redis_link_expect(&link, 6);
    assert_int_equal(send(peer, "hello", 5, 0), 5);
    assert_false(rings(&link, 50));
    assert_int_equal(send(peer, "!", 1, 0), 1);
    assert_true(rings(&link, -1));
    assert_int_equal(mr_redis_link_read(&link, &in, 1), 6);
    mr_redis_link_expect(&link, 1);
    assert_int_equal(send(peer, "x", 1, 0), 1);
    assert_true(rings(&link, -1));
    assert_int_equal(mr_redis_link_read(&link, &in, 1), 1);
    mr_redis_link_expect(&link, 100000000);
    close(peer); /* the end is told in any case */
    assert_true(rings(&link, -1));
    assert_int_equal(mr_redis_link_read(&link, &in, 1), -1);
    mr_redis_link_close(&link);
}

static void what_is_not_there_is_unreachable(void **state)
{
    struct mr_redis_url socket_url = {.path = "/nowhere/at/all"};
    struct mr_redis_url name = {.host = "no such host.invalid", .port = 1};
    struct mr_redis_url port = {.host = "127.0.0.1", .port = 1};
    struct mr_redis_link link;
    struct mr_error err = {0};
    (void)state;
    mr_redis_link_init(&link);
    assert_int_equal(mr_redis_link_open(&link, &socket_url, NULL, &err), MR_UNREACHABLE);
    assert_int_equal(mr_redis_link_open(&link, &name, NULL, &err), MR_UNREACHABLE);
    enum mr_status status = mr_redis_link_open(&link, &port, NULL, &err);
    for (int i = 0; i < 1000 && (status == MR_OK || status == MR_AGAIN); i++, usleep(1000))
        status = mr_redis_link_finish(&link, &err);
    assert_int_equal(status, MR_UNREACHABLE);
    mr_redis_link_close(&link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_go_both_ways_over_a_unix_socket),
        cmocka_unit_test(poll_waits_for_as_much_as_is_expected),
        cmocka_unit_test(what_is_not_there_is_unreachable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
