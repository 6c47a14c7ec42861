#include "ops/decoder/decoder.h"

#include "codec/check.h"
#include "ops/decoder/latent_layer.h"

#include <stdlib.h>

/* One of the steps that take turns. */
struct turn {
    struct mr_step *step;
    uint32_t logit_count;
    /* [sequences_max] the kept rows of sequences with hidden_rows */
    struct mr_step_sequence *hidden;
    uint32_t hidden_count;
};

struct mr_decoder {
    struct mr_decoder_spec spec;
    const struct mr_backend *backend;
    struct mr_rope *ropes[MR_ROPES_MAX];
    uint32_t steps_ahead;
    struct turn turns[MR_STEPS_AHEAD_MAX];
    uint32_t turn_count;
    struct turn *newest, *finished;     /* launched last, finished last */
    uint32_t in_flight;                 /* steps: the newest, and the other one if there are two */
    struct mr_step_sequence *sequences; /* [sequences_max] of the step, then of the kept rows */
    uint32_t *wanted_rows; /* [rows_max] rows whose logits or hidden states are needed, ascending */
    uint32_t wanted_count; /* the first logit_count of them need logits */
};

/* ---- create and destroy ---- */

static struct mr_step_spec step_spec_of(const struct mr_decoder_spec *spec)
{
    const struct mr_model_config *c = spec->config;
    const uint32_t head = mr_model_config_padded_head(c), shared = c->experts.shared_ffn_size;
    struct mr_step_spec step = {.rows_max = spec->rows_max,
                                .sequences_max = spec->sequences_max,
                                .expert_count = c->experts.count,
                                .experts_per_row = c->experts.top_k,
                                .expert_ffn_size = c->experts.ffn_size,
                                .rank_max = spec->rank_max};
    step.widths[MR_RESIDUAL] = step.widths[MR_NORMED] = c->hidden_size;
    step.widths[MR_BRANCH] = c->family->norm_after ? c->hidden_size : 0;
    step.widths[MR_QKV] = (c->head_count + 2 * c->kv_head_count) * head;
    step.widths[MR_ATTENDED] = c->head_count * head;
    mr_latent_set_widths(c, step.widths);
    step.widths[MR_GATED] = shared > c->ffn_size ? shared : c->ffn_size;
    if (c->mixer.kind != MR_MIXER_NONE) {
        step.widths[MR_MIXING] = mr_mixer_row_width(&c->mixer);
        step.widths[MR_MIX_GATES] = mr_mixer_gates_width(&c->mixer);
        step.widths[MR_MIXED] = mr_mixer_out_width(&c->mixer);
    }
    if (c->family->gated_attention && step.widths[MR_MIXING] < step.widths[MR_ATTENDED])
        step.widths[MR_MIXING] = step.widths[MR_ATTENDED];
    step.widths[MR_ROUTING] = c->experts.count;
    step.widths[MR_SWITCHES] = shared > 0 ? 1 : 0;
    step.widths[MR_LOGITS] = c->both_ways ? 0 : c->vocab_size;
    return step;
}

static enum mr_status create_ropes(struct mr_decoder *decoder, struct mr_error *err)
{
    enum mr_status status = MR_OK;
    for (uint32_t i = 0; status == MR_OK && i < decoder->spec.config->rope_count; i++) {
        const struct mr_rope_table *table = &decoder->spec.ropes[i];
        const struct mr_rope_spec spec = {table->cos, table->sin, table->q_scales,
                                          table->rotary_dim, table->position_count};
        status =
            decoder->backend->rope_create(decoder->spec.compute, &decoder->ropes[i], &spec, err);
    }
    return status;
}

static enum mr_status create_turn(struct mr_decoder *decoder, uint32_t index, struct mr_error *err)
{
    const struct mr_decoder_spec *spec = &decoder->spec;
    struct turn *turn = &decoder->turns[index];
    struct mr_step_spec step = step_spec_of(spec);
    step.twin = index > 0 ? decoder->turns[0].step : NULL;
    turn->hidden = calloc(spec->sequences_max, sizeof(*turn->hidden));
    if (!turn->hidden)
        return mr_fail(err, MR_NOMEM, "no memory for %u sequences", spec->sequences_max);
    return decoder->backend->step_create(spec->compute, &turn->step, &step, err);
}

