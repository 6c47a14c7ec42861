"""Options that the rows of several families draw. A row maps a key of a configuration class to
    a list           one of its values is drawn
    a function       draw(random, options) returns the value. Functions run after all lists, in the order of the row;
                     options has the values that are already drawn
    another value    always the same
The function of a key that begins with "+" returns a dict of options instead of one value."""

BOTH = [False, True]
ACTIVATIONS = ["silu", "gelu", "gelu_pytorch_tanh"]
ABSENT = object()


def heads(*pairs):
    """Numbers of heads and of key/value heads."""
    def draw(random, _):
        query, key = random.choice(pairs or [(1, 1), (2, 1), (4, 2), (6, 2), (3, 3), (6, 3), (8, 1)])
        return dict(num_attention_heads=query, num_key_value_heads=key)
    return draw


def even_heads(*sizes):
    """hidden_size as the product of the number of heads and a head size of `sizes`."""
    return lambda random, options: options["num_attention_heads"] * random.choice(sizes or [16, 24, 32])


def bounded(below, above):
    """A number between two bounds."""
    return lambda random, _: round(random.uniform(below, above), 4)


def layer_types(*kinds):
    """One of the kinds for each layer."""
    kinds = kinds or ("sliding_attention", "full_attention")
    return lambda random, options: [random.choice(kinds) for _ in range(options["num_hidden_layers"])]


def rope(kinds=("default", "linear", "llama3", "yarn", "dynamic"), shares=None):
    """rope_parameters of one of the kinds. shares: values of partial_rotary_factor."""
    def draw(random, options):
        kind = random.choice(kinds)
        parameters = dict(rope_type=kind, rope_theta=random.choice([1e4, 1e6, 123456.0]))
        if shares:
            parameters["partial_rotary_factor"] = random.choice(shares)
        if kind in ("linear", "dynamic", "llama3", "yarn"):
            parameters["factor"] = random.choice([2.0, 4.0, 8.5])
        if kind == "llama3":
            parameters.update(low_freq_factor=random.choice([1.0, 1.5]), high_freq_factor=4.0,
                              original_max_position_embeddings=random.choice([16, 64]))
        if kind == "yarn":
            parameters["original_max_position_embeddings"] = random.choice([32, 256])
            parameters.update(random.choice([{}, dict(beta_fast=16.0, beta_slow=2.0), dict(attention_factor=1.3),
                                             dict(mscale=1.2, mscale_all_dim=0.8), dict(truncate=False)]))
        if kind == "longrope":
            half = options["head_dim"] * parameters.get("partial_rotary_factor", 1) // 2
            parameters["original_max_position_embeddings"] = options["original_max_position_embeddings"]
            for name, step in (("short_factor", 0.125), ("long_factor", 0.875)):
                parameters[name] = [1.0 + step * i for i in range(int(half))]
        return parameters
    return draw


def two_ropes(full=("default", "linear", "yarn", "llama3")):
    """Ropes of full layers and of layers with a window."""
    return lambda random, options: dict(full_attention=rope(full)(random, options),
                                        sliding_attention=rope(("default",))(random, options))


WINDOW = [5, 8, 16, 31, 48]

# What nearly every decoder has. head_dim is a key of its own, unless a row removes it.
COMMON = {
    "vocab_size": [272, 283, 304],
    "num_hidden_layers": [2, 3, 4],
    "+heads": heads(),
    "hidden_size": [48, 72, 96],
    "head_dim": [8, 16, 20, 24, 32],
    "intermediate_size": [40, 64, 96],
    "max_position_embeddings": [512, 1024],
    "rms_norm_eps": [1e-6, 1e-5, 1e-3],
    "tie_word_embeddings": BOTH,
    "rope_parameters": rope(),
    "bos_token_id": 261, "eos_token_id": 262, "pad_token_id": None,
}


def common(**more):
    """COMMON with more or other options. An option with the value ABSENT is removed."""
    options = {**COMMON, **more}
    return {key: value for key, value in options.items() if value is not ABSENT}


def even(**more):
    """As common, for configurations without head_dim: hidden_size / heads."""
    return common(**{"head_dim": ABSENT, "hidden_size": even_heads(), **more})


def layer_norms(**more):
    """As even, with layer norms, whose epsilon has another key."""
    return even(**{"rms_norm_eps": ABSENT, "layer_norm_eps": [1e-5, 1e-3], **more})
