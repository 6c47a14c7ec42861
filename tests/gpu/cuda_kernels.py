#!/usr/bin/env python3
"""Compares every kernel of ops/cuda with the operators of Python's torch, on random shapes and values, and the memory
bandwidth of decode attention with that of a copy. Part of make gpu-check and gpu-bench.

    cuda_kernels.py --library libmr_cuda_kernels.so [--cases N] [--bandwidth] [--json FILE]

Exits 1 when a kernel differs. The library is ops/cuda alone, called through the structs of cuda_kernels.h."""

import argparse
import ctypes
import json
import random
import sys

import torch

TYPES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}
TOLERANCES = {torch.float32: 1e-5, torch.float16: 1e-3, torch.bfloat16: 6e-3}  # relative, of norms
U, I, F, P = ctypes.c_uint32, ctypes.c_int64, ctypes.c_float, ctypes.c_void_p
DEVICE = "cuda"


def struct(name, **fields):
    return type(name, (ctypes.Structure,), {"_fields_": list(fields.items())})


KV = struct("KV", keys=P, values=P, block_stride=I, head_stride=I, token_stride=I, block_tokens=U, kv_head_count=U,
            head_dim=U, type=U)
DECODE = struct("DECODE", kv=KV, row_count=U, head_count=U, q=P, q_stride=I, lengths=P, length_max=U, blocks=P,
                blocks_stride=I, window=U, scale=F, softcap=F, sinks=P, out=P, scratch=P)
ADD_NORM = struct("ADD_NORM", type=U, row_count=U, width=U, x=P, residual=P, scale=F, weight=P, epsilon=F, out=P)
ROPE = struct("ROPE", kv=KV, row_count=U, head_count=U, qkv=P, qkv_stride=I, q_norm=P, k_norm=P, norm_epsilon=F,
              norm_width=U, norm_whole=ctypes.c_bool, cos=P, sin=P, rotary_dim=U, positions=P, slots=P, q=P)
GATED = struct("GATED", type=U, activation=U, row_count=U, width=U, gate=P, up=P, input_stride=I, out=P)
SAMPLING = struct("SAMPLING", type=U, row_count=U, vocab_size=U, logits=P, logits_stride=I, draws=P, tokens=P,
                  probabilities=P)


class Kernels:
    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.mr_cuda_decode_scratch_bytes.restype = ctypes.c_size_t
        self.error = ctypes.create_string_buffer(4096)

    def __call__(self, name, call):
        status = getattr(self.library, name)(ctypes.byref(call), stream(), self.error)
        if status:
            raise RuntimeError(f"{name}: status {status}: {self.error.raw[4:200].split(bytes(1))[0]}")


def stream():
    return P(torch.cuda.current_stream().cuda_stream if DEVICE == "cuda" else 0)


def place(tensor):
    return tensor.data_ptr() if tensor is not None else None


def kv_of(pool):
    """pool: [2, blocks, kv heads, tokens, dim]."""
    keys = pool[0]
    return KV(place(keys), place(pool[1]), keys.stride(0), keys.stride(1), keys.stride(2), keys.shape[2], keys.shape[1],
              keys.shape[3], TYPES[pool.dtype])


def distance(out, expected):
    return ((out.double() - expected.double()).norm() / expected.double().norm().clamp_min(1e-30)).item()


# --- kernels: each returns the relative distances from the operators' results -------------------------------------------

