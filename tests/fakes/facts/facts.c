#include "tests/fakes/facts/facts.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE_MS 40000u
#define TURN_MS     20u

static const char *status_text(enum mr_status status)
{
    return mr_status_name(status);
}

__attribute__((format(printf, 2, 3))) static void print(const struct facts_world *world,
                                                        const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(world->out, format, arguments);
    va_end(arguments);
    fputc('\n', world->out);
}

/* ---- a member of the group ---- */

struct member {
    const char *name;
    struct mr_kafka_consumer_port port;
    struct mr_wake wake;
    struct mr_kafka_consumer_topic topic;
    struct mr_kafka_event event; /* the event that is being handled */
    bool handling;
};

static void open_member(const struct facts_world *world, struct member *member, const char *name)
{
    struct mr_error err = {0};
    *member = (struct member){.name = name, .topic = {FACTS_IN, 1}};
    mr_wake_open(&member->wake, &err);
    struct mr_kafka_consumer_options options = {.kafka = world->kafka,
                                                .wake = &member->wake,
                                                .topics = &member->topic,
                                                .topic_count = 1,
                                                .join_group = true};
    enum mr_status status =
        world->open_consumer(world->open_context, &options, &member->port, &err);
    if (status != MR_OK) print(world, "%s: %s", name, err.detail);
}

/* Polls the member once. True: a rebalance must be handled, or a commit has an outcome. */
static bool poll_member(struct member *member)
{
    struct mr_error err;
    struct mr_kafka_event event;
    member->port.serve(member->port.self, &err);
    if (!member->port.next_event(member->port.self, &event)) return false;
    member->event = event;
    member->handling = event.kind != MR_KAFKA_EVENT_COMMITTED;
    return true;
}

/* The claim at this index in the order of the metadata. The partitions themselves are assigned at
 * random. */
static const struct mr_kafka_claim *least_claim(const struct mr_kafka_event *event, size_t place)
{
    for (size_t i = 0; i < event->claim_count; i++) {
        size_t before = 0;
        const struct mr_text *text = &event->claims[i].metadata;
        for (size_t k = 0; k < event->claim_count; k++) {
            const struct mr_text *other = &event->claims[k].metadata;
            size_t shorter = other->length < text->length ? other->length : text->length;
            int order = shorter > 0 ? memcmp(other->bytes, text->bytes, shorter) : 0;
            if (order == 0) order = (int)other->length - (int)text->length;
            before += order < 0 || (order == 0 && k < i);
        }
        if (before == place) return &event->claims[i];
    }
    return NULL;
}

static void print_claim(const struct facts_world *world, const struct member *member,
                        const struct mr_kafka_claim *claim)
{
    if (claim->committed < 0) return;
    print(world, "%s: partition committed at %" PRId64 " with \"%.*s\"", member->name,
          claim->committed, (int)claim->metadata.length, claim->metadata.bytes);
}

static void print_event(const struct facts_world *world, const struct member *member)
{
    const struct mr_kafka_event *event = &member->event;
    static const char *const how[] = {"pause", "gone", "lost"};
    if (event->kind == MR_KAFKA_EVENT_COMMITTED) {
        print(world, "%s: commit: %s", member->name, status_text(event->status));
        return;
    }
    bool assigned = event->kind == MR_KAFKA_EVENT_ASSIGNED;
    print(world, "%s: %s%s%s %zu", member->name, assigned ? "assigned" : "revoked",
          assigned ? "" : " ", assigned ? "" : how[event->how], event->claim_count);
    for (size_t i = 0; assigned && i < event->claim_count; i++)
        print_claim(world, member, least_claim(event, i));
}

/* Waits for the member's next event and prints it. */
static void await_event(const struct facts_world *world, struct member *member)
{
    for (uint32_t waited = 0; waited < PATIENCE_MS; waited += TURN_MS) {
        if (poll_member(member)) {
            print_event(world, member);
            return;
        }
        world->pass(world->context, TURN_MS);
    }
    print(world, "%s: no event", member->name);
}

/* Advances the time and polls the members. No event is expected. */
static void await_nothing(const struct facts_world *world, struct member *member, uint32_t ms)
{
    for (uint32_t waited = 0; waited < ms; waited += TURN_MS) {
        if (poll_member(member)) {
            print_event(world, member);
            return;
        }
        world->pass(world->context, TURN_MS);
    }
    print(world, "%s: no event for a while", member->name);
}

static void complete(struct member *member)
{
    if (member->handling) member->port.complete_rebalance(member->port.self);
    member->handling = false;
}

