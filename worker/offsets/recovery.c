#include "worker/offsets/recovery.h"

#include "worker/base/thread.h"
#include "worker/kafka/header_names.h"
#include "worker/kafka/kafka_conf.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Longest time of one step: it opens a reader, which has a timeout. */
#define STEP_MAX_NS ((uint64_t)120000000000)

#define MS_NS      ((uint64_t)1000000)
#define READ_BURST 256u /* most result records read between two checks of the deadline */

enum phase { IDLE, LOOKING_UP_BASES, READING };

struct mr_recovery {
    struct mr_recovery_options options;
    struct mr_wake wake;
    struct mr_thread *thread;
    pthread_mutex_t mutex;
    struct mr_recovery_scan *requested, *done; /* lists, under mutex: scans to do, and scans done */
    /* Used only by mr_recovery_step, without the mutex. */
    enum phase phase;
    struct mr_recovery_scan *scans; /* partitions for which results are being read now */
    struct mr_kafka_reader_port reader;
    uint64_t began_ns, deadline_ns, records;
};

/* ---- one record ---- */

static bool is_group(const struct mr_kafka_record *record, const char *group)
{
    const struct mr_kafka_header *header = mr_kafka_record_header(record, MR_HEADER_GROUP);
    return header && header->value &&
           mr_text_is((struct mr_text){header->value, header->length}, group);
}

/* The decimal number written in [text, end); -1 if that is not a number. */
static int64_t number_of(const char *text, const char *end)
{
    int64_t value = 0;
    if (text == end || end - text > 18) return -1;
    for (; text < end; text++) {
        if (*text < '0' || *text > '9') return -1;
        value = value * 10 + (*text - '0');
    }
    return value;
}

struct source {
    struct mr_text topic;
    int64_t partition, offset;
};

/* Parses a header of the form topic/partition/offset; a topic name contains no slash. */
static bool read_source(const struct mr_kafka_record *record, struct source *source)
{
    const struct mr_kafka_header *header = mr_kafka_record_header(record, MR_HEADER_SOURCE);
    if (!header || !header->value) return false;
    const char *text = header->value, *end = text + header->length;
    const char *first = memchr(text, '/', header->length);
    const char *second = first ? memchr(first + 1, '/', (size_t)(end - first - 1)) : NULL;
    if (!second) return false;
    source->topic = (struct mr_text){text, (size_t)(first - text)};
    source->partition = number_of(first + 1, second);
    source->offset = number_of(second + 1, end);
    return source->partition >= 0 && source->offset >= 0;
}

static bool concerns(const struct mr_recovery_scan *scan, const struct source *source,
                     int64_t timestamp_ms)
{
    return scan->partition == source->partition && timestamp_ms >= scan->since_ms &&
           !scan->replaced && scan->base >= 0 && source->offset >= scan->base &&
           mr_text_is(source->topic, scan->topic);
}

bool mr_recovery_is_finished(const struct mr_recovery_scan *scan, int64_t offset)
{
    const uint32_t bit = (uint32_t)(offset % MR_LEDGER_SPAN_MAX);
    return offset - scan->base < (int64_t)MR_LEDGER_SPAN_MAX &&
           scan->finished[bit / 8] >> (bit % 8) & 1;
}

/* The offset lies in [base, base + MR_LEDGER_SPAN_MAX). */
static void set_finished(struct mr_recovery_scan *scan, int64_t offset, bool finished)
{
    const uint32_t bit = (uint32_t)(offset % MR_LEDGER_SPAN_MAX);
    if (mr_recovery_is_finished(scan, offset) == finished) return;
    scan->finished[bit / 8] ^= (unsigned char)(1u << (bit % 8));
    scan->found = finished ? scan->found + 1 : scan->found - 1;
}

bool mr_recovery_has_moved(const struct mr_recovery_scan *scan)
{
    return scan->committed >= 0 && scan->base > scan->committed;
}

