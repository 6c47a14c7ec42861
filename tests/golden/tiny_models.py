"""The tiny models of make_logits.py: one for each family and variant that the worker computes.

Each entry of MODELS is a dict with
    config   a transformers configuration
    dtype    how weights are stored; float32 where rounding a value to bf16 would hide an error
    prompts  (tokens, first position with logits, continuation tokens); default: PROMPTS
    scale    {part of a parameter's name: standard deviation}, where 0.15 is too small to show
             something (a clamp, a soft cap); the first part that matches counts
    edit     a function that turns the saved config.json into the style that published checkpoints
             have; without it config.json is as transformers 5 writes it
    loader   the class that makes and reads the model; default: AutoModelForCausalLM
    mxfp4    True: experts are stored as MXFP4 blocks and scales, as the released gpt-oss models are
"""
import torch
from transformers import (
    AutoModelForImageTextToText, DeepseekV2Config, Gemma2Config, Gemma3TextConfig, GemmaConfig, GPTNeoXConfig, GptOssConfig,
    GraniteConfig, GraniteMoeConfig, GraniteMoeHybridConfig, Lfm2Config, LlamaConfig, Mistral3Config, MistralConfig, MixtralConfig,
    Olmo2Config, Olmo3Config, Phi3Config, PixtralVisionConfig, Qwen2Config, Qwen2MoeConfig,
    Qwen3Config, Qwen3MoeConfig, Qwen3NextConfig, SmolLM3Config, StableLmConfig)

VOCABULARY = 272

COMMON = dict(vocab_size=VOCABULARY, hidden_size=48, intermediate_size=64, num_hidden_layers=2,
              num_attention_heads=3, max_position_embeddings=1024, initializer_range=0.3,
              bos_token_id=261, eos_token_id=262, pad_token_id=None)

# A window longer than a block, and a context so long that slots save memory.
SLIDING = {**COMMON, "max_position_embeddings": 4096, "sliding_window": 300}

SMALL = dict(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
             num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=1024,
             initializer_range=0.3, bos_token_id=261, eos_token_id=262, pad_token_id=None)
LAYERS_3 = {**SMALL, "num_hidden_layers": 3}
HEADS = {**SMALL, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
WIDE = {**SMALL, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}

# Eight prompts, every position; the last is longer than WINDOW.
PROMPTS = [(n, 0, 8) for n in (1, 2, 3, 4, 6, 8, 12)] + [(44, 0, 24)]
WINDOW = 16
# Every length is above the original context of 4 tokens of phi3_longrope_long.
LONGROPE_PROMPTS = [(n, 0, 8) for n in (5, 5, 6, 6, 7, 8, 12)] + [(36, 0, 24)]
TWO_BLOCKS = [*PROMPTS, (300, 296, 16)]
SIX_BLOCKS = [*PROMPTS, (600, 590, 16), (1300, 1292, 24)]


def published(**more):
    """An edit: the keys that checkpoints had before transformers 5. more: keys to add; those with
    the value None are removed."""
    def edit(config):
        rope = config.pop("rope_parameters")
        config["rope_theta"] = rope.pop("rope_theta", None)
        partial = rope.pop("partial_rotary_factor", None)
        if partial is not None:
            config["partial_rotary_factor"] = partial
        config["rope_scaling"] = rope if rope.get("rope_type", "default") != "default" else None
        config["torch_dtype"] = config.pop("dtype")
        config["transformers_version"] = "4.46.0"
        config.update(more)
        return {key: value for key, value in config.items() if key not in more or value is not None}
    return edit


def published_gemma3(config):
    """The keys of Gemma 3 before transformers 5: a period of the pattern, and two bases."""
    rope = config["rope_parameters"]
    config["rope_parameters"] = rope["full_attention"]
    base = rope["sliding_attention"]["rope_theta"]
    return published(rope_local_base_freq=base, layer_types=None,
                     _sliding_window_pattern=None)(config)


def published_olmo3(config):
    """The keys of OLMo 3 before transformers 5: rope_scaling is that of the full layers."""
    config["rope_parameters"] = config["rope_parameters"]["full_attention"]
    return published()(config)


def published_phi3(config):
    """The keys of Phi-3 before transformers 5: the original context is a key next to rope_scaling, not in it."""
    config = published()(config)
    rope = config["rope_scaling"]
    rope["type"] = rope.pop("rope_type")
    config["original_max_position_embeddings"] = rope.pop("original_max_position_embeddings")
    return config


def longrope(original, longest):
    return dict(max_position_embeddings=longest, original_max_position_embeddings=original,
                rope_parameters=dict(rope_type="longrope", rope_theta=10000.0,
                                     short_factor=[1.0 + 0.125 * i for i in range(8)],
                                     long_factor=[1.0 + 0.875 * i for i in range(8)],
                                     original_max_position_embeddings=original))


def published_type(config):
    """As published(), with the oldest key for the kind of rope scaling."""
    config = published()(config)
    config["rope_scaling"]["type"] = config["rope_scaling"].pop("rope_type")
    return config


YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=8.0, original_max_position_embeddings=512)

