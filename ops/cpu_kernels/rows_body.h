/* rows_body - the functions of level.h that work on rows (epilogue, norm, conversion, rotation,
 * merging of partial softmax results), in the 16-lane vectors that the including file defines. */
#ifndef MR_OPS_CPU_KERNELS_ROWS_BODY_H
#define MR_OPS_CPU_KERNELS_ROWS_BODY_H

#include "ops/cpu_kernels/linear.h"

#include <math.h>

#define ROWS_LOG2_E 1.44269504088896341f

/* 2 to the power of whole + f, f in [-1/2, 1/2]. */
static inline lanes rows_exp2_of(lanes whole, lanes f)
{
    lanes p = lanes_set(0.0001545316294512069f);
    p = lanes_fma(p, f, lanes_set(0.0013390863364671234f));
    p = lanes_fma(p, f, lanes_set(0.009618082557277852f));
    p = lanes_fma(p, f, lanes_set(0.05550357114219078f));
    p = lanes_fma(p, f, lanes_set(0.24022650760568126f));
    p = lanes_fma(p, f, lanes_set(0.6931471880262288f));
    p = lanes_fma(p, f, lanes_set(1.0f));
    return lanes_scale(p, whole);
}

/* 2^x with an error of at most 2 units in the last place; 0 for x below -126; x above 127 is
 * treated as 127. The fraction f of x, in [-1/2, 1/2] and exact, is the argument of a polynomial
 * that interpolates (2^f - 1) / f at six Chebyshev points; in this form 2^0 is exactly 1. */
static inline lanes rows_exp2(lanes x)
{
    x = lanes_min(lanes_set(127.0f), lanes_max(lanes_set(-127.0f), x));
    const lanes whole = lanes_round(x);
    return rows_exp2_of(whole, lanes_sub(x, whole));
}

/* e^x, for |x| of some tens more exact than rows_exp2(x * log2(e)), whose argument is rounded. The
 * second constant is what float leaves of log2(e). */
static inline lanes rows_exp(lanes x)
{
    x = lanes_min(lanes_set(88.0f), lanes_max(lanes_set(-87.0f), x));
    const lanes whole = lanes_round(lanes_mul(x, lanes_set(ROWS_LOG2_E)));
    const lanes f = lanes_fma(x, lanes_set(ROWS_LOG2_E), lanes_sub(lanes_set(0.0f), whole));
    return rows_exp2_of(whole, lanes_fma(x, lanes_set(1.925963033e-8f), f));
}

/* 2^x with a relative error of 2.2e-4, a ninth of the error of rounding to bf16: three
 * interpolation points and a fraction in [0, 1), the fewest instructions. x is finite and at most
 * 127. */
static inline lanes rows_exp2_bf16(lanes x)
{
    lanes f = lanes_fraction(x);
    lanes p = lanes_set(0.0724739283323288f);
    p = lanes_fma(p, f, lanes_set(0.23357875645160675f));
    p = lanes_fma(p, f, lanes_set(0.6935192942619324f));
    p = lanes_fma(p, f, lanes_set(1.0f));
    return lanes_scale(p, x);
}

/* Returns cap * tanh(x * scale / cap) / scale: x is capped as if it had already been scaled. */
static inline lanes rows_cap(lanes x, float scale, float cap)
{
    lanes doubled = lanes_mul(x, lanes_set(2.0f * ROWS_LOG2_E * scale / cap));
    lanes below = lanes_add(rows_exp2(doubled), lanes_set(1.0f));
    lanes tanh = lanes_sub(lanes_set(1.0f), lanes_div(lanes_set(2.0f), below));
    return lanes_mul(tanh, lanes_set(cap / scale));
}

static inline void rows_store(void *out, size_t index, lanes x, uint32_t count, bool bf16)
{
    if (bf16) {
        uint16_t *p = (uint16_t *)out + index;
        if (count == 16)
            lanes_store_bf16(p, x);
        else
            lanes_store_bf16_part(p, x, count);
        return;
    }
    float *p = (float *)out + index;
    if (count == 16)
        lanes_store(p, x);
    else
        lanes_store_part(p, x, count);
}

static inline lanes rows_load(const float *p, uint32_t count)
{
    return count == 16 ? lanes_load(p) : lanes_load_part(p, count);
}

/* ---- epilogue of a linear layer ---- */

/* Returns `count` outputs of a row from `column` on, times `scale`. */
static inline lanes rows_sums(const struct mr_cpu_finish *finish, uint32_t row, uint32_t column,
                              uint32_t count, lanes scale)
{
    lanes x = lanes_load(finish->c + row * finish->c_stride + column);
    if (finish->bias) x = lanes_add(x, rows_load(finish->bias + column, count));
    return lanes_mul(x, scale);
}

