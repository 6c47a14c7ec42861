#include "codec/base64.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct mr_text text_of(const char *text)
{
    return (struct mr_text){text, strlen(text)};
}

/* RFC 4648 section 10. */
static const char *const vectors[][2] = {
    {"", ""},
    {"f", "Zg=="},
    {"fo", "Zm8="},
    {"foo", "Zm9v"},
    {"foob", "Zm9vYg=="},
    {"fooba", "Zm9vYmE="},
    {"foobar", "Zm9vYmFy"},
};

static void encoding_gives_the_text_of_the_standard(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        size_t length = strlen(vectors[i][0]);
        char text[16];
        mr_base64_encode((const unsigned char *)vectors[i][0], length, text);
        assert_string_equal(text, vectors[i][1]);
        assert_int_equal(MR_BASE64_CHARS(length), strlen(text));
    }
}

static void decoding_gives_the_bytes_back(void **state)
{
    (void)state;
    unsigned char bytes[256], back[256];
    char text[MR_BASE64_CHARS(256) + 1];
    for (size_t i = 0; i < 256; i++)
        bytes[i] = (unsigned char)(i * 37);
    for (size_t length = 0; length <= 256; length++) {
        size_t found;
        mr_base64_encode(bytes, length, text);
        assert_true(mr_base64_decode(text_of(text), back, length, &found));
        assert_int_equal(found, length);
        assert_memory_equal(back, bytes, length);
    }
}

static void text_that_is_not_base64_is_rejected(void **state)
{
    (void)state;
    static const char *const wrong[] = {"Z",        "Zm9",      "Zm9v=",    "Z===", "====", "Zm 9",
                                        " Zm9vYg=", "Zm9v\nYg", "Zg==Zg==", "Zm9-", "=m9v", "Zg=v"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        unsigned char bytes[16];
        size_t length;
        assert_false(mr_base64_decode(text_of(wrong[i]), bytes, sizeof bytes, &length));
    }
}

static void more_bytes_than_fit_are_rejected(void **state)
{
    (void)state;
    unsigned char bytes[4];
    size_t length;
    assert_false(mr_base64_decode(text_of("Zm9vYmE="), bytes, 4, &length));
    assert_true(mr_base64_decode(text_of("Zm9vYg=="), bytes, 4, &length));
    assert_false(mr_base64_decode(text_of("Zg=="), bytes, 0, &length));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encoding_gives_the_text_of_the_standard),
        cmocka_unit_test(decoding_gives_the_bytes_back),
        cmocka_unit_test(text_that_is_not_base64_is_rejected),
        cmocka_unit_test(more_bytes_than_fit_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
