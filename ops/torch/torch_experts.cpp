#include "ops/torch/graph.hpp"
#include "ops/torch/kernels.hpp"

#include <algorithm>
#include <limits>

namespace mr_torch
{

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

/* Sets *ids to the experts of each row, [rows, top_k], the best choice first, the lower id among
 * equals, and *weights to their weights. */
static void route(const struct mr_router *router, const at::Tensor &routing, at::Tensor *ids,
                  at::Tensor *weights)
{
    const double lowest = -std::numeric_limits<double>::infinity();
    const at::Tensor logits = at::where(at::isnan(routing), lowest, routing);
    const bool groups = router->group_count > 1;
    const at::Tensor scores = router->sigmoid ? at::sigmoid(logits) : at::softmax(logits, 1);
    /* A plain softmax is chosen by its logits, which differ where rounded scores are equal. */
    at::Tensor choices = groups || router->bias ? scores : logits;
    if (router->bias) choices = choices + router->bias->numbers;
    if (groups) choices = keep_groups(router, choices);
    /* A stable sort, because topk does not define the order among equals. */
    *ids = std::get<1>(at::sort(choices, true, 1, true)).narrow(1, 0, router->top_k);
    *weights = scores.gather(1, *ids);
    if (router->normalize)
        *weights = *weights / weights->sum(1, true).clamp_min(std::max(router->sum_min, 1e-20f));
    if (router->scale != 0.0f) *weights = *weights * router->scale;
}

/* The pairs of a row and one of its experts, sorted by expert. */
struct pairs {
    std::vector<int64_t> rows, places; /* place: index in the flat [rows * top_k] */
    std::vector<int64_t> counts;       /* [experts] */
};

static struct pairs sort_pairs(const struct mr_router *router, const at::Tensor &ids)
{
    const at::Tensor host = ids.to(at::kCPU).contiguous();
    const int64_t *expert = host.const_data_ptr<int64_t>();
    const size_t count = static_cast<size_t>(host.numel());
    struct pairs pairs = {std::vector<int64_t>(count), std::vector<int64_t>(count),
                          std::vector<int64_t>(router->count)};
    for (size_t i = 0; i < count; i++)
        pairs.counts[static_cast<size_t>(expert[i])]++;
    std::vector<int64_t> next(router->count);
    for (uint32_t i = 1; i < router->count; i++)
        next[i] = next[i - 1] + pairs.counts[i - 1];
    for (size_t i = 0; i < count; i++) {
        const size_t at_pair = static_cast<size_t>(next[static_cast<size_t>(expert[i])]++);
        pairs.places[at_pair] = static_cast<int64_t>(i);
        pairs.rows[at_pair] = static_cast<int64_t>(i / router->top_k);
    }
    return pairs;
}

void experts(struct mr_step *step, const struct mr_expert_layer *layer, uint32_t rows)
{
    queued(step->device, "experts", [=] {
        refuse_recording(step, "the choice of experts");
        settle_residual(step);
        at::Tensor ids, weights;
        route(&layer->router, step->buffers[MR_ROUTING].narrow(0, 0, rows), &ids, &weights);
        const struct pairs pairs = sort_pairs(&layer->router, ids);
        const at::Tensor all_rows = upload(step->device, pairs.rows);
        const at::Tensor factors =
            weights.reshape({-1, 1}).index_select(0, upload(step->device, pairs.places));
        const at::Tensor x = step->buffers[MR_NORMED];
        at::Tensor &to = step->buffers[layer->to];
        if (layer->clear) to = at::zeros({rows, x.size(1)}, floats(step->device));
        int64_t first = 0;
        for (uint32_t i = 0; i < layer->router.count; first += pairs.counts[i++]) {
            if (pairs.counts[i] == 0) continue;
            const at::Tensor own = all_rows.narrow(0, first, pairs.counts[i]);
            const at::Tensor rows_of_x = x.index_select(0, own);
            std::vector<struct adapted_rows> adapted;
            if (!step->adapted.empty())
                adapted = group_adapted(step, {pairs.rows.begin() + first,
                                               pairs.rows.begin() + first + pairs.counts[i]});
            const at::Tensor gated =
                linear_gated(layer->gate_up[i], rows_of_x, layer->activation,
                             change_at(adapted, layer->gate_up[i]->site, rows_of_x));
            const at::Tensor y = linear_floats(layer->down[i], gated,
                                               change_at(adapted, layer->down[i]->site, gated))
                                     .mul_(factors.narrow(0, first, pairs.counts[i]));
            to.index_add_(0, own, y);
        }
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
