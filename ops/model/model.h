/* model - opens a model folder or GGUF file on a device, computes steps, draws tokens, and copies,
 * exports and imports KV blocks. Its callers do not depend on the device, the dtype of a weight or
 * the layout of a KV block.
 *
 * State:  weights, the KV pool (block_count blocks of MR_BLOCK_TOKENS tokens), rope tables, step
 *         buffers for rows_max rows; all created in _open.
 * Owner:  the engine thread makes all calls, from _open on.
 * Memory: on the CPU a step allocates nothing.
 * Errors: _open MR_BAD_FILE (names the file, and the tensor and its shape), MR_BAD_CONFIG,
 *         MR_NOMEM; of a step MR_BACKEND: the device failed, and the model cannot be used. */
#ifndef MR_OPS_MODEL_MODEL_H
#define MR_OPS_MODEL_MODEL_H

#include "codec/special_texts.h"
#include "codec/status.h"
#include "codec/tokenizer/tokenizer.h"
#include "ops/backend/device.h"
#include "ops/decoder/batch.h"
#include "ops/families/model_config.h"
#include "ops/files/sampling_defaults.h"
#include "ops/model/gpu_start.h"
#include "ops/sampling/sample.h"

struct mr_model;
struct mr_compute; /* ops/backend/backend.h */

struct mr_model_options {
    const char *path; /* .gguf file, or a folder with config.json and *.safetensors */
    /* The files at `path`: _open takes ownership and zeroes the struct. NULL: _open reads them. */
    struct mr_model_source *source; /* ops/files/model_source.h */
    const char *device;             /* "cpu", "cuda" or "cuda:N" */
    const char *backend; /* "auto", "cpu" or "torch" (ops/model/torch_module.h); NULL: auto */
    /* For the backend torch (mr_torch_module_cuda_kernels); NULL: LibTorch's operators only. */
    const struct mr_cuda_kernels *cuda_kernels;
    enum mr_dtype dtype;
    uint32_t thread_count; /* of parallel loops; 0: one for each core of the affinity mask */
    uint64_t kv_bytes; /* of the KV pool, rounded down to whole blocks (ops/decoder/kv_groups.h) */
    /* Memory limit of the process: the pool takes at most half of the rest after the weights, or
     * the rest of a GPU's own memory. 0: the pool takes kv_bytes in any case. */
    uint64_t memory_bytes;
    /* Longest sequence that will be served; 0: as long as the model and the pool allow. Longrope
     * chooses its factors by this length (ops/decoder/rope_table.h). */
    uint32_t context_tokens;
    uint32_t rows_max;      /* most tokens in one step */
    uint32_t sequences_max; /* most sequences in one step */
    uint32_t running_max; /* most sequences that run at a time, for state_slots; 0: sequences_max */
    /* Keep the hash of weights of this size or larger (ops/files/digest_cache.h); 0: never. */
    uint64_t digest_cache_bytes;
    const char *cache_folder; /* the user's cache folder; NULL: none */
    bool kv_int8;     /* keep K and V in int8 (struct mr_kv_spec): a backend with int8_kv only */
    bool export_int8; /* export KV blocks as int8; implied by kv_int8 */
    uint32_t graph_rows_max; /* most rows of a decode step that a graph runs; 0: no graphs */
    bool adapters;           /* steps may have adapters (ops/model/model_adapter.h) */
    bool warm_up;            /* run steps of many sizes (ops/model/gpu_start.h): for a GPU */
    void (*progress)(void *context, uint64_t done_bytes, uint64_t total_bytes); /* or NULL */
    void (*graph_progress)(void *context, uint32_t done, uint32_t total); /* before each graph */
    void *progress_context;                                               /* of both */
};

struct mr_model_info {
    char name[128];        /* general.name of GGUF, else the file or folder name */
    char architecture[32]; /* such as "llama" or "qwen2" */
    bool text_only;        /* the files also have parts that do not read text */
    const char *file_type, *device, *backend, *dtype; /* file_type: of the source; may be NULL */
    uint32_t layer_count, hidden_size, head_count, kv_head_count, head_dim, ffn_size, vocab_size;
    uint32_t context_tokens; /* longest sequence that the model supports */
    bool both_ways; /* an encoder: each sequence in one step, which has room for the longest */
    enum mr_model_pooling pooling;     /* usual pooling of the model's vectors */
    const struct mr_text_heads *heads; /* layers after the pooling; borrowed from the model */
    uint64_t parameter_count, weight_bytes;
    uint64_t kv_bytes_per_token; /* bytes of one token's KV in all layers */
    uint64_t kv_pool_bytes;      /* bytes of all KV blocks and slots */
    uint32_t block_count;        /* KV blocks in the pool */
    uint32_t window_tokens;      /* tokens of the sliding window; 0: none */
    uint32_t window_slots;       /* slots in the pool, for sliding-window layers; 0: blocks only */
    uint32_t state_slots;        /* of the state pool (ops/decoder/state_pool.h); 0: no pool */
    uint64_t state_bytes;        /* bytes of a slot */
    uint64_t activation_bytes;   /* bytes of the step buffers */
    struct mr_decode_graphs graphs;
    unsigned char weights_digest[32]; /* identifies the weights (ops/weights/weights_digest.h) */
    char rope[672];                   /* kinds, bases and scalings of position embeddings */
    /* Two models can exchange exported blocks only if weights, rope and these three are equal. */
    const char *kv_dtype;  /* "bf16"; with kv_int8 "int8 for bf16"; or "int8 of bf16" */
    const char *kv_layout; /* names the order of layers, heads and panels */
    const char *numerics;  /* names the kernels; kernels that round differently differ in name */
    uint32_t eos_ids[MR_EOS_IDS_MAX], eos_count;
    struct mr_sampling_defaults defaults; /* from the model's files */
    struct mr_text chat_template;         /* empty when the model has none */
    struct mr_text tool_template;         /* for requests with tools; empty: the same */
    struct mr_special_texts special;      /* borrowed from the model */
};