static enum mr_status create_parts(struct mr_decoder *decoder, struct mr_error *err)
{
    const struct mr_decoder_spec *spec = &decoder->spec;
    decoder->sequences = calloc(spec->sequences_max, sizeof(*decoder->sequences));
    decoder->wanted_rows = calloc(spec->rows_max, sizeof(*decoder->wanted_rows));
    if (!decoder->sequences || !decoder->wanted_rows)
        return mr_fail(err, MR_NOMEM, "no memory for %u sequences", spec->sequences_max);
    enum mr_status status = create_ropes(decoder, err);
    for (uint32_t i = 0; status == MR_OK && i < decoder->turn_count; i++)
        status = create_turn(decoder, i, err);
    return status;
}

enum mr_status mr_decoder_create(struct mr_decoder **out, const struct mr_decoder_spec *spec,
                                 struct mr_error *err)
{
    *out = NULL;
    MR_ASSERT(spec->rows_max > 0 && spec->sequences_max > 0);
    struct mr_decoder *decoder = calloc(1, sizeof(*decoder));
    if (!decoder) return mr_fail(err, MR_NOMEM, "no memory for the decoder");
    decoder->spec = *spec;
    decoder->backend = spec->compute->backend;
    decoder->steps_ahead = decoder->backend->steps_ahead(spec->compute);
    decoder->turn_count = decoder->steps_ahead > 0 ? decoder->steps_ahead : 1;
    decoder->newest = decoder->finished = &decoder->turns[0];
    enum mr_status status = create_parts(decoder, err);
    if (status != MR_OK) {
        mr_decoder_destroy(decoder);
        return status;
    }
    *out = decoder;
    return MR_OK;
}

void mr_decoder_destroy(struct mr_decoder *decoder)
{
    if (!decoder) return;
    for (uint32_t i = 0; i < MR_STEPS_AHEAD_MAX; i++) {
        decoder->backend->step_destroy(decoder->turns[i].step);
        free(decoder->turns[i].hidden);
    }
    for (uint32_t i = 0; i < MR_ROPES_MAX; i++)
        decoder->backend->rope_destroy(decoder->ropes[i]);
    free(decoder->wanted_rows);
    free(decoder->sequences);
    free(decoder);
}

uint64_t mr_decoder_bytes(const struct mr_decoder *decoder)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < decoder->turn_count; i++)
        bytes += decoder->backend->step_bytes(decoder->turns[i].step);
    return bytes;
}

/* Returns the step whose turn is next; the same one if there is only one. */
static struct turn *other(struct mr_decoder *decoder)
{
    const uint32_t next = (uint32_t)(decoder->newest - decoder->turns) + 1;
    return &decoder->turns[next % decoder->turn_count];
}

/* ---- the rows of a step ---- */

static void check_blocks(const struct mr_decoder_spec *spec, const struct mr_step_sequence *s)
{
    const uint32_t counts[] = {spec->kv->block_count, spec->kv->slot_count};
    for (uint32_t group = 0; group < 2; group++)
        for (uint32_t block = s->first_block[group];
             s->blocks[group] && block * MR_BLOCK_TOKENS < s->context_tokens + s->row_count;
             block++)
            MR_ASSERT(s->blocks[group][block] < counts[group]);
}

/* Returns the rows from row_begin on as a sequence of the backend. */
static struct mr_step_sequence sequence_of(const struct mr_decoder_spec *spec,
                                           const struct mr_batch_sequence *from)
{
    const uint32_t window = spec->config->window, context = from->context_tokens;
    struct mr_step_sequence sequence = {from->row_begin, from->row_count, context,
                                        .blocks = {from->blocks}};
    sequence.adapter = from->adapter;
    sequence.state = from->state;
    if (spec->config->type_count > 1) sequence.second_begin = from->second_begin;
    if (spec->config->both_ways) sequence.attends = context + from->row_count;
    if (spec->kv->sliding) {
        sequence.blocks[1] = from->slots;
        sequence.first_block[1] = context < window ? 0 : (context - window + 1) / MR_BLOCK_TOKENS;
    }
    return sequence;
}

