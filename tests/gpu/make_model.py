#!/usr/bin/env python3
"""Writes a model folder with random bf16 weights, made on the card where there is one: the geometry of Llama-3-8B, 16 GB.

    make_model.py FOLDER TOKENIZER_FOLDER [--layers 32] [--hidden 4096] [--ffn 14336] [--vocabulary 128256]

The tokenizer is that of a small model: speed needs ids only. Needs Python's torch; writes safetensors itself."""

import argparse
import json
import math
import pathlib
import shutil
import struct

import torch


def tensors(options):
    """Name and shape of every tensor, in the order of the file."""
    hidden, ffn, kv = options.hidden, options.ffn, options.hidden // 4
    yield "model.embed_tokens.weight", (options.vocabulary, hidden)
    for layer in range(options.layers):
        start = f"model.layers.{layer}."
        yield start + "input_layernorm.weight", (hidden,)
        for name, rows in (("q", hidden), ("k", kv), ("v", kv)):
            yield f"{start}self_attn.{name}_proj.weight", (rows, hidden)
        yield start + "self_attn.o_proj.weight", (hidden, hidden)
        yield start + "post_attention_layernorm.weight", (hidden,)
        yield start + "mlp.gate_proj.weight", (ffn, hidden)
        yield start + "mlp.up_proj.weight", (ffn, hidden)
        yield start + "mlp.down_proj.weight", (hidden, ffn)
    yield "model.norm.weight", (hidden,)
    yield "lm_head.weight", (options.vocabulary, hidden)


def write_weights(path, options):
    header, end = {}, 0
    for name, shape in tensors(options):
        size = 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(1)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, shape in tensors(options):
            values = torch.ones(shape) if len(shape) == 1 else torch.randn(shape, device=device) * 0.02
            file.write(values.to(torch.bfloat16).cpu().contiguous().view(torch.uint8).numpy())
    return end


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("tokenizer", type=pathlib.Path)
    for name, value in (("layers", 32), ("hidden", 4096), ("ffn", 14336), ("vocabulary", 128256)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    heads = options.hidden // 128
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
              "hidden_size": options.hidden, "intermediate_size": options.ffn, "num_hidden_layers": options.layers,
              "num_attention_heads": heads, "num_key_value_heads": heads // 4, "head_dim": 128, "hidden_act": "silu",
              "vocab_size": options.vocabulary, "max_position_embeddings": 16384, "rms_norm_eps": 1e-5,
              "rope_theta": 500000.0, "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2}
    (options.folder / "config.json").write_text(json.dumps(config, indent=1))
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        if (options.tokenizer / name).exists():
            shutil.copy(options.tokenizer / name, options.folder / name)
    size = write_weights(options.folder / "model.safetensors", options)
    print(json.dumps({"bytes": size}))


main()
