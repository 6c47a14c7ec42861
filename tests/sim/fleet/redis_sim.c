#include "tests/sim/fleet/redis_sim.h"

#include "codec/check.h"
#include "kvcache/remote/redis_command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEYS_MAX   128u
#define WORDS_MAX  6u
#define RETRY_NS   (50 * MS)
#define LATENCY_NS (MS / 4)

struct item {
    char *bytes;
    size_t length;
};

/* A string has one item; a list any number. */
struct entry {
    char key[MR_REDIS_KEY_BYTES];
    size_t key_length;
    bool is_list;
    struct item *items;
    size_t count, max;
    size_t count_before; /* of a list, before its last write: the state of a lagging replica */
    uint64_t expires_ns; /* UINT64_MAX: never */
};

struct sim_redis {
    struct entry entries[KEYS_MAX];
    size_t count;
    struct sim_random random;
    struct coverage *coverage;
    uint64_t down_until_ns, slow_until_ns, lag_until_ns;
};

struct connection {
    struct sim_redis *redis;
    struct sim_machine *machine;
    struct mr_redis_command_list in_flight, done;
    uint64_t now_ns, retry_ns;
    bool ready;
    struct mr_redis_client_stats stats;
};

static struct sim_redis *entered;
static struct sim_machine *entered_machine;

void sim_redis_enter(struct sim_redis *redis, struct sim_machine *machine)
{
    entered = redis;
    entered_machine = machine;
}

struct sim_redis *sim_redis_create(uint64_t seed, struct coverage *coverage)
{
    struct sim_redis *redis = calloc(1, sizeof *redis);
    MR_ASSERT(redis);
    redis->random.state = seed ^ 0x7265646973u;
    redis->coverage = coverage;
    return redis;
}

/* ---- the data ---- */

static void free_items(struct entry *entry)
{
    for (size_t i = 0; i < entry->count; i++)
        free(entry->items[i].bytes);
    free(entry->items);
    entry->items = NULL;
    entry->count = entry->max = entry->count_before = 0;
}

static void remove_entry(struct sim_redis *redis, size_t at)
{
    free_items(&redis->entries[at]);
    redis->entries[at] = redis->entries[--redis->count];
}

void sim_redis_flush(struct sim_redis *redis)
{
    if (redis->count > 0) redis->coverage->counts[COVER_REDIS_FLUSHED]++;
    while (redis->count > 0)
        remove_entry(redis, redis->count - 1);
}

void sim_redis_evict(struct sim_redis *redis, uint32_t percent)
{
    for (size_t i = redis->count; i > 0; i--) {
        if (!sim_chance(&redis->random, percent)) continue;
        redis->coverage->counts[COVER_REDIS_EVICTED]++;
        remove_entry(redis, i - 1);
    }
}

void sim_redis_destroy(struct sim_redis *redis)
{
    if (!redis) return;
    while (redis->count > 0)
        remove_entry(redis, redis->count - 1);
    free(redis);
}

static struct entry *find(struct sim_redis *redis, struct item key, uint64_t now_ns)
{
    for (size_t i = 0; i < redis->count; i++) {
        struct entry *entry = &redis->entries[i];
        if (entry->key_length != key.length || memcmp(entry->key, key.bytes, key.length) != 0)
            continue;
        if (entry->expires_ns > now_ns) return entry;
        remove_entry(redis, i);
        return NULL;
    }
    return NULL;
}

static struct entry *make(struct sim_redis *redis, struct item key, bool is_list)
{
    if (redis->count == KEYS_MAX)
        remove_entry(redis, sim_below(&redis->random, KEYS_MAX)); /* maxmemory-policy */
    struct entry *entry = &redis->entries[redis->count++];
    *entry = (struct entry){.key_length = key.length, .is_list = is_list, .expires_ns = UINT64_MAX};
    MR_ASSERT(key.length <= sizeof entry->key);
    memcpy(entry->key, key.bytes, key.length);
    return entry;
}

static void push(struct entry *entry, struct item value)
{
    if (entry->count == entry->max) {
        entry->max = entry->max > 0 ? 2 * entry->max : 4;
        entry->items = realloc(entry->items, entry->max * sizeof *entry->items);
        MR_ASSERT(entry->items);
    }
    struct item copy = {malloc(value.length + 1), value.length};
    MR_ASSERT(copy.bytes);
    memcpy(copy.bytes, value.bytes, value.length);
    entry->items[entry->count++] = copy;
}

