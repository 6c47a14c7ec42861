#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/worker/fake_redis.h"
#include "tests/unit/worker/two_addresses.h"
#include "worker/base/clock.h"
#include "worker/remote_cache/redis_cache.h"

#define ITEMS  6u
#define LENGTH ((size_t)70000)
#define MS     ((uint64_t)1000000)

struct rig {
    struct fake_redis *redis;
    struct mr_redis_cache *cache;
    const struct mr_remote_cache *table;
    struct mr_remote_value values[ITEMS];
    unsigned char stored[ITEMS][LENGTH], loaded[ITEMS][LENGTH];
    atomic_uint woken;
};

static void on_notify(void *context)
{
    struct rig *rig = context;
    atomic_fetch_add(&rig->woken, 1);
}

static struct mr_redis_cache_options options_of(const char *url)
{
    return (struct mr_redis_cache_options){.url = url,
                                           .password_file = "",
                                           .key_file = "",
                                           .tls = {"", "", ""},
                                           .connections = 2,
                                           .lookup_timeout_ns = 500 * MS,
                                           .transfer_timeout_ns = 3000 * MS,
                                           .ttl_ns = 60000 * MS,
                                           .store_bytes_max = 1 << 24};
}

static void wait_up(struct rig *rig, bool up)
{
    for (int i = 0; i < 10000 && rig->table->rates(rig->table->context).up != up; i++)
        usleep(1000);
    assert_int_equal(rig->table->rates(rig->table->context).up, up);
}

static struct rig *rig_open(const struct mr_redis_cache_options *with)
{
    struct rig *rig = calloc(1, sizeof *rig);
    char url[64];
    rig->redis = fake_redis_start(0);
    snprintf(url, sizeof url, "redis://127.0.0.1:%u", rig->redis->port);
    struct mr_redis_cache_options options = with ? *with : options_of("");
    options.url = url;
    assert_int_equal(mr_redis_cache_create(&rig->cache, &options, NULL), MR_OK);
    rig->table = mr_redis_cache_table(rig->cache);
    mr_redis_cache_link(rig->cache, on_notify, rig);
    for (uint32_t i = 0; i < ITEMS; i++) {
        memset(rig->values[i].key, (int)i + 1, MR_HASH_BYTES);
        memset(rig->stored[i], (int)i + 65, LENGTH);
        rig->values[i].token_count = 256;
        rig->values[i].length = LENGTH - i;
    }
    wait_up(rig, true);
    return rig;
}

static void rig_close(struct rig *rig)
{
    mr_redis_cache_destroy(rig->cache);
    fake_redis_stop(rig->redis);
    free(rig);
}

/* Waits for the final answer; returns its count. arrived: which values were loaded; NULL: not a
 * load. */
static uint32_t finish(struct rig *rig, uint64_t id, bool *arrived)
{
    struct mr_remote_answer answer = {0};
    uint64_t until_ns = mr_clock_ns() + 20000 * MS;
    while (!answer.final && mr_clock_ns() < until_ns) {
        if (!rig->table->poll(rig->table->context, &answer)) {
            usleep(200);
            continue;
        }
        assert_int_equal(answer.id, id);
        if (!answer.final) {
            assert_true(arrived && !arrived[answer.index]);
            arrived[answer.index] = answer.loaded;
        }
    }
    assert_true(answer.final);
    return answer.count;
}

static struct mr_remote_operation request_of(struct rig *rig, uint64_t id, uint32_t count)
{
    return (struct mr_remote_operation){
        .id = id, .values = rig->values, .count = count, .tenant = "t"};
}

static uint32_t do_ask(struct rig *rig, uint32_t count)
{
    struct mr_remote_operation posted = request_of(rig, 1, count);
    assert_true(rig->table->lookup(rig->table->context, &posted));
    return finish(rig, 1, NULL);
}

