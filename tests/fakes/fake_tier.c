#include "tests/fakes/fake_tier.h"

#include "codec/check.h"

#include <stdlib.h>
#include <string.h>

struct fake_tier_entry {
    unsigned char key[MR_HASH_BYTES];
    uint32_t token_count;
    size_t length;
    void *bytes;
};

/* A pending answer. For an item of a load it also has the place for the item's bytes. */
struct fake_tier_event {
    uint64_t due_ns;
    struct mr_remote_answer answer;
    struct mr_remote_value item;
    bool lost, skipped, dropped;
};

static bool chance(struct fake_tier *tier, uint32_t percent)
{
    tier->random = tier->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(tier->random >> 33) % 100 < percent;
}

static struct fake_tier_entry *find(const struct fake_tier *tier,
                                    const struct mr_remote_value *item)
{
    tier = tier->home;
    for (uint32_t i = 0; i < tier->entry_count; i++) {
        struct fake_tier_entry *entry = &tier->entries[i];
        if (memcmp(entry->key, item->key, MR_HASH_BYTES) == 0 && entry->length == item->length &&
            entry->token_count == item->token_count)
            return entry;
    }
    return NULL;
}

static uint64_t delay(struct fake_tier *tier, size_t bytes)
{
    uint64_t now_ns = *tier->now_ns;
    uint64_t begin_ns = tier->busy_until_ns > now_ns ? tier->busy_until_ns : now_ns;
    tier->busy_until_ns =
        begin_ns + (uint64_t)((double)bytes / tier->options.bytes_per_second * 1e9);
    return tier->busy_until_ns + tier->options.latency_ns;
}

static struct fake_tier_event *add_event(struct fake_tier *tier, uint64_t ticket,
                                         enum mr_remote_kind work, uint64_t due_ns)
{
    MR_ASSERT(tier->event_count < FAKE_TIER_EVENTS_MAX);
    struct fake_tier_event *event = &tier->events[tier->event_count++];
    *event = (struct fake_tier_event){.due_ns = due_ns, .answer = {.id = ticket, .kind = work}};
    return event;
}

static bool lookup(void *context, const struct mr_remote_operation *request)
{
    struct fake_tier *tier = context;
    tier->lookups++;
    if (tier->options.down || chance(tier, tier->options.refuse_percent)) return false;
    uint32_t count = 0;
    while (count < request->count && find(tier, &request->values[count]) != NULL)
        count++;
    if (chance(tier, tier->options.lie_percent)) count = request->count;
    uint64_t latency_ns = tier->options.latency_ns;
    if (chance(tier, tier->options.late_percent)) latency_ns *= 100;
    struct fake_tier_event *event =
        add_event(tier, request->id, MR_REMOTE_LOOKUP, *tier->now_ns + latency_ns);
    event->answer.final = true;
    event->answer.count = count;
    return true;
}

static bool load(void *context, const struct mr_remote_operation *request)
{
    struct fake_tier *tier = context;
    tier->loads++;
    if (tier->options.down || chance(tier, tier->options.refuse_percent)) return false;
    uint64_t due_ns = *tier->now_ns + tier->options.latency_ns;
    for (uint32_t i = request->count; i-- > 0;) {
        due_ns = delay(tier, request->values[i].length);
        if (chance(tier, tier->options.late_percent)) due_ns += 100 * tier->options.latency_ns;
        struct fake_tier_event *event = add_event(tier, request->id, MR_REMOTE_LOAD, due_ns);
        event->answer.index = i;
        event->item = request->values[i];
        event->lost = chance(tier, tier->options.lose_percent);
    }
    add_event(tier, request->id, MR_REMOTE_LOAD, due_ns)->answer.final = true;
    return true;
}