LLAMA_FAMILY = {
    "grouped_tied": dict(
        config=LlamaConfig(**COMMON, num_key_value_heads=1, tie_word_embeddings=True),
        dtype=torch.float32, prompts=TWO_BLOCKS),
    "multi_head_untied_biases": dict(
        config=LlamaConfig(**COMMON, num_key_value_heads=3, tie_word_embeddings=False,
                           attention_bias=True, mlp_bias=True), prompts=TWO_BLOCKS),
    "llama3_rope_sharded": dict(
        config=LlamaConfig(**COMMON, num_key_value_heads=1, head_dim=32, tie_word_embeddings=False,
                           rope_parameters=dict(rope_type="llama3", rope_theta=10000.0, factor=8.0,
                                                low_freq_factor=1.0, high_freq_factor=4.0,
                                                original_max_position_embeddings=64)),
        dtype=torch.float16, shard="40KB", prompts=TWO_BLOCKS),
    "qwen2": dict(config=Qwen2Config(**COMMON, num_key_value_heads=1, tie_word_embeddings=True),
                  prompts=TWO_BLOCKS),
    "qwen3_head_norm": dict(
        config=Qwen3Config(**COMMON, num_key_value_heads=1, head_dim=16, tie_word_embeddings=True),
        prompts=TWO_BLOCKS),
    "mistral_window": dict(
        config=MistralConfig(**COMMON, num_key_value_heads=1, sliding_window=24,
                             tie_word_embeddings=False), prompts=TWO_BLOCKS),
    "mistral_slides": dict(
        config=MistralConfig(**SLIDING, num_key_value_heads=1, tie_word_embeddings=True),
        prompts=SIX_BLOCKS),
    "qwen2_slides_above": dict(
        config=Qwen2Config(**{**SLIDING, "num_hidden_layers": 3}, num_key_value_heads=1,
                           use_sliding_window=True, max_window_layers=1, tie_word_embeddings=True),
        prompts=SIX_BLOCKS),
    "llama_linear": dict(
        config=LlamaConfig(**SMALL, rope_parameters=dict(rope_type="linear", rope_theta=10000.0,
                                                         factor=4.0)),
        edit=published_type),
    # Prompts are not longer than max_position_embeddings: there the base does not change.
    "llama_dynamic": dict(
        config=LlamaConfig(**SMALL, rope_parameters=dict(rope_type="dynamic", rope_theta=10000.0,
                                                         factor=4.0)), edit=published()),
    "llama_yarn": dict(config=LlamaConfig(**SMALL, rope_parameters=YARN), edit=published()),
    "llama_yarn_attention_factor": dict(
        config=LlamaConfig(**SMALL, rope_parameters=dict(YARN, attention_factor=1.1, beta_fast=16.0,
                                                         beta_slow=2.0))),
    "llama_head_dim_24": dict(
        config=LlamaConfig(**SMALL, head_dim=24, attention_bias=True, mlp_bias=True)),
    "llama_gelu": dict(config=LlamaConfig(**SMALL, hidden_act="gelu")),
    # Falcon 3: a Llama with heads of 256 numbers.
    "falcon3": dict(
        config=LlamaConfig(**{**SMALL, "num_attention_heads": 1}, head_dim=256,
                           rope_parameters=dict(rope_type="default", rope_theta=1000042.0)),
        edit=published()),
    # Mistral Nemo and Small: head_dim is not hidden_size / num_attention_heads.
    "mistral_head_dim": dict(
        config=MistralConfig(**SMALL, head_dim=32, sliding_window=None), edit=published()),
    # Mistral Small 3.1 and later: a Mistral with a part that reads pictures.
    "mistral_small": dict(
        loader=AutoModelForImageTextToText,
        config=Mistral3Config(
            text_config=MistralConfig(
                **SMALL, head_dim=32, sliding_window=None, tie_word_embeddings=False,
                rope_parameters=dict(rope_type="default", rope_theta=1e9)),
            vision_config=PixtralVisionConfig(hidden_size=16, intermediate_size=16, head_dim=8,
                                              num_hidden_layers=1, num_attention_heads=2,
                                              image_size=28, patch_size=14),
            tie_word_embeddings=False, image_token_index=10)),
    "qwen3_head_dim_20": dict(config=Qwen3Config(**SMALL, head_dim=20)),
}

