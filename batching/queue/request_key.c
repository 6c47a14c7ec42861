#include "batching/queue/request_key.h"

#include "codec/check.h"

#include <string.h>

void mr_request_key_set(struct mr_request_key *key, uint32_t tenant_index, struct mr_text id)
{
    MR_ASSERT(id.length <= MR_ID_BYTES_MAX);
    memcpy(key->bytes, &tenant_index, sizeof tenant_index);
    if (id.length > 0) memcpy(key->bytes + sizeof tenant_index, id.bytes, id.length);
    key->length = (uint32_t)(sizeof tenant_index + id.length);
}

struct mr_text mr_request_key_text(const struct mr_request_key *key)
{
    return (struct mr_text){key->bytes, key->length};
}
