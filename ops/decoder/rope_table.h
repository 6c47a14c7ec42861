/* rope_table - the tables of the rotary position embedding (Su et al., "RoFormer", 2021): for
 * position p and pair i the sine and cosine of the angle p * f(i), with f(i) = theta^(-2i /
 * rotary_dim), changed by the kind of scaling (struct mr_rope_config):
 *     LINEAR  f / factor
 *     LLAMA3  f / factor for long wavelengths, f for short ones, blended between (Llama 3.1)
 *     YARN    f / factor for pairs that turn less than beta_slow times in the original context, f
 *             for those that turn more than beta_fast times, blended between (Peng et al., 2023)
 *     LONG    f / divisor of the pair; the divisors for long contexts are used when the table has
 *             more positions than the original context (Ding et al., 2024)
 * Sines and cosines are multiplied by attention_factor, those of LONG with divisors for long
 * contexts by long_attention_factor. With a temperature, q of position p is also multiplied by 1 +
 * temperature * ln(1 + floor(p / temperature_tokens)).
 *
 * Angles are computed in single precision as in the reference implementation, so that results agree
 * at large positions. Owner: the model; engine thread. Memory: two tables [position][rotary_dim /
 * 2] and one of [position], allocated in _create. */
#ifndef MR_OPS_DECODER_ROPE_TABLE_H
#define MR_OPS_DECODER_ROPE_TABLE_H

#include "ops/families/model_config.h"

struct mr_rope_table {
    float *cos, *sin;
    float *q_scales; /* [position_count] factors of q; NULL: no temperature */
    uint32_t rotary_dim, position_count;
};

/* True when a table of position_count positions uses the divisors for long contexts. */
bool mr_rope_table_is_long(const struct mr_rope_config *config, uint32_t position_count);
/* Errors: MR_NOMEM. */
enum mr_status mr_rope_table_create(struct mr_rope_table *out, const struct mr_rope_config *config,
                                    uint32_t position_count, struct mr_error *err);
/* Destroying a zeroed table does nothing. */
void mr_rope_table_destroy(struct mr_rope_table *table);

#endif
