/* quantized_folder - the weights of a quantized Hugging Face folder: a tensor table in which the
 * pieces of each quantized weight (ops/numbers/quantized.h) are one tensor [out, in] with the name
 * of the weight. Unquantized weights (lm_head, norms, modules_to_not_convert) stay as they are.
 * Scales of activations and of the KV cache are left out, because both are computed unquantized.
 *
 * "quantization_config" of config.json names the method that wrote the folder: fp8,
 * compressed-tensors, awq, gptq or mxfp4. Sizes follow from the shapes of the pieces, which are
 * checked against each other.
 *
 * Owner:  one thread creates and destroys; immutable in between.
 * Memory: borrows the stored tensors, which must live longer; owns names and descriptions.
 * Errors: MR_BAD_FILE names the method or tensor, the reason and an alternative; MR_NOMEM. */
#ifndef MR_OPS_FILES_QUANTIZED_FOLDER_H
#define MR_OPS_FILES_QUANTIZED_FOLDER_H

#include "codec/wire/json.h"
#include "ops/files/tensor_table.h"

#define MR_QUANTIZATION_SIZES_MAX 8u

enum mr_quantization_method {
    MR_QUANTIZATION_NONE,
    MR_QUANTIZATION_FP8,
    MR_QUANTIZATION_COMPRESSED,
    MR_QUANTIZATION_AWQ,
    MR_QUANTIZATION_GPTQ,
    MR_QUANTIZATION_MXFP4
};

/* The quantization that config.json describes; zeroed when it describes none. */
struct mr_quantization {
    enum mr_quantization_method method;
    uint32_t bits;      /* of AWQ and GPTQ */
    bool zero_less_one; /* GPTQ: the first version of the format */
    uint32_t block[2];  /* rows and columns of a block that shares a scale */
    uint32_t group_sizes[MR_QUANTIZATION_SIZES_MAX]; /* columns of a group, of any weight */
    uint32_t group_size_count;
};

/* Reads "quantization_config" (or "compression_config") of a parsed config.json. */
enum mr_status mr_quantization_from_json(struct mr_quantization *out,
                                         const struct mr_json_value *config, struct mr_error *err);
/* Returns the name of the method, such as "awq"; "" for none: a static string. */
const char *mr_quantization_name(const struct mr_quantization *quantization);

struct mr_quantized_folder;

enum mr_status mr_quantized_folder_create(struct mr_quantized_folder **out,
                                          const struct mr_quantization *quantization,
                                          const struct mr_tensor_table *stored,
                                          struct mr_error *err);
/* folder may be NULL. */
void mr_quantized_folder_destroy(struct mr_quantized_folder *folder);
/* Returns the tensors, sorted by name. */
const struct mr_tensor_table *mr_quantized_folder_tensors(const struct mr_quantized_folder *folder);

#endif