/* ---- replies ---- */

static void reply_bytes(struct mr_redis_command *op, const char *text, size_t length)
{
    struct mr_redis_parser *parser = mr_redis_parser_create();
    bool is_error = false;
    mr_redis_parser_feed(parser, text, length, &op->reply, &is_error);
    op->outcome = MR_REDIS_DONE;
    if (is_error) {
        size_t words_length;
        const char *words = mr_redis_reply_text(op->reply, &words_length);
        snprintf(op->error, sizeof op->error, "%s", words);
        op->outcome = mr_redis_outcome_of(op->error, words_length);
        mr_redis_reply_free(op->reply);
        op->reply = NULL;
    }
    mr_redis_parser_destroy(parser);
}

static void reply_number(struct mr_redis_command *op, size_t number)
{
    char line[32];
    int length = snprintf(line, sizeof line, ":%zu\r\n", number);
    reply_bytes(op, line, (size_t)length);
}

static void reply_list(struct mr_redis_command *op, const struct entry *entry, size_t count)
{
    size_t bytes = 32, used;
    for (size_t i = 0; i < count; i++)
        bytes += entry->items[i].length + 32;
    char *text = malloc(bytes);
    MR_ASSERT(text);
    used = (size_t)snprintf(text, bytes, "*%zu\r\n", count);
    for (size_t i = 0; i < count; i++) {
        const struct item *item = &entry->items[i];
        used += (size_t)snprintf(text + used, bytes - used, "$%zu\r\n", item->length);
        memcpy(text + used, item->bytes, item->length);
        used += item->length;
        memcpy(text + used, "\r\n", 2);
        used += 2;
    }
    reply_bytes(op, text, used);
    free(text);
}

static void reply_value(struct connection *connection, struct mr_redis_command *op,
                        struct item value)
{
    op->outcome = MR_REDIS_WRONG_SIZE;
    if (value.length != mr_redis_command_value_length(op)) return;
    op->outcome = MR_REDIS_DONE;
    for (size_t i = 0; i < 2 && op->into[i].iov_len > 0; i++) {
        memcpy(op->into[i].iov_base, value.bytes, op->into[i].iov_len);
        if (op->on_bytes) op->on_bytes(op, op->into[i].iov_base, op->into[i].iov_len);
        value.bytes += op->into[i].iov_len;
    }
    connection->stats.bytes.received_bytes += value.length;
    connection->stats.bytes.value_bytes += value.length;
}

/* ---- commands ---- */

static bool is_word(struct item word, const char *name)
{
    return word.length == strlen(name) && memcmp(word.bytes, name, word.length) == 0;
}

/* The words of a command "*COUNT\r\n$LENGTH\r\nWORD\r\n...". */
static size_t read_words(char *text, struct item *words)
{
    char *at;
    size_t count = strtoul(text + 1, &at, 10);
    MR_ASSERT(count <= WORDS_MAX);
    at += 2;
    for (size_t i = 0; i < count; i++) {
        words[i].length = strtoul(at + 1, &at, 10);
        words[i].bytes = at + 2;
        at += 2 + words[i].length + 2;
    }
    return count;
}

static uint64_t seconds_from(uint64_t now_ns, struct item word)
{
    return now_ns + strtoull(word.bytes, NULL, 10) * SECOND;
}

static void run_list(struct connection *connection, struct mr_redis_command *op, struct item *words,
                     struct entry *entry)
{
    struct sim_redis *redis = connection->redis;
    bool lags = connection->now_ns < redis->lag_until_ns;
    if (is_word(words[0], "LRANGE")) {
        size_t count = entry ? entry->count : 0;
        if (entry && lags && entry->count_before < count) {
            count = entry->count_before;
            redis->coverage->counts[COVER_REDIS_STALE]++;
        }
        reply_list(op, entry, count);
        return;
    }
    if (is_word(words[0], "RPUSH") && !entry) entry = make(redis, words[1], true);
    if (entry) {
        entry->count_before = entry->count;
        push(entry, words[2]);
    }
    reply_number(op, entry ? entry->count : 0);
}

