#include "worker/intake/id_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

static const unsigned char one[MR_ID_NOTE_BYTES] = "note one", two[MR_ID_NOTE_BYTES] = "note two";

static struct mr_text text_of(const char *text)
{
    return (struct mr_text){text, strlen(text)};
}

static struct mr_id_memory *make(uint32_t count_max)
{
    struct mr_id_memory *memory = NULL;
    assert_int_equal(mr_id_memory_create(&memory, count_max, 1000, NULL), MR_OK);
    return memory;
}

static bool knows(struct mr_id_memory *memory, const char *id, uint64_t now_ns)
{
    unsigned char note[MR_ID_NOTE_BYTES];
    return mr_id_memory_get(memory, 0, text_of(id), note, now_ns);
}

static void each_tenant_has_its_own_note_of_an_id(void **state)
{
    (void)state;
    unsigned char note[MR_ID_NOTE_BYTES];
    struct mr_id_memory *memory = make(4);
    mr_id_memory_put(memory, 0, text_of("a"), one, 10);
    mr_id_memory_put(memory, 1, text_of("a"), two, 10);
    assert_true(mr_id_memory_get(memory, 0, text_of("a"), note, 20));
    assert_memory_equal(note, one, sizeof note);
    assert_true(mr_id_memory_get(memory, 1, text_of("a"), note, 20));
    assert_memory_equal(note, two, sizeof note);
    assert_false(mr_id_memory_get(memory, 2, text_of("a"), note, 20));
    mr_id_memory_remove(memory, 0, text_of("a"));
    mr_id_memory_remove(memory, 0, text_of("a"));
    assert_false(mr_id_memory_get(memory, 0, text_of("a"), note, 20));
    assert_true(mr_id_memory_get(memory, 1, text_of("a"), note, 20));
    mr_id_memory_check(memory);
    mr_id_memory_destroy(memory);
}

static void a_note_is_forgotten_after_its_time_which_starts_again_when_repeated(void **state)
{
    (void)state;
    struct mr_id_memory *memory = make(4);
    mr_id_memory_put(memory, 0, text_of("a"), one, 0);
    mr_id_memory_put(memory, 0, text_of("b"), one, 0);
    mr_id_memory_put(memory, 0, text_of("b"), one, 900);
    assert_int_equal(mr_id_memory_count(memory), 2);
    assert_false(knows(memory, "a", 1000));
    assert_true(knows(memory, "b", 1000));
    mr_id_memory_check(memory);
    mr_id_memory_destroy(memory);
}

static void the_oldest_is_forgotten_when_full(void **state)
{
    (void)state;
    struct mr_id_memory *memory = make(8);
    char id[16];
    for (int i = 0; i < 100; i++) {
        snprintf(id, sizeof id, "id-%d", i);
        mr_id_memory_put(memory, 0, text_of(id), one, 1);
        if (i % 7 == 3) mr_id_memory_remove(memory, 0, text_of(id));
        mr_id_memory_check(memory);
    }
    assert_false(knows(memory, "id-80", 2));
    assert_true(knows(memory, "id-99", 2));
    assert_true(knows(memory, "id-93", 2));
    mr_id_memory_destroy(memory);
}

static void ids_that_no_request_can_have_are_ignored(void **state)
{
    (void)state;
    struct mr_id_memory *memory = make(8);
    unsigned char note[MR_ID_NOTE_BYTES];
    char large[MR_ID_BYTES_MAX + 1];
    memset(large, 'x', sizeof large);
    struct mr_text longest = {large, sizeof large - 1}, too_long = {large, sizeof large};
    mr_id_memory_put(memory, 0, too_long, one, 1);
    mr_id_memory_put(memory, 0, (struct mr_text){"", 0}, one, 1);
    assert_int_equal(mr_id_memory_count(memory), 0);
    assert_false(mr_id_memory_get(memory, 0, (struct mr_text){"", 0}, note, 1));
    assert_false(mr_id_memory_get(memory, 0, too_long, note, 1));
    mr_id_memory_remove(memory, 0, too_long);
    mr_id_memory_put(memory, 0, longest, one, 1);
    assert_true(mr_id_memory_get(memory, 0, longest, note, 1));
    mr_id_memory_check(memory);
    mr_id_memory_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_tenant_has_its_own_note_of_an_id),
        cmocka_unit_test(a_note_is_forgotten_after_its_time_which_starts_again_when_repeated),
        cmocka_unit_test(the_oldest_is_forgotten_when_full),
        cmocka_unit_test(ids_that_no_request_can_have_are_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
