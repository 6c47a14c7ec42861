#!/usr/bin/env python3
"""Writes the files that test_logits.c and test_rounding.c read: logits and greedy continuations of the reference
implementation (PyPI torch and transformers 5), in fp32 on the CPU.

    make_logits.py tiny tests/golden/models [NAME...]   the committed tiny models with their weights
    make_logits.py full MODEL.gguf OUT            OUT/expected.bin for a GGUF file, and the same
                                                  model as a Hugging Face folder in OUT/folder

expected.bin, all little-endian: "MRLOGIT1", u32 vocabulary, u32 prompts; for each prompt u32 tokens,
u32 first position with logits, u32 continuation tokens, the tokens, the continuation, then the
logits of positions first .. tokens - 1 as f32.
"""
import json
import pathlib
import struct
import sys

import numpy
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig, Mxfp4Config

import tiny_models


def greedy_logits(model, tokens, count, cached=True):
    """Yields the logits from which each of `count` greedy tokens follows, computed with a KV cache or, if cached is
    False, from all tokens anew."""
    cache, step = None, torch.tensor([tokens])
    for _ in range(count):
        answer = model(step, past_key_values=cache, use_cache=True) if cached else model(step, use_cache=False)
        logits = answer.logits[0, -1]
        yield logits
        chosen = logits.argmax().view(1, 1)
        cache, step = (answer.past_key_values, chosen) if cached else (None, torch.cat([step, chosen], 1))


def reference(model, tokens, first, count, cached=True):
    """Logits of positions first.. (without a KV cache) and `count` greedy tokens."""
    with torch.inference_mode():
        logits = model(torch.tensor([tokens]), use_cache=False).logits[0, first:].float().numpy()
        continuation = [int(logits.argmax()) for logits in greedy_logits(model, tokens, count, cached)]
    return logits, continuation


def write_expected(path, model, prompts, cached=True):
    """prompts: (tokens, first position, continuation length)."""
    vocabulary = model.config.get_text_config().vocab_size
    with open(path, "wb") as out:
        out.write(b"MRLOGIT1" + struct.pack("<II", vocabulary, len(prompts)))
        for tokens, first, count in prompts:
            logits, continuation = reference(model, tokens, first, count, cached)
            out.write(struct.pack("<III", len(tokens), first, count))
            out.write(numpy.array(tokens + continuation, dtype="<u4").tobytes())
            out.write(logits.astype("<f4").tobytes())


# ---- tiny models ----

def byte_alphabet():
    """The printable characters that represent the 256 bytes in byte-level BPE."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    character, extra = {}, 0
    for byte in range(256):
        if byte in kept:
            character[byte] = chr(byte)
        else:
            character[byte] = chr(256 + extra)
            extra += 1
    return [character[byte] for byte in range(256)]


def write_tokenizer(folder):
    words = byte_alphabet()
    merges = [["t", "h"], ["th", "e"], ["i", "n"], ["\u0120", "the"], ["e", "r"]]
    for left, right in merges:
        words.append(left + right)
    special = [{"id": 261 + i, "content": text, "single_word": False, "lstrip": False,
                "rstrip": False, "normalized": False, "special": True}
               for i, text in enumerate(["<s>", "</s>"])]
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": special,
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                          "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True,
                    "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None,
                  "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {word: i for i, word in enumerate(words)}, "merges": merges}}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer) + "\n")
    config = {"bos_token": "<s>", "eos_token": {"content": "</s>"}, "model_max_length": 1024,
              "chat_template": "{% for m in messages %}{{ m['content'] }}{% endfor %}"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config) + "\n")


def save_tiny(folder, entry, generator):
    """Writes config.json and weights in the layout of published checkpoints."""
    model = entry.get("loader", AutoModelForCausalLM).from_config(entry["config"])
    tiny_models.randomize(model, generator, entry.get("scale", {}))
    model.to(entry.get("dtype", torch.bfloat16)).save_pretrained(
        folder, max_shard_size=entry.get("shard", "5GB"))
    config = json.loads((folder / "config.json").read_text())
    if entry.get("mxfp4"):
        weights = folder / "model.safetensors"
        save_file(tiny_models.to_mxfp4(load_file(weights), generator), weights,
                  metadata={"format": "pt"})
        config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": [
            "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens",
            "lm_head"]}
    config = entry.get("edit", dict)(config)
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def make_tiny(root, names):
    for name in names or tiny_models.MODELS:
        entry = tiny_models.MODELS[name]
        folder = root / name
        folder.mkdir(parents=True, exist_ok=True)
        generator = torch.Generator().manual_seed(len(name))
        save_tiny(folder, entry, generator)
        write_tokenizer(folder)
        dequantize = {"quantization_config": Mxfp4Config(dequantize=True)}
        model = entry.get("loader", AutoModelForCausalLM).from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager",
            **(dequantize if entry.get("mxfp4") else {})).float()
        draw = lambda n: torch.randint(0, 263, (n,), generator=generator).tolist()
        write_expected(folder / "expected.bin", model, [
            (draw(tokens), first, count)
            for tokens, first, count in entry.get("prompts", tiny_models.PROMPTS)])


# ---- a real model ----

TEXT = ("The river turns the wheel, the wheel turns the stone, and the stone grinds the corn. "
        "In 1786 the miller wrote: \"12 sacks of rye, 7 of barley\". \u00dcber den Fl\u00fcssen "
        "liegt Nebel; \u6c34\u8f66\u306f\u56de\u308b\u3002 def grind(corn):\n    return [g for g "
        "in corn if g > 0]\n")
LENGTHS = [1, 2, 5, 17, 33, 64, 100, 128, 200, 255, 256, 257, 300, 384, 512, 513, 700, 1000, 1200,
           1500]


def full_prompts(tokenizer, vocabulary):
    text = tokenizer(TEXT * 20)["input_ids"]
    generator = torch.Generator().manual_seed(1)
    chat = tokenizer("<|im_start|>user\nWhat is a mill race?<|im_end|>\n<|im_start|>assistant\n")
    prompts = []
    for i, length in enumerate(LENGTHS):
        tokens = text[i:i + length] if i % 2 == 0 else torch.randint(
            0, vocabulary, (length,), generator=generator).tolist()
        if i % 4 == 2:
            tokens = (tokens + chat["input_ids"])[-length:]
        prompts.append((tokens, 0, 64))
    return prompts


def make_full(gguf, out):
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=torch.float32, attn_implementation="eager",
        quantization_config=GgufConfig(dequantize=True))
    model.save_pretrained(out / "folder", max_shard_size="200MB")
    tokenizer.save_pretrained(out / "folder")
    write_expected(out / "expected.bin", model,
                   full_prompts(tokenizer, model.config.vocab_size))


if __name__ == "__main__":
    torch.set_num_threads(2)
    if len(sys.argv) >= 3 and sys.argv[1] == "tiny":
        make_tiny(pathlib.Path(sys.argv[2]), sys.argv[3:])
    elif len(sys.argv) == 4 and sys.argv[1] == "full":
        make_full(pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]))
    else:
        sys.exit(__doc__)
