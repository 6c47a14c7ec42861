#!/usr/bin/env python3
"""make gpu-bench: the speed of a card, as JSON. Exits 3 without a card; a figure below its bar does not change the exit
status.

    bench.py [--bundle FOLDER] [--folder FOLDER] [--json FILE] [--only 'PART;PART']

Parts: bandwidth of decode attention against a copy; the geometry of Llama-3-8B with random bf16 weights (written to
--folder, 16 GB, unless a model is there): decode of 1, 64 and 256 sequences, prefill of 2,048 and 8,192 tokens, decode
together with prompts, with our kernels and graphs, with kernels alone, and with neither; the engine (millrace bench
--engine), and 1,024 requests of it on 64 sequences, directly and through a broker; streams during long prompts, through
a broker; transformers' generate_batch."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

import card

MIX = ["--mix", "--requests", "1024"]  # prompts of 32 to 512 tokens, answers of 64

# name, the figure in the report, and the minimum or (with a minus) the maximum
BARS = [
    ("decode 1, tokens/s", lambda r: r["kernels"]["decode"][0]["decode_tokens_per_s"], 200),
    ("decode 64, tokens/s", lambda r: r["kernels"]["decode"][1]["decode_tokens_per_s"], 8000),
    ("decode 256, tokens/s", lambda r: r["kernels"]["decode"][2]["decode_tokens_per_s"], 15000),
    ("decode 64 / generate_batch", lambda r: r["kernels"]["decode"][1]["decode_tokens_per_s"] /
     r["generate_batch"]["decode_tokens_per_s"], 2),
    ("prefill 2,048, tokens/s", lambda r: r["kernels"]["prefill"][0]["tokens_per_s"], 30000),
    ("prefill 8,192, tokens/s", lambda r: r["kernels"]["prefill"][1]["tokens_per_s"], 27000),
    ("decode attention 64 x 4,096 / copy", lambda r: r["bandwidth"]["bandwidth"]["decode 64 x 4096"]["of_copy"], 0.75),
    ("served, prompts beside 64 streams / alone", lambda r: r["beside"]["prompt_tokens_per_s"] /
     r["beside"]["prompt_tokens_per_s_alone"], 0.6),
    ("served, P99 between tokens of the 64 streams, ms", lambda r: r["beside"]["streams"]["p99_itl_ms"], -25),
    ("time outside the model / step, 64 sequences", lambda r: r["mix"]["tests"][0]["outside_share"], -0.05),
    ("GPU busy", lambda r: r["kernels"]["gpu_busy"], 0.95),
    ("served / engine, 64 sequences", lambda r: r["mix"]["tests"][0]["best"] / r["served"]["duration"], 0.95),
]


class Busy:
    """The share of samples, while a part runs, in which nvidia-smi reports the card as busy."""

    def __enter__(self):
        self.process = subprocess.Popen(["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits",
                                         "-lms", "500"], stdout=subprocess.PIPE, text=True)
        self.samples = []
        self.reader = threading.Thread(target=lambda: self.samples.extend(self.process.stdout), daemon=True)
        self.reader.start()
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.reader.join()

    def median(self):
        found = sorted(int(line) for line in self.samples if line.strip().isdigit())
        return found[len(found) // 2] / 100 if found else None


def last_json(part):
    """part: exit code, stdout, stderr of a program that prints one JSON value."""
    code, out, err = part
    try:
        return json.loads(out[out.index("{"):]) if code == 0 else {"exit_code": code, "output": (out + err)[-2000:]}
    except ValueError:
        return {"exit_code": code, "output": (out + err)[-2000:]}


def device(bundle, folder, *flags):
    """Runs bench_device. The load of the card is sampled from the time at which the model is open."""
    command = [str(bundle / "bin/bench_device"), str(folder), "--device", "cuda", "--kv-mib", "52000", "--seconds", "2", *flags]
    with subprocess.Popen(command, env=card.environment(bundle), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as process:
        opened = process.stderr.readline()
        with Busy() as busy:
            out, err = process.communicate(timeout=1800)
    report = last_json((process.returncode, out, opened + err))
    report.update(gpu_busy=busy.median(), opened=opened.strip())
    return report


def engine(bundle, folder, *flags):
    with tempfile.TemporaryDirectory() as scratch:
        output = pathlib.Path(scratch) / "engine.json"
        code, out, err = card.run(bundle, ["millrace", "bench", "--engine", "--model", str(folder), "--device", "cuda",
                                           "--dtype", "bf16", "--repetitions", "2", *flags, "--output", str(output)])
        return json.loads(output.read_text()) if code == 0 else {"exit_code": code, "output": (out + err)[-2000:]}


def fleet_of(bundle, folder):
    """The module that starts a broker and a worker, and its options."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench"))
    import fleet
    os.environ.update(card.environment(bundle))
    return fleet, argparse.Namespace(millrace=bundle / "bin/millrace", model=folder, dtype="bf16", threads="0", kafka=False)


