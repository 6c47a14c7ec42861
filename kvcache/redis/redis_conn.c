#include "kvcache/redis/redis_conn_state.h"

#include "codec/check.h"

#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TURN_BYTES ((size_t)1 << 20) /* then let the owner look around */

/* ---- life ---- */

enum mr_status mr_redis_conn_create(struct mr_redis_conn **out,
                                    const struct mr_redis_conn_options *options,
                                    struct mr_error *err)
{
    *out = NULL;
    struct mr_redis_conn *conn = calloc(1, sizeof *conn);
    if (!conn) return mr_fail(err, MR_NOMEM, "no memory for a Redis connection");
    conn->options = *options;
    mr_redis_link_init(&conn->link);
    *out = conn;
    return MR_OK;
}

void mr_redis_conn_destroy(struct mr_redis_conn *conn)
{
    if (!conn) return;
    MR_ASSERT(!conn->oldest && !conn->done_first);
    mr_redis_link_close(&conn->link);
    if (conn->reader) redisReaderFree(conn->reader);
    free(conn);
}

bool mr_redis_conn_is_greeting(const struct mr_redis_conn *conn, const struct mr_redis_op *op)
{
    return op >= conn->greeting && op < conn->greeting + GREETING_MAX;
}

void mr_redis_conn_hand_back(struct mr_redis_conn *conn, struct mr_redis_op *op)
{
    op->next = NULL;
    if (conn->done_last)
        conn->done_last->next = op;
    else
        conn->done_first = op;
    conn->done_last = op;
}

void mr_redis_conn_fail(struct mr_redis_conn *conn, enum mr_redis_outcome why, uint64_t now_ns,
                        const char *reason)
{
    if (conn->life == MR_LIFE_CLOSED) return;
    mr_redis_link_close(&conn->link);
    conn->life = MR_LIFE_CLOSED;
    snprintf(conn->reason, sizeof conn->reason, "%s", reason);
    while (conn->oldest) {
        struct mr_redis_op *op = conn->oldest;
        conn->oldest = op->next;
        op->outcome = op->deadline_ns <= now_ns ? MR_REDIS_LATE : why;
        why = MR_REDIS_LOST; /* garbage is the first one's fault only */
        if (mr_redis_conn_is_greeting(conn, op))
            mr_redis_op_end(op);
        else
            mr_redis_conn_hand_back(conn, op);
    }
    conn->newest = conn->writing = NULL;
    conn->in_flight = conn->values = 0;
}

void mr_redis_conn_close(struct mr_redis_conn *conn)
{
    mr_redis_conn_fail(conn, MR_REDIS_LOST, 0, "closed");
}

static void queue(struct mr_redis_conn *conn, struct mr_redis_op *op)
{
    op->next = NULL;
    op->sent = 0;
    op->outcome = MR_REDIS_OPEN;
    if (conn->newest)
        conn->newest->next = op;
    else
        conn->oldest = op;
    conn->newest = op;
    if (!conn->writing) conn->writing = op;
    conn->in_flight++;
    conn->values += op->bulk;
}

static bool greet(struct mr_redis_conn *conn, int index, int count, const char *const *words)
{
    struct mr_redis_op *op = &conn->greeting[index];
    size_t lengths[3];
    for (int i = 0; i < count; i++)
        lengths[i] = strlen(words[i]);
    if (!mr_redis_op_command(op, count, words, lengths, false)) return false;
    op->deadline_ns = conn->ready_by_ns;
    queue(conn, op);
    return true;
}

/* Who we are, which database, and a PING: a server that loads its data answers nothing but errors.
 */
static void send_greeting(struct mr_redis_conn *conn)
{
    const struct mr_redis_url *where = &conn->options.where;
    char database[16];
    snprintf(database, sizeof database, "%" PRIu32, where->database);
    const char *named[] = {"AUTH", where->user, where->password};
    const char *plain[] = {"AUTH", where->password};
    const char *select[] = {"SELECT", database};
    const char *ping[] = {"PING"};
    int used = 0;
    bool good = true;
    conn->life = MR_LIFE_GREETING;
    if (where->user[0])
        good = greet(conn, used++, 3, named);
    else if (where->password[0])
        good = greet(conn, used++, 2, plain);
    if (good && where->database) good = greet(conn, used++, 2, select);
    if (good) good = greet(conn, used++, 1, ping);
    if (!good) mr_redis_conn_fail(conn, MR_REDIS_LOST, 0, "no memory");
}