/* Records the rows of a sequence whose logits or hidden states are needed. row: the row after its
 * last. */
static void want_rows(struct mr_decoder *decoder, const struct mr_batch_sequence *from,
                      uint32_t row)
{
    const uint32_t rows = from->logit_rows + from->hidden_rows;
    struct turn *turn = decoder->newest;
    MR_ASSERT(rows <= from->row_count && (from->logit_rows == 0 || from->hidden_rows == 0));
    MR_ASSERT(turn->hidden_count == 0 || from->hidden_rows > 0);
    turn->logit_count += from->logit_rows;
    turn->hidden_count += from->hidden_rows > 0;
    MR_ASSERT(turn->logit_count + turn->hidden_count <= decoder->spec.sequences_max);
    if (from->hidden_first) {
        MR_ASSERT(from->hidden_rows == 1);
        decoder->wanted_rows[decoder->wanted_count++] = from->row_begin;
        return;
    }
    for (uint32_t left = rows; left > 0; left--)
        decoder->wanted_rows[decoder->wanted_count++] = row - left;
}

/* Checks the batch, stages it, and records the rows whose logits or hidden states are needed. */
static void stage(struct mr_decoder *decoder, const struct mr_batch *batch,
                  const struct mr_fed_rows *fed)
{
    const struct mr_decoder_spec *spec = &decoder->spec;
    uint32_t row = 0;
    decoder->newest->logit_count = decoder->newest->hidden_count = decoder->wanted_count = 0;
    if (spec->states) mr_state_pool_begin(spec->states);
    for (uint32_t i = 0; i < batch->row_count; i++)
        MR_ASSERT(batch->token_ids[i] < spec->config->vocab_size);
    for (uint32_t i = 0; i < batch->sequence_count; i++) {
        const struct mr_batch_sequence *from = &batch->sequences[i];
        MR_ASSERT(from->row_begin == row && from->row_count > 0);
        MR_ASSERT(!spec->config->both_ways || (from->context_tokens == 0 && from->logit_rows == 0));
        MR_ASSERT(from->context_tokens <= spec->ropes->position_count &&
                  from->row_count <= spec->ropes->position_count - from->context_tokens);
        row += from->row_count;
        decoder->sequences[i] = sequence_of(spec, from);
        check_blocks(spec, &decoder->sequences[i]);
        if (spec->states)
            mr_state_pool_advance(spec->states, from->state, from->context_tokens, from->row_count);
        want_rows(decoder, from, row);
    }
    MR_ASSERT(row == batch->row_count);
    decoder->backend->stage(decoder->newest->step, batch->token_ids, row, decoder->sequences,
                            batch->sequence_count, fed);
}

/* Keeps the rows whose logits are needed, each as a sequence of one row, and those whose hidden
 * states are needed. The rest is not needed once the last layer's KV is written. */
static void keep_wanted_rows(struct mr_decoder *decoder, const struct mr_batch *batch)
{
    uint32_t kept = 0, hidden = 0, next = decoder->newest->logit_count;
    for (uint32_t i = 0; i < batch->sequence_count; i++) {
        struct mr_batch_sequence row = batch->sequences[i];
        row.context_tokens += row.row_count - row.logit_rows;
        row.row_count = 1;
        for (uint32_t left = row.logit_rows; left > 0; left--) {
            row.row_begin = kept;
            decoder->sequences[kept++] = sequence_of(&decoder->spec, &row);
            row.context_tokens++;
        }
        if (row.hidden_rows == 0) continue;
        row = batch->sequences[i];
        const uint32_t tokens = row.context_tokens + row.row_count;
        if (!row.hidden_first) row.context_tokens += row.row_count - row.hidden_rows;
        row.row_begin = next;
        row.row_count = row.hidden_rows;
        next += row.row_count;
        decoder->sequences[kept] = sequence_of(&decoder->spec, &row);
        if (decoder->spec.config->both_ways) decoder->sequences[kept].attends = tokens;
        decoder->newest->hidden[hidden++] = decoder->sequences[kept++];
    }
    MR_ASSERT(next == decoder->wanted_count);
    decoder->backend->keep(decoder->newest->step, decoder->wanted_rows, decoder->sequences, kept);
}