static void run_words(struct connection *connection, struct mr_redis_command *op,
                      struct item *words, size_t count)
{
    struct sim_redis *redis = connection->redis;
    uint64_t now_ns = connection->now_ns;
    struct entry *entry = find(redis, words[1], now_ns);
    if (is_word(words[0], "GET")) {
        if (entry)
            reply_value(connection, op, entry->items[0]);
        else
            op->outcome = MR_REDIS_MISS;
    } else if (is_word(words[0], "SET")) {
        if (entry) free_items(entry);
        if (!entry) entry = make(redis, words[1], false);
        push(entry, words[2]);
        entry->expires_ns = count > 4 ? seconds_from(now_ns, words[4]) : UINT64_MAX;
        reply_bytes(op, "+OK\r\n", 5);
    } else if (is_word(words[0], "STRLEN")) {
        reply_number(op, entry ? entry->items[0].length : 0);
    } else if (is_word(words[0], "EXPIRE")) {
        if (entry) entry->expires_ns = seconds_from(now_ns, words[2]);
        reply_number(op, entry != NULL);
    } else if (is_word(words[0], "DEL")) {
        if (entry) remove_entry(redis, (size_t)(entry - redis->entries));
        reply_number(op, entry != NULL);
    } else if (is_word(words[0], "LRANGE") || is_word(words[0], "RPUSH") ||
               is_word(words[0], "RPUSHX")) {
        run_list(connection, op, words, entry);
    } else {
        reply_bytes(op, "-ERR unknown command\r\n", 22);
    }
}

/* ECHO, which measures the connection with a large value: the reply is written into the value. */
static bool echo(struct connection *connection, struct mr_redis_command *op)
{
    static const char begin[] = "*2\r\n$4\r\nECHO\r\n";
    size_t length = mr_redis_command_value_length(op);
    if (op->out[0].iov_len < sizeof begin || memcmp(op->out[0].iov_base, begin, sizeof begin - 1))
        return false;
    MR_ASSERT(op->into[0].iov_base == op->out[1].iov_base);
    op->outcome = MR_REDIS_DONE;
    connection->stats.bytes.received_bytes += length;
    return true;
}

static void execute(struct connection *connection, struct mr_redis_command *op)
{
    struct item words[WORDS_MAX];
    if (echo(connection, op)) return;
    size_t length = 0;
    char *text = malloc(mr_redis_command_length(op) + 1);
    MR_ASSERT(text);
    for (int i = 0; i < op->out_count; i++) {
        memcpy(text + length, op->out[i].iov_base, op->out[i].iov_len);
        length += op->out[i].iov_len;
    }
    text[length] = '\0';
    size_t count = read_words(text, words);
    run_words(connection, op, words, count);
    free(text);
}

/* ---- the port ---- */

static bool is_dead(const struct connection *connection)
{
    return connection->machine->dead;
}

/* The connection breaks: a command in flight may have been executed or not. */
static void break_connection(struct connection *connection)
{
    struct sim_redis *redis = connection->redis;
    for (struct mr_redis_command *op;
         (op = mr_redis_command_list_pop(&connection->in_flight)) != NULL;) {
        op->outcome = op->deadline_ns <= connection->now_ns ? MR_REDIS_TIMEOUT : MR_REDIS_LOST;
        mr_redis_command_list_push(&connection->done, op);
    }
    if (connection->ready) connection->stats.failures++;
    connection->ready = false;
    connection->retry_ns = connection->now_ns + RETRY_NS + sim_below(&redis->random, 50) * MS;
}

static uint64_t latency(struct sim_redis *redis, uint64_t now_ns)
{
    uint64_t time_ns = sim_between(&redis->random, LATENCY_NS, 3 * LATENCY_NS);
    if (now_ns < redis->slow_until_ns) time_ns += sim_between(&redis->random, MS, 400 * MS);
    return time_ns;
}

