/* aes_gcm - AES-256-GCM (NIST SP 800-38D): what is sealed cannot be read, and a changed bit of it
 * or of what is authenticated beside it is noticed.
 *
 * A nonce must not be used twice with one key; the caller makes them.
 *
 * Threads: a state belongs to one thread. Memory: one library context a state, made in _create.
 * Errors:  _create NULL when memory is out; _open false when anything differs. */
#ifndef MR_CODEC_AES_GCM_H
#define MR_CODEC_AES_GCM_H

#include <stdbool.h>
#include <stddef.h>

#define MR_AES_KEY_BYTES   32u
#define MR_AES_NONCE_BYTES 12u
#define MR_AES_TAG_BYTES   16u

struct mr_aes_gcm;

struct mr_aes_gcm *mr_aes_gcm_create(const unsigned char key[MR_AES_KEY_BYTES]);
/* state may be NULL; the key is wiped. */
void mr_aes_gcm_destroy(struct mr_aes_gcm *state);

/* What goes with a message in the clear. */
struct mr_aes_message {
    const unsigned char *nonce;   /* [MR_AES_NONCE_BYTES] */
    const void *beside;           /* authenticated, not encrypted */
    size_t beside_length, length; /* length: of the text, below 2 GiB */
};

/* in and out are length bytes each and may be the same memory. */
void mr_aes_gcm_seal(struct mr_aes_gcm *state, const struct mr_aes_message *message, const void *in,
                     void *out, unsigned char tag[MR_AES_TAG_BYTES]);
/* False: forged or damaged, and what is in out must not be used. */
bool mr_aes_gcm_open(struct mr_aes_gcm *state, const struct mr_aes_message *message, const void *in,
                     void *out, const unsigned char tag[MR_AES_TAG_BYTES]);

#endif