/* ---- the parts of a layer ---- */

static struct mr_norm norm_of(const struct mr_decoder *decoder,
                              const struct mr_norm_weights *weights)
{
    const struct mr_model_config *c = decoder->spec.config;
    return (struct mr_norm){.weight = weights->weight,
                            .bias = weights->bias,
                            .epsilon = c->norm_epsilon,
                            .centered = c->family->centered_norms};
}

/* Sets MR_NORMED to the input of a branch: the normed rows of the residual stream, or the rows
 * themselves in a model without norms before branches. */
static void enter_branch(struct mr_decoder *decoder, const struct mr_norm_weights *weights,
                         uint32_t rows)
{
    const struct mr_norm norm = norm_of(decoder, weights);
    decoder->backend->norm(decoder->newest->step, weights->weight ? &norm : NULL, rows);
}

/* Adds the product of a branch's last layer to the residual stream. The norm that follows the
 * branch in some families is that of the product, or of the sum. */
static void leave_branch(struct mr_decoder *decoder, const struct mr_linear *last,
                         enum mr_step_buffer from, const struct mr_norm_weights *weights,
                         uint32_t rows)
{
    const struct mr_norm norm = norm_of(decoder, weights);
    if (!weights->weight || decoder->spec.config->family->norm_sum) {
        decoder->backend->linear(decoder->newest->step, last, from, rows, MR_ADD, MR_RESIDUAL);
        if (weights->weight) decoder->backend->norm_residual(decoder->newest->step, &norm, rows);
        return;
    }
    decoder->backend->linear(decoder->newest->step, last, from, rows, MR_STORE, MR_BRANCH);
    decoder->backend->norm_add(decoder->newest->step, &norm, rows);
}

static struct mr_attention attention_of(const struct mr_decoder *decoder, uint32_t i)
{
    const struct mr_model_config *c = decoder->spec.config;
    const struct mr_kv_groups *groups = decoder->spec.kv;
    const struct mr_kv_layer *place = &groups->layers[i];
    const struct mr_layer_weights *layer = &decoder->spec.weights->layers[i];
    return (struct mr_attention){
        .kv = place->slides ? groups->sliding : groups->full,
        .layer = place->index,
        .group = place->slides ? 1 : 0,
        .head_count = c->head_count,
        .kv_head_count = c->kv_head_count,
        .window = c->windowed[i] ? c->window : 0,
        .scale = c->attention_scale / (c->scale_falls ? (float)(i + 1) : 1.0f),
        .softcap = c->attention_softcap,
        .clip = c->qkv_clip,
        .sinks = layer->sinks,
        .rope = c->rope_of[i] == MR_NO_ROPE ? NULL : decoder->ropes[c->rope_of[i]],
        .q_norm = layer->q_norm,
        .k_norm = layer->k_norm,
        .norm_epsilon = c->norm_epsilon,
        .norm_width = c->head_dim,
        .norm_whole = c->head_norm == MR_HEAD_NORM_ROW,
        .norm_centered = c->head_norm == MR_HEAD_NORM_CENTERED,
        .norm_after = c->family->norm_after_rope};
}

/* Sets MR_MIXED to the output of the recurrent part of layer i, the index-th with one. */
static void run_mixer(struct mr_decoder *decoder, uint32_t i, uint32_t index, uint32_t rows)
{
    const struct mr_backend *backend = decoder->backend;
    struct mr_step *step = decoder->newest->step;
    const struct mr_mixer_weights *weights = &decoder->spec.weights->layers[i].mixer;
    const struct mr_mixer mixer = {.states = decoder->spec.states->states,
                                   .layer = index,
                                   .taps = weights->taps,
                                   .bias = weights->bias,
                                   .decay = weights->decay,
                                   .dt_bias = weights->dt_bias,
                                   .skip = weights->skip,
                                   .norm = weights->norm};
    backend->linear(step, weights->in, MR_NORMED, rows, MR_STORE, MR_MIXING);
    if (weights->gates)
        backend->linear(step, weights->gates, MR_NORMED, rows, MR_STORE, MR_MIX_GATES);
    backend->mixers->mix(step, &mixer);
}

