#include "ops/torch/graph.hpp"
#include "ops/torch/kernels.hpp"

#include <algorithm>
#include <limits>

namespace mr_torch
{

/* A pair is a row and one of the experts that are chosen for it. All shapes depend on the number of
 * rows only, so the host never waits for the choice. */
struct pairs {
    at::Tensor weights; /* [rows, top_k] float, of the experts of a row in ascending order of ids */
    at::Tensor rows;    /* [rows * top_k] the row of each pair; pairs are sorted by expert */
    at::Tensor experts; /* [rows * top_k] the expert of each pair */
    at::Tensor ends;    /* [experts] int32: the end of each expert's pairs */
    at::Tensor places;  /* [rows * top_k] where pair i of the unsorted order is now */
};

/* Sets the choices of experts outside the best groups to -infinity. choices: [rows, experts]. */
static at::Tensor keep_groups(const struct mr_router *router, const at::Tensor &choices)
{
    const int64_t groups = router->group_count, size = router->count / groups;
    const at::Tensor split = choices.view({-1, groups, size});
    const int64_t best = router->group_pairs && size > 1 ? 2 : 1;
    const at::Tensor values = std::get<0>(split.topk(best, 2)).sum(2);
    const at::Tensor ids =
        std::get<1>(at::sort(values, true, 1, true)).narrow(1, 0, router->groups_kept);
    const at::Tensor dropped =
        at::ones(values.sizes(), values.options().dtype(at::kBool)).scatter_(1, ids, false);
    return split.masked_fill(dropped.unsqueeze(2), -std::numeric_limits<double>::infinity())
        .view(choices.sizes());
}

/* route() for a sparse mixer (ops/backend/expert_layer.h). */
static void route_mixed(const struct mr_router *router, const at::Tensor &logits, at::Tensor *ids,
                        at::Tensor *weights)
{
    const double lowest = -std::numeric_limits<double>::infinity();
    at::Tensor open = logits;
    std::vector<at::Tensor> chosen, factors;
    for (uint32_t i = 0; i < router->top_k; i++) {
        const at::Tensor id = std::get<1>(at::sort(open, true, 1, true)).narrow(1, 0, 1);
        const at::Tensor best = open.gather(1, id);
        const at::Tensor far = (best - logits) / at::maximum(logits.abs(), best);
        const at::Tensor near = open.masked_fill(far > router->mixer_margin, lowest);
        chosen.push_back(id);
        factors.push_back(at::softmax(near, 1).gather(1, id));
        open = open.scatter(1, id, lowest);
    }
    const auto sorted = at::sort(at::cat(chosen, 1), 1);
    *ids = std::get<0>(sorted);
    *weights = at::cat(factors, 1).gather(1, std::get<1>(sorted));
}

/* Sets *ids to the experts of each row, [rows, top_k], and *weights to their weights. The best
 * choices are taken, the lower id among equals; both arrays are in ascending order of ids. */
static void route(const struct mr_router *router, const at::Tensor &routing, at::Tensor *ids,
                  at::Tensor *weights)
{
    const double lowest = -std::numeric_limits<double>::infinity();
    const at::Tensor logits = at::where(at::isnan(routing), lowest, routing);
    if (router->mixer_margin > 0.0f) {
        route_mixed(router, logits, ids, weights);
        return;
    }
    const bool groups = router->group_count > 1;
    const at::Tensor scores = router->sigmoid ? at::sigmoid(logits) : at::softmax(logits, 1);
    /* A plain softmax is chosen by its logits, which differ where rounded scores are equal. */
    at::Tensor choices = groups || router->bias ? scores : logits;
    if (router->bias) choices = choices + router->bias->numbers;
    if (groups) choices = keep_groups(router, choices);
    /* A stable sort, because topk does not define the order among equals. */
    const at::Tensor best = std::get<1>(at::sort(choices, true, 1, true));
    *ids = std::get<0>(at::sort(best.narrow(1, 0, router->top_k), 1));
    *weights = scores.gather(1, *ids);
    if (router->normalize)
        *weights = *weights / weights->sum(1, true).clamp_min(std::max(router->sum_min, 1e-20f));
    if (router->scale != 0.0f) *weights = *weights * router->scale;
}

static struct pairs sort_pairs(const struct mr_router *router, const at::Tensor &routing)
{
    struct pairs pairs;
    at::Tensor ids;
    route(router, routing, &ids, &pairs.weights);
    const auto sorted = at::sort(ids.reshape({-1}), true, 0, false);
    const at::Tensor order = std::get<1>(sorted);
    pairs.experts = std::get<0>(sorted);
    pairs.rows = at::floor_divide(order, router->top_k);
    pairs.ends =
        at::searchsorted(pairs.experts, at::arange(router->count, order.options()), true, true);
    pairs.places =
        at::empty_like(order).scatter_(0, order, at::arange(order.size(0), order.options()));
    return pairs;
}

/* Returns the changes by adapters of the layers of all experts, [pairs, out]; undefined when no row
 * has an adapter. Only then does the host read the choice: graphs are recorded without adapters. */
static at::Tensor changes_of(const struct mr_step *step, struct mr_linear *const *layers,
                             const at::Tensor &x, const struct pairs &pairs)
{
    at::Tensor changes;
    if (step->adapted.empty()) return changes;
    const at::Tensor rows = pairs.rows.to(at::kCPU), ends = pairs.ends.to(at::kCPU);
    const int64_t *row = rows.const_data_ptr<int64_t>();
    for (int64_t i = 0, begin = 0; i < ends.size(0); i++) {
        const int64_t end = ends.const_data_ptr<int32_t>()[i];
        const at::Tensor own = x.narrow(0, begin, end - begin);
        const at::Tensor change =
            change_at(group_adapted(step, {row + begin, row + end}), layers[i]->site, own);
        if (change.defined() && !changes.defined())
            changes = at::zeros({x.size(0), change.size(1)}, change.options());
        if (change.defined()) changes.narrow(0, begin, end - begin).copy_(change);
        begin = end;
    }
    return changes;
}

/* Returns the product of each pair's row of x with the matrix of its expert, with the expert's bias
 * and without its scale. */
static at::Tensor product_of_pairs(const struct mr_step *step, struct mr_linear *const *layers,
                                   const at::Tensor &x, const struct pairs &pairs)
{
    const struct mr_linear *first = layers[0];
    const at::Tensor matrices = first->stack.transpose(1, 2);
    const at::Tensor numbers = x.to(matrices.scalar_type());
    at::Tensor y = at::_grouped_mm(numbers, matrices, pairs.ends).to(x.scalar_type());
    const at::Tensor changes = changes_of(step, layers, x, pairs);
    if (changes.defined()) y = y.add_(changes);
    if (!first->bias_stack.defined()) return y;
    return y.to(at::kFloat).add_(first->bias_stack.index_select(0, pairs.experts));
}

/* True when LibTorch multiplies the groups without reading their ends on the host. */
static bool groups_on_device(const struct device *device)
{
    const bool has_kernel = device->capability / 10 == 9 || device->capability / 10 == 10;
    return device->where.is_cpu() || (has_kernel && device->type == at::kBFloat16);
}

void experts(struct mr_step *step, const struct mr_expert_layer *layer, uint32_t rows)
{
    queued(step->device, "experts", [=] {
        const struct mr_linear *down = layer->down[0];
        const uint32_t top_k = layer->router.top_k;
        if (!groups_on_device(step->device)) refuse_recording(step, "the rows of each expert");
        settle_residual(step);
        const struct pairs pairs =
            sort_pairs(&layer->router, step->buffers[MR_ROUTING].narrow(0, 0, rows));
        const at::Tensor x = step->buffers[MR_NORMED].index_select(0, pairs.rows);
        const at::Tensor gated =
            gate(step->device, product_of_pairs(step, layer->gate_up, x, pairs), layer->activation);
        const at::Tensor y = product_of_pairs(step, layer->down, gated, pairs)
                                 .index_select(0, pairs.places)
                                 .view({rows, top_k, down->out_size})
                                 .to(at::kFloat);
        const at::Tensor factors = pairs.weights.mul(down->scale).unsqueeze(2);
        at::Tensor &to = step->buffers[layer->to];
        if (layer->clear) to = at::zeros({rows, down->out_size}, floats(step->device));
        /* One addition for each rank, so that a row adds its experts in ascending order of ids. */
        for (uint32_t i = 0; i < top_k; i++)
            to.addcmul_(y.select(1, i), factors.select(1, i));
    });
}

void add_switched(struct mr_step *step, const struct mr_linear *linear, uint32_t rows)
{
    queued(step->device, "shared expert", [=] {
        settle_residual(step);
        const at::Tensor x = step->buffers[MR_GATED].narrow(0, 0, rows);
        const at::Tensor y = linear_floats(linear, x, change_at(step->adapted, linear->site, x));
        const at::Tensor factor = at::sigmoid(step->buffers[MR_SWITCHES].narrow(0, 0, rows));
        step->buffers[MR_RESIDUAL].add_(y * factor);
    });
}

} // namespace mr_torch