/* Returns x * sigmoid(factor * x) * up, where factor * x is `inner`. */
static inline lanes rows_sigmoid_mul(lanes x, lanes inner, lanes up)
{
    const lanes power = rows_exp2(lanes_mul(inner, lanes_set(-ROWS_LOG2_E)));
    return lanes_div(lanes_mul(x, up), lanes_add(lanes_set(1.0f), power));
}

/* GELU in its exact form, x * (1 + erf(x / sqrt(2))) / 2 = max(x, 0) - |x| * erfc(|x| / sqrt(2)) /
 * 2. erfc is 2 to the power of -|x| times a polynomial in |x|, fitted so that the largest error of
 * erfc over |x| <= 6 is smallest: 1.6e-8, and 7e-8 with rounding. Past 6 the term is below 1e-8.
 * NaN stays NaN. */
static inline lanes rows_gelu(lanes x)
{
    const lanes zero = lanes_set(0.0f);
    const lanes a = lanes_min(lanes_set(6.0f), lanes_max(lanes_sub(zero, x), x));
    lanes p = lanes_set(2.834914766935981e-06f);
    p = lanes_fma(p, a, lanes_set(-3.937771180062555e-05f));
    p = lanes_fma(p, a, lanes_set(0.00018618030298966914f));
    p = lanes_fma(p, a, lanes_set(0.00013693627261091024f));
    p = lanes_fma(p, a, lanes_set(-0.00706342002376914f));
    p = lanes_fma(p, a, lanes_set(0.052496179938316345f));
    p = lanes_fma(p, a, lanes_set(0.4592081904411316f));
    p = lanes_fma(p, a, lanes_set(1.1511051654815674f));
    const lanes erfc = rows_exp2(lanes_sub(zero, lanes_mul(p, a)));
    return lanes_sub(lanes_max(zero, x), lanes_mul(lanes_mul(a, lanes_set(0.5f)), erfc));
}

/* Returns activation(gate) * up of one of the gated epilogues. */
static inline lanes rows_activate(lanes gate, lanes up, const enum mr_cpu_epilogue epilogue)
{
    if (epilogue == MR_CPU_SILU_MUL) return rows_sigmoid_mul(gate, gate, up);
    if (epilogue == MR_CPU_GELU_MUL) return lanes_mul(rows_gelu(gate), up);
    if (epilogue == MR_CPU_GELU_TANH_MUL) { /* (1 + tanh(u)) / 2 = sigmoid(2 u) */
        const lanes cube = lanes_mul(lanes_mul(gate, gate), gate);
        const lanes u = lanes_fma(cube, lanes_set(0.044715f), gate);
        return rows_sigmoid_mul(gate, lanes_mul(u, lanes_set(1.5957691216057308f)), up);
    }
    gate = lanes_min(lanes_set(7.0f), gate);
    up = lanes_min(lanes_set(7.0f), lanes_max(lanes_set(-7.0f), up));
    return rows_sigmoid_mul(gate, lanes_mul(gate, lanes_set(1.702f)),
                            lanes_add(up, lanes_set(1.0f)));
}

/* The columns of c alternate between gate and up. epilogue is a constant wherever this function is
 * inlined. */
static inline void rows_gate(const struct mr_cpu_finish *finish,
                             const enum mr_cpu_epilogue epilogue)
{
    const lanes scale = lanes_set(finish->scale);
    for (uint32_t row = 0; row < finish->rows; row++)
        for (uint32_t column = 0; column < finish->columns; column += 32) {
            const uint32_t left = finish->columns - column;
            const uint32_t low = left < 16 ? left : 16, high = left < 32 ? left - low : 16;
            lanes a = rows_sums(finish, row, column, low, scale);
            lanes b = lanes_set(0.0f);
            if (high > 0) b = rows_sums(finish, row, column + 16, high, scale);
            lanes y = rows_activate(lanes_even(a, b), lanes_odd(a, b), epilogue);
            rows_store(finish->out, row * finish->out_stride + column / 2, y, (low + high) / 2,
                       finish->bf16);
        }
}

static inline void rows_put(const struct mr_cpu_finish *finish, uint32_t row)
{
    const size_t start = (finish->targets ? finish->targets[row] : row) * finish->out_stride;
    const float factor = finish->factors ? finish->factors[row] : 1.0f;
    const lanes scale = lanes_set(finish->scale * factor);
    for (uint32_t column = 0; column < finish->columns; column += 16) {
        const uint32_t left = finish->columns - column, count = left < 16 ? left : 16;
        const size_t at = start + column;
        lanes x = rows_sums(finish, row, column, count, scale);
        if (finish->epilogue == MR_CPU_ADD_F32)
            x = lanes_add(x, rows_load((const float *)finish->out + at, count));
        rows_store(finish->out, at, x, count, false);
    }
}

