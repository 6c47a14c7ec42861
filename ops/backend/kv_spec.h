/* kv_spec - what a KV pool and a rotary embedding hold (ops/backend/backend.h).
 *
 * Memory: pointers are borrowed for the call unless a comment says otherwise. */
#ifndef MR_OPS_BACKEND_KV_SPEC_H
#define MR_OPS_BACKEND_KV_SPEC_H

#include "ops/backend/device.h"

#include <stdbool.h>
#include <stdint.h>

struct mr_rope_spec {
    /* [position_count][rotary_dim / 2], borrowed as long as the rope exists. Number i of a head is
     * paired with number i + rotary_dim / 2. */
    const float *cos, *sin, *q_scales; /* q_scales: [position_count] factors of q, or NULL */
    uint32_t rotary_dim, position_count;
};

struct mr_kv_spec {
    uint32_t layer_count, kv_head_count, head_dim, block_count;
    enum mr_number number; /* that attention computes with */
    /* For backends with int8_kv: K and V are kept as 8-bit integers with a scale for each token,
     * head and K or V, instead of numbers of the device. */
    bool int8;
    /* The pool has no V: the V of a token is the first value_dim numbers of its K (latent
     * attention). A multiple of 16; 0: V has head_dim numbers of its own. */
    uint32_t value_dim;
};

/* Tokens [first, first + token_count) of a block, first a multiple of 16, in a stored form: the
 * pool's own, or (`int8`) int8 with a scale for each token, head and K or V. */
struct mr_kv_span {
    uint32_t block, first, token_count;
    bool int8;
};

#endif
