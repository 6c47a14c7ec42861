/* weight_loader - looks up the tensors of a model by part (ops/families/tensor_names.h), checks
 * their shapes and types, and reads them into vectors and packed linear layers. It records the
 * tensors that were used. A tensor that the model does not use is an error, because an ignored bias
 * or norm would silently cause wrong answers.
 *
 * Used by ops/weights/weights.c and ops/weights/expert_weights.c while a model is loaded.
 * Owner:  one thread. Memory: vectors and layers are copies; the loader borrows the table.
 * Errors: MR_BAD_FILE names the tensor and both shapes; MR_NOMEM; those of the backend. */
#ifndef MR_OPS_WEIGHTS_WEIGHT_LOADER_H
#define MR_OPS_WEIGHTS_WEIGHT_LOADER_H

#include "ops/backend/backend.h"
#include "ops/families/model_config.h"
#include "ops/weights/weight_rows.h"
#include "ops/weights/weights_digest.h"

/* The number format of linear layers, if the backend has integer weights. The router of experts
 * stays in floats. */
enum mr_weight_numbers {
    MR_WEIGHTS_FLOAT,  /* bf16 or f32 */
    MR_WEIGHTS_STORED, /* the integers of the files where they have a format of
                          ops/cpu_kernels/quant */
    MR_WEIGHTS_INT8,   /* int8, a scale for each output */
    MR_WEIGHTS_INT4    /* 4 bits in groups of 32; embedding and output layer as INT8 */
};

enum mr_weight_numbers mr_weight_numbers_of(enum mr_dtype dtype);

struct mr_layer_sites;
struct mr_weights_spec {
    const struct mr_model_config *config;
    const struct mr_tensor_table *tensors;
    bool gguf_names;            /* true: tensors have GGUF's names; false: Hugging Face's */
    struct mr_compute *compute; /* the device of the weights; only checking: not open, or NULL */
    enum mr_weight_numbers numbers;
    struct mr_layer_sites *sites; /* records the layers that adapters can change; NULL: none can */
    struct mr_weights_digest *digest; /* hashes each tensor that is read; NULL: none */
    /* Called after each loaded tensor; may be NULL. */
    void (*progress)(void *context, uint64_t done_bytes, uint64_t total_bytes);
    void *progress_context;
};

struct mr_tensor_copies; /* ops/weights/tensor_copies.h */
struct mr_weight_loader {
    const struct mr_weights_spec *spec;
    struct mr_error *err;
    struct mr_tensor_naming naming;
    uint64_t done_bytes, total_bytes;
    uint64_t parameter_count, packed_bytes;
    bool quantized;                  /* a linear layer has integer weights */
    bool *used;                      /* [tensors->count]; true: the model uses the tensor */
    struct mr_tensor_copies *copies; /* of the tensors of a layer; NULL when only checking */
    bool checks_only;
};

/* Which tensor: its part, the layer, and the expert or head. */
struct mr_weight_place {
    enum mr_weight_part part;
    uint32_t layer, index;
};

/* The rows that one tensor contributes to a linear layer. */
struct mr_share_plan {
    enum mr_weight_part part;
    uint32_t rows;       /* in the file: without padding */
    uint32_t first, all; /* first of the tensor's `all` rows; all 0: the share has all rows */
    bool rotary_pairs, heads;
    struct mr_row_groups groups; /* `rows` of these are taken, from `first` on */
    float scale, bias_scale;     /* of the weights and of the biases; 0 means 1 */
};

struct mr_linear_plan {
    uint32_t layer, index;
    uint32_t stacked; /* > 0: the tensor has this number of matrices, of which `index` is one */
    uint32_t width;   /* in the file: without padding */
    struct mr_share_plan shares[MR_WEIGHT_SHARES_MAX];
    uint32_t share_count;
    bool alternate;                   /* true: rows are taken from the shares in turn */
    bool head_columns;                /* columns are heads, which are padded */
    bool transposed;                  /* the tensor is [in, out] */
    bool floats;                      /* true: never computed in small integers */
    bool gated, table;                /* as in struct mr_linear_spec (ops/backend/step.h) */
    float scale;                      /* of the layer's results; 0 means 1 */
    float curve[4];                   /* of MR_XIELU (ops/backend/epilogue.h) */
    struct mr_linear *const *experts; /* the layers of experts 0 to index - 1; NULL: no expert */
};