def decode_call(kernels, shape, dtype):
    """shape: rows, kv heads, group, dim, longest. Returns the call and all tensors that it points to."""
    rows, kv_heads, group, dim, longest = shape
    blocks = (longest + 255) // 256
    pool = torch.randn(2, rows * blocks, kv_heads, 256, dim, device=DEVICE, dtype=dtype)
    q = torch.randn(rows, kv_heads * group, dim, device=DEVICE, dtype=dtype)
    tables = torch.randperm(rows * blocks, device=DEVICE, dtype=torch.int32).view(rows, blocks)
    lengths = torch.randint(1, longest + 1, (rows,), device=DEVICE, dtype=torch.int32)
    out = torch.full_like(q, float("nan"))
    call = DECODE(kv_of(pool), rows, kv_heads * group, place(q), q.stride(0), place(lengths), longest, place(tables),
                  blocks, 0, dim ** -0.5, 0.0, None, place(out), None)
    scratch = torch.empty(kernels.library.mr_cuda_decode_scratch_bytes(ctypes.byref(call)) // 4, device=DEVICE)
    call.scratch = place(scratch)
    return call, {"pool": pool, "q": q, "tables": tables, "lengths": lengths, "out": out, "scratch": scratch}


def check_decode(kernels, pick, dtype):
    shape = (pick.randint(1, 9), pick.choice([1, 2, 8]), pick.choice([1, 2, 4, 5, 8, 9]), pick.choice([16, 64, 80, 128, 256]),
             pick.choice([1, 255, 256, 257, 1000, 3000]))
    call, parts = decode_call(kernels, shape, dtype)
    call.window = pick.choice([0, 0, 1, 100, 300])
    call.softcap = pick.choice([0.0, 0.0, 30.0])
    sinks = torch.randn(call.head_count, device=DEVICE) if pick.random() < 0.3 else None
    call.sinks = place(sinks)
    if call.window:  # the scratch memory of a window is smaller, never larger
        parts["scratch"].fill_(float("nan"))
    kernels("mr_cuda_decode_attention", call)
    expected = []
    for row in range(shape[0]):
        length = int(parts["lengths"][row])
        first = max(0, length - call.window) if call.window else 0
        k, v = (half[parts["tables"][row].long()].transpose(0, 1).reshape(shape[1], -1, shape[3])[:, first:length].double()
                for half in parts["pool"])
        q = parts["q"][row].view(shape[1], shape[2], shape[3]).double()
        scores = q @ k.transpose(1, 2) * call.scale
        if call.softcap:
            scores = torch.tanh(scores / call.softcap) * call.softcap
        if sinks is not None:
            scores = torch.cat([scores, sinks.double().view(shape[1], shape[2], 1)], -1)
        expected.append((torch.softmax(scores, -1)[..., :length - first] @ v).reshape(-1, shape[3]))
    return distance(parts["out"], torch.stack(expected))


def check_add_norm(kernels, pick, dtype):
    rows, width = pick.randint(1, 70), 8 * pick.randint(1, 1100)
    x = torch.randn(rows, width, device=DEVICE, dtype=dtype)
    residual, weight = torch.randn(rows, width, device=DEVICE), torch.randn(width, device=DEVICE)
    total = residual.double() + 0.5 * x.double()
    expected = total * torch.rsqrt(total.square().mean(-1, True) + 1e-5) * weight.double()
    out = torch.full_like(x, float("nan"))
    kernels("mr_cuda_add_rms_norm", ADD_NORM(TYPES[dtype], rows, width, place(x), place(residual), 0.5, place(weight), 1e-5,
                                             place(out)))
    return max(distance(out, expected), distance(residual, total))


def check_gated(kernels, pick, dtype):
    rows, width = pick.randint(1, 70), 8 * pick.randint(1, 2000)
    y = torch.randn(rows, 2 * width, device=DEVICE, dtype=dtype)
    out = torch.full((rows, width), float("nan"), device=DEVICE, dtype=dtype)
    kernels("mr_cuda_gated_mul", GATED(TYPES[dtype], 0, rows, width, place(y), place(y) + width * y.element_size(),
                                       2 * width, place(out)))
    gate, up = y.double().chunk(2, -1)
    return distance(out, torch.nn.functional.silu(gate) * up)


def check_rope(kernels, pick, dtype):
    rows, heads, kv_heads, dim = pick.randint(1, 40), 8, 4, pick.choice([64, 80, 128, 256])
    pool = torch.full((2, 3, kv_heads, 256, dim), float("nan"), device=DEVICE, dtype=dtype)
    qkv = torch.randn(rows, heads + 2 * kv_heads, dim, device=DEVICE, dtype=dtype)
    norms = [torch.randn(count * dim, device=DEVICE) for count in (heads, kv_heads)]
    angles = torch.randn(1000, dim // 2, device=DEVICE)
    cos, sin = angles.cos(), angles.sin()
    positions = torch.randint(0, 1000, (rows,), device=DEVICE, dtype=torch.int32)
    slots = torch.randperm(3 * 256, device=DEVICE)[:rows].contiguous()
    q = torch.full((rows, heads, dim), float("nan"), device=DEVICE, dtype=dtype)
    kernels("mr_cuda_rope_kv_write", ROPE(kv_of(pool), rows, heads, place(qkv), qkv.stride(0), place(norms[0]),
                                          place(norms[1]), 1e-5, dim, False, place(cos), place(sin), dim, place(positions),
                                          place(slots), place(q)))
    weights = torch.cat(norms).view(1, -1, dim).double()
    x = qkv[:, :heads + kv_heads].double()
    x = x * torch.rsqrt(x.square().mean(-1, True) + 1e-5) * weights
    a, b = x.chunk(2, -1)
    c, s = (table[positions.long()].double().unsqueeze(1) for table in (cos, sin))
    x = torch.cat([a * c - b * s, b * c + a * s], -1)
    written = pool.permute(0, 1, 3, 2, 4).reshape(2, -1, kv_heads, dim)[:, slots]
    return max(distance(q, x[:, :heads]), distance(written[0], x[:, heads:]),
               distance(written[1], qkv[:, heads + kv_heads:]))


def check_sample(kernels, pick, dtype):
    """Greedy rows, and rows cut to one token. Returns the number of rows whose token is not the best one."""
    rows, vocabulary = pick.randint(1, 20), pick.choice([5, 1000, 128256])
    logits = torch.randn(rows, vocabulary, device=DEVICE, dtype=dtype)
    draws = torch.zeros(rows, 8, device=DEVICE, dtype=torch.int32)  # struct mr_cuda_draw
    draws[::2, 4] = 1  # top_k
    draws.view(torch.float32)[::2, [3, 5, 7]] = 1.0  # temperature, top_p, typical_p
    tokens = torch.full((rows,), -7, device=DEVICE, dtype=torch.int32)
    probabilities = torch.empty(rows, device=DEVICE)
    kernels("mr_cuda_sample", SAMPLING(TYPES[dtype], rows, vocabulary, place(logits), vocabulary, place(draws),
                                       place(tokens), place(probabilities)))
    best = logits.double().max(-1).values
    return float((logits.double().gather(1, tokens.long().unsqueeze(1)).squeeze(1) != best).sum())


CHECKS = {"decode_attention": check_decode, "add_rms_norm": check_add_norm, "gated_mul": check_gated,
          "rope_kv_write": check_rope, "sample": check_sample}


def check(kernels, cases):
    report, wrong = {}, 0
    for name, run in CHECKS.items():
        for dtype, tolerance in TOLERANCES.items():
            worst = 0.0
            for case in range(cases):
                torch.manual_seed(case)
                found = run(kernels, random.Random(case), dtype)
                worst = max(worst, found if found == found else float("inf"))
            report[f"{name} {str(dtype)[6:]}"] = worst
            wrong += worst > tolerance
    return report, wrong


# --- bandwidth -----------------------------------------------------------------------------------------------------------

def median_ms(run, repetitions=30):
    times = []
    for _ in range(repetitions + 3):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return sorted(times[3:])[repetitions // 2]


def bandwidth(kernels):
    """Decode attention of Llama-3-8B's shape at several batches and lengths, in GB/s of K and V, and of a copy."""
    source = torch.randn(1 << 30, device=DEVICE)
    target = torch.empty_like(source)
    copy = 2 * source.nbytes / median_ms(lambda: target.copy_(source)) / 1e6
    del source, target
    report = {"copy_gb_per_s": round(copy)}
    for rows, length in ((1, 1024), (1, 8192), (64, 1024), (64, 4096), (256, 1024)):
        call, parts = decode_call(kernels, (rows, 8, 4, 128, length), torch.bfloat16)
        parts["lengths"].fill_(length)
        took = median_ms(lambda: kernels("mr_cuda_decode_attention", call))
        moved = rows * length * 8 * 128 * 2 * 2
        report[f"decode {rows} x {length}"] = {"us": round(took * 1000, 1), "gb_per_s": round(moved / took / 1e6),
                                               "of_copy": round(moved / took / 1e6 / copy, 3)}
    return report


def main():
    global DEVICE
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--bandwidth", action="store_true")
    parser.add_argument("--device", default="cuda", help="cpu: a library of kernels compiled for the host")
    parser.add_argument("--json")
    options = parser.parse_args()
    DEVICE = options.device
    kernels = Kernels(options.library)
    report, wrong = ({"bandwidth": bandwidth(kernels)}, 0) if options.bandwidth else check(kernels, options.cases)
    text = json.dumps(report, indent=1)
    print(text)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            file.write(text + "\n")
    sys.exit(1 if wrong else 0)


main()
