#!/usr/bin/env python3
"""Without a card the scripts of make gpu-check and make gpu-bench print one line with the reason and exit with 3, and
make fails. --device cuda fails with one line. On a machine with a card CUDA_VISIBLE_DEVICES hides the card."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("MILLRACE_BIN", ROOT / "build/millrace")).resolve()
HIDDEN = dict(os.environ, CUDA_VISIBLE_DEVICES="")


def run(*command):
    return subprocess.run(list(map(str, command)), cwd=ROOT, env=HIDDEN, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=120, check=False)


def main():
    for name in ("check", "bench"):
        result = run(sys.executable, ROOT / f"tests/gpu/{name}.py")
        assert result.returncode == 3, (name, result)
        assert result.stdout == "" and result.stderr.count("\n") == 1, (name, result)
        assert result.stderr.startswith(f"{name}.py: no "), (name, result)
        print(result.stderr, end="")
        made = run("make", f"gpu-{name}")
        assert made.returncode == 2 and made.stderr.startswith(result.stderr) and "Error 3" in made.stderr, made
    model = ROOT / "tests/golden/models/grouped_tied"
    for kernels in ("auto", "off"):
        result = run(BIN, "bench", "--engine", "--model", model, "--device", "cuda", "--cuda-kernels", kernels)
        assert result.returncode == 2, result
        assert result.stderr.count("\n") == 1 and "--device cuda: " in result.stderr, result
    print(result.stderr, end="")


main()
