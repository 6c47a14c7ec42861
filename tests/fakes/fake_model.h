/* fake_model - a model port whose next token is a hash of the token history in its KV blocks.
 *
 * Each slot of a block stores the token and the position written there. A forward reads the whole
 * context of every sequence through its block table. So a wrong table, a wrong position, or a block
 * that is reused too early or never written yields other tokens than the history, and is counted.
 * With slot_count the fake has sliding-window layers too. It writes their part of a token into the
 * slot of the token's block, where it must stay while the window covers the token. With state_count
 * it has recurrent layers: a state of another history than the sequence's is a wrong read, two
 * sequences of one slot in a step are a double write. Time is virtual:
 * a step costs a + b rows + c chunk + d history + e scored rows on the fake's own clock.
 *
 * With steps_ahead 0 launch computes and takes that time. Otherwise the fake is a device that
 * computes the steps one after the other. Collecting a step advances the clock and makes its
 * samples and logits available.
 *
 * Owner:  the test. Memory: all in _create; launch and collect allocate nothing.
 * Errors: launch returns MR_BACKEND after fail_after steps; with fails_late the collect of that
 * step does. */
#ifndef MR_TESTS_FAKES_FAKE_MODEL_H
#define MR_TESTS_FAKES_FAKE_MODEL_H

#include "batching/base/model_port.h"

#define MR_FAKE_HIDDEN 4u /* size of hidden states, whose numbers are whole */

struct mr_fake_slot {
    uint32_t token, position; /* position + 1; 0: never written */
};

struct mr_fake_options {
    uint32_t block_count, vocab_size, sequences_max; /* sequences_max: most rows of logits too */
    uint32_t slot_count, window_tokens;              /* of sliding-window layers; 0: none */
    uint32_t state_count; /* slots of the state pool of recurrent layers; 0: none */
    double step_ms, row_ms, token_ms, history_ms; /* a, b, c, d */
    double score_ms; /* e: of a row of logits, in a sequence that has several */
    uint32_t steps_ahead;
    /* Most tokens depend only on the token before them, and at a temperature above 0 most draws are
     * greedy. So answers repeat themselves. */
    bool repeats;
    bool fails_late;
    bool remote;       /* the remote cache cannot reach the pool: blocks are copied */
    bool fails_export; /* as int8 does for numbers that are not finite */
};

/* The state of recurrent layers after the first `tokens` tokens: the hash of these. */
struct mr_fake_state {
    uint64_t hash, step; /* step: the last one that used the slot */
    uint32_t tokens;
};

/* A step in flight, or the one collected last. */
struct mr_fake_flight {
    struct mr_sample *samples,
        *out; /* drawn tokens, and where to write them when the step is collected */
    uint32_t sample_count;
    uint64_t *hashes;                /* [sequences_max] logit rows */
    float (*hidden)[MR_FAKE_HIDDEN]; /* [sequences_max] sums of sequences with hidden_rows */
    uint64_t end_ns;
    bool failed;
};

struct mr_fake_model {
    struct mr_fake_options options;
    struct mr_fake_slot
        *slots; /* [block_count * MR_BLOCK_TOKENS], stored in the fake's own format */
    struct mr_fake_slot *sliding; /* [slot_count * MR_BLOCK_TOKENS], allocated after slots */
    struct mr_fake_state *states; /* [state_count] */
    uint64_t *steps;              /* the last step that wrote each slot */
    struct mr_fake_flight flights[MR_STEPS_AHEAD_MAX + 2];
    uint64_t launched, collected; /* steps; step i has flight i % its count */
    bool logits_valid;            /* a step was collected, and none was launched after it */
    uint64_t free_ns;             /* when the device has computed all launched steps */
    uint64_t now_ns, step;
    uint64_t wrong_reads, double_writes; /* must stay 0 */
    uint64_t fed_count;                  /* rows whose input was sampled by the step before */
    uint64_t state_copies;
    uint64_t forward_count, row_count, copy_count, export_count, import_count;
    uint32_t decode_rows, chunk_rows; /* of the last forward */
    uint32_t fail_after;              /* steps until one fails; 0 never */
    uint32_t broken_position;         /* position whose logits are not finite; 0: none */
};

struct mr_fake_model *mr_fake_model_create(const struct mr_fake_options *options);
void mr_fake_model_destroy(struct mr_fake_model *fake);
struct mr_model_port mr_fake_model_port(struct mr_fake_model *fake);

/* The token that this model samples after tokens[0, count), computed from the tokens alone. */
uint32_t mr_fake_next(const struct mr_fake_model *fake, const uint32_t *tokens, uint32_t count,
                      float temperature, uint64_t seed);
/* Adds the hidden state of the last of tokens[0, count) to `sums`. */
void mr_fake_add_hidden(const uint32_t *tokens, uint32_t count, double sums[MR_FAKE_HIDDEN]);
/* The log-probability that this model reports for a given `token` after tokens[0, count). */
float mr_fake_logprob(const struct mr_fake_model *fake, const uint32_t *tokens, uint32_t count,
                      uint32_t token);

#endif
