#include "ops/mixer/mixer_shape.h"

static uint32_t padded(uint32_t count)
{
    return (count + 15u) / 16u * 16u;
}

static uint32_t key_width(const struct mr_mixer_shape *shape)
{
    return shape->key_heads * shape->key_dim;
}

static uint32_t key_head(const struct mr_mixer_shape *shape, uint32_t head)
{
    return shape->tiled ? head % shape->key_heads : head / (shape->heads / shape->key_heads);
}

uint32_t mr_mixer_out_width(const struct mr_mixer_shape *shape)
{
    return shape->kind == MR_MIXER_CONV ? shape->value_dim : shape->heads * shape->value_dim;
}

uint32_t mr_mixer_row_width(const struct mr_mixer_shape *shape)
{
    if (shape->kind == MR_MIXER_CONV) return 3 * shape->value_dim;
    return 2 * mr_mixer_out_width(shape) + 2 * key_width(shape);
}

uint32_t mr_mixer_gates_width(const struct mr_mixer_shape *shape)
{
    return shape->kind == MR_MIXER_DELTA ? 2 * shape->heads : shape->heads;
}

uint32_t mr_mixer_channels(const struct mr_mixer_shape *shape)
{
    if (shape->kind == MR_MIXER_CONV) return shape->value_dim;
    return mr_mixer_out_width(shape) + 2 * key_width(shape);
}

uint32_t mr_mixer_first_channel(const struct mr_mixer_shape *shape)
{
    return shape->kind == MR_MIXER_CONV ? 0 : mr_mixer_out_width(shape);
}

/* Rows of SSD are z, x, B, C; those of DELTA z, q, k, v. */
uint32_t mr_mixer_key_at(const struct mr_mixer_shape *shape, uint32_t head)
{
    const bool delta = shape->kind == MR_MIXER_DELTA;
    const uint32_t width = mr_mixer_out_width(shape);
    return (delta ? width + key_width(shape) : 2 * width) + key_head(shape, head) * shape->key_dim;
}

uint32_t mr_mixer_query_at(const struct mr_mixer_shape *shape, uint32_t head)
{
    const bool delta = shape->kind == MR_MIXER_DELTA;
    const uint32_t width = mr_mixer_out_width(shape);
    return (delta ? width : 2 * width + key_width(shape)) + key_head(shape, head) * shape->key_dim;
}

uint32_t mr_mixer_value_at(const struct mr_mixer_shape *shape, uint32_t head)
{
    const uint32_t before = shape->kind == MR_MIXER_DELTA ? 2 * key_width(shape) : 0;
    return mr_mixer_out_width(shape) + before + head * shape->value_dim;
}

uint32_t mr_mixer_columns(const struct mr_mixer_shape *shape)
{
    return padded(shape->value_dim);
}

uint32_t mr_mixer_window_stride(const struct mr_mixer_shape *shape)
{
    return padded(mr_mixer_channels(shape));
}

size_t mr_mixer_window_floats(const struct mr_mixer_shape *shape)
{
    return (size_t)(shape->taps - 1) * mr_mixer_window_stride(shape);
}

size_t mr_mixer_head_floats(const struct mr_mixer_shape *shape)
{
    return (size_t)shape->key_dim * mr_mixer_columns(shape);
}

size_t mr_mixer_state_floats(const struct mr_mixer_shape *shape)
{
    if (shape->kind == MR_MIXER_NONE) return 0;
    return mr_mixer_window_floats(shape) + shape->heads * mr_mixer_head_floats(shape);
}
