#include "ops/torch/kernels.hpp"
#include "ops/torch/products.hpp"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/headeronly/version.h>

#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <optional>

namespace mr_torch
{

/* Checks the parts that a GPU needs, from the driver up, and loads LibTorch's CUDA libraries. The
 * error names the first missing part. */
static enum mr_status load_cuda(int32_t index, struct mr_error *err)
{
    if (!dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL))
        return mr_fail(err, MR_BAD_CONFIG,
                       "--device cuda: no NVIDIA driver on this machine (%.120s)", dlerror());
    if (!dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL))
        return mr_fail(err, MR_BAD_CONFIG,
                       "--device cuda: this LibTorch has no CUDA libraries (%.160s)", dlerror());
    int count = 0;
    enum mr_status status = guarded(err, [&] {
        if (at::detail::getCUDAHooks().hasCUDA()) count = at::detail::getCUDAHooks().getNumGPUs();
    });
    if (status != MR_OK) return status;
    if (count == 0)
        return mr_fail(err, MR_BAD_CONFIG, "--device cuda: the driver finds no NVIDIA card");
    if (index >= count)
        return mr_fail(err, MR_BAD_CONFIG, "--device cuda:%d: this machine has %d cards, from 0",
                       static_cast<int>(index), count);
    return MR_OK;
}

/* Turns off LibTorch's gradient and version tracking on the calling thread until it ends. */
static void begin_thread()
{
    static thread_local std::optional<c10::InferenceMode> mode;
    if (!mode) mode.emplace(true);
}

/* Selects the card for the calling thread, for kernels launched without LibTorch, and sets a
 * separate stream for the thread, because the default stream cannot be recorded as a graph. */
static void select_card(int32_t index)
{
    const c10::impl::VirtualGuardImpl guard(at::kCUDA);
    const at::Device card(at::kCUDA, static_cast<int8_t>(index));
    guard.setDevice(card);
    (void)guard.exchangeStream(guard.getStreamFromGlobalPool(card));
}

/* Returns 10 * major + minor of the card's compute capability, such as 90; 0 when the driver does
 * not report it. The driver is called without its headers, as LibTorch's CUDA libraries are not
 * linked. */
static uint32_t capability_of(int32_t index)
{
    enum { CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76 }; /* of CUdevice_attribute */
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (!driver) return 0;
    const auto get = reinterpret_cast<int (*)(int *, int)>(dlsym(driver, "cuDeviceGet"));
    const auto attribute =
        reinterpret_cast<int (*)(int *, int, int)>(dlsym(driver, "cuDeviceGetAttribute"));
    int card = 0, major = 0, minor = 0;
    const bool known = get && attribute && get(&card, index) == 0 &&
                       attribute(&major, CAPABILITY_MAJOR, card) == 0 &&
                       attribute(&minor, CAPABILITY_MINOR, card) == 0;
    dlclose(driver);
    return known ? static_cast<uint32_t>(10 * major + minor) : 0;
}

static void name_numerics(struct device *device)
{
    const char *kind = device->where.is_cpu() ? "cpu" : "cuda";
    std::string level = device->where.is_cpu() ? at::get_cpu_capability() : std::string("any");
    std::snprintf(device->numerics, sizeof(device->numerics), "torch-%d.%d-%s-%s%s",
                  TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR, kind, level.c_str(),
                  device->kernels ? "-kernels" : "");
}

/* Loads CUDA, selects the card for the calling thread, and checks that our kernels run on it. */
static enum mr_status open_card(const struct mr_device &place, struct mr_error *err)
{
    struct mr_error refused = {};
    enum mr_status status = load_cuda(place.index, err);
    if (status == MR_OK) status = guarded(err, [=] { select_card(place.index); });
    if (status != MR_OK || !place.kernels || place.kernels->check_device(&refused) == MR_OK)
        return status;
    return mr_fail(err, MR_BAD_CONFIG,
                   "--device cuda: %.150s; --cuda-kernels off computes without them",
                   refused.detail);
}

