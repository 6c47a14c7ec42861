/* staging - buffers of equal size through which KV travels when the tier cannot read or fill it in
 * the pool.
 *
 * Owner: engine thread; the tier reads or fills a buffer between _take and _release.
 * Memory: all in _open; pages are touched on first use. Errors: _open says false when memory is
 * out; taking from an empty pool asserts. */
#ifndef MR_BATCHING_CACHE_STAGING_H
#define MR_BATCHING_CACHE_STAGING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_NO_BUFFER UINT32_MAX

struct mr_staging {
    unsigned char *bytes; /* [count * buffer_bytes] */
    uint32_t *unused;     /* [unused_count] a stack */
    uint32_t count, unused_count;
    size_t buffer_bytes;
};

bool mr_staging_open(struct mr_staging *staging, uint32_t count, size_t buffer_bytes);
/* An all-zero pool may be closed. */
void mr_staging_close(struct mr_staging *staging);
/* unused_count must be above 0. */
uint32_t mr_staging_take(struct mr_staging *staging);
/* MR_NO_BUFFER: does nothing. */
void mr_staging_release(struct mr_staging *staging, uint32_t buffer);
unsigned char *mr_staging_bytes(const struct mr_staging *staging, uint32_t buffer);

#endif
