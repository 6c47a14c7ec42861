"""The text parts of models that read pictures. The vision part is as small as its configuration class allows: the
worker ignores its tensors."""
from transformers import AutoModelForImageTextToText

from families.decoders import one_silu
from families.options import ABSENT, ACTIVATIONS, BOTH, common, even, rope
from families.standing import EXPERTS, SLIDES

QWEN_VISION = dict(depth=1, hidden_size=32, num_heads=2, intermediate_size=32, out_hidden_size=64)
QWEN3_VISION = dict(QWEN_VISION, deepstack_visual_indexes=[0], num_position_embeddings=16)
VISION = dict(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)


def wrapped(vision, text_type=None, tied="tie_word_embeddings"):
    """Configurations whose text part has the options. tied: the option that the whole model has."""
    def config(options):
        text = {key: value for key, value in options.items() if key != tied}
        if text_type:
            text["model_type"] = text_type
        return dict(text_config=text, vision_config=vision, tie_word_embeddings=options[tied])
    return config


def sections(kinds=("default", "linear", "llama3", "yarn", "dynamic")):
    """rope with the sections of the three dimensions of positions."""
    def draw(random, options):
        size = options.get("head_dim") or options["hidden_size"] // options["num_attention_heads"]
        height = size // 2 // 3
        return dict(rope(kinds)(random, options), mrope_section=[size // 2 - 2 * height, height, height])
    return draw


def part(vision, options, text_type=None, **row):
    return dict(loader=AutoModelForImageTextToText, config=wrapped(vision, text_type), options=options, **row)


def one_default(options):
    return one_silu(options) and options["rope_parameters"]["rope_type"] == "default"


def flat(config):
    """Folders of Qwen 2 VL had the sizes of the text part at the top level before transformers 5."""
    text = config.pop("text_config")
    return {**text, **config}


QWEN2 = even(**SLIDES, hidden_act=ACTIVATIONS, rope_parameters=sections(("default",)))
FAMILIES = {
    "qwen2_vl": part(dict(depth=1, embed_dim=32, num_heads=2, hidden_size=64, mlp_ratio=2), QWEN2, edit=flat),
    "qwen2_5_vl": part(dict(QWEN_VISION, fullatt_block_indexes=[0]), QWEN2,
                       gguf=lambda o: one_silu(o) and not o["use_sliding_window"]),
    "qwen3_vl": part(QWEN3_VISION, common(attention_bias=BOTH, hidden_act=ACTIVATIONS,
                                          rope_parameters=sections()), gguf=one_default),
    "qwen3_vl_moe": part(QWEN3_VISION, common(**{**EXPERTS, "norm_topk_prob": ABSENT}, attention_bias=BOTH,
                                              hidden_act=ACTIVATIONS, rope_parameters=sections())),
    "mistral3": part(dict(VISION, model_type="pixtral"),
                     common(sliding_window=[None, 5, 16, 48], hidden_act=ACTIVATIONS), "mistral"),
    "internvl": part(dict(VISION, image_size=[28, 28]), even(**SLIDES, hidden_act=ACTIVATIONS), "qwen2"),
    "smolvlm": part(dict(VISION, image_size=28, patch_size=14),
                    common(attention_bias=BOTH, mlp_bias=BOTH, hidden_act=ACTIVATIONS), "llama"),
}