static uint32_t begin_store(struct rig *rig, uint32_t count)
{
    struct mr_remote_operation posted = request_of(rig, 2, count);
    for (uint32_t i = 0; i < ITEMS; i++)
        rig->values[i].bytes = rig->stored[i];
    return rig->table->store(rig->table->context, &posted);
}

static uint32_t do_store(struct rig *rig, uint32_t count)
{
    assert_int_equal(begin_store(rig, count), count);
    return finish(rig, 2, NULL);
}

static void begin_load(struct rig *rig, uint32_t count)
{
    struct mr_remote_operation posted = request_of(rig, 3, count);
    for (uint32_t i = 0; i < ITEMS; i++)
        rig->values[i].bytes = rig->loaded[i];
    assert_true(rig->table->load(rig->table->context, &posted));
}

static uint64_t counter(struct rig *rig, enum mr_remote_counter which)
{
    return mr_redis_cache_stats(rig->cache).queue.counters[which];
}

static void stored_values_are_found_and_loaded(void **state)
{
    struct rig *rig = rig_open(NULL);
    bool arrived[ITEMS] = {0};
    (void)state;
    assert_int_equal(do_ask(rig, ITEMS), 0);
    assert_int_equal(do_store(rig, 4), 4);
    assert_int_equal(do_ask(rig, ITEMS), 4);
    begin_load(rig, 4);
    assert_int_equal(finish(rig, 3, arrived), 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(arrived[i]);
        assert_memory_equal(rig->loaded[i], rig->stored[i], LENGTH - i);
    }
    assert_true(atomic_load(&rig->woken) > 0);
    for (int i = 0; i < 1000 && atomic_load(&rig->redis->expires) < 4; i++)
        usleep(1000);
    assert_int_equal(atomic_load(&rig->redis->expires), 4); /* a hit renews the time to live */
    assert_true(rig->table->rates(rig->table->context).bytes_per_second > 0);
    rig_close(rig);
}

static void only_leading_values_count(void **state)
{
    struct rig *rig = rig_open(NULL);
    struct mr_remote_operation posted = {.id = 2, .values = &rig->values[2], .count = 3};
    (void)state;
    for (uint32_t i = 0; i < ITEMS; i++)
        rig->values[i].bytes = rig->stored[i];
    assert_true(rig->table->store(rig->table->context, &posted));
    assert_int_equal(finish(rig, 2, NULL), 3);
    assert_int_equal(do_ask(rig, ITEMS), 0);
    assert_int_equal(do_store(rig, 1), 1);
    assert_int_equal(do_ask(rig, ITEMS), 1);
    rig_close(rig);
}

static void nothing_is_written_twice(void **state)
{
    struct rig *rig = rig_open(NULL), *other;
    (void)state;
    assert_int_equal(do_store(rig, 3), 3);
    assert_int_equal(atomic_load(&rig->redis->sets), 3);
    assert_int_equal(do_store(rig, 4), 4);
    assert_int_equal(atomic_load(&rig->redis->sets), 4);
    /* Another worker does not know that the values are stored, and looks them up first. */
    other = rig_open(NULL);
    mr_redis_cache_destroy(other->cache);
    char url[64];
    snprintf(url, sizeof url, "redis://127.0.0.1:%u", rig->redis->port);
    struct mr_redis_cache_options options = options_of(url);
    assert_int_equal(mr_redis_cache_create(&other->cache, &options, NULL), MR_OK);
    other->table = mr_redis_cache_table(other->cache);
    wait_up(other, true);
    assert_int_equal(do_store(other, 4), 4);
    assert_int_equal(atomic_load(&rig->redis->sets), 4);
    rig_close(other);
    rig_close(rig);
}

static void a_damaged_value_is_deleted_and_never_reported(void **state)
{
    struct rig *rig = rig_open(NULL);
    bool arrived[ITEMS] = {0};
    (void)state;
    assert_int_equal(do_store(rig, 3), 3);
    atomic_store(&rig->redis->damage, FAKE_FLIPPED);
    begin_load(rig, 3);
    assert_int_equal(finish(rig, 3, arrived), 0);
    atomic_store(&rig->redis->damage, FAKE_WELL);
    for (int i = 0; i < 1000 && atomic_load(&rig->redis->dels) < 3; i++)
        usleep(1000);
    assert_int_equal(do_ask(rig, 3), 0);
    assert_int_equal(mr_redis_cache_stats(rig->cache).queue.damaged[MR_VERDICT_DAMAGED], 3);
    rig_close(rig);
}

