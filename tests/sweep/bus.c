#include "tests/sweep/bus.h"

#include "codec/records/reply.h"
#include "codec/records/request_decode.h"
#include "tests/integration/verdict/verdict.h"
#include "tests/sweep/sweep.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bus_init(struct bus *bus)
{
    memset(bus, 0, sizeof *bus);
    memory_kafka_init(&bus->kafka);
}

void bus_release(struct bus *bus)
{
    struct memory_kafka *kafka = &bus->kafka;
    kafka->first = kafka->end;
    kafka->in_progress = kafka->lost = kafka->closed = false;
    kafka->commits_held = 0;
    for (int i = 0; i < MEMORY_PARTITIONS; i++)
        kafka->partitions[i].assigned = false;
    bus->closed_count = bus->record_count;
    bus->cancel_read = false;
}

/* ---- producers ---- */

static int64_t number_of(const struct mr_kafka_record *record, const char *name)
{
    char text[32];
    const struct mr_kafka_header *header = mr_kafka_record_header(record, name);
    if (!header || !header->value || header->length >= sizeof text) return -1;
    memcpy(text, header->value, header->length);
    text[header->length] = '\0';
    return strtoll(text, NULL, 10);
}

static struct bus_record *add(struct bus *bus, const struct mr_kafka_record *record, void *opaque)
{
    SWEEP_CHECK(bus->record_count < BUS_RECORDS_MAX);
    SWEEP_CHECK(record->value.length <= BUS_VALUE_BYTES);
    struct bus_record *made = &bus->records[bus->record_count++];
    *made = (struct bus_record){.opaque = opaque,
                                .length = record->value.length,
                                .from_partition =
                                    (int32_t)number_of(record, "__connect.errors.partition"),
                                .from_offset = number_of(record, "__connect.errors.offset")};
    snprintf(made->topic, sizeof made->topic, "%s", record->topic);
    if (made->length > 0) memcpy(made->value, record->value.bytes, made->length);
    return made;
}

static enum mr_status bus_produce(void *self, const struct mr_kafka_record *record, void *opaque,
                                  struct mr_error *err)
{
    (void)err;
    add(self, record, opaque);
    return MR_OK;
}

static enum mr_status transaction_produce(void *self, const struct mr_kafka_record *record,
                                          void *opaque, struct mr_error *err)
{
    (void)err;
    add(self, record, opaque)->transactional = true;
    return MR_OK;
}

static bool is_open(const struct bus_record *record, bool transactional)
{
    return !record->reported && !record->dropped && record->transactional == transactional;
}

static void acknowledge(struct bus *bus, bool transactional, const struct mr_producer_user *user)
{
    for (uint32_t i = bus->closed_count; i < bus->record_count; i++) {
        struct bus_record *record = &bus->records[i];
        if (!is_open(record, transactional)) continue;
        record->reported = true;
        record->order = ++bus->order;
        user->reported(user->context, record->opaque, MR_OK, "");
    }
}

static void bus_serve(void *self)
{
    struct bus *bus = self;
    acknowledge(bus, false, &bus->user);
}

static void serve_nothing(void *self)
{
    (void)self;
}

/* The sweep steps publish itself. */
static bool bus_attend(void *self, bool on)
{
    (void)self, (void)on;
    return false;
}

static uint32_t bus_pending(void *self)
{
    const struct bus *bus = self;
    uint32_t count = 0;
    for (uint32_t i = bus->closed_count; i < bus->record_count; i++)
        count += is_open(&bus->records[i], false);
    return count;
}

static enum mr_status bus_partitions(void *self, const char *topic, uint32_t *count,
                                     struct mr_error *err)
{
    (void)self, (void)topic, (void)err;
    *count = 1;
    return MR_OK;
}

static enum mr_status bus_fatal(void *self, struct mr_error *err)
{
    (void)self, (void)err;
    return MR_OK;
}

static void drop(struct bus *bus, bool transactional)
{
    for (uint32_t i = bus->closed_count; i < bus->record_count; i++)
        bus->records[i].dropped |= is_open(&bus->records[i], transactional);
}

static void bus_close(void *self)
{
    drop(self, false);
}

static struct mr_producer_port port_of(struct bus *bus)
{
    return (struct mr_producer_port){.self = bus,
                                     .produce = bus_produce,
                                     .serve = bus_serve,
                                     .attend = bus_attend,
                                     .pending = bus_pending,
                                     .partitions = bus_partitions,
                                     .fatal = bus_fatal,
                                     .close = bus_close};
}

