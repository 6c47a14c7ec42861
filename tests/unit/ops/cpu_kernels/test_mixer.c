/* Recurrent layers at every level against a computation in double, and the independence of chunk
 * borders, other sequences and the slot's old content. */
#include "ops/cpu_kernels/mixer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../levels.h"
#include "../numbers.h"

enum { ROWS = 23, HEADS = 4, WIDTH_MAX = 400 };

/* Value sizes on both sides of 64 and of a vector; two key heads; decay within limits. */
static const struct mr_mixer_shape shapes[] = {
    {.kind = MR_MIXER_CONV, .taps = 3, .value_dim = 37},
    {.kind = MR_MIXER_SSD,
     .taps = 4,
     .heads = HEADS,
     .key_heads = 2,
     .key_dim = 9,
     .value_dim = 20,
     .norm_width = 40,
     .norm_epsilon = 1e-5f,
     .norm_after_gate = true,
     .dt_min = 0.3f,
     .dt_max = 0.9f},
    {.kind = MR_MIXER_DELTA,
     .taps = 2,
     .heads = HEADS,
     .key_heads = 2,
     .key_dim = 18,
     .value_dim = 70,
     .norm_width = 70,
     .norm_epsilon = 1e-5f,
     .doubled_beta = true},
    {.kind = MR_MIXER_DELTA,
     .taps = 4,
     .heads = HEADS,
     .key_heads = 2,
     .key_dim = 16,
     .value_dim = 64,
     .tiled = true,
     .norm_width = 0},
};

struct layer {
    float taps[4 * 512], bias[512], decay[HEADS], dt_bias[HEADS], skip[HEADS], norm[512];
    float rows[ROWS * 1024], gates[ROWS * 2 * HEADS], out[ROWS * 512];
};

static void fill(float *numbers, size_t count, uint64_t *seed)
{
    for (size_t i = 0; i < count; i++)
        numbers[i] = number_next(seed);
}

static void draw(struct layer *layer, const struct mr_mixer_shape *shape)
{
    uint64_t seed = 7;
    assert_true(mr_mixer_row_width(shape) <= 1024 && mr_mixer_channels(shape) <= 512);
    fill(layer->taps, sizeof layer->taps / sizeof(float), &seed);
    fill(layer->bias, 512, &seed);
    fill(layer->dt_bias, HEADS, &seed);
    fill(layer->skip, HEADS, &seed);
    fill(layer->norm, 512, &seed);
    fill(layer->rows, sizeof layer->rows / sizeof(float), &seed);
    fill(layer->gates, sizeof layer->gates / sizeof(float), &seed);
    for (uint32_t i = 0; i < HEADS; i++)
        layer->decay[i] = -0.2f - 0.3f * (float)i;
}

static struct mr_cpu_mixer mixer_of(struct layer *layer, const struct mr_mixer_shape *shape,
                                    struct mr_cpu_states *states, enum mr_cpu_level level)
{
    return (struct mr_cpu_mixer){.states = states,
                                 .layer = 1,
                                 .taps = layer->taps,
                                 .bias = layer->bias,
                                 .decay = layer->decay,
                                 .dt_bias = layer->dt_bias,
                                 .skip = shape->kind == MR_MIXER_SSD ? layer->skip : NULL,
                                 .norm = shape->norm_width > 0 ? layer->norm : NULL,
                                 .level = level};
}

/* ---- the computation in double ---- */

static double silu(double x)
{
    return x / (1 + exp(-x));
}

static double input_at(const struct layer *layer, const struct mr_mixer_shape *shape, int row,
                       uint32_t channel)
{
    if (row < 0) return 0;
    const float *at = layer->rows + (size_t)row * mr_mixer_row_width(shape);
    if (shape->kind != MR_MIXER_CONV) return (double)at[mr_mixer_first_channel(shape) + channel];
    return (double)at[channel] * (double)at[2 * shape->value_dim + channel];
}

static double convolved(const struct layer *layer, const struct mr_mixer_shape *shape, int row,
                        uint32_t channel)
{
    const uint32_t channels = mr_mixer_channels(shape);
    double sum = (double)layer->bias[channel];
    for (uint32_t i = 0; i < shape->taps; i++)
        sum += (double)layer->taps[i * channels + channel] *
               input_at(layer, shape, row - (int)(shape->taps - 1 - i), channel);
    return sum;
}

struct doubles {
    double key[64], query[64], y[512], s[HEADS][64][128];
};

