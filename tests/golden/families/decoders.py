"""Decoders whose features are pair order in folders, one norm for both branches, rope only in windowed layers,
norms after branches or after the rope, and an attention temperature."""
from families.options import (
    ABSENT, ACTIVATIONS, BOTH, WINDOW, bounded, common, even, layer_types, rope)
from families.standing import GEMMA_2, one_sharing

GLM = common(attention_bias=BOTH, hidden_act=ACTIVATIONS, head_dim=[16, 24, 32], rope_parameters=rope(shares=[0.5, 1.0]))
COHERE = dict(rms_norm_eps=ABSENT, layer_norm_eps=[1e-5, 1e-3], logit_scale=bounded(0.3, 2), attention_bias=BOTH,
              hidden_act=ACTIVATIONS)


def one_silu(options):
    """True where llama.cpp's keys express the activation and the rope: llama3 only in a few families."""
    return (one_sharing(options) and options["hidden_act"] == "silu" and
            options["rope_parameters"]["rope_type"] != "llama3")


def fourth_full(options):
    """llama.cpp's converter drops the biases of Command R7B, and has no keys for head size and layers with windows."""
    return (one_silu(options) and options["rope_parameters"]["rope_type"] == "default" and not options["attention_bias"] and
            options["head_dim"] * options["num_attention_heads"] == options["hidden_size"] and
            all((kind == "full_attention") == (i % 4 == 3) for i, kind in enumerate(options["layer_types"])))


def hunyuan_rope(random, options):
    """Half of the ropes are "dynamic" with alpha, which is constant."""
    parameters = rope(("default", "linear", "llama3", "yarn"))(random, options)
    if random.random() < 0.5:
        parameters = dict(rope_type="dynamic", rope_theta=1e4, alpha=random.choice([2.0, 1000.0]), factor=1.0)
    return parameters


def tempered(random, options):
    """Without scaling, transformers takes a folder without the newer keys for one with its own yarn."""
    parameters = rope(("yarn", "linear", "llama3"))(random, options)
    parameters.setdefault("original_max_position_embeddings", 16)
    return {**parameters, "llama_4_scaling_beta": random.choice([0.1, 0.5])}


HUNYUAN = common(attention_bias=BOTH, hidden_act=ACTIVATIONS, rope_parameters=hunyuan_rope)


FAMILIES = {
    "glm": dict(options=GLM),
    "glm4": dict(options=GLM, gguf=one_silu),
    "ernie4_5": dict(options=common(use_bias=BOTH, hidden_act=ACTIVATIONS), gguf=one_silu),
    "seed_oss": dict(options=common(attention_bias=BOTH, attention_out_bias=BOTH, mlp_bias=BOTH, hidden_act=ACTIVATIONS),
                     gguf=one_silu),
    "exaone4": dict(options=even(hidden_act=ACTIVATIONS, sliding_window=[None, *WINDOW], **{
        "+layers": lambda random, options: dict(layer_types=layer_types()(random, options))
        if options["sliding_window"] else dict(layer_types=["full_attention"] * options["num_hidden_layers"])}),
                    gguf=one_silu),
    "hunyuan_v1_dense": dict(options=HUNYUAN, gguf=lambda o: one_silu(o) and "alpha" not in o["rope_parameters"]),
    "helium": dict(options=even(attention_bias=BOTH, mlp_bias=BOTH, hidden_act=ACTIVATIONS, **{
        "+sizes": lambda random, options: dict(head_dim=options["hidden_size"] // options["num_attention_heads"])})),
    "ministral3": dict(options=common(sliding_window=[None, *WINDOW], hidden_act=ACTIVATIONS, rope_parameters=tempered),
                       gguf=lambda o: one_silu(o) and not o["sliding_window"] and o["rope_parameters"]["rope_type"] == "yarn"),
    "ministral": dict(options=common(sliding_window=WINDOW, layer_types=layer_types(), hidden_act=ACTIVATIONS)),
    "cohere": dict(options=even(**COHERE, use_qk_norm=BOTH),
                   gguf=lambda o: one_silu(o) and o["rope_parameters"]["rope_type"] == "default"),
    "cohere2": dict(options=common(**COHERE, sliding_window=WINDOW, layer_types=layer_types()), gguf=fourth_full,
                    edit=lambda config: dict(config, rotary_pct=1.0)),
    "vaultgemma": dict(options=common(**GEMMA_2), norm_zero=True),
    "olmoe": dict(options=even(num_experts=[4, 6], num_experts_per_tok=[1, 2, 3], norm_topk_prob=BOTH, attention_bias=BOTH,
                               hidden_act=ACTIVATIONS, clip_qkv=[None, 0.5, 2.0]),
                  gguf=lambda o: one_silu(o) and not o["norm_topk_prob"] and not o["clip_qkv"] and o["rms_norm_eps"] == 1e-5),
}
