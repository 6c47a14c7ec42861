#include "tests/fakes/fake_model.h"

#include "codec/check.h"
#include "kvcache/block_pool.h"

#include <stdlib.h>
#include <string.h>

#define EMPTY_HISTORY 0x6d696c6c72616365u

/* SplitMix64's finaliser (Steele, Lea and Flood, 2014). */
static uint64_t mix(uint64_t state, uint64_t value)
{
    state = (state + value + 1) * 0x9e3779b97f4a7c15u;
    state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9u;
    state = (state ^ (state >> 27)) * 0x94d049bb133111ebu;
    return state ^ (state >> 31);
}

/* The logits after a history that ends with token `last`. */
static uint64_t logits_of(const struct mr_fake_model *fake, uint64_t history, uint32_t last)
{
    return fake->options.repeats && history % 8 != 0 ? mix(EMPTY_HISTORY, last) : history;
}

static uint32_t draw(const struct mr_fake_model *fake, uint64_t hash, float temperature,
                     uint64_t seed, uint32_t position)
{
    uint64_t drawn = mix(mix(hash, seed), position);
    bool greedy = temperature <= 0.0f || (fake->options.repeats && drawn % 4 != 0);
    return (uint32_t)((greedy ? mix(hash, 0) : drawn) % fake->options.vocab_size);
}

uint32_t mr_fake_next(const struct mr_fake_model *fake, const uint32_t *tokens, uint32_t count,
                      float temperature, uint64_t seed)
{
    uint64_t hash = EMPTY_HISTORY;
    for (uint32_t i = 0; i < count; i++)
        hash = mix(hash, tokens[i]);
    if (count > 0) hash = logits_of(fake, hash, tokens[count - 1]);
    return draw(fake, hash, temperature, seed, count);
}

static float hidden_of(uint64_t history, uint32_t index)
{
    return (float)(mix(history, index) % 201) - 100.0f;
}

void mr_fake_add_hidden(const uint32_t *tokens, uint32_t count, double sums[MR_FAKE_HIDDEN])
{
    uint64_t hash = EMPTY_HISTORY;
    for (uint32_t i = 0; i < count; i++)
        hash = mix(hash, tokens[i]);
    for (uint32_t i = 0; i < MR_FAKE_HIDDEN; i++)
        sums[i] += (double)hidden_of(hash, i);
}

static float logprob_of(uint64_t hash, uint32_t token)
{
    return -(float)(mix(hash, token) % 4096) / 256.0f;
}

float mr_fake_logprob(const struct mr_fake_model *fake, const uint32_t *tokens, uint32_t count,
                      uint32_t token)
{
    uint64_t hash = EMPTY_HISTORY;
    for (uint32_t i = 0; i < count; i++)
        hash = mix(hash, tokens[i]);
    if (count > 0) hash = logits_of(fake, hash, tokens[count - 1]);
    return logprob_of(hash, token);
}

static struct mr_fake_slot *slot_at(struct mr_fake_model *fake, const uint32_t *blocks,
                                    uint32_t position)
{
    uint32_t block = blocks[position / MR_BLOCK_TOKENS];
    MR_ASSERT(block < fake->options.block_count);
    return &fake->slots[(size_t)block * MR_BLOCK_TOKENS + position % MR_BLOCK_TOKENS];
}

static struct mr_fake_slot *sliding_at(struct mr_fake_model *fake, const uint32_t *slots,
                                       uint32_t position)
{
    uint32_t slot = slots[position / MR_BLOCK_TOKENS];
    MR_ASSERT(slot < fake->options.slot_count);
    return &fake->sliding[(size_t)slot * MR_BLOCK_TOKENS + position % MR_BLOCK_TOKENS];
}

static uint64_t read_context(struct mr_fake_model *fake, const struct mr_batch_sequence *sequence)
{
    uint64_t hash = EMPTY_HISTORY;
    for (uint32_t i = 0; i < sequence->context_tokens; i++) {
        const struct mr_fake_slot *slot = slot_at(fake, sequence->blocks, i);
        fake->wrong_reads += slot->position != i + 1;
        hash = mix(hash, slot->token);
        if (fake->options.slot_count == 0 ||
            i + fake->options.window_tokens <= sequence->context_tokens)
            continue;
        const struct mr_fake_slot *near = sliding_at(fake, sequence->slots, i);
        fake->wrong_reads += near->position != i + 1 || near->token != slot->token;
    }
    return hash;
}