/* xIELU. The term below zero is computed for all lanes. Where x is positive, min(x, 0) is 0 and the
 * term is a constant, which is then subtracted. */
static inline lanes rows_xielu(lanes x, const float *curve)
{
    const lanes zero = lanes_set(0.0f), one = lanes_set(1.0f), top = lanes_set(curve[3]);
    const lanes above = lanes_max(zero, x), below = lanes_min(zero, x);
    const lanes log2_e = lanes_set(ROWS_LOG2_E);
    const lanes power = rows_exp2(lanes_mul(lanes_min(top, below), log2_e));
    const lanes constant = lanes_sub(rows_exp2(lanes_mul(lanes_min(top, zero), log2_e)), one);
    /* 1 where x is positive, else 0 */
    const lanes step = lanes_min(one, lanes_mul(above, lanes_set(3e38f)));
    lanes y = lanes_sub(lanes_sub(power, one), below);
    y = lanes_sub(y, lanes_mul(constant, step));
    y = lanes_fma(y, lanes_set(curve[1]), lanes_mul(x, lanes_set(curve[2])));
    return lanes_fma(lanes_mul(above, above), lanes_set(curve[0]), y);
}

/* Returns activation(x) of one of the epilogues without a gate. */
static inline lanes rows_activate_one(lanes x, const struct mr_cpu_finish *finish)
{
    const enum mr_cpu_epilogue epilogue = finish->epilogue;
    const lanes one = lanes_set(1.0f);
    if (epilogue == MR_CPU_GELU) return rows_gelu(x);
    if (epilogue == MR_CPU_XIELU) return rows_xielu(x, finish->curve);
    const lanes positive = lanes_max(lanes_set(0.0f), x);
    if (epilogue == MR_CPU_RELU) return positive;
    if (epilogue == MR_CPU_RELU2) return lanes_mul(positive, positive);
    return rows_activate(x, one, epilogue == MR_CPU_SILU ? MR_CPU_SILU_MUL : MR_CPU_GELU_TANH_MUL);
}

static inline void rows_activated(const struct mr_cpu_finish *finish)
{
    const lanes scale = lanes_set(finish->scale);
    for (uint32_t row = 0; row < finish->rows; row++)
        for (uint32_t column = 0; column < finish->columns; column += 16) {
            const uint32_t left = finish->columns - column, count = left < 16 ? left : 16;
            const lanes x = rows_sums(finish, row, column, count, scale);
            rows_store(finish->out, row * finish->out_stride + column, rows_activate_one(x, finish),
                       count, finish->bf16);
        }
}

static void rows_finish(const struct mr_cpu_finish *finish)
{
    switch (finish->epilogue) {
    case MR_CPU_SILU_MUL:
        rows_gate(finish, MR_CPU_SILU_MUL);
        break;
    case MR_CPU_GELU_MUL:
        rows_gate(finish, MR_CPU_GELU_MUL);
        break;
    case MR_CPU_GELU_TANH_MUL:
        rows_gate(finish, MR_CPU_GELU_TANH_MUL);
        break;
    case MR_CPU_SWIGLU_OAI_MUL:
        rows_gate(finish, MR_CPU_SWIGLU_OAI_MUL);
        break;
    case MR_CPU_GELU:
    case MR_CPU_GELU_TANH:
    case MR_CPU_SILU:
    case MR_CPU_RELU:
    case MR_CPU_RELU2:
    case MR_CPU_XIELU:
        rows_activated(finish);
        break;
    default:
        for (uint32_t row = 0; row < finish->rows; row++)
            rows_put(finish, row);
    }
}

/* ---- norm and conversion ---- */

/* The numbers [i, i + count) of a row minus `mean`; 0 in lanes past the row's end. */
static inline lanes rows_centered(const float *x, uint32_t i, uint32_t count, lanes mean)
{
    const lanes y = lanes_sub(rows_load(x + i, count), mean);
    return count == 16 ? y : lanes_keep(y, 0, count, lanes_set(0.0f));
}

/* Returns the sum of the numbers of a row, or of their squares. */
static inline float rows_total(const float *x, uint32_t width, lanes mean, const bool squares)
{
    lanes even = lanes_set(0.0f), odd = lanes_set(0.0f);
    for (uint32_t i = 0; i < width; i += 32) {
        const uint32_t left = width - i;
        lanes a = rows_centered(x, i, left < 16 ? left : 16, mean);
        even = squares ? lanes_fma(a, a, even) : lanes_add(a, even);
        if (left <= 16) break;
        lanes b = rows_centered(x, i + 16, left < 32 ? left - 16 : 16, mean);
        odd = squares ? lanes_fma(b, b, odd) : lanes_add(b, odd);
    }
    return lanes_sum(lanes_add(even, odd));
}

/* The moments of a row that its norm uses: y = (x - mean) * factor. */
struct rows_moments {
    lanes mean, factor;
};