/* Moves base up to `base` and discards the results found below. */
static void move_base(struct mr_recovery_scan *scan, int64_t base)
{
    for (; scan->base < base && scan->found > 0; scan->base++)
        set_finished(scan, scan->base, false);
    scan->base = base;
}

/* Moves base up if the record is a proof. False: the record is to be ignored, because its offset is
 * beyond the scan's span and not a proof, or beyond the end of the partition. */
static bool apply_proof(struct mr_recovery_scan *scan, int64_t offset, int64_t timestamp_ms)
{
    scan->replaced = scan->committed < 0 && offset >= scan->end;
    if (scan->replaced) return false;
    if (offset - scan->base < (int64_t)MR_LEDGER_SPAN_MAX) return true;
    if (scan->committed < 0 || timestamp_ms < scan->proofs_ms) return false;
    move_base(scan, offset - (int64_t)MR_LEDGER_SPAN_MAX + 1);
    return true;
}

static void add_result(struct mr_recovery_scan *scan, int64_t offset, int64_t timestamp_ms)
{
    if (scan->found == 0 || offset < scan->first) {
        scan->first = offset;
        scan->first_ms = timestamp_ms;
    }
    if (offset == scan->first && timestamp_ms > scan->first_ms) scan->first_ms = timestamp_ms;
    if (timestamp_ms > scan->newest_ms) scan->newest_ms = timestamp_ms;
    set_finished(scan, offset, true);
}

void mr_recovery_note(struct mr_recovery_scan *scans, const struct mr_kafka_record *record,
                      const char *group)
{
    struct source source;
    if (!is_group(record, group) || !read_source(record, &source)) return;
    for (struct mr_recovery_scan *scan = scans; scan; scan = scan->next)
        if (concerns(scan, &source, record->timestamp_ms) &&
            apply_proof(scan, source.offset, record->timestamp_ms))
            add_result(scan, source.offset, record->timestamp_ms);
}

/* ---- one reading ---- */

/* The timeout of a call of the reader: until the deadline, at least one millisecond. */
static uint32_t timeout_ms(const struct mr_recovery *recovery, uint64_t now_ns)
{
    uint32_t left_ms = mr_clock_left_ms(now_ns, recovery->deadline_ns);
    return left_ms > 0 ? left_ms : 1;
}

static void set_deadline(struct mr_recovery *recovery, uint64_t now_ns)
{
    recovery->deadline_ns = now_ns + recovery->options.timeout_ms * MS_NS;
}

static void append(struct mr_recovery_scan **list, struct mr_recovery_scan *scans)
{
    while (*list)
        list = &(*list)->next;
    *list = scans;
}

static struct mr_recovery_scan *take(struct mr_recovery *recovery, struct mr_recovery_scan **list)
{
    pthread_mutex_lock(&recovery->mutex);
    struct mr_recovery_scan *scans = *list;
    *list = NULL;
    pthread_mutex_unlock(&recovery->mutex);
    return scans;
}

/* Discards all findings of the scan. */
static void forget(struct mr_recovery_scan *scan)
{
    move_base(scan, INT64_MAX);
    scan->base = scan->committed;
    scan->complete = false;
}

/* Discards findings from the results of a log that was replaced. For each partition whose base has
 * moved it queries the partition's end; that happens only after the broker has lost commits. After
 * the first failed query, no further ones are made. */