/* Computes the queries of layer i and writes its K and V to the pool. */
static void write_kv(struct mr_decoder *decoder, uint32_t i, uint32_t rows)
{
    const struct mr_backend *backend = decoder->backend;
    struct mr_step *step = decoder->newest->step;
    const struct mr_model_config *c = decoder->spec.config;
    const struct mr_layer_weights *layer = &decoder->spec.weights->layers[i];
    const struct mr_attention attention = attention_of(decoder, i);
    if (layer->latent.down) {
        mr_latent_write(backend, step, c, &layer->latent, &attention, rows);
        return;
    }
    backend->linear(step, layer->qkv, MR_NORMED, rows, MR_STORE, MR_QKV);
    backend->rope_write(step, &attention);
}

static void run_attention(struct mr_decoder *decoder, uint32_t i, uint32_t rows)
{
    const struct mr_backend *backend = decoder->backend;
    struct mr_step *step = decoder->newest->step;
    const struct mr_model_config *c = decoder->spec.config;
    const struct mr_layer_weights *layer = &decoder->spec.weights->layers[i];
    const struct mr_attention attention = attention_of(decoder, i);
    if (layer->latent.down)
        mr_latent_attend(backend, step, c, &layer->latent, &attention);
    else
        backend->attend(step, &attention);
    if (layer->attention_gate) {
        backend->linear(step, layer->attention_gate, MR_NORMED, rows, MR_STORE, MR_MIXING);
        backend->mixers->gate_attended(step, rows);
    }
    /* The feed-forward network reads the rows as they were before attention. */
    if (c->own_ffn_norm) enter_branch(decoder, &layer->ffn_norm, rows);
    leave_branch(decoder, layer->attention_out, MR_ATTENDED, &layer->attention_post_norm, rows);
}

static enum mr_epilogue gate_of(const struct mr_model_config *config)
{
    static const enum mr_epilogue gates[] = {
        [MR_ACTIVATION_SILU] = MR_SILU_MUL,
        [MR_ACTIVATION_GELU] = MR_GELU_MUL,
        [MR_ACTIVATION_GELU_TANH] = MR_GELU_TANH_MUL,
        [MR_ACTIVATION_SWIGLU_OAI] = MR_SWIGLU_OAI_MUL,
    };
    static const enum mr_epilogue plain[] = {
        [MR_ACTIVATION_SILU] = MR_SILU,           [MR_ACTIVATION_GELU] = MR_GELU,
        [MR_ACTIVATION_GELU_TANH] = MR_GELU_TANH, [MR_ACTIVATION_RELU] = MR_RELU,
        [MR_ACTIVATION_RELU2] = MR_RELU2,         [MR_ACTIVATION_XIELU] = MR_XIELU,
    };
    return config->family->plain_ffn ? plain[config->activation] : gates[config->activation];
}

static struct mr_router router_of(const struct mr_expert_config *experts,
                                  const struct mr_vector *bias)
{
    return (struct mr_router){.count = experts->count,
                              .top_k = experts->top_k,
                              .sigmoid = experts->sigmoid,
                              .normalize = experts->normalized,
                              .bias = bias,
                              .group_count = experts->group_count,
                              .groups_kept = experts->groups_kept,
                              .group_pairs = experts->group_pairs,
                              .scale = experts->scale,
                              .sum_min = experts->sum_min,
                              .mixer_margin = experts->mixer_margin};
}

/* post_norm: of the sum of the experts, before it is added to the residual stream; its weight is
 * NULL in a family without. A switched shared expert is added to the residual stream. */