/* Commits offset 1 of `count` partitions from `first` on. */
static void commit(const struct facts_world *world, struct member *member, int32_t first,
                   size_t count, const char *metadata)
{
    struct mr_error err = {0};
    struct mr_kafka_commit commits[] = {{0, first, 1, metadata}, {0, first + 1, 1, metadata}};
    enum mr_status status = member->port.commit(member->port.self, commits, count, 1, &err);
    if (status != MR_OK) {
        print(world, "%s: commit at once: %s", member->name, status_text(status));
        return;
    }
    bool held = member->handling;
    struct mr_kafka_event event = member->event;
    await_event(world, member);
    member->handling = held;
    member->event = event;
}

static bool may_take(void *context, size_t topic_index, int32_t partition)
{
    (void)topic_index;
    return partition == *(const int32_t *)context;
}

/* Takes the next record of a partition and prints it. With put_back it returns the record to the
 * partition. */
static void take(const struct facts_world *world, struct member *member, int32_t partition,
                 bool put_back)
{
    struct mr_kafka_record record;
    size_t topic_index;
    for (uint32_t waited = 0; waited < PATIENCE_MS; waited += TURN_MS) {
        poll_member(member);
        if (member->port.take(member->port.self, may_take, &partition, &record, &topic_index)) {
            print(world, "%s: takes offset %" PRId64 " %.*s%s", member->name, record.offset,
                  (int)record.value.length, record.value.bytes, put_back ? ", puts it back" : "");
            if (put_back) member->port.put_back(member->port.self);
            return;
        }
        world->pass(world->context, TURN_MS);
    }
    print(world, "%s: no record", member->name);
}

/* ---- producers ---- */

struct writer {
    struct mr_producer_port port;
    struct mr_wake wake;
    uint32_t good, bad;
};

static void on_reported(void *context, void *opaque, enum mr_status status, const char *reason)
{
    struct writer *writer = context;
    (void)opaque, (void)reason;
    if (status == MR_OK)
        writer->good++;
    else
        writer->bad++;
}

static struct mr_producer_user user_of(struct writer *writer)
{
    static const char *const topics[] = {FACTS_IN, FACTS_OUT};
    return (struct mr_producer_user){.wake = &writer->wake,
                                     .reported = on_reported,
                                     .context = writer,
                                     .topics = topics,
                                     .topic_count = 2};
}

static void open_writer(const struct facts_world *world, struct writer *writer)
{
    struct mr_error err = {0};
    *writer = (struct writer){.good = 0};
    mr_wake_open(&writer->wake, &err);
    struct mr_producer_user user = user_of(writer);
    struct mr_producer_opener opener = world->producer(world->context);
    if (opener.open(opener.context, &user, &writer->port, &err) != MR_OK)
        print(world, "producer: %s", err.detail);
}

static void produce(const struct mr_producer_port *port, const char *topic, int32_t partition,
                    const char *value)
{
    struct mr_error err;
    struct mr_kafka_record record = {
        .topic = topic, .partition = partition, .key = {"k", 1}, .value = {value, strlen(value)}};
    port->produce(port->self, &record, NULL, &err);
}

static void await_reports(const struct facts_world *world, struct writer *writer)
{
    for (uint32_t waited = 0; waited < PATIENCE_MS && writer->port.pending(writer->port.self) > 0;
         waited += TURN_MS) {
        world->pass(world->context, TURN_MS);
        writer->port.serve(writer->port.self);
    }
    print(world, "producer: %u reported, %u of them failed", writer->good + writer->bad,
          writer->bad);
    writer->good = writer->bad = 0;
}

/* ---- readers ---- */

/* Reads FACTS_OUT from its first record to its end into `line`, which has `room` bytes. Returns the
 * number of records. */
static uint32_t read_once(const struct facts_world *world, bool uncommitted, char *line,
                          size_t room)
{
    static const char *const topic = FACTS_OUT;
    struct mr_error err = {0};
    struct mr_wake wake;
    struct mr_kafka_record record;
    struct mr_kafka_reader_port port;
    uint32_t count = 0;
    size_t used = 0;
    mr_wake_open(&wake, &err);
    struct mr_kafka_reader_options options = {.kafka = world->kafka,
                                              .wake = &wake,
                                              .topics = &topic,
                                              .topic_count = 1,
                                              .from = MR_KAFKA_FROM_TIME,
                                              .since_ms = 1,
                                              .until_end = true,
                                              .uncommitted = uncommitted,
                                              .timeout_ms = 10000};
    enum mr_status status = world->open_reader(world->open_context, &options, &port, &err);
    line[0] = '\0';
    for (uint32_t waited = 0; status == MR_OK && waited < PATIENCE_MS; waited += TURN_MS) {
        for (; port.take(port.self, &record); count++)
            if (used < room)
                used +=
                    (size_t)snprintf(line + used, room - used, " %" PRId64 "=%.*s", record.offset,
                                     (int)record.value.length, record.value.bytes);
        if (!port.is_behind(port.self)) break;
        world->pass(world->context, TURN_MS);
    }
    if (used < room)
        snprintf(line + used, room - used, " and is %s",
                 status == MR_OK && port.is_behind(port.self) ? "behind" : "at the end");
    if (status == MR_OK) port.close(port.self);
    mr_wake_close(&wake);
    return count;
}

