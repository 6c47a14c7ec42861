/* load_gate - decides whether a prefix is ready sooner by loading it from the tier, by computing
 * it, or by both at once.
 *
 * A prompt of which the tier has the first blocks can be computed from its begin while it is loaded
 * from its end ("Compute Or Load KV Cache? Why Not Both?", Jin et al. 2024). For every block at
 * which the loaded part may begin, the time to the end of the prompt is
 *     max(compute up to it, load from it on) + compute what the tier does not have
 * The cost model predicts the computing, the tier's measured rates the loading. The best one is
 * used when it beats computing everything by a margin, so that two equally good ways do not
 * alternate. Computing takes cores from the load, and the load slows the computing. So doing both
 * must be clearly faster than loading everything and than computing everything; otherwise slow
 * loads would make the gate compute more, which slows loads further.
 * When the engine has other work meanwhile, a load that takes no longer than computing costs only
 * its import, so all of it is loaded.
 *
 * Before the first measurement everything is loaded with a short patience, which measures the tier.
 * When computing was faster, the tier is measured again from time to time (question.probe) by a
 * load that prefill does not wait for: what lies behind the blocks, or else the last block.
 *
 * Pure arithmetic. Threads: any. Memory, errors: none. Units: ms where a name says so. */
#ifndef MR_BATCHING_CACHE_LOAD_GATE_H
#define MR_BATCHING_CACHE_LOAD_GATE_H

#include "batching/base/cost_model.h"
#include "kvcache/kv_cache.h"

#define MR_LOAD_TOKENS_MIN 32u  /* fewer tokens are not worth a round trip */
#define MR_LOAD_TRIAL_MS   15.0 /* patience with a tier that was never measured */
#define MR_LOAD_STALL_MS   25.0 /* patience with a tier that sends nothing */

enum mr_load_verdict {
    MR_LOAD_ALL,    /* load everything that is not computed */
    MR_LOAD_BACK,   /* load the last blocks, compute the first ones meanwhile */
    MR_LOAD_TRIAL,  /* rates unknown: load everything with a short patience */
    MR_LOAD_PROBE,  /* computing is faster; load one item to measure the tier again */
    MR_LOAD_SLOWER, /* computing is faster */
    MR_LOAD_SHORT,  /* not worth a round trip */
    MR_LOAD_DOWN,   /* the tier cannot be reached */
    MR_LOAD_VERDICT_COUNT
};

struct mr_load_question {
    const struct mr_cost_model *cost;
    struct mr_tier_rates rates;
    uint32_t computed_tokens; /* tokens that have KV already */
    uint32_t known_tokens;    /* tokens that need KV before the next one can be sampled */
    uint32_t found_blocks;    /* the tier has blocks [0, found_blocks) of the sequence */
    uint64_t block_bytes;
    uint64_t extra_bytes;  /* of pieces and entry behind these blocks; 0: none */
    uint32_t extra_tokens; /* tokens that have KV once all blocks and the extra are loaded */
    uint32_t chunk_tokens; /* largest prefill chunk; 0: no chunking */
    double import_ms;      /* of one block, on the engine thread */
    bool busy;             /* the engine has other work */
    bool probe;            /* the last measurement is old */
};

struct mr_load_answer {
    enum mr_load_verdict verdict;
    uint32_t first_block; /* load blocks [first_block, found_blocks) */
    bool extra;           /* and what lies behind them */
    double patience_ms;   /* how long prefill waits for the first item */
    double saved_ms;      /* predicted */
};

/* How long prefill waits for the next item, by the measured rate. */
double mr_load_gate_patience_ms(const struct mr_tier_rates *rates, uint64_t block_bytes);
struct mr_load_answer mr_load_gate_decide(const struct mr_load_question *question);
/* The verdict loads something. */
bool mr_load_verdict_loads(enum mr_load_verdict verdict);
/* The verdict as a metric label. */
const char *mr_load_verdict_name(enum mr_load_verdict verdict);

#endif
