#include "ops/rope_table.h"

#include "codec/check.h"
#include "ops/cpu/parallel.h"

#include <math.h>
#include <stdlib.h>

#define FULL_TURN 6.28318530717958647692f
#define PAIRS_MAX 128u /* rotated pairs in the largest head, of 256 numbers */

/* Frequency scaling of Llama 3.1: long wavelengths are multiplied by config->factor, short ones
 * kept, and wavelengths between are blended. */
static float llama3_frequency(const struct mr_rope_config *config, float frequency)
{
    float context = (float)config->original_context;
    float low = (float)config->low_freq, high = (float)config->high_freq;
    float wavelength = FULL_TURN / frequency;
    if (wavelength > context / low) return frequency / (float)config->factor;
    if (wavelength < context / high) return frequency;
    float smooth = (context / wavelength - low) / (high - low);
    return (1.0f - smooth) * frequency / (float)config->factor + smooth * frequency;
}

static float frequency_of(const struct mr_rope_config *config, const float *divisors, uint32_t pair)
{
    float exponent = (float)(2 * pair) / (float)config->rotary_dim;
    float frequency = 1.0f / powf((float)config->theta, exponent);
    if (config->kind == MR_ROPE_LINEAR) frequency /= (float)config->factor;
    if (config->kind == MR_ROPE_LLAMA3) frequency = llama3_frequency(config, frequency);
    return divisors ? frequency / divisors[pair] : frequency;
}

struct fill_work {
    const struct mr_rope_table *table;
    float frequencies[PAIRS_MAX];
    size_t pairs;
};

static void fill_positions(void *context, size_t begin, size_t end)
{
    const struct fill_work *work = context;
    for (size_t position = begin; position < end; position++)
        for (size_t pair = 0; pair < work->pairs; pair++) {
            float angle = (float)position * work->frequencies[pair];
            work->table->cos[position * work->pairs + pair] = cosf(angle);
            work->table->sin[position * work->pairs + pair] = sinf(angle);
        }
}

enum mr_status mr_rope_table_create(struct mr_rope_table *out, const struct mr_rope_config *config,
                                    const float *divisors, uint32_t position_count,
                                    struct mr_error *err)
{
    MR_ASSERT(config->rotary_dim > 0 && config->rotary_dim % 2 == 0);
    MR_ASSERT(config->rotary_dim / 2 <= PAIRS_MAX);
    size_t pairs = config->rotary_dim / 2;
    struct mr_rope_table table = {.position_count = position_count};
    table.cos = calloc(position_count * pairs, sizeof(float));
    table.sin = calloc(position_count * pairs, sizeof(float));
    *out = (struct mr_rope_table){0};
    if (!table.cos || !table.sin) {
        mr_rope_table_destroy(&table);
        return mr_fail(err, MR_NOMEM, "no memory for rope tables of %u positions", position_count);
    }
    struct fill_work work = {.table = &table, .pairs = pairs};
    for (uint32_t pair = 0; pair < pairs; pair++)
        work.frequencies[pair] = frequency_of(config, divisors, pair);
    mr_parallel_for(position_count, 256, fill_positions, &work);
    *out = table;
    return MR_OK;
}

void mr_rope_table_destroy(struct mr_rope_table *table)
{
    free(table->cos);
    free(table->sin);
    *table = (struct mr_rope_table){0};
}
