/* turns - schedules many members of a few classes. Classes take turns by smooth weighted round
 * robin, independent of their number of members; the members of a class take turns one after the
 * other.
 *
 * A member is IDLE (has no work), READY (may have work) or BLOCKED (may have work, but cannot be
 * served now). The time of each function is constant, except that of _unblock, which grows with the
 * number of blocked members.
 *
 * Owner: one thread. Memory: members are the caller's. Errors: none. */
#ifndef MR_WORKER_KAFKA_TURNS_H
#define MR_WORKER_KAFKA_TURNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_TURN_CLASSES_MAX ((size_t)64)

enum mr_turn_state { MR_TURN_IDLE, MR_TURN_READY, MR_TURN_BLOCKED };

/* A field of the caller's struct; zeroed, with its class set, it is IDLE. */
struct mr_turn {
    size_t class_index;
    enum mr_turn_state state;
    struct mr_turn *next, *previous; /* in the ring of the class's members in this state */
};

struct mr_turn_class {
    uint32_t weight; /* at least 1 */
    int64_t credit;
    struct mr_turn *ready, *blocked; /* rings; NULL: empty */
};

struct mr_turns {
    struct mr_turn_class classes[MR_TURN_CLASSES_MAX]; /* [class_count] */
    size_t class_count;
};

/* The READY member whose turn it is; NULL: there is none. */
struct mr_turn *mr_turns_next(const struct mr_turns *turns);
/* The member was served: its class is charged, and it becomes the last ready member of its class.
 */
void mr_turns_served(struct mr_turns *turns, struct mr_turn *turn);

/* An IDLE member becomes READY; no effect on others. */
void mr_turns_ready(struct mr_turns *turns, struct mr_turn *turn);
/* A READY member becomes BLOCKED. */
void mr_turns_block(struct mr_turns *turns, struct mr_turn *turn);
/* A member of any state becomes IDLE. */
void mr_turns_idle(struct mr_turns *turns, struct mr_turn *turn);
/* All BLOCKED members become READY. */
void mr_turns_unblock(struct mr_turns *turns);

#endif
