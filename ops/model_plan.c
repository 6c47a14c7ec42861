#include "ops/model_plan.h"

#include "ops/files/model_source.h"
#include "ops/kv_groups.h"
#include "ops/weights.h"

/* Bytes of the weights when tensors keep the integers that they are stored in and the others become
 * bf16; 0 if no tensor is stored in such integers. */
static uint64_t stored_weight_bytes(const struct mr_tensor_table *tensors)
{
    uint64_t bytes = 0;
    bool any = false;
    for (uint32_t i = 0; i < tensors->count; i++) {
        const struct mr_stored_tensor *tensor = &tensors->entries[i];
        const uint32_t width = tensor->dim_count > 0 ? tensor->dim_count - 1 : 0;
        const uint64_t count = mr_stored_tensor_rows(tensor) * tensor->dims[width];
        const bool integers = mr_quant_format_of(tensor->storage) != MR_QUANT_NONE;
        const bool repacked = tensor->quantized && mr_quantized_fits_q4_1(tensor->quantized);
        any |= integers || repacked;
        bytes += integers   ? tensor->size_bytes
                 : repacked ? count / mr_storage_block_numbers(MR_STORAGE_Q4_1) *
                                  mr_storage_block_bytes(MR_STORAGE_Q4_1)
                            : count * sizeof(uint16_t);
    }
    return any ? bytes : 0;
}

/* Sets the bytes of all weights and their dtype. Norms and other vectors count as linear layers do,
 * they are few. */
static void plan_weights(struct mr_model_plan *plan, const struct mr_model_source *source,
                         enum mr_dtype dtype, const struct mr_backend *backend)
{
    const struct mr_model_config *c = &source->config;
    const uint64_t count = plan->parameter_count, table = (uint64_t)c->vocab_size * c->hidden_size;
    const uint64_t tables = c->tied_head ? table : 2 * table;
    const bool stores = dtype == MR_DTYPE_AUTO && backend->integer_weights;
    plan->weight_bytes = stores ? stored_weight_bytes(source->tensors) : 0;
    plan->dtype = "the file's own 4 to 8 bits";
    if (plan->weight_bytes > 0) return;
    switch (dtype) {
    case MR_DTYPE_F32:
        plan->dtype = "fp32";
        plan->weight_bytes = count * sizeof(float);
        break;
    case MR_DTYPE_INT8:
        plan->dtype = "int8";
        plan->weight_bytes = count;
        break;
    case MR_DTYPE_INT4: /* 18 bytes for 32 weights; the tables are int8 */
        plan->dtype = "int4";
        plan->weight_bytes = tables + (count - tables) * 18 / 32;
        break;
    default:
        plan->dtype = dtype == MR_DTYPE_F16 ? "fp16" : "bf16";
        plan->weight_bytes = count * sizeof(uint16_t);
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
    plan_weights(&plan, source, options->dtype, compute.backend);
    const struct mr_kv_groups_spec kv = {
        .config = config,
        .step_tokens = options->rows_max,
        .kv_bytes =
            mr_kv_groups_pool_bytes(options->kv_bytes, options->memory_bytes, plan.weight_bytes),
        .int8 = options->kv_int8};
    mr_kv_groups_plan(&groups, &compute, &kv);
    plan.kv_dtype = options->kv_int8 ? "int8" : mr_number_name(compute.number);
    plan.kv_bytes_per_token = groups.block_bytes / MR_BLOCK_TOKENS;
    plan.kv_pool_bytes = groups.pool_bytes;
    plan.pool_tokens = (uint64_t)groups.block_count * MR_BLOCK_TOKENS;
    plan.context_tokens = plan.pool_tokens < config->context_tokens ? (uint32_t)plan.pool_tokens
                                                                    : config->context_tokens;
    *out = plan;
    return MR_OK;
}
