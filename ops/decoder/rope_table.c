#include "ops/decoder/rope_table.h"

#include "codec/check.h"
#include "ops/cpu_kernels/parallel.h"

#include <math.h>
#include <stdlib.h>

#define FULL_TURN 6.28318530717958647692

bool mr_rope_table_is_long(const struct mr_rope_config *config, uint32_t position_count)
{
    return config->kind == MR_ROPE_LONG && position_count > config->original_context;
}

static float llama3_frequency(const struct mr_rope_config *config, float frequency)
{
    float context = (float)config->original_context;
    float low = (float)config->low_freq, high = (float)config->high_freq;
    float wavelength = (float)FULL_TURN / frequency;
    if (wavelength > context / low) return frequency / (float)config->factor;
    if (wavelength < context / high) return frequency;
    float smooth = (context / wavelength - low) / (high - low);
    return (1.0f - smooth) * frequency / (float)config->factor + smooth * frequency;
}

/* Returns the pair that makes `turns` turns in the original context, as a fraction. */
static double yarn_pair(const struct mr_rope_config *config, double turns)
{
    return config->rotary_dim * log(config->original_context / (turns * FULL_TURN)) /
           (2.0 * log(config->theta));
}

static float yarn_frequency(const struct mr_rope_config *config, uint32_t pair, float power)
{
    double low = yarn_pair(config, config->beta_fast), high = yarn_pair(config, config->beta_slow);
    if (!config->keeps_fractions) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0.0);
    high = fmin(high, config->rotary_dim - 1.0);
    if (low == high) high += 0.001;
    float ramp = ((float)pair - (float)low) / (float)(high - low);
    float kept = 1.0f - fminf(fmaxf(ramp, 0.0f), 1.0f);
    float scaled = 1.0f / ((float)config->factor * power);
    return scaled * (1.0f - kept) + 1.0f / power * kept;
}

static float frequency_of(const struct mr_rope_config *config, uint32_t pair, bool is_long)
{
    float exponent = (float)(2 * pair) / (float)config->rotary_dim;
    float power = powf((float)config->theta, exponent), frequency = 1.0f / power;
    switch (config->kind) {
    case MR_ROPE_PLAIN:
        break;
    case MR_ROPE_LINEAR:
        frequency /= (float)config->factor;
        break;
    case MR_ROPE_LLAMA3:
        frequency = llama3_frequency(config, frequency);
        break;
    case MR_ROPE_YARN:
        frequency = yarn_frequency(config, pair, power);
        break;
    case MR_ROPE_LONG:
        return 1.0f / ((is_long ? config->long_divisors : config->divisors)[pair] * power);
    }
    return config->has_divisors ? frequency / config->divisors[pair] : frequency;
}

struct fill_work {
    const struct mr_rope_table *table;
    const struct mr_rope_config *config;
    float frequencies[MR_ROPE_PAIRS_MAX];
    size_t pairs;
    float factor;
};

static void fill_positions(void *context, size_t begin, size_t end)
{
    const struct fill_work *work = context;
    const struct mr_rope_config *config = work->config;
    for (size_t position = begin; work->table->q_scales && position < end; position++)
        work->table->q_scales[position] =
            1.0f + (float)config->temperature *
                       logf(1.0f + floorf((float)position / (float)config->temperature_tokens));
    for (size_t position = begin; position < end; position++)
        for (size_t pair = 0; pair < work->pairs; pair++) {
            float angle = (float)position * work->frequencies[pair];
            work->table->cos[position * work->pairs + pair] = cosf(angle) * work->factor;
            work->table->sin[position * work->pairs + pair] = sinf(angle) * work->factor;
        }
}

enum mr_status mr_rope_table_create(struct mr_rope_table *out, const struct mr_rope_config *config,
                                    uint32_t position_count, struct mr_error *err)
{
    MR_ASSERT(config->rotary_dim > 0 && config->rotary_dim % 2 == 0);
    MR_ASSERT(config->rotary_dim / 2 <= MR_ROPE_PAIRS_MAX);
    size_t pairs = config->rotary_dim / 2;
    struct mr_rope_table table = {.rotary_dim = config->rotary_dim,
                                  .position_count = position_count};
    table.cos = calloc(position_count * pairs, sizeof(float));
    table.sin = calloc(position_count * pairs, sizeof(float));
    if (config->temperature > 0.0) table.q_scales = calloc(position_count, sizeof(float));
    *out = (struct mr_rope_table){0};
    if (!table.cos || !table.sin || (config->temperature > 0.0 && !table.q_scales)) {
        mr_rope_table_destroy(&table);
        return mr_fail(err, MR_NOMEM, "no memory for rope tables of %u positions", position_count);
    }
    const bool is_long = mr_rope_table_is_long(config, position_count);
    struct fill_work work = {.table = &table, .config = config, .pairs = pairs, .factor = 1.0f};
    if (config->attention_factor != 0.0) work.factor = (float)config->attention_factor;
    if (is_long && config->long_attention_factor != 0.0)
        work.factor = (float)config->long_attention_factor;
    for (uint32_t pair = 0; pair < pairs; pair++)
        work.frequencies[pair] = frequency_of(config, pair, is_long);
    mr_parallel_for(position_count, 256, fill_positions, &work);
    *out = table;
    return MR_OK;
}

void mr_rope_table_destroy(struct mr_rope_table *table)
{
    free(table->cos);
    free(table->sin);
    free(table->q_scales);
    *table = (struct mr_rope_table){0};
}
