"""The families that were first. A row:

    options    a dict of options (options.py)
    config     a function that makes the arguments of the configuration class from the options; default: they are the same
    edit       a function that changes the dict of config.json, where published files look different
    tensors    a function that changes the dict of tensors and gets the options, where published files look different
    norm_zero  True: weights of norms are stored less 1
    scale      {part of a parameter's name: standard deviation}, where 0.15 shows too little
    keep       parts of names of parameters and buffers that keep the value that transformers gives them
    refused    regular expressions: errors of a loader that refuses an option which is listed as not supported
    positions  tokens of the prompt; default: 64
    settled    True: prompts for which the logits in fp32 and fp64 of transformers differ by more than 5e-5 are not used
    cached     False: transformers computes greedy tokens without its cache, which is wrong or missing
    loader     the class of transformers that makes the model; default: AutoModelForCausalLM
    gguf_edit  a function that changes the dict of config.json for the converter
    gguf       a function of the options: True where llama.cpp's converter and its keys express them
"""
from families.options import (
    ACTIVATIONS, BOTH, WINDOW, bounded, common, even, layer_norms, layer_types, rope, two_ropes)

EXPERTS = dict(num_experts=[4, 6], num_experts_per_tok=[1, 2, 3], norm_topk_prob=BOTH, moe_intermediate_size=[16, 32],
               decoder_sparse_step=[1, 1, 2], mlp_only_layers=[[], [], [1]])
SLIDES = dict(use_sliding_window=BOTH, sliding_window=WINDOW,
              max_window_layers=lambda random, options: random.randrange(options["num_hidden_layers"]))
GRANITE = dict(attention_bias=BOTH, hidden_act=ACTIVATIONS, embedding_multiplier=bounded(1, 4),
               logits_scaling=bounded(0.5, 2), residual_multiplier=bounded(0.3, 1), attention_multiplier=bounded(0.1, 0.6))
GEMMA_2 = dict(sliding_window=WINDOW, layer_types=layer_types(), query_pre_attn_scalar=[16, 24, 40],
               attn_logit_softcapping=[None, 1.5, 50.0], final_logit_softcapping=[None, 4.0, 30.0], attention_bias=BOTH)


def one_sharing(options):
    """True for ropes that llama.cpp's converter writes with all their keys."""
    parameters = options["rope_parameters"]
    return parameters["rope_type"] != "dynamic" and not (
        {"attention_factor", "beta_fast", "mscale", "truncate"} & parameters.keys())


def phi3_rope(random, options):
    dim = options["hidden_size"] // options["num_attention_heads"]
    if random.random() < 0.5:
        return rope(("default",), [0.5, 0.75, 1.0])(random, options)
    return rope(("longrope",))(random, {**options, "head_dim": dim})


FAMILIES = {
    "llama": dict(options=common(attention_bias=BOTH, mlp_bias=BOTH, hidden_act=ACTIVATIONS), gguf=one_sharing),
    "mistral": dict(options=common(sliding_window=[None, *WINDOW], hidden_act=ACTIVATIONS),
                    gguf=lambda options: options["sliding_window"] is None and one_sharing(options)),
    "mixtral": dict(options=common(num_local_experts=[4, 6], num_experts_per_tok=[1, 2, 3], hidden_act=ACTIVATIONS,
                                   sliding_window=[None, *WINDOW]),
                    gguf=lambda options: options["sliding_window"] is None and one_sharing(options)),
    "qwen2": dict(options=even(**SLIDES, hidden_act=ACTIVATIONS), gguf=lambda o: not o["use_sliding_window"]),
    "qwen2_moe": dict(options=even(**SLIDES, **EXPERTS, shared_expert_intermediate_size=[24, 48], qkv_bias=BOTH,
                                   hidden_act=ACTIVATIONS)),
    "qwen3": dict(options=common(**SLIDES, attention_bias=BOTH, hidden_act=ACTIVATIONS),
                  gguf=lambda o: not o["use_sliding_window"]),
    "qwen3_moe": dict(options=common(**EXPERTS, attention_bias=BOTH, hidden_act=ACTIVATIONS)),
    "gemma": dict(options=common(attention_bias=BOTH), norm_zero=True),
    "gemma2": dict(options=common(**GEMMA_2), norm_zero=True),
    "gemma3_text": dict(options=common(**GEMMA_2, rope_parameters=two_ropes()), norm_zero=True),
    "phi3": dict(options=even(max_position_embeddings=4096, original_max_position_embeddings=[16, 4096],
                              sliding_window=[None, *WINDOW], hidden_act=ACTIVATIONS, rope_parameters=phi3_rope)),
    "smollm3": dict(options=even(use_sliding_window=BOTH, sliding_window=WINDOW, attention_bias=BOTH, mlp_bias=BOTH,
                                 no_rope_layers=layer_types(0, 1), hidden_act=ACTIVATIONS)),
    "olmo2": dict(options=even(attention_bias=BOTH, hidden_act=ACTIVATIONS)),
    "olmo3": dict(options=even(attention_bias=BOTH, hidden_act=ACTIVATIONS, sliding_window=WINDOW,
                               layer_types=layer_types(), rope_parameters=two_ropes())),
    "granite": dict(options=even(**GRANITE, mlp_bias=BOTH)),
    "granitemoe": dict(options=even(**GRANITE, num_local_experts=[4, 6], num_experts_per_tok=[1, 2, 3])),
    "stablelm": dict(options=layer_norms(use_qkv_bias=BOTH, qk_layernorm=BOTH, use_parallel_residual=BOTH,
                                         hidden_act=ACTIVATIONS, rope_parameters=rope(shares=[0.25, 0.5, 1.0]))),
    "gpt_oss": dict(options=common(intermediate_size=[32, 48], sliding_window=WINDOW, layer_types=layer_types(),
                                   num_local_experts=[4, 6], num_experts_per_tok=[1, 2, 3], attention_bias=BOTH),
                    scale={"gate_up_proj": 0.8, "sinks": 1.0}),
}
