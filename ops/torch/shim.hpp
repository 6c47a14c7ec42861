/* shim - shared by the files of ops/torch/: the definitions of the opaque structs of
 * ops/backend/step.h, and the conversion of exceptions to errors. */
#ifndef MR_OPS_TORCH_SHIM_HPP
#define MR_OPS_TORCH_SHIM_HPP

#define _Noreturn [[noreturn]] /* codec/check.h uses this keyword of C11 */
extern "C" {
#include "codec/check.h"
#include "codec/status.h"
#include "ops/backend/latent.h"
#include "ops/backend/mixers.h"
#include "ops/cpu_kernels/parallel.h"
#include "ops/cuda/kernel_table.h"
}
#include "ops/torch/torch_backend.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>

#include <array>
#include <memory>
#include <new>
#include <optional>
#include <vector>

namespace mr_torch
{

struct device {
    struct mr_compute base; /* first: callers hold a pointer to it */
    at::Device where;
    at::ScalarType type;                   /* of base.number */
    const struct mr_cuda_kernels *kernels; /* NULL: operators only */
    char numerics[64] = {};
    bool in_floats = false;  /* products of bf16 are computed in floats (products.hpp) */
    uint32_t capability = 0; /* of a GPU: 10 * major + minor, such as 90; 0 on the CPU */
    /* Arrays that the host has copied to the device; none may be while a step is recorded. */
    mutable uint64_t upload_count = 0;
    std::optional<c10::Stream> side = {};   /* second stream of a GPU, for aside() */
    std::optional<c10::Event> written = {}; /* after the last copy or import of KV */
    /* The first error of an operation that cannot return one; later operations do nothing. */
    enum mr_status failed = MR_OK;
    struct mr_error error = {};
};

inline struct device *device_of(struct mr_compute *compute)
{
    return reinterpret_cast<struct device *>(compute);
}

/* Sets err to the message of the exception that is being handled. */
enum mr_status fail_current(struct mr_error *err);

/* Runs body; an exception becomes a status. */
template <typename F> enum mr_status guarded(struct mr_error *err, const F &body)
{
    try {
        body();
        return MR_OK;
    } catch (...) {
        return fail_current(err);
    }
}

/* Puts the operation's name before the text of err. */
void name_operation(struct mr_error *err, const char *operation);

/* Runs body, unless an earlier operation failed, and keeps its error for `finish`. */
template <typename F> void queued(struct device *device, const char *operation, const F &body)
{
    if (device->failed != MR_OK) return;
    device->failed = guarded(&device->error, body);
    if (device->failed != MR_OK) name_operation(&device->error, operation);
}

inline at::TensorOptions floats(const struct device *device)
{
    return at::TensorOptions().dtype(at::kFloat).device(device->where);
}

inline at::TensorOptions numbers(const struct device *device)
{
    return at::TensorOptions().dtype(device->type).device(device->where);
}

/* Records *event after all operations enqueued so far. Does nothing on the CPU. */
void mark(const struct device *device, std::optional<c10::Event> *event);

/* Runs body, which copies from the device, on a separate stream, and waits for the copy but not for
 * steps in flight. The data that body reads must be complete, or enqueued before *after. */
template <typename F>
void aside(const struct device *device, const std::optional<c10::Event> &after, const F &body)
{
    if (!device->side) {
        body();
        return;
    }
    const c10::StreamGuard guard(*device->side);
    if (after) after->block(*device->side);
    body();
    c10::impl::VirtualGuardImpl(device->where.type()).synchronizeStream(*device->side);
}

/* Returns the free bytes of the device's own memory; 0 on the CPU, and when LibTorch cannot query
 * them. */
uint64_t free_bytes(const struct mr_compute *compute);

/* Memory of the host that the device copies from without waiting for the host. */
at::Tensor staging(const struct device *device, int64_t count, at::ScalarType type);

/* Copies index numbers of the host to the device. */
at::Tensor upload(const struct device *device, const std::vector<int64_t> &values);
/* Copies bytes of the host to the device, at an address aligned to 16. The copy may still run after
 * the call. */
at::Tensor upload_bytes(const struct device *device, const void *bytes, size_t count);

/* Block tables of one group of layers, for attention with or without a window. Created when the
 * first layer of a step needs them. */
struct decode_plan {
    at::Tensor rows; /* [count] rows of the step, one for each decoding sequence */
    /* [2 * pairs * kv heads] heads of the pool in layer 0: K of all pairs, then V. A pair is a
     * sequence and one of its blocks. */
    at::Tensor heads;
    at::Tensor sequences; /* [pairs] index among the decoding sequences */
    at::Tensor members;   /* [count * most] the pairs of each sequence, unless single */
    int64_t tokens;       /* first tokens of each block that are gathered */
    at::Tensor hidden;    /* [pairs, 1, 1, tokens] true: the token is not attended to */
    bool single;          /* each sequence has one block: pair i is sequence i */
    bool all;             /* all rows of the step, in order */
};

struct decode_plans {
    bool made;
    std::vector<struct decode_plan> list;
};

/* ---- index arrays for the kernels of ops/cuda/ (kernels.hpp) ---- */

struct array_place {
    int64_t begin, bytes; /* in index_arrays::bytes */
};

/* Neighbouring rows that one call of attention handles: of decoding sequences, or of prompts. */
struct index_run {
    bool is_prompt;
    uint32_t first_row, rows;
    uint32_t length_max; /* largest of the lengths */
    struct array_place
        lengths; /* [sequences] int32: tokens of each sequence, including the step's */
    struct array_place blocks;  /* decoding: [sequences][blocks_stride] int32; prompts: [] int64 */
    uint32_t blocks_stride;     /* of decoding sequences */
    uint32_t rows_max;          /* of a prompt: most rows of a sequence */
    struct array_place queries; /* of a prompt: [sequences + 1] int32 first row of each */
    struct array_place keys; /* of a prompt: [sequences + 1] int32 first gathered token of each */
};

/* The index arrays of a step, for the layers of a group with or without a window. */
struct index_arrays {
    bool made;
    at::Tensor bytes;
    struct array_place positions, slots; /* [rows] int32, [rows] int64 */
    struct array_place fresh_blocks;     /* [] int64 blocks whose first token is written */
    std::vector<struct index_run> runs;
};

struct group {
    at::Tensor write_rows;   /* [rows * 2 * kv heads] rows of the pool, of layer 0 */
    at::Tensor fresh_blocks; /* blocks whose first token is written in this step */
    bool staged;
    struct decode_plans plans[2]; /* of layers without and with a window */
    struct index_arrays arrays[2];
};

/* The queries of a step, the arrays that the device needs for them, and its findings. */
struct search_state {
    bool begun; /* the list is complete: the next query begins a new one */
    std::vector<struct mr_logit_query> queries;
    std::vector<int64_t> edit_places; /* query * width + id of each edit */
    std::vector<float> edits;         /* [edits][3] bias, penalty, subtracted */
    std::vector<int64_t> masked;      /* queries with a mask */
    std::vector<uint64_t> allowed;    /* the masks */
    at::Tensor model, edited;         /* [queries, width] */
    at::Tensor tokens;                /* [queries] int64 on the device; undefined: no query */
    at::Tensor found;                 /* [] words, in host memory after finish */
    bool draws;                       /* tokens and probabilities are those of draws */
    int64_t list_count, top_count;
    std::vector<int64_t> lists, tops; /* [queries] places in found; -1: not wanted */
};

/* The rows of a product that an adapter changes. */
struct adapted_rows {
    const struct mr_adapter *adapter;
    std::vector<int64_t> rows; /* ascending */
    at::Tensor indexes;        /* the same on the device */
};

struct sequence {
    struct mr_step_sequence range;
    std::vector<uint32_t> ids[2]; /* block ids by group, 0 before first_block */
};

} // namespace mr_torch

