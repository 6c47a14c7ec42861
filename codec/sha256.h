/* sha256 - SHA-256, used for cache keys and model digests.
 *
 * Threads: a state belongs to one thread.
 * Memory:  all of a state is in the struct, so a step that hashes does not allocate.
 * Errors:  _create returns NULL when memory is out; hashing cannot fail. */
#ifndef MR_CODEC_SHA256_H
#define MR_CODEC_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define MR_SHA256_BYTES 32u

/* The state of one digest. A state that a function needs only for itself can be on its stack. */
struct mr_sha256 {
    _Alignas(uint64_t) unsigned char opaque[112]; /* OpenSSL's SHA256_CTX */
};

/* A state in memory of its own. */
struct mr_sha256 *mr_sha256_create(void);
/* state may be NULL. */
void mr_sha256_destroy(struct mr_sha256 *state);

/* Call order: _begin, any number of _add and _add_field, _end. Then _begin starts the next
 * digest. */
void mr_sha256_begin(struct mr_sha256 *state);
void mr_sha256_add(struct mr_sha256 *state, const void *bytes, size_t length);
/* Adds the tag and the bytes of one field to the hash input, each after its length as u64 little
 * endian. So two different lists of fields never have the same hash input. */
void mr_sha256_add_field(struct mr_sha256 *state, const char *tag, const void *bytes,
                         size_t length);
void mr_sha256_end(struct mr_sha256 *state, unsigned char digest[MR_SHA256_BYTES]);

/* Writes the first count bytes of a digest as lower-case hexadecimal to out [2 * count], without a
 * terminating NUL. */
void mr_sha256_hex(const unsigned char *digest, size_t count, char *out);

#endif
