#include "codec/sha256.h"

#include "codec/check.h"

#include <openssl/evp.h>
#include <string.h>

struct mr_sha256 {
    EVP_MD_CTX *context;
    /* SHA-256 as fetched once; EVP_sha256() would be looked up and allocated at every _begin. */
    EVP_MD *algorithm;
};

struct mr_sha256 *mr_sha256_create(void)
{
    struct mr_sha256 *state = OPENSSL_zalloc(sizeof *state);
    if (!state) return NULL;
    state->context = EVP_MD_CTX_new();
    state->algorithm = EVP_MD_fetch(NULL, "SHA256", NULL);
    if (!state->context || !state->algorithm) {
        mr_sha256_destroy(state);
        return NULL;
    }
    return state;
}

void mr_sha256_destroy(struct mr_sha256 *state)
{
    if (!state) return;
    EVP_MD_CTX_free(state->context);
    EVP_MD_free(state->algorithm);
    OPENSSL_free(state);
}

void mr_sha256_begin(struct mr_sha256 *state)
{
    int done = EVP_DigestInit_ex(state->context, state->algorithm, NULL);
    MR_ASSERT(done == 1);
}

void mr_sha256_add(struct mr_sha256 *state, const void *bytes, size_t length)
{
    int done = EVP_DigestUpdate(state->context, bytes, length);
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
    unsigned int length = 0;
    int done = EVP_DigestFinal_ex(state->context, digest, &length);
    MR_ASSERT(done == 1 && length == MR_SHA256_BYTES);
}

void mr_sha256_hex(const unsigned char *digest, size_t count, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < count; i++) {
        *out++ = digits[digest[i] >> 4];
        *out++ = digits[digest[i] & 15];
    }
}
