/* gguf_mixer - the recurrent layers of a GGUF file. The tensors show what each layer has; keys have
 * the sizes.
 *
 * Threads: pure function. Memory: none. Errors: none; a missing size is 0, which
 * mr_model_config_check rejects. */
#ifndef MR_OPS_FILES_GGUF_MIXER_H
#define MR_OPS_FILES_GGUF_MIXER_H

#include "ops/families/model_config.h"
#include "ops/files/gguf.h"
#include "ops/files/tensor_table.h"

/* Sets mixer, mixes, skips_attention and skips_ffn, and the sizes that such files state for each
 * layer, of a family with recurrent layers. */
void mr_gguf_mixer_read(struct mr_model_config *config, const struct mr_gguf *gguf,
                        struct mr_text architecture, const struct mr_tensor_table *tensors);

#endif