static inline struct rows_moments rows_measure(const struct mr_cpu_norm *norm, const float *x)
{
    const float count = (float)(norm->width - norm->padding);
    lanes mean = lanes_set(0.0f);
    if (norm->centered) mean = lanes_set(rows_total(x, norm->width, mean, false) / count);
    const float squares = rows_total(x, norm->width, mean, true);
    return (struct rows_moments){mean, lanes_set(1.0f / sqrtf(squares / count + norm->epsilon))};
}

static inline lanes rows_normed(const struct mr_cpu_norm *norm, const struct rows_moments *moments,
                                const float *x, uint32_t i, uint32_t count)
{
    lanes y = lanes_mul(rows_centered(x, i, count, moments->mean), moments->factor);
    if (norm->weight) y = lanes_mul(y, rows_load(norm->weight + i, count));
    return norm->bias ? lanes_add(y, rows_load(norm->bias + i, count)) : y;
}

static void rows_norm(const struct mr_cpu_norm *norm, const float *x, void *out)
{
    const struct rows_moments moments = rows_measure(norm, x);
    for (uint32_t i = 0; i < norm->width; i += 16) {
        const uint32_t left = norm->width - i, count = left < 16 ? left : 16;
        rows_store(out, i, rows_normed(norm, &moments, x, i, count), count, norm->bf16);
    }
}

static void rows_norm_add(const struct mr_cpu_norm *norm, const float *x, float scale,
                          float *residual)
{
    const struct rows_moments moments = rows_measure(norm, x);
    const lanes by = lanes_set(scale);
    for (uint32_t i = 0; i < norm->width; i += 16) {
        const uint32_t left = norm->width - i, count = left < 16 ? left : 16;
        const lanes y = lanes_mul(rows_normed(norm, &moments, x, i, count), by);
        rows_store(residual, i, lanes_add(rows_load(residual + i, count), y), count, false);
    }
}

static void rows_softcap(float *x, size_t count, float cap)
{
    for (size_t i = 0; i < count; i += 16) {
        const uint32_t part = count - i < 16 ? (uint32_t)(count - i) : 16;
        rows_store(x, i, rows_cap(rows_load(x + i, part), 1.0f, cap), part, false);
    }
}

static void rows_convert(const float *x, float factor, uint32_t count, bool bf16, void *out)
{
    const lanes by = lanes_set(factor);
    for (uint32_t i = 0; i < count; i += 16) {
        const uint32_t left = count - i, part = left < 16 ? left : 16;
        rows_store(out, i, lanes_mul(rows_load(x + i, part), by), part, bf16);
    }
}

/* ---- rotary embedding ---- */

static void rows_rotate(float *head, const float *cos, const float *sin, uint32_t half)
{
    for (uint32_t i = 0; i < half; i += 16) {
        const uint32_t left = half - i, count = left < 16 ? left : 16;
        const lanes x = rows_load(head + i, count), y = rows_load(head + half + i, count);
        const lanes c = rows_load(cos + i, count), s = rows_load(sin + i, count);
        rows_store(head, i, lanes_sub(lanes_mul(x, c), lanes_mul(y, s)), count, false);
        rows_store(head, half + i, lanes_add(lanes_mul(y, c), lanes_mul(x, s)), count, false);
    }
}

/* ---- attention ---- */

/* Merges two partial softmax results: each is rescaled from its own top to the larger of the two
 * (the "online softmax" of Milakov and Gimelshein, 2018). */
static void rows_fold(const struct mr_cpu_fold *fold)
{
    for (uint32_t begin = 0; begin < fold->rows; begin += 16) {
        const uint32_t left = fold->rows - begin, count = left < 16 ? left : 16;
        const lanes top = rows_load(fold->top + begin, count);
        const lanes block_top = rows_load(fold->block_top + begin, count);
        const lanes both = lanes_max(top, block_top);
        float before[16], block[16];
        lanes_store(before, rows_exp2(lanes_sub(top, both)));
        lanes_store(block, rows_exp2(lanes_sub(block_top, both)));
        lanes_store_part(fold->top + begin, both, count);
        for (uint32_t r = 0; r < count; r++) {
            const uint32_t row = begin + r;
            const lanes by = lanes_set(before[r]), block_by = lanes_set(block[r]);
            float *out = fold->out + (size_t)row * fold->width;
            const float *add = fold->block_out + (size_t)row * fold->width;
            for (uint32_t i = 0; i < fold->width; i += 16) {
                lanes old = lanes_mul(lanes_load(out + i), by);
                lanes_store(out + i, lanes_fma(lanes_load(add + i), block_by, old));
            }
            fold->sum[row] = fold->sum[row] * before[r] + fold->block_sum[row] * block[r];
        }
    }
}

#endif
