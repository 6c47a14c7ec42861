#include "ops/weights/expert_weights.h"

#include <stdlib.h>

/* The ways in which the experts of a layer are stored. */
enum storage {
    EACH,  /* three tensors for each expert */
    APART, /* a tensor of all experts for gate, for up and for down */
    FUSED, /* a tensor of all experts for gate and up, gate first, and one for down */
    MIXED, /* as FUSED, but the rows of gate and up alternate (gpt-oss) */
};

static enum storage storage_of(const struct mr_weight_loader *loader, uint32_t layer)
{
    if (mr_weight_loader_has(loader, (struct mr_weight_place){MR_WEIGHT_ALL_GATE, layer, 0}))
        return APART;
    if (!mr_weight_loader_has(loader, (struct mr_weight_place){MR_WEIGHT_ALL_GATE_UP, layer, 0}))
        return EACH;
    bool mixed = loader->spec->config->family->mixed_experts && !loader->spec->gguf_names;
    return mixed ? MIXED : FUSED;
}

/* layers: of the experts; sets number `index`. */
static enum mr_status load_gate_up(struct mr_weight_loader *loader, uint32_t layer, uint32_t index,
                                   enum storage storage, struct mr_linear **layers)
{
    const struct mr_model_config *c = loader->spec->config;
    uint32_t ffn = c->experts.ffn_size;
    struct mr_linear_plan plan = {
        .layer = layer, .index = index, .width = c->hidden_size, .share_count = 2};
    plan.experts = layers;
    plan.alternate = plan.gated = true;
    plan.stacked = storage == EACH ? 0 : c->experts.count;
    switch (storage) {
    case EACH:
        plan.shares[0] = (struct mr_share_plan){.part = MR_WEIGHT_EXPERT_GATE, .rows = ffn};
        plan.shares[1] = (struct mr_share_plan){.part = MR_WEIGHT_EXPERT_UP, .rows = ffn};
        break;
    case APART:
        plan.shares[0] = (struct mr_share_plan){.part = MR_WEIGHT_ALL_GATE, .rows = ffn};
        plan.shares[1] = (struct mr_share_plan){.part = MR_WEIGHT_ALL_UP, .rows = ffn};
        break;
    case FUSED:
        plan.shares[0] =
            (struct mr_share_plan){.part = MR_WEIGHT_ALL_GATE_UP, .rows = ffn, .all = 2 * ffn};
        plan.shares[1] = (struct mr_share_plan){
            .part = MR_WEIGHT_ALL_GATE_UP, .rows = ffn, .first = ffn, .all = 2 * ffn};
        break;
    case MIXED:
        plan.shares[0] = (struct mr_share_plan){.part = MR_WEIGHT_ALL_GATE_UP, .rows = 2 * ffn};
        plan.share_count = 1;
        plan.alternate = false;
        plan.transposed = mr_weight_loader_transposed(loader, &plan);
        break;
    }
    return mr_weight_loader_linear(loader, &plan, &layers[index]);
}

static enum mr_status load_down(struct mr_weight_loader *loader, uint32_t layer, uint32_t index,
                                enum storage storage, struct mr_linear **layers)
{
    const struct mr_model_config *c = loader->spec->config;
    enum mr_weight_part part = storage == EACH ? MR_WEIGHT_EXPERT_DOWN : MR_WEIGHT_ALL_DOWN;
    struct mr_linear_plan plan = {.layer = layer,
                                  .index = index,
                                  .stacked = storage == EACH ? 0 : c->experts.count,
                                  .width = c->experts.ffn_size,
                                  .shares = {{.part = part, .rows = c->hidden_size}},
                                  .share_count = 1,
                                  .scale = c->residual_scale,
                                  .experts = layers};
    plan.transposed = storage == MIXED && mr_weight_loader_transposed(loader, &plan);
    return mr_weight_loader_linear(loader, &plan, &layers[index]);
}

static enum mr_status load_single(struct mr_weight_loader *loader, struct mr_weight_place place,
                                  uint32_t rows, struct mr_linear **out)
{
    struct mr_linear_plan plan = {.layer = place.layer,
                                  .width = loader->spec->config->hidden_size,
                                  .shares = {{.part = place.part, .rows = rows}},
                                  .share_count = 1};
    return mr_weight_loader_linear(loader, &plan, out);
}

