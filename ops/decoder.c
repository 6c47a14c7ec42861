#include "ops/decoder.h"

#include "codec/check.h"
#include "ops/cpu/parallel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(MR_GROUP_MAX <= MR_CPU_GROUP_MAX, "the attention kernel takes every model's heads");

#define LINE_BYTES 64u /* buffers are aligned to cache lines */

struct mr_decoder {
    struct mr_decoder_spec spec;
    struct mr_cpu_rope ropes[MR_ROPES_MAX];
    struct mr_tensor *memory; /* memory of all buffers below */
    float *residual;          /* [rows_max, hidden_size] */
    void *normed;             /* [rows_max, hidden_size], bf16 or float */
    float *branch;            /* [rows_max, hidden_size] what is normed and added */
    float *qkv;               /* [rows_max, qkv_width] */
    void *attended;           /* [rows_max, head_count * padded head], bf16 or float */
    void *gated;              /* [rows_max, largest dense feed-forward size], bf16 or float */
    float *routing;           /* [rows_max, experts] logits of the router */
    float *switches;          /* [rows_max] weights of the shared expert */
    struct mr_cpu_expert_buffers experts;
    float *logits;                               /* [sequences_max, vocab_size] */
    struct mr_cpu_attention_sequence *sequences; /* [sequences_max], with block ids */
    struct mr_cpu_attention_sequence *sliding;   /* [sequences_max], with slot ids */
    uint32_t *wanted_rows;                       /* [sequences_max] rows to compute logits of */
    uint32_t qkv_width, logit_count;
};

/* ---- buffers ---- */

/* Divides one allocation into buffers. When memory is NULL, only the sizes of the buffers are
 * summed. */
struct arena {
    unsigned char *memory;
    size_t used;
};

