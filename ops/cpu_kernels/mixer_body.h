/* mixer_body - the inner loops of recurrent layers (mixer.h), in the 16-lane vectors that the
 * including file defines. Include it after rows_body.h. */
#ifndef MR_OPS_CPU_KERNELS_MIXER_BODY_H
#define MR_OPS_CPU_KERNELS_MIXER_BODY_H

#include "ops/cpu_kernels/mixer.h"
#include "ops/cpu_kernels/rows_body.h"

#define MIX_LANES (MR_CPU_MIX_COLUMNS / 16u)

static inline lanes mix_silu(lanes x)
{
    return lanes_div(x, lanes_add(lanes_set(1.0f), rows_exp(lanes_sub(lanes_set(0.0f), x))));
}

/* ---- the convolution ---- */

static void mix_conv(const struct mr_cpu_mix_conv *conv)
{
    const uint32_t count = conv->count, past = conv->tap_count - 1;
    lanes window[MR_MIXER_TAPS_MAX], taps[MR_MIXER_TAPS_MAX];
    const lanes bias = conv->bias ? rows_load(conv->bias, count) : lanes_set(0.0f);
    for (uint32_t i = 0; i <= past; i++)
        taps[i] = rows_load(conv->taps + (size_t)i * conv->channel_count, count);
    for (uint32_t i = 0; i < past; i++)
        window[i] = conv->fresh ? lanes_set(0.0f)
                                : rows_load(conv->window + i * conv->window_stride, count);
    for (uint32_t row = 0; row < conv->rows; row++) {
        const size_t at = row * conv->stride;
        lanes x = rows_load(conv->x + at, count), sum = bias;
        if (conv->before) x = lanes_mul(x, rows_load(conv->before + at, count));
        for (uint32_t i = 0; i < past; i++)
            sum = lanes_fma(taps[i], window[i], sum);
        sum = lanes_fma(taps[past], x, sum);
        for (uint32_t i = 0; i + 1 < past; i++)
            window[i] = window[i + 1];
        if (past > 0) window[past - 1] = x;
        if (conv->after)
            rows_store(conv->out, row * conv->out_stride,
                       lanes_mul(sum, rows_load(conv->after + at, count)), count, conv->bf16);
        else
            rows_store(conv->x, at, mix_silu(sum), count, false);
    }
    for (uint32_t i = 0; i < past; i++)
        rows_store(conv->window, i * conv->window_stride, window[i], count, false);
}

/* ---- the recurrence ---- */

/* Copies a key or query, divided by its length and multiplied by `scale` if `unit`. */
static inline void mix_key(const float *x, uint32_t dim, bool unit, float scale, float *out)
{
    lanes factor = lanes_set(scale);
    if (unit) factor = lanes_set(scale / sqrtf(rows_total(x, dim, lanes_set(0.0f), true) + 1e-6f));
    for (uint32_t i = 0; i < dim; i += 16) {
        const uint32_t left = dim - i, count = left < 16 ? left : 16;
        rows_store(out, i, lanes_mul(rows_load(x + i, count), factor), count, false);
    }
}

/* log(1 + e^x). Above 20 the difference from x is below the last bit. */
static inline float mix_softplus(float x)
{
    return x > 20.0f ? x : log1pf(expf(x));
}

static inline uint32_t mix_part(uint32_t columns, uint32_t lane)
{
    const uint32_t left = columns - lane * 16u;
    return left < 16 ? left : 16;
}

/* What one token does: s = decay * s + k (outer) delta, v = s^T q + skip * v. */
struct mix_token {
    float k[MR_MIXER_KEY_DIM_MAX], q[MR_MIXER_KEY_DIM_MAX];
    float decay, beta, skip;
};

static inline void mix_prepare(const struct mr_cpu_mix_scan *scan, uint32_t row,
                               struct mix_token *token)
{
    const bool delta = scan->kind == MR_MIXER_DELTA;
    const float gate = mix_softplus(scan->gate[row * scan->gate_stride] + scan->dt_bias);
    mix_key(scan->k + row * scan->stride, scan->key_dim, delta, 1.0f, token->k);
    mix_key(scan->q + row * scan->stride, scan->key_dim, delta,
            delta ? 1.0f / sqrtf((float)scan->key_dim) : 1.0f, token->q);
    token->skip = scan->skip;
    if (delta) {
        const float beta = 1.0f / (1.0f + expf(-scan->beta[row * scan->gate_stride]));
        token->beta = scan->doubled_beta ? 2.0f * beta : beta;
        token->decay = expf(scan->decay * gate);
        return;
    }
    token->beta = fminf(fmaxf(gate, scan->dt_min), scan->dt_max);
    token->decay = expf(scan->decay * token->beta);
}

