#!/usr/bin/env python3
"""Measures how long a prompt of 4,000 tokens delays 16 decoding streams when it arrives, with --step-target-ms 60 and
with chunking off. The gap is the longest time between two token records of one stream, measured by the client, or
between two tokens, measured by the worker. Bar: with the target, at most twice the target; with chunking off, as long
as the prefill."""

import json
import random
import subprocess
import time

import fleet

STREAMS, TARGET_MS = 16, 60


def kcat(broker, *arguments, **more):
    """Runs kcat, which starts in milliseconds. `millrace send` would load LibTorch and use a whole core."""
    return subprocess.run(["kcat", "-q", "-b", broker.address, *arguments], check=True, text=True,
                          stdout=subprocess.PIPE, timeout=110, **more).stdout


def send_prompt(broker, tokens):
    """Sends a prompt of `count` random tokens and returns its result."""
    ids = random.Random(7).choices(range(1000, 40000), k=tokens)
    kcat(broker, "-P", "-t", "millrace.requests", "-k", "long", input=json.dumps(
        {"id": "long", "prompt_token_ids": ids, "max_tokens": 4, "ignore_eos": True}) + "\n")
    while True:
        time.sleep(0.5)
        # not splitlines(): an answer may contain other line separators of Unicode
        for line in kcat(broker, "-C", "-t", "millrace.results", "-e").split("\n"):
            if line.startswith("{") and json.loads(line)["id"] == "long":
                return json.loads(line)


def measure(options, *flags):
    with fleet.Broker(options) as broker, fleet.Worker(options, broker, *flags) as worker:
        common = ("--brokers", broker.address, "--timeout", "110s")
        fleet.Bench(options, *common, "--mix", "--requests", 8, "--warmup", 0).wait()  # so that the cost model has measured some steps
        streams = fleet.Bench(options, *common, "--requests", STREAMS, "--prompt-tokens", 16, "--output-tokens",
                              options.output_tokens, "--warmup", 0)
        time.sleep(options.head_start)
        prompt = send_prompt(broker, options.prompt_tokens)
        ended_early = streams.process.poll() is not None
        figures = streams.wait(requests=STREAMS)
    if ended_early:
        raise RuntimeError("the streams ended before the prompt: raise --output-tokens")
    if prompt["finish_reason"] != "length":
        raise RuntimeError(f"the prompt was not answered: {prompt}")
    return {"largest_gap_ms": round(figures["max_itl_ms"], 1),
            "largest_gap_ms_in_worker": round(figures["max_worker_itl_max_ms"], 1),
            "median_gap_ms": round(figures["median_itl_ms"], 1), "p99_gap_ms": round(figures["p99_itl_ms"], 1),
            "long_prompt_ttft_ms": round(prompt["timings_ms"]["first_token"], 1),
            "long_prompt_prefill_ms": round(prompt["timings_ms"]["prefill"], 1)}


def main():
    parser = fleet.arguments(__doc__)
    parser.add_argument("--prompt-tokens", type=int, default=4000)
    parser.add_argument("--output-tokens", type=int, default=1800)
    parser.add_argument("--head-start", type=float, default=3, help="seconds of decoding before the prompt arrives")
    options = parser.parse_args()
    target = min((measure(options, "--step-target-ms", TARGET_MS) for _ in range(max(options.repetitions, 1))),
                 key=lambda figures: figures["largest_gap_ms"])
    whole = measure(options, "--chunk-tokens", "0", "--step-tokens", "8192")
    fleet.report(options, "mixed_load", {
        "streams": STREAMS, "prompt_tokens": options.prompt_tokens, "step_target_ms": TARGET_MS,
        "gap_ms_bar": 2 * TARGET_MS, "with_target": target, "chunking_off": whole})


if __name__ == "__main__":
    main()
