#include "kvcache/remote/redis_conn_state.h"

#include "codec/check.h"

#include <stdlib.h>
#include <string.h>

#define INPUT_BYTES ((size_t)16384)
#define SKIP_BYTES  ((size_t)65536)
/* Bytes read when the next reply may be a value: enough for the value's first line and frame
 * header, so that little of its payload has to be copied. */
#define HEAD_BYTES ((size_t)96)

/* What the reader expects next. LINE: a line of a reply; PAYLOAD: bytes of a wanted value; SKIP:
 * bytes of an unwanted value; END: the CR LF after a value. */
enum phase { PHASE_LINE, PHASE_PAYLOAD, PHASE_SKIP, PHASE_END };

struct mr_redis_reader {
    struct mr_redis_parser *parser;
    enum phase phase;
    size_t value_done; /* bytes of the current value that were received or skipped so far */
    size_t skip_bytes; /* total bytes of the value being skipped */
    /* outcome of the command once its value has been read or skipped, unless it is cancelled */
    enum mr_redis_outcome outcome;
    size_t text_left;   /* bytes left of a string inside the reply that the parser is being fed */
    size_t reply_bytes; /* bytes of the current reply fed to the parser so far */
    struct mr_redis_conn_stats stats;
    size_t in_begin, in_end; /* unread bytes are input[in_begin..in_end) */
    char input[INPUT_BYTES];
    char skipped[SKIP_BYTES];
};

enum mr_status mr_redis_reader_create(struct mr_redis_reader **out, struct mr_error *err)
{
    *out = calloc(1, sizeof **out);
    return *out ? MR_OK : mr_fail(err, MR_NOMEM, "no memory for a Redis connection");
}

void mr_redis_reader_destroy(struct mr_redis_reader *reader)
{
    if (!reader) return;
    mr_redis_parser_destroy(reader->parser);
    free(reader);
}

enum mr_status mr_redis_reader_reset(struct mr_redis_reader *reader, struct mr_error *err)
{
    mr_redis_parser_destroy(reader->parser);
    reader->parser = mr_redis_parser_create();
    if (!reader->parser) return mr_fail(err, MR_NOMEM, "no memory for a reply parser");
    reader->in_begin = reader->in_end = reader->text_left = reader->reply_bytes = 0;
    reader->phase = PHASE_LINE;
    return MR_OK;
}

struct mr_redis_conn_stats mr_redis_reader_stats(const struct mr_redis_reader *reader)
{
    return reader->stats;
}

static size_t unread(const struct mr_redis_reader *reader)
{
    return reader->in_end - reader->in_begin;
}

/* ---- lines ---- */

/* Parses the number in a line "$NUMBER\r\n" or "*NUMBER\r\n". False: it is neither -1 nor 0 to
 * max. */
static bool parse_length(const char *line, size_t length, int64_t max, int64_t *out)
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

/* Length of the first unread line with its LF; 0: the line is not complete yet. */
static size_t line_length(const struct mr_redis_reader *reader)
{
    const char *begin = reader->input + reader->in_begin;
    const char *end = memchr(begin, '\n', unread(reader));
    return end ? (size_t)(end - begin) + 1 : 0;
}

static enum mr_redis_read malformed(const char **reason)
{
    *reason = "the server sent an invalid reply";
    return MR_READ_MALFORMED;
}

/* ---- replies that are not values ---- */

static void take_error(struct mr_redis_command *command, const struct mr_redis_reply *reply)
{
    size_t length = 0;
    const char *text = mr_redis_reply_text(reply, &length);
    size_t kept = length < sizeof command->error ? length : sizeof command->error - 1;
    memcpy(command->error, text, kept);
    command->error[kept] = '\0';
    command->outcome = mr_redis_outcome_of(text, length);
}

static enum mr_redis_read take_reply(struct mr_redis_reader *reader,
                                     struct mr_redis_command *command, struct mr_redis_reply *reply,
                                     bool is_error, const char **reason)
{
    reader->reply_bytes = 0;
    if (is_error) {
        take_error(command, reply);
        mr_redis_reply_free(reply);
        return MR_READ_REPLY;
    }
    /* The command expects a value and the reply has another kind, so it must belong to another
     * command. */
    if (command->bulk) {
        mr_redis_reply_free(reply);
        *reason = "the server sent a reply of another kind";
        return MR_READ_MALFORMED;
    }
    command->reply = reply;
    command->outcome = MR_REDIS_DONE;
    return MR_READ_REPLY;
}

/* Feeds the parser one line or one piece of a string, so that it is never fed bytes after the end
 * of the reply. */
