/* adapter_files - the files of a LoRA adapter: a folder as PEFT writes it (adapter_config.json and
 * adapter_model.safetensors), or a GGUF file as llama.cpp's converter writes it.
 *
 * _open reads all bytes of the tensors into memory, so that a file that is replaced later changes
 * nothing. It refuses an adapter that is more than low-rank products, such as DoRA, trained biases
 * or modules_to_save, and names the key.
 *
 * Scale:  an adapter adds scale * B (A x) to a layer. scale is alpha / rank, or alpha / sqrt(rank)
 *         with use_rslora (Kalajdzievski, 2023). alpha_pattern and rank_pattern replace alpha and
 *         rank of the modules whose name, or the end of it after a dot, matches a key.
 * Digest: SHA-256 of the tensors' names, types, shapes and bytes, and of the keys that decide the
 *         scale. Two adapters with equal digests compute the same.
 *
 * Threads: one at a time. Memory: the bytes of the files, until _close.
 * Errors:  MR_BAD_FILE with the path, and the key or the tensor; MR_NOMEM. */
#ifndef MR_OPS_FILES_ADAPTER_FILES_H
#define MR_OPS_FILES_ADAPTER_FILES_H

#include "codec/sha256.h"
#include "codec/wire/json.h"
#include "ops/files/gguf.h"
#include "ops/files/safetensors.h"

#define MR_ADAPTER_RANK_MAX 512u /* of one module */

struct mr_adapter_files {
    const struct mr_tensor_table *tensors;
    bool gguf_names; /* true: tensors have GGUF's names; false: PEFT's */
    unsigned char digest[MR_SHA256_BYTES];
    uint64_t bytes; /* of all tensors */
    /* private */
    char *path;
    struct mr_mapped_file config_file;
    struct mr_json *config; /* NULL: GGUF */
    struct mr_safetensors *safetensors;
    struct mr_gguf *gguf;
    float gguf_alpha;      /* 0: the scale is 1 */
    char architecture[32]; /* of a GGUF adapter's base, else "" */
};

enum mr_status mr_adapter_files_open(struct mr_adapter_files *out, const char *path,
                                     struct mr_error *err);
/* Closing zeroed files does nothing. */
void mr_adapter_files_close(struct mr_adapter_files *files);
/* Sets *scale for a module, named as in the base model such as "model.layers.0.mlp.up_proj", whose
 * tensors have this rank. MR_BAD_FILE: the configuration states another rank. */
enum mr_status mr_adapter_files_scale(const struct mr_adapter_files *files, const char *module,
                                      uint32_t rank, float *scale, struct mr_error *err);

#endif
