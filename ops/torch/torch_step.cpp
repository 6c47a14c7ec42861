#include "ops/torch/kernels.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace mr_torch
{

/* ---- the buffers ---- */

enum mr_status step_create(struct mr_compute *compute, struct mr_step **out,
                           const struct mr_step_spec *spec, struct mr_error *err)
{
    *out = nullptr;
    return guarded(err, [=] {
        struct mr_step *step = new mr_step{};
        step->device = device_of(compute);
        step->spec = *spec;
        step->graphs = spec->twin ? spec->twin->graphs : std::make_shared<graph_list>();
        *out = step;
    });
}

void step_destroy(struct mr_step *step)
{
    delete step;
}

/* Returns the bytes that the largest step keeps, without the intermediate results of a single
 * operation. Only one of two twins is computed at a time; the other keeps only its results. */
uint64_t step_bytes(const struct mr_step *step)
{
    uint64_t bytes = 0;
    for (int i = 0; i < MR_BUFFER_COUNT; i++) {
        const bool is_float = i != MR_NORMED && i != MR_ATTENDED && i != MR_GATED &&
                              i != MR_MIXED && i != MR_QUERY_LATENT && i != MR_ATTENDED_LATENTS;
        const uint64_t rows = i == MR_LOGITS ? step->spec.sequences_max : step->spec.rows_max;
        if (step->spec.twin && i != MR_LOGITS && i != MR_NORMED) continue;
        bytes += rows * step->spec.widths[i] *
                 (is_float ? sizeof(float) : mr_number_bytes(step->device->base.number));
    }
    return bytes;
}

/* ---- staging ---- */

static struct sequence copy_of(const struct mr_step_sequence *from)
{
    struct sequence sequence = {*from, {}};
    const uint32_t rows = from->context_tokens + from->row_count;
    const uint32_t tokens = from->attends > rows ? from->attends : rows;
    const uint32_t blocks = (tokens + MR_BLOCK_TOKENS - 1) / MR_BLOCK_TOKENS;
    for (uint32_t group = 0; group < 2; group++) {
        if (!from->blocks[group]) continue;
        sequence.ids[group].resize(blocks);
        for (uint32_t i = from->first_block[group]; i < blocks; i++)
            sequence.ids[group][i] = from->blocks[group][i];
    }
    return sequence;
}

static void stage_sequences(struct mr_step *step, const struct mr_step_sequence *sequences,
                            uint32_t count)
{
    MR_ASSERT(count <= step->spec.sequences_max);
    step->sequences.clear();
    for (uint32_t i = 0; i < count; i++)
        step->sequences.push_back(copy_of(&sequences[i]));
    step->adapted.clear();
    if (step->spec.rank_max > 0) {
        std::vector<int64_t> rows;
        for (const struct sequence &sequence : step->sequences)
            for (uint32_t i = 0; i < sequence.range.row_count; i++)
                rows.push_back(static_cast<int64_t>(rows.size()));
        step->adapted = group_adapted(step, rows);
    }
    step->gathered = nullptr;
    for (struct group &group : step->groups)
        group = {};
}

/* Stages fed rows: takes the tokens of another step's search, which may still run. */
static void stage_fed(struct mr_step *step, const struct mr_fed_rows *fed)
{
    step->fed_rows = step->fed_tokens = at::Tensor();
    if (!fed || fed->count == 0) return;
    std::vector<int64_t> indexes(fed->rows, fed->rows + fed->count);
    indexes.insert(indexes.end(), fed->queries, fed->queries + fed->count);
    const at::Tensor uploaded = upload(step->device, indexes);
    step->fed_rows = uploaded.narrow(0, 0, fed->count);
    step->fed_tokens =
        fed->from->search.tokens.index_select(0, uploaded.narrow(0, fed->count, fed->count));
}

void stage(struct mr_step *step, const uint32_t *token_ids, uint32_t rows,
           const struct mr_step_sequence *sequences, uint32_t count, const struct mr_fed_rows *fed)
{
    MR_ASSERT(rows <= step->spec.rows_max);
    step->ended = false;
    queued(step->device, "staging", [=] {
        step->token_ids.assign(token_ids, token_ids + rows);
        step->tokens = at::Tensor();
        stage_fed(step, fed);
        step->pending = at::Tensor();
        step->search = search_state{};
        step->host_rows.clear();
        stage_sequences(step, sequences, count);
    });
}

void keep(struct mr_step *step, const uint32_t *rows, const struct mr_step_sequence *sequences,
          uint32_t count)
{
    uint32_t row_count = 0;
    for (uint32_t i = 0; i < count; i++)
        row_count += sequences[i].row_count;
    queued(step->device, "keeping rows", [=] {
        const at::Tensor kept = upload(step->device, std::vector<int64_t>(rows, rows + row_count));
        settle_residual(step);
        if (step->queries.defined()) step->queries = step->queries.index_select(0, kept);
        for (enum mr_step_buffer i : {MR_RESIDUAL, MR_NORMED, MR_QKV, MR_MIXED})
            if (step->buffers[i].defined())
                step->buffers[i] = step->buffers[i].index_select(0, kept);
        stage_sequences(step, sequences, count);
    });
}

/* ---- rows ---- */

void embed(struct mr_step *step, const struct mr_linear *table, float scale)
{
    queued(step->device, "embedding", [=] {
        if (!step->tokens.defined()) {
            step->tokens = upload(step->device, step->token_ids);
            feed(step, step->tokens);
        }
        at::Tensor rows = table->weight.index_select(0, step->tokens).to(at::kFloat);
        const at::Tensor change = change_at(step->adapted, MR_SITE_EMBEDDING, step->tokens);
        if (change.defined()) rows.add_(change);
        step->buffers[MR_RESIDUAL] = scale == 1.0f ? rows : rows.mul_(scale);
    });
}

void embed_positions(struct mr_step *step, const struct mr_vector *table, uint32_t types_at)
{
    queued(step->device, "embedding of positions", [=] {
        std::vector<int64_t> rows;
        for (const struct sequence &sequence : step->sequences)
            for (uint32_t i = 0; i < sequence.range.row_count; i++) {
                const uint32_t at = sequence.range.context_tokens + i;
                const uint32_t second = sequence.range.second_begin;
                const uint32_t type = second > 0 && at >= second ? 1 : 0;
                rows.push_back(int64_t{type} * types_at + std::min(at, types_at - 1));
            }
        step->buffers[MR_RESIDUAL].add_(
            table->numbers.view({-1, step->buffers[MR_RESIDUAL].size(1)})
                .index_select(0, upload(step->device, rows)));
    });
}

static at::Tensor normed(const struct mr_norm *norm, const at::Tensor &x)
{
    if (norm->centered)
        return at::layer_norm(x, {x.size(1)}, norm->weight->numbers,
                              norm->bias ? norm->bias->numbers : at::Tensor(), norm->epsilon);
    at::Tensor factor = x.square().mean(-1, true).add_(norm->epsilon).rsqrt_();
    return (x * factor).mul_(norm->weight->numbers);
}

void norm(struct mr_step *step, const struct mr_norm *norm, uint32_t rows)
{
    queued(step->device, "norm", [=] {
        if (kernel_norm(step, norm, rows)) return;
        settle_residual(step);
        const at::Tensor x = step->buffers[MR_RESIDUAL].narrow(0, 0, rows);
        step->buffers[MR_NORMED] =
            norm ? normed(norm, x).to(step->device->type) : x.to(step->device->type, false, true);
    });
}

void norm_residual(struct mr_step *step, const struct mr_norm *norm, uint32_t rows)
{
    queued(step->device, "norm of the residual stream", [=] {
        settle_residual(step);
        step->buffers[MR_RESIDUAL] = normed(norm, step->buffers[MR_RESIDUAL].narrow(0, 0, rows));
    });
}

void norm_add(struct mr_step *step, const struct mr_norm *norm, uint32_t rows)
{
    queued(step->device, "norm and add", [=] {
        settle_residual(step);
        step->buffers[MR_RESIDUAL].add_(normed(norm, step->buffers[MR_BRANCH].narrow(0, 0, rows)));
    });
}

void softcap(struct mr_step *step, float cap, uint32_t rows)
{
    (void)rows;
    queued(step->device, "logit soft cap",
           [=] { step->buffers[MR_LOGITS].div_(cap).tanh_().mul_(cap); });
}

void linear(struct mr_step *step, const struct mr_linear *linear, enum mr_step_buffer from,
            uint32_t rows, enum mr_epilogue epilogue, enum mr_step_buffer to)
{
    queued(step->device, "linear layer", [=] {
        const at::Tensor x = step->buffers[from].narrow(0, 0, rows);
        const bool kernels = step->device->kernels != nullptr;
        const at::Tensor change = change_at(step->adapted, linear->site, x);
        if (epilogue == MR_STORE && kernels && to == MR_QKV && linear->scale == 1.0f)
            step->buffers[to] = linear_numbers(linear, x, change);
        else if (epilogue == MR_STORE)
            step->buffers[to] = linear_floats(linear, x, change);
        else if (epilogue == MR_ADD && kernels && to == MR_RESIDUAL)
            kernel_add(step, linear_numbers(linear, x, change), linear->scale);
        else if (epilogue == MR_ADD)
            linear_add(linear, x, step->buffers[to], change);
        else if (epilogue < MR_GELU)
            step->buffers[to] = linear_gated(linear, x, epilogue, change);
        else
            step->buffers[to] = linear_activated(linear, x, epilogue, change);
    });
}

/* ---- results ---- */

void sum_normed(struct mr_step *step, uint32_t row, uint32_t count, float *out)
{
    queued(step->device, "sum of hidden states", [=] {
        aside(step->device, std::nullopt, [=] {
            const at::Tensor rows = step->buffers[MR_NORMED].narrow(0, row, count);
            const at::Tensor sum = rows.to(at::kFloat).sum(0).to(at::kCPU).contiguous();
            std::memcpy(out, sum.const_data_ptr<float>(), sum.nbytes());
        });
    });
}

} // namespace mr_torch
