#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kvcache/remote/redis_conn_state.h"

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

static void a_missing_server_is_unreachable(void **state)
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
        cmocka_unit_test(a_missing_server_is_unreachable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
