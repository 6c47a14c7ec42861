/* load_gate - decides whether a prompt's prefix is ready sooner by loading its KV from the remote
 * cache, by computing it, or by both at once.
 *
 * A prompt whose first blocks are in the remote cache can be computed from its first block on while
 * it is loaded from its last found block backwards ("Compute Or Load KV Cache? Why Not Both?", Jin
 * et al. 2024). For every block at which the loaded part may begin, the time until the whole prompt
 * has KV is
 *     max(computing the blocks before it, loading the blocks from it on)
 *         + computing the tokens that the remote cache lacks
 * The cost model predicts the computing; measured rates of Redis predict the loading. The fastest
 * way is used only if it beats computing everything by a margin, so that two equally fast ways do
 * not alternate. Computing takes CPU cores from the load, and the load slows the computing. So
 * doing both must be clearly faster than loading everything and than computing everything;
 * otherwise slow loads would lead to more computing, which slows loads further. When the engine has
 * other requests to compute, a load that takes no longer than computing costs the engine only the
 * copy into the KV pool. So everything found is loaded then.
 *
 * While Redis or the steps have not been measured, everything found is loaded, and prefill waits
 * for it only briefly; this measures Redis. When computing was faster, Redis is measured again from
 * time to time (question.probe) by a load for which prefill does not wait: the pieces and the entry
 * after the full blocks, or else the last full block.
 *
 * Pure arithmetic. Threads: any. Memory, errors: none. Units: in the names. */
#ifndef MR_BATCHING_CACHE_LOAD_GATE_H
#define MR_BATCHING_CACHE_LOAD_GATE_H

#include "batching/base/cost_model.h"
#include "kvcache/kv_cache.h"

#define MR_LOAD_TOKENS_MIN 32u  /* loading fewer tokens is not worth a round trip to Redis */
#define MR_LOAD_TRIAL_MS   15.0 /* how long prefill waits while nothing was measured */
#define MR_LOAD_STALL_MS   25.0 /* how long prefill waits while Redis sends nothing */

enum mr_load_verdict {
    MR_LOAD_ALL,    /* load everything the remote cache has and prefill has not computed */
    MR_LOAD_BACK,   /* load the last blocks while prefill computes the first ones */
    MR_LOAD_TRIAL,  /* loads or steps were never measured: load everything, wait only briefly */
    MR_LOAD_PROBE,  /* computing is faster; load one value only to measure Redis again */
    MR_LOAD_SLOWER, /* computing is faster: load nothing */
    MR_LOAD_SHORT,  /* too few tokens to be worth a round trip: load nothing */
    MR_LOAD_DOWN,   /* Redis cannot be reached: load nothing */
    MR_LOAD_VERDICT_COUNT
};

struct mr_load_question {
    const struct mr_cost_model *cost;
    struct mr_remote_rates rates;
    uint32_t computed_tokens; /* tokens of the sequence that have KV already */
    uint32_t known_tokens;    /* tokens that need KV before the next token can be sampled */
    uint32_t found_blocks;    /* the remote cache has blocks [0, found_blocks) of the sequence */
    uint64_t block_bytes;
    /* bytes of the extra: the pieces and the entry (remote_prefix.h) that Redis has after these
     * blocks; 0: no extra */
    uint64_t extra_bytes;
    uint32_t extra_tokens; /* tokens that have KV once the found blocks and the extra are loaded */
    uint32_t chunk_tokens; /* largest prefill chunk; 0: no chunking */
    double import_ms; /* time to copy one loaded block into the KV pool, on the engine thread */
    bool busy;        /* other requests run or wait in the engine */
    bool probe;       /* the last load was long ago, so Redis should be measured again */
};

struct mr_load_answer {
    enum mr_load_verdict verdict;
    uint32_t first_block; /* load blocks [first_block, found_blocks) */
    bool extra;           /* also load the extra */
    double wait_ms;       /* how long prefill waits for the first loaded value */
    double saved_ms;      /* computing time that the load is predicted to save */
};

/* How long prefill waits for the next loaded value, by the measured rate of Redis. */
double mr_load_gate_wait_ms(const struct mr_remote_rates *rates, uint64_t block_bytes);
struct mr_load_answer mr_load_gate_decide(const struct mr_load_question *question);
/* True when the verdict means that something is loaded. */
bool mr_load_verdict_loads(enum mr_load_verdict verdict);
/* Name of the verdict for the label of a metric. */
const char *mr_load_verdict_name(enum mr_load_verdict verdict);

#endif