/* Asserts by count that the slot has the state after the context whose hash is given, and moves it
 * to `after`. */
static void move_state(struct mr_fake_model *fake, const struct mr_batch_sequence *sequence,
                       uint64_t before, uint64_t after)
{
    if (fake->options.state_count == 0) return;
    MR_ASSERT(sequence->state < fake->options.state_count);
    struct mr_fake_state *state = &fake->states[sequence->state];
    const uint32_t context = sequence->context_tokens;
    fake->wrong_reads += context > 0 && (state->tokens != context || state->hash != before);
    fake->double_writes += state->step == fake->step;
    *state = (struct mr_fake_state){after, fake->step, context + sequence->row_count};
}

static void state_copy(void *context, uint32_t from, uint32_t to)
{
    struct mr_fake_model *fake = context;
    MR_ASSERT(from != to && from < fake->options.state_count && to < fake->options.state_count);
    fake->states[to] = fake->states[from];
    fake->state_copies++;
}

static void store_token(struct mr_fake_model *fake, struct mr_fake_slot *slot, uint32_t position,
                        uint32_t token)
{
    uint64_t *step = &fake->steps[slot - fake->slots];
    fake->double_writes += *step == fake->step;
    *step = fake->step;
    *slot = (struct mr_fake_slot){.token = token, .position = position + 1};
}

static void write_slot(struct mr_fake_model *fake, const struct mr_batch_sequence *sequence,
                       uint32_t position, uint32_t token)
{
    struct mr_fake_slot *slot = slot_at(fake, sequence->blocks, position);
    store_token(fake, slot, position, token);
    if (fake->options.slot_count == 0) return;
    store_token(fake, sliding_at(fake, sequence->slots, position), position, token);
}

static void spend(struct mr_fake_model *fake, const struct mr_batch *batch)
{
    double ms = fake->options.step_ms;
    fake->decode_rows = fake->chunk_rows = 0;
    for (uint32_t i = 0; i < batch->sequence_count; i++) {
        const struct mr_batch_sequence *sequence = &batch->sequences[i];
        double rows = sequence->row_count;
        if (sequence->row_count == 1) {
            fake->decode_rows++;
            ms += fake->options.row_ms;
        } else {
            fake->chunk_rows += sequence->row_count;
            ms += fake->options.token_ms * rows;
        }
        ms += fake->options.history_ms * rows * (sequence->context_tokens + rows / 2);
        if (sequence->logit_rows > 1) ms += fake->options.score_ms * sequence->logit_rows;
    }
    uint64_t begin_ns = fake->free_ns > fake->now_ns ? fake->free_ns : fake->now_ns;
    fake->free_ns = begin_ns + (uint64_t)(ms * 1e6);
}

static struct mr_fake_flight *flight_of(struct mr_fake_model *fake, uint64_t step)
{
    return &fake->flights[step % (sizeof fake->flights / sizeof *fake->flights)];
}

/* The input of a row of the batch: a given token, or the token that the step launched before has
 * sampled. */
static uint32_t input_of(struct mr_fake_model *fake, const struct mr_model_step *step, uint32_t row)
{
    uint32_t token = step->batch->token_ids[row];
    if (step->fed_by != NULL && step->fed_by[row] != MR_ROW_KNOWN) {
        MR_ASSERT(fake->options.steps_ahead > 1 && fake->launched > fake->collected);
        const struct mr_fake_flight *before = flight_of(fake, fake->launched - 1);
        MR_ASSERT(step->fed_by[row] < before->sample_count);
        token = before->samples[step->fed_by[row]].token_id;
        fake->fed_count++;
    }
    MR_ASSERT(token < fake->options.vocab_size);
    return token;
}

