/* Measures how fast the Redis connections store and load values, with verification:
 *
 *     build/bench_redis URL [CONNECTIONS [VALUE_MIB [VALUES [ROUNDS]]]]
 *
 * tests/bench/redis.sh runs it next to redis-benchmark. Like redis-benchmark it writes the same
 * keys in every round, so that the memory of the server does not grow. A connection does not write
 * a value that it knows to be stored. So each round opens new connections, and its values are 64
 * bytes shorter or longer than those of the previous round. Prints a line for each round except the
 * first, which warms up. The share of bytes copied in user space comes from the counters of the
 * connections. */
#include "worker/base/clock.h"
#include "worker/remote_cache/redis_cache.h"

#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct bench {
    struct mr_redis_cache *cache;
    const struct mr_remote_cache *table;
    struct mr_remote_value *items;
    uint32_t count;
    size_t length, length_max;
    sem_t answers;
    uint64_t sent, received, copied, damaged, gone;
};

static void on_answer(void *context)
{
    struct bench *bench = context;
    sem_post(&bench->answers);
}

static uint32_t number(char *const *argv, int argc, int at, uint32_t fallback)
{
    return at < argc ? (uint32_t)strtoul(argv[at], NULL, 10) : fallback;
}

static uint32_t wait_for(struct bench *bench)
{
    struct mr_remote_answer answer = {0};
    while (!answer.final)
        if (!bench->table->poll(bench->table->context, &answer)) sem_wait(&bench->answers);
    return answer.count;
}

/* Sets the keys, which are the same in every round. */
static void name_items(const struct bench *bench)
{
    for (uint32_t i = 0; i < bench->count; i++) {
        memset(bench->items[i].key, 0, MR_HASH_BYTES);
        memcpy(bench->items[i].key, &i, sizeof i);
    }
}

static double run(struct bench *bench, bool store)
{
    const char *what = store ? "store" : "load";
    struct mr_remote_operation request = {
        .id = 1, .values = bench->items, .count = bench->count, .tenant = "bench"};
    uint64_t begun_ns = mr_clock_ns();
    bool begun = store ? bench->table->store(bench->table->context, &request) == request.count
                       : bench->table->load(bench->table->context, &request);
    if (!begun) {
        fprintf(stderr, "%s was refused\n", what);
        return 0;
    }
    uint32_t done = wait_for(bench);
    double seconds = (double)(mr_clock_ns() - begun_ns) / 1e9;
    if (done != bench->count) fprintf(stderr, "%s: %u of %u\n", what, done, bench->count);
    return (double)done * (double)bench->length / seconds / 1e9;
}

static bool make_items(struct bench *bench)
{
    bench->items = calloc(bench->count, sizeof *bench->items);
    if (!bench->items) return false;
    for (uint32_t i = 0; i < bench->count; i++) {
        void *bytes = malloc(bench->length_max);
        if (!bytes) return false;
        memset(bytes, (int)i, bench->length_max);
        bench->items[i] = (struct mr_remote_value){.token_count = 256, .bytes = bytes};
    }
    name_items(bench);
    return true;
}

static bool open_tier(struct bench *bench, const char *url, uint32_t connections)
{
    struct mr_error err = {0};
    struct mr_redis_cache_options options = {.url = url,
                                             .password_file = "",
                                             .key_file = "",
                                             .tls = {"", "", ""},
                                             .connections = connections,
                                             .lookup_timeout_ns = 1000000000,
                                             .transfer_timeout_ns = 60000000000,
                                             .ttl_ns = 600000000000,
                                             .store_bytes_max = (uint64_t)64 << 30};
    if (mr_redis_cache_create(&bench->cache, &options, &err) != MR_OK) {
        fprintf(stderr, "bench_redis: %s\n", err.detail);
        return false;
    }
    bench->table = mr_redis_cache_table(bench->cache);
    mr_redis_cache_link(bench->cache, on_answer, bench);
    for (int i = 0; i < 500 && !bench->table->rates(bench->table->context).up; i++)
        usleep(10000);
    usleep(100000); /* until all connections are open and the first rates are measured */
    return true;
}

static void close_tier(struct bench *bench)
{
    struct mr_redis_cache_stats stats = mr_redis_cache_stats(bench->cache);
    bench->received += stats.client.bytes.value_bytes;
    bench->sent += stats.client.bytes.sent_bytes;
    bench->copied += stats.client.bytes.copied_bytes;
    bench->damaged += stats.queue.damaged[MR_VERDICT_DAMAGED];
    bench->gone += stats.queue.counters[MR_REMOTE_VALUES_GONE];
    mr_redis_cache_destroy(bench->cache);
}

static void run_round(struct bench *bench, uint32_t round)
{
    bench->length = bench->length_max - 64 * (round % 2);
    for (uint32_t i = 0; i < bench->count; i++)
        bench->items[i].length = bench->items[i].layer_bytes = bench->length;
    double set = run(bench, true);
    double get = run(bench, false);
    if (round > 0) printf("SET %.3f GB/s   GET %.3f GB/s\n", set, get);
}

int main(int argc, char *argv[])
{
    struct bench bench = {0};
    if (argc < 2) {
        fprintf(stderr, "usage: bench_redis URL [CONNECTIONS [VALUE_MIB [VALUES [ROUNDS]]]]\n");
        return 2;
    }
    bench.length_max = ((size_t)number(argv, argc, 3, 4) << 20) - MR_FRAME_BYTES - 16;
    bench.count = number(argv, argc, 4, 64);
    sem_init(&bench.answers, 0, 0);
    if (!make_items(&bench)) return 1;
    for (uint32_t round = 0; round <= number(argv, argc, 5, 5); round++) {
        if (!open_tier(&bench, argv[1], number(argv, argc, 2, 4))) return 1;
        run_round(&bench, round);
        close_tier(&bench);
    }
    printf("sent %.2f GB, received values of %.2f GB; copied in user space %.6f %% of these and "
           "none of the sent bytes; damaged %llu, gone %llu\n",
           (double)bench.sent / 1e9, (double)bench.received / 1e9,
           100.0 * (double)bench.copied / (double)(bench.received + 1),
           (unsigned long long)bench.damaged, (unsigned long long)bench.gone);
    for (uint32_t i = 0; i < bench.count; i++)
        free(bench.items[i].bytes);
    free(bench.items);
    return 0;
}
