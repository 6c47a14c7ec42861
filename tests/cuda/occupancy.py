#!/usr/bin/env python3
"""Compares ops/cuda/occupancy.md with ptxas's report on the kernels of ops/cuda.

    occupancy.py check REPORT...     fails at a spilled register, and when the table differs
    occupancy.py write REPORT...     writes the table

A REPORT is the output of nvcc -Xptxas -v for one file and several architectures (build/cuda/*.txt)."""

import pathlib
import re
import subprocess
import sys

TABLE = pathlib.Path(__file__).resolve().parents[2] / "ops/cuda/occupancy.md"

# Threads and bytes of dynamic shared memory of a thread block, as the launchers choose them: for heads of 128 numbers,
# rows of 4,096, a vocabulary of 128,256.
SPLIT_TOKENS, SPLIT_THREADS, HEADS, PACK = 512, 128, 8, 8


def tiles(dim):
    """The shared memory of decode_tiles<dim>: K and V of two stages of 16 tokens for each warp."""
    warps = 256 // dim
    return 32 * warps, warps * 2 * 2 * 16 * (dim * 2 + 16)


def products(code, row_tiles):
    """The shared memory of multiply_tiles: of each stage x and the tiles of four warps."""
    return 128, (3 if row_tiles == 8 else 4) * (row_tiles * 8 * 144 + 4 * (1152 if code == "u8" else 2 * 640))


SHAPES = {
    "decode_split": (SPLIT_THREADS, 4 * (HEADS * 256 + HEADS * SPLIT_TOKENS + SPLIT_THREADS * PACK + 2 * HEADS +
                                         SPLIT_TOKENS // 16)),
    "decode_tiles<64>": tiles(64),
    "decode_tiles<128>": tiles(128),
    "decode_tiles<256>": tiles(256),
    "decode_combine": (128, 0),
    "find_tokens": (1024, 32 * (3 * 4 + 2 * 8)),
    "add_rms_norm": (256, 32 * 4),
    "gated_mul": (256, 0),
    "rope_write": (128, 4 * 256 * 4),
    "sample": (512, 16 * 12 + 3 * 16 * 8 + 8 + 126 * 8),
    "add_runs": (128, 0),
}
CODES = ["u4", "fp4", "u8"]  # by enum mr_cuda_code
for name in CODES:
    SHAPES[f"unpack_tiles<{name}>"] = 128, 0
    for count in (1, 4, 8):
        SHAPES[f"multiply_tiles<{name}, {count}>"] = products(name, count)
TYPES = {"float": "fp32", "__half": "fp16", "__nv_bfloat16": "bf16"}

# Limits of one multiprocessor: registers, threads, thread blocks, bytes of shared memory (CUDA programming guide,
# compute capabilities 8.0, 9.0 and 10.0). Each thread block takes 1 KiB of shared memory in addition to its own.
LIMITS = {"sm_80": (65536, 2048, 32, 164 << 10), "sm_90a": (65536, 2048, 32, 228 << 10),
          "sm_100": (65536, 2048, 32, 228 << 10)}
RESERVED = 1 << 10


class Kernel:
    def __init__(self, name, architecture):
        self.name, self.architecture = name, architecture
        self.registers = self.spills = self.static_shared = 0

    def percent(self):
        """Part of the threads of a multiprocessor that can run at once."""
        registers, threads, blocks, shared = LIMITS[self.architecture]
        size, dynamic = SHAPES[self.name.rsplit(" ", 1)[0]]
        granted = (self.registers + 7) // 8 * 8 * size
        most = min(threads // size, blocks, registers // granted,
                   shared // (dynamic + self.static_shared + RESERVED))
        return 100 * most * size // threads


def names_of(symbols):
    listed = subprocess.run(["c++filt"], input="\n".join(symbols), check=True, capture_output=True, text=True).stdout
    return dict(zip(symbols, listed.splitlines()))


def short_name(text):
    """'void decode_tiles<__half, 64u>(mr_cuda_decode)' is 'decode_tiles<64> fp16'; a kernel without a type is fp32."""
    found = re.match(r"(?:void )?(\w+)(?:<(\w+)((?:, (?:\d+u|\(mr_cuda_code\)\d+))*)>)?\(", text)
    if not found:
        sys.exit(f"occupancy: a kernel has an unexpected name: {text}")
    others = [CODES[int(part[-1])] if part.startswith("(") else part[:-1] for part in (found[3] or "").split(", ")[1:]]
    size = f"<{', '.join(others)}>" if others else ""
    return f"{found[1]}{size} {TYPES[found[2] or 'float']}"


def read(path):
    kernels, kernel = [], None
    for line in pathlib.Path(path).read_text().splitlines():
        if found := re.search(r"Compiling entry function '(\w+)' for '(\w+)'", line):
            kernel = Kernel(found[1], found[2])
            kernels.append(kernel)
        elif found := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line):
            kernel.spills = int(found[1]) + int(found[2])
        elif found := re.search(r"Used (\d+) registers", line):
            kernel.registers = int(found[1])
            if found := re.search(r"(\d+) bytes smem", line):
                kernel.static_shared = int(found[1])
    names = names_of([kernel.name for kernel in kernels])
    for kernel in kernels:
        kernel.name = short_name(names[kernel.name])
    return kernels


def table(kernels):
    by_name = {}
    for kernel in kernels:
        by_name.setdefault(kernel.name, {})[kernel.architecture] = kernel
    yield "# Registers and occupancy of the kernels\n"
    yield "Written by `tests/cuda/occupancy.py` from the report of ptxas; `make cuda-check` fails when it differs, and"
    yield "for any spilled register. Shared memory is for heads of 128 numbers and a vocabulary of 128,256. %: part of"
    yield "a multiprocessor's 2,048 threads that can run at once.\n"
    yield "| kernel | threads | shared bytes | " + " | ".join(f"{name} registers, %" for name in LIMITS) + " |"
    yield "|---" * (3 + len(LIMITS)) + "|"
    for name in sorted(by_name):
        size, dynamic = SHAPES[name.rsplit(" ", 1)[0]]
        cells = [f"{by_name[name][at].registers}, {by_name[name][at].percent()}" for at in LIMITS]
        yield f"| {name} | {size} | {dynamic} | " + " | ".join(cells) + " |"


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in ("check", "write"):
        sys.exit(__doc__)
    kernels = [kernel for path in sys.argv[2:] for kernel in read(path)]
    spilled = [kernel for kernel in kernels if kernel.spills]
    for kernel in spilled:
        print(f"{kernel.name} spills {kernel.spills} bytes of registers on {kernel.architecture}")
    wanted = "\n".join(table(kernels)) + "\n"
    if sys.argv[1] == "write":
        TABLE.write_text(wanted)
    elif not TABLE.exists() or TABLE.read_text() != wanted:
        print(f"{TABLE.name} differs from ptxas's report; `occupancy.py write` updates it")
        return 1
    print(f"{len(kernels)} kernels")
    return 1 if spilled else 0


if __name__ == "__main__":
    sys.exit(main())