static enum mr_status load_shared(struct mr_weight_loader *loader, uint32_t layer,
                                  struct mr_expert_weights *to)
{
    const struct mr_model_config *c = loader->spec->config;
    uint32_t ffn = c->experts.shared_ffn_size;
    struct mr_linear_plan gate_up = {.layer = layer,
                                     .width = c->hidden_size,
                                     .shares = {{.part = MR_WEIGHT_SHARED_GATE, .rows = ffn},
                                                {.part = MR_WEIGHT_SHARED_UP, .rows = ffn}},
                                     .share_count = 2,
                                     .alternate = true,
                                     .gated = true};
    /* Granite's folders store it like the network of a model without experts. */
    const bool dense = c->family->shared_mlp && !loader->spec->gguf_names;
    for (uint32_t i = 0; dense && i < 2; i++)
        gate_up.shares[i] = (struct mr_share_plan){
            .part = MR_WEIGHT_GATE_UP, .rows = ffn, .first = i * ffn, .all = 2 * ffn};
    struct mr_linear_plan down = {
        .layer = layer,
        .width = ffn,
        .shares = {{.part = dense ? MR_WEIGHT_DOWN : MR_WEIGHT_SHARED_DOWN,
                    .rows = c->hidden_size}},
        .share_count = 1,
        .scale = c->residual_scale};
    const struct mr_weight_place place = {MR_WEIGHT_SHARED_SWITCH, layer, 0};
    enum mr_status status = mr_weight_loader_linear(loader, &gate_up, &to->shared_gate_up);
    if (status == MR_OK) status = mr_weight_loader_linear(loader, &down, &to->shared_down);
    if (status == MR_OK && !c->family->plain_shared)
        status = load_single(loader, place, 1, &to->shared_switch);
    return status;
}

enum mr_status mr_expert_weights_load(struct mr_weight_loader *loader, uint32_t layer,
                                      struct mr_expert_weights *to)
{
    uint32_t count = loader->spec->config->experts.count;
    enum storage storage = storage_of(loader, layer);
    const struct mr_weight_place router = {MR_WEIGHT_ROUTER, layer, 0};
    to->gate_up = calloc(count, sizeof(struct mr_linear *));
    to->down = calloc(count, sizeof(struct mr_linear *));
    if (!to->gate_up || !to->down)
        return mr_fail(loader->err, MR_NOMEM, "no memory for the table of %u experts", count);
    enum mr_status status = load_single(loader, router, count, &to->router);
    const struct mr_weight_place bias = {MR_WEIGHT_ROUTER_BIAS, layer, 0};
    if (status == MR_OK && loader->spec->config->experts.biased)
        status = mr_weight_loader_vector(loader, bias, count, 0.0f, &to->bias);
    for (uint32_t i = 0; status == MR_OK && i < count; i++) {
        status = load_gate_up(loader, layer, i, storage, to->gate_up);
        if (status == MR_OK) status = load_down(loader, layer, i, storage, to->down);
    }
    if (status == MR_OK && loader->spec->config->experts.shared_ffn_size > 0)
        status = load_shared(loader, layer, to);
    return status;
}

static void destroy_layers(const struct mr_backend *backend, struct mr_expert_weights *experts,
                           uint32_t count)
{
    for (uint32_t i = 0; experts->gate_up && i < count; i++)
        backend->linear_destroy(experts->gate_up[i]);
    for (uint32_t i = 0; experts->down && i < count; i++)
        backend->linear_destroy(experts->down[i]);
    backend->linear_destroy(experts->router);
    backend->vector_destroy(experts->bias);
    backend->linear_destroy(experts->shared_gate_up);
    backend->linear_destroy(experts->shared_down);
    backend->linear_destroy(experts->shared_switch);
}

void mr_expert_weights_destroy(struct mr_expert_weights *experts, uint32_t count,
                               const struct mr_backend *backend)
{
    if (backend) destroy_layers(backend, experts, count);
    free((void *)experts->gate_up);
    free((void *)experts->down);
    *experts = (struct mr_expert_weights){0};
}
