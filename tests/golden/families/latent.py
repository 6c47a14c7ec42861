"""Families with latent attention: keys and values of all heads are products of one small row a token. standing.py
explains the rows."""
from families.options import ACTIVATIONS, BOTH, bounded, common, rope
from families.routed import experts

MAGNITUDES = [{}, dict(mscale=0.707, mscale_all_dim=0.707), dict(mscale=1.2, mscale_all_dim=0.8),
              dict(mscale_all_dim=1.0), dict(mscale=0.9), dict(beta_fast=16.0, beta_slow=2.0, mscale_all_dim=0.5)]


def heads(random, _):
    count = random.choice([1, 2, 3, 5, 8])
    return dict(num_attention_heads=count, num_key_value_heads=count, hidden_size=count * random.choice([12, 16, 24]))


def scaled_rope(random, options):
    """Ropes whose magnitude also scales the scores."""
    parameters = rope(("default", "linear", "llama3", "yarn", "yarn", "yarn", "dynamic"))(random, options)
    if parameters["rope_type"] == "yarn":
        parameters = {key: parameters[key] for key in ("rope_type", "rope_theta", "factor",
                                                       "original_max_position_embeddings")}
        parameters.update(random.choice(MAGNITUDES))
    elif parameters["rope_type"] != "default" and random.random() < 0.3:
        parameters["mscale_all_dim"] = 0.8
    return parameters


def long_rope(random, options):
    if random.random() < 0.5:
        return scaled_rope(random, options)
    factor = random.choice([1.0, 2.0, 8.0])
    sizes = dict(head_dim=options["qk_rope_head_dim"],
                 original_max_position_embeddings=random.choice([16, options["max_position_embeddings"]]))
    return dict(rope(("longrope",))(random, sizes), factor=factor)


def method(random, options):
    """DeepSeek V2: greedy models may lack the keys of groups, or have them without using them."""
    greedy = random.random() < 0.5
    keys = dict(topk_method="greedy" if greedy else "group_limited_greedy")
    if greedy:
        keys["num_experts_per_tok"] = random.randint(1, min(4, options["n_routed_experts"]))
        if random.random() < 0.5:
            keys.update(n_group=None, topk_group=None)
    return keys


def mlp_layer_types(random, options):
    return random.choice([None, [random.choice(["dense", "sparse"]) for _ in range(options["num_hidden_layers"])]])


COMMON = {**common(head_dim=None), "+heads": heads, "hidden_act": ACTIVATIONS, "attention_bias": BOTH,
          "q_lora_rank": [None, 16, 20], "kv_lora_rank": [8, 16, 24, 40], "qk_nope_head_dim": [6, 8, 16, 20],
          "qk_rope_head_dim": [4, 8, 12, 16], "v_head_dim": [6, 8, 16, 20], "rope_parameters": scaled_rope}
COMMON = {key: value for key, value in COMMON.items() if key not in ("hidden_size", "head_dim")}
EXPERTS = {"+experts": experts, "moe_intermediate_size": [16, 24], "n_shared_experts": [1, 2],
           "routed_scaling_factor": [1.0, 2.5], "norm_topk_prob": BOTH}
BIAS = {"scale": {"e_score_correction_bias": 0.3}}


def with_names_of_v3(config):
    return dict(config, scoring_func="sigmoid", topk_method="noaux_tc", moe_layer_freq=1, ep_size=1,
                num_nextn_predict_layers=1)


FAMILIES = {
    "deepseek_v2": dict(options={**COMMON, **EXPERTS, "+method": method, "mlp_bias": BOTH,
                                 "first_k_dense_replace": [0, 1, 2]}),
    "deepseek_v3": dict(BIAS, options={**COMMON, **EXPERTS, "rope_interleave": BOTH,
                                       "first_k_dense_replace": [0, 1, 2]}, edit=with_names_of_v3),
    "glm4_moe_lite": dict(BIAS, options={**COMMON, **EXPERTS, "rope_interleave": BOTH,
                                         "mlp_layer_types": mlp_layer_types}),
    "minicpm3": dict(options={**COMMON, "v_head_dim": [None, 6, 8, 20], "mlp_bias": BOTH, "scale_emb": bounded(0.5, 12),
                              "scale_depth": bounded(0.5, 2), "dim_model_base": [8, 24, 256],
                              "rope_parameters": long_rope}),
}