struct mr_vector {
    at::Tensor numbers; /* [count] */
};

struct mr_rope {
    at::Tensor cos, sin; /* [position_count, rotary_dim / 2] */
    int64_t half;
    at::Tensor q_scales; /* [position_count], or undefined */
};

/* A weight in oneDNN's form, and the operator that multiplies with it. */
namespace mr_torch
{
struct packed_weight {
    using operation = at::Tensor(const at::Tensor &, const at::Tensor &,
                                 const std::optional<at::Tensor> &, c10::string_view,
                                 c10::List<std::optional<at::Scalar>>,
                                 std::optional<c10::string_view>);
    at::Tensor weight;
    c10::TypedOperatorHandle<operation> multiply;
    c10::List<std::optional<at::Scalar>> no_scalars;
};
} // namespace mr_torch

struct mr_linear {
    struct mr_torch::device *device;
    at::Tensor weight; /* [out, in]; gate rows before up rows if `gated`. Undefined once packed */
    std::optional<struct mr_torch::packed_weight> packed;
    at::Tensor bias; /* floats, [out], or undefined */
    /* Of an expert: the weights and biases of all experts of the layer, of which `weight` and
     * `bias` are one part: [experts, out, in] and [experts, out]. */
    at::Tensor stack, bias_stack;
    int64_t out_size, in_size;
    float scale;
    float curve[4]; /* of MR_XIELU */
    bool gated, table;
    uint32_t site;
};

struct mr_low_rank {
    /* [rank, in] and [out, rank], gate rows before up rows; a table has [tokens, rank]. In numbers,
     * of a table in floats. */
    at::Tensor a, b;
};

