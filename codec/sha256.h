/* sha256 - the one place that knows the library for SHA-256: cache keys, model digests.
 *
 * Threads: a state belongs to one thread. Memory: one library context a state, made in _create, so
 *          that hashing in an engine step allocates nothing of ours.
 * Errors:  _create NULL when memory is out; the others cannot fail (asserted). */
#ifndef MR_CODEC_SHA256_H
#define MR_CODEC_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define MR_SHA256_BYTES 32u

struct mr_sha256;

struct mr_sha256 *mr_sha256_create(void);
/* state may be NULL. */
void mr_sha256_destroy(struct mr_sha256 *state);

/* begin, any number of adds, end: then begin again. */
void mr_sha256_begin(struct mr_sha256 *state);
void mr_sha256_add(struct mr_sha256 *state, const void *bytes, size_t length);
/* A length-framed, tagged field: tag and length (u64 little endian), then the bytes, so that no two
 * lists of fields give the same input. */
void mr_sha256_add_field(struct mr_sha256 *state, const char *tag, const void *bytes,
                         size_t length);
void mr_sha256_end(struct mr_sha256 *state, unsigned char digest[MR_SHA256_BYTES]);

/* The first `count` bytes of a digest as lower-case hexadecimal: out [2 * count], not terminated.
 */
void mr_sha256_hex(const unsigned char *digest, size_t count, char *out);

#endif