static void run_experts(struct mr_decoder *decoder, const struct mr_expert_weights *experts,
                        const struct mr_norm_weights *post_norm, uint32_t rows)
{
    const struct mr_backend *backend = decoder->backend;
    const struct mr_model_config *c = decoder->spec.config;
    struct mr_step *step = decoder->newest->step;
    const struct mr_expert_layer layer = {.gate_up = experts->gate_up,
                                          .down = experts->down,
                                          .router = router_of(&c->experts, experts->bias),
                                          .activation = gate_of(c),
                                          .to = post_norm->weight ? MR_BRANCH : MR_RESIDUAL,
                                          .clear = post_norm->weight};
    backend->linear(step, experts->router, MR_NORMED, rows, MR_STORE, MR_ROUTING);
    backend->experts(step, &layer, rows);
    if (experts->shared_gate_up)
        backend->linear(step, experts->shared_gate_up, MR_NORMED, rows, gate_of(c), MR_GATED);
    if (experts->shared_switch) {
        backend->linear(step, experts->shared_switch, MR_NORMED, rows, MR_STORE, MR_SWITCHES);
        backend->add_switched(step, experts->shared_down, rows);
    } else if (experts->shared_down) {
        backend->linear(step, experts->shared_down, MR_GATED, rows, MR_ADD, layer.to);
    }
    const struct mr_norm norm = norm_of(decoder, post_norm);
    if (post_norm->weight) backend->norm_add(step, &norm, rows);
}

static void run_ffn(struct mr_decoder *decoder, uint32_t i, uint32_t rows)
{
    const struct mr_model_config *c = decoder->spec.config;
    const struct mr_layer_weights *layer = &decoder->spec.weights->layers[i];
    if (!c->parallel) enter_branch(decoder, &layer->ffn_norm, rows);
    if (layer->experts.router) {
        run_experts(decoder, &layer->experts, &layer->ffn_post_norm, rows);
        return;
    }
    decoder->backend->linear(decoder->newest->step, layer->gate_up, MR_NORMED, rows, gate_of(c),
                             MR_GATED);
    leave_branch(decoder, layer->down, MR_GATED, &layer->ffn_post_norm, rows);
}

/* Computes the final norm of all remaining rows, and the logits of the first logit_count of
 * them. */
static void project_logits(struct mr_decoder *decoder, uint32_t rows, uint32_t logit_count)
{
    const struct mr_model_config *c = decoder->spec.config;
    const struct mr_weights *weights = decoder->spec.weights;
    enter_branch(decoder, &weights->final_norm,
                 rows); /* without a final norm: the rows as they are */
    if (logit_count == 0) return;
    decoder->backend->linear(decoder->newest->step, weights->head, MR_NORMED, logit_count, MR_STORE,
                             MR_LOGITS);
    if (c->logit_softcap > 0.0f)
        decoder->backend->softcap(decoder->newest->step, c->logit_softcap, logit_count);
}

/* ---- a step ---- */

static void embed(struct mr_decoder *decoder, uint32_t rows)
{
    const struct mr_decoder_spec *spec = &decoder->spec;
    const struct mr_weights *weights = spec->weights;
    struct mr_step *step = decoder->newest->step;
    decoder->backend->embed(step, weights->embedding, spec->config->embedding_scale);
    if (weights->positions)
        decoder->backend->embed_positions(step, weights->positions, weights->positions_per_type);
    if (!weights->embedding_norm.weight) return;
    const struct mr_norm norm = norm_of(decoder, &weights->embedding_norm);
    decoder->backend->norm_residual(step, &norm, rows);
}

/* Enqueues the operations of a staged step of `rows` rows. batch: names the rows whose logits are
 * needed; NULL: all. */
static void walk(struct mr_decoder *decoder, const struct mr_batch *batch, uint32_t rows)
{
    const struct mr_decoder_spec *spec = &decoder->spec;
    const struct mr_model_config *c = spec->config;
    uint32_t logit_count = rows, mixed = 0;
    embed(decoder, rows);
    for (uint32_t i = 0; i < c->layer_count; i++) {
        const struct mr_layer_weights *layer = &spec->weights->layers[i];
        if (!c->skips_attention[i] || layer->mixer.in)
            enter_branch(decoder, &layer->attention_norm, rows);
        if (!c->skips_attention[i]) write_kv(decoder, i, rows);
        if (layer->mixer.in) run_mixer(decoder, i, mixed++, rows);
        if (batch && i + 1 == c->layer_count) {
            keep_wanted_rows(decoder, batch);
            rows = decoder->wanted_count;
            logit_count = decoder->newest->logit_count;
        }
        if (rows == 0) continue;
        if (!c->skips_attention[i]) run_attention(decoder, i, rows);
        if (layer->mixer.in)
            leave_branch(decoder, layer->mixer.out, MR_MIXED, &layer->attention_post_norm, rows);
        if (!c->skips_ffn[i]) run_ffn(decoder, i, rows);
    }
    if (rows > 0) project_logits(decoder, rows, logit_count);
}

