/* state_pool - the states of recurrent layers (ops/mixer/mixer_shape.h): slots, each with the
 * states of all recurrent layers of one sequence after some number of tokens. The pool records that
 * number for each slot: a state serves only the token that follows.
 *
 * Owner:  engine thread. Memory: in _create; pages become resident on first use.
 * Errors: _create: those of the backend. */
#ifndef MR_OPS_DECODER_STATE_POOL_H
#define MR_OPS_DECODER_STATE_POOL_H

#include "ops/backend/mixers.h"
#include "ops/families/model_config.h"

struct mr_state_pool {
    const struct mr_backend *backend;
    struct mr_states *states;
    uint32_t slot_count, layer_count;
    size_t slot_bytes;
    uint32_t *tokens; /* [slot_count] tokens that the state has seen; UINT32_MAX: unknown */
    uint64_t *steps;  /* [slot_count] number of the last step that used the slot */
    uint64_t step;    /* number of the newest step */
};

/* Returns the bytes of a slot; 0: the model has no recurrent layers. */
size_t mr_state_pool_slot_bytes(const struct mr_model_config *config);
/* Returns the slots of a model's pool, and subtracts their bytes from those of KV: one for each
 * running sequence, and as many or 15 % of the bytes for snapshots; but at most half of the bytes,
 * and at least one slot. 0: the model has no recurrent layers. */
uint32_t mr_state_pool_divide(const struct mr_model_config *config, uint32_t running,
                              uint64_t *kv_bytes);
/* slot_count 0: an empty pool, without memory. */
enum mr_status mr_state_pool_create(struct mr_state_pool *out, struct mr_compute *compute,
                                    const struct mr_model_config *config, uint32_t slot_count,
                                    struct mr_error *err);
/* Destroying a zeroed pool does nothing. */
void mr_state_pool_destroy(struct mr_state_pool *pool);

/* Call _begin when a step begins, then _advance for each sequence of which the step computes `rows`
 * tokens after its first `context` tokens. Asserts that the slot has the state after `context`
 * tokens (without context any slot will do), and that it has one sequence in the step. */
void mr_state_pool_begin(struct mr_state_pool *pool);
void mr_state_pool_advance(struct mr_state_pool *pool, uint32_t slot, uint32_t context,
                           uint32_t rows);
void mr_state_pool_copy(struct mr_state_pool *pool, uint32_t from, uint32_t to);
/* bytes: slot_bytes. `tokens` of _import: those that the state has seen. */
void mr_state_pool_export(const struct mr_state_pool *pool, uint32_t slot, void *bytes);
void mr_state_pool_import(struct mr_state_pool *pool, uint32_t slot, uint32_t tokens,
                          const void *bytes);

#endif
