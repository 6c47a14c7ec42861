#include "tests/fakes/fake_remote.h"

#include "codec/check.h"

#include <stdlib.h>
#include <string.h>

struct fake_remote_entry {
    unsigned char key[MR_HASH_BYTES];
    uint32_t token_count;
    size_t length;
    void *bytes;
};

/* A pending answer. For an item of a load it also has the place for the item's bytes. */
struct fake_remote_event {
    uint64_t due_ns;
    struct mr_remote_answer answer;
    struct mr_remote_value item;
    bool lost, skipped, dropped;
};

static bool chance(struct fake_remote *remote, uint32_t percent)
{
    remote->random = remote->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(remote->random >> 33) % 100 < percent;
}

static struct fake_remote_entry *find(const struct fake_remote *remote,
                                      const struct mr_remote_value *item)
{
    remote = remote->home;
    for (uint32_t i = 0; i < remote->entry_count; i++) {
        struct fake_remote_entry *entry = &remote->entries[i];
        if (memcmp(entry->key, item->key, MR_HASH_BYTES) == 0 && entry->length == item->length &&
            entry->token_count == item->token_count)
            return entry;
    }
    return NULL;
}

static uint64_t delay(struct fake_remote *remote, size_t bytes)
{
    uint64_t now_ns = *remote->now_ns;
    uint64_t begin_ns = remote->busy_until_ns > now_ns ? remote->busy_until_ns : now_ns;
    remote->busy_until_ns =
        begin_ns + (uint64_t)((double)bytes / remote->options.bytes_per_second * 1e9);
    return remote->busy_until_ns + remote->options.latency_ns;
}

static struct fake_remote_event *add_event(struct fake_remote *remote, uint64_t ticket,
                                           enum mr_remote_kind work, uint64_t due_ns)
{
    MR_ASSERT(remote->event_count < FAKE_REMOTE_EVENTS_MAX);
    struct fake_remote_event *event = &remote->events[remote->event_count++];
    *event = (struct fake_remote_event){.due_ns = due_ns, .answer = {.id = ticket, .kind = work}};
    return event;
}

static bool lookup(void *context, const struct mr_remote_operation *request)
{
    struct fake_remote *remote = context;
    remote->lookups++;
    if (remote->options.down || chance(remote, remote->options.refuse_percent)) return false;
    uint32_t count = 0;
    while (count < request->count && find(remote, &request->values[count]) != NULL)
        count++;
    if (chance(remote, remote->options.lie_percent)) count = request->count;
    uint64_t latency_ns = remote->options.latency_ns;
    if (chance(remote, remote->options.late_percent)) latency_ns *= 100;
    struct fake_remote_event *event =
        add_event(remote, request->id, MR_REMOTE_LOOKUP, *remote->now_ns + latency_ns);
    event->answer.final = true;
    event->answer.count = count;
    return true;
}

static bool load(void *context, const struct mr_remote_operation *request)
{
    struct fake_remote *remote = context;
    remote->loads++;
    if (remote->options.down || chance(remote, remote->options.refuse_percent)) return false;
    uint64_t due_ns = *remote->now_ns + remote->options.latency_ns;
    for (uint32_t i = request->count; i-- > 0;) {
        due_ns = delay(remote, request->values[i].length);
        if (chance(remote, remote->options.late_percent))
            due_ns += 100 * remote->options.latency_ns;
        struct fake_remote_event *event = add_event(remote, request->id, MR_REMOTE_LOAD, due_ns);
        event->answer.index = i;
        event->item = request->values[i];
        event->lost = chance(remote, remote->options.lose_percent);
    }
    add_event(remote, request->id, MR_REMOTE_LOAD, due_ns)->answer.final = true;
    return true;
}

