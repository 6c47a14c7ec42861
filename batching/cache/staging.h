/* staging - buffers of equal size for KV that the remote cache cannot read or fill in the KV pool.
 *
 * Owner: engine thread; the remote cache reads or fills a buffer between _take and _release.
 * Memory: all in _open; memory pages are touched on first use. Errors: _open returns false when
 * memory is out; _take asserts that a buffer is unused. */
#ifndef MR_BATCHING_CACHE_STAGING_H
#define MR_BATCHING_CACHE_STAGING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_NO_BUFFER UINT32_MAX

struct mr_staging {
    unsigned char *bytes; /* [count * buffer_bytes] memory of all buffers */
    uint32_t *unused;     /* [unused_count] stack of the indices of unused buffers */
    uint32_t count, unused_count;
    size_t buffer_bytes;
};

bool mr_staging_open(struct mr_staging *staging, uint32_t count, size_t buffer_bytes);
/* Frees all buffers. A staging struct that is all zero may be closed. */
void mr_staging_close(struct mr_staging *staging);
/* Returns the index of an unused buffer. unused_count must be above 0. */
uint32_t mr_staging_take(struct mr_staging *staging);
/* Returns the buffer to the unused ones. Does nothing for MR_NO_BUFFER. */
void mr_staging_release(struct mr_staging *staging, uint32_t buffer);
unsigned char *mr_staging_bytes(const struct mr_staging *staging, uint32_t buffer);

#endif
