/* How a connection reads: values straight into place, other replies a line at a time to the parser.
 */
#include "kvcache/redis/redis_conn_state.h"

#include "codec/check.h"

#include <string.h>

#define HEAD_BYTES                                                                                 \
    ((size_t)96) /* a value's first line and frame header, and little of its payload */

/* ---- a reply is over ---- */

static void end_greeting(struct mr_redis_conn *conn, struct mr_redis_op *op, uint64_t now_ns)
{
    bool last = !conn->oldest, good = op->outcome == MR_REDIS_DONE;
    char error[MR_REDIS_ERROR_BYTES];
    memcpy(error, op->error, sizeof error);
    mr_redis_op_end(op);
    if (!good)
        mr_redis_conn_fail(conn, MR_REDIS_LOST, now_ns, error);
    else if (last)
        conn->life = MR_LIFE_READY;
}

/* The oldest op is answered. */
static void end_oldest(struct mr_redis_conn *conn, enum mr_redis_outcome outcome, uint64_t now_ns)
{
    struct mr_redis_op *op = conn->oldest;
    op->outcome = outcome;
    conn->oldest = op->next;
    if (!conn->oldest) conn->newest = NULL;
    conn->in_flight--;
    conn->values -= op->bulk;
    conn->phase = MR_PHASE_LINE;
    if (mr_redis_conn_is_greeting(conn, op))
        end_greeting(conn, op, now_ns);
    else
        mr_redis_conn_hand_back(conn, op);
}

static void take_error(struct mr_redis_op *op, const char *text, size_t length)
{
    size_t kept = length < sizeof op->error ? length : sizeof op->error - 1;
    memcpy(op->error, text, kept);
    op->error[kept] = '\0';
}

static void end_parsed(struct mr_redis_conn *conn, const struct mr_redis_parsed *parsed,
                       uint64_t now_ns)
{
    struct mr_redis_op *op = conn->oldest;
    enum mr_redis_outcome outcome = MR_REDIS_DONE;
    conn->reply_bytes = 0;
    if (parsed->is_error) {
        size_t length = 0;
        const char *text = mr_redis_reply_text(parsed->reply, &length);
        take_error(op, text, length);
        outcome = mr_redis_outcome_of(text, length);
        mr_redis_reply_free(parsed->reply);
    } else if (op->bulk) {
        /* A value was asked for: any other kind of reply is somebody else's. */
        mr_redis_reply_free(parsed->reply);
        mr_redis_conn_fail(conn, MR_REDIS_GARBAGE, now_ns, "a reply of another kind");
        return;
    } else {
        op->reply = parsed->reply;
    }
    end_oldest(conn, outcome, now_ns);
}

/* ---- reading ---- */

/* A whole number up to max, of the bytes between a line's first and its CR; false: none. */
static bool declared(const char *line, size_t length, int64_t max, int64_t *out)
{
    int64_t value = 0;
    if (length == 5 && memcmp(line + 1, "-1\r\n", 4) == 0) {
        *out = -1;
        return true;
    }
    if (length < 4 || length > 16 || line[length - 2] != '\r') return false;
    for (size_t i = 1; i < length - 2; i++) {
        if (line[i] < '0' || line[i] > '9') return false;
        value = value * 10 + (line[i] - '0');
    }
    *out = value;
    return value <= max;
}

/* Length of the first line in the input with its LF; 0: not whole yet. */
static size_t line_length(const struct mr_redis_conn *conn)
{
    const char *begin = conn->input + conn->in_begin;
    const char *end = memchr(begin, '\n', conn->in_end - conn->in_begin);
    return end ? (size_t)(end - begin) + 1 : 0;
}

static void garbage(struct mr_redis_conn *conn, uint64_t now_ns)
{
    mr_redis_conn_fail(conn, MR_REDIS_GARBAGE, now_ns, "a reply that is none");
}

/* Feeds the reader one line or one piece of a text, so that it stops at the reply's last byte.
 * False: more bytes are needed, or the connection is closed. */
