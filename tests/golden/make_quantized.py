#!/usr/bin/env python3
"""Writes the quantized Hugging Face folders that the tests load (PyPI torch, transformers 5, safetensors).

    make_quantized.py tests/golden/quantized [NAME...]

Each folder has a tiny Llama whose linear layers are packed here, after the published formats of DeepSeek's fp8,
compressed-tensors, AutoAWQ, AutoGPTQ and gpt-oss; other tensors stay unpacked, each in a different type. The script
unpacks the numbers of these layers with numpy, in float32:
    rows.txt       a line for each packed layer: name, rows, width, SHA-256 of its numbers as little-endian float32
    expected.bin   logits of transformers with these numbers, in the format of make_logits.py
Where PyPI compressed-tensors is installed, its own decompression must give the same numbers.
"""
import hashlib
import json
import pathlib
import sys

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

import make_logits

try:
    from compressed_tensors.compressors.pack_quantized.helpers import unpack_from_int32
except ImportError:
    unpack_from_int32 = None

CONFIG = dict(vocab_size=272, hidden_size=64, intermediate_size=96, num_hidden_layers=1, num_attention_heads=4,
              num_key_value_heads=2, max_position_embeddings=512, bos_token_id=261, eos_token_id=262,
              pad_token_id=None, tie_word_embeddings=False)
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


# ---- packing ----

