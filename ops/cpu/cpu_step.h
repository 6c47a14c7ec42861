/* cpu_step - the buffers of a step in host memory, and the operations of the CPU backend on them.
 * ops/backend/backend.h describes each operation. */
#ifndef MR_OPS_CPU_CPU_STEP_H
#define MR_OPS_CPU_CPU_STEP_H

#include "ops/backend/latent.h"
#include "ops/backend/mixers.h"

enum mr_status mr_cpu_step_create(struct mr_compute *compute, struct mr_step **out,
                                  const struct mr_step_spec *spec, struct mr_error *err);
void mr_cpu_step_destroy(struct mr_step *step);
uint64_t mr_cpu_step_bytes(const struct mr_step *step);
void mr_cpu_step_stage(struct mr_step *step, const uint32_t *token_ids, uint32_t rows,
                       const struct mr_step_sequence *sequences, uint32_t count,
                       const struct mr_fed_rows *fed);
void mr_cpu_step_keep(struct mr_step *step, const uint32_t *rows,
                      const struct mr_step_sequence *sequences, uint32_t count);
void mr_cpu_step_embed(struct mr_step *step, const struct mr_linear *table, float scale);
void mr_cpu_step_embed_positions(struct mr_step *step, const struct mr_vector *table,
                                 uint32_t types_at);
void mr_cpu_step_norm_residual(struct mr_step *step, const struct mr_norm *norm, uint32_t rows);
void mr_cpu_step_norm(struct mr_step *step, const struct mr_norm *norm, uint32_t rows);
void mr_cpu_step_norm_add(struct mr_step *step, const struct mr_norm *norm, uint32_t rows);
void mr_cpu_step_linear(struct mr_step *step, const struct mr_linear *linear,
                        enum mr_step_buffer from, uint32_t rows, enum mr_epilogue epilogue,
                        enum mr_step_buffer to);
void mr_cpu_step_rope_write(struct mr_step *step, const struct mr_attention *attention);
void mr_cpu_step_attend(struct mr_step *step, const struct mr_attention *attention);
void mr_cpu_step_norm_queries(struct mr_step *step, const struct mr_latent *latent, uint32_t rows);
void mr_cpu_step_latent_write(struct mr_step *step, const struct mr_latent *latent);
void mr_cpu_step_latent_attend(struct mr_step *step, const struct mr_latent *latent);
void mr_cpu_step_mix(struct mr_step *step, const struct mr_mixer *mixer);
void mr_cpu_step_gate_attended(struct mr_step *step, uint32_t rows);
void mr_cpu_step_experts(struct mr_step *step, const struct mr_expert_layer *layer, uint32_t rows);
void mr_cpu_step_add_switched(struct mr_step *step, const struct mr_linear *linear, uint32_t rows);
void mr_cpu_step_softcap(struct mr_step *step, float cap, uint32_t rows);
enum mr_status mr_cpu_step_finish(struct mr_step *step, struct mr_error *err);
const float *mr_cpu_step_logits(struct mr_step *step, uint32_t row, struct mr_error *err);
void mr_cpu_step_sum_normed(struct mr_step *step, uint32_t row, uint32_t count, float *out);

#endif
