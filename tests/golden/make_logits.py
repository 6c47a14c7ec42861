#!/usr/bin/env python3
"""Writes the files that test_logits.c compares with: logits and greedy continuations of the reference
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
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
from transformers import LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config


def reference(model, tokens, first, count):
    """Logits of positions first.. (without a KV cache) and `count` greedy tokens (with one)."""
    with torch.inference_mode():
        logits = model(torch.tensor([tokens])).logits[0, first:].float().numpy()
        cache, step, continuation = None, torch.tensor([tokens]), []
        for _ in range(count):
            answer = model(step, past_key_values=cache, use_cache=True)
            cache = answer.past_key_values
            continuation.append(int(answer.logits[0, -1].argmax()))
            step = torch.tensor([[continuation[-1]]])
    return logits, continuation


def write_expected(path, model, prompts):
    """prompts: (tokens, first position, continuation length)."""
    vocabulary = model.config.vocab_size
    with open(path, "wb") as out:
        out.write(b"MRLOGIT1" + struct.pack("<II", vocabulary, len(prompts)))
        for tokens, first, count in prompts:
            logits, continuation = reference(model, tokens, first, count)
            out.write(struct.pack("<III", len(tokens), first, count))
            out.write(numpy.array(tokens + continuation, dtype="<u4").tobytes())
            out.write(logits.astype("<f4").tobytes())


# ---- tiny models ----

VOCABULARY = 272


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


COMMON = dict(vocab_size=VOCABULARY, hidden_size=48, intermediate_size=64, num_hidden_layers=2,
              num_attention_heads=3, max_position_embeddings=1024, initializer_range=0.3,
              bos_token_id=261, eos_token_id=262, pad_token_id=None)

# A window longer than a block, and a context so long that slots save memory.
SLIDING = {**COMMON, "max_position_embeddings": 4096, "sliding_window": 300}

# prompt tokens, first position with logits, continuation tokens
PROMPTS = [(1, 0, 8), (37, 0, 16), (300, 296, 16)]
LONG_PROMPTS = [(37, 0, 16), (600, 590, 16), (1300, 1292, 24)]

TINY = {
    "grouped_tied": (LlamaConfig(**COMMON, num_key_value_heads=1, tie_word_embeddings=True),
                     torch.float32, "5GB"),
    "multi_head_untied_biases": (
        LlamaConfig(**COMMON, num_key_value_heads=3, tie_word_embeddings=False,
                    attention_bias=True, mlp_bias=True), torch.bfloat16, "5GB"),
    "llama3_rope_sharded": (
        LlamaConfig(**COMMON, num_key_value_heads=1, head_dim=32, tie_word_embeddings=False,
                    rope_parameters=dict(rope_type="llama3", rope_theta=10000.0, factor=8.0,
                                         low_freq_factor=1.0, high_freq_factor=4.0,
                                         original_max_position_embeddings=64)),
        torch.float16, "40KB"),
    "qwen2": (Qwen2Config(**COMMON, num_key_value_heads=1, tie_word_embeddings=True),
              torch.bfloat16, "5GB"),
    "qwen3_head_norm": (
        Qwen3Config(**COMMON, num_key_value_heads=1, head_dim=16, tie_word_embeddings=True),
        torch.bfloat16, "5GB"),
    "mistral_window": (
        MistralConfig(**COMMON, num_key_value_heads=1, sliding_window=24,
                      tie_word_embeddings=False), torch.bfloat16, "5GB"),
    "mistral_slides": (
        MistralConfig(**SLIDING, num_key_value_heads=1, tie_word_embeddings=True),
        torch.bfloat16, "5GB"),
    "qwen2_slides_above": (
        Qwen2Config(**{**SLIDING, "num_hidden_layers": 3}, num_key_value_heads=1,
                    use_sliding_window=True, max_window_layers=1, tie_word_embeddings=True),
        torch.bfloat16, "5GB"),
}


def randomize(model, generator):
    """Gives norms and biases values other than 1 and 0, so that omitting one changes the logits."""
    for name, parameter in model.named_parameters():
        if name.endswith("norm.weight"):
            parameter.data.copy_(1 + 0.3 * torch.randn(parameter.shape, generator=generator))
        elif name.endswith("bias"):
            parameter.data.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
        else:
            parameter.data.copy_(0.15 * torch.randn(parameter.shape, generator=generator))


def make_tiny(root, names):
    for name, (config, dtype, shard) in TINY.items():
        if names and name not in names:
            continue
        folder = root / name
        folder.mkdir(parents=True, exist_ok=True)
        generator = torch.Generator().manual_seed(len(name))
        model = AutoModelForCausalLM.from_config(config)
        randomize(model, generator)
        model.to(dtype).save_pretrained(folder, max_shard_size=shard)
        write_tokenizer(folder)
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32,
                                                     attn_implementation="eager")
        draw = lambda n: torch.randint(0, 263, (n,), generator=generator).tolist()
        prompts = LONG_PROMPTS if "slides" in name else PROMPTS
        write_expected(folder / "expected.bin", model,
                       [(draw(tokens), first, count) for tokens, first, count in prompts])


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
