#include "codec/sha256.h"

#include "codec/check.h"

/* EVP, which replaces these functions, allocates memory for every digest. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct mr_sha256) >= sizeof(SHA256_CTX), "a state holds OpenSSL's");

static SHA256_CTX *context(struct mr_sha256 *state)
{
    return (SHA256_CTX *)(void *)state->opaque;
}

struct mr_sha256 *mr_sha256_create(void)
{
    return malloc(sizeof(struct mr_sha256));
}

void mr_sha256_destroy(struct mr_sha256 *state)
{
    free(state);
}

void mr_sha256_begin(struct mr_sha256 *state)
{
    int done = SHA256_Init(context(state));
    MR_ASSERT(done == 1);
}

void mr_sha256_add(struct mr_sha256 *state, const void *bytes, size_t length)
{
    int done = SHA256_Update(context(state), bytes, length);
    MR_ASSERT(done == 1);
}

static void add_length(struct mr_sha256 *state, size_t length)
{
    unsigned char bytes[8];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)((uint64_t)length >> (8 * i));
    mr_sha256_add(state, bytes, sizeof bytes);
}

void mr_sha256_add_field(struct mr_sha256 *state, const char *tag, const void *bytes, size_t length)
{
    add_length(state, strlen(tag));
    mr_sha256_add(state, tag, strlen(tag));
    add_length(state, length);
    mr_sha256_add(state, bytes, length);
}

void mr_sha256_end(struct mr_sha256 *state, unsigned char digest[MR_SHA256_BYTES])
{
    int done = SHA256_Final(digest, context(state));
    MR_ASSERT(done == 1);
}

void mr_sha256_hex(const unsigned char *digest, size_t count, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < count; i++) {
        *out++ = digits[digest[i] >> 4];
        *out++ = digits[digest[i] & 15];
    }
}