static void *arena_take(struct arena *arena, size_t count, size_t size)
{
    void *buffer = arena->memory ? arena->memory + arena->used : NULL;
    arena->used += (count * size + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
    return buffer;
}

/* Sets the pointers of all buffers into `memory`; returns the total size of the buffers in
 * bytes. */
static size_t place_buffers(struct mr_decoder *decoder, unsigned char *memory)
{
    const struct mr_decoder_spec *spec = &decoder->spec;
    const struct mr_model_config *c = spec->config;
    size_t rows = spec->rows_max, sequences = spec->sequences_max;
    size_t number = spec->bf16 ? sizeof(uint16_t) : sizeof(float);
    size_t shared = c->experts.shared_ffn_size, head = mr_model_config_padded_head(c);
    struct arena arena = {memory, 0};
    decoder->residual = arena_take(&arena, rows * c->hidden_size, sizeof(float));
    decoder->normed = arena_take(&arena, rows * c->hidden_size, number);
    decoder->branch =
        arena_take(&arena, c->family->norm_after ? rows * c->hidden_size : 0, sizeof(float));
    decoder->qkv = arena_take(&arena, rows * decoder->qkv_width, sizeof(float));
    decoder->attended = arena_take(&arena, rows * c->head_count * head, number);
    decoder->gated =
        arena_take(&arena, rows * (shared > c->ffn_size ? shared : c->ffn_size), number);
    decoder->routing = arena_take(&arena, rows * c->experts.count, sizeof(float));
    decoder->switches = arena_take(&arena, shared > 0 ? rows : 0, sizeof(float));
    decoder->experts.memory =
        arena_take(&arena, c->experts.count > 0 ? mr_cpu_expert_bytes(&decoder->experts) : 0, 1);
    decoder->logits = arena_take(&arena, sequences * c->vocab_size, sizeof(float));
    decoder->sequences = arena_take(&arena, sequences, sizeof(*decoder->sequences));
    decoder->sliding = arena_take(&arena, sequences, sizeof(*decoder->sliding));
    decoder->wanted_rows = arena_take(&arena, sequences, sizeof(*decoder->wanted_rows));
    return arena.used;
}

enum mr_status mr_decoder_create(struct mr_decoder **out, const struct mr_decoder_spec *spec,
                                 struct mr_error *err)
{
    *out = NULL;
    MR_ASSERT(spec->rows_max > 0 && spec->sequences_max > 0);
    struct mr_decoder *decoder = calloc(1, sizeof(*decoder));
    if (!decoder) return mr_fail(err, MR_NOMEM, "no memory for the decoder");
    const struct mr_model_config *c = spec->config;
    decoder->spec = *spec;
    decoder->qkv_width = (c->head_count + 2 * c->kv_head_count) * mr_model_config_padded_head(c);
    decoder->experts = (struct mr_cpu_expert_buffers){.rows_max = spec->rows_max,
                                                      .expert_count = c->experts.count,
                                                      .top_k = c->experts.top_k,
                                                      .hidden_size = c->hidden_size,
                                                      .ffn_size = c->experts.ffn_size,
                                                      .bf16 = spec->bf16};
    for (uint32_t i = 0; i < c->rope_count; i++)
        decoder->ropes[i] = (struct mr_cpu_rope){.cos = spec->ropes[i].cos,
                                                 .sin = spec->ropes[i].sin,
                                                 .rotary_dim = spec->ropes[i].rotary_dim};
    size_t bytes = place_buffers(decoder, NULL);
    struct mr_tensor_shape shape = {MR_TENSOR_U8, 1, {(int64_t)bytes}};
    enum mr_status status = mr_tensor_create(&decoder->memory, spec->device, &shape, err);
    if (status != MR_OK) {
        mr_decoder_destroy(decoder);
        return status;
    }
    place_buffers(decoder, mr_tensor_data(decoder->memory));
    *out = decoder;
    return MR_OK;
}

void mr_decoder_destroy(struct mr_decoder *decoder)
{
    if (!decoder) return;
    mr_tensor_destroy(decoder->memory);
    free(decoder);
}

uint64_t mr_decoder_bytes(const struct mr_decoder *decoder)
{
    return mr_tensor_bytes(decoder->memory);
}

/* ---- the step ---- */

struct embedding_work {
    const struct mr_decoder *decoder;
    const uint32_t *token_ids;
};

static void embed_rows(void *context, size_t begin, size_t end)
{
    const struct embedding_work *work = context;
    const struct mr_decoder *decoder = work->decoder;
    const struct mr_model_config *c = decoder->spec.config;
    for (size_t row = begin; row < end; row++) {
        MR_ASSERT(work->token_ids[row] < c->vocab_size);
        float *to = decoder->residual + row * c->hidden_size;
        mr_cpu_linear_row(decoder->spec.weights->embedding, work->token_ids[row], to);
        for (uint32_t i = 0; c->embedding_scale != 1.0f && i < c->hidden_size; i++)
            to[i] *= c->embedding_scale;
    }
}

static void check_blocks(const struct mr_decoder_spec *spec, const struct mr_batch_sequence *from)
{
    uint32_t tokens = from->context_tokens + from->row_count, window = spec->config->window;
    for (uint32_t block = 0; block * MR_BLOCK_TOKENS < tokens; block++)
        MR_ASSERT(from->blocks[block] < spec->kv->block_count);
    if (!spec->kv->sliding) return;
    uint32_t first = from->context_tokens < window ? 0 : from->context_tokens - window + 1;
    for (uint32_t block = first / MR_BLOCK_TOKENS; block * MR_BLOCK_TOKENS < tokens; block++)
        MR_ASSERT(from->slots[block] < spec->kv->slot_count);
}

/* Copies the sequences of the batch to the decoder, and records the rows whose logits are
 * wanted. */
static void copy_sequences(struct mr_decoder *decoder, const struct mr_batch *batch)
{
    uint32_t row = 0;
    decoder->logit_count = 0;
    for (uint32_t i = 0; i < batch->sequence_count; i++) {
        const struct mr_batch_sequence *from = &batch->sequences[i];
        MR_ASSERT(from->row_begin == row && from->row_count > 0);
        MR_ASSERT(from->context_tokens <= decoder->spec.ropes->position_count &&
                  from->row_count <= decoder->spec.ropes->position_count - from->context_tokens);
        check_blocks(&decoder->spec, from);
        row += from->row_count;
        decoder->sequences[i] = (struct mr_cpu_attention_sequence){
            from->row_begin, from->row_count, from->context_tokens, from->blocks};
        decoder->sliding[i] = decoder->sequences[i];
        decoder->sliding[i].blocks = from->slots;
        if (from->wants_logits) decoder->wanted_rows[decoder->logit_count++] = row - 1;
    }
    MR_ASSERT(row == batch->row_count);
}

/* Moves the rows whose logits are wanted to the front of the buffers, each as a sequence of one
 * row. No other row is needed once the last layer's KV is written. */
static void compact_wanted_rows(struct mr_decoder *decoder, const struct mr_batch *batch)
{
    size_t hidden = decoder->spec.config->hidden_size, qkv = decoder->qkv_width;
    size_t number = decoder->spec.bf16 ? sizeof(uint16_t) : sizeof(float);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < batch->sequence_count; i++) {
        const struct mr_batch_sequence *from = &batch->sequences[i];
        if (!from->wants_logits) continue;
        size_t row = decoder->wanted_rows[kept];
        memmove(decoder->residual + kept * hidden, decoder->residual + row * hidden,
                hidden * sizeof(float));
        memmove(decoder->qkv + kept * qkv, decoder->qkv + row * qkv, qkv * sizeof(float));
        if (decoder->spec.config->parallel)
            memmove((char *)decoder->normed + kept * hidden * number,
                    (char *)decoder->normed + row * hidden * number, hidden * number);
        decoder->sequences[kept] = (struct mr_cpu_attention_sequence){
            kept, 1, from->context_tokens + from->row_count - 1, from->blocks};
        decoder->sliding[kept] = decoder->sequences[kept];
        decoder->sliding[kept].blocks = from->slots;
        kept++;
    }
}

