#include "worker/intake/cancels.h"

#include "worker/intake/envelope.h"

/* Cancels the tenant's requests with this id. If there are none, remembers the id, so that a
 * request that arrives later is cancelled. */
static void cancel_of_tenant(struct mr_admission *admission, uint32_t tenant_index,
                             const struct mr_kafka_record *record, const struct mr_time *now)
{
    struct mr_error err;
    struct mr_flight *flight = admission->flight;
    struct mr_ticket *ticket = mr_ticket_table_find(flight->submitted, tenant_index, record->key);
    bool found = ticket && !atomic_load(&ticket->dropped);
    if (found) {
        admission->stats.cancelled++;
        mr_engine_link_cancel(&admission->engine, ticket->tenant_index, mr_ticket_id(ticket));
    }
    if (admission->draining) return; /* publish may have ended, so nothing can be refused */
    mr_fail(&err, MR_CANCELLED, "cancelled before it started");
    while ((ticket = mr_flight_unpark(flight, tenant_index, record->key)) != NULL) {
        found = true;
        admission->stats.cancelled++;
        mr_admission_refuse(admission, ticket, &err);
    }
    if (!found)
        mr_cancel_memory_add(admission->cancelled, tenant_index, record->key, record->timestamp_ms,
                             now->ns);
}

void mr_cancels_apply(struct mr_admission *admission, const struct mr_kafka_record *record,
                      const struct mr_time *now)
{
    const struct mr_config *config = admission->config;
    struct mr_text tenant = mr_envelope_tenant(record);
    /* a cancel record without a value is a tombstone and cancels nothing */
    if (!record->value.bytes || !record->key.bytes) return;
    mr_metrics_add(admission->metrics, MR_COUNTER_CANCELS, 1);
    uint64_t done = 0; /* bit i: tenant i, because a tenant may have several topics */
    for (size_t i = 0; i < config->request_topic_count; i++) {
        const struct mr_request_topic *topic = &config->request_topics[i];
        if (done >> topic->tenant_index & 1) continue;
        done |= (uint64_t)1 << topic->tenant_index;
        if (!tenant.bytes || mr_text_is(tenant, topic->tenant))
            cancel_of_tenant(admission, topic->tenant_index, record, now);
    }
}
