"""Decoders whose feed-forward network has no gate, and Helium."""
from families.options import ABSENT, BOTH, WINDOW, common, even, heads, layer_norms, rope

ACTIVATIONS = ["gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "relu2", "silu"]
BIASES = dict(attention_bias=BOTH, mlp_bias=BOTH, hidden_act=ACTIVATIONS)
EPSILONS = [1e-5, 1e-3]
PARTIAL = rope(shares=[0.25, 0.5, 1.0])
EVERY_HEAD = heads((1, 1), (2, 2), (3, 3), (4, 4), (6, 6))


def gpt(**more):
    """Keys of GPT-2 and GPT-J."""
    return {
        "vocab_size": [272, 283, 304], "n_layer": [2, 3, 4], "n_head": [1, 2, 3, 6], "n_positions": [512, 1024],
        "n_embd": lambda random, options: options["n_head"] * random.choice([16, 24, 32]), "n_inner": [None, 40, 96],
        "activation_function": ACTIVATIONS, "layer_norm_epsilon": EPSILONS, "tie_word_embeddings": BOTH,
        "bos_token_id": 261, "eos_token_id": 262, "pad_token_id": None, **more}


def falcon_form(random, _):
    """The forms that transformers can compute. The old form has no key for fewer key/value heads than one or all."""
    query, key = random.choice([(1, 1), (2, 1), (4, 2), (6, 2), (3, 3), (6, 3), (8, 1)])
    if random.choice(BOTH):
        return dict(num_attention_heads=query, num_kv_heads=key, new_decoder_architecture=True,
                    num_ln_in_parallel_attn=random.choice([None, 1, 2]))
    return dict(num_attention_heads=query, num_kv_heads=query, new_decoder_architecture=False,
                parallel_attn=random.choice(BOTH), multi_query=random.choice(BOTH))


def rotary_keys(config):
    """The rope keys of published GPT-NeoX models, the only ones that transformers reads outside rope_parameters."""
    rope = config.get("rope_parameters", config)
    config["rotary_pct"] = rope["partial_rotary_factor"]
    if rope is config:
        config["rotary_emb_base"] = config.pop("rope_theta")
        del config["partial_rotary_factor"]
    return config


def plain_rope(options, kinds=("default", "linear")):
    return options["rope_parameters"]["rope_type"] in kinds


def fixed_rope(options):
    """llama.cpp's converter of some families writes neither base nor scaling."""
    return plain_rope(options, ["default"]) and options["rope_parameters"]["rope_theta"] == 1e4


TANH = ("gelu_new", "gelu_pytorch_tanh")


FAMILIES = {
    "starcoder2": dict(options=layer_norms(layer_norm_eps=ABSENT, norm_epsilon=EPSILONS, use_bias=BOTH,
                                           hidden_act=ACTIVATIONS, sliding_window=[None, *WINDOW]),
                       gguf=lambda o: o["hidden_act"] in TANH and plain_rope(o) and o["sliding_window"] is None),
    "nemotron": dict(options=common(rms_norm_eps=ABSENT, norm_eps=EPSILONS, **BIASES,
                                    rope_parameters=rope(shares=[0.5, 1.0])), norm_zero=True,
                     gguf=lambda o: o["hidden_act"] == "relu2" and plain_rope(o)
                     and o["head_dim"] * o["num_attention_heads"] == o["hidden_size"]),
    "arcee": dict(options=common(**BIASES), gguf=lambda o: o["hidden_act"] == "relu2" and plain_rope(o)),
    "jais2": dict(options=common(rms_norm_eps=ABSENT, layer_norm_eps=EPSILONS, **BIASES),
                  gguf=lambda o: o["hidden_act"] == "relu2" and plain_rope(o)),
    "apertus": dict(options=even(attention_bias=BOTH, hidden_act=["xielu", "xielu", *ACTIVATIONS])),
    "phi": dict(options=layer_norms(
        hidden_act=ACTIVATIONS, rope_parameters=PARTIAL, qk_layernorm=[False, False, False, True],
        intermediate_size=lambda random, options: random.choice([40, 96, 4 * options["hidden_size"]])),
                refused=["qk_layernorm"],
                gguf=lambda o: o["hidden_act"] in TANH and fixed_rope(o) and not o["qk_layernorm"]
                and o["intermediate_size"] == 4 * o["hidden_size"]
                and o["num_key_value_heads"] == o["num_attention_heads"]),
    "gpt_neox": dict(options=layer_norms(hidden_act=ACTIVATIONS, rope_parameters=PARTIAL, attention_bias=BOTH,
                                         use_parallel_residual=BOTH, **{"+heads": EVERY_HEAD}), edit=rotary_keys,
                     gguf=lambda o: o["hidden_act"] == "gelu" and fixed_rope(o)),
    "gptj": dict(options=gpt(rotary_dim=[4, 8, 12, 16])),
    "gpt2": dict(options=gpt(scale_attn_weights=BOTH, scale_attn_by_inverse_layer_idx=BOTH, reorder_and_upcast_attn=BOTH),
                 edit=lambda config: {**config, "n_ctx": config["n_positions"]},
                 gguf=lambda o: o["activation_function"] in TANH and o["n_inner"] is None and o["scale_attn_weights"]
                 and not o["scale_attn_by_inverse_layer_idx"]),
    "falcon": dict(options=layer_norms(
        layer_norm_eps=ABSENT, layer_norm_epsilon=EPSILONS, hidden_act=ABSENT, activation=ACTIVATIONS, bias=BOTH,
        intermediate_size=ABSENT, ffn_hidden_size=[None, 40, 96], alibi=[False, False, False, True],
        **{"+heads": falcon_form}),
        refused=["alibi"],
        gguf=lambda o: o["activation"] == "gelu" and fixed_rope(o) and o["ffn_hidden_size"] is None and not o["alibi"]
        and o.get("parallel_attn", True) and not o.get("multi_query")),
}
