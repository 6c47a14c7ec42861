#include "ops/torch/graph.hpp"
#include "ops/torch/kernels.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace mr_torch
{

/* ---- index arrays ---- */

/* Collects arrays one after the other, so that one copy brings all of them to the device. */
class packer
{
  public:
    template <typename T> struct array_place add(const std::vector<T> &values)
    {
        bytes_.resize((bytes_.size() + 15) / 16 * 16);
        const struct array_place place = {static_cast<int64_t>(bytes_.size()),
                                          static_cast<int64_t>(values.size() * sizeof(T))};
        bytes_.resize(bytes_.size() + values.size() * sizeof(T));
        if (!values.empty())
            std::memcpy(bytes_.data() + place.begin, values.data(), values.size() * sizeof(T));
        return place;
    }
    const std::vector<unsigned char> &bytes() const
    {
        return bytes_;
    }

  private:
    std::vector<unsigned char> bytes_;
};

template <typename T>
static const T *array_at(const struct index_arrays *arrays, const struct array_place &place)
{
    return reinterpret_cast<const T *>(arrays->bytes.const_data_ptr<uint8_t>() + place.begin);
}

static at::Tensor tensor_at(const struct index_arrays *arrays, const struct array_place &place,
                            at::ScalarType type)
{
    return arrays->bytes.narrow(0, place.begin, place.bytes).view(type);
}

static uint32_t blocks_of(uint32_t tokens)
{
    return (tokens + MR_BLOCK_TOKENS - 1) / MR_BLOCK_TOKENS;
}

/* Adds the arrays of the decoding sequences [begin, end). */
static struct index_run decode_run(packer *packer, const struct mr_step *step, uint32_t group,
                                   size_t begin, size_t end)
{
    struct index_run run = {};
    run.first_row = step->sequences[begin].range.row_begin;
    run.rows = static_cast<uint32_t>(end - begin);
    std::vector<int32_t> lengths;
    for (size_t i = begin; i < end; i++) {
        const uint32_t length = step->sequences[i].range.context_tokens + 1;
        lengths.push_back(static_cast<int32_t>(length));
        run.length_max = std::max(run.length_max, length);
    }
    run.blocks_stride = blocks_of(run.length_max);
    std::vector<int32_t> blocks(run.rows * size_t{run.blocks_stride});
    for (size_t i = begin; i < end; i++) {
        const std::vector<uint32_t> &ids = step->sequences[i].ids[group];
        std::copy(ids.begin(), ids.end(),
                  blocks.begin() + static_cast<int64_t>((i - begin) * run.blocks_stride));
    }
    run.lengths = packer->add(lengths);
    run.blocks = packer->add(blocks);
    return run;
}

/* Adds the arrays of the sequences [begin, end) of prompts. The K and V of a sequence are gathered
 * from the block of the first token that any of its rows attends to. */
static struct index_run prompt_run(packer *packer, const struct mr_step *step,
                                   const struct mr_attention *attention, size_t begin, size_t end)
{
    struct index_run run = {};
    run.first_row = step->sequences[begin].range.row_begin;
    run.is_prompt = true;
    std::vector<int64_t> blocks;
    std::vector<int32_t> queries = {0}, keys = {0}, lengths;
    for (size_t i = begin; i < end; i++) {
        const struct mr_step_sequence *range = &step->sequences[i].range;
        const uint32_t window = attention->window, context = range->context_tokens;
        const uint32_t first = window > 0 && context >= window ? context - window + 1 : 0;
        const uint32_t first_block = first / MR_BLOCK_TOKENS;
        const uint32_t length = context + range->row_count - first_block * MR_BLOCK_TOKENS;
        const std::vector<uint32_t> &ids = step->sequences[i].ids[attention->group];
        blocks.insert(blocks.end(), ids.begin() + first_block, ids.end());
        run.rows += range->row_count;
        run.rows_max = std::max(run.rows_max, range->row_count);
        run.length_max = std::max(run.length_max, length);
        lengths.push_back(static_cast<int32_t>(length));
        queries.push_back(static_cast<int32_t>(run.rows));
        keys.push_back(static_cast<int32_t>(blocks.size() * MR_BLOCK_TOKENS));
    }
    run.blocks = packer->add(blocks);
    run.queries = packer->add(queries);
    run.keys = packer->add(keys);
    run.lengths = packer->add(lengths);
    return run;
}

/* A chunk of a prompt with a history of this length or longer is a separate run: LibTorch's flash
 * attention divides the keys among the multiprocessors only when it gets a single sequence. With 64
 * rows after 4,096 tokens this took a third of the time on an H200. */
#define LONG_CONTEXT 1024u

static bool is_alone(const struct sequence &sequence)
{
    return sequence.range.row_count > 1 && sequence.range.context_tokens >= LONG_CONTEXT;
}

/* Returns whether `next` belongs to the same run as the sequence `last` before it. */
static bool continues(const struct sequence &last, const struct sequence &next)
{
    const bool same_kind = (last.range.row_count == 1) == (next.range.row_count == 1);
    return same_kind && last.range.row_begin + last.range.row_count == next.range.row_begin &&
           !is_alone(last) && !is_alone(next);
}

/* Cuts the sequences into runs of neighbouring ones of the same kind. */
static void add_runs(struct index_arrays *arrays, packer *packer, const struct mr_step *step,
                     const struct mr_attention *attention)
{
    const std::vector<struct sequence> &all = step->sequences;
    for (size_t begin = 0, end; begin < all.size(); begin = end) {
        const bool single = all[begin].range.row_count == 1;
        end = begin + 1;
        while (end < all.size() && continues(all[end - 1], all[end]))
            end++;
        arrays->runs.push_back(single ? decode_run(packer, step, attention->group, begin, end)
                                      : prompt_run(packer, step, attention, begin, end));
    }
}

/* Adds the position of every row, the slot of its K and V, and the blocks whose first token is
 * written. */
static void add_slots(struct index_arrays *arrays, packer *packer, const struct mr_step *step,
                      uint32_t group)
{
    std::vector<int32_t> positions;
    std::vector<int64_t> slots, fresh;
    for (const struct sequence &sequence : step->sequences)
        for (uint32_t i = 0; i < sequence.range.row_count; i++) {
            const uint32_t position = sequence.range.context_tokens + i;
            const int64_t block = sequence.ids[group][position / MR_BLOCK_TOKENS];
            if (position % MR_BLOCK_TOKENS == 0) fresh.push_back(block);
            positions.push_back(static_cast<int32_t>(position));
            slots.push_back(block * MR_BLOCK_TOKENS + position % MR_BLOCK_TOKENS);
        }
    arrays->positions = packer->add(positions);
    arrays->slots = packer->add(slots);
    arrays->fresh_blocks = packer->add(fresh);
}

static const struct index_arrays *arrays_of(struct mr_step *step,
                                            const struct mr_attention *attention)
{
    struct index_arrays *arrays =
        &step->groups[attention->group].arrays[attention->window > 0 ? 1 : 0];
    if (arrays->made) return arrays;
    packer packer;
    add_slots(arrays, &packer, step, attention->group);
    add_runs(arrays, &packer, step, attention);
    arrays->bytes = upload_bytes(step->device, packer.bytes().data(), packer.bytes().size());
    arrays->made = true;
    return arrays;
}

/* ---- norm of q and k, rotary embedding, KV write ---- */

static struct mr_cuda_kv cuda_kv(const struct mr_attention *attention)
{
    const struct mr_kv *kv = attention->kv;
    const at::Tensor keys = kv_half(kv, attention->layer, 0);
    struct mr_cuda_kv view = {};
    view.keys = keys.mutable_data_ptr();
    view.values = kv_half(kv, attention->layer, 1).mutable_data_ptr();
    view.block_stride = keys.stride(0);
    view.head_stride = keys.stride(1);
    view.token_stride = keys.stride(2);
    view.block_tokens = MR_BLOCK_TOKENS;
    view.kv_head_count = kv->spec.kv_head_count;
    view.head_dim = kv->spec.head_dim;
    view.type = cuda_type(kv->device);
    return view;
}

static const float *floats_of(const struct mr_vector *vector)
{
    return vector ? vector->numbers.const_data_ptr<float>() : nullptr;
}

bool kernel_rope_write(struct mr_step *step, const struct mr_attention *attention)
{
    const struct device *device = step->device;
    const at::Tensor &qkv = step->buffers[MR_QKV];
    step->queries = at::Tensor();
    if (!device->kernels || !qkv.is_contiguous()) return false;
    if ((attention->norm_centered || attention->norm_after) &&
        (attention->q_norm || attention->k_norm))
        return false;
    if (attention->clip > 0.0f || (attention->rope && attention->rope->q_scales.defined()))
        return false;
    const struct index_arrays *arrays = arrays_of(step, attention);
    if (step->recording) step->recording->kv[attention->group] = attention->kv;
    const int64_t width = int64_t{attention->head_count} * attention->kv->spec.head_dim;
    const at::Tensor q = at::empty({qkv.size(0), width}, numbers(device));
    struct mr_cuda_rope_write call = {};
    call.kv = cuda_kv(attention);
    call.row_count = static_cast<uint32_t>(qkv.size(0));
    call.head_count = attention->head_count;
    call.qkv = qkv.const_data_ptr();
    call.qkv_stride = qkv.stride(0);
    call.q_norm = floats_of(attention->q_norm);
    call.k_norm = floats_of(attention->k_norm);
    call.norm_epsilon = attention->norm_epsilon;
    call.norm_width = attention->norm_width;
    call.norm_whole = attention->norm_whole;
    if (attention->rope) {
        call.cos = attention->rope->cos.const_data_ptr<float>();
        call.sin = attention->rope->sin.const_data_ptr<float>();
        call.rotary_dim = static_cast<uint32_t>(2 * attention->rope->half);
    }
    call.positions = array_at<int32_t>(arrays, arrays->positions);
    call.slots = array_at<int64_t>(arrays, arrays->slots);
    call.q = q.mutable_data_ptr();
    /* Where operators attend to a prompt, they multiply the V of tokens after the sequence's last
     * one by zero, and a V left over from another sequence could be infinite. */
    if (arrays->fresh_blocks.bytes > 0)
        kv_half(attention->kv, attention->layer, 1)
            .index_fill_(0, tensor_at(arrays, arrays->fresh_blocks, at::kLong), 0);
    struct mr_error error = {};
    if (!enqueued(device->kernels->rope_kv_write(&call, stream_of(device), &error), error))
        return false;
    step->queries = q;
    return true;
}

/* ---- attention ---- */

static bool attend_decodes(struct mr_step *step, const struct mr_attention *attention,
                           const struct index_arrays *arrays, const struct index_run &run)
{
    const struct device *device = step->device;
    const at::Tensor q = step->queries.narrow(0, run.first_row, run.rows);
    struct mr_cuda_decode call = {};
    call.kv = cuda_kv(attention);
    call.row_count = run.rows;
    call.head_count = attention->head_count;
    call.q = q.const_data_ptr();
    call.q_stride = q.stride(0);
    call.lengths = array_at<int32_t>(arrays, run.lengths);
    call.length_max = run.length_max;
    call.blocks = array_at<int32_t>(arrays, run.blocks);
    call.blocks_stride = run.blocks_stride;
    call.window = attention->window;
    call.scale = attention->scale;
    call.softcap = attention->softcap;
    call.sinks = floats_of(attention->sinks);
    call.out = step->buffers[MR_ATTENDED].narrow(0, run.first_row, run.rows).mutable_data_ptr();
    const size_t scratch = device->kernels->decode_scratch_bytes(&call) / sizeof(float);
    const at::Tensor memory = at::empty({static_cast<int64_t>(scratch)}, floats(device));
    call.scratch = memory.mutable_data_ptr<float>();
    struct mr_error error = {};
    return enqueued(device->kernels->decode_attention(&call, stream_of(device), &error), error);
}

/* Returns whether LibTorch's flash attention can compute the layer: no soft cap, no sinks, numbers
 * of 16 bits. */
static bool flash_fits(const struct mr_step *step, const struct mr_attention *attention)
{
    return step->device->type != at::kFloat && attention->softcap == 0.0f && !attention->sinks &&
           attention->kv->spec.head_dim <= 256 && attention->kv->spec.head_dim % 8 == 0;
}

/* Returns K or V of the run's sequences, each from the start of a block: [tokens, kv heads,
 * dim]. */
static at::Tensor gather(const struct mr_attention *attention, int64_t half,
                         const at::Tensor &blocks)
{
    const at::Tensor tokens_first =
        kv_half(attention->kv, attention->layer, half).permute({0, 2, 1, 3});
    const at::Tensor gathered = tokens_first.index_select(0, blocks);
    return gathered.reshape({-1, gathered.size(2), gathered.size(3)});
}

/* Returns the attention of the rows of the run: [rows, heads * dim]. */
static at::Tensor flash(struct mr_step *step, const struct mr_attention *attention,
                        const struct index_arrays *arrays, const struct index_run &run)
{
    const int64_t dim = attention->kv->spec.head_dim;
    const at::Tensor blocks = tensor_at(arrays, run.blocks, at::kLong);
    const at::Tensor q = step->queries.narrow(0, run.first_row, run.rows).view({run.rows, -1, dim});
    at::Tensor k = gather(attention, 0, blocks), v = gather(attention, 1, blocks);
    std::optional<at::Tensor> queries, keys, lengths;
    std::optional<int64_t> left, right;
    if (attention->window > 0) {
        left = int64_t{attention->window} - 1;
        right = 0;
    }
    const bool one_sequence = run.rows == run.rows_max;
    if (one_sequence) {
        k = k.narrow(0, 0, run.length_max).unsqueeze(0);
        v = v.narrow(0, 0, run.length_max).unsqueeze(0);
    } else {
        queries = tensor_at(arrays, run.queries, at::kInt);
        keys = tensor_at(arrays, run.keys, at::kInt);
        lengths = tensor_at(arrays, run.lengths, at::kInt);
    }
    const auto results = at::_flash_attention_forward(
        one_sequence ? q.unsqueeze(0) : q, k, v, queries, keys, run.rows_max, run.length_max, 0.0,
        true, false, double{attention->scale}, left, right, lengths);
    return std::get<0>(results).reshape({run.rows, -1});
}

static void attend_prompts(struct mr_step *step, const struct mr_attention *attention,
                           const struct index_arrays *arrays, const struct index_run &run)
{
    step->buffers[MR_ATTENDED]
        .narrow(0, run.first_row, run.rows)
        .copy_(flash(step, attention, arrays, run));
}

struct attended kernel_attend(struct mr_step *step, const struct mr_attention *attention)
{
    struct attended done = {false, false};
    if (!step->queries.defined()) return done;
    const struct index_arrays *arrays = arrays_of(step, attention);
    done = {true, flash_fits(step, attention)};
    for (const struct index_run &run : arrays->runs) {
        if (run.is_prompt && done.prompts) attend_prompts(step, attention, arrays, run);
        if (!run.is_prompt)
            done.decodes = done.decodes && attend_decodes(step, attention, arrays, run);
    }
    return done;
}

} // namespace mr_torch