def pack_words(numbers, bits):
    """Packs the last dimension, first number in the low bits; the last word is filled with zeros."""
    per = 32 // bits
    padded = np.pad(numbers.astype(np.uint32), [(0, 0)] * (numbers.ndim - 1) + [(0, -numbers.shape[-1] % per)])
    words = np.zeros(padded.shape[:-1] + (padded.shape[-1] // per,), np.uint32)
    for i in range(per):
        words |= padded[..., i::per] << np.uint32(bits * i)
    return torch.from_numpy(words.view(np.int32).copy())


def quantize(weight, group_of, bits, symmetric, rng):
    """Integers 0 .. 2^bits - 1 with a half-precision scale and a zero point for each row and group."""
    top, groups = (1 << bits) - 1, int(group_of.max()) + 1
    scale = np.zeros((weight.shape[0], groups), np.float16)
    zero = np.full((weight.shape[0], groups), (top + 1) // 2)
    for g in range(groups):
        columns = weight[:, group_of == g]
        low, high = columns.min(1), columns.max(1)
        scale[:, g] = ((high - low) if not symmetric else 2 * np.abs(columns).max(1)) / top
        if not symmetric:
            zero[:, g] = np.clip(np.round(-low / scale[:, g].astype(np.float32)), 1, top)
    scale32 = scale.astype(np.float32)
    numbers = np.clip(np.round(weight / scale32[:, group_of]) + zero[:, group_of], 0, top).astype(np.int64)
    return numbers, scale, zero, (numbers - zero[:, group_of]).astype(np.float32) * scale32[:, group_of]


def to_e4m3(numbers):
    return torch.from_numpy(numbers.astype(np.float32)).to(torch.float8_e4m3fn)


def fp8_block(weight, rng, block=(48, 40)):
    rows, columns = -(-weight.shape[0] // block[0]), -(-weight.shape[1] // block[1])
    scale = np.zeros((rows, columns), np.float32)
    grid = np.kron(np.arange(rows * columns).reshape(rows, columns), np.ones(block, np.int64))
    grid = grid[:weight.shape[0], :weight.shape[1]]
    for i in range(rows * columns):
        scale.flat[i] = np.abs(weight[grid == i]).max() / 448
    stored = to_e4m3(weight / scale.ravel()[grid])
    return ({".weight": stored, ".weight_scale_inv": torch.from_numpy(scale)},
            stored.float().numpy() * scale.ravel()[grid])


def float_channel(weight, rng):
    scale = torch.from_numpy(np.abs(weight).max(1, keepdims=True) / 448).to(torch.bfloat16)
    stored = to_e4m3(weight / scale.float().numpy())
    return ({".weight": stored, ".weight_scale": scale, ".input_scale": torch.tensor([0.5])},
            stored.float().numpy() * scale.float().numpy())


def float_tensor(weight, rng):
    scale = np.float32(np.abs(weight).max() / 448)
    stored = to_e4m3(weight / scale)
    return {".weight": stored, ".weight_scale": torch.tensor(scale)}, stored.float().numpy() * scale


def int_channel(weight, rng):
    numbers, scale, zero, values = quantize(weight, np.zeros(weight.shape[1], np.int64), 8, False, rng)
    return ({".weight": torch.from_numpy((numbers - 128).astype(np.int8)), ".weight_scale": torch.from_numpy(scale),
             ".weight_zero_point": torch.from_numpy((zero - 128).astype(np.int8))}, values)


def pack_quantized(weight, rng, bits=4, group=32, symmetric=True, shuffled=False):
    group_of = np.arange(weight.shape[1]) // group
    if shuffled:
        rng.shuffle(group_of)
    numbers, scale, zero, values = quantize(weight, group_of, bits, symmetric, rng)
    pieces = {".weight_packed": pack_words(numbers, bits), ".weight_scale": torch.from_numpy(scale),
              ".weight_shape": torch.tensor(weight.shape)}
    if not symmetric:
        pieces[".weight_zero_point"] = pack_words(zero.T, bits).T.contiguous()
    if shuffled:
        pieces[".weight_g_idx"] = torch.from_numpy(group_of.astype(np.int32))
    if unpack_from_int32:
        theirs = unpack_from_int32(pieces[".weight_packed"], bits, torch.Size(weight.shape)).numpy().astype(np.int64)
        offset = np.zeros_like(zero)
        if not symmetric:
            offset = unpack_from_int32(pieces[".weight_zero_point"], bits, torch.Size(scale.shape), 0).numpy()
        assert ((theirs - offset[:, group_of]) * scale.astype(np.float32)[:, group_of] == values).all()
    return pieces, values


def awq(weight, rng, group=32):
    numbers, scale, zero, values = quantize(weight, np.arange(weight.shape[1]) // group, 4, False, rng)
    place = lambda x: x.T.reshape(x.shape[1], -1, 8)[:, :, AWQ_ORDER].reshape(x.shape[1], -1)
    return ({".qweight": pack_words(place(numbers), 4), ".qzeros": pack_words(place(zero), 4),
             ".scales": torch.from_numpy(scale.T.copy())}, values)


def gptq(weight, rng, bits=4, group=32, shuffled=False, less=1):
    group_of = np.arange(weight.shape[1]) // group
    if shuffled:
        rng.shuffle(group_of)
    numbers, scale, zero, values = quantize(weight, group_of, bits, False, rng)
    return ({".qweight": pack_words(numbers, bits).T.contiguous(), ".qzeros": pack_words(zero.T - less, bits),
             ".scales": torch.from_numpy(scale.T.copy()), ".g_idx": torch.from_numpy(group_of.astype(np.int32))},
            values)


def mxfp4(rng):
    """Two experts of [6, 64]; the folder has nothing else."""
    table = np.array([0, .5, 1, 1.5, 2, 3, 4, 6], np.float32)
    table = np.concatenate([table, -table])
    blocks = rng.integers(0, 256, (2, 6, 2, 16), np.uint8)
    scales = rng.integers(118, 130, (2, 6, 2), np.uint8)
    numbers = np.stack([table[blocks & 15], table[blocks >> 4]], -1).reshape(2, 6, 2, 32)
    values = numbers * np.exp2(scales.astype(np.float32) - 127)[..., None]
    return ({"experts.down_proj_blocks": torch.from_numpy(blocks), "experts.down_proj_scales": torch.from_numpy(scales)},
            {"experts.down_proj": values.astype(np.float32).reshape(12, 64)})


# ---- folders ----

def compressed(weights, form):
    group = {"targets": ["Linear"], "format": form, "weights": weights, "input_activations": None}
    return {"quant_method": "compressed-tensors", "format": form, "quantization_status": "compressed",
            "ignore": ["lm_head"], "config_groups": {"group_0": group}}


INT4 = {"num_bits": 4, "type": "int", "group_size": 32, "strategy": "group"}
AWQ_CONFIG = {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm"}
GPTQ_CONFIG = {"quant_method": "gptq", "bits": 4, "group_size": 32, "sym": False, "desc_act": False}
FOLDERS = {
    "fp8_block": ({"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
                   "weight_block_size": [48, 40]}, fp8_block),
    "float_channel": (compressed({"num_bits": 8, "type": "float", "strategy": "channel"}, "float-quantized"),
                      float_channel),
    "float_tensor": (compressed({"num_bits": 8, "type": "float", "strategy": "tensor"}, "naive-quantized"),
                     float_tensor),
    "int_channel": (compressed({"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": False},
                               "int-quantized"), int_channel),
    "packed": (compressed({**INT4, "symmetric": True}, "pack-quantized"), pack_quantized),
    "packed_zeros": (compressed({**INT4, "symmetric": False, "actorder": "group"}, "pack-quantized"),
                     lambda w, rng: pack_quantized(w, rng, symmetric=False, shuffled=True)),
    "packed_8_bits": (compressed({**INT4, "num_bits": 8, "symmetric": True}, "pack-quantized"),
                      lambda w, rng: pack_quantized(w, rng, bits=8)),
    "awq": (AWQ_CONFIG, awq),
    "gptq": (GPTQ_CONFIG, gptq),
    "gptq_order": ({**GPTQ_CONFIG, "desc_act": True}, lambda w, rng: gptq(w, rng, shuffled=True)),
    "gptq_v2": ({**GPTQ_CONFIG, "checkpoint_format": "gptq_v2"}, lambda w, rng: gptq(w, rng, less=0)),
    "gptq_8_bits": ({**GPTQ_CONFIG, "bits": 8, "group_size": -1},
                    lambda w, rng: gptq(w, rng, bits=8, group=1 << 30)),
    "mxfp4": ({"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}, None),
}


def write_rows(folder, numbers):
    lines = [f"{name} {values.shape[0]} {values.shape[1]} {hashlib.sha256(values.astype('<f4').tobytes()).hexdigest()}"
             for name, values in sorted(numbers.items())]
    (folder / "rows.txt").write_text("\n".join(lines) + "\n")


def make(folder, name):
    quantization, packer = FOLDERS[name]
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(len(name))
    if packer is None:
        tensors, numbers = mxfp4(rng)
        save_file(tensors, folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps({"quantization_config": quantization}, indent=2) + "\n")
        return write_rows(folder, numbers)
    model = LlamaForCausalLM(LlamaConfig(**CONFIG))
    state, tensors, numbers = {}, {}, {}
    plain = {"model.embed_tokens.weight": torch.float16, "lm_head.weight": torch.bfloat16}
    for key, parameter in model.state_dict().items():
        weight = (0.15 * rng.standard_normal(parameter.shape)).astype(np.float32)
        if "norm" in key:
            weight += 1
        if key.endswith("_proj.weight"):
            pieces, state[key] = packer(weight, rng)
            numbers[key] = state[key] = np.ascontiguousarray(state[key], np.float32)
            tensors.update({key.removesuffix(".weight") + piece: value for piece, value in pieces.items()})
            state[key] = torch.from_numpy(state[key])
        else:
            tensors[key] = torch.from_numpy(weight).to(plain.get(key, torch.float32))
            state[key] = tensors[key].float()
    model.load_state_dict(state)
    model.eval()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = {**json.loads(model.config.to_json_string()), "quantization_config": quantization}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    make_logits.write_tokenizer(folder)
    write_rows(folder, numbers)
    draw = lambda count: rng.integers(0, 263, count).tolist()
    make_logits.write_expected(folder / "expected.bin", model, [(draw(1), 0, 4), (draw(37), 30, 8)])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    torch.set_num_threads(1)
    for name in sys.argv[2:] or FOLDERS:
        make(pathlib.Path(sys.argv[1]) / name, name)
