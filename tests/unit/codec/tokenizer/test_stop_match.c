#include "codec/tokenizer/stop_match.h"

#include "codec/limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct fixture {
    struct mr_arena *arena;
    struct mr_stop_match *matcher;
    uint32_t position;
};

static struct fixture build(const char *const *stops, size_t count)
{
    struct fixture f = {.arena = mr_arena_create((size_t)4 << 20)};
    struct mr_text texts[MR_STOP_COUNT_MAX];
    for (size_t i = 0; i < count; i++)
        texts[i] = (struct mr_text){stops[i], strlen(stops[i])};
    assert_int_equal(mr_stop_match_create(&f.matcher, f.arena, texts, count, NULL), MR_OK);
    return f;
}
#define BUILD(...)                                                                                 \
    build((const char *const[]){__VA_ARGS__},                                                      \
          sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static bool feed(struct fixture *f, const char *text, struct mr_stop_hit *hit)
{
    return mr_stop_match_feed(f->matcher, &f->position, text, strlen(text), hit);
}

static void a_match_across_pieces_is_found(void **state)
{
    (void)state;
    struct fixture f = BUILD("</answer>");
    struct mr_stop_hit hit;
    assert_false(feed(&f, "text </an", &hit));
    assert_int_equal(mr_stop_match_held(f.matcher, f.position), 4);
    assert_true(feed(&f, "swer> more", &hit));
    assert_int_equal(hit.stop_index, 0);
    assert_int_equal(hit.end, 5);
    assert_int_equal(hit.length, 9);
    mr_arena_destroy(f.arena);
}

static void only_the_beginning_of_a_stop_string_is_held_back(void **state)
{
    (void)state;
    struct fixture f = BUILD("aab", "bx");
    struct mr_stop_hit hit;
    assert_false(feed(&f, "zz", &hit));
    assert_int_equal(mr_stop_match_held(f.matcher, f.position), 0);
    assert_false(feed(&f, "aaa", &hit));
    assert_int_equal(mr_stop_match_held(f.matcher, f.position), 2);
    assert_false(feed(&f, "c", &hit));
    assert_int_equal(mr_stop_match_held(f.matcher, f.position), 0);
    mr_arena_destroy(f.arena);
}

static void the_match_that_ends_first_wins_then_the_first_in_the_list(void **state)
{
    (void)state;
    struct mr_stop_hit hit;
    struct fixture f = BUILD("abcdef", "cd");
    assert_true(feed(&f, "abcdef", &hit));
    assert_int_equal(hit.stop_index, 1);
    assert_int_equal(hit.end, 4);
    mr_arena_destroy(f.arena);
    f = BUILD("xcd", "cd", "xcd");
    assert_true(feed(&f, "xcd", &hit));
    assert_int_equal(hit.stop_index, 0);
    assert_int_equal(hit.length, 3);
    mr_arena_destroy(f.arena);
    f = BUILD("cd", "xcd");
    assert_true(feed(&f, "xcd", &hit));
    assert_int_equal(hit.stop_index, 0);
    assert_int_equal(hit.length, 2);
    mr_arena_destroy(f.arena);
}

static void no_strings_never_match(void **state)
{
    (void)state;
    struct fixture f = build(NULL, 0);
    struct mr_stop_hit hit;
    assert_false(feed(&f, "anything at all", &hit));
    assert_int_equal(mr_stop_match_held(f.matcher, f.position), 0);
    mr_arena_destroy(f.arena);
}

/* End of the first match, found by searching the whole text again at each byte. */
static bool naive(const char *const *stops, size_t count, const char *text, struct mr_stop_hit *hit)
{
    for (size_t end = 1; end <= strlen(text); end++)
        for (size_t i = 0; i < count; i++) {
            size_t length = strlen(stops[i]);
            if (length > end || memcmp(text + end - length, stops[i], length) != 0) continue;
            *hit = (struct mr_stop_hit){i, end, length};
            return true;
        }
    return false;
}

static void matches_equal_those_of_a_full_search_for_any_pieces(void **state)
{
    (void)state;
    uint64_t seed = 7;
    for (int round = 0; round < 4000; round++) {
        char strings[3][6], text[25];
        const char *stops[3] = {strings[0], strings[1], strings[2]};
        for (int s = 0; s < 4; s++) {
            char *to = s < 3 ? strings[s] : text;
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            size_t length = s < 3 ? 1 + (seed >> 40) % 5 : 24;
            for (size_t i = 0; i < length; i++) {
                seed = seed * 6364136223846793005u + 1442695040888963407u;
                to[i] = (char)('a' + (seed >> 40) % 2);
            }
            to[length] = '\0';
        }
        struct fixture f = build(stops, 3);
        struct mr_stop_hit want, got;
        bool expected = naive(stops, 3, text, &want), found = false;
        size_t step = 1 + (size_t)(round % 5), at = 0;
        for (; at < 24 && !found; at += step) {
            size_t length = 24 - at < step ? 24 - at : step;
            found = mr_stop_match_feed(f.matcher, &f.position, text + at, length, &got);
            if (found) break;
        }
        assert_int_equal(found, expected);
        if (found) {
            assert_int_equal(at + got.end, want.end);
            assert_int_equal(got.stop_index, want.stop_index);
            assert_int_equal(got.length, want.length);
        }
        mr_arena_destroy(f.arena);
    }
}

static void the_largest_request_fits(void **state)
{
    (void)state;
    struct mr_arena *arena = mr_arena_create((size_t)4 << 20);
    char bytes[MR_STOP_COUNT_MAX][MR_STOP_BYTES_MAX];
    struct mr_text texts[MR_STOP_COUNT_MAX];
    for (size_t i = 0; i < MR_STOP_COUNT_MAX; i++) {
        memset(bytes[i], (int)(128 + i), MR_STOP_BYTES_MAX);
        texts[i] = (struct mr_text){bytes[i], MR_STOP_BYTES_MAX};
    }
    struct mr_stop_match *matcher;
    struct mr_stop_hit hit;
    uint32_t position = 0;
    assert_int_equal(mr_stop_match_create(&matcher, arena, texts, MR_STOP_COUNT_MAX, NULL), MR_OK);
    assert_false(mr_stop_match_feed(matcher, &position, bytes[7], MR_STOP_BYTES_MAX - 1, &hit));
    assert_int_equal(mr_stop_match_held(matcher, position), MR_STOP_BYTES_MAX - 1);
    assert_true(mr_stop_match_feed(matcher, &position, bytes[7], 1, &hit));
    assert_int_equal(hit.stop_index, 7);
    mr_arena_destroy(arena);
}

static void misuse_is_asserted_and_lack_of_memory_is_a_status(void **state)
{
    (void)state;
    struct mr_arena *arena = mr_arena_create(1024);
    struct mr_stop_match *matcher;
    struct mr_error err;
    struct mr_text stop = {"abc", 3}, empty = {"", 0};
    assert_int_equal(mr_stop_match_create(&matcher, arena, &stop, 1, &err), MR_NOMEM);
    assert_null(matcher);
    expect_assert_failure(mr_stop_match_create(&matcher, arena, &empty, 1, &err));
    mr_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_match_across_pieces_is_found),
        cmocka_unit_test(only_the_beginning_of_a_stop_string_is_held_back),
        cmocka_unit_test(the_match_that_ends_first_wins_then_the_first_in_the_list),
        cmocka_unit_test(no_strings_never_match),
        cmocka_unit_test(matches_equal_those_of_a_full_search_for_any_pieces),
        cmocka_unit_test(the_largest_request_fits),
        cmocka_unit_test(misuse_is_asserted_and_lack_of_memory_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