static void forward(struct mr_fake_model *fake, const struct mr_model_step *step,
                    struct mr_fake_flight *flight)
{
    uint64_t *hashes = flight->hashes;
    uint32_t hidden = 0;
    const struct mr_batch *batch = step->batch;
    fake->step++;
    fake->forward_count++;
    fake->row_count += batch->row_count;
    uint32_t logit_row = 0, rows_seen = 0;
    for (uint32_t i = 0; i < batch->sequence_count; i++) {
        const struct mr_batch_sequence *sequence = &batch->sequences[i];
        MR_ASSERT(sequence->row_begin == rows_seen && sequence->row_count > 0);
        rows_seen += sequence->row_count;
        uint64_t hash = read_context(fake, sequence);
        const uint64_t before = hash;
        MR_ASSERT(sequence->logit_rows <= sequence->row_count);
        MR_ASSERT(logit_row + sequence->logit_rows + hidden < fake->options.sequences_max + 1);
        MR_ASSERT(sequence->hidden_rows > 0 ? sequence->logit_rows == 0 : hidden == 0);
        for (uint32_t k = 0; sequence->hidden_rows > 0 && k < MR_FAKE_HIDDEN; k++)
            flight->hidden[hidden][k] = 0;
        for (uint32_t row = 0; row < sequence->row_count; row++) {
            uint32_t token = input_of(fake, step, sequence->row_begin + row);
            hash = mix(hash, token);
            write_slot(fake, sequence, sequence->context_tokens + row, token);
            if (row + sequence->logit_rows >= sequence->row_count)
                hashes[logit_row++] = logits_of(fake, hash, token);
            for (uint32_t k = 0;
                 row + sequence->hidden_rows >= sequence->row_count && k < MR_FAKE_HIDDEN; k++)
                flight->hidden[hidden][k] += hidden_of(hash, k);
        }
        hidden += sequence->hidden_rows > 0;
        move_state(fake, sequence, before, hash);
    }
    MR_ASSERT(rows_seen == batch->row_count);
    spend(fake, batch);
}

/* A row of logits is the hash in four 16-bit pieces, each exact in a float. */
static enum mr_status logits(void *context, uint32_t row, float *out, struct mr_error *err)
{
    (void)err;
    struct mr_fake_model *fake = context;
    MR_ASSERT(fake->logits_valid);
    const uint64_t *hashes = flight_of(fake, fake->collected - 1)->hashes;
    memset(out, 0, fake->options.vocab_size * sizeof *out);
    for (uint32_t i = 0; i < 4; i++)
        out[i] = (float)((hashes[row] >> (16 * i)) & 0xffff);
    return MR_OK;
}

static enum mr_status hidden(void *context, uint32_t index, float *out, struct mr_error *err)
{
    (void)err;
    struct mr_fake_model *fake = context;
    MR_ASSERT(fake->logits_valid && index < fake->options.sequences_max);
    memcpy(out, flight_of(fake, fake->collected - 1)->hidden[index], MR_FAKE_HIDDEN * sizeof *out);
    return MR_OK;
}

static uint64_t hash_of(const float *row)
{
    uint64_t hash = 0;
    for (uint32_t i = 0; i < 4; i++)
        hash |= (uint64_t)row[i] << (16 * i);
    return hash;
}

static bool is_suppressed(const struct mr_sample_row *row, uint32_t token)
{
    for (uint32_t i = 0; i < row->suppressed_count; i++)
        if (row->suppressed[i] == token) return true;
    return false;
}

/* The alternatives of a given token are the tokens that follow it in the vocabulary. */
static struct mr_sample score(const struct mr_fake_model *fake, const struct mr_sample_row *row,
                              uint64_t hash)
{
    const int32_t count = row->sampling->logprobs;
    struct mr_sample sample = {.token_id = row->given_id,
                               .logprob = logprob_of(hash, row->given_id),
                               .top_count = count > 0 ? (uint32_t)count : 0};
    MR_ASSERT(row->history_count == row->position && sample.top_count <= MR_LOGPROBS_MAX);
    for (uint32_t i = 0; i < sample.top_count; i++) {
        sample.top_ids[i] = (row->given_id + 1 + i) % fake->options.vocab_size;
        sample.top_logprobs[i] = logprob_of(hash, sample.top_ids[i]);
    }
    return sample;
}

static bool is_allowed(const struct mr_sample_row *row, uint32_t token)
{
    return row->allowed == NULL || (row->allowed[token / 64] >> (token % 64) & 1) != 0;
}

