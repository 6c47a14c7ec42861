#include "ops/torch/graph.hpp"
#include "ops/torch/kernels.hpp"

namespace mr_torch
{

/* Lists the rows of the pool for K and V of the staged rows, for layer 0 and each kv head, and the
 * blocks whose first token is among them. */
static void stage_group(struct mr_step *step, const struct mr_attention *attention)
{
    struct group *group = &step->groups[attention->group];
    const struct mr_kv_spec *spec = &attention->kv->spec;
    std::vector<int64_t> rows, fresh;
    for (const struct sequence &sequence : step->sequences)
        for (uint32_t i = 0; i < sequence.range.row_count; i++) {
            const uint32_t position = sequence.range.context_tokens + i;
            const uint32_t block = sequence.ids[attention->group][position / MR_BLOCK_TOKENS];
            const int64_t token = position % MR_BLOCK_TOKENS;
            MR_ASSERT(block < spec->block_count);
            if (token == 0) fresh.push_back(block);
            const int64_t heads = kv_halves_of(spec) * spec->kv_head_count;
            for (int64_t head = 0; head < heads; head++)
                rows.push_back((block * spec->layer_count * heads + head) * MR_BLOCK_TOKENS +
                               token);
        }
    group->write_rows = upload(step->device, rows);
    group->fresh_blocks = upload(step->device, fresh);
    group->staged = true;
}

/* Norms heads in place: x is [rows, heads, head_dim], weight [heads * head_dim]. */
static void norm_heads(const struct mr_attention *attention, const struct mr_vector *weight,
                       const at::Tensor &x)
{
    const int64_t width = attention->norm_width;
    const at::Tensor used = x.narrow(2, 0, width);
    const at::Tensor factors = weight->numbers.view({1, x.size(1), x.size(2)}).narrow(2, 0, width);
    if (attention->norm_centered) used.sub_(used.mean(-1, true));
    at::Tensor mean = used.square();
    mean = attention->norm_whole ? mean.mean({1, 2}, true) : mean.mean(-1, true);
    used.mul_(mean.add_(attention->norm_epsilon).rsqrt_()).mul_(factors);
}

static void gather_angles(struct mr_step *step, const struct mr_rope *rope)
{
    if (step->gathered == rope) return;
    std::vector<int64_t> rows;
    for (const struct sequence &sequence : step->sequences)
        for (uint32_t row = 0; row < sequence.range.row_count; row++)
            rows.push_back(sequence.range.context_tokens + row);
    const at::Tensor positions = upload(step->device, rows);
    const at::Tensor cos = rope->cos.index_select(0, positions).unsqueeze(1);
    const at::Tensor sin = rope->sin.index_select(0, positions).unsqueeze(1);
    step->cos = at::cat({cos, cos}, 2);
    step->sin = at::cat({sin.neg(), sin}, 2);
    step->q_scales = rope->q_scales.defined()
                         ? rope->q_scales.index_select(0, positions).view({-1, 1, 1})
                         : at::Tensor();
    step->gathered = rope;
}

void rotate(struct mr_step *step, const struct mr_rope *rope, const at::Tensor &x)
{
    gather_angles(step, rope);
    const at::Tensor used = x.narrow(2, 0, 2 * rope->half);
    const at::Tensor partners = used.roll(rope->half, 2);
    used.mul_(step->cos).addcmul_(partners, step->sin);
}

void write_kv(struct mr_step *step, const struct mr_attention *attention, const at::Tensor &x)
{
    const struct mr_kv *kv = attention->kv;
    const struct group *group = &step->groups[attention->group];
    const int64_t dim = kv->spec.head_dim, halves = kv_halves_of(&kv->spec);
    const int64_t first =
        int64_t{attention->layer} * halves * kv->spec.kv_head_count * MR_BLOCK_TOKENS;
    if (!group->staged) stage_group(step, attention);
    /* Attention multiplies the V of tokens after the sequence's last one by zero, and a V left over
     * from another sequence could be infinite. */
    if (group->fresh_blocks.numel() > 0)
        kv_half(kv, attention->layer, halves - 1).index_fill_(0, group->fresh_blocks, 0);
    const at::Tensor rows = kv->pool.view({-1, dim});
    rows.narrow(0, first, rows.size(0) - first)
        .index_copy_(0, group->write_rows, x.to(kv->device->type).reshape({-1, dim}));
}

void rope_write(struct mr_step *step, const struct mr_attention *attention)
{
    queued(step->device, "rope and KV write", [=] {
        if (kernel_rope_write(step, attention)) return;
        refuse_recording(step, "the index arrays of KV writes");
        const struct mr_kv *kv = attention->kv;
        const int64_t q = attention->head_count, k = attention->kv_head_count;
        at::Tensor &qkv = step->buffers[MR_QKV];
        qkv = qkv.to(at::kFloat);
        const at::Tensor x = qkv.view({qkv.size(0), q + 2 * k, kv->spec.head_dim});
        if (attention->rope && attention->norm_after)
            rotate(step, attention->rope, x.narrow(1, 0, q + k));
        if (attention->q_norm) norm_heads(attention, attention->q_norm, x.narrow(1, 0, q));
        if (attention->k_norm) norm_heads(attention, attention->k_norm, x.narrow(1, q, k));
        if (attention->clip > 0.0f) x.clamp_(-attention->clip, attention->clip);
        if (attention->rope && !attention->norm_after)
            rotate(step, attention->rope, x.narrow(1, 0, q + k));
        if (attention->rope && step->q_scales.defined()) x.narrow(1, 0, q).mul_(step->q_scales);
        write_kv(step, attention, x.narrow(1, q, 2 * k));
    });
}

} // namespace mr_torch
