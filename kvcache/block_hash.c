#include "kvcache/block_hash.h"

#include "codec/check.h"

#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#define FEED_TOKENS 256u /* encoded at once on the stack */

struct mr_block_hash {
    EVP_MD_CTX *context;
};

enum mr_status mr_block_hash_create(struct mr_block_hash **out, struct mr_error *err)
{
    *out = NULL;
    struct mr_block_hash *hash = calloc(1, sizeof *hash);
    if (hash == NULL) goto fail;
    hash->context = EVP_MD_CTX_new();
    if (hash->context == NULL) goto fail_hash;
    if (EVP_DigestInit_ex(hash->context, EVP_sha256(), NULL) != 1) goto fail_context;
    *out = hash;
    return MR_OK;

fail_context:
    EVP_MD_CTX_free(hash->context);
fail_hash:
    free(hash);
fail:
    return mr_fail(err, MR_NOMEM, "no memory for a SHA-256 context");
}

void mr_block_hash_destroy(struct mr_block_hash *hash)
{
    if (hash == NULL) return;
    EVP_MD_CTX_free(hash->context);
    free(hash);
}

static void put_u32(unsigned char out[4], uint32_t value)
{
    out[0] = (unsigned char)value;
    out[1] = (unsigned char)(value >> 8);
    out[2] = (unsigned char)(value >> 16);
    out[3] = (unsigned char)(value >> 24);
}

static void feed(EVP_MD_CTX *context, const void *bytes, size_t length)
{
    MR_ASSERT(EVP_DigestUpdate(context, bytes, length) == 1);
}

static void feed_u32(EVP_MD_CTX *context, uint32_t value)
{
    unsigned char bytes[4];
    put_u32(bytes, value);
    feed(context, bytes, sizeof bytes);
}

static void feed_framed(EVP_MD_CTX *context, const void *bytes, size_t length)
{
    MR_ASSERT(length <= UINT32_MAX);
    feed_u32(context, (uint32_t)length);
    feed(context, bytes, length);
}

static void feed_tokens(EVP_MD_CTX *context, const uint32_t *tokens, uint32_t count)
{
    unsigned char bytes[FEED_TOKENS * 4];
    feed_u32(context, count);
    for (uint32_t done = 0; done < count;) {
        uint32_t now = count - done < FEED_TOKENS ? count - done : FEED_TOKENS;
        for (uint32_t i = 0; i < now; i++)
            put_u32(bytes + 4 * (size_t)i, tokens[done + i]);
        feed(context, bytes, 4 * (size_t)now);
        done += now;
    }
}

/* digest may be NULL for a context that has run SHA-256 before. */
static void start(EVP_MD_CTX *context, const EVP_MD *digest, const char *tag)
{
    MR_ASSERT(EVP_DigestInit_ex(context, digest, NULL) == 1);
    feed_framed(context, tag, strlen(tag));
}

static void finish(EVP_MD_CTX *context, unsigned char key[MR_HASH_BYTES])
{
    unsigned int length = 0;
    MR_ASSERT(EVP_DigestFinal_ex(context, key, &length) == 1 && length == MR_HASH_BYTES);
}

void mr_block_hash_root(const unsigned char fingerprint[MR_HASH_BYTES], const char *tenant,
                        unsigned char root[MR_HASH_BYTES])
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    MR_ASSERT(context != NULL);
    start(context, EVP_sha256(), "millrace.kv.root.1");
    feed_framed(context, fingerprint, MR_HASH_BYTES);
    feed_framed(context, tenant, strlen(tenant));
    finish(context, root);
    EVP_MD_CTX_free(context);
}

void mr_block_hash_chain(struct mr_block_hash *hash, const unsigned char parent[MR_HASH_BYTES],
                         const uint32_t *tokens, uint32_t count, unsigned char key[MR_HASH_BYTES])
{
    start(hash->context, NULL, "millrace.kv.block.1");
    feed_framed(hash->context, parent, MR_HASH_BYTES);
    feed_tokens(hash->context, tokens, count);
    finish(hash->context, key);
}

void mr_block_hash_prompt(struct mr_block_hash *hash, const unsigned char root[MR_HASH_BYTES],
                          const uint32_t *tokens, uint32_t count, unsigned char key[MR_HASH_BYTES])
{
    start(hash->context, NULL, "millrace.kv.prompt.1");
    feed_framed(hash->context, root, MR_HASH_BYTES);
    feed_tokens(hash->context, tokens, count);
    finish(hash->context, key);
}
