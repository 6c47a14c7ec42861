/* block_frame - how a value is stored in Redis: cut into slices, each under its own Redis key and
 * with its own header, so that a reader can verify the slice without knowing which worker wrote it.
 *
 * Header, 64 bytes, little endian:
 *      0  magic "mrkv"     4  version u16        6  codec u8         7  key id u8 (0: plain text)
 *      8  name [16]: the first half of the value's key               24  token count u32
 *     28  slice u16       30  slice count u16   32  payload bytes u32
 *     36  nonce [12]      48  digest [16]
 * The digest is XXH3-128 over the header without the digest, and the payload: it detects accidental
 * damage. With an encryption key the digest field is the tag of AES-256-GCM over the same bytes,
 * which also detects forgery. If any field, including the version, differs from the value that the
 * reader expects, the slice is treated as absent. The Redis keys of slices ("mr1:...") contain the
 * version too, so workers of two versions neither see nor delete each other's slices.
 *
 * Slices are cut at multiples of a layer, below MR_SLICE_BYTES_MAX. The slice size is chosen so
 * that header, payload and the server's own string header nearly fill a size class of jemalloc,
 * which has four classes per doubling: a slice one byte above a class wastes up to a fifth of its
 * memory.
 *
 * Threads: any; a set of keys belongs to one thread. Memory: the keys. Errors: only _keys_add. */
#ifndef MR_KVCACHE_REMOTE_BLOCK_FRAME_H
#define MR_KVCACHE_REMOTE_BLOCK_FRAME_H

#include "codec/aes_gcm.h"
#include "codec/status.h"
#include "kvcache/block_hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_FRAME_BYTES      ((size_t)64)
#define MR_FRAME_VERSION    1u
#define MR_FRAME_NAME_BYTES 16u
#define MR_FRAME_KEYS_MAX   ((size_t)8)
/* Largest slice: the fastest of 1 to 8 MiB as measured, and below the 8 MiB from which jemalloc
 * returns freed memory to the system at once. */
#define MR_SLICE_BYTES_MAX ((size_t)5 << 20)

/* Encoding of the KV numbers in a slice. The order of the numbers is part of the key
 * (fingerprint.h). */
enum mr_frame_codec {
    MR_FRAME_EXACT, /* KV numbers as the model computed them */
    MR_FRAME_INT8
};

struct mr_slices {
    uint32_t count;
    size_t bytes; /* bytes of each slice except the last, which may be shorter */
};

/* How to cut length bytes (at least 1) into slices, at multiples of layer_bytes; layer_bytes 0:
 * anywhere. */
struct mr_slices mr_slices_of(size_t length, size_t layer_bytes);
/* Bytes in the slice with this index, of `length` bytes cut into `slices`. */
size_t mr_slices_length(const struct mr_slices *slices, size_t length, uint32_t index);
/* Memory that the Redis allocator uses for a string of this many bytes. */
size_t mr_slices_allocated(size_t value_bytes);

/* The fields of the header of one slice. */
struct mr_frame {
    const unsigned char *key; /* [MR_HASH_BYTES] key of the value */
    uint32_t token_count;
    uint32_t slice, slice_count;
    size_t length; /* bytes after the header */
    enum mr_frame_codec codec;
};

/* Encryption keys: slices are encrypted with the first key, and decrypted with the key whose id is
 * in their header. */
struct mr_frame_keys {
    size_t count;
    uint8_t ids[MR_FRAME_KEYS_MAX];
    struct mr_aes_gcm *states[MR_FRAME_KEYS_MAX];
};

struct mr_frame_secret {
    uint32_t id; /* id of the encryption key, 1..255 */
    unsigned char key[MR_AES_KEY_BYTES];
};

/* Adds secrets[count] as keys. MR_BAD_CONFIG: an id is invalid or in use, or there are more than
 * MR_FRAME_KEYS_MAX keys; MR_NOMEM. */
enum mr_status mr_frame_keys_add_all(struct mr_frame_keys *keys,
                                     const struct mr_frame_secret *secrets, size_t count,
                                     struct mr_error *err);
/* Adds one encryption key. MR_BAD_CONFIG: id is not 1..255 or in use, or there are
 * MR_FRAME_KEYS_MAX keys already; MR_NOMEM. */
enum mr_status mr_frame_keys_add(struct mr_frame_keys *keys, uint32_t id,
                                 const unsigned char key[MR_AES_KEY_BYTES], struct mr_error *err);
void mr_frame_keys_clear(struct mr_frame_keys *keys);
/* The AES-GCM state of the encryption key with this id, owned by keys; NULL: unknown id. */
struct mr_aes_gcm *mr_frame_keys_find(const struct mr_frame_keys *keys, uint8_t id);

/* Input of mr_frame_write, which writes the header of a payload. With encryption keys the
 * payload is encrypted into `sealed` (same length; may be the payload itself), and nonce
 * [MR_AES_NONCE_BYTES] must never have been used before; without keys sealed and nonce are
 * ignored. */
struct mr_frame_order {
    struct mr_frame frame;
    const void *payload;
    void *sealed;
    const unsigned char *nonce;
};
void mr_frame_write(const struct mr_frame_order *order, struct mr_frame_keys *keys,
                    unsigned char header[MR_FRAME_BYTES]);

/* X(name, text): the results of verifying a slice read from Redis. */
#define MR_VERDICT_LIST(X)                                                                         \
    X(GOOD, "good")                                                                                \
    X(FOREIGN, "not a block")                                                                      \
    X(VERSION, "another version")                                                                  \
    X(MISPLACED, "another block, slice, size or form")                                             \
    X(SEALED, "sealed under an unknown key, or not sealed")                                        \
    X(DAMAGED, "damaged")

enum mr_verdict {
#define X(name, text) MR_VERDICT_##name,
    MR_VERDICT_LIST(X)
#undef X
        MR_VERDICT_COUNT
};

/* The verdict's text in MR_VERDICT_LIST; static. */
const char *mr_verdict_text(enum mr_verdict verdict);
/* The XXH3 digest of a slice that is not encrypted, computed part by part as the slice is received,
 * while each part is still in the CPU cache. */
struct mr_frame_digest;
struct mr_frame_digest *mr_frame_digest_create(void);         /* NULL: no memory */
void mr_frame_digest_destroy(struct mr_frame_digest *digest); /* digest may be NULL */
void mr_frame_digest_begin(struct mr_frame_digest *digest);
/* Adds the next bytes of the slice to the digest: first the header, then the payload. */
void mr_frame_digest_add(struct mr_frame_digest *digest, const void *bytes, size_t length);

/* Verifies a slice read from Redis against the expected header fields, and decrypts an encrypted
 * payload in place. Without encryption keys (NULL or empty) only slices that are not encrypted are
 * good; with keys only encrypted ones. taken: the digest of the whole slice; NULL: it is computed
 * now. */
enum mr_verdict mr_frame_read(const unsigned char header[MR_FRAME_BYTES],
                              const struct mr_frame *expected, void *payload,
                              struct mr_frame_keys *keys, const struct mr_frame_digest *taken);

#endif