static void port_step(void *context, uint64_t now_ns)
{
    struct connection *connection = context;
    struct sim_redis *redis = connection->redis;
    connection->now_ns = now_ns;
    if (is_dead(connection)) return;
    if (now_ns < redis->down_until_ns) {
        if (connection->ready) break_connection(connection);
        connection->retry_ns = redis->down_until_ns + RETRY_NS;
        return;
    }
    if (!connection->ready && now_ns >= connection->retry_ns) {
        connection->ready = true;
        connection->stats.connects++;
    }
    for (struct mr_redis_command *op = connection->in_flight.first; op; op = op->next)
        if (op->sent == 0) op->sent = now_ns + latency(redis, now_ns);
    while (connection->in_flight.first && connection->in_flight.first->sent <= now_ns) {
        struct mr_redis_command *op = mr_redis_command_list_pop(&connection->in_flight);
        execute(connection, op);
        mr_redis_command_list_push(&connection->done, op);
    }
    for (struct mr_redis_command *op = connection->in_flight.first; op; op = op->next)
        if (op->deadline_ns <= now_ns) {
            break_connection(connection);
            return;
        }
}

static bool port_is_ready(const void *context)
{
    const struct connection *connection = context;
    return connection->ready && !is_dead(connection);
}

static bool port_send(void *context, struct mr_redis_command *op)
{
    struct connection *connection = context;
    if (!port_is_ready(connection)) return false;
    op->outcome = MR_REDIS_IN_FLIGHT;
    op->sent = 0;
    mr_redis_command_list_push(&connection->in_flight, op);
    return true;
}

static void port_cancel(void *context, struct mr_redis_command *op, uint64_t now_ns)
{
    struct connection *connection = context;
    (void)now_ns;
    op->cancelled = true;
    if (!mr_redis_command_list_remove(&connection->in_flight, op)) return;
    op->outcome = MR_REDIS_LOST;
    mr_redis_command_list_push(&connection->done, op);
}

static struct mr_redis_command *port_take(void *context)
{
    return mr_redis_command_list_pop(&((struct connection *)context)->done);
}

static uint64_t port_deadline_ns(const void *context)
{
    const struct connection *connection = context;
    uint64_t least_ns = connection->ready ? UINT64_MAX : connection->retry_ns;
    for (const struct mr_redis_command *op = connection->in_flight.first; op; op = op->next) {
        if (op->sent < least_ns) least_ns = op->sent;
        if (op->deadline_ns < least_ns) least_ns = op->deadline_ns;
    }
    return connection->done.first ? 0 : least_ns;
}

static size_t port_sockets(const void *context, struct pollfd *fds, size_t max)
{
    (void)context, (void)fds, (void)max;
    return 0;
}

static struct mr_redis_client_stats port_stats(const void *context)
{
    return ((const struct connection *)context)->stats;
}

static const char *port_reason(const void *context)
{
    return ((const struct connection *)context)->stats.failures > 0 ? "no answer" : "";
}

static void port_close(void *context)
{
    break_connection(context);
    ((struct connection *)context)->retry_ns = UINT64_MAX;
}

enum mr_status mr_redis_port_open(struct mr_redis_port *out,
                                  const struct mr_redis_conn_options *options, uint64_t seed,
                                  struct mr_error *err)
{
    (void)options, (void)seed, (void)err;
    struct connection *connection = calloc(1, sizeof *connection);
    MR_ASSERT(connection && entered);
    connection->redis = entered;
    connection->machine = entered_machine;
    connection->now_ns = platform_ns();
    *out = (struct mr_redis_port){.context = connection,
                                  .step = port_step,
                                  .is_ready = port_is_ready,
                                  .send = port_send,
                                  .cancel = port_cancel,
                                  .take = port_take,
                                  .deadline_ns = port_deadline_ns,
                                  .sockets = port_sockets,
                                  .stats = port_stats,
                                  .reason = port_reason,
                                  .close = port_close,
                                  .destroy = free};
    return MR_OK;
}

/* ---- faults ---- */

void sim_redis_stop(struct sim_redis *redis, uint64_t until_ns)
{
    redis->coverage->counts[COVER_REDIS_DOWN]++;
    redis->down_until_ns = until_ns;
}

void sim_redis_slow(struct sim_redis *redis, uint64_t until_ns)
{
    redis->coverage->counts[COVER_REDIS_SLOW]++;
    redis->slow_until_ns = until_ns;
}

void sim_redis_lag(struct sim_redis *redis, uint64_t until_ns)
{
    redis->lag_until_ns = until_ns;
}
