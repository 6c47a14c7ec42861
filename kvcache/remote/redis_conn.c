#include "kvcache/remote/redis_conn_state.h"

#include "codec/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RESOLVE_NS    ((uint64_t)5000000) /* time between two polls of a host lookup */
#define STEP_BYTES    ((size_t)1 << 20)   /* most bytes read, and most written, in one step */
#define HANDSHAKE_MAX 3 /* most commands that the handshake sends: AUTH, SELECT, PING */

enum state { STATE_CLOSED, STATE_CONNECTING, STATE_HANDSHAKE, STATE_READY };

struct mr_redis_conn {
    struct mr_redis_conn_options options;
    struct mr_redis_link link;
    struct mr_redis_reader *reader;
    enum state state;
    uint64_t ready_by_ns, stepped_ns; /* stepped_ns: time of the last _open or _step */
    char reason[MR_ERROR_DETAIL_BYTES];
    struct mr_redis_command_list
        in_flight;                    /* commands without a reply, sent or to be sent, in order */
    struct mr_redis_command *writing; /* the first command that is not sent completely */
    uint32_t values;                  /* number of commands in flight whose reply is a value */
    struct mr_redis_command_list done;
    struct mr_redis_command handshake[HANDSHAKE_MAX];
    uint64_t sent_bytes;
};

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
    conn->link.resolver = options->resolver;
    enum mr_status status = mr_redis_reader_create(&conn->reader, err);
    if (status != MR_OK) {
        free(conn);
        return status;
    }
    *out = conn;
    return MR_OK;
}

void mr_redis_conn_destroy(struct mr_redis_conn *conn)
{
    if (!conn) return;
    MR_ASSERT(!conn->in_flight.first && !conn->done.first);
    mr_redis_link_close(&conn->link);
    mr_redis_reader_destroy(conn->reader);
    free(conn);
}

static bool is_handshake(const struct mr_redis_conn *conn, const struct mr_redis_command *command)
{
    return command >= conn->handshake && command < conn->handshake + HANDSHAKE_MAX;
}

/* Closes the connection and ends every command in flight: those past their deadline with
 * MR_REDIS_TIMEOUT; of the others, the first in the queue with `outcome`, the rest with
 * MR_REDIS_LOST. */
static void fail(struct mr_redis_conn *conn, enum mr_redis_outcome outcome, uint64_t now_ns,
                 const char *reason)
{
    if (conn->state == STATE_CLOSED) return;
    mr_redis_link_close(&conn->link);
    conn->state = STATE_CLOSED;
    snprintf(conn->reason, sizeof conn->reason, "%s", reason);
    for (struct mr_redis_command *command;
         (command = mr_redis_command_list_pop(&conn->in_flight)) != NULL;) {
        command->outcome = command->deadline_ns <= now_ns ? MR_REDIS_TIMEOUT : outcome;
        outcome = MR_REDIS_LOST;
        if (is_handshake(conn, command))
            mr_redis_command_end(command);
        else
            mr_redis_command_list_push(&conn->done, command);
    }
    conn->writing = NULL;
    conn->values = 0;
}

void mr_redis_conn_close(struct mr_redis_conn *conn)
{
    fail(conn, MR_REDIS_LOST, 0, "closed");
}

static void queue(struct mr_redis_conn *conn, struct mr_redis_command *command)
{
    command->sent = 0;
    command->outcome = MR_REDIS_IN_FLIGHT;
    mr_redis_command_list_push(&conn->in_flight, command);
    if (!conn->writing) conn->writing = command;
    conn->values += command->bulk;
}

static bool queue_handshake(struct mr_redis_conn *conn, int index, int count,
                            const char *const *words)
{
    struct mr_redis_command *command = &conn->handshake[index];
    size_t lengths[3];
    for (int i = 0; i < count; i++)
        lengths[i] = strlen(words[i]);
    if (!mr_redis_command_make(command, count, words, lengths, false)) return false;
    command->deadline_ns = conn->ready_by_ns;
    queue(conn, command);
    return true;
}

/* Sends AUTH, SELECT and PING. PING shows whether the server is ready: one that is loading its data
 * answers PING with an error. */
static void send_handshake(struct mr_redis_conn *conn)
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
    conn->state = STATE_HANDSHAKE;
    if (where->user[0])
        good = queue_handshake(conn, used++, 3, named);
    else if (where->password[0])
        good = queue_handshake(conn, used++, 2, plain);
    if (good && where->database) good = queue_handshake(conn, used++, 2, select);
    if (good) good = queue_handshake(conn, used++, 1, ping);
    if (!good) fail(conn, MR_REDIS_LOST, 0, "no memory");
}

