#include "worker/gateway/exchange.h"

#include "codec/check.h"
#include "codec/hash.h"
#include "codec/openai/stream.h"
#include "worker/gateway/keys.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* the body buffer's own limit; the server's limit is lower */
#define BODY_BYTES_MAX ((size_t)256 << 20)

enum mr_status mr_exchanges_open(struct mr_exchanges *exchanges, const struct mr_wake *wake,
                                 uint32_t count_max, size_t bytes_max, struct mr_error *err)
{
    *exchanges =
        (struct mr_exchanges){.wake = wake, .count_max = count_max, .bytes_max = bytes_max};
    if (!mr_hash_table_create(&exchanges->table, count_max))
        return mr_fail(err, MR_NOMEM, "no memory for %u calls", count_max);
    pthread_mutex_init(&exchanges->lock, NULL);
    return MR_OK;
}

void mr_exchanges_close(struct mr_exchanges *exchanges)
{
    MR_ASSERT(exchanges->table.count == 0 && exchanges->bytes == 0);
    mr_hash_table_destroy(&exchanges->table);
    pthread_mutex_destroy(&exchanges->lock);
}

struct mr_exchange *mr_exchange_create(struct mr_exchanges *exchanges,
                                       struct MHD_Connection *connection)
{
    struct mr_exchange *exchange = calloc(1, sizeof *exchange);
    if (!exchange) return NULL;
    exchange->exchanges = exchanges;
    exchange->connection = connection;
    exchange->fd = -1;
    exchange->references = 1;
    mr_buffer_init(&exchange->body, BODY_BYTES_MAX);
    mr_buffer_init(&exchange->out, MR_EXCHANGE_REPLY_BYTES);
    pthread_mutex_lock(&exchanges->lock);
    exchange->serial = ++exchanges->serial;
    pthread_mutex_unlock(&exchanges->lock);
    return exchange;
}

static void destroy(struct mr_exchange *exchange)
{
    mr_openai_stream_destroy(exchange->stream);
    mr_key_release(exchange->key);
    mr_buffer_drop(&exchange->body);
    mr_buffer_drop(&exchange->out);
    free(exchange->record);
    free(exchange);
}

/* Bytes of the exchange that count towards the limit. */
static size_t bytes_of(const struct mr_exchange *exchange)
{
    return exchange->body.length + exchange->out.length;
}

/* Needs the lock. */
static void drop(struct mr_exchanges *exchanges, struct mr_exchange *exchange)
{
    if (--exchange->references > 0) return;
    exchanges->bytes -= bytes_of(exchange);
    destroy(exchange);
}

void mr_exchange_drop(struct mr_exchanges *exchanges, struct mr_exchange *exchange)
{
    pthread_mutex_lock(&exchanges->lock);
    drop(exchanges, exchange);
    pthread_mutex_unlock(&exchanges->lock);
}

bool mr_exchange_add_body(struct mr_exchanges *exchanges, struct mr_exchange *exchange,
                          struct mr_text part)
{
    pthread_mutex_lock(&exchanges->lock);
    const bool fits = exchanges->bytes + part.length <= exchanges->bytes_max &&
                      mr_buffer_append(&exchange->body, part);
    if (fits) exchanges->bytes += part.length;
    pthread_mutex_unlock(&exchanges->lock);
    return fits;
}

/* ---- the table ---- */

static bool has_id(const struct mr_hash_entry *entry, const void *key)
{
    const struct mr_text *id = key;
    const struct mr_exchange *exchange = MR_HASH_ITEM(entry, const struct mr_exchange, hash);
    return mr_text_is(*id, exchange->id);
}

static struct mr_exchange *find(struct mr_exchanges *exchanges, struct mr_text id)
{
    const uint64_t hash = mr_hash_bytes(MR_HASH_START, id.bytes, id.length);
    struct mr_hash_entry *entry = mr_hash_table_find(&exchanges->table, hash, has_id, &id);
    return entry ? MR_HASH_ITEM(entry, struct mr_exchange, hash) : NULL;
}

void mr_exchanges_post(struct mr_exchanges *exchanges, struct mr_exchange *exchange)
{
    if (exchange->in_mail) return;
    exchange->in_mail = true;
    exchange->next_mail = NULL;
    exchange->references++;
    if (exchanges->mail_last)
        exchanges->mail_last->next_mail = exchange;
    else
        exchanges->mail_first = exchange;
    exchanges->mail_last = exchange;
    mr_wake_ring(exchanges->wake);
}

