#include "ops/torch/shim.hpp"

#include <c10/core/CachingDeviceAllocator.h>

#include <cstring>

namespace mr_torch
{

static enum mr_status fail_first_line(struct mr_error *err, const char *what)
{
    size_t length = std::strcspn(what, "\n");
    return mr_fail(err, MR_BACKEND, "LibTorch: %.*s", static_cast<int>(length), what);
}

enum mr_status fail_current(struct mr_error *err)
{
    try {
        throw;
    } catch (const std::bad_alloc &) {
        return mr_fail(err, MR_NOMEM, "out of memory in LibTorch");
    } catch (const c10::OutOfMemoryError &error) {
        size_t length = std::strcspn(error.what(), "\n");
        return mr_fail(err, MR_NOMEM, "out of device memory: %.*s", static_cast<int>(length),
                       error.what());
    } catch (const c10::Error &error) {
        return fail_first_line(err, error.what_without_backtrace());
    } catch (const std::exception &error) {
        return fail_first_line(err, error.what());
    } catch (...) {
        return mr_fail(err, MR_BACKEND, "LibTorch: unknown exception");
    }
}

void name_operation(struct mr_error *err, const char *operation)
{
    const struct mr_error cause = *err;
    (void)mr_fail(err, cause.status, "%s: %s", operation, cause.detail);
}

void mark(const struct device *device, std::optional<c10::Event> *event)
{
    if (device->where.is_cpu()) return;
    const c10::impl::VirtualGuardImpl guard(device->where.type());
    if (!*event) event->emplace(device->where.type());
    (*event)->record(guard.getStream(device->where));
}

uint64_t free_bytes(const struct mr_compute *compute)
{
    const struct device *device = reinterpret_cast<const struct device *>(compute);
    if (device->where.is_cpu()) return 0;
    uint64_t bytes = 0;
    (void)guarded(nullptr, [&] {
        c10::DeviceAllocator *allocator = c10::getDeviceAllocator(device->where.type());
        allocator->emptyCache();
        bytes = allocator->getMemoryInfo(device->where.index()).first;
    });
    return bytes;
}

at::Tensor staging(const struct device *device, int64_t count, at::ScalarType type)
{
    device->upload_count++;
    return at::empty({count},
                     at::TensorOptions().dtype(type).pinned_memory(!device->where.is_cpu()));
}

at::Tensor upload_bytes(const struct device *device, const void *bytes, size_t count)
{
    const at::Tensor host = staging(device, static_cast<int64_t>(count), at::kByte);
    if (count > 0) std::memcpy(host.mutable_data_ptr(), bytes, count);
    return device->where.is_cpu() ? host : host.to(device->where, true);
}

at::Tensor upload(const struct device *device, const std::vector<int64_t> &values)
{
    return upload_bytes(device, values.data(), values.size() * sizeof(int64_t)).view(at::kLong);
}

} // namespace mr_torch
