#include "ops/torch/shim.hpp"

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

at::Tensor upload(const struct device *device, const std::vector<int64_t> &values)
{
    at::Tensor host = at::empty({static_cast<int64_t>(values.size())}, at::kLong);
    if (!values.empty())
        std::memcpy(host.mutable_data_ptr(), values.data(), values.size() * sizeof(int64_t));
    return device->where.is_cpu() ? host : host.to(device->where);
}

} // namespace mr_torch
