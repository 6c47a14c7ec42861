#include "ops/torch/shim.hpp"

#include <cmath>
#include <cstring>

namespace mr_torch
{

/* Returns the numbers of K and V of one token in all layers and heads. In int8 every head_dim of
 * them share a bf16 scale. */
static size_t token_numbers(const struct mr_kv_spec *spec)
{
    return static_cast<size_t>(spec->layer_count) * static_cast<size_t>(kv_halves_of(spec)) *
           spec->kv_head_count * spec->head_dim;
}

size_t kv_block_bytes(const struct mr_kv_spec *spec)
{
    return token_numbers(spec) * MR_BLOCK_TOKENS * mr_number_bytes(spec->number);
}

enum mr_status kv_create(struct mr_compute *compute, struct mr_kv **out,
                         const struct mr_kv_spec *spec, struct mr_error *err)
{
    *out = nullptr;
    const double free = static_cast<double>(free_bytes(compute));
    const enum mr_status status = guarded(err, [=] {
        struct device *device = device_of(compute);
        at::Tensor pool = at::zeros({spec->block_count, spec->layer_count, kv_halves_of(spec),
                                     spec->kv_head_count, MR_BLOCK_TOKENS, spec->head_dim},
                                    numbers(device));
        *out = new mr_kv{device, *spec, pool};
    });
    if (status != MR_NOMEM || free == 0.0) return status;
    const double wanted = static_cast<double>(kv_block_bytes(spec)) * spec->block_count;
    return mr_fail(err, MR_NOMEM,
                   "the KV pool takes %.2f GiB, but %.2f GiB of the device's memory are free; "
                   "lower --kv-memory",
                   wanted / 0x1p30, free / 0x1p30);
}

void kv_destroy(struct mr_kv *kv)
{
    delete kv;
}

/* Nothing to do: creating the pool fills it with zeros, which makes it resident. */
bool kv_populate(struct mr_kv *kv)
{
    (void)kv;
    return false;
}

static at::Tensor block_of(const struct mr_kv *kv, uint32_t block)
{
    MR_ASSERT(block < kv->spec.block_count);
    return kv->pool.select(0, block);
}

/* [layer, 2, kv head, token_count, dim] */
static at::Tensor span_of(const struct mr_kv *kv, const struct mr_kv_span *span)
{
    MR_ASSERT(span->first % 16 == 0 && span->first <= MR_BLOCK_TOKENS);
    MR_ASSERT(span->token_count <= MR_BLOCK_TOKENS - span->first);
    return block_of(kv, span->block).narrow(3, span->first, span->token_count);
}

/* Attention multiplies the V of tokens after the sequence's last one by zero. They must be finite,
 * so they are set to zero. */
static void clear_after(const struct mr_kv *kv, uint32_t block, uint32_t tokens)
{
    if (tokens < MR_BLOCK_TOKENS)
        block_of(kv, block)
            .select(1, kv_halves_of(&kv->spec) - 1)
            .narrow(2, tokens, MR_BLOCK_TOKENS - tokens)
            .zero_();
}

void kv_copy(struct mr_kv *kv, uint32_t from, uint32_t to, uint32_t token_count)
{
    MR_ASSERT(token_count <= MR_BLOCK_TOKENS);
    queued(kv->device, "KV copy", [=] {
        block_of(kv, to)
            .narrow(3, 0, token_count)
            .copy_(block_of(kv, from).narrow(3, 0, token_count));
        clear_after(kv, to, token_count);
        mark(kv->device, &kv->device->written);
    });
}

size_t kv_stored_bytes(const struct mr_kv *kv, uint32_t token_count, bool int8)
{
    const size_t all = token_numbers(&kv->spec);
    const size_t token =
        int8 ? all + all / kv->spec.head_dim * 2 : all * mr_number_bytes(kv->spec.number);
    return token * token_count;
}

void *kv_bytes_of(const struct mr_kv *kv, uint32_t block)
{
    return kv->device->where.is_cpu() ? block_of(kv, block).data_ptr() : nullptr;
}

static void to_bytes(const at::Tensor &tensor, void *bytes)
{
    const at::Tensor host = tensor.to(at::kCPU).contiguous();
    std::memcpy(bytes, host.const_data_ptr(), host.nbytes());
}

/* int8: first a bf16 scale for each token, head and K or V, then the numbers divided by their
 * scale. Scales are rounded up slightly, so that rounding to bf16 never makes one too small for its
 * largest number. */
static bool export_int8(const at::Tensor &span, unsigned char *bytes)
{
    const at::Tensor x = span.to(at::kFloat);
    const at::Tensor largest = x.abs().amax(-1, true);
    if (largest.numel() > 0 && !(largest.max().item<float>() < 0x1p127f)) return false;
    const at::Tensor scale = (largest / 127.0 * (1.0 + 0x1p-8)).to(at::kBFloat16);
    const at::Tensor divisor = scale.to(at::kFloat);
    const at::Tensor q = (x / at::where(divisor == 0, at::ones_like(divisor), divisor))
                             .round()
                             .clamp(-127, 127)
                             .to(at::kChar);
    to_bytes(scale, bytes);
    to_bytes(q, bytes + scale.nbytes());
    return true;
}

/* stored: bytes */
static void import_int8(const at::Tensor &span, const at::Tensor &stored)
{
    std::vector<int64_t> scales = span.sizes().vec();
    scales.back() = 1;
    const int64_t scale_bytes = span.numel() / span.size(-1) * 2;
    const at::Tensor scale = stored.narrow(0, 0, scale_bytes).view(at::kBFloat16).view(scales);
    const at::Tensor q =
        stored.narrow(0, scale_bytes, span.numel()).view(at::kChar).view(span.sizes());
    span.copy_(q.to(at::kFloat) * scale.to(at::kFloat));
}

/* Copies bytes of the host to the device. For a GPU the bytes go through pinned memory, so that the
 * host does not wait for the steps in flight. */
static at::Tensor stored_on_device(const struct device *device, const void *bytes, size_t count)
{
    if (!device->where.is_cpu()) return upload_bytes(device, bytes, count);
    return at::from_blob(const_cast<void *>(bytes), {static_cast<int64_t>(count)}, at::kByte);
}

bool kv_export(const struct mr_kv *kv, const struct mr_kv_span *span, void *bytes)
{
    bool stored = true;
    queued(kv->device, "KV export", [&] {
        const at::Tensor from = span_of(kv, span);
        aside(kv->device, kv->device->written, [&] {
            if (span->int8)
                stored = export_int8(from, static_cast<unsigned char *>(bytes));
            else
                to_bytes(from, bytes);
        });
    });
    return stored && kv->device->failed == MR_OK;
}

void kv_import(struct mr_kv *kv, const struct mr_kv_span *span, const void *bytes)
{
    queued(kv->device, "KV import", [&] {
        const at::Tensor to = span_of(kv, span);
        const at::Tensor stored =
            stored_on_device(kv->device, bytes, kv_stored_bytes(kv, span->token_count, span->int8));
        if (span->int8)
            import_int8(to, stored);
        else
            to.copy_(stored.view(kv->device->type).view(to.sizes()));
        clear_after(kv, span->block, span->first + span->token_count);
        mark(kv->device, &kv->device->written);
    });
}

} // namespace mr_torch