/* ---- the parts of a layer ---- */

static struct mr_cpu_norm norm_of(const struct mr_decoder *decoder,
                                  const struct mr_norm_weights *weights)
{
    const struct mr_model_config *c = decoder->spec.config;
    return (struct mr_cpu_norm){.weight = weights->weight,
                                .bias = weights->bias,
                                .epsilon = c->norm_epsilon,
                                .width = c->hidden_size,
                                .centered = c->family->centered_norms,
                                .bf16 = decoder->spec.bf16};
}

/* Sets `normed` to the input of a branch: the rows of the residual stream after the norm, or as
 * they are in a model without norms before branches. */
static void enter_branch(struct mr_decoder *decoder, const struct mr_norm_weights *weights,
                         uint32_t rows)
{
    struct mr_cpu_norm norm = norm_of(decoder, weights);
    if (weights->weight)
        mr_cpu_norm(&norm, decoder->residual, rows, decoder->normed);
    else
        mr_cpu_convert(decoder->residual, rows, decoder->spec.config->hidden_size,
                       decoder->spec.bf16, decoder->normed);
}

/* Adds the product of a branch's last layer to the residual stream, after the norm that follows the
 * branch in some families. */
static void leave_branch(struct mr_decoder *decoder, const struct mr_cpu_linear *last,
                         const void *x, const struct mr_norm_weights *weights, uint32_t rows)
{
    if (!weights->weight) {
        mr_cpu_linear_run(last, x, rows, MR_CPU_ADD_F32, decoder->residual);
        return;
    }
    struct mr_cpu_norm norm = norm_of(decoder, weights);
    mr_cpu_linear_run(last, x, rows, MR_CPU_STORE_F32, decoder->branch);
    mr_cpu_norm_add(&norm, decoder->branch, rows, 1.0f, decoder->residual);
}

/* Sets the attention arguments of layer i; returns the pool that holds the layer's KV. */
static struct mr_cpu_kv *prepare_attention(struct mr_decoder *decoder, uint32_t i,
                                           struct mr_cpu_attention_args *attention)
{
    const struct mr_model_config *c = decoder->spec.config;
    const struct mr_kv_groups *groups = decoder->spec.kv;
    const struct mr_kv_layer *place = &groups->layers[i];
    attention->layer = place->index;
    attention->window = c->windowed[i] ? c->window : 0;
    attention->sinks = decoder->spec.weights->layers[i].sinks;
    attention->sequences = place->slides ? decoder->sliding : decoder->sequences;
    return place->slides ? groups->sliding : groups->full;
}

static void project_qkv(struct mr_decoder *decoder, uint32_t i, struct mr_cpu_kv *kv,
                        const struct mr_cpu_attention_args *attention, uint32_t rows)
{
    const struct mr_model_config *c = decoder->spec.config;
    const struct mr_layer_weights *layer = &decoder->spec.weights->layers[i];
    enter_branch(decoder, &layer->attention_norm, rows);
    mr_cpu_linear_run(layer->qkv, decoder->normed, rows, MR_CPU_STORE_F32, decoder->qkv);
    struct mr_cpu_rope_args rope = {
        .rope = c->rope_of[i] == MR_NO_ROPE ? NULL : &decoder->ropes[c->rope_of[i]],
        .q_norm = layer->q_norm,
        .k_norm = layer->k_norm,
        .norm_epsilon = c->norm_epsilon,
        .norm_width = c->head_dim,
        .norm_whole = c->head_norm == MR_HEAD_NORM_ROW,
        .norm_centered = c->head_norm == MR_HEAD_NORM_CENTERED};
    mr_cpu_rope_write(kv, attention, &rope, decoder->qkv);
}

static enum mr_cpu_epilogue gate_of(const struct mr_model_config *config)
{
    static const enum mr_cpu_epilogue gates[] = {
        [MR_ACTIVATION_SILU] = MR_CPU_SILU_MUL,
        [MR_ACTIVATION_GELU] = MR_CPU_GELU_MUL,
        [MR_ACTIVATION_GELU_TANH] = MR_CPU_GELU_TANH_MUL,
        [MR_ACTIVATION_SWIGLU_OAI] = MR_CPU_SWIGLU_OAI_MUL,
    };
    return gates[config->activation];
}