#define VALUES 400u
#define SMALL  200u

/* Many small values, each with a key of its own. */
struct values {
    struct mr_remote_value values[VALUES];
    unsigned char stored[VALUES][SMALL], loaded[VALUES][SMALL];
    bool arrived[VALUES];
};

static uint32_t move_values(struct rig *rig, struct values *values, bool store)
{
    struct mr_remote_operation posted = {
        .id = 8, .values = values->values, .count = VALUES, .tenant = "t"};
    for (uint32_t i = 0; i < VALUES; i++)
        values->values[i].bytes = store ? values->stored[i] : values->loaded[i];
    memset(values->arrived, 0, sizeof values->arrived);
    assert_true(store ? rig->table->store(rig->table->context, &posted) == VALUES
                      : rig->table->load(rig->table->context, &posted));
    return finish(rig, 8, store ? NULL : values->arrived);
}

static struct values *make_values(void)
{
    struct values *values = calloc(1, sizeof *values);
    for (uint32_t i = 0; i < VALUES; i++) {
        struct mr_remote_value *value = &values->values[i];
        memset(value->key, (int)(i % 251) + 1, MR_HASH_BYTES);
        value->key[0] = (unsigned char)(i / 251);
        value->token_count = 256;
        value->length = SMALL;
        memset(values->stored[i], (int)i, SMALL);
        values->stored[i][0] = (unsigned char)(i >> 8);
    }
    return values;
}

static uint64_t refused_values(struct rig *rig)
{
    struct mr_remote_queue_stats stats = mr_redis_cache_stats(rig->cache).queue;
    uint64_t sum = 0;
    for (size_t i = 0; i < MR_VERDICT_COUNT; i++)
        sum += stats.damaged[i];
    return sum;
}

/* 10,000 values, each damaged in one of five ways when it is read: none is used, each is deleted
 * and stored again, and without damage all are loaded. */
static void none_of_ten_thousand_damaged_values_is_used(void **state)
{
    struct rig *rig = rig_open(NULL);
    struct values *values = make_values();
    uint32_t damaged = 0;
    (void)state;
    while (damaged < 10000)
        for (int kind = FAKE_FLIPPED; kind < FAKE_DAMAGES; kind++, damaged += VALUES) {
            assert_int_equal(move_values(rig, values, true), VALUES);
            atomic_store(&rig->redis->damage, kind);
            assert_int_equal(move_values(rig, values, false), 0);
            atomic_store(&rig->redis->damage, FAKE_WELL);
            for (uint32_t i = 0; i < VALUES; i++)
                assert_false(values->arrived[i]);
            for (int i = 0; i < 5000 && atomic_load(&rig->redis->dels) < damaged + VALUES; i++)
                usleep(1000);
            assert_int_equal(atomic_load(&rig->redis->dels), damaged + VALUES);
        }
    assert_int_equal(refused_values(rig), damaged);
    assert_int_equal(atomic_load(&rig->redis->sets), damaged);
    assert_int_equal(move_values(rig, values, true), VALUES);
    assert_int_equal(move_values(rig, values, false), VALUES);
    assert_memory_equal(values->loaded, values->stored, sizeof values->stored);
    print_message("%u damaged values, none taken\n", damaged);
    free(values);
    rig_close(rig);
}

/* The replies to a lookup, a load and a store arrive in two pieces, split at every byte, then byte
 * by byte. */
