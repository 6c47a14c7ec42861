#include "batching/queue/pass_over.h"

#include "codec/check.h"

#include <stddef.h>

bool mr_pass_over_add(struct mr_pass_over *walk, void *candidate, uint32_t *skipped,
                      uint32_t skips_max)
{
    MR_ASSERT(walk->count < MR_PASS_OVER_MAX);
    walk->passed[walk->count++] = (struct mr_passed){candidate, skipped};
    return skipped == NULL || *skipped < skips_max;
}

void mr_pass_over_taken(struct mr_pass_over *walk)
{
    walk->overtaken = walk->count;
}

void mr_pass_over_age(struct mr_pass_over *walk)
{
    for (uint32_t i = 0; i < walk->overtaken; i++)
        if (walk->passed[i].skipped != NULL) ++*walk->passed[i].skipped;
}