/* Adds the shared expert: the sigmoid of its switch times its feed-forward network. */
static void run_shared_expert(struct mr_decoder *decoder, const struct mr_expert_weights *experts,
                              uint32_t rows)
{
    mr_cpu_linear_run(experts->shared_switch, decoder->normed, rows, MR_CPU_STORE_F32,
                      decoder->switches);
    for (uint32_t row = 0; row < rows; row++)
        decoder->switches[row] = 1.0f / (1.0f + expf(-decoder->switches[row]));
    mr_cpu_linear_run(experts->shared_gate_up, decoder->normed, rows, gate_of(decoder->spec.config),
                      decoder->gated);
    mr_cpu_linear_add(experts->shared_down, decoder->gated, rows, decoder->switches,
                      decoder->residual);
}

static void run_experts(struct mr_decoder *decoder, const struct mr_expert_weights *experts,
                        uint32_t rows)
{
    const struct mr_model_config *c = decoder->spec.config;
    const struct mr_cpu_expert_layer layer = {.gate_up = experts->gate_up,
                                              .down = experts->down,
                                              .routing = {.expert_count = c->experts.count,
                                                          .top_k = c->experts.top_k,
                                                          .normalize = c->experts.normalized},
                                              .activation = gate_of(c)};
    mr_cpu_linear_run(experts->router, decoder->normed, rows, MR_CPU_STORE_F32, decoder->routing);
    mr_cpu_experts_run(&layer, &decoder->experts, decoder->normed, decoder->routing, rows,
                       decoder->residual);
    if (experts->shared_switch) run_shared_expert(decoder, experts, rows);
}

static void run_ffn(struct mr_decoder *decoder, uint32_t i, uint32_t rows)
{
    const struct mr_model_config *c = decoder->spec.config;
    const struct mr_layer_weights *layer = &decoder->spec.weights->layers[i];
    if (!c->parallel) enter_branch(decoder, &layer->ffn_norm, rows);
    if (layer->experts.router) {
        run_experts(decoder, &layer->experts, rows);
        return;
    }
    mr_cpu_linear_run(layer->gate_up, decoder->normed, rows, gate_of(c), decoder->gated);
    leave_branch(decoder, layer->down, decoder->gated, &layer->ffn_post_norm, rows);
}

static void run_attention(struct mr_decoder *decoder, uint32_t i, struct mr_cpu_kv *kv,
                          const struct mr_cpu_attention_args *attention, uint32_t rows)
{
    const struct mr_layer_weights *layer = &decoder->spec.weights->layers[i];
    mr_cpu_attention(kv, attention, decoder->qkv, decoder->attended);
    leave_branch(decoder, layer->attention_out, decoder->attended, &layer->attention_post_norm,
                 rows);
}

static void project_logits(struct mr_decoder *decoder)
{
    const struct mr_model_config *c = decoder->spec.config;
    const struct mr_weights *weights = decoder->spec.weights;
    enter_branch(decoder, &weights->final_norm, decoder->logit_count);
    mr_cpu_linear_run(weights->head, decoder->normed, decoder->logit_count, MR_CPU_STORE_F32,
                      decoder->logits);
    if (c->logit_softcap > 0.0f)
        mr_cpu_softcap(decoder->logits, (size_t)decoder->logit_count * c->vocab_size,
                       c->logit_softcap, MR_CPU_BEST);
}

void mr_decoder_forward(struct mr_decoder *decoder, const struct mr_batch *batch)
{
    const struct mr_decoder_spec *spec = &decoder->spec;
    const struct mr_model_config *c = spec->config;
    MR_ASSERT(batch->row_count > 0 && batch->row_count <= spec->rows_max);
    MR_ASSERT(batch->sequence_count > 0 && batch->sequence_count <= spec->sequences_max);
    copy_sequences(decoder, batch);
    struct embedding_work embedding = {decoder, batch->token_ids};
    mr_parallel_for(batch->row_count, 16, embed_rows, &embedding);
    struct mr_cpu_attention_args attention = {.head_count = c->head_count,
                                              .scale = c->attention_scale,
                                              .softcap = c->attention_softcap,
                                              .sequence_count = batch->sequence_count};
    uint32_t rows = batch->row_count;
    for (uint32_t i = 0; i < c->layer_count; i++) {
        struct mr_cpu_kv *kv = prepare_attention(decoder, i, &attention);
        project_qkv(decoder, i, kv, &attention, rows);
        if (i + 1 == c->layer_count) {
            compact_wanted_rows(decoder, batch);
            rows = attention.sequence_count = decoder->logit_count;
        }
        if (rows == 0) continue;
        run_attention(decoder, i, kv, &attention, rows);
        run_ffn(decoder, i, rows);
    }
    if (rows > 0) project_logits(decoder);
}

const float *mr_decoder_logits(const struct mr_decoder *decoder, uint32_t row)
{
    MR_ASSERT(row < decoder->logit_count);
    return decoder->logits + (size_t)row * decoder->spec.config->vocab_size;
}
