#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/remote_cache/redis_port.h"

static void a_port_reaches_its_client(void **state)
{
    struct mr_redis_conn_options conn = {.where = {.host = "", .path = "/nowhere"},
                                         .connect_timeout_ns = 1000};
    struct mr_redis_port port;
    struct mr_redis_op op;
    struct pollfd fds[4];
    (void)state;
    assert_int_equal(mr_redis_port_open(&port, &conn, 1, NULL), MR_OK);
    assert_int_equal(port.deadline_ns(port.context), 0);
    port.step(port.context, 1);
    assert_false(port.is_ready(port.context));
    assert_int_equal(port.stats(port.context).connects, 1);
    assert_int_equal(port.stats(port.context).failures, 1);
    assert_string_not_equal(port.reason(port.context), "");
    assert_int_equal(port.sockets(port.context, fds, 4), 0);
    mr_redis_op_word(&op, "PING", "k", 1);
    assert_false(port.send(port.context, &op));
    port.cancel(port.context, &op, 2);
    assert_null(port.take(port.context));
    port.close(port.context);
    port.destroy(port.context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_port_reaches_its_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