static void replies_may_come_in_any_pieces(void **state)
{
    struct rig *rig = rig_open(NULL);
    size_t whole = strlen("$264\r\n") + MR_FRAME_BYTES + SMALL + strlen("\r\n");
    (void)state;
    for (uint32_t i = 0; i < ITEMS; i++)
        rig->values[i].length = SMALL;
    for (size_t cut = 1; cut <= whole; cut++) {
        bool arrived[ITEMS] = {0};
        atomic_store(&rig->redis->cut, cut);
        atomic_store(&rig->redis->bytewise, cut == whole);
        atomic_store(&rig->redis->forget, true);
        assert_int_equal(do_ask(rig, ITEMS), 0);
        memset(rig->loaded, 0, sizeof rig->loaded);
        assert_int_equal(do_store(rig, ITEMS), ITEMS);
        begin_load(rig, ITEMS);
        assert_int_equal(finish(rig, 3, arrived), ITEMS);
        for (uint32_t i = 0; i < ITEMS; i++)
            assert_memory_equal(rig->loaded[i], rig->stored[i], SMALL);
    }
    assert_int_equal(mr_redis_cache_stats(rig->cache).client.failures, 0);
    print_message("replies cut at %zu places and between all bytes\n", whole - 1);
    rig_close(rig);
}

static void an_value_lost_after_its_lookup_is_reported_as_absent(void **state)
{
    struct rig *rig = rig_open(NULL);
    bool arrived[ITEMS] = {0};
    (void)state;
    assert_int_equal(do_store(rig, 3), 3);
    assert_int_equal(do_ask(rig, 3), 3);
    atomic_store(&rig->redis->forget, true);
    begin_load(rig, 3);
    assert_int_equal(finish(rig, 3, arrived), 0);
    assert_int_equal(counter(rig, MR_REMOTE_VALUES_GONE), 3);
    assert_int_equal(do_store(rig, 3), 3); /* and is stored again */
    assert_int_equal(atomic_load(&rig->redis->sets), 6);
    rig_close(rig);
}

/* The server stops replying: the lookup in flight ends at its timeout, later ones are refused. */
static void a_silent_server_costs_one_timeout(void **state)
{
    struct mr_redis_cache_options options = options_of("");
    options.lookup_timeout_ns = 25 * MS;
    struct rig *rig = rig_open(&options);
    (void)state;
    assert_int_equal(do_store(rig, 2), 2);
    atomic_store(&rig->redis->silent, true);
    assert_int_equal(do_ask(rig, 2), 0);
    assert_false(rig->table->rates(rig->table->context).up);
    struct mr_remote_operation posted = request_of(rig, 9, 2);
    assert_false(rig->table->lookup(rig->table->context, &posted));
    assert_true(counter(rig, MR_REMOTE_LOOKUPS_LATE) >= 1);
    atomic_store(&rig->redis->silent, false);
    wait_up(rig, true);
    uint32_t found = 0;
    for (int i = 0; i < 200 && found < 2; i++, usleep(10000)) {
        posted = request_of(rig, 9, 2);
        if (rig->table->lookup(rig->table->context, &posted)) found = finish(rig, 9, NULL);
    }
    assert_int_equal(found, 2);
    rig_close(rig);
}

static void reconnects_after_the_server_closed(void **state)
{
    struct rig *rig = rig_open(NULL);
    (void)state;
    assert_int_equal(do_store(rig, 2), 2);
    for (int i = 0; i < 5; i++) {
        atomic_store(&rig->redis->hang_up, true);
        usleep(20000);
        wait_up(rig, true);
    }
    assert_int_equal(do_ask(rig, 2), 2);
    rig_close(rig);
}

static void a_full_server_makes_stores_pause(void **state)
{
    struct rig *rig = rig_open(NULL);
    (void)state;
    atomic_store(&rig->redis->full, true);
    assert_int_equal(do_store(rig, 2), 0);
    assert_int_equal(begin_store(rig, 2), 0);
    assert_int_equal(do_ask(rig, 2), 0);
    assert_true(counter(rig, MR_REMOTE_REFUSALS) >= 1);
    rig_close(rig);
}

