#include "ops/families/tensor_names.h"

#include "codec/check.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *gguf, *hugging_face;
} usual[MR_WEIGHT_COUNT] = {
    [MR_WEIGHT_EMBEDDING] = {"token_embd", "model.embed_tokens"},
    [MR_WEIGHT_POSITIONS] = {"position_embd", "embeddings.position_embeddings"},
    [MR_WEIGHT_TOKEN_TYPES] = {"token_types", "embeddings.token_type_embeddings"},
    [MR_WEIGHT_EMBEDDING_NORM] = {"token_embd_norm", "embeddings.LayerNorm"},
    [MR_WEIGHT_FINAL_NORM] = {"output_norm", "model.norm"},
    [MR_WEIGHT_HEAD] = {"output", "lm_head"},
    [MR_WEIGHT_ATTENTION_NORM] = {"blk.%u.attn_norm", "model.layers.%u.input_layernorm"},
    [MR_WEIGHT_ATTENTION_POST_NORM] = {"blk.%u.post_attention_norm",
                                       "model.layers.%u.post_attention_layernorm"},
    [MR_WEIGHT_QKV] = {"blk.%u.attn_qkv", "model.layers.%u.self_attn.qkv_proj"},
    [MR_WEIGHT_Q] = {"blk.%u.attn_q", "model.layers.%u.self_attn.q_proj"},
    [MR_WEIGHT_K] = {"blk.%u.attn_k", "model.layers.%u.self_attn.k_proj"},
    [MR_WEIGHT_V] = {"blk.%u.attn_v", "model.layers.%u.self_attn.v_proj"},
    [MR_WEIGHT_Q_NORM] = {"blk.%u.attn_q_norm", "model.layers.%u.self_attn.q_norm"},
    [MR_WEIGHT_K_NORM] = {"blk.%u.attn_k_norm", "model.layers.%u.self_attn.k_norm"},
    [MR_WEIGHT_SINKS] = {"blk.%u.attn_sinks", "model.layers.%u.self_attn.sinks"},
    [MR_WEIGHT_ATTENTION_GATE] = {"blk.%u.attn_gate", "model.layers.%u.self_attn.gate_proj"},
    [MR_WEIGHT_Q_A] = {"blk.%u.attn_q_a", "model.layers.%u.self_attn.q_a_proj"},
    [MR_WEIGHT_Q_A_NORM] = {"blk.%u.attn_q_a_norm", "model.layers.%u.self_attn.q_a_layernorm"},
    [MR_WEIGHT_Q_B] = {"blk.%u.attn_q_b", "model.layers.%u.self_attn.q_b_proj"},
    [MR_WEIGHT_KV_A] = {"blk.%u.attn_kv_a_mqa", "model.layers.%u.self_attn.kv_a_proj_with_mqa"},
    [MR_WEIGHT_KV_A_NORM] = {"blk.%u.attn_kv_a_norm", "model.layers.%u.self_attn.kv_a_layernorm"},
    [MR_WEIGHT_KV_B] = {"blk.%u.attn_kv_b", "model.layers.%u.self_attn.kv_b_proj"},
    [MR_WEIGHT_ATTENTION_OUT] = {"blk.%u.attn_output", "model.layers.%u.self_attn.o_proj"},
    [MR_WEIGHT_FFN_NORM] = {"blk.%u.ffn_norm", "model.layers.%u.post_attention_layernorm"},
    [MR_WEIGHT_FFN_POST_NORM] = {"blk.%u.post_ffw_norm",
                                 "model.layers.%u.post_feedforward_layernorm"},
    [MR_WEIGHT_GATE_UP] = {"blk.%u.ffn_up", "model.layers.%u.mlp.gate_up_proj"},
    [MR_WEIGHT_GATE] = {"blk.%u.ffn_gate", "model.layers.%u.mlp.gate_proj"},
    [MR_WEIGHT_UP] = {"blk.%u.ffn_up", "model.layers.%u.mlp.up_proj"},
    [MR_WEIGHT_DOWN] = {"blk.%u.ffn_down", "model.layers.%u.mlp.down_proj"},
    [MR_WEIGHT_CURVE_ABOVE] = {NULL, "model.layers.%u.mlp.act_fn.alpha_p"},
    [MR_WEIGHT_CURVE_BELOW] = {NULL, "model.layers.%u.mlp.act_fn.alpha_n"},
    [MR_WEIGHT_CURVE_SLOPE] = {NULL, "model.layers.%u.mlp.act_fn.beta"},
    [MR_WEIGHT_CURVE_TOP] = {NULL, "model.layers.%u.mlp.act_fn.eps"},
    [MR_WEIGHT_ROUTER] = {"blk.%u.ffn_gate_inp", "model.layers.%u.mlp.gate"},
    [MR_WEIGHT_ROUTER_BIAS] = {"blk.%u.exp_probs_b.bias",
                               "model.layers.%u.mlp.gate.e_score_correction_bias"},
    [MR_WEIGHT_EXPERT_GATE] = {"blk.%u.ffn_gate.%u", "model.layers.%u.mlp.experts.%u.gate_proj"},
    [MR_WEIGHT_EXPERT_UP] = {"blk.%u.ffn_up.%u", "model.layers.%u.mlp.experts.%u.up_proj"},
    [MR_WEIGHT_EXPERT_DOWN] = {"blk.%u.ffn_down.%u", "model.layers.%u.mlp.experts.%u.down_proj"},
    [MR_WEIGHT_ALL_GATE] = {"blk.%u.ffn_gate_exps", NULL},
    [MR_WEIGHT_ALL_UP] = {"blk.%u.ffn_up_exps", NULL},
    [MR_WEIGHT_ALL_GATE_UP] = {"blk.%u.ffn_gate_up_exps",
                               "model.layers.%u.mlp.experts.gate_up_proj"},
    [MR_WEIGHT_ALL_DOWN] = {"blk.%u.ffn_down_exps", "model.layers.%u.mlp.experts.down_proj"},
    [MR_WEIGHT_SHARED_GATE] = {"blk.%u.ffn_gate_shexp",
                               "model.layers.%u.mlp.shared_expert.gate_proj"},
    [MR_WEIGHT_SHARED_UP] = {"blk.%u.ffn_up_shexp", "model.layers.%u.mlp.shared_expert.up_proj"},
    [MR_WEIGHT_SHARED_DOWN] = {"blk.%u.ffn_down_shexp",
                               "model.layers.%u.mlp.shared_expert.down_proj"},
    [MR_WEIGHT_MIXER_IN] = {"blk.%u.ssm_in", "model.layers.%u.mamba.in_proj"},
    [MR_WEIGHT_MIXER_TAPS] = {"blk.%u.ssm_conv1d", "model.layers.%u.mamba.conv1d"},
    [MR_WEIGHT_MIXER_A] = {"blk.%u.ssm_a", "model.layers.%u.mamba.A_log"},
    [MR_WEIGHT_MIXER_DT_BIAS] = {"blk.%u.ssm_dt.bias", "model.layers.%u.mamba.dt_bias"},
    [MR_WEIGHT_MIXER_SKIP] = {"blk.%u.ssm_d", "model.layers.%u.mamba.D"},
    [MR_WEIGHT_MIXER_NORM] = {"blk.%u.ssm_norm", "model.layers.%u.mamba.norm"},
    [MR_WEIGHT_MIXER_OUT] = {"blk.%u.ssm_out", "model.layers.%u.mamba.out_proj"},
    [MR_WEIGHT_SHARED_SWITCH] = {"blk.%u.ffn_gate_inp_shexp",
                                 "model.layers.%u.mlp.shared_expert_gate"},
};

