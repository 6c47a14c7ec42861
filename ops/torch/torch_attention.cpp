#include "ops/torch/graph.hpp"
#include "ops/torch/kernels.hpp"

#include <algorithm>
#include <limits>

namespace mr_torch
{

/* Limits of the intermediate results of one operation, in numbers: gathered K of decoding
 * sequences, and scores of a tile of rows of a prompt. One sequence, or 32 rows, may exceed them.
 * On a CPU a tile of 2 MiB stays in the cache: with 512 rows of SmolLM2 it is twice as fast as a
 * tile of 16 MiB. */
constexpr int64_t gathered_max = int64_t{64} << 20;
constexpr int64_t scores_max_cpu = int64_t{512} << 10, scores_max_cuda = int64_t{128} << 20;
constexpr int64_t tile_rows_min = 32;
/* Tokens of a block that decoding sequences gather are a multiple of this. */
constexpr int64_t gathered_step = 32;

static constexpr float no_score = -std::numeric_limits<float>::infinity();

/* First token that a row at `position` attends to. */
static int64_t first_token(const struct mr_attention *attention, int64_t position)
{
    const int64_t window = attention->window;
    return window > 0 && position >= window ? position - window + 1 : 0;
}

/* ---- number formats ---- */

/* Scores are floats. LibTorch's product of bf16 on a CPU rounds its results to bf16, so q and K are
 * floats there; a GPU's product has results in floats. */
at::ScalarType score_type(const struct device *device)
{
    return device->where.is_cpu() ? at::kFloat : device->type;
}

/* Returns the type of V and of the weights that multiply it. LibTorch has no fast product of fp16
 * on a CPU. */
static at::ScalarType value_type(const struct device *device)
{
    const bool half = device->where.is_cpu() && device->type == at::kHalf;
    return half || device->in_floats ? at::kFloat : device->type;
}

/* Floats: q [n, rows, dim] times the transposed keys [n, tokens, dim], both of score_type. */
static at::Tensor scores_of(const at::Tensor &q, const at::Tensor &keys)
{
    const at::Tensor columns = keys.transpose(1, 2);
    return q.scalar_type() == at::kFloat ? at::bmm(q, columns) : at::bmm(q, columns, at::kFloat);
}

/* Floats: weights [n, rows, tokens] times values [n, tokens, dim], of value_type. */
static at::Tensor weighted(const at::Tensor &weights, const at::Tensor &values)
{
    return at::bmm(weights.to(values.scalar_type()), values).to(at::kFloat);
}

/* ---- rows of decoding sequences ---- */

/* The host's side of a decode_plan. */
struct pair_lists {
    std::vector<int64_t> rows, blocks, sequences, starts, firsts, lasts;
    std::vector<int64_t> begins; /* first pair of each sequence */
    int64_t pairs_most, tokens;  /* of one sequence; of one block */
};

/* Returns the pairs of each sequence, [rows * pairs_most]; a shorter list repeats its last pair. */
static std::vector<int64_t> members_of(const struct pair_lists &lists)
{
    std::vector<int64_t> members;
    for (size_t i = 0; i < lists.begins.size(); i++) {
        const bool is_last = i + 1 == lists.begins.size();
        const int64_t end =
            is_last ? static_cast<int64_t>(lists.blocks.size()) : lists.begins[i + 1];
        for (int64_t k = 0; k < lists.pairs_most; k++)
            members.push_back(std::min(lists.begins[i] + k, end - 1));
    }
    return members;
}

static std::vector<int64_t> heads_of(const struct mr_kv_spec *spec, const struct pair_lists &lists)
{
    std::vector<int64_t> heads;
    for (int64_t half = 0; half < 2; half++)
        for (const int64_t block : lists.blocks)
            for (int64_t head = 0; head < spec->kv_head_count; head++)
                heads.push_back((block * spec->layer_count * 2 + half) * spec->kv_head_count +
                                head);
    return heads;
}

static struct decode_plan plan_of(const struct mr_step *step, const struct mr_kv_spec *spec,
                                  const struct pair_lists &lists)
{
    const struct device *device = step->device;
    struct decode_plan plan = {};
    plan.rows = upload(device, lists.rows);
    plan.heads = upload(device, heads_of(spec, lists));
    plan.sequences = upload(device, lists.sequences);
    plan.tokens = lists.tokens;
    plan.single = lists.pairs_most == 1;
    plan.all = lists.rows.size() == step->sequences.size();
    if (!plan.single) plan.members = upload(device, members_of(lists));
    const at::Tensor tokens = upload(device, lists.starts).unsqueeze(1) +
                              at::arange(plan.tokens, plan.rows.options()).unsqueeze(0);
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
    const int64_t begin = first / MR_BLOCK_TOKENS, end = position / MR_BLOCK_TOKENS + 1;
    lists->begins.push_back(static_cast<int64_t>(lists->blocks.size()));
    lists->pairs_most = std::max(lists->pairs_most, end - begin);
    const int64_t longest =
        end - begin > 1 ? MR_BLOCK_TOKENS : position - begin * MR_BLOCK_TOKENS + 1;
    const int64_t rounded = (longest + gathered_step - 1) / gathered_step * gathered_step;
    lists->tokens = std::max(lists->tokens, std::min<int64_t>(rounded, MR_BLOCK_TOKENS));
    for (int64_t i = begin; i < end; i++) {
        lists->blocks.push_back(sequence.ids[attention->group][static_cast<size_t>(i)]);
        lists->sequences.push_back(static_cast<int64_t>(lists->rows.size()));
        lists->starts.push_back(i * MR_BLOCK_TOKENS);
        lists->firsts.push_back(first);
        lists->lasts.push_back(position);
    }
    lists->rows.push_back(sequence.range.row_begin);
}

/* Divides the decoding sequences into plans, none of which gathers more than gathered_max
 * numbers. */
static void make_plans(const struct mr_step *step, const struct mr_attention *attention,
                       struct decode_plans *plans)
{
    const struct mr_kv_spec *spec = &attention->kv->spec;
    const int64_t block = int64_t{spec->kv_head_count} * MR_BLOCK_TOKENS * spec->head_dim;
    struct pair_lists lists = {};
    for (const struct sequence &sequence : step->sequences) {
        if (sequence.range.row_count != 1 || sequence.range.attends > 0) continue;
        add_sequence(&lists, attention, sequence);
        if (static_cast<int64_t>(lists.blocks.size()) * block < gathered_max) continue;
        plans->list.push_back(plan_of(step, spec, lists));
        lists = {};
    }
    if (!lists.rows.empty()) plans->list.push_back(plan_of(step, spec, lists));
    plans->made = true;
}

static void cap_scores(const struct mr_attention *attention, at::Tensor *scores)
{
    if (attention->softcap > 0.0f)
        scores->div_(attention->softcap).tanh_().mul_(attention->softcap);
}

/* Returns K, then V of the pairs: [2 * pairs * kv heads, tokens, dim]. */
static at::Tensor gather_pairs(const struct mr_attention *attention, const struct decode_plan *plan)
{
    const struct mr_kv_spec *spec = &attention->kv->spec;
    const at::Tensor heads = attention->kv->pool.view({-1, MR_BLOCK_TOKENS, spec->head_dim});
    const int64_t first = int64_t{attention->layer} * 2 * spec->kv_head_count;
    return heads.narrow(0, first, heads.size(0) - first)
        .narrow(1, 0, plan->tokens)
        .index_select(0, plan->heads);
}

/* Reduces [pairs, ...] to [sequences, ...]: the largest of each sequence. */
static at::Tensor largest_of(const struct decode_plan *plan, const at::Tensor &pairs, int64_t count)
{
    if (plan->single) return pairs;
    const at::Tensor listed = pairs.index_select(0, plan->members);
    return listed.view({count, -1, pairs.size(1), pairs.size(2)}).amax(1);
}

/* Reduces [pairs, ...] to [sequences, ...]: the sum of each sequence. */
static at::Tensor sums_of(const struct decode_plan *plan, const at::Tensor &pairs, int64_t count)
{
    if (plan->single) return pairs;
    std::vector<int64_t> sizes = pairs.sizes().vec();
    sizes[0] = count;
    return at::zeros(sizes, pairs.options()).index_add_(0, plan->sequences, pairs);
}

/* A softmax over the blocks of each sequence: partial ones for each pair, merged by their largest
 * scores (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018). scores:
 * [pairs, kv heads, group, tokens], changed; values: [pairs * kv heads, tokens, dim]; returns
 * [sequences, kv heads, group, dim] in floats. */
static at::Tensor merge_pairs(const struct mr_attention *attention, const struct decode_plan *plan,
                              const at::Tensor &scores, const at::Tensor &values)
{
    const int64_t count = plan->rows.size(0), heads = scores.size(1), group = scores.size(2);
    at::Tensor top = largest_of(plan, scores.amax(-1), count);
    at::Tensor sinks;
    if (attention->sinks) {
        sinks = attention->sinks->numbers.view({1, heads, group});
        top = at::maximum(top, sinks);
    }
    const at::Tensor own = plan->single ? top : top.index_select(0, plan->sequences);
    scores.sub_(own.unsqueeze(-1)).exp_();
    at::Tensor sum = sums_of(plan, scores.sum(-1), count);
    if (sinks.defined()) sum = sum + at::exp(sinks - top);
    const at::Tensor out =
        weighted(scores.flatten(0, 1), values).view({-1, heads, group, values.size(2)});
    return sums_of(plan, out, count).div_(sum.unsqueeze(-1));
}

/* q: [sequences, kv heads, group, dim]; returns the same shape in floats. */
static at::Tensor attend_pairs(const struct device *device, const struct mr_attention *attention,
                               const struct decode_plan *plan, const at::Tensor &q)
{
    const at::Tensor both = gather_pairs(attention, plan);
    const int64_t half = both.size(0) / 2;
    const at::Tensor keys = both.narrow(0, 0, half).to(score_type(device));
    const at::Tensor values = both.narrow(0, half, half).to(value_type(device));
    const at::Tensor paired = plan->single ? q : q.index_select(0, plan->sequences);
    at::Tensor scores = scores_of(paired.flatten(0, 1), keys)
                            .view({paired.size(0), q.size(1), q.size(2), plan->tokens});
    cap_scores(attention, &scores);
    scores.masked_fill_(plan->hidden, no_score);
    if (!plan->single || attention->sinks) return merge_pairs(attention, plan, scores, values);
    return weighted(at::softmax(scores, -1).flatten(0, 1), values).view(q.sizes());
}

/* ---- the rows of a prompt ---- */

/* K or V of `tokens` tokens of a sequence, from the first of `blocks` on: [kv heads, tokens, dim].
 */
static at::Tensor history(const struct mr_attention *attention, int64_t half,
                          const at::Tensor &blocks, int64_t tokens, at::ScalarType type)
{
    const at::Tensor gathered =
        kv_half(attention->kv, attention->layer, half).index_select(0, blocks);
    return gathered.permute({1, 0, 2, 3}).flatten(1, 2).narrow(1, 0, tokens).to(type).contiguous();
}

static at::Tensor values_of(const struct mr_step *step, const struct mr_attention *attention,
                            const at::Tensor &blocks, int64_t tokens)
{
    const struct mr_kv_spec *spec = &attention->kv->spec;
    const at::ScalarType type = value_type(step->device);
    if (spec->value_dim == 0) return history(attention, 1, blocks, tokens, type);
    return history(attention, 0, blocks, tokens, type).narrow(2, 0, spec->value_dim);
}

/* Overwrites the scores of tokens outside a row's attention with no_score. scores: [heads, group,
 * rows, count], rows from `position` on, tokens from `start` on, the last of which is the last
 * row. */
static void hide(const struct mr_attention *attention, at::Tensor *scores, int64_t start,
                 int64_t position, bool both_ways)
{
    const at::TensorOptions index = at::TensorOptions().dtype(at::kLong).device(scores->device());
    const int64_t rows = scores->size(2);
    const int64_t count = scores->size(3);
    if (both_ways) { /* [start, start + count) are all tokens of the sequence */
        if (attention->window == 0) return;
        const at::Tensor gap = at::arange(start, start + count, index).unsqueeze(0) -
                               at::arange(position, position + rows, index).unsqueeze(1);
        scores->masked_fill_(gap.abs() >= static_cast<int64_t>(attention->window), no_score);
        return;
    }
    const int64_t first = attention->window > 0 ? start : position; /* rows see all earlier
                                                                     * tokens */
    const at::Tensor tokens = at::arange(first, position + rows, index).unsqueeze(0);
    const at::Tensor own = at::arange(position, position + rows, index).unsqueeze(1);
    at::Tensor hidden = tokens > own;
    if (attention->window > 0)
        hidden.logical_or_(tokens <= own - static_cast<int64_t>(attention->window));
    scores->narrow(3, first - start, position + rows - first).masked_fill_(hidden, no_score);
}

static at::Tensor softmax_with_sinks(const struct mr_attention *attention, const at::Tensor &scores)
{
    if (!attention->sinks) return at::softmax(scores, -1);
    const at::Tensor sinks = attention->sinks->numbers.view({scores.size(0), scores.size(1), 1, 1})
                                 .expand({scores.size(0), scores.size(1), scores.size(2), 1});
    return at::softmax(at::cat({scores, sinks}, -1), -1).narrow(-1, 0, scores.size(3));
}

using kv_halves = std::array<at::Tensor, 2>; /* keys, values */

/* Attention of the rows at positions [position, position + q.size(0)) to the first tokens of keys
 * and values, of which token 0 is at `start`. q: [rows, kv heads, group, dim]; returns [rows, heads
 * * dim of V]. */
static at::Tensor attend_tile(const struct mr_attention *attention, const at::Tensor &q,
                              const kv_halves &halves, int64_t start, int64_t position,
                              bool both_ways)
{
    const int64_t rows = q.size(0), heads = q.size(1), group = q.size(2), dim = q.size(3);
    const int64_t count = both_ways ? halves[0].size(1) : position + rows - start;
    const at::Tensor keys = halves[0].narrow(1, 0, count), values = halves[1].narrow(1, 0, count);
    const at::Tensor folded = q.permute({1, 2, 0, 3}).reshape({heads, group * rows, dim});
    at::Tensor scores = scores_of(folded, keys).view({heads, group, rows, count});
    cap_scores(attention, &scores);
    hide(attention, &scores, start, position, both_ways);
    const at::Tensor weights =
        softmax_with_sinks(attention, scores).reshape({heads, group * rows, count});
    return weighted(weights, values)
        .view({heads, group, rows, values.size(2)})
        .permute({2, 0, 1, 3})
        .reshape({rows, heads * group * values.size(2)});
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
    const bool both_ways = range->attends > 0;
    const int64_t start = begin * MR_BLOCK_TOKENS;
    const int64_t tokens = (both_ways ? range->attends : context + rows) - start;
    const kv_halves halves = {history(attention, 0, blocks, tokens, score_type(step->device)),
                              values_of(step, attention, blocks, tokens)};
    const int64_t most = step->device->where.is_cpu() ? scores_max_cpu : scores_max_cuda;
    const int64_t row_scores = int64_t{attention->head_count} * tokens;
    const int64_t tile = std::max(tile_rows_min, most / row_scores);
    for (int64_t at_row = 0; at_row < rows; at_row += tile) {
        const int64_t count = std::min(tile, rows - at_row);
        const int64_t first = range->row_begin + at_row;
        step->buffers[MR_ATTENDED]
            .narrow(0, first, count)
            .copy_(attend_tile(attention, q.narrow(0, first, count), halves, start,
                               context + at_row, both_ways));
    }
}

/* ---- all rows ---- */

/* Returns q of all rows, [rows, kv heads, group, dim], times the scale of the scores, because q has
 * fewer numbers than the scores. */
static at::Tensor scaled_queries(const struct mr_step *step, const struct mr_attention *attention)
{
    const int64_t heads = attention->head_count, kv_heads = attention->kv_head_count;
    const int64_t dim = attention->kv->spec.head_dim;
    const at::Tensor q = step->queries.defined() ? step->queries.to(at::kFloat)
                                                 : step->buffers[MR_QKV].narrow(1, 0, heads * dim);
    return (q * attention->scale)
        .to(score_type(step->device))
        .view({q.size(0), kv_heads, heads / kv_heads, dim});
}

static void attend_decodes(struct mr_step *step, const struct mr_attention *attention,
                           const at::Tensor &q)
{
    struct decode_plans *plans =
        &step->groups[attention->group].plans[attention->window > 0 ? 1 : 0];
    if (!plans->made) make_plans(step, attention, plans);
    for (const struct decode_plan &plan : plans->list) {
        const at::Tensor own = plan.all ? q : q.index_select(0, plan.rows);
        const at::Tensor out = attend_pairs(step->device, attention, &plan, own)
                                   .view({own.size(0), -1})
                                   .to(step->device->type);
        if (plan.all)
            step->buffers[MR_ATTENDED] = out;
        else
            step->buffers[MR_ATTENDED].index_copy_(0, plan.rows, out);
    }
}

void attend_rows(struct mr_step *step, const struct mr_attention *attention, const at::Tensor &q)
{
    const struct mr_kv_spec *spec = &attention->kv->spec;
    const int64_t dim = spec->value_dim > 0 ? spec->value_dim : spec->head_dim;
    step->buffers[MR_ATTENDED] =
        at::empty({q.size(0), attention->head_count * dim}, numbers(step->device));
    for (const struct sequence &sequence : step->sequences)
        attend_prompt(step, attention, sequence, q);
}

void attend(struct mr_step *step, const struct mr_attention *attention)
{
    queued(step->device, "attention", [=] {
        const int64_t rows = step->buffers[MR_QKV].size(0);
        const int64_t width = int64_t{attention->head_count} * attention->kv->spec.head_dim;
        step->buffers[MR_ATTENDED] = at::empty({rows, width}, numbers(step->device));
        /* no kernel does that; a step that is recorded has no sequences */
        const bool both_ways = !step->sequences.empty() && step->sequences[0].range.attends > 0;
        const struct attended done =
            both_ways ? (struct attended){} : kernel_attend(step, attention);
        if (done.decodes && (done.prompts || step->recording)) return;
        refuse_recording(step, "the block tables of attention");
        const at::Tensor q = scaled_queries(step, attention);
        if (!done.decodes) attend_decodes(step, attention, q);
        for (const struct sequence &sequence : step->sequences)
            if (!done.prompts && (sequence.range.row_count > 1 || both_ways))
                attend_prompt(step, attention, sequence, q);
    });
}

} // namespace mr_torch
