/* The search of logits (ops/backend/logit_search.h) with LibTorch's operators: edits and masks by
 * index, lists by topk. Its results are one array of 32-bit words, which finish() copies. */
#include "ops/torch/kernels.hpp"

#include <cmath>
#include <cstring>

namespace mr_torch
{

/* ---- queries ---- */

void query(struct mr_step *step, const struct mr_logit_query *query)
{
    queued(step->device, "query", [=] {
        struct search_state &search = step->search;
        if (search.begun) search = search_state{};
        const int64_t index = static_cast<int64_t>(search.queries.size());
        const int64_t width = step->spec.widths[MR_LOGITS];
        for (uint32_t i = 0; i < query->edit_count; i++) {
            search.edit_places.push_back(index * width + query->edits[i].id);
            search.edits.push_back(query->edits[i].bias);
            search.edits.push_back(query->edits[i].penalty);
            search.edits.push_back(query->edits[i].subtracted);
        }
        if (query->allowed) {
            search.masked.push_back(index);
            search.allowed.insert(search.allowed.end(), query->allowed,
                                  query->allowed + (width + 63) / 64);
        }
        search.queries.push_back(*query);
        search.queries.back().list = query->list && !kernel_draws(step->device);
    });
}

/* ---- editing ---- */

template <typename T>
static at::Tensor upload_all(const struct device *device, const std::vector<T> &values,
                             at::ScalarType type)
{
    return upload_bytes(device, values.data(), values.size() * sizeof(T)).view(type);
}

static void apply_edits(const struct device *device, const struct search_state &search,
                        const at::Tensor &flat)
{
    const at::Tensor places = upload(device, search.edit_places);
    const at::Tensor edits = upload_all(device, search.edits, at::kFloat).view({-1, 3});
    const at::Tensor penalty = edits.select(1, 1);
    const at::Tensor x = flat.index_select(0, places).add_(edits.select(1, 0));
    flat.index_copy_(0, places,
                     at::where(x > 0.0, x / penalty, x * penalty).sub_(edits.select(1, 2)));
}

/* Sets logits whose bit is not set to -infinity. */
static void apply_masks(const struct device *device, const struct search_state &search,
                        const at::Tensor &rows)
{
    const int64_t count = static_cast<int64_t>(search.masked.size());
    const at::Tensor bytes =
        upload_all(device, search.allowed, at::kByte).view({count, -1}).unsqueeze(2);
    const at::Tensor shifts = at::arange(8, bytes.options());
    const at::Tensor bits = at::bitwise_and(at::bitwise_right_shift(bytes, shifts), 1);
    const at::Tensor hidden = bits.view({count, -1}).narrow(1, 0, rows.size(1)) == 0;
    if (count == rows.size(0)) {
        rows.masked_fill_(hidden, -INFINITY);
        return;
    }
    const at::Tensor masked = upload(device, search.masked);
    rows.index_copy_(0, masked, rows.index_select(0, masked).masked_fill_(hidden, -INFINITY));
}

/* Gathers the rows of the queries: the model's, and the edited ones, which are the same tensor if
 * no query edits its row. */
static void make_rows(struct mr_step *step)
{
    struct search_state &search = step->search;
    std::vector<int64_t> rows;
    bool all = static_cast<int64_t>(search.queries.size()) == step->buffers[MR_LOGITS].size(0);
    for (const struct mr_logit_query &query : search.queries) {
        all = all && query.row == rows.size();
        rows.push_back(query.row);
    }
    const at::Tensor logits = step->buffers[MR_LOGITS];
    search.model = all ? logits : logits.index_select(0, upload(step->device, rows));
    search.edited = search.model;
    if (search.edit_places.empty() && search.masked.empty()) return;
    search.edited = search.model.clone(at::MemoryFormat::Contiguous);
    if (!search.edit_places.empty()) apply_edits(step->device, search, search.edited.view(-1));
    if (!search.masked.empty()) apply_masks(step->device, search, search.edited);
}

/* ---- searching ---- */

/* Returns the rows of x for which `wanted` is true, in order. */
template <typename F>
static at::Tensor rows_where(const struct mr_step *step, const at::Tensor &x, const F &wanted)
{
    std::vector<int64_t> rows;
    for (size_t i = 0; i < step->search.queries.size(); i++)
        if (wanted(step->search.queries[i])) rows.push_back(static_cast<int64_t>(i));
    if (rows.size() == step->search.queries.size()) return x;
    return rows.empty() ? at::Tensor() : x.index_select(0, upload(step->device, rows));
}

static at::Tensor words(const at::Tensor &x)
{
    const at::Tensor numbers = x.scalar_type() == at::kLong ? x.to(at::kInt) : x;
    return numbers.contiguous().view(at::kInt);
}

/* Sums of exp(factor * (x - top)) of each row, in double. factors: [rows, 1] or undefined. */
static at::Tensor totals(const at::Tensor &x, const at::Tensor &top, const at::Tensor &factors)
{
    at::Tensor weights = x - top;
    if (factors.defined()) weights.mul_(factors);
    return weights.exp_().sum(at::IntArrayRef{1}, true, at::kDouble);
}

/* Uploads the host's inputs of the search. On a device that draws, draws the tokens of the
 * queries. */
static struct find_inputs inputs_of(struct mr_step *step)
{
    struct search_state &search = step->search;
    struct find_inputs inputs;
    std::vector<float> factors;
    std::vector<int64_t> masked;
    bool one = true;
    for (const struct mr_logit_query &query : search.queries) {
        search.draws = search.draws || (query.draw && kernel_draws(step->device));
        one = one && query.factor == 1.0f;
        factors.push_back(query.factor);
        masked.push_back(query.masked_token);
    }
    if (search.draws) kernel_draw(step, &inputs.drawn, &inputs.probabilities);
    if (!one) inputs.factors = upload_all(step->device, factors, at::kFloat).unsqueeze(1);
    if (kernel_draws(step->device) && !search.edited.is_same(search.model))
        inputs.masked = upload(step->device, masked).unsqueeze(1);
    return inputs;
}

/* Computes the findings of every query with operators: [queries, MR_CUDA_FOUND_WORDS] words. */
static at::Tensor find_heads(struct mr_step *step, const struct find_inputs &inputs)
{
    struct search_state &search = step->search;
    const bool same = search.edited.is_same(search.model);
    const auto [largest, best] = search.edited.max(1, true);
    const at::Tensor model_largest = same ? largest : std::get<0>(search.model.max(1, true));
    const at::Tensor model_total = totals(search.model, model_largest, at::Tensor());
    at::Tensor total = model_total, tokens = best;
    if (!same || inputs.factors.defined()) total = totals(search.edited, largest, inputs.factors);
    if (inputs.drawn.defined())
        tokens = at::where(inputs.drawn >= 0, inputs.drawn.to(at::kLong), best);
    if (inputs.masked.defined()) tokens = at::where(largest == -INFINITY, inputs.masked, tokens);
    search.tokens = tokens.squeeze(1);
    const at::Tensor &probabilities =
        inputs.probabilities.defined() ? inputs.probabilities : largest; /* a filler: without draws
                                                                          * no caller reads it */
    return at::cat({words(tokens), words(largest), words(model_largest),
                    words(search.model.gather(1, tokens)), words(total), words(model_total),
                    words(probabilities)},
                   1);
}

/* Computes the findings with our kernel if the device has kernels, else with operators, in the
 * order in which findings() reads them. */
static at::Tensor heads(struct mr_step *step)
{
    at::Tensor found;
    const struct find_inputs inputs = inputs_of(step);
    return kernel_find(step, inputs, &found) ? found : find_heads(step, inputs);
}

/* The `most` largest logits of each row: ids, logits, and `beside` at the same ids if defined. */
static at::Tensor list(const at::Tensor &rows, int64_t most, const at::Tensor &beside)
{
    const auto [logits, ids] = rows.topk(std::min(most, rows.size(1)), 1, true, true);
    if (!beside.defined()) return at::cat({words(ids), words(logits)}, 1).view(-1);
    return at::cat({words(ids), words(logits), words(beside.gather(1, ids))}, 1).view(-1);
}

/* Assigns the parts of a list their places in the result, for the queries that want the list. */
static int64_t place_lists(struct search_state *search, int64_t at, bool mr_logit_query::*wanted,
                           std::vector<int64_t> *places, int64_t words_each)
{
    for (const struct mr_logit_query &query : search->queries) {
        places->push_back(query.*wanted ? at : -1);
        if (query.*wanted) at += words_each;
    }
    return at;
}

constexpr int64_t head_words = MR_CUDA_FOUND_WORDS;

/* Returns the findings of all queries as one array of words on the device. */
static at::Tensor find(struct mr_step *step)
{
    struct search_state &search = step->search;
    make_rows(step);
    const int64_t width = search.model.size(1);
    search.list_count = std::min<int64_t>(MR_LIST_IDS, width);
    search.top_count = std::min<int64_t>(MR_TOP_IDS, width);
    std::vector<at::Tensor> parts = {heads(step).view(-1)};
    const auto lists = [](const struct mr_logit_query &query) { return query.list; };
    const auto tops = [](const struct mr_logit_query &query) { return query.top; };
    const at::Tensor listed = rows_where(step, search.edited, lists);
    if (listed.defined())
        parts.push_back(list(listed, search.list_count, rows_where(step, search.model, lists)));
    const at::Tensor topped = rows_where(step, search.model, tops);
    if (topped.defined()) parts.push_back(list(topped, search.top_count, at::Tensor()));
    int64_t at = head_words * static_cast<int64_t>(search.queries.size());
    at = place_lists(&search, at, &mr_logit_query::list, &search.lists, 3 * search.list_count);
    (void)place_lists(&search, at, &mr_logit_query::top, &search.tops, 2 * search.top_count);
    return at::cat(parts);
}

void search(struct mr_step *step)
{
    queued(step->device, "search of the logits", [=] {
        struct search_state &search = step->search;
        drop_buffers(step);
        search.begun = true;
        if (!search.queries.empty()) search.found = find(step);
        if (!search.queries.empty() && !step->device->where.is_cpu()) {
            const at::Tensor found = search.found;
            search.found = staging(step->device, found.size(0), at::kInt);
            search.found.copy_(found, true);
        }
        mark(step->device, &step->end);
        step->ended = true;
    });
}

/* ---- results ---- */

enum mr_status finish(struct mr_step *step, struct mr_error *err)
{
    struct device *device = step->device;
    queued(device, "end of the step", [=] {
        if (!step->ended) mark(device, &step->end);
        if (step->end) step->end->synchronize();
    });
    if (device->failed != MR_OK && err) *err = device->error;
    return device->failed;
}

template <typename T> static T read(const int32_t *word)
{
    T value;
    std::memcpy(&value, word, sizeof value);
    return value;
}

struct mr_logit_findings findings(struct mr_step *step, uint32_t index)
{
    const struct search_state &search = step->search;
    const int32_t *found = search.found.const_data_ptr<int32_t>();
    const int32_t *head = found + head_words * index;
    struct mr_logit_findings out = {};
    MR_ASSERT(index < search.queries.size());
    out.token = static_cast<uint32_t>(head[0]);
    out.largest = read<float>(head + 1);
    out.model_largest = read<float>(head + 2);
    out.token_model_logit = read<float>(head + 3);
    out.total = read<double>(head + 4);
    out.model_total = read<double>(head + 6);
    out.probability = read<float>(head + 8);
    out.drawn = search.draws && search.queries[index].draw;
    if (search.lists[index] >= 0) {
        const int32_t *list = found + search.lists[index];
        const float *logits = reinterpret_cast<const float *>(list + search.list_count);
        out.list = {list, logits, static_cast<uint32_t>(search.list_count)};
        out.list_model_logits = logits + search.list_count;
    }
    if (search.tops[index] >= 0) {
        const int32_t *top = found + search.tops[index];
        out.top = {top, reinterpret_cast<const float *>(top + search.top_count),
                   static_cast<uint32_t>(search.top_count)};
    }
    return out;
}

/* Returns row `row` of a matrix of floats, copied to host memory that `kept` owns. */
static const float *row_on_host(struct mr_step *step, const at::Tensor &rows, uint32_t row,
                                struct mr_error *err)
{
    struct device *device = step->device;
    const float *out = nullptr;
    queued(device, "copy of the logits", [&] {
        aside(device, std::nullopt,
              [&] { step->host_rows.push_back(rows.select(0, row).to(at::kCPU).contiguous()); });
        out = step->host_rows.back().const_data_ptr<float>();
    });
    if (device->failed != MR_OK && err) *err = device->error;
    return out;
}

const float *logits(struct mr_step *step, uint32_t row, struct mr_error *err)
{
    return row_on_host(step, step->buffers[MR_LOGITS], row, err);
}

const float *edited(struct mr_step *step, uint32_t index, struct mr_error *err)
{
    return row_on_host(step, step->search.edited, index, err);
}

} // namespace mr_torch
