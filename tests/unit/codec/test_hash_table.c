#include "codec/hash_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define COUNT 40u

struct item {
    uint32_t key;
    struct mr_hash_entry entry;
};

static bool is_key(const struct mr_hash_entry *entry, const void *key)
{
    return MR_HASH_ITEM(entry, const struct item, entry)->key == *(const uint32_t *)key;
}

/* Only four different hash values, so that chains have many entries. */
static uint64_t hash_of(uint32_t key)
{
    return key % 4 * 0x9e3779b97f4a7c15u;
}

static struct item *find(const struct mr_hash_table *table, uint32_t key)
{
    struct mr_hash_entry *entry = mr_hash_table_find(table, hash_of(key), is_key, &key);
    return entry ? MR_HASH_ITEM(entry, struct item, entry) : NULL;
}

static void fill(struct mr_hash_table *table, struct item *items)
{
    assert_true(mr_hash_table_create(table, COUNT / 2)); /* more entries than expected */
    for (uint32_t i = 0; i < COUNT; i++) {
        items[i].key = i;
        mr_hash_table_add(table, &items[i].entry, hash_of(i));
    }
}

static void added_entries_are_found_by_key(void **state)
{
    (void)state;
    struct mr_hash_table table;
    struct item items[COUNT];
    fill(&table, items);
    mr_hash_table_check(&table);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_ptr_equal(find(&table, i), &items[i]);
    assert_null(find(&table, COUNT));
    assert_int_equal(table.count, COUNT);
    mr_hash_table_destroy(&table);
}

static void a_removed_entry_is_not_found_and_the_others_are(void **state)
{
    (void)state;
    struct mr_hash_table table;
    struct item items[COUNT];
    fill(&table, items);
    for (uint32_t i = 0; i < COUNT; i += 3)
        mr_hash_table_remove(&table, &items[i].entry);
    mr_hash_table_check(&table);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_ptr_equal(find(&table, i), i % 3 == 0 ? NULL : &items[i]);
    mr_hash_table_add(&table, &items[0].entry, hash_of(0));
    assert_ptr_equal(find(&table, 0), &items[0]);
    mr_hash_table_destroy(&table);
}

struct visits {
    struct mr_hash_table *table;
    uint32_t count;
};

static void remove_odd(void *context, struct mr_hash_entry *entry)
{
    struct visits *visits = context;
    visits->count++;
    if (MR_HASH_ITEM(entry, struct item, entry)->key % 2 == 1)
        mr_hash_table_remove(visits->table, entry);
}

static void each_visits_every_entry_once_and_may_remove_it(void **state)
{
    (void)state;
    struct mr_hash_table table;
    struct item items[COUNT];
    fill(&table, items);
    struct visits visits = {&table, 0};
    mr_hash_table_each(&table, remove_odd, &visits);
    assert_int_equal(visits.count, COUNT);
    assert_int_equal(table.count, COUNT / 2);
    mr_hash_table_check(&table);
    mr_hash_table_destroy(&table);
}

static void a_foreign_entry_and_a_wrong_count_are_asserted(void **state)
{
    (void)state;
    struct mr_hash_table table;
    struct item items[COUNT], other = {.key = COUNT};
    fill(&table, items);
    expect_assert_failure(mr_hash_table_remove(&table, &other.entry));
    table.count--;
    expect_assert_failure(mr_hash_table_check(&table));
    mr_hash_table_destroy(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(added_entries_are_found_by_key),
        cmocka_unit_test(a_removed_entry_is_not_found_and_the_others_are),
        cmocka_unit_test(each_visits_every_entry_once_and_may_remove_it),
        cmocka_unit_test(a_foreign_entry_and_a_wrong_count_are_asserted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
