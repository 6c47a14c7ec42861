#include "codec/wire/wire.h"

#include "codec/limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BYTES(literal) ((struct mr_text){literal, sizeof literal - 1})

static enum mr_status open_and_close(struct mr_text bytes)
{
    struct mr_wire *wire;
    struct mr_error err = {0};
    /* A copy of exactly this size, so that a sanitizer detects a read after its end. */
    char *copy = malloc(bytes.length ? bytes.length : 1);
    assert_non_null(copy);
    memcpy(copy, bytes.bytes, bytes.length);
    enum mr_status status = mr_wire_open(&wire, (struct mr_text){copy, bytes.length}, &err);
    assert_int_equal(status == MR_OK, wire != NULL);
    mr_wire_close(wire);
    free(copy);
    return status;
}

static void every_format_of_msgpack_is_read(void **state)
{
    (void)state;
    struct mr_text record =
        BYTES("\xde\x00\x13\xa1\x61\xc0\xa1\x62\xc2\xa1\x63\xc3\xa1\x64\xcc\xff\xa1\x65\xcd\xff\xff"
              "\xa1\x66\xce\x00\x01\x00\x00\xa1\x67\xcf\x00\x00\x00\x00\x00\x00\x00\x01"
              "\xa1\x68\xd0\x80\xa1\x69\xd1\x80\x00\xa1\x6a\xd2\x80\x00\x00\x00"
              "\xa1\x6b\xd3\x80\x00\x00\x00\x00\x00\x00\x00\xa1\x6c\xca\x3f\x80\x00\x00"
              "\xa1\x6d\xcb\x3f\xf0\x00\x00\x00\x00\x00\x00\xa1\x6e\xd9\x01x\xa1\x6f\xda\x00\x01y"
              "\xa1\x70\xdb\x00\x00\x00\x01z\xa1\x71\xc4\x01\xff\xa1\x72\xdc\x00\x01\x05"
              "\xa1\x73\xdd\x00\x00\x00\x01\xe0");
    struct mr_wire *wire;
    struct mr_error err = {0};
    struct mr_value value;
    assert_int_equal(mr_wire_open(&wire, record, &err), MR_OK);
    struct mr_value root = mr_wire_root(wire);
    assert_int_equal(mr_value_count(root), 19);
    assert_true(mr_value_get(root, "e", &value) && mr_value_int(value) == 65535);
    assert_true(mr_value_get(root, "j", &value) && mr_value_int(value) == INT32_MIN);
    assert_true(mr_value_get(root, "l", &value) && mr_value_number(value) == 1.0);
    assert_true(mr_value_get(root, "q", &value) && mr_value_kind(value) == MR_VALUE_BINARY);
    assert_true(mr_value_get(root, "s", &value) && mr_value_int(mr_value_at(value, 0)) == -32);
    mr_wire_close(wire);
}

static void declared_lengths_must_fit_the_bytes_left(void **state)
{
    (void)state;
    static const struct mr_text records[] = {
        BYTES("\xdf\x10\x00\x00\x00"),
        BYTES("\xdf\xff\xff\xff\xff"),
        BYTES("\x81\xa1k\xdd\x10\x00\x00\x00"),
        BYTES("\x81\xa1k\xdb\x7f\xff\xff\xff"),
        BYTES("\x81\xa1k\xc6\xff\xff\xff\xff"),
        BYTES("\x81\xdb\xff\xff\xff\xff"),
        BYTES("\x81\xa1k\xdc\xff\xff\x01"),
        BYTES("\x81\xa1k\xde\x00\x01\xa1k"),
        BYTES("\x82\xa1k\x01"),
        BYTES("\x8f"),
    };
    for (size_t i = 0; i < sizeof records / sizeof records[0]; i++)
        assert_int_equal(open_and_close(records[i]), MR_MALFORMED);
}

static void every_truncation_is_rejected(void **state)
{
    (void)state;
    struct mr_text record =
        BYTES("\x83\xa2id\xa3one\xa6prompt\xd9\x05hello\xa4list\x93\xcd\x01\x00\xcb\x3f\xf0\x00"
              "\x00\x00\x00\x00\x00\xc3");
    assert_int_equal(open_and_close(record), MR_OK);
    for (size_t length = 0; length < record.length; length++)
        assert_int_equal(open_and_close((struct mr_text){record.bytes, length}), MR_MALFORMED);
}

static void forbidden_values_are_rejected(void **state)
{
    (void)state;
    static const struct mr_text records[] = {
        BYTES("\x80\x00"),                        /* bytes after the record */
        BYTES("\x90"),                            /* not a map */
        BYTES("\x81\x01\x01"),                    /* a key that is an integer */
        BYTES("\x81\xc4\x01k\x01"),               /* a binary key */
        BYTES("\x82\xa1k\x01\xa1k\x02"),          /* a key twice */
        BYTES("\x82\xa1k\x01\xd9\x01k\x02"),      /* a key twice, in two forms */
        BYTES("\x81\xa1k\x82\xa1z\x01\xa1z\x02"), /* a key twice in an inner map */
        BYTES("\x81\xa1k\xa2\xc3\x28"),           /* invalid UTF-8 */
        BYTES("\x81\xa2\xed\xa0\x01"),            /* invalid UTF-8 in a key */
        BYTES("\x81\xa1k\xa3\xed\xa0\x80"),       /* a surrogate */
        BYTES("\x81\xa1k\xd4\x01\x00"),           /* extensions */
        BYTES("\x81\xa1k\xd6\xff\x00\x00\x00\x00"),
        BYTES("\x81\xa1k\xc7\x00\x05"),
        BYTES("\x81\xa1k\xc1"), /* the unused first byte */
    };
    for (size_t i = 0; i < sizeof records / sizeof records[0]; i++)
        assert_int_equal(open_and_close(records[i]), MR_MALFORMED);
    assert_int_equal(open_and_close(BYTES("")), MR_MALFORMED);
}