static void store_item(struct fake_tier *tier, const struct mr_remote_value *item)
{
    uint32_t most = tier->options.items_max > 0 ? tier->options.items_max : FAKE_TIER_ITEMS_MAX;
    if (find(tier, item) != NULL) return;
    tier->items_stored++;
    tier = tier->home;
    if (tier->entry_count == most) {
        free(tier->entries[0].bytes);
        memmove(tier->entries, tier->entries + 1, --tier->entry_count * sizeof *tier->entries);
    }
    struct fake_tier_entry *entry = &tier->entries[tier->entry_count++];
    memcpy(entry->key, item->key, MR_HASH_BYTES);
    entry->token_count = item->token_count;
    entry->length = item->length;
    entry->bytes = malloc(item->length);
    MR_ASSERT(entry->bytes != NULL);
    memcpy(entry->bytes, item->bytes, item->length);
}

static uint32_t store(void *context, const struct mr_remote_operation *request)
{
    struct fake_tier *tier = context;
    tier->stores++;
    if (tier->options.down || chance(tier, tier->options.refuse_percent)) return 0;
    uint64_t due_ns = 0;
    uint32_t count = request->count, left = tier->options.takes_max - tier->taken;
    if (tier->options.takes_max > 0 && count > left) count = left;
    if (count == 0) return 0;
    tier->taken += count;
    for (uint32_t i = 0; i < count; i++) {
        store_item(tier, &request->values[i]);
        due_ns = delay(tier, request->values[i].length);
        add_event(tier, request->id, MR_REMOTE_STORE, due_ns)->item = request->values[i];
    }
    struct fake_tier_event *event = add_event(tier, request->id, MR_REMOTE_STORE, due_ns);
    event->answer.final = true;
    event->answer.count = count;
    return count;
}

/* Asserts that bytes being stored have not changed. */
static void check_unchanged(const struct fake_tier *tier, const struct fake_tier_event *event)
{
    const struct fake_tier_entry *entry = find(tier, &event->item);
    if (entry != NULL) MR_ASSERT(memcmp(entry->bytes, event->item.bytes, entry->length) == 0);
}

/* Delivers an item, or garbage for one that is lost, skipped or abandoned. */
static bool deliver(struct fake_tier *tier, struct fake_tier_event *event)
{
    bool comes = !event->lost && !event->skipped && !event->dropped;
    const struct fake_tier_entry *entry = comes ? find(tier, &event->item) : NULL;
    if (entry == NULL) {
        memset(event->item.bytes, 0x5a, event->item.length);
        return false;
    }
    memcpy(event->item.bytes, entry->bytes, entry->length);
    tier->items_loaded++;
    return true;
}

static bool final_waits(const struct fake_tier *tier, const struct fake_tier_event *event)
{
    for (uint32_t i = 0; event->answer.final && i < tier->event_count; i++) {
        const struct fake_tier_event *other = &tier->events[i];
        if (!other->answer.final && other->answer.id == event->answer.id && !other->dropped)
            return true;
    }
    return false;
}

static bool poll(void *context, struct mr_remote_answer *answer)
{
    struct fake_tier *tier = context;
    for (uint32_t i = 0; i < tier->event_count;) {
        struct fake_tier_event event = tier->events[i];
        if (!event.dropped && (event.due_ns > *tier->now_ns || final_waits(tier, &event))) {
            i++;
            continue;
        }
        memmove(tier->events + i, tier->events + i + 1,
                (--tier->event_count - i) * sizeof *tier->events);
        bool load = event.answer.kind == MR_REMOTE_LOAD && !event.answer.final;
        if (load) event.answer.loaded = deliver(tier, &event);
        if (event.dropped) continue;
        if (!event.answer.final && event.answer.kind == MR_REMOTE_STORE) {
            check_unchanged(tier, &event);
            continue;
        }
        *answer = event.answer;
        return true;
    }
    return false;
}

/* Skipped items are reported a moment later. */
static void skip(void *context, uint64_t ticket, uint32_t index)
{
    struct fake_tier *tier = context;
    uint64_t soon_ns = *tier->now_ns + tier->options.latency_ns / 10;
    for (uint32_t i = 0; i < tier->event_count; i++) {
        struct fake_tier_event *event = &tier->events[i];
        if (event->answer.id != ticket || event->answer.final || event->answer.index >= index)
            continue;
        if (event->due_ns <= soon_ns) continue;
        event->skipped = true;
        event->due_ns = soon_ns;
    }
}

