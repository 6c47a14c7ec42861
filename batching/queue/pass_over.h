/* pass_over - candidates that a walk in priority order passes over, and the bound on how often a
 * misfit is passed over.
 *
 * A walk looks at candidates best first and takes those that fit. A candidate that does not fit now
 * is set aside; lighter ones behind it may be taken. Each walk in which a later candidate was taken
 * ages the misfits before it by one. A misfit that has been passed over skips_max times reserves
 * the resource: the walk stops there, so that nothing behind it is taken until it fits. Candidates
 * set aside for another reason do not age.
 *
 * Used by mr_request_queue_take and by the scheduler's admission.
 * Pure values. Owner: the walk. Memory: the struct itself. Errors: none; a full list asserts. */
#ifndef MR_BATCHING_QUEUE_PASS_OVER_H
#define MR_BATCHING_QUEUE_PASS_OVER_H

#include <stdbool.h>
#include <stdint.h>

#define MR_PASS_OVER_MAX 64u

struct mr_passed {
    void *candidate;
    uint32_t *skipped; /* walks in which it was passed over; NULL: does not age */
};

struct mr_pass_over {
    struct mr_passed passed[MR_PASS_OVER_MAX]; /* [count] in the order of the walk */
    uint32_t count;
    uint32_t overtaken; /* passed[0, overtaken) stand before a candidate that was taken */
};

/* Sets a candidate aside. False: it is a misfit that was passed over skips_max times already, and
 * the walk must stop. */
bool mr_pass_over_add(struct mr_pass_over *walk, void *candidate, uint32_t *skipped,
                      uint32_t skips_max);
/* The walk took a candidate. */
void mr_pass_over_taken(struct mr_pass_over *walk);
/* Ends the walk: ages the misfits that were overtaken. */
void mr_pass_over_age(struct mr_pass_over *walk);

#endif
