/* logits_fixture - the tiny models, and the results of the reference implementation with them.
 * Models are in tests/golden/models; make_logits.py writes them and describes expected.bin.
 * make_gguf.py converts some of them to the files in tests/golden/gguf. */
#ifndef MR_TESTS_LOGITS_FIXTURE_H
#define MR_TESTS_LOGITS_FIXTURE_H

#include "kvcache/kv_window.h"
#include "ops/files/mapped_file.h"
#include "ops/model/model.h"

#define STEP_ROWS      512u
#define STEP_SEQUENCES 64u
#define CONTEXT_TOKENS 2048u
#define BLOCKS         (CONTEXT_TOKENS / MR_BLOCK_TOKENS)

struct golden_model {
    const char *name; /* of the folder */
    bool gguf;        /* tests/golden/gguf has the same model as a file */
    /* Longest sequence served, in tokens; 0: the size of the KV pool, CONTEXT_TOKENS.
     */
    uint32_t context_tokens;
    bool int8;    /* its KV is also tested in int8 */
    bool experts; /* rounding may choose other experts, which changes a row's logits far more */
    /* layers with the delta rule: rounded weights turn the unit vectors of its narrow keys */
    bool delta_rule;
};

/* The backend of every model that is opened from now on. It runs on one thread, because LibTorch's
 * threads wait for each other after every operation, which takes longer than a tiny model's
 * operations. NULL: the device's own backend, on all threads. */
extern const char *fixture_backend;
extern const char *fixture_device; /* "cpu" at start */
/* The kernels of the torch backend; NULL, the initial value: LibTorch's operators. */
extern const struct mr_cuda_kernels *fixture_kernels;
/* graph_rows_max of the models (ops/model/model.h); initially 0. */
extern uint32_t fixture_graph_rows;
/* The largest allowed difference to a logit of the reference; initially 1e-4. */
extern float fixture_tolerance;

extern const struct golden_model golden_models[];
extern const size_t golden_model_count;

struct prompt {
    uint32_t token_count, first, continuation_count;
    const uint32_t *tokens, *continuation;
    const float *logits; /* of positions first .. token_count - 1 */
};

/* The formats of the KV pool and of its exported blocks. */
enum kv_form {
    KV_NUMBERS,       /* numbers of the dtype */
    KV_EXPORTED_INT8, /* numbers of the dtype, exported as int8 */
    KV_INT8
};

struct fixture {
    struct mr_model *model;
    struct mr_mapped_file expected;
    const unsigned char *next;
    uint32_t vocab_size, prompt_count;
    float *row;
    uint32_t blocks[BLOCKS], slots[BLOCKS]; /* the same for every sequence */
    float worst;                            /* largest difference to the reference */
    uint32_t positions;                     /* positions compared */
};

/* model: a folder or file; expected: the file that make_logits.py has written for it. Fails the
 * test when one of them cannot be opened. */
void open_fixture(struct fixture *fixture, const char *model, const char *expected,
                  enum mr_dtype dtype, enum kv_form kv, uint32_t context_tokens);
void open_golden(struct fixture *fixture, const struct golden_model *golden, enum mr_dtype dtype,
                 enum kv_form kv);
void open_golden_gguf(struct fixture *fixture, const struct golden_model *golden);
void close_fixture(struct fixture *fixture);

/* Reads the next of prompt_count prompts. The result points into the file. */
struct prompt read_prompt(struct fixture *fixture);
bool all_prompts_read(const struct fixture *fixture);

/* Assigns slots of sliding-window layers in a ring that is just large enough for a window and a
 * step of step_rows rows. */
void choose_slots(struct fixture *fixture, uint32_t step_rows);
/* Computes a prompt in steps of step_rows rows, cut into sequences of `width` rows, and compares
 * the logits after each sequence to the reference. */
void run_prompt(struct fixture *fixture, const struct prompt *prompt, uint32_t step_rows,
                uint32_t width);
/* Computes one token at `position`; its logits are then logit row 0. */
void decode(struct fixture *fixture, uint32_t token, uint32_t position);

/* Returns the index of the largest of `count` logits; *margin: its distance from the second
 * largest. */
uint32_t best(const float *logits, uint32_t count, float *margin);

#endif
