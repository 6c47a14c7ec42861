#include "kvcache/remote/redis_op.h"

#include "codec/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void add_part(struct mr_redis_op *op, const void *bytes, size_t length)
{
    MR_ASSERT(op->out_count < MR_REDIS_OP_PARTS);
    op->out[op->out_count++] =
        (struct iovec){.iov_base = (void *)(uintptr_t)bytes, .iov_len = length};
}

static void begin(struct mr_redis_op *op, const char *key, size_t key_length)
{
    MR_ASSERT(key_length <= MR_REDIS_KEY_BYTES);
    *op = (struct mr_redis_op){.slot = mr_redis_slot(key, key_length)};
}

/* Starts the command in op->text: "*COUNT", then word and key as bulk strings; returns the text's
 * length. */
static size_t put_words(struct mr_redis_op *op, int count, const char *word, const char *key,
                        size_t key_length)
{
    int head = snprintf(op->text, sizeof op->text, "*%d\r\n$%zu\r\n%s\r\n$%zu\r\n", count,
                        strlen(word), word, key_length);
    size_t used = (size_t)head;
    MR_ASSERT(head > 0 && used + key_length + 2 < sizeof op->text);
    memcpy(op->text + used, key, key_length);
    memcpy(op->text + used + key_length, "\r\n", 2);
    return used + key_length + 2;
}

/* Appends the text `lead`, then ttl_s as a bulk string, to op->text; returns the text's new
 * length. */
static size_t put_expiry(struct mr_redis_op *op, size_t used, const char *lead, uint64_t ttl_s)
{
    char number[24];
    int digits = snprintf(number, sizeof number, "%" PRIu64, ttl_s);
    int wrote =
        snprintf(op->text + used, sizeof op->text - used, "%s$%d\r\n%s\r\n", lead, digits, number);
    MR_ASSERT(wrote > 0 && (size_t)wrote < sizeof op->text - used);
    return used + (size_t)wrote;
}

void mr_redis_op_set(struct mr_redis_op *op, const struct mr_redis_value *value, uint64_t ttl_s)
{
    begin(op, value->key, value->key_length);
    size_t used = put_words(op, ttl_s ? 5 : 3, "SET", value->key, value->key_length);
    int wrote = snprintf(op->text + used, sizeof op->text - used, "$%zu\r\n",
                         value->header_length + value->length);
    size_t front = used + (size_t)wrote;
    MR_ASSERT(wrote > 0 && front + 2 < sizeof op->text);
    add_part(op, op->text, front);
    add_part(op, value->header, value->header_length);
    add_part(op, value->payload, value->length);
    memcpy(op->text + front, "\r\n", 2);
    size_t end = ttl_s ? put_expiry(op, front + 2, "$2\r\nEX\r\n", ttl_s) : front + 2;
    add_part(op, op->text + front, end - front);
}

void mr_redis_op_get(struct mr_redis_op *op, const struct mr_redis_value *value)
{
    begin(op, value->key, value->key_length);
    add_part(op, op->text, put_words(op, 2, "GET", value->key, value->key_length));
    op->bulk = true;
    op->into[0] = (struct iovec){.iov_base = value->header, .iov_len = value->header_length};
    op->into[1] = (struct iovec){.iov_base = value->payload, .iov_len = value->length};
}

void mr_redis_op_word(struct mr_redis_op *op, const char *word, const char *key, size_t key_length)
{
    begin(op, key, key_length);
    add_part(op, op->text, put_words(op, 2, word, key, key_length));
}

void mr_redis_op_expire(struct mr_redis_op *op, const char *key, size_t key_length, uint64_t ttl_s)
{
    begin(op, key, key_length);
    size_t used = put_words(op, 3, "EXPIRE", key, key_length);
    add_part(op, op->text, put_expiry(op, used, "", ttl_s));
}

enum mr_redis_outcome mr_redis_outcome_of(const char *error, size_t length)
{
    static const struct {
        const char *word;
        enum mr_redis_outcome outcome;
    } words[] = {
        {"MOVED", MR_REDIS_MOVED},        {"ASK", MR_REDIS_MOVED},
        {"LOADING", MR_REDIS_BUSY},       {"BUSY", MR_REDIS_BUSY},
        {"TRYAGAIN", MR_REDIS_BUSY},      {"CLUSTERDOWN", MR_REDIS_BUSY},
        {"MASTERDOWN", MR_REDIS_BUSY},    {"MISCONF", MR_REDIS_FULL},
        {"OOM", MR_REDIS_FULL},           {"NOAUTH", MR_REDIS_DENIED},
        {"WRONGPASS", MR_REDIS_DENIED},   {"NOPERM", MR_REDIS_DENIED},
        {"READONLY", MR_REDIS_READ_ONLY},
    };
    const char *space = memchr(error, ' ', length);
    size_t first = space ? (size_t)(space - error) : length;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i].word) == first && memcmp(words[i].word, error, first) == 0)
            return words[i].outcome;
    return MR_REDIS_REFUSED;
}

size_t mr_redis_op_length(const struct mr_redis_op *op)
{
    size_t sum = 0;
    for (int i = 0; i < op->out_count; i++)
        sum += op->out[i].iov_len;
    return sum;
}

size_t mr_redis_op_value_length(const struct mr_redis_op *op)
{
    return op->into[0].iov_len + op->into[1].iov_len;
}

int mr_redis_parts_from(const struct iovec *parts, int count, size_t skip, struct iovec *out)
{
    int used = 0;
    for (int i = 0; i < count; i++) {
        struct iovec part = parts[i];
        size_t passed = skip < part.iov_len ? skip : part.iov_len;
        skip -= passed;
        part.iov_base = (char *)part.iov_base + passed;
        part.iov_len -= passed;
        if (part.iov_len) out[used++] = part;
    }
    return used;
}

/* ---- lists ---- */

void mr_redis_op_list_push(struct mr_redis_op_list *list, struct mr_redis_op *op)
{
    op->next = NULL;
    if (list->last)
        list->last->next = op;
    else
        list->first = op;
    list->last = op;
    list->count++;
}

struct mr_redis_op *mr_redis_op_list_pop(struct mr_redis_op_list *list)
{
    struct mr_redis_op *op = list->first;
    if (op) mr_redis_op_list_remove(list, op);
    return op;
}

bool mr_redis_op_list_remove(struct mr_redis_op_list *list, struct mr_redis_op *op)
{
    struct mr_redis_op *before = NULL, *at = list->first;
    for (; at && at != op; at = at->next)
        before = at;
    if (!at) return false;
    if (before)
        before->next = op->next;
    else
        list->first = op->next;
    if (list->last == op) list->last = before;
    list->count--;
    op->next = NULL;
    return true;
}
