#include "ops/model/model_plan.h"

#include "ops/decoder/kv_groups.h"
#include "ops/decoder/state_pool.h"
#include "ops/files/model_source.h"
#include "ops/model/device_choice.h"
#include "ops/weights/weights.h"

static const char *dtype_name(enum mr_dtype dtype, bool quantized)
{
    switch (dtype) {
    case MR_DTYPE_F32:
        return "fp32";
    case MR_DTYPE_F16:
        return "fp16";
    case MR_DTYPE_INT8:
        return "int8";
    case MR_DTYPE_INT4:
        return "int4";
    default:
        return quantized ? "the file's own 4 to 8 bits" : "bf16";
    }
}

static uint64_t pool_bytes(const struct mr_model_plan *plan, const struct mr_model_options *options)
{
    if (plan->device_bytes == 0 || options->memory_bytes == 0)
        return mr_kv_groups_pool_bytes(options->kv_bytes, options->memory_bytes,
                                       plan->weight_bytes);
    return plan->device_bytes > plan->weight_bytes
               ? mr_kv_groups_device_pool_bytes(plan->device_bytes - plan->weight_bytes)
               : 0;
}

enum mr_status mr_model_plan_make(struct mr_model_plan *out, const struct mr_model_source *source,
                                  const struct mr_model_options *options, struct mr_error *err)
{
    const struct mr_model_config *config = &source->config;
    struct mr_compute compute;
    const struct mr_weights_spec spec = {.config = config,
                                         .tensors = source->tensors,
                                         .gguf_names = source->gguf_names,
                                         .compute = &compute,
                                         .numbers = mr_weight_numbers_of(options->dtype)};
    struct mr_weights_size size;
    struct mr_model_plan plan = {.context_asked = options->context_tokens};
    struct mr_kv_groups groups;
    *out = plan;
    enum mr_status status = mr_model_compute(options, &compute, err);
    if (status == MR_OK) status = mr_weights_check(&spec, &size, err);
    if (status == MR_OK)
        status = mr_device_choice_probe(&compute, options->device, options->cuda_kernels,
                                        &plan.device_bytes, err);
    if (status != MR_OK) return status;
    for (uint32_t i = 0; i < source->tensors->count; i++)
        plan.stored_bytes += source->tensors->entries[i].size_bytes;
    plan.parameter_count = size.parameter_count;
    plan.weight_bytes = size.bytes;
    plan.dtype = dtype_name(options->dtype, size.quantized);
    struct mr_kv_groups_spec kv = {.config = config,
                                   .step_tokens = options->rows_max,
                                   .kv_bytes = pool_bytes(&plan, options),
                                   .int8 = options->kv_int8};
    plan.state_slots = mr_state_pool_divide(
        config, options->running_max > 0 ? options->running_max : options->sequences_max,
        &kv.kv_bytes);
    plan.state_bytes = mr_state_pool_slot_bytes(config);
    mr_kv_groups_plan(&groups, &compute, &kv);
    plan.kv_dtype = options->kv_int8 ? "int8" : mr_number_name(compute.number);
    plan.kv_bytes_per_token = groups.block_bytes / MR_BLOCK_TOKENS;
    plan.kv_pool_bytes = groups.pool_bytes;
    plan.pool_tokens = (uint64_t)groups.block_count * MR_BLOCK_TOKENS;
    plan.context_tokens = config->context_tokens;
    if (plan.context_asked > 0 && plan.context_asked < plan.context_tokens)
        plan.context_tokens = plan.context_asked;
    if (plan.pool_tokens < plan.context_tokens) plan.context_tokens = (uint32_t)plan.pool_tokens;
    *out = plan;
    return MR_OK;
}
