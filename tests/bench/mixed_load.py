#!/usr/bin/env python3
"""Measures how long a prompt of 4,000 tokens delays 16 decoding streams when it arrives, with --step-target-ms 60 and
with chunking off. The gap is the longest time between two token records of one stream, measured by the client, or
between two tokens, measured by the worker. Bar: with the target, at most twice the target; with chunking off, as long
as the prefill.

With --urgent COUNT it measures something else: that many short requests of a high priority, one a second, each 16 tokens,
while a prompt (--prompt-tokens 7000) is computed alone. Bar: first token within 1 s. The time of the long prompt is for
comparison with another program (--millrace)."""

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


def send(broker, name, tokens, topic="millrace.requests", **fields):
    """Sends a prompt of `tokens` random tokens."""
    ids = random.Random(name).choices(range(1000, 40000), k=tokens)
    kcat(broker, "-P", "-t", topic, "-k", name, input=json.dumps(
        {"id": name, "prompt_token_ids": ids, "max_tokens": 4, "ignore_eos": True, **fields}) + "\n")


def result_of(broker, name):
    while True:
        time.sleep(0.5)
        # not splitlines(): an answer may contain other line separators of Unicode
        for line in kcat(broker, "-C", "-t", "millrace.results", "-e").split("\n"):
            if line.startswith("{") and json.loads(line)["id"] == name:
                return json.loads(line)


def send_prompt(broker, tokens):
    """Sends a prompt and returns its result."""
    send(broker, "long", tokens)
    return result_of(broker, "long")


def written_ms(broker, topic):
    """By key, when the first record with that key was written to the topic."""
    times = {}
    for line in kcat(broker, "-C", "-t", topic, "-e", "-f", "%T %k\n").split("\n"):
        if line:
            at, key = line.split(" ", 1)
            times.setdefault(key, int(at))
    return times


def first_token_ms(broker, names, topic="millrace.requests"):
    """From the record of each request to the first record of its tokens, by the clock of this machine."""
    sent, tokens = written_ms(broker, topic), written_ms(broker, "millrace.tokens")
    return [tokens[name] - sent[name] for name in names]


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


def measure_urgent(options):
    alone, during = ([f"{kind}{number}" for number in range(options.urgent)] for kind in ("alone", "during"))
    with fleet.Broker(options) as broker, fleet.Worker(options, broker):
        fleet.Bench(options, "--brokers", broker.address, "--timeout", "110s", "--mix", "--requests", 8, "--warmup", 0).wait()
        for name in alone:
            send(broker, name, 16, priority=10)
            time.sleep(0.3)
        send(broker, "long", options.prompt_tokens)
        for name in during:
            time.sleep(1)
            send(broker, name, 16, priority=10)
        prompt = result_of(broker, "long")
        times = {"alone": first_token_ms(broker, alone), "during": first_token_ms(broker, during)}
        end = written_ms(broker, "millrace.tokens")["long"]
        late = sum(sent > end for name, sent in written_ms(broker, "millrace.requests").items() if name in during)
    return {"urgent_alone_ms": times["alone"], "urgent_during_ms": times["during"], "urgent_during_max_ms": max(times["during"]),
            "urgent_after_the_prompt": late, "long_prompt_prefill_ms": round(prompt["timings_ms"]["prefill"], 1),
            "long_prompt_chunks": prompt["prefill_chunks"]}


def main():
    parser = fleet.arguments(__doc__)
    parser.add_argument("--prompt-tokens", type=int, default=4000)
    parser.add_argument("--urgent", type=int, default=0, help="measure so many urgent requests instead")
    parser.add_argument("--output-tokens", type=int, default=1800)
    parser.add_argument("--head-start", type=float, default=3, help="seconds of decoding before the prompt arrives")
    options = parser.parse_args()
    if options.urgent:
        figures = [measure_urgent(options) for _ in range(max(options.repetitions, 1))]
        fleet.report(options, "urgent", {"prompt_tokens": options.prompt_tokens, "urgent_ms_bar": 1000, "runs": figures})
        return
    target = min((measure(options, "--step-target-ms", TARGET_MS) for _ in range(max(options.repetitions, 1))),
                 key=lambda figures: figures["largest_gap_ms"])
    whole = measure(options, "--chunk-tokens", "0", "--step-tokens", "8192")
    fleet.report(options, "mixed_load", {
        "streams": STREAMS, "prompt_tokens": options.prompt_tokens, "step_target_ms": TARGET_MS,
        "gap_ms_bar": 2 * TARGET_MS, "with_target": target, "chunking_off": whole})


if __name__ == "__main__":
    main()