QWEN2_EXPERTS = dict(num_experts=6, num_experts_per_tok=3, norm_topk_prob=False,
                     moe_intermediate_size=32, shared_expert_intermediate_size=48)
QWEN3_EXPERTS = dict(num_experts=6, num_experts_per_tok=2, norm_topk_prob=True,
                     moe_intermediate_size=32)
GPT_OSS = dict(intermediate_size=32, sliding_window=WINDOW, num_local_experts=4,
               num_experts_per_tok=2,
               rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=32.0,
                                    beta_fast=32.0, beta_slow=1.0, truncate=False,
                                    original_max_position_embeddings=512))

EXPERT_MODELS = {
    "mixtral": dict(
        config=MixtralConfig(**SMALL, num_local_experts=4, num_experts_per_tok=2),
        edit=published(head_dim=None)),
    "qwen2_moe": dict(
        config=Qwen2MoeConfig(**LAYERS_3, **QWEN2_EXPERTS, mlp_only_layers=[1]),
        edit=published(layer_types=None)),
    "qwen2_moe_sparse": dict(config=Qwen2MoeConfig(**SMALL, **QWEN2_EXPERTS)),
    "qwen3_moe": dict(config=Qwen3MoeConfig(**HEADS, **QWEN3_EXPERTS)),
    "qwen3_moe_sparse_step": dict(
        config=Qwen3MoeConfig(**HEADS, **QWEN3_EXPERTS, decoder_sparse_step=2),
        edit=published(num_local_experts=None, num_experts=6)),
    "granite_moe": dict(
        config=GraniteMoeConfig(**{**SMALL, "intermediate_size": 32},
                                num_local_experts=4, num_experts_per_tok=2,
                                embedding_multiplier=3.0, logits_scaling=1.7,
                                residual_multiplier=0.6, attention_multiplier=0.5),
        edit=published()),
    "gpt_oss": dict(
        config=GptOssConfig(**{**HEADS, **GPT_OSS, "num_hidden_layers": 3}),
        scale={"gate_up_proj": 0.8, "sinks": 1.0}),
    # GGUF has no key for truncate: the worker assumes the value of the released models.
    "gpt_oss_mxfp4": dict(config=GptOssConfig(**{**HEADS, **GPT_OSS, "hidden_size": 64}),
                          scale={"sinks": 1.0}, mxfp4=True, edit=published()),
}

# Recurrent layers: longer prompts than a chunk of transformers' scans.
RECURRENT = {**SMALL, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2}
RECURRENT_PROMPTS = [(1, 0, 8), (3, 0, 4), (7, 0, 8), (40, 24, 16), (300, 292, 8)]

