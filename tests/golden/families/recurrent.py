"""Families with recurrent layers: short convolutions, Mamba-2, the gated delta rule. standing.py explains the rows."""
import torch

from families.options import ABSENT, BOTH, bounded, common, even, layer_types, rope


def mixed(random, options):
    """At least one layer of each kind: transformers' cache has no length without one with attention."""
    types = layer_types("linear_attention", "full_attention")(random, options)
    one = random.randrange(len(types))
    types[one], types[one - 1] = "full_attention", "linear_attention"
    return types


def convolutions(random, options):
    """The same for layers with a short convolution."""
    return ["conv" if kind == "linear_attention" else kind for kind in mixed(random, options)]


# Decays on both sides of 1 a token; dt, A and D are no matrices, so their values do not depend on a size.
SCALE = {"A_log": 1.0, "dt_bias": 1.0}
LONG = dict(scale=SCALE, positions=300, settled=True)
# What the configuration classes of these families take: silu is the only activation of a convolution.
PLAIN_ROPE = rope(("default", "linear"))


def mamba(random, options):
    """Sizes of Mamba-2 layers: heads * size = expand * hidden size."""
    heads = random.choice([n for n in (2, 3, 4, 6, 8) if 2 * options["hidden_size"] % n == 0])
    groups = random.choice([n for n in (1, 2, 3) if heads % n == 0])
    return dict(mamba_n_heads=heads, mamba_d_head=2 * options["hidden_size"] // heads, mamba_n_groups=groups,
                mamba_expand=2, mamba_d_state=random.choice([5, 16, 20]), mamba_d_conv=random.choice([2, 3, 4]),
                mamba_chunk_size=random.choice([8, 16, 32]), mamba_conv_bias=random.choice(BOTH),
                mamba_proj_bias=random.choice(BOTH))


def mamba_alone(random, options):
    """The same sizes under the names of Mamba-2's own configuration class."""
    names = dict(mamba_n_heads="num_heads", mamba_d_head="head_dim", mamba_n_groups="n_groups", mamba_expand="expand",
                 mamba_d_state="state_size", mamba_d_conv="conv_kernel", mamba_chunk_size="chunk_size",
                 mamba_conv_bias="use_conv_bias", mamba_proj_bias="use_bias")
    return {names[key]: value for key, value in mamba(random, options).items()}


def falcon(random, options):
    sizes = mamba(random, options)
    sizes["projectors_bias"] = sizes["mamba_proj_bias"]
    return dict(sizes, mamba_d_ssm=sizes["mamba_n_heads"] * sizes["mamba_d_head"],
                mlp_multipliers=[round(random.uniform(0.4, 2), 4) for _ in range(2)],
                ssm_multipliers=[round(random.uniform(0.4, 2), 4) for _ in range(5)])


def delta(random, _):
    keys = random.choice([1, 2, 3])
    return dict(linear_num_key_heads=keys, linear_num_value_heads=keys * random.choice([1, 2, 3]),
                linear_key_head_dim=random.choice([8, 12, 20, 32]),
                linear_value_head_dim=random.choice([8, 18, 64, 70]),
                linear_conv_kernel_dim=random.choice([2, 3, 4]))


def split_taps(tensors, options):
    """Splits the convolutions of q, k and v by their sizes; transformers writes three equal parts."""
    keys = options["linear_num_key_heads"] * options["linear_key_head_dim"]
    for name in [name for name in tensors if "q_conv1d" in name]:
        names = [name, name.replace("q_conv1d", "k_conv1d"), name.replace("q_conv1d", "v_conv1d")]
        whole = torch.cat([tensors[name] for name in names])
        for name, part in zip(names, whole.split([keys, keys, len(whole) - 2 * keys])):
            tensors[name] = part.contiguous()
    return tensors


QWEN = {"hidden_act": "silu", "layer_types": mixed, "+delta": delta,
        "head_dim": [8, 16, 24, 32],
        "rope_parameters": rope(("default",), [0.25, 0.5, 1.0])}
EXPERTS = dict(num_experts=[3, 4], num_experts_per_tok=[1, 2, 3], moe_intermediate_size=[16, 32],
               shared_expert_intermediate_size=[16, 24])
GRANITE = {"layer_types": mixed, "+mamba": mamba}
GRANITE_KEYS = dict(position_embedding_type=[None, "rope"], attention_bias=BOTH, hidden_act="silu",
                    rope_parameters=PLAIN_ROPE, embedding_multiplier=bounded(1, 4), logits_scaling=bounded(0.5, 2),
                    residual_multiplier=bounded(0.3, 1), attention_multiplier=bounded(0.1, 0.6),
                    num_local_experts=[0, 4, 6], num_experts_per_tok=[1, 2, 3], shared_intermediate_size=[32, 48])