static enum mr_status open_producer(void *context, const struct mr_producer_user *user,
                                    struct mr_producer_port *port, struct mr_error *err)
{
    (void)err;
    ((struct bus *)context)->user = *user;
    *port = port_of(context);
    return MR_OK;
}

struct mr_producer_opener bus_producer(struct bus *bus)
{
    return (struct mr_producer_opener){bus, open_producer};
}

/* ---- transactions: publish's records are acknowledged by its own serve ---- */

static struct mr_producer_port transaction_producer(void *self)
{
    struct mr_producer_port port = port_of(self);
    port.produce = transaction_produce;
    port.serve = serve_nothing;
    return port;
}

static enum mr_status transaction_begin(void *self, struct mr_error *err)
{
    (void)self, (void)err;
    return MR_OK;
}

static void note_commit(struct bus *bus, const struct mr_kafka_commit *commit)
{
    SWEEP_CHECK(bus->commit_count < BUS_COMMITS_MAX);
    struct bus_commit *made = &bus->commits[bus->commit_count++];
    *made = (struct bus_commit){
        .partition = commit->partition, .offset = commit->offset, .order = ++bus->order};
    snprintf(made->metadata, sizeof made->metadata, "%s", commit->metadata);
}

static enum mr_status transaction_commit(void *self, const struct mr_transaction_offsets *offsets,
                                         struct mr_error *err)
{
    struct bus *bus = self;
    (void)err;
    acknowledge(bus, true, &bus->transactions_user.producer);
    for (size_t i = 0; i < offsets->count; i++) {
        struct memory_partition *log = &bus->kafka.partitions[offsets->commits[i].partition];
        log->committed = offsets->commits[i].offset;
        snprintf(log->metadata, sizeof log->metadata, "%s", offsets->commits[i].metadata);
        note_commit(bus, &offsets->commits[i]);
    }
    return MR_OK;
}

static void transaction_close(void *self)
{
    drop(self, true);
}

static enum mr_status transaction_abort(void *self, struct mr_error *err)
{
    drop(self, true);
    return mr_fail(err, MR_AGAIN, "aborted");
}

static enum mr_status transaction_renew(void *self, const struct mr_transaction_offsets *offsets,
                                        bool *committed, struct mr_error *err)
{
    (void)self, (void)offsets, (void)err;
    *committed = false;
    return MR_OK;
}

static uint64_t no_call(const void *self)
{
    (void)self;
    return 0;
}

static void free_membership(void *self, struct mr_kafka_membership *membership)
{
    (void)self, (void)membership;
}

static enum mr_status open_transactions(void *context, const struct mr_transactions_user *user,
                                        struct mr_transactions_port *port, struct mr_error *err)
{
    (void)err;
    ((struct bus *)context)->transactions_user = *user;
    *port = (struct mr_transactions_port){.self = context,
                                          .producer = transaction_producer,
                                          .begin = transaction_begin,
                                          .commit = transaction_commit,
                                          .abort = transaction_abort,
                                          .renew = transaction_renew,
                                          .call_ns = no_call,
                                          .free_membership = free_membership,
                                          .close = transaction_close};
    return MR_OK;
}

struct mr_transactions_opener bus_transactions(struct bus *bus)
{
    return (struct mr_transactions_opener){bus, open_transactions};
}

/* ---- the consumer and the readers ---- */

static enum mr_status (*commit_to_kafka)(void *self, const struct mr_kafka_commit *commits,
                                         size_t count, uint64_t number, struct mr_error *err);

/* self is the memory_kafka, the first member of the bus. */
static enum mr_status commit_and_note(void *self, const struct mr_kafka_commit *commits,
                                      size_t count, uint64_t number, struct mr_error *err)
{
    for (size_t i = 0; i < count; i++)
        note_commit(self, &commits[i]);
    return commit_to_kafka(self, commits, count, number, err);
}

enum mr_status bus_open_consumer(void *context, const struct mr_kafka_consumer_options *options,
                                 struct mr_kafka_consumer_port *out, struct mr_error *err)
{
    struct bus *bus = context;
    enum mr_status status = memory_kafka_open_consumer(&bus->kafka, options, out, err);
    commit_to_kafka = out->commit;
    out->commit = commit_and_note;
    return status;
}

