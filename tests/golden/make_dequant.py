#!/usr/bin/env python3
"""Prints the table `references` of tests/unit/ops/numbers/test_dequant.c: for each block format of GGUF the
SHA-256 of the floats that the reference reader (PyPI gguf 0.17 or newer, numpy) computes from pseudo-random blocks.

The bytes come from a linear congruential generator, which the test repeats. The top bit of the exponent of each
half-precision scale is cleared, so that no scale is infinite or NaN.
"""
import hashlib

import gguf
import numpy as np

BLOCKS = 64
# format: offsets of the half-precision scales in a block
SCALES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
    "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": [],
}

for name, scales in SCALES.items():
    kind = getattr(gguf.GGMLQuantizationType, name)
    size = gguf.GGML_QUANT_SIZES[kind][1]
    state, data = 12345, bytearray()
    for _ in range(BLOCKS):
        block = bytearray()
        for _ in range(size):
            state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
            block.append(state >> 24)
        for at in scales:
            block[at + 1] &= 0xBF
        data += block
    floats = gguf.quants.dequantize(np.frombuffer(bytes(data), dtype=np.uint8).reshape(1, -1), kind)
    digest = hashlib.sha256(floats.astype("<f4").tobytes()).hexdigest()
    offsets = ", ".join(str(at) for at in (scales + [-1, -1])[:2])
    print(f'    {{MR_STORAGE_{name}, {{{offsets}}}, "{digest}"}},')
