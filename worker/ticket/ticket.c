#include "worker/ticket/ticket.h"

#include "codec/check.h"
#include "codec/hash.h"
#include "worker/config/config.h"
#include "worker/ticket/messages.h"

#include <stdlib.h>
#include <string.h>

/* Headers that go back as they came (CONTRACT section 6). */
static const char *const echoed[] = {"kafka_correlationId", "traceparent", "tracestate", "baggage"};

/* CloudEvents in binary mode carry the trace context under these names (its distributed tracing
 * extension); it goes back under W3C's. */
static const struct {
    const char *name, *event_name;
} traced[] = {{"traceparent", "ce_traceparent"}, {"tracestate", "ce_tracestate"}};
#define ECHOED_COUNT (sizeof echoed / sizeof *echoed)
_Static_assert(ECHOED_COUNT <= MR_TICKET_ECHOES_MAX, "room for every echoed header");

static bool is_allowed(const struct mr_text_list *allowed, struct mr_text topic)
{
    for (size_t i = 0; allowed && i < allowed->count; i++) {
        const char *entry = allowed->values[i];
        size_t length = strlen(entry);
        bool prefix = length > 0 && entry[length - 1] == '*';
        if (prefix) length--;
        if (topic.length < length || (!prefix && topic.length != length)) continue;
        if (memcmp(topic.bytes, entry, length) == 0) return true;
    }
    return false;
}

/* The reply topic asked for, empty when there is none or it is not allowed. */
static struct mr_text reply_topic(const struct mr_kafka_record *record,
                                  const struct mr_text_list *allowed)
{
    const struct mr_kafka_header *header = mr_kafka_record_header(record, "kafka_replyTopic");
    if (!header || !header->value) return (struct mr_text){0};
    struct mr_text topic = {header->value, header->length};
    if (topic.length > 249 || memchr(topic.bytes, '\0', topic.length)) return (struct mr_text){0};
    return is_allowed(allowed, topic) ? topic : (struct mr_text){0};
}

