#include "codec/aes_gcm.h"

#include "codec/check.h"

#include <limits.h>
#include <openssl/evp.h>
#include <string.h>

struct mr_aes_gcm {
    EVP_CIPHER_CTX *context;
    EVP_CIPHER *algorithm;
    unsigned char key[MR_AES_KEY_BYTES];
};

struct mr_aes_gcm *mr_aes_gcm_create(const unsigned char key[MR_AES_KEY_BYTES])
{
    struct mr_aes_gcm *state = OPENSSL_zalloc(sizeof *state);
    if (!state) return NULL;
    memcpy(state->key, key, MR_AES_KEY_BYTES);
    state->context = EVP_CIPHER_CTX_new();
    state->algorithm = EVP_CIPHER_fetch(NULL, "AES-256-GCM", NULL);
    if (!state->context || !state->algorithm) {
        mr_aes_gcm_destroy(state);
        return NULL;
    }
    return state;
}

void mr_aes_gcm_destroy(struct mr_aes_gcm *state)
{
    if (!state) return;
    EVP_CIPHER_CTX_free(state->context);
    EVP_CIPHER_free(state->algorithm);
    OPENSSL_clear_free(state, sizeof *state);
}

/* Encrypts or decrypts: sets key and nonce, then gives the additional data and the text to the
 * library. */
static void run(struct mr_aes_gcm *state, const struct mr_aes_message *message, const void *in,
                void *out, int sealing)
{
    EVP_CIPHER_CTX *context = state->context;
    int length = 0;
    MR_ASSERT(message->length <= INT_MAX && message->data_length <= INT_MAX);
    int done =
        EVP_CipherInit_ex2(context, state->algorithm, state->key, message->nonce, sealing, NULL);
    if (done == 1 && message->data_length)
        done = EVP_CipherUpdate(context, NULL, &length, message->data, (int)message->data_length);
    if (done == 1 && message->length)
        done = EVP_CipherUpdate(context, out, &length, in, (int)message->length);
    MR_ASSERT(done == 1);
}

void mr_aes_gcm_seal(struct mr_aes_gcm *state, const struct mr_aes_message *message, const void *in,
                     void *out, unsigned char tag[MR_AES_TAG_BYTES])
{
    unsigned char rest[16];
    int length = 0;
    run(state, message, in, out, 1);
    int done = EVP_CipherFinal_ex(state->context, rest, &length);
    MR_ASSERT(done == 1 && length == 0);
    done = EVP_CIPHER_CTX_ctrl(state->context, EVP_CTRL_AEAD_GET_TAG, MR_AES_TAG_BYTES, tag);
    MR_ASSERT(done == 1);
}

bool mr_aes_gcm_open(struct mr_aes_gcm *state, const struct mr_aes_message *message, const void *in,
                     void *out, const unsigned char tag[MR_AES_TAG_BYTES])
{
    unsigned char rest[16], expected[MR_AES_TAG_BYTES];
    int length = 0;
    memcpy(expected, tag, sizeof expected);
    run(state, message, in, out, 0);
    int done =
        EVP_CIPHER_CTX_ctrl(state->context, EVP_CTRL_AEAD_SET_TAG, MR_AES_TAG_BYTES, expected);
    MR_ASSERT(done == 1);
    return EVP_CipherFinal_ex(state->context, rest, &length) == 1;
}
