#include "worker/publish/failing_replies.h"

#include <stdio.h>
#include <string.h>

/* The index of the place, or failing->count if it is not in the list. */
static size_t find(const struct mr_failing_replies *failing, const char *topic, int32_t partition)
{
    size_t i = 0;
    while (i < failing->count && (failing->places[i].partition != partition ||
                                  strcmp(failing->places[i].topic, topic) != 0))
        i++;
    return i;
}

/* The next free entry, or the entry of the place that failed longest ago. */
static struct mr_failing_place *make_room(struct mr_failing_replies *failing)
{
    struct mr_failing_place *oldest = failing->places;
    if (failing->count < MR_FAILING_PLACES_MAX) return &failing->places[failing->count++];
    for (size_t i = 1; i < failing->count; i++)
        if (failing->places[i].until_ns < oldest->until_ns) oldest = &failing->places[i];
    return oldest;
}

bool mr_failing_replies_add(struct mr_failing_replies *failing, const char *topic,
                            int32_t partition, uint64_t began_ns, uint64_t now_ns)
{
    const size_t index = find(failing, topic, partition);
    const bool known = index < failing->count;
    struct mr_failing_place *place = known ? &failing->places[index] : make_room(failing);
    if (!known || now_ns > place->until_ns + MR_FAILING_FORGET_NS) {
        *place = (struct mr_failing_place){.partition = partition, .until_ns = began_ns};
        snprintf(place->topic, sizeof place->topic, "%s", topic);
    }
    const bool long_pause = began_ns > place->until_ns + MR_FAILING_PAUSE_NS;
    const uint64_t from_ns = long_pause ? began_ns - MR_FAILING_PAUSE_NS : place->until_ns;
    if (now_ns > from_ns) place->failed_ns += now_ns - from_ns;
    const bool drop = place->failed_ns >= MR_FAILING_REPLY_NS;
    place->until_ns = drop ? now_ns + MR_FAILING_HOLD_NS : now_ns;
    return drop;
}

bool mr_failing_replies_has(const struct mr_failing_replies *failing, const char *topic,
                            int32_t partition, uint64_t now_ns)
{
    const size_t index = find(failing, topic, partition);
    return index < failing->count && now_ns < failing->places[index].until_ns;
}

void mr_failing_replies_remove(struct mr_failing_replies *failing, const char *topic,
                               int32_t partition)
{
    const size_t index = find(failing, topic, partition);
    if (index < failing->count) failing->places[index] = failing->places[--failing->count];
}
