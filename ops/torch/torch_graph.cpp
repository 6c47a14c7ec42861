#include "ops/torch/graph.hpp"

#include <ATen/record_function.h>

#include <algorithm>
#include <cstring>

namespace mr_torch
{

void graph_deleter::operator()(struct graph *graph) const
{
    if (graph->cuda) cuda_graph_destroy(graph->device, graph->cuda);
    delete graph;
}

void refuse_recording(struct mr_step *step, const char *what)
{
    if (!step->recording) return;
    step->recording->refused = true;
    TORCH_CHECK(false, "cannot be recorded: the host computes ", what);
}

/* ---- the array of inputs ---- */

static struct array_place place(int64_t *end, size_t count, size_t each)
{
    const struct array_place place = {*end, static_cast<int64_t>(count * each)};
    *end = (place.begin + place.bytes + 15) / 16 * 16;
    return place;
}

/* Returns the size of the array. */
static int64_t lay_out(struct graph *graph)
{
    const size_t rows = graph->spec.rows;
    const uint32_t groups = graph->spec.sliding ? 2 : 1;
    int64_t end = 0;
    graph->blocks_stride = (graph->spec.tokens + MR_BLOCK_TOKENS - 1) / MR_BLOCK_TOKENS;
    graph->token_ids = place(&end, rows, sizeof(int64_t));
    graph->positions = place(&end, rows, sizeof(int32_t));
    graph->lengths = place(&end, rows, sizeof(int32_t));
    for (uint32_t group = 0; group < groups; group++) {
        graph->slots[group] = place(&end, rows, sizeof(int64_t));
        graph->blocks[group] = place(&end, rows * graph->blocks_stride, sizeof(int32_t));
    }
    return end;
}

template <typename T> static T *host_array(const at::Tensor &host, const struct array_place &place)
{
    return reinterpret_cast<T *>(host.mutable_data_ptr<uint8_t>() + place.begin);
}

/* Writes the inputs of row `row`. sequence NULL: the row is padding. */
static void write_row(const struct graph *graph, const at::Tensor &host, uint32_t row,
                      const struct sequence *sequence, int64_t token_id)
{
    const uint32_t position = sequence ? sequence->range.context_tokens : 0;
    host_array<int64_t>(host, graph->token_ids)[row] = token_id;
    host_array<int32_t>(host, graph->positions)[row] = static_cast<int32_t>(position);
    host_array<int32_t>(host, graph->lengths)[row] =
        sequence ? static_cast<int32_t>(position) + 1 : 0;
    for (uint32_t group = 0; group < (graph->spec.sliding ? 2u : 1u); group++) {
        int32_t *blocks =
            host_array<int32_t>(host, graph->blocks[group]) + size_t{row} * graph->blocks_stride;
        std::fill(blocks, blocks + graph->blocks_stride, 0);
        int64_t slot = -1;
        if (sequence && !sequence->ids[group].empty()) {
            const std::vector<uint32_t> &ids = sequence->ids[group];
            std::copy(ids.begin(), ids.end(), blocks);
            slot = int64_t{ids[position / MR_BLOCK_TOKENS]} * MR_BLOCK_TOKENS +
                   position % MR_BLOCK_TOKENS;
        }
        host_array<int64_t>(host, graph->slots[group])[row] = slot;
    }
}

static at::Tensor token_ids_of(const struct graph *graph)
{
    return graph->inputs.narrow(0, graph->token_ids.begin, graph->token_ids.bytes).view(at::kLong);
}

/* Copies the inputs of the first `rows` staged sequences to the device; the other rows are
 * padding. */
static void fill(const struct graph *graph, const struct mr_step *step, uint32_t rows)
{
    const at::Tensor host = staging(graph->device, graph->inputs.size(0), at::kByte);
    for (uint32_t row = 0; row < graph->spec.rows; row++)
        if (row < rows)
            write_row(graph, host, row, &step->sequences[row], step->token_ids[row]);
        else
            write_row(graph, host, row, nullptr, 0);
    graph->inputs.copy_(host, true);
    feed(step, token_ids_of(graph));
}

/* ---- walking ---- */

static struct index_arrays arrays_of(const struct graph *graph, uint32_t group)
{
    struct index_arrays arrays = {};
    struct index_run run = {};
    arrays.made = true;
    arrays.bytes = graph->inputs;
    arrays.positions = graph->positions;
    arrays.slots = graph->slots[group];
    run.rows = graph->spec.rows;
    run.length_max = graph->spec.tokens;
    run.lengths = graph->lengths;
    run.blocks = graph->blocks[group];
    run.blocks_stride = graph->blocks_stride;
    arrays.runs = {run};
    return arrays;
}

/* ---- operators that wait for the device ---- */

/* What LibTorch's operators do on this thread while a step is walked. */
struct watched {
    char waits[48];  /* name of the first operator whose result the host reads; empty: none */
    uint32_t inside; /* nested calls of operators that wait on the CPU only */
};
static thread_local struct watched *watched;

static bool reads_on_cpu_only(const char *name)
{
    return std::strcmp(name, "aten::_grouped_mm") == 0;
}

static std::unique_ptr<at::ObserverContext> operator_begins(const at::RecordFunction &call)
{
    static const char *const waiting[] = {
        "aten::_local_scalar_dense", "aten::nonzero",  "aten::equal",
        "aten::masked_select",       "aten::bincount", "aten::_unique2"};
    if (!watched) return nullptr;
    if (reads_on_cpu_only(call.name())) watched->inside++;
    for (const char *name : waiting)
        if (watched->inside == 0 && !watched->waits[0] && std::strcmp(call.name(), name) == 0)
            std::snprintf(watched->waits, sizeof watched->waits, "%s", name);
    return nullptr;
}

static void operator_ends(const at::RecordFunction &call, at::ObserverContext *)
{
    if (watched && reads_on_cpu_only(call.name())) watched->inside--;
}

/* Runs body. The step fails when its operations need the host: they upload, or wait for a result,
 * which a recorded graph cannot do. */
template <typename F> static void without_host(struct graph *graph, const F &body)
{
    struct watched calls = {};
    const uint64_t before = graph->device->upload_count;
    const at::CallbackHandle handle =
        at::addThreadLocalCallback(at::RecordFunctionCallback(operator_begins, operator_ends)
                                       .scopes({at::RecordScope::FUNCTION}));
    watched = &calls;
    body();
    watched = nullptr;
    at::removeCallback(handle);
    const uint64_t uploads = graph->device->upload_count - before;
    graph->refused = graph->refused || uploads > 0 || calls.waits[0];
    queued(graph->device, "a decode step", [&] {
        TORCH_CHECK(uploads == 0, "cannot be recorded: the host copies ", uploads, " arrays");
        TORCH_CHECK(!calls.waits[0], "cannot be recorded: the host waits for ", calls.waits);
    });
}

/* Runs the operations of the graph: every array that they read is in its inputs. */
static void walk(struct mr_step *step, struct graph *graph)
{
    step->recording = graph;
    step->pending = at::Tensor();
    step->gathered = nullptr;
    step->tokens = token_ids_of(graph);
    for (uint32_t group = 0; group < (graph->spec.sliding ? 2u : 1u); group++) {
        step->groups[group] = {};
        for (struct index_arrays &arrays : step->groups[group].arrays)
            arrays = arrays_of(graph, group);
    }
    graph->spec.walk(graph->spec.context, graph->spec.rows);
    step->recording = nullptr;
    drop_buffers(step);
}

/* ---- recording ---- */

/* Keeps the place to which the recorded operations write the logits. Like all their results, this
 * place is in the memory pool of the graphs, which later graphs share. */
static void keep_place_of_logits(struct mr_step *step, struct graph *graph)
{
    const at::Tensor logits = step->buffers[MR_LOGITS];
    TORCH_CHECK(logits.is_contiguous(), "logits of a graph are not contiguous");
    graph->logits = at::for_blob(logits.mutable_data_ptr(), logits.sizes())
                        .options(logits.options())
                        .target_device(step->device->where)
                        .make_tensor();
}

/* Returns and forgets the error of the operations that were recorded. */
static enum mr_status take_error(struct device *device, struct mr_error *err)
{
    const struct mr_error error = device->error;
    device->failed = MR_OK;
    return mr_fail(err, MR_UNSUPPORTED, "%s", error.detail);
}

static enum mr_status record(struct mr_step *step, struct graph *graph, struct mr_error *err)
{
    struct device *device = step->device;
    struct mr_error error = {};
    enum mr_status status = guarded(&error, [=] { cuda_graph_begin(device); });
    if (status != MR_OK) return mr_fail(err, MR_UNSUPPORTED, "%s", error.detail);
    walk(step, graph);
    queued(device, "logits of a graph", [=] { keep_place_of_logits(step, graph); });
    step->buffers[MR_LOGITS] = step->buffers[MR_NORMED] = at::Tensor();
    status = guarded(&error, [=] { graph->cuda = cuda_graph_end(device); });
    if (device->failed != MR_OK) return take_error(device, err);
    return status == MR_OK ? MR_OK : mr_fail(err, MR_UNSUPPORTED, "%s", error.detail);
}

enum mr_status graph_create(struct mr_step *step, const struct mr_graph_spec *spec,
                            struct mr_error *err)
{
    struct device *device = step->device;
    if (!device->kernels)
        return mr_fail(err, MR_UNSUPPORTED, "graphs need our kernels, which are not in use");
    std::unique_ptr<struct graph, graph_deleter> made(new graph{});
    struct graph *graph = made.get();
    graph->spec = *spec;
    graph->device = device;
    step->sequences.clear();
    enum mr_status status = guarded(err, [=] {
        graph->inputs = at::empty({lay_out(graph)}, numbers(device).dtype(at::kByte));
        fill(graph, step, 0);
    });
    if (status != MR_OK) return status;
    /* LibTorch now allocates one-time memory of operations, such as workspaces. */
    without_host(graph, [=] { walk(step, graph); });
    if (graph->refused) return take_error(device, err);
    status = finish(step, err);
    if (status == MR_OK && !device->where.is_cpu()) status = record(step, graph, err);
    if (status == MR_OK) step->graphs->push_back(std::move(made));
    return status;
}

/* ---- replaying ---- */

/* Returns the smallest graph with room for `rows` rows of at most `tokens` tokens, or NULL. */
static struct graph *find(const struct mr_step *step, uint32_t rows, uint32_t tokens)
{
    struct graph *found = nullptr;
    for (const auto &graph : *step->graphs) {
        if (graph->spec.rows < rows || graph->spec.tokens < tokens) continue;
        if (!found || graph->spec.rows < found->spec.rows ||
            (graph->spec.rows == found->spec.rows && graph->spec.tokens < found->spec.tokens))
            found = graph.get();
    }
    return found;
}

/* Zeroes the V of blocks whose first token the step writes, in all layers at once, as
 * kernel_rope_write does for one layer. */
static void clear_fresh_blocks(const struct graph *graph, const struct mr_step *step)
{
    for (uint32_t group = 0; group < 2; group++) {
        std::vector<int64_t> fresh;
        for (const struct sequence &sequence : step->sequences) {
            const uint32_t position = sequence.range.context_tokens;
            if (position % MR_BLOCK_TOKENS == 0 && graph->kv[group])
                fresh.push_back(sequence.ids[group][position / MR_BLOCK_TOKENS]);
        }
        if (!fresh.empty())
            graph->kv[group]->pool.select(2, 1).index_fill_(0, upload(step->device, fresh), 0);
    }
}

bool graph_replay(struct mr_step *step)
{
    const uint32_t rows = static_cast<uint32_t>(step->sequences.size());
    uint32_t tokens = 0;
    if (!step->adapted.empty()) return false; /* graphs are recorded without adapters */
    for (const struct sequence &sequence : step->sequences)
        tokens = std::max(tokens, sequence.range.context_tokens + 1);
    struct graph *graph = find(step, rows, tokens);
    if (!graph) return false;
    queued(step->device, "graph of a decode step", [=] {
        clear_fresh_blocks(graph, step);
        fill(graph, step, rows);
        if (!graph->cuda) return;
        cuda_graph_launch(step->device, graph->cuda);
        step->buffers[MR_LOGITS] = graph->logits.narrow(0, 0, rows).clone();
    });
    if (graph->cuda) return true;
    walk(step, graph);
    queued(step->device, "logits of a graph",
           [=] { step->buffers[MR_LOGITS] = step->buffers[MR_LOGITS].narrow(0, 0, rows); });
    return true;
}

} // namespace mr_torch
