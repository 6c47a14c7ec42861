/* fleet_rig - two engines over fake models that share a fake remote cache, so that each can load KV
 * that the other has computed. All prompts begin with the same tokens; `ending` selects how a
 * prompt ends.
 *
 * Owner: the test. Memory: freed by _end. Errors: asserted. */
#ifndef MR_TESTS_FAKES_FLEET_RIG_H
#define MR_TESTS_FAKES_FLEET_RIG_H

#include "tests/fakes/engine_rig.h"

#define FLEET_ANSWER     16u /* tokens of each answer */
#define FLEET_PROMPT_MAX (8u * MR_BLOCK_TOKENS)

/* Tokens in this many 256ths of a block. */
#define FLEET_PART(parts) ((parts)*MR_BLOCK_TOKENS / 256u)

/* A fast remote cache: computing a block takes tens of milliseconds, loading it less than 0.1 ms.
 */
extern const struct fake_remote_options fleet_fast;

struct fleet {
    struct fake_remote *remotes[2];
    struct engine_rig rigs[2];
    uint32_t next_ticket[2];
};

struct fleet_kind {
    bool remote;    /* the remote cache cannot reach the pool */
    bool no_logits; /* no prompt cache */
};

void fleet_start_as(struct fleet *fleet, struct fleet_kind kind,
                    const struct fake_remote_options *first,
                    const struct fake_remote_options *second);
void fleet_start(struct fleet *fleet, const struct fake_remote_options *first,
                 const struct fake_remote_options *second);
void fleet_end(struct fleet *fleet);

/* A prompt of count tokens, the first `shared` of them the same for every ending. */
void fleet_prompt(const struct engine_rig *rig, uint32_t *tokens, uint32_t shared, uint32_t count,
                  uint64_t ending);

struct fleet_spec {
    uint32_t shared, count;
    uint64_t ending;
    const char *tenant, *session;
    bool no_read;
};

/* Runs one request to its end and asserts its answer. The rig owns the returned object. */
const struct rig_seen *fleet_run(struct fleet *fleet, uint32_t worker, struct fleet_spec spec);
/* Steps until the remote cache has no work left for this engine. */
void fleet_drain_remote(struct fleet *fleet, uint32_t worker);
struct mr_remote_prefix_stats fleet_stats(const struct fleet *fleet, uint32_t worker);

#endif