static void abandon(void *context, uint64_t ticket)
{
    struct fake_tier *tier = context;
    uint64_t soon_ns = *tier->now_ns + tier->options.latency_ns / 10;
    for (uint32_t i = 0; i < tier->event_count; i++) {
        struct fake_tier_event *event = &tier->events[i];
        if (event->answer.id != ticket) continue;
        event->dropped = !event->answer.final;
        if (event->answer.kind == MR_REMOTE_STORE) event->answer.count = 0;
        if (event->due_ns > soon_ns) event->due_ns = soon_ns;
    }
}

static struct mr_remote_rates rates(void *context)
{
    const struct fake_tier *tier = context;
    return (struct mr_remote_rates){
        .up = !tier->options.down,
        .bytes_per_second = tier->options.unmeasured ? 0.0 : tier->options.bytes_per_second,
        .round_trip_ns = tier->options.latency_ns,
        .received_ns = tier->stalled_ns > 0 ? tier->stalled_ns : *tier->now_ns};
}

struct fake_tier *fake_tier_create(const struct fake_tier_options *options, struct fake_tier *peer)
{
    struct fake_tier *tier = calloc(1, sizeof *tier);
    MR_ASSERT(tier != NULL);
    tier->options = *options;
    tier->home = peer == NULL ? tier : peer->home;
    if (!(tier->options.bytes_per_second > 0.0)) tier->options.bytes_per_second = 1e9;
    tier->entries = calloc(FAKE_TIER_ITEMS_MAX, sizeof *tier->entries);
    tier->events = calloc(FAKE_TIER_EVENTS_MAX, sizeof *tier->events);
    MR_ASSERT(tier->entries != NULL && tier->events != NULL);
    tier->random = options->seed * 0x9e3779b97f4a7c15u + 1;
    tier->port = (struct mr_remote_cache){.context = tier,
                                          .lookup = lookup,
                                          .load = load,
                                          .skip = skip,
                                          .store = store,
                                          .poll = poll,
                                          .cancel = abandon,
                                          .rates = rates};
    return tier;
}

void fake_tier_cut(struct fake_tier *tier)
{
    for (uint32_t i = 0; i < tier->event_count; i++) {
        if (tier->events[i].answer.kind != MR_REMOTE_LOAD) continue;
        tier->events[i].due_ns = *tier->now_ns;
        tier->events[i].lost = true;
    }
}

void fake_tier_stall(struct fake_tier *tier)
{
    tier->stalled_ns = *tier->now_ns;
    for (uint32_t i = 0; i < tier->event_count; i++)
        if (tier->events[i].answer.kind == MR_REMOTE_LOAD) tier->events[i].due_ns = UINT64_MAX;
}

void fake_tier_deliver_now(struct fake_tier *tier)
{
    tier->stalled_ns = 0;
    for (uint32_t i = 0; i < tier->event_count; i++)
        tier->events[i].due_ns = *tier->now_ns;
}

void fake_tier_flush(struct fake_tier *tier)
{
    while (tier->entry_count > 0)
        free(tier->entries[--tier->entry_count].bytes);
}

void fake_tier_destroy(struct fake_tier *tier)
{
    if (tier == NULL) return;
    fake_tier_flush(tier);
    free(tier->events);
    free(tier->entries);
    free(tier);
}

const struct mr_remote_cache *fake_tier_port(struct fake_tier *tier)
{
    return &tier->port;
}

void fake_tier_set_clock(struct fake_tier *tier, const uint64_t *now_ns)
{
    tier->now_ns = now_ns;
}

uint64_t fake_tier_next_ns(const struct fake_tier *tier)
{
    uint64_t next_ns = UINT64_MAX;
    for (uint32_t i = 0; i < tier->event_count; i++)
        if (tier->events[i].due_ns < next_ns) next_ns = tier->events[i].due_ns;
    return next_ns;
}
