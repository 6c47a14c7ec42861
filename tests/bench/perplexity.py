#!/usr/bin/env python3
"""Perplexity of a GGUF file's weights, as bench_perplexity defines it, computed by the reference.

    pip install gguf torch transformers tokenizers
    perplexity.py [--windows N] TEXT DTYPE FILE.gguf...     DTYPE: float32 or bfloat16; one JSON object a line

PyPI `gguf` dequantizes a file of the SmolLM family, and transformers computes with the result. The GGUF reader of
transformers 5.23 is not used. With its weights of a Q3_K_M file the figure differed from that of millrace by 0.15 %,
while this script's differs by 0.001 %. Its tokenizer splits two line ends before a digit into two tokens, unlike the
tokenizer in the file.
"""
import argparse
import json
import math
import pathlib
import sys

import gguf
import numpy
import torch
from tokenizers import Tokenizer
from transformers import LlamaConfig, LlamaForCausalLM

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "golden"))
from compare_tokenizer import smollm_json  # noqa: E402

WINDOW_TOKENS = 500
LAYER_NAMES = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
               "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
               "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
OTHER_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def config_of(reader):
    def value(key):
        return reader.fields["llama." + key].contents()
    return LlamaConfig(
        vocab_size=len(reader.fields["tokenizer.ggml.tokens"].data), hidden_size=value("embedding_length"),
        intermediate_size=value("feed_forward_length"), num_hidden_layers=value("block_count"),
        num_attention_heads=value("attention.head_count"), num_key_value_heads=value("attention.head_count_kv"),
        max_position_embeddings=value("context_length"), rms_norm_eps=value("attention.layer_norm_rms_epsilon"),
        rope_parameters={"rope_type": "default", "rope_theta": value("rope.freq_base")},
        tie_word_embeddings=all(tensor.name != "output.weight" for tensor in reader.tensors))


def model_of(reader, dtype):
    config = config_of(reader)
    model = LlamaForCausalLM(config).to(dtype).eval()
    parameters = model.state_dict()
    missing = set(parameters) - ({"lm_head.weight"} if config.tie_word_embeddings else set())
    for tensor in reader.tensors:
        numbers = torch.from_numpy(gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(numpy.float32))
        name = tensor.name.removesuffix(".weight")
        if name in OTHER_NAMES:
            name = OTHER_NAMES[name]
        else:
            _, layer, kind = name.split(".")
            name = f"model.layers.{layer}.{LAYER_NAMES[kind]}"
            if kind in ("attn_q", "attn_k"):  # llama.cpp's converter stores the rows of a head in pairs
                heads = config.num_attention_heads if kind == "attn_q" else config.num_key_value_heads
                rows, width = numbers.shape
                numbers = numbers.reshape(heads, rows // heads // 2, 2, width).transpose(1, 2).reshape(rows, width)
        parameters[name + ".weight"].copy_(numbers)
        missing.discard(name + ".weight")
    assert not missing, missing
    return model


def perplexity(path, text, dtype, windows):
    model = model_of(gguf.GGUFReader(path), dtype)
    tokenizer = Tokenizer.from_str(json.dumps(smollm_json(path)))
    ids = torch.tensor(tokenizer.encode(text, add_special_tokens=False).ids[:windows * WINDOW_TOKENS]).view(windows, WINDOW_TOKENS)
    total = 0.0
    with torch.inference_mode():
        for window in ids:
            logits = model(window[None, :-1]).logits[0].float()
            total += torch.nn.functional.cross_entropy(logits, window[1:], reduction="none").double().sum().item()
    return math.exp(total / (windows * (WINDOW_TOKENS - 1)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--windows", type=int, default=40, help="windows of 500 tokens from the start of the text")
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("dtype", choices=("float32", "bfloat16"))
    parser.add_argument("files", type=pathlib.Path, nargs="+")
    args = parser.parse_args()
    for path in args.files:
        result = perplexity(path, args.text.read_text(), getattr(torch, args.dtype), args.windows)
        print(json.dumps({"model": str(path), "dtype": args.dtype, "tokens": args.windows * WINDOW_TOKENS,
                          "perplexity": round(result, 4)}), flush=True)