static enum mr_status begin(struct mr_redis_conn *conn, uint64_t now_ns, struct mr_error *err)
{
    MR_ASSERT(conn->state == STATE_CLOSED && !conn->in_flight.first);
    conn->ready_by_ns = now_ns + conn->options.connect_timeout_ns;
    conn->stepped_ns = now_ns;
    return mr_redis_reader_reset(conn->reader, err);
}

enum mr_status mr_redis_conn_open(struct mr_redis_conn *conn, uint64_t now_ns, struct mr_error *err)
{
    enum mr_status status = begin(conn, now_ns, err);
    if (status == MR_OK)
        status = mr_redis_link_open(&conn->link, &conn->options.where, conn->options.tls, err);
    if (status == MR_OK) conn->state = STATE_CONNECTING;
    return status;
}

void mr_redis_conn_adopt(struct mr_redis_conn *conn, int fd, uint64_t now_ns)
{
    enum mr_status status = begin(conn, now_ns, NULL);
    MR_ASSERT(status == MR_OK);
    mr_redis_link_adopt(&conn->link, fd);
    conn->state = STATE_CONNECTING;
}

void mr_redis_conn_set_password(struct mr_redis_conn *conn, const char *password)
{
    mr_redis_url_set_password(&conn->options.where, password);
}

static void finish_connecting(struct mr_redis_conn *conn, uint64_t now_ns)
{
    struct mr_error err = {0};
    enum mr_status status = mr_redis_link_finish(&conn->link, &err);
    if (status == MR_OK)
        send_handshake(conn);
    else if (status != MR_AGAIN)
        fail(conn, MR_REDIS_LOST, now_ns, err.detail);
}

/* ---- writing ---- */

/* Fills `parts` with the unsent bytes of the commands in flight. */
static int gather(const struct mr_redis_conn *conn, struct iovec *parts)
{
    int count = 0;
    for (const struct mr_redis_command *command = conn->writing; command; command = command->next) {
        if (count + command->out_count > MR_REDIS_PARTS_MAX) break;
        count +=
            mr_redis_parts_from(command->out, command->out_count, command->sent, parts + count);
    }
    return count;
}

static ssize_t write_once(struct mr_redis_conn *conn)
{
    struct iovec parts[MR_REDIS_PARTS_MAX];
    int count = gather(conn, parts);
    if (count == 0) return 0;
    ssize_t done = mr_redis_link_write(&conn->link, parts, count);
    if (done <= 0) return done;
    conn->sent_bytes += (uint64_t)done;
    for (size_t left = (size_t)done; left && conn->writing;) {
        struct mr_redis_command *command = conn->writing;
        size_t rest = mr_redis_command_length(command) - command->sent;
        size_t part = left < rest ? left : rest;
        command->sent += part;
        left -= part;
        if (part == rest) conn->writing = command->next;
    }
    return done;
}

/* ---- reading ---- */

static void end_handshake(struct mr_redis_conn *conn, struct mr_redis_command *command,
                          uint64_t now_ns)
{
    bool last = !conn->in_flight.first;
    mr_redis_command_end(command);
    if (command->outcome != MR_REDIS_DONE)
        fail(conn, MR_REDIS_LOST, now_ns, command->error);
    else if (last)
        conn->state = STATE_READY;
}

static void end_oldest(struct mr_redis_conn *conn, uint64_t now_ns)
{
    struct mr_redis_command *command = mr_redis_command_list_pop(&conn->in_flight);
    conn->values -= command->bulk;
    if (is_handshake(conn, command))
        end_handshake(conn, command, now_ns);
    else
        mr_redis_command_list_push(&conn->done, command);
}

static ssize_t read_once(struct mr_redis_conn *conn, uint64_t now_ns)
{
    const char *reason = "";
    enum mr_redis_read read = MR_READ_REPLY;
    struct mr_redis_command_list *commands = &conn->in_flight;
    ssize_t done =
        mr_redis_reader_receive(conn->reader, &conn->link, commands->first, conn->values > 0);
    if (done <= 0) return done;
    while (read == MR_READ_REPLY && conn->state != STATE_CLOSED) {
        read = mr_redis_reader_next(conn->reader, commands->first, now_ns, &reason);
        if (read == MR_READ_REPLY) end_oldest(conn, now_ns);
    }
    if (read == MR_READ_MALFORMED) fail(conn, MR_REDIS_MALFORMED, now_ns, reason);
    return done;
}

/* ---- the owner's calls ---- */

void mr_redis_conn_send(struct mr_redis_conn *conn, struct mr_redis_command *command)
{
    MR_ASSERT(conn->state == STATE_READY && conn->in_flight.count < MR_REDIS_IN_FLIGHT_MAX);
    queue(conn, command);
}

