#include "kvcache/block_hash.h"

#include "codec/check.h"

#include <string.h>

#define FIELD_TOKENS 256u

static void add_tokens(struct mr_sha256 *hash, const uint32_t *tokens, uint32_t count)
{
    unsigned char bytes[FIELD_TOKENS * 4];
    MR_ASSERT(count <= FIELD_TOKENS);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < 4; j++)
            bytes[4 * i + j] = (unsigned char)(tokens[i] >> (8 * j));
    mr_sha256_add_field(hash, "tokens", bytes, 4 * (size_t)count);
}

void mr_block_hash_root(const unsigned char fingerprint[MR_HASH_BYTES], const char *tenant,
                        unsigned char root[MR_HASH_BYTES])
{
    struct mr_sha256 hash;
    mr_sha256_begin(&hash);
    mr_sha256_add_field(&hash, "millrace.kv.root.1", fingerprint, MR_HASH_BYTES);
    mr_sha256_add_field(&hash, "tenant", tenant, strlen(tenant));
    mr_sha256_end(&hash, root);
}

void mr_block_hash_salt(unsigned char root[MR_HASH_BYTES], const char *salt, size_t length)
{
    struct mr_sha256 hash;
    mr_sha256_begin(&hash);
    mr_sha256_add_field(&hash, "millrace.kv.salt.1", root, MR_HASH_BYTES);
    mr_sha256_add_field(&hash, "salt", salt, length);
    mr_sha256_end(&hash, root);
}

void mr_block_hash_adapter(unsigned char root[MR_HASH_BYTES],
                           const unsigned char digest[MR_HASH_BYTES])
{
    struct mr_sha256 hash;
    mr_sha256_begin(&hash);
    mr_sha256_add_field(&hash, "millrace.kv.adapter.1", root, MR_HASH_BYTES);
    mr_sha256_add_field(&hash, "digest", digest, MR_HASH_BYTES);
    mr_sha256_end(&hash, root);
}

void mr_block_hash_chain(struct mr_sha256 *hash, const unsigned char parent[MR_HASH_BYTES],
                         const uint32_t *tokens, uint32_t count, unsigned char key[MR_HASH_BYTES])
{
    mr_sha256_begin(hash);
    mr_sha256_add_field(hash, "millrace.kv.block.1", parent, MR_HASH_BYTES);
    add_tokens(hash, tokens, count);
    mr_sha256_end(hash, key);
}

void mr_block_hash_prompt(struct mr_sha256 *hash, const unsigned char root[MR_HASH_BYTES],
                          const uint32_t *tokens, uint32_t count, unsigned char key[MR_HASH_BYTES])
{
    mr_sha256_begin(hash);
    mr_sha256_add_field(hash, "millrace.kv.prompt.1", root, MR_HASH_BYTES);
    for (uint32_t done = 0; done < count; done += FIELD_TOKENS)
        add_tokens(hash, tokens + done, count - done < FIELD_TOKENS ? count - done : FIELD_TOKENS);
    mr_sha256_end(hash, key);
}