def old_types(config):
    """The names of layer types that llama.cpp's converter of Granite knows."""
    names = dict(linear_attention="mamba", full_attention="attention")
    return dict(config, layer_types=[names[kind] for kind in config["layer_types"]])


def plain_falcon(options):
    """True where GGUF has a place for all of Falcon-H1's keys. The converter scales biases by the factors of weights."""
    return not (options["attention_bias"] or options["mlp_bias"] or options["projectors_bias"] or
                options["tie_word_embeddings"] or
                (options["mamba_rms_norm"] and options["mamba_norm_before_gate"]))


def plain_rope(options):
    return options["rope_parameters"]["rope_type"] == "default"


FAMILIES = {
    "lfm2": dict(options=even(layer_types=convolutions, conv_L_cache=[2, 3, 4],
                              conv_bias=BOTH, block_auto_adjust_ff_dim=BOTH, block_multiple_of=[16, 24],
                              block_ffn_dim_multiplier=[1.0, 1.3], rope_parameters=PLAIN_ROPE), gguf=plain_rope),
    "lfm2_moe": dict(options=even(rms_norm_eps=ABSENT, norm_eps=[1e-5, 1e-3], conv_L_cache=[2, 3, 4], conv_bias=BOTH,
                                  rope_parameters=PLAIN_ROPE, num_dense_layers=[0, 1, 2], num_experts=[4, 6],
                                  num_experts_per_tok=[1, 2, 3], moe_intermediate_size=[16, 32], norm_topk_prob=BOTH,
                                  routed_scaling_factor=[1.0, 2.5], use_expert_bias=BOTH,
                                  layer_types=convolutions),
                     scale={"expert_bias": 0.3}, positions=300,
                     gguf=lambda o: (plain_rope(o) and o["norm_topk_prob"] and o["routed_scaling_factor"] == 1.0 and
                                     o["use_expert_bias"] and o["num_dense_layers"] < o["num_hidden_layers"])),
    "granitemoehybrid": dict(LONG, options=even(**GRANITE, **GRANITE_KEYS), gguf_edit=old_types,
                             gguf=lambda o: o["position_embedding_type"] is None and o["vocab_size"] % 8 == 0),
    "bamba": dict(LONG, options=even(**{"+mamba": mamba}, attention_bias=BOTH, mlp_bias=BOTH, hidden_act="silu",
                                     rope_parameters=rope(("default",), [0.5]),
                                     attn_layer_indices=lambda random, options: [
                                         random.randrange(options["num_hidden_layers"])]), cached=False),
    "falcon_h1": dict(LONG, options=even(
        **{"+falcon": falcon}, attention_bias=BOTH, mlp_bias=BOTH, hidden_act="silu", rope_parameters=rope(("default",)),
        mamba_rms_norm=BOTH, mamba_norm_before_gate=BOTH, embedding_multiplier=bounded(0.5, 4),
        lm_head_multiplier=bounded(0.3, 1), key_multiplier=bounded(0.3, 2), attention_in_multiplier=bounded(0.3, 2),
        attention_out_multiplier=bounded(0.3, 2), ssm_in_multiplier=bounded(0.3, 2),
        ssm_out_multiplier=bounded(0.3, 2)), gguf=plain_falcon, gguf_edit=lambda config: dict(
            config, head_dim=config["hidden_size"] // config["num_attention_heads"])),
    "mamba2": dict(LONG, cached=False, gguf=lambda o: o["n_groups"] == 1 and o["vocab_size"] % 16 == 0, options={
        "vocab_size": [272, 283, 304], "num_hidden_layers": [2, 3], "hidden_size": [48, 72, 96],
        "layer_norm_epsilon": [1e-5, 1e-3], "tie_word_embeddings": BOTH, "+mamba": mamba_alone,
        "bos_token_id": 261, "eos_token_id": 262, "pad_token_id": None}),
    "olmo_hybrid": dict(LONG, tensors=split_taps, options=even(layer_types=mixed, attention_bias=BOTH, hidden_act="silu",
                                           rope_parameters=rope(("default",)), linear_allow_neg_eigval=BOTH,
                                           **{"+delta": delta})),
    "qwen3_next": dict(LONG, options=common(**QWEN, **EXPERTS, norm_topk_prob=BOTH, attention_bias=BOTH),
                       norm_zero=True, gguf=lambda o: o["norm_topk_prob"]),
    "qwen3_5_text": dict(LONG, options=common(**QWEN, attention_bias=BOTH), norm_zero=True, gguf=lambda o: True),
    "qwen3_5_moe_text": dict(LONG, options=common(**QWEN, **EXPERTS, attention_bias=BOTH), norm_zero=True,
                             gguf=lambda o: True),
}
