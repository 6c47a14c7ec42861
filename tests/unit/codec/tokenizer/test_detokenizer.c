#include "codec/tokenizer/detokenizer.h"
#include "codec/tokenizer_files/tokenizer_spec.h"

#include "codec/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A SentencePiece vocabulary of all bytes, so that any byte sequence can be pushed. Id 256 is a
 * control token, 257 a word, 258 a longer one. */
static struct mr_tokenizer *build(bool prefix)
{
    static char names[256][8];
    static struct mr_text tokens[259];
    static enum mr_token_kind kinds[259];
    static float scores[259];
    for (unsigned i = 0; i < 256; i++) {
        snprintf(names[i], sizeof names[i], "<0x%02X>", i);
        tokens[i] = (struct mr_text){names[i], 6};
        kinds[i] = MR_TOKEN_BYTE;
    }
    tokens[256] = (struct mr_text){"<s>", 3};
    kinds[256] = MR_TOKEN_CONTROL;
    tokens[257] = (struct mr_text){"\u2581hi", 5};
    tokens[258] = (struct mr_text){"a\u20ac\u2581", 7};
    struct mr_tokenizer_spec spec = {.model = {"llama", 5},
                                     .tokens = tokens,
                                     .kinds = kinds,
                                     .scores = scores,
                                     .token_count = 259,
                                     .bos_id = MR_TOKEN_NONE,
                                     .eos_id = MR_TOKEN_NONE,
                                     .unk_id = MR_TOKEN_NONE,
                                     .add_space_prefix = prefix};
    struct mr_tokenizer *tokenizer;
    assert_int_equal(mr_tokenizer_create(&tokenizer, &spec, NULL), MR_OK);
    return tokenizer;
}

static size_t push(struct mr_detokenizer *detokenizer, uint32_t id, char *out)
{
    size_t bound = mr_detokenizer_bound(detokenizer, id);
    size_t length = mr_detokenizer_push(detokenizer, id, out);
    assert_true(length <= bound);
    return length;
}

/* Pushes the bytes one by one and asserts the text of all deltas. */
static void assert_text(const struct mr_tokenizer *tokenizer, const char *bytes, size_t count,
                        const char *want)
{
    struct mr_detokenizer detokenizer;
    char out[512];
    size_t length = 0;
    mr_detokenizer_init(&detokenizer, tokenizer, true);
    for (size_t i = 0; i < count; i++)
        length += push(&detokenizer, (unsigned char)bytes[i], out + length);
    length += mr_detokenizer_finish(&detokenizer, out + length);
    assert_int_equal(length, strlen(want));
    assert_memory_equal(out, want, length);
}
#define BYTES(text) text, sizeof(text) - 1
#define BAD         "\xef\xbf\xbd"

static void an_incomplete_character_is_held_back(void **state)
{
    (void)state;
    struct mr_tokenizer *tokenizer = build(false);
    struct mr_detokenizer detokenizer;
    char out[64];
    mr_detokenizer_init(&detokenizer, tokenizer, true);
    assert_int_equal(push(&detokenizer, 0xf0, out), 0);
    assert_int_equal(push(&detokenizer, 0x9f, out), 0);
    assert_int_equal(push(&detokenizer, 0x98, out), 0);
    assert_int_equal(push(&detokenizer, 0x80, out), 4);
    assert_memory_equal(out, "\U0001f600", 4);
    assert_int_equal(push(&detokenizer, 258, out), 5);
    assert_memory_equal(out, "a\u20ac ", 5);
    assert_int_equal(mr_detokenizer_finish(&detokenizer, out), 0);
    mr_tokenizer_destroy(tokenizer);
}

static void each_invalid_subpart_is_replaced_once(void **state)
{
    (void)state;
    struct mr_tokenizer *tokenizer = build(false);
    assert_text(tokenizer,
                BYTES("a\xff"
                      "b"),
                "a" BAD "b");
    assert_text(tokenizer, BYTES("\xe2\x82z"), BAD "z");
    assert_text(tokenizer, BYTES("\xe2\x82\xe2\x82\xac"), BAD "\u20ac");
    assert_text(tokenizer, BYTES("\xed\xa0\x80"), BAD BAD BAD);
    assert_text(tokenizer, BYTES("\xf0\x9f\x98"), BAD);
    assert_text(tokenizer, BYTES("\xc0\x80"), BAD BAD);
    assert_text(tokenizer, BYTES("\xf0\xf0\x9f\x98\x80"), BAD "\U0001f600");
    assert_text(tokenizer, BYTES(""), "");
    mr_tokenizer_destroy(tokenizer);
}

