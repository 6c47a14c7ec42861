/* rope_table - the tables of the rotary position embedding (Su et al., "RoFormer", 2021): for
 * position p and pair i the sine and cosine of the angle p * theta^(-2i / rotary_dim), with the
 * frequency scaling of the model applied.
 *
 * Angles are computed in single precision as in the reference implementation, so that results agree
 * at large positions. Owner: the model; engine thread. Memory: two tables [position][rotary_dim /
 * 2], allocated in _create. */
#ifndef MR_OPS_ROPE_TABLE_H
#define MR_OPS_ROPE_TABLE_H

#include "ops/files/model_config.h"

struct mr_rope_table {
    float *cos, *sin;
    uint32_t position_count;
};

/* divisors: [rotary_dim / 2] numbers by which the frequencies are divided (rope_freqs.weight of
 * GGUF), or NULL for none. Errors: MR_NOMEM. */
enum mr_status mr_rope_table_create(struct mr_rope_table *out, const struct mr_rope_config *config,
                                    const float *divisors, uint32_t position_count,
                                    struct mr_error *err);
void mr_rope_table_destroy(struct mr_rope_table *table);

#endif
