/* mixer - recurrent layers on a CPU. ops/mixer/mixer_shape.h defines the mathematics, the rows and
 * the state.
 *
 * The same recurrence, one token after the other, computes prompts, decoding rows and drafts. The
 * state after a token depends only on the state before it and on the token's row, so chunk borders,
 * batches and preemption cannot change a bit. Each column of S is computed by itself in one fixed
 * order; threads share heads and columns, so their number cannot change a bit either.
 *
 * State:  a pool of slots, each with the states of all recurrent layers of one sequence, in floats.
 * Owner:  engine thread; ops/cpu_kernels/parallel.h spreads the work.
 * Memory: the pool, in _create; pages become resident on first use. Errors: MR_NOMEM. */
#ifndef MR_OPS_CPU_KERNELS_MIXER_H
#define MR_OPS_CPU_KERNELS_MIXER_H

#include "ops/cpu_kernels/kernels.h"
#include "ops/mixer/mixer_shape.h"

struct mr_cpu_states {
    struct mr_mixer_shape shape;
    uint32_t layer_count, slot_count;
    size_t slot_floats;
    float *memory; /* [slot][layer][mr_mixer_state_floats] */
};

enum mr_status mr_cpu_states_create(struct mr_cpu_states **out, const struct mr_mixer_shape *shape,
                                    uint32_t layer_count, uint32_t slot_count,
                                    struct mr_error *err);
void mr_cpu_states_destroy(struct mr_cpu_states *states);
/* The memory of a slot: slot_floats floats. */
float *mr_cpu_states_slot(const struct mr_cpu_states *states, uint32_t slot);

/* Rows [row_begin, row_begin + row_count) of one sequence, whose state is in `slot`. A sequence
 * without context_tokens starts with a state of zeros; the slot is not read. */
struct mr_cpu_mixer_sequence {
    uint32_t row_begin, row_count, context_tokens, slot;
};

struct mr_cpu_mixer {
    struct mr_cpu_states *states;
    uint32_t layer;    /* of the pool */
    const float *taps; /* [taps][channels] weights of the convolution, the newest token last */
    const float *bias; /* [channels], or NULL */
    const float *decay, *dt_bias; /* [heads]: `a` and dt_bias; NULL for CONV */
    const float *skip;            /* [heads]: SSD only */
    const float *norm;            /* [heads * value_dim]; NULL: no norm */
    const struct mr_cpu_mixer_sequence *sequences;
    uint32_t sequence_count;
    bool bf16; /* true: out is bf16; false: float */
    enum mr_cpu_level level;
};

/* Computes the outputs of a layer for all rows of the sequences, and moves their states past these
 * rows. rows: float [rows, mr_mixer_row_width], changed; gates: float [rows, mr_mixer_gates_width];
 * out: [rows, mr_mixer_out_width]. */
void mr_cpu_mix(const struct mr_cpu_mixer *mixer, float *rows, const float *gates, void *out);

/* x[i] *= sigmoid(gates[i]): the output gate of attention. x: [count] bf16 or float. */
void mr_cpu_gate(void *x, const float *gates, size_t count, bool bf16);

/* ---- the inner loops, one function each in struct mr_cpu_mix_ops ---- */

/* The convolution of 16 channels, or fewer at the end, over the rows of one sequence. */
struct mr_cpu_mix_conv {
    const float *taps, *bias; /* taps: channel_count floats apart; both from the first channel on */
    uint32_t channel_count, tap_count, count; /* channels of the layer; taps; channels here */
    float *window; /* inputs for the tokens before, window_stride apart; overwritten */
    size_t window_stride;
    bool fresh; /* no tokens before: the window is not read */
    /* The input and, in place, the output with SiLU. With `before` and `after` the input is their
     * product at each channel, x * before, and x * conv(...) is not stored here but as number
     * `out` = after * conv(x * before). */
    float *x;
    const float *before, *after;
    void *out;
    size_t stride, out_stride; /* of x, before, after; of out, in numbers */
    uint32_t rows;
    bool bf16;
};

/* The recurrence of at most MR_CPU_MIX_COLUMNS columns of one head over the rows of a sequence. */
#define MR_CPU_MIX_COLUMNS 64u
struct mr_cpu_mix_scan {
    enum mr_mixer_kind kind;
    const float *k, *q; /* of the first row */
    float *v;           /* of the first row and column; overwritten by the outputs */
    const float *gate;  /* of the head: dt, or the gate of the decay */
    const float *beta;  /* of the head: DELTA */
    size_t stride, gate_stride;
    uint32_t rows, key_dim, columns; /* columns: those computed here */
    float *s;                        /* [key_dim] rows of s_stride floats, from the first column */
    size_t s_stride;
    bool fresh; /* s is zero and is not read */
    bool doubled_beta;
    float decay, dt_bias, skip, dt_min, dt_max;
};

/* The gate of one row. */
struct mr_cpu_mix_gate {
    const float *x, *z, *norm; /* [width]; norm NULL: none */
    void *out;
    uint32_t width, norm_width;
    float epsilon;
    bool norm_after_gate, bf16;
};

/* x[i] *= sigmoid(gates[i]) in `sigmoid`. */
struct mr_cpu_mix_ops {
    void (*conv)(const struct mr_cpu_mix_conv *conv);
    void (*scan)(const struct mr_cpu_mix_scan *scan);
    void (*gate)(const struct mr_cpu_mix_gate *gate);
    void (*sigmoid)(void *x, const float *gates, size_t count, bool bf16);
};

#endif
