#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kvcache/remote/redis_command.h"

#include <string.h>

static size_t joined(const struct mr_redis_command *command, char *out)
{
    size_t used = 0;
    for (int i = 0; i < command->out_count; i++) {
        memcpy(out + used, command->out[i].iov_base, command->out[i].iov_len);
        used += command->out[i].iov_len;
    }
    out[used] = '\0';
    return used;
}

static struct mr_redis_value value(char *header, char *payload)
{
    return (struct mr_redis_value){.key = "k:1",
                                   .key_length = 3,
                                   .header = header,
                                   .header_length = 2,
                                   .payload = payload,
                                   .length = 5};
}

static void set_points_at_the_payload_and_copies_nothing(void **state)
{
    char header[] = "HD", payload[] = "12345", out[200];
    struct mr_redis_value v = value(header, payload);
    struct mr_redis_command command;
    (void)state;
    mr_redis_command_set(&command, &v, 3600);
    joined(&command, out);
    assert_string_equal(
        out, "*5\r\n$3\r\nSET\r\n$3\r\nk:1\r\n$7\r\nHD12345\r\n$2\r\nEX\r\n$4\r\n3600\r\n");
    assert_ptr_equal(command.out[2].iov_base, payload);
    mr_redis_command_set(&command, &v, 0);
    joined(&command, out);
    assert_string_equal(out, "*3\r\n$3\r\nSET\r\n$3\r\nk:1\r\n$7\r\nHD12345\r\n");
}

static void get_expects_exactly_header_and_payload(void **state)
{
    char header[2], payload[5], out[200];
    struct mr_redis_value v = value(header, payload);
    struct mr_redis_command command;
    (void)state;
    mr_redis_command_get(&command, &v);
    joined(&command, out);
    assert_string_equal(out, "*2\r\n$3\r\nGET\r\n$3\r\nk:1\r\n");
    assert_true(command.bulk && command.into[1].iov_base == payload &&
                command.into[1].iov_len == 5);
    assert_int_equal(command.slot, mr_redis_slot("k:1", 3));
}

static void short_commands_are_one_text(void **state)
{
    struct mr_redis_command command;
    char out[400], key[MR_REDIS_KEY_BYTES];
    (void)state;
    mr_redis_command_expire(&command, "k", 1, 60);
    joined(&command, out);
    assert_string_equal(out, "*3\r\n$6\r\nEXPIRE\r\n$1\r\nk\r\n$2\r\n60\r\n");
    memset(key, 'k', sizeof key);
    mr_redis_command_word(&command, "STRLEN", key, sizeof key);
    assert_int_equal(joined(&command, out), 4 + 4 + 8 + 6 + sizeof key + 2);
}

static void each_error_reply_has_its_outcome(void **state)
{
    static const struct {
        const char *text;
        enum mr_redis_outcome outcome;
    } cases[] = {
        {"MOVED 1 h:1", MR_REDIS_MOVED},
        {"ASK 1 h:1", MR_REDIS_MOVED},
        {"LOADING Redis is loading the dataset in memory", MR_REDIS_BUSY},
        {"OOM command not allowed when used memory > 'maxmemory'.", MR_REDIS_FULL},
        {"MISCONF Redis is configured to save", MR_REDIS_FULL},
        {"NOAUTH Authentication required.", MR_REDIS_DENIED},
        {"WRONGPASS invalid", MR_REDIS_DENIED},
        {"NOPERM this user has no permissions", MR_REDIS_DENIED},
        {"READONLY You can't write", MR_REDIS_READ_ONLY},
        {"WRONGTYPE Operation", MR_REDIS_WRONG_TYPE},
        {"ERR unknown command", MR_REDIS_REFUSED},
        {"OOMPH", MR_REDIS_REFUSED},
        {"", MR_REDIS_REFUSED},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(mr_redis_outcome_of(cases[i].text, strlen(cases[i].text)),
                         cases[i].outcome);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(set_points_at_the_payload_and_copies_nothing),
        cmocka_unit_test(get_expects_exactly_header_and_payload),
        cmocka_unit_test(short_commands_are_one_text),
        cmocka_unit_test(each_error_reply_has_its_outcome),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