static void stores_respect_queue_budget_and_second_touch(void **state)
{
    struct mr_redis_cache_options small = options_of(""), budget = small, touch = small;
    (void)state;
    small.store_bytes_max = LENGTH;
    budget.write_budget = LENGTH / 2;
    touch.second_touch = true;
    struct rig *rig = rig_open(&small);
    assert_int_equal(begin_store(rig, 2), 1);
    assert_int_equal(finish(rig, 2, NULL), 1);
    rig_close(rig);
    rig = rig_open(&budget);
    assert_int_equal(begin_store(rig, 1), 1);
    assert_int_equal(finish(rig, 2, NULL), 1);
    assert_int_equal(begin_store(rig, 3), 0);
    assert_int_equal(counter(rig, MR_REMOTE_VALUES_DROPPED), 2); /* Redis has the first one */
    rig_close(rig);
    rig = rig_open(&touch);
    assert_int_equal(do_store(rig, 2), 0);
    assert_int_equal(do_store(rig, 3), 2);
    assert_int_equal(counter(rig, MR_REMOTE_VALUES_FIRST_TOUCH), 3);
    rig_close(rig);
}

static void skipped_and_cancelled_loads_end_soon(void **state)
{
    struct rig *rig = rig_open(NULL);
    bool arrived[ITEMS] = {0};
    (void)state;
    assert_int_equal(do_store(rig, ITEMS), ITEMS);
    atomic_store(&rig->redis->silent, true);
    begin_load(rig, ITEMS);
    (rig->table->skip)(rig->table->context, 3, ITEMS); /* cmocka has a macro of this name */
    assert_int_equal(finish(rig, 3, arrived), 0);
    begin_load(rig, ITEMS);
    rig->table->cancel(rig->table->context, 3);
    rig->table->cancel(rig->table->context, 77);
    assert_int_equal(finish(rig, 3, NULL), 0);
    memset(rig->loaded, 0, sizeof rig->loaded);
    atomic_store(&rig->redis->silent, false);
    wait_up(rig, true);
    usleep(50000);
    for (uint32_t i = 0; i < ITEMS; i++)
        assert_int_equal(rig->loaded[i][100], 0); /* no thread writes to it from here on */
    rig_close(rig);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

#define HEX "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF"

static void sealed_values_are_unreadable_and_can_be_loaded(void **state)
{
    char path[] = "/tmp/mr-keys-XXXXXX";
    struct mr_redis_cache_options options = options_of("");
    bool arrived[ITEMS] = {0};
    (void)state;
    close(mkstemp(path));
    write_file(path, "# today's\n7 " HEX "\n");
    options.key_file = path;
    struct rig *rig = rig_open(&options);
    assert_int_equal(do_store(rig, 2), 2);
    for (size_t i = 0; i < rig->redis->key_count; i++)
        assert_null(memmem(rig->redis->keys[i].value.bytes, rig->redis->keys[i].value.length,
                           rig->stored[i], 16));
    begin_load(rig, 2);
    assert_int_equal(finish(rig, 3, arrived), 2);
    assert_memory_equal(rig->loaded[1], rig->stored[1], LENGTH - 1);
    atomic_store(&rig->redis->damage, FAKE_FLIPPED);
    begin_load(rig, 2);
    assert_int_equal(finish(rig, 3, arrived + 2), 0);
    rig_close(rig);
    unlink(path);
}

static void invalid_configuration_is_refused_at_the_start(void **state)
{
    static const char *const broken[] = {"",
                                         "7\n",
                                         "0 " HEX "\n",
                                         "256 " HEX "\n",
                                         "7 " HEX "0\n",
                                         "7 x" HEX "\n",
                                         "7 " HEX "\n7 " HEX "\n"};
    char path[] = "/tmp/mr-keys-XXXXXX";
    struct mr_redis_cache_options options = options_of("redis://127.0.0.1:1");
    struct mr_redis_cache *cache;
    (void)state;
    close(mkstemp(path));
    options.key_file = path;
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        write_file(path, broken[i]);
        assert_int_equal(mr_redis_cache_create(&cache, &options, NULL), MR_BAD_CONFIG);
        assert_null(cache);
    }
    unlink(path);
    assert_int_equal(mr_redis_cache_create(&cache, &options, NULL), MR_BAD_CONFIG);
    options = options_of("http://x");
    assert_int_equal(mr_redis_cache_create(&cache, &options, NULL), MR_BAD_CONFIG);
    options = options_of("redis://x");
    options.password_file = "/nowhere";
    assert_int_equal(mr_redis_cache_create(&cache, &options, NULL), MR_BAD_CONFIG);
}

