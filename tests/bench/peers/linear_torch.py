"""Compares LibTorch's and oneDNN's linear layers with ours, in the shapes and rows of bench_types: two layers of a 1.1
B-shaped model. In each round each side measures every type once, and the best round counts. All inputs are activations
in bf16, so the times of integer products include the rounding of the inputs.

    linear_torch.py [--types build/bench_types] [--threads 2] [--rounds 2]

bf16: torch.nn.functional.linear (oneDNN, or LibTorch's own for a row). int8: oneDNN's qlinear with a scale for each
output and inputs rounded with one scale for all rows; and _weight_int8pack_mm, whose inputs stay in bf16. int4:
_weight_int4pack_mm_for_cpu with groups of 32 and inputs in bf16. Ours: bf16, int8, Q4_0. Needs pip install torch."""
import argparse
import re
import subprocess
import time

import torch

SIZES = [(3072, 2048), (2048, 2048), (16384, 2048), (2048, 8192)] * 2
ROWS = [1, 2, 4, 8, 16, 32, 128, 512]


def bf16(out_size, in_size):
    weight = torch.randn(out_size, in_size).bfloat16()
    return lambda x: torch.nn.functional.linear(x, weight)


def qlinear(out_size, in_size):
    weight = torch.randint(-127, 128, (out_size, in_size), dtype=torch.int8)
    scales, zeros = torch.full((out_size,), 1e-3), torch.zeros(out_size, dtype=torch.int64)
    packed = torch.ops.onednn.qlinear_prepack(weight, None)

    def run(x):
        scale = float(x.abs().max()) / 127
        rounded = torch.quantize_per_tensor(x.float(), scale, 128, torch.quint8).int_repr()
        return torch.ops.onednn.qlinear_pointwise(rounded, scale, 128, packed, scales, zeros, None, 1.0, 0, torch.bfloat16,
                                                  "none", [], "")

    return run


def int8_pack(out_size, in_size):
    weight = torch.randint(-127, 128, (out_size, in_size), dtype=torch.int8)
    scales = torch.full((out_size,), 1e-3, dtype=torch.bfloat16)
    return lambda x: torch._weight_int8pack_mm(x, weight, scales)


def int4_pack(out_size, in_size):
    codes = torch.randint(0, 16, (out_size, in_size), dtype=torch.int32)
    packed = torch._convert_weight_to_int4pack_for_cpu(codes, 1)
    scales = torch.full((in_size // 32, out_size, 2), 1e-3, dtype=torch.bfloat16)
    return lambda x: torch._weight_int4pack_mm_for_cpu(x, packed, 32, scales)


THEIRS = {"torch bf16": bf16, "onednn int8": qlinear, "torch int8": int8_pack, "torch int4": int4_pack}
OURS = {"millrace bf16": "bf16", "millrace int8": "int8", "millrace Q4_0": "Q4_0"}


def measure(make):
    """Milliseconds of all layers for each number of rows, best of several runs."""
    layers = [make(*size) for size in SIZES]
    inputs = {width: torch.randn(max(ROWS), width).bfloat16() for _, width in SIZES}
    best = []
    for rows in ROWS:
        times = []
        for _ in range(20 if rows < 128 else 5):
            start = time.perf_counter()
            for layer, (_, width) in zip(layers, SIZES):
                layer(inputs[width][:rows])
            times.append(time.perf_counter() - start)
        best.append(1e3 * min(times))
    return best


def run_ours(options, kind):
    line = subprocess.run([options.types, "--threads", str(options.threads), kind], check=True, capture_output=True,
                          text=True).stdout.splitlines()[-1]
    return [float(figure) for figure in re.findall(r"([\d.]+)\s+\d+\s+[\d.]+", line.split(None, 1)[1])]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--types", default="build/bench_types")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    best = {}
    with torch.inference_mode():
        for _ in range(options.rounds):
            for name in [*OURS, *THEIRS]:
                row = run_ours(options, OURS[name]) if name in OURS else measure(THEIRS[name])
                best[name] = [min(pair) for pair in zip(row, best.get(name, row))]
    print("| ms, rows: | " + " | ".join(map(str, ROWS)) + " |\n|---" + "|---" * len(ROWS) + "|")
    for name, row in best.items():
        print(f"| {name} | " + " | ".join(f"{figure:.1f}" for figure in row) + " |")


if __name__ == "__main__":
    main()