static void read_keys(const struct layer *layer, const struct mr_mixer_shape *shape, int row,
                      uint32_t head, struct doubles *d)
{
    const uint32_t first = mr_mixer_first_channel(shape);
    double key = 1e-6, query = 1e-6;
    for (uint32_t i = 0; i < shape->key_dim; i++) {
        d->key[i] = silu(convolved(layer, shape, row, mr_mixer_key_at(shape, head) - first + i));
        d->query[i] =
            silu(convolved(layer, shape, row, mr_mixer_query_at(shape, head) - first + i));
        key += d->key[i] * d->key[i];
        query += d->query[i] * d->query[i];
    }
    for (uint32_t i = 0; shape->kind == MR_MIXER_DELTA && i < shape->key_dim; i++) {
        d->key[i] /= sqrt(key);
        d->query[i] /= sqrt(query * shape->key_dim);
    }
}

static void step_head(const struct layer *layer, const struct mr_mixer_shape *shape, int row,
                      uint32_t head, struct doubles *d)
{
    const bool delta = shape->kind == MR_MIXER_DELTA;
    const float *gates = layer->gates + (size_t)row * mr_mixer_gates_width(shape);
    const double raw = (double)gates[delta ? HEADS + head : head] + (double)layer->dt_bias[head];
    double dt = log1p(exp(raw)), beta = 2 / (1 + exp(-(double)gates[head]));
    if (!delta) beta = dt = fmin(fmax(dt, (double)shape->dt_min), (double)shape->dt_max);
    if (delta && !shape->doubled_beta) beta /= 2;
    const double decay = exp((double)layer->decay[head] * dt);
    read_keys(layer, shape, row, head, d);
    for (uint32_t j = 0; j < shape->value_dim; j++) {
        const uint32_t at = mr_mixer_value_at(shape, head) - mr_mixer_first_channel(shape) + j;
        const double v = silu(convolved(layer, shape, row, at));
        double seen = 0, out = delta ? 0 : (double)layer->skip[head] * v;
        for (uint32_t i = 0; delta && i < shape->key_dim; i++)
            seen += decay * d->s[head][i][j] * d->key[i];
        for (uint32_t i = 0; i < shape->key_dim; i++) {
            d->s[head][i][j] = decay * d->s[head][i][j] + d->key[i] * beta * (v - seen);
            out += d->query[i] * d->s[head][i][j];
        }
        d->y[head * shape->value_dim + j] = out;
    }
}

static void gate_row(const struct layer *layer, const struct mr_mixer_shape *shape, int row,
                     struct doubles *d)
{
    const uint32_t width = mr_mixer_out_width(shape);
    const float *z = layer->rows + (size_t)row * mr_mixer_row_width(shape);
    for (uint32_t i = 0; shape->norm_after_gate && i < width; i++)
        d->y[i] *= silu((double)z[i]);
    for (uint32_t i = 0; shape->norm_width > 0 && i < width; i += shape->norm_width) {
        double squares = 0;
        for (uint32_t k = i; k < i + shape->norm_width; k++)
            squares += d->y[k] * d->y[k];
        for (uint32_t k = i; k < i + shape->norm_width; k++)
            d->y[k] *= (double)layer->norm[k] /
                       sqrt(squares / shape->norm_width + (double)shape->norm_epsilon);
    }
    for (uint32_t i = 0; !shape->norm_after_gate && i < width; i++)
        d->y[i] *= silu((double)z[i]);
}

static void compare(const struct layer *layer, const struct mr_mixer_shape *shape,
                    const float *outputs)
{
    static struct doubles d;
    memset(&d, 0, sizeof d);
    const uint32_t width = mr_mixer_out_width(shape);
    for (int row = 0; row < ROWS; row++) {
        for (uint32_t head = 0; head < shape->heads; head++)
            step_head(layer, shape, row, head, &d);
        for (uint32_t i = 0; shape->kind == MR_MIXER_CONV && i < width; i++)
            d.y[i] = convolved(layer, shape, row, i) *
                     (double)layer->rows[(size_t)row * 3 * width + width + i];
        if (shape->kind != MR_MIXER_CONV) gate_row(layer, shape, row, &d);
        for (uint32_t i = 0; i < width; i++)
            if (!(fabs((double)outputs[(size_t)row * width + i] - d.y[i]) < 2e-5))
                fail_msg("kind %d, row %d, output %u is %g, not %g", (int)shape->kind, row, i,
                         (double)outputs[(size_t)row * width + i], d.y[i]);
    }
}