void mr_decoder_launch(struct mr_decoder *decoder, const struct mr_batch *batch,
                       const struct mr_fed_rows *fed)
{
    const struct mr_decoder_spec *spec = &decoder->spec;
    const struct mr_backend *backend = decoder->backend;
    struct mr_fed_rows rows = fed ? *fed : (struct mr_fed_rows){0};
    MR_ASSERT(batch->row_count > 0 && batch->row_count <= spec->rows_max);
    MR_ASSERT(batch->sequence_count > 0 && batch->sequence_count <= spec->sequences_max);
    MR_ASSERT(decoder->in_flight < decoder->turn_count && (!fed || decoder->turn_count > 1));
    rows.from = decoder->newest->step;
    decoder->newest = other(decoder);
    stage(decoder, batch, fed ? &rows : NULL);
    decoder->in_flight++;
    const bool decodes = batch->row_count == batch->sequence_count &&
                         decoder->newest->logit_count == batch->row_count;
    if (decodes && backend->graph_replay && backend->graph_replay(decoder->newest->step)) return;
    walk(decoder, decodes ? NULL : batch, batch->row_count);
}

static void walk_decodes(void *context, uint32_t rows)
{
    walk(context, NULL, rows);
}

enum mr_status mr_decoder_record(struct mr_decoder *decoder, uint32_t rows, uint32_t tokens,
                                 struct mr_error *err)
{
    const struct mr_decoder_spec *spec = &decoder->spec;
    MR_ASSERT(rows > 0 && rows <= spec->sequences_max && rows <= spec->rows_max && tokens > 0);
    if (!decoder->backend->graph_create)
        return mr_fail(err, MR_UNSUPPORTED, "the backend %s has no graphs", decoder->backend->name);
    const struct mr_graph_spec graph = {.rows = rows,
                                        .tokens = tokens,
                                        .sliding = spec->kv->sliding != NULL,
                                        .walk = walk_decodes,
                                        .context = decoder};
    return decoder->backend->graph_create(decoder->newest->step, &graph, err);
}

uint32_t mr_decoder_steps_ahead(const struct mr_decoder *decoder)
{
    return decoder->steps_ahead;
}

void mr_decoder_query(struct mr_decoder *decoder, const struct mr_logit_query *query)
{
    MR_ASSERT(query->row < decoder->newest->logit_count);
    decoder->backend->query(decoder->newest->step, query);
}

void mr_decoder_search(struct mr_decoder *decoder)
{
    if (decoder->in_flight == 0) decoder->in_flight = 1;
    decoder->backend->search(decoder->newest->step);
}

/* ---- results ---- */

enum mr_status mr_decoder_finish(struct mr_decoder *decoder, struct mr_error *err)
{
    if (decoder->in_flight == 0) return MR_OK;
    decoder->finished = decoder->in_flight > 1 ? other(decoder) : decoder->newest;
    decoder->in_flight--;
    return decoder->backend->finish(decoder->finished->step, err);
}

const float *mr_decoder_logits(const struct mr_decoder *decoder, uint32_t row, struct mr_error *err)
{
    MR_ASSERT(row < decoder->finished->logit_count);
    return decoder->backend->logits(decoder->finished->step, row, err);
}

struct mr_logit_findings mr_decoder_findings(const struct mr_decoder *decoder, uint32_t index)
{
    return decoder->backend->findings(decoder->finished->step, index);
}

const float *mr_decoder_edited(const struct mr_decoder *decoder, uint32_t index,
                               struct mr_error *err)
{
    return decoder->backend->edited(decoder->finished->step, index, err);
}

void mr_decoder_hidden(const struct mr_decoder *decoder, uint32_t index, float *out)
{
    const struct turn *turn = decoder->finished;
    MR_ASSERT(index < turn->hidden_count);
    const struct mr_step_sequence *rows = &turn->hidden[index];
    decoder->backend->sum_normed(turn->step, rows->row_begin, rows->row_count, out);
}