static enum mr_redis_read feed(struct mr_redis_reader *reader, struct mr_redis_command *command,
                               const char **reason)
{
    size_t length = reader->text_left;
    const char *begin = reader->input + reader->in_begin;
    if (length) {
        if (length > unread(reader)) length = unread(reader);
        reader->text_left -= length;
    } else {
        int64_t number = 0;
        length = line_length(reader);
        bool known = strchr("+-:$*", *begin);
        bool sized = length && (*begin == '$' || *begin == '*');
        int64_t max = *begin == '$' ? (int64_t)MR_REDIS_REPLY_BYTES_MAX : MR_REDIS_REPLY_ITEMS_MAX;
        if (!known || (sized && !parse_length(begin, length, max, &number)) ||
            (!length && unread(reader) == INPUT_BYTES))
            return malformed(reason);
        if (length == 0) return MR_READ_MORE;
        if (sized && *begin == '$' && number >= 0) reader->text_left = (size_t)number + 2;
    }
    struct mr_redis_reply *reply = NULL;
    bool is_error = false;
    reader->in_begin += length;
    reader->reply_bytes += length;
    if (reader->reply_bytes > MR_REDIS_REPLY_BYTES_MAX ||
        !mr_redis_parser_feed(reader->parser, begin, length, &reply, &is_error))
        return malformed(reason);
    return reply ? take_reply(reader, command, reply, is_error, reason) : MR_READ_MORE;
}

/* ---- values ---- */

/* Starts to read and discard an unwanted value, which delays the replies after it: past the
 * deadline MR_REDIS_CANCEL_NS from now the connection is closed. */
static void begin_skip(struct mr_redis_reader *reader, struct mr_redis_command *command,
                       size_t bytes, uint64_t now_ns)
{
    uint64_t due_ns = now_ns + MR_REDIS_CANCEL_NS;
    if (due_ns < command->deadline_ns) command->deadline_ns = due_ns;
    reader->phase = PHASE_SKIP;
    reader->skip_bytes = bytes;
    reader->outcome = MR_REDIS_WRONG_SIZE;
}

void mr_redis_reader_cancel(struct mr_redis_reader *reader, struct mr_redis_command *command,
                            uint64_t now_ns)
{
    if (command->bulk && reader->phase == PHASE_PAYLOAD)
        begin_skip(reader, command, mr_redis_command_value_length(command), now_ns);
}

/* Reads the first line of a value, which has the value's length. */
static enum mr_redis_read begin_value(struct mr_redis_reader *reader,
                                      struct mr_redis_command *command, uint64_t now_ns,
                                      const char **reason)
{
    size_t length = line_length(reader);
    int64_t bytes = 0;
    if (length == 0 && unread(reader) < 24) return MR_READ_MORE;
    if (!parse_length(reader->input + reader->in_begin, length, MR_REDIS_SKIP_BYTES_MAX, &bytes))
        return malformed(reason);
    reader->in_begin += length;
    reader->value_done = 0;
    reader->outcome = MR_REDIS_DONE;
    if (bytes < 0) {
        command->outcome = MR_REDIS_MISS;
        return MR_READ_REPLY;
    }
    reader->phase = PHASE_PAYLOAD;
    if ((size_t)bytes != mr_redis_command_value_length(command) || command->cancelled)
        begin_skip(reader, command, (size_t)bytes, now_ns);
    return MR_READ_MORE;
}

static void notify(struct mr_redis_command *command, const struct iovec *part, size_t length)
{
    if (command->on_bytes && length > 0) command->on_bytes(command, part->iov_base, length);
}

/* Copies the bytes of the value that were received together with its first line to the caller's
 * buffers. */
static void copy_head(struct mr_redis_reader *reader, struct mr_redis_command *command)
{
    struct iovec parts[2];
    int count = mr_redis_parts_from(command->into, 2, reader->value_done, parts);
    for (int i = 0; i < count; i++) {
        size_t length = unread(reader) < parts[i].iov_len ? unread(reader) : parts[i].iov_len;
        memcpy(parts[i].iov_base, reader->input + reader->in_begin, length);
        notify(command, &parts[i], length);
        reader->in_begin += length;
        reader->value_done += length;
        reader->stats.copied_bytes += length;
    }
}

/* Uses the unread input for the value being received or skipped; true: the value is complete. */
static bool pass_value(struct mr_redis_reader *reader, struct mr_redis_command *command)
{
    if (reader->phase == PHASE_PAYLOAD) {
        copy_head(reader, command);
        if (reader->value_done < mr_redis_command_value_length(command)) return false;
        reader->stats.value_bytes += reader->value_done;
        return true;
    }
    size_t left = reader->skip_bytes - reader->value_done;
    size_t passed = left < unread(reader) ? left : unread(reader);
    reader->in_begin += passed;
    reader->value_done += passed;
    return reader->value_done == reader->skip_bytes;
}

