"""Families whose experts are chosen by a router of DeepSeek V3's form, or by one of their own."""
from families.decoders import HUNYUAN, one_silu
from families.options import (
    ACTIVATIONS, BOTH, WINDOW, bounded, common, even, layer_types, rope as any_rope)


def heads(chance, drawn):
    kv = chance.choice([1, 2, 3])
    return dict(num_key_value_heads=kv, num_attention_heads=kv * chance.choice([1, 2]))


def experts(chance, drawn):
    groups = chance.choice([1, 2, 4])
    kept = chance.choice([1, 2]) if groups > 1 else 1
    size = chance.choice([2, 3, 4])
    return dict(n_group=groups, topk_group=kept, n_routed_experts=groups * size,
                num_experts_per_tok=chance.randint(1, min(4, kept * size)))


def layers(chance, drawn):
    return dict(num_hidden_layers=3, first_k_dense_replace=chance.choice([0, 1, 2]))


def rope(chance, drawn):
    rope = dict(rope_type="default", rope_theta=chance.choice([10000.0, 1e6]))
    if chance.random() < 0.5:
        rope["partial_rotary_factor"] = chance.choice([0.5, 1.0])
    return dict(rope_parameters=rope)


def per_layer(chance, drawn):
    count = chance.choice([1, 2, 3])
    return chance.choice([count, [count] * drawn["num_hidden_layers"]])


def each_layer(config):
    """Published files list the numbers of experts for each layer, with keys that transformers does not read."""
    layers, used = config["num_hidden_layers"], config["moe_topk"]
    return dict(config, moe_topk=used if isinstance(used, list) else [used] * layers, num_shared_expert=[1] * layers,
                moe_intermediate_size=[config["intermediate_size"]] * layers)


def mixed_rope(chance, drawn):
    """Longrope with a factor of sines and cosines for each list. transformers takes the list of short factors at every
    length, so that longer contexts are compared with two equal lists."""
    if chance.random() < 0.5:
        return any_rope(("default",))(chance, drawn)
    half = drawn["hidden_size"] // drawn["num_attention_heads"] // 2
    short = [1.0 + 0.125 * i for i in range(half)]
    original = chance.choice([16, drawn["max_position_embeddings"]])
    return dict(rope_type="longrope", rope_theta=1e4, original_max_position_embeddings=original, short_factor=short,
                long_factor=short if original == 16 else [2.0] * half, short_mscale=1.25, long_mscale=0.8, factor=4.0)


COMMON = {"vocab_size": 263, "hidden_size": [48, 64, 80], "max_position_embeddings": 512,
          "head_dim": [16, 32], "rms_norm_eps": [1e-5, 1e-6], "tie_word_embeddings": [False, True],
          "attention_bias": [False, True], "moe_intermediate_size": [32, 48],
          "n_shared_experts": [1, 2], "routed_scaling_factor": [1.0, 2.5],
          "norm_topk_prob": [True, False], "+heads": heads, "+experts": experts, "eos_token_id": 2,
          "bos_token_id": 1, "pad_token_id": None}
DENSE = {"intermediate_size": [96, 64], "+layers": layers}
LARGE = {"scale": {"e_score_correction_bias": 0.3}}

FAMILIES = {
    "glm4_moe": dict(LARGE, options={**COMMON, **DENSE, "use_qk_norm": [False, True], "+rope": rope}),
    "solar_open": dict(LARGE, options={**COMMON, "num_hidden_layers": 2}),
    "dots1": dict(LARGE, options={**COMMON, **DENSE, "sliding_window": [None, 24],
                                  "max_window_layers": [0, 1, 3]}),
    "minimax_m2": dict(LARGE, options={
        **{key: COMMON[key] for key in ("vocab_size", "hidden_size", "max_position_embeddings", "head_dim",
                                        "rms_norm_eps", "tie_word_embeddings", "+heads", "eos_token_id",
                                        "bos_token_id", "pad_token_id")},
        "num_hidden_layers": 2, "intermediate_size": [32, 48], "num_local_experts": [4, 6],
        "num_experts_per_tok": [1, 2, 3], "+rope": rope}),
    "hunyuan_v1_moe": dict(options={**HUNYUAN, "num_experts": [4, 6], "moe_topk": per_layer}, edit=each_layer,
                           gguf=lambda o: one_silu(o) and "alpha" not in o["rope_parameters"]),
    "ernie4_5_moe": dict(LARGE, options=common(
        use_bias=BOTH, hidden_act=ACTIVATIONS, moe_num_experts=[4, 6], moe_k=[1, 2, 3], moe_intermediate_size=[16, 32],
        moe_num_shared_experts=[0, 1, 2], moe_layer_start_index=[0, 1], moe_layer_end_index=[-1, 1], moe_layer_interval=[1, 2],
        moe_norm_min=[1e-12, 0.9]), gguf=lambda o: one_silu(o) and o["moe_norm_min"] < 0.5 and not o["use_bias"]),
    "phimoe": dict(options=even(
        attention_bias=BOTH, lm_head_bias=BOTH, hidden_act=ACTIVATIONS, num_local_experts=[4, 6], sliding_window=[None, *WINDOW],
        router_jitter_noise=[0.01, 0.2, 0.6], rope_parameters=mixed_rope)),
    "afmoe": dict(scale={"expert_bias": 0.3}, options=common(
        attention_bias=BOTH, hidden_act=ACTIVATIONS, sliding_window=WINDOW, layer_types=layer_types(), num_experts=[4, 6],
        num_experts_per_tok=[1, 2, 3], num_shared_experts=[1, 2], num_dense_layers=[0, 1, 2], moe_intermediate_size=[16, 32],
        route_scale=bounded(0.5, 2.5), mup_enabled=BOTH)),
}
