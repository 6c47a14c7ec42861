#include "ops/torch/kernels.hpp"
#include "ops/torch/products.hpp"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstring>
#include <optional>

namespace mr_torch
{

/* Numbers of a weight that go to the device together, at most. */
constexpr int64_t chunk_numbers = int64_t{16} << 20;

static at::Tensor from_host(const struct device *device, const float *values, int64_t count)
{
    at::Tensor host = at::empty({count}, at::kFloat);
    std::memcpy(host.mutable_data_ptr(), values, static_cast<size_t>(count) * sizeof(float));
    return host.to(device->where);
}

enum mr_status vector_create(struct mr_compute *compute, struct mr_vector **out,
                             const float *values, uint32_t count, struct mr_error *err)
{
    *out = nullptr;
    return guarded(err,
                   [=] { *out = new mr_vector{from_host(device_of(compute), values, count)}; });
}

void vector_destroy(struct mr_vector *vector)
{
    delete vector;
}

enum mr_status rope_create(struct mr_compute *compute, struct mr_rope **out,
                           const struct mr_rope_spec *spec, struct mr_error *err)
{
    *out = nullptr;
    return guarded(err, [=] {
        const int64_t half = spec->rotary_dim / 2, positions = spec->position_count;
        const struct device *device = device_of(compute);
        *out = new mr_rope{from_host(device, spec->cos, positions * half).view({positions, half}),
                           from_host(device, spec->sin, positions * half).view({positions, half}),
                           half, at::Tensor()};
        if (spec->q_scales) (*out)->q_scales = from_host(device, spec->q_scales, positions);
    });
}

void rope_destroy(struct mr_rope *rope)
{
    delete rope;
}

/* ---- loading a linear layer ---- */

/* Returns an event after all operations enqueued so far; none on the CPU, where they are
 * complete. */
static std::optional<c10::Event> record(const struct device *device)
{
    if (device->where.is_cpu()) return std::nullopt;
    const c10::impl::VirtualGuardImpl guard(device->where.type());
    c10::Event event(device->where.type());
    event.record(guard.getStream(device->where));
    return event;
}

struct rows_work {
    const struct mr_linear_spec *spec;
    void *out; /* [rows][in_size] numbers of `type` */
    at::ScalarType type;
    uint32_t first;                         /* row of the weight that is row 0 of out */
    std::vector<std::vector<float>> floats; /* a row for each thread */
};

/* Returns the row of the specification that is row `row` of the layer, which in a gated layer has
 * first all gates, then all ups. */
static uint32_t source_row(const struct mr_linear_spec *spec, uint32_t row)
{
    const uint32_t half = spec->out_size / 2;
    if (!spec->gated) return row;
    return row < half ? 2 * row : 2 * (row - half) + 1;
}

template <typename T> static void round_row(const std::vector<float> &row, void *out, size_t index)
{
    T *to = static_cast<T *>(out) + index * row.size();
    for (size_t i = 0; i < row.size(); i++)
        to[i] = c10::convert<T>(row[i]);
}

static void read_rows(void *context, size_t begin, size_t end)
{
    struct rows_work *work = static_cast<struct rows_work *>(context);
    std::vector<float> &row = work->floats[mr_parallel_thread_index()];
    for (size_t i = begin; i < end; i++) {
        work->spec->source(work->spec->source_context,
                           source_row(work->spec, work->first + static_cast<uint32_t>(i)),
                           row.data());
        if (work->type == at::kFloat)
            round_row<float>(row, work->out, i);
        else if (work->type == at::kBFloat16)
            round_row<at::BFloat16>(row, work->out, i);
        else
            round_row<at::Half>(row, work->out, i);
    }
}

/* Rows are converted on the host; while the device copies one chunk, the host converts the next.
 * weight: [out, in] */
static void read_weight(const struct device *device, const struct mr_linear_spec *spec,
                        const at::Tensor &weight)
{
    const int64_t in = spec->in_size, out = spec->out_size;
    const int64_t chunk = std::min(out, std::max<int64_t>(1, chunk_numbers / in));
    const at::Tensor halves[2] = {staging(device, chunk * in, device->type),
                                  staging(device, out > chunk ? chunk * in : 0, device->type)};
    std::optional<c10::Event> copied[2];
    struct rows_work work = {spec, nullptr, device->type, 0, {}};
    work.floats.resize(mr_parallel_thread_count(), std::vector<float>(spec->in_size));
    for (int64_t first = 0, half = 0; first < out; first += chunk, half ^= 1) {
        const int64_t count = std::min(chunk, out - first);
        if (copied[half]) copied[half]->synchronize();
        work.out = halves[half].mutable_data_ptr();
        work.first = static_cast<uint32_t>(first);
        mr_parallel_for(static_cast<size_t>(count), 1, read_rows, &work);
        weight.narrow(0, first, count)
            .copy_(halves[half].narrow(0, 0, count * in).view({count, in}), true);
        copied[half] = record(device);
    }
}

static at::Tensor read_bias(const struct device *device, const struct mr_linear_spec *spec)
{
    std::vector<float> bias(spec->out_size);
    for (uint32_t i = 0; i < spec->out_size; i++)
        bias[i] = spec->bias[source_row(spec, i)];
    return from_host(device, bias.data(), spec->out_size);
}

/* Reads an expert into its part of the tensors of all experts, which expert 0 creates. */
static void read_stacked(const struct device *device, const struct mr_linear_spec *spec,
                         struct mr_linear *linear)
{
    const int64_t count = spec->stack.count, out = spec->out_size, index = spec->stack.index;
    const at::ScalarType type = device->in_floats ? at::kFloat : device->type;
    const struct mr_linear *first = index > 0 ? spec->stack.layers[0] : linear;
    if (index == 0) {
        linear->stack = at::empty({count, out, spec->in_size}, numbers(device).dtype(type));
        if (spec->bias) linear->bias_stack = at::zeros({count, out}, floats(device));
    }
    TORCH_CHECK(first->bias_stack.defined() == (spec->bias != nullptr),
                "some experts of a layer have a bias and others have none");
    linear->stack = first->stack;
    linear->bias_stack = first->bias_stack;
    linear->weight = linear->stack.select(0, index);
    read_weight(device, spec, linear->weight);
    if (!spec->bias) return;
    linear->bias = linear->bias_stack.select(0, index);
    linear->bias.copy_(read_bias(device, spec));
}

/* oneDNN packs weights for its products on a CPU, which then run 1.5 to 2.7 times as fast in bf16
 * for few rows, and 1.3 to 2.6 times in fp32. */
static bool packs(const struct device *device)
{
    return device->where.is_cpu() && device->type != at::kHalf;
}

static struct packed_weight pack(const at::Tensor &weight)
{
    c10::Dispatcher &dispatcher = c10::Dispatcher::singleton();
    const auto op = dispatcher.findSchemaOrThrow("mkldnn::_reorder_linear_weight", "")
                        .typed<at::Tensor(const at::Tensor &, std::optional<int64_t>)>();
    return {op.call(weight, std::nullopt),
            dispatcher.findSchemaOrThrow("mkldnn::_linear_pointwise", "")
                .typed<packed_weight::operation>(),
            c10::List<std::optional<at::Scalar>>()};
}

bool multiplies_floats(const struct device *device)
{
    if (!device->where.is_cpu() || device->type != at::kBFloat16) return false;
    return guarded(nullptr, [] { (void)pack(at::zeros({32, 32}, at::kBFloat16)); }) != MR_OK;
}

static at::Tensor run_packed(const at::Tensor &x, const struct packed_weight &packed)
{
    return packed.multiply.call(x, packed.weight, std::nullopt, "none", packed.no_scalars, "");
}

enum mr_status linear_create(struct mr_compute *compute, struct mr_linear **out,
                             const struct mr_linear_spec *spec, struct mr_error *err)
{
    *out = nullptr;
    return guarded(err, [=] {
        struct device *device = device_of(compute);
        struct mr_linear linear = {};
        linear.device = device;
        linear.out_size = spec->out_size;
        linear.in_size = spec->in_size;
        linear.scale = spec->scale == 0.0f ? 1.0f : spec->scale;
        linear.gated = spec->gated;
        linear.site = spec->site;
        if (spec->curve) std::copy_n(spec->curve, 4, linear.curve);
        if (spec->stack.count > 0) {
            read_stacked(device, spec, &linear);
        } else {
            linear.weight = at::empty({spec->out_size, spec->in_size}, numbers(device));
            read_weight(device, spec, linear.weight);
            if (spec->bias) linear.bias = read_bias(device, spec);
        }
        if (packs(device) && spec->stack.count == 0 && spec->heads == 0)
            linear.packed = pack(device->in_floats ? linear.weight.to(at::kFloat) : linear.weight);
        if (linear.packed && !spec->table) linear.weight = at::Tensor();
        *out = new mr_linear(linear);
    });
}

void linear_destroy(struct mr_linear *linear)
{
    delete linear;
}

size_t linear_bytes(const struct mr_linear *linear)
{
    const size_t number = mr_number_bytes(linear->device->base.number);
    const size_t packed = linear->device->in_floats ? sizeof(float) : number;
    const size_t own = linear->stack.defined() ? packed : linear->weight.defined() ? number : 0;
    const size_t each = own + (linear->packed ? packed : 0);
    return static_cast<size_t>(linear->out_size * linear->in_size) * each +
           (linear->bias.defined() ? linear->bias.nbytes() : 0);
}

/* ---- running it ---- */

static at::Tensor base_product(const struct mr_linear *linear, const at::Tensor &x)
{
    if (!linear->packed) return at::linear(x, linear->weight);
    if (!linear->device->in_floats) return run_packed(x, *linear->packed);
    return run_packed(x.to(at::kFloat), *linear->packed).to(x.scalar_type());
}

static at::Tensor product(const struct mr_linear *linear, const at::Tensor &x,
                          const at::Tensor &change)
{
    at::Tensor y = base_product(linear, x);
    return change.defined() ? y.add_(change) : y;
}

at::Tensor linear_numbers(const struct mr_linear *linear, const at::Tensor &x,
                          const at::Tensor &change)
{
    at::Tensor y = product(linear, x, change);
    if (linear->bias.defined()) y.add_(linear->bias);
    return y;
}

at::Tensor linear_floats(const struct mr_linear *linear, const at::Tensor &x,
                         const at::Tensor &change)
{
    at::Tensor y = product(linear, x, change).to(at::kFloat);
    if (linear->bias.defined()) y.add_(linear->bias);
    if (linear->scale != 1.0f) y.mul_(linear->scale);
    return y;
}

void linear_add(const struct mr_linear *linear, const at::Tensor &x, const at::Tensor &to,
                const at::Tensor &change)
{
    const bool plain = !linear->bias.defined() && linear->scale == 1.0f;
    to.add_(plain ? product(linear, x, change) : linear_floats(linear, x, change));
}

static at::Tensor swiglu_oai(const at::Tensor &gate, const at::Tensor &up)
{
    const at::Tensor limited = at::clamp_max(gate, 7.0);
    return limited * at::sigmoid(limited * 1.702) * (at::clamp(up, -7.0, 7.0) + 1.0);
}

at::Tensor gate(const struct device *device, const at::Tensor &y, enum mr_epilogue epilogue)
{
    at::Tensor out;
    if (y.scalar_type() == device->type && kernel_gated(device, y, epilogue, &out)) return out;
    const int64_t half = y.size(1) / 2;
    const at::Tensor gate = y.narrow(1, 0, half), up = y.narrow(1, half, half);
    switch (epilogue) {
    case MR_SILU_MUL:
        out = at::silu(gate).mul_(up);
        break;
    case MR_GELU_MUL:
        out = at::gelu(gate).mul_(up);
        break;
    case MR_GELU_TANH_MUL:
        out = at::gelu(gate, "tanh").mul_(up);
        break;
    case MR_SWIGLU_OAI_MUL:
        out = swiglu_oai(gate, up);
        break;
    default:
        MR_ASSERT(false);
    }
    return out.to(device->type);
}

at::Tensor linear_gated(const struct mr_linear *linear, const at::Tensor &x,
                        enum mr_epilogue epilogue, const at::Tensor &change)
{
    MR_ASSERT(linear->gated);
    const bool plain = !linear->bias.defined() && linear->scale == 1.0f;
    const bool in_numbers = plain || (linear->device->kernels && linear->scale == 1.0f);
    return gate(linear->device,
                in_numbers ? linear_numbers(linear, x, change) : linear_floats(linear, x, change),
                epilogue);
}

/* As in ops/backend/epilogue.h. */
static at::Tensor xielu(const at::Tensor &y, const float *curve)
{
    const at::Tensor below = at::expm1(at::clamp_max(y, curve[3])) - y;
    return at::where(y > 0.0, y * y * curve[0], below * curve[1]) + y * curve[2];
}

at::Tensor linear_activated(const struct mr_linear *linear, const at::Tensor &x,
                            enum mr_epilogue epilogue, const at::Tensor &change)
{
    const at::Tensor y = linear_floats(linear, x, change);
    at::Tensor out = epilogue == MR_GELU        ? at::gelu(y)
                     : epilogue == MR_GELU_TANH ? at::gelu(y, "tanh")
                     : epilogue == MR_SILU      ? at::silu(y)
                                                : at::relu(y);
    if (epilogue == MR_RELU2) out = out.square_();
    if (epilogue == MR_XIELU) out = xielu(y, linear->curve);
    return out.to(linear->device->type);
}

} // namespace mr_torch