static const char *format_of(const struct mr_tensor_naming *naming, enum mr_weight_part part)
{
    const struct mr_weight_name *row = naming->exceptions, *found = NULL;
    for (; row && row->part != MR_WEIGHT_NONE; row++)
        if (row->part == part && (!found || naming->second)) found = row;
    if (found) return naming->gguf ? found->gguf : found->hugging_face;
    return naming->gguf ? usual[part].gguf : usual[part].hugging_face;
}

/* Appends `text` up to the first "%u", then the number. Returns the rest of `text` after the "%u",
 * or NULL at its end. */
static const char *append(char name[MR_TENSOR_NAME_BYTES], const char *text, uint32_t number)
{
    size_t used = strlen(name);
    const char *hole = strstr(text, "%u");
    int written = hole ? snprintf(name + used, MR_TENSOR_NAME_BYTES - used, "%.*s%u",
                                  (int)(hole - text), text, number)
                       : snprintf(name + used, MR_TENSOR_NAME_BYTES - used, "%s", text);
    MR_ASSERT(written >= 0 && (size_t)written < MR_TENSOR_NAME_BYTES - used);
    return hole ? hole + 2 : NULL;
}

bool mr_tensor_name(const struct mr_tensor_naming *naming, enum mr_weight_part part, uint32_t layer,
                    uint32_t index, const char *suffix, char name[MR_TENSOR_NAME_BYTES])
{
    static const char usual_prefix[] = "model.";
    MR_ASSERT(part > MR_WEIGHT_NONE && part < MR_WEIGHT_COUNT);
    const char *rest = format_of(naming, part);
    name[0] = '\0';
    if (!rest) return false;
    if (naming->outer) append(name, naming->outer, 0);
    if (naming->inner && strncmp(rest, usual_prefix, sizeof(usual_prefix) - 1) == 0) {
        append(name, naming->inner, 0);
        rest += sizeof(usual_prefix) - 1;
    }
    const size_t absent = naming->left_out ? strlen(naming->left_out) : 0;
    if (absent > 0 && strncmp(rest, naming->left_out, absent) == 0) rest += absent;
    rest = append(name, rest, layer);
    if (rest) rest = append(name, rest, index);
    if (rest) append(name, rest, 0);
    append(name, suffix, 0);
    return true;
}