static bool feed(struct mr_redis_conn *conn, uint64_t now_ns)
{
    size_t there = conn->in_end - conn->in_begin, length = conn->text_left;
    const char *begin = conn->input + conn->in_begin;
    int64_t number = 0;
    if (length) {
        if (length > there) length = there;
        conn->text_left -= length;
    } else {
        length = line_length(conn);
        bool known = there == 0 || strchr("+-:$*", *begin);
        bool sized = length && (*begin == '$' || *begin == '*');
        int64_t max = *begin == '$' ? (int64_t)MR_REDIS_REPLY_BYTES_MAX : MR_REDIS_REPLY_ITEMS_MAX;
        if (!known || (sized && !declared(begin, length, max, &number)) ||
            (!length && there == INPUT_BYTES)) {
            garbage(conn, now_ns);
            return false;
        }
        if (sized && *begin == '$' && number >= 0) conn->text_left = (size_t)number + 2;
    }
    if (length == 0) return false;
    struct mr_redis_parsed parsed;
    conn->in_begin += length;
    conn->reply_bytes += length;
    if (conn->reply_bytes > MR_REDIS_REPLY_BYTES_MAX ||
        !mr_redis_conn_parse(conn, begin, length, &parsed)) {
        garbage(conn, now_ns);
        return false;
    }
    if (parsed.reply) end_parsed(conn, &parsed, now_ns);
    return true;
}

size_t mr_redis_op_value_length(const struct mr_redis_op *op)
{
    return op->into[0].iov_len + op->into[1].iov_len;
}

/* The first line of a value. */
static bool begin_value(struct mr_redis_conn *conn, uint64_t now_ns)
{
    struct mr_redis_op *op = conn->oldest;
    size_t length = line_length(conn);
    int64_t bytes = 0;
    if (length == 0 && conn->in_end - conn->in_begin < 24) return false;
    if (!declared(conn->input + conn->in_begin, length, MR_REDIS_SKIP_BYTES_MAX, &bytes)) {
        garbage(conn, now_ns);
        return false;
    }
    conn->in_begin += length;
    conn->got = 0;
    conn->verdict = MR_REDIS_DONE;
    if (bytes < 0) {
        end_oldest(conn, MR_REDIS_MISS, now_ns);
    } else if ((size_t)bytes != mr_redis_op_value_length(op) || op->forgotten) {
        conn->phase = MR_PHASE_SKIP;
        conn->skip = (size_t)bytes;
        conn->verdict = op->forgotten ? MR_REDIS_MISS : MR_REDIS_WRONG_SIZE;
        mr_redis_conn_hurry(op, now_ns);
    } else {
        conn->phase = MR_PHASE_PAYLOAD;
    }
    return true;
}

/* Where the payload goes from its byte `got` on; returns the number of vectors (0 to 2). */
static int rest_of(const struct mr_redis_op *op, size_t got, struct iovec *parts)
{
    int count = 0;
    for (size_t i = 0; i < 2; i++) {
        struct iovec part = op->into[i];
        size_t passed = got < part.iov_len ? got : part.iov_len;
        got -= passed;
        part.iov_base = (char *)part.iov_base + passed;
        part.iov_len -= passed;
        if (part.iov_len) parts[count++] = part;
    }
    return count;
}

static void tell(struct mr_redis_op *op, const struct iovec *part, size_t length)
{
    if (op->arrived && length > 0) op->arrived(op, part->iov_base, length);
}

/* Bytes of the value that came with its first line: the only ones that are copied. */
static void move_head(struct mr_redis_conn *conn)
{
    struct iovec parts[2];
    int count = rest_of(conn->oldest, conn->got, parts);
    for (int i = 0; i < count; i++) {
        size_t length = conn->in_end - conn->in_begin;
        if (length > parts[i].iov_len) length = parts[i].iov_len;
        memcpy(parts[i].iov_base, conn->input + conn->in_begin, length);
        tell(conn->oldest, &parts[i], length);
        conn->in_begin += length;
        conn->got += length;
        conn->stats.copied_bytes += length;
    }
}