RECURRENT_MODELS = {
    "lfm2": dict(
        config=Lfm2Config(**RECURRENT, conv_L_cache=3, block_multiple_of=16,
                          layer_types=["conv", "full_attention", "conv"]),
        prompts=RECURRENT_PROMPTS),
    "granite_hybrid": dict(
        config=GraniteMoeHybridConfig(
            **{**RECURRENT, "hidden_size": 36, "num_attention_heads": 3, "num_key_value_heads": 1},
            shared_intermediate_size=48, num_local_experts=0, num_experts_per_tok=0,
            layer_types=["linear_attention", "full_attention", "linear_attention"],
            mamba_n_heads=6, mamba_d_head=12, mamba_expand=2, mamba_n_groups=2,
            mamba_d_state=20, mamba_d_conv=4, mamba_chunk_size=16, embedding_multiplier=3.0,
            logits_scaling=1.7, residual_multiplier=0.6, attention_multiplier=0.5),
        scale={"A_log": 1.0, "dt_bias": 1.0}, prompts=RECURRENT_PROMPTS),
    "qwen3_next": dict(
        config=Qwen3NextConfig(
            **RECURRENT, head_dim=24, num_experts=3, num_experts_per_tok=2,
            moe_intermediate_size=16, shared_expert_intermediate_size=16,
            layer_types=["linear_attention", "linear_attention", "full_attention"],
            linear_num_value_heads=6, linear_num_key_heads=2, linear_key_head_dim=12,
            linear_value_head_dim=20),
        scale={"A_log": 1.0, "dt_bias": 1.0}, prompts=RECURRENT_PROMPTS),
}

GEMMA_2_3 = {**HEADS, "num_hidden_layers": 4, "sliding_window": WINDOW}
GEMMA3_ROPE = dict(sliding_attention=dict(rope_type="default", rope_theta=100.0),
                   full_attention=dict(rope_type="linear", rope_theta=10000.0, factor=8.0))
SOFT_CAPS = dict(attn_logit_softcapping=1.5, final_logit_softcapping=4.0)
# With a base other than the default, transformers reads the older keys wrongly: the base of layers
# with a window stays the default.
OLMO3 = Olmo3Config(
    **{**SMALL, "num_hidden_layers": 4}, sliding_window=WINDOW,
    rope_parameters=dict(sliding_attention=dict(rope_type="default", rope_theta=500000.0),
                         full_attention=dict(YARN, rope_theta=500000.0)))

OTHER_FAMILIES = {
    "gemma": dict(config=GemmaConfig(**HEADS), edit=published(hidden_act="gelu")),
    # GGUF has no key for query_pre_attn_scalar; llama.cpp assumes head_dim in most sizes.
    "gemma2": dict(
        config=Gemma2Config(**GEMMA_2_3, **SOFT_CAPS, query_pre_attn_scalar=16),
        edit=published(layer_types=None, cache_implementation="hybrid",
                       hidden_act="gelu_pytorch_tanh")),
    "gemma2_scalar": dict(
        config=Gemma2Config(**GEMMA_2_3, **SOFT_CAPS, query_pre_attn_scalar=24)),
    "gemma3": dict(
        config=Gemma3TextConfig(**GEMMA_2_3, sliding_window_pattern=3, query_pre_attn_scalar=24,
                                rope_parameters=GEMMA3_ROPE)),
    "gemma3_published": dict(
        config=Gemma3TextConfig(**{**GEMMA_2_3, "num_hidden_layers": 6}, query_pre_attn_scalar=16,
                                sliding_window_pattern=6, rope_parameters=GEMMA3_ROPE),
        edit=published_gemma3),
    "phi3": dict(
        config=Phi3Config(**SMALL, sliding_window=WINDOW), edit=published(rope_scaling=None)),
    # The served context is not above the original one: short factors. The factor of attention
    # comes from max_position_embeddings all the same.
    "phi3_longrope_short": dict(config=Phi3Config(**{**SMALL, **longrope(256, 4096)}),
                                edit=published_phi3),
    "phi3_longrope_long": dict(config=Phi3Config(**{**SMALL, **longrope(4, 1024)}),
                               prompts=LONGROPE_PROMPTS, edit=published_phi3),
    "phi4_partial_rotary": dict(
        config=Phi3Config(**SMALL,
                          tie_word_embeddings=True,
                          rope_parameters=dict(rope_type="default", rope_theta=10000.0,
                                               partial_rotary_factor=0.75)), edit=published()),
    "smollm3": dict(
        config=SmolLM3Config(**{**SMALL, "num_hidden_layers": 4}, no_rope_layers=[1, 1, 1, 0],
                             rope_parameters=dict(rope_type="default", rope_theta=5000000.0)),
        edit=published()),
    "olmo2": dict(config=Olmo2Config(**SMALL), edit=published()),
    "olmo3": dict(config=OLMO3),
    "olmo3_published": dict(config=OLMO3, edit=published_olmo3),
    "granite": dict(
        config=GraniteConfig(**SMALL, tie_word_embeddings=True, embedding_multiplier=3.0,
                             logits_scaling=1.7, residual_multiplier=0.6,
                             attention_multiplier=0.5), edit=published()),
    "stablelm": dict(
        config=StableLmConfig(**WIDE,
                              use_qkv_bias=True,
                              rope_parameters=dict(rope_type="default", rope_theta=10000.0,
                                                   partial_rotary_factor=0.25)),
        edit=published()),
    "stablelm_parallel": dict(
        config=StableLmConfig(**WIDE,
                              qk_layernorm=True, use_parallel_residual=True,
                              rope_parameters=dict(rope_type="default", rope_theta=10000.0,
                                                   partial_rotary_factor=0.25)),
        edit=published()),
    # Branches with a norm each and no gate; biases; q, k, v by head; the published keys.
    "gpt_neox": dict(
        config=GPTNeoXConfig(**{**SMALL, "num_key_value_heads": None}, tie_word_embeddings=True,
                             rope_parameters=dict(rope_type="default", rope_theta=10000.0,
                                                  partial_rotary_factor=0.25)),
        prompts=[(3, 0, 8), (12, 0, 8), (24, 0, 16)],
        edit=published(rotary_pct=0.25, rotary_emb_base=10000, partial_rotary_factor=None,
                       rope_theta=None)),
}

