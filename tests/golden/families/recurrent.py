"""Families with recurrent layers: short convolutions, Mamba-2, the gated delta rule. standing.py explains the rows.

Bamba has no row: with a cache, transformers 5.17 decodes other logits than it computes for the whole prompt."""
from families.options import BOTH, bounded, common, even, layer_types, rope

def mixed(random, options):
    """At least one layer with attention: transformers' cache has no length without one."""
    types = layer_types("linear_attention", "full_attention")(random, options)
    types[random.randrange(len(types))] = "full_attention"
    return types



# Decays on both sides of 1 a token; dt, A and D are no matrices, so their values do not depend on a size.
SCALE = {"A_log": 1.0, "dt_bias": 1.0}
# What the configuration classes of these families take: silu is the only activation of a convolution.
PLAIN_ROPE = rope(("default", "linear"))


def mamba(random, options):
    """Sizes of Mamba-2 layers: heads * size = expand * hidden size."""
    heads = random.choice([n for n in (2, 3, 4, 6, 8) if 2 * options["hidden_size"] % n == 0])
    groups = random.choice([n for n in (1, 2, 3) if heads % n == 0])
    return dict(mamba_n_heads=heads, mamba_d_head=2 * options["hidden_size"] // heads, mamba_n_groups=groups,
                mamba_expand=2, mamba_d_state=random.choice([5, 16, 20]), mamba_d_conv=random.choice([2, 3, 4]),
                mamba_chunk_size=random.choice([8, 16, 32]), mamba_conv_bias=random.choice([False, True]),
                mamba_proj_bias=random.choice([False, True]))


def delta(random, _):
    keys = random.choice([1, 2, 3])
    return dict(linear_num_key_heads=keys, linear_num_value_heads=keys * random.choice([1, 2, 3]),
                linear_key_head_dim=random.choice([8, 12, 20, 32]),
                linear_value_head_dim=random.choice([8, 18, 64, 70]),
                linear_conv_kernel_dim=random.choice([2, 3, 4]))


QWEN = {"hidden_act": "silu", "layer_types": mixed, "+delta": delta,
        "head_dim": [8, 16, 24, 32],
        "rope_parameters": rope(("default",), [0.25, 0.5, 1.0])}
EXPERTS = dict(num_experts=[3, 4], num_experts_per_tok=[1, 2, 3], moe_intermediate_size=[16, 32],
               shared_expert_intermediate_size=[16, 24])

FAMILIES = {
    "lfm2": dict(options=even(layer_types=layer_types("conv", "full_attention"), conv_L_cache=[2, 3, 4],
                              conv_bias=BOTH, block_auto_adjust_ff_dim=BOTH, block_multiple_of=[16, 24],
                              block_ffn_dim_multiplier=[1.0, 1.3], rope_parameters=PLAIN_ROPE)),
    "granitemoehybrid": dict(
        options=even(**{"layer_types": mixed, "+mamba": mamba}, num_local_experts=0, num_experts_per_tok=0,
                     shared_intermediate_size=[32, 48], position_embedding_type=[None, "rope"],
                     attention_bias=BOTH, hidden_act="silu", rope_parameters=PLAIN_ROPE,
                     embedding_multiplier=bounded(1, 4), logits_scaling=bounded(0.5, 2),
                     residual_multiplier=bounded(0.3, 1), attention_multiplier=bounded(0.1, 0.6)),
        scale=SCALE),
    "qwen3_next": dict(options=common(**QWEN, **EXPERTS, norm_topk_prob=BOTH, attention_bias=BOTH), scale=SCALE,
                       norm_zero=True),
    "qwen3_5_text": dict(options=common(**QWEN, attention_bias=BOTH), scale=SCALE, norm_zero=True),
    "qwen3_5_moe_text": dict(options=common(**QWEN, **EXPERTS, attention_bias=BOTH), scale=SCALE, norm_zero=True),
}
