/* pass_over - the candidates that a scan in priority order passes over, and the bound on how often
 * a candidate that does not fit (a misfit) is passed over.
 *
 * A scan considers candidates in priority order and takes those that fit. A candidate that does not
 * fit now is set aside, and later candidates that fit may be taken. Each scan that takes a later
 * candidate adds 1 to the misfit's counter *skipped. Once the counter has reached skips_max, the
 * scan stops at this misfit, so that no later candidate is taken until it fits. A candidate set
 * aside for a reason other than its size is not counted.
 *
 * Used by the scheduler's admission (batching/scheduler/admit.c).
 * Pure values. Owner: the caller, on its stack during one scan. Memory: the struct itself. Errors:
 * none; setting aside more than MR_PASS_OVER_MAX candidates asserts. */
#ifndef MR_BATCHING_QUEUE_PASS_OVER_H
#define MR_BATCHING_QUEUE_PASS_OVER_H

#include <stdbool.h>
#include <stdint.h>

#define MR_PASS_OVER_MAX 64u

struct mr_passed {
    void *candidate;
    /* counts scans that took a later candidate instead of this one; NULL: not counted */
    uint32_t *skipped;
};

struct mr_pass_over {
    /* [count] candidates set aside, in the order of the scan */
    struct mr_passed passed[MR_PASS_OVER_MAX];
    uint32_t count;
    uint32_t overtaken; /* passed[0, overtaken) were set aside before a candidate that was taken */
};

/* Sets aside a candidate that is not taken in this scan. *skipped: how often earlier scans passed
 * it over. False: *skipped has reached skips_max, so the caller must stop the scan. */
bool mr_pass_over_add(struct mr_pass_over *walk, void *candidate, uint32_t *skipped,
                      uint32_t skips_max);
/* Call when the scan of candidates takes one: all set aside before it were overtaken. */
void mr_pass_over_taken(struct mr_pass_over *walk);
/* Call at the end of the scan: adds 1 to *skipped of each candidate that was set aside before one
 * that was taken. */
void mr_pass_over_age(struct mr_pass_over *walk);

#endif
