/* A stand-in for Redis with one list, as worker/resume/resume.h uses it: commands run in the
 * caller's thread, or are held until the test has them answered. */
#ifndef MR_TESTS_LIST_REDIS_H
#define MR_TESTS_LIST_REDIS_H

#include "worker/resume/resume.h"

#include <hiredis/hiredis.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LIST_ITEMS_MAX 256u
#define LIST_HELD_MAX  16u

struct list_item {
    char bytes[256];
    size_t length;
};

struct list_held {
    char words[4][256];
    size_t lengths[4];
    int count;
    struct mr_redis_call call;
};

struct list_redis {
    struct list_item items[LIST_ITEMS_MAX];
    size_t count;
    char key[64];
    long long ttl_s;
    bool failing, refusing, holding;
    unsigned calls;
    struct list_held held[LIST_HELD_MAX];
    unsigned held_count;
};

static inline void list_push(struct list_redis *redis, const char *bytes, size_t length)
{
    assert_true(redis->count < LIST_ITEMS_MAX && length <= sizeof redis->items[0].bytes);
    memcpy(redis->items[redis->count].bytes, bytes, length);
    redis->items[redis->count++].length = length;
}

static inline void list_answer_all(struct list_redis *redis, const struct mr_redis_call *call)
{
    static redisReply items[LIST_ITEMS_MAX];
    static redisReply *elements[LIST_ITEMS_MAX];
    for (size_t i = 0; i < redis->count; i++) {
        items[i] = (redisReply){.type = REDIS_REPLY_STRING,
                                .str = redis->items[i].bytes,
                                .len = redis->items[i].length};
        elements[i] = &items[i];
    }
    redisReply list = {.type = REDIS_REPLY_ARRAY, .elements = redis->count, .element = elements};
    call->done(call->context, MR_REDIS_DONE, (const struct mr_redis_reply *)(const void *)&list);
}

static inline void list_redis_run(struct list_redis *redis, const struct list_held *command)
{
    const struct mr_redis_call *call = &command->call;
    redisReply number = {.type = REDIS_REPLY_INTEGER};
    const char *word = command->words[0];
    assert_true(redis->key[0] == '\0' || strcmp(redis->key, command->words[1]) == 0);
    memcpy(redis->key, command->words[1], command->lengths[1] + 1);
    if (redis->failing) {
        call->done(call->context, MR_REDIS_LOST, NULL);
        return;
    }
    if (strcmp(word, "LRANGE") == 0) {
        list_answer_all(redis, call);
        return;
    }
    if (strcmp(word, "RPUSH") == 0 || (strcmp(word, "RPUSHX") == 0 && redis->count > 0)) {
        list_push(redis, command->words[2], command->lengths[2]);
        number.integer = (long long)redis->count;
    } else if (strcmp(word, "EXPIRE") == 0) {
        redis->ttl_s = strtoll(command->words[2], NULL, 10);
    } else if (strcmp(word, "DEL") == 0) {
        redis->count = 0;
    } else {
        assert_string_equal(word, "RPUSHX");
    }
    call->done(call->context, MR_REDIS_DONE, (const struct mr_redis_reply *)(const void *)&number);
}

static inline void list_redis_take(struct list_redis *redis, const struct mr_redis_call *call)
{
    struct list_held command = {.count = call->count, .call = *call};
    redis->calls++;
    for (int i = 0; i < call->count; i++) {
        assert_true(call->lengths[i] < sizeof command.words[i]);
        memcpy(command.words[i], call->words[i], call->lengths[i]);
        command.lengths[i] = call->lengths[i];
    }
    if (redis->holding) {
        assert_true(redis->held_count < LIST_HELD_MAX);
        redis->held[redis->held_count++] = command;
    } else {
        list_redis_run(redis, &command);
    }
}

/* mr_resume_options.call */
static inline bool list_redis_call(void *context, const struct mr_redis_call *calls, size_t count)
{
    struct list_redis *redis = context;
    for (size_t i = 0; i < count && !redis->refusing; i++)
        list_redis_take(redis, &calls[i]);
    return !redis->refusing;
}

static inline void list_redis_answer_held(struct list_redis *redis)
{
    for (unsigned i = 0; i < redis->held_count; i++)
        list_redis_run(redis, &redis->held[i]);
    redis->held_count = 0;
}

/* Sends the tokens kept so far as publish does: waits for Redis until the timeout. */
static inline void store_tokens(struct mr_resume *resume, uint64_t now_ns)
{
    uint64_t retry_ns;
    if (mr_resume_poll(resume, now_ns, &retry_ns) == MR_RESUME_PENDING)
        assert_int_equal(mr_resume_poll(resume, retry_ns, &retry_ns), MR_RESUME_READY);
}

#endif