static void check_proofs(struct mr_recovery *recovery, uint64_t now_ns)
{
    struct mr_error err = {0};
    enum mr_status status = MR_OK;
    set_deadline(recovery, now_ns);
    for (struct mr_recovery_scan *scan = recovery->scans; scan; scan = scan->next) {
        struct mr_kafka_ends ends = {0, 0};
        /* the offset of the result that moved base last */
        const int64_t proof = scan->base + (int64_t)MR_LEDGER_SPAN_MAX - 1;
        if (scan->replaced) {
            mr_log_warn(recovery->options.log,
                        "%s/%d: results are ignored, because they belong to a replaced log",
                        scan->topic, scan->partition);
            forget(scan);
        }
        if (!mr_recovery_has_moved(scan)) continue;
        if (status == MR_OK)
            status = recovery->reader.ends(recovery->reader.self, scan->topic, scan->partition,
                                           timeout_ms(recovery, now_ns), &ends, &err);
        if (status == MR_OK && proof < ends.end) continue;
        mr_log_warn(recovery->options.log,
                    "%s/%d: results up to offset %lld are ignored: %s; finished requests "
                    "may run again",
                    scan->topic, scan->partition, (long long)proof,
                    status != MR_OK ? err.detail : "the partition has no such offset");
        forget(scan);
    }
}

/* Ends the pass over the topics. error: the reason why some records were not read; NULL: all were
 * read. */
static void end_reading(struct mr_recovery *recovery, uint64_t now_ns, const struct mr_error *error)
{
    for (struct mr_recovery_scan *scan = recovery->scans; scan; scan = scan->next)
        scan->complete = !error;
    if (recovery->reader.self) check_proofs(recovery, now_ns);
    if (error)
        mr_log_warn(recovery->options.log, "recovery: %s; finished requests may run again",
                    error->detail);
    mr_log_event(recovery->options.log, MR_LOG_INFO, NULL, "recovery read results",
                 MR_LOG_NUMBER("results", recovery->records),
                 MR_LOG_NUMBER("ms", (now_ns - recovery->began_ns) / MS_NS));
    if (recovery->reader.self) recovery->reader.close(recovery->reader.self);
    recovery->reader.self = NULL;
    recovery->phase = IDLE;
    pthread_mutex_lock(&recovery->mutex);
    append(&recovery->done, recovery->scans);
    recovery->scans = NULL;
    pthread_mutex_unlock(&recovery->mutex);
    if (recovery->options.wake) mr_wake_ring(recovery->options.wake);
}

static void open_reader(struct mr_recovery *recovery, uint64_t now_ns)
{
    struct mr_error err = {0};
    const struct mr_recovery_options *options = &recovery->options;
    const char *topics[] = {options->results_topic, options->dlq_topic};
    recovery->began_ns = now_ns;
    set_deadline(recovery, now_ns);
    recovery->records = 0;
    struct mr_kafka_reader_options reader = {.kafka = options->kafka,
                                             .wake = &recovery->wake,
                                             .topics = topics,
                                             .topic_count = 2,
                                             .from = MR_KAFKA_FROM_TIME,
                                             .since_ms = recovery->scans->since_ms,
                                             .until_end = true,
                                             .uncommitted = !options->committed_only,
                                             .timeout_ms = options->timeout_ms};
    for (const struct mr_recovery_scan *scan = recovery->scans; scan; scan = scan->next)
        if (scan->since_ms < reader.since_ms) reader.since_ms = scan->since_ms;
    enum mr_status status =
        options->open_reader(options->open_context, &reader, &recovery->reader, &err);
    if (status == MR_OK)
        recovery->phase = LOOKING_UP_BASES;
    else
        end_reading(recovery, now_ns, &err);
}

/* Looks up the first offset and the end of one partition without a committed offset. A step makes
 * one query to the broker. */
static void look_up_base(struct mr_recovery *recovery, uint64_t now_ns)
{
    struct mr_error err = {0};
    struct mr_recovery_scan *scan = recovery->scans;
    struct mr_kafka_ends ends;
    while (scan && scan->base >= 0)
        scan = scan->next;
    if (!scan) {
        recovery->phase = READING;
    } else if (recovery->reader.ends(recovery->reader.self, scan->topic, scan->partition,
                                     timeout_ms(recovery, now_ns), &ends, &err) != MR_OK) {
        end_reading(recovery, now_ns, &err);
    } else {
        scan->base = ends.begin;
        scan->end = ends.end;
    }
}