static enum mr_status begin(struct mr_redis_conn *conn, uint64_t now_ns, struct mr_error *err)
{
    MR_ASSERT(conn->life == MR_LIFE_CLOSED && !conn->oldest);
    if (conn->reader) redisReaderFree(conn->reader);
    conn->reader = redisReaderCreate();
    if (!conn->reader) return mr_fail(err, MR_NOMEM, "no memory for a reply reader");
    conn->in_begin = conn->in_end = conn->text_left = conn->reply_bytes = 0;
    conn->phase = MR_PHASE_LINE;
    conn->ready_by_ns = now_ns + conn->options.connect_timeout_ns;
    return MR_OK;
}

enum mr_status mr_redis_conn_open(struct mr_redis_conn *conn, uint64_t now_ns, struct mr_error *err)
{
    enum mr_status status = begin(conn, now_ns, err);
    if (status == MR_OK)
        status = mr_redis_link_open(&conn->link, &conn->options.where, conn->options.tls, err);
    if (status == MR_OK) conn->life = MR_LIFE_CONNECTING;
    return status;
}

void mr_redis_conn_adopt(struct mr_redis_conn *conn, int fd, uint64_t now_ns)
{
    enum mr_status status = begin(conn, now_ns, NULL);
    MR_ASSERT(status == MR_OK);
    mr_redis_link_adopt(&conn->link, fd);
    conn->life = MR_LIFE_CONNECTING;
}

/* ---- writing ---- */

/* Parts of the ops to be sent, from the first byte not sent on. */
static int gather(const struct mr_redis_conn *conn, struct iovec *parts)
{
    int count = 0;
    for (const struct mr_redis_op *op = conn->writing; op; op = op->next) {
        size_t passed = op->sent;
        if (count + op->out_count > MR_REDIS_PARTS_MAX) break;
        for (int i = 0; i < op->out_count; i++) {
            struct iovec part = op->out[i];
            size_t off = passed < part.iov_len ? passed : part.iov_len;
            passed -= off;
            part.iov_base = (char *)part.iov_base + off;
            part.iov_len -= off;
            if (part.iov_len) parts[count++] = part;
        }
    }
    return count;
}

static size_t command_length(const struct mr_redis_op *op)
{
    size_t sum = 0;
    for (int i = 0; i < op->out_count; i++)
        sum += op->out[i].iov_len;
    return sum;
}

static ssize_t write_once(struct mr_redis_conn *conn)
{
    struct iovec parts[MR_REDIS_PARTS_MAX];
    int count = gather(conn, parts);
    if (count == 0) return 0;
    ssize_t done = mr_redis_link_write(&conn->link, parts, count);
    if (done <= 0) return done;
    conn->stats.sent_bytes += (uint64_t)done;
    for (size_t left = (size_t)done; left && conn->writing;) {
        struct mr_redis_op *op = conn->writing;
        size_t rest = command_length(op) - op->sent;
        size_t part = left < rest ? left : rest;
        op->sent += part;
        left -= part;
        if (part == rest) conn->writing = op->next;
    }
    return done;
}

/* ---- the owner's calls ---- */

void mr_redis_conn_send(struct mr_redis_conn *conn, struct mr_redis_op *op)
{
    MR_ASSERT(conn->life == MR_LIFE_READY && conn->in_flight < MR_REDIS_IN_FLIGHT_MAX);
    queue(conn, op);
}

static void take_out(struct mr_redis_conn *conn, struct mr_redis_op *before, struct mr_redis_op *op)
{
    if (before)
        before->next = op->next;
    else
        conn->oldest = op->next;
    if (conn->newest == op) conn->newest = before;
    if (conn->writing == op) conn->writing = op->next;
    conn->in_flight--;
    conn->values -= op->bulk;
    op->outcome = MR_REDIS_LOST;
    mr_redis_conn_hand_back(conn, op);
}

void mr_redis_conn_hurry(struct mr_redis_op *op, uint64_t now_ns)
{
    uint64_t due_ns = now_ns + MR_REDIS_FORGET_NS;
    if (due_ns < op->deadline_ns) op->deadline_ns = due_ns;
}

void mr_redis_conn_forget(struct mr_redis_conn *conn, struct mr_redis_op *op, uint64_t now_ns)
{
    struct mr_redis_op *before = NULL, *at = conn->oldest;
    for (; at && at != op; at = at->next)
        before = at;
    op->forgotten = true;
    if (!at) return;
    if (op->sent == 0) {
        take_out(conn, before, op);
    } else if (op->sent < command_length(op)) {
        mr_redis_conn_fail(conn, MR_REDIS_LOST, 0, "closed amid a value nobody wanted any more");
    } else if (op->bulk && op == conn->oldest && conn->phase == MR_PHASE_PAYLOAD) {
        conn->phase = MR_PHASE_SKIP;
        conn->skip = mr_redis_op_value_length(op);
        conn->verdict = MR_REDIS_MISS;
        mr_redis_conn_hurry(op, now_ns);
    }
}

