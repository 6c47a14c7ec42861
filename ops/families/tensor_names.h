/* tensor_names - the names of a model's tensors in GGUF and in Hugging Face files. One table has
 * the usual names; a family lists its exceptions.
 *
 * Threads: constants, pure functions. Memory: none. Errors: none. */
#ifndef MR_OPS_FAMILIES_TENSOR_NAMES_H
#define MR_OPS_FAMILIES_TENSOR_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mr_weight_part {
    MR_WEIGHT_NONE, /* ends a list */
    MR_WEIGHT_EMBEDDING,
    MR_WEIGHT_POSITIONS,
    MR_WEIGHT_TOKEN_TYPES,
    MR_WEIGHT_EMBEDDING_NORM,
    MR_WEIGHT_FINAL_NORM,
    MR_WEIGHT_HEAD,
    MR_WEIGHT_ATTENTION_NORM,
    MR_WEIGHT_ATTENTION_POST_NORM,
    MR_WEIGHT_QKV, /* q, k and v in one tensor */
    MR_WEIGHT_Q,
    MR_WEIGHT_K,
    MR_WEIGHT_V,
    MR_WEIGHT_Q_NORM,
    MR_WEIGHT_K_NORM,
    MR_WEIGHT_SINKS,
    MR_WEIGHT_ATTENTION_GATE, /* gates of attention, where they do not follow q */
    /* Latent attention: the first product of q and its norm, the second product; the latent with
     * the rotary key, the latent's norm; U_k and U_v of all heads. */
    MR_WEIGHT_Q_A,
    MR_WEIGHT_Q_A_NORM,
    MR_WEIGHT_Q_B,
    MR_WEIGHT_KV_A,
    MR_WEIGHT_KV_A_NORM,
    MR_WEIGHT_KV_B,
    MR_WEIGHT_ATTENTION_OUT,
    MR_WEIGHT_FFN_NORM,
    MR_WEIGHT_FFN_POST_NORM,
    MR_WEIGHT_GATE_UP, /* gate and up in one tensor, gate first */
    MR_WEIGHT_GATE,
    MR_WEIGHT_UP,
    MR_WEIGHT_DOWN,
    MR_WEIGHT_CURVE_ABOVE, /* the numbers of xIELU: alpha_p, alpha_n, beta and eps */
    MR_WEIGHT_CURVE_BELOW,
    MR_WEIGHT_CURVE_SLOPE,
    MR_WEIGHT_CURVE_TOP,
    MR_WEIGHT_ROUTER,
    MR_WEIGHT_ROUTER_BIAS, /* the correction bias of the choice of experts */
    MR_WEIGHT_EXPERT_GATE, /* of one expert; the names with ALL: all experts in one tensor */
    MR_WEIGHT_EXPERT_UP,
    MR_WEIGHT_EXPERT_DOWN,
    MR_WEIGHT_ALL_GATE,
    MR_WEIGHT_ALL_UP,
    MR_WEIGHT_ALL_GATE_UP,
    MR_WEIGHT_ALL_DOWN,
    MR_WEIGHT_SHARED_GATE, /* of the shared expert */
    MR_WEIGHT_SHARED_UP,
    MR_WEIGHT_SHARED_DOWN,
    /* Recurrent layers (ops/mixer/mixer_shape.h). IN: the row's floats, and the gates unless they
     * have a layer of their own; the delta rule's q, k, v in one layer and z in another, or all in
     * one. */
    MR_WEIGHT_MIXER_IN,
    MR_WEIGHT_MIXER_Q, /* the delta rule's q, k and v in a layer each */
    MR_WEIGHT_MIXER_K,
    MR_WEIGHT_MIXER_V,
    MR_WEIGHT_MIXER_Z,
    MR_WEIGHT_MIXER_GATES, /* beta and decay in one layer */
    MR_WEIGHT_MIXER_BETA,
    MR_WEIGHT_MIXER_DECAY,
    MR_WEIGHT_MIXER_TAPS,   /* [channels, taps]; its bias is the convolution's */
    MR_WEIGHT_MIXER_TAPS_Q, /* the channels of q, k and v in a tensor each */
    MR_WEIGHT_MIXER_TAPS_K,
    MR_WEIGHT_MIXER_TAPS_V,
    MR_WEIGHT_MIXER_A, /* GGUF: -exp of Hugging Face's number */
    MR_WEIGHT_MIXER_DT_BIAS,
    MR_WEIGHT_MIXER_SKIP,
    MR_WEIGHT_MIXER_NORM,
    MR_WEIGHT_MIXER_OUT,
    MR_WEIGHT_SHARED_SWITCH, /* the row whose product, through a sigmoid, weights the shared expert
                              */
    MR_WEIGHT_COUNT
};

/* Names without ".weight" and ".bias"; NULL: the kind of file has no such tensor. The first %u is
 * the number of the layer, the second that of the expert or the head. A part with two names has two
 * rows. */
struct mr_weight_name {
    enum mr_weight_part part;
    const char *gguf, *hugging_face;
};

#define MR_TENSOR_NAME_BYTES 128u

struct mr_tensor_naming {
    const struct mr_weight_name *exceptions; /* of the family; may be NULL */
    bool gguf;
    bool second; /* true: the second name of a part that has two */
    /* Of a Hugging Face model with parts that do not read text, else NULL. outer: prefix of each
     * name. inner: replaces the "model." at the beginning of a name. */
    const char *outer, *inner;
    const char *left_out; /* a beginning that the files' names lack; NULL: none */
};

/* Writes the name of a part; layer and index replace its two %u. False, with an empty name, when
 * the kind of file has no such part. */
bool mr_tensor_name(const struct mr_tensor_naming *naming, enum mr_weight_part part, uint32_t layer,
                    uint32_t index, const char *suffix, char name[MR_TENSOR_NAME_BYTES]);

#endif