static void store_item(struct fake_remote *remote, const struct mr_remote_value *item)
{
    uint32_t most =
        remote->options.items_max > 0 ? remote->options.items_max : FAKE_REMOTE_ITEMS_MAX;
    if (find(remote, item) != NULL) return;
    remote->items_stored++;
    remote = remote->home;
    if (remote->entry_count == most) {
        free(remote->entries[0].bytes);
        memmove(remote->entries, remote->entries + 1,
                --remote->entry_count * sizeof *remote->entries);
    }
    struct fake_remote_entry *entry = &remote->entries[remote->entry_count++];
    memcpy(entry->key, item->key, MR_HASH_BYTES);
    entry->token_count = item->token_count;
    entry->length = item->length;
    entry->bytes = malloc(item->length);
    MR_ASSERT(entry->bytes != NULL);
    memcpy(entry->bytes, item->bytes, item->length);
}

static uint32_t store(void *context, const struct mr_remote_operation *request)
{
    struct fake_remote *remote = context;
    remote->stores++;
    if (remote->options.down || chance(remote, remote->options.refuse_percent)) return 0;
    uint64_t due_ns = 0;
    uint32_t count = request->count, left = remote->options.takes_max - remote->taken;
    if (remote->options.takes_max > 0 && count > left) count = left;
    if (count == 0) return 0;
    remote->taken += count;
    for (uint32_t i = 0; i < count; i++) {
        store_item(remote, &request->values[i]);
        due_ns = delay(remote, request->values[i].length);
        add_event(remote, request->id, MR_REMOTE_STORE, due_ns)->item = request->values[i];
    }
    struct fake_remote_event *event = add_event(remote, request->id, MR_REMOTE_STORE, due_ns);
    event->answer.final = true;
    event->answer.count = count;
    return count;
}

/* Asserts that bytes being stored have not changed. */
static void check_unchanged(const struct fake_remote *remote, const struct fake_remote_event *event)
{
    const struct fake_remote_entry *entry = find(remote, &event->item);
    if (entry != NULL) MR_ASSERT(memcmp(entry->bytes, event->item.bytes, entry->length) == 0);
}

/* Delivers an item, or garbage for one that is lost, skipped or abandoned. */
static bool deliver(struct fake_remote *remote, struct fake_remote_event *event)
{
    bool comes = !event->lost && !event->skipped && !event->dropped;
    const struct fake_remote_entry *entry = comes ? find(remote, &event->item) : NULL;
    if (entry == NULL) {
        memset(event->item.bytes, 0x5a, event->item.length);
        return false;
    }
    memcpy(event->item.bytes, entry->bytes, entry->length);
    remote->items_loaded++;
    return true;
}

static bool final_waits(const struct fake_remote *remote, const struct fake_remote_event *event)
{
    for (uint32_t i = 0; event->answer.final && i < remote->event_count; i++) {
        const struct fake_remote_event *other = &remote->events[i];
        if (!other->answer.final && other->answer.id == event->answer.id && !other->dropped)
            return true;
    }
    return false;
}

