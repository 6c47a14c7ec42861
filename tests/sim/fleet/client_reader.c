#include "codec/check.h"
#include "tests/sim/fleet/clients.h"

#include <string.h>

static bool is_gone(const struct sim_reader *reader)
{
    return reader->closed || reader->wire->machine->dead;
}

/* Signals the wake after the next fetch. A record that is written while a fetch is in flight
 * arrives with the next fetch, which signals the wake too. */
static void ring_later(struct broker *broker, struct sim_ring *ring,
                       void (*event)(struct broker *broker, void *context, uint64_t value),
                       void *context)
{
    ring->again = ring->pending;
    if (ring->pending) return;
    ring->pending = true;
    broker_schedule(broker, 2 * broker->options.latency_ns + broker_latency(broker), false, event,
                    context, 0);
}

static void on_arrival(struct broker *broker, void *context, uint64_t value)
{
    struct sim_reader *reader = context;
    (void)value;
    reader->ring.pending = false;
    if (is_gone(reader)) return;
    if (reader->wake) mr_wake_ring(reader->wake);
    if (reader->ring.again) ring_later(broker, &reader->ring, on_arrival, reader);
}

static void on_fetched(struct broker *broker, void *context, uint64_t value)
{
    struct sim_consumer *consumer = context;
    (void)value;
    consumer->ring.pending = false;
    if (consumer->closed || consumer->wire->machine->dead) return;
    mr_wake_ring(consumer->options.wake);
    if (consumer->ring.again) ring_later(broker, &consumer->ring, on_fetched, consumer);
}

void sim_clients_notify(struct broker *broker, uint32_t topic, int32_t partition)
{
    int index = broker_group_index(broker, topic, partition);
    for (struct sim_consumer *consumer = broker->consumers; consumer && index >= 0;
         consumer = consumer->next) {
        if (consumer->closed || consumer->wire->machine->dead) continue;
        if (consumer->owned >> index & 1) ring_later(broker, &consumer->ring, on_fetched, consumer);
    }
    for (struct sim_reader *reader = broker->readers; reader; reader = reader->next)
        if (!is_gone(reader) && reader->wanted[topic])
            ring_later(broker, &reader->ring, on_arrival, reader);
}

/* ---- the port ---- */

static bool port_take(void *self, struct mr_kafka_record *record)
{
    struct sim_reader *reader = self;
    struct broker *broker = reader->wire->broker;
    if (is_gone(reader) || platform_ns() < reader->ready_ns) return false;
    uint64_t arrived_ns = platform_ns() - broker->options.latency_ns;
    for (uint32_t t = 0; t < broker->topic_count; t++)
        for (uint32_t p = 0; reader->wanted[t] && p < broker->topics[t].partition_count; p++) {
            const struct broker_log *log = &broker->topics[t].logs[p];
            int64_t *position = &reader->positions[t][p];
            const struct broker_record *found =
                broker_read(log, position, reader->committed_only, arrived_ns);
            int64_t limit = reader->committed_only ? broker_stable(log) : log->end;
            bool at_end = reader->until_end ? *position >= limit : *position >= reader->ends[t][p];
            if (at_end && !broker_is_down(broker) && (!found || !reader->until_end))
                reader->ends[t][p] = -1;
            if (!found) continue;
            *record = found->record;
            return true;
        }
    return false;
}

static bool port_is_behind(void *self)
{
    const struct sim_reader *reader = self;
    const struct broker *broker = reader->wire->broker;
    if (is_gone(reader)) return false;
    for (uint32_t t = 0; t < broker->topic_count; t++)
        for (uint32_t p = 0; reader->wanted[t] && p < broker->topics[t].partition_count; p++)
            if (reader->ends[t][p] >= 0) return true;
    return false;
}

static enum mr_status port_ends(void *self, const char *topic, int32_t partition,
                                uint32_t timeout_ms, struct mr_kafka_ends *ends,
                                struct mr_error *err)
{
    const struct sim_reader *reader = self;
    const struct broker *broker = reader->wire->broker;
    (void)timeout_ms;
    if (is_gone(reader) || broker_is_down(broker))
        return mr_fail(err, MR_UNREACHABLE, "the broker is down");
    const struct broker_log *log =
        &broker->topics[broker_find_topic(broker, topic)].logs[partition];
    *ends = (struct mr_kafka_ends){log->begin, log->end};
    return MR_OK;
}

static void port_close(void *self)
{
    ((struct sim_reader *)self)->closed = true;
}

static int64_t start_of(const struct broker_log *log, const struct mr_kafka_reader_options *options)
{
    int64_t start;
    switch (options->from) {
    case MR_KAFKA_FROM_BEGINNING:
        return log->begin;
    case MR_KAFKA_FROM_TIME:
        start = broker_find_time(log, options->since_ms);
        break;
    case MR_KAFKA_FROM_AGE:
        start = broker_find_time(log, mr_clock_unix_ms() - (int64_t)options->age_ms);
        break;
    default:
        start = -1;
    }
    return start >= 0 ? start : log->end;
}

enum mr_status sim_open_reader(void *context, const struct mr_kafka_reader_options *options,
                               struct mr_kafka_reader_port *out, struct mr_error *err)
{
    struct sim_wire *wire = context;
    struct broker *broker = wire->broker;
    if (wire->machine->dead || broker_is_down(broker))
        return mr_fail(err, MR_UNREACHABLE, "the broker is down");
    struct sim_reader *reader = broker_memory(broker, sizeof *reader);
    *reader = (struct sim_reader){.next = broker->readers,
                                  .wire = wire,
                                  .wake = options->wake,
                                  .until_end = options->until_end,
                                  .committed_only = !options->uncommitted,
                                  .ready_ns = platform_ns() + 2 * broker_latency(broker)};
    broker->readers = reader;
    for (size_t i = 0; i < options->topic_count; i++) {
        size_t t = broker_find_topic(broker, options->topics[i]);
        if (t == SIZE_MAX) continue;
        reader->wanted[t] = true;
        for (uint32_t p = 0; p < broker->topics[t].partition_count; p++) {
            const struct broker_log *log = &broker->topics[t].logs[p];
            int64_t start = start_of(log, options);
            reader->positions[t][p] = start;
            reader->ends[t][p] = start < log->end ? log->end : -1;
        }
    }
    reader->ring.pending = true;
    broker_schedule(broker, reader->ready_ns - platform_ns(), true, on_arrival, reader, 0);
    *out = (struct mr_kafka_reader_port){reader, port_take, port_is_behind, port_ends, port_close};
    return MR_OK;
}
