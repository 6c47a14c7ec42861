#include "batching/model_port.h"

static enum mr_status forward(void *context, const struct mr_batch *batch, struct mr_error *err)
{
    return mr_model_forward(context, batch, err);
}

static enum mr_status sample(void *context, const struct mr_sample_row *rows, uint32_t count,
                             struct mr_sample *samples, struct mr_error *err)
{
    return mr_model_sample(context, rows, count, samples, err);
}

static enum mr_status logits(void *context, uint32_t row, float *out, struct mr_error *err)
{
    return mr_model_logits(context, row, out, err);
}

static void kv_copy(void *context, uint32_t from, uint32_t to, uint32_t token_count)
{
    mr_model_kv_copy(context, from, to, token_count);
}

struct mr_model_port mr_model_port_of(struct mr_model *model, uint64_t (*clock_ns)(void *context))
{
    return (struct mr_model_port){
        .context = model,
        .vocab_size = mr_model_info(model)->vocab_size,
        .forward = forward,
        .sample = sample,
        .logits = logits,
        .kv_copy = kv_copy,
        .clock_ns = clock_ns,
    };
}
