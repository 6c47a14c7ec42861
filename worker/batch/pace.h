/* pace - how many requests of a batch are in flight: as many as make the fleet answer faster.
 *
 * Time is divided into rounds of one window of answers, but at least half a second. While the rate
 * of answers rises by a sixth or more with each doubling of the window, the window doubles. When it
 * does not, more requests only wait longer (Little's law), and the window returns to its last size
 * for eight rounds. Then a doubling is tried again, because the fleet may have grown. A round
 * in which the window was never full says nothing about the fleet, and is not counted.
 *
 * Owner: one thread. Memory: the struct. Errors: none. */
#ifndef MR_WORKER_BATCH_PACE_H
#define MR_WORKER_BATCH_PACE_H

#include <stdbool.h>
#include <stdint.h>

struct mr_pace {
    uint32_t window; /* most requests in flight */
    uint32_t least, most;
    uint32_t answers; /* of this round */
    uint64_t begun_ns;
    bool was_full;       /* in this round a line waited for room in the window */
    double best_per_s;   /* rate at half the window; 0: unknown */
    uint32_t rests_left; /* rounds until a doubling is tried */
};

void mr_pace_init(struct mr_pace *pace, uint32_t most, uint64_t now_ns);
/* The window is full although there are lines to send. */
void mr_pace_full(struct mr_pace *pace);
/* An answer has arrived. */
void mr_pace_answered(struct mr_pace *pace, uint64_t now_ns);

#endif