static struct mr_sample sample(const struct mr_fake_model *fake, const struct mr_sample_row *row,
                               const uint64_t *hashes)
{
    if (fake->broken_position > 0 && row->position == fake->broken_position)
        return (struct mr_sample){.failed = true};
    uint64_t hash = row->logits != NULL ? hash_of(row->logits) : hashes[row->logit_row];
    if (row->given) return score(fake, row, hash);
    uint32_t token = draw(fake, hash, row->sampling->temperature, row->seed, row->position);
    bool fed = row->history_count > 0 && row->history[row->history_count - 1] == UINT32_MAX;
    MR_ASSERT(!fed || row->suppressed_count == 0);
    const uint32_t vocab = fake->options.vocab_size;
    for (uint32_t tries = 0;
         !is_allowed(row, token) || (tries < vocab && is_suppressed(row, token)); tries++)
        token = (token + 1) % vocab;
    return (struct mr_sample){.token_id = token, .probability = 0.5f, .logprob = -0.6931472f};
}

static void finish(struct mr_fake_model *fake, struct mr_fake_flight *flight)
{
    for (uint32_t i = 0; i < flight->sample_count; i++)
        flight->out[i] = flight->samples[i];
    if (flight->end_ns > fake->now_ns) fake->now_ns = flight->end_ns;
}

static enum mr_status launch(void *context, const struct mr_model_step *step, struct mr_error *err)
{
    struct mr_fake_model *fake = context;
    struct mr_fake_flight *flight = flight_of(fake, fake->launched);
    bool fails = fake->fail_after > 0 && --fake->fail_after == 0;
    if (fails && !fake->options.fails_late)
        return mr_fail(err, MR_BACKEND, "the fake was told to fail");
    MR_ASSERT(fake->launched - fake->collected < 1 + (fake->options.steps_ahead > 1));
    MR_ASSERT(step->batch->row_count > 0 || step->sample_count > 0);
    fake->logits_valid = false;
    if (step->batch->row_count > 0) forward(fake, step, flight);
    fake->launched++;
    flight->failed = fails;
    flight->out = step->samples;
    flight->sample_count = step->sample_count;
    for (uint32_t i = 0; i < step->sample_count; i++) {
        flight->samples[i] = sample(fake, &step->rows[i], flight->hashes);
        step->samples[i] = (struct mr_sample){.token_id = UINT32_MAX}; /* not to be read yet */
    }
    flight->end_ns = fake->free_ns;
    if (fake->options.steps_ahead == 0) finish(fake, flight);
    return MR_OK;
}

static enum mr_status collect(void *context, struct mr_error *err)
{
    struct mr_fake_model *fake = context;
    MR_ASSERT(fake->collected < fake->launched);
    struct mr_fake_flight *flight = flight_of(fake, fake->collected++);
    fake->logits_valid = true;
    finish(fake, flight);
    return flight->failed ? mr_fail(err, MR_BACKEND, "the fake was told to fail") : MR_OK;
}

static void copy_slots(struct mr_fake_slot *slots, uint32_t from, uint32_t to, uint32_t token_count)
{
    MR_ASSERT(from != to && token_count <= MR_BLOCK_TOKENS);
    memcpy(&slots[(size_t)to * MR_BLOCK_TOKENS], &slots[(size_t)from * MR_BLOCK_TOKENS],
           token_count * sizeof *slots);
}

static void kv_copy(void *context, struct mr_kv_place from, struct mr_kv_place to,
                    uint32_t token_count)
{
    struct mr_fake_model *fake = context;
    copy_slots(fake->slots, from.block, to.block, token_count);
    if (fake->options.slot_count > 0) copy_slots(fake->sliding, from.slot, to.slot, token_count);
    fake->copy_count++;
}

/* Its token and position, in each group of layers. */
static size_t kv_bytes(void *context, uint32_t token_count)
{
    const struct mr_fake_model *fake = context;
    return token_count * sizeof(struct mr_fake_slot) * (fake->options.slot_count > 0 ? 2 : 1);
}

static void *kv_bytes_of(void *context, uint32_t block)
{
    struct mr_fake_model *fake = context;
    MR_ASSERT(block < fake->options.block_count);
    bool remote = fake->options.remote || fake->options.slot_count > 0;
    return remote ? NULL : &fake->slots[(size_t)block * MR_BLOCK_TOKENS];
}

static void export_slots(struct mr_fake_model *fake, const struct mr_fake_slot *slots,
                         uint32_t token_count, struct mr_fake_slot *out)
{
    for (uint32_t i = 0; i < token_count; i++)
        fake->wrong_reads += slots[i].position == 0;
    memcpy(out, slots, token_count * sizeof *slots);
}