struct mr_kv {
    struct mr_torch::device *device;
    struct mr_kv_spec spec;
    at::Tensor pool; /* [block, layer, halves, kv head, MR_BLOCK_TOKENS, head_dim] */
};

namespace mr_torch
{
struct graph; /* graph.hpp */
struct graph_deleter {
    void operator()(struct graph *graph) const;
};
using graph_list = std::vector<std::unique_ptr<struct graph, graph_deleter>>;
} // namespace mr_torch

struct mr_step {
    struct mr_torch::device *device;
    struct mr_step_spec spec;
    at::Tensor buffers[MR_BUFFER_COUNT]; /* [rows, width], of the last operation that set it */
    std::vector<int64_t> token_ids;      /* [rows] staged */
    at::Tensor tokens;               /* [rows] the same on the device, once `embed` needs them */
    at::Tensor fed_rows, fed_tokens; /* [fed rows] and their tokens; undefined: none */
    std::vector<struct mr_torch::sequence> sequences;
    std::vector<struct mr_torch::adapted_rows> adapted; /* rows of the staged sequences */
    struct mr_torch::group groups[2];
    const struct mr_rope
        *gathered;       /* the rope that computed cos and sin for the step's positions */
    at::Tensor cos, sin; /* [rows, 1, 2 * half]: cos, cos and -sin, sin */
    at::Tensor q_scales; /* [rows, 1, 1] of the same rope, or undefined */
    struct mr_torch::search_state search;
    std::vector<at::Tensor> host_rows; /* copied by logits() and edited() in this step */
    std::optional<c10::Event> end;     /* of a GPU: after the step's last operation */
    bool ended;                        /* `end` was recorded in this step */
    at::Tensor queries; /* [rows, heads * dim] q after kernel_rope_write, or undefined */
    at::Tensor pending; /* kernel_add: to be added to MR_RESIDUAL, or undefined */
    float pending_scale;
    /* Ordered by rows, most first, and among equal rows by tokens, fewest first. */
    std::shared_ptr<mr_torch::graph_list> graphs; /* of both twins */
    struct mr_torch::graph *recording;            /* whose operations run now, or NULL */
};

