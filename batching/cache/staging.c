#include "batching/cache/staging.h"

#include "codec/check.h"

#include <stdlib.h>

bool mr_staging_open(struct mr_staging *staging, uint32_t count, size_t buffer_bytes)
{
    *staging = (struct mr_staging){.count = count, .buffer_bytes = buffer_bytes};
    staging->unused = calloc(count, sizeof *staging->unused);
    staging->bytes = malloc(count * buffer_bytes);
    if (staging->unused == NULL || staging->bytes == NULL) return false;
    for (uint32_t i = count; i-- > 0;)
        staging->unused[staging->unused_count++] = i;
    return true;
}

void mr_staging_close(struct mr_staging *staging)
{
    free(staging->bytes);
    free(staging->unused);
}

uint32_t mr_staging_take(struct mr_staging *staging)
{
    MR_ASSERT(staging->unused_count > 0);
    return staging->unused[--staging->unused_count];
}

void mr_staging_release(struct mr_staging *staging, uint32_t buffer)
{
    if (buffer == MR_NO_BUFFER) return;
    MR_ASSERT(buffer < staging->count && staging->unused_count < staging->count);
    staging->unused[staging->unused_count++] = buffer;
}

unsigned char *mr_staging_bytes(const struct mr_staging *staging, uint32_t buffer)
{
    MR_ASSERT(buffer < staging->count);
    return staging->bytes + buffer * staging->buffer_bytes;
}
