#!/usr/bin/env python3
"""make gpu-check: checks the results of a card. Exits 0 if all parts pass, 1 if one fails, 3 without a card.

    check.py [--bundle FOLDER] [--model MODEL EXPECTED] [--json FILE] [--only 'PART;PART']

Parts: the logits of all golden models against the reference, in fp32 (with greedy continuations) and bf16, with our
kernels, with graphs of decode steps, and with LibTorch's operators only; every kernel against its operators on random shapes; a real model
against the file that tests/golden/make_logits.py has written for it (--model); compute-sanitizer, where it is installed."""

import argparse
import json
import os
import pathlib
import re
import shutil
import sys
import time

import card

SANITIZED = "qwen3_head_norm"  # q and k norms, grouped heads, rope, SwiGLU: every kernel but sampling


def golden(bundle, dtype, kernels):
    code, out, err = card.run(bundle, ["golden_test_logits", "torch", "cuda", dtype, kernels])
    found = re.findall(r"^(\S+): \d+ positions, (\d+) graphs, largest difference (\S+)", out, re.M)
    wrong = re.findall(r"^\[  FAILED  \] (\S+)$", out + err, re.M)
    recorded = len({name for name, graphs, _ in found if graphs != "0"})
    passed = code == 0 and (recorded > 0) == (kernels == "graphs")
    return {"passed": passed, "largest_difference": max((float(x) for _, _, x in found), default=None),
            "models": len({name for name, _, _ in found}), "models_with_graphs": recorded, "failed": sorted(set(wrong)),
            "output": "" if passed else (out + err)[-2000:]}


def kernels(bundle, result):
    """result: file for the JSON of cuda_kernels.py."""
    code, out, err = card.run_python(bundle, "cuda_kernels.py", "--library", bundle / "lib/libmr_cuda_kernels.so", "--json",
                                     result)
    found = json.loads(result.read_text()) if result.exists() else {}
    return {"passed": code == 0, **found, "output": "" if code == 0 else (out + err)[-2000:]}


def real_model(bundle, model):
    """A real model in fp32, with continuations. make_logits.py has written EXPECTED for it."""
    code, out, err = card.run(bundle, ["golden_test_logits", "torch", "cuda", "fp32", "auto",
                                       *(str(pathlib.Path(path).resolve()) for path in model)])
    return {"passed": code == 0, "output": (out + err)[-2000:]}


def sanitizer(bundle):
    places = sorted(pathlib.Path("/").glob("usr/local/cuda*/bin/compute-sanitizer"))
    tool = os.environ.get("COMPUTE_SANITIZER") or shutil.which("compute-sanitizer") or (str(places[-1]) if places else None)
    if not tool:
        return {"passed": True, "skipped": "compute-sanitizer is not installed; COMPUTE_SANITIZER names it"}
    model = f"tests/golden/models/{SANITIZED}"
    results = {"passed": True}
    # Checks kernels only. Libraries make CUDA calls that may fail, and the program itself reports calls that must not
    # fail.
    for check, dtype, names in (("memcheck", "bf16", "auto"), ("racecheck", "bf16", "auto"), ("memcheck", "fp32", "auto"),
                                ("racecheck", "fp32", "auto"), ("memcheck", "bf16", "graphs")):
        code, out, err = card.run(bundle, ["golden_test_logits", "torch", "cuda", dtype, names, model,
                                           f"{model}/expected.bin"],
                                  prefix=[tool, "--tool", check, "--report-api-errors", "no", "--error-exitcode", "9"])
        results[f"{check} {dtype} {names}"] = (out + err)[-500:]
        results["passed"] = results["passed"] and code == 0
    return results


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bundle")
    parser.add_argument("--model", nargs=2, metavar=("MODEL", "EXPECTED"))
    parser.add_argument("--json", default="gpu-check.json")
    parser.add_argument("--only", help="parts to run, separated by semicolons; the JSON file keeps the others")
    options = parser.parse_args()
    card.require()
    bundle = card.bundle_of(options.bundle)
    result_file = pathlib.Path(options.json).resolve()
    parts = {f"golden {dtype}, kernels {names}": lambda dtype=dtype, names=names: golden(bundle, dtype, names)
             for dtype in ("fp32", "bf16") for names in ("off", "auto", "graphs")}
    parts["kernels"] = lambda: kernels(bundle, result_file.with_suffix(".kernels.json"))
    if options.model:
        parts["real model"] = lambda: real_model(bundle, options.model)
    parts["compute-sanitizer"] = lambda: sanitizer(bundle)
    chosen, report = card.chosen(options.only, parts, result_file)
    for name in chosen:
        begin = time.monotonic()
        report[name] = parts[name]()
        report[name]["seconds"] = round(time.monotonic() - begin, 1)
        outcome = "skipped" if "skipped" in report[name] else "passed" if report[name]["passed"] else "FAILED"
        print(f"{outcome}  {name}  ({report[name]['seconds']} s)", flush=True)
        result_file.write_text(json.dumps(report, indent=1) + "\n")
    sys.exit(0 if all(part["passed"] for part in report.values()) else 1)


main()
