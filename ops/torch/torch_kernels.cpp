#include "ops/torch/kernels.hpp"

#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace mr_torch
{

enum mr_cuda_type cuda_type(const struct device *device)
{
    static const enum mr_cuda_type types[] = {MR_CUDA_F32, MR_CUDA_BF16, MR_CUDA_F16};
    return types[device->base.number];
}

void *stream_of(const struct device *device)
{
    if (device->where.is_cpu()) return nullptr;
    const c10::impl::VirtualGuardImpl guard(device->where.type());
    return guard.getStream(device->where).native_handle();
}

bool enqueued(enum mr_status status, const struct mr_error &error)
{
    TORCH_CHECK(status == MR_OK || status == MR_UNSUPPORTED, error.detail);
    return status == MR_OK;
}

/* ---- residual and norm ---- */

bool kernel_add(struct mr_step *step, const at::Tensor &y, float scale)
{
    if (!step->device->kernels) return false;
    settle_residual(step);
    step->pending = y;
    step->pending_scale = scale;
    return true;
}

void settle_residual(struct mr_step *step)
{
    if (!step->pending.defined()) return;
    step->buffers[MR_RESIDUAL].add_(step->pending, step->pending_scale);
    step->pending = at::Tensor();
}

bool kernel_norm(struct mr_step *step, const struct mr_norm *norm, uint32_t rows)
{
    const struct device *device = step->device;
    const at::Tensor &residual = step->buffers[MR_RESIDUAL];
    if (!device->kernels || !norm || norm->centered || !residual.is_contiguous()) return false;
    if (step->pending.defined() && !step->pending.is_contiguous()) settle_residual(step);
    const at::Tensor out = at::empty({rows, residual.size(1)}, numbers(device));
    struct mr_cuda_add_norm call = {};
    call.type = cuda_type(device);
    call.row_count = rows;
    call.width = static_cast<uint32_t>(residual.size(1));
    call.x = step->pending.defined() ? step->pending.const_data_ptr() : nullptr;
    call.residual = residual.mutable_data_ptr<float>();
    call.scale = step->pending_scale;
    call.weight = norm->weight->numbers.const_data_ptr<float>();
    call.epsilon = norm->epsilon;
    call.out = out.mutable_data_ptr();
    MR_ASSERT(!step->pending.defined() || step->pending.size(0) == rows);
    struct mr_error error = {};
    if (!enqueued(device->kernels->add_rms_norm(&call, stream_of(device), &error), error))
        return false;
    step->pending = at::Tensor();
    step->buffers[MR_NORMED] = out;
    return true;
}

/* ---- activations ---- */

bool kernel_gated(const struct device *device, const at::Tensor &y, enum mr_epilogue epilogue,
                  at::Tensor *out)
{
    static const enum mr_cuda_activation activations[] = {
        MR_CUDA_SILU_MUL, MR_CUDA_GELU_MUL, MR_CUDA_GELU_TANH_MUL, MR_CUDA_SWIGLU_OAI_MUL};
    if (!device->kernels || !y.is_contiguous()) return false;
    const int64_t half = y.size(1) / 2;
    const size_t up = static_cast<size_t>(half) * static_cast<size_t>(y.element_size());
    const at::Tensor result = at::empty({y.size(0), half}, numbers(device));
    struct mr_cuda_gated call = {};
    call.type = cuda_type(device);
    call.activation = activations[epilogue - MR_SILU_MUL];
    call.row_count = static_cast<uint32_t>(y.size(0));
    call.width = static_cast<uint32_t>(half);
    call.gate = y.const_data_ptr();
    call.up = static_cast<const unsigned char *>(call.gate) + up;
    call.input_stride = 2 * half;
    call.out = result.mutable_data_ptr();
    struct mr_error error = {};
    if (!enqueued(device->kernels->gated_mul(&call, stream_of(device), &error), error))
        return false;
    *out = result;
    return true;
}

/* ---- draws ---- */

bool kernel_draws(const struct device *device)
{
    return device->kernels != nullptr;
}

void kernel_draw(const struct mr_step *step, at::Tensor *tokens, at::Tensor *probabilities)
{
    const struct device *device = step->device;
    const at::Tensor rows = step->search.edited.contiguous();
    std::vector<struct mr_cuda_draw> draws;
    for (const struct mr_logit_query &query : step->search.queries)
        draws.push_back({query.seed, query.position, query.draw ? 1.0f / query.factor : 0.0f,
                         query.top_k, query.top_p, query.min_p, query.typical_p});
    const at::Tensor uploaded =
        upload_bytes(device, draws.data(), draws.size() * sizeof(struct mr_cuda_draw));
    *tokens = at::empty({rows.size(0), 1}, floats(device).dtype(at::kInt));
    *probabilities = at::empty({rows.size(0), 1}, floats(device));
    struct mr_cuda_sampling call = {};
    call.type = MR_CUDA_F32;
    call.row_count = static_cast<uint32_t>(rows.size(0));
    call.vocab_size = static_cast<uint32_t>(rows.size(1));
    call.logits = rows.const_data_ptr();
    call.logits_stride = rows.size(1);
    call.draws = static_cast<const struct mr_cuda_draw *>(uploaded.const_data_ptr());
    call.tokens = tokens->mutable_data_ptr<int32_t>();
    call.probabilities = probabilities->mutable_data_ptr<float>();
    struct mr_error error = {};
    TORCH_CHECK(enqueued(device->kernels->sample(&call, stream_of(device), &error), error),
                error.detail);
}

template <typename T> static const T *numbers_of(const at::Tensor &tensor)
{
    return tensor.defined() ? tensor.const_data_ptr<T>() : nullptr;
}

bool kernel_find(struct mr_step *step, const struct find_inputs &inputs, at::Tensor *words)
{
    const struct device *device = step->device;
    struct search_state &search = step->search;
    if (!device->kernels) return false;
    const at::Tensor model = search.model.contiguous();
    const bool same = search.edited.is_same(search.model);
    const at::Tensor edited = same ? model : search.edited.contiguous();
    const at::Tensor masked = inputs.masked.defined() ? inputs.masked.to(at::kInt) : at::Tensor();
    const at::Tensor tokens = at::empty({model.size(0)}, floats(device).dtype(at::kLong));
    const at::Tensor found =
        at::empty({model.size(0), MR_CUDA_FOUND_WORDS}, floats(device).dtype(at::kInt));
    struct mr_cuda_find call = {};
    call.row_count = static_cast<uint32_t>(model.size(0));
    call.vocab_size = static_cast<uint32_t>(model.size(1));
    call.model = model.const_data_ptr<float>();
    call.edited = edited.const_data_ptr<float>();
    call.factors = numbers_of<float>(inputs.factors);
    call.drawn = numbers_of<int32_t>(inputs.drawn);
    call.probabilities = numbers_of<float>(inputs.probabilities);
    call.masked_tokens = numbers_of<int32_t>(masked);
    call.tokens = tokens.mutable_data_ptr<int64_t>();
    call.words = static_cast<uint32_t *>(found.mutable_data_ptr());
    struct mr_error error = {};
    if (!enqueued(device->kernels->find_tokens(&call, stream_of(device), &error), error))
        return false;
    search.tokens = tokens;
    *words = found;
    return true;
}

} // namespace mr_torch