/* ---- tests ---- */

/* Computes all rows in chunks, as one sequence among others, with a slot full of NaN. */
static void run(const struct layer *from, const struct mr_mixer_shape *shape,
                enum mr_cpu_level level, uint32_t chunk, float *out)
{
    struct layer *layer = malloc(sizeof *layer);
    struct mr_cpu_states *states;
    assert_non_null(layer);
    *layer = *from;
    assert_int_equal(mr_cpu_states_create(&states, shape, 2, 3, NULL), MR_OK);
    memset(states->memory, 0xff, 3 * states->slot_floats * sizeof(float));
    const uint32_t width = mr_mixer_row_width(shape), gates = mr_mixer_gates_width(shape);
    for (uint32_t row = 0; row < ROWS; row += chunk) {
        const uint32_t count = ROWS - row < chunk ? ROWS - row : chunk;
        const struct mr_cpu_mixer_sequence all[] = {{0, count, row, 2}};
        struct mr_cpu_mixer mixer = mixer_of(layer, shape, states, level);
        mixer.sequences = all;
        mixer.sequence_count = 1;
        mr_cpu_mix(&mixer, layer->rows + (size_t)row * width, layer->gates + (size_t)row * gates,
                   out + (size_t)row * mr_mixer_out_width(shape));
    }
    mr_cpu_states_destroy(states);
    free(layer);
}

static void every_level_computes_the_recurrence(void **state)
{
    (void)state;
    static struct layer layer;
    static float out[ROWS * 512];
    EACH_LEVEL (level)
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
            draw(&layer, &shapes[i]);
            run(&layer, &shapes[i], level, ROWS, out);
            compare(&layer, &shapes[i], out);
        }
}

static void chunk_borders_change_no_bit(void **state)
{
    (void)state;
    static struct layer layer;
    static float whole[ROWS * 512], parts[ROWS * 512];
    static const uint32_t chunks[] = {1, 2, 3, 7, 22};
    EACH_LEVEL (level)
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
            draw(&layer, &shapes[i]);
            run(&layer, &shapes[i], level, ROWS, whole);
            for (size_t k = 0; k < sizeof chunks / sizeof chunks[0]; k++) {
                run(&layer, &shapes[i], level, chunks[k], parts);
                assert_memory_equal(parts, whole,
                                    ROWS * mr_mixer_out_width(&shapes[i]) * sizeof(float));
            }
        }
}

/* Two sequences of a step: each has the bits that it has alone. */
static void other_sequences_change_no_bit(void **state)
{
    (void)state;
    static struct layer layer, copy;
    static float alone[ROWS * 512], both[ROWS * 512];
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct mr_cpu_states *states;
        draw(&layer, &shapes[i]);
        run(&layer, &shapes[i], MR_CPU_BEST, ROWS, alone);
        copy = layer;
        assert_int_equal(mr_cpu_states_create(&states, &shapes[i], 2, 2, NULL), MR_OK);
        const struct mr_cpu_mixer_sequence all[] = {{0, 9, 0, 1}, {9, ROWS - 9, 0, 0}};
        struct mr_cpu_mixer mixer = mixer_of(&copy, &shapes[i], states, MR_CPU_BEST);
        mixer.sequences = all;
        mixer.sequence_count = 2;
        mr_cpu_mix(&mixer, copy.rows, copy.gates, both);
        assert_memory_equal(both, alone, 9 * mr_mixer_out_width(&shapes[i]) * sizeof(float));
        mr_cpu_states_destroy(states);
    }
}

static void the_gate_of_attention_is_a_sigmoid(void **state)
{
    (void)state;
    float x[37], gates[37], expected[37];
    uint64_t seed = 3;
    fill(x, 37, &seed);
    fill(gates, 37, &seed);
    for (uint32_t i = 0; i < 37; i++)
        expected[i] = x[i] / (1 + expf(-gates[i]));
    mr_cpu_gate(x, gates, 37, false);
    for (uint32_t i = 0; i < 37; i++)
        assert_true(fabsf(x[i] - expected[i]) < 1e-6f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_level_computes_the_recurrence),
        cmocka_unit_test(chunk_borders_change_no_bit),
        cmocka_unit_test(other_sequences_change_no_bit),
        cmocka_unit_test(the_gate_of_attention_is_a_sigmoid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