namespace mr_torch
{

/* Returns the result of a layer without activation, in floats. The product is rounded to the
 * device's numbers. change: added to the product before bias and scale; undefined: none. */
at::Tensor linear_floats(const struct mr_linear *linear, const at::Tensor &x,
                         const at::Tensor &change = at::Tensor());
/* Adds the result of linear_floats to the floats of `to`. */
void linear_add(const struct mr_linear *linear, const at::Tensor &x, const at::Tensor &to,
                const at::Tensor &change = at::Tensor());
/* Returns the result in the device's numbers, without the layer's scale. */
at::Tensor linear_numbers(const struct mr_linear *linear, const at::Tensor &x,
                          const at::Tensor &change = at::Tensor());
/* Returns activation(gate) * up in numbers. y: [rows, gates and ups], numbers or floats. */
at::Tensor gate(const struct device *device, const at::Tensor &y, enum mr_epilogue epilogue);
/* Returns the result of a layer with one of the gated epilogues, in numbers. */
at::Tensor linear_gated(const struct mr_linear *linear, const at::Tensor &x,
                        enum mr_epilogue epilogue, const at::Tensor &change = at::Tensor());
/* Returns the result of a layer with an activation and no gate, in numbers. */
at::Tensor linear_activated(const struct mr_linear *linear, const at::Tensor &x,
                            enum mr_epilogue epilogue, const at::Tensor &change);
/* Groups the rows whose step row, of `rows`, has an adapter. */
std::vector<struct adapted_rows> group_adapted(const struct mr_step *step,
                                               const std::vector<int64_t> &rows);
/* Returns B (A x) of the rows of x that an adapter changes at a site, and 0 in other rows;
 * undefined when no row is changed. x has the first rows of those that were grouped. */
at::Tensor change_at(const std::vector<struct adapted_rows> &adapted, uint32_t site,
                     const at::Tensor &x);
/* Halves of a KV pool: K and V, or K alone, of which V is a part. */
inline int64_t kv_halves_of(const struct mr_kv_spec *spec)
{
    return spec->value_dim > 0 ? 1 : 2;
}
/* Returns the K (half 0) or V (half 1) of a layer's pool, [block, kv head, token, dim]. */
inline at::Tensor kv_half(const struct mr_kv *kv, uint32_t layer, int64_t half)
{
    return kv->pool.select(1, layer).select(1, half);
}

/* Overwrites the ids of fed rows among the token ids of the step's rows, on the device. */
inline void feed(const struct mr_step *step, const at::Tensor &token_ids)
{
    if (step->fed_rows.defined()) token_ids.index_copy_(0, step->fed_rows, step->fed_tokens);
}

/* Frees the results of the step's operations, except logits and normed rows. */
inline void drop_buffers(struct mr_step *step)
{
    for (int i = 0; i < MR_BUFFER_COUNT; i++)
        if (i != MR_LOGITS && i != MR_NORMED) step->buffers[i] = at::Tensor();
    step->queries = step->pending = at::Tensor();
}

/* ---- the functions of the table ---- */
uint32_t steps_ahead(const struct mr_compute *);
enum mr_status vector_create(struct mr_compute *, struct mr_vector **, const float *, uint32_t,
                             struct mr_error *);
void vector_destroy(struct mr_vector *);
enum mr_status rope_create(struct mr_compute *, struct mr_rope **, const struct mr_rope_spec *,
                           struct mr_error *);
void rope_destroy(struct mr_rope *);
enum mr_status linear_create(struct mr_compute *, struct mr_linear **,
                             const struct mr_linear_spec *, struct mr_error *);
void linear_destroy(struct mr_linear *);
size_t linear_bytes(const struct mr_linear *);
extern const struct mr_low_rank_functions low_rank_functions;

size_t kv_block_bytes(const struct mr_kv_spec *);
enum mr_status kv_create(struct mr_compute *, struct mr_kv **, const struct mr_kv_spec *,
                         struct mr_error *);
void kv_destroy(struct mr_kv *);
bool kv_populate(struct mr_kv *);
void kv_copy(struct mr_kv *, uint32_t, uint32_t, uint32_t);
size_t kv_stored_bytes(const struct mr_kv *, uint32_t, bool);
void *kv_bytes_of(const struct mr_kv *, uint32_t);
bool kv_export(const struct mr_kv *, const struct mr_kv_span *, void *);
void kv_import(struct mr_kv *, const struct mr_kv_span *, const void *);

extern const struct mr_mixer_ops mixers;
extern const struct mr_latent_ops latent_ops;

enum mr_status step_create(struct mr_compute *, struct mr_step **, const struct mr_step_spec *,
                           struct mr_error *);
void step_destroy(struct mr_step *);
uint64_t step_bytes(const struct mr_step *);
void stage(struct mr_step *, const uint32_t *, uint32_t, const struct mr_step_sequence *, uint32_t,
           const struct mr_fed_rows *);
enum mr_status graph_create(struct mr_step *, const struct mr_graph_spec *, struct mr_error *);
bool graph_replay(struct mr_step *);
void keep(struct mr_step *, const uint32_t *, const struct mr_step_sequence *, uint32_t);
void embed(struct mr_step *, const struct mr_linear *, float);
void embed_positions(struct mr_step *, const struct mr_vector *, uint32_t);
void norm_residual(struct mr_step *, const struct mr_norm *, uint32_t);
void norm(struct mr_step *, const struct mr_norm *, uint32_t);
void norm_add(struct mr_step *, const struct mr_norm *, uint32_t);
void linear(struct mr_step *, const struct mr_linear *, enum mr_step_buffer, uint32_t,
            enum mr_epilogue, enum mr_step_buffer);
void rope_write(struct mr_step *, const struct mr_attention *);
void attend(struct mr_step *, const struct mr_attention *);
/* attend() by operators alone, for all rows: q, [rows, kv heads, group, dim], is of the type of
 * scores and scaled. Sets MR_ATTENDED, [rows, heads * dim of V]. */
void attend_rows(struct mr_step *, const struct mr_attention *, const at::Tensor &q);
/* The type of q and K in products whose results are scores. */
at::ScalarType score_type(const struct device *);
/* Rotates heads in place: x is [rows, heads, head_dim]. */
void rotate(struct mr_step *, const struct mr_rope *, const at::Tensor &x);
/* Writes x, [rows, halves * kv heads, dim], to K and V of the staged rows. */
void write_kv(struct mr_step *, const struct mr_attention *, const at::Tensor &x);
void experts(struct mr_step *, const struct mr_expert_layer *, uint32_t);
void add_switched(struct mr_step *, const struct mr_linear *, uint32_t);
void softcap(struct mr_step *, float, uint32_t);
void query(struct mr_step *, const struct mr_logit_query *);
void search(struct mr_step *);
enum mr_status finish(struct mr_step *, struct mr_error *);
struct mr_logit_findings findings(struct mr_step *, uint32_t);
const float *logits(struct mr_step *, uint32_t, struct mr_error *);
const float *edited(struct mr_step *, uint32_t, struct mr_error *);
void sum_normed(struct mr_step *, uint32_t, uint32_t, float *);

} // namespace mr_torch

#endif
