#include "ops/model_plan.h"

#include "ops/cpu_backend/cpu_backend.h"
#include "ops/files/model_source.h"
#include "ops/kv_groups.h"
#include "ops/weights.h"

enum mr_status mr_model_plan_make(struct mr_model_plan *out, const struct mr_model_source *source,
                                  const struct mr_model_options *options, struct mr_error *err)
{
    const struct mr_model_config *config = &source->config;
    const struct mr_compute compute = {
        &mr_cpu_backend, options->dtype == MR_DTYPE_F32 ? MR_NUMBER_F32 : MR_NUMBER_BF16};
    const struct mr_weights_spec spec = {
        .config = config, .tensors = source->tensors, .gguf_names = source->gguf_names};
    struct mr_model_plan plan = {0};
    struct mr_kv_groups groups;
    *out = plan;
    enum mr_status status = mr_weights_check(&spec, &plan.parameter_count, err);
    if (status != MR_OK) return status;
    for (uint32_t i = 0; i < source->tensors->count; i++)
        plan.stored_bytes += source->tensors->entries[i].size_bytes;
    plan.weight_bytes = plan.parameter_count * mr_number_bytes(compute.number);
    mr_kv_groups_plan(
        &groups, &compute, config, options->rows_max,
        mr_kv_groups_pool_bytes(options->kv_bytes, options->memory_bytes, plan.weight_bytes));
    plan.kv_bytes_per_token = groups.block_bytes / MR_BLOCK_TOKENS;
    plan.kv_pool_bytes = groups.pool_bytes;
    plan.pool_tokens = (uint64_t)groups.block_count * MR_BLOCK_TOKENS;
    plan.context_tokens = plan.pool_tokens < config->context_tokens ? (uint32_t)plan.pool_tokens
                                                                    : config->context_tokens;
    *out = plan;
    return MR_OK;
}