/* Takes an exchange out of the hash table; the table's reference stays until _remove. */
static void unlink_id(struct mr_exchanges *exchanges, struct mr_exchange *exchange)
{
    if (exchange->in_table) mr_hash_table_remove(&exchanges->table, &exchange->hash);
    exchange->in_table = false;
}

static bool is_same_record(const struct mr_exchange *a, const struct mr_exchange *b)
{
    return a->record_length == b->record_length && strcmp(a->topic, b->topic) == 0 &&
           memcmp(a->record, b->record, a->record_length) == 0;
}

enum mr_exchange_added mr_exchanges_add(struct mr_exchanges *exchanges,
                                        struct mr_exchange *exchange)
{
    const struct mr_text id = {exchange->id, strlen(exchange->id)};
    enum mr_exchange_added added = MR_EXCHANGE_ADDED;
    pthread_mutex_lock(&exchanges->lock);
    struct mr_exchange *same = find(exchanges, id);
    if (same && !(same->is_left && is_same_record(same, exchange)))
        added = MR_EXCHANGE_SAME_ID;
    else if (exchanges->is_closed || exchanges->table.count >= exchanges->count_max)
        added = MR_EXCHANGE_FULL;
    if (added == MR_EXCHANGE_ADDED) {
        if (same) {
            same->is_replaced = true;
            unlink_id(exchanges, same);
            mr_exchanges_post(exchanges, same);
        }
        mr_hash_table_add(&exchanges->table, &exchange->hash,
                          mr_hash_bytes(MR_HASH_START, id.bytes, id.length));
        exchange->in_table = true;
        exchange->references++;
        mr_exchanges_post(exchanges, exchange);
    }
    pthread_mutex_unlock(&exchanges->lock);
    return added;
}

struct mr_exchange *mr_exchanges_take(struct mr_exchanges *exchanges)
{
    pthread_mutex_lock(&exchanges->lock);
    struct mr_exchange *first = exchanges->mail_first;
    if (first) {
        exchanges->mail_first = first->next_mail;
        if (!exchanges->mail_first) exchanges->mail_last = NULL;
        first->in_mail = false;
    }
    pthread_mutex_unlock(&exchanges->lock);
    return first;
}

struct mr_exchange *mr_exchanges_find(struct mr_exchanges *exchanges, struct mr_text id)
{
    pthread_mutex_lock(&exchanges->lock);
    struct mr_exchange *exchange = find(exchanges, id);
    pthread_mutex_unlock(&exchanges->lock);
    return exchange;
}

void mr_exchanges_remove(struct mr_exchanges *exchanges, struct mr_exchange *exchange)
{
    if (exchange->is_removed) return;
    exchange->is_removed = true;
    pthread_mutex_lock(&exchanges->lock);
    unlink_id(exchanges, exchange);
    drop(exchanges, exchange);
    pthread_mutex_unlock(&exchanges->lock);
}

/* ---- answers ---- */

void mr_exchange_rouse(struct mr_exchange_resumes *resumes, struct mr_exchange *exchange)
{
    if (!exchange->suspended) return;
    exchange->suspended = false;
    exchange->next_resume = resumes->first;
    resumes->first = exchange;
}

bool mr_exchange_append(struct mr_exchanges *exchanges, struct mr_exchange *exchange,
                        struct mr_text part)
{
    struct mr_buffer *out = &exchange->out;
    if (exchange->out_read > 0) {
        const size_t left = out->length - exchange->out_read;
        memmove(out->bytes, out->bytes + exchange->out_read, left);
        exchanges->bytes -= exchange->out_read;
        out->length = left;
        exchange->out_read = 0;
    }
    /* not with the part: one part may be longer than the limit, as the last event of a Response */
    if (out->length > MR_EXCHANGE_STREAM_BYTES ||
        exchanges->bytes + part.length > exchanges->bytes_max || !mr_buffer_append(out, part))
        return false;
    exchanges->bytes += part.length;
    return true;
}

void mr_exchange_end(struct mr_exchanges *exchanges, struct mr_exchange *exchange,
                     struct mr_text part)
{
    if (mr_buffer_append(&exchange->out, part)) exchanges->bytes += part.length;
    exchange->is_done = true;
}

void mr_exchange_answer(struct mr_exchanges *exchanges, struct mr_exchange *exchange,
                        unsigned status, char *text, size_t length)
{
    exchanges->bytes -= exchange->out.length;
    mr_buffer_drop(&exchange->out);
    exchange->out = (struct mr_buffer){text, length, length, length};
    exchange->out_read = 0;
    exchanges->bytes += length;
    exchange->status = status;
    exchange->is_done = true;
}
