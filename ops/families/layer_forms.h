/* layer_forms - the forms of a layer's parts that a family chooses from (family.h): the activation,
 * the norm of heads, the rotary embedding of windowed layers, the routing of experts. The decoder
 * and the backends act on these values. */
#ifndef MR_OPS_FAMILIES_LAYER_FORMS_H
#define MR_OPS_FAMILIES_LAYER_FORMS_H

enum mr_activation {
    MR_ACTIVATION_SILU, /* silu(gate) * up */
    MR_ACTIVATION_GELU, /* gelu(gate) * up, with the error function */
    MR_ACTIVATION_GELU_TANH,
    MR_ACTIVATION_SWIGLU_OAI, /* clamped SwiGLU of gpt-oss (ops/cpu_kernels/kernels.h) */
    MR_ACTIVATION_RELU,
    MR_ACTIVATION_RELU2, /* the square of RELU */
    MR_ACTIVATION_XIELU  /* with four numbers of each layer (ops/backend/epilogue.h) */
};

/* The norm that q and k get before the rotary embedding. */
enum mr_head_norm {
    MR_HEAD_NORM_NONE,
    MR_HEAD_NORM_EACH,    /* RMS norm of each head, one weight for all heads */
    MR_HEAD_NORM_ROW,     /* one RMS norm over all heads of a row */
    MR_HEAD_NORM_CENTERED /* layer norm of each head, with separate weights for each head, no bias
                           */
};

/* The rotary embedding of layers with a sliding window in a family that has two. */
enum mr_window_rope {
    MR_WINDOW_ROPE_SAME,     /* as in the other layers */
    MR_WINDOW_ROPE_OWN_BASE, /* plain, with its own base (Gemma 3) */
    MR_WINDOW_ROPE_UNSCALED, /* the same base without scaling (OLMo 3) */
    MR_WINDOW_ROPE_ONLY      /* in a model with windows the other layers have none (EXAONE 4) */
};

/* How the experts of a row are chosen and weighted (struct mr_router of
 * ops/backend/expert_layer.h). The weights of the chosen experts are divided by their sum, except
 * where a form says otherwise. */
enum mr_routing {
    MR_ROUTING_NORMALIZED, /* softmax */
    MR_ROUTING_KEY,        /* softmax; divided only if norm_topk_prob is true; false if absent */
    MR_ROUTING_GROUPS,     /* softmax, groups compared by their best expert; never divided
                            * (DeepSeek V2) */
    MR_ROUTING_PAIRS,      /* softmax, groups compared by their two best; divided unless
                            * norm_topk_prob is false (Mistral 4) */
    MR_ROUTING_SIGMOID,    /* sigmoid, correction bias, groups compared by their two best; divided
                            * unless norm_topk_prob is false (DeepSeek V3) */
    MR_ROUTING_BIASED,     /* softmax, correction bias (ERNIE 4.5) */
    MR_ROUTING_MIXER       /* sparse mixer with twice router_jitter_noise as margin (Phi 3.5 MoE) */
};

#endif
