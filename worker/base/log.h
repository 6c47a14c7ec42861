/* log - the worker's log for its operator: one line for each message, on one file descriptor; as
 * text if the descriptor is a terminal, otherwise as JSON lines. Prompts and generated text are
 * never logged.
 *
 * JSON keys: ts (UTC, milliseconds), level, msg, worker; req_id, topic, partition, offset and
 * trace_id if struct mr_log_place has them; and the fields of the line. Figures are fields, so that
 * a program need not parse prose; in text they follow the message as name=value. In each
 * MR_LOG_WINDOW_NS at most MR_LOG_BURST lines with the same format string are written. The next
 * such line has the key suppressed: the number of lines left out.
 *
 * A reader that is stopped or slow delays nobody. A pipe, a socket or a terminal that has no room
 * for MR_LOG_SINK_WAIT_MS loses lines until it has room again; the next line then has the key lost:
 * the number of lost lines. A partly written line is completed before any other, so that a reader
 * of JSON never sees half a line.
 *
 * Threads: any; no call blocks for longer than MR_LOG_SINK_WAIT_MS, unless a write to a disk
 * blocks. Memory: a few kB made in _create; a line is cut so that it has at most MR_LOG_SINK_BYTES.
 * Errors: a line that cannot be written is lost. Both bounds are in worker/base/log_sink.h. */
#ifndef MR_WORKER_BASE_LOG_H
#define MR_WORKER_BASE_LOG_H

#include "codec/status.h"
#include "codec/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_LOG_BURST      20u
#define MR_LOG_WINDOW_NS  ((uint64_t)10000000000)
#define MR_LOG_LINE_BYTES ((size_t)2048)

enum mr_log_format { MR_LOG_AUTO, MR_LOG_TEXT, MR_LOG_JSON };
enum mr_log_level { MR_LOG_ERROR, MR_LOG_WARN, MR_LOG_INFO, MR_LOG_DEBUG };

struct mr_log;

struct mr_log_options {
    int fd;
    enum mr_log_format format; /* MR_LOG_AUTO: text on a terminal, otherwise JSON */
    enum mr_log_level level;   /* less severe messages than this level are not written */
    const char *worker;        /* the worker's id, written with each line; copied */
    uint64_t (*now_ns)(void);  /* the clock; NULL: mr_clock_ns */
};

/* The Kafka record that a message is about; empty texts and negative numbers are not written. */
struct mr_log_place {
    struct mr_text req_id, topic, trace_id;
    int32_t partition;
    int64_t offset;
};

/* One figure or text of a line, made by MR_LOG_NUMBER or MR_LOG_STRING. A field has the name of the
 * metric or option of the same meaning. */
struct mr_log_field {
    const char *name;
    const char *text; /* NULL: the field is the number */
    double number;    /* not finite: unknown, the field is left out */
};

#define MR_LOG_NUMBER(key, value) ((struct mr_log_field){.name = key, .number = (double)(value)})
#define MR_LOG_STRING(key, value) ((struct mr_log_field){.name = key, .text = value})

enum mr_status mr_log_create(struct mr_log **out, const struct mr_log_options *options,
                             struct mr_error *err);
/* log may be NULL. */
void mr_log_destroy(struct mr_log *log);

/* Whether lines are written as JSON. log may be NULL: false. */
bool mr_log_is_json(const struct mr_log *log);
/* Writes one line. log may be NULL: nothing is written. place may be NULL. fmt must be a string
 * literal, because its address identifies the message when repeated lines are suppressed
 * (MR_LOG_BURST). */
void mr_log_write(struct mr_log *log, enum mr_log_level level, const struct mr_log_place *place,
                  const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* Writes one line with fields, an array that ends with a field without a name. message must be a
 * string literal, as fmt above. log and place may be NULL. */
void mr_log_write_fields(struct mr_log *log, enum mr_log_level level,
                         const struct mr_log_place *place, const char *message,
                         const struct mr_log_field *fields);
/* The same with the fields as arguments. */
#define mr_log_event(log, level, place, message, ...)                                              \
    mr_log_write_fields(log, level, place, message, (const struct mr_log_field[]){__VA_ARGS__, {0}})

#define mr_log_error(log, ...) mr_log_write(log, MR_LOG_ERROR, NULL, __VA_ARGS__)
#define mr_log_warn(log, ...)  mr_log_write(log, MR_LOG_WARN, NULL, __VA_ARGS__)
#define mr_log_info(log, ...)  mr_log_write(log, MR_LOG_INFO, NULL, __VA_ARGS__)
#define mr_log_debug(log, ...) mr_log_write(log, MR_LOG_DEBUG, NULL, __VA_ARGS__)

#endif