/* Prints the records of FACTS_OUT once a reader gets at least `least` of them. Kafka reports the
 * end of a transaction before its markers are in every partition. Until then a read-committed
 * reader gets the old state of the topic. */
static void read_all(const struct facts_world *world, bool uncommitted, uint32_t least)
{
    char line[512];
    for (uint32_t waited = 0; waited < PATIENCE_MS; waited += TURN_MS) {
        if (read_once(world, uncommitted, line, sizeof line) >= least) break;
        world->pass(world->context, TURN_MS);
    }
    print(world, "reader (%s):%s", uncommitted ? "uncommitted" : "committed", line);
}

/* ---- the script ---- */

static void records_and_reports(const struct facts_world *world, struct writer *writer)
{
    print(world, "# records");
    produce(&writer->port, FACTS_OUT, 0, "a");
    produce(&writer->port, FACTS_OUT, 0, "b");
    produce(&writer->port, FACTS_OUT, -1, "c");
    await_reports(world, writer);
    read_all(world, false, 3);
}

static void one_member(const struct facts_world *world, struct writer *writer, struct member *one)
{
    print(world, "# one member");
    open_member(world, one, "A");
    await_event(world, one);
    complete(one);
    produce(&writer->port, FACTS_IN, 0, "x");
    produce(&writer->port, FACTS_IN, 0, "y");
    produce(&writer->port, FACTS_IN, 1, "x");
    produce(&writer->port, FACTS_IN, 1, "y");
    await_reports(world, writer);
    take(world, one, 0, true);
    take(world, one, 0, false);
    take(world, one, 0, false);
    commit(world, one, 0, 2, "first");
    commit(world, one, 0, 2, "second");
}

static void a_second_member(const struct facts_world *world, struct member *one, struct member *two)
{
    print(world, "# a second member joins");
    open_member(world, two, "B");
    await_event(world, one);
    commit(world, one, 0, 2, "while revoked");
    await_nothing(world, two, 1000);
    complete(one);
    await_event(world, two);
    int32_t partition = two->event.claim_count > 0 ? two->event.claims[0].partition : 0;
    complete(two);
    await_event(world, one);
    complete(one);
    commit(world, two, partition, 1, "of the second");
}

static void it_leaves(const struct facts_world *world, struct member *one, struct member *two)
{
    print(world, "# the second member leaves");
    print(world, "B: left: %d", two->port.close(two->port.self, 10000));
    await_event(world, one);
    complete(one);
    await_event(world, one);
    complete(one);
    take(world, one, 0, false);
}

static void transactions(const struct facts_world *world, struct member *one, struct writer *writer)
{
    struct mr_error err = {0};
    struct writer first = {.good = 0}, second = {.good = 0};
    struct mr_transactions_port port, other;
    atomic_bool stopping = false;
    print(world, "# transactions");
    mr_wake_open(&first.wake, &err);
    mr_wake_open(&second.wake, &err);
    struct mr_transactions_user user = {.producer = user_of(&first), .stopping = &stopping};
    struct mr_transactions_opener opener = world->transactions(world->context, "facts-id");
    opener.open(opener.context, &user, &port, &err);
    const struct mr_kafka_commit both[] = {{0, 0, 1, "in a transaction"},
                                           {0, 1, 1, "in a transaction"}};
    struct mr_transaction_offsets offsets = {both, 2, one->port.membership(one->port.self)};
    print(world, "begin: %s", status_text(port.begin(port.self, &err)));
    first.port = port.producer(port.self);
    produce(&first.port, FACTS_OUT, 0, "d");
    produce(&first.port, FACTS_OUT, 0, "e");
    await_reports(world, &first);
    produce(&writer->port, FACTS_OUT, 0, "f");
    await_reports(world, writer);
    read_all(world, false, 3);
    read_all(world, true, 6);
    print(world, "commit: %s", status_text(port.commit(port.self, &offsets, &err)));
    port.free_membership(port.self, (struct mr_kafka_membership *)(uintptr_t)offsets.membership);
    read_all(world, false, 6);
    produce(&writer->port, FACTS_OUT, 0, "g");
    await_reports(world, writer);
    read_all(world, false, 7);
    print(world, "begin: %s", status_text(port.begin(port.self, &err)));
    produce(&first.port, FACTS_OUT, 0, "h");
    await_reports(world, &first);
    print(world, "abort: %s", status_text(port.abort(port.self, &err)));
    read_all(world, false, 7);
    read_all(world, true, 8);
    print(world, "# another producer with the same id");
    print(world, "begin: %s", status_text(port.begin(port.self, &err)));
    produce(&first.port, FACTS_OUT, 0, "i");
    await_reports(world, &first);
    struct mr_transactions_user rival = {.producer = user_of(&second), .stopping = &stopping};
    opener.open(opener.context, &rival, &other, &err);
    read_all(world, false, 7);
    offsets = (struct mr_transaction_offsets){0};
    print(world, "commit of the first: %s", status_text(port.commit(port.self, &offsets, &err)));
    print(world, "begin of the second: %s", status_text(other.begin(other.self, &err)));
    second.port = other.producer(other.self);
    produce(&second.port, FACTS_OUT, 0, "j");
    await_reports(world, &second);
    print(world, "commit of the second: %s", status_text(other.commit(other.self, &offsets, &err)));
    read_all(world, false, 8);
    port.close(port.self);
    other.close(other.self);
    mr_wake_close(&first.wake);
    mr_wake_close(&second.wake);
}

