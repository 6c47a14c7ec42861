#include "batching/sequence/sequence.h"

#include "batching/sequence/embedding.h"
#include "batching/sequence/scores.h"

#include "codec/check.h"

static const bool allowed[MR_SEQUENCE_STATE_COUNT][MR_SEQUENCE_STATE_COUNT] = {
    [MR_SEQUENCE_WAITING] = {[MR_SEQUENCE_RUNNING] = true, [MR_SEQUENCE_FINISHED] = true},
    [MR_SEQUENCE_RUNNING] = {[MR_SEQUENCE_PREEMPTED] = true, [MR_SEQUENCE_FINISHED] = true},
    [MR_SEQUENCE_PREEMPTED] = {[MR_SEQUENCE_RUNNING] = true, [MR_SEQUENCE_FINISHED] = true},
};

void mr_sequence_move(struct mr_sequence *sequence, enum mr_sequence_state state)
{
    MR_ASSERT(state < MR_SEQUENCE_STATE_COUNT);
    MR_ASSERT(allowed[sequence->state][state]);
    sequence->state = state;
}

uint32_t mr_sequence_reusable(const struct mr_sequence *sequence)
{
    if (!mr_scores_done(sequence->scores)) return sequence->scores->known;
    return mr_embedding_done(sequence->embedding) ? sequence->num_tokens
                                                  : sequence->embedding->pooled + 1;
}

void mr_sequence_append(struct mr_sequence *sequence, uint32_t token_id)
{
    MR_ASSERT(sequence->state != MR_SEQUENCE_FINISHED);
    if (sequence->unknown > 0) {
        sequence->tokens[sequence->num_tokens - sequence->unknown--] = token_id;
        return;
    }
    MR_ASSERT(sequence->num_tokens < sequence->capacity);
    sequence->tokens[sequence->num_tokens++] = token_id;
}

void mr_sequence_append_unknown(struct mr_sequence *sequence, uint32_t row)
{
    MR_ASSERT(sequence->num_tokens < sequence->capacity);
    MR_ASSERT(sequence->state == MR_SEQUENCE_RUNNING);
    sequence->tokens[sequence->num_tokens++] = MR_TOKEN_UNKNOWN;
    sequence->unknown++;
    sequence->fed_row = row;
}

void mr_sequence_drop_unknown(struct mr_sequence *sequence)
{
    sequence->num_tokens -= sequence->unknown;
    sequence->unknown = sequence->in_flight = sequence->draft_count = 0;
    if (sequence->num_computed > sequence->num_tokens)
        sequence->num_computed = sequence->num_tokens;
}

uint32_t mr_sequence_advance(struct mr_sequence *sequence, uint32_t count)
{
    MR_ASSERT(sequence->state == MR_SEQUENCE_RUNNING);
    MR_ASSERT(count <= mr_sequence_pending(sequence));
    uint32_t again = 0;
    if (sequence->computed_before > sequence->num_computed) {
        again = sequence->computed_before - sequence->num_computed;
        again = again < count ? again : count;
    }
    sequence->num_computed += count;
    if (sequence->num_computed > sequence->computed_before)
        sequence->computed_before = sequence->num_computed;
    sequence->in_flight++;
    return again;
}

void mr_sequence_settle(struct mr_sequence *sequence, uint32_t end)
{
    MR_ASSERT(sequence->in_flight > 0 && end <= sequence->num_computed);
    bool last = --sequence->in_flight == 0;
    sequence->num_settled = last ? sequence->num_computed : end;
}

void mr_sequence_restart(struct mr_sequence *sequence, uint32_t num_computed)
{
    sequence->num_computed = sequence->num_settled = num_computed;
    sequence->in_flight = sequence->draft_count = 0;
}

void mr_sequence_jump(struct mr_sequence *sequence, uint32_t end)
{
    MR_ASSERT(sequence->state == MR_SEQUENCE_RUNNING);
    MR_ASSERT(end >= sequence->num_computed && end <= sequence->num_tokens);
    sequence->num_computed = end;
    if (sequence->in_flight == 0) sequence->num_settled = end;
    if (end > sequence->computed_before) sequence->computed_before = end;
}

void mr_sequence_check(const struct mr_sequence *sequence)
{
    MR_ASSERT(sequence->num_settled <= sequence->num_computed);
    MR_ASSERT(sequence->num_computed <= sequence->num_tokens);
    MR_ASSERT(sequence->unknown <= mr_sequence_generated(sequence));
    MR_ASSERT(sequence->state == MR_SEQUENCE_RUNNING || sequence->in_flight == 0);
    MR_ASSERT(sequence->num_tokens <= sequence->capacity);
    MR_ASSERT(sequence->prompt_tokens <= sequence->num_tokens);
    MR_ASSERT(sequence->draft_count <= MR_DRAFTS_MAX);
    MR_ASSERT(sequence->draft_count == 0 || sequence->in_flight == 1);
    MR_ASSERT((sequence->table != NULL) == (sequence->state == MR_SEQUENCE_RUNNING));
    MR_ASSERT(sequence->state == MR_SEQUENCE_RUNNING || sequence->match.copy_tokens == 0);
    MR_ASSERT(sequence->state == MR_SEQUENCE_RUNNING || sequence->load == NULL);
    MR_ASSERT(sequence->logits == NULL || sequence->num_computed == sequence->num_tokens);
    if (sequence->table != NULL) {
        uint64_t covered = (uint64_t)sequence->table->block_count * MR_BLOCK_TOKENS;
        MR_ASSERT(covered >= sequence->num_computed);
    }
}
