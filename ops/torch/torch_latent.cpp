/* Latent attention (ops/backend/latent.h) by operators: the absorbed form, in which each head's
 * matrix is one of a batched product. The pool holds latents as with every backend. */
#include "ops/torch/graph.hpp"
#include "ops/torch/shim.hpp"

namespace mr_torch
{

/* RMS norm of the rows of x, in floats. */
static at::Tensor normed(const at::Tensor &x, const struct mr_vector *weight, float epsilon)
{
    const at::Tensor factor = x.square().mean(-1, true).add_(epsilon).rsqrt_();
    return (x * factor).mul_(weight->numbers);
}

static void norm_queries(struct mr_step *step, const struct mr_latent *latent, uint32_t rows)
{
    queued(step->device, "norm of queries", [=] {
        const struct mr_latent_shape *shape = &latent->shape;
        const at::Tensor x =
            step->buffers[MR_LATENTS].narrow(0, 0, rows).narrow(1, 0, shape->query_rank);
        step->buffers[MR_QUERY_LATENT] =
            normed(x, latent->query_norm, shape->norm_epsilon).to(step->device->type);
    });
}

/* Returns x, [rows, heads, rope_dim], rotated. Numbers in pair order are first moved to the order
 * of rotate(); scores do not depend on the order. */
static at::Tensor rotated(struct mr_step *step, const struct mr_latent *latent, const at::Tensor &x)
{
    const int64_t half = latent->shape.rope_dim / 2;
    at::Tensor moved =
        latent->shape.pairs
            ? x.reshape({x.size(0), x.size(1), half, 2}).transpose(2, 3).flatten(2).contiguous()
            : x.clone();
    if (latent->attention.rope) rotate(step, latent->attention.rope, moved);
    return moved;
}

/* Returns x with zeros after its last dimension, up to `size`. */
static at::Tensor padded(const at::Tensor &x, int64_t size)
{
    return at::constant_pad_nd(x, {0, size - x.size(-1)});
}

static void write(struct mr_step *step, const struct mr_latent *latent)
{
    queued(step->device, "rope and KV write", [=] {
        const struct mr_latent_shape *shape = &latent->shape;
        const int64_t nope = shape->nope_dim, rank = shape->rank, rope = shape->rope_dim;
        refuse_recording(step, "the index arrays of KV writes");
        at::Tensor &q = step->buffers[MR_QKV];
        const at::Tensor heads =
            q.to(at::kFloat).view({q.size(0), latent->attention.head_count, nope + rope});
        q = at::cat({heads.narrow(2, 0, nope), rotated(step, latent, heads.narrow(2, nope, rope))},
                    2)
                .flatten(1);
        const at::Tensor latents = step->buffers[MR_LATENTS].narrow(1, shape->query_rank, rank);
        const at::Tensor key =
            step->buffers[MR_LATENTS].narrow(1, shape->query_rank + rank, rope).unsqueeze(1);
        const at::Tensor row =
            at::cat({padded(normed(latents, latent->norm, shape->norm_epsilon).unsqueeze(1),
                            mr_latent_value(shape)),
                     padded(rotated(step, latent, key), mr_latent_padded(shape->rope_dim))},
                    2);
        write_kv(step, &latent->attention, row);
    });
}

/* Returns x, [rows, heads, in], times the matrix of each head: [rows, heads, out] in floats. */
static at::Tensor times_heads(const struct mr_linear *linear, const at::Tensor &x)
{
    const int64_t heads = x.size(1);
    const struct device *device = linear->device;
    at::Tensor weight = linear->weight.view({heads, linear->out_size / heads, linear->in_size});
    at::Tensor in = x.transpose(0, 1).to(weight.scalar_type());
    if (device->where.is_cpu() && device->type != at::kFloat) {
        weight = weight.to(at::kFloat);
        in = in.to(at::kFloat);
    }
    return at::bmm(in, weight.transpose(1, 2)).transpose(0, 1).to(at::kFloat);
}

static void attend_latents(struct mr_step *step, const struct mr_latent *latent)
{
    queued(step->device, "latent attention", [=] {
        const struct mr_latent_shape *shape = &latent->shape;
        const int64_t nope = shape->nope_dim, heads = latent->attention.head_count;
        refuse_recording(step, "the block tables of attention");
        const at::Tensor q = step->buffers[MR_QKV].view({-1, heads, nope + shape->rope_dim});
        const at::Tensor absorbed =
            at::cat({times_heads(latent->keys, q.narrow(2, 0, nope)),
                     padded(q.narrow(2, nope, shape->rope_dim), mr_latent_padded(shape->rope_dim))},
                    2);
        attend_rows(step, &latent->attention,
                    (absorbed * latent->attention.scale).to(score_type(step->device)).unsqueeze(1));
        const at::Tensor attended =
            step->buffers[MR_ATTENDED].view({-1, heads, mr_latent_value(shape)});
        step->buffers[MR_ATTENDED] = times_heads(latent->values, attended)
                                         .narrow(2, 0, shape->value_dim)
                                         .flatten(1)
                                         .to(step->device->type);
    });
}

const struct mr_latent_ops latent_ops = {
    .norm_queries = norm_queries, .write = write, .attend = attend_latents};

} // namespace mr_torch
