#include "ops/torch/kernels.hpp"

#include <algorithm>
#include <limits>

namespace mr_torch
{

/* Limits of the intermediate results of one operation, in numbers: gathered K of decoding
 * sequences, and scores of a tile of rows of a prompt. One sequence, or 32 rows, may have more. */
constexpr int64_t gathered_max = int64_t{64} << 20;
constexpr int64_t scores_max_cpu = int64_t{4} << 20, scores_max_cuda = int64_t{128} << 20;
constexpr int64_t tile_rows_min = 32;

static constexpr float no_score = -std::numeric_limits<float>::infinity();

/* First token that a row at `position` attends to. */
static int64_t first_token(const struct mr_attention *attention, int64_t position)
{
    const int64_t window = attention->window;
    return window > 0 && position >= window ? position - window + 1 : 0;
}

/* ---- rows of decoding sequences ---- */

/* The host's side of a decode_plan. */
struct pair_lists {
    std::vector<int64_t> rows, blocks, sequences, starts, firsts, lasts;
};

static struct decode_plan plan_of(const struct mr_step *step, const struct pair_lists &lists)
{
    const struct device *device = step->device;
    struct decode_plan plan = {};
    plan.count = static_cast<uint32_t>(lists.rows.size());
    plan.rows = upload(device, lists.rows);
    plan.blocks = upload(device, lists.blocks);
    plan.sequences = upload(device, lists.sequences);
    plan.single = lists.blocks.size() == lists.rows.size();
    const at::Tensor tokens = upload(device, lists.starts).unsqueeze(1) +
                              at::arange(MR_BLOCK_TOKENS, plan.rows.options()).unsqueeze(0);
    plan.hidden = (tokens < upload(device, lists.firsts).unsqueeze(1))
                      .logical_or_(tokens > upload(device, lists.lasts).unsqueeze(1))
                      .unsqueeze(1)
                      .unsqueeze(1);
    return plan;
}

static void add_sequence(struct pair_lists *lists, const struct mr_attention *attention,
                         const struct sequence &sequence)
{
    const int64_t position = sequence.range.context_tokens;
    const int64_t first = first_token(attention, position);
    for (int64_t i = first / MR_BLOCK_TOKENS; i * MR_BLOCK_TOKENS <= position; i++) {
        lists->blocks.push_back(sequence.ids[attention->group][static_cast<size_t>(i)]);
        lists->sequences.push_back(static_cast<int64_t>(lists->rows.size()));
        lists->starts.push_back(i * MR_BLOCK_TOKENS);
        lists->firsts.push_back(first);
        lists->lasts.push_back(position);
    }
    lists->rows.push_back(sequence.range.row_begin);
}

/* Divides the decoding sequences so that no division gathers more than gathered_max numbers. */
static void make_plans(const struct mr_step *step, const struct mr_attention *attention,
                       struct decode_plans *plans)
{
    const struct mr_kv_spec *spec = &attention->kv->spec;
    const int64_t block = int64_t{spec->kv_head_count} * MR_BLOCK_TOKENS * spec->head_dim;
    struct pair_lists lists;
    for (const struct sequence &sequence : step->sequences) {
        if (sequence.range.row_count != 1) continue;
        add_sequence(&lists, attention, sequence);
        if (static_cast<int64_t>(lists.blocks.size()) * block < gathered_max) continue;
        plans->list.push_back(plan_of(step, lists));
        lists = {};
    }
    if (!lists.rows.empty()) plans->list.push_back(plan_of(step, lists));
    plans->made = true;
}

static void cap_scores(const struct mr_attention *attention, at::Tensor *scores)
{
    if (attention->softcap > 0.0f)
        scores->div_(attention->softcap).tanh_().mul_(attention->softcap);
}

/* A softmax over the blocks of each sequence: partial ones for each pair, merged by their largest
 * scores (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018). q:
 * [sequences, kv heads, group, dim]; returns the same shape in floats. */
static at::Tensor attend_pairs(const struct mr_attention *attention, const struct decode_plan *plan,
                               const at::Tensor &q)
{
    const at::Tensor keys =
        kv_half(attention->kv, attention->layer, 0).index_select(0, plan->blocks);
    const at::Tensor values =
        kv_half(attention->kv, attention->layer, 1).index_select(0, plan->blocks);
    const at::Tensor paired = plan->single ? q : q.index_select(0, plan->sequences);
    at::Tensor scores = at::matmul(paired, keys.transpose(2, 3)).to(at::kFloat);
    cap_scores(attention, &scores);
    scores.masked_fill_(plan->hidden, no_score);
    at::Tensor top = scores.amax(-1);
    if (!plan->single)
        top = at::full({q.size(0), q.size(1), q.size(2)}, no_score, top.options())
                  .index_reduce_(0, plan->sequences, top, "amax");
    at::Tensor sinks;
    if (attention->sinks) {
        sinks = attention->sinks->numbers.view({1, q.size(1), q.size(2)});
        top = at::maximum(top, sinks);
    }
    const at::Tensor own = plan->single ? top : top.index_select(0, plan->sequences);
    scores.sub_(own.unsqueeze(-1)).exp_();
    at::Tensor sum = scores.sum(-1);
    at::Tensor out = at::matmul(scores.to(values.scalar_type()), values).to(at::kFloat);
    if (!plan->single) {
        sum = at::zeros_like(top).index_add_(0, plan->sequences, sum);
        out = at::zeros(q.sizes(), out.options()).index_add_(0, plan->sequences, out);
    }
    if (sinks.defined()) sum = sum + at::exp(sinks - top);
    return out.div_(sum.unsqueeze(-1));
}

/* ---- the rows of a prompt ---- */

/* K or V of a sequence from block `begin` on: [kv heads, tokens, dim], contiguous. */
static at::Tensor history(const struct mr_attention *attention, int64_t half,
                          const at::Tensor &blocks)
{
    const at::Tensor gathered =
        kv_half(attention->kv, attention->layer, half).index_select(0, blocks);
    return gathered.permute({1, 0, 2, 3}).reshape({gathered.size(1), -1, gathered.size(3)});
}

static at::Tensor softmax_with_sinks(const struct mr_attention *attention, const at::Tensor &scores)
{
    if (!attention->sinks) return at::softmax(scores, -1);
    const at::Tensor sinks = attention->sinks->numbers.view({scores.size(0), scores.size(1), 1, 1})
                                 .expand({scores.size(0), scores.size(1), scores.size(2), 1});
    return at::softmax(at::cat({scores, sinks}, -1), -1).narrow(-1, 0, scores.size(3));
}

/* Attention of the rows at positions [position, position + q.size(0)) to the first tokens of keys
 * and values, of which token 0 is at `start`. q: [rows, kv heads, group, dim]; returns [rows, heads
 * * dim]. */
static at::Tensor attend_tile(const struct mr_attention *attention, const at::Tensor &q,
                              const std::array<at::Tensor, 2> &halves, int64_t start,
                              int64_t position)
{
    const int64_t rows = q.size(0), heads = q.size(1), group = q.size(2), dim = q.size(3);
    const int64_t count = position + rows - start;
    const at::Tensor keys = halves[0].narrow(1, 0, count), values = halves[1].narrow(1, 0, count);
    const at::Tensor folded = q.permute({1, 2, 0, 3}).reshape({heads, group * rows, dim});
    at::Tensor scores =
        at::bmm(folded, keys.transpose(1, 2)).to(at::kFloat).view({heads, group, rows, count});
    cap_scores(attention, &scores);
    const at::TensorOptions index = at::TensorOptions().dtype(at::kLong).device(q.device());
    const at::Tensor tokens = at::arange(start, start + count, index).unsqueeze(0);
    const at::Tensor own = at::arange(position, position + rows, index).unsqueeze(1);
    at::Tensor hidden = tokens > own;
    if (attention->window > 0)
        hidden.logical_or_(tokens <= own - static_cast<int64_t>(attention->window));
    scores.masked_fill_(hidden, no_score);
    const at::Tensor weights = softmax_with_sinks(attention, scores)
                                   .to(values.scalar_type())
                                   .reshape({heads, group * rows, count});
    return at::bmm(weights, values)
        .view({heads, group, rows, dim})
        .permute({2, 0, 1, 3})
        .reshape({rows, heads * group * dim});
}

static void attend_prompt(struct mr_step *step, const struct mr_attention *attention,
                          const struct sequence &sequence, const at::Tensor &q)
{
    const struct mr_step_sequence *range = &sequence.range;
    const int64_t context = range->context_tokens, rows = range->row_count;
    const int64_t begin = first_token(attention, context) / MR_BLOCK_TOKENS;
    const std::vector<uint32_t> &ids = sequence.ids[attention->group];
    const at::Tensor blocks =
        upload(step->device, std::vector<int64_t>(ids.begin() + begin, ids.end()));
    const std::array<at::Tensor, 2> halves = {history(attention, 0, blocks),
                                              history(attention, 1, blocks)};
    const int64_t start = begin * MR_BLOCK_TOKENS;
    const int64_t most = step->device->where.is_cpu() ? scores_max_cpu : scores_max_cuda;
    const int64_t row_scores = int64_t{attention->head_count} * (context + rows - start);
    const int64_t tile = std::max(tile_rows_min, most / row_scores);
    for (int64_t at_row = 0; at_row < rows; at_row += tile) {
        const int64_t count = std::min(tile, rows - at_row);
        const int64_t first = range->row_begin + at_row;
        step->buffers[MR_ATTENDED]
            .narrow(0, first, count)
            .copy_(
                attend_tile(attention, q.narrow(0, first, count), halves, start, context + at_row));
    }
}

/* ---- all rows ---- */

/* q of all rows, [rows, kv heads, group, dim], times the scale of the scores: q has fewer numbers
 * than they. */
static at::Tensor scaled_queries(const struct mr_step *step, const struct mr_attention *attention)
{
    const int64_t heads = attention->head_count, kv_heads = attention->kv_head_count;
    const int64_t dim = attention->kv->spec.head_dim;
    const at::Tensor q = step->queries.defined() ? step->queries.to(at::kFloat)
                                                 : step->buffers[MR_QKV].narrow(1, 0, heads * dim);
    return (q * attention->scale)
        .to(step->device->type)
        .view({q.size(0), kv_heads, heads / kv_heads, dim});
}

static void attend_decodes(struct mr_step *step, const struct mr_attention *attention,
                           const at::Tensor &q)
{
    struct decode_plans *plans =
        &step->groups[attention->group].plans[attention->window > 0 ? 1 : 0];
    if (!plans->made) make_plans(step, attention, plans);
    for (const struct decode_plan &plan : plans->list) {
        const at::Tensor out = attend_pairs(attention, &plan, q.index_select(0, plan.rows));
        step->buffers[MR_ATTENDED].index_copy_(
            0, plan.rows, out.reshape({out.size(0), -1}).to(step->device->type));
    }
}

void attend(struct mr_step *step, const struct mr_attention *attention)
{
    queued(step->device, [=] {
        const int64_t rows = step->buffers[MR_QKV].size(0);
        const int64_t width = int64_t{attention->head_count} * attention->kv->spec.head_dim;
        step->buffers[MR_ATTENDED] = at::empty({rows, width}, numbers(step->device));
        const struct attended done = kernel_attend(step, attention);
        if (done.decodes && done.prompts) return;
        const at::Tensor q = scaled_queries(step, attention);
        if (!done.decodes) attend_decodes(step, attention, q);
        for (const struct sequence &sequence : step->sequences)
            if (!done.prompts && sequence.range.row_count > 1)
                attend_prompt(step, attention, sequence, q);
    });
}

} // namespace mr_torch