static enum mr_redis_read end_value(struct mr_redis_reader *reader,
                                    struct mr_redis_command *command, const char **reason)
{
    if (unread(reader) < 2) return MR_READ_MORE;
    if (memcmp(reader->input + reader->in_begin, "\r\n", 2) != 0) return malformed(reason);
    reader->in_begin += 2;
    reader->phase = PHASE_LINE;
    command->outcome = command->cancelled ? MR_REDIS_MISS : reader->outcome;
    return MR_READ_REPLY;
}

/* ---- the caller's calls ---- */

/* Reads one line, one piece of a value, or the end of a value, depending on reader->phase. */
static enum mr_redis_read parse_phase(struct mr_redis_reader *reader,
                                      struct mr_redis_command *command, uint64_t now_ns,
                                      const char **reason)
{
    if (reader->phase == PHASE_END) return end_value(reader, command, reason);
    if (reader->phase != PHASE_LINE) {
        if (pass_value(reader, command)) reader->phase = PHASE_END;
        return MR_READ_MORE;
    }
    if (!command) return malformed(reason);
    if (command->bulk && reader->reply_bytes == 0 && reader->input[reader->in_begin] == '$')
        return begin_value(reader, command, now_ns, reason);
    return feed(reader, command, reason);
}

enum mr_redis_read mr_redis_reader_next(struct mr_redis_reader *reader,
                                        struct mr_redis_command *command, uint64_t now_ns,
                                        const char **reason)
{
    enum mr_redis_read read = MR_READ_MORE;
    size_t before = SIZE_MAX;
    enum phase phase = reader->phase;
    /* Stop when parse_phase neither used input nor changed the phase: more input is needed. */
    while (read == MR_READ_MORE && unread(reader) > 0 &&
           (unread(reader) != before || reader->phase != phase)) {
        before = unread(reader);
        phase = reader->phase;
        read = parse_phase(reader, command, now_ns, reason);
    }
    if (read == MR_READ_MORE && reader->phase == PHASE_PAYLOAD && pass_value(reader, command))
        reader->phase = PHASE_END;
    if (read != MR_READ_MORE) return read;
    if (reader->in_begin && unread(reader))
        memmove(reader->input, reader->input + reader->in_begin, unread(reader));
    reader->in_end = unread(reader);
    reader->in_begin = 0;
    return MR_READ_MORE;
}

/* Reports the first `length` received bytes in the buffers `parts` to the command's on_bytes. */
static void notify_all(struct mr_redis_command *command, const struct iovec *parts, size_t length)
{
    for (; length > 0; parts++) {
        const size_t part = length < parts->iov_len ? length : parts->iov_len;
        notify(command, parts, part);
        length -= part;
    }
}

/* Receives the bytes of a value straight into the caller's memory, and all other bytes into
 * reader->input. When a value may come next the read is short, so that it ends soon after the
 * value's first line. */
ssize_t mr_redis_reader_receive(struct mr_redis_reader *reader, struct mr_redis_link *link,
                                struct mr_redis_command *command, bool values_pending)
{
    struct iovec parts[3], placed[2];
    int count = 0;
    size_t place_bytes = 0, room = INPUT_BYTES - reader->in_end;
    if (reader->phase == PHASE_PAYLOAD) {
        place_bytes = mr_redis_command_value_length(command) - reader->value_done;
        count = mr_redis_parts_from(command->into, 2, reader->value_done, parts);
        memcpy(placed, parts, (size_t)count * sizeof *placed);
    } else if (reader->phase == PHASE_SKIP) {
        size_t left = reader->skip_bytes - reader->value_done;
        place_bytes = left < SKIP_BYTES ? left : SKIP_BYTES;
        parts[count++] = (struct iovec){.iov_base = reader->skipped, .iov_len = place_bytes};
    }
    if (values_pending && room > HEAD_BYTES) room = HEAD_BYTES;
    parts[count++] = (struct iovec){.iov_base = reader->input + reader->in_end, .iov_len = room};
    ssize_t done = mr_redis_link_read(link, parts, count);
    if (done <= 0) return done;
    size_t direct = (size_t)done < place_bytes ? (size_t)done : place_bytes;
    if (reader->phase == PHASE_PAYLOAD) notify_all(command, placed, direct);
    reader->stats.received_bytes += (uint64_t)done;
    reader->value_done += direct;
    reader->in_end += (size_t)done - direct;
    return done;
}
