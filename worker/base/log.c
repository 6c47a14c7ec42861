#include "worker/base/log.h"

#include "codec/check.h"
#include "codec/wire/json_writer.h"
#include "worker/base/clock.h"
#include "worker/base/log_sink.h"
#include "worker/base/printable.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define KINDS_MAX ((size_t)64)

/* How often a log message with one format string was written in the current time window. */
struct kind {
    const char *fmt;
    uint64_t start_ns;
    uint32_t written, suppressed;
};

struct mr_log {
    pthread_mutex_t lock;
    struct mr_log_sink sink; /* under lock */
    bool json;
    enum mr_log_level level;
    char *worker;
    uint64_t (*now_ns)(void);
    /* when all are in use, the one with the oldest window is replaced */
    struct kind kinds[KINDS_MAX];
};

enum mr_status mr_log_create(struct mr_log **out, const struct mr_log_options *options,
                             struct mr_error *err)
{
    *out = NULL;
    struct mr_log *log = calloc(1, sizeof *log);
    char *worker = strdup(options->worker);
    if (!log || !worker || pthread_mutex_init(&log->lock, NULL) != 0) {
        free(worker);
        free(log);
        return mr_fail(err, MR_NOMEM, "no memory for the log");
    }
    mr_log_sink_open(&log->sink, options->fd);
    log->json =
        options->format == MR_LOG_JSON || (options->format == MR_LOG_AUTO && !isatty(options->fd));
    log->level = options->level;
    log->worker = worker;
    log->now_ns = options->now_ns ? options->now_ns : mr_clock_ns;
    *out = log;
    return MR_OK;
}

void mr_log_destroy(struct mr_log *log)
{
    if (!log) return;
    mr_log_sink_close(&log->sink);
    pthread_mutex_destroy(&log->lock);
    free(log->worker);
    free(log);
}

bool mr_log_is_json(const struct mr_log *log)
{
    return log && log->json;
}

/* ---- suppressing repeated messages ---- */

static struct kind *find_kind(struct mr_log *log, const char *fmt)
{
    struct kind *oldest = &log->kinds[0];
    for (size_t i = 0; i < KINDS_MAX; i++) {
        if (log->kinds[i].fmt == fmt) return &log->kinds[i];
        if (log->kinds[i].start_ns < oldest->start_ns) oldest = &log->kinds[i];
    }
    *oldest = (struct kind){.fmt = fmt};
    return oldest;
}

/* Whether to write a log line with this format string. *suppressed: how many lines with the same
 * format string were left out since the last one that was written. */
static bool admit(struct mr_log *log, const char *fmt, uint32_t *suppressed)
{
    uint64_t now_ns = log->now_ns();
    struct kind *kind = find_kind(log, fmt);
    bool fresh = kind->written == 0 || now_ns - kind->start_ns >= MR_LOG_WINDOW_NS;
    *suppressed = 0;
    if (fresh) {
        *suppressed = kind->suppressed;
        *kind = (struct kind){.fmt = fmt, .start_ns = now_ns};
    } else if (kind->written == MR_LOG_BURST) {
        kind->suppressed++;
        return false;
    }
    kind->written++;
    return true;
}

/* ---- a line ---- */

struct line {
    enum mr_log_level level;
    const struct mr_log_place *place;
    const char *message;
    const struct mr_log_field *fields; /* the last one has no name */
    uint32_t suppressed;
    uint64_t lost; /* lines lost since the last one that was written */
};

static const struct mr_log_field no_fields[] = {{0}};

static const char *level_name(enum mr_log_level level)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    MR_ASSERT((unsigned)level < 4);
    return names[level];
}

#define TIME_OF_DAY_AT 11

