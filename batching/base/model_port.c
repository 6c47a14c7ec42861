#include "batching/base/model_port.h"

static enum mr_status launch(void *context, const struct mr_model_step *step, struct mr_error *err)
{
    return mr_model_launch(context, step, err);
}

static enum mr_status collect(void *context, struct mr_error *err)
{
    return mr_model_collect(context, err);
}

static enum mr_status logits(void *context, uint32_t row, float *out, struct mr_error *err)
{
    return mr_model_logits(context, row, out, err);
}

static enum mr_status hidden(void *context, uint32_t index, float *out, struct mr_error *err)
{
    (void)err;
    mr_model_hidden(context, index, out);
    return MR_OK;
}

static void kv_copy(void *context, struct mr_kv_place from, struct mr_kv_place to,
                    uint32_t token_count)
{
    mr_model_kv_copy(context, from, to, token_count);
}

static size_t kv_bytes(void *context, uint32_t token_count)
{
    return mr_model_kv_export_bytes(context, token_count);
}

static enum mr_status kv_export(void *context, struct mr_kv_place place, uint32_t token_count,
                                void *bytes)
{
    size_t size = mr_model_kv_export_bytes(context, token_count);
    return mr_model_kv_export(context, place, token_count, bytes, size, NULL);
}

static enum mr_status kv_import(void *context, struct mr_kv_place place, uint32_t token_count,
                                const void *bytes)
{
    size_t size = mr_model_kv_export_bytes(context, token_count);
    return mr_model_kv_import(context, place, token_count, bytes, size, NULL);
}

static void state_copy(void *context, uint32_t from, uint32_t to)
{
    mr_model_state_copy(context, from, to);
}

static void *kv_bytes_of(void *context, uint32_t block)
{
    return mr_model_kv_bytes_of(context, block);
}

struct mr_model_port mr_model_port_of(struct mr_model *model, uint64_t (*clock_ns)(void *context))
{
    const uint32_t steps_ahead = mr_model_steps_ahead(model);
    return (struct mr_model_port){
        .context = model,
        .vocab_size = mr_model_info(model)->vocab_size,
        .steps_ahead = steps_ahead,
        .launch = launch,
        .collect = collect,
        .logits = logits,
        .hidden = hidden,
        .hidden_size = mr_model_info(model)->hidden_size,
        .pooling = mr_model_info(model)->pooling,
        .heads = mr_model_info(model)->heads,
        .whole_prompts = mr_model_info(model)->both_ways,
        .kv_bytes = kv_bytes,
        .kv_export = kv_export,
        .kv_import = kv_import,
        .kv_bytes_of = steps_ahead > 1 ? NULL : kv_bytes_of,
        .layer_count = mr_model_info(model)->layer_count,
        .kv_copy = kv_copy,
        .state_copy = state_copy,
        .clock_ns = clock_ns,
    };
}