static enum mr_status kv_export(void *context, struct mr_kv_place place, uint32_t token_count,
                                void *bytes)
{
    struct mr_fake_model *fake = context;
    struct mr_fake_slot *out = bytes;
    fake->export_count++;
    if (fake->options.fails_export) return MR_MALFORMED;
    MR_ASSERT(place.first % 16 == 0 && place.first + token_count <= MR_BLOCK_TOKENS);
    export_slots(fake, &fake->slots[(size_t)place.block * MR_BLOCK_TOKENS + place.first],
                 token_count, out);
    if (fake->options.slot_count > 0) {
        MR_ASSERT(place.slot < fake->options.slot_count);
        export_slots(fake, &fake->sliding[(size_t)place.slot * MR_BLOCK_TOKENS + place.first],
                     token_count, out + token_count);
    }
    return MR_OK;
}

static enum mr_status kv_import(void *context, struct mr_kv_place place, uint32_t token_count,
                                const void *bytes)
{
    struct mr_fake_model *fake = context;
    const struct mr_fake_slot *in = bytes;
    MR_ASSERT(place.first % 16 == 0 && place.first + token_count <= MR_BLOCK_TOKENS);
    memcpy(&fake->slots[(size_t)place.block * MR_BLOCK_TOKENS + place.first], in,
           token_count * sizeof *in);
    if (fake->options.slot_count > 0) {
        MR_ASSERT(place.slot < fake->options.slot_count);
        memcpy(&fake->sliding[(size_t)place.slot * MR_BLOCK_TOKENS + place.first], in + token_count,
               token_count * sizeof *in);
    }
    fake->import_count++;
    return MR_OK;
}

static uint64_t clock_ns(void *context)
{
    return ((struct mr_fake_model *)context)->now_ns;
}

struct mr_fake_model *mr_fake_model_create(const struct mr_fake_options *options)
{
    struct mr_fake_model *fake = calloc(1, sizeof *fake);
    MR_ASSERT(fake != NULL && options->vocab_size >= 4);
    fake->options = *options;
    size_t slots = (size_t)(options->block_count + options->slot_count) * MR_BLOCK_TOKENS;
    fake->slots = calloc(slots, sizeof *fake->slots);
    fake->steps = calloc(slots, sizeof *fake->steps);
    fake->states = calloc(options->state_count + 1u, sizeof *fake->states);
    MR_ASSERT(fake->states != NULL);
    MR_ASSERT(fake->slots != NULL && fake->steps != NULL);
    for (size_t i = 0; i < sizeof fake->flights / sizeof *fake->flights; i++) {
        struct mr_fake_flight *flight = &fake->flights[i];
        size_t samples = (size_t)options->sequences_max * MR_CHOICES_MAX;
        flight->hashes = calloc(options->sequences_max, sizeof *flight->hashes);
        flight->hidden = calloc(options->sequences_max, sizeof *flight->hidden);
        MR_ASSERT(flight->hidden != NULL);
        flight->samples = calloc(samples, sizeof *flight->samples);
        MR_ASSERT(flight->hashes != NULL && flight->samples != NULL);
    }
    fake->sliding = fake->slots + (size_t)options->block_count * MR_BLOCK_TOKENS;
    return fake;
}

void mr_fake_model_destroy(struct mr_fake_model *fake)
{
    if (fake == NULL) return;
    for (size_t i = 0; i < sizeof fake->flights / sizeof *fake->flights; i++) {
        free(fake->flights[i].hidden);
        free(fake->flights[i].hashes);
        free(fake->flights[i].samples);
    }
    free(fake->states);
    free(fake->steps);
    free(fake->slots);
    free(fake);
}

struct mr_model_port mr_fake_model_port(struct mr_fake_model *fake)
{
    return (struct mr_model_port){.context = fake,
                                  .vocab_size = fake->options.vocab_size,
                                  .steps_ahead = fake->options.steps_ahead,
                                  .launch = launch,
                                  .collect = collect,
                                  .logits = logits,
                                  .hidden = hidden,
                                  .hidden_size = MR_FAKE_HIDDEN,
                                  .kv_bytes = kv_bytes,
                                  .kv_export = kv_export,
                                  .kv_import = kv_import,
                                  .kv_bytes_of = fake->options.steps_ahead > 1 ? NULL : kv_bytes_of,
                                  .layer_count = 2,
                                  .kv_copy = kv_copy,
                                  .state_copy = state_copy,
                                  .clock_ns = clock_ns};
}
