/* The one file that knows LibTorch. Every function catches, turns what it caught into a status and
 * a sentence, and lets nothing through.
 *
 * Parallel regions go through torch_parallel_for (LibTorch 2.10 and later), which is compiled
 * inside LibTorch: the template of ATen/Parallel.h would start a second OpenMP pool here. */
#define _Noreturn [[noreturn]] /* codec/check.h is C11 */
extern "C" {
#include "codec/check.h"
#include "codec/status.h"
}
#include "ops/tensor.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/c/shim.h>

#include <algorithm>
#include <atomic>
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
        return mr_fail(err, MR_BACKEND, "LibTorch threw something unknown");
    }
}

at::ScalarType scalar_type(enum mr_tensor_type type)
{
    switch (type) {
    case MR_TENSOR_F32:
        return at::kFloat;
    case MR_TENSOR_BF16:
        return at::kBFloat16;
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

struct region {
    mr_parallel_body body;
    void *context;
};

void run_part(int64_t begin, int64_t end, void *context)
{
    const region *work = static_cast<const region *>(context);
    work->body(work->context, static_cast<size_t>(begin), static_cast<size_t>(end));
}

struct shared_region {
    region work;
    size_t count, grain, threads;
    std::atomic<size_t> next;
};

/* Whatever part it was given, a thread takes from all that is left. */
void run_shares(void *context, size_t, size_t)
{
    shared_region *share = static_cast<shared_region *>(context);
    size_t begin = share->next.load(std::memory_order_relaxed);
    while (begin < share->count) {
        const size_t left = share->count - begin;
        const size_t part = std::min(left, std::max(left / (2 * share->threads), share->grain));
        if (!share->next.compare_exchange_weak(begin, begin + part, std::memory_order_relaxed))
            continue;
        share->work.body(share->work.context, begin, begin + part);
        begin = share->next.load(std::memory_order_relaxed);
    }
}

} // namespace

enum mr_status mr_tensor_thread_begin(struct mr_error *err)
{
    static thread_local std::optional<c10::InferenceMode> mode;
    return guarded(err, [] {
        if (!mode) mode.emplace(true);
    });
}

enum mr_status mr_parallel_set_thread_count(uint32_t thread_count, struct mr_error *err)
{
    MR_ASSERT(thread_count > 0);
    return guarded(err, [thread_count] { at::set_num_threads(static_cast<int>(thread_count)); });
}

uint32_t mr_parallel_thread_count(void)
{
    return static_cast<uint32_t>(at::get_num_threads());
}

uint32_t mr_parallel_thread_index(void)
{
    return static_cast<uint32_t>(at::get_thread_num());
}

void mr_parallel_for(size_t count, size_t grain, mr_parallel_body body, void *context)
{
    if (count == 0) return;
    region work = {body, context};
    int64_t least = grain == 0 ? 1 : static_cast<int64_t>(grain);
    AOTITorchError failed =
        torch_parallel_for(0, static_cast<int64_t>(count), least, run_part, &work);
    MR_ASSERT(failed == AOTI_TORCH_SUCCESS);
}

void mr_parallel_share(size_t count, size_t grain, mr_parallel_body body, void *context)
{
    const size_t threads = mr_parallel_thread_count(), least = grain == 0 ? 1 : grain;
    shared_region share = {{body, context}, count, least, threads, {0}};
    mr_parallel_for(count <= least ? count != 0 : threads, 1, run_shares, &share);
}

enum mr_status mr_device_parse(const char *text, struct mr_device *out, struct mr_error *err)
{
    *out = {MR_DEVICE_CPU, 0};
    if (std::strcmp(text, "cpu") == 0) return MR_OK;
    if (std::strcmp(text, "cuda") == 0) {
        *out = {MR_DEVICE_CUDA, 0};
        return MR_OK;
    }
    if (std::strncmp(text, "cuda:", 5) == 0 && text[5] >= '0' && text[5] <= '9' && !text[6]) {
        *out = {MR_DEVICE_CUDA, text[5] - '0'};
        return MR_OK;
    }
    return mr_fail(err, MR_BAD_CONFIG, "unknown device \"%.32s\": cpu, cuda or cuda:N", text);
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
