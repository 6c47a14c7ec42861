/* mixer_shape - the sizes of a recurrent layer (a "mixer"), the layout of its rows and of its
 * state. All mixers of a model have the same shape.
 *
 * Every mixer begins with a causal convolution of its own for each channel, over the last `taps`
 * tokens. The kinds differ in what follows:
 *     CONV   nothing: out = C * conv(B * x), the short convolution of LFM2
 *     SSD    the state-space layer of Mamba-2 (Dao and Gu, 2024)
 *     DELTA  the gated delta rule (Yang, Kautz and Hatamizadeh, 2024)
 * SSD and DELTA have a matrix S [key_dim, value_dim] for each head and, for each token,
 *     S = decay * S + k (outer) delta        out = S^T q
 *     SSD    k is B, q is C, delta = dt * x, decay = exp(dt * a); out gets skip * x added
 *     DELTA  k and q have length 1, q / sqrt(key_dim); decay = exp(a * softplus(gate + dt_bias)),
 *            delta = beta * (v - decay * S^T k)
 * and end with a gate: an RMS norm of groups of outputs, times silu(z).
 *
 * Rows: the floats that a linear layer writes for a token, in the order
 *     CONV   B, C, x                          [channels] each
 *     SSD    z, x, B, C                       z and x [heads * value_dim]
 *     DELTA  z, q, k, v                       z and v [heads * value_dim]
 *     the convolution covers x, B, C or q, k, v; B, C, q, k are [key_heads * key_dim]
 * and the gates that a second linear layer writes: SSD dt [heads]; DELTA beta, decay [heads] each.
 * State of a layer, in floats: the inputs of the convolution for the last taps - 1 tokens, oldest
 * first, then S of each head with its columns contiguous. Both rows are padded to multiples of 16
 * floats.
 *
 * Threads: pure functions. Memory: plain values. Errors: none. */
#ifndef MR_OPS_MIXER_MIXER_SHAPE_H
#define MR_OPS_MIXER_MIXER_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_MIXER_TAPS_MAX    8u
#define MR_MIXER_KEY_DIM_MAX 256u

enum mr_mixer_kind { MR_MIXER_NONE, MR_MIXER_CONV, MR_MIXER_SSD, MR_MIXER_DELTA };

struct mr_mixer_shape {
    enum mr_mixer_kind kind;
    uint32_t taps;               /* tokens that the convolution covers, the newest included */
    uint32_t heads, key_heads;   /* heads is a multiple of key_heads; CONV: both 0 */
    uint32_t key_dim, value_dim; /* CONV: key_dim 0, value_dim = channels */
    /* true: head h uses key head h % key_heads; false: h / (heads / key_heads). */
    bool tiled;
    uint32_t norm_width;  /* outputs of a group of the gate's norm; 0: no norm */
    bool norm_after_gate; /* norm(out * silu(z)); false: norm(out) * silu(z) */
    bool doubled_beta;    /* DELTA: beta in (0, 2) instead of (0, 1) */
    float norm_epsilon;
    float dt_min, dt_max; /* SSD: limits of dt */
};

/* Number of outputs of a mixer for a token. */
uint32_t mr_mixer_out_width(const struct mr_mixer_shape *shape);
/* Floats of a row, and of its gates (0: no gates). */
uint32_t mr_mixer_row_width(const struct mr_mixer_shape *shape);
uint32_t mr_mixer_gates_width(const struct mr_mixer_shape *shape);
/* Channels of the convolution, and the first of them in a row. CONV: its inputs are products of B
 * and x, which are no part of a row; the first is 0. */
uint32_t mr_mixer_channels(const struct mr_mixer_shape *shape);
uint32_t mr_mixer_first_channel(const struct mr_mixer_shape *shape);
/* Places in a row: keys and queries of a head's key head, values of a head. Not for CONV. */
uint32_t mr_mixer_key_at(const struct mr_mixer_shape *shape, uint32_t head);
uint32_t mr_mixer_query_at(const struct mr_mixer_shape *shape, uint32_t head);
uint32_t mr_mixer_value_at(const struct mr_mixer_shape *shape, uint32_t head);
/* Floats of the convolution's inputs, of one head's S, and of a layer in a state. */
size_t mr_mixer_window_floats(const struct mr_mixer_shape *shape);
size_t mr_mixer_head_floats(const struct mr_mixer_shape *shape);
size_t mr_mixer_state_floats(const struct mr_mixer_shape *shape);
/* Floats from one row of S to the next; from one token's inputs of the convolution to the next. */
uint32_t mr_mixer_columns(const struct mr_mixer_shape *shape);
uint32_t mr_mixer_window_stride(const struct mr_mixer_shape *shape);

#endif
