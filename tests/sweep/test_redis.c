/* Sweeps of the remote cache: connection threads, sockets, encryption, over a small Redis in this
 * process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/sweep/sweep.h"
#include "tests/unit/worker/fake_redis.h"
#include "worker/base/clock.h"
#include "worker/remote_cache/redis_cache.h"

#define ITEMS    3u
#define LENGTH   ((size_t)9000)
#define MS       ((uint64_t)1000000)
#define KEY_PATH "sweep.key"

struct life {
    struct fake_redis *redis;
    struct mr_redis_cache *remote;
    const struct mr_remote_cache *table;
    struct mr_remote_value items[ITEMS];
    unsigned char stored[ITEMS][LENGTH], loaded[ITEMS][LENGTH];
    bool arrived[ITEMS];
    atomic_uint replies;
};

static void on_notify(void *context)
{
    (void)context;
}

static void on_reply(void *context, enum mr_redis_outcome outcome,
                     const struct mr_redis_reply *reply)
{
    SWEEP_CHECK((outcome == MR_REDIS_DONE) == (reply != NULL));
    atomic_fetch_add((atomic_uint *)context, 1);
}

static void write_key(void)
{
    FILE *out = fopen(KEY_PATH, "w");
    fputs("1 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n", out);
    fclose(out);
}

static void wait_up(struct life *life)
{
    uint64_t until_ns = mr_clock_ns() + 500 * MS;
    while (!life->table->rates(life->table->context).up && mr_clock_ns() < until_ns)
        usleep(100);
}

/* Checks that every accepted request has a final answer. */
static uint32_t finish(struct life *life, uint64_t ticket)
{
    struct mr_remote_answer answer = {0};
    uint64_t until_ns = mr_clock_ns() + 10000 * MS;
    while (!answer.final) {
        SWEEP_CHECK(mr_clock_ns() < until_ns);
        if (!life->table->poll(life->table->context, &answer)) {
            usleep(50);
            continue;
        }
        SWEEP_CHECK(answer.id == ticket);
        if (!answer.final) life->arrived[answer.index] |= answer.loaded;
    }
    return answer.count;
}

static void use(struct life *life)
{
    struct mr_remote_operation request = {.values = life->items, .count = ITEMS, .tenant = "t"};
    void *context = life->table->context;
    wait_up(life);
    for (uint32_t i = 0; i < ITEMS; i++)
        life->items[i].bytes = life->stored[i];
    request.id = 1;
    if (life->table->store(context, &request)) finish(life, 1);
    request.id = 2;
    if (life->table->lookup(context, &request)) SWEEP_CHECK(finish(life, 2) <= ITEMS);
    for (uint32_t i = 0; i < ITEMS; i++)
        life->items[i].bytes = life->loaded[i];
    request.id = 3;
    if (life->table->load(context, &request)) finish(life, 3);
    for (uint32_t i = 0; i < ITEMS; i++)
        SWEEP_CHECK(!life->arrived[i] || !memcmp(life->stored[i], life->loaded[i], LENGTH));
}

static unsigned call(struct life *life)
{
    const char *words[] = {"INCR", "key"};
    const size_t lengths[] = {4, 3};
    struct mr_redis_call calls[2] = {{.words = words,
                                      .lengths = lengths,
                                      .count = 2,
                                      .timeout_ns = 1000 * MS,
                                      .done = on_reply,
                                      .context = &life->replies}};
    calls[1] = calls[0];
    return mr_redis_cache_call(life->remote, calls, 2) ? 2 : 0;
}

static void remote(void)
{
    struct life *life = calloc(1, sizeof *life);
    struct mr_error err = {0};
    char url[64];
    write_key();
    life->redis = fake_redis_start(0);
    snprintf(url, sizeof url, "redis://127.0.0.1:%u", life->redis->port);
    for (uint32_t i = 0; i < ITEMS; i++) {
        memset(life->items[i].key, (int)i + 1, MR_HASH_BYTES);
        memset(life->stored[i], (int)i + 65, LENGTH);
        life->items[i].token_count = MR_BLOCK_TOKENS;
        life->items[i].length = LENGTH;
    }
    struct mr_redis_cache_options options = {.url = url,
                                             .password_file = "",
                                             .key_file = KEY_PATH,
                                             .tls = {"", "", ""},
                                             .connections = 1,
                                             .lookup_timeout_ns = 500 * MS,
                                             .transfer_timeout_ns = 500 * MS,
                                             .ttl_ns = 60000 * MS,
                                             .store_bytes_max = 1 << 20};
    sweep_begin();
    enum mr_status status = mr_redis_cache_create(&life->remote, &options, &err);
    unsigned called = 0;
    if (status == MR_OK) {
        life->table = mr_redis_cache_table(life->remote);
        mr_redis_cache_link(life->remote, on_notify, NULL);
        use(life);
        called = call(life);
    }
    SWEEP_CHECK(mr_redis_cache_close(life->remote, 60000));
    mr_redis_cache_destroy(life->remote);
    const char *failed = sweep_end();
    fake_redis_stop(life->redis);
    unlink(KEY_PATH);
    SWEEP_CHECK(status == MR_OK || (failed && err.detail[0]));
    SWEEP_CHECK(atomic_load(&life->replies) == called);
    if (!failed) SWEEP_CHECK(life->arrived[0] && life->arrived[ITEMS - 1]);
    free(life);
}

int main(int argc, char *argv[])
{
    static const struct sweep_life lives[] = {{.name = "tier", .live = remote}};
    return sweep_main(argc, argv, lives, sizeof lives / sizeof *lives);
}