/* Uses what is in the input. False: more is needed. */
static bool parse(struct mr_redis_conn *conn, uint64_t now_ns)
{
    struct mr_redis_op *op = conn->oldest;
    size_t there = conn->in_end - conn->in_begin;
    switch (conn->phase) {
    case MR_PHASE_LINE:
        if (there == 0) return false;
        if (!op) {
            garbage(conn, now_ns);
            return false;
        }
        if (op->bulk && conn->reply_bytes == 0 && conn->input[conn->in_begin] == '$')
            return begin_value(conn, now_ns);
        return feed(conn, now_ns);
    case MR_PHASE_PAYLOAD:
        move_head(conn);
        if (conn->got < mr_redis_op_value_length(op)) return false;
        conn->stats.value_bytes += conn->got;
        conn->phase = MR_PHASE_END;
        return true;
    case MR_PHASE_SKIP: {
        size_t passed = conn->skip - conn->got < there ? conn->skip - conn->got : there;
        conn->in_begin += passed;
        conn->got += passed;
        if (conn->got < conn->skip) return false;
        conn->phase = MR_PHASE_END;
        return true;
    }
    case MR_PHASE_END:
        if (there < 2) return false;
        if (memcmp(conn->input + conn->in_begin, "\r\n", 2) != 0) {
            garbage(conn, now_ns);
            return false;
        }
        conn->in_begin += 2;
        end_oldest(conn, conn->verdict, now_ns);
        return true;
    }
    return false;
}

static void parse_all(struct mr_redis_conn *conn, uint64_t now_ns)
{
    while (conn->life != MR_LIFE_CLOSED && parse(conn, now_ns)) {
    }
    size_t rest = conn->in_end - conn->in_begin;
    if (conn->in_begin && rest) memmove(conn->input, conn->input + conn->in_begin, rest);
    conn->in_begin = 0;
    conn->in_end = rest;
}

/* The first `length` bytes of the places. */
static void tell_all(struct mr_redis_op *op, const struct iovec *places, size_t length)
{
    for (; length > 0; places++) {
        const size_t part = length < places->iov_len ? length : places->iov_len;
        tell(op, places, part);
        length -= part;
    }
}

/* One read: of a value straight into place, else into the input; not far beyond the first line when
 * a value is next. Returns as mr_redis_link_read. */
ssize_t mr_redis_conn_read(struct mr_redis_conn *conn, uint64_t now_ns)
{
    struct iovec parts[3], places[2];
    struct mr_redis_op *op = conn->oldest;
    int count = 0;
    size_t placed = 0, room = INPUT_BYTES - conn->in_end;
    if (conn->phase == MR_PHASE_PAYLOAD) {
        placed = mr_redis_op_value_length(op) - conn->got;
        count = rest_of(op, conn->got, parts);
        memcpy(places, parts, (size_t)count * sizeof *places);
    } else if (conn->phase == MR_PHASE_SKIP) {
        placed = conn->skip - conn->got < SKIP_BYTES ? conn->skip - conn->got : SKIP_BYTES;
        parts[count++] = (struct iovec){.iov_base = conn->skipped, .iov_len = placed};
    }
    if (conn->values && room > HEAD_BYTES) room = HEAD_BYTES;
    parts[count++] = (struct iovec){.iov_base = conn->input + conn->in_end, .iov_len = room};
    ssize_t done = mr_redis_link_read(&conn->link, parts, count);
    if (done <= 0) return done;
    size_t direct = (size_t)done < placed ? (size_t)done : placed;
    if (conn->phase == MR_PHASE_PAYLOAD) tell_all(op, places, direct);
    conn->stats.received_bytes += (uint64_t)done;
    conn->got += direct;
    conn->in_end += (size_t)done - direct;
    parse_all(conn, now_ns);
    return done;
}