/* Reads some result records; true when there may be more to read now. */
static bool read_some(struct mr_recovery *recovery, uint64_t now_ns)
{
    struct mr_error err;
    struct mr_kafka_record record;
    struct mr_kafka_reader_port *reader = &recovery->reader;
    unsigned count = 0;
    while (count < READ_BURST && reader->take(reader->self, &record)) {
        mr_recovery_note(recovery->scans, &record, recovery->options.group);
        count++;
    }
    recovery->records += count;
    if (count > 0 && recovery->options.committed_only) set_deadline(recovery, now_ns);
    if (!reader->is_behind(reader->self)) {
        end_reading(recovery, now_ns, NULL);
    } else if (now_ns >= recovery->deadline_ns) {
        mr_fail(&err, MR_TIMEOUT, "not all results were read in time");
        end_reading(recovery, now_ns, &err);
    }
    return count == READ_BURST;
}

uint64_t mr_recovery_step(struct mr_recovery *recovery, struct mr_time now)
{
    bool more = true;
    if (recovery->phase == IDLE) {
        recovery->scans = take(recovery, &recovery->requested);
        if (!recovery->scans) return UINT64_MAX;
        open_reader(recovery, now.ns);
    } else if (recovery->phase == LOOKING_UP_BASES) {
        look_up_base(recovery, now.ns);
    } else {
        more = read_some(recovery, now.ns);
    }
    return more || recovery->phase != READING ? now.ns : recovery->deadline_ns;
}

/* ---- the owner ---- */

enum mr_status mr_recovery_create(struct mr_recovery **out,
                                  const struct mr_recovery_options *options, struct mr_error *err)
{
    *out = NULL;
    struct mr_recovery *recovery = calloc(1, sizeof *recovery);
    if (!recovery) return mr_fail(err, MR_NOMEM, "no memory for recovery");
    recovery->options = *options;
    enum mr_status status = mr_wake_open(&recovery->wake, err);
    if (status != MR_OK) {
        free(recovery);
        return status;
    }
    pthread_mutex_init(&recovery->mutex, NULL);
    *out = recovery;
    return MR_OK;
}

static uint64_t step(void *state, struct mr_time now)
{
    return mr_recovery_step(state, now);
}

enum mr_status mr_recovery_start(struct mr_recovery *recovery, struct mr_error *err)
{
    struct mr_thread_options options = {.name = "recovery",
                                        .step = step,
                                        .state = recovery,
                                        .wake = &recovery->wake,
                                        .heartbeats = recovery->options.kafka->heartbeats,
                                        .step_max_ns = STEP_MAX_NS};
    return mr_thread_start(&recovery->thread, &options, err);
}

const struct mr_wake *mr_recovery_wake(const struct mr_recovery *recovery)
{
    return &recovery->wake;
}

void mr_recovery_request(struct mr_recovery *recovery, struct mr_recovery_scan *scans)
{
    pthread_mutex_lock(&recovery->mutex);
    append(&recovery->requested, scans);
    pthread_mutex_unlock(&recovery->mutex);
    mr_wake_ring(&recovery->wake);
}

struct mr_recovery_scan *mr_recovery_take(struct mr_recovery *recovery)
{
    return take(recovery, &recovery->done);
}

static void free_scans(struct mr_recovery_scan *scans)
{
    for (struct mr_recovery_scan *next; scans; scans = next) {
        next = scans->next;
        free(scans);
    }
}

void mr_recovery_destroy(struct mr_recovery *recovery)
{
    if (!recovery) return;
    mr_thread_stop(recovery->thread);
    if (recovery->reader.self) recovery->reader.close(recovery->reader.self);
    free_scans(recovery->scans);
    free_scans(recovery->requested);
    free_scans(recovery->done);
    pthread_mutex_destroy(&recovery->mutex);
    mr_wake_close(&recovery->wake);
    free(recovery);
}
