#!/usr/bin/env python3
"""Compares the wait of ten requests of one tenant while a thousand of another tenant are queued at the same worker with
their wait alone on half of the machine (half of the sequences, half of the threads). The wait is the time from sending
a request to its first token, as `millrace bench` measures it. It is measured twice: when both tenants start together,
and when the ten requests are sent some seconds after the thousand. Bar: at most twice the wait alone.

With --mixes it measures 12 mixes instead: what the first token of one tenant's short, medium and long prompts takes while
another tenant floods the worker, compared with the time alone; and the tokens of both that the worker computes a second,
for comparison with another program (--millrace). Bar: three steps and the time alone at half of the machine."""

import json
import random
import signal
import statistics
import time

import fleet
import mixed_load

PLACES = 8
TOPICS = ["--requests-topic", "a.requests,tenant=a", "--requests-topic", "b.requests,tenant=b"]


def bench(options, broker, topic, requests):
    return fleet.Bench(options, "--brokers", broker.address, "--requests-topic", topic, "--requests", requests,
                       "--prompt-tokens", 64, "--output-tokens", options.output_tokens, "--warmup", 0,
                       "--timeout", "240s")


def worker(options, broker, places, threads):
    command = fleet.argparse.Namespace(**{**vars(options), "threads": str(threads)})
    return fleet.Worker(command, broker, *TOPICS, "--max-sequences", places, "--session-timeout", "6s")


def alone(options):
    with fleet.Broker(options) as broker, worker(options, broker, PLACES // 2, max(int(options.threads) // 2, 1)):
        bench(options, broker, "b.requests", 1).wait()
        return bench(options, broker, "b.requests", options.few).wait()


def beside_a_flood(options, after_s):
    with fleet.Broker(options) as broker, worker(options, broker, PLACES, options.threads):
        bench(options, broker, "b.requests", 1).wait()
        flood = bench(options, broker, "a.requests", options.flood)
        time.sleep(after_s)
        figures = bench(options, broker, "b.requests", options.few).wait()
        flooding = flood.process.poll() is None
        flood.process.send_signal(signal.SIGINT)
        flood.process.communicate(timeout=30)
        if not flooding:
            raise RuntimeError("the flood ended before the few did: raise --flood")
        return figures


# of the flood: requests, tokens of a prompt, tokens of an answer, timeout in ms (0: none)
MIXES = [(10, 10, 100, 0), (10, 7000, 100, 0), (10, 2000, 3000, 0), (15, 10, 2200, 8000), (60, 10, 300, 0), (60, 300, 1000, 0),
         (60, 2000, 100, 0), (60, 2000, 3000, 8000), (150, 500, 300, 0), (300, 10, 100, 0), (300, 10, 3000, 8000), (300, 300, 300, 0)]
PROBES = {"short": 10, "medium": 500, "long": 2000}  # tokens of a prompt
STEP_MS = 250  # the target of a step without decodes, which is longer than that of one with few decodes
# Prefill gets at least three quarters of a step with decodes, a tenant half of that, and a chunk that ends on a part of a
# block leaves up to a quarter of its room unused.
SHARE = 0.75 * 0.5 * 0.75


def computed(worker):
    values = worker.metrics()
    return (values["millrace_prompt_tokens_total"] + values["millrace_generation_tokens_total"]
            - values["millrace_recomputed_tokens_total"])


def flood(broker, count, prompt, output, timeout_ms):
    lines = []
    for number in range(count):
        ids = random.Random(number).choices(range(1000, 40000), k=prompt)
        fields = {"timeout_ms": timeout_ms} if timeout_ms else {}
        lines.append(json.dumps({"id": f"flood{number}", "prompt_token_ids": ids, "max_tokens": output, "ignore_eos": True,
                                 **fields}))
    mixed_load.kcat(broker, "-P", "-t", "a.requests", input="\n".join(lines) + "\n")


def probe(broker, worker, kind):
    """Sends three probes of each length one after the other. Returns the times of their first tokens by length."""
    names = {length: [f"{kind}-{length}-{number}" for number in range(3)] for length in PROBES}
    for number in range(3):
        for length, tokens in PROBES.items():
            name = names[length][number]
            mixed_load.send(broker, name, tokens, topic="b.requests")
            fleet.wait_until(name, lambda: name in mixed_load.written_ms(broker, "millrace.tokens"))
    return {length: mixed_load.first_token_ms(broker, names[length], topic="b.requests") for length in PROBES}


def mix(options, figures):
    with fleet.Broker(options) as broker, fleet.Worker(options, broker, *TOPICS, "--session-timeout", "6s") as worker:
        bench(options, broker, "b.requests", 8).wait()
        alone = probe(broker, worker, "alone")
        flood(broker, *figures)
        time.sleep(2)
        tokens, began = computed(worker), time.monotonic()
        during = probe(broker, worker, "during")
        rate = (computed(worker) - tokens) / (time.monotonic() - began)
    own = {length: statistics.median(times) for length, times in alone.items()}
    allowed = {length: 3 * STEP_MS + ms / SHARE for length, ms in own.items()}
    return {"flood": figures, "alone_ms": {length: round(ms) for length, ms in own.items()}, "during_ms": during,
            "worst_of_bar": round(max(max(during[length]) / allowed[length] for length in PROBES), 2),
            "tokens_per_s": round(rate, 1)}


def main():
    parser = fleet.arguments(__doc__)
    parser.add_argument("--flood", type=int, default=1000)
    parser.add_argument("--few", type=int, default=10)
    parser.add_argument("--output-tokens", type=int, default=32)
    parser.add_argument("--mixes", action="store_true", help="measure the 12 mixes instead")
    options = parser.parse_args()
    if options.mixes:
        fleet.report(options, "tenant_mixes", {"mixes": [mix(options, figures) for figures in MIXES]})
        return
    half = alone(options)["mean_ttft_ms"]
    together = beside_a_flood(options, 0)["mean_ttft_ms"]
    later = beside_a_flood(options, 6)["mean_ttft_ms"]
    fleet.report(options, "fairness", {
        "flood": options.flood, "few": options.few, "output_tokens": options.output_tokens, "places": PLACES,
        "alone_on_half_ms": round(half, 1), "together_ms": round(together, 1), "later_ms": round(later, 1),
        "together_ratio": round(together / half, 2), "later_ratio": round(later / half, 2), "ratio_bar": 2})


if __name__ == "__main__":
    main()