static bool take_cancel(void *self, struct mr_kafka_record *record)
{
    struct bus *bus = self;
    if (!bus->cancel_id || bus->cancel_read) return false;
    bus->cancel_read = true;
    *record = (struct mr_kafka_record){
        .topic = "cancel", .key = {bus->cancel_id, strlen(bus->cancel_id)}, .value = {"1", 1}};
    return true;
}

enum mr_status bus_open_reader(void *context, const struct mr_kafka_reader_options *options,
                               struct mr_kafka_reader_port *out, struct mr_error *err)
{
    enum mr_status status = memory_kafka_open_reader(context, options, out, err);
    out->take = take_cancel;
    return status;
}

/* ---- the verdict ---- */

static void report(void *context, enum verdict_kind kind, const char *what)
{
    (void)context;
    fprintf(stderr, "%s: %s\n", verdict_text(kind), what);
}

static void judge_request(struct verdict *verdict, int32_t partition, int64_t offset,
                          const struct memory_record *record)
{
    char fallback[64];
    snprintf(fallback, sizeof fallback, "r/%" PRId32 "/%" PRId64, partition, offset);
    struct mr_request_context context = {.fallback_id = {fallback, strlen(fallback)},
                                         .timestamp_ms = record->timestamp_ms,
                                         .now_ms = record->timestamp_ms,
                                         .default_max_tokens = 16,
                                         .record_bytes_max = 4096};
    struct verdict_place place = {"r", partition, offset};
    struct mr_reply_address address;
    struct mr_request *request = NULL;
    struct mr_text value = {record->value, strlen(record->value)};
    enum mr_status status = mr_request_decode(&request, value, &context, &address, NULL);
    struct mr_text id = {address.id, strlen(address.id)};
    if (mr_status_class(status) == MR_CLASS_REJECT && !address.id_readable) id.bytes = NULL;
    verdict_request(verdict, &place, id, request && request->stream, 0);
    mr_request_destroy(request);
}

static void judge_record(struct verdict *verdict, const struct bus_record *record)
{
    struct mr_arena *arena = mr_arena_create((size_t)1 << 20);
    struct mr_text value = {record->value, record->length};
    enum mr_encoding encoding = MR_ENCODING_JSON;
    struct mr_token_record tokens;
    struct mr_result result;
    if (strcmp(record->topic, "dlq") == 0) {
        struct verdict_place place = {"r", record->from_partition, record->from_offset};
        verdict_dead_letter(verdict, &place, record->order);
        mr_arena_destroy(arena);
        return;
    }
    SWEEP_CHECK(mr_encoding_detect((struct mr_text){0}, value, &encoding, NULL) == MR_OK);
    if (strcmp(record->topic, "tokens") == 0) {
        SWEEP_CHECK(mr_token_record_decode(&tokens, value, encoding, arena, NULL) == MR_OK);
        verdict_tokens(verdict, &tokens);
    } else {
        SWEEP_CHECK(mr_result_decode(&result, value, encoding, arena, NULL) == MR_OK);
        verdict_result(verdict, &result, record->order);
    }
    mr_arena_destroy(arena);
}

void bus_judge(const struct bus *bus)
{
    struct verdict_figures figures;
    struct verdict_options options = {.timed = true, .report = report};
    struct verdict *verdict = verdict_create(&options);
    for (int32_t p = 0; p < MEMORY_PARTITIONS; p++)
        for (int64_t offset = 0; offset < bus->kafka.partitions[p].end; offset++)
            judge_request(verdict, p, offset, &bus->kafka.partitions[p].records[offset]);
    for (uint32_t i = 0; i < bus->record_count; i++)
        if (bus->records[i].order > 0) judge_record(verdict, &bus->records[i]);
    for (uint32_t i = 0; i < bus->commit_count; i++) {
        const struct bus_commit *commit = &bus->commits[i];
        struct verdict_place place = {"r", commit->partition, commit->offset};
        struct mr_text metadata = {commit->metadata, strlen(commit->metadata)};
        verdict_commit(verdict, &place, metadata, commit->order);
    }
    verdict_judge(verdict, &figures);
    verdict_destroy(verdict);
    SWEEP_CHECK(figures.violation_count == 0);
}

bool bus_is_done(const struct bus *bus)
{
    bool done = true;
    for (int i = 0; i < MEMORY_PARTITIONS; i++) {
        const struct memory_partition *log = &bus->kafka.partitions[i];
        done &= log->end == 0 || log->committed == log->end;
    }
    return done;
}
