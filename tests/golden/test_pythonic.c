/* Compares the arguments of calls in Python's syntax with the values of the literals that
 * tests/golden/make_pythonic.py has drawn. */
#include "codec/tools/tool_calls.h"
#include "codec/wire/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PATH "tests/golden/pythonic/literals.json"

static struct mr_json *load(void)
{
    static const struct mr_json_limits limits = {8 << 20, 100000, 4};
    struct mr_json *document = NULL;
    struct mr_error err = {0};
    FILE *file = fopen(PATH, "rb");
    if (!file) fail_msg("cannot open " PATH);
    char *bytes = malloc(limits.bytes_max);
    assert_non_null(bytes);
    size_t length = fread(bytes, 1, limits.bytes_max, file);
    fclose(file);
    if (mr_json_parse(&document, (struct mr_text){bytes, length}, &limits, &err) != MR_OK)
        fail_msg("%s", err.detail);
    free(bytes);
    return document;
}

static size_t number_length(struct mr_text text, size_t at)
{
    size_t end = at;
    while (end < text.length && strchr("+-.0123456789eE", text.bytes[end]))
        end++;
    return end - at;
}

static bool same_number(struct mr_text one, struct mr_text other)
{
    char a[600], b[600];
    snprintf(a, sizeof a, "%.*s", (int)one.length, one.bytes);
    snprintf(b, sizeof b, "%.*s", (int)other.length, other.bytes);
    if (!strpbrk(a, ".e") || !strpbrk(b, ".e")) return strcmp(a, b) == 0;
    const double x = strtod(a, NULL), y = strtod(b, NULL);
    return memcmp(&x, &y, sizeof x) == 0;
}

/* True if two texts of JSON differ in nothing but the notation of doubles. */
static bool same(struct mr_text one, struct mr_text other)
{
    size_t i = 0, k = 0;
    for (bool quoted = false; i < one.length && k < other.length;) {
        size_t a = quoted ? 0 : number_length(one, i), b = quoted ? 0 : number_length(other, k);
        if (a > 0 && b > 0) {
            if (!same_number(mr_text_part(one, i, i + a), mr_text_part(other, k, k + b)))
                return false;
            i += a;
            k += b;
            continue;
        }
        if (one.bytes[i] != other.bytes[k]) return false;
        if (quoted && one.bytes[i] == '\\') {
            i++, k++;
            if (i == one.length || k == other.length || one.bytes[i] != other.bytes[k])
                return false;
        } else if (one.bytes[i] == '"') {
            quoted = !quoted;
        }
        i++, k++;
    }
    return i == one.length && k == other.length;
}

static void literals_are_read_as_python_reads_them(void **state)
{
    (void)state;
    struct mr_json *document = load();
    const struct mr_json_value *root = mr_json_root(document);
    size_t count = mr_json_count(root), wrong = 0;
    assert_int_equal(count, 2000);
    for (size_t i = 0; i < count; i++) {
        struct mr_text literal, want;
        struct mr_error err;
        static char text[1 << 16], expected[1 << 16];
        assert_true(mr_json_text(mr_json_at(mr_json_at(root, i), 0), &literal));
        assert_true(mr_json_text(mr_json_at(mr_json_at(root, i), 1), &want));
        struct mr_arena *arena = mr_arena_create(1 << 20);
        struct mr_tool_calls found = {
            .format = MR_TOOLS_PYTHONIC, .count_max = MR_TOOL_CALLS_MAX, .arena = arena};
        int length = snprintf(text, sizeof text, "[f(a=%.*s)]", (int)literal.length, literal.bytes);
        snprintf(expected, sizeof expected, "{\"a\":%.*s}", (int)want.length, want.bytes);
        assert_int_equal(
            mr_tool_calls_find(&found, (struct mr_text){text, (size_t)length}, true, &err), MR_OK);
        struct mr_text got = found.count == 1 ? found.calls[0].arguments : (struct mr_text){"", 0};
        if (!same(got, (struct mr_text){expected, strlen(expected)})) {
            wrong++;
            print_error("%s\nis %s\nnot %.*s\n", text, expected, (int)got.length, got.bytes);
        }
        mr_arena_destroy(arena);
    }
    mr_json_destroy(document);
    assert_int_equal(wrong, 0);
}

/* Names of characters are not known. */
static void a_call_with_a_named_character_stays_text(void **state)
{
    (void)state;
    static const char text[] = "[f(a='\\N{BULLET}')]";
    struct mr_arena *arena = mr_arena_create(1 << 20);
    struct mr_tool_calls found = {.format = MR_TOOLS_PYTHONIC, .count_max = 1, .arena = arena};
    struct mr_error err;
    assert_int_equal(
        mr_tool_calls_find(&found, (struct mr_text){text, sizeof text - 1}, true, &err), MR_OK);
    assert_int_equal(found.count, 0);
    assert_int_equal(found.place_count, 0);
    mr_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(literals_are_read_as_python_reads_them),
        cmocka_unit_test(a_call_with_a_named_character_stays_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
