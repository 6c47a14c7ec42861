#!/usr/bin/env python3
"""make gpu-check: is what a card computes right? Exits 0 if all parts pass, 1 if one fails, 3 without a card.

    check.py [--bundle FOLDER] [--model MODEL EXPECTED] [--json FILE]

Parts: the logits of all golden models against the reference, in fp32 (with greedy continuations) and bf16, with our
kernels and with LibTorch's operators only; every kernel against its operators on random shapes; a real model
against the file that tests/golden/make_logits.py has written for it (--model); compute-sanitizer, where it is installed."""

import argparse
import json
import pathlib
import re
import shutil
import sys
import time

import card

SANITIZED = "qwen3_head_norm"  # q and k norms, grouped heads, rope, SwiGLU: every kernel but sampling


def golden(bundle, dtype, kernels):
    code, out, err = card.run(bundle, ["golden_test_logits", "torch", "cuda", dtype, kernels])
    found = re.findall(r"^(\S+): \d+ positions, largest difference (\S+)", out, re.M)
    wrong = re.findall(r"^\[  FAILED  \] (\S+)$", out + err, re.M)
    return {"passed": code == 0, "largest_difference": max((float(x) for _, x in found), default=None),
            "models": len({name for name, _ in found}), "failed": sorted(set(wrong)),
            "output": "" if code == 0 else (out + err)[-2000:]}


def kernels(bundle, result):
    """result: file for the JSON of cuda_kernels.py."""
    code, out, err = card.run_python(bundle, "cuda_kernels.py", "--library", bundle / "lib/libmr_cuda_kernels.so", "--json",
                                     result)
    found = json.loads(result.read_text()) if result.exists() else {}
    return {"passed": code == 0, **found, "output": "" if code == 0 else (out + err)[-2000:]}


def real_model(bundle, model):
    """A real model in fp32, continuations too; make_logits.py has written EXPECTED for it."""
    code, out, err = card.run(bundle, ["golden_test_logits", "torch", "cuda", "fp32", "auto",
                                       *(str(pathlib.Path(path).resolve()) for path in model)])
    return {"passed": code == 0, "output": (out + err)[-2000:]}


def sanitizer(bundle):
    tool = shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")
    if not tool:
        return {"passed": True, "skipped": "compute-sanitizer is not installed"}
    model = f"tests/golden/models/{SANITIZED}"
    results = {"passed": True}
    for check in ("memcheck", "racecheck"):
        code, out, err = card.run(bundle, ["golden_test_logits", "torch", "cuda", "fp32", "auto", model,
                                           f"{model}/expected.bin"],
                                  prefix=[tool, "--tool", check, "--error-exitcode", "9"])
        results[check] = (out + err)[-500:]
        results["passed"] = results["passed"] and code == 0
    return results


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bundle")
    parser.add_argument("--model", nargs=2, metavar=("MODEL", "EXPECTED"))
    parser.add_argument("--json", default="gpu-check.json")
    options = parser.parse_args()
    card.require()
    bundle = card.bundle_of(options.bundle)
    result_file = pathlib.Path(options.json).resolve()
    parts = {f"golden {dtype}, kernels {names}": lambda dtype=dtype, names=names: golden(bundle, dtype, names)
             for dtype in ("fp32", "bf16") for names in ("off", "auto")}
    parts["kernels"] = lambda: kernels(bundle, result_file.with_suffix(".kernels.json"))
    if options.model:
        parts["real model"] = lambda: real_model(bundle, options.model)
    parts["compute-sanitizer"] = lambda: sanitizer(bundle)
    report = {}
    for name, part in parts.items():
        begin = time.monotonic()
        report[name] = part()
        report[name]["seconds"] = round(time.monotonic() - begin, 1)
        print(f"{'passed' if report[name]['passed'] else 'FAILED'}  {name}  ({report[name]['seconds']} s)", flush=True)
        result_file.write_text(json.dumps(report, indent=1) + "\n")
    sys.exit(0 if all(part["passed"] for part in report.values()) else 1)


main()