static void hear(const struct facts_world *world, struct member *one, const char *wanted)
{
    for (uint32_t waited = 0; waited < PATIENCE_MS; waited += TURN_MS) {
        const char *line = world->hear_victim(world->context);
        if (line && strcmp(line, wanted) == 0) {
            print(world, "victim: %s", line);
            return;
        }
        if (!line) world->pass(world->context, TURN_MS);
        if (poll_member(one)) {
            print_event(world, one);
            complete(one);
        }
    }
    print(world, "victim: does not say \"%s\"", wanted);
}

/* A zombie: the session of a stopped process expires, and the process commits after it continues.
 */
static void zombies(const struct facts_world *world, struct member *one)
{
    print(world, "# a member is stopped, goes on, and is killed");
    world->start_victim(world->context);
    hear(world, one, "assigned 1");
    await_nothing(world, one, 500);
    if (one->handling) complete(one);
    world->stop_victim(world->context);
    await_nothing(world, one, FACTS_SESSION_MS / 3);
    await_event(world, one);
    complete(one);
    await_event(world, one);
    complete(one);
    world->continue_victim(world->context);
    hear(world, one, "revoked lost 1");
    hear(world, one, "assigned 1");
    world->kill_victim(world->context);
    await_event(world, one);
    complete(one);
    await_event(world, one);
    complete(one);
}

void facts_run(const struct facts_world *world)
{
    struct writer writer;
    struct member one, two;
    open_writer(world, &writer);
    records_and_reports(world, &writer);
    one_member(world, &writer, &one);
    a_second_member(world, &one, &two);
    it_leaves(world, &one, &two);
    transactions(world, &one, &writer);
    zombies(world, &one);
    print(world, "A: left: %d", one.port.close(one.port.self, 10000));
    writer.port.close(writer.port.self);
    mr_wake_close(&writer.wake);
    mr_wake_close(&one.wake);
    mr_wake_close(&two.wake);
}

/* ---- the victim ---- */

bool facts_victim_open(struct facts_victim *victim, mr_kafka_consumer_open open, void *open_context,
                       const struct mr_kafka_options *kafka)
{
    struct mr_error err = {0};
    mr_wake_open(&victim->wake, &err);
    victim->topic = (struct mr_kafka_consumer_topic){FACTS_IN, 1};
    struct mr_kafka_consumer_options options = {.kafka = kafka,
                                                .wake = &victim->wake,
                                                .topics = &victim->topic,
                                                .topic_count = 1,
                                                .join_group = true};
    return open(open_context, &options, &victim->port, &err) == MR_OK;
}

void facts_victim_step(struct facts_victim *victim)
{
    static const char *const how[] = {"pause", "gone", "lost"};
    struct mr_kafka_event event;
    struct mr_error err;
    char line[64];
    victim->port.serve(victim->port.self, &err);
    if (!victim->port.next_event(victim->port.self, &event)) return;
    if (event.kind == MR_KAFKA_EVENT_COMMITTED) return;
    if (event.kind == MR_KAFKA_EVENT_ASSIGNED)
        snprintf(line, sizeof line, "assigned %zu", event.claim_count);
    else
        snprintf(line, sizeof line, "revoked %s %zu", how[event.how], event.claim_count);
    victim->port.complete_rebalance(victim->port.self);
    victim->print(victim->context, line);
}