/* Spring writes 4 bytes, most significant first. */
static int32_t reply_partition(const struct mr_kafka_record *record)
{
    const struct mr_kafka_header *header = mr_kafka_record_header(record, "kafka_replyPartition");
    if (!header || !header->value || header->length != 4) return -1;
    const unsigned char *bytes = header->value;
    uint32_t value =
        (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
    return value <= INT32_MAX ? (int32_t)value : -1;
}

static const struct mr_kafka_header *echo_of(const struct mr_kafka_record *record, const char *name)
{
    const struct mr_kafka_header *header = mr_kafka_record_header(record, name);
    for (size_t i = 0; !header && i < sizeof traced / sizeof *traced; i++)
        if (strcmp(traced[i].name, name) == 0)
            header = mr_kafka_record_header(record, traced[i].event_name);
    return header;
}

enum mr_status mr_ticket_create(struct mr_ticket **out, const struct mr_kafka_record *record,
                                const struct mr_text_list *allowed, struct mr_error *err)
{
    const struct mr_kafka_header *found[ECHOED_COUNT];
    struct mr_text topic = reply_topic(record, allowed);
    size_t bytes = topic.length + 1;
    *out = NULL;
    for (size_t i = 0; i < ECHOED_COUNT; i++) {
        found[i] = echo_of(record, echoed[i]);
        if (found[i]) bytes += found[i]->length;
    }
    struct mr_ticket *ticket = calloc(1, sizeof *ticket + bytes);
    if (!ticket) return mr_fail(err, MR_NOMEM, "no memory for a ticket");
    char *at = (char *)(ticket + 1);
    for (size_t i = 0; i < ECHOED_COUNT; i++) {
        if (!found[i]) continue;
        struct mr_kafka_header *echo = &ticket->echo[ticket->echo_count++];
        *echo = (struct mr_kafka_header){echoed[i], found[i]->value ? at : NULL, found[i]->length};
        if (found[i]->length > 0) memcpy(at, found[i]->value, found[i]->length);
        at += found[i]->length;
    }
    if (topic.length > 0) {
        memcpy(at, topic.bytes, topic.length);
        ticket->reply_topic = at;
    }
    ticket->reply_partition = reply_partition(record);
    ticket->partition = record->partition;
    ticket->offset = record->offset;
    atomic_init(&ticket->dropped, false);
    *out = ticket;
    return MR_OK;
}

void mr_ticket_destroy(struct mr_ticket *ticket)
{
    if (!ticket) return;
    mr_request_destroy(ticket->intake.request);
    mr_mail_free(ticket->publish.terminal);
    if (ticket->intake.refusal) mr_mail_free(&ticket->intake.refusal->mail);
    free(ticket->intake.kept);
    free(ticket);
}

/* ---- table: chained hash ---- */

struct mr_ticket_table {
    uint32_t count, count_max, mask;
    struct mr_ticket *buckets[];
};

static struct mr_ticket **bucket_of(const struct mr_ticket_table *table, struct mr_text id)
{
    uint64_t hash = mr_hash_bytes(MR_HASH_START, id.bytes, id.length);
    return (struct mr_ticket **)&table->buckets[hash & table->mask];
}

static struct mr_text id_of(const struct mr_ticket *ticket)
{
    return (struct mr_text){ticket->id, strlen(ticket->id)};
}

enum mr_status mr_ticket_table_create(struct mr_ticket_table **out, uint32_t count_max,
                                      struct mr_error *err)
{
    uint32_t buckets = 16;
    *out = NULL;
    while (buckets < count_max && buckets < 1u << 20)
        buckets *= 2;
    struct mr_ticket_table *table = calloc(1, sizeof *table + buckets * sizeof table->buckets[0]);
    if (!table) return mr_fail(err, MR_NOMEM, "no memory for %u tickets", count_max);
    table->count_max = count_max;
    table->mask = buckets - 1;
    *out = table;
    return MR_OK;
}

void mr_ticket_table_destroy(struct mr_ticket_table *table)
{
    if (!table) return;
    MR_ASSERT(table->count == 0);
    free(table);
}

void mr_ticket_table_add(struct mr_ticket_table *table, struct mr_ticket *ticket)
{
    MR_ASSERT(table->count < table->count_max);
    MR_ASSERT(!mr_ticket_table_find(table, id_of(ticket)));
    struct mr_ticket **bucket = bucket_of(table, id_of(ticket));
    ticket->intake.next = *bucket;
    *bucket = ticket;
    table->count++;
}

struct mr_ticket *mr_ticket_table_find(const struct mr_ticket_table *table, struct mr_text id)
{
    struct mr_ticket *ticket = *bucket_of(table, id);
    while (ticket && (strlen(ticket->id) != id.length || memcmp(ticket->id, id.bytes, id.length)))
        ticket = ticket->intake.next;
    return ticket;
}

void mr_ticket_table_remove(struct mr_ticket_table *table, struct mr_ticket *ticket)
{
    struct mr_ticket **link = bucket_of(table, id_of(ticket));
    while (*link && *link != ticket)
        link = &(*link)->intake.next;
    MR_ASSERT(*link == ticket);
    *link = ticket->intake.next;
    ticket->intake.next = NULL;
    table->count--;
}

uint32_t mr_ticket_table_count(const struct mr_ticket_table *table)
{
    return table->count;
}

void mr_ticket_table_each(struct mr_ticket_table *table,
                          void (*visit)(void *context, struct mr_ticket *ticket), void *context)
{
    for (uint32_t i = 0; i <= table->mask; i++)
        for (struct mr_ticket *ticket = table->buckets[i], *next; ticket; ticket = next) {
            next = ticket->intake.next;
            visit(context, ticket);
        }
}

void mr_ticket_table_check(const struct mr_ticket_table *table)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i <= table->mask; i++)
        for (const struct mr_ticket *ticket = table->buckets[i]; ticket;
             ticket = ticket->intake.next) {
            MR_ASSERT(bucket_of(table, id_of(ticket)) == &table->buckets[i]);
            count++;
        }
    MR_ASSERT(count == table->count && count <= table->count_max);
}