def served(bundle, folder):
    """The requests of the mix through the embedded broker; the first run warms up, the second one is measured."""
    fleet, options = fleet_of(bundle, folder)
    with fleet.Broker(options) as broker, fleet.Worker(options, broker, "--device", "cuda") as worker:
        for _ in range(2):
            figures = fleet.Bench(options, "--brokers", broker.address, *MIX, "--concurrency", "128").wait()
        figures["worker_log"] = worker.ready_lines[-20:]
        return figures


def beside(bundle, folder):
    """Prompts of 8,192 tokens arrive continuously while 64 streams of 1,024 tokens decode, through the broker, with
    steps of 20 ms. Measures the streams' time between tokens, and the speed of the prompts with streams and alone."""
    fleet, options = fleet_of(bundle, folder)
    prompts = ("--prompt-tokens", "8192", "--output-tokens", "1", "--concurrency", "8", "--no-stream")
    with fleet.Broker(options) as broker, fleet.Worker(options, broker, "--device", "cuda", "--step-target-ms", "20",
                                                       "--max-sequences", "72") as worker:
        brokers = ("--brokers", broker.address)
        alone = fleet.Bench(options, *brokers, *prompts, "--requests", "24").wait()
        # The embedded broker answers an empty fetch only after its whole wait, 10 ms by default. Times between tokens
        # would be multiples of that.
        streams = fleet.Bench(options, *brokers, "--prompt-tokens", "256", "--output-tokens", "1024", "--requests", "64",
                              "--concurrency", "64", "--warmup", "0", "--seed", "2", "--kafka", "fetch.wait.max.ms=1")
        while worker.metrics()["millrace_requests_running"] < 64 and streams.process.poll() is None:
            time.sleep(0.02)
        arriving = fleet.Bench(options, *brokers, *prompts, "--requests", "500", "--warmup", "0", "--seed", "3")
        time.sleep(2)
        before, begin = worker.metrics()["millrace_prompt_tokens_total"], time.monotonic()
        figures = streams.wait()
        took, after = time.monotonic() - begin, worker.metrics()["millrace_prompt_tokens_total"]
        arriving.process.kill()
        arriving.process.communicate()
    speed = alone["total_input_tokens"] / alone["duration"]
    return {"streams": {key: value for key, value in figures.items() if "itl" in key or "tpot" in key},
            "prompt_tokens_per_s": round((after - before) / took, 1), "prompt_tokens_per_s_alone": round(speed, 1),
            "seconds": round(took, 1)}


def judge(report):
    """Each bar with its limit and the measured value; None: a part is missing."""
    rows = []
    for name, read, bar in BARS:
        try:
            value = round(read(report), 3)
        except (KeyError, IndexError, TypeError, ZeroDivisionError):
            value = None
        met = value is not None and (value >= bar if bar > 0 else value <= -bar)
        rows.append({"bar": name, "asked": abs(bar), "measured": value, "met": met})
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bundle")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()) / "millrace-random-8b")
    parser.add_argument("--json", default="gpu-bench.json")
    parser.add_argument("--only", help="parts to run, separated by semicolons; the JSON file keeps the others")
    options = parser.parse_args()
    card.require()
    bundle, folder = card.bundle_of(options.bundle), options.folder.resolve()
    target = pathlib.Path(options.json).resolve()
    parts = {
        "bandwidth": lambda: last_json(card.run_python(bundle, "cuda_kernels.py", "--bandwidth", "--library",
                                                       bundle / "lib/libmr_cuda_kernels.so")),
        "model": lambda: {"folder": str(folder)} if (folder / "model.safetensors").exists() else last_json(
            card.run_python(bundle, "make_model.py", folder, bundle / "tests/golden/models/grouped_tied")),
        "kernels": lambda: device(bundle, folder),
        "kernels without graphs": lambda: device(bundle, folder, "--cuda-graphs", "off"),
        "mix": lambda: engine(bundle, folder, *MIX),
        "served": lambda: served(bundle, folder),
        "beside": lambda: beside(bundle, folder),
        "engine": lambda: engine(bundle, folder),
        "operators": lambda: device(bundle, folder, "--cuda-kernels", "off"),
        "generate_batch": lambda: last_json(card.run_python(bundle, "generate_batch.py", folder)),
    }
    chosen, report = card.chosen(options.only, parts, target)
    for name in chosen:
        try:
            report[name] = parts[name]()
        except (subprocess.TimeoutExpired, RuntimeError, OSError) as error:
            report[name] = {"output": str(error)[-2000:]}
        report["bars"] = judge(report)
        target.write_text(json.dumps(report, indent=1) + "\n")
        print(f"{'FAILED' if 'output' in report[name] else 'ran'}  {name}", flush=True)
    for row in report["bars"]:
        print(f"{'met ' if row['met'] else '    '}  {row['bar']}: {row['measured']} (asked: {row['asked']})")


main()
