#include "kvcache/remote/redis_command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void a_command_is_formatted_and_knows_its_slot(void **state)
{
    static const char *const words[] = {"INCR", "foo"};
    static const size_t lengths[] = {4, 3};
    struct mr_redis_command command;
    (void)state;
    assert_true(mr_redis_command_make(&command, 2, words, lengths, true));
    assert_int_equal(command.out_count, 1);
    assert_int_equal(command.out[0].iov_len, mr_redis_command_length(&command));
    assert_memory_equal(command.out[0].iov_base, "*2\r\n$4\r\nINCR\r\n$3\r\nfoo\r\n", 23);
    assert_int_equal(command.slot, mr_redis_slot("foo", 3));
    mr_redis_command_end(&command);
    assert_true(mr_redis_command_make(&command, 2, words, lengths, false));
    assert_int_equal(command.slot, MR_REDIS_SLOTS);
    mr_redis_command_end(&command);
    assert_null(command.words);
}

static struct mr_redis_reply *parse(struct mr_redis_parser *parser, const char *text,
                                    bool *is_error)
{
    struct mr_redis_reply *reply = NULL;
    assert_true(mr_redis_parser_feed(parser, text, strlen(text), &reply, is_error));
    return reply;
}

static void replies_have_a_type_and_a_value(void **state)
{
    struct mr_redis_parser *parser = mr_redis_parser_create();
    bool is_error;
    size_t length;
    (void)state;
    struct mr_redis_reply *reply = parse(parser, ":42\r\n", &is_error);
    assert_int_equal(mr_redis_reply_type(reply), MR_REDIS_INTEGER);
    assert_int_equal(mr_redis_reply_integer(reply), 42);
    assert_string_equal(mr_redis_reply_text(reply, &length), "");
    assert_true(length == 0 && mr_redis_reply_count(reply) == 0 && !is_error);
    mr_redis_reply_free(reply);
    reply = parse(parser, "-ERR no\r\n", &is_error);
    assert_true(is_error && mr_redis_reply_type(reply) == MR_REDIS_TEXT);
    assert_string_equal(mr_redis_reply_text(reply, &length), "ERR no");
    mr_redis_reply_free(reply);
    reply = parse(parser, "*2\r\n$1\r\na\r\n$-1\r\n", &is_error);
    assert_true(mr_redis_reply_type(reply) == MR_REDIS_LIST && mr_redis_reply_count(reply) == 2);
    assert_int_equal(mr_redis_reply_type(mr_redis_reply_at(reply, 1)), MR_REDIS_NIL);
    assert_int_equal(mr_redis_reply_integer(reply), 0);
    mr_redis_reply_free(reply);
    mr_redis_parser_destroy(parser);
}

static void a_reply_may_come_in_pieces_or_be_invalid(void **state)
{
    struct mr_redis_parser *parser = mr_redis_parser_create();
    struct mr_redis_reply *reply;
    bool is_error;
    (void)state;
    assert_null(parse(parser, "$3\r\n", &is_error));
    reply = parse(parser, "abc\r\n", &is_error);
    assert_non_null(reply);
    mr_redis_reply_free(reply);
    assert_false(mr_redis_parser_feed(parser, "?1\r\n", 4, &reply, &is_error));
    mr_redis_parser_destroy(parser);
    mr_redis_parser_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_command_is_formatted_and_knows_its_slot),
        cmocka_unit_test(replies_have_a_type_and_a_value),
        cmocka_unit_test(a_reply_may_come_in_pieces_or_be_invalid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