static void cancel_unsent(struct mr_redis_conn *conn, struct mr_redis_command *command)
{
    if (conn->writing == command) conn->writing = command->next;
    mr_redis_command_list_remove(&conn->in_flight, command);
    conn->values -= command->bulk;
    command->outcome = MR_REDIS_LOST;
    mr_redis_command_list_push(&conn->done, command);
}

static bool is_in_flight(const struct mr_redis_conn *conn, const struct mr_redis_command *command)
{
    const struct mr_redis_command *at = conn->in_flight.first;
    while (at && at != command)
        at = at->next;
    return at != NULL;
}

void mr_redis_conn_cancel(struct mr_redis_conn *conn, struct mr_redis_command *command,
                          uint64_t now_ns)
{
    command->cancelled = true;
    if (!is_in_flight(conn, command)) return;
    bool held = command == conn->writing && mr_redis_link_is_writing(&conn->link);
    if (command->sent == 0 && !held)
        cancel_unsent(conn, command);
    else if (command->sent < mr_redis_command_length(command))
        fail(conn, MR_REDIS_LOST, 0, "closed in the middle of a cancelled value");
    else if (command == conn->in_flight.first)
        mr_redis_reader_cancel(conn->reader, command, now_ns);
}

/* When the next command in flight, or the handshake, times out. */
static uint64_t timeout_ns(const struct mr_redis_conn *conn)
{
    if (conn->state == STATE_CLOSED) return UINT64_MAX;
    uint64_t least = conn->state == STATE_READY ? UINT64_MAX : conn->ready_by_ns;
    for (const struct mr_redis_command *command = conn->in_flight.first; command;
         command = command->next)
        if (command->deadline_ns < least) least = command->deadline_ns;
    return least;
}

void mr_redis_conn_step(struct mr_redis_conn *conn, uint64_t now_ns)
{
    conn->stepped_ns = now_ns;
    if (conn->state == STATE_CONNECTING) finish_connecting(conn, now_ns);
    size_t moved = 0;
    while (conn->state >= STATE_HANDSHAKE && moved < STEP_BYTES) {
        ssize_t wrote = write_once(conn);
        ssize_t read = wrote < 0 ? -1 : read_once(conn, now_ns);
        if (wrote < 0 || read < 0)
            fail(conn, MR_REDIS_LOST, now_ns, "the server closed the connection");
        if (wrote <= 0 && read <= 0) break;
        moved += (size_t)wrote + (size_t)read;
    }
    if (timeout_ns(conn) <= now_ns)
        fail(conn, MR_REDIS_LOST, now_ns,
             conn->link.lookup ? "the name server did not answer in time" : "no answer in time");
}

struct mr_redis_command *mr_redis_conn_take(struct mr_redis_conn *conn)
{
    return mr_redis_command_list_pop(&conn->done);
}

uint64_t mr_redis_conn_deadline_ns(const struct mr_redis_conn *conn)
{
    bool now = conn->done.first || mr_redis_link_has_bytes(&conn->link);
    const uint64_t due_ns = timeout_ns(conn), poll_ns = conn->stepped_ns + RESOLVE_NS;
    if (conn->link.lookup && poll_ns < due_ns) return poll_ns;
    return now ? 0 : due_ns;
}

bool mr_redis_conn_is_ready(const struct mr_redis_conn *conn)
{
    return conn->state == STATE_READY;
}

bool mr_redis_conn_is_closed(const struct mr_redis_conn *conn)
{
    return conn->state == STATE_CLOSED;
}

uint32_t mr_redis_conn_in_flight(const struct mr_redis_conn *conn)
{
    return conn->in_flight.count;
}

const char *mr_redis_conn_reason(const struct mr_redis_conn *conn)
{
    return conn->reason;
}

uint32_t mr_redis_conn_addresses(const struct mr_redis_conn *conn)
{
    return conn->link.addresses;
}

struct mr_redis_conn_stats mr_redis_conn_stats(const struct mr_redis_conn *conn)
{
    struct mr_redis_conn_stats stats = mr_redis_reader_stats(conn->reader);
    stats.sent_bytes = conn->sent_bytes;
    return stats;
}

void mr_redis_conn_stats_add(struct mr_redis_conn_stats *sum, const struct mr_redis_conn_stats *one)
{
    sum->sent_bytes += one->sent_bytes;
    sum->received_bytes += one->received_bytes;
    sum->copied_bytes += one->copied_bytes;
    sum->value_bytes += one->value_bytes;
}

int mr_redis_conn_fd(const struct mr_redis_conn *conn)
{
    return conn->link.fd;
}

short mr_redis_conn_events(const struct mr_redis_conn *conn)
{
    return mr_redis_link_events(&conn->link, conn->writing != NULL);
}