static enum mr_status device_open(struct mr_compute **out, struct mr_device place,
                                  enum mr_number number, struct mr_error *err)
{
    static const at::ScalarType types[] = {at::kFloat, at::kBFloat16, at::kHalf};
    *out = nullptr;
    const enum mr_status status = place.kind == MR_DEVICE_CUDA ? open_card(place, err) : MR_OK;
    if (status != MR_OK) return status;
    return guarded(err, [=] {
        begin_thread();
        at::set_num_threads(static_cast<int>(mr_parallel_thread_count()));
        at::Device where = place.kind == MR_DEVICE_CPU
                               ? at::Device(at::kCPU)
                               : at::Device(at::kCUDA, static_cast<int8_t>(place.index));
        std::unique_ptr<struct mr_torch::device> device(
            new mr_torch::device{{&mr_torch_backend, number}, where, types[number], place.kernels});
        if (!where.is_cpu()) device->capability = capability_of(place.index);
        name_numerics(device.get());
        device->in_floats = multiplies_floats(device.get());
        if (!where.is_cpu())
            device->side = c10::impl::VirtualGuardImpl(where.type()).getStreamFromGlobalPool(where);
        *out = &device.release()->base;
    });
}

static void device_close(struct mr_compute *compute)
{
    delete device_of(compute);
}

uint32_t steps_ahead(const struct mr_compute *compute)
{
    return kernel_draws(reinterpret_cast<const struct device *>(compute)) ? 2 : 1;
}

static const char *numerics(const struct mr_compute *compute)
{
    return reinterpret_cast<const struct device *>(compute)->numerics;
}

} // namespace mr_torch

const struct mr_backend mr_torch_backend = {
    .name = "torch",
    .numbers = {true, true, true},
    .integer_weights = false,
    .int8_kv = false,
    .kv_layout = "layer-head-token",
    .kv_layout_sliding = "full-sliding-layer-head-token",
    .open = mr_torch::device_open,
    .close = mr_torch::device_close,
    .free_bytes = mr_torch::free_bytes,
    .steps_ahead = mr_torch::steps_ahead,
    .numerics = mr_torch::numerics,
    .vector_create = mr_torch::vector_create,
    .vector_destroy = mr_torch::vector_destroy,
    .rope_create = mr_torch::rope_create,
    .rope_destroy = mr_torch::rope_destroy,
    .linear_create = mr_torch::linear_create,
    .linear_destroy = mr_torch::linear_destroy,
    .linear_bytes = mr_torch::linear_bytes,
    .low_rank = &mr_torch::low_rank_functions,
    .kv_block_bytes = mr_torch::kv_block_bytes,
    .kv_create = mr_torch::kv_create,
    .kv_destroy = mr_torch::kv_destroy,
    .kv_populate = mr_torch::kv_populate,
    .kv_copy = mr_torch::kv_copy,
    .kv_stored_bytes = mr_torch::kv_stored_bytes,
    .kv_bytes_of = mr_torch::kv_bytes_of,
    .kv_export = mr_torch::kv_export,
    .kv_import = mr_torch::kv_import,
    .step_create = mr_torch::step_create,
    .step_destroy = mr_torch::step_destroy,
    .step_bytes = mr_torch::step_bytes,
    .stage = mr_torch::stage,
    .keep = mr_torch::keep,
    .embed = mr_torch::embed,
    .embed_positions = mr_torch::embed_positions,
    .norm_residual = mr_torch::norm_residual,
    .norm = mr_torch::norm,
    .norm_add = mr_torch::norm_add,
    .linear = mr_torch::linear,
    .rope_write = mr_torch::rope_write,
    .attend = mr_torch::attend,
    .mixers = &mr_torch::mixers,
    .latent = &mr_torch::latent_ops,
    .experts = mr_torch::experts,
    .add_switched = mr_torch::add_switched,
    .softcap = mr_torch::softcap,
    .graph_create = mr_torch::graph_create,
    .graph_replay = mr_torch::graph_replay,
    .query = mr_torch::query,
    .search = mr_torch::search,
    .finish = mr_torch::finish,
    .findings = mr_torch::findings,
    .logits = mr_torch::logits,
    .edited = mr_torch::edited,
    .sum_normed = mr_torch::sum_normed,
};
