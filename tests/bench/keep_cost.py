#!/usr/bin/env python3
"""Measures the cost of --resume, which keeps every token in Redis: the same 32 streams through one worker and the
embedded broker, with --no-resume and without it, in turns. Redis, broker and reader share the cores, so their CPU time
counts as cost. Also prints the CPU time per token of each kind of thread of the worker."""

import pathlib
import statistics
import sys

import fleet

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
import rig  # noqa: E402

STREAMS = 32
VARIANTS = {"without": "--no-resume", "with": "--resume"}


class Redis:
    """A Redis started by services.sh; it stops when the shell ends."""

    def __enter__(self):
        self.services = rig.Services()
        self.services.call("kafka_stop; redis_start")
        self.url = self.services.call('echo "$REDIS_URL"')
        return self

    def __exit__(self, *_):
        self.services.close()


def cpu_us(worker, tokens, before):
    """CPU time per token of the threads for Redis, of those for Kafka, and of all others."""
    after = cpu_seconds(worker)
    return {kind: round(1e6 * (after[kind] - before[kind]) / tokens, 1) for kind in after}


def cpu_seconds(worker):
    sums = {"engine": 0.0, "publish": 0.0, "redis-calls": 0.0}
    for task in pathlib.Path(f"/proc/{worker.process.pid}/task").iterdir():
        name, fields = (task / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
        if name in sums:
            sums[name] += sum(map(int, fields.split()[11:13])) / rig.TICKS
    return sums


def measure(options, broker, worker, variant):
    before = cpu_seconds(worker)
    figures = fleet.Bench(options, "--brokers", broker.address, "--prefix", variant, "--requests", options.requests,
                          "--prompt-tokens", 32, "--output-tokens", options.tokens, "--warmup", 2, "--timeout",
                          "250s").wait()
    if figures["failed"] or figures["completed"] != options.requests:
        raise RuntimeError(f"{figures['failed']} requests failed")
    tokens = options.requests * options.tokens
    return {"tok_s": tokens / figures["duration"], **cpu_us(worker, tokens, before)}


def rounds(options, broker, redis):
    def worker(variant):
        return fleet.Worker(options, broker, "--prefix", variant, "--group", variant, "--max-sequences", STREAMS,
                            "--kv-memory", "512MiB", "--redis", redis.url, VARIANTS[variant])

    with worker("without") as without, worker("with") as kept:
        workers = {"without": without, "with": kept}
        for number in range(options.repetitions):
            order = list(VARIANTS)[::-1 if number % 2 else 1]
            yield {variant: measure(options, broker, workers[variant], variant) for variant in order}
        kept_tokens = kept.metrics()["millrace_kept_tokens_total"]
        if kept_tokens < options.repetitions * options.requests * (options.tokens - 1):
            raise RuntimeError(f"only {kept_tokens} tokens were kept")


def main():
    parser = fleet.arguments(__doc__)
    parser.set_defaults(repetitions=3)
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=128)
    options = parser.parse_args()
    with fleet.Broker(options) as broker, Redis() as redis:
        all_rounds = list(rounds(options, broker, redis))
    costs = [1 - each["with"]["tok_s"] / each["without"]["tok_s"] for each in all_rounds]
    medians = {variant: {name: round(statistics.median(each[variant][name] for each in all_rounds), 1)
                         for name in all_rounds[0][variant]} for variant in VARIANTS}
    fleet.report(options, "keep_cost", {"streams": STREAMS, "requests": options.requests,
                                        "output_tokens": options.tokens, **medians,
                                        "cost": round(statistics.median(costs), 4),
                                        "cost_all": [round(cost, 4) for cost in costs]})


if __name__ == "__main__":
    main()
