/* How fast values go to Redis and come back through the tier, with verification, over several
 * connections:
 *
 *     build/bench_redis URL [CONNECTIONS [VALUE_MIB [VALUES [ROUNDS]]]]
 *
 * tests/bench/redis.sh runs it beside redis-benchmark. The last line of each round is one of
 * figures; the share of bytes copied in user space comes from the connections' own counters. */
#include "worker/clock.h"
#include "worker/tier_redis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct bench {
    struct mr_tier_redis *tier;
    const struct mr_tier *table;
    struct mr_tier_item *items;
    uint32_t count;
    size_t length;
};

static uint32_t number(char *const *argv, int argc, int at, uint32_t otherwise)
{
    return at < argc ? (uint32_t)strtoul(argv[at], NULL, 10) : otherwise;
}

static uint32_t wait_for(const struct bench *bench)
{
    struct mr_tier_answer answer = {0};
    while (!answer.final)
        if (!bench->table->poll(bench->table->context, &answer)) usleep(50);
    return answer.count;
}

/* New names each round, so that every store writes. */
static void name_items(const struct bench *bench, uint32_t round)
{
    uint64_t start = mr_clock_ns();
    for (uint32_t i = 0; i < bench->count; i++) {
        memset(bench->items[i].key, 0, MR_HASH_BYTES);
        memcpy(bench->items[i].key, &i, sizeof i);
        memcpy(bench->items[i].key + 4, &round, sizeof round);
        memcpy(bench->items[i].key + 8, &start, sizeof start);
    }
}

static double run(const struct bench *bench, const char *what,
                  bool (*call)(void *context, const struct mr_tier_request *request))
{
    struct mr_tier_request request = {
        .ticket = 1, .items = bench->items, .count = bench->count, .tenant = "bench"};
    uint64_t begun_ns = mr_clock_ns();
    if (!call(bench->table->context, &request)) {
        fprintf(stderr, "%s was refused\n", what);
        return 0;
    }
    uint32_t done = wait_for(bench);
    double seconds = (double)(mr_clock_ns() - begun_ns) / 1e9;
    if (done != bench->count) fprintf(stderr, "%s: %u of %u\n", what, done, bench->count);
    return (double)done * (double)bench->length / seconds / 1e9;
}

static bool open_bench(struct bench *bench, int argc, char *const *argv)
{
    struct mr_error err = {0};
    struct mr_tier_redis_options options = {.url = argv[1],
                                            .password_file = "",
                                            .key_file = "",
                                            .tls = {"", "", ""},
                                            .connections = number(argv, argc, 2, 4),
                                            .look_timeout_ns = 1000000000,
                                            .transfer_timeout_ns = 60000000000,
                                            .ttl_ns = 600000000000,
                                            .store_bytes_max = (uint64_t)64 << 30};
    bench->length = ((size_t)number(argv, argc, 3, 4) << 20) - MR_FRAME_BYTES - 16;
    bench->count = number(argv, argc, 4, 64);
    bench->items = calloc(bench->count, sizeof *bench->items);
    if (!bench->items || mr_tier_redis_create(&bench->tier, &options, &err) != MR_OK) {
        fprintf(stderr, "bench_redis: %s\n", err.detail);
        return false;
    }
    bench->table = mr_tier_redis_table(bench->tier);
    for (uint32_t i = 0; i < bench->count; i++) {
        bench->items[i] = (struct mr_tier_item){.token_count = 256,
                                                .bytes = malloc(bench->length),
                                                .length = bench->length,
                                                .layer_bytes = bench->length};
        if (!bench->items[i].bytes) return false;
        memset(bench->items[i].bytes, (int)i, bench->length);
    }
    for (int i = 0; i < 500 && !bench->table->rates(bench->table->context).up; i++)
        usleep(10000);
    usleep(300000); /* all connections, and the first measurement */
    return true;
}

int main(int argc, char *argv[])
{
    struct bench bench = {0};
    if (argc < 2) {
        fprintf(stderr, "usage: bench_redis URL [CONNECTIONS [VALUE_MIB [VALUES [ROUNDS]]]]\n");
        return 2;
    }
    if (!open_bench(&bench, argc, argv)) return 1;
    printf("measured at the start: %.2f GB/s\n",
           bench.table->rates(bench.table->context).bytes_per_second / 1e9);
    for (uint32_t round = 0; round < number(argv, argc, 5, 5); round++) {
        name_items(&bench, round);
        double set = run(&bench, "store", bench.table->store);
        double get = run(&bench, "load", bench.table->load);
        printf("SET %.2f GB/s   GET %.2f GB/s\n", set, get);
    }
    struct mr_tier_redis_stats stats = mr_tier_redis_stats(bench.tier);
    printf(
        "values received %.2f GB, of that copied in user space %.6f %%; damaged %llu, gone %llu\n",
        (double)stats.client.bytes.value_bytes / 1e9,
        100.0 * (double)stats.client.bytes.copied_bytes /
            (double)(stats.client.bytes.value_bytes + 1),
        (unsigned long long)stats.queue.counters[MR_TIER_VALUES_DAMAGED],
        (unsigned long long)stats.queue.counters[MR_TIER_ITEMS_GONE]);
    mr_tier_redis_destroy(bench.tier);
    for (uint32_t i = 0; i < bench.count; i++)
        free(bench.items[i].bytes);
    free(bench.items);
    return 0;
}
