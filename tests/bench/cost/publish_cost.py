#!/usr/bin/env python3
"""Measures the cost of token records and of transactions: the same 32 streams through one worker and an Apache Kafka,
without token records, with them, and with them and --delivery exactly-once, in turns within each round.
Bars: token records cost at most 3 % of the throughput, with transactions 5 %.

Broker and reader need CPU time for each record too. With --apart they get the last core and the worker the others, as if
on other machines. Without it all processes share the cores, and that time counts as cost."""

import os

import cost
import fleet  # cost sets the import path

VARIANTS = ("without", "with", "exactly-once")
BARS = {"with": 0.03, "exactly-once": 0.05}


def count_batches(log):
    """Counts the batches in a log segment; a batch begins with its first offset (8 bytes) and its length (4 bytes)."""
    count = at = 0
    while at + 12 <= len(log):
        length = int.from_bytes(log[at + 8:at + 12], "big")
        if length == 0:
            break
        at += 12 + length
        count += 1
    return count


def measure(options, broker, worker, variant):
    metrics = worker.metrics()
    tok_s, cpu_us = cost.measure(options, broker, worker, "eo" if variant == "exactly-once" else "alo",
                                 *(["--no-stream"] if variant == "without" else []))
    last = worker.metrics()
    step_s = last["millrace_step_seconds_total"] - metrics["millrace_step_seconds_total"]
    writing_us = sum(cpu_us.get(name, 0.0) for name in ("librdkafka", "publish", "transactions"))
    return {"tok_s": tok_s, "step_tok_s": options.requests * options.tokens / step_s,
            "steps": last["millrace_steps_total"] - metrics["millrace_steps_total"],
            "writing_us": writing_us, "other_us": sum(cpu_us.values()) - writing_us}


def measure_all(options):
    """The figures of each round, and the batches per step and partition in the token topic with at-least-once delivery."""
    with fleet.Broker(options) as broker:
        if options.apart:
            os.sched_setaffinity(0, options.cpus[:-1])
        with cost.worker(options, broker, "alo") as alo, \
                cost.worker(options, broker, "eo", "--delivery", "exactly-once") as eo:
            if options.apart:
                os.sched_setaffinity(0, options.cpus[-1:])
            workers = {"without": alo, "with": alo, "exactly-once": eo}
            rounds = list(cost.rounds(options, VARIANTS, lambda name: measure(options, broker, workers[name], name)))
        batches = [count_batches(log.read_bytes()) for log in broker.logs("alo.tokens")]
        steps = sum(each["with"]["steps"] for each in rounds)
        return rounds, sum(batches) / len(batches) / steps


def summary(all_rounds, variant):
    figures = cost.medians(all_rounds, variant)
    if variant in BARS:
        figures.update(cost.costs(all_rounds, variant), cost_bar=BARS[variant])
    return figures


def main():
    parser = cost.arguments(__doc__)
    parser.set_defaults(kafka=True)
    parser.add_argument("--apart", action="store_true", help="broker and reader on the last core, the worker not")
    options = parser.parse_args()
    options.cpus = sorted(os.sched_getaffinity(0))
    if options.apart:
        options.threads = str(len(options.cpus) - 1)
        os.sched_setaffinity(0, options.cpus[-1:])
    all_rounds, flushes = measure_all(options)
    fleet.report(options, "publish_cost", {
        "streams": cost.STREAMS, "requests": options.requests, "output_tokens": options.tokens, "apart": options.apart,
        "flushes_per_step": round(flushes, 3),
        **{variant: summary(all_rounds, variant) for variant in VARIANTS}})


if __name__ == "__main__":
    main()
