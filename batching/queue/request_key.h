/* request_key - the identity of a request in the engine: its tenant and its id. Two tenants may use
 * one id at the same time.
 *
 * Pure functions. Memory: the caller's. Errors: none; an id has at most MR_ID_BYTES_MAX bytes. */
#ifndef MR_BATCHING_QUEUE_REQUEST_KEY_H
#define MR_BATCHING_QUEUE_REQUEST_KEY_H

#include "codec/limits.h"
#include "codec/text.h"

#include <stdint.h>

struct mr_request_key {
    uint32_t length;
    char bytes[sizeof(uint32_t) + MR_ID_BYTES_MAX]; /* the tenant's index, then the id */
};

void mr_request_key_set(struct mr_request_key *key, uint32_t tenant_index, struct mr_text id);
/* The key as bytes, borrowed from it. */
struct mr_text mr_request_key_text(const struct mr_request_key *key);

#endif