static void the_next_token_ends_an_incomplete_character(void **state)
{
    (void)state;
    struct mr_tokenizer *tokenizer = build(false);
    struct mr_detokenizer detokenizer;
    char out[64];
    mr_detokenizer_init(&detokenizer, tokenizer, true);
    assert_int_equal(push(&detokenizer, 0xe2, out), 0);
    assert_int_equal(push(&detokenizer, 257, out), 6);
    assert_memory_equal(out, BAD " hi", 6);
    mr_tokenizer_destroy(tokenizer);
}

static void finish_replaces_an_incomplete_character_once(void **state)
{
    (void)state;
    struct mr_tokenizer *tokenizer = build(false);
    struct mr_detokenizer detokenizer;
    char out[64];
    mr_detokenizer_init(&detokenizer, tokenizer, true);
    assert_int_equal(push(&detokenizer, 0xe2, out), 0);
    assert_int_equal(mr_detokenizer_finish(&detokenizer, out), 3);
    assert_memory_equal(out, BAD, 3);
    assert_int_equal(mr_detokenizer_finish(&detokenizer, out), 0);
    mr_tokenizer_destroy(tokenizer);
}

static void control_tokens_are_shown_without_skip_special(void **state)
{
    (void)state;
    struct mr_tokenizer *tokenizer = build(false);
    struct mr_detokenizer detokenizer;
    char out[64];
    mr_detokenizer_init(&detokenizer, tokenizer, true);
    assert_int_equal(push(&detokenizer, 256, out), 0);
    assert_int_equal(push(&detokenizer, 9999, out), 0);
    mr_detokenizer_init(&detokenizer, tokenizer, false);
    assert_int_equal(push(&detokenizer, 256, out), 3);
    assert_memory_equal(out, "<s>", 3);
    mr_tokenizer_destroy(tokenizer);
}

static void one_leading_space_is_removed_with_add_space_prefix(void **state)
{
    (void)state;
    struct mr_tokenizer *tokenizer = build(true);
    struct mr_detokenizer detokenizer;
    char out[64];
    mr_detokenizer_init(&detokenizer, tokenizer, true);
    assert_int_equal(push(&detokenizer, 256, out), 0);
    assert_int_equal(push(&detokenizer, 257, out), 2);
    assert_memory_equal(out, "hi", 2);
    assert_int_equal(push(&detokenizer, 257, out), 3);
    mr_detokenizer_init(&detokenizer, tokenizer, true);
    assert_int_equal(push(&detokenizer, ' ', out), 0);
    assert_int_equal(push(&detokenizer, ' ', out), 1);
    mr_tokenizer_destroy(tokenizer);
}

/* The text of all bytes decoded at once, by the rule of the standard. */
static size_t whole(struct mr_text text, char *out)
{
    size_t length = 0;
    for (size_t at = 0; at < text.length;) {
        struct mr_utf8_step step = mr_utf8_next(text, at);
        length += mr_utf8_put(out + length, step.code_point);
        at += step.length;
    }
    return length;
}

static void deltas_joined_equal_the_whole(void **state)
{
    (void)state;
    static const unsigned char interesting[] = {'a',  0x80, 0x9f, 0xa0, 0xbf, 0xc2, 0xdf, 0xe0,
                                                0xe2, 0xed, 0xef, 0xf0, 0xf1, 0xf4, 0xf5, 0xff};
    struct mr_tokenizer *tokenizer = build(false);
    uint64_t seed = 3;
    for (int round = 0; round < 20000; round++) {
        char bytes[8], want[64];
        for (size_t i = 0; i < sizeof bytes; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            bytes[i] = (char)interesting[(seed >> 40) % sizeof interesting];
        }
        want[whole((struct mr_text){bytes, sizeof bytes}, want)] = '\0';
        assert_text(tokenizer, bytes, sizeof bytes, want);
    }
    mr_tokenizer_destroy(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_incomplete_character_is_held_back),
        cmocka_unit_test(each_invalid_subpart_is_replaced_once),
        cmocka_unit_test(the_next_token_ends_an_incomplete_character),
        cmocka_unit_test(finish_replaces_an_incomplete_character_once),
        cmocka_unit_test(control_tokens_are_shown_without_skip_special),
        cmocka_unit_test(one_leading_space_is_removed_with_add_space_prefix),
        cmocka_unit_test(deltas_joined_equal_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
