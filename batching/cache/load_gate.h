/* load_gate - is a prefix had sooner by loading it or by computing it, and where should the two
 * meet?
 *
 * A prompt of which the tier has the first blocks can be computed from the front while it is loaded
 * from the back ("Compute Or Load KV Cache? Why Not Both?", Jin et al. 2024). For every block the
 * two could meet at, the time to the end of the prompt is
 *     max(compute the front, load the back) + compute what the tier does not have
 * with the computing predicted by the cost model and the loading by the tier's measured rates. The
 * best of them is taken when it beats computing all of it by a margin, so that two ways that are
 * equally good do not alternate. Computing takes cores from the load: a meeting that promises
 * little more than loading everything is not taken, or slow loads and meetings feed each other; nor
 * one that promises little more than computing everything, which the load slows down.
 * When the engine has other work meanwhile, a load that takes no longer than computing costs
 * nothing but its import, and all of it is loaded.
 *
 * Nothing measured yet: everything is loaded with little patience, which measures it. A tier that
 * lost a comparison is tried again after PROBE time with what is behind the blocks, or else the
 * last of them, without waiting for it.
 *
 * Pure arithmetic. Threads: any. Memory, errors: none. Units: ms where a name says so. */
#ifndef MR_BATCHING_CACHE_LOAD_GATE_H
#define MR_BATCHING_CACHE_LOAD_GATE_H

#include "batching/base/cost_model.h"
#include "kvcache/kv_cache.h"

#define MR_LOAD_TOKENS_MIN 32u  /* fewer are not worth a round trip */
#define MR_LOAD_TRIAL_MS   15.0 /* patience with a tier nothing is known about */
#define MR_LOAD_STALL_MS   25.0 /* and with one of which nothing is heard */

enum mr_load_verdict {
    MR_LOAD_ALL,    /* everything from the front's block on */
    MR_LOAD_MEET,   /* the back; the front is computed meanwhile */
    MR_LOAD_TRIAL,  /* rates unknown: load all of it, wait a little */
    MR_LOAD_PROBE,  /* computing is faster; the last item is loaded to measure anew */
    MR_LOAD_SLOWER, /* computing is faster */
    MR_LOAD_SHORT,  /* not worth a round trip */
    MR_LOAD_DOWN,   /* the tier cannot be reached */
    MR_LOAD_VERDICT_COUNT
};

struct mr_load_question {
    const struct mr_cost_model *cost;
    struct mr_tier_rates rates;
    uint32_t computed_tokens; /* the front */
    uint32_t known_tokens;    /* what must be there before a token can be drawn */
    uint32_t there_blocks;    /* the tier has blocks [0, there_blocks) of the sequence */
    uint64_t block_bytes;
    uint64_t extra_bytes;  /* of what there is behind these blocks; 0: nothing */
    uint32_t extra_tokens; /* tokens that need no computing once it is loaded with all blocks */
    uint32_t chunk_tokens; /* largest prefill chunk; 0: no chunking */
    double import_ms;      /* of one block, on the engine thread */
    bool busy;             /* the engine has other work */
    bool probe;            /* the last measurement is old */
};

struct mr_load_answer {
    enum mr_load_verdict verdict;
    uint32_t first_block; /* blocks [first_block, there_blocks) are to be loaded */
    bool extra;           /* and what is behind them */
    double patience_ms;   /* without an item arriving, before the front goes on */
    double saved_ms;      /* predicted */
};

/* How long the next item may take, as fast as the tier was so far, before something is amiss. */
double mr_load_gate_patience_ms(const struct mr_tier_rates *rates, uint64_t block_bytes);
struct mr_load_answer mr_load_gate_decide(const struct mr_load_question *question);
/* Does this verdict load anything? */
bool mr_load_verdict_loads(enum mr_load_verdict verdict);
/* "load_all", "meet" ...: for metrics. */
const char *mr_load_verdict_name(enum mr_load_verdict verdict);

#endif
