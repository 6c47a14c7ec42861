#!/usr/bin/env python3
"""Writes tests/golden/embeddings/NAME.bin, which test_scores.c reads: hidden states after the final norm, for the
prompts in a tiny model's expected.bin (make_logits.py). The reference implementation (PyPI torch and transformers 5)
computes them in fp32 on the CPU.

    make_embeddings.py tests/golden/models tests/golden/embeddings NAME...

All little-endian: u32 hidden size, u32 prompts; for each prompt the hidden state of its last token, then the mean over
all its tokens, as f32.
"""
import pathlib
import struct
import sys

import numpy
import torch
from transformers import AutoModelForCausalLM


def prompts(path):
    data = path.read_bytes()
    assert data[:8] == b"MRLOGIT1"
    vocabulary, count = struct.unpack_from("<II", data, 8)
    at = 16
    for _ in range(count):
        tokens, first, continuation = struct.unpack_from("<III", data, at)
        at += 12
        yield numpy.frombuffer(data, "<u4", tokens, at).astype("int64")
        at += 4 * (tokens + continuation) + 4 * vocabulary * (tokens - first)
    assert at == len(data)


def main():
    models, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    for name in sys.argv[3:]:
        model = AutoModelForCausalLM.from_pretrained(models / name, dtype=torch.float32, attn_implementation="eager").eval()
        rows = []
        for tokens in prompts(models / name / "expected.bin"):
            with torch.inference_mode():
                states = model.model(torch.tensor([tokens.tolist()])).last_hidden_state[0].double()
            rows += [states[-1], states.mean(0)]
        head = struct.pack("<II", model.config.hidden_size, len(rows) // 2)
        (out / f"{name}.bin").write_bytes(head + b"".join(row.numpy().astype("<f4").tobytes() for row in rows))


if __name__ == "__main__":
    main()
