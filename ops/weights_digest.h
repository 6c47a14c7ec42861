/* weights_digest - 32 bytes that identify the weights of a model: SHA-256 over its configuration,
 * every tensor's name, type and shape, and a sample of every tensor's bytes. Workers whose models
 * have the same digest share stored KV. Hashing only a sample keeps start-up short.
 *
 * Threads: any. Memory: none kept. Errors: MR_NOMEM. */
#ifndef MR_OPS_WEIGHTS_DIGEST_H
#define MR_OPS_WEIGHTS_DIGEST_H

#include "ops/files/model_config.h"
#include "ops/files/tensor_table.h"

enum mr_status mr_weights_digest(const struct mr_model_config *config,
                                 const struct mr_tensor_table *tensors, unsigned char digest[32],
                                 struct mr_error *err);

#endif