static void nesting_is_limited_exactly(void **state)
{
    (void)state;
    for (unsigned depth = MR_NESTING_MAX; depth <= MR_NESTING_MAX + 1; depth++) {
        char record[64] = "\x81\xa1k";
        memset(record + 3, '\x91', depth - 2); /* the root map and depth - 1 arrays */
        record[3 + depth - 2] = '\x90';
        enum mr_status status = open_and_close((struct mr_text){record, 3 + depth - 1});
        assert_int_equal(status, depth == MR_NESTING_MAX ? MR_OK : MR_MALFORMED);
    }
}

/* Opens a map of count members with keys of 5 digits; twin: one key occurs twice. */
static enum mr_status map_of(size_t count, bool twin)
{
    struct mr_wire_buffer buffer = {.bytes = {.bytes_max = (size_t)1 << 20}};
    mr_wire_put_map(&buffer, count);
    for (size_t i = 0; i < count; i++) {
        char key[5];
        for (size_t k = 0, rest = twin && i == count - 1 ? 7 : i; k < 5; k++, rest /= 10)
            key[k] = (char)('0' + rest % 10);
        mr_wire_put_text(&buffer, (struct mr_text){key, 5});
        mr_wire_put_null(&buffer);
    }
    assert_int_equal(buffer.status, MR_OK);
    enum mr_status status = open_and_close(mr_buffer_text(&buffer.bytes));
    mr_buffer_drop(&buffer.bytes);
    return status;
}

static void large_maps_are_searched_for_duplicate_keys_and_limited(void **state)
{
    (void)state;
    assert_int_equal(map_of(1000, false), MR_OK);
    assert_int_equal(map_of(1000, true), MR_MALFORMED);
    assert_int_equal(map_of(MR_MEMBERS_MAX, false), MR_OK);
    assert_int_equal(map_of(MR_MEMBERS_MAX, true), MR_MALFORMED);
    assert_int_equal(map_of(MR_MEMBERS_MAX + 1, false), MR_MALFORMED);
}

static void too_many_values_are_rejected(void **state)
{
    (void)state;
    for (size_t count = MR_NODES_MAX - 3; count <= MR_NODES_MAX - 2; count++) {
        char *record = calloc(1, count + 8);
        assert_non_null(record);
        memcpy(record, "\x81\xa1k\xdd", 4); /* map, key and array also count as values */
        for (size_t i = 0; i < 4; i++)
            record[4 + i] = (char)(count >> (24 - 8 * i));
        enum mr_status status = open_and_close((struct mr_text){record, count + 8});
        assert_int_equal(status, count == MR_NODES_MAX - 3 ? MR_OK : MR_MALFORMED);
        free(record);
    }
}

static void a_raw_member_has_the_bytes_of_the_record(void **state)
{
    (void)state;
    struct mr_text record = BYTES("\x83\xa1"
                                  "a\x91\x01\xa1m\xd9\x01x\xa1z\xc0");
    struct mr_text raw;
    assert_true(mr_wire_raw_member(record, "m", &raw));
    assert_int_equal(raw.length, 3);
    assert_memory_equal(raw.bytes, "\xd9\x01x", 3);
    assert_true(mr_wire_raw_member(record, "a", &raw));
    assert_memory_equal(raw.bytes, "\x91\x01", 2);
    assert_false(mr_wire_raw_member(record, "q", &raw));
}

static void a_full_buffer_sets_a_sticky_status(void **state)
{
    (void)state;
    struct mr_wire_buffer buffer = {.bytes = {.bytes_max = 4}};
    mr_wire_put_text(&buffer, (struct mr_text){"abc", 3});
    assert_int_equal(buffer.status, MR_OK);
    assert_int_equal(buffer.bytes.length, 4);
    mr_wire_put_null(&buffer);
    assert_int_equal(buffer.status, MR_RECORD_TOO_LARGE);
    mr_wire_put_null(&buffer);
    assert_int_equal(buffer.bytes.length, 4);
    mr_buffer_drop(&buffer.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_of_msgpack_is_read),
        cmocka_unit_test(declared_lengths_must_fit_the_bytes_left),
        cmocka_unit_test(every_truncation_is_rejected),
        cmocka_unit_test(forbidden_values_are_rejected),
        cmocka_unit_test(nesting_is_limited_exactly),
        cmocka_unit_test(large_maps_are_searched_for_duplicate_keys_and_limited),
        cmocka_unit_test(too_many_values_are_rejected),
        cmocka_unit_test(a_raw_member_has_the_bytes_of_the_record),
        cmocka_unit_test(a_full_buffer_sets_a_sticky_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
