/* mixers - the operations of a backend (ops/backend/backend.h) for models with recurrent layers
 * (ops/mixer/mixer_shape.h): a pool of states, and the layers.
 *
 * State pool: slots of floats, each with the states of all recurrent layers of one sequence. A
 * sequence without context tokens starts with states of zeros, whatever its slot has.
 *
 * Owner: engine thread. Memory: the pool, in states_create; a layer uses buffers of the step.
 * Errors: states_create returns them. */
#ifndef MR_OPS_BACKEND_MIXERS_H
#define MR_OPS_BACKEND_MIXERS_H

#include "ops/backend/backend.h"
#include "ops/mixer/mixer_shape.h"

struct mr_states; /* the state pool */

/* A recurrent layer (ops/mixer/mixer_shape.h), the layer-th of the pool. */
struct mr_mixer {
    struct mr_states *states;
    uint32_t layer;
    const struct mr_vector *taps, *bias;     /* [taps][channels], newest last; [channels] or NULL */
    const struct mr_vector *decay, *dt_bias; /* [heads]; NULL for CONV */
    const struct mr_vector *skip;            /* [heads]: SSD; else NULL */
    const struct mr_vector *norm;            /* [heads * value_dim]; NULL: no norm */
};

struct mr_mixer_ops {
    enum mr_status (*states_create)(struct mr_compute *compute, struct mr_states **out,
                                    const struct mr_mixer_shape *shape, uint32_t layer_count,
                                    uint32_t slot_count, struct mr_error *err);
    void (*states_destroy)(struct mr_states *states);
    void (*states_copy)(struct mr_states *states, uint32_t from, uint32_t to);
    /* bytes: layer_count * mr_mixer_state_floats floats, to or from the memory of the host. The
     * state must be that of steps that are finished, or of states_copy or states_import. */
    void (*states_export)(const struct mr_states *states, uint32_t slot, void *bytes);
    void (*states_import)(struct mr_states *states, uint32_t slot, const void *bytes);
    /* MR_MIXED = the layer's output for all staged rows, from MR_MIXING, which it changes, and
     * MR_MIX_GATES; moves the states of the sequences past these rows. */
    void (*mix)(struct mr_step *step, const struct mr_mixer *mixer);
    /* MR_ATTENDED *= sigmoid(MR_MIXING), of the width of MR_ATTENDED: an output gate of attention.
     */
    void (*gate_attended)(struct mr_step *step, uint32_t rows);
};

#endif
