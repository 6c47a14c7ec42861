/* model - the interface of ops/ to the folders above: open a model folder or GGUF file, run one
 * step of rows through it, sample. Callers do not depend on the device, the dtype of a weight or
 * the layout of a KV block.
 *
 * State:  weights, the KV pool (block_count blocks of MR_BLOCK_TOKENS tokens), rope tables, step
 *         buffers for rows_max rows; all created in _open.
 * Owner:  the engine thread makes all calls, from _open on.
 * Memory: _forward and _sample allocate nothing.
 * Errors: _open MR_BAD_FILE (says which tensor, which shape), MR_BAD_CONFIG, MR_NOMEM;
 *         _forward MR_BACKEND when the device fails; the model cannot be used afterwards. */
#ifndef MR_OPS_MODEL_H
#define MR_OPS_MODEL_H

#include "codec/status.h"
#include "codec/tokenizer/tokenizer.h"
#include "ops/batch.h"
#include "ops/files/model_config.h"
#include "ops/sampling/sample.h"

struct mr_model;
enum mr_dtype {
    MR_DTYPE_AUTO,
    MR_DTYPE_F32,
    MR_DTYPE_BF16,
    MR_DTYPE_F16,
    MR_DTYPE_INT8,
    MR_DTYPE_INT4
};

struct mr_model_options {
    const char *path;   /* .gguf file, or a folder with config.json and *.safetensors */
    const char *device; /* "cpu" */
    enum mr_dtype dtype;
    uint32_t thread_count; /* threads of parallel loops; 0: one for each core */
    uint64_t kv_bytes;     /* size of the KV pool, rounded down to whole blocks (ops/kv_groups.h) */
    uint32_t rows_max;     /* tokens in one step */
    uint32_t sequences_max; /* sequences in one step */
    bool kv_int8; /* exported blocks are int8: half the bytes of bf16, with rounding errors */
    /* Called after each loaded tensor, with bytes loaded so far. May be NULL. */
    void (*progress)(void *context, uint64_t done_bytes, uint64_t total_bytes);
    void *progress_context;
};

struct mr_model_info {
    char name[128];        /* general.name of GGUF, else the name of the file or folder */
    char architecture[32]; /* llama, qwen2 ... */
    const char *device, *dtype;
    uint32_t layer_count, hidden_size, head_count, kv_head_count, head_dim, ffn_size, vocab_size;
    uint32_t context_tokens; /* longest sequence that the model supports */
    uint64_t parameter_count, weight_bytes;
    uint64_t kv_bytes_per_token;      /* KV of one token in all layers */
    uint64_t kv_pool_bytes;           /* blocks and slots */
    uint32_t block_count;             /* KV blocks in the pool */
    uint32_t window_tokens;           /* sliding window; 0: the model has none */
    uint32_t window_slots;            /* slots of sliding-window layers; 0: their KV is in blocks */
    uint64_t activation_bytes;        /* step buffers */
    unsigned char weights_digest[32]; /* identifies the weights (ops/weights_digest.h) */
    char rope[160];                   /* kind, base and scaling of the position embedding */
    /* Two models can exchange exported blocks only if these three are equal, too. */
    const char *kv_dtype;  /* dtype, or "int8 of" dtype */
    const char *kv_layout; /* order of layers, heads and panels */
    const char *numerics;  /* kernels; kernels that round differently have different names */
    uint32_t eos_ids[MR_EOS_IDS_MAX], eos_count;
    float default_temperature, default_top_p; /* from the model's files; NaN: not given */
    uint32_t default_top_k;                   /* 0: not given */
    struct mr_text chat_template;             /* empty when the model has none */
    struct mr_text bos_text, eos_text;        /* texts of these tokens, for the template */
};

enum mr_status mr_model_open(struct mr_model **out, const struct mr_model_options *options,
                             struct mr_error *err);
void mr_model_close(struct mr_model *model);
/* Borrowed; immutable. Threads: any. */
const struct mr_model_info *mr_model_info(const struct mr_model *model);
/* Borrowed; immutable, any thread may encode with it. */
const struct mr_tokenizer *mr_model_tokenizer(const struct mr_model *model);

/* Computes all rows, writes their KV, and keeps the logits of each sequence with wants_logits:
 * logit row i is that of the i-th such sequence. A block that is written is in the list of one
 * sequence only. */
enum mr_status mr_model_forward(struct mr_model *model, const struct mr_batch *batch,
                                struct mr_error *err);

/* Copies logit row `row` of the last forward pass to host memory: out[vocab_size]. */
enum mr_status mr_model_logits(struct mr_model *model, uint32_t row, float *out,
                               struct mr_error *err);

/* rows[count] -> samples[count]. count <= sequences_max * MR_CHOICES_MAX. */
enum mr_status mr_model_sample(struct mr_model *model, const struct mr_sample_row *rows,
                               uint32_t count, struct mr_sample *samples, struct mr_error *err);

/* ---- KV blocks ---- */
/* Makes the next 2 MiB of the pool resident, so that their first use does not wait for page faults;
 * false when the whole pool is resident. */
bool mr_model_kv_populate(struct mr_model *model);
/* Copies the KV of the first token_count tokens of a block; ignores `first`. */
void mr_model_kv_copy(struct mr_model *model, struct mr_kv_place from, struct mr_kv_place to,
                      uint32_t token_count);
/* Bytes of token_count tokens of an exported block. An exported full block consists of layer_count
 * parts of equal size, those of sliding-window layers last. */
size_t mr_model_kv_export_bytes(const struct mr_model *model, uint32_t token_count);
/* The memory of a full block, if that is its exported form: any thread may read or fill it while no
 * step writes the block. NULL when the block is exported in int8, or has sliding-window layers
 * apart. */
void *mr_model_kv_bytes_of(struct mr_model *model, uint32_t block);
/* MR_MALFORMED: `size` is not that of token_count tokens; _export also: a number cannot be stored
 * in int8 (infinite, NaN, or 2^127 or more). */
enum mr_status mr_model_kv_export(struct mr_model *model, struct mr_kv_place place,
                                  uint32_t token_count, void *bytes, size_t size,
                                  struct mr_error *err);
enum mr_status mr_model_kv_import(struct mr_model *model, struct mr_kv_place place,
                                  uint32_t token_count, const void *bytes, size_t size,
                                  struct mr_error *err);

#endif
