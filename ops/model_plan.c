#include "ops/model_plan.h"

#include "ops/files/model_source.h"
#include "ops/kv_groups.h"
#include "ops/weights.h"

/* Bytes of all weights: norms and other vectors count as linear layers do, they are few. */
static uint64_t weight_bytes(const struct mr_model_source *source, enum mr_dtype dtype,
                             uint64_t parameter_count)
{
    const struct mr_model_config *c = &source->config;
    const uint64_t table = (uint64_t)c->vocab_size * c->hidden_size;
    const uint64_t tables = c->tied_head ? table : 2 * table;
    uint64_t bytes = 0;
    switch (dtype) {
    case MR_DTYPE_F32:
        return parameter_count * sizeof(float);
    case MR_DTYPE_INT8:
        return parameter_count;
    case MR_DTYPE_INT4: /* 18 bytes for 32 weights; the tables are int8 */
        return tables + (parameter_count - tables) * 18 / 32;
    case MR_DTYPE_AUTO:
        for (uint32_t i = 0; i < source->tensors->count; i++) {
            const struct mr_stored_tensor *tensor = &source->tensors->entries[i];
            const bool integers = mr_quant_format_of(tensor->storage) != MR_QUANT_NONE;
            bytes += integers
                         ? tensor->size_bytes
                         : mr_stored_tensor_rows(tensor) *
                               tensor->dims[tensor->dim_count > 0 ? tensor->dim_count - 1 : 0] *
                               sizeof(uint16_t);
        }
        return bytes;
    default:
        return parameter_count * sizeof(uint16_t);
    }
}

enum mr_status mr_model_plan_make(struct mr_model_plan *out, const struct mr_model_source *source,
                                  const struct mr_model_options *options, struct mr_error *err)
{
    const struct mr_model_config *config = &source->config;
    struct mr_compute compute;
    const struct mr_weights_spec spec = {
        .config = config, .tensors = source->tensors, .gguf_names = source->gguf_names};
    struct mr_model_plan plan = {0};
    struct mr_kv_groups groups;
    *out = plan;
    enum mr_status status = mr_model_compute(options, &compute, err);
    if (status == MR_OK) status = mr_weights_check(&spec, &plan.parameter_count, err);
    if (status != MR_OK) return status;
    for (uint32_t i = 0; i < source->tensors->count; i++)
        plan.stored_bytes += source->tensors->entries[i].size_bytes;
    const bool floats = options->dtype == MR_DTYPE_AUTO && !compute.backend->integer_weights;
    plan.weight_bytes =
        weight_bytes(source, floats ? MR_DTYPE_BF16 : options->dtype, plan.parameter_count);
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
