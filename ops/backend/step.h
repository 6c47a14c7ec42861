/* step - the values that describe objects and operations of a backend (ops/backend/backend.h): the
 * specifications of linear layers, KV pools and step buffers, and the arguments of operations.
 *
 * Memory: pointers are borrowed for the call unless a comment says otherwise. */
#ifndef MR_OPS_BACKEND_STEP_H
#define MR_OPS_BACKEND_STEP_H

#include "ops/backend/adapters.h"
#include "ops/backend/epilogue.h"
#include "ops/backend/expert_stack.h"
#include "ops/backend/kv_spec.h"
#include "ops/cpu_kernels/quant/band.h"

struct mr_vector; /* numbers in fp32, such as the weights of a norm */
struct mr_rope;   /* the tables of a rotary embedding */
struct mr_linear; /* y = scale * (x W^T + bias), W in the number format of the device */
struct mr_kv;     /* KV pool: blocks of MR_BLOCK_TOKENS tokens each, of some layers */
struct mr_step;   /* the buffers of a step */

/* Writes row `row` of a matrix as in_size floats, on any thread of the parallel team. */
typedef void (*mr_row_source)(void *context, uint32_t row, float *out);
/* Returns the stored bytes of row `row`, in the format of the row's band; NULL for zeros. */
typedef const unsigned char *(*mr_row_bytes)(void *context, uint32_t row);

struct mr_linear_spec {
    uint32_t out_size, in_size;
    mr_row_source source;
    void *source_context; /* of `stored` too */
    /* For backends with integer_weights: the formats of the rows, packed from the bytes of
     * `stored`. INT8, and Q4_0 without `stored`, are quantized from the floats of `source`. Without
     * bands the weights are numbers of the device. */
    struct mr_quant_band bands[MR_QUANT_BANDS_MAX];
    uint32_t band_count;
    mr_row_bytes stored;
    const float *bias;  /* [out_size]; NULL: none */
    const float *curve; /* [4] of MR_XIELU; NULL: the layer is not used with it */
    float scale;        /* 0 is treated as 1 */
    bool gated; /* rows alternate gate, up; only for epilogues with an activation, others without */
    /* The rows are this number of matrices, one for each head, and only `attend` of
     * ops/backend/latent.h uses the layer; 0: one matrix. */
    uint32_t heads;
    bool table;    /* `embed` reads rows of the layer */
    uint32_t site; /* of its changes by adapters (ops/backend/adapters.h); 0: none */
    struct mr_expert_stack stack;
};

/* The buffers of a step. "Numbers" have the number format of the device. */
enum mr_step_buffer {
    MR_RESIDUAL, /* floats: the residual stream */
    MR_NORMED,   /* numbers: the input of a branch */
    MR_BRANCH,   /* floats: the output of a branch, normed and then added to the residual stream */
    MR_QKV,      /* floats */
    MR_ATTENDED, /* numbers */
    /* Of latent attention (ops/mixer/latent_shape.h): floats, then the normed rows of queries in
     * numbers, the absorbed queries in floats, and the attended latents in numbers. */
    MR_LATENTS,
    MR_QUERY_LATENT,
    MR_ABSORBED,
    MR_ATTENDED_LATENTS,
    MR_GATED,     /* numbers: activation(gate) * up */
    MR_MIXING,    /* floats: the row of a recurrent layer (ops/mixer/mixer_shape.h) */
    MR_MIX_GATES, /* floats: its gates */
    MR_MIXED,     /* numbers: its output */
    MR_ROUTING,   /* floats: logits of the router */
    MR_SWITCHES,  /* floats, one in a row: logit of the shared expert's weight */
    MR_LOGITS,    /* floats; sequences_max rows, where the others have rows_max */
    MR_BUFFER_COUNT
};

struct mr_step_spec {
    struct mr_step *twin; /* takes turns with this step, which uses its graphs; NULL: none */
    uint32_t rows_max, sequences_max;
    uint32_t widths[MR_BUFFER_COUNT]; /* numbers in a row; 0: the buffer is not used */
    uint32_t expert_count, experts_per_row, expert_ffn_size; /* 0: no experts */
    uint32_t rank_max; /* largest rank of a change of a staged adapter; 0: no adapters */
};

/* Rows [row_begin, row_begin + row_count) of the step are the positions [context_tokens,
 * context_tokens + row_count) of one sequence. */
struct mr_step_sequence {
    uint32_t row_begin, row_count, context_tokens;
    /* By group of layers: [0] ids of full-attention blocks, [1] of sliding-window slots; NULL: no
     * such group. first_block: earlier blocks are outside every window, their ids are not read. */
    const uint32_t *blocks[2];
    uint32_t first_block[2], state;   /* state: slot of the state pool (ops/backend/mixers.h) */
    const struct mr_adapter *adapter; /* of its rows, borrowed until `finish`; NULL: none */
    /* Every row attends to tokens [0, attends) of its sequence; 0: to itself and earlier ones. */
    uint32_t attends;
    uint32_t second_begin; /* positions from here on have token type 1; 0: all have type 0 */
};

/* x / sqrt(mean(x^2) + epsilon) * weight + bias, centered: of x - mean(x) (layer norm). */
struct mr_norm {
    const struct mr_vector *weight, *bias; /* bias: only if centered; NULL: none */
    float epsilon;
    bool centered;
};

/* The attention of one layer. A head has the pool's head_dim numbers, zeros from norm_width on. */
struct mr_attention {
    struct mr_kv *kv;
    uint32_t layer, group; /* layer: index in the pool; group: index in blocks */
    uint32_t head_count, kv_head_count;
    uint32_t window; /* in tokens, with the row's own (struct mr_model_config); 0: none */
    float scale, softcap, clip; /* clip: largest magnitude of normed q and k, and of v; 0: none */
    const struct mr_vector *sinks; /* [head_count] logits without values in each softmax; or NULL */
    const struct mr_rope *rope;    /* NULL: no rotary embedding */
    /* [head_count * head_dim] and [kv_head_count * head_dim] weights of the norms; NULL: none. */
    const struct mr_vector *q_norm, *k_norm;
    float norm_epsilon;
    uint32_t norm_width;
    bool norm_whole, norm_centered; /* one norm over all heads of a row; layer norm, else RMS */
    bool norm_after;                /* the norm follows the rotation */
};

/* The decode steps that a graph runs: `rows` sequences of one row with logits, each of at most
 * `tokens` tokens with the row's own; `sliding`: they have blocks[1]. */
struct mr_graph_spec {
    uint32_t rows, tokens;
    bool sliding;
    void (*walk)(void *context, uint32_t rows); /* calls their operations, from `embed` on */
    void *context;
};

#endif
