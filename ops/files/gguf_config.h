/* gguf_config - reads the metadata of a GGUF file into a struct mr_model_config. Keys are
 * "<architecture>.<name>"; rope factors are tensors, and some features are recognised only by the
 * presence of a tensor. A key that would change the computation and that no family describes is an
 * error.
 *
 * Threads: any (no state). Memory: none. Errors: MR_BAD_FILE names the key and the value. */
#ifndef MR_OPS_FILES_GGUF_CONFIG_H
#define MR_OPS_FILES_GGUF_CONFIG_H

#include "ops/families/model_config.h"
#include "ops/files/gguf.h"

/* Names of the tensors with rope factors: numbers by which the frequencies of pairs are divided. */
#define MR_GGUF_ROPE_FREQS "rope_freqs.weight"
#define MR_GGUF_ROPE_SHORT "rope_factors_short.weight"
#define MR_GGUF_ROPE_LONG  "rope_factors_long.weight"

/* gguf: the file that has the model's keys. tensors: those of all its files. */
enum mr_status mr_model_config_from_gguf(struct mr_model_config *out, const struct mr_gguf *gguf,
                                         const struct mr_tensor_table *tensors,
                                         struct mr_error *err);

#endif