/* One token of `used` vectors of columns, a constant wherever this function is inlined. */
static inline void mix_step(const struct mr_cpu_mix_scan *scan, const struct mix_token *token,
                            float *v, const uint32_t used)
{
    const lanes decay = lanes_set(token->decay), beta = lanes_set(token->beta);
    lanes delta[MIX_LANES], out[MIX_LANES];
    for (uint32_t j = 0; j < used; j++)
        delta[j] = out[j] = lanes_set(0.0f);
    if (scan->kind == MR_MIXER_DELTA)
        for (uint32_t i = 0; i < scan->key_dim; i++) {
            const lanes k = lanes_set(token->k[i]);
            for (uint32_t j = 0; j < used; j++)
                delta[j] =
                    lanes_fma(lanes_load(scan->s + i * scan->s_stride + j * 16u), k, delta[j]);
        }
    for (uint32_t j = 0; j < used; j++) {
        const lanes x = rows_load(v + j * 16u, mix_part(scan->columns, j));
        delta[j] = lanes_mul(beta, lanes_sub(x, lanes_mul(decay, delta[j])));
    }
    for (uint32_t i = 0; i < scan->key_dim; i++) {
        const lanes k = lanes_set(token->k[i]), q = lanes_set(token->q[i]);
        float *s = scan->s + i * scan->s_stride;
        for (uint32_t j = 0; j < used; j++) {
            const lanes kept = lanes_mul(decay, lanes_load(s + j * 16u));
            const lanes next = lanes_fma(k, delta[j], kept);
            lanes_store(s + j * 16u, next);
            out[j] = lanes_fma(q, next, out[j]);
        }
    }
    for (uint32_t j = 0; j < used; j++) {
        const uint32_t count = mix_part(scan->columns, j);
        const lanes x = rows_load(v + j * 16u, count);
        rows_store(v, j * 16u, lanes_fma(lanes_set(token->skip), x, out[j]), count, false);
    }
}

static void mix_scan(const struct mr_cpu_mix_scan *scan)
{
    const uint32_t used = (scan->columns + 15u) / 16u;
    struct mix_token token;
    for (uint32_t i = 0; scan->fresh && i < scan->key_dim; i++)
        for (uint32_t j = 0; j < used; j++)
            lanes_store(scan->s + i * scan->s_stride + j * 16u, lanes_set(0.0f));
    for (uint32_t row = 0; row < scan->rows; row++) {
        float *v = scan->v + row * scan->stride;
        mix_prepare(scan, row, &token);
        if (used == MIX_LANES)
            mix_step(scan, &token, v, MIX_LANES);
        else
            for (uint32_t j = 0; j < used; j++) {
                struct mr_cpu_mix_scan part = *scan;
                part.s += j * 16u;
                part.columns = mix_part(scan->columns, j);
                mix_step(&part, &token, v + j * 16u, 1);
            }
    }
}

/* ---- gates ---- */

/* x[i] *= sigmoid(gates[i]). x: bf16 or float. */
static void mix_sigmoid(void *x, const float *gates, size_t count, bool bf16)
{
    for (size_t i = 0; i < count; i += 16) {
        const uint32_t part = count - i < 16 ? (uint32_t)(count - i) : 16;
        float numbers[16] = {0};
        for (uint32_t j = 0; j < part; j++) {
            const uint32_t bits = bf16 ? (uint32_t)((const uint16_t *)x)[i + j] << 16 : 0;
            memcpy(&numbers[j], bf16 ? (const void *)&bits : (const float *)x + i + j, 4);
        }
        const lanes gate = rows_load(gates + i, part);
        const lanes power = rows_exp(lanes_sub(lanes_set(0.0f), gate));
        const lanes y = lanes_div(lanes_load(numbers), lanes_add(lanes_set(1.0f), power));
        rows_store(x, i, y, part, bf16);
    }
}

static inline lanes mix_gated(const struct mr_cpu_mix_gate *gate, uint32_t i, uint32_t count,
                              const bool gated)
{
    const lanes x = rows_load(gate->x + i, count);
    return gated ? lanes_mul(x, mix_silu(rows_load(gate->z + i, count))) : x;
}

static void mix_gate(const struct mr_cpu_mix_gate *gate)
{
    const uint32_t group = gate->norm ? gate->norm_width : gate->width;
    const bool first = gate->norm && gate->norm_after_gate;
    for (uint32_t begin = 0; begin < gate->width; begin += group) {
        lanes squares = lanes_set(0.0f), factor = lanes_set(1.0f);
        for (uint32_t i = begin; gate->norm && i < begin + group; i += 16) {
            const uint32_t left = begin + group - i, count = left < 16 ? left : 16;
            const lanes x = mix_gated(gate, i, count, first);
            squares = lanes_fma(x, x, squares);
        }
        if (gate->norm)
            factor = lanes_set(1.0f / sqrtf(lanes_sum(squares) / (float)group + gate->epsilon));
        for (uint32_t i = begin; i < begin + group; i += 16) {
            const uint32_t left = begin + group - i, count = left < 16 ? left : 16;
            lanes y = mix_gated(gate, i, count, first);
            if (gate->norm) y = lanes_mul(lanes_mul(y, factor), rows_load(gate->norm + i, count));
            if (!first) y = lanes_mul(y, mix_silu(rows_load(gate->z + i, count)));
            rows_store(gate->out, i, y, count, gate->bf16);
        }
    }
}

static const struct mr_cpu_mix_ops mix_ops = {mix_conv, mix_scan, mix_gate, mix_sigmoid};

#endif
