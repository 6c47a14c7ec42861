#include "codec/tokenizer/byte_alphabet.h"

#include "codec/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void every_byte_has_its_own_printable_character(void **state)
{
    (void)state;
    bool seen[0x200] = {false};
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[4];
        size_t length = mr_byte_alphabet_put(text, (unsigned char)byte);
        uint32_t c = mr_utf8_next((struct mr_text){text, length}, 0).code_point;
        assert_true(c > 0x20 && c < 0x144 && !seen[c]);
        seen[c] = true;
        assert_int_equal(mr_byte_alphabet_byte(c), byte);
    }
}

static void known_bytes_have_their_published_characters(void **state)
{
    (void)state;
    assert_int_equal(mr_byte_alphabet_byte('a'), 'a');
    assert_int_equal(mr_byte_alphabet_byte(0x120), ' ');
    assert_int_equal(mr_byte_alphabet_byte(0x10a), '\n');
    assert_int_equal(mr_byte_alphabet_byte(0x121), 0x7f);
    assert_int_equal(mr_byte_alphabet_byte(0x143), 0xad);
    assert_int_equal(mr_byte_alphabet_byte(' '), -1);
    assert_int_equal(mr_byte_alphabet_byte(0xad), -1);
    assert_int_equal(mr_byte_alphabet_byte(0x144), -1);
    assert_int_equal(mr_byte_alphabet_byte(0x4e00), -1);
}

static void bytes_encode_and_decode_to_themselves(void **state)
{
    (void)state;
    char all[256];
    for (int i = 0; i < 256; i++)
        all[i] = (char)i;
    struct mr_buffer encoded, decoded;
    mr_buffer_init(&encoded, 4096);
    mr_buffer_init(&decoded, 4096);
    bool inside;
    assert_true(mr_byte_alphabet_encode((struct mr_text){all, 256}, &encoded));
    assert_true(mr_byte_alphabet_decode(mr_buffer_text(&encoded), &decoded, &inside));
    assert_true(inside);
    assert_int_equal(decoded.length, 256);
    assert_memory_equal(decoded.bytes, all, 256);
    mr_buffer_drop(&encoded);
    mr_buffer_drop(&decoded);
}

static void text_with_a_character_outside_the_alphabet_adds_nothing(void **state)
{
    (void)state;
    struct mr_buffer decoded;
    mr_buffer_init(&decoded, 4096);
    bool inside = true;
    assert_true(mr_byte_alphabet_decode((struct mr_text){"ab c", 4}, &decoded, &inside));
    assert_false(inside);
    assert_int_equal(decoded.length, 0);
    assert_true(mr_byte_alphabet_decode((struct mr_text){"ab\xff", 3}, &decoded, &inside));
    assert_false(inside);
    mr_buffer_drop(&decoded);
    mr_buffer_init(&decoded, 1);
    assert_false(mr_byte_alphabet_decode((struct mr_text){"ab", 2}, &decoded, &inside));
    mr_buffer_drop(&decoded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_has_its_own_printable_character),
        cmocka_unit_test(known_bytes_have_their_published_characters),
        cmocka_unit_test(bytes_encode_and_decode_to_themselves),
        cmocka_unit_test(text_with_a_character_outside_the_alphabet_adds_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