static bool poll(void *context, struct mr_remote_answer *answer)
{
    struct fake_remote *remote = context;
    for (uint32_t i = 0; i < remote->event_count;) {
        struct fake_remote_event event = remote->events[i];
        if (!event.dropped && (event.due_ns > *remote->now_ns || final_waits(remote, &event))) {
            i++;
            continue;
        }
        memmove(remote->events + i, remote->events + i + 1,
                (--remote->event_count - i) * sizeof *remote->events);
        bool load = event.answer.kind == MR_REMOTE_LOAD && !event.answer.final;
        if (load) event.answer.loaded = deliver(remote, &event);
        if (event.dropped) continue;
        if (!event.answer.final && event.answer.kind == MR_REMOTE_STORE) {
            check_unchanged(remote, &event);
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
    struct fake_remote *remote = context;
    uint64_t soon_ns = *remote->now_ns + remote->options.latency_ns / 10;
    for (uint32_t i = 0; i < remote->event_count; i++) {
        struct fake_remote_event *event = &remote->events[i];
        if (event->answer.id != ticket || event->answer.final || event->answer.index >= index)
            continue;
        if (event->due_ns <= soon_ns) continue;
        event->skipped = true;
        event->due_ns = soon_ns;
    }
}

static void abandon(void *context, uint64_t ticket)
{
    struct fake_remote *remote = context;
    uint64_t soon_ns = *remote->now_ns + remote->options.latency_ns / 10;
    for (uint32_t i = 0; i < remote->event_count; i++) {
        struct fake_remote_event *event = &remote->events[i];
        if (event->answer.id != ticket) continue;
        event->dropped = !event->answer.final;
        if (event->answer.kind == MR_REMOTE_STORE) event->answer.count = 0;
        if (event->due_ns > soon_ns) event->due_ns = soon_ns;
    }
}

static struct mr_remote_rates rates(void *context)
{
    const struct fake_remote *remote = context;
    return (struct mr_remote_rates){
        .up = !remote->options.down,
        .bytes_per_second = remote->options.unmeasured ? 0.0 : remote->options.bytes_per_second,
        .round_trip_ns = remote->options.latency_ns,
        .received_ns = remote->stalled_ns > 0 ? remote->stalled_ns : *remote->now_ns};
}

struct fake_remote *fake_remote_create(const struct fake_remote_options *options,
                                       struct fake_remote *peer)
{
    struct fake_remote *remote = calloc(1, sizeof *remote);
    MR_ASSERT(remote != NULL);
    remote->options = *options;
    remote->home = peer == NULL ? remote : peer->home;
    if (!(remote->options.bytes_per_second > 0.0)) remote->options.bytes_per_second = 1e9;
    remote->entries = calloc(FAKE_REMOTE_ITEMS_MAX, sizeof *remote->entries);
    remote->events = calloc(FAKE_REMOTE_EVENTS_MAX, sizeof *remote->events);
    MR_ASSERT(remote->entries != NULL && remote->events != NULL);
    remote->random = options->seed * 0x9e3779b97f4a7c15u + 1;
    remote->port = (struct mr_remote_cache){.context = remote,
                                            .lookup = lookup,
                                            .load = load,
                                            .skip = skip,
                                            .store = store,
                                            .poll = poll,
                                            .cancel = abandon,
                                            .rates = rates};
    return remote;
}

void fake_remote_cut(struct fake_remote *remote)
{
    for (uint32_t i = 0; i < remote->event_count; i++) {
        if (remote->events[i].answer.kind != MR_REMOTE_LOAD) continue;
        remote->events[i].due_ns = *remote->now_ns;
        remote->events[i].lost = true;
    }
}

void fake_remote_stall(struct fake_remote *remote)
{
    remote->stalled_ns = *remote->now_ns;
    for (uint32_t i = 0; i < remote->event_count; i++)
        if (remote->events[i].answer.kind == MR_REMOTE_LOAD) remote->events[i].due_ns = UINT64_MAX;
}

void fake_remote_deliver_now(struct fake_remote *remote)
{
    remote->stalled_ns = 0;
    for (uint32_t i = 0; i < remote->event_count; i++)
        remote->events[i].due_ns = *remote->now_ns;
}

void fake_remote_flush(struct fake_remote *remote)
{
    while (remote->entry_count > 0)
        free(remote->entries[--remote->entry_count].bytes);
}

void fake_remote_destroy(struct fake_remote *remote)
{
    if (remote == NULL) return;
    fake_remote_flush(remote);
    free(remote->events);
    free(remote->entries);
    free(remote);
}

const struct mr_remote_cache *fake_remote_port(struct fake_remote *remote)
{
    return &remote->port;
}

void fake_remote_set_clock(struct fake_remote *remote, const uint64_t *now_ns)
{
    remote->now_ns = now_ns;
}

uint64_t fake_remote_next_ns(const struct fake_remote *remote)
{
    uint64_t next_ns = UINT64_MAX;
    for (uint32_t i = 0; i < remote->event_count; i++)
        if (remote->events[i].due_ns < next_ns) next_ns = remote->events[i].due_ns;
    return next_ns;
}
