#include "codec/tools/harmony.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct rig {
    struct mr_harmony harmony;
    struct mr_tool_calls found;
    struct mr_harmony_piece piece;
    char text[512]; /* so far */
};

static void open_rig(struct rig *rig, size_t calls_max)
{
    memset(rig, 0, sizeof *rig);
    rig->found.count_max = calls_max;
    rig->found.arena = mr_arena_create(1 << 16);
    assert_non_null(rig->found.arena);
}

static void add(struct rig *rig, const char *more)
{
    size_t length = strlen(rig->text);
    assert_true(length + strlen(more) < sizeof rig->text);
    memcpy(rig->text + length, more, strlen(more));
}

static enum mr_harmony_kind read_piece(struct rig *rig, bool ended)
{
    struct mr_error err;
    struct mr_text text = {rig->text, strlen(rig->text)};
    assert_int_equal(mr_harmony_read(&rig->harmony, &rig->found, text, ended, &rig->piece, &err),
                     MR_OK);
    return rig->piece.kind;
}

static void a_message_is_read_as_it_grows(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig, 1);
    add(&rig, "<|channel|>ana");
    assert_int_equal(read_piece(&rig, false), MR_HARMONY_NONE);
    add(&rig, "lysis<|message|>Why<|e");
    assert_int_equal(read_piece(&rig, false), MR_HARMONY_REASONING);
    assert_true(mr_text_is(rig.piece.text, "Why"));
    assert_true(rig.piece.begins);
    assert_int_equal(read_piece(&rig, false), MR_HARMONY_NONE);
    add(&rig, "x");
    assert_int_equal(read_piece(&rig, false), MR_HARMONY_REASONING);
    assert_true(mr_text_is(rig.piece.text, "<|ex"));
    assert_false(rig.piece.begins);
    add(&rig, "<|end|>");
    assert_int_equal(read_piece(&rig, true), MR_HARMONY_NONE);
    mr_arena_destroy(rig.found.arena);
}

static void a_call_is_found_at_its_end(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig, 1);
    add(&rig,
        "<|start|>assistant<|channel|>commentary to=functions.get <|constrain|>json<|message|>");
    add(&rig, "{\"a\": 1}");
    assert_int_equal(read_piece(&rig, false), MR_HARMONY_NONE);
    add(&rig, "<|call|>");
    assert_int_equal(read_piece(&rig, false), MR_HARMONY_CALL);
    assert_int_equal(rig.found.count, 1);
    assert_true(mr_text_is(rig.found.calls[0].name, "get"));
    assert_true(mr_text_is(rig.found.calls[0].arguments, "{\"a\": 1}"));
    mr_arena_destroy(rig.found.arena);
}

static void calls_that_are_not_wanted_are_content(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig, 0);
    add(&rig, "<|channel|>commentary to=functions.get<|message|>{}<|call|>");
    assert_int_equal(read_piece(&rig, true), MR_HARMONY_CONTENT);
    assert_true(mr_text_is(rig.piece.text, "{}"));
    assert_int_equal(rig.found.count, 0);
    mr_arena_destroy(rig.found.arena);
}

static void a_header_that_never_ends_is_content(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig, 1);
    add(&rig, "<|channel|>");
    while (strlen(rig.text) + 2 < sizeof rig.text)
        add(&rig, "x");
    assert_int_equal(read_piece(&rig, false), MR_HARMONY_NONE);
    assert_int_equal(read_piece(&rig, true), MR_HARMONY_CONTENT);
    assert_int_equal(rig.piece.text.length, strlen(rig.text));
    mr_arena_destroy(rig.found.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_is_read_as_it_grows),
        cmocka_unit_test(a_call_is_found_at_its_end),
        cmocka_unit_test(calls_that_are_not_wanted_are_content),
        cmocka_unit_test(a_header_that_never_ends_is_content),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