static enum mr_status on_visit(void *context, const struct mr_redis_port *port,
                               struct mr_error *err)
{
    (void)port, (void)err;
    *(bool *)context = true;
    return MR_OK;
}

static void a_probe_tries_every_address(void **state)
{
    struct fake_redis *redis = fake_redis_start(0);
    char url[64];
    bool visited = false;
    struct mr_error err = {0};
    (void)state;
    snprintf(url, sizeof url, "redis://two.test:%u", redis->port);
    struct mr_redis_cache_options options = options_of(url);
    assert_int_equal(mr_redis_cache_probe(&options, 5000, on_visit, &visited, &err), MR_OK);
    assert_true(visited);
    fake_redis_stop(redis);
    uint64_t begun_ns = mr_clock_ns();
    assert_int_equal(mr_redis_cache_probe(&options, 5000, on_visit, &visited, &err),
                     MR_UNREACHABLE);
    assert_true(mr_clock_ns() - begun_ns < 4000 * MS); /* and does not wait for the timeout */
    assert_string_equal(err.detail, "Redis: Connection refused");
}

static void starts_without_a_server_and_connects_later(void **state)
{
    struct fake_redis *redis = fake_redis_start(0);
    unsigned port = redis->port;
    char url[64];
    struct rig rig = {0};
    (void)state;
    fake_redis_stop(redis);
    snprintf(url, sizeof url, "redis://:right@127.0.0.1:%u", port);
    struct mr_redis_cache_options options = options_of(url);
    assert_int_equal(mr_redis_cache_create(&rig.cache, &options, NULL), MR_OK);
    rig.table = mr_redis_cache_table(rig.cache);
    struct mr_remote_operation posted = request_of(&rig, 1, 1);
    rig.values[0].length = 100;
    assert_false(rig.table->lookup(rig.table->context, &posted));
    assert_false(rig.table->load(rig.table->context, &posted));
    assert_false(rig.table->store(rig.table->context, &posted));
    usleep(200000);
    assert_true(mr_redis_cache_stats(rig.cache).reason[0]);
    redis = fake_redis_start(port);
    wait_up(&rig, true);
    mr_redis_cache_destroy(rig.cache);
    fake_redis_stop(redis);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stored_values_are_found_and_loaded),
        cmocka_unit_test(only_leading_values_count),
        cmocka_unit_test(nothing_is_written_twice),
        cmocka_unit_test(a_damaged_value_is_deleted_and_never_reported),
        cmocka_unit_test(none_of_ten_thousand_damaged_values_is_used),
        cmocka_unit_test(replies_may_come_in_any_pieces),
        cmocka_unit_test(an_value_lost_after_its_lookup_is_reported_as_absent),
        cmocka_unit_test(a_silent_server_costs_one_timeout),
        cmocka_unit_test(reconnects_after_the_server_closed),
        cmocka_unit_test(a_full_server_makes_stores_pause),
        cmocka_unit_test(stores_respect_queue_budget_and_second_touch),
        cmocka_unit_test(skipped_and_cancelled_loads_end_soon),
        cmocka_unit_test(sealed_values_are_unreadable_and_can_be_loaded),
        cmocka_unit_test(invalid_configuration_is_refused_at_the_start),
        cmocka_unit_test(a_probe_tries_every_address),
        cmocka_unit_test(starts_without_a_server_and_connects_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
