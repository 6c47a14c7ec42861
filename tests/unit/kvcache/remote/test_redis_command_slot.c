#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kvcache/remote/redis_command.h"

#include <string.h>

static uint32_t slot(const char *key)
{
    return mr_redis_slot(key, strlen(key));
}

/* 0x31c3 is the specification's own example for "123456789". */
static void a_slot_is_crc16_of_the_key_or_its_tag(void **state)
{
    (void)state;
    assert_int_equal(slot("123456789"), 0x31c3);
    assert_int_equal(slot(""), 0);
    assert_int_equal(slot("foo"), 12182);
    assert_int_equal(slot("{user1000}.following"), slot("user1000"));
    assert_int_equal(slot("foo{}{bar}"), slot("foo{}{bar}"));
    assert_int_not_equal(slot("foo{}{bar}"), slot("bar"));
    assert_int_equal(slot("foo{{bar}}zap"), slot("{bar"));
    assert_int_equal(slot("foo{bar}{zap}"), slot("bar"));
}

static void redirections_are_parsed(void **state)
{
    struct mr_redis_redirect to;
    const char *moved = "MOVED 3999 127.0.0.1:6381", *ask = "ASK 16383 ::1:1", *same = "MOVED 0 :7";
    (void)state;
    assert_true(mr_redis_redirect_parse(moved, strlen(moved), &to));
    assert_int_equal(to.slot, 3999);
    assert_int_equal(to.port, 6381);
    assert_memory_equal(to.host, "127.0.0.1", to.host_length);
    assert_false(to.ask);
    assert_true(mr_redis_redirect_parse(ask, strlen(ask), &to));
    assert_true(to.ask && to.port == 1 && to.host_length == 3);
    assert_true(mr_redis_redirect_parse(same, strlen(same), &to));
    assert_int_equal(to.host_length, 0);
}

static void invalid_redirections_are_refused(void **state)
{
    static const char *const texts[] = {"",
                                        "MOVED",
                                        "MOVED ",
                                        "MOVED 1",
                                        "MOVED 1 h",
                                        "MOVED 1 h:",
                                        "MOVED 16384 h:1",
                                        "ASK x h:1",
                                        "MOVED 1 h:0",
                                        "MOVED 1 h:65536",
                                        "MOVED 1 h:1 ",
                                        "ERR 1 h:1"};
    struct mr_redis_redirect to;
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_false(mr_redis_redirect_parse(texts[i], strlen(texts[i]), &to));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slot_is_crc16_of_the_key_or_its_tag),
        cmocka_unit_test(redirections_are_parsed),
        cmocka_unit_test(invalid_redirections_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