/* _compute sets *out to the backend and number format of the options, and opens nothing;
 * _check_options checks what can be checked without files. MR_BAD_CONFIG. */
enum mr_status mr_model_compute(const struct mr_model_options *options, struct mr_compute *out,
                                struct mr_error *err);
enum mr_status mr_model_check_options(const struct mr_model_options *options, struct mr_error *err);
/* Checks that the files have the tensors that the model needs, in the right shapes, and no others;
 * reads no weights. MR_BAD_FILE as _open. */
enum mr_status mr_model_check_files(const struct mr_model_source *source, struct mr_error *err);
enum mr_status mr_model_open(struct mr_model **out, const struct mr_model_options *options,
                             struct mr_error *err);
void mr_model_close(struct mr_model *model);
/* The results of _info and _tokenizer are borrowed and immutable; any thread may use them. */
const struct mr_model_info *mr_model_info(const struct mr_model *model);
const struct mr_tokenizer *mr_model_tokenizer(const struct mr_model *model);
const struct mr_adapter_base *mr_model_adapter_base(const struct mr_model *model);
/* _collect waits until the oldest step in flight has ended. _launch starts one: computes all rows
 * of the batch, writes their KV, and draws samples[i] from rows[i] for each i < sample_count <=
 * sequences_max * MR_CHOICES_MAX. Logit row i is the i-th of the needed rows (logit_rows of each
 * sequence) in the order of the batch. Without rows in the batch it only draws. A block that the
 * step writes may be in the block list of one sequence only. */
enum mr_status mr_model_launch(struct mr_model *model, const struct mr_model_step *step,
                               struct mr_error *err);
enum mr_status mr_model_collect(struct mr_model *model, struct mr_error *err);
/* Steps that may be in flight; 0: _launch computes the step before it returns; 2: also a step with
 * fed_by, launched before the first is collected. */
uint32_t mr_model_steps_ahead(const struct mr_model *model);
/* _logits copies row `row` of the step collected last to host memory: out[vocab_size]; _hidden is
 * mr_decoder_hidden (ops/decoder/decoder.h). */
enum mr_status mr_model_logits(struct mr_model *model, uint32_t row, float *out,
                               struct mr_error *err);
void mr_model_hidden(const struct mr_model *model, uint32_t index, float *out);
/* Launch and collect a step without draws, or draws from the last step's logits; none in flight. */
enum mr_status mr_model_forward(struct mr_model *model, const struct mr_batch *batch,
                                struct mr_error *err);
enum mr_status mr_model_sample(struct mr_model *model, const struct mr_sample_row *rows,
                               uint32_t count, struct mr_sample *samples, struct mr_error *err);
/* As mr_kv_groups_populate (ops/decoder/kv_groups.h). */
bool mr_model_kv_populate(struct mr_model *model);
/* _kv_copy: the first token_count tokens of a block, ignoring `first`. _state_copy: to a slot. */
void mr_model_kv_copy(struct mr_model *model, struct mr_kv_place from, struct mr_kv_place to,
                      uint32_t token_count);
void mr_model_state_copy(struct mr_model *model, uint32_t from, uint32_t to);
/* Size in bytes of token_count tokens of an exported block. A full block has layer_count pieces of
 * equal size, one for each layer, sliding-window layers last. */
size_t mr_model_kv_export_bytes(const struct mr_model *model, uint32_t token_count);
/* The memory of a full block if it is the exported form: any thread may use it while no step writes
 * the block. NULL: exporting converts to int8, or blocks have slots. */
void *mr_model_kv_bytes_of(struct mr_model *model, uint32_t block);
/* MR_MALFORMED when `size` is not the bytes of token_count exported tokens; _export also when a
 * number cannot be stored in int8 (infinite, NaN, or 2^127 or more). */
enum mr_status mr_model_kv_export(struct mr_model *model, struct mr_kv_place place,
                                  uint32_t token_count, void *bytes, size_t size,
                                  struct mr_error *err);
enum mr_status mr_model_kv_import(struct mr_model *model, struct mr_kv_place place,
                                  uint32_t token_count, const void *bytes, size_t size,
                                  struct mr_error *err);

#endif
