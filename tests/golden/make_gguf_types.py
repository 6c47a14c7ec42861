#!/usr/bin/env python3
"""Writes tests/golden/gguf_types/: small GGUF files from llama.cpp's quantizer, and digests of the numbers that the
reference reader reads from them.

    pip install gguf==0.19.0
    tests/golden/make_gguf_types.py LLAMA_QUANTIZE

LLAMA_QUANTIZE is llama.cpp's program of that name. A file of random weights is quantized as Q4_K_M, as Q2_K, and as a
file with every type that millrace reads. NAME.txt has a line for each tensor: name, type, and the SHA-256 of its
numbers as PyPI `gguf` dequantizes them, as little-endian floats.

    tests/golden/make_gguf_types.py --compare TEST_GGUF_TYPES FILE.gguf...

compares files of any size with the program golden_test_gguf_types of a build; exit status 1 if a tensor differs.
"""
import collections
import hashlib
import os
import subprocess
import sys
import tempfile

import gguf
import numpy as np

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gguf_types")
WIDTH, HEAD, FFN, VOCAB, EXPERTS = 256, 64, 32, 32, 2
# shapes as [out, in]; the row lengths of "attn_output" and "ffn_down" are not multiples of 256, so the quantizer
# replaces a K type by another type
LAYER = {"attn_q": (HEAD, WIDTH), "attn_k": (HEAD, WIDTH), "attn_v": (HEAD, WIDTH), "attn_output": (WIDTH, HEAD),
         "ffn_gate": (FFN, WIDTH), "ffn_up": (FFN, WIDTH), "ffn_down": (WIDTH, FFN)}
EXPERT_LAYER = {"ffn_gate_exps": (EXPERTS, FFN, WIDTH), "ffn_up_exps": (EXPERTS, FFN, WIDTH), "ffn_down_exps": (EXPERTS, WIDTH, FFN)}
TYPES = {"blk.0.attn_q": "q2_k", "blk.0.attn_k": "q3_k", "blk.0.attn_v": "q4_k", "blk.0.attn_output": "q4_0", "blk.0.ffn_gate": "q5_k",
         "blk.0.ffn_up": "q6_k", "blk.0.ffn_down": "q4_1", "blk.1.attn_q": "iq4_xs", "blk.1.attn_k": "iq4_nl", "blk.1.attn_v": "q5_0",
         "blk.1.attn_output": "q5_1", "blk.1.ffn_gate_exps": "mxfp4", "blk.1.ffn_up_exps": "q8_0", "blk.1.ffn_down_exps": "bf16"}


def write_source(path):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("random")
    writer.add_vocab_size(VOCAB)
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(2)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(1)
    writer.add_head_count_kv(1)
    writer.add_key_length(HEAD)
    writer.add_value_length(HEAD)
    writer.add_rope_dimension_count(HEAD)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_expert_count(EXPERTS)
    writer.add_expert_used_count(1)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    random = np.random.default_rng(18)

    def add(name, shape):
        # as in models, some columns are larger than others
        values = random.standard_normal(shape, dtype=np.float32) * np.exp(random.standard_normal(shape[-1], dtype=np.float32))
        writer.add_tensor(name + ".weight", (values * 0.02).astype(np.float16))

    add("token_embd", (VOCAB, WIDTH))
    writer.add_tensor("output_norm.weight", random.standard_normal(WIDTH, dtype=np.float32))
    for layer in range(2):
        for norm in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{norm}.weight", random.standard_normal(WIDTH, dtype=np.float32))
        for name, shape in LAYER.items():
            if layer == 0 or name.startswith("attn"):
                add(f"blk.{layer}.{name}", shape)
    for name, shape in EXPERT_LAYER.items():
        add(f"blk.1.{name}", shape)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def digests(path):
    """(name, type, digest) of the tensors of a file."""
    for tensor in gguf.GGUFReader(path).tensors:
        numbers = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype("<f4")
        yield tensor.name, tensor.tensor_type.name, hashlib.sha256(np.ascontiguousarray(numbers).tobytes()).hexdigest()


def write(quantize):
    os.makedirs(FOLDER, exist_ok=True)
    chosen = ["--token-embedding-type", "f16"] + [word for name, kind in TYPES.items() for word in ("--tensor-type", f"{name}={kind}")]
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "source.gguf")
        write_source(source)
        for name, kind, options in (("q4_k_m", "Q4_K_M", []), ("q2_k", "Q2_K", []), ("all_types", "Q8_0", chosen)):
            out = os.path.join(FOLDER, name + ".gguf")
            subprocess.run([quantize, *options, source, out, kind, "1"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            with open(os.path.join(FOLDER, name + ".txt"), "w") as lines:
                for row in digests(out):
                    print(*row, file=lines)


def compare(program, paths):
    differing = 0
    for path in paths:
        found = subprocess.run([program, path], check=True, capture_output=True, text=True).stdout.splitlines()
        ours = dict(line.rsplit(" ", 1) for line in found)
        kinds = collections.Counter()
        bad = []
        for name, kind, digest in digests(path):
            kinds[kind] += 1
            if ours.get(name) != digest:
                bad.append(name)
        print(path, dict(kinds), "tensors;", len(bad), "differ", *bad[:3], flush=True)
        differing += len(bad)
    return differing > 0


if __name__ == "__main__":
    if len(sys.argv) > 3 and sys.argv[1] == "--compare":
        sys.exit(compare(sys.argv[2], sys.argv[3:]))
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    write(sys.argv[1])
