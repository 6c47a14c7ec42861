"""Decoders whose features are pair order in folders, one norm for both branches, rope only in windowed layers and
norms after branches."""
from families.options import (
    ABSENT, ACTIVATIONS, BOTH, WINDOW, bounded, common, even, layer_types, rope)
from families.standing import GEMMA_2

GLM = common(attention_bias=BOTH, hidden_act=ACTIVATIONS, head_dim=[16, 24, 32], rope_parameters=rope(shares=[0.5, 1.0]))
COHERE = dict(rms_norm_eps=ABSENT, layer_norm_eps=[1e-5, 1e-3], logit_scale=bounded(0.3, 2), attention_bias=BOTH,
              hidden_act=ACTIVATIONS)
PLAIN = rope(("default", "linear", "llama3"))


FAMILIES = {
    "glm": dict(options=GLM),
    "glm4": dict(options=GLM),
    "ernie4_5": dict(options=common(use_bias=BOTH, hidden_act=ACTIVATIONS, rope_parameters=PLAIN)),
    "seed_oss": dict(options=common(attention_bias=BOTH, attention_out_bias=BOTH, mlp_bias=BOTH, hidden_act=ACTIVATIONS)),
    "exaone4": dict(options=even(hidden_act=ACTIVATIONS, sliding_window=[None, *WINDOW], **{
        "+layers": lambda random, options: dict(layer_types=layer_types()(random, options))
        if options["sliding_window"] else dict(layer_types=["full_attention"] * options["num_hidden_layers"])})),
    "ministral": dict(options=common(sliding_window=WINDOW, layer_types=layer_types(), hidden_act=ACTIVATIONS)),
    "cohere": dict(options=even(**COHERE, use_qk_norm=[False]), refused=["use_qk_norm"]),
    "cohere2": dict(options=common(**COHERE, sliding_window=WINDOW, layer_types=layer_types())),
    "vaultgemma": dict(options=common(**GEMMA_2), norm_zero=True),
    "olmoe": dict(options=even(num_experts=[4, 6], num_experts_per_tok=[1, 2, 3], norm_topk_prob=BOTH, attention_bias=BOTH,
                               hidden_act=ACTIVATIONS, clip_qkv=[None])),
}
