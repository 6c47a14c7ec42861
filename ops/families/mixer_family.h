/* mixer_family - the part of a family's row (family.h) that describes its recurrent layers. */
#ifndef MR_OPS_FAMILIES_MIXER_FAMILY_H
#define MR_OPS_FAMILIES_MIXER_FAMILY_H

#include "ops/mixer/mixer_shape.h"

/* The recurrent layers of a family (ops/mixer/mixer_shape.h), and the keys of config.json with
 * their sizes. */
struct mr_mixer_family {
    enum mr_mixer_kind kind;
    const char *taps, *heads, *key_heads, *key_dim, *value_dim;
    /* The layers with attention, where config.json has no list of types: those of a list under this
     * key, and every attention_interval-th layer; 0: none. */
    const char *attention_list;
    uint32_t attention_interval;
    bool norm_after_gate;
    bool grouped_norm;   /* SSD: the norm of the gate is computed for each key head by itself */
    bool norm_keys;      /* no norm unless mamba_rms_norm is true; after the gate if
                          * mamba_norm_before_gate is false */
    bool doubled_beta;   /* DELTA: beta in (0, 2) unless linear_allow_neg_eigval is false */
    double norm_epsilon; /* of the gate's norm; 0: as in the model's other norms */
    bool with_attention; /* every layer has both, with the same input */
    bool gguf_tiled; /* GGUF files store head h next to those of other key heads: it uses key head
                      * h % key_heads */
    bool alone;      /* a layer has one part: recurrent, attention or feed-forward network */
};

#endif