/* Formats the current time as "2025-06-15T12:34:56.789Z". */
static void format_time(char out[32])
{
    struct tm parts;
    int64_t now_ms = mr_clock_unix_ms();
    time_t seconds = (time_t)(now_ms / 1000);
    gmtime_r(&seconds, &parts);
    size_t length = strftime(out, 32, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(out + length, 32 - length, ".%03dZ", (int)(now_ms % 1000));
}

static void put_member(struct mr_json_writer *json, const char *name, struct mr_text text)
{
    if (text.length == 0) return;
    mr_json_name(json, name);
    mr_json_put_text(json, text);
}

static void put_string(struct mr_json_writer *json, const char *name, const char *text)
{
    put_member(json, name, (struct mr_text){text, strlen(text)});
}

static void put_number(struct mr_json_writer *json, const char *name, int64_t number)
{
    mr_json_name(json, name);
    mr_json_put_int(json, number);
}

static void put_fields(struct mr_json_writer *json, const struct mr_log_field *fields)
{
    for (const struct mr_log_field *field = fields; field->name; field++) {
        if (!field->text && !isfinite(field->number)) continue;
        mr_json_name(json, field->name);
        if (field->text)
            mr_json_put_string(json, field->text);
        else
            mr_json_put_double(json, field->number);
    }
}

/* Formats the line with the first `message_bytes` of its message. *bytes: malloc'ed; false: there
 * is no memory for the line. */
static bool format_json(struct mr_log *log, const struct line *line, size_t message_bytes,
                        char **bytes, size_t *length)
{
    struct mr_json_writer json;
    char time_text[32];
    format_time(time_text);
    mr_json_writer_init(&json, 16 * MR_LOG_LINE_BYTES);
    mr_json_begin_object(&json);
    put_string(&json, "ts", time_text);
    put_string(&json, "level", level_name(line->level));
    put_member(&json, "msg", (struct mr_text){line->message, message_bytes});
    if (line->place) {
        put_member(&json, "req_id", line->place->req_id);
        put_member(&json, "topic", line->place->topic);
        if (line->place->partition >= 0) put_number(&json, "partition", line->place->partition);
        if (line->place->offset >= 0) put_number(&json, "offset", line->place->offset);
        put_member(&json, "trace_id", line->place->trace_id);
    }
    put_fields(&json, line->fields);
    put_string(&json, "worker", log->worker);
    if (line->suppressed) put_number(&json, "suppressed", line->suppressed);
    if (line->lost) put_number(&json, "lost", (int64_t)line->lost);
    mr_json_end(&json);
    return mr_json_writer_take(&json, bytes, length, NULL) == MR_OK;
}

/* Escapes make a message up to six times as long: it is cut until the line fits into one write.
 * False: there is no memory for the line, or its other members alone are too long. */
static bool write_json(struct mr_log *log, const struct line *line)
{
    size_t message_bytes = strlen(line->message), length;
    char *bytes;
    for (;; message_bytes /= 2) {
        if (!format_json(log, line, message_bytes, &bytes, &length)) return false;
        if (length < MR_LOG_SINK_BYTES) break;
        free(bytes);
        if (message_bytes == 0) return false;
    }
    bytes[length] = '\n'; /* in place of the NUL, so that text and line feed are one write */
    mr_log_sink_write(&log->sink, bytes, length + 1);
    free(bytes);
    return true;
}

static void add_text(char *out, size_t *length, const char *name, struct mr_text text)
{
    if (text.length == 0 || *length >= MR_LOG_LINE_BYTES) return;
    int added = snprintf(out + *length, MR_LOG_LINE_BYTES - *length, "  %s=%.*s", name,
                         (int)(text.length > 200 ? 200 : text.length), text.bytes);
    *length += added > 0 ? (size_t)added : 0;
}

static void add_number(char *out, size_t *length, const char *name, int64_t number)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%lld", (long long)number);
    if (number >= 0) add_text(out, length, name, (struct mr_text){digits, strlen(digits)});
}

static void add_fields(char *out, size_t *length, const struct mr_log_field *fields)
{
    for (const struct mr_log_field *field = fields; field->name; field++) {
        char digits[32];
        if (!field->text && !isfinite(field->number)) continue;
        snprintf(digits, sizeof digits, "%.10g", field->number);
        const char *text = field->text ? field->text : digits;
        add_text(out, length, field->name, (struct mr_text){text, strlen(text)});
    }
}

static void write_text(struct mr_log *log, const struct line *line)
{
    char out[MR_LOG_LINE_BYTES + 1], time_text[32];
    format_time(time_text);
    int head = snprintf(out, MR_LOG_LINE_BYTES, "%.12s %-5s %s", time_text + TIME_OF_DAY_AT,
                        level_name(line->level), line->message);
    size_t length = head > 0 ? (size_t)head : 0;
    if (line->place) {
        add_text(out, &length, "req_id", line->place->req_id);
        add_text(out, &length, "topic", line->place->topic);
        add_number(out, &length, "partition", line->place->partition);
        add_number(out, &length, "offset", line->place->offset);
        add_text(out, &length, "trace_id", line->place->trace_id);
    }
    add_fields(out, &length, line->fields);
    if (line->suppressed) add_number(out, &length, "suppressed", line->suppressed);
    if (line->lost) add_number(out, &length, "lost", (int64_t)line->lost);
    if (length >= MR_LOG_LINE_BYTES) length = MR_LOG_LINE_BYTES - 1;
    out[length] = '\0';
    mr_make_printable(out);
    out[length] = '\n';
    mr_log_sink_write(&log->sink, out, length + 1);
}

/* kind: the string literal that identifies the message. */
static void write_line(struct mr_log *log, const char *kind, struct line *line)
{
    pthread_mutex_lock(&log->lock);
    bool admitted = admit(log, kind, &line->suppressed);
    line->lost = log->sink.lost;
    /* text needs no memory: a line in the wrong form is better than a lost line */
    if (admitted && (!log->json || !write_json(log, line))) write_text(log, line);
    pthread_mutex_unlock(&log->lock);
}

void mr_log_write_fields(struct mr_log *log, enum mr_log_level level,
                         const struct mr_log_place *place, const char *message,
                         const struct mr_log_field *fields)
{
    if (!log || level > log->level) return;
    struct line line = {.level = level, .place = place, .message = message, .fields = fields};
    write_line(log, message, &line);
}

void mr_log_write(struct mr_log *log, enum mr_log_level level, const struct mr_log_place *place,
                  const char *fmt, ...)
{
    if (!log || level > log->level) return;
    char message[MR_LOG_LINE_BYTES];
    va_list arguments;
    va_start(arguments, fmt);
    vsnprintf(message, sizeof message, fmt, arguments);
    va_end(arguments);
    struct line line = {.level = level, .place = place, .message = message, .fields = no_fields};
    write_line(log, fmt, &line);
}
