#!/usr/bin/env python3
"""Measures the cost of token records and of transactions: the same 32 streams through one worker and an Apache Kafka,
without token records, with them, and with them and --delivery exactly-once, in turns within each round.
Bars: token records cost at most 3 % of the throughput, with transactions 5 %.

Broker and reader need CPU time for each record too. With --apart they get the last core and the worker the others, as if
on other machines; without it all processes share the cores, and that time counts as cost."""

import os
import pathlib
import statistics
import sys

import fleet

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
import rig  # noqa: E402

TICKS = os.sysconf("SC_CLK_TCK")
STREAMS = 32
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


class Kafka:
    def __enter__(self):
        self.services = rig.Services()
        self.address = self.services.brokers
        return self

    def batches(self, topic):
        """The number of batches in the log of each partition, one per flush of the producer."""
        logs = sorted((self.services.folder / "kafka-data").glob(f"{topic}-*/*.log"))
        return [count_batches(log.read_bytes()) for log in logs]

    def __exit__(self, *_):
        self.services.close()


def cpu_seconds(process):
    """CPU time of the threads that write to Kafka, and of all others."""
    sums = {"writing": 0.0, "other": 0.0}
    for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir():
        name, fields = (task / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
        writes = name.startswith("rdk:") or name in ("publish", "transactions")
        sums["writing" if writes else "other"] += sum(map(int, fields.split()[11:13])) / TICKS
    return sums


def measure(options, broker, worker, variant):
    before, metrics = cpu_seconds(worker.process), worker.metrics()
    prefix = "eo" if variant == "exactly-once" else "alo"
    figures = fleet.Bench(options, "--brokers", broker.address, "--prefix", prefix, "--requests", options.requests,
                          "--prompt-tokens", 32, "--output-tokens", options.tokens, "--warmup", 2, "--timeout", "250s",
                          *(["--no-stream"] if variant == "without" else [])).wait()
    if figures["failed"] or figures["completed"] != options.requests:
        raise RuntimeError(f"{figures['failed']} requests failed")
    after, last = cpu_seconds(worker.process), worker.metrics()
    tokens = options.requests * options.tokens
    step_s = last["millrace_step_seconds_total"] - metrics["millrace_step_seconds_total"]
    steps = last["millrace_steps_total"] - metrics["millrace_steps_total"]
    return {"tok_s": tokens / figures["duration"], "step_tok_s": tokens / step_s, "steps": steps,
            "writing_us": 1e6 * (after["writing"] - before["writing"]) / tokens,
            "other_us": 1e6 * (after["other"] - before["other"]) / tokens}


def measure_all(options):
    """The figures of each round, and the batches per step and partition in the token topic with at-least-once delivery."""
    flags = ("--max-sequences", STREAMS, "--kv-memory", "512MiB")
    with Kafka() as broker:
        if options.apart:
            os.sched_setaffinity(0, options.cpus[:-1])
        with fleet.Worker(options, broker, "--prefix", "alo", "--group", "alo", *flags) as alo, \
                fleet.Worker(options, broker, "--prefix", "eo", "--group", "eo", "--delivery", "exactly-once",
                             *flags) as eo:
            if options.apart:
                os.sched_setaffinity(0, options.cpus[-1:])
            rounds = []
            for number in range(options.repetitions):
                turn = number % len(VARIANTS)
                order = VARIANTS[turn:] + VARIANTS[:turn]
                rounds.append({variant: measure(options, broker, eo if variant == "exactly-once" else alo, variant)
                               for variant in order})
        batches = broker.batches("alo.tokens")
        steps = sum(each["with"]["steps"] for each in rounds)
        return rounds, sum(batches) / len(batches) / steps


def summary(all_rounds, variant):
    figures = {name: round(statistics.median(each[variant][name] for each in all_rounds), 1)
               for name in all_rounds[0][variant]}
    if variant in BARS:
        costs = [1 - each[variant]["tok_s"] / each["without"]["tok_s"] for each in all_rounds]
        figures.update(cost=round(statistics.median(costs), 4), cost_all=[round(cost, 4) for cost in costs],
                       cost_bar=BARS[variant])
    return figures


def main():
    parser = fleet.arguments(__doc__)
    parser.set_defaults(repetitions=3)
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--apart", action="store_true", help="broker and reader on the last core, the worker not")
    options = parser.parse_args()
    options.cpus = sorted(os.sched_getaffinity(0))
    if options.apart:
        options.threads = str(len(options.cpus) - 1)
        os.sched_setaffinity(0, options.cpus[-1:])
    all_rounds, flushes = measure_all(options)
    fleet.report(options, "publish_cost", {
        "streams": STREAMS, "requests": options.requests, "output_tokens": options.tokens, "apart": options.apart,
        "flushes_per_step": round(flushes, 3),
        **{variant: summary(all_rounds, variant) for variant in VARIANTS}})


if __name__ == "__main__":
    main()
