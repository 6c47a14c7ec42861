/* Recurrent layers on LibTorch's operators: the recurrence of ops/mixer/mixer_shape.h, one token
 * after the other, for all heads of a sequence at a time. The reference on any device. */
#include "ops/torch/graph.hpp"
#include "ops/torch/kernels.hpp"

#include <cmath>
#include <cstring>

struct mr_states {
    struct mr_torch::device *device;
    struct mr_mixer_shape shape;
    at::Tensor pool; /* [slot, layer, mr_mixer_state_floats] */
};

namespace mr_torch
{

/* ---- the pool ---- */

static enum mr_status states_create(struct mr_compute *compute, struct mr_states **out,
                                    const struct mr_mixer_shape *shape, uint32_t layer_count,
                                    uint32_t slot_count, struct mr_error *err)
{
    *out = nullptr;
    return guarded(err, [=] {
        struct device *device = device_of(compute);
        const int64_t numbers = static_cast<int64_t>(mr_mixer_state_floats(shape));
        *out = new mr_states{device, *shape,
                             at::zeros({slot_count, layer_count, numbers}, floats(device))};
    });
}

static void states_destroy(struct mr_states *states)
{
    delete states;
}

static void states_copy(struct mr_states *states, uint32_t from, uint32_t to)
{
    queued(states->device, "copy of a state", [=] {
        states->pool.select(0, to).copy_(states->pool.select(0, from));
        mark(states->device, &states->device->written);
    });
}

static void states_export(const struct mr_states *states, uint32_t slot, void *bytes)
{
    queued(states->device, "export of a state", [=] {
        aside(states->device, states->device->written, [=] {
            const at::Tensor host = states->pool.select(0, slot).to(at::kCPU).contiguous();
            std::memcpy(bytes, host.const_data_ptr(), host.nbytes());
        });
    });
}

static void states_import(struct mr_states *states, uint32_t slot, const void *bytes)
{
    queued(states->device, "import of a state", [=] {
        const at::Tensor to = states->pool.select(0, slot);
        to.view({-1}).view(at::kByte).copy_(upload_bytes(states->device, bytes, to.nbytes()));
        mark(states->device, &states->device->written);
    });
}

/* ---- a layer ---- */

/* The parts of one layer's state of one sequence. */
struct state_parts {
    at::Tensor window; /* [taps - 1, channels] */
    at::Tensor s;      /* [heads, key_dim, value_dim] */
};

static struct state_parts parts_of(const struct mr_mixer *mixer, uint32_t slot)
{
    const struct mr_mixer_shape *shape = &mixer->states->shape;
    const at::Tensor all = mixer->states->pool.select(0, slot).select(0, mixer->layer);
    const int64_t window = static_cast<int64_t>(mr_mixer_window_floats(shape));
    struct state_parts parts;
    parts.window = all.narrow(0, 0, window)
                       .view({shape->taps - 1, mr_mixer_window_stride(shape)})
                       .narrow(1, 0, mr_mixer_channels(shape));
    parts.s = all.narrow(0, window, all.size(0) - window)
                  .view({shape->heads, shape->key_dim, mr_mixer_columns(shape)})
                  .narrow(2, 0, shape->value_dim);
    return parts;
}

/* Returns the convolution of x [tokens, channels], and moves the window past it. */
static at::Tensor convolve(const struct mr_mixer *mixer, const at::Tensor &window,
                           const at::Tensor &x)
{
    const struct mr_mixer_shape *shape = &mixer->states->shape;
    const at::Tensor taps = mixer->taps->numbers.view({shape->taps, -1});
    const at::Tensor all = at::cat({window, x});
    at::Tensor sum = taps[0] * all.narrow(0, 0, x.size(0));
    for (int64_t i = 1; i < shape->taps; i++)
        sum.addcmul_(taps[i].unsqueeze(0), all.narrow(0, i, x.size(0)));
    if (mixer->bias) sum.add_(mixer->bias->numbers);
    window.copy_(all.narrow(0, x.size(0), shape->taps - 1));
    return sum;
}

/* Returns the keys or queries of all heads, [tokens, heads, key_dim]. */
static at::Tensor keys_of(const struct mr_mixer_shape *shape, const at::Tensor &rows, uint32_t at)
{
    const int64_t each = shape->heads / shape->key_heads;
    at::Tensor keys = rows.narrow(1, at, shape->key_heads * shape->key_dim)
                          .reshape({rows.size(0), shape->key_heads, shape->key_dim});
    if (shape->kind == MR_MIXER_DELTA)
        keys = keys * keys.square().sum(-1, true).add_(1e-6).rsqrt_();
    return shape->tiled ? keys.repeat({1, each, 1}) : keys.repeat_interleave(each, 1);
}

static at::Tensor scan(const struct mr_mixer *mixer, const at::Tensor &s, const at::Tensor &rows,
                       const at::Tensor &gates)
{
    const struct mr_mixer_shape *shape = &mixer->states->shape;
    const bool delta = shape->kind == MR_MIXER_DELTA;
    const at::Tensor keys = keys_of(shape, rows, mr_mixer_key_at(shape, 0));
    at::Tensor queries = keys_of(shape, rows, mr_mixer_query_at(shape, 0));
    if (delta) queries = queries / std::sqrt(static_cast<double>(shape->key_dim));
    const at::Tensor values = rows.narrow(1, mr_mixer_value_at(shape, 0), mr_mixer_out_width(shape))
                                  .reshape({rows.size(0), shape->heads, shape->value_dim});
    const at::Tensor gate = at::softplus(gates.narrow(1, delta ? shape->heads : 0, shape->heads) +
                                         mixer->dt_bias->numbers);
    at::Tensor beta = delta ? gates.narrow(1, 0, shape->heads).sigmoid()
                            : gate.clamp(shape->dt_min, shape->dt_max);
    if (shape->doubled_beta) beta = beta * 2;
    const at::Tensor decay = ((delta ? gate : beta) * mixer->decay->numbers).exp();
    at::Tensor out = at::empty_like(values);
    for (int64_t t = 0; t < rows.size(0); t++) {
        const at::Tensor k = keys[t].unsqueeze(-1);
        at::Tensor change = values[t];
        s.mul_(decay[t].view({-1, 1, 1}));
        if (delta) change = change - (s * k).sum(1);
        s.add_(k * (change * beta[t].unsqueeze(-1)).unsqueeze(1));
        out[t].copy_((s * queries[t].unsqueeze(-1)).sum(1));
    }
    if (mixer->skip) out.add_(values * mixer->skip->numbers.unsqueeze(-1));
    return out.view({rows.size(0), -1});
}

static at::Tensor gated(const struct mr_mixer *mixer, at::Tensor x, const at::Tensor &z)
{
    const struct mr_mixer_shape *shape = &mixer->states->shape;
    if (!mixer->norm) return x * at::silu(z);
    if (shape->norm_after_gate) x = x * at::silu(z);
    const at::Tensor groups = x.view({x.size(0), -1, shape->norm_width});
    const at::Tensor factor = groups.square().mean(-1, true).add_(shape->norm_epsilon).rsqrt_();
    const at::Tensor y = (groups * factor).view_as(x) * mixer->norm->numbers;
    return shape->norm_after_gate ? y : y * at::silu(z);
}

/* Returns the outputs for the rows of one sequence. */
static at::Tensor mix_sequence(const struct mr_mixer *mixer, const struct state_parts &parts,
                               const at::Tensor &rows, const at::Tensor &gates)
{
    const struct mr_mixer_shape *shape = &mixer->states->shape;
    const int64_t channels = mr_mixer_channels(shape), width = mr_mixer_out_width(shape);
    if (shape->kind == MR_MIXER_CONV) {
        const at::Tensor x = rows.narrow(1, 0, width) * rows.narrow(1, 2 * width, width);
        return convolve(mixer, parts.window, x).mul_(rows.narrow(1, width, width));
    }
    const at::Tensor y = at::silu(
        convolve(mixer, parts.window, rows.narrow(1, mr_mixer_first_channel(shape), channels)));
    const at::Tensor z = rows.narrow(1, 0, width);
    return gated(mixer, scan(mixer, parts.s, at::cat({z, y}, 1), gates), z);
}

static void mix(struct mr_step *step, const struct mr_mixer *mixer)
{
    queued(step->device, "recurrent layer", [=] {
        refuse_recording(step, "the slots of states");
        std::vector<at::Tensor> outs;
        for (const struct sequence &sequence : step->sequences) {
            const struct mr_step_sequence *range = &sequence.range;
            const struct state_parts parts = parts_of(mixer, range->state);
            if (range->context_tokens == 0) {
                parts.window.zero_();
                parts.s.zero_();
            }
            const at::Tensor gates = step->buffers[MR_MIX_GATES];
            outs.push_back(mix_sequence(
                mixer, parts,
                step->buffers[MR_MIXING].narrow(0, range->row_begin, range->row_count),
                gates.defined() ? gates.narrow(0, range->row_begin, range->row_count) : gates));
        }
        step->buffers[MR_MIXED] = at::cat(outs).to(step->device->type);
    });
}

static void gate_attended(struct mr_step *step, uint32_t rows)
{
    queued(step->device, "gate of attention", [=] {
        const at::Tensor gates = step->buffers[MR_MIXING].narrow(0, 0, rows).sigmoid();
        const at::Tensor attended = step->buffers[MR_ATTENDED].narrow(0, 0, rows);
        step->buffers[MR_ATTENDED] = (attended.to(at::kFloat) * gates).to(step->device->type);
    });
}

const struct mr_mixer_ops mixers = {
    states_create, states_destroy, states_copy, states_export, states_import, mix, gate_attended};

} // namespace mr_torch
