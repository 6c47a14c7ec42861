#!/usr/bin/env python3
"""Perplexity of a GGUF file's weights, as bench_perplexity defines it, computed by PyPI transformers 5 and torch.

    perplexity.py TEXT DTYPE FILE.gguf...      DTYPE: float32 or bfloat16; one JSON object a line
"""
import json
import math
import pathlib
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

WINDOWS, WINDOW_TOKENS = 40, 500


def perplexity(path, text, dtype):
    tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    model = AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=dtype, quantization_config=GgufConfig(dequantize=True)).to(dtype)
    ids = torch.tensor(tokenizer(text)["input_ids"][:WINDOWS * WINDOW_TOKENS]).view(WINDOWS, WINDOW_TOKENS)
    total = 0.0
    with torch.inference_mode():
        for window in ids:
            logits = model(window[None, :-1]).logits[0].float()
            total += torch.nn.functional.cross_entropy(logits, window[1:], reduction="sum").item()
    return math.exp(total / (WINDOWS * (WINDOW_TOKENS - 1)))


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    for name in sys.argv[3:]:
        result = perplexity(pathlib.Path(name), pathlib.Path(sys.argv[1]).read_text(), getattr(torch, sys.argv[2]))
        print(json.dumps({"model": name, "dtype": sys.argv[2], "perplexity": round(result, 4)}), flush=True)
