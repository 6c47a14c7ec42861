/* aes_gcm - authenticated encryption with AES-256-GCM (NIST SP 800-38D): the text is encrypted, and
 * a change of the text or of the additional data is detected.
 *
 * The caller makes the nonces. Two messages under one key must not have the same nonce.
 *
 * Threads: a state belongs to one thread. Memory: one library context for each state, from _create.
 * Errors:  _create returns NULL when memory is out; _open returns false for a changed message. */
#ifndef MR_CODEC_AES_GCM_H
#define MR_CODEC_AES_GCM_H

#include <stdbool.h>
#include <stddef.h>

#define MR_AES_KEY_BYTES   32u
#define MR_AES_NONCE_BYTES 12u
#define MR_AES_TAG_BYTES   16u

struct mr_aes_gcm;

struct mr_aes_gcm *mr_aes_gcm_create(const unsigned char key[MR_AES_KEY_BYTES]);
/* Overwrites the key before freeing it. state may be NULL. */
void mr_aes_gcm_destroy(struct mr_aes_gcm *state);

struct mr_aes_message {
    const unsigned char *nonce; /* [MR_AES_NONCE_BYTES] number used once */
    const void *data;           /* additional data: authenticated, not encrypted */
    size_t data_length;         /* bytes of data, at most INT_MAX */
    size_t length;              /* bytes of the text, at most INT_MAX */
};

/* Encrypts message->length bytes from in to out, which may be the same memory, and writes the tag.
 */
void mr_aes_gcm_seal(struct mr_aes_gcm *state, const struct mr_aes_message *message, const void *in,
                     void *out, unsigned char tag[MR_AES_TAG_BYTES]);
/* Decrypts from in to out. Returns false when text, data, nonce or tag differ from those of the
 * encryption. The bytes in out are then invalid. */
bool mr_aes_gcm_open(struct mr_aes_gcm *state, const struct mr_aes_message *message, const void *in,
                     void *out, const unsigned char tag[MR_AES_TAG_BYTES]);

#endif
