/* part_scales - the multipliers of Falcon-H1's config.json. The loader multiplies the weights by
 * them, so the decoder does not see them. GGUF files have them in the weights already.
 *
 * Threads: pure function. Memory: plain values. Errors: MR_BAD_FILE names a key without a positive
 * number. */
#ifndef MR_OPS_FAMILIES_PART_SCALES_H
#define MR_OPS_FAMILIES_PART_SCALES_H

#include "codec/status.h"
#include "codec/wire/json.h"

struct mr_part_scales {
    float attention_in, key, attention_out; /* input of q, k and v; result of k; result */
    float gate, down;          /* feed-forward network: input of the activation; result */
    float mixer_in, mixer_out; /* recurrent part: input; result */
    float mixer_rows[5];       /* results of its first layer: z, x, B, C, dt */
};

/* A key that is absent or null means 1. */
enum mr_status mr_part_scales_read(struct mr_part_scales *out, const struct mr_json_value *root,
                                   struct mr_error *err);

#endif
