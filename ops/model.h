/* model - the one door to everything that computes: open a model folder or GGUF file, run one step
 * of flat arrays through it, sample. Nothing above ops/ knows the device, the dtype of a weight or
 * the layout of a KV block.
 *
 * State:  weights, the KV pool (block_count blocks of MR_BLOCK_TOKENS tokens), rope tables, step
 *         buffers for rows_max rows; all made in _open.
 * Owner:  the engine thread, from _open on: LibTorch keeps one pool of threads a calling thread.
 * Memory: _forward and _sample allocate nothing of ours.
 * Errors: _open MR_BAD_FILE (says which tensor, which shape), MR_BAD_CONFIG, MR_NOMEM;
 *         _forward MR_BACKEND when the device fails, which is final. */
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
    uint32_t thread_count;            /* 0: one for each core */
    uint64_t kv_bytes;                /* size of the KV pool, rounded down (ops/kv_groups.h) */
    uint32_t rows_max, sequences_max; /* tokens, and sequences, of one step */
    bool kv_int8; /* blocks are exported and imported in int8: half of bf16, not exact */
    /* Called now and then while loading with bytes done of all. May be NULL. */
    void (*progress)(void *context, uint64_t done_bytes, uint64_t total_bytes);
    void *progress_context;
};

struct mr_model_info {
    char name[128];        /* general.name, or the folder's name */
    char architecture[32]; /* llama, qwen2 ... */
    const char *device, *dtype;
    uint32_t layer_count, hidden_size, head_count, kv_head_count, head_dim, ffn_size, vocab_size;
    uint32_t context_tokens; /* longest sequence the model was made for */
    uint64_t parameter_count, weight_bytes;
    uint64_t kv_bytes_per_token, kv_pool_bytes; /* all layers; blocks and slots together */
    uint32_t block_count;                       /* KV blocks in the pool */
    uint32_t window_tokens, window_slots; /* of sliding layers; 0 none; 0: their KV is in blocks */
    uint64_t activation_bytes;            /* step buffers */
    unsigned char weights_digest[32]; /* of the file's tensor table and a sample of every tensor */
    char rope[160];                   /* kind, base and scaling of the position embedding */
    const char *kv_dtype, *kv_layout; /* of an exported block: dtype or "int8 of" it; the order */
    const char *numerics;             /* kernels: what rounds otherwise has another name */
    uint32_t eos_ids[MR_EOS_IDS_MAX], eos_count;
    float default_temperature, default_top_p; /* generation_config; NaN when it says nothing */
    uint32_t default_top_k;                   /* 0 when it says nothing */
    struct mr_text chat_template;             /* empty when the model has none */
    struct mr_text bos_text, eos_text;        /* as the template wants them */
};

enum mr_status mr_model_open(struct mr_model **out, const struct mr_model_options *options,
                             struct mr_error *err);
void mr_model_close(struct mr_model *model);
/* Borrowed, unchanging. Threads: any. */
const struct mr_model_info *mr_model_info(const struct mr_model *model);
/* Borrowed; immutable, any thread may encode with it. */
const struct mr_tokenizer *mr_model_tokenizer(const struct mr_model *model);

/* Computes all rows, writes their KV, and keeps the logits of each sequence that wants them: logit
 * row i is the i-th such sequence. A block that is written to is in one sequence's list only. */
enum mr_status mr_model_forward(struct mr_model *model, const struct mr_batch *batch,
                                struct mr_error *err);

/* Copies logit row `row` of the last forward to host memory: out[vocab_size]. */
enum mr_status mr_model_logits(struct mr_model *model, uint32_t row, float *out,
                               struct mr_error *err);

/* rows[count] -> samples[count]. count <= sequences_max * MR_CHOICES_MAX. */
enum mr_status mr_model_sample(struct mr_model *model, const struct mr_sample_row *rows,
                               uint32_t count, struct mr_sample *samples, struct mr_error *err);

/* ---- KV blocks ---- */
/* Makes 2 MiB more of the pool resident, which its first use would wait for; false: all are. */
bool mr_model_kv_populate(struct mr_model *model);
/* Copies the KV of the first token_count tokens, whatever `first` is. */
void mr_model_kv_copy(struct mr_model *model, struct mr_kv_place from, struct mr_kv_place to,
                      uint32_t token_count);
/* Bytes of one exported block of token_count tokens, in the layout named by info->kv_layout. A full
 * block's are layer_count parts of equal size, those of sliding-window layers last. */
size_t mr_model_kv_export_bytes(const struct mr_model *model, uint32_t token_count);
/* A full block's exported form where it lies, to be read or filled by any thread while no step
 * writes the block; NULL when it does not lie in one place, or is exported in int8. */
void *mr_model_kv_bytes_of(struct mr_model *model, uint32_t block);
/* MR_MALFORMED: not the size of so many tokens; or not finite, or nearly, which int8 cannot be. */
enum mr_status mr_model_kv_export(struct mr_model *model, struct mr_kv_place place,
                                  uint32_t token_count, void *bytes, size_t size,
                                  struct mr_error *err);
enum mr_status mr_model_kv_import(struct mr_model *model, struct mr_kv_place place,
                                  uint32_t token_count, const void *bytes, size_t size,
                                  struct mr_error *err);

#endif
