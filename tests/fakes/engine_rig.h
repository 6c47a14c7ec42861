/* engine_rig - an engine over the fake model, with a sink that records all output, for tests.
 *
 * Change rig.options and rig.fake_options between _init and _start. rig.seen is indexed by ticket.
 * It has the streamed tokens of a request and those of its result.
 *
 * Owner: the test. Memory: freed by _end; nothing is allocated while the engine steps. */
#ifndef MR_TESTS_FAKES_ENGINE_RIG_H
#define MR_TESTS_FAKES_ENGINE_RIG_H

#include "batching/engine/engine.h"
#include "tests/fakes/fake_model.h"
#include "tests/fakes/fake_remote.h"
#include "tests/fakes/fake_request.h"
#include "worker/ticket/engine_port.h"

#define RIG_BLOCKS(tokens) ((tokens) / MR_BLOCK_TOKENS)
#define RIG_TICKETS_MAX    256u
#define RIG_TOKENS_MAX     512u
#define RIG_CHUNKS_MAX     64u
#define RIG_SCORES_MAX     2048u

struct rig_choice {
    enum mr_finish finish;
    uint32_t tokens[RIG_TOKENS_MAX], token_count, completion_tokens;
    uint32_t streamed[RIG_TOKENS_MAX], streamed_count;
    uint32_t deltas, ended;          /* ended: records that end the text */
    size_t text_bytes, before_bytes; /* text_bytes: of all records; before_bytes: of the text before
                                        the first record */
};

/* The log-probability of a token of the prompt. */
struct rig_score {
    uint32_t token_id, top_count;
    float logprob;
};

struct rig_seen {
    uint32_t asked, started, results;       /* asked: calls of may_start */
    struct mr_sample drawn[RIG_TOKENS_MAX]; /* of choice 0 */
    uint32_t drawn_from, drawn_end;         /* [drawn_from, drawn_end) were drawn here */
    uint32_t resumed;                       /* records with resumed_at: at most one */
    uint32_t order;                         /* of the results: 1 for the first */
    struct rig_choice choices[MR_CHOICES_MAX];
    uint32_t choice_count;
    struct mr_chunk chunks[RIG_CHUNKS_MAX];
    uint32_t chunk_count;
    /* [result.prompt_logprob_count], from 1 on; or of all tokens of all continuations */
    struct rig_score scores[RIG_SCORES_MAX];
    size_t continuation_tokens[MR_CONTINUATIONS_MAX]; /* [result.score_count] */
    float embedding[MR_FAKE_HIDDEN];                  /* [result.embedding_size] */
    struct mr_result result;                          /* numbers only; its pointers are invalid */
};

struct engine_rig {
    struct mr_engine_options options;
    struct mr_fake_options fake_options;
    struct mr_fake_model *fake;
    struct mr_tokenizer *tokenizer;
    struct fake_remote *remote; /* borrowed; NULL: none */
    struct mr_engine *engine;
    struct rig_seen *seen; /* [RIG_TICKETS_MAX] */
    uint32_t result_count;
    uint64_t step_count;
    bool hold_starts; /* no request may start */
};

/* A pool of 8192 tokens, context 2048, 8 sequences, chunk 512, 64 scored rows, prefix cache, no
 * prompt cache, end id 0. */
void rig_init(struct engine_rig *rig);
void rig_start(struct engine_rig *rig);
/* The same with a sink of the caller, which gets the results instead of the rig. */
void rig_start_with(struct engine_rig *rig, const struct mr_sink *sink);
/* The engine as intake uses it. It never signals a wake. */
struct mr_engine_port rig_port(struct engine_rig *rig);
/* Submits at the fake's current time. Destroys the request if the engine rejects it. */
enum mr_status rig_submit(struct engine_rig *rig, uint64_t ticket, struct mr_request *request);
enum mr_status rig_submit_as(struct engine_rig *rig, struct mr_submission submission);
/* Submits a prompt of random tokens, which follow from salt, for an answer of exactly output
 * tokens. The ticket is the id. The engine must accept the request. */
void rig_submit_prompt(struct engine_rig *rig, uint64_t ticket, uint32_t tenant, uint64_t salt,
                       uint32_t prompt, uint32_t output);
/* Runs one step, then advances time until there is work again. False: the engine is idle. */
bool rig_step(struct engine_rig *rig);
/* Steps until idle; asserts the engine's invariants after each. */
void rig_run(struct engine_rig *rig);
/* The engine may be busy or idle. */
void rig_end(struct engine_rig *rig);

/* count tokens in [2, vocabulary), the same for the same salt. */
void rig_tokens(const struct engine_rig *rig, uint64_t salt, uint32_t *tokens, uint32_t count);
/* The count tokens that the fake model generates for this prompt, greedily, ignoring end ids. */
void rig_expect(const struct engine_rig *rig, const uint32_t *prompt, uint32_t prompt_count,
                uint32_t *out, uint32_t count);

#endif