/* The namings of a Hugging Face model with parts that do not read text: outer and inner are set. */
#define MR_WRAPPED_NAMINGS 3u
extern const struct mr_tensor_naming mr_wrapped_namings[MR_WRAPPED_NAMINGS];

/* The linear layers that adapters can change, each with the plan by which it was packed, by site
 * (ops/backend/adapters.h): 0 is none, MR_SITE_EMBEDDING the token embedding, the next the output
 * layer; the other layers follow in the order of loading. Zeroed: empty. */
struct mr_layer_sites {
    struct mr_linear_plan *plans; /* [count]; without shares: the model has no such layer */
    uint32_t count, capacity;
};
void mr_layer_sites_destroy(struct mr_layer_sites *sites);
/* ops/weights/layer_sites.c: adds a layer to loader->spec->sites, and sets *site to the site of its
 * products; 0 without sites. Errors: MR_NOMEM. */
enum mr_status mr_layer_sites_add(const struct mr_weight_loader *loader,
                                  const struct mr_linear_plan *plan, uint32_t *site);

/* Determines the naming scheme of the files. The caller sets loader->spec and err before. Errors:
 * MR_NOMEM. _end frees the loader's memory, also after a failed _begin. */
enum mr_status mr_weight_loader_begin(struct mr_weight_loader *loader);
void mr_weight_loader_end(struct mr_weight_loader *loader);
/* Ends the use of the tensors that were read: the next layer reuses their memory. */
void mr_weight_loader_next_layer(struct mr_weight_loader *loader);
/* MR_BAD_FILE when the table has an unused tensor that would change the computation. */
enum mr_status mr_weight_loader_reject_unused(const struct mr_weight_loader *loader);

/* True when the files have the weight. Marks nothing as used. */
bool mr_weight_loader_has(const struct mr_weight_loader *loader, struct mr_weight_place place);
bool mr_weight_loader_has_bias(const struct mr_weight_loader *loader, struct mr_weight_place place);
/* True when the weights are multiplied by the scales of their parts (part_scales.h). */
bool mr_weight_loader_scales(const struct mr_weight_loader *loader);
/* True when the stacked tensor of a plan's first share is [in, out]. Block formats are [out, in],
 * because their blocks lie along the input; when both sizes are equal, only the format decides. */
bool mr_weight_loader_transposed(const struct mr_weight_loader *loader,
                                 const struct mr_linear_plan *plan);
/* Marks tensors as used without reading them: a weight by its place, any tensor by its name. */
void mr_weight_loader_ignore(struct mr_weight_loader *loader, struct mr_weight_place place);
void mr_weight_loader_ignore_name(struct mr_weight_loader *loader, const char *name);

/* Reads `count` numbers, adding `offset` to each, into a new array that the caller frees; only
 * checking leaves *out unchanged. The numbers may be several rows of the tensor; those of recurrent
 * layers may have any shape. */
enum mr_status mr_weight_loader_read(struct mr_weight_loader *loader, struct mr_weight_place place,
                                     uint32_t count, float offset, float **out);
/* The same as a vector of the device. */
enum mr_status mr_weight_loader_vector(struct mr_weight_loader *loader,
                                       struct mr_weight_place place, uint32_t count, float offset,
                                       struct mr_vector **out);
/* Like _vector, for the bias at a place. */
enum mr_status mr_weight_loader_bias(struct mr_weight_loader *loader, struct mr_weight_place place,
                                     uint32_t count, struct mr_vector **out);
/* Creates a vector of the device from an array and frees the array; does nothing if the array is
 * NULL. Returns `status` if that is an error. */
enum mr_status mr_weight_loader_upload(struct mr_weight_loader *loader, enum mr_status status,
                                       float *numbers, uint32_t count, struct mr_vector **out);
enum mr_status mr_weight_loader_linear(struct mr_weight_loader *loader,
                                       const struct mr_linear_plan *plan, struct mr_linear **out);

#endif
