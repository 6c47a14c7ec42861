/* The only file that includes LibTorch. Every function that can fail catches all exceptions and
 * returns a status and an error sentence instead. */
#define _Noreturn [[noreturn]] /* codec/check.h uses this keyword of C11 */
extern "C" {
#include "codec/check.h"
#include "codec/status.h"
}
#include "ops/tensor.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <cstring>
#include <new>
#include <optional>

struct mr_tensor {
    at::Tensor tensor;
};

namespace
{

enum mr_status fail_first_line(struct mr_error *err, const char *what)
{
    size_t length = std::strcspn(what, "\n");
    return mr_fail(err, MR_BACKEND, "LibTorch: %.*s", static_cast<int>(length), what);
}

template <typename F> enum mr_status guarded(struct mr_error *err, const F &body)
{
    try {
        body();
        return MR_OK;
    } catch (const std::bad_alloc &) {
        return mr_fail(err, MR_NOMEM, "out of memory in LibTorch");
    } catch (const c10::OutOfMemoryError &) {
        return mr_fail(err, MR_NOMEM, "out of device memory");
    } catch (const std::exception &error) {
        return fail_first_line(err, error.what());
    } catch (...) {
        return mr_fail(err, MR_BACKEND, "LibTorch: unknown exception");
    }
}

at::ScalarType scalar_type(enum mr_tensor_type type)
{
    switch (type) {
    case MR_TENSOR_F32:
        return at::kFloat;
    case MR_TENSOR_U8:
        return at::kByte;
    }
    return at::kFloat;
}

at::IntArrayRef dims(const struct mr_tensor_shape *shape)
{
    MR_ASSERT(shape->dim_count <= MR_TENSOR_DIMS_MAX);
    return at::IntArrayRef(shape->dims, shape->dim_count);
}

} // namespace

enum mr_status mr_tensor_thread_begin(struct mr_error *err)
{
    static thread_local std::optional<c10::InferenceMode> mode;
    return guarded(err, [] {
        if (!mode) mode.emplace(true);
    });
}

enum mr_status mr_tensor_create(struct mr_tensor **out, struct mr_device device,
                                const struct mr_tensor_shape *shape, struct mr_error *err)
{
    *out = nullptr;
    return guarded(err, [=] {
        at::Device where = device.kind == MR_DEVICE_CPU
                               ? at::Device(at::kCPU)
                               : at::Device(at::kCUDA, static_cast<int8_t>(device.index));
        at::TensorOptions options = at::TensorOptions().dtype(scalar_type(shape->type));
        *out = new mr_tensor{at::empty(dims(shape), options.device(where))};
    });
}

enum mr_status mr_tensor_wrap(struct mr_tensor **out, void *bytes,
                              const struct mr_tensor_shape *shape, struct mr_error *err)
{
    *out = nullptr;
    return guarded(err, [=] {
        at::TensorOptions options = at::TensorOptions().dtype(scalar_type(shape->type));
        *out = new mr_tensor{at::from_blob(bytes, dims(shape), options)};
    });
}

void mr_tensor_destroy(struct mr_tensor *tensor)
{
    delete tensor;
}

void *mr_tensor_data(struct mr_tensor *tensor)
{
    return tensor->tensor.data_ptr();
}

size_t mr_tensor_bytes(const struct mr_tensor *tensor)
{
    return tensor->tensor.nbytes();
}

enum mr_status mr_tensor_linear(struct mr_tensor *out, const struct mr_tensor *x,
                                const struct mr_tensor *weight, struct mr_error *err)
{
    return guarded(err, [=] { at::mm_out(out->tensor, x->tensor, weight->tensor.t()); });
}
