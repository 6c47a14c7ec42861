#include "ops/torch/shim.hpp"

#include <algorithm>
#include <cstring>

namespace mr_torch
{

/* Returns rows of floats as a tensor on the device. gated: the rows alternate gate and up. */
static at::Tensor matrix(const struct device *device, const float *values, int64_t rows,
                         int64_t width, bool gated)
{
    at::Tensor host = at::empty({rows, width}, at::kFloat);
    std::memcpy(host.mutable_data_ptr(), values, static_cast<size_t>(rows * width) * sizeof(float));
    if (gated) host = host.view({rows / 2, 2, width}).transpose(0, 1).reshape({rows, width});
    return host.to(device->where);
}

static enum mr_status low_rank_create(struct mr_compute *compute, struct mr_low_rank **out,
                                      const struct mr_low_rank_spec *spec, struct mr_error *err)
{
    *out = nullptr;
    return guarded(err, [=] {
        const struct device *device = device_of(compute);
        const int64_t rank = spec->rank, in = spec->in_size;
        at::Tensor a = spec->table ? matrix(device, spec->a, in, rank, false)
                                   : matrix(device, spec->a, rank, in, false);
        at::Tensor b = matrix(device, spec->b, spec->out_size, rank, spec->gated);
        const at::ScalarType type = spec->table ? at::kFloat : device->type;
        *out = new mr_low_rank{a.to(type), b.to(type)};
    });
}

static void low_rank_destroy(struct mr_low_rank *low_rank)
{
    delete low_rank;
}

static size_t low_rank_bytes(const struct mr_low_rank *low_rank)
{
    return low_rank->a.nbytes() + low_rank->b.nbytes();
}

const struct mr_low_rank_functions low_rank_functions = {low_rank_create, low_rank_destroy,
                                                         low_rank_bytes};

std::vector<struct adapted_rows> group_adapted(const struct mr_step *step,
                                               const std::vector<int64_t> &rows)
{
    std::vector<const struct mr_adapter *> of_row;
    std::vector<struct adapted_rows> groups;
    for (const struct sequence &sequence : step->sequences)
        of_row.insert(of_row.end(), sequence.range.row_count, sequence.range.adapter);
    for (size_t i = 0; i < rows.size(); i++) {
        const struct mr_adapter *adapter = of_row[static_cast<size_t>(rows[i])];
        if (!adapter) continue;
        auto group = std::find_if(groups.begin(), groups.end(),
                                  [=](const auto &other) { return other.adapter == adapter; });
        if (group == groups.end()) group = groups.insert(group, {adapter, {}, {}});
        group->rows.push_back(static_cast<int64_t>(i));
    }
    for (struct adapted_rows &group : groups)
        group.indexes = upload(step->device, group.rows);
    return groups;
}

at::Tensor change_at(const std::vector<struct adapted_rows> &adapted, uint32_t site,
                     const at::Tensor &x)
{
    at::Tensor change;
    for (const struct adapted_rows &group : adapted) {
        const struct mr_low_rank *low_rank = site > 0 ? group.adapter->sites[site] : nullptr;
        const int64_t count =
            std::lower_bound(group.rows.begin(), group.rows.end(), x.size(0)) - group.rows.begin();
        if (!low_rank || count == 0) continue;
        const at::Tensor rows = group.indexes.narrow(0, 0, count);
        const bool table = site == MR_SITE_EMBEDDING; /* x: token ids */
        const at::Tensor own = x.index_select(0, rows);
        const at::Tensor small =
            table ? low_rank->a.index_select(0, own) : at::linear(own, low_rank->a);
        if (!change.defined())
            change = at::zeros({x.size(0), low_rank->b.size(0)}, low_rank->b.options());
        change.index_copy_(0, rows, at::linear(small, low_rank->b));
    }
    return change;
}

} // namespace mr_torch