static void finish_connecting(struct mr_redis_conn *conn, uint64_t now_ns)
{
    struct mr_error err = {0};
    enum mr_status status = mr_redis_link_finish(&conn->link, &err);
    if (status == MR_OK)
        send_greeting(conn);
    else if (status != MR_AGAIN)
        mr_redis_conn_fail(conn, MR_REDIS_LOST, now_ns, err.detail);
}

/* When what is on its way is late. */
static uint64_t due_ns(const struct mr_redis_conn *conn)
{
    if (conn->life == MR_LIFE_CLOSED) return UINT64_MAX;
    uint64_t least = conn->life == MR_LIFE_READY ? UINT64_MAX : conn->ready_by_ns;
    for (const struct mr_redis_op *op = conn->oldest; op; op = op->next)
        if (op->deadline_ns < least) least = op->deadline_ns;
    return least;
}

void mr_redis_conn_turn(struct mr_redis_conn *conn, uint64_t now_ns)
{
    if (conn->life == MR_LIFE_CONNECTING) finish_connecting(conn, now_ns);
    size_t moved = 0;
    while (conn->life >= MR_LIFE_GREETING && moved < TURN_BYTES) {
        ssize_t wrote = write_once(conn);
        ssize_t read = wrote < 0 ? -1 : mr_redis_conn_read(conn, now_ns);
        if (wrote < 0 || read < 0)
            mr_redis_conn_fail(conn, MR_REDIS_LOST, now_ns, "the server ended it");
        if (wrote <= 0 && read <= 0) break;
        moved += (size_t)wrote + (size_t)read;
    }
    if (due_ns(conn) <= now_ns)
        mr_redis_conn_fail(conn, MR_REDIS_LOST, now_ns, "no answer in time");
}

struct mr_redis_op *mr_redis_conn_take(struct mr_redis_conn *conn)
{
    struct mr_redis_op *op = conn->done_first;
    if (!op) return NULL;
    conn->done_first = op->next;
    if (!conn->done_first) conn->done_last = NULL;
    op->next = NULL;
    return op;
}

uint64_t mr_redis_conn_deadline_ns(const struct mr_redis_conn *conn)
{
    return conn->done_first ? 0 : due_ns(conn);
}

bool mr_redis_conn_is_ready(const struct mr_redis_conn *conn)
{
    return conn->life == MR_LIFE_READY;
}

bool mr_redis_conn_is_closed(const struct mr_redis_conn *conn)
{
    return conn->life == MR_LIFE_CLOSED;
}

uint32_t mr_redis_conn_in_flight(const struct mr_redis_conn *conn)
{
    return conn->in_flight;
}

const char *mr_redis_conn_reason(const struct mr_redis_conn *conn)
{
    return conn->reason;
}

struct mr_redis_conn_stats mr_redis_conn_stats(const struct mr_redis_conn *conn)
{
    return conn->stats;
}

int mr_redis_conn_fd(const struct mr_redis_conn *conn)
{
    return conn->link.fd;
}

short mr_redis_conn_events(const struct mr_redis_conn *conn)
{
    return mr_redis_link_events(&conn->link, conn->writing != NULL);
}

/* ---- what hiredis formats and parses ---- */

bool mr_redis_op_command(struct mr_redis_op *op, int count, const char *const *words,
                         const size_t *lengths, bool keyed)
{
    *op = (struct mr_redis_op){.slot = MR_REDIS_SLOTS};
    long long length = /* int before hiredis 1.0 */
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

static const redisReply *hiredis_of(const struct mr_redis_reply *reply)
{
    return (const redisReply *)reply;
}

bool mr_redis_conn_parse(struct mr_redis_conn *conn, const char *bytes, size_t length,
                         struct mr_redis_parsed *parsed)
{
    void *reply = NULL;
    *parsed = (struct mr_redis_parsed){0};
    if (redisReaderFeed(conn->reader, bytes, length) != REDIS_OK ||
        redisReaderGetReply(conn->reader, &reply) != REDIS_OK)
        return false;
    parsed->reply = reply;
    parsed->is_error = reply && ((redisReply *)reply)->type == REDIS_REPLY_ERROR;
    return true;
}

void mr_redis_reply_free(struct mr_redis_reply *reply)
{
    freeReplyObject(reply);
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
