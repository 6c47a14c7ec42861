#include "ops/weights/weight_loader.h"

#include <stdlib.h>

enum { SITE_HEAD = MR_SITE_EMBEDDING + 1, SITES_FIRST };

static bool grow_sites(struct mr_layer_sites *sites)
{
    const uint32_t capacity = sites->capacity > 0 ? 2 * sites->capacity : 64;
    struct mr_linear_plan *plans = realloc(sites->plans, capacity * sizeof *plans);
    if (!plans) return false;
    for (uint32_t i = sites->capacity; i < capacity; i++)
        plans[i] = (struct mr_linear_plan){0};
    sites->plans = plans;
    sites->capacity = capacity;
    if (sites->count == 0) sites->count = SITES_FIRST;
    return true;
}

enum mr_status mr_layer_sites_add(const struct mr_weight_loader *loader,
                                  const struct mr_linear_plan *plan, uint32_t *site)
{
    struct mr_layer_sites *sites = loader->spec->sites;
    const enum mr_weight_part part = plan->shares[0].part;
    *site = 0;
    if (!sites) return MR_OK;
    if (sites->count == sites->capacity && !grow_sites(sites))
        return mr_fail(loader->err, MR_NOMEM, "no memory for the table of %u layers", sites->count);
    if (part == MR_WEIGHT_EMBEDDING) {
        sites->plans[MR_SITE_EMBEDDING] = *plan;
        if (!loader->spec->config->tied_head) return MR_OK;
        /* The table is the output layer too, which adapters change apart from the embedding. */
        *site = SITE_HEAD;
        sites->plans[SITE_HEAD] = *plan;
        sites->plans[SITE_HEAD].shares[0].part = MR_WEIGHT_HEAD;
        return MR_OK;
    }
    *site = part == MR_WEIGHT_HEAD ? (uint32_t)SITE_HEAD : sites->count++;
    sites->plans[*site] = *plan;
    return MR_OK;
}

void mr_layer_sites_destroy(struct mr_layer_sites *sites)
{
    free(sites->plans);
    *sites = (struct mr_layer_sites){0};
}
