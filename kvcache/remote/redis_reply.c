#include "kvcache/remote/redis_reply.h"

#include "codec/check.h"

#include <hiredis/hiredis.h>

bool mr_redis_op_command(struct mr_redis_op *op, int count, const char *const *words,
                         const size_t *lengths, bool keyed)
{
    *op = (struct mr_redis_op){.slot = MR_REDIS_SLOTS};
    long long length = /* the function returns int before hiredis 1.0 */
        redisFormatCommandArgv(&op->words, count, (const char **)(uintptr_t)words, lengths);
    if (length < 0) return false;
    op->out[0] = (struct iovec){.iov_base = op->words, .iov_len = (size_t)length};
    op->out_count = 1;
    if (keyed) op->slot = mr_redis_slot(words[1], lengths[1]);
    return true;
}

void mr_redis_op_end(struct mr_redis_op *op)
{
    if (op->words) redisFreeCommand(op->words);
    if (op->reply) freeReplyObject(op->reply);
    op->words = NULL;
    op->reply = NULL;
}

/* ---- replies ---- */

static const redisReply *hiredis_of(const struct mr_redis_reply *reply)
{
    return (const redisReply *)reply;
}

enum mr_redis_type mr_redis_reply_type(const struct mr_redis_reply *reply)
{
    switch (hiredis_of(reply)->type) {
    case REDIS_REPLY_INTEGER:
        return MR_REDIS_INTEGER;
    case REDIS_REPLY_ARRAY:
        return MR_REDIS_LIST;
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_ERROR:
    case REDIS_REPLY_STATUS:
        return MR_REDIS_TEXT;
    default:
        return MR_REDIS_NIL;
    }
}

int64_t mr_redis_reply_integer(const struct mr_redis_reply *reply)
{
    return mr_redis_reply_type(reply) == MR_REDIS_INTEGER ? hiredis_of(reply)->integer : 0;
}

const char *mr_redis_reply_text(const struct mr_redis_reply *reply, size_t *length)
{
    bool text = mr_redis_reply_type(reply) == MR_REDIS_TEXT;
    *length = text ? (size_t)hiredis_of(reply)->len : 0;
    return text ? hiredis_of(reply)->str : "";
}

size_t mr_redis_reply_count(const struct mr_redis_reply *reply)
{
    return mr_redis_reply_type(reply) == MR_REDIS_LIST ? (size_t)hiredis_of(reply)->elements : 0;
}

const struct mr_redis_reply *mr_redis_reply_at(const struct mr_redis_reply *reply, size_t index)
{
    MR_ASSERT(index < mr_redis_reply_count(reply));
    return (const struct mr_redis_reply *)hiredis_of(reply)->element[index];
}

void mr_redis_reply_free(struct mr_redis_reply *reply)
{
    freeReplyObject(reply);
}

/* ---- parsing ---- */

struct mr_redis_parser *mr_redis_parser_create(void)
{
    return (struct mr_redis_parser *)redisReaderCreate();
}

void mr_redis_parser_destroy(struct mr_redis_parser *parser)
{
    if (parser) redisReaderFree((redisReader *)parser);
}

bool mr_redis_parser_feed(struct mr_redis_parser *parser, const char *bytes, size_t length,
                          struct mr_redis_reply **reply, bool *is_error)
{
    redisReader *reader = (redisReader *)parser;
    void *parsed = NULL;
    *reply = NULL;
    *is_error = false;
    if (redisReaderFeed(reader, bytes, length) != REDIS_OK ||
        redisReaderGetReply(reader, &parsed) != REDIS_OK)
        return false;
    *reply = parsed;
    *is_error = parsed && ((redisReply *)parsed)->type == REDIS_REPLY_ERROR;
    return true;
}
