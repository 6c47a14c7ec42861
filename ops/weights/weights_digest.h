/* weights_digest - 32 bytes that identify the weights of a model: SHA-256 over its configuration,
 * every tensor's name, type and shape, and every byte of every tensor. Workers whose models have
 * the same digest share stored KV, so two checkpoints that differ in one number must differ here.
 *
 * The bytes are hashed with XXH3-128 (xxHash, Collet 2012) in parts of MR_DIGEST_PART_BYTES on the
 * parallel team; the hashes of all tensors, in the order of the table, are the content of the
 * weights. XXH3 detects differences between files but not forgeries. A person who can write the
 * model's files controls its answers anyway.
 *
 * Owner:  one thread. Memory: one hash for each part of the largest tensor. Errors: MR_NOMEM. */
#ifndef MR_OPS_WEIGHTS_WEIGHTS_DIGEST_H
#define MR_OPS_WEIGHTS_WEIGHTS_DIGEST_H

#include "ops/families/model_config.h"
#include "ops/files/tensor_table.h"

#define MR_DIGEST_BYTES      32u
#define MR_DIGEST_PART_BYTES ((size_t)1 << 20)

struct mr_weights_digest;

/* The digest of the tensors of a table, which must not change until _destroy. */
enum mr_status mr_weights_digest_create(struct mr_weights_digest **out,
                                        const struct mr_tensor_table *tensors,
                                        struct mr_error *err);
/* digest may be NULL. */
void mr_weights_digest_destroy(struct mr_weights_digest *digest);

/* Hashes the bytes of a tensor of the table, which `copy` has (tensor_copies.h); a second call for
 * the same tensor does nothing. The loader calls this for each tensor that it reads, so that a file
 * is read from disk once. */
void mr_weights_digest_add(struct mr_weights_digest *digest, const struct mr_stored_tensor *tensor,
                           const struct mr_stored_tensor *copy);
/* Copies and hashes the tensors that were not added, and returns the hash of the bytes of all
 * tensors. */
enum mr_status mr_weights_digest_content(struct mr_weights_digest *digest,
                                         unsigned char content[MR_DIGEST_BYTES],
                                         struct mr_error *err);

/* Returns the digest of weights whose bytes have the hash `content`. */
enum mr_status mr_weights_digest_of(const struct mr_model_config *config,
                                    const struct mr_tensor_table *tensors,
                                    const unsigned char content[MR_DIGEST_BYTES],
                                    unsigned char out[MR_DIGEST_BYTES], struct mr_error *err);

#endif