# Sizes of which none is a multiple of 16, and a rope whose magnitude scales the scores.
LATENT_MODELS = {
    "deepseek_v2": dict(
        config=DeepseekV2Config(
            **{**SMALL, "num_attention_heads": 4, "num_key_value_heads": 4}, tie_word_embeddings=True, q_lora_rank=20,
            kv_lora_rank=24, qk_nope_head_dim=10, qk_rope_head_dim=8, v_head_dim=12, first_k_dense_replace=1,
            n_routed_experts=4, n_shared_experts=1, num_experts_per_tok=2, moe_intermediate_size=16, n_group=2,
            topk_group=1, topk_method="group_limited_greedy", routed_scaling_factor=1.5,
            rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=8.0, mscale=0.9, mscale_all_dim=0.7,
                                 original_max_position_embeddings=128)),
        prompts=[(6, 0, 6), (300, 296, 8)], edit=published(moe_layer_freq=1, scoring_func="softmax")),
}

MODELS = {**LLAMA_FAMILY, **EXPERT_MODELS, **LATENT_MODELS, **RECURRENT_MODELS, **OTHER_FAMILIES}


def randomize(model, generator, scale):
    """Gives every parameter a random value; norms get values around 1 (around 0 for Gemma, which
    adds 1 itself), so that no parameter is neutral and omitting one changes the logits."""
    neutral = 0.0 if model.config.model_type.startswith("gemma") else 1.0
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        chosen = [value for part, value in scale.items() if part in name]
        if "norm" in name and name.endswith("weight"):
            parameter.data.copy_(neutral + 0.3 * noise)
        elif chosen:
            parameter.data.copy_(chosen[0] * noise)
        else:
            parameter.data.copy_((0.3 if name.endswith("bias") else 0.15) * noise)


def to_mxfp4(tensors, generator):
    """Replaces the experts' weights of gpt-oss by random MXFP4 numbers: blocks of 32 numbers of
    four bits (the even one in the low half of a byte) and a scale of 2^(byte - 127) each."""
    for name in [name for name in tensors if name.endswith(("gate_up_proj", "down_proj"))]:
        experts, inputs, outputs = tensors.pop(name).shape
        tensors[name + "_blocks"] = torch.randint(
            0, 256, (experts, outputs, inputs // 32, 16), generator=generator, dtype=torch.uint8)
        tensors[name + "_scales"] = torch.randint(
            121, 126, (experts, outputs, inputs // 32), generator=generator, dtype=torch.uint8)
    return tensors
