#include "worker/kafka/turns.h"

#include "codec/check.h"

/* Adds the member at the end of the ring, in front of its first one. */
static void append(struct mr_turn **ring, struct mr_turn *turn)
{
    if (!*ring) {
        turn->next = turn->previous = turn;
        *ring = turn;
        return;
    }
    turn->next = *ring;
    turn->previous = (*ring)->previous;
    turn->previous->next = turn;
    turn->next->previous = turn;
}

static void take_out(struct mr_turn **ring, struct mr_turn *turn)
{
    if (*ring == turn) *ring = turn->next == turn ? NULL : turn->next;
    turn->next->previous = turn->previous;
    turn->previous->next = turn->next;
}

/* A class without ready members keeps no credit, so it cannot save up turns. */
static void leave_ready(struct mr_turn_class *members, struct mr_turn *turn)
{
    take_out(&members->ready, turn);
    if (!members->ready) members->credit = 0;
}

struct mr_turn *mr_turns_next(const struct mr_turns *turns)
{
    const struct mr_turn_class *best = NULL;
    for (size_t i = 0; i < turns->class_count; i++) {
        const struct mr_turn_class *members = &turns->classes[i];
        if (members->ready && (!best || members->credit > best->credit)) best = members;
    }
    return best ? best->ready : NULL;
}

void mr_turns_served(struct mr_turns *turns, struct mr_turn *turn)
{
    int64_t sum = 0;
    struct mr_turn_class *own = &turns->classes[turn->class_index];
    MR_ASSERT(turn->state == MR_TURN_READY);
    for (size_t i = 0; i < turns->class_count; i++) {
        struct mr_turn_class *members = &turns->classes[i];
        if (!members->ready) continue;
        members->credit += members->weight;
        sum += members->weight;
    }
    own->credit -= sum;
    take_out(&own->ready, turn);
    append(&own->ready, turn);
}

void mr_turns_ready(struct mr_turns *turns, struct mr_turn *turn)
{
    MR_ASSERT(turn->class_index < turns->class_count);
    if (turn->state != MR_TURN_IDLE) return;
    turn->state = MR_TURN_READY;
    append(&turns->classes[turn->class_index].ready, turn);
}

void mr_turns_block(struct mr_turns *turns, struct mr_turn *turn)
{
    struct mr_turn_class *members = &turns->classes[turn->class_index];
    MR_ASSERT(turn->state == MR_TURN_READY);
    leave_ready(members, turn);
    turn->state = MR_TURN_BLOCKED;
    append(&members->blocked, turn);
}

void mr_turns_idle(struct mr_turns *turns, struct mr_turn *turn)
{
    struct mr_turn_class *members = &turns->classes[turn->class_index];
    if (turn->state == MR_TURN_READY) leave_ready(members, turn);
    if (turn->state == MR_TURN_BLOCKED) take_out(&members->blocked, turn);
    turn->state = MR_TURN_IDLE;
}

void mr_turns_unblock(struct mr_turns *turns)
{
    for (size_t i = 0; i < turns->class_count; i++) {
        struct mr_turn_class *members = &turns->classes[i];
        for (struct mr_turn *turn; (turn = members->blocked) != NULL;) {
            take_out(&members->blocked, turn);
            turn->state = MR_TURN_READY;
            append(&members->ready, turn);
        }
    }
}
