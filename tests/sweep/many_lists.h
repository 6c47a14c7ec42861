/* A Redis that holds only lists, as resume.h uses them. Commands run in the caller's thread. */
#ifndef MR_TESTS_SWEEP_MANY_LISTS_H
#define MR_TESTS_SWEEP_MANY_LISTS_H

#include "tests/sweep/sweep.h"
#include "worker/remote_cache/redis_call.h"

#include <hiredis/hiredis.h>

#include <stdlib.h>
#include <string.h>

#define MANY_LISTS     32u
#define MANY_ITEMS_MAX 256u

struct many_list {
    char key[128];
    redisReply items[MANY_ITEMS_MAX];
    size_t count;
};

struct many_lists {
    struct many_list *lists[MANY_LISTS];
    size_t count;
};

static inline struct many_list *many_lists_find(struct many_lists *lists, const char *key,
                                                size_t length)
{
    for (size_t i = 0; i < lists->count; i++)
        if (strlen(lists->lists[i]->key) == length &&
            memcmp(lists->lists[i]->key, key, length) == 0)
            return lists->lists[i];
    SWEEP_CHECK(lists->count < MANY_LISTS && length < sizeof lists->lists[0]->key);
    struct many_list *list = lists->lists[lists->count++] = calloc(1, sizeof *list);
    memcpy(list->key, key, length);
    return list;
}

static inline void many_lists_clear(struct many_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i].str);
    list->count = 0;
}

static inline void many_lists_push(struct many_list *list, const char *bytes, size_t length)
{
    SWEEP_CHECK(list->count < MANY_ITEMS_MAX);
    redisReply *item = &list->items[list->count++];
    *item = (redisReply){.type = REDIS_REPLY_STRING, .str = malloc(length + 1), .len = length};
    memcpy(item->str, bytes, length);
}

static inline void many_lists_run(struct many_lists *lists, const struct mr_redis_call *call)
{
    redisReply *elements[MANY_ITEMS_MAX];
    redisReply reply = {.type = REDIS_REPLY_INTEGER};
    const char *word = call->words[0];
    struct many_list *list = many_lists_find(lists, call->words[1], call->lengths[1]);
    if (strcmp(word, "LRANGE") == 0) {
        for (size_t i = 0; i < list->count; i++)
            elements[i] = &list->items[i];
        reply =
            (redisReply){.type = REDIS_REPLY_ARRAY, .elements = list->count, .element = elements};
    } else if (strcmp(word, "RPUSH") == 0 || (strcmp(word, "RPUSHX") == 0 && list->count > 0)) {
        many_lists_push(list, call->words[2], call->lengths[2]);
        reply.integer = (long long)list->count;
    } else if (strcmp(word, "DEL") == 0) {
        many_lists_clear(list);
    } else {
        SWEEP_CHECK(strcmp(word, "RPUSHX") == 0 || strcmp(word, "EXPIRE") == 0);
    }
    call->done(call->context, MR_REDIS_DONE, (const struct mr_redis_reply *)(const void *)&reply);
}

/* mr_resume_options.call */
static inline bool many_lists_call(void *context, const struct mr_redis_call *calls, size_t count)
{
    for (size_t i = 0; i < count; i++)
        many_lists_run(context, &calls[i]);
    return true;
}

static inline void many_lists_free(struct many_lists *lists)
{
    for (size_t i = 0; i < lists->count; i++) {
        many_lists_clear(lists->lists[i]);
        free(lists->lists[i]);
    }
}

#endif
